//! POSIX message queues without a name: created, unlinked at once, passed as descriptors.
//!
//! **Invariants:** a queue exists as long as a process holds its descriptor, and no longer.
//! O_NONBLOCK belongs to the open file, which both processes share, so it is never set here; the
//! forms that do not wait pass a time long past instead.
#![allow(unsafe_code, reason = "rustix has no POSIX message queues")]

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use rustix::process::Resource;

use crate::clock::realtime_ns;
use crate::deadline::Deadline;
use crate::{platform, process};

/// A queue as the kernel made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Most messages it holds.
    pub messages_max: usize,
    /// Longest message. A receive buffer must have at least this size.
    pub message_bytes_max: usize,
    /// Messages in it now.
    pub messages: usize,
}

/// The limits of this machine. `None` if the file cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Queues of all users together (fs.mqueue.queues_max).
    pub queues_max: Option<u64>,
    /// Messages in one queue (fs.mqueue.msg_max).
    pub messages_max: Option<u64>,
    /// Bytes of one message (fs.mqueue.msgsize_max).
    pub message_bytes_max: Option<u64>,
    /// Bytes of all queues of this user (RLIMIT_MSGQUEUE); `None` also for no limit.
    pub user_bytes_max: Option<u64>,
}

/// The reason why no queue was created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The kernel has no message queues (CONFIG_POSIX_MQUEUE).
    #[error("this kernel has no POSIX message queues")]
    Unsupported,
    /// More or longer messages than fs.mqueue.msg_max and msgsize_max allow, or zero.
    #[error(
        "size refused: fs.mqueue.msg_max is {}, fs.mqueue.msgsize_max is {}",
        number(.0.messages_max),
        number(.0.message_bytes_max)
    )]
    Size(Limits),
    /// fs.mqueue.queues_max is reached.
    #[error("fs.mqueue.queues_max ({}) is reached on this machine", number(.0.queues_max))]
    TooMany(Limits),
    /// RLIMIT_MSGQUEUE of this user is reached, or the process has no room for a descriptor.
    #[error(
        "RLIMIT_MSGQUEUE ({} bytes for this user) or the limit of descriptors is reached",
        number(.0.user_bytes_max)
    )]
    UserLimit(Limits),
    /// Anything else.
    #[error("cannot make a message queue: {0}")]
    Os(io::Error),
}

/// Makes a queue that has no name any more when this returns. Read [`attributes`] for what it got.
///
/// # Errors
///
/// [`CreateError`] names the limit that was met.
pub fn create_unlinked(messages_max: usize, message_bytes: usize) -> Result<OwnedFd, CreateError> {
    let name = crate::descriptor::random_name("/nearcall-").map_err(CreateError::Os)?;
    let name = CString::new(name).map_err(|error| CreateError::Os(error.into()))?;
    // SAFETY: mq_attr is plain integers, so zeros are a value.
    let mut attr: libc::mq_attr = unsafe { MaybeUninit::zeroed().assume_init() };
    let too_large = |_| CreateError::Size(limits());
    attr.mq_maxmsg = messages_max.try_into().map_err(too_large)?;
    attr.mq_msgsize = message_bytes.try_into().map_err(too_large)?;
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    let mode: libc::mode_t = 0o600;
    // SAFETY: the name ends with NUL and the attributes are initialised; both outlive the call.
    // With O_CREAT the call takes a mode and a pointer to attributes.
    let fd = unsafe { libc::mq_open(name.as_ptr(), flags, mode, &raw const attr) };
    if fd < 0 {
        return Err(create_error(io::Error::last_os_error()));
    }
    // SAFETY: on Linux an mqd_t is a descriptor; the kernel has just created it.
    let queue = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: the name ends with NUL and outlives the call.
    match unsafe { libc::mq_unlink(name.as_ptr()) } {
        0 => Ok(queue),
        _ => Err(CreateError::Os(io::Error::last_os_error())),
    }
}

