//! Which extents of an arena are free. All of a cell have one size.
//!
//! They are given back in the order in which they were taken, so the next one is nearly always free
//! and a search ends at once. Always true: nothing is given back twice, nor what was not taken.
//! Allocates memory only when it is made.

use std::fmt;
use std::ops::Range;

/// A part of an arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) start: u32,
    pub(super) bytes: u32,
}

impl Extent {
    /// What travels through a pipe.
    pub(super) const BYTES: usize = 8;

    pub(super) fn encode(self) -> [u8; Self::BYTES] {
        let [a, b, c, d] = self.start.to_le_bytes();
        let [e, f, g, h] = self.bytes.to_le_bytes();
        [a, b, c, d, e, f, g, h]
    }

    pub(super) fn decode([a, b, c, d, e, f, g, h]: [u8; Self::BYTES]) -> Self {
        let (start, bytes) = ([a, b, c, d], [e, f, g, h]);
        Self { start: u32::from_le_bytes(start), bytes: u32::from_le_bytes(bytes) }
    }

    /// Where it ends, also if that is outside of any arena.
    pub(super) fn end(self) -> u64 {
        u64::from(self.start) + u64::from(self.bytes)
    }
}

/// The extents of an arena.
pub(super) struct Free {
    is_taken: Vec<bool>,
    extent_bytes: u32,
    free: usize,
    /// The one behind the last that was taken.
    next: usize,
}

/// Given back what was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotTaken(Extent);

impl fmt::Display for NotTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Extent { start, bytes } = self.0;
        write!(f, "{bytes} bytes at {start} were given back and not taken")
    }
}

impl Free {
    /// An arena that is free, in extents of `extent_bytes`.
    pub(super) fn all(arena_bytes: u32, extent_bytes: u32) -> Self {
        let free = (arena_bytes / extent_bytes) as usize;
        Self { is_taken: vec![false; free], extent_bytes, free, next: 0 }
    }

    /// Takes an extent, if one is free.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Extent> {
        self.free = self.free.checked_sub(1)?;
        let mut order = (self.next..self.is_taken.len()).chain(0..self.next);
        let at = order.find(|&at| !self.is_taken[at])?;
        self.is_taken[at] = true;
        self.next = at + 1;
        let start = u32::try_from(at).ok()? * self.extent_bytes;
        Some(Extent { start, bytes: self.extent_bytes })
    }

    /// Gives `extent` back, which may be several that were taken one after the other.
    #[inline]
    pub(super) fn give_back(&mut self, extent: Extent) -> Result<(), NotTaken> {
        let places = self.places(extent);
        let taken = places.and_then(|places| self.is_taken.get_mut(places));
        match taken.filter(|taken| !taken.is_empty() && taken.iter().all(|&is_taken| is_taken)) {
            Some(taken) => {
                taken.fill(false);
                self.free += taken.len();
                Ok(())
            }
            None => Err(NotTaken(extent)),
        }
    }

    /// The places of its extents, if it is whole ones.
    fn places(&self, extent: Extent) -> Option<Range<usize>> {
        let is_whole = |bytes: u32| bytes.is_multiple_of(self.extent_bytes);
        let first = (extent.start / self.extent_bytes) as usize;
        let count = (extent.bytes / self.extent_bytes) as usize;
        (is_whole(extent.start) && is_whole(extent.bytes)).then(|| first..first + count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARENA: u32 = 1 << 12;
    const LINE: u32 = 64;

    #[test]
    fn what_is_taken_was_free_and_a_free_one_is_found() {
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let bytes = rng.u32(1..=8) * LINE;
            let mut free = Free::all(ARENA, bytes);
            let mut taken: Vec<Extent> = Vec::new();
            for _ in 0..500 {
                if rng.bool() || taken.is_empty() {
                    let Some(extent) = free.take() else {
                        assert_eq!(taken.len(), (ARENA / bytes) as usize, "seed {seed}");
                        continue;
                    };
                    let apart = |other: &Extent| {
                        other.end() <= extent.start.into() || extent.end() <= other.start.into()
                    };
                    assert!(taken.iter().all(apart) && extent.end() <= ARENA.into(), "{extent:?}");
                    taken.push(extent);
                } else {
                    let extent = taken.swap_remove(rng.usize(..taken.len()));
                    free.give_back(extent).unwrap();
                    assert!(free.give_back(extent).is_err(), "seed {seed}: twice");
                }
            }
        }
    }

    #[test]
    fn what_was_not_taken_is_refused() {
        let mut free = Free::all(ARENA, LINE);
        let taken = [free.take(), free.take()].map(Option::unwrap);
        let extents =
            [(0, 0), (0, 192), (64, 128), (32, 64), (128, 64), (4_096, 64), (64, u32::MAX)];
        for (start, bytes) in extents {
            assert!(free.give_back(Extent { start, bytes }).is_err(), "{start} {bytes}");
        }
        free.give_back(Extent { bytes: 2 * LINE, ..taken[0] }).unwrap();
        assert!(free.give_back(taken[1]).is_err());
    }

    #[test]
    fn an_extent_survives_the_pipe() {
        let extent = Extent { start: 0x0102_0304, bytes: u32::MAX };
        assert_eq!(Extent::decode(extent.encode()), extent);
    }
}
