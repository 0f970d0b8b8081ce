//! Segments over a socket pair: what is handed over arrives, and what lies is refused.

use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;

use nearcall_os::socket::{self, Kind};

use super::*;
use crate::limits::{
    CONTROL_PACKETS_PER_LOOK_MAX, CONTROL_PACKETS_PER_PAUSE_MAX, PASSED_DESCRIPTORS_MAX,
};
use crate::wait::Deadline;

fn lines() -> (Arc<Control>, Arc<Control>) {
    let (a, b) = socket::unix_pair(Kind::Seqpacket).unwrap();
    (Arc::new(Control::new(a)), Arc::new(Control::new(b)))
}

/// A sealed file as a correct peer makes it.
fn file(bytes: usize) -> OwnedFd {
    OwnRegion::create("test", bytes, Backing::Lazy).unwrap().1
}

fn made(id: u16, bytes: u32) -> [u8; 7] {
    let ([a, b], [c, d, e, f]) = (id.to_le_bytes(), bytes.to_le_bytes());
    [MADE, a, b, c, d, e, f]
}

fn is_violation<T>(outcome: Result<T, ReceiveError>, violation: Violation) -> bool {
    matches!(outcome, Err(ReceiveError::PeerBroken(found)) if found == violation)
}

#[test]
fn what_is_written_on_one_side_is_read_on_the_other() {
    let (ours, theirs) = lines();
    let (maker, mut reader) = (OwnSegments::new(&ours), PeerSegments::new(&theirs));
    let (first, mut region) = maker.create(10_000).unwrap();
    let (second, _other) = maker.create(4096).unwrap();
    region.write(9_000, b"hello");
    let mut copy = [0; 5];
    reader.get(first).unwrap().bytes(9_000..9_005).copy_to(&mut copy);
    assert_eq!(&copy, b"hello");
    region.word32(0).store(7, Relaxed);
    assert_eq!(reader.get(first).unwrap().load32(0, Relaxed), 7);
    assert_eq!(reader.get(second).unwrap().len(), 4096);
}

#[test]
fn a_segment_that_was_taken_back_is_unknown() {
    let (ours, theirs) = lines();
    let (maker, mut reader) = (OwnSegments::new(&ours), PeerSegments::new(&theirs));
    let (first, region) = maker.create(4096).unwrap();
    let weak = Arc::downgrade(reader.get(first).unwrap());
    maker.retire(first);
    drop(region);
    reader.maintain().unwrap();
    assert!(weak.upgrade().is_none(), "unmapped here, too");
    assert!(is_violation(reader.get(first), Violation::BadSegment));
    let (second, _region) = maker.create(4096).unwrap();
    assert_ne!(first, second);
    assert!(reader.get(second).is_ok());
}

#[test]
fn numbers_wrap_after_many_segments() {
    let (ours, theirs) = lines();
    let (maker, mut reader) = (OwnSegments::new(&ours), PeerSegments::new(&theirs));
    ours.outbox().next = u16::MAX;
    theirs.inbox().segments.next = u16::MAX;
    for expected in [u16::MAX, 0, 1] {
        let (id, _region) = maker.create(4096).unwrap();
        assert_eq!(id, SegmentId(expected));
        assert!(reader.get(id).is_ok());
        maker.retire(id);
    }
}

#[test]
fn a_number_that_is_still_in_use_is_passed_over_after_the_wrap() {
    let (ours, theirs) = lines();
    let (maker, mut reader) = (OwnSegments::new(&ours), PeerSegments::new(&theirs));
    let (kept, mut region) = maker.create(10_000).unwrap();
    region.write(0, b"kept");
    assert!(reader.get(kept).is_ok());
    ours.outbox().next = u16::MAX;
    theirs.inbox().segments.next = u16::MAX;
    for expected in [u16::MAX, 1, 2] {
        let (id, _region) = maker.create(4096).unwrap();
        assert_eq!(id, SegmentId(expected));
        assert_eq!(reader.get(id).unwrap().len(), 4096);
        maker.retire(id);
        reader.maintain().unwrap();
    }
    assert_eq!(reader.get(kept).unwrap().len(), 10_000);
    assert_eq!(ours.outbox().live.len(), 1);
}

#[test]
fn threads_that_look_into_the_line_at_once_keep_its_order() {
    let (ours, theirs) = lines();
    let (maker, mut reader) = (OwnSegments::new(&ours), PeerSegments::new(&theirs));
    let mut other = PeerSegments::new(&theirs);
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let beside = scope.spawn(|| {
            while !over.load(Relaxed) {
                other.maintain()?;
            }
            Ok::<_, ReceiveError>(())
        });
        let ahead = || {
            let ids = [1, 2, 3].map(|_| maker.create(4096).unwrap().0);
            let found = ids.map(|id| reader.get(id).is_ok());
            for id in ids {
                maker.retire(id);
            }
            found == [true; 3]
        };
        let all_found = std::iter::repeat_with(ahead).take(2_000).all(|found| found);
        over.store(true, Relaxed);
        assert!(beside.join().unwrap().is_ok() && all_found);
    });
}

