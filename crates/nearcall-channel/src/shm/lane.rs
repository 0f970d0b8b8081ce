//! The lane: where the fragments of long messages lie, so that the ring stays as small as short
//! messages need it.
//!
//! A lane is a segment (`segments.rs`) with room for fragments. A fragment in it is an indirect
//! frame in the ring, one cache line in which its place is written:
//!
//! ```text
//! | word: as of a fragment, with PAD | segment: u16, place: u32, 0: u16 | ... |
//! ```
//!
//! The room is divided into slots of [`SLOT_BYTES`]. A fragment lies in one slot, behind those that
//! were put there since the slot was taken. A slot is free again when the other end has read the
//! ring past the last frame that names it, so the lane needs no word of its own. The first free
//! slot is taken, of a few while both ends are awake, so that the fragments are in a near cache; a
//! sender uses all slots while the reader sleeps, and before it would sleep itself. The sender
//! makes its lane with the first long fragment, and a larger one when the reader has fallen behind
//! by a whole lane; where there is no memory or no room on the control line, it does without. It
//! takes the lane back when it was not used for [`LANE_IDLE`], at a sleep after that. A thread that
//! sleeps in its call wakes once for it; an event loop does not, it does so when it next goes to
//! sleep. The reader lets go in the same way.
//!
//! **Invariants:** an indirect frame is checked before anything of it is used; an end without a
//! lane works. **Not here:** waiting for room (`shm.rs`), the ring (`ring.rs`).

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use nearcall_os::clock;
use nearcall_os::region::{OwnRegion, PeerRegion};

use crate::control::Control;
use crate::error::{ReceiveError, Violation};
use crate::limits::{FRAGMENT_BYTES, LANE_CHECKS_MAX, LANE_IDLE, LANE_RETRY_FRAGMENTS, LANE_SLOTS};
use crate::settings::Settings;
use crate::shm::layout::Capacity;
use crate::shm::layout::FRAME_ALIGN;
use crate::shm::layout::lane::{
    LANE_BYTES, SLOT_BYTES, indirect_place, indirect_word, offset_of, slots_of,
};
use crate::shm::segment_table::SegmentId;
use crate::shm::segments::{OwnSegments, PeerSegments};

/// Both lanes of a connection.
pub(super) struct Lanes {
    pub(super) out: LaneOut,
    pub(super) incoming: LaneIn,
    /// The length of the fragment that found no room; zero if the last one did.
    pub(super) wanted_bytes: usize,
    /// How many slots the next fragment may be in.
    pub(super) slots: usize,
}

impl Lanes {
    /// Lanes for a ring of fragments of the usual length; a connection with a smaller ring has
    /// none.
    pub(super) fn new(capacity: Capacity, settings: &Settings) -> Option<Self> {
        let has_lanes = capacity.fragment_bytes_max() == FRAGMENT_BYTES;
        has_lanes.then(|| Self {
            out: LaneOut::new(&settings.control),
            incoming: LaneIn::new(&settings.control),
            wanted_bytes: 0,
            slots: LANE_SLOTS[1],
        })
    }

    pub(super) fn are_held(&self) -> bool {
        self.out.is_held() || self.incoming.is_held()
    }
}

/// The time when a lane was last seen in use. The clock is read at sleeps only.
#[derive(Debug, Default)]
struct Rest {
    used: bool,
    since: Option<Instant>,
}

impl Rest {
    /// Returns, at a sleep, whether the lane was unused for [`LANE_IDLE`].
    fn is_over(&mut self, now: Instant) -> bool {
        if std::mem::take(&mut self.used) {
            self.since = None;
        }
        now.saturating_duration_since(*self.since.get_or_insert(now)) >= LANE_IDLE
    }
}

/// The sender's lane.
#[derive(Debug)]
pub(crate) struct LaneOut {
    segments: OwnSegments,
    lane: Option<Lane>,
    /// The lane before this one, and how far the other end must have read before it is retired.
    outgrown: Option<(SegmentId, u64)>,
    /// The reader has fallen behind by a whole lane once.
    is_large: bool,
    fragments_until_retry: u32,
}

#[derive(Debug)]
struct Lane {
    id: SegmentId,
    region: OwnRegion,
    /// Of each slot: how far the other end must have read for it to be free.
    busy_until: Box<[u64]>,
    /// How far the other end must have read for all slots to be free.
    all_until: u64,
    /// The slot of the next fragment, and how much of it is in use.
    slot: usize,
    filled: usize,
    rest: Rest,
}

