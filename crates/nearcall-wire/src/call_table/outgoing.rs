//! The calls that this end made, each with a value of the driver.
//!
//! A call is open until it ends, and keeps its slot and its value until the driver releases it, so
//! that the driver can put the outcome there and needs no table of its own.
//! **Invariants:** a slot is free, or holds one call; `free` names exactly the free slots that can
//! be used again; `answered_max` never exceeds `generation`. A call ends when its answer comes or a
//! cancel is queued; both are before the slot's next call on the wire. So a correct peer's answers
//! on one slot come with growing generations, and any other is a protocol violation.
//! **Not here:** the peer's calls (`incoming.rs`).

use alloc::vec::Vec;

use super::Standing;
use super::deadlines::Deadlines;
use super::streams::Streams;
use crate::call_id::{CallId, GENERATION_MAX, OutgoingCall};
use crate::error::{Ended, ProtocolError};
use crate::time::Time;

/// What an answer from the peer is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It ends the call.
    InTime,
    /// The call had ended before.
    Late,
}

/// The table of our calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outgoing<T> {
    /// Those that were used so far.
    slots: Vec<Slot<T>>,
    calls_max: u16,
    /// Slots for the next calls. The last one in is used first, because it is still in the cache.
    free: Vec<u16>,
    deadlines: Deadlines,
    /// Of the calls that stream.
    pub(crate) streams: Streams,
    open: usize,
    /// Slots below it have been ended by [`end_next`](Self::end_next).
    swept: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Slot<T> {
    /// Of its present or last call; zero before the first.
    generation: u64,
    /// The newest that was answered; zero before the first.
    answered_max: u64,
    /// The newest whose headers have come; zero before the first.
    headers_max: u64,
    state: State,
    /// The driver's, of the present call; otherwise the default.
    value: T,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Open,
    /// The driver has not released the call yet.
    Ended,
}

impl<T: Default> Outgoing<T> {
    /// A table for up to `calls_max` calls. It allocates only for more calls than were ever open.
    pub(crate) fn new(calls_max: u16) -> Self {
        Self {
            slots: Vec::new(),
            calls_max,
            free: Vec::new(),
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

    /// How many more calls may be open at once.
    pub(crate) fn left(&self) -> usize {
        usize::from(self.calls_max).saturating_sub(self.open)
    }

    /// The earliest deadline of an open call.
    pub(crate) fn next_deadline(&self) -> Time {
        self.deadlines.next()
    }

    /// Opens a call, if a slot is free.
    #[inline]
    pub(crate) fn start(&mut self, deadline: Time) -> Option<OutgoingCall> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.first_use()?,
        };
        let slot = &mut self.slots[usize::from(index)];
        slot.generation += 1;
        slot.state = State::Open;
        self.open += 1;
        self.deadlines.set(index, deadline);
        Some(OutgoingCall(CallId::new(index, slot.generation)))
    }

    /// A slot that was never used.
    #[cold]
    fn first_use(&mut self) -> Option<u16> {
        let index = u16::try_from(self.slots.len()).ok()?;
        if index >= self.calls_max {
            return None;
        }
        let (state, value) = (State::Free, T::default());
        self.slots.push(Slot { generation: 0, answered_max: 0, headers_max: 0, state, value });
        // So that the end of a call never allocates.
        self.free.reserve(self.slots.len());
        Some(index)
    }

    /// Judges the id of an answer, and ends its call if that is still open.
    #[inline]
    pub(crate) fn handle_answer(&mut self, id: CallId) -> Result<Answer, ProtocolError> {
        let slot = self.slots.get_mut(usize::from(id.slot()));
        let slot = slot.ok_or(ProtocolError::ReplyToUnknownCall)?;
        let generation = id.generation();
        if generation == 0 || generation > slot.generation {
            return Err(ProtocolError::ReplyToUnknownCall);
        }
        if generation <= slot.answered_max {
            return Err(ProtocolError::SecondReply);
        }
        slot.answered_max = generation;
        Ok(match self.end(OutgoingCall(id)) {
            Ok(()) => Answer::InTime,
            Err(Ended) => Answer::Late,
        })
    }

