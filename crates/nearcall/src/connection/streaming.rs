//! The calls that stream over a connection: their items in both directions.
//!
//! **Invariants:** an item that came in is in the queue of its call until it is read, or is dropped
//! with the call; what is read is reported, so that the peer may send more. At most one item waits
//! for room in the channel, so that other calls do not wait behind many.
//! **Not here:** credit (`nearcall-wire`), what users hold (`services/streams.rs`).

use std::sync::Arc;
use std::task::Waker;

use nearcall_channel::account::Exceeded;
use nearcall_wire::{
    CancelReason, HEADER_BYTES, IncomingCall, ItemError, OutgoingCall, Payload, Shape, StreamCall,
    item_cost,
};

use super::outbound::{Call, NewItem};
use super::sending::Unsent;
use super::{Connection, Host, Need, NotSent, Outgoing, SendMode};
use crate::codec::{self, AnyMessage, Message};
use crate::deadline::Deadline;
use crate::limits::SHARED_BYTES_MIN;
use crate::status::Status;
use crate::streams::call_stream::CallStream;
use crate::streams::item_queue::{ItemsEnd, Woken};

/// The streams by the slots of their calls.
#[derive(Default)]
pub(super) struct CallStreams {
    outgoing: Vec<Option<Entry>>,
    /// How many there are of them.
    outgoing_count: usize,
    incoming: Vec<Option<Entry>>,
}

struct Entry {
    call: StreamCall,
    stream: Arc<CallStream>,
}

impl CallStreams {
    fn table(&mut self, call: StreamCall) -> (&mut Vec<Option<Entry>>, usize) {
        match call {
            StreamCall::Outgoing(call) => (&mut self.outgoing, call.slot().into()),
            StreamCall::Incoming(call) => (&mut self.incoming, call.slot().into()),
        }
    }

    /// The calls of the peer that stream.
    pub(super) fn incoming(&self) -> Vec<(IncomingCall, Arc<CallStream>)> {
        let entries = self.incoming.iter().flatten();
        let calls = entries.filter_map(|entry| match entry.call {
            StreamCall::Incoming(call) => Some((call, Arc::clone(&entry.stream))),
            StreamCall::Outgoing(_) => None,
        });
        calls.collect()
    }

    fn insert(&mut self, call: StreamCall, new: CallStream) -> Arc<CallStream> {
        let (table, index) = self.table(call);
        if index >= table.len() {
            table.resize_with(index + 1, || None);
        }
        let stream = Arc::new(new);
        let before = table[index].replace(Entry { call, stream: Arc::clone(&stream) });
        if before.is_none() && matches!(call, StreamCall::Outgoing(_)) {
            self.outgoing_count += 1;
        }
        stream
    }

    #[inline]
    fn get(&mut self, call: StreamCall) -> Option<&Arc<CallStream>> {
        let (table, index) = self.table(call);
        let entry = table.get(index)?.as_ref()?;
        (entry.call == call).then_some(&entry.stream)
    }

    pub(super) fn remove(&mut self, call: StreamCall) -> Option<Arc<CallStream>> {
        let (table, index) = self.table(call);
        let entry = table.get_mut(index)?.take_if(|entry| entry.call == call)?;
        if matches!(call, StreamCall::Outgoing(_)) {
            self.outgoing_count -= 1;
        }
        Some(entry.stream)
    }
}

/// Why an item was not sent.
pub(crate) enum ItemUnsent {
    /// The peer has to read earlier items first.
    NoCredit,
    /// The channel has no room, by the deadline.
    NoRoom,
    /// The call has ended, or this end has half-closed it.
    Ended,
    /// The item cannot be sent, however long one waits.
    Failed(Status),
}

