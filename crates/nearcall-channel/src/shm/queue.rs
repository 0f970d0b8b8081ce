//! `shm-mq`: a queue of messages in shared memory under a mutex, the kind that Boost has.
//!
//! A fixed number of slots of a fixed size; an index of the filled ones, oldest first; a stack of
//! the free ones. Without priorities, which nothing here needs.
//!
//! **Invariants:** an operation takes effect by the one store of `first` and `count`, so one that
//! was cut short by a death changed nothing. Whatever number is read is judged: the memory may hold
//! anything, also under the lock. What condition variables do when a process is killed, and what is
//! done about it: `monitor.rs`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nearcall_os::region::LockRegion;

use crate::error::Violation;
use crate::fragment::{FragmentHeader, HEADER_BYTES};
use crate::shm::layout::Capacity;
use crate::shm::layout::slot_queue::{STATE, Shape};
use crate::shm::monitor::transport::Buffer;

/// One direction, as its sender or its receiver sees it.
pub(crate) struct SlotQueue {
    region: Arc<LockRegion>,
    at: usize,
    shape: Shape,
    /// Free slots when last looked; the receiver only makes more.
    free: u32,
}

/// The content of the queue: the place of the oldest in the index, and how many there are.
#[derive(Debug, Clone, Copy)]
struct State {
    first: u32,
    count: u32,
}

impl SlotQueue {
    fn load_state(&self) -> Result<State, Violation> {
        // The lock orders everything.
        let word = self.region.word64(self.at + STATE).load(Ordering::Relaxed);
        #[allow(clippy::cast_possible_truncation, reason = "the two halves of the word")]
        let (first, count) = ((word >> 32) as u32, word as u32);
        match first < self.shape.slots && count <= self.shape.slots {
            true => Ok(State { first, count }),
            false => Err(Violation::BadIndex),
        }
    }

    fn store_state(&self, state: State) {
        let word = u64::from(state.first) << 32 | u64::from(state.count);
        self.region.word64(self.at + STATE).store(word, Ordering::Relaxed);
    }

    /// The number of a slot, read at `at`.
    fn load_slot(&self, at: usize) -> Result<u32, Violation> {
        let slot = self.region.word32(self.at + at).load(Ordering::Relaxed);
        if slot < self.shape.slots { Ok(slot) } else { Err(Violation::BadIndex) }
    }

    fn store_slot(&self, at: usize, slot: u32) {
        self.region.word32(self.at + at).store(slot, Ordering::Relaxed);
    }
}

impl Buffer for SlotQueue {
    fn region_bytes(capacity: Capacity) -> usize {
        let shape = Shape::new(capacity);
        shape.slot(shape.slots)
    }

    fn new(region: &Arc<LockRegion>, at: usize, capacity: Capacity) -> Self {
        let shape = Shape::new(capacity);
        Self { region: Arc::clone(region), at, shape, free: shape.slots }
    }

    fn init(&self) {
        for slot in 0..self.shape.slots {
            self.store_slot(self.shape.free(slot), slot);
        }
    }

    fn room_bytes(&self) -> usize {
        self.shape.slots as usize * self.shape.payload_bytes
    }

    fn fragment_bytes_max(&self) -> usize {
        self.shape.payload_bytes
    }

    #[inline]
    fn has_known_room(&self, message_bytes: usize) -> bool {
        message_bytes.div_ceil(self.shape.payload_bytes).max(1) <= self.free as usize
    }

    fn refresh(&mut self) -> Result<(), Violation> {
        self.free = self.shape.slots - self.load_state()?.count;
        Ok(())
    }

    #[inline]
    fn put(&mut self, header: FragmentHeader, bytes: &[u8]) -> Result<(), Violation> {
        let State { first, count } = self.load_state()?;
        let free = self.shape.slots - count;
        // There was room, and only we fill it.
        let top = free.checked_sub(1).ok_or(Violation::BadIndex)?;
        let slot = self.load_slot(self.shape.free(top))?;
        let at = self.at + self.shape.slot(slot);
        self.region.write(at, &header.encode());
        self.region.write(at + HEADER_BYTES, bytes);
        self.store_slot(self.shape.index(first + count), slot);
        self.store_state(State { first, count: count + 1 });
        self.free = top;
        Ok(())
    }

