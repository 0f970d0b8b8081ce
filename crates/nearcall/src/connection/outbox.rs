//! Messages that found no room in the channel yet.
//!
//! **Invariants:** they leave in the order in which the protocol made them, and while one is here
//! no later message goes past it. At a server all together are charged to the account of the
//! peer's user, and while they are many no further request is read; elsewhere they are bounded.
//! **Not here:** waiting for room (`reactor.rs`), a peer that reads nothing (`unread.rs`).

use std::collections::VecDeque;

use nearcall_channel::account::{Charge, Exceeded};
use nearcall_channel::limits::CONNECTION_BYTES;

use crate::limits::{OUTBOX_BYTES_MAX, OUTBOX_STEP_BYTES, REPLIES_WAITING_BYTES_MAX};

/// Whole messages, encoded.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    messages: VecDeque<Vec<u8>>,
    bytes: usize,
    /// What goes beyond the memory that counts for every connection. None at a client.
    charge: Option<Charge>,
    /// So much waited that no request is read before all of it has left.
    is_full: bool,
}

impl Outbox {
    /// An empty one that charges its memory.
    pub(crate) fn charged_to(charge: Option<Charge>) -> Self {
        Self { charge, ..Self::default() }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns whether the peer has to read before its next request is: from the moment when
    /// [`REPLIES_WAITING_BYTES_MAX`] wait until nothing does. Never at a client.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns whether a request or an item of this length may be added; an empty outbox takes any.
    pub(crate) fn has_room_for(&self, message_bytes: usize) -> bool {
        self.is_empty() || self.cost() + message_bytes <= OUTBOX_BYTES_MAX
    }

    /// Has the account of the peer's user pay for a further message, beside `unsent_bytes` that the
    /// channel has kept. Charges in steps, so that few messages do.
    ///
    /// # Errors
    ///
    /// The share of the user does not suffice.
    pub(crate) fn pay_for(
        &mut self,
        message_bytes: usize,
        unsent_bytes: usize,
    ) -> Result<(), Exceeded> {
        let cost = self.cost() + message_bytes + MESSAGE_OVERHEAD_BYTES + unsent_bytes;
        let Some(charge) = &mut self.charge else { return Ok(()) };
        let wanted = (cost as u64).saturating_sub(CONNECTION_BYTES as u64 / 2);
        if wanted <= charge.amount() {
            return Ok(());
        }
        // Where a whole step is too much, what is needed may not be.
        let in_steps = charge.resize(wanted.next_multiple_of(OUTBOX_STEP_BYTES));
        in_steps.or_else(|_| charge.resize(wanted))
    }

    /// The memory of the messages.
    fn cost(&self) -> usize {
        self.bytes + self.messages.len() * MESSAGE_OVERHEAD_BYTES
    }

    pub(crate) fn push(&mut self, message: Vec<u8>) {
        self.bytes += message.len();
        self.messages.push_back(message);
        if self.charge.is_some() && self.cost() >= REPLIES_WAITING_BYTES_MAX {
            self.is_full = true;
        }
    }

    /// Returns how many messages wait.
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Returns how long they are together.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn front(&self) -> Option<&[u8]> {
        self.messages.front().map(Vec::as_slice)
    }

    pub(crate) fn pop(&mut self) {
        if let Some(message) = self.messages.pop_front() {
            self.bytes -= message.len();
        }
        if self.messages.is_empty() {
            self.is_full = false;
            self.messages.shrink_to(MESSAGES_KEPT_ROOM);
        }
    }

    /// Gives back what is charged, once nothing waits, here or in the channel.
    pub(crate) fn give_back(&mut self) {
        if self.messages.is_empty()
            && let Some(charge) = self.charge.as_mut().filter(|charge| charge.amount() > 0)
        {
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
    use nearcall_channel::account::{Accounts, Resource};
    use nearcall_os::capacity::Capacity;

    use super::*;

    fn of_server(bytes: u64) -> Outbox {
        let capacity = Capacity { bytes, ..Capacity::of_process() };
        let account = Accounts::new(&capacity).user(Some(7));
        Outbox::charged_to(Some(account.empty_charge(Resource::Bytes)))
    }

    #[test]
    fn requests_have_a_bound_and_are_never_full() {
        let mut outbox = Outbox::default();
        assert!(outbox.has_room_for(2 * OUTBOX_BYTES_MAX));
        outbox.push(vec![0; OUTBOX_BYTES_MAX - MESSAGE_OVERHEAD_BYTES - 10]);
        assert!(outbox.has_room_for(10) && !outbox.has_room_for(11));
        assert!(!outbox.is_full());
        outbox.pop();
        outbox.pop();
        assert!(outbox.is_empty() && outbox.front().is_none());
    }

    #[test]
    fn it_is_full_until_all_has_left_also_of_small_messages() {
        for message_bytes in [0, 40, 100_000] {
            let mut outbox = of_server(u64::MAX);
            while !outbox.is_full() {
                assert!(outbox.cost() < REPLIES_WAITING_BYTES_MAX);
                outbox.push(vec![0; message_bytes]);
            }
            while outbox.len() > 1 {
                outbox.pop();
                assert!(outbox.is_full());
            }
            outbox.pop();
            assert!(!outbox.is_full());
        }
    }

    #[test]
    fn it_charges_what_waits_up_to_the_share() {
        let mut outbox = of_server(8 << 20);
        outbox.pay_for(3 << 20, 0).unwrap();
        outbox.push(vec![0; 3 << 20]);
        // A share of 4 MiB has no whole step left, and still room.
        outbox.pay_for((1 << 20) - 1000, 0).unwrap();
        let why = outbox.pay_for(1 << 20, 1 << 20).unwrap_err();
        assert_eq!(why.share, 4 << 20, "{why}");
        outbox.pop();
        outbox.give_back();
        outbox.pay_for(4 << 20, 0).unwrap();
    }
}
