//! Signals: blocking, waiting, signalfd, handlers, sending; and Ctrl-C.
//!
//! A signal that is waited for must be blocked first, in every thread that could take it: block it
//! before the threads start.
//! **Invariants:** a handler makes only calls that are allowed in one, and keeps errno.
//! **Not here:** pidfds and child processes (`process.rs`).
#![allow(unsafe_code, reason = "rustix has no signal masks, signalfd, tgkill or handlers")]

mod caught;
mod termination;

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

pub use caught::Caught;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
pub use rustix::process::Signal;
pub use termination::TerminationSignals;

use crate::deadline::Deadline;
use crate::platform;

/// A set of signals.
#[derive(Clone, Copy)]
pub struct SignalSet(libc::sigset_t);

/// A signal that arrived.
///
/// [`Signal`] has the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignalInfo {
    /// Its number; compare with [`Signal::as_raw`].
    pub signal: i32,
    /// The cause: `SI_USER`, `SI_TKILL`, ...
    pub code: i32,
    /// The sending process, for kill and tgkill; zero from outside the PID namespace.
    pub sender_pid: i32,
    /// The real user of the sender.
    pub sender_uid: u32,
}

impl SignalSet {
    /// The set of `signals`.
    #[must_use]
    pub fn new(signals: &[Signal]) -> Self {
        let mut set = empty_set();
        for signal in signals {
            // SAFETY: `set` is an initialised set, and `Signal` holds a valid number.
            unsafe { libc::sigaddset(&raw mut set, signal.as_raw()) };
        }
        Self(set)
    }

    /// Returns whether the set has `signal`.
    #[must_use]
    pub fn contains(&self, signal: Signal) -> bool {
        // SAFETY: `self.0` is an initialised set, and `Signal` holds a valid number.
        unsafe { libc::sigismember(&raw const self.0, signal.as_raw()) == 1 }
    }
}

impl std::fmt::Debug for SignalSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: `self.0` is an initialised set; a number out of range gives -1.
        let member = |number: &i32| unsafe { libc::sigismember(&raw const self.0, *number) == 1 };
        f.debug_set().entries((1..=SIGNAL_MAX).filter(member)).finish()
    }
}

/// Blocks `set` in this thread and in threads that it starts. Returns the mask from before.
///
/// # Errors
///
/// The error of the kernel.
pub fn block(set: &SignalSet) -> io::Result<SignalSet> {
    change_mask(libc::SIG_BLOCK, set)
}

/// Unblocks `set` in this thread. Returns the mask from before.
///
/// # Errors
///
/// The error of the kernel.
pub fn unblock(set: &SignalSet) -> io::Result<SignalSet> {
    change_mask(libc::SIG_UNBLOCK, set)
}

/// Restores a mask that [`block`] or [`unblock`] returned.
///
/// # Errors
///
/// The error of the kernel.
pub fn set_mask(mask: &SignalSet) -> io::Result<SignalSet> {
    change_mask(libc::SIG_SETMASK, mask)
}

/// Waits for one signal of `set`, which must be blocked, and takes it; `None` when not in time.
///
/// One system call. A signal outside `set` that has a handler does not end the wait.
///
/// # Errors
///
/// The error of the kernel.
pub fn wait_for(set: &SignalSet, deadline: impl Into<Deadline>) -> io::Result<Option<SignalInfo>> {
    let deadline = deadline.into();
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    loop {
        let remaining = deadline.remaining().map(platform::timespec);
        let remaining_ptr = remaining.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: all three pointers are to locals that outlive the call; a null timeout means no
        // limit.
        let signal =
            unsafe { libc::sigtimedwait(&raw const set.0, info.as_mut_ptr(), remaining_ptr) };
        if signal > 0 {
            break;
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EAGAIN) => return Ok(None),
            _ => return Err(error),
        }
    }
    // SAFETY: the kernel filled it, and the rest was zeroed; it holds integers and pointers.
    let info = unsafe { info.assume_init() };
    Ok(Some(SignalInfo {
        signal: info.si_signo,
        code: info.si_code,
        // SAFETY: the field is in the union at a place that was initialised, by the kernel or
        // above.
        sender_pid: unsafe { info.si_pid() },
        // SAFETY: as for the pid.
        sender_uid: unsafe { info.si_uid() },
    }))
}

/// A descriptor that gives the blocked signals of `set` to whichever thread reads it.
///
/// It reads the signals of the reading thread and those sent to the whole process. Blocking,
/// close-on-exec; set it non-blocking for an event loop.
///
/// # Errors
///
/// EMFILE when this process has no room for a descriptor.
pub fn signalfd(set: &SignalSet) -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised and outlives the call; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &raw const set.0, libc::SFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Takes one signal from a [`signalfd`]; `WouldBlock` when it is non-blocking and none is there.
///
/// # Errors
///
/// The error of the kernel.
pub fn signalfd_read(signalfd: impl AsFd) -> io::Result<SignalInfo> {
    let mut bytes = [0; size_of::<libc::signalfd_siginfo>()];
    let read = rustix::io::retry_on_intr(|| rustix::io::read(&signalfd, &mut bytes))?;
    if read != bytes.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    // SAFETY: the struct is plain integers, any bytes are a value; the array has its size.
    let info = unsafe { ptr::read_unaligned(bytes.as_ptr().cast::<libc::signalfd_siginfo>()) };
    Ok(SignalInfo {
        signal: info.ssi_signo.cast_signed(),
        code: info.ssi_code,
        sender_pid: info.ssi_pid.cast_signed(),
        sender_uid: info.ssi_uid,
    })
}

