//! The frames of a switch: their steps, the reasons of those that refuse, and their numbers.
//!
//! **Invariants:** a number that was given out never changes its meaning.
//! **Not here:** which step is right when (`switch.rs`), the header around it (`frame.rs`).

use core::fmt;

/// What a frame of a switch says. It carries a number: of the ask in `Ask` and `Decline`, of the
/// switch in all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SwitchStep {
    /// The server wants the client to begin a switch.
    Ask {
        /// To which mechanism: a number that both drivers understand.
        mechanism: u32,
    },
    /// The client has begun: the line of the new handshake lies on the control line.
    Begin {
        /// The ask that it answers; 0 if the client begins by itself.
        ask: u64,
    },
    /// The sender has sent a packet of the handshake: the receiver is to advance its own.
    Step,
    /// The last message of the sender on the old channel.
    Last,
    /// The client has taken the server's last message: the server may drop the old channel.
    Done,
    /// The switch will not be. Both stay on the old channel.
    Refuse(SwitchReason),
    /// The client does not do what the server asked for.
    Decline(SwitchReason),
    /// A step, after which the server's handshake is done: only the client can refuse from here on.
    Ready,
}

/// Why a switch was refused, or an ask declined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum SwitchReason {
    /// Another switch is under way. Ask again when it is over.
    Busy = 1,
    /// A setting of that end forbids it. Do not ask again.
    NotAllowed = 2,
    /// That end does not have the mechanism, or cannot switch. Do not ask again.
    Unsupported = 3,
    /// More switches within a minute than that end allows. Try again later.
    TooOften = 4,
    /// The handshake took too long.
    TimedOut = 5,
    /// The handshake failed; that end knows why.
    Failed = 6,
    /// The connection takes no more calls, so it begins no switch.
    Draining = 7,
}

impl SwitchReason {
    /// Every reason.
    pub const ALL: [Self; 7] = [
        Self::Busy,
        Self::NotAllowed,
        Self::Unsupported,
        Self::TooOften,
        Self::TimedOut,
        Self::Failed,
        Self::Draining,
    ];

    pub(crate) const fn number(self) -> u32 {
        self as u32
    }

    fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.number() == number)
    }
}

impl fmt::Display for SwitchReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "another switch is under way",
            Self::NotAllowed => "it is not allowed",
            Self::Unsupported => "it is not supported",
            Self::TooOften => "too many switches within a minute",
            Self::TimedOut => "the handshake took too long",
            Self::Failed => "the handshake failed",
            Self::Draining => "the connection takes no more calls",
        })
    }
}

impl SwitchStep {
    /// Its number in the frame.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::Ask { .. } => ASK,
            Self::Begin { .. } => BEGIN,
            Self::Step => STEP,
            Self::Last => LAST,
            Self::Done => DONE,
            Self::Refuse(_) => REFUSE,
            Self::Decline(_) => DECLINE,
            Self::Ready => READY,
        }
    }

    /// What goes into the fields `method` and `object` of the frame.
    pub(crate) const fn fields(self) -> (u32, u64) {
        match self {
            Self::Ask { mechanism } => (mechanism, 0),
            Self::Begin { ask } => (0, ask),
            Self::Refuse(reason) | Self::Decline(reason) => (reason.number(), 0),
            Self::Step | Self::Last | Self::Done | Self::Ready => (0, 0),
        }
    }

    /// The step with this number and these fields, if there is one.
    pub(crate) fn from_fields(number: u16, method: u32, object: u64) -> Option<Self> {
        let step = match number {
            ASK => Self::Ask { mechanism: method },
            BEGIN => Self::Begin { ask: object },
            STEP => Self::Step,
            LAST => Self::Last,
            DONE => Self::Done,
            REFUSE => Self::Refuse(SwitchReason::from_number(method)?),
            DECLINE => Self::Decline(SwitchReason::from_number(method)?),
            READY => Self::Ready,
            _ => return None,
        };
        (step.fields() == (method, object)).then_some(step)
    }
}

const ASK: u16 = 1;
const BEGIN: u16 = 2;
const STEP: u16 = 3;
const LAST: u16 = 4;
const DONE: u16 = 5;
const REFUSE: u16 = 6;
const DECLINE: u16 = 7;
const READY: u16 = 8;
