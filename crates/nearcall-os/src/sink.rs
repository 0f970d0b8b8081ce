//! A `BufMut` that passes encoded messages on, in parts of any size.
//!
//! prost encodes a message into a [`BufMut`], which is an unsafe trait. [`SinkBuf`] is the one
//! implementation of it; a [`Sink`], which is safe to implement, receives the bytes.
//! **Invariants:** writing never fails and never panics, whatever length the message claims. A full
//! sink drops the rest and reports it afterwards.
//! **Not here:** the sinks (`nearcall`), what is marshalled.
#![allow(unsafe_code, reason = "BufMut is an unsafe trait")]

use bytes::buf::UninitSlice;
use bytes::{Buf, BufMut, Bytes};

/// The destination of encoded bytes.
pub trait Sink {
    /// Takes the next bytes. Bytes without room are dropped.
    fn write(&mut self, bytes: &[u8]);

    /// Returns whether this memory, which a field of the message holds, should go to
    /// [`pass`](Self::pass).
    #[inline]
    fn wants(&self, _memory: &[u8]) -> bool {
        false
    }

    /// Takes the next bytes as a handle, instead of [`write`](Self::write). Its memory is that of
    /// [`wants`](Self::wants) only if the field is a [`Bytes`]: check again.
    #[inline]
    fn pass(&mut self, bytes: Bytes) {
        self.write(&bytes);
    }
}

/// A `BufMut` over a [`Sink`]. Small writes are gathered, long ones passed on at once.
#[derive(Debug)]
pub struct SinkBuf<S> {
    sink: S,
    gathered: [u8; GATHERED_BYTES],
    filled: usize,
    /// Bytes that have gone to the sink.
    sent_bytes: usize,
}

impl<S: Sink> SinkBuf<S> {
    /// Creates an empty buffer.
    #[inline]
    pub fn new(sink: S) -> Self {
        Self { sink, gathered: [0; GATHERED_BYTES], filled: 0, sent_bytes: 0 }
    }

    /// Returns the number of bytes written.
    #[inline]
    pub fn written_bytes(&self) -> usize {
        self.sent_bytes + self.filled
    }

    /// Passes the gathered bytes on, and returns the sink.
    #[inline]
    pub fn finish(mut self) -> S {
        self.hand_over();
        self.sink
    }

    /// Passes the gathered bytes on without moving the sink.
    #[inline]
    pub fn hand_over(&mut self) {
        let filled = std::mem::take(&mut self.filled);
        self.sent_bytes += filled;
        if filled > 0 {
            self.sink.write(&self.gathered[..filled]);
        }
    }

    #[cold]
    fn put_long(&mut self, bytes: &[u8]) {
        self.hand_over();
        if bytes.len() < GATHERED_BYTES {
            self.gathered[..bytes.len()].copy_from_slice(bytes);
            self.filled = bytes.len();
        } else {
            self.sent_bytes += bytes.len();
            self.sink.write(bytes);
        }
    }
}

// SAFETY: chunk_mut gives initialised memory of our own that is not empty, and advance_mut counts
// no further than its end, so that everything below `filled` was initialised by `new` at the
// latest.
unsafe impl<S: Sink> BufMut for SinkBuf<S> {
    #[inline]
    fn remaining_mut(&self) -> usize {
        // As for a Vec: there is always room.
        isize::MAX.unsigned_abs()
    }

    #[inline]
    unsafe fn advance_mut(&mut self, count: usize) {
        self.filled = (self.filled + count).min(GATHERED_BYTES);
    }

    #[inline]
    fn chunk_mut(&mut self) -> &mut UninitSlice {
        if self.filled == GATHERED_BYTES {
            self.hand_over();
        }
        UninitSlice::new(&mut self.gathered[self.filled..])
    }

    #[inline]
    fn put<T: Buf>(&mut self, mut source: T)
    where
        Self: Sized,
    {
        while source.has_remaining() {
            let chunk = source.chunk();
            let bytes = chunk.len();
            if self.sink.wants(chunk) {
                self.hand_over();
                self.sent_bytes += bytes;
                // A Bytes gives a handle here; anything else copies.
                self.sink.pass(source.copy_to_bytes(bytes));
            } else {
                self.put_slice(chunk);
                source.advance(bytes);
            }
        }
    }

    #[inline]
    fn put_slice(&mut self, source: &[u8]) {
        match self.gathered.get_mut(self.filled..self.filled + source.len()) {
            Some(room) => {
                room.copy_from_slice(source);
                self.filled += source.len();
            }
            None => self.put_long(source),
        }
    }

    #[inline]
    fn put_u8(&mut self, byte: u8) {
        if self.filled == GATHERED_BYTES {
            self.hand_over();
        }
        self.gathered[self.filled] = byte;
        self.filled += 1;
    }
}

/// Bytes of small writes that go to the sink at once: passing them on costs some ten nanoseconds,
/// which is small against copying so many, and they stay in the first-level cache.
const GATHERED_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct RetainedBytes {
        parts: Vec<Vec<u8>>,
        passed: Vec<Bytes>,
        wanted: usize,
    }

    impl Sink for &mut RetainedBytes {
        fn write(&mut self, bytes: &[u8]) {
            self.parts.push(bytes.to_vec());
        }

        fn wants(&self, memory: &[u8]) -> bool {
            memory.as_ptr().addr() == self.wanted
        }

        fn pass(&mut self, bytes: Bytes) {
            self.parts.push(bytes.to_vec());
            self.passed.push(bytes);
        }
    }

    #[test]
    fn writes_of_all_kinds_arrive_in_their_order() {
        let mut retained = RetainedBytes::default();
        let mut into = SinkBuf::new(&mut retained);
        let mut expected = Vec::new();
        for round in 0..300_usize {
            let bytes = vec![u8::try_from(round % 251).unwrap(); round * 7 % 1100];
            for buf in [&mut into as &mut dyn BufMut, &mut expected] {
                buf.put_u8(7);
                buf.put_slice(&bytes);
                buf.put_u64_le(round as u64);
                buf.put_bytes(3, round % 600);
            }
            into.put(&bytes[..]);
            expected.put(&bytes[..]);
        }
        assert_eq!(into.written_bytes(), expected.len());
        into.finish();
        assert_eq!(retained.parts.concat(), expected);
        assert!(retained.passed.is_empty());
    }

    #[test]
    fn memory_that_the_sink_wants_is_passed_as_a_handle() {
        let loaned = Bytes::from(vec![5; 100]);
        let mut retained =
            RetainedBytes { wanted: loaned.as_ptr().addr(), ..RetainedBytes::default() };
        let mut into = SinkBuf::new(&mut retained);
        into.put_u8(1);
        into.put(loaned.clone());
        into.put(Bytes::from_static(b"other"));
        into.put(&loaned[..]);
        assert_eq!(into.written_bytes(), 1 + 100 + 5 + 100);
        into.finish();
        assert_eq!(retained.passed.len(), 2);
        assert_eq!(retained.passed[0].as_ptr(), loaned.as_ptr());
        assert_ne!(retained.passed[1].as_ptr(), loaned.as_ptr(), "a slice is no handle");
        assert_eq!(retained.parts, [&[1][..], &[5; 100], b"other", &[5; 100]]);
    }
}
