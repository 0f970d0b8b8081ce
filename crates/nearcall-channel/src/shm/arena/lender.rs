//! What one end lends: slots, loans of them, and when a slot is free again.
//!
//! Always true: at most `SLOTS_PER_END_MAX` slots with `SLOT_BYTES_PER_END_MAX` bytes; nothing here
//! waits. Loans and what they become may be dropped in any thread, also after the connection.
//! Not here: reading what was lent (`borrower.rs`).

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use nearcall_os::region::{PeerRegion, PlainRegion};

use super::{Place, counter_at};
use crate::control::Control;
use crate::limits::{SLOT_BYTES_MIN, SLOT_BYTES_PER_END_MAX, SLOTS_PER_END_MAX};
use crate::shm::segments::{OwnSegments, SegmentError, SegmentId};

/// Lends memory to the other end of a connection.
#[derive(Debug)]
pub struct Lender {
    control: Arc<Control>,
    segments: OwnSegments,
    loan_bytes_max: usize,
    home: Arc<Home>,
    /// How often each slot was passed. Counts on when a slot gets another segment.
    passes: [u32; SLOTS_PER_END_MAX],
    /// Where the borrower counts, once it has borrowed something.
    counts: Option<Arc<PeerRegion>>,
}

/// Where loans come back to.
#[derive(Debug)]
struct Home {
    slots: Mutex<[Option<Slot>; SLOTS_PER_END_MAX]>,
    /// Loans that live, frozen or not.
    lent: AtomicUsize,
}

#[derive(Debug)]
struct Slot {
    segment: SegmentId,
    addresses: Range<usize>,
    /// Not here while a loan of it lives.
    memory: Option<PlainRegion>,
}

/// Why nothing was lent. The connection is as good as before.
#[derive(Debug)]
pub enum LoanError {
    /// No message can carry as much. Send less at once.
    TooLarge {
        /// What was asked for, in bytes.
        loan_bytes: usize,
        /// The limit, in bytes.
        loan_bytes_max: usize,
    },
    /// All slots, or all bytes that slots may have, are in use: by loans that live here, or by
    /// slices that the other end keeps.
    AllOut {
        /// Slots with a loan that lives here.
        here: usize,
        /// Slots that the other end has not given back.
        there: usize,
    },
    /// The system has no memory left.
    NoMemory(String),
}

impl fmt::Display for LoanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { loan_bytes, loan_bytes_max } => {
                write!(f, "a loan of {loan_bytes} bytes is above the limit of {loan_bytes_max}")
            }
            Self::AllOut { here, there } => write!(
                f,
                "nothing is left to lend: {here} loans live here and {there} slots are kept by the \
                 other end, which gives them back when it drops or detaches what it received; \
                 try again then, or send bytes that are not loaned"
            ),
            Self::NoMemory(why) => write!(f, "no memory for a loan: {why}"),
        }
    }
}

impl std::error::Error for LoanError {}

impl Lender {
    /// `loan_bytes_max` is the longest message of the connection.
    pub(crate) fn new(control: &Arc<Control>, loan_bytes_max: usize) -> Self {
        let home = Home { slots: Mutex::new([const { None }; _]), lent: AtomicUsize::new(0) };
        Self {
            control: Arc::clone(control),
            segments: OwnSegments::new(control),
            loan_bytes_max: loan_bytes_max.min(SLOT_BYTES_PER_END_MAX),
            home: Arc::new(home),
            passes: [0; SLOTS_PER_END_MAX],
            counts: None,
        }
    }

