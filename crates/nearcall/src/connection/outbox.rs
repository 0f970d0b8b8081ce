//! Messages that found no room in the channel yet.
//!
//! **Invariants:** they leave in the order in which the protocol made them, and while one is here
//! no later message goes past it; all together are bounded, and charged to the account of the
//! peer's user.
//! **Not here:** waiting for room (`reactor.rs`).

use std::collections::VecDeque;

use nearcall_channel::account::Charge;
use nearcall_channel::limits::CONNECTION_BYTES;

use crate::limits::{OUTBOX_BYTES_MAX, OUTBOX_MESSAGES_MAX, OUTBOX_STEP_BYTES};

/// Whole messages, encoded.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    messages: VecDeque<Vec<u8>>,
    bytes: usize,
    /// What goes beyond the memory that counts for every connection.
    charge: Option<Charge>,
}

impl Outbox {
    /// An empty one that charges its memory.
    pub(crate) fn charged_to(charge: Option<Charge>) -> Self {
        Self { charge, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns whether a message of this length may be added; an empty outbox takes any. Half of
    /// the messages are left for refusals.
    pub(crate) fn has_room_for(&mut self, message_bytes: usize) -> bool {
        let has_room = self.bytes + message_bytes <= OUTBOX_BYTES_MAX
            && self.messages.len() < OUTBOX_MESSAGES_MAX / 2;
        (self.is_empty() || has_room) && self.is_paid(message_bytes)
    }

    /// Returns whether not even a refusal of this length fits any more.
    pub(crate) fn is_overfull_with(&mut self, message_bytes: usize) -> bool {
        self.messages.len() >= OUTBOX_MESSAGES_MAX || !self.is_paid(message_bytes)
    }

    /// Returns whether the account of the peer's user pays for a further message. Charges in steps,
    /// so that few messages do.
    fn is_paid(&mut self, message_bytes: usize) -> bool {
        let Some(charge) = &mut self.charge else { return true };
        let count = self.messages.len() + 1;
        let bytes = (self.bytes + message_bytes + count * MESSAGE_OVERHEAD_BYTES) as u64;
        let wanted = bytes.saturating_sub(CONNECTION_BYTES as u64 / 2);
        wanted <= charge.amount()
            || charge.resize(wanted.next_multiple_of(OUTBOX_STEP_BYTES)).is_ok()
    }

    pub(crate) fn push(&mut self, message: Vec<u8>) {
        self.bytes += message.len();
        self.messages.push_back(message);
    }

    /// Returns how many messages wait.
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(crate) fn front(&self) -> Option<&[u8]> {
        self.messages.front().map(Vec::as_slice)
    }

    pub(crate) fn pop(&mut self) {
        if let Some(message) = self.messages.pop_front() {
            self.bytes -= message.len();
        }
        if self.messages.is_empty() {
            self.give_back();
        }
    }

    /// Gives the memory back that an outbox needs no more once it is empty.
    fn give_back(&mut self) {
        self.messages.shrink_to(MESSAGES_KEPT_ROOM);
        if let Some(charge) = self.charge.as_mut().filter(|charge| charge.amount() > 0) {
            // Less is never refused.
            let _ = charge.resize(0);
        }
    }
}

/// What a message costs beside its bytes: its place in the queue, and the allocator's own.
const MESSAGE_OVERHEAD_BYTES: usize = 48;

/// Room for messages that an empty outbox keeps.
const MESSAGES_KEPT_ROOM: usize = 16;

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