impl Lane {
    fn new((id, region): (SegmentId, OwnRegion)) -> Self {
        Self {
            id,
            busy_until: vec![0; slots_of(region.len())].into_boxed_slice(),
            region,
            all_until: 0,
            slot: 0,
            filled: 0,
            rest: Rest::default(),
        }
    }

    fn fits(&self, fragment_bytes: usize) -> bool {
        self.filled + fragment_bytes <= SLOT_BYTES
    }

    /// The place of the next fragment in the room.
    fn next(&self) -> usize {
        self.slot * SLOT_BYTES + self.filled
    }
}

impl LaneOut {
    pub(crate) fn new(control: &Arc<Control>) -> Self {
        Self {
            segments: OwnSegments::new(control),
            lane: None,
            outgrown: None,
            is_large: false,
            fragments_until_retry: 0,
        }
    }

    /// Returns whether a fragment may go through the lane; makes it if there is none. Never waits.
    #[inline]
    pub(crate) fn open(&mut self) -> bool {
        self.lane.is_some() || self.make()
    }

    #[cold]
    fn make(&mut self) -> bool {
        if self.fragments_until_retry > 0 {
            self.fragments_until_retry -= 1;
            return false;
        }
        let sizes = &LANE_BYTES[..=usize::from(self.is_large)];
        let made = sizes.iter().rev().find_map(|bytes| self.segments.create(*bytes).ok());
        let Some(made) = made else {
            self.fragments_until_retry = LANE_RETRY_FRAGMENTS;
            return false;
        };
        self.lane = Some(Lane::new(made));
        true
    }

    /// Makes a larger lane in the place of one that is full, once. Returns whether there is one.
    #[cold]
    pub(crate) fn grow(&mut self) -> bool {
        let Some(lane) = &self.lane else { return false };
        if std::mem::replace(&mut self.is_large, true) {
            return false;
        }
        let Ok(made) = self.segments.create(LANE_BYTES[1]) else { return false };
        self.outgrown = Some((lane.id, lane.all_until));
        self.lane = Some(Lane::new(made));
        true
    }

