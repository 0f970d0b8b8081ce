//! What goes into and comes out of a connection: plain data.
//!
//! **Invariants:** lengths and deadlines in it were judged.
//! **Not here:** when which event comes (`protocol.rs` and the states).

use crate::call_id::{CallId, IncomingCall, OutgoingCall, StreamCall};
use crate::error::ProtocolError;
use crate::frame::{Frame, Head, Kind, Payload, Shape, remaining_ns};
use crate::hello::InstanceId;
use crate::status::Code;
use crate::switch::SwitchEvent;
use crate::time::Time;

/// The target of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Which object of the peer.
    pub object: u64,
    /// Which of its methods.
    pub method: u32,
    /// The time when the call ends by itself. For a one-way message: the time when it expires.
    pub deadline: Time,
    /// Lengths of metadata and arguments.
    pub payload: Payload,
    /// Which ends of the call send items. Of a one-way message: [`Shape::Unary`].
    pub shape: Shape,
}

impl Request {
    /// Returns the header of this request as the call `call`. `now` counts only with a deadline.
    #[must_use]
    #[inline(always)]
    pub fn call_head(&self, now: Time, call: OutgoingCall) -> Head {
        let Self { object, method, deadline, payload, shape } = *self;
        let timeout_ns = remaining_ns(now, deadline);
        Frame::Call { id: call.id(), object, method, timeout_ns, payload, shape }.encode()
    }

    /// Returns the header of this request as a message without a reply. `now` counts only with a
    /// deadline.
    #[must_use]
    #[inline(always)]
    pub fn oneway_head(&self, now: Time) -> Head {
        let Self { object, method, deadline, payload, .. } = *self;
        Frame::Oneway { object, method, timeout_ns: remaining_ns(now, deadline), payload }.encode()
    }
}

impl IncomingCall {
    /// The header of the reply to this call.
    #[must_use]
    #[inline(always)]
    pub fn reply_head(self, payload: Payload) -> Head {
        Frame::Reply { id: self.id(), payload }.encode()
    }
}

impl StreamCall {
    /// The header of an item that this end sends in this call.
    #[must_use]
    #[inline(always)]
    pub fn item_head(self, payload: Payload) -> Head {
        let to_caller = matches!(self, Self::Incoming(_));
        Frame::Item { id: self.id(), to_caller, payload }.encode()
    }
}

impl OutgoingCall {
    /// The header of the half-close of this call: no items follow.
    #[must_use]
    pub fn end_head(self) -> Head {
        Frame::End { id: self.id() }.encode()
    }
}

/// The values that the peer announced in its greeting, and those that both ends keep to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Which process it is. May be our own.
    pub instance: InstanceId,
    /// The version of the protocol that both speak.
    pub version: u8,
    /// Longest message in either direction, in bytes.
    pub message_bytes_max: u32,
    /// Longest metadata in either direction, in bytes.
    pub metadata_bytes_max: u16,
    /// Calls that we may have open there.
    pub calls_out_max: u16,
    /// Bytes of items that it takes on each stream beyond what it has consumed; 0 if it takes part
    /// in no stream.
    pub stream_window_bytes: u32,
}

/// Something that the driver has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The peer has greeted. Calls can be started, unless the connection drains already.
    Opened(Peer),
    /// The peer calls. Answer with `reply` or `fail`, now or later. An object or method that does
    /// not exist is for the driver to refuse.
    Call {
        /// For the answer.
        call: IncomingCall,
        /// Which of our objects.
        object: u64,
        /// Which of its methods.
        method: u32,
        /// When the call ends by itself; [`Time::NEVER`] if never.
        deadline: Time,
        /// Metadata and arguments, behind the header of the message at hand.
        payload: Payload,
        /// Which ends of the call send items.
        shape: Shape,
    },
    /// An item of a stream. When it has been consumed, report the length of its message to
    /// [`consume`](crate::CallProtocol::consume).
    Item {
        /// Of which call.
        call: StreamCall,
        /// The item, behind the header of the message at hand.
        payload: Payload,
    },
    /// Headers of a call of this end: before its items and its end, once.
    Headers {
        /// Of which call.
        call: OutgoingCall,
        /// The metadata, behind the header of the message at hand.
        payload: Payload,
    },
    /// The caller sends no more items in this call of the peer.
    HalfClosed {
        /// Which call.
        call: IncomingCall,
    },
    /// There is credit for an item that was refused for lack of it.
    Credit {
        /// Which call.
        call: StreamCall,
    },
    /// The peer sends a message that is not answered.
    Oneway {
        /// Which of our objects.
        object: u64,
        /// Which of its methods.
        method: u32,
        /// Until when it is of use; [`Time::NEVER`] without a limit.
        deadline: Time,
        /// Metadata and arguments, behind the header of the message at hand.
        payload: Payload,
    },
    /// The caller does not wait for the reply to this call of the peer any more.
    Cancelled {
        /// Which call.
        call: IncomingCall,
        /// For which reason.
        reason: CancelReason,
    },
    /// A call of this end has ended. Release it when its value is not needed any more.
    Ended {
        /// Which call.
        call: OutgoingCall,
        /// In which way.
        end: End,
    },
    /// The peer is alive.
    Pong {
        /// From `ping` to now, in nanoseconds.
        round_trip_ns: u64,
    },
    /// A step of the move to another channel.
    Switch(SwitchEvent),
    /// The peer takes no more calls, and makes none. Those that are open go on.
    PeerDrains,
    /// The peer has answered every call that it had begun, and sends nothing more. The connection
    /// is closed then: close the channel, take the events.
    PeerDrained,
    /// Nothing is left of a draining connection, and both ends take no more. Close the channel.
    /// Comes once, when the last transmit has been taken: ask again after sending.
    Drained,
}

