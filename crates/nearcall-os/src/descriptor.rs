//! Descriptors: sent and received with a message, duplicated, switched to non-blocking, counted.
//!
//! **Invariants:** every descriptor that arrives here is close-on-exec and owned from the first
//! moment, so an early return closes it.
//! **Not here:** making sockets (`socket.rs`), waiting for them (`poll.rs`), the senders of
//! messages (`sender.rs`).
#![allow(unsafe_code, reason = "rustix replaces a descriptor only for its sole owner")]

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, fcntl_getfl, fcntl_setfl,
    utimensat,
};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, UCred, recvmsg, sendmsg,
};
use rustix::process::{getegid, geteuid, getpid};

use crate::random;
use crate::seam::{self, Call};

/// Most descriptors one message may carry. A connection of nearcall needs at most eight; the kernel
/// would take 253. Small, so that the control buffer fits on the stack.
pub const FDS_PER_MESSAGE_MAX: usize = 32;

/// A received message.
#[derive(Debug)]
pub struct Received {
    /// Bytes written to the caller's buffer. Zero means that the other end has closed.
    pub bytes: usize,
    /// The descriptors, in the sender's order, close-on-exec.
    pub fds: Vec<OwnedFd>,
    /// Something was lost: bytes beyond the buffer, or descriptors (more than asked for, or this
    /// process has no room for them). What the kernel still delivered is in `fds`, at most as many
    /// as were asked for.
    pub truncated: bool,
}

