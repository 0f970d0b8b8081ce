//! The lane: where the fragments of long messages lie, so that the ring stays as small as short
//! messages need it.
//!
//! A lane is a segment (`segments.rs`) of [`LANE_SLOTS`] slots of one fragment each. A fragment in
//! it is an indirect frame in the ring, one cache line in which its place is written:
//!
//! ```text
//! | word: as of a fragment, with PAD | segment: u16, slot: u16, 0: u32 | ... |
//! ```
//!
//! Slots go round. One is free again when the other end has read the ring past its frame, so the
//! lane needs no word of its own. The sender makes its lane with the first long fragment; where
//! there is no memory or no room on the control line, fragments go through the ring as ever. It
//! takes the lane back when it was not used for [`LANE_IDLE`], at a sleep after that. A thread that
//! sleeps in its call wakes once for it; an event loop does not, it does so when it next goes to
//! sleep. The reader lets go in the same way.
//!
//! **Invariants:** an indirect frame is checked before anything of it is used; an end without a
//! lane works. **Not here:** waiting for a slot (`shm.rs`), the ring (`ring.rs`).

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use nearcall_os::clock;
use nearcall_os::region::{OwnRegion, PeerRegion};

use crate::control::Control;
use crate::error::{ReceiveError, Violation};
use crate::limits::{FRAGMENT_BYTES, LANE_CHECKS_MAX, LANE_IDLE, LANE_RETRY_FRAGMENTS};
use crate::shm::layout::lane::{LANE_BYTES, LANE_SLOTS, indirect_place, indirect_word, slot_at};
use crate::shm::segment_table::SegmentId;
use crate::shm::segments::{OwnSegments, PeerSegments};

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
    fragments_until_retry: u32,
}

#[derive(Debug)]
struct Lane {
    id: SegmentId,
    region: OwnRegion,
    /// Of each slot: how far the other end must have read before it is free.
    busy_until: [u64; LANE_SLOTS],
    next: usize,
    rest: Rest,
}

impl LaneOut {
    pub(crate) fn new(control: &Arc<Control>) -> Self {
        Self { segments: OwnSegments::new(control), lane: None, fragments_until_retry: 0 }
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
        let Ok((id, region)) = self.segments.create(LANE_BYTES) else {
            self.fragments_until_retry = LANE_RETRY_FRAGMENTS;
            return false;
        };
        let (busy_until, next, rest) = ([0; LANE_SLOTS], 0, Rest::default());
        self.lane = Some(Lane { id, region, busy_until, next, rest });
        true
    }

    /// Returns how far the other end must have read for the next slot to be free; zero without a
    /// lane.
    #[inline]
    pub(crate) fn free_at(&self) -> u64 {
        self.lane.as_ref().map_or(0, |lane| lane.busy_until[lane.next])
    }

    /// Returns how far the other end must have read for all slots to be free.
    pub(crate) fn busy_until(&self) -> u64 {
        self.lane.as_ref().map_or(0, |lane| lane.busy_until.into_iter().max().unwrap_or(0))
    }

    /// Returns the word of the indirect frame that names the next slot.
    #[inline]
    pub(crate) fn indirect_word(&self) -> u64 {
        self.lane.as_ref().map_or(0, |lane| indirect_word(lane.id.0, lane.next))
    }

    /// The first `bytes` of the next slot, which is free.
    #[inline]
    pub(crate) fn room(&mut self, bytes: usize) -> &mut [u8] {
        match &mut self.lane {
            Some(lane) => {
                let start = slot_at(lane.next);
                lane.region.slice_mut(start..start + bytes)
            }
            None => &mut [],
        }
    }

    /// The next slot was published; it is free when the other end has read so far.
    #[inline]
    pub(crate) fn mark_used(&mut self, busy_until: u64) {
        if let Some(lane) = &mut self.lane {
            lane.busy_until[lane.next] = busy_until;
            lane.next = (lane.next + 1) % LANE_SLOTS;
            lane.rest.used = true;
        }
    }

    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.lane.is_some()
    }

    /// At a sleep, with what the other end has read: takes a lane back that rested long enough.
    pub(crate) fn maintain(&mut self, consumed: u64) {
        let Some(lane) = &mut self.lane else { return };
        let all_free = lane.busy_until.iter().all(|deadline| *deadline <= consumed);
        if lane.rest.is_over(clock::now()) && all_free {
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
    rest: Rest,
    /// Looks since the last fragment whether it was taken back.
    looks: u32,
}

impl LaneIn {
    pub(crate) fn new(control: &Arc<Control>) -> Self {
        Self { segments: PeerSegments::new(control), lane: None, rest: Rest::default(), looks: 0 }
    }

    /// Returns where the fragment of `fragment_bytes` lies that `word` names: one load of it, given
    /// here.
    #[inline]
    pub(crate) fn find(
        &mut self,
        word: u64,
        fragment_bytes: usize,
    ) -> Result<Range<usize>, ReceiveError> {
        let (id, slot) = indirect_place(word).ok_or(Violation::BadSegment)?;
        let id = SegmentId(id);
        if fragment_bytes > FRAGMENT_BYTES {
            return Err(Violation::BadSegment.into());
        }
        if self.lane.as_ref().is_none_or(|(known, _)| *known != id) {
            let region = self.segments.get(id)?;
            if region.len() != LANE_BYTES {
                return Err(Violation::BadSegment.into());
            }
            self.lane = Some((id, Arc::clone(region)));
        }
        (self.rest.used, self.looks) = (true, 0);
        let start = slot_at(slot);
        Ok(start..start + fragment_bytes)
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
