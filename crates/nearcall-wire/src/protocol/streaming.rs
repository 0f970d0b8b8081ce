//! Items, half-closes and credits of the calls that stream.
//!
//! **Invariants:** an item is given to the driver only while its call is open; items that cross the
//! end of their call are judged, counted and dropped. A credit is queued only while its call is
//! open.
//! **Not here:** the sums (`call_table/streams.rs`), the ends of calls (`session.rs`).

use super::CallProtocol;
use super::event::{Event, Request};
use super::session::Session;
use super::transmits::Transmit;
use crate::call_id::{CallId, IncomingCall, OutgoingCall, StreamCall};
use crate::call_table::{Standing, Stream, StreamSetup};
use crate::error::{ItemError, ProtocolError, StartError};
use crate::frame::{Head, Kind, Payload, Shape};

impl<T: Default> CallProtocol<T> {
    /// Takes the cost of an item out of the credit of its stream. Send the header that comes back,
    /// then the item.
    ///
    /// # Errors
    ///
    /// Why nothing may be sent.
    #[inline]
    pub fn send_item(&mut self, call: StreamCall, payload: Payload) -> Result<Head, ItemError> {
        self.charge_item(call, payload)?;
        Ok(call.item_head(payload))
    }

    /// As [`send_item`](Self::send_item), for a driver that writes the header where it belongs: it
    /// is [`StreamCall::item_head`].
    ///
    /// # Errors
    ///
    /// As [`send_item`](Self::send_item).
    #[inline]
    pub fn charge_item(&mut self, call: StreamCall, payload: Payload) -> Result<(), ItemError> {
        self.session().ok_or(ItemError::Ended)?.charge_item(call, payload)
    }

    /// Gives back the cost of an item whose header was never sent.
    pub fn refund_item(&mut self, call: StreamCall, payload: Payload) {
        if let Some(session) = self.session()
            && let Some(stream) = session.stream_mut(call)
        {
            stream.refund(payload.message_bytes());
        }
    }

    /// Ends the items of a call that this end made; the call goes on. Send the header that comes
    /// back.
    ///
    /// # Errors
    ///
    /// Why there is nothing to send.
    pub fn half_close(&mut self, call: OutgoingCall) -> Result<Head, ItemError> {
        let session = self.session().ok_or(ItemError::Ended)?;
        session.open_stream_mut(call.into())?.half_close()?;
        Ok(call.end_head())
    }

    /// Notes that the driver has consumed items of a call, which cost so much together: the sum of
    /// their [`item_cost`](crate::item_cost)s by the window of this end. Report them when they come
    /// to [`grant_bytes`](crate::grant_bytes), so that no sender starves. Grants them in a later
    /// transmit, unless the call has ended.
    #[inline]
    pub fn consume(&mut self, call: StreamCall, cost: u64) {
        if let Some(session) = self.session() {
            session.consume(call, cost);
        }
    }

    /// Returns whether there is credit for this item. If not, [`Event::Credit`] comes once there
    /// is. Also true if the call has ended or takes no items: sending one says so.
    #[must_use]
    #[inline]
    pub fn has_credit(&mut self, call: StreamCall, payload: Payload) -> bool {
        let stream = self.session().and_then(|session| session.open_stream_mut(call).ok());
        stream.is_none_or(|stream| !stream.may_send() || stream.has_credit(payload.message_bytes()))
    }

    /// Returns the credit that is left for items of this end, in bytes. An item may be sent if its
    /// [`item_cost`](crate::item_cost) by the window of the peer is not more. `None`: the call has
    /// ended, or this end sends no items in it.
    #[must_use]
    #[inline]
    pub fn credit_left(&mut self, call: StreamCall) -> Option<u32> {
        let stream = self.session()?.open_stream_mut(call).ok()?;
        stream.may_send().then(|| stream.credit_left())
    }
}

impl<T: Default> Session<T> {
    /// Opens a call with a stream.
    #[cold]
    pub(super) fn open_outgoing_stream(
        &mut self,
        request: &Request,
    ) -> Result<OutgoingCall, StartError> {
        let setup = self.setup(request.shape.caller_streams(), request.shape.callee_streams());
        if setup.send_window == 0 || setup.receive_window == 0 {
            return Err(StartError::NoStreams);
        }
        let call = self.outgoing.start(request.deadline).ok_or(StartError::Busy)?;
        self.outgoing.streams.open(call.id(), setup);
        Ok(call)
    }

    /// Opens the stream of a call of the peer.
    #[cold]
    pub(super) fn open_incoming_stream(
        &mut self,
        id: CallId,
        shape: Shape,
    ) -> Result<(), ProtocolError> {
        let setup = self.setup(shape.callee_streams(), shape.caller_streams());
        if setup.send_window == 0 || setup.receive_window == 0 {
            return Err(ProtocolError::NotAStream { kind: Kind::Call as u8 });
        }
        self.incoming.streams.open(id, setup);
        Ok(())
    }

