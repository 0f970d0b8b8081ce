//! Where the reply to a call goes, and what may be known of its caller.
//!
//! A service and its responders see a call only through this, so that another way for calls to come
//! in is added here and nowhere else.
//! **Invariants:** a one-way message has a sink that drops what it gets.
//! **Not here:** what a service sees of it (`context.rs`, `responder.rs`), the sink of a call that
//! is answered after its method has returned, or in another thread (`detached_sink.rs`).

use std::rc::Rc;
use std::sync::Arc;

use nearcall_channel::{Loan, Mechanism};
use nearcall_wire::IncomingCall;

use crate::codec::Message;
use crate::connection::{Activity, Connection};
use crate::deadline::Deadline;
use crate::peer::{Peer, User};
use crate::refusals::RefusalKind;
use crate::reservation::CallMemory;
use crate::services::detached_sink::{DetachedCall, DetachedSink};
use crate::services::local_reply::{LaterReply, LocalCall};
use crate::services::service_stream::ServiceStream;
use crate::status::Status;
use crate::tasks::mailbox::ConnectionKey;
use crate::tasks::reply_extras::{ReplyExtras, Sent};

/// The sink of a call that is being served.
#[derive(Clone, Copy)]
pub(crate) struct ReplySink<'a>(Sink<'a>);