    /// Ends the open call with this id as answered. `None`: nothing has changed, and
    /// [`handle_answer`](Self::handle_answer) returns why.
    #[inline(always)]
    pub(crate) fn take_answer(&mut self, id: CallId) -> Option<OutgoingCall> {
        let generation = id.generation();
        let slot = self.slots.get_mut(usize::from(id.slot()))?;
        // Its id was given out, and it was not answered: it would not be open.
        if slot.state != State::Open || slot.generation != generation {
            return None;
        }
        slot.answered_max = generation;
        slot.state = State::Ended;
        self.open -= 1;
        self.deadlines.clear(id.slot());
        Some(OutgoingCall(id))
    }

    /// What the id of an item or a credit is to us.
    #[inline]
    pub(crate) fn standing(&self, id: CallId) -> Standing {
        let generation = id.generation();
        match self.slots.get(usize::from(id.slot())) {
            Some(slot) if generation > 0 && generation <= slot.generation => {
                let is_present = generation == slot.generation;
                match slot.state {
                    _ if generation <= slot.answered_max => Standing::Ended,
                    State::Open if is_present => Standing::Open,
                    _ => Standing::Crossing,
                }
            }
            _ => Standing::Unknown,
        }
    }

    /// Notes the headers of a call that was made. False: a correct peer sends none any more.
    pub(crate) fn note_headers(&mut self, id: CallId) -> bool {
        let Some(slot) = self.slots.get_mut(usize::from(id.slot())) else { return false };
        let is_first = id.generation() > slot.headers_max.max(slot.answered_max);
        slot.headers_max = slot.headers_max.max(id.generation());
        is_first
    }

    /// Whether the slot of this call has a newer one.
    pub(crate) fn is_replaced(&self, id: CallId) -> bool {
        let slot = self.slots.get(usize::from(id.slot()));
        slot.is_some_and(|slot| slot.generation > id.generation())
    }

    /// Ends a call, unless it has ended.
    #[inline]
    pub(crate) fn end(&mut self, call: OutgoingCall) -> Result<(), Ended> {
        let (index, generation) = (call.0.slot(), call.0.generation());
        let slot = self.slots.get_mut(usize::from(index)).ok_or(Ended)?;
        if slot.state != State::Open || slot.generation != generation {
            return Err(Ended);
        }
        slot.state = State::Ended;
        self.open -= 1;
        self.deadlines.clear(index);
        Ok(())
    }

    /// Frees the slot of a call that has ended and returns its value. `None`: it is open, or was
    /// released before.
    #[inline]
    pub(crate) fn release(&mut self, call: OutgoingCall) -> Option<T> {
        let (index, generation) = (call.0.slot(), call.0.generation());
        let slot = self.slots.get_mut(usize::from(index))?;
        if slot.state != State::Ended || slot.generation != generation {
            return None;
        }
        slot.state = State::Free;
        let value = core::mem::take(&mut slot.value);
        if generation < GENERATION_MAX {
            self.free.push(index);
        }
        Some(value)
    }

    /// Returns whether the next call finds a slot.
    pub(crate) fn has_free_slot(&self) -> bool {
        !self.free.is_empty() || self.slots.len() < usize::from(self.calls_max)
    }

    /// Frees the slots of the calls that have ended, and gives their values to `keep`, unless that
    /// wants them to stay, which it says by giving them back.
    pub(crate) fn release_ended(&mut self, mut keep: impl FnMut(OutgoingCall, T) -> Option<T>) {
        for index in 0..u16::try_from(self.slots.len()).unwrap_or(u16::MAX) {
            let call = self.call_in(index);
            let slot = &mut self.slots[usize::from(index)];
            if slot.state != State::Ended {
                continue;
            }
            match keep(call, core::mem::take(&mut slot.value)) {
                Some(value) => slot.value = value,
                None => {
                    self.release(call);
                }
            }
        }
    }

    /// The value of a call that was not released.
    #[inline]
    pub(crate) fn value(&self, call: OutgoingCall) -> Option<&T> {
        let slot = self.slots.get(usize::from(call.0.slot()))?;
        let is_held = slot.state != State::Free && slot.generation == call.0.generation();
        is_held.then_some(&slot.value)
    }

    /// The value of a call that was not released.
    #[inline]
    pub(crate) fn value_mut(&mut self, call: OutgoingCall) -> Option<&mut T> {
        let slot = self.slots.get_mut(usize::from(call.0.slot()))?;
        let is_held = slot.state != State::Free && slot.generation == call.0.generation();
        is_held.then_some(&mut slot.value)
    }

    /// Ends the call with the earliest deadline, if that is not after `now`.
    pub(crate) fn end_passed(&mut self, now: Time) -> Option<OutgoingCall> {
        let call = self.call_in(self.deadlines.passed(now)?);
        self.end(call).is_ok().then_some(call)
    }

