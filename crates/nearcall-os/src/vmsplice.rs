//! Vmsplice: pages handed to a pipe without a copy, and the rule that goes with it.
//!
//! The pipe refers to the pages until its reader has copied them out. A byte that was handed over
//! must not be written before that, or the reader sees the new value. **Invariants:** the bytes
//! handed over and not released are one range of the ring, and every write into it panics. **Not
//! here:** knowing when the reader is done: it must report it, or [`crate::pipe::queued_bytes`] is
//! 0.
#![allow(unsafe_code, reason = "vmsplice takes raw memory")]

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::{IoSliceRaw, SpliceFlags, vmsplice};

use crate::pages::Pages;

/// A ring of pages whose bytes are written, handed to a pipe in order, and released in order.
#[derive(Debug)]
pub struct SpliceBuffer {
    pages: Pages,
    /// The index of the oldest byte that is handed over.
    start: usize,
    /// The number of bytes handed over; they may wrap around the end.
    handed_over: usize,
}

impl SpliceBuffer {
    /// A ring of at least `bytes` bytes, in whole pages, all present.
    ///
    /// # Errors
    ///
    /// ENOMEM.
    pub fn create(bytes: usize) -> io::Result<Self> {
        let mut pages = Pages::create(bytes)?;
        pages.prefault();
        Ok(Self { pages, start: 0, handed_over: 0 })
    }

    /// Its size.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.pages.len()
    }

    /// Returns the number of bytes handed over and not released.
    #[must_use]
    pub fn handed_over(&self) -> usize {
        self.handed_over
    }

    /// The longest range without a break that may be written and handed over next.
    #[must_use]
    pub fn free(&self) -> Range<usize> {
        let (at, capacity) = (self.next(), self.capacity());
        let free = capacity - self.handed_over;
        at..at + free.min(capacity - at)
    }

    /// The bytes of `range`, to be written.
    ///
    /// # Panics
    ///
    /// When the range is outside or touches bytes that are handed over.
    pub fn slice_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        assert!(!self.touches(&range), "bytes {range:?} are handed over to a pipe");
        &mut self.pages[range]
    }

    /// Hands `range` to the pipe and waits while it is full; returns how many bytes it took (the
    /// first ones). Each page takes one of the pipe's slots (16 unless it was made larger).
    ///
    /// # Errors
    ///
    /// EPIPE when the pipe has no reader; then nothing was handed over.
    ///
    /// # Panics
    ///
    /// When the range is outside, touches bytes that are handed over, or does not follow them.
    pub fn splice(&mut self, pipe: impl AsFd, range: Range<usize>) -> io::Result<usize> {
        Ok(self.splice_flagged(pipe, range, SpliceFlags::empty())?)
    }

    /// [`SpliceBuffer::splice`] that does not wait; `None` when the pipe is full.
    ///
    /// # Errors
    ///
    /// As for [`SpliceBuffer::splice`].
    ///
    /// # Panics
    ///
    /// As for [`SpliceBuffer::splice`].
    pub fn try_splice(
        &mut self,
        pipe: impl AsFd,
        range: Range<usize>,
    ) -> io::Result<Option<usize>> {
        match self.splice_flagged(pipe, range, SpliceFlags::NONBLOCK) {
            Err(Errno::AGAIN) => Ok(None),
            outcome => Ok(Some(outcome?)),
        }
    }

    /// Takes back the oldest `bytes` handed over: the reader has copied them.
    ///
    /// # Panics
    ///
    /// When fewer are handed over. A peer's claim must be checked against
    /// [`SpliceBuffer::handed_over`] first.
    pub fn release(&mut self, bytes: usize) {
        assert!(bytes <= self.handed_over, "{bytes} released of {} handed over", self.handed_over);
        self.start = (self.start + bytes) % self.capacity();
        self.handed_over -= bytes;
    }

    fn splice_flagged(
        &mut self,
        pipe: impl AsFd,
        range: Range<usize>,
        flags: SpliceFlags,
    ) -> rustix::io::Result<usize> {
        assert!(!self.touches(&range), "bytes {range:?} are handed over already");
        if self.handed_over == 0 {
            self.start = range.start;
        }
        assert!(range.start == self.next(), "bytes {range:?} do not follow those before");
        let pipe = pipe.as_fd();
        let taken = retry_on_intr(|| {
            let parts = [IoSliceRaw::from_slice_mut(&mut self.pages[range.clone()])];
            // SAFETY: the range is memory of this buffer, borrowed for writing, so even the reading
            // end of a pipe (from which this call would copy into it) breaks no promise. Without
            // GIFT the pages stay in this buffer; the kernel keeps them alive while the pipe refers
            // to them.
            unsafe { vmsplice(pipe, &parts, flags) }
        })?;
        self.handed_over += taken;
        Ok(taken)
    }

    /// The index of the next byte to hand over.
    fn next(&self) -> usize {
        (self.start + self.handed_over) % self.capacity()
    }

    fn touches(&self, range: &Range<usize>) -> bool {
        let capacity = self.capacity();
        assert!(range.start <= range.end && range.end <= capacity, "bytes {range:?} of {capacity}");
        let end = self.start + self.handed_over;
        let overlaps = |from: usize, to: usize| from < to && range.start < to && from < range.end;
        // The part up to the end of the ring, and the part that goes round.
        overlaps(self.start, end.min(capacity)) || overlaps(0, end.saturating_sub(capacity))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_handed_over_follow_each_other_round_the_end() {
        let pipe = crate::pipe::create().unwrap();
        let mut ring = SpliceBuffer::create(1).unwrap();
        let capacity = ring.capacity();
        let mut sink = vec![0; capacity];
        assert_eq!(ring.free(), 0..capacity);
        let most = capacity - 10;
        assert_eq!(ring.splice(&pipe.write, 0..most).unwrap(), most);
        assert_eq!(ring.free(), most..capacity);
        crate::pipe::read(&pipe.read, &mut sink).unwrap();
        ring.release(most);
        assert_eq!(ring.splice(&pipe.write, most..capacity).unwrap(), 10);
        assert_eq!(ring.free(), 0..most);
        assert_eq!(ring.splice(&pipe.write, 0..5).unwrap(), 5);
        assert_eq!(ring.handed_over(), 15);
        assert!(ring.touches(&(0..1)) && ring.touches(&(most..most + 1)));
        assert!(!ring.touches(&(5..most)));
    }
}
