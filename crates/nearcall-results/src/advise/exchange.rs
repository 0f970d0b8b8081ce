//! The exchange by which every candidate is judged.
//!
//! A function of the requirements: what is measured and what is read must agree on it.

use super::requirements::Requirements;
use crate::shape::Shape;

/// The exchange that is measured for a message and its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// What comes back.
    pub shape: Shape,
    /// Payload bytes of one message of it.
    pub bytes: u64,
}

impl Exchange {
    /// Calls of the runtime carry up to 1 MiB there and an empty reply; else plain messages. Where
    /// both ways carry much, the same amount of bytes goes half there and half back.
    #[must_use]
    pub fn of(requirements: &Requirements) -> Self {
        let (message, reply) = (requirements.message_bytes, requirements.reply_bytes.unwrap_or(0));
        let (smaller, larger) = (message.min(reply), message.max(reply));
        let one_way = smaller <= REPLY_BYTES_SMALL || larger / smaller >= MUCH_LARGER;
        match one_way {
            true if larger <= CALL_BYTES_MAX => Self { shape: Shape::Call, bytes: larger },
            true => Self { shape: Shape::Sink, bytes: larger },
            false => Self { shape: Shape::Echo, bytes: (message + reply).div_ceil(2) },
        }
    }

    /// Payload bytes that cross, both ways together.
    pub(super) fn total_bytes(self) -> u64 {
        total_bytes(self.shape.name(), self.bytes)
    }
}

/// Payload bytes that an exchange of this shape moves, both ways together.
pub(super) fn total_bytes(shape: &str, message_bytes: u64) -> u64 {
    match shape == Shape::Echo.name() {
        true => message_bytes.saturating_mul(2),
        false => message_bytes,
    }
}

/// A reply of a cache line costs what an empty one costs.
const REPLY_BYTES_SMALL: u64 = 64;

/// The smaller way is then lost in the noise.
const MUCH_LARGER: u64 = 8;

/// The largest argument that calls are measured with.
const CALL_BYTES_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(message_bytes: u64, reply_bytes: u64) -> (Shape, u64) {
        let reply_bytes = Some(reply_bytes);
        let wanted = Requirements { message_bytes, reply_bytes, ..Requirements::default() };
        let exchange = Exchange::of(&wanted);
        (exchange.shape, exchange.bytes)
    }

    #[test]
    fn an_exchange_moves_as_much_as_is_wanted() {
        assert_eq!(exchange(4_096, 0), (Shape::Call, 4_096));
        assert_eq!(exchange(4_096, 64), (Shape::Call, 4_096));
        assert_eq!(exchange(8, 4_096), (Shape::Call, 4_096));
        assert_eq!(exchange(4_096, 4_096), (Shape::Echo, 4_096));
        assert_eq!(exchange(1_000, 3_000), (Shape::Echo, 2_000));
        assert_eq!(exchange(2 << 20, 0), (Shape::Sink, 2 << 20));
        assert_eq!(exchange(4 << 20, 4 << 20), (Shape::Echo, 4 << 20));
    }
}
