//! `shm-condvar`: the bounded buffer of the textbooks, a ring of bytes under a mutex.
//!
//! A fragment lies there as its 8-byte header and its bytes, wrapped around at the end. Both
//! positions are counted from the start, each end stores its own, all under the lock.
//!
//! **Invariants:** this end's position is its own number; the other's is judged at each look,
//! because the memory may hold anything. What condition variables do when a process is killed, and
//! what is done about it: `monitor.rs`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nearcall_os::region::LockRegion;

use crate::error::Violation;
use crate::fragment::{FragmentHeader, HEADER_BYTES};
use crate::shm::layout::Capacity;
use crate::shm::layout::bounded_buffer::{BYTES, PUT, TAKEN};
use crate::shm::monitor::transport::Buffer;

/// One direction, as its sender or its receiver sees it.
pub(crate) struct BoundedBuffer {
    region: Arc<LockRegion>,
    at: usize,
    capacity: Capacity,
    /// The bytes that this end has put in, or taken out.
    own: u64,
    /// The bytes that the other end has, when last looked; checked.
    other: u64,
}

impl BoundedBuffer {
    fn load(&self, at: usize) -> u64 {
        // The lock orders everything.
        self.region.word64(self.at + at).load(Ordering::Relaxed)
    }

    fn advance(&mut self, at: usize, bytes: usize) {
        self.own += bytes as u64;
        self.region.word64(self.at + at).store(self.own, Ordering::Relaxed);
    }

    /// Where the byte at `position` lies, and how many follow before the start comes again.
    fn place(&self, position: u64) -> (usize, usize) {
        let capacity = self.capacity.bytes();
        #[allow(clippy::cast_possible_truncation, reason = "masked to less than the capacity")]
        let offset = position as usize & (capacity - 1);
        (self.at + BYTES + offset, capacity - offset)
    }

    fn write(&self, position: u64, bytes: &[u8]) {
        let (at, to_end) = self.place(position);
        let (first, second) = bytes.split_at(bytes.len().min(to_end));
        self.region.write(at, first);
        self.region.write(self.at + BYTES, second);
    }

    fn read(&self, position: u64, into: &mut [u8]) {
        let (at, to_end) = self.place(position);
        let (first, second) = into.split_at_mut(into.len().min(to_end));
        self.region.read(at, first);
        self.region.read(self.at + BYTES, second);
    }
}

impl Buffer for BoundedBuffer {
    fn region_bytes(capacity: Capacity) -> usize {
        BYTES + capacity.bytes()
    }

    fn new(region: &Arc<LockRegion>, at: usize, capacity: Capacity) -> Self {
        Self { region: Arc::clone(region), at, capacity, own: 0, other: 0 }
    }

    fn room_bytes(&self) -> usize {
        self.capacity.bytes()
    }

    fn fragment_bytes_max(&self) -> usize {
        self.capacity.fragment_bytes_max()
    }

    #[inline]
    fn has_known_room(&self, message_bytes: usize) -> bool {
        let fragments = message_bytes.div_ceil(self.fragment_bytes_max()).max(1);
        let bytes = message_bytes + fragments * HEADER_BYTES;
        self.own + bytes as u64 <= self.other + self.capacity.bytes() as u64
    }

    fn refresh(&mut self) -> Result<(), Violation> {
        let taken = self.load(TAKEN);
        if taken < self.other || taken > self.own {
            return Err(Violation::BadIndex);
        }
        self.other = taken;
        Ok(())
    }

    #[inline]
    fn put(&mut self, header: FragmentHeader, bytes: &[u8]) -> Result<(), Violation> {
        self.write(self.own, &header.encode());
        self.write(self.own + HEADER_BYTES as u64, bytes);
        self.advance(PUT, HEADER_BYTES + bytes.len());
        Ok(())
    }

    #[inline]
    fn take(&mut self, into: &mut [u8]) -> Result<Option<FragmentHeader>, Violation> {
        let put = self.load(PUT);
        if put < self.other || put < self.own || put - self.own > self.capacity.bytes() as u64 {
            return Err(Violation::BadIndex);
        }
        self.other = put;
        if put == self.own {
            return Ok(None);
        }
        let mut header = [0; HEADER_BYTES];
        self.read(self.own, &mut header);
        let header = FragmentHeader::decode(header)?;
        let fragment_bytes = header.fragment_bytes as usize;
        let whole = HEADER_BYTES + fragment_bytes;
        if fragment_bytes > self.fragment_bytes_max() || whole as u64 > put - self.own {
            return Err(Violation::FragmentTooLarge {
                fragment_bytes: header.fragment_bytes.into(),
            });
        }
        self.read(self.own + HEADER_BYTES as u64, &mut into[..fragment_bytes]);
        self.advance(TAKEN, whole);
        Ok(Some(header))
    }
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use crate::fuzzing::regions::lock_region;

    fn two_ends() -> (BoundedBuffer, BoundedBuffer) {
        let capacity = Capacity::at_least(4096);
        let bytes = BoundedBuffer::region_bytes(capacity).next_multiple_of(4096);
        let region = lock_region(bytes);
        let new = || BoundedBuffer::new(&region, 0, capacity);
        (new(), new())
    }

    #[test]
    fn fragments_survive_the_wrap() {
        let (mut sender, mut receiver) = two_ends();
        let mut into = [0; 1024];
        for turn in 0..100u8 {
            let fragment = vec![turn; 100 + usize::from(turn)];
            let header = FragmentHeader::data(fragment.len(), fragment.len(), 0);
            sender.refresh().unwrap();
            assert!(sender.has_known_room(fragment.len()));
            sender.put(header, &fragment).unwrap();
            assert_eq!(receiver.take(&mut into), Ok(Some(header)));
            assert_eq!(into[..fragment.len()], fragment);
            assert_eq!(receiver.take(&mut into), Ok(None));
        }
    }

    #[test]
    fn positions_that_cannot_be_are_refused() {
        for (put, violation) in [
            (4097, Violation::BadIndex),
            (u64::MAX, Violation::BadIndex),
            (7, Violation::FragmentTooLarge { fragment_bytes: 0 }),
        ] {
            let (sender, mut receiver) = two_ends();
            sender.region.word64(PUT).store(put, Ordering::Relaxed);
            assert_eq!(receiver.take(&mut [0; 1024]), Err(violation));
        }
        let (mut sender, _receiver) = two_ends();
        sender.region.word64(TAKEN).store(1, Ordering::Relaxed);
        assert_eq!(sender.refresh(), Err(Violation::BadIndex));
    }

    #[test]
    fn a_fragment_longer_than_what_was_put_in_is_refused() {
        let (sender, mut receiver) = two_ends();
        sender.write(0, &FragmentHeader::data(900, 900, 0).encode());
        sender.region.word64(PUT).store(16, Ordering::Relaxed);
        let violation = Violation::FragmentTooLarge { fragment_bytes: 900 };
        assert_eq!(receiver.take(&mut [0; 1024]), Err(violation));
    }
}
