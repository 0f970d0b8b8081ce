//! A call of this thread that streams, as both of its handles share it.
//!
//! **Invariants:** a call whose last handle is dropped is cancelled, unless it has ended; its end
//! is taken once, and every handle learns of it.
//! **Not here:** opening it (`opening.rs`), the handles (`reply_stream.rs`, `request_stream.rs`),
//! the queue of items (`streams/item_queue.rs`).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use nearcall_wire::{HEADER_BYTES, OutgoingCall};

use crate::async_call::AsyncStreamedCall;
use crate::clients::{ClientCore, InUse};
use crate::codec::{self, Body, Message};
use crate::connection::{Connection, ItemUnsent, Outcome, Reply, SendMode};
use crate::deadline::Deadline;
use crate::decoded_size::{MessageType, Part};
use crate::interceptor::ObservedCall;
use crate::limits::UNLOOKED_ITEMS_MAX;
use crate::metadata::ReplyMetadata;
use crate::options::DEFAULT_OPTIONS;
use crate::status::Status;
use crate::streams::call_stream::CallStream;
use crate::streams::item_queue::{ItemBatch, Taken};

/// A call that streams, for its handles.
pub(super) enum OpenedStream {
    Own(Rc<StreamedCall>),
    /// Over a connection that threads and tasks share.
    Shared(Arc<AsyncStreamedCall>, InUse),
}

impl OpenedStream {
    /// Has the interceptors see the end of the call, which has no handle yet.
    pub(super) fn observed_by(self, observed: Box<ObservedCall>) -> Self {
        match &self {
            Self::Own(call) => call.set_observed(observed),
            Self::Shared(call, _) => call.set_observed(observed),
        }
        self
    }

    /// Returns the call for its other handle.
    pub(super) fn for_both(&self) -> Self {
        match self {
            Self::Own(call) => Self::Own(Rc::clone(call)),
            Self::Shared(call, in_use) => {
                Self::Shared(Arc::clone(call), InUse::new(Rc::clone(in_use.binding())))
            }
        }
    }
}

/// A call that streams, over a connection of this thread.
pub(super) struct StreamedCall {
    in_use: InUse,
    connection: Rc<Connection>,
    call: OutgoingCall,
    /// The number of its method.
    method: u32,
    deadline: Deadline,
    stream: Arc<CallStream>,
    state: RefCell<State>,
    /// Items sent since the end of the call was looked for.
    unlooked_items: Cell<u32>,
    /// If the client has interceptors.
    observed: Cell<Option<Box<ObservedCall>>>,
}

enum State {
    /// The connection has the call.
    Open,
    /// It has ended and was released; the result was not read.
    Replied(Box<Outcome>),
    /// It has ended, and the result was read or there is none; what the service sent beside it.
    Ended(Result<ReplyMetadata, Status>),
}

impl StreamedCall {
    pub(super) fn new(
        in_use: InUse,
        connection: Rc<Connection>,
        started: (OutgoingCall, Arc<CallStream>),
        method: u32,
        deadline: Deadline,
    ) -> Self {
        let (state, observed, (call, stream)) =
            (RefCell::new(State::Open), Cell::new(None), started);
        let unlooked_items = Cell::new(0);
        let interface = in_use.binding().name.interface;
        stream.expect(MessageType { interface, method, part: Part::Reply });
        Self { in_use, connection, call, method, deadline, stream, state, unlooked_items, observed }
    }

    /// Has the interceptors see the end of the call.
    pub(super) fn set_observed(&self, observed: Box<ObservedCall>) {
        self.observed.set(Some(observed));
    }

    /// Shows the interceptors the end of the call, once.
    fn show_end<T>(&self, result: Result<&T, &Status>, reply_bytes: impl FnOnce(&T) -> usize) {
        if let Some(observed) = self.observed.take() {
            observed.end(result.err(), result.map_or(0, reply_bytes));
        }
    }

    /// Returns the name of the server, for messages to people.
    pub(super) fn server(&self) -> &str {
        &self.connection.name
    }

    fn core(&self) -> &ClientCore {
        &self.in_use.binding().core
    }

