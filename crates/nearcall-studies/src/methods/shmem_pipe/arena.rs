//! Which extents of an arena are taken. All of a cell have one size.
//!
//! **Invariants:** they are given back in the order in which they were taken, by a receiver that
//! reads in order; what is given back otherwise is refused.

use std::fmt;

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

/// The extents of an arena, taken and given back in a circle.
pub(super) struct Free {
    extents: u32,
    extent_bytes: u32,
    /// The next one to take.
    next: u32,
    taken: u32,
}

/// Given back what was not taken, or not in order.
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
        Self { extents: arena_bytes / extent_bytes, extent_bytes, next: 0, taken: 0 }
    }

    /// Takes an extent, if one is free.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Extent> {
        if self.taken == self.extents {
            return None;
        }
        let start = self.next * self.extent_bytes;
        self.next = if self.next + 1 == self.extents { 0 } else { self.next + 1 };
        self.taken += 1;
        Some(Extent { start, bytes: self.extent_bytes })
    }

    /// Gives `extent` back, which may be several that were taken one after the other.
    #[inline]
    pub(super) fn give_back(&mut self, extent: Extent) -> Result<(), NotTaken> {
        let oldest = (self.next + self.extents - self.taken) % self.extents;
        let count = extent.bytes / self.extent_bytes;
        let is_whole = count > 0 && extent.bytes == count * self.extent_bytes;
        let is_next = extent.start == oldest * self.extent_bytes;
        if !is_whole || !is_next || count > self.taken.min(self.extents - oldest) {
            return Err(NotTaken(extent));
        }
        self.taken -= count;
        Ok(())
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
                    let mut extent = taken.remove(0);
                    while rng.bool()
                        && taken.first().is_some_and(|n| extent.end() == u64::from(n.start))
                    {
                        extent.bytes += taken.remove(0).bytes;
                    }
                    free.give_back(extent).unwrap();
                }
            }
        }
    }

    #[test]
    fn what_was_not_taken_is_refused() {
        let mut free = Free::all(ARENA, LINE);
        let taken = [free.take(), free.take()].map(Option::unwrap);
        let extents = [
            (0, 0),
            (0, 192),
            (64, 64),
            (64, 128),
            (32, 64),
            (128, 64),
            (4_096, 64),
            (64, u32::MAX),
        ];
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
