//! What can go wrong: what a peer did that no correct peer does, and one type per operation.
//!
//! **Invariants:** after a [`ProtocolError`] the connection is closed; after every other error it
//! is as good as before, and nothing was or has to be sent.
//! **Not here:** how calls end because of it ([`End`](crate::End)).

use core::error::Error;
use core::fmt;

use crate::status::Code;

/// A protocol violation of the peer. Close the channel; the open calls end with
/// [`CloseReason::ProtocolViolation`](crate::CloseReason::ProtocolViolation).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolError {
    /// A message that is shorter than a header.
    CutOff {
        /// Its length.
        message_bytes: usize,
    },
    /// A message above the limit that both ends know.
    MessageTooLarge {
        /// Its length.
        message_bytes: usize,
    },
    /// The first message is not a greeting: another protocol, or garbage.
    NotAGreeting,
    /// A greeting on a connection that has had one.
    SecondGreeting,
    /// The peer speaks no version that we speak.
    NoCommonVersion {
        /// The oldest that it speaks.
        version_min: u16,
        /// The newest that it speaks.
        version_max: u16,
    },
    /// A frame of another version than the one agreed on, or no frame at all.
    WrongVersion {
        /// What stands in its place.
        version: u8,
    },
    /// A kind of frame that this version does not have, reserved ones among them.
    UnknownKind {
        /// Its number.
        kind: u8,
    },
    /// Flags without meaning are set.
    ReservedBits {
        /// All flags of the frame.
        flags: u16,
    },
    /// A field that this kind of frame does not use is not zero.
    UnusedField {
        /// Number of the kind.
        kind: u8,
    },
    /// References that are none, too many, or do not lie in their order inside the body.
    BadReferences,
    /// Header, announced metadata and announced body do not add up to the message.
    LengthMismatch {
        /// The sum.
        announced_bytes: u64,
        /// Length of the message.
        message_bytes: usize,
    },
    /// More metadata than the limit that both ends know.
    MetadataTooLarge {
        /// Announced length.
        metadata_bytes: u16,
    },
    /// A deadline that is farther away than any can be.
    DeadlineOverflow {
        /// What was announced, in nanoseconds.
        timeout_ns: u64,
    },
    /// An error with a status that does not exist, or with that of success.
    BadStatus {
        /// Its number.
        status: u16,
    },
    /// A call beyond the number of calls that we allow.
    TooManyCalls,
    /// A call with the slot of one that has not ended.
    CallIdInUse,
    /// A call with an id that is not newer than the last one of its slot.
    CallIdReused,
    /// A call or one-way message after the peer itself had announced that there would be no more.
    CallAfterGoAway,
    /// A reply or error for a call that was never made.
    ReplyToUnknownCall,
    /// A second reply or error for one call.
    SecondReply,
    /// A cancel for a call that was never made, or that the peer had replaced by a newer one.
    CancelOfUnknownCall,
    /// A second cancel for one call.
    SecondCancel,
    /// A ping while the answer to the last one could not be sent yet.
    PingTooSoon,
    /// An answer to a ping that was not sent.
    PongWithoutPing,
    /// The peer announced twice that it takes no more calls.
    SecondGoAway,
    /// An item, an end or a credit for a call that does not stream in that direction.
    NotAStream {
        /// Number of the kind.
        kind: u8,
    },
    /// An item of a call that was never made.
    ItemOfUnknownCall,
    /// An item after the half-close, after a cancel, or after the reply or error of its call.
    ItemAfterEnd,
    /// An item that costs more than the credit that was left.
    ItemWithoutCredit {
        /// Length of its message.
        message_bytes: usize,
    },
    /// A half-close of a call that was never made, or that the peer itself had cancelled.
    EndOfUnknownCall,
    /// A second half-close of one call.
    SecondEnd,
    /// A credit for a call that was never made, or that the peer itself had ended.
    CreditOfUnknownCall,
    /// Credit above the window of the end that gives it.
    CreditOverflow {
        /// What it would have added, in bytes.
        bytes: u64,
    },
    /// A credit of nothing.
    EmptyCredit,
    /// Headers of a call that was never made.
    HeadersOfUnknownCall,
    /// Headers after an item, after other headers, or after the reply or error of their call.
    HeadersTooLate,
    /// A step of a switch that does not exist, or that is wrong where the switch stands.
    BadSwitch {
        /// Number of the step.
        step: u16,
    },
}

