//! SIGTERM and SIGINT for a program that ends in an orderly way: a descriptor reports the first,
//! the second ends the process at once.
//!
//! A handler and not a signalfd: a signalfd needs the signals blocked in every thread of the
//! process, also in those that started before. A handler runs in whichever thread takes the signal.
//! **Invariants:** the handler makes system calls only, none of which waits, and keeps errno; when
//! the last [`TerminationSignals`] is dropped, the actions from before hold again.
//! **Not here:** what a program does when it is asked to end.
#![allow(unsafe_code, reason = "rustix has no signal handlers")]

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{NO_FD, Signal, SignalSet, block, unblock};
use crate::eventfd;

/// Reports SIGTERM and SIGINT as long as it lives. Several may live at once; each reports the same
/// signal. A server that is told to end as soon as it listens needs one from before that; its
/// `run_until_signal`, and each one after that, returns at once if a signal has come.
///
/// The first signal makes [`fd`](Self::fd) readable. The second, whichever of the two it is, has
/// its default action: it ends the process. An ignored signal is caught as well. The thread that
/// made it does not block the two signals meanwhile, so they are taken even if every other thread
/// blocks them.
#[must_use = "the signals are caught as long as it lives"]
pub struct TerminationSignals {
    /// Those of the two that this thread had blocked.
    blocked: Vec<Signal>,
    /// The mask is the thread's.
    _of_thread: PhantomData<*const ()>,
}

/// The signals that ask a program to end.
const SIGNALS: [Signal; 2] = [Signal::TERM, Signal::INT];

impl TerminationSignals {
    /// Installs the handler.
    ///
    /// # Errors
    ///
    /// EMFILE when this process has no room for a descriptor, which is made once.
    pub fn install() -> io::Result<Self> {
        let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        if users.count == 0 {
            let fd = event_fd()?;
            // What came before the last one was dropped was for that one.
            eventfd::try_read(fd)?;
            HAS_COME.store(false, Ordering::Release);
            users.before = catch()?;
        }
        users.count += 1;
        drop(users);
        let mut termination = Self { blocked: Vec::new(), _of_thread: PhantomData };
        // From here on its drop takes everything back.
        let before = unblock(&SignalSet::new(&SIGNALS))?;
        termination.blocked = SIGNALS.into_iter().filter(|one| before.contains(*one)).collect();
        Ok(termination)
    }

    /// A descriptor that is readable from the first signal on, until the last `TerminationSignals`
    /// is dropped. Do not read from it.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'static> {
        // SAFETY: `install` made the descriptor, and it is never closed.
        unsafe { BorrowedFd::borrow_raw(EVENT_FD.load(Ordering::Acquire)) }
    }
}

impl std::fmt::Debug for TerminationSignals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TerminationSignals").finish_non_exhaustive()
    }
}

impl Drop for TerminationSignals {
    fn drop(&mut self) {
        let mut users = USERS.lock().unwrap_or_else(PoisonError::into_inner);
        users.count -= 1;
        if users.count == 0 {
            restore(std::mem::take(&mut users.before));
        }
        drop(users);
        // Others may have been blocked or unblocked meanwhile, so the mask is not set as a whole.
        let _ = block(&SignalSet::new(&self.blocked));
    }
}

/// Has both signals caught. Returns their actions from before.
fn catch() -> io::Result<Vec<libc::sigaction>> {
    // SAFETY: all zeros is a valid sigaction: default handler, no flags, empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    let handler: extern "C" fn(libc::c_int) = on_termination;
    action.sa_sigaction = handler as libc::sighandler_t;
    // System calls of the thread that takes the signal go on where they can.
    action.sa_flags = libc::SA_RESTART;
    let mut before = Vec::with_capacity(SIGNALS.len());
    for signal in SIGNALS {
        let mut old = MaybeUninit::zeroed();
        // SAFETY: both pointers are to locals. The handler makes system calls that may be made in a
        // handler, and keeps errno.
        let outcome =
            unsafe { libc::sigaction(signal.as_raw(), &raw const action, old.as_mut_ptr()) };
        if outcome != 0 {
            let error = io::Error::last_os_error();
            restore(before);
            return Err(error);
        }
        // SAFETY: filled by the call above.
        before.push(unsafe { old.assume_init() });
    }
    Ok(before)
}

/// Puts back the actions that [`catch`] returned.
fn restore(before: Vec<libc::sigaction>) {
    for (signal, action) in SIGNALS.into_iter().zip(before) {
        // SAFETY: the pointer is to an action that the kernel returned; it may be put back.
        unsafe { libc::sigaction(signal.as_raw(), &raw const action, ptr::null_mut()) };
    }
}

/// Returns the descriptor of this process for the signals. The caller holds the lock of `USERS`.
fn event_fd() -> io::Result<BorrowedFd<'static>> {
    if EVENT_FD.load(Ordering::Acquire) == NO_FD {
        let fd = eventfd::create(eventfd::Kind::Counter)?;
        EVENT_FD.store(fd.into_raw_fd(), Ordering::Release);
    }
    // SAFETY: the descriptor was made above or by an earlier call, and it is never closed.
    Ok(unsafe { BorrowedFd::borrow_raw(EVENT_FD.load(Ordering::Acquire)) })
}

extern "C" fn on_termination(signal: libc::c_int) {
    // SAFETY: glibc's errno is a thread-local integer whose address is always valid.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let saved = unsafe { *errno };
    if HAS_COME.swap(true, Ordering::AcqRel) {
        // SAFETY: `signal` may be called in a handler, and SIG_DFL is an action of both signals.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        // SAFETY: `raise` may be called in a handler. The signal comes when the handler returns,
        // and ends the process.
        unsafe { libc::raise(signal) };
    } else {
        let one = 1u64.to_ne_bytes();
        let fd = EVENT_FD.load(Ordering::Acquire);
        // SAFETY: eight readable bytes; write may be called in a handler.
        unsafe { libc::write(fd, one.as_ptr().cast(), one.len()) };
    }
    // SAFETY: as above.
    unsafe { *errno = saved };
}

/// Those that wait for the signals.
struct Users {
    count: usize,
    /// What held before the first of them.
    before: Vec<libc::sigaction>,
}

static USERS: Mutex<Users> = Mutex::new(Users { count: 0, before: Vec::new() });
/// A signal has come since the first of the users.
static HAS_COME: AtomicBool = AtomicBool::new(false);
/// Readable from then on.
static EVENT_FD: AtomicI32 = AtomicI32::new(NO_FD);
