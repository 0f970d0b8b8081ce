//! Sockets: unix listeners, pairs and datagrams, credentials of the peer, loopback pairs of TCP and
//! UDP.
//!
//! **Invariants:** every socket is close-on-exec, and no send here raises SIGPIPE. `None` means
//! "not now" or "not in time"; an error means "not so".
//! **Not here:** descriptors that travel with a message (`descriptor.rs`), waiting (`poll.rs`).
#![allow(unsafe_code, reason = "SO_PEERCRED with pid 0 and SO_PEERPIDFD are missing in rustix")]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    bind, connect, getsockname, listen, socket_with, socketpair, sockopt,
};

use crate::deadline::Deadline;
use crate::descriptor::{self, none_if_blocked};
use crate::poll::{Interest, poll_one};
use crate::seam::{self, Call};

/// Longest path of a unix socket, without the closing NUL: the kernel's `sun_path` has 108 bytes.
pub const UNIX_PATH_BYTES_MAX: usize = 107;

/// The address of a unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnixAddress<'a> {
    /// A name in the file system. It stays when the listener dies.
    Path(&'a Path),
    /// A name in the network namespace. It goes with the listener; any process may take it.
    Abstract(&'a [u8]),
}

/// The type of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bytes without borders.
    Stream,
    /// Messages in order, connected.
    Seqpacket,
    /// Messages; on unix sockets in order and never lost.
    Datagram,
}

/// The half of a connection to close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    /// Nothing more is received.
    Receive,
    /// Nothing more is sent; the other end reads what is there and then the end.
    Send,
    /// Nothing more is received or sent.
    Both,
}

/// The credentials of the connecting process, which the kernel recorded at that moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// The process, or `None` when it has no number in the PID namespace of this process.
    pub pid: Option<i32>,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
}

/// Buffer sizes as the kernel keeps them: twice what was asked for, at most twice the sysctl limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferBytes {
    /// SO_SNDBUF.
    pub send: usize,
    /// SO_RCVBUF.
    pub receive: usize,
}

/// Listens for SOCK_SEQPACKET connections. The socket does not block: use [`accept`].
///
/// # Errors
///
/// `InvalidInput` for a name that is too long (the text names both lengths), EADDRINUSE when the
/// name exists, otherwise the kernel's.
pub fn unix_listen(address: UnixAddress<'_>, backlog: u16) -> io::Result<OwnedFd> {
    let socket = unix_bind(address)?;
    start_listening(&socket, backlog)?;
    Ok(socket)
}

/// Listens like [`unix_listen`] at a socket without a name: it is made at `path`, where nothing may
/// be, and that file is removed before the socket listens. So only this process can connect, by the
/// path `/proc/self/fd/NUMBER` of the second descriptor, and whoever it passes that descriptor to.
///
/// # Errors
///
/// As for [`unix_listen`]; the file cannot be made or removed.
pub fn unix_listen_unnamed(path: &Path, backlog: u16) -> io::Result<(OwnedFd, OwnedFd)> {
    let socket = unix_bind(UnixAddress::Path(path))?;
    let held = descriptor::hold_path(path);
    std::fs::remove_file(path)?;
    let held = held?;
    start_listening(&socket, backlog)?;
    Ok((socket, held))
}

/// Makes a SOCK_SEQPACKET socket of this name, to which no client can connect before
/// [`start_listening`].
///
/// # Errors
///
/// As for [`unix_listen`].
pub fn unix_bind(address: UnixAddress<'_>) -> io::Result<OwnedFd> {
    let address = socket_address(address)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&socket, &address)?;
    Ok(socket)
}

/// Lets clients connect to the socket of [`unix_bind`], `backlog` of them before they are accepted.
///
/// # Errors
///
/// The error of the kernel.
pub fn start_listening(socket: impl AsFd, backlog: u16) -> io::Result<()> {
    Ok(listen(socket, i32::from(backlog))?)
}

/// Takes the next connection, a blocking socket; `None` when none comes in time.
///
/// # Errors
///
/// The kernel's; EMFILE leaves the connection in the queue, so do not retry at once.
pub fn accept(listener: impl AsFd, deadline: impl Into<Deadline>) -> io::Result<Option<OwnedFd>> {
    let deadline = deadline.into();
    loop {
        match seam::enter(Call::Accept).and_then(|()| accept_with(&listener, SocketFlags::CLOEXEC))
        {
            // That client left the queue, or its network failed; the next may be there.
            Err(
                Errno::INTR
                | Errno::CONNABORTED
                | Errno::PROTO
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::NONET,
            ) => {}
            Err(Errno::WOULDBLOCK) => {
                if poll_one(&listener, Interest::Readable, deadline)?.is_none() {
                    return Ok(None);
                }
            }
            outcome => return Ok(Some(outcome?)),
        }
    }
}

