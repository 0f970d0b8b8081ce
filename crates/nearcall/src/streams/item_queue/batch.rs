//! Items of a stream, one behind the other.
//!
//! Short ones are copied into one buffer, so that an item costs no allocation; long ones keep the
//! buffer that they were received into, so that long `bytes` fields are slices of it.
//! **Invariants:** they come out in the order in which they went in; their memory is charged
//! before it is taken, until all of them were read or dropped.
//! **Not here:** who waits for them (`item_queue.rs`).

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use nearcall_channel::account::Exceeded;
use nearcall_wire::HEADER_BYTES;

use crate::codec::Body;
use crate::limits::ITEMS_STEP_BYTES;
use crate::reservation::{CallMemory, Reservation};

/// Items, of which some may have been read.
#[derive(Debug, Default)]
pub(crate) struct ItemBatch {
    /// Each item: its length in 4 bytes, then the item; or [`WHOLE`] for the next of `whole`.
    copied: Vec<u8>,
    /// Bytes of `copied` that were read.
    read: usize,
    whole: VecDeque<(Bytes, usize)>,
    /// What the buffers of `whole` took that came since all were read, in bytes.
    whole_bytes: usize,
    /// Of all that.
    reservation: Reservation,
}

/// One item.
#[derive(Debug)]
pub(crate) enum Item<'a> {
    Copied(&'a [u8]),
    /// All of the buffer behind its first bytes, which are that many.
    Whole(Bytes, usize),
}

impl Item<'_> {
    /// Returns the length of the message that it came in, in bytes.
    #[inline]
    pub(crate) fn message_bytes(&self) -> usize {
        match self {
            Self::Copied(item) => HEADER_BYTES + item.len(),
            Self::Whole(whole, start) => HEADER_BYTES + whole.len().saturating_sub(*start),
        }
    }

    /// Returns the item as a codec reads it.
    #[inline]
    pub(crate) fn body(&self) -> Body<'_> {
        match self {
            Self::Copied(item) => Body::copied(item),
            Self::Whole(whole, start) => Body::sliced(whole, *start),
        }
    }
}

impl ItemBatch {
    pub(crate) fn is_empty(&self) -> bool {
        self.read == self.copied.len()
    }

    /// Charges its items to `memory` from now on, if nothing does yet.
    pub(crate) fn charge_to(&mut self, memory: Option<&Arc<CallMemory>>) {
        self.reservation.charge_to(memory);
    }

    /// Adds an item by copying it.
    ///
    /// # Errors
    ///
    /// The share of the user does not suffice; the item was not added.
    #[inline]
    pub(crate) fn push(&mut self, item: &[u8]) -> Result<(), Exceeded> {
        let (bytes, room) = (self.copied.len() + PREFIX_BYTES + item.len(), self.copied.capacity());
        if bytes > room {
            self.reserve(bytes.max(2 * room))?;
        }
        // Items are shorter than messages, whose length has 32 bits.
        let bytes = u32::try_from(item.len()).unwrap_or(WHOLE);
        self.copied.reserve(PREFIX_BYTES + item.len());
        self.copied.extend_from_slice(&bytes.to_ne_bytes());
        self.copied.extend_from_slice(item);
        Ok(())
    }

    /// Adds an item that is all of `whole` behind its first `start` bytes.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
    pub(crate) fn push_whole(&mut self, whole: Bytes, start: usize) -> Result<(), Exceeded> {
        let before = self.whole_bytes;
        self.whole_bytes += whole.len().next_power_of_two();
        if let Err(exceeded) = self.reserve(self.copied.capacity() + 2 * PREFIX_BYTES) {
            self.whole_bytes = before;
            return Err(exceeded);
        }
        self.copied.extend_from_slice(&WHOLE.to_ne_bytes());
        self.whole.push_back((whole, start));
        Ok(())
    }

    /// Charges so much room for copied items, and the long ones.
    fn reserve(&mut self, copied: usize) -> Result<(), Exceeded> {
        let bytes = (copied + self.whole_bytes).next_multiple_of(ITEMS_STEP_BYTES);
        self.reservation.grow_to(bytes)
    }

    /// Takes the next item.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Item<'_>> {
        let prefix = *self.copied.get(self.read..)?.first_chunk::<PREFIX_BYTES>()?;
        self.read += PREFIX_BYTES;
        match u32::from_ne_bytes(prefix) {
            WHOLE => self.whole.pop_front().map(|(whole, start)| Item::Whole(whole, start)),
            bytes => {
                let start = self.read;
                self.read += bytes as usize;
                self.copied.get(start..self.read).map(Item::Copied)
            }
        }
    }

    /// Takes all items that are left. Returns what they cost together, each by its length.
    pub(crate) fn discard(&mut self, cost: impl Fn(usize) -> u64) -> u64 {
        let mut sum = 0;
        while let Some(item) = self.next() {
            sum += cost(item.message_bytes());
        }
        sum
    }

    /// Forgets all items, and keeps room for as many, unless it is much.
    pub(crate) fn clear(&mut self) {
        self.copied.clear();
        self.copied.shrink_to(KEPT_BYTES_MAX);
        self.whole.clear();
        (self.read, self.whole_bytes) = (0, 0);
        self.reservation.shrink_to(self.copied.capacity().next_multiple_of(ITEMS_STEP_BYTES));
    }
}

const PREFIX_BYTES: usize = 4;

/// Stands for a length: the item is a buffer of its own.
const WHOLE: u32 = u32::MAX;

/// Room for items that is kept for the next ones, in bytes: two of these for each stream that is
/// read, and thousands of tiny items in each.
const KEPT_BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_all_lengths_keep_their_order() {
        let mut batch = ItemBatch::default();
        for round in 0..3 {
            for length in [0_usize, 1, 7, 5000] {
                batch.push(&vec![round; length]).unwrap();
                batch.push_whole(Bytes::from(vec![round; length + 2]), 2).unwrap();
            }
            for length in [0_usize, 1, 7, 5000] {
                assert!(!batch.is_empty());
                let Some(Item::Copied(item)) = batch.next() else { panic!() };
                assert_eq!(item, vec![round; length]);
                let Some(Item::Whole(item, start)) = batch.next() else { panic!() };
                assert_eq!(item[start..], vec![round; length]);
            }
            assert!(batch.is_empty() && batch.next().is_none());
            if round == 1 {
                batch.clear();
            }
        }
    }
}
