//! Segments: memory files made when they are needed, handed over the control line.
//!
//! A connection begins with two small rings. What needs more room, a lane for large messages or
//! the slots of loans, gets a memory file of its own: its writer makes it, seals it as the ring's
//! file is sealed, and sends the descriptor in a packet of the control line.
//!
//! ```text
//! writer                                              reader
//!   MADE    number u16, bytes u32, one descriptor -->   maps it read-only when a message names it
//!   RETIRED number u16                            -->   unmaps it, once its users are gone
//!   COUNTS  number, bytes, descriptor, as MADE    -->   where the sender says what it is done with
//! ```
//!
//! Numbers count up by one and wrap, past those that are in use: a segment may live as long as its
//! connection. That gives each a number that no other one has while both ends may still speak of
//! it. A packet is sent before the first message that names its segment, so the reader finds it in
//! the line when it meets the number. `retire` comes after the last message that names it has been
//! read.
//! Always true: nothing here waits; a segment has exactly the seals and the size announced, or the
//! connection is broken; an end keeps at most `SEGMENTS_PER_END_MAX` of the other's segments with
//! `SEGMENT_BYTES_PER_END_MAX` bytes, whatever is sent.
//! The pages are reserved when a segment is made: a machine without room says so then, and the
//! connection goes on without; no later write can fail. The reader brings no pages in beforehand,
//! so that a peer that reserved none costs it only what it reads.
//! Not here: what lies in a segment, users' own descriptors on the same line (`control.rs`).

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use nearcall_os::region::{Backing, OwnRegion, PeerRegion, RegionError};

use crate::control::Control;
use crate::error::{ReceiveError, Violation};
use crate::limits::{PASSED_DESCRIPTORS_KEPT_MAX, SEGMENT_BYTES_PER_END_MAX, SEGMENTS_PER_END_MAX};
use crate::shm::arena::COUNTS_BYTES;

/// First byte of a packet that hands a segment over.
pub(crate) const MADE: u8 = 0xD6;

/// First byte of a packet that takes one back.
pub(crate) const RETIRED: u8 = 0xD7;

/// First byte of a packet that hands over where an end counts, once in a connection.
pub(crate) const COUNTS: u8 = 0xD8;

/// The number of a segment: known to both ends, chosen by its writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SegmentId(pub(crate) u16);

/// Why no segment was made. The connection is as good as before; do without.
#[derive(Debug)]
pub(crate) enum SegmentError {
    /// This end has as many segments, or as many bytes in them, as one end may have.
    Limit,
    /// The other end has not taken from the control line what was sent before.
    LineFull,
    /// The kernel has no memory or no descriptor left.
    Region(RegionError),
    /// The control line is of no use any more.
    Os(io::Error),
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit => write!(
                f,
                "this end has {SEGMENTS_PER_END_MAX} segments or {SEGMENT_BYTES_PER_END_MAX} bytes \
                 in them already"
            ),
            Self::LineFull => f.write_str("the other end has not taken what was sent before"),
            Self::Region(error) => error.fmt(f),
            Self::Os(error) => write!(f, "handing a segment over failed: {error}"),
        }
    }
}

/// Makes segments of this end and hands them over. All handles of one connection count together.
#[derive(Debug)]
pub(crate) struct OwnSegments {
    control: Arc<Control>,
}

/// What an end knows of its own segments. One per connection, behind the control line's lock.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    next: u16,
    live: Vec<(SegmentId, usize)>,
    /// Retired, but the line had no room to say so.
    pending_retirements: VecDeque<SegmentId>,
}

impl OwnSegments {
    pub(crate) fn new(control: &Arc<Control>) -> Self {
        Self { control: Arc::clone(control) }
    }

    /// Makes a zeroed segment of `bytes` and sends it to the other end. Never waits.
    ///
    /// About ten system calls, and all its pages: keep it, and use it again.
    pub(crate) fn create(&self, bytes: usize) -> Result<(SegmentId, OwnRegion), SegmentError> {
        // The other end keeps users' descriptors that lie before ours; it does not keep more.
        if self.control.passed_descriptors() > PASSED_DESCRIPTORS_KEPT_MAX {
            return Err(SegmentError::LineFull);
        }
        self.hand_over(MADE, bytes)
    }

