//! The frame header of version 1, which opens every message but the greeting.
//!
//! ```text
//!  0 version: u8 = 1 | 1 kind: u8 | 2 flags: u16, bits 0 to 4, the rest 0
//!  4 metadata_bytes: u16 | 6 status: u16 | 8 body_bytes: u32 | 12 method: u32
//! 16 call id: u64 (of a ping, a switch: its number)
//! 24 object: u64 (of a credit: bytes)
//! 32 timeout: u64, nanoseconds that are left, 0 for no deadline
//! 40 metadata, then body
//! ```
//!
//! Bit 0, REFERENCES: the body names memory outside of it (`references.rs`); calls, one-way
//! messages and replies may have it. Bits 1 and 2, CALLER_STREAMS and CALLEE_STREAMS: the side
//! sends items under the id of this call. Bit 3, TO_CALLER: an item or a credit goes to the caller
//! of the call, so the id is one of the receiver's. Bit 4, NOT_BEGUN, of an error: the call was not
//! begun and will not be; of a GOAWAY: that holds for every call without an answer, and nothing
//! follows. Of a switch the status is the step (`switch/step.rs`), method and object are what it
//! carries. Headers have metadata and no body. Little endian. Fields that a kind does not use are
//! zero.
//! **Invariants** of a decoded [`Frame`]: each field was judged, and its lengths add up to the
//! message.
//! **Not here:** limits and whether the frame makes sense now (`protocol.rs`), the greeting
//! (`hello.rs`).

use crate::call_id::CallId;
use crate::error::ProtocolError;
use crate::limits::TIMEOUT_NS_MAX;
use crate::status::Code;
use crate::switch::SwitchStep;
use crate::time::Time;

/// Length of a header, of a greeting and of every message from
/// [`poll_transmit`](crate::CallProtocol::poll_transmit), in bytes.
pub const HEADER_BYTES: usize = 40;

/// The version of the frames, which later versions of the protocol have in common.
pub const VERSION: u8 = 1;

/// The newest version of the protocol that this crate speaks. Version 2 has [`Kind::Switch`], which
/// only ends that switch announce: see [`Limits::switching`](crate::Limits::switching). Version 3
/// has [`Kind::Headers`] as well.
pub const VERSION_MAX: u8 = 3;

/// An encoded header.
pub type Head = [u8; HEADER_BYTES];

/// The purpose of a frame. The numbers never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A call, to be answered by one reply or error.
    Call = 1,
    /// A message to a method that is never answered.
    Oneway = 2,
    /// The result of a call.
    Reply = 3,
    /// The failure of a call.
    Error = 4,
    /// The caller does not want the result any more.
    Cancel = 5,
    /// Asks for a pong.
    Ping = 6,
    /// The answer to a ping.
    Pong = 7,
    /// The sender starts and takes no more calls.
    GoAway = 8,
    /// An item of a stream.
    Item = 9,
    /// The caller sends no more items.
    End = 10,
    /// The receiver of a stream has room for more items.
    Credit = 11,
    /// A step of the move to another channel. Since version 2.
    Switch = 12,
    /// Metadata that reach the caller before the first item and the answer. Since version 3.
    Headers = 13,
}

/// Which ends of a call send items beside its request and its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[repr(u8)]
pub enum Shape {
    /// Neither: one request, one reply.
    #[default]
    Unary = 0,
    /// The caller: items up to its half-close, then one reply.
    CallerStreams = 1,
    /// The callee: items up to its reply, whose body is empty.
    CalleeStreams = 2,
    /// Both, independently of each other.
    BothStream = 3,
}

impl Shape {
    /// Returns whether the caller sends items.
    #[must_use]
    #[inline]
    pub const fn caller_streams(self) -> bool {
        self as u8 & 1 != 0
    }

    /// Returns whether the callee sends items.
    #[must_use]
    #[inline]
    pub const fn callee_streams(self) -> bool {
        self as u8 & 2 != 0
    }

    const fn flags(self) -> u16 {
        (self as u16) << 1
    }

    const fn from_flags(flags: u16) -> Self {
        match flags >> 1 & 3 {
            0 => Self::Unary,
            1 => Self::CallerStreams,
            2 => Self::CalleeStreams,
            _ => Self::BothStream,
        }
    }
}

