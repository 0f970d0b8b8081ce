//! The ring against a model that is obviously right, from seeds, and against lies of either side.

use std::collections::VecDeque;

use nearcall_os::region::{OwnRegion, PeerRegion};

use super::*;
use crate::fuzzing::regions::region_pair;
use crate::limits;
use crate::shm::layout::fragment_range;

/// A small generator, so that a failure is a seed: splitmix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }
}

/// Both ends in one process: each owns one region and reads the other's.
struct Pair {
    producer: Producer,
    consumer: Consumer,
    frames: OwnRegion,
    frames_read: PeerRegion,
    progress: OwnRegion,
    progress_read: PeerRegion,
}

impl Pair {
    fn new(buffer_bytes: u32) -> Self {
        let capacity = Capacity::at_least(buffer_bytes);
        let (frames, frames_read) = region_pair(capacity.region_bytes());
        let (progress, progress_read) = region_pair(capacity.region_bytes());
        let producer = Producer::new(capacity, Pages::First);
        let consumer = Consumer::new(capacity, Pages::First);
        Self { producer, consumer, frames, frames_read, progress, progress_read }
    }

    fn try_push(&mut self, fragment: &[u8]) -> bool {
        let reserved = self.producer.try_reserve(&self.frames, &self.progress_read, fragment.len());
        let Some(place) = reserved.unwrap() else { return false };
        self.frames.slice_mut(fragment_range(place, fragment.len())).copy_from_slice(fragment);
        self.producer
            .publish(&self.frames, FragmentHeader::data(fragment.len(), fragment.len(), 0));
        true
    }

    /// Reserves and writes a fragment, then forgets it.
    fn push_and_forget(&mut self, fragment: &[u8]) {
        let reserved = self.producer.try_reserve(&self.frames, &self.progress_read, fragment.len());
        if let Some(place) = reserved.unwrap() {
            self.frames.slice_mut(fragment_range(place, fragment.len())).copy_from_slice(fragment);
            self.producer.forget(fragment.len());
        }
    }

    fn try_pop(&mut self) -> Option<Vec<u8>> {
        let word = self.consumer.look(&self.frames_read);
        let (header, place) = match self.consumer.try_plain(word) {
            Some(found) if word != 0 => found,
            _ => self.consumer.try_next(&self.progress, &self.frames_read).unwrap()?,
        };
        let mut fragment = vec![0; header.fragment_bytes as usize];
        self.frames_read.bytes(fragment_range(place, fragment.len())).copy_to(&mut fragment);
        self.consumer.finish(&self.progress);
        Some(fragment)
    }
}

/// Random pushes, forgotten pushes and pops against a queue. Fragments look like frame words
/// wherever they can, so that old bytes would be taken for frames if the ring ever looked at them.
fn model(seed: u64, buffer_bytes: u32, steps: usize) {
    let (mut rng, mut pair, mut queue) = (Rng(seed), Pair::new(buffer_bytes), VecDeque::new());
    let largest = pair.producer.fragment_bytes_max();
    let mut push_percent = 50;
    for step in 0..steps {
        if step % 200 == 0 {
            push_percent = [10, 50, 90][rng.below(3)];
        }
        if rng.below(100) < push_percent {
            let bytes = [8, 56, 57, 200, largest][rng.below(5)];
            let bytes = rng.below(bytes + 1);
            let lap = if rng.below(2) == 0 { LAP } else { 0 };
            let word = (READY | lap | 1 << 63 | 8 << 32 | 8).to_le_bytes();
            let fragment: Vec<u8> = word.iter().copied().cycle().take(bytes).collect();
            if rng.below(10) == 0 {
                pair.push_and_forget(&fragment);
            } else if pair.try_push(&fragment) {
                queue.push_back(fragment);
            }
        } else {
            assert_eq!(pair.try_pop(), queue.pop_front(), "seed {seed} step {step}");
        }
    }
    while let Some(fragment) = queue.pop_front() {
        assert_eq!(pair.try_pop(), Some(fragment), "seed {seed} at the end");
    }
    assert_eq!(pair.try_pop(), None, "seed {seed}");
}

