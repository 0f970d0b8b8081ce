//! The calls that we made and whose end we wait for.
//!
//! Always true: a slot is free or holds one open call, `free` names exactly the free slots that can
//! be used again, and `answered_max` never exceeds `generation`. A slot becomes free when its
//! answer comes or when a cancel is queued; both are before the slot's next call on the wire. So a
//! correct peer's answers on one slot come with growing generations, and any other is a misdeed.
//! Not here: the peer's calls (`incoming.rs`).

use alloc::vec::Vec;

use super::deadlines::Deadlines;
use super::{CallId, GENERATION_MAX, OutgoingCall};
use crate::error::{Ended, ProtocolError};
use crate::time::Time;

/// What an answer from the peer is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It ends the call.
    InTime,
    /// We had given the call up. Nobody waits for it.
    Late,
}

/// The table of our calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outgoing {
    /// Those that were used so far.
    slots: Vec<Slot>,
    calls_max: u16,
    /// Slots for the next calls. The last one in is used first, because it is still in the cache.
    free: Vec<u16>,
    deadlines: Deadlines,
    open: usize,
    /// Slots below it have been ended by [`end_next`](Self::end_next).
    swept: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    /// Of its open or last call; zero before the first.
    generation: u64,
    /// The newest that was answered; zero before the first.
    answered_max: u64,
    is_open: bool,
}

impl Outgoing {
    /// A table for up to `calls_max` calls. It allocates only for more calls than were ever open.
    pub(crate) fn new(calls_max: u16) -> Self {
        Self {
            slots: Vec::new(),
            calls_max,
            free: Vec::new(),
            deadlines: Deadlines::default(),
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

    /// Opens a call, if a slot is free.
    #[inline]
    pub(crate) fn start(&mut self, deadline: Time) -> Option<OutgoingCall> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.first_use()?,
        };
        let slot = &mut self.slots[usize::from(index)];
        slot.generation += 1;
        slot.is_open = true;
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
        self.slots.push(Slot { generation: 0, answered_max: 0, is_open: false });
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
    /// [`handle_answer`](Self::handle_answer) says why.
    #[inline(always)]
    pub(crate) fn take_answer(&mut self, id: CallId) -> Option<OutgoingCall> {
        let generation = id.generation();
        let slot = self.slots.get_mut(usize::from(id.slot()))?;
        // Its id was given out, and it was not answered: it would not be open.
        if !slot.is_open || slot.generation != generation || generation == GENERATION_MAX {
            return None;
        }
        slot.answered_max = generation;
        slot.is_open = false;
        self.open -= 1;
        self.deadlines.clear(id.slot());
        self.free.push(id.slot());
        Some(OutgoingCall(id))
    }

    /// Ends a call, unless it has ended.
    #[inline]
    pub(crate) fn end(&mut self, call: OutgoingCall) -> Result<(), Ended> {
        let (index, generation) = (call.0.slot(), call.0.generation());
        let slot = self.slots.get_mut(usize::from(index)).ok_or(Ended)?;
        if !slot.is_open || slot.generation != generation {
            return Err(Ended);
        }
        slot.is_open = false;
        self.open -= 1;
        self.deadlines.clear(index);
        if generation < GENERATION_MAX {
            self.free.push(index);
        }
        Ok(())
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
        let mut calls = Outgoing::new(2);
        let first = calls.start(Time::NEVER).unwrap();
        let second = calls.start(Time::NEVER).unwrap();
        assert_ne!(first.id().slot(), second.id().slot());
        assert_eq!(calls.start(Time::NEVER), None);
        assert_eq!(calls.end(first), Ok(()));
        assert_eq!(calls.end(first), Err(Ended));
        let third = calls.start(Time::NEVER).unwrap();
        assert_eq!(third.id().slot(), first.id().slot());
        assert_ne!(third, first);
    }

    #[test]
    fn a_late_answer_is_told_from_that_of_the_next_call() {
        let mut calls = Outgoing::new(1);
        let given_up = calls.start(Time::NEVER).unwrap();
        calls.end(given_up).unwrap();
        let next = calls.start(Time::NEVER).unwrap();
        assert_eq!(calls.handle_answer(given_up.id()), Ok(Answer::Late));
        assert_eq!(calls.handle_answer(given_up.id()), Err(ProtocolError::SecondReply));
        assert_eq!(calls.handle_answer(next.id()), Ok(Answer::InTime));
        assert_eq!(calls.handle_answer(next.id()), Err(ProtocolError::SecondReply));
    }

    #[test]
    fn a_used_up_slot_is_retired() {
        let mut calls = Outgoing::new(1);
        let first = calls.start(Time::NEVER).unwrap();
        calls.end(first).unwrap();
        calls.slots[0].generation = GENERATION_MAX - 1;
        let last = calls.start(Time::NEVER).unwrap();
        assert_eq!(last.id().generation(), GENERATION_MAX);
        calls.end(last).unwrap();
        assert_eq!(calls.start(Time::NEVER), None);
    }
}