/// Lengths of what follows a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payload {
    /// Length of the metadata, in bytes.
    pub metadata_bytes: u16,
    /// Length of the body, in bytes.
    pub body_bytes: u32,
    /// The body begins with a table of memory outside of it: [`References`](crate::References).
    /// Only between ends that agreed on it ([`Limits::references`](crate::Limits::references)).
    pub references: bool,
}

impl Payload {
    /// Nothing follows.
    pub const EMPTY: Self = Self { metadata_bytes: 0, body_bytes: 0, references: false };

    /// A payload of these lengths, unless no frame can hold as much.
    #[must_use]
    #[inline(always)]
    pub fn new(metadata_bytes: usize, body_bytes: usize) -> Option<Self> {
        let metadata_bytes = u16::try_from(metadata_bytes).ok()?;
        Some(Self { metadata_bytes, body_bytes: u32::try_from(body_bytes).ok()?, ..Self::EMPTY })
    }

    /// Length of the whole message, header included, in bytes.
    #[must_use]
    #[inline]
    pub fn message_bytes(self) -> usize {
        (HEADER_BYTES + usize::from(self.metadata_bytes)).saturating_add(self.body_bytes as usize)
    }
}

/// A frame, by what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// See [`Kind::Call`].
    Call {
        /// Chosen by the caller.
        id: CallId,
        /// Which object of the peer.
        object: u64,
        /// Which of its methods.
        method: u32,
        /// What is left until the deadline, in nanoseconds; 0 for no deadline.
        timeout_ns: u64,
        /// Metadata and arguments.
        payload: Payload,
        /// Which ends send items.
        shape: Shape,
    },
    /// See [`Kind::Oneway`].
    Oneway {
        /// Which object of the peer.
        object: u64,
        /// Which of its methods.
        method: u32,
        /// What is left until the deadline, in nanoseconds; 0 for no deadline.
        timeout_ns: u64,
        /// Metadata and arguments.
        payload: Payload,
    },
    /// See [`Kind::Reply`].
    Reply {
        /// The call's.
        id: CallId,
        /// Metadata and result.
        payload: Payload,
    },
    /// See [`Kind::Error`].
    Error {
        /// The call's.
        id: CallId,
        /// Why it failed; not [`Code::Ok`].
        status: Code,
        /// Metadata and a text in UTF-8.
        payload: Payload,
    },
    /// An error with [`Code::Unavailable`] and no text: the call was not begun and will not be.
    Refused {
        /// The call's.
        id: CallId,
    },
    /// See [`Kind::Cancel`].
    Cancel {
        /// The call's.
        id: CallId,
    },
    /// See [`Kind::Ping`].
    Ping {
        /// Comes back in the answer.
        number: u64,
    },
    /// See [`Kind::Pong`].
    Pong {
        /// From the ping.
        number: u64,
    },
    /// See [`Kind::GoAway`].
    GoAway,
    /// The last GOAWAY: the sender has answered every call that it had begun, takes no other, and
    /// sends nothing more.
    LastGoAway,
    /// See [`Kind::Item`].
    Item {
        /// The call's.
        id: CallId,
        /// It goes from the callee to the caller.
        to_caller: bool,
        /// The item; no metadata.
        payload: Payload,
    },
    /// See [`Kind::End`].
    End {
        /// The call's.
        id: CallId,
    },
    /// See [`Kind::Credit`].
    Credit {
        /// The call's.
        id: CallId,
        /// It goes from the callee to the caller, for items that go the other way.
        to_caller: bool,
        /// So many more bytes of items; not 0.
        bytes: u64,
    },
    /// See [`Kind::Switch`].
    Switch {
        /// Of the ask or of the switch.
        number: u64,
        /// What it says.
        step: SwitchStep,
    },
    /// See [`Kind::Headers`].
    Headers {
        /// The call's.
        id: CallId,
        /// Length of the metadata, in bytes.
        metadata_bytes: u16,
    },
}

