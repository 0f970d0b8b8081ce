//! Which segments of shared memory the ends of a connection have handed over, and the packets that
//! say so.
//!
//! ```text
//! MADE    number u16, bytes u32, one descriptor   the reader maps it when a message names it
//! RETIRED number u16                              the reader unmaps it, once its users are gone
//! COUNTS  number u16, bytes u32, one descriptor   where the sender counts what it is done with
//! ```
//!
//! Numbers count up by one and wrap, past those that are in use: a segment may live as long as its
//! connection. So each has a number that no other one has while both ends may still refer to it.
//!
//! **Invariants:** a segment has exactly the seals and the size announced, or the connection is
//! broken; an end keeps at most `SEGMENTS_PER_END_MAX` of the other's segments with
//! `SEGMENT_BYTES_PER_END_MAX` bytes, whatever is sent.
//! **Not here:** making segments and sending the packets (`segments.rs`), receiving them
//! (`control.rs`).

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nearcall_os::region::{PeerRegion, RegionError};

use crate::account::{self, Charge, Exceeded};
use crate::error::{ReceiveError, Violation};
use crate::limits::{SEGMENT_BYTES_PER_END_MAX, SEGMENTS_PER_END_MAX};
use crate::shm::layout::COUNTS_BYTES;

/// First byte of a packet that hands a segment over.
pub(crate) const MADE: u8 = 0xD6;

/// First byte of a packet that takes one back.
pub(crate) const RETIRED: u8 = 0xD7;

/// First byte of a packet that hands over where an end counts, once in a connection.
pub(crate) const COUNTS: u8 = 0xD8;

/// The number of a segment: known to both ends, chosen by its writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SegmentId(pub(crate) u16);

/// The state of an end's own segments. One per connection, behind the control line's lock.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(super) next: u16,
    pub(super) live: Vec<(SegmentId, usize)>,
    /// Retired, but the line had no room to say so.
    pub(super) pending_retirements: VecDeque<SegmentId>,
    mappings: Option<Charge>,
    bytes: Option<Charge>,
}

impl Outbox {
    /// An end without segments, which charges them.
    pub(crate) fn charged_to(mappings: Option<Charge>, bytes: Option<Charge>) -> Self {
        Self { mappings, bytes, ..Self::default() }
    }

    pub(super) fn live_bytes(&self) -> usize {
        self.live.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Charges the segments that there are, and one more of `bytes`, unless that is zero.
    pub(super) fn charge(&mut self, bytes: usize) -> Result<(), Exceeded> {
        let (count, in_use) = (self.live.len() + usize::from(bytes > 0), self.live_bytes());
        account::resize(&mut self.mappings, count)?;
        account::resize(&mut self.bytes, in_use + bytes)
    }
}

/// The first number from `next` on that no segment has. Both ends compute it: the retirements that
/// come before a new segment in the line are those that its maker knows of.
pub(super) fn next_free_id(next: u16, is_used: impl Fn(SegmentId) -> bool) -> SegmentId {
    let mut id = SegmentId(next);
    // At most `SEGMENTS_PER_END_MAX` are in use.
    while is_used(id) {
        id = SegmentId(id.0.wrapping_add(1));
    }
    id
}

/// The segments that the other end has handed over and not taken back. One per connection.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// `true` if this mechanism has segments at all.
    expected: bool,
    pub(super) next: u16,
    pub(super) live: Vec<(SegmentId, Arc<PeerRegion>)>,
    counts: Option<Arc<PeerRegion>>,
    mappings: Option<Charge>,
    bytes: Option<Charge>,
}

impl Inbox {
    /// An end without segments of the other end, which charges them: they take room in the address
    /// space of this process, and memory of its control group once it has read them.
    pub(crate) fn charged_to(mappings: Option<Charge>, bytes: Option<Charge>) -> Self {
        Self { mappings, bytes, ..Self::default() }
    }

    /// Charges the segments that there are, and one more of `bytes`, unless that is zero.
    fn charge(&mut self, bytes: usize) -> Result<(), Exceeded> {
        let (segments, in_use) = self.totals();
        account::resize(&mut self.mappings, segments + usize::from(bytes > 0))?;
        account::resize(&mut self.bytes, in_use + bytes)
    }

    pub(crate) fn expect(&mut self) {
        self.expected = true;
    }

    pub(crate) fn has(&self, id: SegmentId) -> bool {
        self.live.iter().any(|(live, _)| *live == id)
    }

    /// Returns how many segments the other end has here, and their bytes.
    pub(crate) fn totals(&self) -> (usize, usize) {
        (self.live.len(), self.live.iter().map(|(_, region)| region.len()).sum())
    }

    /// The counters of the other end, once it has announced them.
    pub(crate) fn counts(&self) -> Option<&Arc<PeerRegion>> {
        self.counts.as_ref()
    }

    /// A packet that begins with `MADE`, `RETIRED` or `COUNTS`, and what came with it.
    pub(crate) fn put(&mut self, packet: &[u8], fds: Vec<OwnedFd>) -> Result<(), ReceiveError> {
        match (packet, <[OwnedFd; 1]>::try_from(fds)) {
            _ if !self.expected => Err(Violation::BadPacket.into()),
            (&[MADE, a, b, c, d, e, f], Ok([fd])) => {
                let id = SegmentId(u16::from_le_bytes([a, b]));
                self.insert(id, u32::from_le_bytes([c, d, e, f]) as usize, &fd)
            }
            (&[COUNTS, a, b, c, d, e, f], Ok([fd])) if self.counts.is_none() => {
                let id = SegmentId(u16::from_le_bytes([a, b]));
                let bytes = u32::from_le_bytes([c, d, e, f]) as usize;
                if bytes < COUNTS_BYTES {
                    return Err(Violation::BadSegment.into());
                }
                self.insert(id, bytes, &fd)?;
                self.counts = self.live.last().map(|(_, region)| Arc::clone(region));
                Ok(())
            }
            (&[RETIRED, a, b], Err(fds)) if fds.is_empty() => {
                let id = SegmentId(u16::from_le_bytes([a, b]));
                let at = self.live.iter().position(|(live, _)| *live == id);
                self.live.swap_remove(at.ok_or(Violation::BadSegment)?);
                // Less is never refused.
                let _ = self.charge(0);
                Ok(())
            }
            _ => Err(Violation::BadPacket.into()),
        }
    }

    fn insert(&mut self, id: SegmentId, bytes: usize, fd: &OwnedFd) -> Result<(), ReceiveError> {
        let (segments, in_use) = self.totals();
        if id != next_free_id(self.next, |id| self.has(id))
            || segments >= SEGMENTS_PER_END_MAX
            || bytes > SEGMENT_BYTES_PER_END_MAX - in_use
        {
            return Err(Violation::BadSegment.into());
        }
        self.charge(bytes)?;
        match PeerRegion::open(fd, bytes..=bytes) {
            Ok(region) => {
                self.live.push((id, Arc::new(region)));
                self.next = id.0.wrapping_add(1);
                Ok(())
            }
            // Ours, not the other end's: no memory, or too many mappings.
            Err(RegionError::Os(errno)) => Err(ReceiveError::Os(errno.into())),
            Err(_) => Err(Violation::BadSegment.into()),
        }
    }
}
