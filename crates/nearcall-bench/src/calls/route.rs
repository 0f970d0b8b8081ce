//! What a call takes of the channel, beside who calls and over what.

use nearcall_wire::HEADER_BYTES;

pub use nearcall_results::route::{Caller, Route};

/// Bytes in the channel of a call whose argument has so many bytes, 0 for none: the header, then
/// one field with its number and its length.
#[must_use]
pub const fn frame_bytes(argument_bytes: u64) -> u64 {
    let header = HEADER_BYTES as u64;
    if argument_bytes == 0 {
        return header;
    }
    let bits = (u64::BITS - argument_bytes.leading_zeros()) as u64;
    header + 1 + bits.div_ceil(7) + argument_bytes
}

#[cfg(test)]
mod tests {
    use nearcall::Message;

    use super::*;
    use crate::calls::generated::Argument;

    #[test]
    fn a_frame_is_as_long_as_the_runtime_makes_it() {
        for bytes in [1, 8, 127, 128, 1_024, 16_383, 16_384, 1 << 20, (1 << 21) - 1, 1 << 21] {
            let argument = Argument { data: vec![0; bytes].into() };
            let expected = HEADER_BYTES + argument.encoded_len();
            assert_eq!(frame_bytes(bytes as u64), expected as u64, "{bytes}");
        }
        assert_eq!(frame_bytes(0), HEADER_BYTES as u64);
    }
}