/// Connects to a SOCK_SEQPACKET listener. Waits while its queue is full, at most until `deadline`.
///
/// # Errors
///
/// `InvalidInput` for a name that is too long, `TimedOut` when the queue stayed full, ECONNREFUSED
/// when no process listens, ENOENT when there is no such name.
pub fn unix_connect(
    address: UnixAddress<'_>,
    deadline: impl Into<Deadline>,
) -> io::Result<OwnedFd> {
    let address = socket_address(address)?;
    seam::enter(Call::Connect)?;
    let socket =
        socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    let deadline = deadline.into();
    loop {
        // The kernel bounds a unix connect by the send timeout. Zero would mean no limit.
        let remaining = deadline.remaining().map(|left| left.max(SEND_TIMEOUT_MIN));
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, remaining)?;
        match connect(&socket, &address) {
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => return Err(io::ErrorKind::TimedOut.into()),
            outcome => {
                outcome?;
                break;
            }
        }
    }
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, None)?;
    Ok(socket)
}

/// What is bound to the name of a unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// A socket of datagrams.
    Datagram,
    /// A socket of connections, SOCK_STREAM or SOCK_SEQPACKET, which need not listen.
    Connections,
}

/// Finds what is bound to the name of a unix socket; `None`: the file of one that is gone. Connects
/// to nothing: a listener gets no client by it, and whatever starts a program for each client
/// starts none.
///
/// # Errors
///
/// ENOENT when there is no such name, EACCES when this user may not connect to it.
pub fn unix_bound(address: UnixAddress<'_>) -> io::Result<Option<Bound>> {
    let address = socket_address(address)?;
    // A datagram socket is never connected to one of another type, and the kernel reports that one
    // is bound before it looks for more.
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    match retry_on_intr(|| connect(&socket, &address)) {
        // It takes datagrams of another socket only.
        Ok(()) | Err(Errno::PERM) => Ok(Some(Bound::Datagram)),
        Err(Errno::PROTOTYPE) => Ok(Some(Bound::Connections)),
        Err(Errno::CONNREFUSED) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether a connect failed because the socket is not SOCK_SEQPACKET.
#[must_use]
pub fn is_of_another_type(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::PROTOTYPE)
}

/// Works like [`unix_connect`] without waiting; `None` while the queue is full. The socket does not
/// block.
///
/// # Errors
///
/// As for [`unix_connect`].
pub fn unix_try_connect(address: UnixAddress<'_>) -> io::Result<Option<OwnedFd>> {
    let address = socket_address(address)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    let connected = retry_on_intr(|| connect(&socket, &address)).map_err(io::Error::from);
    Ok(none_if_blocked(connected)?.map(|()| socket))
}

/// Two connected unix sockets.
///
/// # Errors
///
/// The error of the kernel.
pub fn unix_pair(kind: Kind) -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = match kind {
        Kind::Stream => SocketType::STREAM,
        Kind::Seqpacket => SocketType::SEQPACKET,
        Kind::Datagram => SocketType::DGRAM,
    };
    seam::enter(Call::Descriptor)?;
    Ok(socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?)
}

/// A unix socket of datagrams without a name, which does not block. Once [`connect_datagrams`] has
/// connected it, it takes datagrams of that other socket only, beside those that have come before.
///
/// # Errors
///
/// The error of the kernel.
pub fn unix_datagrams() -> io::Result<OwnedFd> {
    seam::enter(Call::Descriptor)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?)
}

/// Gives a socket of [`unix_datagrams`] its name.
///
/// # Errors
///
/// As for [`unix_listen`].
pub fn bind_datagrams(socket: impl AsFd, address: UnixAddress<'_>) -> io::Result<()> {
    Ok(bind(socket, &socket_address(address)?)?)
}

/// Connects a socket of [`unix_datagrams`] to the one of this name. That one is not told, and
/// keeps no queue of clients, so no other process can be in the way.
///
/// # Errors
///
/// ECONNREFUSED when there is no such name, ENOENT when there is no such path, EPERM when that
/// socket takes datagrams of another one only, EPROTOTYPE when the one at a path is of another
/// type.
pub fn connect_datagrams(socket: impl AsFd, address: UnixAddress<'_>) -> io::Result<()> {
    let address = socket_address(address)?;
    seam::enter(Call::Connect)?;
    Ok(retry_on_intr(|| connect(&socket, &address))?)
}

