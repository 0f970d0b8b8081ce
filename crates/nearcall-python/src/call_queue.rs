//! The calls of a server that no thread of Python has taken yet.
//!
//! **Invariants:** no more than the limit wait or are served; a call that is one too many ends with
//! `RESOURCE_EXHAUSTED`.
//! **Not here:** a call (`server_call.rs`).
//!
//! **Invariant:** no thread of the runtime takes the lock of the interpreter: calls of services lie
//! in a queue until threads of Python or the loop of asyncio take them. *Checked by*
//! `test_the_end_with_open_calls`, `test_the_end_with_a_server_that_runs`.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use nearcall::dynamic::{DynamicRequest, DynamicService, Encoded};
use nearcall::{CallContext, Code, Status};

use crate::notifier;
use crate::server_call::CallState;

/// What happened to a call.
pub(crate) enum Event {
    /// It has come.
    Call(Arc<CallState>),
    /// The one with this number is not waited for any more.
    Cancelled(u64),
}

/// The calls of a server.
pub(crate) struct CallQueue {
    state: Mutex<State>,
    has_come: Condvar,
    /// Of the loop of asyncio that serves the calls. Otherwise threads do.
    notifier: Option<Arc<notifier::Shared>>,
    calls_max: usize,
}

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    open: usize,
    last_id: u64,
    is_closed: bool,
}

impl CallQueue {
    pub(crate) fn new(notifier: Option<Arc<notifier::Shared>>, calls_max: usize) -> Arc<Self> {
        let (state, has_come) = (Mutex::default(), Condvar::new());
        Arc::new(Self { state, has_come, notifier, calls_max })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what has happened, without waiting.
    pub(crate) fn take(&self) -> Vec<Event> {
        self.state().events.drain(..).collect()
    }

    /// Waits for the next call. `None`: the queue was closed.
    pub(crate) fn wait(&self) -> Option<Arc<CallState>> {
        let mut state = self.state();
        loop {
            match state.events.pop_front() {
                Some(Event::Call(call)) => return Some(call),
                Some(Event::Cancelled(_)) => {}
                None if state.is_closed => return None,
                None => {
                    state = self.has_come.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Has no thread wait any more.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.has_come.notify_all();
    }

    fn push(&self, state: &mut State, event: Event) {
        state.events.push_back(event);
        match &self.notifier {
            Some(notifier) => notifier.notify(0),
            None => self.has_come.notify_one(),
        }
    }

    fn add(&self, make: impl FnOnce(u64) -> CallState) -> Result<Arc<CallState>, Status> {
        let mut state = self.state();
        if state.is_closed {
            return Err(Status::new(Code::Unavailable, "the server takes no more calls"));
        }
        if state.open >= self.calls_max {
            let text = format!("the server has {} calls, and takes no more", state.open);
            return Err(Status::new(Code::ResourceExhausted, text));
        }
        state.open += 1;
        state.last_id += 1;
        let call = Arc::new(make(state.last_id));
        self.push(&mut state, Event::Call(Arc::clone(&call)));
        Ok(call)
    }

    fn remove(&self, call: &CallState) {
        let has_answer = call.close();
        let mut state = self.state();
        state.open -= 1;
        if !has_answer && self.notifier.is_some() {
            self.push(&mut state, Event::Cancelled(call.id));
        }
    }
}

/// A service whose calls go into a queue.
pub(crate) struct QueuedService {
    pub(crate) queue: Arc<CallQueue>,
    /// Which of the services of the server it is.
    pub(crate) index: usize,
}

impl DynamicService for QueuedService {
    async fn serve(
        &self,
        context: CallContext,
        request: DynamicRequest,
    ) -> Result<Encoded, Status> {
        let make = |id| CallState::new(id, self.index, context, request);
        let call = self.queue.add(make)?;
        Served { call, queue: &self.queue }.await
    }
}

/// Ends with the answer of a call. Dropping it means that the caller does not wait any more.
struct Served<'a> {
    call: Arc<CallState>,
    queue: &'a CallQueue,
}

impl Future for Served<'_> {
    type Output = Result<Encoded, Status>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.call.poll_answer(context.waker())
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        self.queue.remove(&self.call);
    }
}
