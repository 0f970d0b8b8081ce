//! The answer of a service to a caller in its loop's thread, as bytes.
//!
//! **Invariants:** the first answer counts; the task that awaits it is woken once; a service that
//! answers in another thread learns that the caller does not wait any more.
//! **Not here:** answers over connections (`connection/calls.rs`), calls that need no bytes
//! (`call.rs`).

use std::cell::Cell;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::codec::{self, Message};
use crate::metadata::ReplyMetadata;
use crate::status::Status;
use crate::tasks::cancellation::Cancellation;
use crate::tasks::reply_extras::{ReplyExtras, Sent};
use crate::waking;

/// Where a method that answers later leaves the hold on its answer.
#[derive(Default)]
pub(crate) struct LaterReply(Cell<Option<LocalReply>>);

impl LaterReply {
    /// Returns what the answer is given to.
    pub(crate) fn answer(&self) -> Arc<LocalAnswer> {
        let reply = self.0.take().unwrap_or_default();
        let answer = Arc::clone(&reply);
        self.0.set(Some(reply));
        answer
    }

    /// Returns the hold, if the answer comes later.
    pub(crate) fn into_reply(self) -> Option<LocalReply> {
        self.0.into_inner()
    }
}

/// The answer that was given at once, or else the hold on one that comes later.
pub(crate) type LocalOutcome = Result<Result<LocalResult, Status>, LocalReply>;

/// A call by bytes while its method runs. An answer at once takes no lock.
#[derive(Default)]
pub(crate) struct LocalCall {
    answer: Cell<Option<Result<LocalResult, Status>>>,
    pub(crate) later: LaterReply,
}

impl LocalCall {
    /// Ends the call at once, unless it has ended: a service may panic after it has answered.
    pub(crate) fn end(&self, answer: Result<LocalResult, Status>) {
        let first = self.answer.take().unwrap_or_else(|| answer.map_err(Status::of_method));
        self.answer.set(Some(first));
    }

    /// Gives the answer of a service at once, with what goes with it.
    pub(crate) fn answer(
        &self,
        extras: Option<Box<ReplyExtras>>,
        answer: Result<&impl Message, &Status>,
    ) {
        end_with(extras, answer, |answer| self.end(answer));
    }

    /// Returns the answer that was given at once, or else the hold on one that comes later.
    pub(crate) fn into_outcome(self) -> LocalOutcome {
        match self.answer.into_inner() {
            Some(answer) => Ok(answer),
            None => Err(self.later.into_reply().unwrap_or_default()),
        }
    }
}

impl LocalReply {
    /// Returns the hold on an answer that has come.
    pub(crate) fn ended(answer: Result<LocalResult, Status>) -> Self {
        let reply = Self::default();
        reply.end(answer);
        reply
    }
}

/// The caller's hold on an answer. The call is given up when it is dropped.
#[derive(Default)]
pub(crate) struct LocalReply(Arc<LocalAnswer>);

/// An answer, once it is there.
#[derive(Default)]
pub(crate) struct LocalAnswer(Mutex<Answer>);

/// The result of a call as bytes, with what the service sent beside it.
pub(crate) struct LocalResult {
    pub(crate) metadata: ReplyMetadata,
    pub(crate) body: Vec<u8>,
}

impl LocalResult {
    pub(crate) fn new(metadata: ReplyMetadata, result: &impl Message) -> Result<Self, Status> {
        Ok(Self { metadata, body: codec::encode_vec(result)? })
    }
}

#[derive(Default)]
struct Answer {
    answer: Option<Result<LocalResult, Status>>,
    waker: Option<Waker>,
    /// Shared with a service that answers later.
    cancellation: Option<Arc<Cancellation>>,
}

impl LocalAnswer {
    /// Gives the answer, unless there was one: a service may panic after it has answered.
    pub(crate) fn end(&self, answer: Result<LocalResult, Status>) {
        let waker = {
            let mut ours = self.lock();
            ours.answer.get_or_insert(answer.map_err(Status::of_method));
            ours.waker.take()
        };
        if let Some(waker) = waker {
            waking::wake(waker);
        }
    }

    /// Gives the answer of a service.
    pub(crate) fn answer(
        &self,
        extras: Option<Box<ReplyExtras>>,
        answer: Result<&impl Message, &Status>,
    ) {
        end_with(extras, answer, |answer| self.end(answer));
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.lock().answer.is_some()
    }

    /// Takes the answer, if it has come.
    pub(crate) fn take(&self) -> Option<Result<LocalResult, Status>> {
        self.lock().answer.take()
    }

    /// Registers the waker of the task that awaits the answer or its deadline.
    pub(crate) fn set_waker(&self, waker: &Waker) {
        let before = self.lock().waker.replace(waker.clone());
        // Outside the lock: the end of a waker may run a task's.
        waking::retire(before);
    }

    /// Wakes the task that awaits the answer.
    pub(crate) fn wake(&self) {
        let waker = self.lock().waker.take();
        if let Some(waker) = waker {
            waking::wake(waker);
        }
    }

    /// Notes that the deadline of the call has passed.
    pub(crate) fn expire(&self) {
        self.give_up();
        self.wake();
    }

    /// Returns what a service that answers later learns the end of the call from.
    pub(crate) fn cancellation(&self) -> Arc<Cancellation> {
        Arc::clone(self.lock().cancellation.get_or_insert_default())
    }

    fn give_up(&self) {
        let cancellation = self.lock().cancellation.clone();
        if let Some(cancellation) = cancellation {
            cancellation.end();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Answer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for LocalReply {
    type Target = Arc<LocalAnswer>;

    fn deref(&self) -> &Arc<LocalAnswer> {
        &self.0
    }
}

impl Drop for LocalReply {
    fn drop(&mut self) {
        self.0.give_up();
    }
}

/// Ends a call by `end` with the answer of a service and what goes with it.
#[inline]
fn end_with(
    extras: Option<Box<ReplyExtras>>,
    answer: Result<&impl Message, &Status>,
    end: impl FnOnce(Result<LocalResult, Status>),
) {
    let mut extras = extras.map(|extras| *extras).unwrap_or_default();
    let headers = extras.headers.take().unwrap_or_default();
    let trailers = std::mem::take(&mut extras.metadata);
    let mut sent = Sent::AsGiven;
    end(match answer {
        Ok(result) => {
            LocalResult::new(ReplyMetadata { trailers, headers }, result).inspect_err(|status| {
                sent = Sent::Instead(Box::new(status.clone()));
            })
        }
        Err(status) => Err(status.clone().with_entries(trailers).with_headers(headers)),
    });
    extras.end(sent, answer);
}
