//! The ring floor: words through a ring with one producer and one consumer, both spinning.
//!
//! Each word is published by itself and each is freed by itself; either end keeps a copy of the
//! other's index and looks again only when that is used up.

use std::sync::atomic::Ordering;

use nearcall_os::clock;

use crate::exchange::Failure;
use crate::floor::carrier::Carrier;
use crate::floor::meeting::{Meeting, Regions};
use crate::payload::{Payload, Verifier};

/// One end: its own memory holds the words that it writes and both of its indices.
pub(crate) struct Words {
    regions: Regions,
    written: u64,
    read: u64,
    /// How far the other end had read when we looked last.
    read_there: u64,
    /// How far the other end had written when we looked last.
    written_there: u64,
}

impl Words {
    pub(crate) fn meet(meeting: &Meeting) -> Result<Self, Failure> {
        let regions = meeting.regions(WORDS_AT + WORDS * WORD_BYTES)?;
        Ok(Self { regions, written: 0, read: 0, read_there: 0, written_there: 0 })
    }

    #[inline]
    fn push(&mut self, word: u64) {
        while self.written - self.read_there >= WORDS as u64 {
            clock::spin_hint();
            self.read_there = self.regions.peer.load64(READ, Ordering::Acquire);
        }
        self.regions.own.word64(place_of(self.written)).store(word, Ordering::Relaxed);
        self.written += 1;
        self.regions.own.word64(WRITTEN).store(self.written, Ordering::Release);
    }

    #[inline]
    fn pop(&mut self) -> u64 {
        while self.written_there == self.read {
            self.written_there = self.regions.peer.load64(WRITTEN, Ordering::Acquire);
            if self.written_there == self.read {
                clock::spin_hint();
            }
        }
        let word = self.regions.peer.load64(place_of(self.read), Ordering::Relaxed);
        self.read += 1;
        self.regions.own.word64(READ).store(self.read, Ordering::Release);
        word
    }
}

impl Carrier for Words {
    #[inline]
    fn send(&mut self, payload: &Payload, number: u64) -> Result<(), Failure> {
        let mut word = [0; WORD_BYTES];
        payload.fill(number, 0, &mut word);
        self.push(u64::from_le_bytes(word));
        Ok(())
    }

    #[inline]
    fn receive(&mut self, verifier: &mut Verifier<'_>) -> Result<(), Failure> {
        let word = self.pop().to_le_bytes();
        verifier.piece(&word);
        Ok(verifier.end()?)
    }

    #[inline]
    fn send_empty(&mut self) -> Result<(), Failure> {
        self.push(0);
        Ok(())
    }

    #[inline]
    fn receive_empty(&mut self) -> Result<(), Failure> {
        self.pop();
        Ok(())
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the remainder is below WORDS")]
fn place_of(word: u64) -> usize {
    WORDS_AT + (word % WORDS as u64) as usize * WORD_BYTES
}

/// Words written, in a pair of cache lines of its own.
const WRITTEN: usize = 0;

/// Words read, in another.
const READ: usize = 128;

/// The first word, on a page of its own.
const WORDS_AT: usize = 4 << 10;

/// As many as the ring of a channel has room for by default.
const WORDS: usize = 4 << 10;

/// A message of this floor.
const WORD_BYTES: usize = 8;
