//! Messages by their size, and the requirements that follow from them.
//!
//! Pure. A class is all messages of one of six ranges of sizes. Always true: the weights of the
//! requirements add up to 1.

use serde::{Deserialize, Serialize};

/// The messages of one range of sizes. Sums, so that classes of many streams can be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    /// The smallest size of the range in bytes.
    pub from_bytes: u64,
    /// Requests and messages that nobody answered.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many of them were answered.
    pub answered: u64,
    /// The bytes of those.
    pub answered_bytes: u64,
    /// The bytes of all replies to them.
    pub reply_bytes: u64,
}

impl Class {
    /// That number, empty.
    pub(super) fn new(number: usize) -> Self {
        let from_bytes = FROM_BYTES[number.min(CLASSES - 1)];
        Self { from_bytes, messages: 0, bytes: 0, answered: 0, answered_bytes: 0, reply_bytes: 0 }
    }

    pub(super) fn count(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(super) fn answer(&mut self, asked_bytes: u64) {
        self.answered += 1;
        self.answered_bytes = self.answered_bytes.saturating_add(asked_bytes);
    }

    pub(super) fn add_reply(&mut self, bytes: u64) {
        self.reply_bytes = self.reply_bytes.saturating_add(bytes);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.answered += other.answered;
        self.answered_bytes = self.answered_bytes.saturating_add(other.answered_bytes);
        self.reply_bytes = self.reply_bytes.saturating_add(other.reply_bytes);
    }
}

/// The class of a message of this size.
pub(super) fn class_of(bytes: u64) -> usize {
    FROM_BYTES.iter().rposition(|from| bytes >= *from).unwrap_or(0)
}

/// How many there are.
pub(super) const CLASSES: usize = 6;

/// Where ranges begin, in bytes: within a range, what a mechanism costs differs by less than
/// mechanisms do.
const FROM_BYTES: [u64; CLASSES] = [1, 64, 512, 4 << 10, 32 << 10, 256 << 10];