    /// Lends `loan_bytes` bytes to be written: of a slot, or for few of the heap. They hold zeroes,
    /// or what was written there before.
    ///
    /// A slot that was used before costs two hundred nanoseconds or so; a new one some ten system
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
        self.look_for_counts();
        let home = Arc::clone(&self.home);
        let mut slots = home.lock();
        // What is much larger than needed is kept for who needs it, as long as there is room.
        let snug = loan_bytes..=loan_bytes.saturating_mul(4);
        let number = match self.smallest_free(&slots, |bytes| snug.contains(&bytes)) {
            Some(number) => number,
            None => match self.make_slot(&mut slots, loan_bytes) {
                Ok(number) => number,
                Err(error) => {
                    let any = self.smallest_free(&slots, |bytes| bytes >= loan_bytes);
                    match (any, error) {
                        (Some(number), _) => number,
                        (None, SegmentError::Limit) => return Err(self.all_out(&slots)),
                        (None, SegmentError::Region(error)) => {
                            return Err(LoanError::NoMemory(error.to_string()));
                        }
                        // Not now, or not any more: what is written there is copied.
                        (None, SegmentError::LineFull | SegmentError::Os(_)) => {
                            return Ok(Loan::plain(loan_bytes));
                        }
                    }
                }
            },
        };
        let slot = slots[number].as_mut();
        let memory = slot
            .and_then(|slot| slot.memory.take())
            .ok_or(LoanError::AllOut { here: SLOTS_PER_END_MAX, there: 0 })?;
        drop(slots);
        home.lent.fetch_add(1, Ordering::Relaxed);
        let memory = Memory::Slot { memory: Some(memory), number, home };
        Ok(Loan { memory, loan_bytes })
    }

    /// Whether any loan lives that is not of the heap: if not, no message has to be looked through.
    #[must_use]
    #[inline]
    pub fn is_lending(&self) -> bool {
        self.home.lent.load(Ordering::Relaxed) != 0
    }

    /// Where `memory` is, if it lies in a loan that lives.
    #[must_use]
    pub fn find(&self, memory: &[u8]) -> Option<Place> {
        let start = memory.as_ptr().addr();
        let slots = self.home.lock();
        let mut known = slots.iter().enumerate();
        let (number, slot) = known.find_map(|(number, slot)| {
            let slot = slot.as_ref().filter(|slot| slot.memory.is_none())?;
            slot.addresses.contains(&start).then_some((number, slot))
        })?;
        let offset = start - slot.addresses.start;
        (memory.len() <= slot.addresses.end - start).then_some(Place {
            slot: u16::try_from(number).ok()?,
            segment: slot.segment.0,
            offset: u32::try_from(offset).ok()?,
            bytes: u32::try_from(memory.len()).ok()?,
        })
    }

    /// Counts that a message names this place, found while its loan lives. Once for each time.
    pub fn pass(&mut self, place: Place) {
        let passes = &mut self.passes[usize::from(place.slot)];
        *passes = passes.wrapping_add(1);
    }

    /// The message that named this place was not sent.
    pub fn take_back(&mut self, place: Place) {
        let passes = &mut self.passes[usize::from(place.slot)];
        *passes = passes.wrapping_sub(1);
    }

    /// How many slots are in use: by loans that live here, and only by the other end.
    #[must_use]
    pub fn slots_out(&mut self) -> (usize, usize) {
        self.look_for_counts();
        let slots = self.home.lock();
        let here = slots.iter().flatten().filter(|slot| slot.memory.is_none()).count();
        let in_use = (0..SLOTS_PER_END_MAX).filter(|&number| {
            slots[number].as_ref().is_some_and(|slot| slot.memory.is_none())
                || !self.is_back(number)
        });
        let in_use = in_use.count();
        (here, in_use - here)
    }

    /// The free slot with the fewest bytes of those that `fit`.
    fn smallest_free(
        &self,
        slots: &[Option<Slot>; SLOTS_PER_END_MAX],
        fit: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let free = slots.iter().enumerate().filter_map(|(number, slot)| {
            let slot = slot.as_ref().filter(|slot| slot.memory.is_some())?;
            (fit(slot.addresses.len()) && self.is_back(number))
                .then_some((slot.addresses.len(), number))
        });
        free.min().map(|(_, number)| number)
    }

    /// Whether the other end is done with the slot.
    fn is_back(&self, number: usize) -> bool {
        let passes = self.passes[number];
        let Ok(slot) = u16::try_from(number) else { return false };
        match &self.counts {
            // Acquire: the reads of who is done come before our next writes.
            Some(counts) => counts.load32(counter_at(slot), Ordering::Acquire) == passes,
            None => passes == 0,
        }
    }

    /// Makes a slot, and room for it among those that are free and too small.
    fn make_slot(
        &self,
        slots: &mut [Option<Slot>; SLOTS_PER_END_MAX],
        loan_bytes: usize,
    ) -> Result<usize, SegmentError> {
        let slot_bytes = slot_bytes(loan_bytes);
        loop {
            let in_use: usize = slots.iter().flatten().map(|slot| slot.addresses.len()).sum();
            let number = (0..SLOTS_PER_END_MAX)
                .find(|&number| slots[number].is_none() && self.is_back(number))
                .filter(|_| in_use + slot_bytes <= SLOT_BYTES_PER_END_MAX);
            if let Some(number) = number {
                let (segment, mut region) = self.segments.create(slot_bytes)?;
                // Page faults now, in one call, or later, one by one.
                let _ = region.prefault();
                let memory = PlainRegion::from(region);
                let addresses = memory.addresses();
                slots[number] = Some(Slot { segment, addresses, memory: Some(memory) });
                return Ok(number);
            }
            let smaller = self.smallest_free(slots, |bytes| bytes < loan_bytes);
            let retired = smaller.and_then(|number| slots[number].take());
            self.segments.retire(retired.ok_or(SegmentError::Limit)?.segment);
        }
    }

    #[cold]
    fn all_out(&self, slots: &[Option<Slot>; SLOTS_PER_END_MAX]) -> LoanError {
        let here = slots.iter().flatten().filter(|slot| slot.memory.is_none()).count();
        let there = (0..SLOTS_PER_END_MAX).filter(|&number| {
            let is_here = slots[number].as_ref().is_none_or(|slot| slot.memory.is_some());
            is_here && !self.is_back(number)
        });
        LoanError::AllOut { here, there: there.count() }
    }

    /// Looks whether the borrower's page has come, until it has.
    fn look_for_counts(&mut self) {
        if self.counts.is_none() && self.passes.iter().any(|&passes| passes != 0) {
            // Whoever waits for a message hears of what goes wrong here.
            let _ = self.control.take_packets(|inbox| inbox.counts().is_some());
            self.counts = self.control.inbox().segments.counts().cloned();
        }
    }
}