/// Sends `signal` to one thread. The ids may have been given to another process: hold a pidfd and
/// check it, or send only to threads that cannot have been reaped.
///
/// # Errors
///
/// ESRCH when there is no such thread, EPERM when it is another user's.
pub fn send_to_thread(pid: i32, tid: i32, signal: Signal) -> io::Result<()> {
    // SAFETY: tgkill takes three numbers and touches no memory of this process.
    let outcome = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, signal.as_raw()) };
    match outcome {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sends `signal` to the process of a pidfd, and to no other.
///
/// # Errors
///
/// ESRCH when it was reaped, EPERM when it is another user's.
pub fn send_by_pidfd(pidfd: impl AsFd, signal: Signal) -> io::Result<()> {
    Ok(rustix::process::pidfd_send_signal(pidfd, signal)?)
}

/// From now on the kernel sends SIGIO to process `pid` whenever the open file of `fd` becomes ready
/// (F_SETOWN and O_ASYNC). Nothing comes, and nothing fails, if this user may not signal that
/// process. For tests that play a hostile peer.
///
/// # Errors
///
/// ESRCH when there is no such process, otherwise the kernel's.
pub fn send_when_ready(fd: impl AsFd, pid: i32) -> io::Result<()> {
    // SAFETY: F_SETOWN takes a number and touches no memory of this process.
    let outcome = unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_SETOWN, pid) };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(fcntl_setfl(&fd, fcntl_getfl(&fd)? | OFlags::ASYNC)?)
}

/// SIGINT and SIGTERM as a flag. The second one ends the process at once, by the signal itself.
#[derive(Debug, Clone, Copy)]
pub struct Interrupt(BorrowedFd<'static>);

impl Interrupt {
    /// Installs the handler, for the rest of the process. Installing again changes nothing.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub fn install() -> io::Result<Self> {
        let fd = match INTERRUPT_FD.load(Ordering::Acquire) {
            NO_FD => Self::make_fd()?,
            fd => fd,
        };
        for signal in [libc::SIGINT, libc::SIGTERM] {
            // SAFETY: all zeros is a valid sigaction: default handler, no flags, empty mask.
            let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
            let handler: extern "C" fn(libc::c_int) = on_interrupt;
            action.sa_sigaction = handler as libc::sighandler_t;
            // After the first signal the default holds again, so the second one kills.
            action.sa_flags = libc::SA_RESETHAND;
            // SAFETY: the handler stores a flag and writes to a descriptor, both of which may be
            // done in a handler, and keeps errno.
            let outcome = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
            if outcome != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        // SAFETY: the descriptor is never closed, so it stays open.
        Ok(Self(unsafe { BorrowedFd::borrow_raw(fd) }))
    }

    /// Returns whether a signal has arrived.
    #[must_use]
    pub fn interrupted(self) -> bool {
        INTERRUPTED.load(Ordering::Acquire)
    }

    /// A descriptor that is readable from the first signal on, for polls that must end. Do not read
    /// from it.
    #[must_use]
    pub fn fd(self) -> BorrowedFd<'static> {
        self.0
    }

    fn make_fd() -> io::Result<i32> {
        let fd = crate::eventfd::create(crate::eventfd::Kind::Counter)?.into_raw_fd();
        match INTERRUPT_FD.compare_exchange(NO_FD, fd, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(fd),
            Err(earlier) => {
                // SAFETY: `fd` came out of an `OwnedFd` above and has no other owner.
                drop(unsafe { OwnedFd::from_raw_fd(fd) });
                Ok(earlier)
            }
        }
    }
}

extern "C" fn on_interrupt(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Release);
    let one = 1u64.to_ne_bytes();
    let fd = INTERRUPT_FD.load(Ordering::Acquire);
    // SAFETY: glibc's errno is a thread-local integer whose address is always valid.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let saved = unsafe { *errno };
    // SAFETY: eight readable bytes; write may be called in a handler.
    unsafe { libc::write(fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    // SAFETY: as above.
    unsafe { *errno = saved };
}

fn empty_set() -> libc::sigset_t {
    let mut set = MaybeUninit::zeroed();
    // SAFETY: sigemptyset initialises what the pointer points to, which is a whole set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: initialised by the line above, and all zeros is a set too.
    unsafe { set.assume_init() }
}

fn change_mask(how: libc::c_int, set: &SignalSet) -> io::Result<SignalSet> {
    let mut before = SignalSet(empty_set());
    // SAFETY: both pointers are to initialised sets that outlive the call.
    let outcome = unsafe { libc::pthread_sigmask(how, &raw const set.0, &raw mut before.0) };
    match outcome {
        0 => Ok(before),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// The last real-time signal of Linux.
const SIGNAL_MAX: i32 = 64;

const NO_FD: i32 = -1;
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static INTERRUPT_FD: AtomicI32 = AtomicI32::new(NO_FD);