/// Takes hold of the file at `path` without opening it (O_PATH), and of a link itself. While the
/// descriptor lives, no other file gets the number of this one.
///
/// # Errors
///
/// The error of the kernel.
pub fn hold_path(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Returns the device and the number of a file, which no other file has while this one is held.
///
/// # Errors
///
/// The error of the kernel.
pub fn identity(file: impl AsFd) -> io::Result<(u64, u64)> {
    let stat = rustix::fs::fstat(file)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Returns the path by which this process reaches just the file of a descriptor, also one that is
/// held without being open. It is good as long as the descriptor is.
///
/// # Errors
///
/// `NotFound`: there is no `/proc`, which the text says.
pub fn path(held: impl AsFd) -> io::Result<PathBuf> {
    if !Path::new("/proc/self/fd").exists() {
        let text = "there is no /proc, by which open files are reached: mount it";
        return Err(io::Error::new(io::ErrorKind::NotFound, text));
    }
    Ok(path_if_mounted(held))
}

/// As [`path()`] without its check, for whoever says what to do without `/proc`.
pub(crate) fn path_if_mounted(held: impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", held.as_fd().as_raw_fd()))
}

/// Gives a file that [`hold_path`] has returned one more name.
///
/// # Errors
///
/// As for [`path()`]. ENOENT: it has no name any more, or the directory of `path` is not there.
/// EXDEV: that is on another file system. EEXIST: something is there.
pub fn link(held: impl AsFd, path: &Path) -> io::Result<()> {
    Ok(rustix::fs::linkat(CWD, self::path(held)?, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// Returns whether a file has an access list beside its mode, whose mask the mode shows in the
/// place of the rights of the group.
///
/// # Errors
///
/// The kernel's; a file system without such lists is none.
pub fn has_access_list(path: &Path) -> io::Result<bool> {
    match rustix::fs::lgetxattr_query(path, "system.posix_acl_access") {
        Ok(_) => Ok(true),
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Sets the times of a file that [`hold_path`] has returned to now, which whoever watches its
/// directory sees.
///
/// # Errors
///
/// As for [`path()`]. EACCES: the file belongs to another user.
pub fn touch(held: impl AsFd) -> io::Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    Ok(utimensat(CWD, path(held)?, &times, AtFlags::empty())?)
}

/// Sends `bytes` and duplicates of `fds` as one message; waits while the socket is full.
///
/// `bytes` must not be empty: the descriptors travel with them. Never raises SIGPIPE.
///
/// # Errors
///
/// `InvalidInput` when there are more than [`FDS_PER_MESSAGE_MAX`] descriptors, EPIPE when the
/// other end is closed, ETOOMANYREFS when the peer leaves too many descriptors unread.
pub fn send_with_fds(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    send_flagged(socket.as_fd(), bytes, fds, None, SendFlags::NOSIGNAL)
}

/// [`send_with_fds`] that never waits, whatever the file flags are; `None` when the socket is full.
///
/// # Errors
///
/// As for [`send_with_fds`].
pub fn try_send_with_fds(
    socket: impl AsFd,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<Option<usize>> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    none_if_blocked(send_flagged(socket.as_fd(), bytes, fds, None, flags))
}

/// [`try_send_with_fds`], with the credentials of this process, which the kernel checks and gives
/// to an end that [asks for them](crate::sender).
///
/// # Errors
///
/// As for [`send_with_fds`].
pub fn try_send_as_self(
    socket: impl AsFd,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<Option<usize>> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let own = UCred { pid: getpid(), uid: geteuid(), gid: getegid() };
    match none_if_blocked(send_flagged(socket.as_fd(), bytes, fds, Some(own), flags)) {
        // A user without a number in its own namespace cannot name itself.
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::PERM | Errno::INVAL)) => {
            try_send_with_fds(socket, bytes, fds)
        }
        outcome => outcome,
    }
}

/// Receives one message and at most `fds_max` descriptors; waits for it.
///
/// Surplus descriptors are closed and reported by [`Received::truncated`].
///
/// # Errors
///
/// `InvalidInput` when `fds_max` is above [`FDS_PER_MESSAGE_MAX`]; otherwise the kernel's.
pub fn receive_with_fds(
    socket: impl AsFd,
    buffer: &mut [u8],
    fds_max: usize,
) -> io::Result<Received> {
    receive_flagged(socket.as_fd(), buffer, fds_max, RecvFlags::CMSG_CLOEXEC)
}

/// [`receive_with_fds`] that never waits; `None` when nothing is there.
///
/// # Errors
///
/// As for [`receive_with_fds`].
pub fn try_receive_with_fds(
    socket: impl AsFd,
    buffer: &mut [u8],
    fds_max: usize,
) -> io::Result<Option<Received>> {
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    none_if_blocked(receive_flagged(socket.as_fd(), buffer, fds_max, flags))
}

/// Sets or clears O_NONBLOCK. The flag belongs to the open file: every process that shares it sees
/// the change.
///
/// # Errors
///
/// The error of the kernel, for a descriptor that has no such flag.
pub fn set_nonblocking(fd: impl AsFd, nonblocking: bool) -> io::Result<()> {
    let mut flags = fcntl_getfl(&fd)?;
    flags.set(OFlags::NONBLOCK, nonblocking);
    Ok(fcntl_setfl(&fd, flags)?)
}

/// Opens a file to read, without waiting for a writer if it is a named pipe, and without making a
/// terminal that of this process. Close-on-exec.
///
/// # Errors
///
/// The error of the kernel.
pub fn open_nonblocking(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Returns whether O_NONBLOCK is set.
///
/// # Errors
///
/// The error of the kernel.
pub fn is_nonblocking(fd: impl AsFd) -> io::Result<bool> {
    Ok(fcntl_getfl(fd)?.contains(OFlags::NONBLOCK))
}

/// Has the number of `old` refer to the open file of `new` from now on, close-on-exec; what it has
/// referred to is closed. Calls of other threads that use the number at that moment go on with
/// either.
///
/// # Errors
///
/// The error of the kernel; nothing has changed then.
pub fn replace(old: BorrowedFd<'_>, new: &OwnedFd) -> io::Result<()> {
    // SAFETY: dup3 takes two numbers and touches no memory. `old` is open, and it is open and its
    // owner's afterwards, so that whoever borrows it has what it was promised.
    match unsafe { libc::dup3(new.as_raw_fd(), old.as_raw_fd(), libc::O_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// A second descriptor for the same open file, close-on-exec.
///
/// # Errors
///
/// EMFILE when this process has no room for another.
pub fn duplicate(fd: impl AsFd) -> io::Result<OwnedFd> {
    seam::enter(Call::Descriptor)?;
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, 0)?)
}

/// Counts the open descriptors of this process in /proc/self/fd. For leak checks.
///
/// # Errors
///
/// When /proc is not mounted.
pub fn open_count() -> io::Result<usize> {
    Ok(open_list()?.len())
}

/// The open descriptors of this process and what they refer to, by number. For leak checks.
///
/// # Errors
///
/// When /proc is not mounted.
pub fn open_list() -> io::Result<Vec<(i32, String)>> {
    let mut list = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // The descriptor of the listing itself is closed by now or soon: its link names /proc.
        // One that another thread closes meanwhile has no link any more.
        let Ok(target) = std::fs::read_link(entry.path()) else { continue };
        let target = target.to_string_lossy().into_owned();
        if !(target.starts_with("/proc/") && target.ends_with("/fd")) {
            list.push((number, target));
        }
    }
    list.sort_unstable();
    Ok(list)
}

/// Returns whether an error of the kernel says that there is too little of something: descriptors
/// or memory. It may pass.
#[must_use]
pub fn means_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOSPC, Errno::NOBUFS];
    Errno::from_io_error(error).is_some_and(|errno| shortages.contains(&errno))
}

/// Returns whether an error of the kernel says that this process, or the machine, may open no
/// further descriptor.
#[must_use]
pub fn means_no_descriptor(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// Returns the error of the kernel for a process that has as many descriptors open as it may.
#[must_use]
pub fn no_descriptor_left() -> io::Error {
    Errno::MFILE.into()
}

/// Returns a shortage for people: what a process, "it", or the machine has too little of, with the
/// limit of it, and what to do.
#[must_use]
pub fn explain_shortage(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE) => {
            let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
            let limit = limit.map_or("unlimited".into(), |limit| limit.to_string());
            format!(
                "it has as many descriptors open as its limit allows, {limit}: close some, or \
                 raise that limit where it is started (`ulimit -n`, or `LimitNOFILE=` in a unit of \
                 systemd)"
            )
        }
        Some(Errno::NFILE) => "the machine has as many files open as its limit allows: close \
                               some, or raise `fs.file-max` (`sysctl`)"
            .into(),
        _ => format!("it gets no more memory or space ({error}): free some, or raise its limit"),
    }
}

/// Turns `WouldBlock` into `None`.
pub(crate) fn none_if_blocked<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// `prefix` and 16 random hexadecimal digits: a name that is free and cannot be predicted.
pub(crate) fn random_name(prefix: &str) -> io::Result<String> {
    Ok(format!("{prefix}{:016x}", u64::from_ne_bytes(random::bytes()?)))
}

fn send_flagged(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
    credentials: Option<UCred>,
    flags: SendFlags,
) -> io::Result<usize> {
    check_fd_count(fds.len())?;
    let mut space = [MaybeUninit::uninit(); CONTROL_BYTES_MAX];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if let Some(credentials) = credentials
        && !control.push(SendAncillaryMessage::ScmCredentials(credentials))
    {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let bytes = seam::mangle(bytes);
    let parts = [IoSlice::new(&bytes)];
    let must_not_wait = flags.contains(SendFlags::DONTWAIT);
    loop {
        let sent = seam::transfer(Call::SendPacket, socket, must_not_wait, |must_not_wait| {
            let mut flags = flags;
            flags.set(SendFlags::DONTWAIT, must_not_wait);
            sendmsg(socket, &parts, &mut control, flags)
        });
        match sent {
            Err(Errno::INTR) => {}
            outcome => return Ok(outcome?),
        }
    }
}

fn receive_flagged(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    fds_max: usize,
    flags: RecvFlags,
) -> io::Result<Received> {
    check_fd_count(fds_max)?;
    let mut space = [MaybeUninit::uninit(); CONTROL_BYTES_MAX];
    let control_bytes = match fds_max {
        0 => 0,
        count => rustix::cmsg_space!(ScmRights(count)),
    };
    let mut control = RecvAncillaryBuffer::new(&mut space[..control_bytes]);
    let mut parts = [IoSliceMut::new(buffer)];
    let must_not_wait = flags.contains(RecvFlags::DONTWAIT);
    let message = loop {
        let come = seam::transfer(Call::ReceivePacket, socket, must_not_wait, |must_not_wait| {
            let mut flags = flags;
            flags.set(RecvFlags::DONTWAIT, must_not_wait);
            recvmsg(socket, &mut parts, &mut control, flags)
        });
        match come {
            Err(Errno::INTR) => {}
            outcome => break outcome?,
        }
    };
    let mut truncated = message.flags.intersects(ReturnFlags::CTRUNC | ReturnFlags::TRUNC);
    let mut fds = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(arrived) = part {
            fds.extend(arrived);
        }
    }
    // The control space is rounded up, so one more than asked for may fit.
    if fds.len() > fds_max {
        fds.truncate(fds_max);
        truncated = true;
    }
    Ok(Received { bytes: message.bytes, fds, truncated })
}

pub(crate) fn check_fd_count(count: usize) -> io::Result<()> {
    match count <= FDS_PER_MESSAGE_MAX {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{count} descriptors in one message, at most {FDS_PER_MESSAGE_MAX} are allowed"
            ),
        )),
    }
}

const CONTROL_BYTES_MAX: usize =
    rustix::cmsg_space!(ScmRights(FDS_PER_MESSAGE_MAX), ScmCredentials(1));