#[test]
fn the_ring_is_a_queue() {
    let (seeds, steps) = if cfg!(miri) { (1, 60) } else { (12, 4_000) };
    for seed in 0..seeds {
        model(seed, limits::BUFFER_BYTES_MIN, steps);
        model(seed, 64 << 10, steps);
    }
}

#[test]
fn a_ring_that_is_kept_empty_stays_near_its_start() {
    let mut pair = Pair::new(256 << 10);
    let mut farthest = 0;
    let messages = if cfg!(miri) { 500 } else { 10_000_u64 };
    for number in 0..messages {
        assert!(pair.try_push(&number.to_le_bytes()));
        farthest = farthest.max(pair.consumer.capacity.place(pair.consumer.head));
        assert_eq!(pair.try_pop(), Some(number.to_le_bytes().to_vec()));
    }
    assert!(farthest < FRAMES + 2 * WINDOW_BYTES, "went to {farthest}");
}

#[test]
fn room_that_was_promised_for_a_message_is_there() {
    let (seeds, steps) = if cfg!(miri) { (1, 10) } else { (40, 200) };
    for seed in 0..seeds {
        let (mut rng, mut pair) = (Rng(seed), Pair::new(256 << 10));
        let largest = pair.producer.fragment_bytes_max();
        for _ in 0..steps {
            let message_bytes = largest + rng.below(9 * largest);
            if pair.producer.has_room_for(&pair.progress_read, message_bytes).unwrap() {
                let mut left = message_bytes;
                while left > 0 {
                    let fragment = vec![7; left.min(largest)];
                    assert!(
                        pair.try_push(&fragment),
                        "seed {seed}: {left} of {message_bytes} left"
                    );
                    left -= fragment.len();
                }
            }
            for _ in 0..rng.below(6) {
                pair.try_pop();
            }
            let _ = pair.try_push(&vec![1; rng.below(300)]);
        }
    }
}

#[test]
fn a_full_ring_refuses_until_a_frame_is_read() {
    let mut pair = Pair::new(limits::BUFFER_BYTES_MIN);
    let mut pushed = 0;
    while pair.try_push(&[1; 56]) {
        pushed += 1;
    }
    assert_eq!(pushed, limits::BUFFER_BYTES_MIN as usize / FRAME_ALIGN - 1);
    assert!(pair.try_pop().is_some());
    assert!(pair.try_push(&[2; 56]));
    assert!(!pair.try_push(&[3; 56]));
}

#[test]
fn an_impossible_progress_is_a_violation() {
    for lie in [u64::MAX, 1 << 40, 128] {
        let mut pair = Pair::new(limits::BUFFER_BYTES_MIN);
        assert!(pair.try_push(&[0; 8]));
        pair.progress.store64(CONSUMED, lie, Ordering::Relaxed);
        let asked = loop {
            match pair.producer.try_reserve(&pair.frames, &pair.progress_read, 56) {
                Ok(Some(_)) => {
                    pair.producer.publish(&pair.frames, FragmentHeader::data(56, 56, 0));
                }
                other => break other,
            }
        };
        // 128 is only a lie as long as less than that was written.
        match lie {
            128 => assert_eq!(asked, Ok(None)),
            _ => assert_eq!(asked, Err(Violation::BadIndex)),
        }
    }
    let mut pair = Pair::new(limits::BUFFER_BYTES_MIN);
    while pair.try_push(&[1; 56]) {}
    pair.try_pop().unwrap();
    assert!(pair.try_push(&[1; 56]));
    pair.progress.store64(CONSUMED, 0, Ordering::Relaxed);
    let backwards = pair.producer.try_reserve(&pair.frames, &pair.progress_read, 56);
    assert_eq!(backwards, Err(Violation::BadIndex));
}

