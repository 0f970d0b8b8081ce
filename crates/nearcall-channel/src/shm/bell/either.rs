//! Two doorbells in one: a futex for a thread that sleeps in its call, a unix socket for an event
//! loop. The sleeper chooses, each time that it sleeps, and says so in its sleep word.
//!
//! Always true: a ring never waits and raises no signal, whatever the other end does; who is awake
//! is not rung. A full socket means that the bell is rung already. The hang-up of the socket tells
//! an end that never sleeps on the futex of the other's death; one that does is watched over from
//! its first such sleep on (`shm.rs`).
//! Not here: announcing sleeps and choosing whom to ring (`bell.rs`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::socket::{self, Kind};

use crate::open::OpenError;
use crate::settings::{Parts, Settings};
use crate::shm::Meet;
use crate::shm::bell::futex::Futex;
use crate::shm::bell::{Doorbell, Memory, RINGS_PER_READ, SleepOn};
use crate::wait::WaitPolicy;
use crate::watch::Life;

/// One end of a socket pair, and the futex beside it.
pub(crate) struct Either {
    socket: OwnedFd,
    wait: WaitPolicy,
    life: Arc<Life>,
}

impl Either {
    fn new(socket: OwnedFd, settings: &Settings) -> Self {
        Self { socket, wait: settings.wait, life: Arc::clone(&settings.life) }
    }
}

impl Doorbell for Either {
    const THRIFTY: bool = true;

    fn sleeps_on(&self) -> SleepOn {
        match self.wait {
            WaitPolicy::Poll => SleepOn::Descriptor,
            _ => SleepOn::Futex,
        }
    }

    #[inline]
    fn ticket(&self, memory: &Memory) -> u32 {
        Futex.ticket(memory)
    }

    #[inline]
    fn sleep(&self, memory: &Memory, ticket: u32, timeout: Option<Duration>) -> io::Result<()> {
        Futex.sleep(memory, ticket, timeout)
    }

    #[inline]
    fn sleep_on_descriptor(&self, timeout: Option<Duration>) -> io::Result<()> {
        if poll_one(&self.socket, Interest::Readable, timeout)?.is_some() {
            self.silence();
        }
        Ok(())
    }

    #[inline]
    fn ring(&self, memory: &Memory) -> io::Result<()> {
        Futex.ring(memory)
    }

    #[inline]
    fn ring_for(&self, memory: &Memory, sleeper: SleepOn) -> io::Result<()> {
        match sleeper {
            SleepOn::Futex => self.ring(memory),
            SleepOn::Descriptor => socket::send_now(&self.socket, &[1]).map(drop),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    #[inline]
    fn silence(&self) {
        match socket::recv_now(&self.socket, &mut [0; RINGS_PER_READ]) {
            Ok(Some(1..) | None) => {}
            Ok(Some(0)) | Err(_) => self.life.set_gone(),
        }
    }

    fn waker(&self, memory: &Memory) -> Box<dyn Fn() + Send> {
        Futex.waker(memory)
    }
}

impl Meet for Either {
    fn offer(settings: &Settings) -> Result<(Self, Parts), OpenError> {
        let pair = socket::unix_pair(Kind::Stream);
        let (ours, theirs) = pair.map_err(OpenError::doing("making a pair of unix sockets"))?;
        let parts = Parts { bytes: Vec::new(), descriptors: vec![theirs] };
        Ok((Self::new(ours, settings), parts))
    }

    fn accept(settings: &Settings, mut parts: Parts) -> Result<Self, OpenError> {
        let [socket] = parts.take_descriptors()?;
        parts.expect_nothing_more()?;
        // Everything but a socket is refused here, before a ring is written into it.
        socket::peer_credentials(&socket)
            .map_err(|_| OpenError::bad_parts("the doorbell is no socket"))?;
        Ok(Self::new(socket, settings))
    }
}
