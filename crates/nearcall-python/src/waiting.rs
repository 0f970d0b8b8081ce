//! Waiting in a thread of Python.
//!
//! **Invariants:** the lock of the interpreter is released meanwhile; a signal such as that of
//! Ctrl-C ends the wait within [`SLICE`]; no thread waits here once the interpreter ends, since it
//! could not return to it.
//! **Not here:** waiting in a loop of asyncio (`notifier.rs`).

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use pyo3::{PyResult, Python, pyfunction};

use crate::failure;

/// How long a thread waits at most before it looks for signals.
pub(crate) const SLICE: Duration = Duration::from_millis(50);
/// How long the end of the interpreter waits for threads that wait here, in steps of this length.
const SHUTDOWN_STEP: Duration = Duration::from_millis(5);
const SHUTDOWN_STEPS_MAX: u32 = 200;

static IS_ENDING: AtomicBool = AtomicBool::new(false);
static WAITING: AtomicUsize = AtomicUsize::new(0);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    static WAKER: Waker = Waker::from(Arc::new(Unpark(thread::current())));
}

/// Counts a thread that waits.
struct Waits;

impl Waits {
    fn enter() -> Self {
        WAITING.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns whether the interpreter ends.
pub(crate) fn is_ending() -> bool {
    IS_ENDING.load(Ordering::SeqCst)
}

/// Waits for the output of a future.
///
/// # Errors
///
/// The exception of a signal handler, such as `KeyboardInterrupt`; `CANCELLED`: the interpreter
/// ends.
pub(crate) fn block_on<F: Future + Send>(py: Python<'_>, future: F) -> PyResult<F::Output>
where
    F::Output: Send,
{
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = poll_for(py, future.as_mut(), SLICE) {
            return Ok(output);
        }
        py.check_signals()?;
        if is_ending() {
            return Err(failure::ending(py));
        }
    }
}

/// Waits for so long, which is one slice at most.
pub(crate) fn poll_for<F: Future + Send + ?Sized>(
    py: Python<'_>,
    mut future: Pin<&mut F>,
    time: Duration,
) -> Poll<F::Output>
where
    F::Output: Send,
{
    py.detach(|| {
        let _waits = Waits::enter();
        WAKER.with(|waker| {
            let mut context = Context::from_waker(waker);
            let polled = future.as_mut().poll(&mut context);
            if polled.is_ready() || is_ending() {
                return polled;
            }
            // A wake-up may be for an earlier future of this thread: then it is polled again.
            thread::park_timeout(time);
            future.poll(&mut context)
        })
    })
}

/// Ends all waits, before the interpreter ends. No wait begins after it.
#[pyfunction]
pub(crate) fn shutdown(py: Python<'_>) {
    IS_ENDING.store(true, Ordering::SeqCst);
    py.detach(|| {
        for _ in 0..SHUTDOWN_STEPS_MAX {
            if WAITING.load(Ordering::SeqCst) == 0 {
                return;
            }
            thread::park_timeout(SHUTDOWN_STEP);
        }
    });
}

/// Does something that waits, in a thread that has released the interpreter, and that something
/// else ends before the interpreter does.
pub(crate) fn counted<R>(wait: impl FnOnce() -> R) -> R {
    let _waits = Waits::enter();
    wait()
}
