//! Two doorbells in one: a futex for a thread that sleeps in its call, a unix socket for an event
//! loop. The sleeper chooses, each time that it sleeps, and says so in its sleep word.
//!
//! **Invariants:** a ring never waits and raises no signal, whatever the other end does; an
//! end that is awake is not rung. A full socket means that the bell is rung already, or, where the
//! sleeper leaves rings unread, which are too few to fill it, that its own process has filled it:
//! then the connection ends. The hang-up of the socket reports the death of the other end to an end
//! that never sleeps on the futex; for one that does, the watcher reports it from its first such
//! sleep on (`shm.rs`).
//! **Not here:** announcing sleeps and choosing which end to ring (`doorbell.rs`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::socket::{self, Kind};

use crate::error::OpenError;
use crate::fds::ChannelFds;
use crate::limits::{FLOOD_BYTES_PER_READ, FLOOD_READS_MAX, RING_TRIES_MAX, RINGS_PER_READ};
use crate::liveness::PeerLiveness;
use crate::settings::Settings;
use crate::shm::doorbell::futex::Futex;
use crate::shm::doorbell::{Doorbell, Meet, Memory, SleepOn};
use crate::wait::{Deadline, WaitPolicy};

/// One end of a socket pair, and the futex beside it.
pub(crate) struct FutexOrFdDoorbell {
    socket: Arc<OwnedFd>,
    wait: WaitPolicy,
    liveness: Arc<PeerLiveness>,
}

impl FutexOrFdDoorbell {
    fn new(socket: OwnedFd, settings: &Settings) -> Self {
        Self {
            socket: Arc::new(socket),
            wait: settings.wait,
            liveness: Arc::clone(&settings.liveness),
        }
    }

    /// Rings on the socket, if it has room. Without memory the kernel has tried to free some, so it
    /// is asked again.
    #[inline]
    fn ring_socket(&self) -> io::Result<Option<usize>> {
        let mut tries = 1;
        loop {
            match socket::try_send(&self.socket, &[1]) {
                Err(error) if socket::is_out_of_memory(&error) && tries < RING_TRIES_MAX => {
                    tries += 1
                }
                outcome => return outcome,
            }
        }
    }

    /// Takes rings back. Whether there may be more.
    #[inline]
    fn take_rings(&self, buffer: &mut [u8]) -> bool {
        match socket::try_recv(&self.socket, buffer) {
            Ok(Some(bytes @ 1..)) => return bytes == buffer.len(),
            Ok(None) => {}
            Ok(Some(0)) | Err(_) => self.liveness.set_gone(),
        }
        false
    }

    /// For an end that rings as often as it can: each of our wake-ups for a few of its bytes would
    /// let it keep a loop busy for nothing.
    #[cold]
    fn take_flood(&self) {
        let mut buffer = [0; FLOOD_BYTES_PER_READ];
        let _ = (0..FLOOD_READS_MAX).any(|_| !self.take_rings(&mut buffer));
    }
}

impl Doorbell for FutexOrFdDoorbell {
    const LAZY_COMMIT: bool = true;
    const KEEPS_RINGS: bool = true;

    fn sleeps_on(&self) -> SleepOn {
        match self.wait {
            WaitPolicy::Poll => SleepOn::Descriptor,
            _ => SleepOn::Futex,
        }
    }

    #[inline]
    fn epoch(&self, memory: &Memory) -> u32 {
        Futex.epoch(memory)
    }

    #[inline]
    fn sleep(&self, memory: &Memory, epoch: u32, deadline: Deadline) -> io::Result<()> {
        Futex.sleep(memory, epoch, deadline)
    }

    #[inline]
    fn sleep_on_descriptor(&self, deadline: Deadline) -> io::Result<()> {
        if poll_one(&self.socket, Interest::Readable, deadline)?.is_some() {
            self.clear();
        }
        Ok(())
    }

    #[inline]
    fn ring(&self, memory: &Memory) -> io::Result<()> {
        Futex.ring(memory)
    }

    #[inline]
    fn ring_for(&self, memory: &Memory, waiter: SleepOn) -> io::Result<()> {
        match waiter {
            SleepOn::Futex => self.ring(memory),
            SleepOn::Descriptor => self.ring_socket().map(drop),
            SleepOn::DescriptorEdge => match self.ring_socket()? {
                Some(_) => Ok(()),
                None => Err(io::ErrorKind::WouldBlock.into()),
            },
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn socket(&self) -> Option<&Arc<OwnedFd>> {
        Some(&self.socket)
    }

    #[inline]
    fn clear(&self) {
        if self.take_rings(&mut [0; RINGS_PER_READ]) {
            self.take_flood();
        }
    }

    fn local_wake(&self, memory: &Memory) -> Box<dyn Fn() + Send> {
        Futex.local_wake(memory)
    }
}

impl Meet for FutexOrFdDoorbell {
    fn offer(settings: &Settings) -> Result<(Self, ChannelFds), OpenError> {
        let pair = socket::unix_pair(Kind::Stream);
        let (ours, theirs) = pair.map_err(OpenError::doing("making a pair of unix sockets"))?;
        let parts = ChannelFds { bytes: Vec::new(), descriptors: vec![theirs] };
        Ok((Self::new(ours, settings), parts))
    }

    fn accept(settings: &Settings, mut parts: ChannelFds) -> Result<Self, OpenError> {
        let [socket] = parts.take_descriptors()?;
        parts.expect_nothing_more()?;
        // Everything but a socket is refused here, before a ring is written into it.
        socket::peer_credentials(&socket)
            .map_err(|_| OpenError::bad_parts("the doorbell is no socket"))?;
        Ok(Self::new(socket, settings))
    }
}
