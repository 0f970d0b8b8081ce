//! Indirect frames that are right and some that lie, between two ends in one process.

use nearcall_os::socket::{self, Kind};

use super::*;

fn ends() -> (LaneOut, LaneIn, Arc<Control>) {
    let (ours, theirs) = socket::unix_pair(Kind::Seqpacket).unwrap();
    let (ours, theirs) = (Arc::new(Control::new(ours)), Arc::new(Control::new(theirs)));
    (LaneOut::new(&ours), LaneIn::new(&theirs), ours)
}

fn is_bad(found: Result<Range<usize>, ReceiveError>) -> bool {
    matches!(found, Err(ReceiveError::PeerBroken(Violation::BadSegment)))
}

#[test]
fn fragments_are_where_their_notes_say_and_slots_go_round() {
    let (mut out, mut incoming, _line) = ends();
    assert!(out.open());
    for number in 0..3 * LANE_SLOTS as u64 {
        let slots = LANE_SLOTS as u64;
        assert_eq!(out.free_at(), if number < slots { 0 } else { number - slots + 1 });
        let byte = u8::try_from(number).unwrap();
        out.room(FRAGMENT_BYTES).fill(byte);
        let word = out.indirect_word();
        out.mark_used(number + 1);
        let place = incoming.find(word, FRAGMENT_BYTES).unwrap();
        let mut fragment = vec![0; FRAGMENT_BYTES];
        incoming.region().unwrap().bytes(place).copy_to(&mut fragment);
        assert!(fragment.iter().all(|found| *found == byte), "fragment {number}");
    }
    assert_eq!(out.busy_until(), 3 * LANE_SLOTS as u64);
}

#[test]
fn notes_that_lie_are_refused() {
    let (mut out, mut incoming, _line) = ends();
    assert!(is_bad(incoming.find(0, 100)), "a segment that was never handed over");
    assert!(out.open());
    let word = out.indirect_word();
    assert!(incoming.find(word, FRAGMENT_BYTES).is_ok());
    assert!(is_bad(incoming.find(word, FRAGMENT_BYTES + 1)), "a fragment longer than a slot");
    assert!(is_bad(incoming.find(word | (LANE_SLOTS as u64) << 16, 1)), "a slot behind the last");
    assert!(is_bad(incoming.find(word | 0xFFFF << 16, 1)), "a slot far behind the last");
    assert!(is_bad(incoming.find(word | 1 << 32, 1)), "bits that mean nothing");
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
    assert_eq!((out.free_at(), out.busy_until(), out.room(8).len()), (0, 0, 0));
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
