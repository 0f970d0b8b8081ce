//! Segments: memory files made when they are needed, handed over the control line.
//!
//! A connection begins with two small rings. What needs more room, a lane for large messages or
//! the slots of loans, gets a memory file of its own: its writer makes it, seals it as the ring's
//! file is sealed, and sends the descriptor in a packet of the control line.
//!
//! A packet is sent before the first message that names its segment, so the reader finds it in the
//! line when it meets the number. `retire` comes after the last message that names it has been
//! read.
//! The pages are reserved when a segment is made: on a machine without room that fails, and the
//! connection works without; no later write can fail. The reader brings no pages in beforehand, so
//! that a peer that reserved none costs it only what it reads.
//!
//! **Invariants:** nothing here waits.
//! **Not here:** the packets and what is valid (`segment_table.rs`), what lies in a segment, users'
//! own descriptors on the same line (`control.rs`).

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use nearcall_os::region::{Backing, OwnRegion, PeerRegion, RegionError};
use thiserror::Error;

use crate::account::Exceeded;
use crate::control::Control;
use crate::error::{ReceiveError, Violation};
use crate::limits::{
    CONTROL_PACKETS_PER_LOOK_MAX, CONTROL_PACKETS_PER_PAUSE_MAX, PASSED_DESCRIPTORS_KEPT_MAX,
    SEGMENT_BYTES_PER_END_MAX, SEGMENTS_PER_END_MAX,
};
use crate::shm::segment_table::{COUNTS, MADE, Outbox, RETIRED, SegmentId, next_free_id};

/// Why no segment was made. The connection is as good as before; do without.
#[derive(Debug, Error)]
pub(crate) enum SegmentError {
    /// This end has as many segments, or as many bytes in them, as one end may have.
    #[error(
        "this end has {SEGMENTS_PER_END_MAX} segments or {SEGMENT_BYTES_PER_END_MAX} bytes in them \
         already"
    )]
    Limit,
    /// The account that pays for it does not suffice.
    #[error("{0}")]
    Share(Exceeded),
    /// The other end has not taken from the control line what was sent before.
    #[error("the other end has not taken what was sent before")]
    LineFull,
    /// The kernel has no memory or no descriptor left.
    #[error("{0}")]
    Region(RegionError),
    /// The control line is of no use any more.
    #[error("handing a segment over failed: {0}")]
    Os(#[source] io::Error),
}

/// Makes segments of this end and hands them over. All handles of one connection count together.
#[derive(Debug)]
pub(crate) struct OwnSegments {
    control: Arc<Control>,
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
        self.send_retirements(&mut outbox)?;
        let in_use = outbox.live_bytes();
        let announced = u32::try_from(bytes).map_err(|_| SegmentError::Limit)?;
        if outbox.live.len() >= SEGMENTS_PER_END_MAX
            || bytes > SEGMENT_BYTES_PER_END_MAX - in_use.min(SEGMENT_BYTES_PER_END_MAX)
        {
            return Err(SegmentError::Limit);
        }
        outbox.charge(bytes).map_err(SegmentError::Share)?;
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
    /// Never waits. If the line has no room now, the other end is informed with the next segment.
    pub(crate) fn retire(&self, id: SegmentId) {
        let mut outbox = self.control.outbox();
        outbox.live.retain(|(live, _)| *live != id);
        // Less is never refused.
        let _ = outbox.charge(0);
        outbox.pending_retirements.push_back(id);
        // Whatever hinders, the next call meets it again.
        let _ = self.send_retirements(&mut outbox);
    }

    fn send_retirements(&self, outbox: &mut Outbox) -> Result<(), SegmentError> {
        while let Some(id) = outbox.pending_retirements.front() {
            let [a, b] = id.0.to_le_bytes();
            self.control.send(&[RETIRED, a, b], &[]).map_err(SegmentError::of_line)?;
            outbox.pending_retirements.pop_front();
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
        self.control.take_packets(CONTROL_PACKETS_PER_LOOK_MAX, |inbox| inbox.has(id))?;
        let inbox = self.control.inbox();
        let live = &inbox.segments.live;
        self.known.retain(|(known, _)| live.iter().any(|(id, _)| id == known));
        let found = live.iter().find(|(live, _)| *live == id).ok_or(Violation::BadSegment)?;
        self.known.push((id, Arc::clone(&found.1)));
        Ok(&self.known[self.known.len() - 1].1)
    }

    /// Lets go of what the other end has taken back. Call it before a pause: one system call, or
    /// one for each packet that is there, of which it leaves many to the next time.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub(crate) fn maintain(&mut self) -> Result<(), ReceiveError> {
        self.control.take_packets(CONTROL_PACKETS_PER_PAUSE_MAX, |_| false)?;
        let inbox = self.control.inbox();
        let live = &inbox.segments.live;
        self.known.retain(|(known, _)| live.iter().any(|(id, _)| id == known));
        Ok(())
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests;
