//! The move to another channel: the switch of a connection, and its place in the queue.
//!
//! **Invariants:** the frames of a switch stand in the queue as one entry; the last message of a
//! channel comes when nothing else is queued.
//! **Not here:** which step is right when (`switch.rs`).

use super::event::Event;
use super::session::Session;
use super::transmits::Transmit;
use super::{CallProtocol, Draining, Open, State};
use crate::error::{ProtocolError, SwitchError};
use crate::frame::{Frame, Head, Kind};
use crate::switch::{Switch, SwitchReason, SwitchState, SwitchStep};
use crate::time::Time;

/// Moving to another channel. The end whose [`Limits::switching`](crate::Limits::switching) says
/// `Client` begins it, over a line that it hands to the other; the driver performs the handshake
/// there, and reports each step here:
///
/// 1. Client: hand over the line, [`begin_switch`](Self::begin_switch), send the first packet. A
///    server may ask for it by [`ask_switch`](Self::ask_switch).
/// 2. Both: after each packet [`step_switch`](Self::step_switch), so that the other looks for it;
///    the server after its last one [`ready_switch`](Self::ready_switch). If it fails or takes too
///    long, [`refuse_switch`](Self::refuse_switch): the connection stays where it is.
/// 3. Client, with its handshake done and [`Ready`](crate::SwitchEvent::Ready) received:
///    [`end_channel`](Self::end_channel). When [`poll_transmit`](Self::poll_transmit) has given out
///    the header of which [`is_last`](crate::is_last) returns so, and it was sent, send everything
///    else on the new channel; receive from the old one.
/// 4. Server, after [`PeerLast`](crate::SwitchEvent::PeerLast): the same, and receive from the new
///    channel at once.
/// 5. Client, after [`PeerLast`](crate::SwitchEvent::PeerLast): drop the old channel, receive from
///    the new one, [`finish_switch`](Self::finish_switch). The server drops it after
///    [`Done`](crate::SwitchEvent::Done).
///
/// Each method queues a message, or changes nothing.
impl<T: Default> CallProtocol<T> {
    /// Asks the client for a switch. [`Begun`](crate::SwitchEvent::Begun) with this number or
    /// [`Declined`](crate::SwitchEvent::Declined) is the answer. Returns the number of the ask.
    ///
    /// # Errors
    ///
    /// Why nothing was asked.
    pub fn ask_switch(&mut self, mechanism: u32) -> Result<u64, SwitchError> {
        self.with_switch(|switch| switch.ask(mechanism))
    }

    /// Begins a switch, whose line has been handed over. It is the answer to the ask that is open,
    /// if one is. Returns its number.
    ///
    /// # Errors
    ///
    /// Why nothing was begun. Try it before anything is handed over:
    /// [`may_begin_switch`](Self::may_begin_switch).
    pub fn begin_switch(&mut self) -> Result<u64, SwitchError> {
        self.with_switch(Switch::begin)
    }

    /// Returns whether [`begin_switch`](Self::begin_switch) would begin one.
    ///
    /// # Errors
    ///
    /// Why it would not.
    pub fn may_begin_switch(&self) -> Result<(), SwitchError> {
        self.switch()?.clone().begin().map(drop)
    }

    /// Reports to the peer that a packet of the handshake was sent.
    ///
    /// # Errors
    ///
    /// No handshake is under way, or the server is ready already: then this end is wrong about it,
    /// refuse the switch.
    pub fn step_switch(&mut self) -> Result<(), SwitchError> {
        self.with_switch(Switch::step)
    }

    /// Reports to the client that the last packet of the handshake was sent, and that this server
    /// is done: from here on only the client can refuse.
    ///
    /// # Errors
    ///
    /// No handshake is under way.
    pub fn ready_switch(&mut self) -> Result<(), SwitchError> {
        self.with_switch(Switch::ready)
    }