/// Returns whether a descriptor, whatever it is, is a SOCK_SEQPACKET unix socket. Does not wait,
/// also if a process serves the file behind it.
///
/// # Errors
///
/// The error of the kernel, but for what is no socket.
pub fn is_unix_seqpacket(descriptor: impl AsFd) -> io::Result<bool> {
    match sockopt::socket_domain(&descriptor) {
        Ok(AddressFamily::UNIX) => Ok(sockopt::socket_type(&descriptor)? == SocketType::SEQPACKET),
        Ok(_) | Err(Errno::NOTSOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Two TCP sockets connected over 127.0.0.1, without Nagle's delay.
///
/// Another process of this machine may connect to the port meanwhile; such a connection is closed.
///
/// # Errors
///
/// The error of the kernel; `ConnectionAborted` when other processes kept the listener busy.
pub fn tcp_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let listener = inet_socket(SocketType::STREAM)?;
    bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    listen(&listener, 1)?;
    let here = inet_socket(SocketType::STREAM)?;
    connect_retrying(&here, local_address(&listener)?)?;
    let own_address = local_address(&here)?;
    for _ in 0..FOREIGN_MAX {
        let there = retry_on_intr(|| accept_with(&listener, SocketFlags::CLOEXEC))?;
        if peer_address(&there)? == Some(own_address) {
            sockopt::set_tcp_nodelay(&here, true)?;
            sockopt::set_tcp_nodelay(&there, true)?;
            return Ok((here, there));
        }
    }
    Err(io::ErrorKind::ConnectionAborted.into())
}

/// Sets whether a TCP socket sends small segments at once instead of holding them back until what
/// was sent before is confirmed (Nagle's delay).
///
/// # Errors
///
/// The error of the kernel.
pub fn set_tcp_nodelay(socket: impl AsFd, at_once: bool) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(&socket, at_once)?)
}

/// Readies a TCP socket for messages between machines: no Nagle's delay, and a partner that cannot
/// be reached for `silence`, whether it owes an answer or not, is taken for gone.
///
/// # Errors
///
/// The error of the kernel.
pub fn ready_tcp(socket: impl AsFd, silence: Duration) -> io::Result<()> {
    sockopt::set_tcp_nodelay(&socket, true)?;
    let probe = (silence / (TCP_PROBES + 1)).max(Duration::from_secs(1));
    sockopt::set_tcp_keepidle(&socket, probe)?;
    sockopt::set_tcp_keepintvl(&socket, probe)?;
    sockopt::set_tcp_keepcnt(&socket, TCP_PROBES)?;
    let silence_ms = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(&socket, silence_ms)?;
    Ok(sockopt::set_socket_keepalive(&socket, true)?)
}

/// Returns the address of the peer of a TCP socket; `None` when it has disconnected.
///
/// # Errors
///
/// The error of the kernel, for what is no internet socket.
pub fn tcp_peer(socket: impl AsFd) -> io::Result<Option<SocketAddr>> {
    peer_address(socket)
}

/// Two UDP sockets connected to each other over 127.0.0.1. Datagrams are dropped when the receive
/// buffer is full, and only those of the partner arrive.
///
/// # Errors
///
/// The error of the kernel.
pub fn udp_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (here, there) = (inet_socket(SocketType::DGRAM)?, inet_socket(SocketType::DGRAM)?);
    for socket in [&here, &there] {
        bind(socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    }
    connect(&here, &local_address(&there)?)?;
    connect(&there, &local_address(&here)?)?;
    // Before both were connected, a stranger's datagram may have been queued.
    let mut byte = [0];
    for socket in [&here, &there] {
        for _ in 0..FOREIGN_MAX {
            if try_recv(socket, &mut byte)?.is_none() {
                break;
            }
        }
    }
    Ok((here, there))
}

/// Returns the credentials of the peer of a unix socket.
///
/// # Errors
///
/// The error of the kernel, for what is no connected unix socket.
pub fn peer_credentials(socket: impl AsFd) -> io::Result<Credentials> {
    let ucred: libc::ucred = option(socket.as_fd(), libc::SO_PEERCRED)?;
    let pid = (ucred.pid != 0).then_some(ucred.pid);
    Ok(Credentials { pid, uid: ucred.uid, gid: ucred.gid })
}