impl ProtocolError {
    /// Returns the name of the violation without its numbers, such as `second-reply`: for counting.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::CutOff { .. } => "cut-off",
            Self::MessageTooLarge { .. } => "message-too-large",
            Self::NotAGreeting => "not-a-greeting",
            Self::SecondGreeting => "second-greeting",
            Self::NoCommonVersion { .. } => "no-common-version",
            Self::WrongVersion { .. } => "wrong-version",
            Self::UnknownKind { .. } => "unknown-kind",
            Self::ReservedBits { .. } => "reserved-bits",
            Self::UnusedField { .. } => "unused-field",
            Self::BadReferences => "bad-references",
            Self::LengthMismatch { .. } => "length-mismatch",
            Self::MetadataTooLarge { .. } => "metadata-too-large",
            Self::DeadlineOverflow { .. } => "deadline-overflow",
            Self::BadStatus { .. } => "bad-status",
            Self::TooManyCalls => "too-many-calls",
            Self::CallIdInUse => "call-id-in-use",
            Self::CallIdReused => "call-id-reused",
            Self::CallAfterGoAway => "call-after-go-away",
            Self::ReplyToUnknownCall => "reply-to-unknown-call",
            Self::SecondReply => "second-reply",
            Self::CancelOfUnknownCall => "cancel-of-unknown-call",
            Self::SecondCancel => "second-cancel",
            Self::PingTooSoon => "ping-too-soon",
            Self::PongWithoutPing => "pong-without-ping",
            Self::SecondGoAway => "second-go-away",
            Self::NotAStream { .. } => "not-a-stream",
            Self::ItemOfUnknownCall => "item-of-unknown-call",
            Self::ItemAfterEnd => "item-after-end",
            Self::ItemWithoutCredit { .. } => "item-without-credit",
            Self::EndOfUnknownCall => "end-of-unknown-call",
            Self::SecondEnd => "second-end",
            Self::CreditOfUnknownCall => "credit-of-unknown-call",
            Self::CreditOverflow { .. } => "credit-overflow",
            Self::EmptyCredit => "empty-credit",
            Self::HeadersOfUnknownCall => "headers-of-unknown-call",
            Self::HeadersTooLate => "headers-too-late",
            Self::BadSwitch { .. } => "bad-switch",
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CutOff { message_bytes } => {
                write!(f, "sent a message of {message_bytes} bytes, shorter than its header")
            }
            Self::MessageTooLarge { message_bytes } => {
                write!(f, "sent a message of {message_bytes} bytes, above the agreed limit")
            }
            Self::NotAGreeting => f.write_str("did not greet as nearcall does"),
            Self::SecondGreeting => f.write_str("greeted twice"),
            Self::NoCommonVersion { version_min, version_max } => {
                write!(f, "speaks only versions {version_min} to {version_max} of the protocol")
            }
            Self::WrongVersion { version } => write!(f, "sent a frame of version {version}"),
            Self::UnknownKind { kind } => write!(f, "sent a frame of unknown kind {kind}"),
            Self::ReservedBits { flags } => {
                write!(f, "sent a frame with reserved flags {flags:#x}")
            }
            Self::UnusedField { kind } => {
                write!(f, "filled a field that frames of kind {kind} do not use")
            }
            Self::BadReferences => f.write_str("sent references that make no sense"),
            Self::LengthMismatch { announced_bytes, message_bytes } => {
                write!(f, "announced {announced_bytes} bytes and sent {message_bytes}")
            }
            Self::MetadataTooLarge { metadata_bytes } => {
                write!(f, "sent {metadata_bytes} bytes of metadata, above the agreed limit")
            }
            Self::DeadlineOverflow { timeout_ns } => {
                write!(f, "asked for a deadline in {timeout_ns} ns")
            }
            Self::BadStatus { status } => write!(f, "sent an error with status {status}"),
            Self::TooManyCalls => f.write_str("made more calls than allowed"),
            Self::CallIdInUse => f.write_str("used the id of an open call"),
            Self::CallIdReused => f.write_str("used the id of an older call"),
            Self::CallAfterGoAway => f.write_str("made a call after it had sent GOAWAY"),
            Self::ReplyToUnknownCall => f.write_str("replied to a call that was never made"),
            Self::SecondReply => f.write_str("replied twice to one call"),
            Self::CancelOfUnknownCall => f.write_str("cancelled a call that it never made"),
            Self::SecondCancel => f.write_str("cancelled one call twice"),
            Self::PingTooSoon => f.write_str("sent a ping before the answer to its last one"),
            Self::PongWithoutPing => f.write_str("answered a ping that was not sent"),
            Self::SecondGoAway => f.write_str("sent GOAWAY twice"),
            Self::NotAStream { kind } => {
                write!(f, "sent a frame of kind {kind} for a call that does not stream this way")
            }
            Self::ItemOfUnknownCall => f.write_str("sent an item of a call that was never made"),
            Self::ItemAfterEnd => f.write_str("sent an item after the end of its stream"),
            Self::ItemWithoutCredit { message_bytes } => {
                write!(f, "sent an item of {message_bytes} bytes without enough credit")
            }
            Self::EndOfUnknownCall => f.write_str("half-closed a call that it does not make"),
            Self::SecondEnd => f.write_str("half-closed one call twice"),
            Self::CreditOfUnknownCall => f.write_str("gave credit to a call that does not exist"),
            Self::CreditOverflow { bytes } => {
                write!(f, "gave {bytes} bytes of credit, above the window that it announced")
            }
            Self::EmptyCredit => f.write_str("gave a credit of 0 bytes"),
            Self::HeadersOfUnknownCall => f.write_str("sent headers of a call that does not exist"),
            Self::HeadersTooLate => f.write_str("sent headers after what they have to precede"),
            Self::BadSwitch { step } => write!(f, "sent step {step} of a switch out of turn"),
        }
    }
}

