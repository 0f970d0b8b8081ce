//! Eventfd: a counter that can be polled, as a doorbell or a semaphore.
//!
//! A process that shares it can fill it or change its file flags, and then a blocking write here
//! waits. Use it only between processes that trust each other.
//! **Not here:** waiting for several descriptors (`epoll.rs`, `poll.rs`).
#![allow(unsafe_code, reason = "rustix has no asynchronous I/O of the kernel")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Mutex, TryLockError};

use rustix::event::EventfdFlags;
use rustix::io::{Errno, retry_on_intr};

use crate::deadline::Deadline;
use crate::descriptor::none_if_blocked;
use crate::fork::Epoch;
use crate::poll::{Interest, poll_one};
use crate::seam::{self, Call};

/// The amount that a read takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Everything: a read gives the sum and sets it to zero.
    Counter,
    /// One: a read takes one off and gives 1.
    Semaphore,
}

/// A new eventfd at zero, blocking, close-on-exec.
///
/// # Errors
///
/// EMFILE when this process has no room for a descriptor.
pub fn create(kind: Kind) -> io::Result<OwnedFd> {
    let flags = match kind {
        Kind::Counter => EventfdFlags::CLOEXEC,
        Kind::Semaphore => EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE,
    };
    seam::enter(Call::Descriptor)?;
    Ok(rustix::event::eventfd(0, flags)?)
}

/// Adds one; waits in the rare case that the counter is full (2^64 - 2).
///
/// # Errors
///
/// The error of the kernel.
pub fn add_one(eventfd: impl AsFd) -> io::Result<()> {
    retry_on_intr(|| rustix::io::write(&eventfd, &1u64.to_ne_bytes()))?;
    Ok(())
}

/// Adds one unless the counter is full: then false. Costs a poll before the write. Waits if another
/// process fills the counter in between: for an eventfd that only this process has, or where
/// [`signal`] is missing.
///
/// # Errors
///
/// The error of the kernel.
pub fn try_add_one(eventfd: impl AsFd) -> io::Result<bool> {
    match poll_one(&eventfd, Interest::Writable, Deadline::NOW)? {
        Some(ready) if ready.writable => Ok(none_if_blocked(add_one(eventfd))?.is_some()),
        _ => Ok(false),
    }
}

/// Adds one as the kernel itself does for its own events, which never waits: what does not fit is
/// not added, and then the counter wakes in any case. Whoever else holds the eventfd can fill it at
/// any moment, so neither a look before a write nor `O_NONBLOCK`, which they share, would do.
///
/// Two system calls, by the end of an asynchronous poll of the eventfd itself: at once if there is
/// room in the counter, else when the poll is given up. For rare events.
///
/// # Errors
///
/// ENOSYS where the kernel has no asynchronous I/O, EPERM where a filter of system calls refuses it
/// ([`lacks_signal`]); EAGAIN at `fs.aio-max-nr`, which any user can exhaust. Nothing was added.
pub fn signal(eventfd: impl AsFd) -> io::Result<()> {
    // The lock is not waited for: in a forked process no thread may be there to release it.
    let mut kept = match CONTEXT.try_lock() {
        Ok(kept) => Some(kept),
        Err(TryLockError::Poisoned(kept)) => Some(kept.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    };
    let mut own = None;
    let context = kept.as_deref_mut().unwrap_or(&mut own);
    if !context.as_ref().is_some_and(|context| context.epoch.is_current()) {
        *context = Some(AioContext::create()?);
    }
    let fd = eventfd.as_fd().as_raw_fd().cast_unsigned();
    let request = AioRequest {
        opcode: AIO_POLL,
        fd,
        // The events, in the place of a buffer.
        buffer: libc::POLLOUT.unsigned_abs().into(),
        flags: AIO_SIGNALS_EVENTFD,
        eventfd: fd,
        ..AioRequest::default()
    };
    let outcome = context.as_ref().map_or(Ok(()), |context| context.complete(request));
    if outcome.is_err() {
        // Its request, which may be under way, ends with it.
        *context = None;
    }
    outcome
}

/// Returns whether [`signal`] failed because this process cannot make its calls, and never will.
#[must_use]
pub fn lacks_signal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM))
}

/// The context of this process. It is kept, since the kernel takes tens of milliseconds to end one:
/// it waits for all processors to have passed a quiescent state, and its caller with it.
static CONTEXT: Mutex<Option<AioContext>> = Mutex::new(None);

