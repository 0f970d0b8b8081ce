//! What one end lends: slots, loans of them, and when a slot is free again.
//!
//! **Invariants:** at most `SLOTS_PER_END_MAX` slots with `SLOT_BYTES_PER_END_MAX` bytes; nothing
//! here waits. Loans and what they become may be dropped in any thread, also after the connection.
//! **Not here:** reading what was lent (`borrower.rs`).

use std::ops::{Deref, DerefMut, Range, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use nearcall_os::region::{PeerRegion, PlainBytes, PlainRegion};
use thiserror::Error;

use super::Place;
use crate::control::Control;
use crate::error::debug_as_display;
use crate::limits::{
    CONTROL_PACKETS_PER_PAUSE_MAX, SLOT_BYTES_MIN, SLOT_BYTES_PER_END_MAX, SLOTS_IN_ROTATION,
    SLOTS_PER_END_MAX,
};
use crate::shm::layout::counter_at;
use crate::shm::segment_table::SegmentId;
use crate::shm::segments::{OwnSegments, SegmentError};

/// Lends memory to the other end of a connection.
#[derive(Debug)]
pub struct Lender {
    control: Arc<Control>,
    segments: OwnSegments,
    loan_bytes_max: usize,
    /// By number. Grows to `SLOTS_PER_END_MAX`; none where a slot was retired.
    slots: Vec<Option<Slot>>,
    tallies: [Tally; SLOTS_PER_END_MAX],
    /// The counters of the borrower, once it has borrowed something.
    counts: Option<Arc<PeerRegion>>,
}

#[derive(Debug)]
struct Slot {
    segment: SegmentId,
    addresses: Range<usize>,
    memory: PlainRegion,
}

/// The passes of a slot, and those that the borrower was done with when we looked last.
/// They count on when a slot gets another segment.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    passes: u32,
    seen: u32,
}

/// Why nothing was lent. The connection is as good as before.
#[derive(Error)]
pub enum LoanError {
    /// No message can carry as much. Send less at once.
    #[error(
        "a loan of {loan_bytes} bytes is above the limit of {loan_bytes_max}; send less at once"
    )]
    TooLarge {
        /// The bytes that were asked for.
        loan_bytes: usize,
        /// The limit, in bytes.
        loan_bytes_max: usize,
    },
    /// All slots, or all bytes that slots may have, are in use: by loans that live here, or by
    /// slices that the other end keeps.
    #[error(
        "nothing is left to lend: {here} loans live in the process that lends and {there} slots \
         are kept by the one at the other end, which gives them back when it drops or detaches \
         what it received; try again then, or send bytes that are not loaned"
    )]
    AllOut {
        /// Slots with a loan that lives here.
        here: usize,
        /// Slots that the other end has not given back.
        there: usize,
    },
    /// The system has no memory left.
    #[error("no memory for a loan: {0}")]
    NoMemory(String),
}

debug_as_display!(LoanError);

impl Lender {
    /// `loan_bytes_max` is the longest message of the connection.
    pub(crate) fn new(control: &Arc<Control>, loan_bytes_max: usize) -> Self {
        Self {
            control: Arc::clone(control),
            segments: OwnSegments::new(control),
            loan_bytes_max: loan_bytes_max.min(SLOT_BYTES_PER_END_MAX),
            slots: Vec::new(),
            tallies: [Tally::default(); SLOTS_PER_END_MAX],
            counts: None,
        }
    }

    /// Lends `loan_bytes` bytes to be written: of a slot, or for few of the heap. They hold zeroes,
    /// or what was written there before.
    ///
    /// A slot that was used before costs a hundred nanoseconds or so; a new one some ten system
    /// calls and all its pages.
    ///
    /// # Errors
    ///
    /// Why nothing was lent.
    pub fn loan(&mut self, loan_bytes: usize) -> Result<Loan, LoanError> {
        if loan_bytes > self.loan_bytes_max {
            let loan_bytes_max = self.loan_bytes_max;
            return Err(LoanError::TooLarge { loan_bytes, loan_bytes_max });
        }
        if loan_bytes < SLOT_BYTES_MIN {
            return Ok(Loan::plain(loan_bytes));
        }
        // What is much larger than needed is kept for who needs it, as long as there is room.
        let snug = loan_bytes..=loan_bytes.saturating_mul(4);
        let number = match self.smallest_free(|bytes| snug.contains(&bytes)) {
            Some(number) => number,
            None => match self.find_or_make(loan_bytes, &snug) {
                Ok(number) => number,
                Err(SegmentError::Limit) => return Err(self.all_out()),
                Err(SegmentError::Region(error)) => {
                    return Err(LoanError::NoMemory(error.to_string()));
                }
                // Not now, or not any more: what is written there is copied.
                Err(SegmentError::Share(_) | SegmentError::LineFull | SegmentError::Os(_)) => {
                    return Ok(Loan::plain(loan_bytes));
                }
            },
        };
        let slot = self.slots[number].as_mut();
        Ok(match slot.and_then(|slot| slot.memory.lend()) {
            Some(memory) => Loan { memory: Memory::Slot(memory), loan_bytes },
            None => Loan::plain(loan_bytes),
        })
    }

