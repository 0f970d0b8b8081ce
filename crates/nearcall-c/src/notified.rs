//! Started calls, and steps of calls that stream, whose end is reported to the program.
//!
//! **Invariants:** what the program gives to be called is called once, by a thread of this library,
//! which never waits for a call; the result is there before that, and is taken once.
//! **Not here:** the handle (`pending.rs`), streams (`notified_streams.rs`), calls as futures
//! (`nearcall::dynamic`).
//!
//! **Invariant:** the end of a call of `nearcall_start_notified`, and of a step of a stream, is
//! reported once, also if it is cancelled; a coroutine that was destroyed does not go on. *Checked
//! by* `c_calls_c_over_shared_memory`, `coroutines_of_cpp_await_calls_and_streams`.

use std::cell::Cell;
use std::ffi::c_void;
use std::pin::Pin;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::{process, thread};

use nearcall::Status;
use nearcall::client::ReplyMetadata;
use nearcall::dynamic::Encoded;

use crate::handles::Kind;

/// How a call or a step has ended. Only a step that receives may end well without a message.
pub(crate) type Outcome = (Result<Option<Encoded>, Status>, ReplyMetadata);
type Work = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// What is called when a call has ended.
pub(crate) struct Report {
    pub(crate) done: unsafe extern "C" fn(data: *mut c_void),
    pub(crate) data: *mut c_void,
}

// SAFETY: by the header `done` may be called in a thread of the library, and the data are only
// passed to it.
unsafe impl Send for Report {}

/// A call whose end is reported. Dropping it cancels the call.
pub(crate) struct Notified(Arc<Operation>);

impl Kind for Notified {
    const NAME: &'static str = "started call";
}

struct Operation {
    state: Mutex<State>,
    has_ended: Condvar,
    report: Mutex<Option<Report>>,
    queue: Sender<Arc<Operation>>,
    /// The thread that polls it is not in a forked process.
    process: u32,
}

enum State {
    Running(Work),
    Ended(Box<Outcome>),
    Taken,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    static POLLS_CALLS: Cell<bool> = const { Cell::new(false) };
}

/// Returns where to send what may go on, and starts the thread that takes it.
fn queue() -> Result<Sender<Arc<Operation>>, Status> {
    static QUEUE: Mutex<Option<(u32, Sender<Arc<Operation>>)>> = Mutex::new(None);
    let mut queue = lock(&QUEUE);
    if let Some((process, sender)) = &*queue
        && *process == process::id()
    {
        return Ok(sender.clone());
    }
    let (sender, receiver) = mpsc::channel::<Arc<Operation>>();
    let run = move || {
        POLLS_CALLS.set(true);
        for operation in receiver {
            if operation.poll() {
                operation.report();
            }
        }
    };
    let started = thread::Builder::new().name("nearcall-calls".into()).spawn(run);
    started.map_err(|error| Status::resource_exhausted(format!("no thread for calls: {error}")))?;
    *queue = Some((process::id(), sender.clone()));
    Ok(sender)
}

impl Notified {
    /// Starts a call, once `keep` has it: its end may be reported at once.
    pub(crate) fn start(
        work: impl Future<Output = Outcome> + Send + 'static,
        report: Report,
        keep: impl FnOnce(Self),
    ) -> Result<(), Status> {
        let operation = Arc::new(Operation {
            state: Mutex::new(State::Running(Box::pin(work))),
            has_ended: Condvar::new(),
            report: Mutex::new(Some(report)),
            queue: queue()?,
            process: process::id(),
        });
        keep(Self(Arc::clone(&operation)));
        // One that ends at once is reported by that thread nevertheless.
        if operation.poll() {
            operation.go_on();
        }
        Ok(())
    }

    /// Returns whether this is a process that was forked from that of the call, whose thread may
    /// have held any lock at that time.
    fn is_of_parent(&self) -> bool {
        self.0.process != process::id()
    }

    /// Returns what can cancel it.
    pub(crate) fn canceller(&self) -> Canceller {
        Canceller(Arc::downgrade(&self.0))
    }

    pub(crate) fn is_done(&self) -> bool {
        self.is_of_parent() || !matches!(*lock(&self.0.state), State::Running(_))
    }

    /// Waits for the end, and returns the result.
    pub(crate) fn wait(&self) -> Result<Outcome, Status> {
        if self.is_of_parent() {
            return Err(of_parent());
        }
        let mut state = lock(&self.0.state);
        while matches!(*state, State::Running(_)) {
            if POLLS_CALLS.get() {
                let text = "this thread of the library reports the ends of calls: wait elsewhere";
                return Err(Status::failed_precondition(text));
            }
            state = self.0.has_ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match std::mem::replace(&mut *state, State::Taken) {
            State::Ended(outcome) => Ok(*outcome),
            State::Running(_) | State::Taken => {
                Err(Status::failed_precondition("the result was taken, or the call was cancelled"))
            }
        }
    }
}

#[cold]
pub(crate) fn of_parent() -> Status {
    let text = "the call was started before this process was forked, and is the parent's: start a \
                new one here";
    Status::failed_precondition(text)
}

/// Cancels what was started, from elsewhere than its handle.
#[derive(Default)]
pub(crate) struct Canceller(Weak<Operation>);

impl Canceller {
    /// Ends it with `CANCELLED`, unless it has ended.
    pub(crate) fn cancel(&self) {
        let Some(operation) = self.0.upgrade() else { return };
        let cancelled = (Err(Status::cancelled("its stream was freed")), ReplyMetadata::default());
        operation.end(State::Ended(Box::new(cancelled)));
    }
}

impl Drop for Notified {
    fn drop(&mut self) {
        if self.is_of_parent() {
            // Its end is reported there.
            return std::mem::forget(Arc::clone(&self.0));
        }
        self.0.end(State::Taken);
    }
}

impl Operation {
    /// Ends it, unless it has ended.
    fn end(self: &Arc<Self>, with: State) {
        let mut state = lock(&self.state);
        if matches!(*state, State::Running(_)) {
            let work = std::mem::replace(&mut *state, with);
            drop(state);
            drop(work);
            self.has_ended.notify_all();
            Arc::clone(self).go_on();
        }
    }

    /// Returns whether the call has ended, or was cancelled.
    fn poll(self: &Arc<Self>) -> bool {
        let mut state = lock(&self.state);
        let State::Running(work) = &mut *state else { return true };
        let waker = Waker::from(Arc::clone(self));
        match work.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(outcome) => {
                *state = State::Ended(Box::new(outcome));
                self.has_ended.notify_all();
                true
            }
            Poll::Pending => false,
        }
    }

    fn report(&self) {
        let report = lock(&self.report).take();
        if let Some(Report { done, data }) = report {
            // SAFETY: by the header it may be called once, in this thread, and lets nothing unwind.
            unsafe { done(data) };
        }
    }

    /// Has the thread poll it.
    fn go_on(self: Arc<Self>) {
        let queue = self.queue.clone();
        let _ = queue.send(self);
    }
}

impl Wake for Operation {
    fn wake(self: Arc<Self>) {
        self.go_on();
    }
}
