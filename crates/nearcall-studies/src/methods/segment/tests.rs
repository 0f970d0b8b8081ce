//! The allocator against a model, and what a hostile other end may write.

use super::*;

fn segment(message_bytes: usize) -> Segment {
    Segment::alone(message_bytes).unwrap()
}

fn all_free(segment: &Segment) -> Vec<(usize, usize)> {
    segment.locked(|blocks| blocks.all_free()).unwrap()
}

/// Marks and later finds the bytes of a block, so that two that overlap give themselves away.
fn stamp(segment: &Segment, handle: Handle, mark: u8) {
    let bytes = vec![mark; usize::try_from(handle.bytes).unwrap()];
    segment.region.write(segment.resolve(handle).unwrap(), &bytes);
}

#[track_caller]
fn check_stamp(segment: &Segment, handle: Handle, mark: u8) {
    let mut found = vec![0; usize::try_from(handle.bytes).unwrap()];
    segment.read(handle, &mut found).unwrap();
    assert!(found.iter().all(|&byte| byte == mark), "{handle:?}");
}

#[test]
fn blocks_never_overlap_and_become_one_again() {
    for seed in 0..8 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let segment = segment(1);
        let whole = all_free(&segment);
        let mut live: Vec<(Handle, u8)> = Vec::new();
        let mut refused = 0;
        for turn in 0..2_000u32 {
            let mark = turn.to_le_bytes()[0];
            if live.is_empty() || rng.u32(..100) < 55 {
                let bytes = 1usize << rng.u32(..18);
                match segment.allocate(rng.usize(..=bytes)) {
                    Ok(handle) => {
                        stamp(&segment, handle, mark);
                        live.push((handle, mark));
                    }
                    Err(error) => {
                        assert_eq!(error, SegmentError::Full);
                        refused += 1;
                    }
                }
            } else {
                let (handle, mark) = live.swap_remove(rng.usize(..live.len()));
                check_stamp(&segment, handle, mark);
                segment.free(handle).unwrap();
            }
        }
        assert!(refused > 0, "seed {seed} never filled the segment");
        for (handle, mark) in live.drain(..) {
            check_stamp(&segment, handle, mark);
            segment.free(handle).unwrap();
        }
        assert_eq!(all_free(&segment), whole, "seed {seed}");
    }
}

#[test]
fn two_of_the_largest_messages_fit() {
    for bytes in [1, 1 << 20, 1_000_001] {
        let segment = segment(bytes);
        let first = segment.allocate(bytes).unwrap();
        segment.construct("request", &[1; 24]).unwrap();
        segment.allocate(bytes).unwrap();
        segment.free(first).unwrap();
    }
}

#[test]
fn a_block_is_freed_once() {
    let segment = segment(1);
    let handle = segment.allocate(100).unwrap();
    segment.allocate(1).unwrap();
    segment.free(handle).unwrap();
    assert_eq!(segment.free(handle), Err(SegmentError::Broken));
}

#[test]
fn an_object_is_found_by_its_name_until_it_is_destroyed() {
    let segment = segment(1);
    let whole = all_free(&segment);
    segment.construct("request", &[7; 24]).unwrap();
    assert_eq!(segment.construct("request", &[8; 24]), Err(SegmentError::Name));
    segment.construct("response", &[9; 8]).unwrap();
    let mut found = [0; 24];
    segment.find("request", &mut found).unwrap();
    assert_eq!(found, [7; 24]);
    assert_eq!(segment.find("response", &mut found), Err(SegmentError::Broken));
    segment.destroy("request").unwrap();
    segment.destroy("response").unwrap();
    assert_eq!(segment.find("request", &mut found), Err(SegmentError::Name));
    assert_eq!(all_free(&segment), whole);
    for place in 0..NAMES_MAX {
        segment.construct(&format!("name {place}"), &[]).unwrap();
    }
    assert_eq!(segment.construct("one more", &[]), Err(SegmentError::Full));
    assert_eq!(segment.construct("", &[]), Err(SegmentError::Name));
}

#[test]
fn whatever_the_other_end_writes_stays_an_error() {
    let wild = [0, 1, 15, 16, 4_096, 4_112, 1 << 20, (1 << 20) - 16, 1 << 40, u64::MAX, !15];
    for at in wild {
        for bytes in wild {
            let segment = segment(1);
            let handle = Handle { at, bytes };
            let _ = segment.free(handle);
            if let Ok(at) = segment.resolve(handle) {
                assert!(at + usize::try_from(bytes).unwrap() <= segment.region.len());
            }
        }
    }
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..2_000 {
        let segment = segment(1);
        let handles: Vec<Handle> = (0..8).map(|_| segment.allocate(64).unwrap()).collect();
        for _ in 0..4 {
            let word = BLOCKS + 8 * rng.usize(..100);
            let value = wild[rng.usize(..wild.len())].wrapping_add(rng.u64(..2) * 16);
            segment.region.word64(word).store(value, RELAXED);
        }
        for handle in handles {
            let _ = segment.free(handle);
            let _ = segment.allocate(rng.usize(..100_000));
        }
    }
}
