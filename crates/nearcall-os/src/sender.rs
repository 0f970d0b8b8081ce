//! The process that sends a packet over a unix socket, as the kernel reports it.
//!
//! `SO_PEERCRED` names the process that has called `listen` last before a client connected. A
//! listening socket that is handed from one process to the next is served by another one. The
//! kernel checks the credentials that a sender gives with a packet, and makes a pidfd of them.
//! **Invariants:** a [`Sender`] comes from the kernel only; every descriptor that arrives here is
//! close-on-exec and owned from the first moment.
//! **Not here:** packets without a sender (`descriptor.rs`), `SO_PEERCRED` (`socket.rs`).
#![allow(unsafe_code, reason = "rustix has no SCM_PIDFD, and takes no sender without a number")]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::sockopt;

use crate::descriptor::{FDS_PER_MESSAGE_MAX, Received, check_fd_count, none_if_blocked};
use crate::seam::{self, Call};
use crate::socket::Credentials;
use crate::users::is_overflow_user;

/// The process that has sent a packet.
#[derive(Debug)]
pub struct Sender {
    credentials: Credentials,
    pidfd: Option<Arc<OwnedFd>>,
}

impl Sender {
    /// Returns what the sender has given with the packet, checked by the kernel: its number and its
    /// effective user and group when it sent that.
    pub fn credentials(&self) -> Credentials {
        self.credentials
    }

    /// Returns the pidfd of the process. `None`: Linux before 6.5, or no room for a descriptor.
    pub fn pidfd(&self) -> Option<&Arc<OwnedFd>> {
        self.pidfd.as_ref()
    }
}

/// Has the kernel report the senders of the packets that are received over a unix socket from now
/// on, or no longer.
///
/// A socket without an address that sends meanwhile gets one of the abstract namespace, so ask for
/// the sender of an answer after the question was sent.
///
/// # Errors
///
/// The error of the kernel.
pub fn report_senders(socket: impl AsFd, reports: bool) -> io::Result<()> {
    sockopt::set_socket_passcred(&socket, reports)?;
    match set_pass_pidfd(socket.as_fd(), reports) {
        // Linux before 6.5 reports no pidfd.
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(()),
        outcome => outcome,
    }
}

/// Receives one message, at most `fds_max` descriptors and the sender, if [`report_senders`] was
/// called. Never waits; the outer `None` says that nothing is there, the inner one that the sender
/// is not known: it has not given its credentials.
///
/// # Errors
///
/// As for [`receive_with_fds`](crate::descriptor::receive_with_fds).
pub fn try_receive_with_sender(
    socket: impl AsFd,
    buffer: &mut [u8],
    fds_max: usize,
) -> io::Result<Option<(Received, Option<Sender>)>> {
    none_if_blocked(receive(socket.as_fd(), buffer, fds_max))
}

fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    fds_max: usize,
) -> io::Result<(Received, Option<Sender>)> {
    check_fd_count(fds_max)?;
    let mut space = ControlSpace([0; SPACE_BYTES]);
    let space_bytes = SENDER_BYTES + space_for(fds_max * size_of::<RawFd>());
    let message = loop {
        let come = seam::transfer(Call::ReceivePacket, socket, true, |must_not_wait| {
            receive_once(socket, buffer, &mut space.0[..space_bytes], must_not_wait)
        });
        match come {
            Err(Errno::INTR) => {}
            outcome => break outcome?,
        }
    };
    let mut received = Received {
        bytes: message.bytes,
        fds: Vec::new(),
        truncated: message.flags & (libc::MSG_CTRUNC | libc::MSG_TRUNC) != 0,
    };
    let (mut credentials, mut pidfd) = (None, None);
    for (kind, data) in ControlMessages(&space.0[..message.control_bytes.min(space_bytes)]) {
        match kind {
            libc::SCM_RIGHTS => received.fds.extend(numbers(data).filter_map(own)),
            SCM_PIDFD => pidfd = numbers(data).next().and_then(own),
            libc::SCM_CREDENTIALS => credentials = read_credentials(data),
            _ => {}
        }
    }
    // More than asked for may fit where a pidfd was expected.
    if received.fds.len() > fds_max {
        received.fds.truncate(fds_max);
        received.truncated = true;
    }
    // The kernel gives this of a sender that it does not know.
    let is_known =
        |it: &Credentials| it.pid.is_some() || pidfd.is_some() || !is_overflow_user(it.uid);
    let credentials = credentials.filter(is_known);
    let pidfd = pidfd.map(Arc::new);
    let sender = credentials.map(|credentials| Sender { credentials, pidfd });
    Ok((received, sender))
}

struct RawMessage {
    bytes: usize,
    control_bytes: usize,
    flags: libc::c_int,
}

fn receive_once(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    space: &mut [u8],
    must_not_wait: bool,
) -> Result<RawMessage, Errno> {
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let header = MaybeUninit::<libc::msghdr>::zeroed();
    // SAFETY: numbers and pointers, all of which may be zero.
    let mut header = unsafe { header.assume_init() };
    (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
    (header.msg_control, header.msg_controllen) = (space.as_mut_ptr().cast(), space.len() as _);
    let wait = if must_not_wait { libc::MSG_DONTWAIT } else { 0 };
    let flags = libc::MSG_CMSG_CLOEXEC | wait;
    // SAFETY: the header names one buffer and one space for control messages with their lengths,
    // both borrowed until the call has returned.
    let bytes = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, flags) };
    let bytes = usize::try_from(bytes).map_err(|_| {
        let error = io::Error::last_os_error();
        Errno::from_io_error(&error).unwrap_or(Errno::IO)
    })?;
    #[allow(clippy::unnecessary_cast, reason = "a type of its own in some C libraries")]
    let control_bytes = header.msg_controllen as usize;
    Ok(RawMessage { bytes, control_bytes, flags: header.msg_flags })
}

