//! The streams of one table of calls: credit in both directions, and which ends still send.
//!
//! Credit is what the receiver of items has announced and granted, less the length of each message
//! that was sent for it. An item may be sent while any is left, so it may cost more than is left;
//! what it costs more has to be granted before the next. Both ends count the same sums, so they
//! agree whatever crosses on the way.
//! **Invariants:** a stream belongs to one call, by its generation; a table of plain calls has none
//! and allocates nothing here. Credit is never above its window.
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
    /// What may be sent, in bytes. Not above zero: nothing, until so much more is granted.
    send_credit: i64,
    /// What the peer may send, in bytes, as it will be when all that was granted has arrived.
    receive_credit: i64,
    /// Consumed here and not queued for granting, in bytes.
    consumed_bytes: u64,
    /// Queued for granting, in bytes.
    granted_bytes: u64,
    /// This end sends items, and has not half-closed.
    sends: bool,
    /// The peer sends items, and has not half-closed.
    receives: bool,
    /// This end was to send items.
    has_sent: bool,
    /// The peer was to send items.
    has_received: bool,
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
            send_credit: send_window.into(),
            receive_credit: receive_window.into(),
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
        stream.receive_credit = stream.receive_credit.saturating_add_unsigned(bytes);
        (bytes > 0).then_some((CallId::new(slot, stream.generation), bytes))
    }
}

impl Stream {
    /// Whether this end sends items, and has not half-closed.
    #[inline]
    pub(crate) fn may_send(&self) -> bool {
        self.sends
    }

    /// Returns what may be sent, in bytes; an item may be sent while it is not zero.
    #[inline]
    pub(crate) fn credit_left(&self) -> u64 {
        self.send_credit.max(0).unsigned_abs()
    }

    /// Takes the cost of an item that is to be sent.
    #[inline]
    pub(crate) fn charge(&mut self, message_bytes: usize) -> Result<(), ItemError> {
        if !self.sends {
            return Err(if self.has_sent { ItemError::Ended } else { ItemError::NotAStream });
        }
        if self.send_credit <= 0 {
            return Err(ItemError::NoCredit);
        }
        self.send_credit = self.send_credit.saturating_sub_unsigned(message_bytes as u64);
        Ok(())
    }

    /// Gives the cost of an item back that was not sent.
    pub(crate) fn refund(&mut self, message_bytes: usize) {
        self.send_credit = self.send_credit.saturating_add_unsigned(message_bytes as u64);
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
        if self.receive_credit <= 0 {
            return Err(ProtocolError::ItemWithoutCredit { message_bytes });
        }
        self.receive_credit = self.receive_credit.saturating_sub_unsigned(message_bytes as u64);
        Ok(())
    }

    /// Judges the half-close of the peer.
    pub(crate) fn receive_end(&mut self) -> Result<(), ProtocolError> {
        match core::mem::replace(&mut self.receives, false) {
            true => Ok(()),
            false if self.has_received => Err(ProtocolError::SecondEnd),
            false => Err(ProtocolError::NotAStream { kind: Kind::End as u8 }),
        }
    }

    /// Judges a credit of the peer, whose window is `window`. Whether it ends a wait: there was
    /// none left before, and there is now.
    pub(crate) fn receive_credit(
        &mut self,
        bytes: u64,
        window: u32,
    ) -> Result<bool, ProtocolError> {
        if !self.has_sent {
            return Err(ProtocolError::NotAStream { kind: Kind::Credit as u8 });
        }
        let before = self.send_credit;
        let after = before.saturating_add_unsigned(bytes);
        if after > i64::from(window) {
            return Err(ProtocolError::CreditOverflow { bytes });
        }
        self.send_credit = after;
        Ok(before <= 0 && after > 0)
    }

    /// Notes that so many bytes of items were consumed. True: queue this slot for a credit. Grants
    /// a quarter of the window `window` or more at once, since each credit is a message.
    pub(crate) fn consume(&mut self, bytes: u64, window: u32) -> bool {
        let known = self
            .receive_credit
            .saturating_add_unsigned(self.granted_bytes.saturating_add(self.consumed_bytes));
        let missing = i64::from(window).saturating_sub(known).max(0).unsigned_abs();
        self.consumed_bytes += bytes.min(missing);
        // After its half-close the peer needs none.
        if self.consumed_bytes < u64::from(window / 4).max(1) || !self.receives {
            return false;
        }
        self.granted_bytes += core::mem::take(&mut self.consumed_bytes);
        !core::mem::replace(&mut self.is_queued, true)
    }
}

const UNUSED: Stream = Stream {
    generation: 0,
    send_credit: 0,
    receive_credit: 0,
    consumed_bytes: 0,
    granted_bytes: 0,
    sends: false,
    receives: false,
    has_sent: false,
    has_received: false,
    is_queued: false,
};
