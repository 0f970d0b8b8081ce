//! An operation under way: a call, or a step of one that streams.
//!
//! **Invariants:** its result is taken once; one that is cancelled or dropped ends what it does.
//! **Not here:** what it does (`client.rs`, `streams.rs`, `server_call.rs`).

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use nearcall::{Code, Status};
use pyo3::exceptions::PyRuntimeError;
use pyo3::{Py, PyAny, PyResult, Python, pyclass, pymethods};

use crate::failure;
use crate::notifier::Notifier;
use crate::options::duration;
use crate::waiting::{self, SLICE};

/// Makes the result, in a thread of Python.
type Finish = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;
/// What an operation does.
type Work = Pin<Box<dyn Future<Output = Finish> + Send>>;

enum State {
    Running(Work),
    Done(Finish),
    Taken,
}

/// An operation under way. Dropping it cancels it.
#[pyclass(frozen)]
pub(crate) struct Operation(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Of the thread or loop that has polled last.
    waiter: Mutex<Option<Waker>>,
    /// A thread polls it whenever it may go on, whether or not anything waits for it.
    is_background: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Operation {
    /// Makes an operation of what it does, and of what makes its output the result.
    pub(crate) fn new<T: Send + 'static>(
        work: impl Future<Output = T> + Send + 'static,
        finish: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        let work = async move {
            let output = work.await;
            let finish: Finish = Box::new(|py| finish(py, output));
            finish
        };
        let state = Mutex::new(State::Running(Box::pin(work)));
        let (waiter, is_background) = (Mutex::default(), AtomicBool::new(false));
        Self(Arc::new(Shared { state, waiter, is_background }))
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        // Its wakers may hold it.
        drop(std::mem::replace(&mut *lock(&self.0.state), State::Taken));
    }
}

impl Shared {
    /// Polls for a thread or loop, which is woken when the operation may go on.
    fn poll_for(self: &Arc<Self>, waiter: &Waker) -> bool {
        if !self.is_background.load(Ordering::SeqCst) {
            let is_done = self.poll_with(waiter);
            if !is_done {
                *lock(&self.waiter) = Some(waiter.clone());
            }
            return is_done;
        }
        *lock(&self.waiter) = Some(waiter.clone());
        self.poll_with(&Waker::from(Arc::clone(self)))
    }

    fn poll_with(&self, waker: &Waker) -> bool {
        let mut state = lock(&self.state);
        let State::Running(work) = &mut *state else { return true };
        match work.as_mut().poll(&mut Context::from_waker(waker)) {
            Poll::Ready(finish) => {
                *state = State::Done(finish);
                true
            }
            Poll::Pending => false,
        }
    }

    fn wake_waiter(&self) {
        let waiter = lock(&self.waiter).take();
        waiter.into_iter().for_each(Waker::wake);
    }
}

/// The waker of an operation in the background.
impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.wake_waiter();
        background(self);
    }
}

/// Has the thread for the background poll an operation.
fn background(operation: Arc<Shared>) {
    static QUEUE: OnceLock<Sender<Arc<Shared>>> = OnceLock::new();
    let queue = QUEUE.get_or_init(|| {
        let (sender, receiver) = mpsc::channel::<Arc<Shared>>();
        let run = move || {
            for operation in receiver {
                if operation.poll_with(&Waker::from(Arc::clone(&operation))) {
                    operation.wake_waiter();
                }
            }
        };
        // Without a thread the operation goes on when it is waited for.
        let _ = thread::Builder::new().name("nearcall-python".into()).spawn(run);
        sender
    });
    let _ = queue.send(operation);
}

/// Ends when an operation does.
struct Ended<'a>(&'a Arc<Shared>);

impl Future for Ended<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0.poll_for(context.waker()) { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[pymethods]
impl Operation {
    /// Waits for the end, and returns the result.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        waiting::block_on(py, Ended(&self.0))?;
        self.result(py)
    }

    /// Waits for the end for a short time, and for so many seconds at most. Returns whether it has
    /// come.
    #[pyo3(signature = (seconds=None))]
    fn wait_briefly(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<bool> {
        let time = match seconds {
            Some(seconds) => duration("timeout", seconds)?.min(SLICE),
            None => SLICE,
        };
        let done = waiting::poll_for(py, Pin::new(&mut Ended(&self.0)), time).is_ready();
        py.check_signals()?;
        match done || !waiting::is_ending() {
            true => Ok(done),
            false => Err(failure::ending(py)),
        }
    }

    /// Returns whether it has ended. Otherwise the loop is notified with the number when it may
    /// have.
    fn poll(&self, notifier: &Notifier, number: u64) -> bool {
        self.0.poll_for(&notifier.waker(number))
    }

    /// Starts it: from now on it goes on whether or not anything waits for it.
    fn start(&self) {
        self.0.is_background.store(true, Ordering::SeqCst);
        self.0.poll_with(&Waker::from(Arc::clone(&self.0)));
    }

    /// Returns whether it has ended.
    fn is_done(&self) -> bool {
        !matches!(*lock(&self.0.state), State::Running(_))
    }

    /// Takes the result of one that has ended.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let mut state = lock(&self.0.state);
        match std::mem::replace(&mut *state, State::Taken) {
            State::Done(finish) => {
                drop(state);
                finish(py)
            }
            State::Taken => Err(PyRuntimeError::new_err("the result was taken before")),
            running @ State::Running(_) => {
                *state = running;
                Err(PyRuntimeError::new_err("the operation has not ended"))
            }
        }
    }

    /// Cancels it, unless it has ended. Returns whether it was cancelled.
    fn cancel(&self) -> bool {
        let cancelled: Finish = Box::new(|py| {
            Err(failure::error(py, &Status::new(Code::Cancelled, "cancelled by the caller")))
        });
        let mut state = lock(&self.0.state);
        if !matches!(*state, State::Running(_)) {
            return false;
        }
        let work = std::mem::replace(&mut *state, State::Done(cancelled));
        drop(state);
        drop(work);
        self.0.wake_waiter();
        true
    }
}
