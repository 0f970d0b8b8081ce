//! References: bytes of a body that lie in memory outside of the message.
//!
//! The body of a message whose header has the flag REFERENCES is
//!
//! ```text
//! | count: u8 | count rows | the rest of the body, without what is referred to |
//!   row: position, slot, segment, offset, bytes: five numbers of 1 to 5 bytes each
//! ```
//!
//! Numbers have seven bits in each byte, the low ones first, and the high bit in all bytes but the
//! last. So a row has nine bytes or so, and a small call with one loan still fits the cache line
//! that its header is in.
//! The receiver puts the whole body together, or reads it as if it were whole: each reference
//! stands at its position in it.
//! **Invariants** of [`References`]: the rows are in their order, do not overlap, lie inside the
//! whole body, and that is within the limit.
//! **Not here:** the memory (segment, slot and offset mean nothing here), the lender.

use crate::error::ProtocolError;

/// Longest row, in bytes.
pub const REFERENCE_BYTES_MAX: usize = 5 * NUMBER_BYTES_MAX;

/// Most references of one message. As many as an end has slots to lend.
pub const REFERENCES_MAX: usize = 64;

/// Some bytes of a body, and where they are instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// The position of the first byte in the whole body.
    pub position: u32,
    /// Which of the sender's slots holds them: what is given back.
    pub slot: u16,
    /// Which of the sender's segments.
    pub segment: u16,
    /// The offset of the first byte in the segment.
    pub offset: u32,
    /// The number of bytes; at least one.
    pub bytes: u32,
}

impl Reference {
    /// The row as it travels: the first bytes of the array, and how many.
    #[must_use]
    #[inline]
    pub fn encode(&self) -> ([u8; REFERENCE_BYTES_MAX], usize) {
        let (mut row, mut at) = ([0; REFERENCE_BYTES_MAX], 0);
        let Self { position, slot, segment, offset, bytes } = *self;
        for mut number in [position, slot.into(), segment.into(), offset, bytes] {
            while number >= 0x80 {
                row[at] = low(number) | 0x80;
                number >>= 7;
                at += 1;
            }
            row[at] = low(number);
            at += 1;
        }
        (row, at)
    }

    /// Takes a row off the front of `rows`.
    #[inline]
    fn take(rows: &mut &[u8]) -> Option<Self> {
        Some(Self {
            position: take_number(rows)?,
            slot: u16::try_from(take_number(rows)?).ok()?,
            segment: u16::try_from(take_number(rows)?).ok()?,
            offset: take_number(rows)?,
            bytes: take_number(rows)?,
        })
    }
}

/// Takes a number off the front; none if it is cut off, or has more than 32 bits.
#[inline]
fn take_number(rows: &mut &[u8]) -> Option<u32> {
    let mut number = 0;
    for at in 0..NUMBER_BYTES_MAX {
        let (&byte, rest) = rows.split_first()?;
        *rows = rest;
        let bits = u32::from(byte & 0x7f);
        let shifted = bits << (7 * at);
        if shifted >> (7 * at) != bits {
            return None;
        }
        number |= shifted;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// The lowest seven bits.
const fn low(number: u32) -> u8 {
    number.to_le_bytes()[0] & 0x7f
}

/// The references of one body, judged. Borrows it; nothing is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct References<'a> {
    rows: &'a [u8],
    count: usize,
    body_bytes: usize,
}

impl<'a> References<'a> {
    /// Reads the table at the front of `body`: a private copy, which the peer can no longer change.
    /// Also gives the rest of the body. The whole body has at most `body_bytes_max` bytes.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::BadReferences`]: no rows or too many, cut off, out of order, overlapping,
    /// empty, or outside of the body. [`ProtocolError::MessageTooLarge`]: the whole is too large.
    #[inline]
    pub fn read(body: &'a [u8], body_bytes_max: usize) -> Result<(Self, &'a [u8]), ProtocolError> {
        let bad = ProtocolError::BadReferences;
        let (&count, rows) = body.split_first().ok_or(bad)?;
        let count = usize::from(count);
        if !(1..=REFERENCES_MAX).contains(&count) {
            return Err(bad);
        }
        // At most 64 lengths of 32 bits and one that is in memory: the sum fits.
        let (mut rest, mut end, mut outside) = (rows, 0, 0);
        for _ in 0..count {
            let Reference { position, bytes, .. } = Reference::take(&mut rest).ok_or(bad)?;
            if u64::from(position) < end || bytes == 0 {
                return Err(bad);
            }
            end = u64::from(position) + u64::from(bytes);
            outside += u64::from(bytes);
        }
        let body_bytes = outside + rest.len() as u64;
        if body_bytes > body_bytes_max as u64 {
            let message_bytes = usize::try_from(body_bytes).unwrap_or(usize::MAX);
            return Err(ProtocolError::MessageTooLarge { message_bytes });
        }
        if end > body_bytes {
            return Err(bad);
        }
        let body_bytes = usize::try_from(body_bytes).map_err(|_| bad)?;
        Ok((Self { rows, count, body_bytes }, rest))
    }

    /// Length of the whole body, in bytes.
    #[must_use]
    pub const fn body_bytes(&self) -> usize {
        self.body_bytes
    }

    /// Returns the number of references.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The references, by their position.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Reference> + 'a {
        let mut rows = self.rows;
        // All were read once.
        (0..self.count).map_while(move |_| Reference::take(&mut rows))
    }
}