    fn setup(&self, sends: bool, receives: bool) -> StreamSetup {
        let (send_window, receive_window) =
            (self.peer.stream_window_bytes, self.stream_window_bytes);
        StreamSetup { sends, receives, send_window, receive_window }
    }

    #[inline]
    fn charge_item(&mut self, call: StreamCall, payload: Payload) -> Result<(), ItemError> {
        if !self.fits(payload) {
            return Err(ItemError::TooLarge {
                message_bytes: payload.message_bytes(),
                message_bytes_max: self.peer.message_bytes_max as usize,
            });
        }
        self.open_stream_mut(call)?.charge(payload.message_bytes())
    }

    #[inline]
    fn consume(&mut self, call: StreamCall, cost: u64) {
        let Ok(stream) = self.open_stream_mut(call) else { return };
        if stream.consume(cost) {
            self.transmits.push(match call {
                StreamCall::Outgoing(call) => Transmit::OutgoingCredit(call.slot()),
                StreamCall::Incoming(call) => Transmit::IncomingCredit(call.slot()),
            });
        }
    }

    #[inline]
    fn stream_mut(&mut self, call: StreamCall) -> Option<&mut Stream> {
        match call {
            StreamCall::Outgoing(call) => self.outgoing.streams.get_mut(call.id()),
            StreamCall::Incoming(call) => self.incoming.streams.get_mut(call.id()),
        }
    }

    /// The stream of an open call.
    #[inline]
    fn open_stream_mut(&mut self, call: StreamCall) -> Result<&mut Stream, ItemError> {
        let standing = match call {
            StreamCall::Outgoing(call) => self.outgoing.standing(call.id()),
            StreamCall::Incoming(call) => self.incoming.standing(call.id()),
        };
        match standing {
            Standing::Open => self.stream_mut(call).ok_or(ItemError::NotAStream),
            _ => Err(ItemError::Ended),
        }
    }

    /// Where a frame for this call finds it, and its stream if that is still known.
    #[inline]
    fn find(&mut self, id: CallId, to_caller: bool) -> (Standing, StreamCall) {
        match to_caller {
            true => (self.outgoing.standing(id), StreamCall::Outgoing(OutgoingCall(id))),
            false => (self.incoming.standing(id), StreamCall::Incoming(IncomingCall(id))),
        }
    }

    /// Whether the slot has a newer call, so that it is not known any more how this one streamed.
    fn is_replaced(&self, call: StreamCall) -> bool {
        match call {
            StreamCall::Outgoing(call) => self.outgoing.is_replaced(call.id()),
            // A newer call would have been a violation.
            StreamCall::Incoming(_) => false,
        }
    }

    #[inline]
    pub(super) fn handle_item(
        &mut self,
        id: CallId,
        to_caller: bool,
        payload: Payload,
    ) -> Result<Option<Event>, ProtocolError> {
        let (standing, call) = self.find(id, to_caller);
        match standing {
            Standing::Open | Standing::Crossing => {}
            Standing::Ended => return Err(ProtocolError::ItemAfterEnd),
            Standing::Unknown => return Err(ProtocolError::ItemOfUnknownCall),
        }
        let is_replaced = self.is_replaced(call);
        match self.stream_mut(call) {
            Some(stream) => stream.receive_item(payload.message_bytes())?,
            None if is_replaced => {}
            None => return Err(ProtocolError::NotAStream { kind: Kind::Item as u8 }),
        }
        if standing == Standing::Open {
            return Ok(Some(Event::Item { call, payload }));
        }
        self.items_late += 1;
        Ok(None)
    }

    pub(super) fn handle_end(&mut self, id: CallId) -> Result<Option<Event>, ProtocolError> {
        let (standing, call) = self.find(id, false);
        if matches!(standing, Standing::Ended | Standing::Unknown) {
            return Err(ProtocolError::EndOfUnknownCall);
        }
        let stream = self.stream_mut(call);
        stream.ok_or(ProtocolError::NotAStream { kind: Kind::End as u8 })?.receive_end()?;
        let event = Event::HalfClosed { call: IncomingCall(id) };
        Ok((standing == Standing::Open).then_some(event))
    }

    pub(super) fn handle_credit(
        &mut self,
        id: CallId,
        to_caller: bool,
        bytes: u64,
    ) -> Result<Option<Event>, ProtocolError> {
        let (standing, call) = self.find(id, to_caller);
        if matches!(standing, Standing::Ended | Standing::Unknown) {
            return Err(ProtocolError::CreditOfUnknownCall);
        }
        let is_replaced = self.is_replaced(call);
        let ends_wait = match self.stream_mut(call) {
            Some(stream) => stream.receive_credit(bytes)?,
            None if is_replaced => false,
            None => return Err(ProtocolError::NotAStream { kind: Kind::Credit as u8 }),
        };
        Ok((ends_wait && standing == Standing::Open).then_some(Event::Credit { call }))
    }
}
