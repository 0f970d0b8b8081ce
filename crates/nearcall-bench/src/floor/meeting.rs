//! How the two processes of a floor meet, and the memory that they hand each other.
//!
//! A unix socket of packets beside the floor: it carries text and descriptors before and after a
//! measured region, and nothing while one is measured.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nearcall_os::descriptor;
use nearcall_os::region::{Backing, OwnRegion, PeerRegion};
use nearcall_os::socket::{self, UnixAddress};

use crate::exchange::Failure;

/// The line between the two processes.
pub struct Meeting {
    socket: OwnedFd,
}

/// What one end writes and what the other end writes.
pub(crate) struct Regions {
    pub(crate) own: OwnRegion,
    pub(crate) peer: PeerRegion,
}

impl Meeting {
    /// Listens at `name`, reports that, and waits for the client.
    ///
    /// # Errors
    ///
    /// The name is taken, or no client came within [`MEET_TIMEOUT`].
    pub fn accept(
        name: &str,
        listening: impl FnOnce() -> Result<(), Failure>,
    ) -> Result<Self, Failure> {
        let listener = socket::unix_listen(UnixAddress::Abstract(name.as_bytes()), 1)?;
        listening()?;
        let socket = socket::accept(&listener, Some(MEET_TIMEOUT))?;
        Ok(Self { socket: socket.ok_or_else(|| Failure::other("the client did not come"))? })
    }

    /// Connects to a server that listens at `name`.
    ///
    /// # Errors
    ///
    /// Nothing listens at `name`.
    pub fn connect(name: &str) -> Result<Self, Failure> {
        let address = UnixAddress::Abstract(name.as_bytes());
        Ok(Self { socket: socket::unix_connect(address, Some(MEET_TIMEOUT))? })
    }

    /// Sends text.
    ///
    /// # Errors
    ///
    /// The other process is gone.
    pub fn say(&self, text: &str) -> Result<(), Failure> {
        self.say_with(text, &[])
    }

    /// Sends text and descriptors.
    ///
    /// # Errors
    ///
    /// The other process is gone.
    pub fn say_with(&self, text: &str, fds: &[BorrowedFd<'_>]) -> Result<(), Failure> {
        descriptor::send_with_fds(&self.socket, text.as_bytes(), fds)?;
        Ok(())
    }

    /// Waits for text.
    ///
    /// # Errors
    ///
    /// The other process is gone.
    pub fn hear(&self) -> Result<String, Failure> {
        Ok(self.hear_with::<0>()?.0)
    }

    /// Waits for text and exactly `N` descriptors.
    ///
    /// # Errors
    ///
    /// The other process is gone, or sent fewer descriptors.
    pub fn hear_with<const N: usize>(&self) -> Result<(String, [OwnedFd; N]), Failure> {
        let mut text = vec![0; TEXT_BYTES_MAX];
        let received = descriptor::receive_with_fds(&self.socket, &mut text, N)?;
        if received.bytes == 0 {
            return Err(Failure::other("the other end is gone"));
        }
        text.truncate(received.bytes);
        let fds = received.fds.try_into();
        let fds = fds.map_err(|_| Failure::other("the other end sent too few descriptors"))?;
        Ok((String::from_utf8(text).map_err(Failure::other)?, fds))
    }

    /// Both ends make memory of `bytes` and give it to each other.
    pub(crate) fn regions(&self, bytes: usize) -> Result<Regions, Failure> {
        let created = OwnRegion::create("nearcall-floor", bytes, Backing::Reserved);
        let (mut own, fd) = created.map_err(Failure::other)?;
        own.prefault().map_err(Failure::other)?;
        self.say_with("memory", &[fd.as_fd()])?;
        let (_, [fd]) = self.hear_with::<1>()?;
        let peer = PeerRegion::open(fd, bytes..=bytes).map_err(Failure::other)?;
        peer.prefault().map_err(Failure::other)?;
        Ok(Regions { own, peer })
    }
}

impl AsFd for Meeting {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// How long one process waits for the other to come.
pub const MEET_TIMEOUT: Duration = Duration::from_secs(10);

/// A report is a few hundred bytes.
const TEXT_BYTES_MAX: usize = 16 << 10;
