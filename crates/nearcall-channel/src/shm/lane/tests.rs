//! Indirect frames that are right and some that lie, between two ends in one process.

use nearcall_os::socket::{self, Kind};

use super::*;
use crate::limits::LANE_SLOTS;

fn ends() -> (LaneOut, LaneIn, Arc<Control>) {
    let (ours, theirs) = socket::unix_pair(Kind::Seqpacket).unwrap();
    let (ours, theirs) = (Arc::new(Control::new(ours)), Arc::new(Control::new(theirs)));
    (LaneOut::new(&ours), LaneIn::new(&theirs), ours)
}

fn is_bad(found: Result<Range<usize>, ReceiveError>) -> bool {
    matches!(found, Err(ReceiveError::PeerBroken(Violation::BadSegment)))
}

/// Slots of the first lane.
const SLOTS: u64 = LANE_SLOTS[0] as u64;

/// Bytes of all of them.
const ROOM_BYTES: usize = LANE_SLOTS[0] * SLOT_BYTES;

/// Publishes a fragment of `bytes` as the frame that ends at `position`, when the other end has
/// read as far as `consumed`. Returns its word, or the position that it waits for.
fn send(out: &mut LaneOut, bytes: usize, position: u64, consumed: u64) -> Result<u64, u64> {
    let free_at = out.free_at(bytes, LANE_SLOTS[1]);
    if free_at > consumed {
        return Err(free_at);
    }
    out.take(bytes, consumed);
    out.room(bytes).fill(position.to_le_bytes()[0]);
    let word = out.indirect_word();
    out.mark_used(bytes, position);
    Ok(word)
}

fn check_read(incoming: &mut LaneIn, word: u64, bytes: usize, position: u64) {
    let place = incoming.find(word, bytes).unwrap();
    let mut fragment = vec![0; bytes];
    incoming.region().unwrap().bytes(place).copy_to(&mut fragment);
    assert!(fragment.iter().all(|found| *found == position.to_le_bytes()[0]), "{position}");
}

#[test]
fn fragments_are_where_their_notes_say_and_places_go_round() {
    let (mut out, mut incoming, _line) = ends();
    assert!(out.open());
    for position in 1..=3 * SLOTS {
        let word = send(&mut out, SLOT_BYTES, position, position - 1).unwrap();
        check_read(&mut incoming, word, SLOT_BYTES, position);
    }
    assert_eq!(out.busy_until(), 3 * SLOTS);
    for position in 3 * SLOTS + 1..=4 * SLOTS {
        send(&mut out, SLOT_BYTES, position, 3 * SLOTS).unwrap();
    }
    let full = send(&mut out, SLOT_BYTES, 0, 3 * SLOTS);
    assert_eq!(full, Err(3 * SLOTS + 1), "the first fragment of the lap is still to be read");
}

/// Fragments of any size lie where nothing lies that is still to be read, in both sizes of lanes.
#[test]
fn nothing_is_overwritten_that_is_still_to_be_read() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut out, mut incoming, _line) = ends();
        assert!(out.open());
        let mut sent = std::collections::VecDeque::new();
        let (mut position, mut consumed) = (0, 0);
        for _ in 0..2000 {
            let longest = SLOT_BYTES >> random.u8(0..8);
            let bytes = random.usize(1..=longest);
            match send(&mut out, bytes, position + 1, consumed) {
                Ok(word) => {
                    position += 1;
                    sent.push_back((word, bytes, position));
                }
                Err(free_at) => {
                    assert!(free_at <= position, "what is waited for was published");
                    if seed % 2 == 0 {
                        out.grow();
                    }
                }
            }
            let backlog = [2, 60][usize::from(seed % 4 < 2)];
            while sent.len() > random.usize(0..=backlog) {
                let (word, bytes, position) = sent.pop_front().unwrap();
                check_read(&mut incoming, word, bytes, position);
                consumed = position;
            }
            out.maintain(consumed);
        }
        assert_eq!(out.busy_until().max(consumed), position);
    }
}

