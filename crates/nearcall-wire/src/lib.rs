//! The call protocol of nearcall: frames, open calls, streams, deadlines, cancelling, greeting,
//! draining, and the move of a connection to another channel.
//!
//! Messages and time come in as arguments (`handle_*`, `start_*`, `reply`, ...), and what follows
//! is asked for (`poll_*`).
//! **Invariants:** no input or output, no clock, no threads, no unsafe code; a [`CallProtocol`] is
//! its fields, so equal fields behave equally. Arguments and results are never copied here: the
//! crate deals in their lengths, and writes headers.
//! **Not here:** moving messages (the channel crate), marshalling, routing, waiting (the crate
//! above).
//!
//! **Invariant:** no I/O, no clock, no threads, no unsafe code. *Checked by*
//! `crates_depend_one_way_and_share_lints`, and by the attributes at the end of this comment.
//!
//! # How to drive a connection
//!
//! One [`CallProtocol`] for each channel, the same at both ends: either may call the other.
//!
//! 1. **Receive.** For each message copy its first [`HEADER_BYTES`] bytes out, and pass them with
//!    the length of the message to [`CallProtocol::handle_message`]. Handle the [`Event`] that it
//!    returns while the message is at hand: the metadata lie behind the header, the body behind
//!    them. On an error close the channel.
//! 2. **Time.** When [`CallProtocol::poll_timeout`] has passed, call
//!    [`CallProtocol::handle_timeout`].
//! 3. **Events.** Take [`CallProtocol::poll_event`] until it is empty: expired deadlines, or the
//!    end of the connection.
//! 4. **Transmit.** While [`CallProtocol::has_transmit`], claim [`HEADER_BYTES`] in the channel,
//!    then write what [`CallProtocol::poll_transmit`] returns.
//! 5. **Send.** With nothing left to transmit, claim [`Payload::message_bytes`] first, then call
//!    [`CallProtocol::start_call`] or [`CallProtocol::reply`], and write the header that it
//!    returns, metadata and body. If the claim fails, nothing has happened here.
//! 6. **Stream.** In a call whose [`Shape`] says so, send an item by [`CallProtocol::send_item`]
//!    if there is credit for it, and report what was consumed to [`CallProtocol::consume`]. The
//!    caller ends its items by [`CallProtocol::half_close`], the callee by its reply.
//!    Metadata that are to reach the caller before that go by [`CallProtocol::send_headers`].
//! 7. **Release.** When a call of this end has ended and its value is not needed any more, call
//!    [`CallProtocol::release`]: it keeps its place until then.
//! 8. When the channel is gone, call [`CallProtocol::handle_closed`], then take the events.
//! 9. **Switch.** A connection whose [`Limits::switching`] says so can move to another channel
//!    between two messages: [`CallProtocol::begin_switch`] starts it, [`Event::Switch`] reports
//!    each step, and [`is_last`] which message is the last on the old channel.
//!
//! # Examples
//!
//! ```
//! use nearcall_wire::{CallProtocol, Event, Limits, Payload, Request, Shape, Time};
//!
//! let now = Time::from_ns(0);
//! let mut client = CallProtocol::new([1; 16], Limits::default());
//! let mut server = CallProtocol::new([2; 16], Limits::default());
//! let (one, two) = (client.poll_transmit().unwrap(), server.poll_transmit().unwrap());
//! server.handle_message(now, &one, one.len()).unwrap();
//! client.handle_message(now, &two, two.len()).unwrap();
//!
//! let request = Request {
//!     object: 7,
//!     method: 3,
//!     deadline: Time::from_ns(5_000_000),
//!     payload: Payload { body_bytes: 100, ..Payload::EMPTY },
//!     shape: Shape::Unary,
//! };
//! let (_call, header) = client.start_call(now, &request).unwrap();
//! let event = server.handle_message(now, &header, request.payload.message_bytes()).unwrap();
//! let Some(Event::Call { call, method: 3, .. }) = event else { panic!("{event:?}") };
//! let header = server.reply(call, Payload::EMPTY).unwrap();
//! let event = client.handle_message(now, &header, header.len()).unwrap();
//! assert!(matches!(event, Some(Event::Ended { .. })));
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod call_id;
mod call_table;
mod error;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod hello;
pub mod limits;
mod protocol;
mod references;
mod status;
mod switch;
mod time;

pub use call_id::{CallId, IncomingCall, OutgoingCall, StreamCall};
pub use call_table::{grant_bytes, item_cost};
pub use error::{Ended, ItemError, PingError, ProtocolError, ReplyError, StartError, SwitchError};
pub use frame::{
    Frame, HEADER_BYTES, Head, Kind, Payload, Shape, VERSION, VERSION_MAX, has_references, is_last,
    needs_time, timeout_ns,
};
pub use hello::{Hello, InstanceId};
pub use limits::{Limits, Switching};
pub use protocol::{
    CallProtocol, CancelReason, CloseReason, Counts, End, Event, Peer, PlainMessage, Request,
};
pub use references::{REFERENCE_BYTES_MAX, REFERENCES_MAX, Reference, References};
pub use status::Code;
pub use switch::{SwitchEvent, SwitchReason, SwitchState, SwitchStep};
pub use time::Time;