/// A pidfd of the process at the other end: readable once it has died, never another process.
///
/// # Errors
///
/// ENOPROTOOPT before Linux 6.5, ESRCH or EINVAL when the process was reaped before the call.
pub fn peer_pidfd(socket: impl AsFd) -> io::Result<OwnedFd> {
    let fd: libc::c_int = option(socket.as_fd(), SO_PEERPIDFD)?;
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns the supplementary groups of the peer of a unix socket, when it connected.
///
/// # Errors
///
/// The error of the kernel, for what is no connected unix socket.
pub fn peer_groups(socket: impl AsFd) -> io::Result<Vec<u32>> {
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let bytes = size_of_val(groups.as_slice());
        let mut length = libc::socklen_t::try_from(bytes).unwrap_or(libc::socklen_t::MAX);
        // SAFETY: `groups` has `length` writable bytes, and both outlive the call.
        let outcome = unsafe {
            libc::getsockopt(
                socket.as_fd().as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let filled = length as usize / size_of::<libc::gid_t>();
        if outcome == 0 {
            groups.truncate(filled);
            return Ok(groups);
        }
        match io::Error::last_os_error() {
            // The kernel says how many there are.
            error if error.raw_os_error() == Some(libc::ERANGE) && filled > groups.len() => {
                groups.resize(filled, 0);
            }
            error => return Err(error),
        }
    }
}

/// Requests buffer sizes (`None`: leave) and returns the actual ones.
///
/// # Errors
///
/// The kernel's. Too much is no error: it is cut to the sysctl limit.
pub fn set_buffer_bytes(
    socket: impl AsFd,
    send: Option<usize>,
    receive: Option<usize>,
) -> io::Result<BufferBytes> {
    if let Some(bytes) = send {
        sockopt::set_socket_send_buffer_size(&socket, bytes)?;
    }
    if let Some(bytes) = receive {
        sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
    }
    buffer_bytes(socket)
}

/// The buffer sizes as they are.
///
/// # Errors
///
/// The error of the kernel.
pub fn buffer_bytes(socket: impl AsFd) -> io::Result<BufferBytes> {
    Ok(BufferBytes {
        send: sockopt::socket_send_buffer_size(&socket)?,
        receive: sockopt::socket_recv_buffer_size(&socket)?,
    })
}

/// Sets the longest time that a call on this socket waits to send, and to receive (SO_SNDTIMEO,
/// SO_RCVTIMEO).
///
/// # Errors
///
/// `InvalidInput` for zero, which would mean no limit; otherwise the kernel's.
pub fn set_timeouts(socket: impl AsFd, time: Duration) -> io::Result<()> {
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(time))?;
    Ok(sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(time))?)
}

/// Sends and waits while the socket is full. May send less than all on a stream.
///
/// # Errors
///
/// EPIPE or ECONNRESET when the other end is gone, EMSGSIZE for a message too long for the socket.
pub fn send(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(send_flagged(socket.as_fd(), bytes, SendFlags::NOSIGNAL)?)
}

/// [`send`] that never waits, whatever the file flags are.
///
/// # Errors
///
/// As for [`send`].
pub fn try_send(socket: impl AsFd, bytes: &[u8]) -> io::Result<Option<usize>> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    none_if_blocked(send_flagged(socket.as_fd(), bytes, flags).map_err(io::Error::from))
}

/// Returns whether a send failed because the kernel had no memory for it. It has tried to free
/// some, so another try may succeed.
#[must_use]
#[cold]
pub fn is_out_of_memory(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOMEM | Errno::NOBUFS))
}

/// Receives from a stream and waits. Zero is the end.
///
/// # Errors
///
/// ECONNRESET when the other end has closed with unread bytes.
pub fn recv(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    recv_flagged(Call::Receive, socket.as_fd(), buffer, RecvFlags::empty())
}

/// [`recv`] that never waits, whatever the file flags are.
///
/// # Errors
///
/// As for [`recv`].
pub fn try_recv(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    none_if_blocked(recv_flagged(Call::Receive, socket.as_fd(), buffer, RecvFlags::DONTWAIT))
}

/// Receives one message and waits for it. Returns its full length: above `buffer.len()`, the rest
/// is lost. Zero is an empty message or, on SOCK_SEQPACKET, the end. Not for TCP, where the kernel
/// would throw the bytes away.
///
/// # Errors
///
/// ECONNREFUSED on UDP when the other end has closed.
pub fn recv_message(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    recv_flagged(Call::ReceivePacket, socket.as_fd(), buffer, RecvFlags::TRUNC)
}