#[test]
fn words_that_lie_are_judged() {
    let check = |word: u64, expected: Result<Option<u32>, Violation>| {
        let mut pair = Pair::new(limits::BUFFER_BYTES_MIN);
        pair.frames.store64(FRAMES, word, Ordering::Relaxed);
        if let Some((header, _)) = pair.consumer.try_plain(pair.consumer.look(&pair.frames_read)) {
            let largest = pair.producer.fragment_bytes_max();
            assert!(header.fragment_bytes as usize <= largest, "{word:#x}");
        }
        let found = pair.consumer.try_next(&pair.progress, &pair.frames_read);
        let found = found.map(|found| found.map(|(header, _)| header.fragment_bytes));
        assert_eq!(found, expected, "{word:#x}");
    };
    check(0, Ok(None));
    check(u64::from(u32::MAX), Ok(None));
    check(READY | LAP, Ok(None));
    check(READY | 1 << 63 | 8 << 32 | 8, Ok(Some(8)));
    check(READY | PAD, Err(Violation::BadHeader));
    check(!LAP, Err(Violation::BadHeader));
    let much = 2_000_u64;
    check(READY | much << 32 | much, Err(Violation::FragmentTooLarge { fragment_bytes: much }));
}

#[test]
fn lies_in_a_ring_that_grows_stay_inside() {
    let seeds = if cfg!(miri) { 3 } else { 2_000 };
    for seed in 0..seeds {
        let (mut rng, mut pair) = (Rng(seed), Pair::new(64 << 10));
        let mut taken = 0;
        while taken < 100 {
            let consumer = &mut pair.consumer;
            let place = consumer.capacity.place(consumer.head);
            let lap = consumer.capacity.lap(consumer.head);
            let fragment = rng.below(consumer.fragment_bytes_max + 2) as u64;
            let pad = if rng.below(20) == 0 { PAD } else { 0 };
            let word = if pad == 0 { 1 << 63 | fragment << 32 | fragment } else { pad };
            pair.frames.store64(place, word | READY | lap, Ordering::Relaxed);
            let found = match consumer.try_plain(consumer.look(&pair.frames_read)) {
                Some(found) => Ok(Some(found)),
                None => consumer.try_next(&pair.progress, &pair.frames_read),
            };
            match found {
                Ok(Some((header, place))) => {
                    let fragment = fragment_range(place, header.fragment_bytes as usize);
                    // Panics outside the region.
                    pair.frames_read.bytes(fragment).copy_to(&mut vec![
                        0;
                        header.fragment_bytes
                            as usize
                    ]);
                    pair.consumer.finish(&pair.progress);
                    assert!(pair.consumer.committed.end <= pair.frames_read.len());
                }
                Ok(None) => {}
                Err(_) => break,
            }
            taken += 1;
        }
    }
}

#[test]
fn notes_up_to_the_end_of_the_pages_bring_the_next_ones_in() {
    let mut pair = Pair::new(64 << 10);
    let places = pair.consumer.capacity.bytes() / FRAME_ALIGN;
    for number in 0..places {
        let note = READY | PAD | 1 << 63 | 2_000 << 32 | 2_000;
        pair.frames.store64(FRAMES + number * FRAME_ALIGN, note, Ordering::Relaxed);
        assert_eq!(pair.consumer.try_plain(pair.consumer.look(&pair.frames_read)), None);
        let found = pair.consumer.try_next(&pair.progress, &pair.frames_read).unwrap();
        assert!(found.is_some() && pair.consumer.is_indirect(), "{number}");
        if number == places - 1 {
            break;
        }
        pair.consumer.finish(&pair.progress);
        let (next, committed) = (FRAMES + (number + 1) * FRAME_ALIGN, pair.consumer.committed);
        assert!(next + FRAME_ALIGN <= committed.end, "{number}: the next word has a page");
        // A plain frame that reaches past the end is no plain frame.
        let fragment_bytes = pair.consumer.fragment_bytes_max;
        let lie = 1 << 63 | (fragment_bytes as u64) << 32 | fragment_bytes as u64 | READY;
        if let Some((_, place)) = pair.consumer.try_plain(lie) {
            assert!(fragment_range(place, fragment_bytes).end <= committed.end, "{number}");
        }
    }
}

#[test]
fn two_pads_in_a_row_are_refused() {
    let mut pair = Pair::new(limits::BUFFER_BYTES_MIN);
    assert!(pair.try_push(&[0; 8]));
    pair.try_pop().unwrap();
    pair.frames.store64(FRAMES + FRAME_ALIGN, READY | PAD, Ordering::Relaxed);
    pair.frames.store64(FRAMES, READY | PAD | LAP, Ordering::Relaxed);
    let found = pair.consumer.try_next(&pair.progress, &pair.frames_read);
    assert_eq!(found, Err(Violation::BadHeader));
}
