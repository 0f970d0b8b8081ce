//! The deadlines of one table of calls: a binary heap that knows where each slot stands.
//!
//! Setting and clearing cost a number of steps that grows with the logarithm of the deadlines;
//! the next one is at hand.
//! **Invariants:** `place[slot]` is the index of the slot's entry, `NONE`, or beyond the end; no
//! entry is earlier than the one above it.
//! **Not here:** what happens when one passes (`protocol/session.rs`).

use alloc::vec::Vec;

use crate::time::Time;

/// At most one deadline for each slot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Deadlines {
    heap: Vec<(Time, u16)>,
    place: Vec<u32>,
}

impl Deadlines {
    /// The earliest, [`Time::NEVER`] if there is none.
    pub(super) fn next(&self) -> Time {
        self.heap.first().map_or(Time::NEVER, |&(time, _)| time)
    }

    /// The slot with the earliest deadline, if that is not after `now`.
    pub(super) fn passed(&self, now: Time) -> Option<u16> {
        self.heap.first().filter(|(time, _)| *time <= now).map(|&(_, slot)| slot)
    }

    /// Gives a slot without a deadline one. [`Time::NEVER`] costs nothing.
    #[inline]
    pub(super) fn set(&mut self, slot: u16, deadline: Time) {
        if deadline != Time::NEVER {
            self.insert(slot, deadline);
        }
    }

    /// Takes the deadline of a slot away, if it has one. Costs nothing while no slot has one.
    #[inline]
    pub(super) fn clear(&mut self, slot: u16) {
        if !self.heap.is_empty() {
            self.remove(slot);
        }
    }

    fn insert(&mut self, slot: u16, deadline: Time) {
        let index = usize::from(slot);
        if index >= self.place.len() {
            self.place.resize(index + 1, NONE);
        }
        assert_eq!(self.place[index], NONE, "a slot has one deadline");
        self.heap.push((deadline, slot));
        self.rise(self.heap.len() - 1);
    }

    fn remove(&mut self, slot: u16) {
        let Some(place) = self.place.get_mut(usize::from(slot)) else { return };
        let at = core::mem::replace(place, NONE);
        if at == NONE {
            return;
        }
        let at = at as usize;
        self.heap.swap_remove(at);
        if at < self.heap.len() {
            // The entry from the end stands here now. One of the two does nothing.
            self.sink(at);
            self.rise(at);
        }
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.heap[at] < self.heap[(at - 1) / 2] {
            self.heap.swap(at, (at - 1) / 2);
            self.note(at);
            at = (at - 1) / 2;
        }
        self.note(at);
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            if left >= self.heap.len() {
                break;
            }
            let right_is_less = right < self.heap.len() && self.heap[right] < self.heap[left];
            let least = if right_is_less { right } else { left };
            if self.heap[at] <= self.heap[least] {
                break;
            }
            self.heap.swap(at, least);
            self.note(at);
            at = least;
        }
        self.note(at);
    }

    /// Writes down where the entry at `at` stands.
    fn note(&mut self, at: usize) {
        let (_, slot) = self.heap[at];
        self.place[usize::from(slot)] = u32::try_from(at).unwrap_or(NONE);
    }
}

/// The slot has no deadline. No index: there are at most 2^16 entries.
const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    /// Beside the obvious: a table of optional times, searched from end to end.
    fn check(seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let slots = rng.u16(1..40);
        let mut deadlines = Deadlines::default();
        let mut model = vec![None; usize::from(slots)];
        for step in 0..400 {
            let slot = rng.u16(0..slots);
            let entry = &mut model[usize::from(slot)];
            if entry.is_none() && rng.bool() {
                let time = Time::from_ns(rng.u64(0..50));
                *entry = Some(time);
                deadlines.set(slot, time);
            } else {
                *entry = None;
                deadlines.clear(slot);
            }
            let next = model.iter().flatten().min().copied().unwrap_or(Time::NEVER);
            assert_eq!(deadlines.next(), next, "seed {seed}, step {step}");
            let passed = deadlines.passed(Time::from_ns(25)).map(|slot| model[usize::from(slot)]);
            let expected = (next <= Time::from_ns(25)).then_some(Some(next));
            assert_eq!(passed, expected, "seed {seed}, step {step}");
        }
    }

    #[test]
    fn the_next_deadline_is_the_earliest() {
        (0..if cfg!(miri) { 1 } else { 200 }).for_each(check);
    }
}
