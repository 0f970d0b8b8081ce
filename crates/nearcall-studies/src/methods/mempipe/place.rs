//! Where records lie in the ring. Pure arithmetic.
//!
//! **Invariants:** a header never wraps, because records are whole lines and so is the ring; a
//! payload may, and then has two parts.

use std::ops::Range;

/// Rounded up to whole lines.
#[inline]
pub(super) const fn rounded(bytes: usize) -> usize {
    bytes.next_multiple_of(LINE_BYTES)
}

/// What a payload of `bytes` takes with its header.
#[inline]
pub(super) const fn record_bytes(bytes: usize) -> usize {
    HEADER_BYTES + rounded(bytes)
}

/// How much of a message goes into one record: all of it if it fits.
pub(super) const fn piece_bytes(message_bytes: usize) -> usize {
    match record_bytes(message_bytes) + HEADER_BYTES <= RING_BYTES {
        true => message_bytes,
        false => PIECE_BYTES,
    }
}

/// Where a position lies in the ring.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "masked to less than the ring")]
pub(super) const fn offset(position: u64) -> usize {
    position as usize & (RING_BYTES - 1)
}

/// Where the payload of the record at `position` lies. The second part is empty if the ring's end
/// does not cut it.
#[inline]
pub(super) fn parts(position: u64, bytes: usize) -> [Range<usize>; 2] {
    let start = offset(position + HEADER_BYTES as u64);
    let first = bytes.min(RING_BYTES - start);
    [start..start + first, 0..bytes - first]
}

/// As in ipc-bench without settings of its user.
pub(super) const RING_BYTES: usize = 2 << 20;

/// Of which four bytes are used.
pub(super) const HEADER_BYTES: usize = LINE_BYTES;

const LINE_BYTES: usize = 64;

/// A piece of a message that does not fit, so that one is read while the next is written.
const PIECE_BYTES: usize = RING_BYTES / 4;

const _: () = assert!(RING_BYTES.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_lies_behind_its_header_in_one_or_two_parts() {
        let ring = RING_BYTES as u64;
        assert_eq!(parts(0, 100), [64..164, 0..0]);
        assert_eq!(parts(3 * ring, 100), [64..164, 0..0]);
        // The header is the last line.
        assert_eq!(parts(ring - 64, 100), [0..100, 0..0]);
        assert_eq!(parts(ring - 128, 100), [RING_BYTES - 64..RING_BYTES, 0..36]);
        assert_eq!(parts(ring - 128, 64), [RING_BYTES - 64..RING_BYTES, 0..0]);
        assert_eq!(parts(64, 0), [128..128, 0..0]);
    }

    #[test]
    fn records_in_a_row_never_overlap_and_headers_never_wrap() {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut position = 0;
        for _ in 0..10_000 {
            let bytes = rng.usize(0..70_000);
            let [first, second] = parts(position, bytes);
            let header = offset(position);
            assert!(header.is_multiple_of(64) && header + HEADER_BYTES <= RING_BYTES);
            assert_eq!(first.len() + second.len(), bytes);
            assert!(first.end <= RING_BYTES && (second.is_empty() || first.end == RING_BYTES));
            let end = position + record_bytes(bytes) as u64;
            assert!(position + (HEADER_BYTES + bytes) as u64 <= end);
            position = end;
        }
    }

    #[test]
    fn a_piece_fits_with_the_header_behind_it() {
        for message_bytes in [1, 64, 1 << 20, RING_BYTES - 129, RING_BYTES - 128] {
            assert_eq!(piece_bytes(message_bytes), message_bytes);
        }
        for message_bytes in [RING_BYTES - 127, RING_BYTES, 4 << 20] {
            let piece = piece_bytes(message_bytes);
            assert!(piece < message_bytes && record_bytes(piece) + HEADER_BYTES <= RING_BYTES);
        }
    }
}