impl Frame {
    /// The header as it travels. Copies 40 bytes, nothing else.
    #[must_use]
    #[inline(always)]
    pub fn encode(&self) -> Head {
        let zero = Fields::ZERO;
        let fields = match *self {
            Self::Call { id, object, method, timeout_ns, payload, shape } => {
                let (id, flags) = (id.word(), shape.flags());
                Fields { id, flags, object, method, timeout_ns, payload, ..zero }
            }
            Self::Oneway { object, method, timeout_ns, payload } => {
                Fields { object, method, timeout_ns, payload, ..zero }
            }
            Self::Reply { id, payload } => Fields { id: id.word(), payload, ..zero },
            Self::Error { id, status, payload } => {
                Fields { id: id.word(), status: status.number().into(), payload, ..zero }
            }
            Self::Refused { id } => {
                let status = Code::Unavailable.number().into();
                Fields { id: id.word(), flags: NOT_BEGUN, status, ..zero }
            }
            Self::Cancel { id } | Self::End { id } => Fields { id: id.word(), ..zero },
            Self::Item { id, to_caller, payload } => {
                Fields { id: id.word(), flags: direction(to_caller), payload, ..zero }
            }
            Self::Credit { id, to_caller, bytes } => {
                Fields { id: id.word(), flags: direction(to_caller), object: bytes, ..zero }
            }
            Self::Ping { number } | Self::Pong { number } => Fields { id: number, ..zero },
            Self::GoAway => zero,
            Self::LastGoAway => Fields { flags: NOT_BEGUN, ..zero },
            Self::Switch { number, step } => {
                let (method, object) = step.fields();
                Fields { id: number, status: step.number(), method, object, ..zero }
            }
            Self::Headers { id, .. } => Fields { id: id.word(), payload: self.payload(), ..zero },
        };
        fields.write(self.kind())
    }

    /// Judges the first bytes `head` of a message that has `message_bytes`.
    ///
    /// # Errors
    ///
    /// What is wrong with it. Lengths are not compared with limits here.
    #[inline(always)]
    pub fn decode(head: &[u8], message_bytes: usize) -> Result<Self, ProtocolError> {
        let cut_off = ProtocolError::CutOff { message_bytes };
        let head: &Head = head.first_chunk().ok_or(cut_off)?;
        if message_bytes < HEADER_BYTES {
            return Err(cut_off);
        }
        let fields = Fields::read(head)?;
        let payload = fields.payload;
        let announced_bytes =
            HEADER_BYTES as u64 + u64::from(payload.metadata_bytes) + u64::from(payload.body_bytes);
        if announced_bytes != message_bytes as u64 {
            return Err(ProtocolError::LengthMismatch { announced_bytes, message_bytes });
        }
        fields.frame(head[1])
    }

    /// Returns the purpose of the frame.
    #[must_use]
    #[inline]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Call { .. } => Kind::Call,
            Self::Oneway { .. } => Kind::Oneway,
            Self::Reply { .. } => Kind::Reply,
            Self::Error { .. } | Self::Refused { .. } => Kind::Error,
            Self::Cancel { .. } => Kind::Cancel,
            Self::Ping { .. } => Kind::Ping,
            Self::Pong { .. } => Kind::Pong,
            Self::GoAway | Self::LastGoAway => Kind::GoAway,
            Self::Item { .. } => Kind::Item,
            Self::End { .. } => Kind::End,
            Self::Credit { .. } => Kind::Credit,
            Self::Switch { .. } => Kind::Switch,
            Self::Headers { .. } => Kind::Headers,
        }
    }

    /// The lengths of what follows the header.
    #[must_use]
    #[inline]
    pub const fn payload(&self) -> Payload {
        match *self {
            Self::Call { payload, .. }
            | Self::Oneway { payload, .. }
            | Self::Reply { payload, .. }
            | Self::Error { payload, .. }
            | Self::Item { payload, .. } => payload,
            Self::Headers { metadata_bytes, .. } => Payload { metadata_bytes, ..Payload::EMPTY },
            Self::Cancel { .. } | Self::Ping { .. } | Self::Pong { .. } => Payload::EMPTY,
            Self::End { .. } | Self::Credit { .. } | Self::Refused { .. } => Payload::EMPTY,
            Self::GoAway | Self::LastGoAway | Self::Switch { .. } => Payload::EMPTY,
        }
    }
}

/// Every field of a header behind version, kind and flags.
///
/// Read and written as five words: pieces of words that are read as a whole soon after wait until
/// they have left the processor's store buffer.
struct Fields {
    payload: Payload,
    /// Without [`REFERENCES`], which the payload has.
    flags: u16,
    status: u16,
    method: u32,
    id: u64,
    object: u64,
    /// Zero if there is no deadline.
    timeout_ns: u64,
}

