//! The calls of the peer that we have not answered yet.
//!
//! **Invariants:** a slot whose error waits to be sent is not open and not free, and it stands in
//! the queue of transmits exactly once (`is_queued`). The peer uses a slot again only after it got
//! the answer or sent a cancel, and messages keep their order; every other call or cancel is a
//! protocol violation.
//! **Not here:** our own calls (`outgoing.rs`), the queue (`protocol/transmits.rs`).

use alloc::vec::Vec;

use super::Standing;
use super::deadlines::Deadlines;
use super::streams::Streams;
use crate::call_id::{CallId, IncomingCall};
use crate::error::{Ended, ProtocolError};
use crate::status::Code;
use crate::time::Time;

/// The table of the peer's calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Incoming {
    /// Those that were used so far.
    slots: Vec<Slot>,
    calls_max: u16,
    deadlines: Deadlines,
    /// Of the calls that stream.
    pub(crate) streams: Streams,
    open: usize,
    /// Slots below it have been ended by [`end_next`](Self::end_next).
    swept: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    /// Of its open or last call; zero before the first.
    generation: u64,
    state: State,
    /// The peer has cancelled the call of this generation.
    is_cancelled: bool,
    /// The slot stands in the queue of transmits.
    is_queued: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Open,
    /// Ended by us; the error has not been sent yet.
    Failing(Code),
}

const UNUSED: Slot =
    Slot { generation: 0, state: State::Free, is_cancelled: false, is_queued: false };

impl Incoming {
    /// A table for up to `calls_max` calls. It allocates only for more calls than were ever open.
    pub(crate) fn new(calls_max: u16) -> Self {
        Self {
            slots: Vec::new(),
            calls_max,
            deadlines: Deadlines::default(),
            streams: Streams::default(),
            open: 0,
            swept: 0,
        }
    }

    /// Calls that are open.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// The earliest deadline of an open call.
    pub(crate) fn next_deadline(&self) -> Time {
        self.deadlines.next()
    }

    /// Judges the id of a new call and opens the call.
    #[inline]
    pub(crate) fn handle_call(
        &mut self,
        id: CallId,
        deadline: Time,
    ) -> Result<IncomingCall, ProtocolError> {
        if id.slot() >= self.calls_max {
            return Err(ProtocolError::TooManyCalls);
        }
        let index = usize::from(id.slot());
        if index >= self.slots.len() {
            self.slots.resize(index + 1, UNUSED);
        }
        let slot = &mut self.slots[index];
        if slot.state != State::Free {
            return Err(ProtocolError::CallIdInUse);
        }
        if id.generation() <= slot.generation {
            return Err(ProtocolError::CallIdReused);
        }
        slot.generation = id.generation();
        slot.state = State::Open;
        slot.is_cancelled = false;
        self.open += 1;
        self.deadlines.set(id.slot(), deadline);
        Ok(IncomingCall(id))
    }

    /// Opens a call without a deadline, if its id is sound. `None`: nothing has changed, and
    /// [`handle_call`](Self::handle_call) returns why.
    #[inline(always)]
    pub(crate) fn take_call(&mut self, id: CallId) -> Option<IncomingCall> {
        let slot = self.slots.get_mut(usize::from(id.slot()))?;
        if slot.state != State::Free || id.generation() <= slot.generation {
            return None;
        }
        slot.generation = id.generation();
        slot.state = State::Open;
        slot.is_cancelled = false;
        self.open += 1;
        Some(IncomingCall(id))
    }

    /// Judges the id of a cancel and ends its call, unless our answer has crossed it.
    pub(crate) fn handle_cancel(
        &mut self,
        id: CallId,
    ) -> Result<Option<IncomingCall>, ProtocolError> {
        let slot = self.slots.get_mut(usize::from(id.slot()));
        let slot = slot.ok_or(ProtocolError::CancelOfUnknownCall)?;
        if id.generation() == 0 || id.generation() != slot.generation {
            return Err(ProtocolError::CancelOfUnknownCall);
        }
        if core::mem::replace(&mut slot.is_cancelled, true) {
            return Err(ProtocolError::SecondCancel);
        }
        self.streams.forget_credit(id);
        if matches!(slot.state, State::Failing(_)) {
            // The peer does not want our error any more; its entry in the queue finds nothing.
            slot.state = State::Free;
        }
        Ok(self.end(IncomingCall(id)).is_ok().then_some(IncomingCall(id)))
    }

