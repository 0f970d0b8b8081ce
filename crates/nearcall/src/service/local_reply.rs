//! The answer of a service to a caller in its loop's thread, as bytes.
//!
//! **Invariants:** the first answer counts; the task that awaits it is woken once; a service that
//! answers in another thread learns that the caller does not wait any more.
//! **Not here:** answers over connections (`connection/calls.rs`), calls that need no bytes
//! (`call.rs`).

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use crate::codec::Message;
use crate::status::Status;
use crate::tasks::cancellation::Cancellation;
use crate::tasks::reply_extras::{ReplyExtras, Sent};
use crate::waking;

/// The caller's hold on an answer. The call is given up when it is dropped.
#[derive(Default)]
pub(crate) struct LocalReply(Arc<LocalAnswer>);

/// An answer, once it is there.
#[derive(Default)]
pub(crate) struct LocalAnswer(Mutex<Answer>);

/// The result of a call as bytes, with what the service sent beside it.
pub(crate) struct LocalResult {
    pub(crate) metadata: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl LocalResult {
    pub(crate) fn new(metadata: &[u8], result: &impl Message) -> Self {
        Self { metadata: metadata.to_vec(), body: result.encode_to_vec() }
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
        self.lock().answer.get_or_insert(answer);
        self.wake();
    }

    /// Gives the answer of a service.
    pub(crate) fn answer(
        &self,
        extras: Option<Box<ReplyExtras>>,
        answer: Result<&impl Message, &Status>,
    ) {
        let mut extras = extras.map(|extras| *extras).unwrap_or_default();
        let metadata = std::mem::take(&mut extras.metadata);
        self.end(match answer {
            Ok(result) => Ok(LocalResult::new(metadata.as_bytes(), result)),
            Err(status) => Err(status.clone().with_entries(metadata)),
        });
        extras.end(Sent::AsGiven, answer);
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
