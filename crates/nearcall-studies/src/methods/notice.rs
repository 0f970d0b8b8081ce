//! What the two ends of a call in a segment tell each other, and over what.
//!
//! Not here: the lines (`lines.rs`, `signals.rs`), the calls (`handover.rs`, `event_loop.rs`).

use nearcall_bench::custom::Failure;

use crate::methods::segment::{Handle, Segment};

/// Sends the other end a short notice, and waits for its notice.
pub(super) trait Line {
    /// The segment is there for lines that keep what they tell in it.
    fn tell(&mut self, segment: &Segment, notice: Notice) -> Result<(), Failure>;
    /// Waits until the other end sends a notice.
    fn hear(&mut self, segment: &Segment) -> Result<Notice, Failure>;
}

/// What ends tell each other: which function to call, and where its argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    function: u64,
    argument: Handle,
}

impl Notice {
    /// Bytes of it on a line.
    pub(super) const BYTES: usize = 24;

    /// A call with this argument.
    pub(super) fn take(argument: Handle) -> Self {
        Self { function: TAKE, argument }
    }

    /// Which function it calls.
    pub(super) fn function(self) -> u64 {
        self.function
    }

    /// Where its argument is.
    pub(super) fn argument(self) -> Handle {
        self.argument
    }

    /// The call is complete.
    pub(super) const DONE: Self = Self { function: DONE, argument: Handle { at: 0, bytes: 0 } };

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let words = [self.function, self.argument.at, self.argument.bytes];
        for (word, place) in words.iter().zip(bytes.chunks_exact_mut(8)) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let word = |at: usize| {
            u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at * size_of::<u64>() + byte]))
        };
        Self { function: word(0), argument: Handle { at: word(1), bytes: word(2) } }
    }
}

/// The function that reads its argument.
pub(super) const TAKE: u64 = 1;

/// The call is complete.
pub(super) const DONE: u64 = 2;