/// Longest number, in bytes: 32 bits, seven in each.
const NUMBER_BYTES_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn row(position: u32, bytes: u32) -> Reference {
        Reference { position, slot: 3, segment: 4, offset: 5, bytes }
    }

    fn body(rows: &[Reference], inline_bytes: usize) -> Vec<u8> {
        let mut body = alloc::vec![u8::try_from(rows.len()).unwrap()];
        for row in rows {
            let (row, bytes) = row.encode();
            body.extend(&row[..bytes]);
        }
        body.resize(body.len() + inline_bytes, 7);
        body
    }

    #[test]
    fn a_row_of_version_1() {
        let small = Reference { position: 4, slot: 0, segment: 3, offset: 0, bytes: 1 << 20 };
        let (row, bytes) = small.encode();
        assert_eq!(row[..bytes], [4, 0, 3, 0, 0x80, 0x80, 0x40]);
        let large = Reference {
            position: u32::MAX,
            slot: u16::MAX,
            segment: u16::MAX,
            offset: 0x8000_0000,
            bytes: 0x7f,
        };
        let (row, bytes) = large.encode();
        let expected = [
            0xff, 0xff, 0xff, 0xff, 0x0f, 0xff, 0xff, 0x03, 0xff, 0xff, 0x03, 0x80, 0x80, 0x80,
            0x80, 0x08, 0x7f,
        ];
        assert_eq!(row[..bytes], expected);
        for reference in [small, large] {
            let (row, bytes) = reference.encode();
            assert_eq!(Reference::take(&mut &row[..bytes]), Some(reference));
        }
    }

    #[test]
    fn numbers_with_too_many_bits_are_refused() {
        for number in [
            &[0xff, 0xff, 0xff, 0xff, 0x10][..],
            &[0x80; 6],
            &[0x80, 0x80, 0x80, 0x80, 0x80, 0],
            &[0xff; 4],
            &[],
        ] {
            assert_eq!(take_number(&mut &number[..]), None, "{number:?}");
        }
        assert_eq!(take_number(&mut &[0xff, 0xff, 0xff, 0xff, 0x0f][..]), Some(u32::MAX));
        // A slot and a segment have 16 bits.
        assert_eq!(Reference::take(&mut &[1, 0x80, 0x80, 4, 1, 1, 1][..]), None);
    }

    #[test]
    fn references_survive_the_way() {
        let rows = [row(2, 10), row(12, 1), row(20, 100)];
        let body = body(&rows, 9);
        let (read, inline) = References::read(&body, 120).unwrap();
        assert_eq!((read.body_bytes(), inline), (120, &[7; 9][..]));
        assert!(read.iter().eq(rows));
        assert_eq!(read.count(), 3);
    }

    #[test]
    fn references_at_either_end_are_fine() {
        for rows in [&[row(0, 5)][..], &[row(0, 5), row(5, 6)], &[row(9, 1)]] {
            let inline_bytes = if rows[0].position == 0 { 0 } else { 9 };
            assert!(References::read(&body(rows, inline_bytes), 100).is_ok(), "{rows:?}");
        }
    }

    #[test]
    fn every_lie_is_refused() {
        let too_many: Vec<_> = (0..65).map(|at| row(at, 1)).collect();
        for (rows, inline_bytes) in [
            (&[][..], 9),
            (&too_many[..], 9),
            (&[row(10, 5), row(0, 5)], 9),
            (&[row(0, 5), row(4, 5)], 9),
            (&[row(3, 0)], 9),
            (&[row(10, 5)], 9),
            (&[row(u32::MAX, 5)], 9),
            (&[row(4, 5), row(u32::MAX, 1)], 9),
        ] {
            let body = body(rows, inline_bytes);
            let read = References::read(&body, 1000);
            assert_eq!(read.err(), Some(ProtocolError::BadReferences), "{rows:?}");
        }
    }

    #[test]
    fn a_table_that_is_cut_off_is_refused() {
        let body = body(&[row(0, 5), row(5, 5)], 0);
        for cut in 0..body.len() {
            let read = References::read(&body[..cut], 1000);
            assert_eq!(read.err(), Some(ProtocolError::BadReferences), "{cut}");
        }
    }

    #[test]
    fn the_whole_body_is_within_the_limit() {
        let body_one = body(&[row(0, 92)], 9);
        let read = References::read(&body_one, 100);
        assert_eq!(read.err(), Some(ProtocolError::MessageTooLarge { message_bytes: 101 }));
        let many: Vec<_> = (0..60).map(|at| row(at * (1 << 26), 1 << 26)).collect();
        let body = body(&many, 9);
        let too_large = ProtocolError::MessageTooLarge { message_bytes: (60 << 26) + 9 };
        assert_eq!(References::read(&body, 1 << 20).err(), Some(too_large));
    }
}