impl Drop for Lender {
    fn drop(&mut self) {
        // Loans that live find their slot no more, and unmap it themselves.
        self.home.lock().fill_with(|| None);
    }
}

impl Home {
    fn lock(&self) -> MutexGuard<'_, [Option<Slot>; SLOTS_PER_END_MAX]> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Memory to be written, then frozen and sent by reference. Dropped, it is given back.
#[derive(Debug)]
pub struct Loan {
    memory: Memory,
    loan_bytes: usize,
}

#[derive(Debug)]
enum Memory {
    Heap(Vec<u8>),
    Slot { memory: Option<PlainRegion>, number: usize, home: Arc<Home> },
}

impl Loan {
    /// Memory of the heap, where there is nothing to lend from: it is copied when it is sent.
    #[must_use]
    pub fn plain(loan_bytes: usize) -> Self {
        Self { memory: Memory::Heap(vec![0; loan_bytes]), loan_bytes }
    }

    /// Whether it is lent to the other end, and not copied when it is sent.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        matches!(self.memory, Memory::Slot { .. })
    }

    /// Ends the writing. What comes back goes into messages, any number of times, whole or sliced.
    #[must_use]
    pub fn freeze(mut self) -> Bytes {
        match &mut self.memory {
            Memory::Heap(heap) => Bytes::from(std::mem::take(heap)),
            Memory::Slot { .. } => Bytes::from_owner(self),
        }
    }
}

impl AsRef<[u8]> for Loan {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        let memory = match &self.memory {
            Memory::Heap(heap) => heap,
            Memory::Slot { memory, .. } => memory.as_ref().map_or(&[][..], PlainRegion::as_slice),
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
            Memory::Slot { memory, .. } => {
                memory.as_mut().map_or(&mut [][..], PlainRegion::as_mut_slice)
            }
        };
        memory.get_mut(..self.loan_bytes).unwrap_or_default()
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let Memory::Slot { memory, number, home } = &mut self.memory else { return };
        let memory = memory.take();
        if let (Some(slot), Some(memory)) = (home.lock()[*number].as_mut(), memory) {
            slot.memory = Some(memory);
        }
        home.lent.fetch_sub(1, Ordering::Relaxed);
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
