//! The frame header of version 1, which opens every message but the greeting.
//!
//! ```text
//!  0 version: u8 = 1 | 1 kind: u8 | 2 flags: u16 = 0
//!  4 metadata_bytes: u16 | 6 status: u16 | 8 body_bytes: u32 | 12 method: u32
//! 16 call id: u64 (of a ping: its number)
//! 24 object: u64
//! 32 timeout: u64, nanoseconds that are left, 0 for no deadline
//! 40 metadata, then body
//! ```
//!
//! Little endian. Fields that a kind does not use are zero. Always true of a decoded [`Frame`]:
//! each field was judged, and its lengths add up to the message.
//! Not here: limits and whether the frame makes sense now (`connection.rs`), the greeting
//! (`hello.rs`).

use crate::calls::CallId;
use crate::error::ProtocolError;
use crate::limits::TIMEOUT_NS_MAX;
use crate::status::Status;
use crate::time::Timeout;

/// Length of a header, of a greeting and of every message from
/// [`poll_transmit`](crate::Connection::poll_transmit), in bytes.
pub const HEADER_BYTES: usize = 40;

/// The version of the protocol that this crate speaks.
pub const VERSION: u8 = 1;

/// An encoded header.
pub type Head = [u8; HEADER_BYTES];

/// What a frame is for. The numbers never change.
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
    /// Reserved: an item of a stream.
    Item = 9,
    /// Reserved: the end of a stream.
    End = 10,
    /// Reserved: room for more items.
    Credit = 11,
}

/// Lengths of what follows a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payload {
    /// Length of the metadata, in bytes.
    pub metadata_bytes: u16,
    /// Length of the body, in bytes.
    pub body_bytes: u32,
}

impl Payload {
    /// Nothing follows.
    pub const EMPTY: Self = Self { metadata_bytes: 0, body_bytes: 0 };

    /// A payload of these lengths, unless no frame can hold as much.
    #[must_use]
    pub fn new(metadata_bytes: usize, body_bytes: usize) -> Option<Self> {
        let metadata_bytes = u16::try_from(metadata_bytes).ok()?;
        Some(Self { metadata_bytes, body_bytes: u32::try_from(body_bytes).ok()? })
    }

    /// Length of the whole message, header included, in bytes.
    #[must_use]
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
        /// What is left until the deadline.
        timeout: Timeout,
        /// Metadata and arguments.
        payload: Payload,
    },
    /// See [`Kind::Oneway`].
    Oneway {
        /// Which object of the peer.
        object: u64,
        /// Which of its methods.
        method: u32,
        /// What is left until the deadline.
        timeout: Timeout,
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
        /// Why it failed; not [`Status::Ok`].
        status: Status,
        /// Metadata and a text in UTF-8.
        payload: Payload,
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
}

impl Frame {
    /// The header as it travels. Copies 40 bytes, nothing else.
    #[must_use]
    pub fn encode(&self) -> Head {
        let zero = Fields::ZERO;
        let fields = match *self {
            Self::Call { id, object, method, timeout, payload } => {
                Fields { id: id.word(), object, method, timeout, payload, ..zero }
            }
            Self::Oneway { object, method, timeout, payload } => {
                Fields { object, method, timeout, payload, ..zero }
            }
            Self::Reply { id, payload } => Fields { id: id.word(), payload, ..zero },
            Self::Error { id, status, payload } => {
                Fields { id: id.word(), status: status.number().into(), payload, ..zero }
            }
            Self::Cancel { id } => Fields { id: id.word(), ..zero },
            Self::Ping { number } | Self::Pong { number } => Fields { id: number, ..zero },
            Self::GoAway => zero,
        };
        fields.write(self.kind())
    }

    /// Judges the first bytes `head` of a message that has `message_bytes`.
    ///
    /// # Errors
    ///
    /// What is wrong with it. Lengths are not compared with limits here.
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
        let frame = fields.frame(head[1])?;
        // What the frame cannot hold would be lost in it, so an unused field that is not zero shows
        // as another header.
        if frame.encode() != *head {
            return Err(ProtocolError::UnusedField { kind: head[1] });
        }
        Ok(frame)
    }

    /// What it is for.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Call { .. } => Kind::Call,
            Self::Oneway { .. } => Kind::Oneway,
            Self::Reply { .. } => Kind::Reply,
            Self::Error { .. } => Kind::Error,
            Self::Cancel { .. } => Kind::Cancel,
            Self::Ping { .. } => Kind::Ping,
            Self::Pong { .. } => Kind::Pong,
            Self::GoAway => Kind::GoAway,
        }
    }

    /// The lengths of what follows the header.
    #[must_use]
    pub const fn payload(&self) -> Payload {
        match *self {
            Self::Call { payload, .. }
            | Self::Oneway { payload, .. }
            | Self::Reply { payload, .. }
            | Self::Error { payload, .. } => payload,
            Self::Cancel { .. } | Self::Ping { .. } | Self::Pong { .. } | Self::GoAway => {
                Payload::EMPTY
            }
        }
    }
}

