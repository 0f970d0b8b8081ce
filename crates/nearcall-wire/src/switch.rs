//! One end of the move of a connection to another channel, as a state machine.
//!
//! The client opens the new channel by an ordinary handshake on a line of its own, and both move
//! to it between two messages. The frames travel among the messages of the connection:
//!
//! ```text
//! client: Idle ── begin ──► Handshaking ◄─ STEP ─► ── READY ──► Ready ── end ──► LastSent
//!           ▲  ▲                │ REFUSE, refuse                 │ refuse           │ LAST
//!           │  └────────────────┴────────────────────────────────┘                  ▼
//!           └─────────────────────────── finish ──────────────────────────── LastReceived
//!
//! server: Idle ── BEGIN ──► Handshaking ◄─ STEP ─► ── ready ──► Ready ── LAST ──► LastReceived
//!           ▲  ▲                │ REFUSE, refuse                 │ REFUSE           │ end
//!           │  └────────────────┴────────────────────────────────┘                  ▼
//!           └─────────────────────────── DONE ────────────────────────────── AwaitingDone
//! ```
//!
//! Capitals are frames of the peer, the rest is this end's driver. Before that a server may ASK for
//! a switch: the client answers by DECLINE, or by a BEGIN that names the ask.
//! **Invariants:** each end sends one LAST on the old channel, nothing after it there, and nothing
//! on the new one before it. LAST of the client comes only after READY, after which the server
//! cannot refuse; so no end refuses what the other has already done. At most one ask and one switch
//! are open, and [`PENDING_MAX`] frames of them wait, however the peer behaves.
//! **Not here:** the handshake and both channels (the driver), when to switch (the crate above).
//!
//! **Invariant:** a switch loses, doubles and reorders no message, both ends come to the same
//! channel, and no state is dead, however steps cross, handshakes fail and ends drain. *Checked by*
//! `src/switch/tests.rs`, which explores every state of two ends with small numbers of messages,
//! switches and asks, and `tests/it/simulation.rs`.
//!
//! **Invariant:** each step of a switch is right in the states that name it and closes the
//! connection in all others. *Checked by* `tests/it/switches.rs`.

mod rate;
mod step;
#[cfg(test)]
mod tests;

pub use self::step::{SwitchReason, SwitchStep};

use self::rate::Rate;
use crate::error::{ProtocolError, SwitchError};
use crate::time::Time;

/// What a frame of a switch brings, for the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchEvent {
    /// The server asks for a switch. Answer by `begin_switch` or `refuse_ask`.
    Asked {
        /// Of the ask.
        number: u64,
        /// What it asks for.
        mechanism: u32,
    },
    /// The client does not do what this end asked for.
    Declined {
        /// Of the ask.
        number: u64,
        /// Why not.
        reason: SwitchReason,
    },
    /// The client has begun a switch: take the line of the handshake from the control line.
    Begun {
        /// Of the switch.
        number: u64,
        /// The ask of this end that it answers.
        ask: Option<u64>,
    },
    /// The client has begun a switch, and it is refused already: take its line from the control
    /// line and close it.
    Rejected {
        /// Of the switch.
        number: u64,
        /// The ask of this end that it answers.
        ask: Option<u64>,
        /// Why it was refused.
        reason: SwitchReason,
    },
    /// A packet of the handshake waits: advance it, without waiting.
    Step {
        /// Of the switch.
        number: u64,
    },
    /// The last packet of the handshake waits, and the server is done. If this end then is not,
    /// refuse the switch; else `end_channel`.
    Ready {
        /// Of the switch.
        number: u64,
    },
    /// Nothing follows on the old channel. The server: `end_channel`, and receive from the new one.
    /// The client: receive from the new one, drop the old one, and `finish_switch`.
    PeerLast {
        /// Of the switch.
        number: u64,
    },
    /// The client needs the old channel no more: drop it.
    Done {
        /// Of the switch.
        number: u64,
    },
    /// The peer gives the switch up: drop what the handshake has made.
    Refused {
        /// Of the switch.
        number: u64,
        /// Why the peer refuses.
        reason: SwitchReason,
    },
}

/// Where an end stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SwitchState {
    /// No switch is under way.
    Idle,
    /// No switch is under way, and an ask has no answer yet.
    Asked,
    /// The handshake is under way: each end can refuse.
    Handshaking,
    /// The server's handshake is done: the client goes on or refuses.
    Ready,
    /// The client has ended its old channel, and receives from it until the server ends it too.
    LastSent,
    /// The peer has ended the old channel: this end is to follow.
    LastReceived,
    /// The server has moved, and keeps the old channel until the client has read it.
    AwaitingDone,
}

