//! What one end is lent: places judged, bytes copied out or sliced, and given back.
//!
//! **Invariants:** a place that was borrowed is given back once, when the last slice of it goes, in
//! whatever thread; its memory stays mapped until then, also after the connection.
//! **Not here:** lending (`lender.rs`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use nearcall_os::fork::Epoch;
use nearcall_os::region::{OwnRegion, PeerRegion, SharedBytes, Trust, TrustedBytes};

use super::Place;
use crate::control::Control;
use crate::error::{ReceiveError, Violation};
use crate::limits::{BORROWS_PER_TENDING, SLOTS_PER_END_MAX};
use crate::shm::layout::{COUNTS_BYTES, counter_at};
use crate::shm::segment_table::SegmentId;
use crate::shm::segments::{OwnSegments, PeerSegments, SegmentError};

/// Borrows from the other end of a connection.
#[derive(Debug)]
pub struct Borrower {
    segments: PeerSegments,
    own: OwnSegments,
    counts: Option<Arc<Counts>>,
    /// Places that were borrowed, in all.
    borrows: u32,
}

/// The page in which we count what we are done with.
#[derive(Debug)]
struct Counts {
    region: OwnRegion,
    /// A forked process gives back nothing of what its parent has borrowed.
    epoch: Epoch,
}

/// A place that is borrowed. Dropped, it is given back.
#[derive(Debug)]
pub struct Borrowed {
    region: PeerRegion,
    start: usize,
    bytes: usize,
    back: GiveBack,
}

#[derive(Debug)]
struct GiveBack {
    counts: Arc<Counts>,
    slot: u16,
}

impl Borrower {
    /// From now on the other end may lend.
    pub(crate) fn new(control: &Arc<Control>) -> Self {
        let (segments, own) = (PeerSegments::new(control), OwnSegments::new(control));
        Self { segments, own, counts: None, borrows: 0 }
    }

    /// Takes what a message names. Once for each time that it is named.
    ///
    /// # Errors
    ///
    /// `PeerBroken`: the place does not exist. `Os`: this process has no memory or no descriptor
    /// left for it. The connection can no longer be used, since the place was not given back.
    #[inline]
    pub fn borrow(&mut self, place: Place) -> Result<Borrowed, ReceiveError> {
        let Place { slot, segment, offset, bytes } = place;
        if usize::from(slot) >= SLOTS_PER_END_MAX {
            return Err(Violation::BadSegment.into());
        }
        if self.borrows % BORROWS_PER_TENDING == BORROWS_PER_TENDING - 1 {
            self.segments.maintain()?;
        }
        let region = self.segments.get(SegmentId(segment))?;
        let (start, bytes) = (offset as usize, bytes as usize);
        let range = start..start.saturating_add(bytes);
        if bytes == 0 || region.get(range).is_none() {
            return Err(Violation::BadSegment.into());
        }
        let region = PeerRegion::clone(region);
        let counts = Arc::clone(self.counts()?);
        self.borrows = self.borrows.wrapping_add(1);
        Ok(Borrowed { region, start, bytes, back: GiveBack { counts, slot } })
    }

    /// Returns how many places are borrowed now: messages and slices that live.
    #[must_use]
    pub fn places_out(&self) -> usize {
        let Some(counts) = &self.counts else { return 0 };
        let slots = (0..SLOTS_PER_END_MAX).filter_map(|number| u16::try_from(number).ok());
        let back = slots.fold(0_u32, |sum, slot| {
            sum.wrapping_add(counts.region.word32(counter_at(slot)).load(Ordering::Relaxed))
        });
        self.borrows.wrapping_sub(back) as usize
    }

    fn counts(&mut self) -> Result<&Arc<Counts>, ReceiveError> {
        if self.counts.is_none() {
            let region = self.own.create_counts(COUNTS_BYTES).map_err(cannot_count)?;
            self.counts = Some(Arc::new(Counts { region, epoch: Epoch::current() }));
        }
        self.counts.as_ref().ok_or(ReceiveError::Empty)
    }
}

#[cold]
fn cannot_count(error: SegmentError) -> ReceiveError {
    match error {
        SegmentError::Os(error) => error.into(),
        error => ReceiveError::Os(std::io::Error::other(error.to_string())),
    }
}

impl Borrowed {
    /// Returns how many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Never true: an empty place is refused.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The bytes where they lie; the lender can still write them. To be copied.
    #[must_use]
    pub fn bytes(&self) -> SharedBytes<'_> {
        self.region.bytes(self.start..self.start + self.bytes)
    }

    /// The bytes where they lie as a handle, which takes trust that the lender leaves them alone.
    /// The place is given back when the last slice of it is dropped. One allocation.
    #[must_use]
    #[inline]
    pub fn into_bytes(self, trust: Trust) -> Bytes {
        let range = self.start..self.start + self.bytes;
        match TrustedBytes::new(self.region, range, trust) {
            Some(bytes) => Bytes::from_owner(Trusted { bytes, _back: self.back }),
            None => Bytes::new(),
        }
    }
}

/// The owner behind slices: what it holds goes in this order.
struct Trusted {
    bytes: TrustedBytes,
    _back: GiveBack,
}

impl AsRef<[u8]> for Trusted {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl Drop for GiveBack {
    fn drop(&mut self) {
        if !self.counts.epoch.is_current() {
            return;
        }
        // Release: our reads come before the lender's next writes. A count, not a flag: the same
        // slot may be lent again, or more than once, before the lender looks.
        self.counts.region.word32(counter_at(self.slot)).fetch_add(1, Ordering::Release);
    }
}