#[derive(Clone, Copy)]
enum Sink<'a> {
    Connection(&'a Rc<Connection>, Option<IncomingCall>),
    /// To a caller in this thread, as bytes.
    LocalBytes(&'a LocalCall, &'a Activity),
    /// To a caller in this thread, which gets the returned value unless the answer comes later.
    LocalTyped(&'a LaterReply, &'a Activity),
    /// A one-way message of this thread.
    LocalOneway(&'a Activity),
    /// To the loop's thread from another one.
    Detached(&'a DetachedCall),
}

impl<'a> ReplySink<'a> {
    /// Returns the sink of a call that came over a connection; none for a one-way message.
    #[inline]
    pub(crate) fn connection(connection: &'a Rc<Connection>, call: Option<IncomingCall>) -> Self {
        Self(Sink::Connection(connection, call))
    }

    /// Returns the sink of a call from this thread whose reply is passed as bytes.
    pub(crate) fn local_bytes(call: &'a LocalCall, activity: &'a Activity) -> Self {
        Self(Sink::LocalBytes(call, activity))
    }

    /// Returns the sink of a call from this thread whose caller gets the returned value. What is
    /// answered later is left in `later`.
    #[inline]
    pub(crate) fn local_typed(later: &'a LaterReply, activity: &'a Activity) -> Self {
        Self(Sink::LocalTyped(later, activity))
    }

    /// Returns the sink of a one-way message from this thread.
    pub(crate) fn local_oneway(activity: &'a Activity) -> Self {
        Self(Sink::LocalOneway(activity))
    }

    /// Returns the sink of a call that is served in another thread than its loop's.
    pub(crate) fn detached(call: &'a DetachedCall) -> Self {
        Self(Sink::Detached(call))
    }

    /// Replies to the call.
    #[inline]
    pub(crate) fn reply(self, result: &impl Message) {
        match self.0 {
            Sink::Connection(connection, Some(call)) => drop(connection.reply(call, &[], result)),
            Sink::LocalBytes(call, _) => call.answer(None, Ok(result)),
            Sink::Detached(call) => call.sink.finish(Ok(result)),
            Sink::Connection(_, None) | Sink::LocalTyped(..) | Sink::LocalOneway(_) => {}
        }
    }

    /// Ends the call, with what goes with its answer.
    #[cold]
    pub(crate) fn answer(self, extras: Box<ReplyExtras>, answer: Result<&impl Message, &Status>) {
        match self.0 {
            Sink::Connection(connection, Some(call)) => {
                connection.answer(call, Some(extras), answer);
            }
            Sink::LocalBytes(call, _) => call.answer(Some(extras), answer),
            Sink::Detached(call) => {
                call.sink.add_extras(extras);
                call.sink.finish(answer);
            }
            Sink::Connection(_, None) | Sink::LocalTyped(..) | Sink::LocalOneway(_) => {
                extras.end(Sent::AsGiven, answer);
            }
        }
    }

    /// Ends the call with an error.
    pub(crate) fn fail(self, status: &Status) {
        match self.0 {
            Sink::Connection(connection, Some(call)) => drop(connection.fail(call, status)),
            Sink::LocalBytes(call, _) => call.end(Err(status.clone())),
            Sink::Detached(call) => call.sink.fail(status),
            Sink::Connection(_, None) | Sink::LocalTyped(..) | Sink::LocalOneway(_) => {}
        }
    }

    /// Counts and logs that something was refused to the caller, unless it is in this thread.
    #[cold]
    pub(crate) fn note_refusal(self, kind: RefusalKind, why: &str) {
        match self.0 {
            Sink::Connection(connection, _) => connection.note_refusal(kind, why),
            Sink::Detached(call) => call.sink.note_refusal(kind, why),
            Sink::LocalBytes(..) | Sink::LocalTyped(..) | Sink::LocalOneway(_) => {}
        }
    }

    /// Ends a call whose method has panicked, also for the responder that it may have given away.
    #[cold]
    pub(crate) fn fail_panicked(self) {
        let status = Status::panicked();
        match self.0 {
            Sink::Connection(connection, Some(call)) => connection.fail_watched(call, &status),
            Sink::LocalBytes(call, activity) => {
                DetachedSink::local(&call.later.answer(), &activity.mailbox).fail(&status);
            }
            _ => self.fail(&status),
        }
    }

    /// Ends a call that streams, after the items that its service has sent.
    pub(crate) fn finish_stream(
        self,
        extras: Option<Box<ReplyExtras>>,
        answer: Result<&impl Message, &Status>,
    ) {
        match self.0 {
            Sink::Connection(connection, Some(call)) => {
                connection.reply_detached(call, extras, answer);
            }
            _ => self.answer(extras.unwrap_or_default(), answer),
        }
    }

    /// Returns the stream of the call, if it streams.
    pub(crate) fn stream(self) -> Option<ServiceStream> {
        match self.0 {
            Sink::Connection(connection, call) => ServiceStream::of_call(connection, call?),
            Sink::Detached(call) => call.sink.stream(),
            Sink::LocalBytes(..) | Sink::LocalTyped(..) | Sink::LocalOneway(_) => None,
        }
    }

    /// Receives what has come, and returns whether the caller does not wait any more.
    pub(crate) fn look_for_cancel(self) -> bool {
        match self.0 {
            Sink::Connection(connection, call) => {
                connection.look_ahead();
                connection.is_closed() || call.is_some_and(|call| connection.is_cancelled(call))
            }
            Sink::Detached(call) => call.sink.look_for_cancel(),
            Sink::LocalBytes(..) | Sink::LocalTyped(..) | Sink::LocalOneway(_) => false,
        }
    }

    /// Returns the memory that the call is charged for; none of a caller in this thread.
    pub(crate) fn memory(self) -> Option<&'a Arc<CallMemory>> {
        match self.0 {
            Sink::Connection(connection, _) => connection.memory.as_ref(),
            Sink::Detached(call) => call.sink.memory(),
            Sink::LocalBytes(..) | Sink::LocalTyped(..) | Sink::LocalOneway(_) => None,
        }
    }

    /// Returns the caller.
    pub(crate) fn peer(self) -> Peer {
        match self.0 {
            Sink::Connection(connection, _) => connection.peer.clone(),
            Sink::Detached(call) => call.peer.clone(),
            Sink::LocalBytes(..) | Sink::LocalTyped(..) | Sink::LocalOneway(_) => Peer::Local,
        }
    }

    /// Returns the connection of a call that is answered where it came in.
    pub(crate) fn own_connection(self) -> Option<&'a Rc<Connection>> {
        match self.0 {
            Sink::Connection(connection, _) => Some(connection),
            _ => None,
        }
    }

    /// Returns the mechanism of the connection of a call that is answered where it came in.
    pub(crate) fn mechanism(self) -> Option<Mechanism> {
        match self.0 {
            Sink::Connection(connection, _) => Some(connection.mechanism()),
            _ => None,
        }
    }

    /// Returns whether what the caller lends is read where it lies.
    pub(crate) fn is_trusted(self) -> bool {
        match self.0 {
            Sink::Connection(connection, _) => connection.is_trusted,
            Sink::Detached(call) => call.is_trusted,
            Sink::LocalBytes(..) | Sink::LocalTyped(..) | Sink::LocalOneway(_) => true,
        }
    }

    /// Returns memory for a part of the reply. Never waits.
    pub(crate) fn loan(self, bytes: usize) -> Result<Loan, Status> {
        match self.0 {
            Sink::Connection(connection, _) => {
                let loan = connection.loan(bytes);
                loan.map_err(|why| connection.no_loan(&why, Deadline::NEVER))
            }
            // What is lent belongs to the loop's thread; from here the reply is copied anyway.
            Sink::Detached(_)
            | Sink::LocalBytes(..)
            | Sink::LocalTyped(..)
            | Sink::LocalOneway(_) => Ok(Loan::plain(bytes)),
        }
    }

    /// Returns the same call for a reply that comes after the method has returned, or from another
    /// thread.
    pub(crate) fn detach(self) -> DetachedCall {
        let sink = match self.0 {
            Sink::Connection(connection, call) => DetachedSink::connection(connection, call),
            Sink::LocalBytes(LocalCall { later, .. }, activity)
            | Sink::LocalTyped(later, activity) => {
                DetachedSink::local(&later.answer(), &activity.mailbox)
            }
            Sink::LocalOneway(activity) => {
                DetachedSink::oneway(Some(&activity.mailbox), ConnectionKey::NONE, User::Own)
            }
            Sink::Detached(call) => {
                call.sink.watch_end();
                call.sink.clone()
            }
        };
        DetachedCall { sink, peer: self.peer(), is_trusted: self.is_trusted() }
    }
}