/// Why a call or one-way message was not started. Nothing was sent; the peer did not run it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartError {
    /// The peer has not greeted yet. Try again after [`Event::Opened`](crate::Event::Opened).
    NotOpen,
    /// Something waits in [`poll_transmit`](crate::CallProtocol::poll_transmit). Send it, try
    /// again.
    TransmitFirst,
    /// As many calls are open as both ends allow. Try again when one has ended.
    Busy,
    /// The message is above the limit. Send less.
    TooLarge {
        /// Its length.
        message_bytes: usize,
        /// The limit.
        message_bytes_max: usize,
    },
    /// The metadata are above the limit. Send less.
    MetadataTooLarge {
        /// Their length.
        metadata_bytes: usize,
        /// The limit.
        metadata_bytes_max: usize,
    },
    /// No time is left.
    DeadlineExceeded,
    /// One of the ends takes part in no streams. Make a call without one.
    NoStreams,
    /// One of the ends takes no more calls. Connect again, or elsewhere.
    Draining,
    /// The connection is closed. Connect again.
    Closed,
}

impl StartError {
    /// The status that a call has which could not be started.
    #[must_use]
    pub const fn status(self) -> Code {
        match self {
            Self::NotOpen | Self::Draining | Self::Closed => Code::Unavailable,
            Self::TransmitFirst | Self::Busy => Code::ResourceExhausted,
            Self::TooLarge { .. } | Self::MetadataTooLarge { .. } => Code::ResourceExhausted,
            Self::DeadlineExceeded => Code::DeadlineExceeded,
            Self::NoStreams => Code::Unimplemented,
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOpen => f.write_str("the peer has not greeted yet"),
            Self::TransmitFirst => f.write_str("other messages have to be sent first"),
            Self::Busy => f.write_str("too many open calls"),
            Self::TooLarge { message_bytes, message_bytes_max } => write!(
                f,
                "message of {message_bytes} bytes is above the limit of {message_bytes_max}"
            ),
            Self::MetadataTooLarge { metadata_bytes, metadata_bytes_max } => write!(
                f,
                "{metadata_bytes} bytes of metadata are above the limit of {metadata_bytes_max}"
            ),
            Self::DeadlineExceeded => f.write_str("no time is left"),
            Self::NoStreams => f.write_str("one of the ends has a stream window of 0 bytes"),
            Self::Draining => f.write_str("the connection takes no more calls"),
            Self::Closed => f.write_str("the connection is closed"),
        }
    }
}