impl Fields {
    const ZERO: Self = Self {
        payload: Payload::EMPTY,
        flags: 0,
        status: 0,
        method: 0,
        id: 0,
        object: 0,
        timeout_ns: 0,
    };

    #[inline(always)]
    fn write(&self, kind: Kind) -> Head {
        let Payload { metadata_bytes, body_bytes, references } = self.payload;
        let first = u64::from(VERSION)
            | u64::from(kind as u8) << 8
            | u64::from(u16::from(references) | self.flags) << 16
            | u64::from(metadata_bytes) << 32
            | u64::from(self.status) << 48;
        let second = u64::from(body_bytes) | u64::from(self.method) << 32;
        let mut head = [0; HEADER_BYTES];
        head[0..8].copy_from_slice(&first.to_le_bytes());
        head[8..16].copy_from_slice(&second.to_le_bytes());
        head[16..24].copy_from_slice(&self.id.to_le_bytes());
        head[24..32].copy_from_slice(&self.object.to_le_bytes());
        head[32..40].copy_from_slice(&self.timeout_ns.to_le_bytes());
        head
    }

    #[inline(always)]
    fn read(head: &Head) -> Result<Self, ProtocolError> {
        let [first, second] = [word_at(head, 0), word_at(head, 8)];
        let [version, _, flags @ ..] = low(first).to_le_bytes();
        if version != VERSION {
            return Err(ProtocolError::WrongVersion { version });
        }
        let flags = u16::from_le_bytes(flags);
        if flags & !(REFERENCES | STREAMS | TO_CALLER | NOT_BEGUN) != 0 {
            return Err(ProtocolError::ReservedBits { flags });
        }
        let timeout_ns = word_at(head, 32);
        if timeout_ns > TIMEOUT_NS_MAX {
            return Err(ProtocolError::DeadlineOverflow { timeout_ns });
        }
        let [.., metadata_low, metadata_high, status_low, status_high] = first.to_le_bytes();
        Ok(Self {
            payload: Payload {
                metadata_bytes: u16::from_le_bytes([metadata_low, metadata_high]),
                body_bytes: low(second),
                references: flags & REFERENCES != 0,
            },
            flags: flags & !REFERENCES,
            status: u16::from_le_bytes([status_low, status_high]),
            method: low(second >> 32),
            id: word_at(head, 16),
            object: word_at(head, 24),
            timeout_ns,
        })
    }