    /// What the id of an item, a half-close or a credit is to us.
    #[inline]
    pub(crate) fn standing(&self, id: CallId) -> Standing {
        let generation = id.generation();
        match self.slots.get(usize::from(id.slot())) {
            Some(slot) if generation > 0 && generation <= slot.generation => match slot.state {
                _ if generation < slot.generation || slot.is_cancelled => Standing::Ended,
                State::Open => Standing::Open,
                State::Free | State::Failing(_) => Standing::Crossing,
            },
            _ => Standing::Unknown,
        }
    }

    /// Whether the call is open.
    #[inline]
    pub(crate) fn is_open(&self, call: IncomingCall) -> bool {
        let slot = self.slots.get(usize::from(call.0.slot()));
        slot.is_some_and(|slot| slot.state == State::Open && slot.generation == call.0.generation())
    }

    /// Ends a call, unless it has ended.
    #[inline]
    pub(crate) fn end(&mut self, call: IncomingCall) -> Result<(), Ended> {
        if !self.is_open(call) {
            return Err(Ended);
        }
        let index = call.0.slot();
        self.slots[usize::from(index)].state = State::Free;
        self.open -= 1;
        self.deadlines.clear(index);
        Ok(())
    }

    /// Ends the call with an error that is to be sent later. Some: queue this slot.
    pub(crate) fn end_with(&mut self, call: IncomingCall, status: Code) -> Option<u16> {
        self.end(call).ok()?;
        let slot = &mut self.slots[usize::from(call.0.slot())];
        slot.state = State::Failing(status);
        (!core::mem::replace(&mut slot.is_queued, true)).then_some(call.0.slot())
    }

    /// The open call with the earliest deadline, if that is not after `now`.
    pub(crate) fn passed(&self, now: Time) -> Option<IncomingCall> {
        self.deadlines.passed(now).map(|slot| self.call_in(slot))
    }

    /// Whether the error of a queued slot is still wanted.
    pub(crate) fn is_failing(&self, slot: u16) -> bool {
        matches!(self.slots[usize::from(slot)].state, State::Failing(_))
    }

    /// The error of a slot that has left the queue, if it is still wanted.
    pub(crate) fn take_failure(&mut self, slot: u16) -> Option<(CallId, Code)> {
        let id = self.call_in(slot).0;
        let slot = &mut self.slots[usize::from(slot)];
        slot.is_queued = false;
        let State::Failing(status) = slot.state else { return None };
        slot.state = State::Free;
        Some((id, status))
    }

    /// Ends any call that is open. All rounds together look once at each slot.
    pub(crate) fn end_next(&mut self) -> Option<IncomingCall> {
        while usize::from(self.swept) < self.slots.len() {
            let call = self.call_in(self.swept);
            self.swept += 1;
            if self.end(call).is_ok() {
                return Some(call);
            }
        }
        None
    }

    fn call_in(&self, slot: u16) -> IncomingCall {
        IncomingCall(CallId::new(slot, self.slots[usize::from(slot)].generation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unwanted_error_leaves_its_place_in_the_queue_to_the_next() {
        let mut calls = Incoming::new(1);
        let first = calls.handle_call(CallId::new(0, 1), Time::NEVER).unwrap();
        assert_eq!(calls.end_with(first, Code::Unavailable), Some(0));
        assert!(calls.is_failing(0));
        assert_eq!(calls.handle_cancel(first.id()), Ok(None));
        assert!(!calls.is_failing(0));
        let second = calls.handle_call(CallId::new(0, 2), Time::NEVER).unwrap();
        assert_eq!(calls.end_with(second, Code::Internal), None, "the slot is queued already");
        assert_eq!(calls.take_failure(0), Some((second.id(), Code::Internal)));
        assert_eq!(calls.take_failure(0), None);
    }
}