fn set_pass_pidfd(socket: BorrowedFd<'_>, reports: bool) -> io::Result<()> {
    let value = libc::c_int::from(reports);
    let length = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(0);
    // SAFETY: the kernel reads `length` bytes of `value`, which outlives the call.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSPIDFD,
            (&raw const value).cast(),
            length,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The control messages of `SOL_SOCKET` that the kernel has written, as type and data.
struct ControlMessages<'a>(&'a [u8]);

impl<'a> Iterator for ControlMessages<'a> {
    type Item = (libc::c_int, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (length, rest) = self.0.split_first_chunk::<{ size_of::<usize>() }>()?;
            let (level, rest) = rest.split_first_chunk::<4>()?;
            let (kind, _) = rest.split_first_chunk::<4>()?;
            let message = self.0.get(..usize::from_ne_bytes(*length))?;
            let data = message.get(HEADER_BYTES..)?;
            self.0 = self.0.get(align(message.len())..).unwrap_or_default();
            if libc::c_int::from_ne_bytes(*level) == libc::SOL_SOCKET {
                return Some((libc::c_int::from_ne_bytes(*kind), data));
            }
        }
    }
}

fn numbers(data: &[u8]) -> impl Iterator<Item = i32> {
    data.as_chunks::<4>().0.iter().map(|bytes| i32::from_ne_bytes(*bytes))
}

/// Takes a descriptor that has arrived. In the place of a pidfd an error may have come.
fn own(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: the kernel has just made the descriptor for this process, which takes it once.
    (number >= 0).then(|| unsafe { OwnedFd::from_raw_fd(number) })
}

fn read_credentials(data: &[u8]) -> Option<Credentials> {
    let mut numbers = numbers(data);
    let (pid, uid, gid) = (numbers.next()?, numbers.next()?, numbers.next()?);
    let pid = (pid != 0).then_some(pid);
    Some(Credentials { pid, uid: uid.cast_unsigned(), gid: gid.cast_unsigned() })
}

/// Room for control messages, aligned as the kernel writes them.
#[repr(C, align(8))]
struct ControlSpace([u8; SPACE_BYTES]);

const fn align(bytes: usize) -> usize {
    bytes.next_multiple_of(size_of::<usize>())
}

const fn space_for(bytes: usize) -> usize {
    align(HEADER_BYTES) + align(bytes)
}

/// A length, a level and a type.
const HEADER_BYTES: usize = size_of::<usize>() + 2 * size_of::<libc::c_int>();

/// The credentials and the pidfd of a sender.
const SENDER_BYTES: usize = space_for(size_of::<libc::ucred>()) + space_for(size_of::<RawFd>());

const SPACE_BYTES: usize = SENDER_BYTES + space_for(FDS_PER_MESSAGE_MAX * size_of::<RawFd>());

/// `SO_PASSPIDFD` of Linux 6.5 (asm-generic), which libc does not name yet.
const SO_PASSPIDFD: libc::c_int = 76;

/// `SCM_PIDFD` of Linux 6.5, which libc does not name yet.
const SCM_PIDFD: libc::c_int = 4;

#[cfg(test)]
mod tests {
    use super::*;

    use crate::descriptor::{self, try_send_as_self};
    use crate::poll::{Interest, poll_one};
    use crate::process;
    use crate::socket::{self, Kind};

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn a_packet_comes_with_its_sender_and_its_descriptors() {
        let (here, there) = socket::unix_pair(Kind::Seqpacket).unwrap();
        let mut buffer = [0; 16];
        // Sent before the other end asks: the credentials are there all the same.
        let fds = [here.as_fd(), here.as_fd()];
        assert_eq!(try_send_as_self(&here, b"one", &fds).unwrap(), Some(3));
        report_senders(&there, true).unwrap();
        let (received, sender) = try_receive_with_sender(&there, &mut buffer, 2).unwrap().unwrap();
        assert_eq!((received.bytes, received.fds.len(), received.truncated), (3, 2, false));
        let sender = sender.unwrap();
        let credentials = sender.credentials();
        assert_eq!(credentials.pid, Some(process::pid()));
        assert_eq!(credentials.uid, process::user_id());
        if let Some(pidfd) = sender.pidfd() {
            let ended = poll_one(pidfd, Interest::Readable, crate::deadline::Deadline::NOW);
            assert!(ended.unwrap().is_none(), "this process lives");
        }
        // One more descriptor than asked for does not take the place of the sender.
        let fds = [&here; 8].map(AsFd::as_fd);
        try_send_as_self(&here, b"many", &fds).unwrap();
        let (received, _) = try_receive_with_sender(&there, &mut buffer, 1).unwrap().unwrap();
        assert!(received.truncated && received.fds.len() <= 1, "{received:?}");
        assert!(try_receive_with_sender(&there, &mut buffer, 1).unwrap().is_none());
        // Without being asked for, nothing comes that would take room.
        report_senders(&there, false).unwrap();
        try_send_as_self(&here, b"two", &[]).unwrap();
        let received = descriptor::try_receive_with_fds(&there, &mut buffer, 0).unwrap().unwrap();
        assert!(!received.truncated);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn a_sender_that_gave_no_credentials_before_it_was_asked_is_not_known() {
        let (here, there) = socket::unix_pair(Kind::Seqpacket).unwrap();
        socket::send(&here, b"before").unwrap();
        report_senders(&there, true).unwrap();
        let mut buffer = [0; 16];
        let (received, sender) = try_receive_with_sender(&there, &mut buffer, 0).unwrap().unwrap();
        assert_eq!((received.bytes, received.truncated), (6, false));
        assert!(sender.is_none(), "{sender:?}");
    }
}