/// The sizes of a queue and how full it is.
///
/// # Errors
///
/// EBADF for what is no queue.
pub fn attributes(queue: impl AsFd) -> io::Result<Attributes> {
    let mut attr = MaybeUninit::<libc::mq_attr>::zeroed();
    // SAFETY: the pointer is to a local of the right type.
    if unsafe { libc::mq_getattr(queue.as_fd().as_raw_fd(), attr.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: filled by the kernel; plain integers.
    let attr = unsafe { attr.assume_init() };
    Ok(Attributes {
        messages_max: usize::try_from(attr.mq_maxmsg).unwrap_or(0),
        message_bytes_max: usize::try_from(attr.mq_msgsize).unwrap_or(0),
        messages: usize::try_from(attr.mq_curmsgs).unwrap_or(0),
    })
}

/// Sends one message and waits while the queue is full.
///
/// # Errors
///
/// EMSGSIZE when it is too long.
pub fn send(queue: impl AsFd, message: &[u8]) -> io::Result<()> {
    send_until(queue, message, None).map(drop)
}

/// Sends one message; false when the queue stays full until `deadline`.
///
/// The kernel counts on the wall clock here: if it is set during the wait, the wait may be longer
/// or shorter.
///
/// # Errors
///
/// As for [`send`].
pub fn send_timeout(
    queue: impl AsFd,
    message: &[u8],
    deadline: impl Into<Deadline>,
) -> io::Result<bool> {
    send_until(queue, message, deadline)
}

/// Sends one message; false when the queue is full.
///
/// # Errors
///
/// As for [`send`].
pub fn try_send(queue: impl AsFd, message: &[u8]) -> io::Result<bool> {
    send_until(queue, message, Deadline::NOW)
}

/// Receives the oldest message and waits for it. Returns its length.
///
/// # Errors
///
/// EMSGSIZE when `buffer` is shorter than the longest message the queue allows.
pub fn receive(queue: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let bytes = receive_until(queue, buffer, None)?;
    // Without a deadline the kernel never answers "not in time".
    bytes.ok_or_else(|| io::ErrorKind::TimedOut.into())
}

/// Receives the oldest message; `None` when none comes in time. Zero does not wait. The wall clock
/// counts, as in [`send_timeout`].
///
/// # Errors
///
/// As for [`receive`].
pub fn receive_timeout(
    queue: impl AsFd,
    buffer: &mut [u8],
    deadline: impl Into<Deadline>,
) -> io::Result<Option<usize>> {
    receive_until(queue, buffer, deadline)
}

/// Receives the oldest message; `None` when there is none.
///
/// # Errors
///
/// As for [`receive`].
pub fn try_receive(queue: impl AsFd, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    receive_until(queue, buffer, Deadline::NOW)
}

/// Reads the limits of this machine.
#[must_use]
pub fn limits() -> Limits {
    let read = |name: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/fs/mqueue/{name}")).ok()?;
        text.trim().parse().ok()
    };
    Limits {
        queues_max: read("queues_max"),
        messages_max: read("msg_max"),
        message_bytes_max: read("msgsize_max"),
        user_bytes_max: user_bytes_max(),
    }
}

fn number(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unknown".to_owned(), |limit| limit.to_string())
}

fn create_error(error: io::Error) -> CreateError {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => CreateError::Unsupported,
        Some(libc::EINVAL) => CreateError::Size(limits()),
        Some(libc::ENOSPC) => CreateError::TooMany(limits()),
        Some(libc::EMFILE) => CreateError::UserLimit(limits()),
        _ => CreateError::Os(error),
    }
}

fn send_until(queue: impl AsFd, message: &[u8], deadline: impl Into<Deadline>) -> io::Result<bool> {
    let queue = queue.as_fd().as_raw_fd();
    let done = until(deadline, |time| {
        // SAFETY: `message` is readable for its length; `time` is null (no limit) or points to a
        // timespec that outlives the call.
        let outcome = unsafe {
            libc::mq_timedsend(queue, message.as_ptr().cast(), message.len(), PRIORITY, time)
        };
        usize::try_from(outcome)
    })?;
    Ok(done.is_some())
}

fn receive_until(
    queue: impl AsFd,
    buffer: &mut [u8],
    deadline: impl Into<Deadline>,
) -> io::Result<Option<usize>> {
    let queue = queue.as_fd().as_raw_fd();
    until(deadline, |time| {
        // SAFETY: `buffer` is writable for its length; a null priority is not stored; `time` is
        // null (no limit) or points to a timespec that outlives the call.
        let outcome = unsafe {
            libc::mq_timedreceive(
                queue,
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                ptr::null_mut(),
                time,
            )
        };
        usize::try_from(outcome)
    })
}

/// Repeats `call` over interruptions until its time is over. A negative result means: see errno.
fn until<E>(
    deadline: impl Into<Deadline>,
    mut call: impl FnMut(*const libc::timespec) -> Result<usize, E>,
) -> io::Result<Option<usize>> {
    let deadline = deadline.into();
    loop {
        let time = deadline.remaining().map(realtime_after);
        if let Ok(value) = call(time.as_ref().map_or(ptr::null(), ptr::from_ref)) {
            return Ok(Some(value));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ETIMEDOUT | libc::EAGAIN) => return Ok(None),
            _ => return Err(error),
        }
    }
}

/// The wall-clock time `remaining` from now; for zero a time long past, without reading the clock.
fn realtime_after(remaining: Duration) -> libc::timespec {
    let at = match remaining.is_zero() {
        true => Duration::ZERO,
        false => Duration::from_nanos(realtime_ns()).saturating_add(remaining),
    };
    platform::timespec(at)
}

fn user_bytes_max() -> Option<u64> {
    process::limit(Resource::Msgqueue).ok()?.current
}

/// One priority for all messages, so that the queue keeps their order.
const PRIORITY: libc::c_uint = 0;
