//! The chunked copy floor: a payload through a ring of chunks in shared memory, both ends spinning.
//!
//! The writer publishes each chunk when it is full, so that the reader copies one out while the
//! next is written.

use std::sync::atomic::Ordering;

use nearcall_os::clock;

use crate::exchange::Failure;
use crate::floor::carrier::Carrier;
use crate::floor::meeting::{Meeting, Regions};
use crate::payload::{Payload, Verifier};

/// One end: its own memory holds the chunks that it writes and how far it has read.
pub(crate) struct Chunks {
    regions: Regions,
    message_bytes: usize,
    /// Private memory into which the reader copies.
    piece: Vec<u8>,
    written: u64,
    read: u64,
}

impl Chunks {
    pub(crate) fn meet(meeting: &Meeting, message_bytes: usize) -> Result<Self, Failure> {
        let regions = meeting.regions(CHUNKS_AT + CHUNKS * CHUNK_BYTES)?;
        let piece = vec![0; CHUNK_BYTES];
        Ok(Self { regions, message_bytes, piece, written: 0, read: 0 })
    }

    #[inline]
    fn wait_for_room(&self) {
        let full = self.written.wrapping_sub(CHUNKS as u64);
        while self.written >= CHUNKS as u64
            && self.regions.peer.load64(READ, Ordering::Acquire) <= full
        {
            clock::spin_hint();
        }
    }

    #[inline]
    fn wait_for_chunk(&self) {
        while self.regions.peer.load64(WRITTEN, Ordering::Acquire) <= self.read {
            clock::spin_hint();
        }
    }

    #[inline]
    fn publish(&mut self) {
        self.written += 1;
        self.regions.own.word64(WRITTEN).store(self.written, Ordering::Release);
    }

    #[inline]
    fn free(&mut self) {
        self.read += 1;
        self.regions.own.word64(READ).store(self.read, Ordering::Release);
    }
}

impl Carrier for Chunks {
    #[inline]
    fn send(&mut self, payload: &Payload, number: u64) -> Result<(), Failure> {
        let mut offset = 0;
        while offset < self.message_bytes {
            let bytes = CHUNK_BYTES.min(self.message_bytes - offset);
            self.wait_for_room();
            let place = place_of(self.written);
            payload.fill(number, offset, self.regions.own.slice_mut(place..place + bytes));
            self.publish();
            offset += bytes;
        }
        Ok(())
    }

    #[inline]
    fn receive(&mut self, verifier: &mut Verifier<'_>) -> Result<(), Failure> {
        let mut left = self.message_bytes;
        while left > 0 {
            let bytes = CHUNK_BYTES.min(left);
            self.wait_for_chunk();
            let place = place_of(self.read);
            let piece = &mut self.piece[..bytes];
            self.regions.peer.bytes(place..place + bytes).copy_to(piece);
            self.free();
            verifier.piece(&self.piece[..bytes]);
            left -= bytes;
        }
        Ok(verifier.end()?)
    }

    #[inline]
    fn send_empty(&mut self) -> Result<(), Failure> {
        self.wait_for_room();
        self.publish();
        Ok(())
    }

    #[inline]
    fn receive_empty(&mut self) -> Result<(), Failure> {
        self.wait_for_chunk();
        self.free();
        Ok(())
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the remainder is below CHUNKS")]
fn place_of(chunk: u64) -> usize {
    CHUNKS_AT + (chunk % CHUNKS as u64) as usize * CHUNK_BYTES
}

/// Chunks written, in a pair of cache lines of its own.
const WRITTEN: usize = 0;

/// Chunks read, in another.
const READ: usize = 128;

/// The first chunk, on a page of its own.
const CHUNKS_AT: usize = 4 << 10;

/// As many as keep both ends busy and stay inside a second-level cache.
const CHUNKS: usize = 16;

/// Between 8 and 16 KiB is where streaming through shared memory is fastest.
const CHUNK_BYTES: usize = 16 << 10;
