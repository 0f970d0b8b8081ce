//! One call of a service that streams, as its handles share it.
//!
//! **Invariants:** it is `Send`: it names the connection by a key of its loop. In the loop's thread
//! it uses the connection itself, and whatever waits runs rounds of the loop; in another thread it
//! uses what is shared, and whatever waits blocks that thread only.
//! **Not here:** the handles (`services/streams/item_sender.rs`,
//! `services/streams/item_receiver.rs`).

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use nearcall_channel::account::Exceeded;
use nearcall_wire::IncomingCall;

use crate::codec::{self, Message};
use crate::connection::{Activity, Connection, ItemUnsent, SendMode};
use crate::deadline::Deadline;
use crate::instance::own_thread;
use crate::limits::{OWN_CALLER_ROUNDS_MIN, OWN_CALLER_WAIT};
use crate::nesting::inherited_deadline;
use crate::status::Status;
use crate::streams::call_stream::CallStream;
use crate::streams::item_outlet::Put;
use crate::tasks::mailbox::{ConnectionKey, Mailbox, Post, StreamPost};

/// A call that streams, for its service.
#[derive(Clone)]
pub(crate) struct ServiceStream {
    mailbox: Arc<Mailbox>,
    connection: ConnectionKey,
    call: IncomingCall,
    pub(crate) stream: Arc<CallStream>,
}

/// The loop of this thread, with the connection if that has not ended.
type Here = (Rc<Activity>, Option<Rc<Connection>>);

impl ServiceStream {
    /// Returns the stream of a call that came over a connection, if it streams.
    pub(crate) fn of_call(connection: &Rc<Connection>, call: IncomingCall) -> Option<Self> {
        let stream = connection.stream(call)?;
        let activity = connection.activity()?;
        let (mailbox, connection) = (Arc::clone(&activity.mailbox), activity.key(connection));
        Some(Self { mailbox, connection, call, stream })
    }

    /// Returns the loop of the call, if it is one of this thread.
    fn here(&self) -> Option<Here> {
        let activity = Activity::of_thread(&self.mailbox)?;
        let connection = activity.connection(self.connection);
        Some((activity, connection))
    }

    fn post(&self, post: StreamPost) {
        // A loop that has closed has ended its calls.
        let _ = self.mailbox.post(Post::Stream(self.connection, self.call, post));
    }

    /// Sends an item, and waits until it may be sent, `deadline` at most.
    pub(crate) fn send(&self, item: &impl Message, deadline: Deadline) -> Result<(), Status> {
        let Some((activity, connection)) = self.here() else {
            return self.hand_over(item, deadline);
        };
        let item_bytes = codec::encoded_bytes(item);
        loop {
            let (connection, sent) = self.send_here(connection.as_ref(), item)?;
            if sent {
                return Ok(());
            }
            let is_done = || {
                let may_send = connection.may_send_item(self.call.into(), item_bytes);
                self.stream.outlet.ended().is_some() || may_send && self.stream.outlet.is_empty()
            };
            self.run_rounds(&activity, Some(connection), deadline, is_done)?;
        }
    }

    /// Sends an item if that needs no wait.
    pub(crate) fn try_send(&self, item: &impl Message) -> Result<(), Status> {
        let sent = match self.here() {
            Some((_, connection)) => self.send_here(connection.as_ref(), item)?.1,
            None => self.put(item)?,
        };
        sent.then_some(()).ok_or_else(|| {
            Status::resource_exhausted(
                "the caller has to read earlier items of this stream first; `send` waits for that",
            )
        })
    }

