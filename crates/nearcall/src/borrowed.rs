//! A message of which segments lie in memory of a trusted peer, as a codec reads it.
//!
//! **Invariants:** the segments stand in their order and do not overlap; `bytes` fields in them
//! become slices of that memory, everything else is copied.
//! **Not here:** where the segments come from (`connection/borrowing.rs`).

use std::cell::Cell;
use std::fmt;
use std::ops::Range;

use bytes::{Buf, Bytes};

/// Detaches `bytes` from the memory that they are a slice of: afterwards they are a copy of their
/// own.
///
/// For bytes of a message that are kept: a slice of a trusted peer's loan holds one of the 64 slots
/// that the peer has, and a slice of a long message holds its whole buffer. One copy.
pub fn detach(bytes: &mut Bytes) {
    *bytes = Bytes::copy_from_slice(bytes);
}

/// The lent parts of a message.
#[derive(Default)]
pub(crate) struct BorrowedSegments {
    /// The position of each in the whole body, and its bytes until they are read.
    parts: Vec<(usize, Cell<Bytes>)>,
    /// Length of all parts together.
    parts_bytes: usize,
    /// The rest of the body, as a range of the message's buffer.
    pub(crate) rest: Range<usize>,
}

impl BorrowedSegments {
    /// The next part, which was judged, and where it begins in the whole body.
    pub(crate) fn push(&mut self, position: usize, part: Bytes) {
        self.parts_bytes += part.len();
        self.parts.push((position, Cell::new(part)));
    }

    /// Takes the parts out, to be read elsewhere.
    pub(crate) fn take(&self) -> Self {
        let part = |(position, part): &(usize, Cell<Bytes>)| (*position, Cell::new(part.take()));
        let parts = self.parts.iter().map(part).collect();
        Self { parts, parts_bytes: self.parts_bytes, rest: self.rest.clone() }
    }

    /// Returns the same, to be read beside this.
    pub(crate) fn peek(&self) -> Self {
        let part = |(position, part): &(usize, Cell<Bytes>)| {
            let bytes = part.take();
            part.set(bytes.clone());
            (*position, Cell::new(bytes))
        };
        let parts = self.parts.iter().map(part).collect();
        Self { parts, parts_bytes: self.parts_bytes, rest: self.rest.clone() }
    }

    /// Returns the length of all parts together.
    pub(crate) fn parts_bytes(&self) -> usize {
        self.parts_bytes
    }

    /// Lets go of all parts.
    pub(crate) fn clear(&mut self) {
        self.parts.clear();
        self.parts_bytes = 0;
    }
}

impl fmt::Debug for BorrowedSegments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { parts, parts_bytes, .. } = self;
        write!(f, "{} parts of {parts_bytes} bytes", parts.len())
    }
}

/// Reads through the rest and the parts as if they were one.
pub(crate) struct BorrowedBody<'a> {
    /// The unread part of the rest.
    rest: &'a [u8],
    /// Parts that were not reached yet, with their positions.
    parts: &'a [(usize, Cell<Bytes>)],
    /// The unread part of the segment that was reached.
    part: Bytes,
    position: usize,
    left_bytes: usize,
}

impl<'a> BorrowedBody<'a> {
    /// `rest` is the part of the buffer that [`BorrowedSegments::rest`] names. The parts are read
    /// once.
    pub(crate) fn new(rest: &'a [u8], lent: &'a BorrowedSegments) -> Self {
        let parts = &lent.parts[..];
        let left_bytes = rest.len() + lent.parts_bytes;
        let mut body = Self { rest, parts, part: Bytes::new(), position: 0, left_bytes };
        body.reach();
        body
    }

    /// Goes to the part that begins here, if one does.
    #[inline]
    fn reach(&mut self) {
        if let [(position, part), later @ ..] = self.parts
            && self.part.is_empty()
            && *position == self.position
        {
            self.part = part.take();
            self.parts = later;
        }
    }
}

impl Buf for BorrowedBody<'_> {
    #[inline]
    fn remaining(&self) -> usize {
        self.left_bytes
    }

    #[inline]
    fn chunk(&self) -> &[u8] {
        if !self.part.is_empty() {
            return &self.part;
        }
        let until = self.parts.first().map_or(usize::MAX, |(position, _)| position - self.position);
        &self.rest[..self.rest.len().min(until)]
    }

    #[inline]
    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.left_bytes, "no more than is left");
        while count > 0 {
            let step = self.chunk().len().min(count);
            match self.part.is_empty() {
                true => self.rest = &self.rest[step..],
                false => self.part.advance(step),
            }
            self.position += step;
            self.left_bytes -= step;
            count -= step;
            self.reach();
        }
    }

    #[inline]
    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        if count == 0 {
            return Bytes::new();
        }
        if count <= self.part.len() {
            // All of it, as nearly always, without counting another handle.
            let field = match count == self.part.len() {
                true => std::mem::take(&mut self.part),
                false => self.part.split_to(count),
            };
            self.position += count;
            self.left_bytes -= count;
            self.reach();
            return field;
        }
        assert!(count <= self.left_bytes, "no more than is left");
        let mut copy = vec![0; count];
        self.copy_to_slice(&mut copy);
        copy.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_reads_as_one() {
        let rest = b"cdejk";
        for step in 1..11 {
            let mut lent = BorrowedSegments::default();
            for (position, part) in [(0, "ab"), (5, "fgh"), (8, "i")] {
                lent.push(position, Bytes::from(part));
            }
            let mut body = BorrowedBody::new(rest, &lent);
            let mut read = Vec::new();
            while body.has_remaining() {
                assert!(!body.chunk().is_empty());
                let field = body.copy_to_bytes(step.min(body.remaining()));
                read.extend_from_slice(&field);
            }
            assert_eq!(read, b"abcdefghijk", "{step}");
        }
    }

    #[test]
    fn fields_within_a_part_are_slices_and_all_others_copies() {
        let part = Bytes::from(vec![7; 100]);
        let mut lent = BorrowedSegments::default();
        lent.push(2, part.clone());
        let mut body = BorrowedBody::new(b"xyz", &lent);
        body.advance(2);
        assert_eq!(body.copy_to_bytes(40).as_ptr(), part.as_ptr());
        assert_eq!(body.copy_to_bytes(59).as_ptr(), part[40..].as_ptr());
        let across = body.copy_to_bytes(2);
        assert_eq!(&across[..], b"\x07z");
        assert_eq!(body.remaining(), 0);
    }

    #[test]
    fn detached_bytes_hold_nothing_else() {
        let whole = Bytes::from(vec![7; 100]);
        let mut slice = whole.slice(10..20);
        detach(&mut slice);
        assert_eq!(&slice[..], &[7; 10]);
        assert!(whole.is_unique());
    }
}