impl<H: Host> Connection<H> {
    /// Starts a call that streams.
    pub(crate) fn start_stream(
        &self,
        outgoing: &Outgoing<'_>,
        body: &impl Message,
        shape: Shape,
        mode: SendMode,
    ) -> Result<(OutgoingCall, Arc<CallStream>), NotSent> {
        let call = self.request(Call(shape), outgoing, body, mode)?;
        self.has_streams.set(true);
        let stream = self.streams.borrow_mut().insert(call.into(), self.new_stream());
        // It may have ended with its connection while it was sent.
        if self.has_ended(call) {
            self.wake(stream.received.end(ItemsEnd::Finished));
        }
        Ok((call, stream))
    }

    /// Returns how many calls of this end are open beside those that stream. A stream counts until
    /// its user lets go of it, so there may be more.
    #[inline]
    pub(crate) fn open_plain_calls(&self) -> usize {
        let (open, _) = self.outgoing_calls();
        match self.has_streams.get() {
            true => open.saturating_sub(self.streams.borrow().outgoing_count),
            false => open,
        }
    }

    /// Returns the stream of a call of the peer, if it streams.
    pub(crate) fn stream(&self, call: IncomingCall) -> Option<Arc<CallStream>> {
        self.streams.borrow_mut().get(call.into()).map(Arc::clone)
    }

    /// Returns the stream of a call of this end, if it streams.
    pub(super) fn outgoing_stream(&self, call: OutgoingCall) -> Option<Arc<CallStream>> {
        self.streams.borrow_mut().get(call.into()).map(Arc::clone)
    }

    /// Forgets the stream of a call that is not used any more.
    pub(crate) fn close_stream(&self, call: StreamCall) {
        let stream = self.streams.borrow_mut().remove(call);
        drop(stream);
    }

    /// Sends an item, unless another message waits for room in the channel.
    #[inline]
    pub(crate) fn send_item(
        &self,
        call: StreamCall,
        item: &impl Message,
        mode: SendMode,
    ) -> Result<(), ItemUnsent> {
        let item_bytes = codec::checked_bytes(item, "item").map_err(ItemUnsent::Failed)?;
        let payload = Payload::new(0, item_bytes);
        let Some(payload) = payload.filter(|_| !self.is_closed()) else {
            return Err(self.item_not_sent(Unsent::TooLarge(usize::MAX)));
        };
        let meanwhile = self.must_receive_meanwhile(mode);
        let mode = if meanwhile.is_some() { SendMode::Try } else { mode };
        let may_block = matches!(mode, SendMode::WaitUntil(_));
        if !may_block && self.has_pending_writes() && !self.flush_out_of_turn() {
            return Err(ItemUnsent::NoRoom);
        }
        let mut inner = self.inner.borrow_mut();
        if !inner.protocol.has_credit(call, payload) {
            return Err(ItemUnsent::NoCredit);
        }
        let sent = inner.send(&NewItem { call, payload }, &[], item, mode);
        drop(inner);
        match sent {
            Ok(()) => {
                self.touch(Deadline::NEVER);
                if self.is_recorded() {
                    self.record_reply_item(call, AnyMessage::new(item));
                }
                self.host.count_items(call, 0, HEADER_BYTES + item_bytes);
                if let Some(deadline) = meanwhile {
                    self.finish_sending(deadline);
                }
                Ok(())
            }
            Err(unsent) => {
                if matches!(unsent, Unsent::Full(_) | Unsent::Exceeded(_)) && mode == SendMode::Keep
                {
                    // Neither the channel has room nor the outbox, which then may be empty.
                    self.note_blocked();
                }
                Err(self.item_not_sent(unsent))
            }
        }
    }

    #[cold]
    fn item_not_sent(&self, unsent: Unsent<ItemError>) -> ItemUnsent {
        self.touch(Deadline::NEVER);
        match unsent {
            _ if self.is_closed() => ItemUnsent::Ended,
            Unsent::Protocol(ItemError::NoCredit) => ItemUnsent::NoCredit,
            Unsent::Protocol(ItemError::Ended) => ItemUnsent::Ended,
            Unsent::Protocol(ItemError::NotAStream) => {
                ItemUnsent::Failed(Status::internal("this end of the call sends no items"))
            }
            Unsent::Protocol(ItemError::TooLarge { message_bytes, .. })
            | Unsent::TooLarge(message_bytes)
            | Unsent::AboveEveryLimit(message_bytes) => {
                ItemUnsent::Failed(self.too_large("item", message_bytes))
            }
            Unsent::Full(_) | Unsent::Exceeded(_) => ItemUnsent::NoRoom,
            Unsent::Message(status) => ItemUnsent::Failed(status),
            Unsent::Channel(error) => {
                self.channel_failed(&error);
                ItemUnsent::Ended
            }
        }
    }