#[test]
fn limits_are_kept_by_the_maker() {
    let (ours, _theirs) = lines();
    let maker = OwnSegments::new(&ours);
    assert!(matches!(maker.create(SEGMENT_BYTES_PER_END_MAX + 1), Err(SegmentError::Limit)));
    assert!(matches!(maker.create(0), Err(SegmentError::Region(RegionError::Size { .. }))));
    let mut regions: Vec<_> = (0..SEGMENTS_PER_END_MAX).map(|_| maker.create(1).unwrap()).collect();
    let full = maker.create(1).unwrap_err();
    assert!(matches!(full, SegmentError::Limit), "{full}");
    maker.retire(regions.swap_remove(0).0);
    assert!(maker.create(1).is_ok(), "a place is free again");
}

#[test]
fn a_full_line_makes_no_segment_and_loses_no_retirement() {
    let (ours, theirs) = lines();
    let (maker, mut reader) = (OwnSegments::new(&ours), PeerSegments::new(&theirs));
    let (first, _region) = maker.create(4096).unwrap();
    // Packets that a look sorts out of the way, until the line takes no more.
    let filler = |line: &Control| line.send(&made(1, 4096), &[file(4096).as_fd()]);
    filler(&ours).unwrap();
    let retired = [RETIRED, 1, 0];
    ours.send(&retired, &[]).unwrap();
    let mut number = 2_u16;
    let full = loop {
        let fd = file(4096);
        let made = ours.send(&made(number, 4096), &[fd.as_fd()]);
        let [a, b] = number.to_le_bytes();
        if let Err(error) = made.and_then(|()| ours.send(&[RETIRED, a, b], &[])) {
            break error;
        }
        number += 1;
    };
    assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
    assert!(matches!(maker.create(4096), Err(SegmentError::LineFull)));
    maker.retire(first);
    let looked = reader.maintain();
    assert!(looked.is_ok(), "{looked:?}");
    assert!(theirs.inbox().segments.has(first));
    maker.retire(SegmentId(number));
    // The second retirement sent the first one on its way.
    for _ in 0..CONTROL_PACKETS_PER_LOOK_MAX / CONTROL_PACKETS_PER_PAUSE_MAX {
        let _ = reader.maintain();
    }
    assert!(!theirs.inbox().segments.has(first));
}

/// A peer that makes segments and takes them back.
struct Flood<'a> {
    line: &'a Control,
    segment: OwnedFd,
    next: u16,
    is_made: bool,
}

impl Flood<'_> {
    /// Sends one packet, if there is room.
    fn send(&mut self) -> bool {
        let [a, b] = self.next.to_le_bytes();
        let sent = match self.is_made {
            false => self.line.send(&made(self.next, 4096), &[self.segment.as_fd()]),
            true => self.line.send(&[RETIRED, a, b], &[]),
        };
        if sent.is_ok() {
            self.next += u16::from(self.is_made);
            self.is_made = !self.is_made;
        }
        sent.is_ok()
    }
}

#[test]
fn a_look_takes_a_bounded_number_of_packets_while_the_peer_goes_on_sending() {
    let (ours, theirs) = lines();
    let mut reader = PeerSegments::new(&theirs);
    let mut flood = Flood { line: &ours, segment: file(4096), next: 0, is_made: false };
    let line = (0..).take_while(|_| flood.send()).count();
    assert!(line <= CONTROL_PACKETS_PER_LOOK_MAX, "a line holds {line} packets");
    reader.maintain().unwrap();
    assert_eq!(theirs.packets_taken(), CONTROL_PACKETS_PER_PAUSE_MAX);
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                flood.send();
            }
        });
        // One that was never made ends the connection.
        let looked = reader.get(SegmentId(u16::MAX)).is_err();
        over.store(true, Relaxed);
        assert!(looked);
    });
    let taken = theirs.packets_taken() - CONTROL_PACKETS_PER_PAUSE_MAX;
    assert!(taken <= CONTROL_PACKETS_PER_LOOK_MAX, "{taken} packets in one look");
}

#[test]
fn descriptors_of_the_users_are_kept_for_them() {
    let (ours, theirs) = lines();
    let (maker, mut reader) = (OwnSegments::new(&ours), PeerSegments::new(&theirs));
    let passed = file(10);
    ours.pass_descriptors(&[passed.as_fd()]).unwrap();
    let (first, _region) = maker.create(4096).unwrap();
    ours.pass_descriptors(&[passed.as_fd(), passed.as_fd()]).unwrap();
    let (second, _region) = maker.create(8192).unwrap();
    assert_eq!(reader.get(first).unwrap().len(), 4096);
    assert_eq!(theirs.take_descriptors(Deadline::NOW).unwrap().len(), 1);
    assert_eq!(theirs.take_descriptors(Deadline::NOW).unwrap().len(), 2);
    assert!(matches!(theirs.take_descriptors(Deadline::NOW), Err(ReceiveError::Empty)));
    assert_eq!(reader.get(second).unwrap().len(), 8192, "taken while looking for descriptors");
}

