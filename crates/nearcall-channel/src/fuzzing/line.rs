//! A control line whose other end sends any packets with any descriptors, for the fuzz targets.
//!
//! **Invariants:** the hostile end keeps its memory files for all inputs of a thread, so that an
//! input costs no new ones; it never waits.
//! **Not here:** what is tried over the line (`segments.rs`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nearcall_os::region::{Backing, OwnRegion};
use nearcall_os::socket::{self, Kind};
use nearcall_os::{descriptor, pipe};

use super::steps::Steps;
use crate::control::{Control, LINE, PASSED};
use crate::limits::{PASSED_DESCRIPTORS_KEPT_MAX, PASSED_DESCRIPTORS_MAX};
use crate::limits::{SEGMENT_BYTES_PER_END_MAX, SEGMENTS_PER_END_MAX};
use crate::shm::layout::lane::LANE_BYTES;
use crate::shm::segment_table::{COUNTS, MADE, RETIRED};

/// Size of the small segments, in bytes.
pub(super) const SEGMENT_BYTES: usize = 4096;

/// Our end of the line, and the hostile one.
pub(super) struct Line {
    pub(super) ours: Arc<Control>,
    hostile: Option<Control>,
}

/// The descriptors that the hostile end hands over: two good files, a file of which its owner may
/// write the counts, two that are no segment, and a large lane.
struct Files {
    fds: [OwnedFd; 6],
    counts: OwnRegion,
    /// Two ends that may be the line of a handshake.
    line: [OwnedFd; 2],
    _regions: [OwnRegion; 3],
}

thread_local! {
    static FILES: Files = Files::create();
}

impl Files {
    fn create() -> Self {
        let file =
            |bytes| OwnRegion::create("nearcall-fuzz", bytes, Backing::Lazy).expect("memory");
        let ((small, a), (counts, c)) = (file(SEGMENT_BYTES), file(SEGMENT_BYTES));
        let [(lane, b), (large, d)] = LANE_BYTES.map(file);
        let pipe = pipe::create().expect("a pipe");
        let (one, other) = socket::unix_pair(Kind::Seqpacket).expect("a pair of sockets");
        let (fds, line) = ([a, b, c, pipe.read, pipe.write, d], [one, other]);
        Self { fds, counts, line, _regions: [small, lane, large] }
    }
}

impl Line {
    pub(super) fn new() -> Self {
        let (ours, hostile) = socket::unix_pair(Kind::Seqpacket).expect("a pair of sockets");
        let (ours, hostile) = (Arc::new(Control::new(ours)), Some(Control::new(hostile)));
        Self { ours, hostile }
    }

    /// Sends a packet, if the line has room for it.
    fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        if let Some(hostile) = &self.hostile {
            let _ = hostile.send(bytes, fds);
        }
    }

    /// The hostile end closes the line.
    pub(super) fn hang_up(&mut self) {
        self.hostile = None;
    }

    /// Sends any bytes with up to three descriptors: `bytes`, then one number of a file for each.
    pub(super) fn send_anything(&self, steps: &mut Steps<'_>) -> Option<()> {
        let bytes = steps.bytes()?;
        let [count, first] = steps.take()?;
        FILES.with(|files| {
            let fds = files.fds.iter().cycle().skip(usize::from(first) % 5);
            let fds: Vec<_> = fds.take(usize::from(count % 4)).map(AsFd::as_fd).collect();
            self.send(bytes, &fds);
        });
        Some(())
    }

    /// Hands a segment over: `kind:u8 number:u16 file:u8`, and a size of its own if the kind has
    /// its third bit.
    pub(super) fn send_segment(&self, steps: &mut Steps<'_>) -> Option<()> {
        let [kind, low, high, file] = steps.take()?;
        let file = usize::from(file) % 6;
        let bytes = match kind & 4 {
            0 if file == 1 => LANE_BYTES[0],
            0 if file == 5 => LANE_BYTES[1],
            0 => SEGMENT_BYTES,
            _ => steps.number()? as usize,
        };
        let kind = if kind & 1 == 0 { MADE } else { COUNTS };
        let [a, b, c, d, ..] = bytes.to_le_bytes();
        FILES.with(|files| {
            self.send(&[kind, low, high, a, b, c, d], &[files.fds[file].as_fd()]);
        });
        Some(())
    }

    /// Takes a segment back: `number:u16`.
    pub(super) fn send_retirement(&self, steps: &mut Steps<'_>) -> Option<()> {
        let [low, high] = steps.take()?;
        self.send(&[RETIRED, low, high], &[]);
        Some(())
    }

    /// Passes so many descriptors as a user does.
    pub(super) fn pass(&self, count: u8) {
        FILES.with(|files| {
            let count = usize::from(count) % (PASSED_DESCRIPTORS_MAX + 2);
            let fds: Vec<_> = files.fds.iter().cycle().take(count).map(AsFd::as_fd).collect();
            self.send(&[PASSED], &fds);
        });
    }

    /// Passes the line of a handshake by its number: one of the files, one end of a line of which
    /// the other is open, or one whose other end is closed.
    pub(super) fn pass_line(&self, choice: u8) {
        FILES.with(|files| match choice % 8 {
            file @ 0..5 => self.send(&[LINE], &[files.fds[usize::from(file)].as_fd()]),
            end @ 5..7 => self.send(&[LINE], &[files.line[usize::from(end) - 5].as_fd()]),
            _ => {
                let (one, _) = socket::unix_pair(Kind::Seqpacket).expect("a pair of sockets");
                self.send(&[LINE], &[one.as_fd()]);
            }
        });
    }

    /// Writes a count into the page of the hostile end.
    pub(super) fn write_count(&self, slot: u8, count: u32) {
        let at = usize::from(slot) % (SEGMENT_BYTES / 4) * 4;
        FILES.with(|files| {
            files.counts.word32(at).store(count, std::sync::atomic::Ordering::Release);
        });
    }

    /// Panics if our end keeps more of the other end than it may.
    pub(super) fn check(&self) {
        let inbox = self.ours.inbox();
        let (segments, bytes) = inbox.segments.totals();
        assert!(segments <= SEGMENTS_PER_END_MAX && bytes <= SEGMENT_BYTES_PER_END_MAX);
        let kept = inbox.kept_descriptors();
        assert!(kept <= PASSED_DESCRIPTORS_KEPT_MAX + PASSED_DESCRIPTORS_MAX, "{kept} kept");
        assert!(inbox.kept_lines() <= 1);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // The next input begins with zeroes.
        for slot in 0..=u8::MAX {
            self.write_count(slot, 0);
        }
    }
}

/// Whether `fd` is a descriptor that this process may duplicate: that it was not closed behind the
/// back of its owner.
pub(super) fn is_open(fd: &OwnedFd) -> bool {
    descriptor::duplicate(fd).is_ok()
}

/// Returns whether `fd` may be the line of a handshake.
pub(super) fn is_seqpacket(fd: &OwnedFd) -> bool {
    socket::is_unix_seqpacket(fd).is_ok_and(|is| is)
}