    /// Returns whether any loan lives that is not of the heap: if not, no message has to be looked
    /// through.
    #[must_use]
    #[inline]
    pub fn is_lending(&self) -> bool {
        self.slots.iter().flatten().any(|slot| slot.memory.is_lent())
    }

    /// Returns the place of `memory`, if it lies in a loan that lives.
    #[must_use]
    #[inline]
    pub fn find(&self, memory: &[u8]) -> Option<Place> {
        let start = memory.as_ptr().addr();
        let known = self.slots.iter().enumerate();
        // A slice of a slot exists only through a loan of it.
        let (number, slot) = known
            .filter_map(|(number, slot)| Some((number, slot.as_ref()?)))
            .find(|(_, slot)| slot.addresses.contains(&start))?;
        (memory.len() <= slot.addresses.end - start).then_some(Place {
            slot: u16::try_from(number).ok()?,
            segment: slot.segment.0,
            offset: u32::try_from(start - slot.addresses.start).ok()?,
            bytes: u32::try_from(memory.len()).ok()?,
        })
    }

    /// Counts that a message names this place, found while its loan lives. Once for each time.
    #[inline]
    pub fn pass(&mut self, place: Place) {
        let passes = &mut self.tallies[usize::from(place.slot)].passes;
        *passes = passes.wrapping_add(1);
    }

    /// The message that named this place was not sent.
    pub fn take_back(&mut self, place: Place) {
        let passes = &mut self.tallies[usize::from(place.slot)].passes;
        *passes = passes.wrapping_sub(1);
    }

    /// Returns how many slots are in use: by loans that live here, and only by the other end.
    #[must_use]
    pub fn slots_out(&mut self) -> (usize, usize) {
        self.look_at_counts();
        self.known_slots_out()
    }

    /// Returns the same as we saw it when we looked last.
    fn known_slots_out(&self) -> (usize, usize) {
        let (mut here, mut there) = (0, 0);
        for (number, tally) in self.tallies.iter().enumerate() {
            let slot = self.slots.get(number).and_then(Option::as_ref);
            match slot {
                Some(slot) if slot.memory.is_lent() => here += 1,
                _ if tally.passes != tally.seen => there += 1,
                _ => {}
            }
        }
        (here, there)
    }

    /// The free slot with the fewest bytes of those that `fit`, as far as we know.
    #[inline]
    fn smallest_free(&self, fit: impl Fn(usize) -> bool) -> Option<usize> {
        let free = self.slots.iter().zip(&self.tallies).enumerate().filter_map(|(number, it)| {
            let (Some(Slot { addresses, memory, .. }), tally) = it else { return None };
            let is_free = fit(addresses.len()) && tally.passes == tally.seen && !memory.is_lent();
            is_free.then_some((addresses.len(), number))
        });
        free.min().map(|(_, number)| number)
    }

    /// A slot for a loan where none is known to be free: another one in the rotation, one that has
    /// come back meanwhile, a new one, or a free one that is larger than it should be.
    fn find_or_make(
        &mut self,
        loan_bytes: usize,
        snug: &RangeInclusive<usize>,
    ) -> Result<usize, SegmentError> {
        let of_size = self.slots.iter().flatten().filter(|it| snug.contains(&it.addresses.len()));
        if of_size.count() < SLOTS_IN_ROTATION
            && let Ok(number) = self.make_slot(loan_bytes)
        {
            return Ok(number);
        }
        self.look_at_counts();
        if let Some(number) = self.smallest_free(|bytes| snug.contains(&bytes)) {
            return Ok(number);
        }
        self.make_slot(loan_bytes)
            .or_else(|error| self.smallest_free(|bytes| bytes >= loan_bytes).ok_or(error))
    }