    /// Makes the page in which this end counts what it is done with; once in a connection.
    pub(crate) fn create_counts(&self, bytes: usize) -> Result<OwnRegion, SegmentError> {
        self.hand_over(COUNTS, bytes).map(|(_, region)| region)
    }

    fn hand_over(&self, kind: u8, bytes: usize) -> Result<(SegmentId, OwnRegion), SegmentError> {
        let mut outbox = self.control.outbox();
        outbox.send_pending_retirements(&self.control)?;
        let in_use: usize = outbox.live.iter().map(|(_, bytes)| bytes).sum();
        let announced = u32::try_from(bytes).map_err(|_| SegmentError::Limit)?;
        if outbox.live.len() >= SEGMENTS_PER_END_MAX
            || bytes > SEGMENT_BYTES_PER_END_MAX - in_use.min(SEGMENT_BYTES_PER_END_MAX)
        {
            return Err(SegmentError::Limit);
        }
        let created = OwnRegion::create("nearcall-segment", bytes, Backing::Reserved);
        let (region, fd) = created.map_err(SegmentError::Region)?;
        let id = next_free_id(outbox.next, |id| outbox.live.iter().any(|(live, _)| *live == id));
        let [a, b] = id.0.to_le_bytes();
        let [c, d, e, f] = announced.to_le_bytes();
        let sent = self.control.send(&[kind, a, b, c, d, e, f], &[fd.as_fd()]);
        sent.map_err(SegmentError::of_line)?;
        outbox.next = id.0.wrapping_add(1);
        outbox.live.push((id, bytes));
        Ok((id, region))
    }

    /// Takes a segment back: no message that is still to be read names it. Drop its region.
    ///
    /// Never waits. If the line has no room now, the other end hears of it with the next segment.
    pub(crate) fn retire(&self, id: SegmentId) {
        let mut outbox = self.control.outbox();
        outbox.live.retain(|(live, _)| *live != id);
        outbox.pending_retirements.push_back(id);
        // Whatever hinders, the next call meets it again.
        let _ = outbox.send_pending_retirements(&self.control);
    }
}

/// The first number from `next` on that no segment has. Both ends compute it: the retirements that
/// come before a new segment in the line are those that its maker knows of.
fn next_free_id(next: u16, is_used: impl Fn(SegmentId) -> bool) -> SegmentId {
    let mut id = SegmentId(next);
    // At most `SEGMENTS_PER_END_MAX` are in use.
    while is_used(id) {
        id = SegmentId(id.0.wrapping_add(1));
    }
    id
}

impl Outbox {
    fn send_pending_retirements(&mut self, control: &Control) -> Result<(), SegmentError> {
        while let Some(id) = self.pending_retirements.front() {
            let [a, b] = id.0.to_le_bytes();
            control.send(&[RETIRED, a, b], &[]).map_err(SegmentError::of_line)?;
            self.pending_retirements.pop_front();
        }
        Ok(())
    }
}

impl SegmentError {
    fn of_line(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock => Self::LineFull,
            _ => Self::Os(error),
        }
    }
}

/// The other end's segments, as one user of them sees them.
///
/// Each handle keeps what it has asked for once, so that the path of a message takes no lock.
#[derive(Debug)]
pub(crate) struct PeerSegments {
    control: Arc<Control>,
    known: Vec<(SegmentId, Arc<PeerRegion>)>,
}

/// What the other end has handed over and not taken back. One per connection.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    /// Whether this mechanism has segments at all.
    expected: bool,
    next: u16,
    live: Vec<(SegmentId, Arc<PeerRegion>)>,
    counts: Option<Arc<PeerRegion>>,
}

impl PeerSegments {
    /// From now on the other end may hand segments over.
    pub(crate) fn new(control: &Arc<Control>) -> Self {
        control.expect_segments();
        Self { control: Arc::clone(control), known: Vec::new() }
    }