    #[inline]
    fn take(&mut self, into: &mut [u8]) -> Result<Option<FragmentHeader>, Violation> {
        let State { first, count } = self.load_state()?;
        if count == 0 {
            return Ok(None);
        }
        let slot = self.load_slot(self.shape.index(first))?;
        let at = self.at + self.shape.slot(slot);
        let mut header = [0; HEADER_BYTES];
        self.region.read(at, &mut header);
        let header = FragmentHeader::decode(header)?;
        let fragment_bytes = header.fragment_bytes as usize;
        if fragment_bytes > self.shape.payload_bytes {
            return Err(Violation::FragmentTooLarge {
                fragment_bytes: header.fragment_bytes.into(),
            });
        }
        self.region.read(at + HEADER_BYTES, &mut into[..fragment_bytes]);
        self.store_slot(self.shape.free(self.shape.slots - count), slot);
        self.store_state(State { first: (first + 1) % self.shape.slots, count: count - 1 });
        Ok(Some(header))
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use crate::fuzzing::regions::lock_region;

    fn two_ends() -> (SlotQueue, SlotQueue) {
        let capacity = Capacity::at_least(4096);
        let bytes = SlotQueue::region_bytes(capacity).next_multiple_of(4096);
        let region = lock_region(bytes);
        let new = || SlotQueue::new(&region, 0, capacity);
        new().init();
        (new(), new())
    }

    fn header(fragment: &[u8]) -> FragmentHeader {
        FragmentHeader::data(fragment.len(), fragment.len(), 0)
    }

    #[test]
    fn messages_come_out_in_their_order_and_slots_are_used_again() {
        let (mut sender, mut receiver) = two_ends();
        let mut into = [0; 1024];
        for turn in 0..50u8 {
            for fragment in [[turn; 3], [turn + 1; 3], [turn + 2; 3]] {
                sender.put(header(&fragment), &fragment).unwrap();
            }
            for expected in [[turn; 3], [turn + 1; 3], [turn + 2; 3]] {
                assert_eq!(receiver.take(&mut into), Ok(Some(header(&expected))));
                assert_eq!(into[..3], expected);
            }
            assert_eq!(receiver.take(&mut into), Ok(None));
        }
    }

    #[test]
    fn a_full_queue_has_no_room() {
        let (mut sender, mut receiver) = two_ends();
        assert!(sender.has_known_room(4096) && !sender.has_known_room(4097));
        for _ in 0..4 {
            sender.put(header(b"x"), b"x").unwrap();
        }
        assert!(!sender.has_known_room(0));
        assert_eq!(sender.put(header(b"x"), b"x"), Err(Violation::BadIndex));
        receiver.take(&mut [0; 1024]).unwrap();
        sender.refresh().unwrap();
        assert!(sender.has_known_room(1024) && !sender.has_known_room(1025));
    }

    #[test]
    fn numbers_that_cannot_be_are_refused() {
        let bad_state = [5, 4 << 32, u64::MAX];
        for word in bad_state {
            let (mut sender, mut receiver) = two_ends();
            sender.region.word64(STATE).store(word, Ordering::Relaxed);
            assert_eq!(receiver.take(&mut [0; 1024]), Err(Violation::BadIndex));
            assert_eq!(sender.refresh(), Err(Violation::BadIndex));
        }
        let (mut sender, mut receiver) = two_ends();
        sender.put(header(b"x"), b"x").unwrap();
        sender.store_slot(sender.shape.index(0), 4);
        assert_eq!(receiver.take(&mut [0; 1024]), Err(Violation::BadIndex));
        sender.store_slot(sender.shape.free(2), u32::MAX);
        assert_eq!(sender.put(header(b"x"), b"x"), Err(Violation::BadIndex));
    }
}
