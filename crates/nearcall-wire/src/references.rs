//! References: bytes of a body that lie in memory outside of the message.
//!
//! The body of a message whose header has the flag REFERENCES is
//!
//! ```text
//! | count: u16 | count rows of 16 bytes | the rest of the body, without what is referred to |
//!   row: position: u32 | slot: u16 | segment: u16 | offset: u32 | bytes: u32
//! ```
//!
//! The receiver puts the whole body together, or reads it as if it were whole: each reference
//! stands at its position in it. Little endian. Always true of [`References`]: the rows are in
//! their order, do not overlap, lie inside the whole body, and that is within the limit.
//! Not here: the memory (segment, slot and offset mean nothing here), who lends it.

use crate::error::ProtocolError;

/// Length of one row, in bytes.
pub const REFERENCE_BYTES: usize = 16;

/// Most references of one message. As many as an end has slots to lend.
pub const REFERENCES_MAX: usize = 64;

/// Some bytes of a body, and where they are instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// Where they begin in the whole body.
    pub position: u32,
    /// Which of the sender's slots holds them: what is given back.
    pub slot: u16,
    /// Which of the sender's segments.
    pub segment: u16,
    /// Where in the segment they begin.
    pub offset: u32,
    /// How many they are; at least one.
    pub bytes: u32,
}

impl Reference {
    /// The row as it travels.
    #[must_use]
    pub fn encode(&self) -> [u8; REFERENCE_BYTES] {
        let mut row = [0; REFERENCE_BYTES];
        row[0..4].copy_from_slice(&self.position.to_le_bytes());
        row[4..6].copy_from_slice(&self.slot.to_le_bytes());
        row[6..8].copy_from_slice(&self.segment.to_le_bytes());
        row[8..12].copy_from_slice(&self.offset.to_le_bytes());
        row[12..16].copy_from_slice(&self.bytes.to_le_bytes());
        row
    }

    fn decode(row: &[u8; REFERENCE_BYTES]) -> Self {
        let [p0, p1, p2, p3, s0, s1, g0, g1, o0, o1, o2, o3, b0, b1, b2, b3] = *row;
        Self {
            position: u32::from_le_bytes([p0, p1, p2, p3]),
            slot: u16::from_le_bytes([s0, s1]),
            segment: u16::from_le_bytes([g0, g1]),
            offset: u32::from_le_bytes([o0, o1, o2, o3]),
            bytes: u32::from_le_bytes([b0, b1, b2, b3]),
        }
    }
}

/// The references of one body, judged. Borrows it; nothing is allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct References<'a> {
    rows: &'a [[u8; REFERENCE_BYTES]],
    body_bytes: usize,
}

impl<'a> References<'a> {
    /// Length of a table with so many rows, in bytes.
    #[must_use]
    pub const fn table_bytes(count: usize) -> usize {
        COUNT_BYTES + count * REFERENCE_BYTES
    }

    /// Reads the table at the front of `body`: a private copy, which the peer can no longer change.
    /// Also gives the rest of the body. The whole body has at most `body_bytes_max` bytes.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::BadReferences`]: no rows or too many, cut off, out of order, overlapping,
    /// empty, or outside of the body. [`ProtocolError::MessageTooLarge`]: the whole is too large.
    pub fn read(body: &'a [u8], body_bytes_max: usize) -> Result<(Self, &'a [u8]), ProtocolError> {
        let bad = ProtocolError::BadReferences;
        let (count, rest) = body.split_first_chunk::<COUNT_BYTES>().ok_or(bad)?;
        let count = usize::from(u16::from_le_bytes(*count));
        if !(1..=REFERENCES_MAX).contains(&count) {
            return Err(bad);
        }
        let (rows, inline) = rest.split_at_checked(count * REFERENCE_BYTES).ok_or(bad)?;
        let (rows, _) = rows.as_chunks::<REFERENCE_BYTES>();
        // At most 64 lengths of 32 bits and one that is in memory: the sum fits.
        let outside: u64 = rows.iter().map(|row| u64::from(Reference::decode(row).bytes)).sum();
        let body_bytes = outside + inline.len() as u64;
        if body_bytes > body_bytes_max as u64 {
            let message_bytes = usize::try_from(body_bytes).unwrap_or(usize::MAX);
            return Err(ProtocolError::MessageTooLarge { message_bytes });
        }
        let mut end = 0;
        for row in rows {
            let Reference { position, bytes, .. } = Reference::decode(row);
            if u64::from(position) < end || bytes == 0 {
                return Err(bad);
            }
            end = u64::from(position) + u64::from(bytes);
        }
        if end > body_bytes {
            return Err(bad);
        }
        let body_bytes = usize::try_from(body_bytes).map_err(|_| bad)?;
        Ok((Self { rows, body_bytes }, inline))
    }

    /// Length of the whole body, in bytes.
    #[must_use]
    pub const fn body_bytes(&self) -> usize {
        self.body_bytes
    }

    /// The references, by their position.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Reference> + 'a {
        self.rows.iter().map(Reference::decode)
    }
}

/// Length of the number of rows.
const COUNT_BYTES: usize = 2;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn row(position: u32, bytes: u32) -> Reference {
        Reference { position, slot: 3, segment: 4, offset: 5, bytes }
    }

    fn body(rows: &[Reference], inline_bytes: usize) -> Vec<u8> {
        let mut body = u16::try_from(rows.len()).unwrap().to_le_bytes().to_vec();
        body.extend(rows.iter().flat_map(Reference::encode));
        body.resize(body.len() + inline_bytes, 7);
        body
    }

    #[test]
    fn a_row_of_version_1() {
        let row = Reference {
            position: 0x0102_0304,
            slot: 0x0506,
            segment: 0x0708,
            offset: 0x090a_0b0c,
            bytes: 0x0d0e_0f10,
        };
        assert_eq!(row.encode(), [4, 3, 2, 1, 6, 5, 8, 7, 12, 11, 10, 9, 16, 15, 14, 13]);
        assert_eq!(Reference::decode(&row.encode()), row);
    }

    #[test]
    fn references_survive_the_way() {
        let rows = [row(2, 10), row(12, 1), row(20, 100)];
        let body = body(&rows, 9);
        let (read, inline) = References::read(&body, 120).unwrap();
        assert_eq!((read.body_bytes(), inline), (120, &[7; 9][..]));
        assert!(read.iter().eq(rows));
        assert_eq!(References::table_bytes(3), body.len() - inline.len());
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
        let large = [row(0, u32::MAX); REFERENCES_MAX];
        for (rows, max) in [(&large[..], usize::MAX / 2), (&[row(0, 92)], 100)] {
            let body = body(rows, 9);
            let read = References::read(&body, max);
            if max == 100 {
                assert_eq!(read.err(), Some(ProtocolError::MessageTooLarge { message_bytes: 101 }));
            } else {
                assert!(read.is_err());
            }
        }
    }
}
