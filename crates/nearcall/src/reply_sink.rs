//! Where the reply to a call goes, and what may be known of its caller.
//!
//! A service and its responders see a call only through this, so that another way for calls to come
//! in is added here and nowhere else.
//! **Invariants:** a one-way message has a sink that drops what it gets.
//! **Not here:** what a service sees of it (`context.rs`, `responder.rs`).

use std::rc::{Rc, Weak};

use nearcall_channel::Loan;
use nearcall_wire::IncomingCall;

use crate::codec::Message;
use crate::connection::Connection;
use crate::deadline::Deadline;
use crate::local_reply::LocalReply;
use crate::peer::Peer;
use crate::status::Status;

/// The sink of a call that is being served.
#[derive(Clone, Copy)]
pub(crate) struct ReplySink<'a>(Sink<'a>);

#[derive(Clone, Copy)]
enum Sink<'a> {
    Connection(&'a Rc<Connection>, Option<IncomingCall>),
    /// To a caller in this thread, as bytes.
    Local(Option<&'a LocalReply>),
}

impl<'a> ReplySink<'a> {
    /// Returns the sink of a call that came over a connection; none for a one-way message.
    #[inline]
    pub(crate) fn connection(connection: &'a Rc<Connection>, call: Option<IncomingCall>) -> Self {
        Self(Sink::Connection(connection, call))
    }

    /// Returns the sink of a call from this thread. None: the reply goes another way, or there is
    /// none.
    #[inline]
    pub(crate) fn local(reply: Option<&'a LocalReply>) -> Self {
        Self(Sink::Local(reply))
    }

    /// Replies to the call.
    #[inline]
    pub(crate) fn reply(self, result: &impl Message) {
        match self.0 {
            Sink::Connection(connection, Some(call)) => connection.reply(call, result),
            Sink::Local(Some(reply)) => reply.end(Ok(result.encode_to_vec())),
            Sink::Connection(_, None) | Sink::Local(None) => {}
        }
    }

    /// Ends the call with an error.
    pub(crate) fn fail(self, status: &Status) {
        match self.0 {
            Sink::Connection(connection, Some(call)) => connection.fail(call, status),
            Sink::Local(Some(reply)) => reply.end(Err(status.clone())),
            Sink::Connection(_, None) | Sink::Local(None) => {}
        }
    }

    /// Receives what has come, and returns whether the caller does not wait any more.
    pub(crate) fn look_for_cancel(self) -> bool {
        match self.0 {
            Sink::Connection(connection, call) => {
                connection.look_ahead();
                connection.is_closed() || call.is_some_and(|call| connection.is_cancelled(call))
            }
            Sink::Local(_) => false,
        }
    }

    /// Returns the caller.
    pub(crate) fn peer(self) -> Peer {
        match self.0 {
            Sink::Connection(connection, _) => connection.peer.clone(),
            Sink::Local(_) => Peer::Local,
        }
    }

    /// Returns whether what the caller lends is read where it lies.
    pub(crate) fn is_trusted(self) -> bool {
        match self.0 {
            Sink::Connection(connection, _) => connection.is_trusted,
            Sink::Local(_) => true,
        }
    }

    /// Returns memory for a part of the reply. Never waits.
    pub(crate) fn loan(self, bytes: usize) -> Result<Loan, Status> {
        match self.0 {
            Sink::Connection(connection, _) => {
                let loan = connection.loan(bytes);
                loan.map_err(|why| connection.no_loan(&why, Deadline::NEVER))
            }
            Sink::Local(_) => Ok(Loan::plain(bytes)),
        }
    }

    /// Returns the same sink for a reply that comes after the method has returned.
    pub(crate) fn detach(self) -> DetachedSink {
        DetachedSink(match self.0 {
            Sink::Connection(connection, Some(call)) => {
                Detached::Connection(Rc::downgrade(connection), call)
            }
            Sink::Local(Some(reply)) => Detached::Local(Rc::clone(reply)),
            Sink::Connection(_, None) | Sink::Local(None) => Detached::Nowhere,
        })
    }
}

/// The sink of a call whose method has returned.
pub(crate) struct DetachedSink(Detached);

enum Detached {
    /// Not the connection itself, which must go when it has ended.
    Connection(Weak<Connection>, IncomingCall),
    Local(LocalReply),
    Nowhere,
}

impl DetachedSink {
    /// Ends the call. If its caller does not wait any more, nothing happens.
    pub(crate) fn finish(&self, answer: Result<&impl Message, &Status>) {
        match &self.0 {
            Detached::Connection(connection, call) => match (connection.upgrade(), answer) {
                (Some(connection), Ok(result)) => connection.reply(*call, result),
                (Some(connection), Err(status)) => connection.fail(*call, status),
                (None, _) => {}
            },
            Detached::Local(reply) => {
                reply.end(answer.map(Message::encode_to_vec).map_err(Status::clone));
            }
            Detached::Nowhere => {}
        }
    }

    /// Returns whether the caller does not wait any more.
    pub(crate) fn is_cancelled(&self) -> bool {
        match &self.0 {
            Detached::Connection(connection, call) => {
                connection.upgrade().is_none_or(|connection| connection.is_cancelled(*call))
            }
            // The caller holds the other reference while it waits.
            Detached::Local(reply) => Rc::strong_count(reply) == 1,
            Detached::Nowhere => true,
        }
    }
}
