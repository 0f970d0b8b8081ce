//! What goes with the reply of a call that is served: metadata, and the interceptors that see its
//! end.
//!
//! Few calls have any, so a context has room for a pointer.
//! **Invariants:** the interceptors see the end of a call after its reply has been sent, or when
//! what would have replied is dropped.
//! **Not here:** interceptors (`interceptor.rs`), replying (`services/reply_sink.rs`,
//! `services/detached_sink.rs`).

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::codec::{self, Message};
use crate::interceptor::ObservedCall;
use crate::metadata::{Entries, Headers};
use crate::status::Status;

/// What goes with one reply.
#[derive(Default)]
pub(crate) struct ReplyExtras {
    /// Of a call that does not stream.
    pub(crate) headers: Headers,
    pub(crate) metadata: Entries,
    pub(crate) observed: Option<ObservedCall>,
}

/// What became of an answer.
pub(crate) enum Sent {
    /// It was sent, or is about to be.
    AsGiven,
    /// It could not be sent. The caller gets this status in its place.
    Instead(Box<Status>),
    /// Nothing: the caller does not wait any more, or the connection has ended. Interceptors see a
    /// call that was given up.
    Nothing,
}

impl ReplyExtras {
    /// Reports that the call has ended with an answer, and what became of that.
    pub(crate) fn end(self, sent: Sent, answer: Result<&impl Message, &Status>) {
        let Some(observed) = self.observed else { return };
        match (sent, answer) {
            (Sent::AsGiven, Ok(result)) => observed.end(None, codec::reported_bytes(result)),
            (Sent::AsGiven, Err(status)) => observed.end(Some(status), 0),
            (Sent::Instead(status), _) => observed.end(Some(&status), 0),
            (Sent::Nothing, _) => observed.end_given_up(),
        }
    }

    /// Returns a copy of what an interceptor kept for the call.
    pub(crate) fn kept<T: Any + Clone>(&self) -> Option<T> {
        self.observed.as_ref()?.kept()
    }

    /// Reports that the caller did not wait for the reply.
    pub(crate) fn end_given_up(self) {
        if let Some(observed) = self.observed {
            observed.end_given_up();
        }
    }
}

/// The extras of a call whose method has returned, for whatever thread replies.
#[derive(Default)]
pub(crate) struct SharedExtras {
    /// So that a reply without any takes no lock.
    has_any: AtomicBool,
    extras: Mutex<Option<Box<ReplyExtras>>>,
}

impl SharedExtras {
    /// Takes the extras, once.
    pub(crate) fn take(&self) -> Option<Box<ReplyExtras>> {
        match self.has_any.load(Ordering::Acquire) {
            true => self.with(Option::take),
            false => None,
        }
    }

    /// Returns a copy of what an interceptor kept for the call.
    pub(crate) fn kept<T: Any + Clone>(&self) -> Option<T> {
        match self.has_any.load(Ordering::Acquire) {
            true => self.with(|extras| extras.as_ref()?.kept()),
            false => None,
        }
    }

    /// Adds those that the call had in its method.
    pub(crate) fn add(&self, extras: Box<ReplyExtras>) {
        self.change(|ours| {
            ours.headers.merge(extras.headers);
            ours.metadata.append(extras.metadata.as_bytes());
            if let Some(observed) = extras.observed {
                ours.observed = Some(observed);
            }
        });
    }

    /// Changes the extras.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut ReplyExtras) -> T) -> T {
        let changed = self.with(|extras| change(extras.get_or_insert_default()));
        self.has_any.store(true, Ordering::Release);
        changed
    }

    fn with<T>(&self, use_it: impl FnOnce(&mut Option<Box<ReplyExtras>>) -> T) -> T {
        use_it(&mut self.extras.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for SharedExtras {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedExtras").field("has_any", &self.has_any).finish_non_exhaustive()
    }
}