/// The answer to an ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Ask {
    None,
    Open(u64),
    /// The client's answer waits to be sent.
    Answered,
}

/// One end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Switch {
    is_client: bool,
    state: SwitchState,
    /// Nothing is begun any more.
    drains: bool,
    /// Number of the newest switch.
    newest: u64,
    /// The newest switch of which the peer sends nothing any more, by what it has sent since.
    settled: u64,
    ask: Ask,
    /// Number of the newest ask.
    asks: u64,
    /// The server has not seen our newest BEGIN, as far as this client knows.
    may_be_asked: bool,
    rate: Rate,
    pending: Pending,
}

type Taken = Result<Option<SwitchEvent>, ProtocolError>;

impl Switch {
    pub(crate) fn new(is_client: bool, per_minute_max: u32) -> Self {
        Self {
            is_client,
            state: SwitchState::Idle,
            drains: false,
            newest: 0,
            settled: 0,
            ask: Ask::None,
            asks: 0,
            may_be_asked: true,
            rate: Rate::new(per_minute_max),
            pending: Pending::default(),
        }
    }

    pub(crate) fn state(&self) -> SwitchState {
        match (self.state, self.ask) {
            (SwitchState::Idle, Ask::Open(_)) => SwitchState::Asked,
            (state, _) => state,
        }
    }

    /// Whether an end has ended the old channel, so that the switch has to be finished.
    pub(crate) fn is_moving(&self) -> bool {
        use SwitchState::{AwaitingDone, LastReceived, LastSent};
        matches!(self.state, LastSent | LastReceived | AwaitingDone)
    }

    /// One of the ends takes no more calls.
    pub(crate) fn drain(&mut self) {
        self.drains = true;
    }

    pub(crate) fn ask(&mut self, mechanism: u32) -> Result<u64, SwitchError> {
        self.check_may_begin(false)?;
        if self.ask != Ask::None {
            return Err(SwitchError::Busy);
        }
        self.asks += 1;
        self.ask = Ask::Open(self.asks);
        self.pending.push(self.asks, SwitchStep::Ask { mechanism });
        Ok(self.asks)
    }

    pub(crate) fn begin(&mut self) -> Result<u64, SwitchError> {
        self.check_may_begin(true)?;
        let ask = if let Ask::Open(ask) = self.ask { ask } else { 0 };
        if ask != 0 {
            self.ask = Ask::Answered;
        }
        self.newest += 1;
        // A server whose ask has just been answered has no other under way.
        (self.state, self.may_be_asked) = (SwitchState::Handshaking, ask == 0);
        self.pending.push(self.newest, SwitchStep::Begin { ask });
        Ok(self.newest)
    }

    fn check_may_begin(&self, as_client: bool) -> Result<(), SwitchError> {
        match self.state {
            _ if self.is_client != as_client => Err(SwitchError::WrongState),
            _ if self.drains => Err(SwitchError::Draining),
            SwitchState::Idle if self.pending.is_empty() => Ok(()),
            SwitchState::Idle => Err(SwitchError::TransmitFirst),
            _ => Err(SwitchError::Busy),
        }
    }

    pub(crate) fn decline(&mut self, ask: u64, reason: SwitchReason) -> Result<(), SwitchError> {
        if !self.is_client || self.ask != Ask::Open(ask) {
            return Err(SwitchError::WrongState);
        }
        self.answer(reason);
        Ok(())
    }

    fn answer(&mut self, reason: SwitchReason) {
        self.ask = Ask::Answered;
        self.pending.push(self.asks, SwitchStep::Decline(reason));
    }

    pub(crate) fn step(&mut self) -> Result<(), SwitchError> {
        self.check(self.state == SwitchState::Handshaking)?;
        if !self.pending.has(SwitchStep::Step) {
            self.pending.push(self.newest, SwitchStep::Step);
        }
        Ok(())
    }

    pub(crate) fn ready(&mut self) -> Result<(), SwitchError> {
        self.check(!self.is_client && self.state == SwitchState::Handshaking)?;
        self.state = SwitchState::Ready;
        self.pending.push(self.newest, SwitchStep::Ready);
        Ok(())
    }