/// Every field of a header behind version, kind and flags.
struct Fields {
    payload: Payload,
    status: u16,
    method: u32,
    id: u64,
    object: u64,
    timeout: Timeout,
}

impl Fields {
    const ZERO: Self = Self {
        payload: Payload::EMPTY,
        status: 0,
        method: 0,
        id: 0,
        object: 0,
        timeout: Timeout::NEVER,
    };

    fn write(&self, kind: Kind) -> Head {
        let timeout_ns = match self.timeout.as_ns() {
            0 => 1, // Zero means that there is no deadline. Nothing left is as good as 1 ns.
            ns if ns > TIMEOUT_NS_MAX => 0,
            ns => ns,
        };
        let mut head = [0; HEADER_BYTES];
        head[0] = VERSION;
        head[1] = kind as u8;
        head[4..6].copy_from_slice(&self.payload.metadata_bytes.to_le_bytes());
        head[6..8].copy_from_slice(&self.status.to_le_bytes());
        head[8..12].copy_from_slice(&self.payload.body_bytes.to_le_bytes());
        head[12..16].copy_from_slice(&self.method.to_le_bytes());
        head[16..24].copy_from_slice(&self.id.to_le_bytes());
        head[24..32].copy_from_slice(&self.object.to_le_bytes());
        head[32..40].copy_from_slice(&timeout_ns.to_le_bytes());
        head
    }

    fn read(head: &Head) -> Result<Self, ProtocolError> {
        if head[0] != VERSION {
            return Err(ProtocolError::WrongVersion { version: head[0] });
        }
        let flags = u16::from_le_bytes([head[2], head[3]]);
        if flags != 0 {
            return Err(ProtocolError::ReservedBits { flags });
        }
        let timeout_ns = u64_at(head, 32);
        let timeout = match timeout_ns {
            0 => Timeout::NEVER,
            1..=TIMEOUT_NS_MAX => Timeout::from_ns(timeout_ns),
            _ => return Err(ProtocolError::DeadlineOverflow { timeout_ns }),
        };
        Ok(Self {
            payload: Payload {
                metadata_bytes: u16::from_le_bytes([head[4], head[5]]),
                body_bytes: u32_at(head, 8),
            },
            status: u16::from_le_bytes([head[6], head[7]]),
            method: u32_at(head, 12),
            id: u64_at(head, 16),
            object: u64_at(head, 24),
            timeout,
        })
    }

    /// The frame of this kind with those of the fields that it uses.
    fn frame(self, kind: u8) -> Result<Frame, ProtocolError> {
        const CALL: u8 = Kind::Call as u8;
        const ONEWAY: u8 = Kind::Oneway as u8;
        const REPLY: u8 = Kind::Reply as u8;
        const ERROR: u8 = Kind::Error as u8;
        const CANCEL: u8 = Kind::Cancel as u8;
        const PING: u8 = Kind::Ping as u8;
        const PONG: u8 = Kind::Pong as u8;
        const GO_AWAY: u8 = Kind::GoAway as u8;
        let Self { payload, status, method, id: word, object, timeout } = self;
        let id = CallId::from_word(word);
        Ok(match kind {
            CALL => Frame::Call { id, object, method, timeout, payload },
            ONEWAY => Frame::Oneway { object, method, timeout, payload },
            REPLY => Frame::Reply { id, payload },
            ERROR => match Status::from_number(status) {
                None | Some(Status::Ok) => return Err(ProtocolError::BadStatus { status }),
                Some(status) => Frame::Error { id, status, payload },
            },
            CANCEL => Frame::Cancel { id },
            PING => Frame::Ping { number: word },
            PONG => Frame::Pong { number: word },
            GO_AWAY => Frame::GoAway,
            _ => return Err(ProtocolError::UnknownKind { kind }),
        })
    }
}

/// Whether the frame with these first bytes means something else at another time. What is no frame
/// never does.
#[inline]
pub(crate) fn needs_time(head: &[u8]) -> bool {
    let Some(head) = head.first_chunk::<HEADER_BYTES>() else { return false };
    u64_at(head, 32) != 0 || head[1] == Kind::Pong as u8
}

fn u32_at(head: &Head, at: usize) -> u32 {
    u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

fn u64_at(head: &Head, at: usize) -> u64 {
    u64::from(u32_at(head, at)) | u64::from(u32_at(head, at + 4)) << 32
}
