//! Messages that can be recognised: their bytes follow from a number.

/// The `len` bytes of message number `number`.
pub(crate) fn pattern(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(number, 0, &mut bytes);
    bytes
}

/// Writes the bytes of message `number` from its byte `from` on, which is a multiple of eight.
pub(crate) fn fill(number: u64, from: usize, into: &mut [u8]) {
    let mut word = (number << 32).wrapping_add(from as u64 / 8);
    for chunk in into.chunks_mut(8) {
        // One round of splitmix64: neighbours share no pattern.
        let mut mixed = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let bytes = (mixed ^ (mixed >> 31)).to_le_bytes();
        chunk.copy_from_slice(&bytes[..chunk.len()]);
        word = word.wrapping_add(1);
    }
}

/// Demands that `bytes` is message `number`, and names the first byte that is not.
#[track_caller]
pub(crate) fn expect_pattern(bytes: &[u8], number: u64, len: usize) {
    assert_eq!(bytes.len(), len, "length of message {number}");
    let expected = pattern(number, len);
    if bytes != expected {
        let wrong = bytes.iter().zip(&expected).position(|(is, should)| is != should);
        panic!("message {number} of {len} bytes differs from byte {wrong:?} on");
    }
}

/// A sum over a message in which the order of the bytes counts.
pub(crate) fn checksum(before: u64, bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(before, |sum, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        (sum ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(5)
    })
}
