//! Which parts of an arena are free: a list of extents, searched on from the last allocation.
//!
//! Messages are given back in the order in which they were allocated, so the list stays short and
//! the search ends at once. Always true: free extents are in order, never touch and never overlap;
//! nothing is given back twice. Allocates memory only when it is made.

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

/// The free parts of an arena.
pub(super) struct Free {
    extents: Vec<Extent>,
    arena_bytes: u32,
    /// Where the last allocation ended.
    next: u32,
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
    /// An arena that is free, for extents of at least `extent_bytes_min`.
    pub(super) fn all(arena_bytes: u32, extent_bytes_min: u32) -> Self {
        let extents_max = arena_bytes / extent_bytes_min / 2 + 2;
        let mut extents = Vec::with_capacity(extents_max as usize);
        extents.push(Extent { start: 0, bytes: arena_bytes });
        Self { extents, arena_bytes, next: 0 }
    }

    /// Takes `bytes` in one piece, if there is one.
    #[inline]
    pub(super) fn take(&mut self, bytes: u32) -> Option<Extent> {
        let from = self.extents.partition_point(|free| free.start < self.next);
        let fits = |free: &Extent| free.bytes >= bytes;
        let later = self.extents[from..].iter().position(fits).map(|at| from + at);
        let at = later.or_else(|| self.extents[..from].iter().position(fits))?;
        let free = &mut self.extents[at];
        let taken = Extent { start: free.start, bytes };
        free.start += bytes;
        free.bytes -= bytes;
        self.next = free.start;
        if free.bytes == 0 {
            self.extents.remove(at);
        }
        Some(taken)
    }

    /// Gives `extent` back, which may be several that were taken one after the other.
    #[inline]
    pub(super) fn give_back(&mut self, extent: Extent) -> Result<(), NotTaken> {
        let at = self.extents.partition_point(|free| free.start < extent.start);
        let before = at.checked_sub(1).map(|before| self.extents[before]);
        let after = self.extents.get(at).copied();
        let begins = before.map_or(0, Extent::end);
        let ends = after.map_or(u64::from(self.arena_bytes), |after| u64::from(after.start));
        if u64::from(extent.start) < begins || extent.end() > ends || extent.bytes == 0 {
            return Err(NotTaken(extent));
        }
        let joins_before = before.is_some() && u64::from(extent.start) == begins;
        let joins_after = after.is_some() && extent.end() == ends;
        match (joins_before, joins_after) {
            (true, true) => {
                self.extents[at - 1].bytes += extent.bytes + self.extents[at].bytes;
                self.extents.remove(at);
            }
            (true, false) => self.extents[at - 1].bytes += extent.bytes,
            (false, true) => {
                let bytes = extent.bytes + self.extents[at].bytes;
                self.extents[at] = Extent { bytes, ..extent };
            }
            (false, false) => self.extents.insert(at, extent),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARENA: u32 = 1 << 12;
    const LINE: u32 = 64;

    /// What each line of the arena is: the plain truth that the list stands for.
    struct Model([bool; (ARENA / LINE) as usize]);

    impl Model {
        #[track_caller]
        fn change(&mut self, extent: Extent, is_free: bool) {
            for line in extent.start / LINE..(extent.start + extent.bytes) / LINE {
                assert_eq!(self.0[line as usize], !is_free, "{extent:?}");
                self.0[line as usize] = is_free;
            }
        }

        fn longest(&self) -> u32 {
            let runs = self.0.split(|is_free| !is_free).map(<[bool]>::len);
            u32::try_from(runs.max().unwrap()).unwrap() * LINE
        }
    }

    fn check_order(free: &Free) {
        let apart = |pair: &[Extent]| pair[0].end() < u64::from(pair[1].start);
        assert!(free.extents.windows(2).all(apart), "{:?}", free.extents);
        assert!(free.extents.len() <= free.extents.capacity());
    }

    #[test]
    fn what_is_taken_was_free_and_what_fits_is_found() {
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut free = Free::all(ARENA, LINE);
            let capacity = free.extents.capacity();
            let mut model = Model([true; (ARENA / LINE) as usize]);
            let mut taken = Vec::new();
            for _ in 0..500 {
                if rng.bool() || taken.is_empty() {
                    let bytes = rng.u32(1..=8) * LINE;
                    match free.take(bytes) {
                        Some(extent) => {
                            model.change(extent, false);
                            taken.push(extent);
                        }
                        None => assert!(model.longest() < bytes, "seed {seed}"),
                    }
                } else {
                    let extent = taken.swap_remove(rng.usize(..taken.len()));
                    free.give_back(extent).unwrap();
                    model.change(extent, true);
                    assert!(free.give_back(extent).is_err(), "seed {seed}: twice");
                }
                check_order(&free);
            }
            for extent in taken {
                free.give_back(extent).unwrap();
            }
            assert_eq!(free.extents, [Extent { start: 0, bytes: ARENA }]);
            assert_eq!(free.extents.capacity(), capacity, "no allocation");
        }
    }

    #[test]
    fn in_order_of_a_queue_the_list_stays_short() {
        let mut free = Free::all(ARENA, LINE);
        let mut queue = std::collections::VecDeque::new();
        for _ in 0..1_000 {
            while let Some(extent) = free.take(3 * LINE) {
                queue.push_back(extent);
            }
            for _ in 0..5 {
                free.give_back(queue.pop_front().unwrap()).unwrap();
            }
            assert!(free.extents.len() <= 3, "{:?}", free.extents);
        }
    }

    #[test]
    fn what_was_not_taken_is_refused() {
        let mut free = Free::all(ARENA, LINE);
        free.take(2 * LINE).unwrap();
        let extents = [(0, 0), (0, 192), (64, 128), (128, 64), (4_096, 64), (64, u32::MAX)];
        for (start, bytes) in extents {
            assert!(free.give_back(Extent { start, bytes }).is_err(), "{start} {bytes}");
        }
        free.give_back(Extent { start: 0, bytes: 128 }).unwrap();
    }

    #[test]
    fn an_extent_survives_the_pipe() {
        let extent = Extent { start: 0x0102_0304, bytes: u32::MAX };
        assert_eq!(Extent::decode(extent.encode()), extent);
    }
}
