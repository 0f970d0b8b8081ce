//! Messages that found no room in the channel yet.
//!
//! **Invariants:** they leave in the order in which the protocol made them, and while one is here
//! no later message goes past it; all together are bounded.
//! **Not here:** waiting for room (`reactor.rs`).

use std::collections::VecDeque;

use crate::limits::{OUTBOX_BYTES_MAX, OUTBOX_MESSAGES_MAX};

/// Whole messages, encoded.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    messages: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns whether a message of this length may be added; an empty outbox takes any. Half of
    /// the messages are left for refusals.
    pub(crate) fn has_room_for(&self, message_bytes: usize) -> bool {
        let has_room = self.bytes + message_bytes <= OUTBOX_BYTES_MAX
            && self.messages.len() < OUTBOX_MESSAGES_MAX / 2;
        self.is_empty() || has_room
    }

    /// Returns whether not even a refusal fits any more.
    pub(crate) fn is_overfull(&self) -> bool {
        self.messages.len() >= OUTBOX_MESSAGES_MAX
    }

    pub(crate) fn push(&mut self, message: Vec<u8>) {
        self.bytes += message.len();
        self.messages.push_back(message);
    }

    pub(crate) fn front(&self) -> Option<&[u8]> {
        self.messages.front().map(Vec::as_slice)
    }

    pub(crate) fn pop(&mut self) {
        if let Some(message) = self.messages.pop_front() {
            self.bytes -= message.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_what_it_holds() {
        let mut outbox = Outbox::default();
        assert!(outbox.has_room_for(2 * OUTBOX_BYTES_MAX));
        outbox.push(vec![0; OUTBOX_BYTES_MAX - 10]);
        assert!(outbox.has_room_for(10));
        assert!(!outbox.has_room_for(11));
        outbox.pop();
        outbox.pop();
        assert!(outbox.is_empty() && outbox.front().is_none());
    }
}