/// Why a reply was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyError {
    /// The call has ended: cancelled, out of time, answered, or its connection gone. The caller
    /// does not wait; forget the reply.
    Ended,
    /// Something waits in [`poll_transmit`](crate::CallProtocol::poll_transmit). Send it, try
    /// again.
    TransmitFirst,
    /// The message or its metadata are above the limit. The call is still open: fail it with
    /// `RESOURCE_EXHAUSTED`.
    TooLarge,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended => "the call has ended",
            Self::TransmitFirst => "other messages have to be sent first",
            Self::TooLarge => "the reply is above the limit of the connection",
        })
    }
}

/// Why an item or a half-close was not taken. Nothing was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemError {
    /// The call has ended, or this end has half-closed its stream. Send no more.
    Ended,
    /// This end does not send items in this call.
    NotAStream,
    /// Not enough credit is left for it. Try again after [`Event::Credit`](crate::Event::Credit).
    NoCredit,
    /// The message is above the limit. Send less.
    TooLarge {
        /// Its length.
        message_bytes: usize,
        /// The limit.
        message_bytes_max: usize,
    },
}

impl fmt::Display for ItemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("the stream has ended"),
            Self::NotAStream => f.write_str("this end of the call sends no items"),
            Self::NoCredit => f.write_str("the receiver has to read earlier items first"),
            Self::TooLarge { message_bytes, message_bytes_max } => {
                write!(f, "item of {message_bytes} bytes is above the limit of {message_bytes_max}")
            }
        }
    }
}

/// The call had ended before; its end was or will be an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended;

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the call has ended")
    }
}

/// Why no ping was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PingError {
    /// The last one has not been answered yet.
    Unanswered,
    /// The peer has not greeted yet.
    NotOpen,
    /// The connection is closed.
    Closed,
}

impl fmt::Display for PingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unanswered => "the last ping has not been answered",
            Self::NotOpen => "the peer has not greeted yet",
            Self::Closed => "the connection is closed",
        })
    }
}

/// Why a step of a switch was not taken. Nothing was sent, and nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchError {
    /// The connection cannot switch: one of the ends speaks version 1 only.
    Unsupported,
    /// Another switch is under way, or an ask has no answer yet. Try again when it is over.
    Busy,
    /// Something waits in [`poll_transmit`](crate::CallProtocol::poll_transmit). Send it, try
    /// again.
    TransmitFirst,
    /// It is not this end's turn to do that: see
    /// [`switch_state`](crate::CallProtocol::switch_state).
    WrongState,
    /// One of the ends takes no more calls. Refuse what is under way; begin nothing.
    Draining,
    /// The peer has not greeted yet. Try again after [`Event::Opened`](crate::Event::Opened).
    NotOpen,
    /// The connection is closed.
    Closed,
}

impl fmt::Display for SwitchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsupported => "one of the ends cannot switch to another channel",
            Self::Busy => "another switch is under way",
            Self::TransmitFirst => "other messages have to be sent first",
            Self::WrongState => "the switch is not at this step",
            Self::Draining => "the connection takes no more calls",
            Self::NotOpen => "the peer has not greeted yet",
            Self::Closed => "the connection is closed",
        })
    }
}

impl Error for ProtocolError {}
impl Error for StartError {}
impl Error for ReplyError {}
impl Error for ItemError {}
impl Error for Ended {}
impl Error for PingError {}
impl Error for SwitchError {}
