//! The streams of one table of calls: credit in both directions, and which ends still send.
//!
//! Credit is what the receiver of items has announced and granted, less the cost of each item that
//! was sent for it ([`item_cost`]). An item may be sent if its cost is left. Both ends count the
//! same sums, so they agree whatever crosses on the way.
//! **Invariants:** a stream belongs to one call, by its generation; a table of plain calls has none
//! and allocates nothing here. Credit is never negative and never above its window. What was
//! consumed and not granted is less than [`grant_bytes`], so that when all was consumed there is
//! credit for an item of any length.
//! **Not here:** whether the call is open (`incoming.rs`, `outgoing.rs`).

use alloc::vec::Vec;

use crate::call_id::CallId;
use crate::error::{ItemError, ProtocolError};
use crate::frame::Kind;

/// The streams by slot. Grows with the first streaming call of each slot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Streams {
    slots: Vec<Stream>,
}

/// Both directions of a streaming call, as this end sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stream {
    /// Of the call; zero before the first.
    generation: u64,
    /// The window of the peer, in bytes.
    send_window: u32,
    /// The window of this end, in bytes.
    receive_window: u32,
    /// What may be sent, in bytes.
    send_credit: u32,
    /// What the peer may send, in bytes, as it will be when all that was granted has arrived.
    receive_credit: u32,
    /// Cost of the shortest item that was refused for lack of credit; 0: none waits.
    wanted: u32,
    /// Consumed here and not queued for granting, in bytes.
    consumed_bytes: u32,
    /// Queued for granting, in bytes.
    granted_bytes: u32,
    /// This end sends items, and has not half-closed.
    sends: bool,
    /// The peer sends items, and has not half-closed.
    receives: bool,
    /// This end was to send items.
    has_sent: bool,
    /// The peer was to send items.
    has_received: bool,
    /// An item of the peer has come.
    has_items: bool,
    /// The slot stands in the queue of transmits, for a credit.
    is_queued: bool,
}

/// Which way a new stream goes, and the windows that both ends announced, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamSetup {
    pub(crate) sends: bool,
    pub(crate) receives: bool,
    pub(crate) send_window: u32,
    pub(crate) receive_window: u32,
}

impl Streams {
    /// Begins the stream of a new call.
    #[cold]
    pub(crate) fn open(&mut self, id: CallId, setup: StreamSetup) {
        let index = usize::from(id.slot());
        if index >= self.slots.len() {
            self.slots.resize(index + 1, UNUSED);
        }
        let StreamSetup { sends, receives, send_window, receive_window } = setup;
        let is_queued = self.slots[index].is_queued;
        self.slots[index] = Stream {
            generation: id.generation(),
            send_window,
            receive_window,
            send_credit: send_window,
            receive_credit: receive_window,
            sends,
            receives,
            has_sent: sends,
            has_received: receives,
            is_queued,
            ..UNUSED
        };
    }

    /// The stream of this call, if it is the last streaming call of its slot.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: CallId) -> Option<&mut Stream> {
        let stream = self.slots.get_mut(usize::from(id.slot()))?;
        (stream.generation == id.generation() && stream.generation > 0).then_some(stream)
    }

    /// Forgets what was to be granted in this call: it has ended.
    pub(crate) fn forget_credit(&mut self, id: CallId) {
        if let Some(stream) = self.get_mut(id) {
            stream.granted_bytes = 0;
            stream.consumed_bytes = 0;
        }
    }

    /// Whether the credit of a queued slot is still wanted.
    pub(crate) fn is_granting(&self, slot: u16) -> bool {
        self.slots[usize::from(slot)].granted_bytes > 0
    }

    /// The credit of a slot that has left the queue, if it is still wanted. The peer has it from
    /// now on.
    pub(crate) fn take_credit(&mut self, slot: u16) -> Option<(CallId, u64)> {
        let stream = &mut self.slots[usize::from(slot)];
        stream.is_queued = false;
        let bytes = core::mem::take(&mut stream.granted_bytes);
        // `consume` has kept the sum below the window.
        stream.receive_credit += bytes;
        (bytes > 0).then_some((CallId::new(slot, stream.generation), bytes.into()))
    }
}

impl Stream {
    /// Whether this end sends items, and has not half-closed.
    #[inline]
    pub(crate) fn may_send(&self) -> bool {
        self.sends
    }

    /// Returns what may be sent, in bytes.
    #[inline]
    pub(crate) fn credit_left(&self) -> u32 {
        self.send_credit
    }

    /// Whether an item may be sent as far as credit goes. If not, the credit that suffices for it
    /// ends the wait.
    #[inline]
    pub(crate) fn has_credit(&mut self, message_bytes: usize) -> bool {
        let cost = item_cost(message_bytes, self.send_window);
        if cost <= self.send_credit {
            return true;
        }
        self.wanted = if self.wanted == 0 { cost } else { self.wanted.min(cost) };
        false
    }

