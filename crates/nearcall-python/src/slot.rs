//! An end of a stream, which one operation at a time uses.
//!
//! **Invariants:** an operation that is dropped while it uses the end drops it as well, which
//! cancels the call; so does closing it, also from another thread.
//! **Not here:** the ends themselves (`nearcall::stream`).

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use nearcall::{Code, Status};

/// A place for an end of a stream.
pub(crate) struct Slot<T>(Mutex<State<T>>);

enum State<T> {
    Idle(T),
    InUse(Option<Waker>),
    Closed,
}

type Use<T, O> = Pin<Box<dyn Future<Output = (T, O)> + Send>>;

impl<T: Send + 'static> Slot<T> {
    pub(crate) fn new(end: T) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State::Idle(end))))
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the end for good.
    ///
    /// # Errors
    ///
    /// It is in use or closed.
    pub(crate) fn take(&self) -> Result<T, Status> {
        self.replace(State::Closed)
    }

    fn replace(&self, with: State<T>) -> Result<T, Status> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, with) {
            State::Idle(end) => Ok(end),
            State::Closed => {
                *state = State::Closed;
                Err(closed())
            }
            in_use @ State::InUse(_) => {
                *state = in_use;
                let text = "another thread or task uses this direction of the stream";
                Err(Status::new(Code::FailedPrecondition, text))
            }
        }
    }

    /// Reads something of the end, if no operation uses it.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&mut T) -> R) -> Option<R> {
        match &mut *self.state() {
            State::Idle(end) => Some(read(end)),
            _ => None,
        }
    }

    /// Uses the end in a future that gives it back.
    pub(crate) async fn run<O, F>(self: Arc<Self>, start: impl FnOnce(T) -> F) -> Result<O, Status>
    where
        F: Future<Output = (T, O)> + Send + 'static,
    {
        let end = self.replace(State::InUse(None))?;
        Using { slot: self, work: Some(Box::pin(start(end))) }.await
    }

    /// Drops the end, also of an operation that uses it.
    pub(crate) fn close(&self) {
        let before = std::mem::replace(&mut *self.state(), State::Closed);
        if let State::InUse(Some(waker)) = before {
            waker.wake();
        }
    }
}

fn closed() -> Status {
    Status::new(Code::Cancelled, "the call was cancelled or has ended")
}

struct Using<T: Send + 'static, O> {
    slot: Arc<Slot<T>>,
    work: Option<Use<T, O>>,
}

impl<T: Send + 'static, O> Future for Using<T, O> {
    type Output = Result<O, Status>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self.slot.state() {
            State::InUse(waker) => *waker = Some(context.waker().clone()),
            _ => {
                return Poll::Ready(Err(closed()));
            }
        }
        let Some(work) = &mut self.work else { return Poll::Ready(Err(closed())) };
        let Poll::Ready((end, output)) = work.as_mut().poll(context) else { return Poll::Pending };
        self.work = None;
        let mut state = self.slot.state();
        if matches!(*state, State::InUse(_)) {
            *state = State::Idle(end);
        }
        Poll::Ready(Ok(output))
    }
}

impl<T: Send + 'static, O> Drop for Using<T, O> {
    fn drop(&mut self) {
        if self.work.take().is_some() {
            self.slot.close();
        }
    }
}