    /// Ends any call that is open. All rounds together look once at each slot.
    pub(crate) fn end_next(&mut self) -> Option<OutgoingCall> {
        while usize::from(self.swept) < self.slots.len() {
            let call = self.call_in(self.swept);
            self.swept += 1;
            if self.end(call).is_ok() {
                return Some(call);
            }
        }
        None
    }

    fn call_in(&self, slot: u16) -> OutgoingCall {
        OutgoingCall(CallId::new(slot, self.slots[usize::from(slot)].generation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_refuses() {
        let mut calls = Outgoing::<()>::new(2);
        let first = calls.start(Time::NEVER).unwrap();
        let second = calls.start(Time::NEVER).unwrap();
        assert_ne!(first.id().slot(), second.id().slot());
        assert_eq!(calls.start(Time::NEVER), None);
        assert_eq!(calls.end(first), Ok(()));
        assert_eq!(calls.end(first), Err(Ended));
        assert_eq!(calls.start(Time::NEVER), None, "it was not released");
        assert_eq!(calls.release(first), Some(()));
        assert_eq!(calls.release(first), None);
        let third = calls.start(Time::NEVER).unwrap();
        assert_eq!(third.id().slot(), first.id().slot());
        assert_ne!(third, first);
    }

    #[test]
    fn a_late_answer_is_distinguished_from_that_of_the_next_call() {
        let mut calls = Outgoing::<()>::new(1);
        let given_up = calls.start(Time::NEVER).unwrap();
        calls.end(given_up).unwrap();
        calls.release(given_up).unwrap();
        let next = calls.start(Time::NEVER).unwrap();
        assert_eq!(calls.handle_answer(given_up.id()), Ok(Answer::Late));
        assert_eq!(calls.handle_answer(given_up.id()), Err(ProtocolError::SecondReply));
        assert_eq!(calls.handle_answer(next.id()), Ok(Answer::InTime));
        assert_eq!(calls.handle_answer(next.id()), Err(ProtocolError::SecondReply));
    }

    #[test]
    fn a_value_is_that_of_its_call_alone() {
        let mut calls = Outgoing::<u8>::new(1);
        let first = calls.start(Time::NEVER).unwrap();
        *calls.value_mut(first).unwrap() = 7;
        calls.end(first).unwrap();
        assert_eq!(calls.value(first), Some(&7));
        assert_eq!(calls.release(first), Some(7));
        let second = calls.start(Time::NEVER).unwrap();
        assert_eq!((calls.value(first), calls.value(second)), (None, Some(&0)));
        assert_eq!(calls.release(second), None, "it is open");
    }

    #[test]
    fn slots_of_ended_calls_are_freed_together_unless_they_are_to_stay() {
        let mut calls = Outgoing::<u8>::new(3);
        let [open, kept, stays] = [1, 2, 3].map(|value| {
            let call = calls.start(Time::NEVER).unwrap();
            *calls.value_mut(call).unwrap() = value;
            call
        });
        assert!(!calls.has_free_slot());
        calls.end(kept).unwrap();
        calls.end(stays).unwrap();
        let mut taken = Vec::new();
        calls.release_ended(|call, value| match call == stays {
            true => Some(value),
            false => {
                taken.push((call, value));
                None
            }
        });
        assert_eq!(taken, [(kept, 2)]);
        assert_eq!(calls.value(open), Some(&1));
        assert_eq!(calls.value(kept), None);
        assert_eq!(calls.release(kept), None);
        assert_eq!(calls.release(stays), Some(3));
        assert!(calls.has_free_slot());
        assert_eq!(calls.start(Time::NEVER).unwrap().id().slot(), stays.id().slot());
        assert_eq!(calls.start(Time::NEVER).unwrap().id().slot(), kept.id().slot());
        assert_eq!(calls.start(Time::NEVER), None);
    }

    #[test]
    fn a_used_up_slot_is_retired() {
        let mut calls = Outgoing::<()>::new(1);
        let first = calls.start(Time::NEVER).unwrap();
        calls.end(first).unwrap();
        calls.release(first).unwrap();
        calls.slots[0].generation = GENERATION_MAX - 1;
        let last = calls.start(Time::NEVER).unwrap();
        assert_eq!(last.id().generation(), GENERATION_MAX);
        calls.end(last).unwrap();
        calls.release(last).unwrap();
        assert_eq!(calls.start(Time::NEVER), None);
    }
}