    pub(crate) fn refuse(&mut self, reason: SwitchReason) -> Result<(), SwitchError> {
        let is_possible = match self.state {
            SwitchState::Handshaking => true,
            SwitchState::Ready => self.is_client,
            _ => false,
        };
        self.check(is_possible)?;
        self.state = SwitchState::Idle;
        self.pending.push(self.newest, SwitchStep::Refuse(reason));
        Ok(())
    }

    pub(crate) fn end(&mut self) -> Result<(), SwitchError> {
        self.state = match self.state {
            SwitchState::Ready if self.is_client && self.drains => {
                return Err(SwitchError::Draining);
            }
            SwitchState::Ready if self.is_client => SwitchState::LastSent,
            SwitchState::LastReceived if !self.is_client => SwitchState::AwaitingDone,
            _ => return Err(SwitchError::WrongState),
        };
        self.pending.push(self.newest, SwitchStep::Last);
        Ok(())
    }

    pub(crate) fn finish(&mut self) -> Result<(), SwitchError> {
        self.check(self.is_client && self.state == SwitchState::LastReceived)?;
        (self.state, self.settled) = (SwitchState::Idle, self.newest);
        self.pending.push(self.newest, SwitchStep::Done);
        Ok(())
    }

    fn check(&self, is_right: bool) -> Result<(), SwitchError> {
        if is_right { Ok(()) } else { Err(SwitchError::WrongState) }
    }

    /// Takes a frame of the peer.
    pub(crate) fn handle(&mut self, now: Time, number: u64, step: SwitchStep) -> Taken {
        match (step, self.is_client) {
            (SwitchStep::Ask { mechanism }, true) => self.handle_ask(now, number, mechanism),
            (SwitchStep::Begin { ask }, false) => self.handle_begin(now, number, ask),
            (SwitchStep::Decline(reason), false) if self.is_asking(number) => {
                self.ask = Ask::None;
                Ok(Some(SwitchEvent::Declined { number, reason }))
            }
            (SwitchStep::Step | SwitchStep::Refuse(_), _) | (SwitchStep::Ready, true) => {
                self.handle_handshake(number, step)
            }
            (SwitchStep::Last, _) => self.handle_last(number),
            (SwitchStep::Done, false) if self.is_at(number, SwitchState::AwaitingDone, step) => {
                (self.state, self.settled) = (SwitchState::Idle, number);
                Ok(Some(SwitchEvent::Done { number }))
            }
            _ => bad(step),
        }
    }

    /// Whether this server has sent this ask, and has no answer.
    fn is_asking(&self, number: u64) -> bool {
        self.ask == Ask::Open(number) && !self.pending.has(SwitchStep::Ask { mechanism: 0 })
    }

    /// Whether the newest switch has this number and is in this state, and the peer can know it.
    fn is_at(&self, number: u64, state: SwitchState, step: SwitchStep) -> bool {
        let before = match step {
            SwitchStep::Last if self.is_client => SwitchStep::Last,
            SwitchStep::Last => SwitchStep::Ready,
            SwitchStep::Done => SwitchStep::Last,
            _ => SwitchStep::Begin { ask: 0 },
        };
        number == self.newest && self.state == state && !self.pending.has(before)
    }

    fn handle_ask(&mut self, now: Time, number: u64, mechanism: u32) -> Taken {
        let step = SwitchStep::Ask { mechanism };
        let is_welcome = match self.state {
            SwitchState::Idle => !self.pending.has(SwitchStep::Done),
            SwitchState::Handshaking => self.may_be_asked,
            _ => false,
        };
        if self.ask != Ask::None || number != self.asks + 1 || !is_welcome {
            return bad(step);
        }
        (self.asks, self.ask, self.may_be_asked) = (number, Ask::Open(number), false);
        let reason = match self.state {
            SwitchState::Handshaking => SwitchReason::Busy,
            _ if self.drains => SwitchReason::Draining,
            _ if !self.rate.count(now) => SwitchReason::TooOften,
            _ => return Ok(Some(SwitchEvent::Asked { number, mechanism })),
        };
        self.answer(reason);
        Ok(None)
    }

    fn handle_begin(&mut self, now: Time, number: u64, ask: u64) -> Taken {
        let is_next = self.state == SwitchState::Idle && number == self.newest + 1;
        if !is_next || ask != 0 && !self.is_asking(ask) {
            return bad(SwitchStep::Begin { ask });
        }
        let ask = (ask != 0).then_some(ask);
        if ask.is_some() {
            self.ask = Ask::None;
        }
        // The client waits for nothing of an older one, and sends nothing of it.
        self.pending.forget(self.newest);
        (self.settled, self.newest) = (self.newest, number);
        let reason = match self.drains {
            true => SwitchReason::Draining,
            false if !self.rate.count(now) => SwitchReason::TooOften,
            false => {
                self.state = SwitchState::Handshaking;
                return Ok(Some(SwitchEvent::Begun { number, ask }));
            }
        };
        self.pending.push(number, SwitchStep::Refuse(reason));
        Ok(Some(SwitchEvent::Rejected { number, ask, reason }))
    }