    /// The segment that a message of the other end names. Never waits.
    ///
    /// # Errors
    ///
    /// `PeerBroken`: it was never handed over, or not as it should be. `Os`: this process has no
    /// descriptor or no memory left to take it.
    #[inline]
    pub(crate) fn get(&mut self, id: SegmentId) -> Result<&Arc<PeerRegion>, ReceiveError> {
        match self.known.iter().position(|(known, _)| *known == id) {
            Some(at) => Ok(&self.known[at].1),
            None => self.get_new(id),
        }
    }

    #[cold]
    fn get_new(&mut self, id: SegmentId) -> Result<&Arc<PeerRegion>, ReceiveError> {
        self.control.take_packets(|inbox| inbox.has(id))?;
        let inbox = self.control.inbox();
        let live = &inbox.segments.live;
        self.known.retain(|(known, _)| live.iter().any(|(id, _)| id == known));
        let found = live.iter().find(|(live, _)| *live == id).ok_or(Violation::BadSegment)?;
        self.known.push((id, Arc::clone(&found.1)));
        Ok(&self.known[self.known.len() - 1].1)
    }

    /// Lets go of what the other end has taken back. Call it before a pause: one system call, or
    /// one for each packet that is there.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub(crate) fn maintain(&mut self) -> Result<(), ReceiveError> {
        self.control.take_packets(|_| false)?;
        let inbox = self.control.inbox();
        let live = &inbox.segments.live;
        self.known.retain(|(known, _)| live.iter().any(|(id, _)| id == known));
        Ok(())
    }
}

impl Inbox {
    pub(crate) fn expect(&mut self) {
        self.expected = true;
    }

    pub(crate) fn has(&self, id: SegmentId) -> bool {
        self.live.iter().any(|(live, _)| *live == id)
    }

    /// Where the other end counts, once it has said so.
    pub(crate) fn counts(&self) -> Option<&Arc<PeerRegion>> {
        self.counts.as_ref()
    }

    /// A packet that begins with `MADE`, `RETIRED` or `COUNTS`, and what came with it.
    pub(crate) fn put(&mut self, packet: &[u8], fds: Vec<OwnedFd>) -> Result<(), ReceiveError> {
        match (packet, <[OwnedFd; 1]>::try_from(fds)) {
            _ if !self.expected => Err(Violation::BadPacket.into()),
            (&[MADE, a, b, c, d, e, f], Ok([fd])) => {
                let id = SegmentId(u16::from_le_bytes([a, b]));
                self.made(id, u32::from_le_bytes([c, d, e, f]) as usize, &fd)
            }
            (&[COUNTS, a, b, c, d, e, f], Ok([fd])) if self.counts.is_none() => {
                let id = SegmentId(u16::from_le_bytes([a, b]));
                let bytes = u32::from_le_bytes([c, d, e, f]) as usize;
                if bytes < COUNTS_BYTES {
                    return Err(Violation::BadSegment.into());
                }
                self.made(id, bytes, &fd)?;
                self.counts = self.live.last().map(|(_, region)| Arc::clone(region));
                Ok(())
            }
            (&[RETIRED, a, b], Err(fds)) if fds.is_empty() => {
                let id = SegmentId(u16::from_le_bytes([a, b]));
                let at = self.live.iter().position(|(live, _)| *live == id);
                self.live.swap_remove(at.ok_or(Violation::BadSegment)?);
                Ok(())
            }
            _ => Err(Violation::BadPacket.into()),
        }
    }

    fn made(&mut self, id: SegmentId, bytes: usize, fd: &OwnedFd) -> Result<(), ReceiveError> {
        let in_use: usize = self.live.iter().map(|(_, region)| region.len()).sum();
        if id != next_free_id(self.next, |id| self.has(id))
            || self.live.len() >= SEGMENTS_PER_END_MAX
            || bytes > SEGMENT_BYTES_PER_END_MAX - in_use
        {
            return Err(Violation::BadSegment.into());
        }
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

#[cfg(test)]
mod tests;