    /// The frame of this kind, if no field is filled that it does not use.
    #[inline(always)]
    fn frame(self, kind: u8) -> Result<Frame, ProtocolError> {
        const CALL: u8 = Kind::Call as u8;
        const ONEWAY: u8 = Kind::Oneway as u8;
        const REPLY: u8 = Kind::Reply as u8;
        const ERROR: u8 = Kind::Error as u8;
        const CANCEL: u8 = Kind::Cancel as u8;
        const PING: u8 = Kind::Ping as u8;
        const PONG: u8 = Kind::Pong as u8;
        const GO_AWAY: u8 = Kind::GoAway as u8;
        const ITEM: u8 = Kind::Item as u8;
        const END: u8 = Kind::End as u8;
        const CREDIT: u8 = Kind::Credit as u8;
        const SWITCH: u8 = Kind::Switch as u8;
        const HEADERS: u8 = Kind::Headers as u8;
        let Self { payload, flags, status, method, id: word, object, timeout_ns } = self;
        let id = CallId::from_word(word);
        // Groups of fields that some kinds do not use, zero if none of them is filled.
        let target = u64::from(method) | object | timeout_ns;
        let payload_word = u64::from(payload.metadata_bytes) | u64::from(payload.body_bytes);
        let status_word = u64::from(status);
        let bare = target | payload_word | status_word;
        let all_flags = flags | u16::from(payload.references);
        if all_flags != 0 && all_flags & !flags_of(kind) != 0 {
            return Err(ProtocolError::ReservedBits { flags: all_flags });
        }
        let (to_caller, not_begun) = (flags & TO_CALLER != 0, flags & NOT_BEGUN != 0);
        Ok(match kind {
            CALL if status_word == 0 => {
                let shape = Shape::from_flags(flags);
                Frame::Call { id, object, method, timeout_ns, payload, shape }
            }
            ONEWAY if status_word | word == 0 => {
                Frame::Oneway { object, method, timeout_ns, payload }
            }
            REPLY if status_word | target == 0 => Frame::Reply { id, payload },
            ERROR => match Code::from_number(status) {
                None | Some(Code::Ok) => return Err(ProtocolError::BadStatus { status }),
                Some(Code::Unavailable) if not_begun && target | payload_word == 0 => {
                    Frame::Refused { id }
                }
                Some(status) if target == 0 && !not_begun => Frame::Error { id, status, payload },
                Some(_) => return Err(ProtocolError::UnusedField { kind }),
            },
            CANCEL if bare == 0 => Frame::Cancel { id },
            PING if bare == 0 => Frame::Ping { number: word },
            PONG if bare == 0 => Frame::Pong { number: word },
            GO_AWAY if bare | word == 0 && not_begun => Frame::LastGoAway,
            GO_AWAY if bare | word == 0 => Frame::GoAway,
            ITEM if target | status_word | u64::from(payload.metadata_bytes) == 0 => {
                Frame::Item { id, to_caller, payload }
            }
            END if bare == 0 => Frame::End { id },
            CREDIT if object == 0 => return Err(ProtocolError::EmptyCredit),
            CREDIT if u64::from(method) | timeout_ns | payload_word | status_word == 0 => {
                Frame::Credit { id, to_caller, bytes: object }
            }
            SWITCH if payload_word | timeout_ns == 0 => {
                let step = SwitchStep::from_fields(status, method, object);
                let step = step.ok_or(ProtocolError::BadSwitch { step: status })?;
                Frame::Switch { number: word, step }
            }
            HEADERS if target | status_word | u64::from(payload.body_bytes) == 0 => {
                Frame::Headers { id, metadata_bytes: payload.metadata_bytes }
            }
            CALL..=HEADERS => return Err(ProtocolError::UnusedField { kind }),
            _ => return Err(ProtocolError::UnknownKind { kind }),
        })
    }
}

/// The flag of a body that names memory outside of it.
const REFERENCES: u16 = 1;
/// The flags of a call whose ends send items.
const STREAMS: u16 = 6;
/// The flag of an item or a credit that goes to the caller of its call.
const TO_CALLER: u16 = 8;
/// The flag of an error or a GOAWAY: what it ends without an answer has not begun.
const NOT_BEGUN: u16 = 16;

const fn direction(to_caller: bool) -> u16 {
    if to_caller { TO_CALLER } else { 0 }
}

/// The flags that a frame of this kind may have.
const fn flags_of(kind: u8) -> u16 {
    const CALL: u8 = Kind::Call as u8;
    const ONEWAY: u8 = Kind::Oneway as u8;
    const REPLY: u8 = Kind::Reply as u8;
    const ITEM: u8 = Kind::Item as u8;
    const CREDIT: u8 = Kind::Credit as u8;
    const ERROR: u8 = Kind::Error as u8;
    const GO_AWAY: u8 = Kind::GoAway as u8;
    match kind {
        CALL => REFERENCES | STREAMS,
        ONEWAY | REPLY => REFERENCES,
        ITEM | CREDIT => TO_CALLER,
        ERROR | GO_AWAY => NOT_BEGUN,
        _ => 0,
    }
}

/// Returns what is left of a deadline as it travels: 0 for no deadline, else at least 1.
#[must_use]
#[inline]
pub(crate) fn remaining_ns(now: Time, deadline: Time) -> u64 {
    if deadline == Time::NEVER {
        return 0;
    }
    match deadline.as_ns().saturating_sub(now.as_ns()) {
        0 => 1, // Nothing left is as good as 1 ns.
        ns if ns > TIMEOUT_NS_MAX => 0,
        ns => ns,
    }
}

/// Returns the deadline of a frame that came at `now` with `timeout_ns`.
#[inline]
pub(crate) fn deadline(now: Time, timeout_ns: u64) -> Time {
    match timeout_ns {
        0 => Time::NEVER,
        ns => now.after_ns(ns),
    }
}