/// A call or one-way message of the peer without a deadline, or the reply that ends an open call of
/// this end: the commonest events, in plain numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainMessage {
    /// `Call`, `Oneway` or `Reply`.
    pub kind: Kind,
    pub(crate) id: CallId,
    /// Which object is called; zero of a reply.
    pub object: u64,
    /// Which of its methods; zero of a reply.
    pub method: u32,
    /// Metadata and body, behind the header of the message at hand.
    pub payload: Payload,
}

impl PlainMessage {
    /// Returns the peer's call, if this is one.
    #[must_use]
    #[inline(always)]
    pub const fn incoming_call(&self) -> IncomingCall {
        IncomingCall(self.id)
    }

    /// Returns the call of this end that a reply ends.
    #[must_use]
    #[inline(always)]
    pub const fn outgoing_call(&self) -> OutgoingCall {
        OutgoingCall(self.id)
    }

    /// Returns the event that it is.
    #[must_use]
    pub fn event(&self) -> Event {
        let &Self { kind, object, method, payload, .. } = self;
        match kind {
            Kind::Call => {
                let (call, deadline, shape) = (self.incoming_call(), Time::NEVER, Shape::Unary);
                Event::Call { call, object, method, deadline, payload, shape }
            }
            Kind::Oneway => Event::Oneway { object, method, deadline: Time::NEVER, payload },
            _ => Event::Ended { call: self.outgoing_call(), end: End::Reply(payload) },
        }
    }
}

/// The end of an outgoing call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The result: metadata and body are behind the header of the message at hand.
    Reply(Payload),
    /// An error from the peer.
    Error {
        /// The code of the error.
        status: Code,
        /// Metadata and a text in UTF-8 which was not checked, behind the header of the message.
        payload: Payload,
    },
    /// Its time was up. The method may or may not have run.
    DeadlineExceeded,
    /// The peer drains and has not begun it, and will not.
    Refused,
    /// Its connection ended. The method may or may not have run, unless the reason is
    /// [`CloseReason::Drained`].
    Closed(CloseReason),
}

impl End {
    /// The status of the call.
    #[must_use]
    pub const fn status(self) -> Code {
        match self {
            Self::Reply(_) => Code::Ok,
            Self::Error { status, .. } => status,
            Self::DeadlineExceeded => Code::DeadlineExceeded,
            Self::Refused | Self::Closed(CloseReason::Closed | CloseReason::Drained) => {
                Code::Unavailable
            }
            Self::Closed(CloseReason::ProtocolViolation(_)) => Code::Internal,
        }
    }
}

/// Why a caller does not wait for the reply any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelReason {
    /// The caller gave it up.
    Cancelled,
    /// Its time was up.
    DeadlineExceeded,
    /// Its connection ended.
    Closed(CloseReason),
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// One of the ends closed it or died.
    Closed,
    /// The peer has answered every call that it had begun: a call without an answer has not run,
    /// and will not.
    Drained,
    /// The peer broke the protocol.
    ProtocolViolation(ProtocolError),
}

/// Counts of what is open on a connection, and of what happened on it without an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Our calls that have not ended.
    pub outgoing_open: usize,
    /// The peer's calls that have not ended.
    pub incoming_open: usize,
    /// Answers that came after we had given the call up.
    pub answers_late: u64,
    /// Calls that were answered with `UNAVAILABLE`, because they crossed our GOAWAY.
    pub calls_refused: u64,
    /// Items that were dropped because this end had ended their call.
    pub items_late: u64,
}