/// A context of the kernel's asynchronous I/O, for one request at a time.
struct AioContext {
    id: libc::c_ulong,
    /// A forked process inherits the number only.
    epoch: Epoch,
}

impl AioContext {
    fn create() -> io::Result<Self> {
        let mut id = 0;
        // SAFETY: the kernel writes the number of the new context.
        match unsafe { libc::syscall(libc::SYS_io_setup, 1_u32, &raw mut id) } {
            0 => Ok(Self { id, epoch: Epoch::current() }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Begins the request, gives it up if it does not end at once, and takes its event.
    fn complete(&self, mut request: AioRequest) -> io::Result<()> {
        let mut requests = [&raw mut request];
        // SAFETY: the kernel copies the one request, which points to no memory, and writes its key
        // into it before the call returns.
        let submitted =
            unsafe { libc::syscall(libc::SYS_io_submit, self.id, 1_i64, requests.as_mut_ptr()) };
        if submitted != 1 {
            return Err(io::Error::last_os_error());
        }
        if !self.take_event(0)? {
            let mut event = AioEvent::default();
            // SAFETY: the kernel compares the address of the request and its key, and writes at
            // most the event. What it says does not matter: the request ends in any case.
            let _ = unsafe {
                libc::syscall(libc::SYS_io_cancel, self.id, &raw mut request, &raw mut event)
            };
            self.take_event(1)?;
        }
        Ok(())
    }

    /// Takes the event of a request that has ended. Waits for at least so many.
    fn take_event(&self, least: i64) -> io::Result<bool> {
        let mut event = AioEvent::default();
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let timeout = if least == 0 { &raw const at_once } else { std::ptr::null() };
        loop {
            // SAFETY: room for one event, and a time that the kernel reads, or none.
            let taken = unsafe {
                libc::syscall(
                    libc::SYS_io_getevents,
                    self.id,
                    least,
                    1_i64,
                    &raw mut event,
                    timeout,
                )
            };
            match taken {
                0.. => return Ok(taken > 0),
                _ if Errno::from_io_error(&io::Error::last_os_error()) == Some(Errno::INTR) => {}
                _ => return Err(io::Error::last_os_error()),
            }
        }
    }
}

impl Drop for AioContext {
    fn drop(&mut self) {
        if self.epoch.is_current() {
            // SAFETY: `create` made it, and it is destroyed once. Waits for its requests.
            let _ = unsafe { libc::syscall(libc::SYS_io_destroy, self.id) };
        }
    }
}

/// `struct io_event` of the kernel.
#[repr(C)]
#[derive(Default)]
struct AioEvent {
    data: u64,
    object: u64,
    outcomes: [i64; 2],
}

/// `struct iocb` of the kernel, little-endian.
#[repr(C)]
#[derive(Default)]
struct AioRequest {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: u32,
}

/// `IOCB_CMD_POLL`.
const AIO_POLL: u16 = 5;
/// `IOCB_FLAG_RESFD`.
const AIO_SIGNALS_EVENTFD: u32 = 1;

/// Waits until the counter is not zero and takes it, or one of it (see [`Kind`]).
///
/// # Errors
///
/// The error of the kernel.
pub fn read(eventfd: impl AsFd) -> io::Result<u64> {
    let mut count = [0; 8];
    retry_on_intr(|| rustix::io::read(&eventfd, &mut count))?;
    Ok(u64::from_ne_bytes(count))
}

/// [`read`] that does not wait; `None` when the counter is zero.
///
/// # Errors
///
/// The error of the kernel.
pub fn try_read(eventfd: impl AsFd) -> io::Result<Option<u64>> {
    let mut count = [0; 8];
    let outcome = retry_on_intr(|| {
        let mut parts = [io::IoSliceMut::new(&mut count)];
        let flags = rustix::io::ReadWriteFlags::NOWAIT;
        rustix::io::preadv2(&eventfd, &mut parts, u64::MAX, flags)
    });
    if matches!(outcome, Err(Errno::OPNOTSUPP | Errno::NOSYS)) {
        // Before Linux 5.10: ask, then read. Only the single reader is sure not to wait.
        return match poll_one(&eventfd, Interest::Readable, Deadline::NOW)? {
            None => Ok(None),
            Some(_) => none_if_blocked(read(eventfd)),
        };
    }
    let bytes = none_if_blocked(outcome.map_err(io::Error::from))?;
    Ok(bytes.map(|_| u64::from_ne_bytes(count)))
}