    /// Makes a slot, and room for it among those that are free and too small.
    fn make_slot(&mut self, loan_bytes: usize) -> Result<usize, SegmentError> {
        let slot_bytes = slot_bytes(loan_bytes);
        loop {
            let slots = self.slots.iter().flatten();
            let in_use: usize = slots.map(|slot| slot.addresses.len()).sum();
            let mut free = (0..SLOTS_PER_END_MAX).filter(|&number| {
                let tally = &self.tallies[number];
                let is_taken = self.slots.get(number).is_some_and(Option::is_some);
                !is_taken && tally.passes == tally.seen
            });
            if let Some(number) = free.next()
                && in_use + slot_bytes <= SLOT_BYTES_PER_END_MAX
            {
                let (segment, mut region) = self.segments.create(slot_bytes)?;
                // Page faults now, in one call, or later, one by one.
                let _ = region.prefault();
                let memory = PlainRegion::from(region);
                let addresses = memory.addresses();
                let slot = Slot { segment, addresses, memory };
                let slots_until_now = self.slots.len();
                self.slots.resize_with(slots_until_now.max(number + 1), || None);
                self.slots[number] = Some(slot);
                return Ok(number);
            }
            let smaller = self.smallest_free(|bytes| bytes < loan_bytes);
            let retired = smaller.and_then(|number| self.slots[number].take());
            self.segments.retire(retired.ok_or(SegmentError::Limit)?.segment);
        }
    }

    /// Returns why there was no slot. It does not read again: slots that were returned meanwhile
    /// would falsify the message.
    #[cold]
    fn all_out(&self) -> LoanError {
        let (here, there) = self.known_slots_out();
        LoanError::AllOut { here, there }
    }

    /// Looks at what the borrower is done with by now.
    fn look_at_counts(&mut self) {
        if self.counts.is_none() && self.tallies.iter().any(|tally| tally.passes != 0) {
            // An error here is reported by the next receive of a message.
            let _ = self
                .control
                .take_packets(CONTROL_PACKETS_PER_PAUSE_MAX, |inbox| inbox.counts().is_some());
            self.counts = self.control.inbox().segments.counts().cloned();
        }
        let Some(counts) = &self.counts else { return };
        for (number, tally) in self.tallies.iter_mut().enumerate() {
            if tally.passes != tally.seen
                && let Ok(slot) = u16::try_from(number)
            {
                // Acquire: the reads of who is done come before our next writes.
                tally.seen = counts.load32(counter_at(slot), Ordering::Acquire);
            }
        }
    }
}

/// Memory to be written, then frozen and sent by reference. Dropped, it is given back.
///
/// It is a `&mut [u8]` by [`DerefMut`](std::ops::DerefMut).
#[derive(Debug)]
pub struct Loan {
    memory: Memory,
    loan_bytes: usize,
}

#[derive(Debug)]
enum Memory {
    Heap(Vec<u8>),
    Slot(PlainBytes),
}

impl Loan {
    /// Memory of the heap, where there is nothing to lend from: it is copied when it is sent.
    #[must_use]
    pub fn plain(loan_bytes: usize) -> Self {
        Self { memory: Memory::Heap(vec![0; loan_bytes]), loan_bytes }
    }

    /// Returns whether it is lent to the other end, and not copied when it is sent.
    #[must_use]
    #[inline]
    pub fn is_shared(&self) -> bool {
        matches!(self.memory, Memory::Slot(_))
    }

    /// Ends the writing. What comes back goes into messages, any number of times, whole or sliced.
    #[must_use]
    #[inline]
    pub fn freeze(mut self) -> Bytes {
        match &mut self.memory {
            Memory::Heap(heap) => Bytes::from(std::mem::take(heap)),
            Memory::Slot(_) => Bytes::from_owner(self),
        }
    }
}

impl AsRef<[u8]> for Loan {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        let memory = match &self.memory {
            Memory::Heap(heap) => heap,
            Memory::Slot(memory) => memory.as_slice(),
        };
        memory.get(..self.loan_bytes).unwrap_or_default()
    }
}

impl Deref for Loan {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_ref()
    }
}

impl DerefMut for Loan {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let memory = match &mut self.memory {
            Memory::Heap(heap) => &mut heap[..],
            Memory::Slot(memory) => memory.as_mut_slice(),
        };
        memory.get_mut(..self.loan_bytes).unwrap_or_default()
    }
}

/// What a slot has for a loan: whole pages, in steps of an eighth, so that slots fit more than one
/// length and waste little.
fn slot_bytes(loan_bytes: usize) -> usize {
    let step = (loan_bytes.next_power_of_two() / 8).max(SLOT_BYTES_MIN);
    loan_bytes.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_whole_pages_and_waste_little() {
        for (loan_bytes, expected) in [
            (4096, 4096),
            (4097, 8192),
            (1 << 20, 1 << 20),
            ((1 << 20) + 1, (1 << 20) + (1 << 18)),
            (SLOT_BYTES_PER_END_MAX, SLOT_BYTES_PER_END_MAX),
        ] {
            assert_eq!(slot_bytes(loan_bytes), expected, "{loan_bytes}");
        }
    }
}
