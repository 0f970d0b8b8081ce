//! The calls that this end made, each waiting for its end or holding it.
//!
//! The protocol's table of calls has one of these for each call, until it is released. When that
//! table is full, the outcomes in it that were not taken yet move aside, so that they hold up no
//! new call.
//! **Invariants:** the outcome of a call is taken once, or dropped with the call.
//! **Not here:** ids and deadlines (`nearcall-wire`).

use std::ops::Range;
use std::task::Waker;

use nearcall_wire::{HEADER_BYTES, OutgoingCall};

use super::{Connection, Host, Inner};
use crate::borrowed::BorrowedSegments;
use crate::deadline::Deadline;
use crate::limits::RESULTS_KEPT_MAX;
use crate::metadata::{Entries, ReplyMetadata};
use crate::status::Status;

/// The end of a call: the buffer that its reply came in, or why it failed.
pub(crate) type Outcome = Result<Reply, Status>;

/// A reply as it came.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) buffer: Vec<u8>,
    /// The range of the result in the buffer.
    pub(crate) body: Range<usize>,
    /// The part of the result that lies in memory of the peer.
    pub(crate) borrowed: Option<Box<BorrowedSegments>>,
    /// The headers of a call that does not stream.
    pub(crate) headers: Option<Box<Entries>>,
}

impl Reply {
    /// Returns what the service sent beside the result.
    pub(crate) fn metadata(&self) -> ReplyMetadata {
        let trailers = self.buffer.get(HEADER_BYTES..self.body.start).unwrap_or_default();
        ReplyMetadata::new(Entries::from_peer(trailers)).with_headers(self.headers.as_deref())
    }
}

/// The state of a call. A waker is dropped where nothing is borrowed: its end may run a task's.
#[derive(Debug)]
pub(crate) enum CallState {
    Waiting(Option<Waker>),
    /// The connection itself has asked, for an invitation to a meeting.
    Invitation,
    Done(Outcome),
}

impl Default for CallState {
    fn default() -> Self {
        Self::Waiting(None)
    }
}

impl<H: Host> Connection<H> {
    /// Notes the outcome of a call of this end, and wakes the task that awaits it.
    pub(super) fn complete(&self, call: OutgoingCall, outcome: Outcome) {
        let outcome = match self.has_headers.get() {
            true => self.with_headers(call, outcome),
            false => outcome,
        };
        let mut inner = self.inner.borrow_mut();
        let before = match inner.protocol.value_mut(call) {
            Some(state) => std::mem::replace(state, CallState::Done(outcome)),
            None => CallState::Done(outcome),
        };
        drop(inner);
        match before {
            CallState::Waiting(Some(waker)) => self.host.wake(waker),
            CallState::Waiting(None) => {}
            CallState::Invitation => return self.take_invitation(call),
            CallState::Done(outcome) => self.discard(outcome),
        }
        if self.has_streams.get() {
            self.end_outgoing_stream(call);
        }
        self.resume_upgrade();
    }

    /// Takes back the buffer of a reply that is not read.
    fn discard(&self, outcome: Outcome) {
        if let Ok(reply) = outcome {
            self.buffers.give(reply.buffer);
        }
    }

    /// Returns whether the call has ended.
    #[inline]
    pub(crate) fn has_ended(&self, call: OutgoingCall) -> bool {
        let inner = self.inner.borrow();
        match inner.protocol.value(call) {
            Some(CallState::Done(_)) => true,
            Some(CallState::Waiting(_) | CallState::Invitation) => false,
            None => inner.has_result(call),
        }
    }

    /// Takes the outcome of a call and releases it, if it has ended.
    #[inline]
    pub(crate) fn take_outcome(&self, call: OutgoingCall) -> Option<Outcome> {
        let inner = &mut *self.inner.borrow_mut();
        match inner.protocol.value(call) {
            Some(CallState::Done(_)) => match inner.protocol.release(call) {
                Some(CallState::Done(outcome)) => Some(outcome),
                _ => None,
            },
            Some(CallState::Waiting(_) | CallState::Invitation) => None,
            None => inner.take_result(call),
        }
    }

    /// Registers the waker of the task that awaits the end of a call.
    pub(crate) fn set_waker(&self, call: OutgoingCall, waker: &Waker) {
        let mut inner = self.inner.borrow_mut();
        let before = match inner.protocol.value_mut(call) {
            Some(CallState::Waiting(Some(known))) if known.will_wake(waker) => return,
            Some(CallState::Waiting(slot)) => slot.replace(waker.clone()),
            _ => None,
        };
        drop(inner);
        if let Some(waker) = before {
            self.host.retire(waker);
        }
    }

    /// Gives a call up: informs the peer, and drops the outcome if it has come.
    pub(crate) fn cancel(&self, call: OutgoingCall) {
        let mut inner = self.inner.borrow_mut();
        let cancelled = inner.protocol.cancel(call);
        let released = match cancelled {
            Ok(_) => None,
            Err(_) => match inner.protocol.release(call) {
                Some(CallState::Done(outcome)) => Some(outcome),
                Some(CallState::Waiting(_) | CallState::Invitation) => None,
                None => inner.take_result(call),
            },
        };
        drop(inner);
        if let Some(outcome) = released {
            self.discard(outcome);
        }
        if let Ok(state) = cancelled {
            self.take_headers(call);
            self.unread.has_given_up.set(true);
            if let CallState::Waiting(Some(waker)) = state {
                self.host.retire(waker);
            }
            self.send_control(Deadline::NOW);
        }
        self.resume_upgrade();
    }

    /// Returns whether a call that is started now finds a place, after results that were not taken
    /// yet have made theirs free.
    #[cold]
    pub(crate) fn make_call_slot(&self) -> bool {
        let inner = &mut *self.inner.borrow_mut();
        let results = &mut inner.results;
        if !inner.protocol.has_free_slot() {
            inner.protocol.release_ended(|call, state| match state {
                CallState::Done(outcome) if results.len() < RESULTS_KEPT_MAX => {
                    results.insert(call, outcome);
                    None
                }
                // The event of its end is still to be handled.
                state => Some(state),
            });
        }
        inner.protocol.has_free_slot()
    }

    /// Returns whether the end of a call makes room for another one, though its result is not
    /// taken.
    pub(super) fn may_keep_results(&self) -> bool {
        self.inner.borrow().results.len() < RESULTS_KEPT_MAX
    }

    /// Returns the status of a call that finds no place.
    #[cold]
    pub(super) fn no_call_slot(&self) -> Status {
        Status::resource_exhausted(match self.may_keep_results() {
            true => format!(
                "too many open calls, on the way to {}: the limit `calls_max` of either end; \
                 try again when one has ended",
                self.name
            ),
            false => format!(
                "{RESULTS_KEPT_MAX} calls to {} have ended and their results were not taken; \
                 take or drop them",
                self.name
            ),
        })
    }

    /// Returns the status of a call for which no other one ended by its deadline.
    #[cold]
    pub(crate) fn no_call_slot_in_time(&self) -> Status {
        Status::deadline_exceeded(format!(
            "no call to {} ended in time to make room for another one: too many open calls, \
             the limit `calls_max` of either end; the method has not run",
            self.name
        ))
    }
}

impl Inner {
    #[cold]
    fn has_result(&self, call: OutgoingCall) -> bool {
        self.results.contains_key(&call)
    }

    #[cold]
    fn take_result(&mut self, call: OutgoingCall) -> Option<Outcome> {
        self.results.remove(&call)
    }
}