/// A call or one-way message without a deadline or a reply, as most are, in plain numbers.
///
/// The same judgement as [`Frame::decode`], for the commonest frames: no step of it stores more
/// than a word, so that everything stays in registers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plain {
    pub(crate) id: CallId,
    pub(crate) object: u64,
    pub(crate) method: u32,
    pub(crate) payload: Payload,
}

impl Plain {
    /// Reads which of the three kinds it may be. `None`: [`Frame::decode`] has to judge it.
    #[inline(always)]
    pub(crate) fn kind(head: &Head) -> Option<Kind> {
        const CALL: u64 = VERSION as u64 | (Kind::Call as u64) << 8;
        const REPLY: u64 = VERSION as u64 | (Kind::Reply as u64) << 8;
        const ONEWAY: u64 = VERSION as u64 | (Kind::Oneway as u64) << 8;
        match word_at(head, 0) & !METADATA_BYTES {
            CALL => Some(Kind::Call),
            REPLY => Some(Kind::Reply),
            ONEWAY => Some(Kind::Oneway),
            _ => None,
        }
    }

    /// Reads the frame of this kind: `Call`, `Reply` or `Oneway`. `None`: [`Frame::decode`] has to
    /// judge it.
    #[inline(always)]
    pub(crate) fn read(head: &Head, kind: Kind, message_bytes: usize) -> Option<Self> {
        let (first, second) = (word_at(head, 0), word_at(head, 8));
        let (id, object) = (CallId::from_word(word_at(head, 16)), word_at(head, 24));
        let (metadata_bytes, body_bytes) = ((first >> 32) & 0xFFFF, second & 0xFFFF_FFFF);
        let (method, timeout) = (second >> 32, word_at(head, 32));
        let unused = match kind {
            Kind::Reply => method | object | timeout,
            Kind::Oneway => word_at(head, 16) | timeout,
            _ => timeout,
        };
        let announced_bytes = HEADER_BYTES as u64 + metadata_bytes + body_bytes;
        if unused != 0 || announced_bytes != message_bytes as u64 {
            return None;
        }
        let [m0, m1, ..] = metadata_bytes.to_le_bytes();
        let metadata_bytes = u16::from_le_bytes([m0, m1]);
        let payload = Payload { metadata_bytes, body_bytes: low(second), references: false };
        Some(Self { id, object, method: low(method), payload })
    }
}

/// Where the first word of a header has the length of the metadata.
const METADATA_BYTES: u64 = 0xFFFF << 32;

/// Returns whether [`CallProtocol::handle_message`](crate::CallProtocol::handle_message) depends on
/// the time for a message with these first bytes: it carries a timeout, answers a ping, or belongs
/// to a switch. If not, any `now` will do, and the driver need not read its clock.
#[must_use]
#[inline]
pub fn needs_time(head: &[u8]) -> bool {
    let Some(head) = head.first_chunk::<HEADER_BYTES>() else { return false };
    word_at(head, 32) != 0 || head[1] == Kind::Pong as u8 || head[1] == Kind::Switch as u8
}

/// Returns the timeout that a call or one-way message with these first bytes asks for, in
/// nanoseconds; 0 if it asks for none or is something else.
#[must_use]
#[inline]
pub fn timeout_ns(head: &[u8]) -> u64 {
    match head.first_chunk::<HEADER_BYTES>() {
        Some(head) if [Kind::Call as u8, Kind::Oneway as u8].contains(&head[1]) => {
            word_at(head, 32)
        }
        _ => 0,
    }
}

/// Returns whether a header that [`poll_transmit`](crate::CallProtocol::poll_transmit) gave is the
/// last message of this end on its channel: send it there, and everything behind it on the new one.
#[must_use]
pub fn is_last(head: &Head) -> bool {
    let frame = Frame::decode(head, HEADER_BYTES);
    matches!(frame, Ok(Frame::Switch { step: SwitchStep::Last, .. }))
}

/// Returns whether the message with these first bytes names memory outside of it, if it is a frame.
#[must_use]
#[inline]
pub fn has_references(head: &[u8]) -> bool {
    matches!(head, [VERSION, _, flags, ..] if flags & 1 != 0)
}

#[inline]
fn word_at(head: &Head, at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&head[at..at + 8]);
    u64::from_le_bytes(word)
}

/// The lower half.
#[inline]
const fn low(word: u64) -> u32 {
    let [a, b, c, d, ..] = word.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}