    /// Returns how far the other end must have read for the next fragment to have one of the first
    /// `slots`; zero without a lane, or if it fits behind the last fragment.
    #[inline]
    pub(crate) fn free_at(&self, fragment_bytes: usize, slots: usize) -> u64 {
        match &self.lane {
            Some(lane) if !lane.fits(fragment_bytes) => {
                lane.busy_until.iter().take(slots).copied().min().unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// Chooses the slot of the next fragment, given that the other end has read so far, which is as
    /// far as [`free_at`](Self::free_at) has it.
    #[inline]
    pub(crate) fn take(&mut self, fragment_bytes: usize, consumed: u64) {
        if let Some(lane) = &mut self.lane
            && !lane.fits(fragment_bytes)
        {
            lane.slot = lane.busy_until.iter().position(|until| *until <= consumed).unwrap_or(0);
            lane.filled = 0;
        }
    }

    /// Returns how far the other end must have read for everything to be free.
    pub(crate) fn busy_until(&self) -> u64 {
        let outgrown = self.outgrown.map_or(0, |(_, until)| until);
        self.lane.as_ref().map_or(0, |lane| lane.all_until).max(outgrown)
    }

    /// Returns whether the fragments of a message have slots now, given how far the other end has
    /// read.
    pub(crate) fn has_room_for(&self, message_bytes: usize, consumed: u64) -> bool {
        let Some(lane) = &self.lane else { return false };
        let free = lane.busy_until.iter().filter(|until| **until <= consumed);
        message_bytes.div_ceil(SLOT_BYTES) <= free.count()
    }

    /// Returns the word of the indirect frame that names the place of the next fragment.
    #[inline]
    pub(crate) fn indirect_word(&self) -> u64 {
        self.lane.as_ref().map_or(0, |lane| indirect_word(lane.id.0, lane.next()))
    }

    /// The place of the next fragment, which is free.
    #[inline]
    pub(crate) fn room(&mut self, fragment_bytes: usize) -> &mut [u8] {
        match &mut self.lane {
            Some(lane) => {
                let start = offset_of(lane.next());
                lane.region.slice_mut(start..start + fragment_bytes)
            }
            None => &mut [],
        }
    }

    /// The next fragment was published; its place is free when the other end has read so far.
    #[inline]
    pub(crate) fn mark_used(&mut self, fragment_bytes: usize, busy_until: u64) {
        if let Some(lane) = &mut self.lane {
            lane.busy_until[lane.slot] = busy_until;
            lane.filled += fragment_bytes.next_multiple_of(FRAME_ALIGN);
            lane.all_until = busy_until;
            lane.rest.used = true;
        }
    }

    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.lane.is_some()
    }

    /// At a sleep, with what the other end has read: takes lanes back that rested long enough or
    /// were outgrown.
    pub(crate) fn maintain(&mut self, consumed: u64) {
        if let Some((id, _)) = self.outgrown.take_if(|(_, until)| *until <= consumed) {
            self.segments.retire(id);
        }
        let Some(lane) = &mut self.lane else { return };
        if lane.rest.is_over(clock::now()) && lane.all_until <= consumed {
            self.segments.retire(lane.id);
            self.lane = None;
        }
    }
}

/// The reader's view of the other end's lane.
#[derive(Debug)]
pub(crate) struct LaneIn {
    segments: PeerSegments,
    lane: Option<(SegmentId, Arc<PeerRegion>)>,
    /// The slot of the last fragment, and the slots that were read since the last ring for room.
    slot: usize,
    unrung_slots: usize,
    rest: Rest,
    /// Looks since the last fragment whether it was taken back.
    looks: u32,
}

impl LaneIn {
    pub(crate) fn new(control: &Arc<Control>) -> Self {
        Self {
            segments: PeerSegments::new(control),
            lane: None,
            slot: 0,
            unrung_slots: 0,
            rest: Rest::default(),
            looks: 0,
        }
    }

    /// Returns where the fragment of `fragment_bytes` lies that `word` names: one load of it, given
    /// here.
    #[inline]
    pub(crate) fn find(
        &mut self,
        word: u64,
        fragment_bytes: usize,
    ) -> Result<Range<usize>, ReceiveError> {
        let (id, place) = indirect_place(word).ok_or(Violation::BadSegment)?;
        let id = SegmentId(id);
        if self.lane.as_ref().is_none_or(|(known, _)| *known != id) {
            let region = self.segments.get(id)?;
            if !LANE_BYTES.contains(&region.len()) {
                return Err(Violation::BadSegment.into());
            }
            self.lane = Some((id, Arc::clone(region)));
        }
        let (slot, filled) = (place / SLOT_BYTES, place % SLOT_BYTES);
        if slot >= self.slots() || fragment_bytes > SLOT_BYTES - filled {
            return Err(Violation::BadSegment.into());
        }
        self.unrung_slots += usize::from(slot != self.slot);
        self.slot = slot;
        (self.rest.used, self.looks) = (true, 0);
        let start = offset_of(place);
        Ok(start..start + fragment_bytes)
    }

    fn slots(&self) -> usize {
        self.lane.as_ref().map_or(0, |(_, region)| slots_of(region.len()))
    }

    /// Returns, once for each half of the lane that was read, that the sender is to be rung: its
    /// sleep for room is then worth a wake-up. A sender that waits has a fragment that is not read
    /// in every slot.
    #[inline]
    pub(crate) fn is_worth_ringing(&mut self) -> bool {
        let is_worth = self.unrung_slots >= self.slots() / 2;
        if is_worth {
            self.unrung_slots = 0;
        }
        is_worth
    }

    /// Returns the memory that the result of `find` is in.
    #[inline]
    pub(crate) fn region(&self) -> Option<&PeerRegion> {
        self.lane.as_ref().map(|(_, region)| &**region)
    }

    /// Returns whether a sleep should end for it: not forever, since the other end may be a loop
    /// that sleeps and keeps its lane.
    #[inline]
    pub(crate) fn may_be_retired(&self) -> bool {
        self.lane.is_some() && self.looks < LANE_CHECKS_MAX
    }

    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.lane.is_some()
    }

    /// At a sleep: lets go of a lane that the other end has taken back.
    pub(crate) fn maintain(&mut self) {
        let Some((id, _)) = &self.lane else { return };
        if !self.rest.is_over(clock::now()) {
            return;
        }
        // Look again after as long; a broken line is met by whoever needs it.
        self.rest = Rest::default();
        self.looks = self.looks.saturating_add(1);
        let told = self.segments.maintain();
        if told.is_err() || self.segments.get(*id).is_err() {
            self.lane = None;
        }
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests;
