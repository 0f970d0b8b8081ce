//! A pair of unix sockets as doorbells: a byte rings.
//!
//! Always true: a ring never waits and raises no signal, whatever the other end does to the socket;
//! a full socket means that the bell is rung already. The hang-up of the socket tells of the other
//! end's death, without the watcher.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::socket::{self, Half, Kind};

use crate::error::OpenError;
use crate::fds::ChannelFds;
use crate::liveness::PeerLiveness;
use crate::settings::Settings;
use crate::shm::Meet;
use crate::shm::doorbell::{Doorbell, Memory, RINGS_PER_READ};
use crate::wait::Deadline;
use crate::wait::WaitPolicy;

/// One end of a socket pair.
pub(crate) struct Unix {
    socket: Arc<OwnedFd>,
    wait: WaitPolicy,
    liveness: Arc<PeerLiveness>,
}

impl Unix {
    fn new(socket: OwnedFd, settings: &Settings) -> Self {
        let liveness = Arc::clone(&settings.liveness);
        Self { socket: Arc::new(socket), wait: settings.wait, liveness }
    }

    /// Judges what a read of the socket gave: only rings leave the other end alive.
    #[inline]
    fn judge(&self, received: io::Result<Option<usize>>) {
        match received {
            Ok(Some(1..) | None) => {}
            // Only somebody who shares the socket can make a blocking read do that.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(Some(0)) | Err(_) => self.liveness.set_gone(),
        }
    }
}

impl Doorbell for Unix {
    #[inline]
    fn sleep(&self, _: &Memory, _: u32, deadline: Deadline) -> io::Result<()> {
        if self.wait == WaitPolicy::Block && deadline == Deadline::NEVER {
            self.judge(socket::recv(&self.socket, &mut [0; RINGS_PER_READ]).map(Some));
        } else if poll_one(&self.socket, Interest::Readable, deadline)?.is_some() {
            self.clear();
        }
        Ok(())
    }

    #[inline]
    fn ring(&self, _: &Memory) -> io::Result<()> {
        socket::send_now(&self.socket, &[1]).map(drop)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    #[inline]
    fn clear(&self) {
        self.judge(socket::recv_now(&self.socket, &mut [0; RINGS_PER_READ]));
    }

    fn local_wake(&self, _: &Memory) -> Box<dyn Fn() + Send> {
        let socket = Arc::clone(&self.socket);
        Box::new(move || {
            // For an end that hung up its control line and kept this socket. Already shut is fine.
            let _ = socket::shutdown(&socket, Half::Both);
        })
    }
}

impl Meet for Unix {
    fn offer(settings: &Settings) -> Result<(Self, ChannelFds), OpenError> {
        let pair = socket::unix_pair(Kind::Stream);
        let (ours, theirs) = pair.map_err(OpenError::doing("making a pair of unix sockets"))?;
        let parts = ChannelFds { bytes: Vec::new(), descriptors: vec![theirs] };
        Ok((Self::new(ours, settings), parts))
    }

    fn accept(settings: &Settings, mut parts: ChannelFds) -> Result<Self, OpenError> {
        let [socket] = parts.take_descriptors()?;
        parts.expect_nothing_more()?;
        // Everything but a socket is refused here, before a read of it could wait for ever.
        socket::peer_credentials(&socket)
            .map_err(|_| OpenError::bad_parts("the doorbell is no socket"))?;
        Ok(Self::new(socket, settings))
    }
}