/// [`recv_message`] that never waits, whatever the file flags are.
///
/// # Errors
///
/// As for [`recv_message`].
pub fn try_recv_message(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
    none_if_blocked(recv_flagged(Call::ReceivePacket, socket.as_fd(), buffer, flags))
}

/// Closes one half or both, for all processes that share the socket.
///
/// # Errors
///
/// ENOTCONN when it is not connected any more.
pub fn shutdown(socket: impl AsFd, half: Half) -> io::Result<()> {
    let how = match half {
        Half::Receive => rustix::net::Shutdown::Read,
        Half::Send => rustix::net::Shutdown::Write,
        Half::Both => rustix::net::Shutdown::Both,
    };
    Ok(rustix::net::shutdown(socket, how)?)
}

fn send_flagged(socket: BorrowedFd<'_>, bytes: &[u8], flags: SendFlags) -> Result<usize, Errno> {
    let bytes = seam::mangle(bytes);
    let must_not_wait = flags.contains(SendFlags::DONTWAIT);
    let call = if bytes.len() == 1 { Call::Ring } else { Call::Send };
    retry_on_intr(|| {
        seam::transfer(call, socket, must_not_wait, |must_not_wait| {
            let mut flags = flags;
            flags.set(SendFlags::DONTWAIT, must_not_wait);
            let whole = seam::shorten(call, bytes.len());
            rustix::net::send(socket, &bytes[..whole], flags)
        })
    })
}

fn recv_flagged(
    call: Call,
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> io::Result<usize> {
    let whole = seam::shorten(call, buffer.len());
    let must_not_wait = flags.contains(RecvFlags::DONTWAIT);
    let receive = || {
        seam::transfer(call, socket, must_not_wait, |must_not_wait| {
            let mut flags = flags;
            flags.set(RecvFlags::DONTWAIT, must_not_wait);
            rustix::net::recv(socket, &mut buffer[..whole], flags)
        })
    };
    // The second number is the full length under MSG_TRUNC, else the same as the first.
    let (_, bytes) = retry_on_intr(receive)?;
    Ok(bytes)
}

fn socket_address(address: UnixAddress<'_>) -> io::Result<SocketAddrUnix> {
    let (length, made) = match address {
        UnixAddress::Path(path) => (path.as_os_str().as_bytes().len(), SocketAddrUnix::new(path)),
        UnixAddress::Abstract(name) => (name.len(), SocketAddrUnix::new_abstract_name(name)),
    };
    if length > UNIX_PATH_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("socket name has {length} bytes, at most {UNIX_PATH_BYTES_MAX} are possible"),
        ));
    }
    Ok(made?)
}

fn inet_socket(kind: SocketType) -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)?)
}

fn connect_retrying(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    match connect(socket, &address) {
        // An interrupted TCP connect continues; the socket becomes writable when it is done.
        Err(Errno::INTR) => {
            poll_one(socket, Interest::Writable, Deadline::NEVER)?;
            Ok(sockopt::socket_error(socket)??)
        }
        outcome => Ok(outcome?),
    }
}

fn local_address(socket: &OwnedFd) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(getsockname(socket)?)?)
}

fn peer_address(socket: impl AsFd) -> io::Result<Option<SocketAddr>> {
    match rustix::net::getpeername(socket) {
        Ok(Some(address)) => Ok(Some(SocketAddr::try_from(address)?)),
        // A connection that is closed already has no address.
        Ok(None) | Err(Errno::NOTCONN) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Reads a SOL_SOCKET option that the kernel fills as plain integers.
fn option<T: PlainOption>(socket: BorrowedFd<'_>, name: libc::c_int) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut length = libc::socklen_t::try_from(size_of::<T>()).unwrap_or(0);
    // SAFETY: `value` has `length` writable bytes, and both outlive the call.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all bytes were zeroed and maybe overwritten; `PlainOption` allows any bytes.
    Ok(unsafe { value.assume_init() })
}

/// Types for which every bit pattern is a value.
trait PlainOption {}
impl PlainOption for libc::ucred {}
impl PlainOption for libc::c_int {}

/// `SO_PEERPIDFD` of Linux 6.5 (asm-generic), which libc does not name yet.
const SO_PEERPIDFD: libc::c_int = 77;

/// Most connections or datagrams of other processes that a loopback pair discards while it is made.
const FOREIGN_MAX: usize = 64;

/// Probes that a silent TCP partner may leave unanswered.
const TCP_PROBES: u32 = 3;

/// The shortest send timeout that is not zero, which means no limit: the kernel counts in jiffies.
const SEND_TIMEOUT_MIN: Duration = Duration::from_millis(1);