    /// Ends the items of a call of this end. If the call has ended, nothing happens.
    pub(crate) fn half_close(&self, call: OutgoingCall) {
        let mut inner = self.inner.borrow_mut();
        let sent = match inner.protocol.half_close(call) {
            Ok(head) => inner.send_bytes::<ItemError>(&head),
            Err(_) => Ok(()),
        };
        drop(inner);
        self.touch(Deadline::NEVER);
        // A client keeps what finds no room in any case.
        if let Err(Unsent::Channel(error)) = sent {
            self.channel_failed(&error);
        }
    }

    /// Has `waker` woken by credit for the item that its task waits to send, and by the end of the
    /// call.
    pub(crate) fn set_sender(&self, stream: &CallStream, waker: &Waker) {
        if let Some(before) = stream.set_sender(waker) {
            self.host.retire(before);
        }
    }

    /// Sends an item for a task. `Ok(false)`: there is no credit for it.
    pub(crate) fn try_send_item(
        &self,
        call: OutgoingCall,
        item: &impl Message,
    ) -> Result<bool, NotSent> {
        match self.send_item(call.into(), item, SendMode::Try) {
            Ok(()) => Ok(true),
            Err(ItemUnsent::NoCredit) => Ok(false),
            Err(ItemUnsent::NoRoom) => {
                let status = Status::resource_exhausted("the channel has no room");
                let message_bytes = HEADER_BYTES + codec::encoded_bytes(item);
                Err(NotSent { status, need: Some(Need::Room(message_bytes)) })
            }
            Err(ItemUnsent::Ended) => Err(Status::cancelled("the call has ended").into()),
            Err(ItemUnsent::Failed(status)) => Err(status.into()),
        }
    }

    /// Returns whether an item with a body of so many bytes may be sent now, or never again.
    pub(crate) fn may_send_item(&self, call: StreamCall, item_bytes: usize) -> bool {
        let Some(payload) = Payload::new(0, item_bytes).filter(|_| !self.is_closed()) else {
            return true;
        };
        let mut inner = self.inner.borrow_mut();
        !inner.has_pending_writes() && inner.protocol.has_credit(call, payload)
    }

    /// Notes that items were read which cost so much together, and lets the peer send more.
    pub(crate) fn consume_items(&self, call: StreamCall, cost: u64) {
        let mut inner = self.inner.borrow_mut();
        inner.protocol.consume(call, cost);
        let has_transmit = inner.protocol.has_transmit();
        drop(inner);
        if has_transmit {
            self.send_control(Deadline::NOW);
        }
    }

    fn new_stream(&self) -> CallStream {
        CallStream::new(self.stream_window_bytes, self.decoded_bytes_max, self.memory.as_ref())
    }

    /// Begins the stream of a call of the peer.
    #[cold]
    pub(super) fn open_incoming_stream(&self, call: IncomingCall, shape: Shape) {
        self.has_streams.set(true);
        let stream = self.streams.borrow_mut().insert(call.into(), self.new_stream());
        if !shape.caller_streams() {
            self.wake(stream.received.end(ItemsEnd::Finished));
        }
    }

    /// Keeps an item of a small message for its reader.
    #[inline]
    pub(super) fn keep_item(&self, call: StreamCall, message: &[u8]) {
        if self.is_recorded() {
            self.record_request_item(call, &message[HEADER_BYTES..]);
        }
        let stream = self.streams.borrow_mut().get(call).map(Arc::clone);
        let pushed = stream.map_or(Ok(None), |it| it.received.push(&message[HEADER_BYTES..]));
        self.finish_item(call, message.len(), pushed);
    }

