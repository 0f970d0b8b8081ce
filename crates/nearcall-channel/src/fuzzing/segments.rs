//! What the fuzz targets of the control line and of segments try: `control`, `arena`, `lane`.
//!
//! **Not here:** the hostile end of the line (`line.rs`).

use std::collections::VecDeque;

use bytes::Bytes;

use super::line::{Line, SEGMENT_BYTES, is_open, is_seqpacket};
use super::steps::Steps;
use crate::error::ReceiveError;
use crate::limits::{FRAGMENT_BYTES, SLOTS_PER_END_MAX};
use crate::shm::arena::{Borrowed, Borrower, Lender, Place};
use crate::shm::lane::{LaneIn, LaneOut};
use crate::shm::layout::lane::LANE_BYTES;
use crate::shm::segment_table::SegmentId;
use crate::shm::segments::PeerSegments;
use crate::wait::Deadline;

/// Our end of a control line, whose other end sends any packets after the handshake.
///
/// The bytes are steps of a first byte, which chooses, and what it needs: `0 length:u8 bytes
/// descriptors:u8 file:u8` sends any packet, `1 kind:u8 number:u16 file:u8 [bytes:u32]` hands a
/// segment over, `2 number:u16` takes one back, `3 descriptors:u8` passes descriptors, `4` looks at
/// all packets, `5` takes descriptors, `6 number:u16` looks up a segment, `7` takes the refusal,
/// `8` hangs up, `9 choice:u8` passes the line of a handshake, `10` takes it. Numbers are
/// little-endian. Our end stops at its first violation.
///
/// # Panics
///
/// If our end panics, keeps more than it may, or a segment has another size than it may have.
pub fn control(bytes: &[u8]) {
    let (mut line, mut steps) = (Line::new(), Steps(bytes));
    let mut segments = PeerSegments::new(&line.ours);
    while let Some(outcome) = control_step(&mut line, &mut segments, &mut steps) {
        line.check();
        if is_broken(&outcome) {
            break;
        }
    }
}

fn control_step(
    line: &mut Line,
    segments: &mut PeerSegments,
    steps: &mut Steps<'_>,
) -> Option<Result<(), ReceiveError>> {
    match steps.byte()? {
        0 => line.send_anything(steps)?,
        1 => line.send_segment(steps)?,
        2 => line.send_retirement(steps)?,
        3 => line.pass(steps.byte()?),
        4 => return Some(segments.maintain()),
        5 => {
            return Some(line.ours.take_descriptors(Deadline::NOW).map(|fds| {
                assert!(fds.iter().all(is_open), "a descriptor was closed");
            }));
        }
        6 => {
            return Some(segments.get(SegmentId(steps.half()?)).map(|region| {
                assert!(region.len() == SEGMENT_BYTES || LANE_BYTES.contains(&region.len()));
                region.bytes(region.len() - 8..region.len()).copy_to(&mut [0; 8]);
            }));
        }
        7 => {
            let refusal = line.ours.take_refusal();
            // What a terminal may be shown.
            assert!(refusal.is_none_or(|(_, text)| !text.chars().any(char::is_control)));
        }
        8 => line.hang_up(),
        9 => line.pass_line(steps.byte()?),
        10 => {
            return Some(match line.ours.take_line() {
                Ok(fd) => {
                    assert!(is_seqpacket(&fd), "no line was kept for one");
                    Ok(())
                }
                // Its packet came without a descriptor.
                Err(ReceiveError::Os(_)) => Ok(()),
                Err(error) => Err(error),
            });
        }
        _ => {}
    }
    Some(Ok(()))
}

/// Returns whether an end that saw this uses the connection no more.
fn is_broken<T>(outcome: &Result<T, ReceiveError>) -> bool {
    match outcome {
        Ok(_) | Err(ReceiveError::Empty) => false,
        Err(ReceiveError::PeerBroken(_) | ReceiveError::PeerGone) => true,
        // Without room for a descriptor this would stop for another reason than the peer.
        Err(error) => panic!("{error}"),
    }
}

/// What our end lends and borrows, against a peer that lies about places and about what it is done
/// with.
///
/// The bytes are steps of a first byte, which chooses, and what it needs: `0 keep:u8 slot:u16
/// segment:u16 offset:u32 bytes:u32` is a message that names a place, `1`, `2` as in [`control`],
/// `3` drops the oldest borrowed place, `4 slot:u8 count:u32` claims to be done with a slot so
/// often, `5 bytes:u32` lends and sends a loan, `6` drops the oldest loan, `7` counts what is out.
/// Numbers are little-endian. The borrower stops at its first violation.
///
/// # Panics
///
/// If an end panics, a place reaches outside of its segment, or a loan that lives is lent again.
pub fn arena(bytes: &[u8]) {
    let (mut ends, mut steps) = (Arena::new(), Steps(bytes));
    while ends.step(&mut steps).is_some() {
        ends.line.check();
    }
}

struct Arena {
    line: Line,
    borrower: Option<Borrower>,
    borrowed: VecDeque<Borrowed>,
    lender: Lender,
    /// Loans that live, each full of the number of its step.
    loans: VecDeque<(Bytes, u8)>,
    next: u8,
}