    /// Takes the cost of an item that is to be sent.
    #[inline]
    pub(crate) fn charge(&mut self, message_bytes: usize) -> Result<(), ItemError> {
        if !self.sends {
            return Err(if self.has_sent { ItemError::Ended } else { ItemError::NotAStream });
        }
        if !self.has_credit(message_bytes) {
            return Err(ItemError::NoCredit);
        }
        self.send_credit -= item_cost(message_bytes, self.send_window);
        Ok(())
    }

    /// Gives the cost of an item back that was not sent.
    pub(crate) fn refund(&mut self, message_bytes: usize) {
        self.send_credit += item_cost(message_bytes, self.send_window);
    }

    /// Ends the items of this end.
    pub(crate) fn half_close(&mut self) -> Result<(), ItemError> {
        match core::mem::replace(&mut self.sends, false) {
            true => Ok(()),
            false if self.has_sent => Err(ItemError::Ended),
            false => Err(ItemError::NotAStream),
        }
    }

    /// Judges an item of the peer, and takes its cost.
    #[inline]
    pub(crate) fn receive_item(&mut self, message_bytes: usize) -> Result<(), ProtocolError> {
        if !self.receives {
            return Err(match self.has_received {
                true => ProtocolError::ItemAfterEnd,
                false => ProtocolError::NotAStream { kind: Kind::Item as u8 },
            });
        }
        let left = self.receive_credit.checked_sub(item_cost(message_bytes, self.receive_window));
        self.receive_credit = left.ok_or(ProtocolError::ItemWithoutCredit { message_bytes })?;
        self.has_items = true;
        Ok(())
    }

    /// Whether an item of the peer has come.
    pub(crate) fn has_items(&self) -> bool {
        self.has_items
    }

    /// Judges the half-close of the peer.
    pub(crate) fn receive_end(&mut self) -> Result<(), ProtocolError> {
        match core::mem::replace(&mut self.receives, false) {
            true => Ok(()),
            false if self.has_received => Err(ProtocolError::SecondEnd),
            false => Err(ProtocolError::NotAStream { kind: Kind::End as u8 }),
        }
    }

    /// Judges a credit of the peer. Whether it ends a wait: an item was refused for which it
    /// suffices.
    pub(crate) fn receive_credit(&mut self, bytes: u64) -> Result<bool, ProtocolError> {
        if !self.has_sent {
            return Err(ProtocolError::NotAStream { kind: Kind::Credit as u8 });
        }
        let most = self.send_window - self.send_credit;
        match u32::try_from(bytes) {
            Ok(bytes) if bytes <= most => self.send_credit += bytes,
            _ => return Err(ProtocolError::CreditOverflow { bytes }),
        }
        let ends_wait = (1..=self.send_credit).contains(&self.wanted);
        if ends_wait {
            self.wanted = 0;
        }
        Ok(ends_wait)
    }

    /// Notes that items were consumed that cost so much together. True: queue this slot for a
    /// credit. Grants so much at once as [`grant_bytes`] says, since each credit is a message.
    pub(crate) fn consume(&mut self, cost: u64) -> bool {
        // What they cost was taken from the window, so the rest of it holds no more than that.
        let known = self.receive_credit + self.granted_bytes + self.consumed_bytes;
        let held = self.receive_window - known;
        self.consumed_bytes += u32::try_from(cost).map_or(held, |cost| cost.min(held));
        // After its half-close the peer needs none.
        if self.consumed_bytes < grant_bytes(self.receive_window) || !self.receives {
            return false;
        }
        self.granted_bytes += core::mem::take(&mut self.consumed_bytes);
        !core::mem::replace(&mut self.is_queued, true)
    }
}

/// Returns what an item takes of the credit of a stream with this window, in bytes: the length of
/// its message, and three quarters of the window at most. So one that is longer than the window can
/// be sent, and one of any length without waiting for credit that the receiver still collects
/// ([`grant_bytes`]).
#[must_use]
#[inline]
pub fn item_cost(message_bytes: usize, window: u32) -> u32 {
    let most = window - window / 4;
    u32::try_from(message_bytes).map_or(most, |bytes| bytes.min(most))
}

/// Returns what a receiver with this window collects of consumed costs before it grants them, in
/// bytes: a quarter of the window. Less would cost more messages; with more, a sender and its
/// receiver could wait for each other without end.
#[must_use]
#[inline]
pub fn grant_bytes(window: u32) -> u32 {
    (window / 4).max(1)
}

const UNUSED: Stream = Stream {
    generation: 0,
    send_window: 0,
    receive_window: 0,
    send_credit: 0,
    receive_credit: 0,
    wanted: 0,
    consumed_bytes: 0,
    granted_bytes: 0,
    sends: false,
    receives: false,
    has_sent: false,
    has_received: false,
    has_items: false,
    is_queued: false,
};