#[test]
fn an_end_that_has_passed_many_descriptors_makes_no_more_segments() {
    let (ours, theirs) = lines();
    let (maker, mut reader) = (OwnSegments::new(&ours), PeerSegments::new(&theirs));
    let passed = file(10);
    let many: Vec<BorrowedFd<'_>> = vec![passed.as_fd(); PASSED_DESCRIPTORS_MAX];
    let mut last = None;
    for _ in 0..=PASSED_DESCRIPTORS_KEPT_MAX / PASSED_DESCRIPTORS_MAX {
        last = Some(maker.create(4096).unwrap());
        ours.pass_descriptors(&many).unwrap();
    }
    assert!(matches!(maker.create(4096), Err(SegmentError::LineFull)));
    assert!(reader.get(last.unwrap().0).is_ok(), "what was made before is found");
}

#[test]
fn unexpected_segments_are_refused() {
    let (ours, theirs) = lines();
    let _made = OwnSegments::new(&ours).create(4096).unwrap();
    assert!(is_violation(theirs.take_descriptors(Deadline::NOW), Violation::BadPacket));
}

#[test]
fn every_lie_about_a_segment_is_refused() {
    let unsealed = || {
        rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC)
            .and_then(|fd| rustix::fs::ftruncate(&fd, 4096).map(|()| fd))
            .unwrap()
    };
    let large = SEGMENT_BYTES_PER_END_MAX + 1;
    let large_said = u32::try_from(large).unwrap();
    let cases: [(&str, Vec<u8>, Vec<OwnedFd>, Violation); 12] = [
        ("unsealed", made(0, 4096).into(), vec![unsealed()], Violation::BadSegment),
        ("smaller", made(0, 8192).into(), vec![file(4096)], Violation::BadSegment),
        ("larger", made(0, 4096).into(), vec![file(8192)], Violation::BadSegment),
        ("empty", made(0, 0).into(), vec![file(4096)], Violation::BadSegment),
        ("out of turn", made(1, 4096).into(), vec![file(4096)], Violation::BadSegment),
        ("too large", made(0, large_said).into(), vec![file(large)], Violation::BadSegment),
        ("no memory file", made(0, 4096).into(), vec![socket_fd()], Violation::BadSegment),
        ("without file", made(0, 4096).into(), vec![], Violation::BadPacket),
        ("two files", made(0, 4096).into(), vec![file(4096), file(4096)], Violation::BadPacket),
        ("cut off", vec![MADE, 0, 0], vec![file(4096)], Violation::BadPacket),
        ("retired unknown", vec![RETIRED, 0, 0], vec![], Violation::BadSegment),
        ("retired with file", vec![RETIRED, 0, 0], vec![file(4096)], Violation::BadPacket),
    ];
    for (what, packet, fds, violation) in cases {
        let (ours, theirs) = lines();
        let mut reader = PeerSegments::new(&theirs);
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        ours.send(&packet, &fds).unwrap();
        assert!(is_violation(reader.get(SegmentId(0)), violation), "{what}");
    }
}

#[test]
fn more_segments_than_allowed_are_refused() {
    let (ours, theirs) = lines();
    let mut reader = PeerSegments::new(&theirs);
    let mut send = |number: usize| {
        let number = u16::try_from(number).unwrap();
        ours.send(&made(number, 4096), &[file(4096).as_fd()]).unwrap();
        reader.maintain()
    };
    for number in 0..SEGMENTS_PER_END_MAX {
        send(number).unwrap();
    }
    assert!(is_violation(send(SEGMENTS_PER_END_MAX), Violation::BadSegment));
}

#[test]
fn a_flood_of_packets_ends_the_look() {
    let (ours, theirs) = lines();
    let mut reader = PeerSegments::new(&theirs);
    let fd = file(10);
    let many: Vec<BorrowedFd<'_>> = vec![fd.as_fd(); PASSED_DESCRIPTORS_MAX];
    for _ in 0..20 {
        ours.pass_descriptors(&many).unwrap();
    }
    assert!(is_violation(reader.get(SegmentId(0)), Violation::BadSegment));
    let mut kept = 0;
    while let Some(fds) = theirs.inbox().pop_passed() {
        kept += fds.len();
    }
    assert!(kept <= PASSED_DESCRIPTORS_KEPT_MAX + PASSED_DESCRIPTORS_MAX, "{kept}");
}

fn socket_fd() -> OwnedFd {
    socket::unix_pair(Kind::Seqpacket).unwrap().0
}