impl Arena {
    fn new() -> Self {
        let line = Line::new();
        let borrower = Some(Borrower::new(&line.ours));
        let lender = Lender::new(&line.ours, LOAN_BYTES_MAX);
        let (borrowed, loans) = (VecDeque::new(), VecDeque::new());
        Self { line, borrower, borrowed, lender, loans, next: 0 }
    }

    fn step(&mut self, steps: &mut Steps<'_>) -> Option<()> {
        match steps.byte()? {
            0 => self.borrow(steps)?,
            1 => self.line.send_segment(steps)?,
            2 => self.line.send_retirement(steps)?,
            3 => drop(self.borrowed.pop_front()),
            4 => self.line.write_count(steps.byte()?, steps.number()?),
            5 => self.lend(steps.number()? as usize),
            6 => {
                if let Some((bytes, fill)) = self.loans.pop_front() {
                    assert!(bytes.iter().all(|byte| *byte == fill), "it was lent twice");
                }
            }
            7 => {
                let (here, there) = self.lender.slots_out();
                assert!(here + there <= SLOTS_PER_END_MAX && here <= self.loans.len());
            }
            _ => {}
        }
        if let Some(borrower) = &self.borrower {
            assert_eq!(borrower.places_out(), self.borrowed.len());
        }
        Some(())
    }

    fn borrow(&mut self, steps: &mut Steps<'_>) -> Option<()> {
        let (keep, slot, segment) = (steps.byte()?, steps.half()?, steps.half()?);
        let place = Place { slot, segment, offset: steps.number()?, bytes: steps.number()? };
        let Some(borrower) = &mut self.borrower else { return Some(()) };
        let outcome = borrower.borrow(place);
        if is_broken(&outcome) {
            // Its places are given back also after it.
            self.borrower = None;
        } else if let Ok(borrowed) = outcome {
            assert_eq!(borrowed.len(), place.bytes as usize);
            // Panics outside the segment.
            borrowed.bytes().copy_to(&mut vec![0; borrowed.len()]);
            if keep & 1 == 1 {
                self.borrowed.push_back(borrowed);
            }
        }
        Some(())
    }

    fn lend(&mut self, bytes: usize) {
        let Ok(mut loan) = self.lender.loan(bytes % (2 * LOAN_BYTES_MAX)) else { return };
        self.next = self.next.wrapping_add(1);
        loan.fill(self.next);
        let bytes = loan.freeze();
        if let Some(place) = self.lender.find(&bytes) {
            assert_eq!(place.bytes as usize, bytes.len());
            assert!(usize::from(place.slot) < SLOTS_PER_END_MAX);
            self.lender.pass(place);
        }
        self.loans.push_back((bytes, self.next));
    }
}

/// So small that an input lends many, in bytes.
const LOAN_BYTES_MAX: usize = 20_000;

/// Both sides of a lane, against a peer whose indirect frames name anything.
///
/// The bytes are steps of a first byte, which chooses, and what it needs: `0 word:u64 bytes:u32` is
/// an indirect frame, `1`, `2` as in [`control`], `3` sleeps, `4 bytes:u16` sends a fragment of our
/// own, `5 consumed:u64` says how far the other end has read at our next sleep, `6` makes a larger
/// lane of our own. Numbers are little-endian. The reader stops at its first violation.
///
/// # Panics
///
/// If an end panics, or a fragment reaches outside of its slot.
pub fn lane(bytes: &[u8]) {
    let (line, mut steps) = (Line::new(), Steps(bytes));
    let (mut out, mut reader) = (LaneOut::new(&line.ours), Some(LaneIn::new(&line.ours)));
    let mut sent = 0;
    while let Some(choice) = steps.byte() {
        let done = match choice {
            0 => read_fragment(&mut reader, &mut steps),
            1 => line.send_segment(&mut steps),
            2 => line.send_retirement(&mut steps),
            3 => {
                reader.iter_mut().for_each(LaneIn::maintain);
                Some(())
            }
            4 => send_fragment(&mut out, &mut sent, &mut steps),
            5 => steps.word().map(|consumed| out.maintain(consumed)),
            6 => {
                assert!(!out.grow() || out.is_held());
                Some(())
            }
            _ => Some(()),
        };
        line.check();
        if done.is_none() {
            break;
        }
    }
}

fn read_fragment(reader: &mut Option<LaneIn>, steps: &mut Steps<'_>) -> Option<()> {
    let (word, fragment_bytes) = (steps.word()?, steps.number()? as usize);
    let Some(lane) = reader else { return Some(()) };
    let outcome = lane.find(word, fragment_bytes);
    if is_broken(&outcome) {
        *reader = None;
    } else if let (Ok(place), Some(region)) = (outcome, lane.region()) {
        assert!(place.len() == fragment_bytes && fragment_bytes <= FRAGMENT_BYTES);
        assert!(LANE_BYTES.contains(&region.len()));
        // Panics outside the lane.
        region.bytes(place).copy_to(&mut vec![0; fragment_bytes]);
    }
    Some(())
}

fn send_fragment(out: &mut LaneOut, sent: &mut u64, steps: &mut Steps<'_>) -> Option<()> {
    let bytes = steps.length()?.min(FRAGMENT_BYTES);
    if out.open() {
        assert!(out.free_at(bytes, usize::MAX) <= *sent);
        out.take(bytes, *sent);
        out.room(bytes).fill(0xA5);
        *sent += 1;
        out.mark_used(bytes, *sent);
        assert_eq!(out.busy_until(), *sent);
    }
    Some(())
}