    /// Keeps an item for its reader, with its buffer if it is long.
    pub(super) fn keep_large_item(&self, call: StreamCall, buffer: Vec<u8>, message_bytes: usize) {
        if message_bytes < SHARED_BYTES_MIN {
            self.keep_item(call, &buffer[..message_bytes]);
            return self.buffers.give(buffer);
        }
        if self.is_recorded() {
            self.record_request_item(call, &buffer[HEADER_BYTES..message_bytes]);
        }
        let stream = self.streams.borrow_mut().get(call).map(Arc::clone);
        let whole = self.buffers.share(buffer, message_bytes);
        let pushed = stream.map_or(Ok(None), |it| it.received.push_whole(whole, HEADER_BYTES));
        self.finish_item(call, message_bytes, pushed);
    }

    #[inline]
    fn finish_item(
        &self,
        call: StreamCall,
        message_bytes: usize,
        pushed: Result<Option<Woken>, Exceeded>,
    ) {
        self.host.count_items(call, message_bytes, 0);
        match pushed {
            Ok(Some(woken)) => self.wake(woken),
            Ok(None) => self.discard_item(call, message_bytes),
            Err(exceeded) => self.refuse_items(call, &exceeded),
        }
    }

    /// Ends a call of the peer whose unread items are more than its user may have here.
    #[cold]
    fn refuse_items(&self, call: StreamCall, exceeded: &Exceeded) {
        let status = self.exceeded(exceeded);
        let StreamCall::Incoming(call) = call else { return };
        let stream = self.streams.borrow_mut().remove(call.into());
        if let Some(stream) = stream {
            self.wake(stream.cancel(&status));
        }
        self.fail_watched(call, &status);
    }

    /// Lets the peer send more for an item whose reader has gone before its call.
    #[cold]
    fn discard_item(&self, call: StreamCall, message_bytes: usize) {
        self.consume_items(call, item_cost(message_bytes, self.stream_window_bytes).into());
    }

    /// Notes that the caller sends no more items.
    #[cold]
    pub(super) fn note_half_close(&self, call: IncomingCall) {
        if self.is_recorded() {
            self.record_half_close(call);
        }
        if let Some(stream) = self.stream(call) {
            self.wake(stream.received.end(ItemsEnd::Finished));
        }
    }

    /// Wakes the task that waits for something of a stream.
    #[inline]
    pub(super) fn wake(&self, woken: Woken) {
        if let Woken(Some(waker)) = woken {
            self.host.wake(waker);
        }
    }

    /// Notes that there is credit for an item that has waited for it.
    #[cold]
    pub(super) fn note_credit(&self, call: StreamCall) {
        match call {
            StreamCall::Incoming(call) => self.pump(call),
            StreamCall::Outgoing(_) => {
                let stream = self.streams.borrow_mut().get(call).map(Arc::clone);
                self.wake(Woken(stream.and_then(|stream| stream.take_sender())));
            }
        }
    }

    /// Notes that a call of this end has ended.
    #[cold]
    pub(super) fn end_outgoing_stream(&self, call: OutgoingCall) {
        if let Some(stream) = self.outgoing_stream(call) {
            self.wake(stream.received.end(ItemsEnd::Finished));
            self.wake(Woken(stream.take_sender()));
        }
    }

    /// Notes that the peer does not wait for the end of a call any more.
    #[cold]
    pub(super) fn cancel_incoming_stream(&self, call: IncomingCall, reason: CancelReason) {
        let stream = self.streams.borrow_mut().remove(call.into());
        if let Some(stream) = stream {
            let woken = stream.cancel(&match reason {
                CancelReason::Cancelled => Status::cancelled("the caller gave the call up"),
                CancelReason::DeadlineExceeded => {
                    Status::deadline_exceeded("the deadline of the call has passed")
                }
                CancelReason::Closed(_) => self.close_reason(),
            });
            self.wake(woken);
        }
    }
}