#[test]
fn what_was_promised_is_had_without_waiting() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut out, _incoming, _line) = ends();
        assert!(out.open());
        let (mut position, mut consumed) = (0, 0);
        let mut promises = 0;
        for _ in 0..200 {
            let mut left = random.usize(1..=ROOM_BYTES);
            if out.has_room_for(left, consumed) {
                promises += 1;
                while left > 0 {
                    let bytes = left.min(SLOT_BYTES);
                    position += 1;
                    send(&mut out, bytes, position, consumed).unwrap();
                    left -= bytes;
                }
            } else {
                consumed = random.u64(consumed..=position);
            }
        }
        assert!(promises > 50, "{promises}");
    }
}

#[test]
fn a_lane_grows_once_and_its_first_segment_is_retired_when_it_was_read() {
    let (mut out, mut incoming, _line) = ends();
    assert!(out.open());
    let words: Vec<_> =
        (1..=SLOTS).map(|position| send(&mut out, SLOT_BYTES, position, 0).unwrap()).collect();
    assert_eq!(send(&mut out, SLOT_BYTES, SLOTS + 1, 0), Err(1));
    assert!(out.grow() && !out.grow());
    let word = send(&mut out, SLOT_BYTES, SLOTS + 1, 0).unwrap();
    for (word, position) in words.iter().copied().chain([word]).zip(1..) {
        check_read(&mut incoming, word, SLOT_BYTES, position);
    }
    out.maintain(SLOTS - 1);
    assert!(out.outgrown.is_some(), "one of its fragments is still to be read");
    out.maintain(SLOTS);
    assert!(out.outgrown.is_none() && out.is_held());
}

#[test]
fn notes_that_lie_are_refused() {
    let (mut out, mut incoming, _line) = ends();
    assert!(is_bad(incoming.find(0, 100)), "a segment that was never handed over");
    assert!(out.open());
    let word = out.indirect_word();
    let at = |place: usize| word | ((place / FRAME_ALIGN) as u64) << 16;
    assert!(incoming.find(word, SLOT_BYTES).is_ok());
    assert!(incoming.find(at(ROOM_BYTES - 64), 64).is_ok());
    assert!(is_bad(incoming.find(word, SLOT_BYTES + 1)), "longer than a fragment");
    assert!(is_bad(incoming.find(at(ROOM_BYTES - 64), 65)), "beyond the room");
    assert!(is_bad(incoming.find(at(ROOM_BYTES), 1)), "a place behind the room");
    assert!(is_bad(incoming.find(word | 0xFFFF_FFFF << 16, 1)), "a place far behind the room");
    assert!(is_bad(incoming.find(word | 1 << 48, 1)), "bits that mean nothing");
    assert!(is_bad(incoming.find(word + 1, 1)), "the segment after the last");
}

#[test]
fn a_segment_of_another_size_is_no_lane() {
    let (_out, mut incoming, line) = ends();
    let (id, _region) = OwnSegments::new(&line).create(4096).unwrap();
    assert!(is_bad(incoming.find(id.0.into(), 1)));
}

#[test]
fn without_a_line_there_is_no_lane_and_it_is_asked_for_again_later() {
    let (mut out, incoming, line) = ends();
    drop(incoming);
    for _ in 0..2 * LANE_RETRY_FRAGMENTS {
        assert!(!out.open() && !out.is_held());
    }
    assert_eq!((out.free_at(8, 1), out.busy_until(), out.room(8).len()), (0, 0, 0));
    drop(line);
}

#[test]
fn a_lane_rests_when_it_was_not_used_between_two_sleeps_that_are_far_apart() {
    let start = clock::now();
    let mut rest = Rest { used: true, since: None };
    assert!(!rest.is_over(start), "used just now");
    assert!(!rest.is_over(start + LANE_IDLE / 2));
    rest.used = true;
    assert!(!rest.is_over(start + LANE_IDLE * 2), "used in between");
    assert!(!rest.is_over(start + LANE_IDLE * 5 / 2));
    assert!(rest.is_over(start + LANE_IDLE * 3));
}
