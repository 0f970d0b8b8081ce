//! Floors that exchange one word: by spinning, by futex, by eventfd. No payload.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use nearcall_os::{clock, eventfd, futex};

use crate::exchange::Failure;
use crate::floor::carrier::Carrier;
use crate::floor::meeting::{Meeting, Regions};
use crate::launch::Role;

/// A word each way in a cache line of its own; both ends spin.
pub(crate) struct Spin {
    regions: Regions,
    sent: u64,
    received: u64,
}

impl Spin {
    pub(crate) fn meet(meeting: &Meeting) -> Result<Self, Failure> {
        Ok(Self { regions: meeting.regions(REGION_BYTES)?, sent: 0, received: 0 })
    }
}

impl Carrier for Spin {
    #[inline]
    fn send_empty(&mut self) -> Result<(), Failure> {
        self.sent += 1;
        self.regions.own.word64(WORD).store(self.sent, Ordering::Release);
        Ok(())
    }

    #[inline]
    fn receive_empty(&mut self) -> Result<(), Failure> {
        self.received += 1;
        while self.regions.peer.load64(WORD, Ordering::Acquire) != self.received {
            clock::spin_hint();
        }
        Ok(())
    }
}

/// A word each way; both ends sleep on the other's word.
pub(crate) struct Futex {
    regions: Regions,
    sent: u32,
    received: u32,
}

impl Futex {
    pub(crate) fn meet(meeting: &Meeting) -> Result<Self, Failure> {
        Ok(Self { regions: meeting.regions(REGION_BYTES)?, sent: 0, received: 0 })
    }
}

impl Carrier for Futex {
    #[inline]
    fn send_empty(&mut self) -> Result<(), Failure> {
        self.sent = self.sent.wrapping_add(1);
        let word = self.regions.own.word32(WORD);
        word.store(self.sent, Ordering::Release);
        futex::wake(word, 1);
        Ok(())
    }

    #[inline]
    fn receive_empty(&mut self) -> Result<(), Failure> {
        let word = self.regions.peer.futex_word(WORD);
        while word.load(Ordering::Acquire) == self.received {
            futex::wait(word, self.received, None);
        }
        self.received = self.received.wrapping_add(1);
        Ok(())
    }
}

/// An eventfd each way; both ends sleep in read.
pub(crate) struct Eventfd {
    ours: OwnedFd,
    theirs: OwnedFd,
}

impl Eventfd {
    pub(crate) fn meet(meeting: &Meeting, role: Role) -> Result<Self, Failure> {
        match role {
            Role::Server => {
                let ours = eventfd::create(eventfd::Kind::Counter)?;
                let theirs = eventfd::create(eventfd::Kind::Counter)?;
                meeting.say_with("eventfds", &[theirs.as_fd(), ours.as_fd()])?;
                Ok(Self { ours, theirs })
            }
            Role::Client => {
                let (_, [ours, theirs]) = meeting.hear_with::<2>()?;
                Ok(Self { ours, theirs })
            }
        }
    }
}

impl Carrier for Eventfd {
    #[inline]
    fn send_empty(&mut self) -> Result<(), Failure> {
        Ok(eventfd::add_one(&self.theirs)?)
    }

    #[inline]
    fn receive_empty(&mut self) -> Result<(), Failure> {
        eventfd::read(&self.ours)?;
        Ok(())
    }
}

/// Two cache lines into the region: processors fetch pairs of lines.
const WORD: usize = 128;

/// One page.
const REGION_BYTES: usize = 4 << 10;