    /// Waits for the next item. `None`: the call has ended with `OK`.
    #[inline]
    pub(super) fn next<R: Message + Default>(
        &self,
        items: &mut Unread,
    ) -> Result<Option<R>, Status> {
        loop {
            if let Some(item) = items.batch.next() {
                let (bytes, item) = (item.message_bytes(), self.stream.decode(&item));
                self.report(items, bytes);
                return self.read(item);
            }
            match self.stream.received.take(&mut items.batch) {
                Taken::Items => continue,
                Taken::End(_) => return self.end().map(|()| None),
                Taken::Nothing => {}
            }
            // A server that sends without pause must not hold the call beyond its time.
            if self.deadline.has_passed() {
                self.connection.handle_timeout();
            }
            let core = self.core();
            let read = |item: &[u8]| (item.len(), codec::decode(Body::copied(item)));
            let (connection, call, deadline) = (&self.connection, self.call, self.deadline);
            match core.receive_item(connection, call, deadline, read) {
                Some((bytes, item)) => {
                    self.report(items, HEADER_BYTES + bytes);
                    return self.read(item);
                }
                None => self.wait_until(|| self.stream.received.is_ready())?,
            }
        }
    }

    /// An item that cannot be read ends the call.
    #[inline]
    fn read<R>(&self, item: Result<R, Status>) -> Result<Option<R>, Status> {
        match item {
            Ok(item) => Ok(Some(item)),
            Err(status) => {
                self.cancel(status.clone());
                Err(status)
            }
        }
    }

    /// Notes that an item was read, of a message with so many bytes.
    #[inline]
    fn report(&self, items: &mut Unread, bytes: usize) {
        items.unreported_cost += self.stream.cost(bytes);
        if items.unreported_cost >= self.stream.report_cost() {
            let cost = std::mem::take(&mut items.unreported_cost);
            self.connection.consume_items(self.call.into(), cost);
        }
    }

    /// Sends an item, and waits until it may be sent.
    pub(super) fn send(&self, item: &impl Message) -> Result<(), Status> {
        let mode = self.core().send_mode(DEFAULT_OPTIONS, self.deadline);
        loop {
            match self.send_once(item, mode)? {
                Sent::Done => return Ok(()),
                Sent::NeedsRoom => {
                    let message_bytes = HEADER_BYTES + codec::encoded_bytes(item);
                    self.core().wait_to_send(&self.connection, message_bytes, self.deadline)?;
                    if self.deadline.has_passed() {
                        self.connection.handle_timeout();
                    }
                }
                Sent::NeedsCredit => {
                    let item_bytes = codec::encoded_bytes(item);
                    let may_send = || self.connection.may_send_item(self.call.into(), item_bytes);
                    self.wait_until(may_send)?;
                }
            }
            // Else an attempt that still finds no room would follow, and so on without end.
            if self.connection.has_ended(self.call) {
                return Err(self.no_more_items());
            }
        }
    }

    /// Waits until `done`, or until the call has ended: at its deadline at the latest.
    fn wait_until(&self, done: impl Fn() -> bool) -> Result<(), Status> {
        let connection = &self.connection;
        let is_done = || done() || connection.has_ended(self.call);
        let in_time = self.core().wait_until(connection, self.deadline, is_done)?;
        if !in_time || self.deadline.has_passed() {
            connection.handle_timeout();
        }
        Ok(())
    }

    /// Sends an item if that needs no wait.
    pub(super) fn try_send(&self, item: &impl Message) -> Result<(), Status> {
        let core = self.core();
        for _ in 0..2 {
            if let Sent::Done = self.send_once(item, core.try_mode())? {
                return Ok(());
            }
            // Credit may have come.
            core.poll(&self.connection);
        }
        Err(Status::resource_exhausted(format!(
            "{} has to read earlier items of this stream first; `send` waits for that",
            self.connection.name
        )))
    }

    fn send_once(&self, item: &impl Message, mode: SendMode) -> Result<Sent, Status> {
        if !matches!(*self.state.borrow(), State::Open) {
            return Err(self.no_more_items());
        }
        // Its end may have come: an item after that goes nowhere, and credit would hide it long.
        let unlooked = self.unlooked_items.get() + 1;
        let is_due = unlooked > UNLOOKED_ITEMS_MAX || self.connection.takes_whole();
        self.unlooked_items.set(if is_due { 0 } else { unlooked });
        if is_due && self.connection.poll_ready(1) && !self.connection.is_closed() {
            self.connection.look_ahead();
        }
        match self.connection.send_item(self.call.into(), item, mode) {
            Ok(()) => Ok(Sent::Done),
            Err(ItemUnsent::NoCredit) => Ok(Sent::NeedsCredit),
            Err(ItemUnsent::NoRoom) => Ok(Sent::NeedsRoom),
            Err(ItemUnsent::Ended) => Err(self.no_more_items()),
            Err(ItemUnsent::Failed(status)) => Err(status),
        }
    }

    /// Returns why no item can be sent any more.
    #[cold]
    fn no_more_items(&self) -> Status {
        self.take_outcome();
        match &*self.state.borrow() {
            State::Replied(outcome) => match &**outcome {
                Err(status) => status.clone(),
                Ok(_) => self.replied_early(),
            },
            State::Ended(Err(status)) => status.clone(),
            State::Ended(Ok(_)) | State::Open => self.replied_early(),
        }
    }