    /// Gives up the switch that is under way. Drop what the handshake has made.
    ///
    /// # Errors
    ///
    /// No switch is under way, or it is too late: it will end well, or with the connection.
    pub fn refuse_switch(&mut self, reason: SwitchReason) -> Result<(), SwitchError> {
        self.with_switch(|switch| switch.refuse(reason))
    }

    /// Answers an ask of the server by no.
    ///
    /// # Errors
    ///
    /// It is not open any more.
    pub fn refuse_ask(&mut self, number: u64, reason: SwitchReason) -> Result<(), SwitchError> {
        self.with_switch(|switch| switch.decline(number, reason))
    }

    /// Queues the last message of this end on its channel. What is queued by then comes before it.
    ///
    /// # Errors
    ///
    /// It is not this end's turn, or the connection drains: then refuse the switch.
    pub fn end_channel(&mut self) -> Result<(), SwitchError> {
        self.with_switch(Switch::end)
    }

    /// Reports to the server that its last message was taken and the old channel dropped.
    ///
    /// # Errors
    ///
    /// It is not this end's turn.
    pub fn finish_switch(&mut self) -> Result<(), SwitchError> {
        self.with_switch(Switch::finish)
    }

    /// Returns where the switch stands; [`SwitchState::Idle`] if there is or can be none.
    #[must_use]
    pub fn switch_state(&self) -> SwitchState {
        self.switch().map_or(SwitchState::Idle, Switch::state)
    }

    fn switch(&self) -> Result<&Switch, SwitchError> {
        match &self.state {
            State::Greeting(_) => Err(SwitchError::NotOpen),
            State::Closed(_) => Err(SwitchError::Closed),
            State::Open(Open { session }) | State::Draining(Draining { session, .. }) => {
                session.switch.as_deref().ok_or(SwitchError::Unsupported)
            }
        }
    }

    fn with_switch<R>(
        &mut self,
        act: impl FnOnce(&mut Switch) -> Result<R, SwitchError>,
    ) -> Result<R, SwitchError> {
        self.switch()?;
        let session = self.session().ok_or(SwitchError::Closed)?;
        let switch = session.switch.as_deref_mut().ok_or(SwitchError::Unsupported)?;
        let result = act(switch)?;
        session.queue_switch();
        Ok(result)
    }
}

impl<T: Default> Session<T> {
    #[cold]
    pub(super) fn handle_switch(
        &mut self,
        now: Time,
        number: u64,
        step: SwitchStep,
    ) -> Result<Option<Event>, ProtocolError> {
        let Some(switch) = &mut self.switch else {
            return Err(ProtocolError::UnknownKind { kind: Kind::Switch as u8 });
        };
        let event = switch.handle(now, number, step)?;
        self.queue_switch();
        self.drop_unwanted();
        Ok(event.map(Event::Switch))
    }

    /// Sees to it that the frames of the switch have their place in the queue.
    fn queue_switch(&mut self) {
        let has_transmit = self.switch.as_ref().is_some_and(|switch| switch.has_transmit());
        if has_transmit && !core::mem::replace(&mut self.is_switch_queued, true) {
            self.transmits.push(Transmit::Switch);
        }
    }

    /// Whether the switch has nothing to send, although it has a place in the queue.
    pub(super) fn is_switch_silent(&self) -> bool {
        !self.switch.as_ref().is_some_and(|switch| switch.has_transmit())
    }

    /// Puts the switch behind everything else, if its next frame is the last on its channel.
    pub(super) fn let_last_wait(&mut self) {
        let is_ending = self.switch.as_ref().is_some_and(|switch| switch.is_ending());
        if is_ending && self.transmits.front() == Some(Transmit::Switch) {
            self.transmits.pop();
            self.transmits.push(Transmit::Switch);
            self.drop_unwanted();
        }
    }

    /// The next frame of the switch, whose place in the queue has just been taken away.
    pub(super) fn take_switch_frame(&mut self) -> Option<Head> {
        self.is_switch_queued = false;
        let (number, step) = self.switch.as_mut()?.poll_transmit()?;
        self.queue_switch();
        Some(Frame::Switch { number, step }.encode())
    }
}
