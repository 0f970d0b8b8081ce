//! The sender's book of its pages: which parts the other end may still read.
//!
//! **Invariants:** a part is handed out again only when its free and all before it came back; frees
//! of parts that were never announced are refused.
//! **Not here:** the pages themselves (`cma.rs`).

use std::collections::VecDeque;

use crate::error::Violation;

/// A ring of parts, freed in the order in which they were taken.
#[derive(Debug)]
pub(super) struct Room {
    bytes: usize,
    parts_max: usize,
    /// The offset of each part, the oldest first.
    taken: VecDeque<usize>,
    /// The offset of the next part.
    next: usize,
}

impl Room {
    pub(super) fn new(bytes: usize, parts_max: usize) -> Self {
        Self { bytes, parts_max, taken: VecDeque::with_capacity(parts_max), next: 0 }
    }

    /// The longest part for which room always comes back.
    pub(super) fn fragment_bytes_max(&self) -> usize {
        self.bytes / 4 / ALIGNMENT * ALIGNMENT
    }

    /// Returns the room that a part of `bytes` takes: whole cache lines, at least one.
    pub(super) fn takes_bytes(bytes: usize) -> usize {
        bytes.max(1).next_multiple_of(ALIGNMENT)
    }

    /// Returns an offset where a part of `bytes` fits now.
    #[inline]
    pub(super) fn place(&self, bytes: usize) -> Option<usize> {
        let needs = Self::takes_bytes(bytes);
        let Some(oldest) = self.taken.front().copied() else {
            // From the beginning again, which is still in the cache.
            return (needs <= self.bytes).then_some(0);
        };
        if self.taken.len() == self.parts_max {
            return None;
        }
        match self.next > oldest {
            true if needs <= self.bytes - self.next => Some(self.next),
            true => (needs <= oldest).then_some(0),
            // Round the end, or full.
            false => (needs <= oldest - self.next).then_some(self.next),
        }
    }

    /// Takes the part that [`place`](Room::place) found.
    #[inline]
    pub(super) fn take(&mut self, offset: usize, bytes: usize) {
        self.taken.push_back(offset);
        self.next = offset + Self::takes_bytes(bytes);
    }

    /// Frees the oldest `parts`, as the peer says.
    #[inline]
    pub(super) fn release(&mut self, parts: usize) -> Result<(), Violation> {
        if parts > self.taken.len() {
            return Err(Violation::BadIndex);
        }
        self.taken.drain(..parts);
        Ok(())
    }

    /// Returns whether nothing is taken.
    pub(super) fn is_all_free(&self) -> bool {
        self.taken.is_empty()
    }
}

/// ChannelFds begin on cache lines, in bytes.
const ALIGNMENT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_never_overlap_and_room_comes_back() {
        let mut random = 7_u64;
        let mut next = |below: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(random >> 33).unwrap() % below
        };
        let mut room = Room::new(4096, 16);
        let mut model: VecDeque<(usize, usize)> = VecDeque::new();
        let mut refused = 0;
        let (steps, refused_min) = if cfg!(miri) { (500, 2) } else { (20_000, 100) };
        for _ in 0..steps {
            let bytes = next(room.fragment_bytes_max() + 1);
            match room.place(bytes) {
                Some(offset) if next(3) > 0 => {
                    let end = offset + Room::takes_bytes(bytes);
                    assert!(end <= 4096);
                    assert!(model.iter().all(|(from, to)| end <= *from || *to <= offset));
                    room.take(offset, bytes);
                    model.push_back((offset, end));
                }
                found => {
                    refused += usize::from(found.is_none());
                    let parts = next(model.len() + 1);
                    room.release(parts).unwrap();
                    model.drain(..parts);
                }
            }
            // What the protocol relies on: with less than a quarter unreported there is room.
            let taken: usize = model.iter().map(|(from, to)| to - from).sum();
            if taken < 1024 && model.len() < 4 {
                assert!(room.place(room.fragment_bytes_max()).is_some(), "{model:?}");
            }
        }
        assert!(refused > refused_min);
        assert_eq!(room.release(model.len() + 1), Err(Violation::BadIndex));
    }
}