    fn replied_early(&self) -> Status {
        Status::failed_precondition(format!(
            "{} has replied and reads no more items; finish the stream to get its reply",
            self.connection.name
        ))
    }

    /// Ends the items of this end.
    pub(super) fn half_close(&self) {
        if matches!(*self.state.borrow(), State::Open) {
            self.connection.half_close(self.call);
        }
    }

    /// Waits for the end of the call and reads its result.
    pub(super) fn finish<R: Message + Default>(&self) -> Result<R, Status> {
        if matches!(*self.state.borrow(), State::Open) {
            let outcome = self.core().wait(&self.connection, self.call, self.deadline);
            *self.state.borrow_mut() = State::Replied(Box::new(outcome));
        }
        match self.state.replace(State::Ended(Ok(ReplyMetadata::default()))) {
            State::Replied(outcome) => self.read_end(*outcome),
            State::Ended(Err(status)) => Err(status),
            State::Ended(Ok(_)) | State::Open => {
                Err(Status::failed_precondition("the result was taken before"))
            }
        }
    }

    /// Returns how the call has ended.
    fn end(&self) -> Result<(), Status> {
        self.take_outcome();
        let end = match self.state.replace(State::Ended(Ok(ReplyMetadata::default()))) {
            State::Replied(outcome) => return self.read_end(*outcome),
            State::Ended(end) => end,
            State::Open => Err(Status::internal("a stream has ended before its call")),
        };
        *self.state.borrow_mut() = State::Ended(end.clone());
        end.map(drop)
    }

    /// Reads how the call has ended, and keeps that.
    fn read_end<R: Message + Default>(&self, outcome: Outcome) -> Result<R, Status> {
        let metadata = outcome.as_ref().map_or_else(|_| ReplyMetadata::default(), Reply::metadata);
        let result = self.in_use.binding().read_outcome(outcome, self.method);
        let end = result.as_ref().map(|_| metadata).map_err(Status::clone);
        *self.state.borrow_mut() = State::Ended(end);
        self.show_end(result.as_ref(), codec::reported_bytes);
        result
    }

    /// Returns what the service sent beside the end of the call, once that was read.
    pub(super) fn metadata(&self) -> ReplyMetadata {
        let sent = match &*self.state.borrow() {
            State::Ended(Ok(metadata)) => metadata.clone(),
            State::Ended(Err(status)) => status.reply_metadata(),
            State::Open | State::Replied(_) => return ReplyMetadata::default(),
        };
        sent.with_headers(self.stream.headers.get())
    }

    /// Waits for the headers, the first item or the end.
    pub(super) fn headers(&self, items: &Unread, has_ended: bool) -> ReplyMetadata {
        let (headers, received) = (&self.stream.headers, &self.stream.received);
        if !has_ended && items.batch.is_empty() {
            // Whatever fails here, the next item reports.
            let _ = self.wait_until(|| headers.get().is_some() || received.is_ready());
        }
        ReplyMetadata::of_headers(headers.get().cloned().unwrap_or_default())
    }

    /// Releases the call if it has ended.
    fn take_outcome(&self) {
        let mut state = self.state.borrow_mut();
        if matches!(*state, State::Open)
            && let Some(outcome) = self.connection.take_outcome(self.call)
        {
            *state = State::Replied(Box::new(outcome));
        }
    }

    /// Gives the call up, unless it has ended.
    pub(super) fn cancel(&self, status: Status) {
        if matches!(*self.state.borrow(), State::Open) {
            self.connection.cancel(self.call);
            // Nothing in this thread waits for it.
            let _ = self.stream.cancel(&status);
            self.show_end(Err::<&(), _>(&status), |()| 0);
            *self.state.borrow_mut() = State::Ended(Err(status));
        }
    }
}

impl Drop for StreamedCall {
    fn drop(&mut self) {
        self.connection.close_stream(self.call.into());
        match self.state.get_mut() {
            // The interceptors see that it was given up.
            State::Open => self.connection.cancel(self.call),
            State::Replied(outcome) => {
                let status = outcome.as_ref().as_ref().err().cloned();
                self.show_end(status.as_ref().map_or(Ok(&()), Err), |()| 0);
            }
            State::Ended(_) => {}
        }
    }
}

enum Sent {
    Done,
    NeedsCredit,
    NeedsRoom,
}

/// What a reader has taken and not read, and has read and not reported.
#[derive(Default)]
pub(super) struct Unread {
    batch: ItemBatch,
    unreported_cost: u64,
}
