//! A futex as doorbell: the sleeper waits on a word in the memory of the end that will ring.
//!
//! **Invariants:** only its owner changes the word, just before it wakes the sleeper; waiting on it
//! works through the sleeper's read-only mapping, so neither end writes
//! memory of the other.

use std::io;

use nearcall_os::futex;

use crate::error::OpenError;
use crate::fds::ChannelFds;
use crate::settings::Settings;
use crate::shm::doorbell::{Doorbell, Meet, Memory};
use crate::shm::layout::BELL;
use crate::sync::Ordering;
use crate::wait::Deadline;

/// Waits on the other end's bell word, and wakes the waiter on ours.
pub(crate) struct Futex;

impl Doorbell for Futex {
    #[inline]
    fn epoch(&self, memory: &Memory) -> u32 {
        // Acquire, with the ring's release: the sleep is announced after this, and the ring for it
        // comes after the announcement was seen, so this cannot see that ring.
        memory.peer.load32(BELL, Ordering::Acquire)
    }

    #[inline]
    fn sleep(&self, memory: &Memory, epoch: u32, deadline: Deadline) -> io::Result<()> {
        futex::wait(memory.peer.futex_word(BELL), epoch, deadline);
        Ok(())
    }

    #[inline]
    fn ring(&self, memory: &Memory) -> io::Result<()> {
        let bell = memory.own.word32(BELL);
        bell.fetch_add(1, Ordering::Release);
        futex::wake(bell, 1);
        Ok(())
    }

    fn local_wake(&self, memory: &Memory) -> Box<dyn Fn() + Send> {
        let peer = memory.peer.clone();
        Box::new(move || {
            futex::wake(peer.futex_word(BELL), 1);
        })
    }
}

impl Meet for Futex {
    fn offer(_: &Settings) -> Result<(Self, ChannelFds), OpenError> {
        Ok((Self, ChannelFds::default()))
    }

    fn accept(_: &Settings, parts: ChannelFds) -> Result<Self, OpenError> {
        parts.expect_nothing_more().map(|()| Self)
    }
}