    /// Takes STEP, READY or REFUSE.
    fn handle_handshake(&mut self, number: u64, step: SwitchStep) -> Taken {
        let has_begun = number < self.newest || !self.pending.has(SwitchStep::Begin { ask: 0 });
        if number <= self.settled || number > self.newest || !has_begun {
            return bad(step);
        }
        let is_over = number < self.newest || self.state == SwitchState::Idle;
        let is_ready = match self.state {
            SwitchState::Handshaking => false,
            SwitchState::Ready => true,
            _ if is_over => false,
            _ => return bad(step),
        };
        // A server says nothing after READY. A client's step may cross it.
        if is_ready && self.is_client && !is_over {
            return bad(step);
        }
        self.settled = number - 1;
        if number == self.newest {
            self.may_be_asked = is_over;
        }
        match step {
            SwitchStep::Refuse(reason) => {
                self.settled = number;
                if is_over {
                    return Ok(None);
                }
                self.state = SwitchState::Idle;
                self.pending.forget(number);
                Ok(Some(SwitchEvent::Refused { number, reason }))
            }
            _ if is_over || is_ready => Ok(None), // It has crossed what made it needless.
            SwitchStep::Ready => {
                self.state = SwitchState::Ready;
                Ok(Some(SwitchEvent::Ready { number }))
            }
            _ => Ok(Some(SwitchEvent::Step { number })),
        }
    }

    fn handle_last(&mut self, number: u64) -> Taken {
        let before = if self.is_client { SwitchState::LastSent } else { SwitchState::Ready };
        // A client has answered the ask before.
        if !self.is_at(number, before, SwitchStep::Last) || self.ask != Ask::None {
            return bad(SwitchStep::Last);
        }
        self.state = SwitchState::LastReceived;
        Ok(Some(SwitchEvent::PeerLast { number }))
    }

    pub(crate) fn has_transmit(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether the next frame has to be the last on its channel.
    pub(crate) fn is_ending(&self) -> bool {
        matches!(self.pending.front(), Some((_, SwitchStep::Last)))
    }

    /// The next frame to send.
    pub(crate) fn poll_transmit(&mut self) -> Option<(u64, SwitchStep)> {
        let (number, step) = self.pending.pop()?;
        if matches!(step, SwitchStep::Decline(_))
            || matches!(step, SwitchStep::Begin { ask } if ask != 0)
        {
            self.ask = Ask::None;
        }
        Some((number, step))
    }
}

fn bad(step: SwitchStep) -> Taken {
    Err(ProtocolError::BadSwitch { step: step.number() })
}

/// Most frames that wait: of a client BEGIN, STEP, REFUSE or LAST, and DECLINE; of a server ASK,
/// STEP, and READY or REFUSE.
const PENDING_MAX: usize = 4;

/// Frames that wait to be sent, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Pending([Option<(u64, SwitchStep)>; PENDING_MAX]);

impl Pending {
    fn push(&mut self, number: u64, step: SwitchStep) {
        let free = self.0.iter_mut().find(|frame| frame.is_none());
        *free.expect("each step waits once") = Some((number, step));
    }

    fn front(&self) -> Option<(u64, SwitchStep)> {
        self.0[0]
    }

    fn pop(&mut self) -> Option<(u64, SwitchStep)> {
        let front = self.0[0].take();
        self.0.rotate_left(1);
        front
    }

    fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    /// Whether a step of this kind waits.
    fn has(&self, step: SwitchStep) -> bool {
        self.0.iter().flatten().any(|(_, waiting)| waiting.number() == step.number())
    }

    /// Takes out what belongs to the handshake of a switch.
    fn forget(&mut self, number: u64) {
        let kept = self.0.map(|frame| {
            frame.filter(|&(of, step)| {
                use SwitchStep::{Ready, Refuse, Step};
                of != number || !matches!(step, Step | Ready | Refuse(_))
            })
        });
        self.0 = Self::default().0;
        for (number, step) in kept.into_iter().flatten() {
            self.push(number, step);
        }
    }
}