    /// Sends an item in the loop's thread. False: not now.
    fn send_here<'a>(
        &self,
        connection: Option<&'a Rc<Connection>>,
        item: &impl Message,
    ) -> Result<(&'a Rc<Connection>, bool), Status> {
        let has_headers = self.stream.outlet.begin_item()?;
        let Some(connection) = connection else { return Err(gone()) };
        if has_headers {
            connection.send_stream_headers(self.call, &self.stream);
        }
        // What was handed over before goes first.
        if !self.stream.outlet.is_empty() {
            return Ok((connection, false));
        }
        match connection.send_item(self.call.into(), item, SendMode::Keep) {
            Ok(()) => Ok((connection, true)),
            Err(ItemUnsent::NoCredit | ItemUnsent::NoRoom) => Ok((connection, false)),
            Err(ItemUnsent::Ended) => Err(self.stream.outlet.ended().unwrap_or_else(gone)),
            Err(ItemUnsent::Failed(status)) => Err(status),
        }
    }

    /// Has the loop send an item. False: no room.
    fn put(&self, item: &impl Message) -> Result<bool, Status> {
        match self.stream.outlet.put(item) {
            Put::Done(is_news) => {
                if is_news {
                    self.post(StreamPost::Items);
                }
                Ok(true)
            }
            Put::Full => Ok(false),
            Put::Exceeded(exceeded) => Err(self.exceeded(&exceeded)),
            Put::Ended(status) | Put::Refused(status) => Err(status),
        }
    }

    /// Returns the status of an item that waits for a caller whose user may have no more here, and
    /// has the refusal counted.
    #[cold]
    fn exceeded(&self, exceeded: &Exceeded) -> Status {
        let text = exceeded.to_string();
        self.post(StreamPost::Refused(text.clone()));
        Status::resource_exhausted(text)
    }

    /// Has the loop send an item, and blocks this thread until there is room for it.
    fn hand_over(&self, item: &impl Message, deadline: Deadline) -> Result<(), Status> {
        while !self.put(item)? {
            if deadline.has_passed() {
                return Err(late());
            }
            self.stream.outlet.wait(deadline);
        }
        Ok(())
    }

    /// As [`send`](Self::send), for a task.
    pub(crate) fn poll_send(&self, item: &impl Message, waker: &Waker) -> Poll<Result<(), Status>> {
        if let Some((_, connection)) = self.here() {
            match self.send_here(connection.as_ref(), item) {
                Ok((_, true)) => return Poll::Ready(Ok(())),
                Ok((connection, false)) => match self.stream.outlet.put(item) {
                    Put::Done(_) => {
                        connection.pump(self.call);
                        return Poll::Ready(Ok(()));
                    }
                    Put::Exceeded(exceeded) => return Poll::Ready(Err(self.exceeded(&exceeded))),
                    Put::Refused(status) => return Poll::Ready(Err(status)),
                    Put::Full | Put::Ended(_) => {}
                },
                Err(status) => return Poll::Ready(Err(status)),
            }
        }
        loop {
            match self.put(item) {
                Ok(true) => return Poll::Ready(Ok(())),
                Ok(false) if self.stream.outlet.set_waker(waker) => return Poll::Pending,
                Ok(false) => {}
                Err(status) => return Poll::Ready(Err(status)),
            }
        }
    }

    /// Waits until an item has come or the end, `deadline` at most.
    pub(crate) fn wait_for_items(&self, deadline: Deadline) -> Result<(), Status> {
        let received = &self.stream.received;
        if let Some((activity, connection)) = self.here() {
            let is_done = || received.is_ready();
            return self.run_rounds(&activity, connection.as_ref(), deadline, is_done);
        }
        received.wait(deadline);
        if received.is_ready() { Ok(()) } else { Err(late()) }
    }

    /// Runs rounds of the loop until `done`. If the caller is in this thread, it cannot do anything
    /// meanwhile: then what is under way is waited for, and no more.
    fn run_rounds(
        &self,
        activity: &Rc<Activity>,
        connection: Option<&Rc<Connection>>,
        deadline: Deadline,
        mut done: impl FnMut() -> bool,
    ) -> Result<(), Status> {
        let instance = connection.and_then(|connection| connection.peer_instance());
        // What the peer says of itself shortens its own wait at most.
        let is_own = instance == Some(own_thread());
        let deadline = deadline.min(inherited_deadline());
        let mut rounds = 0;
        loop {
            let end =
                if is_own { Deadline::after(OWN_CALLER_WAIT).min(deadline) } else { deadline };
            let counted = || {
                rounds += 1;
                done()
            };
            return match activity.run_until(end, counted) {
                Ok(true) => Ok(()),
                Ok(false) if deadline.has_passed() => Err(late()),
                Ok(false) if rounds < OWN_CALLER_ROUNDS_MIN => continue,
                Ok(false) => Err(caller_below()),
                Err(error) => Err(Status::internal(format!("the event loop failed: {error}"))),
            };
        }
    }

    /// Sends the headers of the call now, unless they were sent.
    pub(crate) fn send_headers(&self) {
        if self.stream.outlet.send_headers() {
            match self.here() {
                Some((_, Some(connection))) => {
                    connection.send_stream_headers(self.call, &self.stream);
                }
                Some((_, None)) => {}
                None => self.post(StreamPost::Items),
            }
        }
    }

    /// Notes that items were read which cost so much together.
    pub(crate) fn consume(&self, cost: u64) {
        match self.here() {
            Some((_, Some(connection))) => connection.consume_items(self.call.into(), cost),
            Some((_, None)) => {}
            None => self.post(StreamPost::Consumed(cost)),
        }
    }
}

fn gone() -> Status {
    Status::cancelled("the call has ended")
}

#[cold]
fn caller_below() -> Status {
    Status::failed_precondition(
        "the caller of this stream is in the thread of its service, and goes on only when the \
         method has returned: let the method be async or run in a `BlockingPool`, or call from \
         another thread",
    )
}

fn late() -> Status {
    Status::deadline_exceeded("the deadline of the call has passed")
}
