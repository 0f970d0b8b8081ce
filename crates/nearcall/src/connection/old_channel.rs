//! The channel that a connection had before it moved to another one.
//!
//! **Invariants:** while the last message of the peer has not come by it, messages are received by
//! it and by nothing else; what was to be sent before this end's last message leaves by it, before
//! anything that waits for room in the new channel.
//! **Not here:** when a connection moves (`switching.rs`).

use nearcall_channel::{Endpoint, SendError};

use super::outbox::Outbox;
use super::{Connection, Host, Inner, ReadinessState, RoomWanted};
use crate::deadline::Deadline;

/// The channel before a switch.
pub(super) struct OldChannel {
    pub(super) endpoint: Endpoint,
    /// A part of a message is still in this process.
    pub(super) unflushed: bool,
    /// Messages at the front of the outbox that go by this channel, the last one of this end among
    /// them.
    pub(super) waiting: usize,
    /// The last message of the peer has not come.
    pub(super) receives: bool,
    /// Both ends are done with it: it is dropped once nothing watches it.
    pub(super) is_over: bool,
}

impl OldChannel {
    /// Returns whether something of this end still has to leave by it.
    #[inline]
    pub(super) fn has_unsent(&self) -> bool {
        self.unflushed || self.waiting > 0
    }

    /// Moves on what has to leave by it. False: not all of it.
    #[inline]
    pub(super) fn flush(
        old: &mut Option<Box<Self>>,
        outbox: &mut Outbox,
        deadline: Deadline,
    ) -> Result<bool, SendError> {
        match old {
            Some(old) if old.has_unsent() => old.flush_unsent(outbox, deadline),
            _ => Ok(true),
        }
    }

    #[cold]
    fn flush_unsent(&mut self, outbox: &mut Outbox, deadline: Deadline) -> Result<bool, SendError> {
        match self.send_waiting(outbox, deadline) {
            // A client may end at once after what it has sent by the new channel.
            Err(SendError::PeerGone) if !self.receives => {
                self.forget_unsent(outbox);
                Ok(true)
            }
            sent => sent,
        }
    }

    fn send_waiting(&mut self, outbox: &mut Outbox, deadline: Deadline) -> Result<bool, SendError> {
        self.unflushed = !flush_channel(&mut self.endpoint, deadline)?;
        while !self.unflushed && self.waiting > 0 {
            let Some(message) = outbox.front() else { break };
            match self.endpoint.send(message, deadline) {
                Ok(()) => outbox.pop(),
                Err(SendError::Full) => return Ok(false),
                Err(error) => return Err(error),
            }
            self.waiting -= 1;
            self.unflushed = !flush_channel(&mut self.endpoint, deadline)?;
        }
        Ok(!self.unflushed)
    }

    /// Takes what has not left for sent.
    pub(super) fn forget_unsent(&mut self, outbox: &mut Outbox) {
        for _ in 0..std::mem::take(&mut self.waiting) {
            outbox.pop();
        }
        self.unflushed = false;
    }
}

/// Returns the channel that the next message comes by.
#[inline(always)]
pub(super) fn receiver<'a>(
    endpoint: &'a mut Endpoint,
    old: &'a mut Option<Box<OldChannel>>,
) -> &'a mut Endpoint {
    match old {
        Some(old) if old.receives => &mut old.endpoint,
        _ => endpoint,
    }
}

impl Inner {
    /// Returns the channel that the next message comes by.
    #[inline(always)]
    pub(super) fn receiver(&mut self) -> &mut Endpoint {
        receiver(&mut self.endpoint, &mut self.old)
    }

    /// Returns whether something still has to leave by the channel before.
    #[inline]
    pub(super) fn has_unsent_before(&self) -> bool {
        self.old.as_ref().is_some_and(|old| old.has_unsent())
    }

    /// Returns how many messages have to leave by the channel before, and bytes of the one that is
    /// under way there.
    pub(super) fn left_before(&mut self) -> (usize, usize) {
        let old = self.old.as_mut().filter(|old| old.has_unsent());
        old.map_or((0, 0), |old| (old.waiting, old.endpoint.unsent_bytes()))
    }

    /// Returns where something waits for room.
    #[inline]
    pub(super) fn room_wanted(&self) -> RoomWanted {
        match &self.old {
            _ if !self.has_pending_writes() => RoomWanted::Nowhere,
            None => RoomWanted::Here,
            Some(old) => match (old.receives, old.has_unsent()) {
                (true, true) | (false, false) => RoomWanted::Here,
                (false, true) => RoomWanted::Before,
                // The server reads the new channel as soon as it has the last message of the old
                // one, and then its own last message comes here.
                (true, false) => RoomWanted::Nowhere,
            },
        }
    }
}

impl<H: Host> Connection<H> {
    /// The source with this token was reported, of one of the channels that are watched.
    pub(crate) fn note_report(&self, token: u64, has_hung_up: bool) {
        if self.readiness.state.get() == ReadinessState::Armed {
            self.readiness.wakes.update(|wakes| wakes + 1);
        }
        let is_before = self.readiness.tokens.get().before == Some(token);
        let Inner { endpoint, old, .. } = &mut *self.inner.borrow_mut();
        match old {
            Some(old) if is_before || self.readiness.is_stale.get() => {
                old.endpoint.note_report(has_hung_up);
            }
            _ if is_before => {}
            _ => endpoint.note_report(has_hung_up),
        }
    }
}

/// True: nothing is left in this process.
#[inline]
pub(super) fn flush_channel(
    endpoint: &mut Endpoint,
    deadline: Deadline,
) -> Result<bool, SendError> {
    match endpoint.flush(deadline) {
        Ok(()) => Ok(true),
        Err(SendError::Full) => Ok(false),
        Err(error) => Err(error),
    }
}
