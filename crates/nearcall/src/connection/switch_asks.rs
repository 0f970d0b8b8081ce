//! Asks of a server that a client moves their connection to another mechanism.
//!
//! ```text
//! server: ask_switch ── ASK ──▶ client: begins the switch, or ── DECLINE ──▶ server: report
//! ```
//!
//! **Invariants:** an ask is reported once: by how the switch has ended, by a refusal, by the end
//! of the connection, or at its deadline as not answered yet; an end has one ask open at most;
//! reports run while nothing of the connection is borrowed.
//! **Not here:** the switch itself (`switching.rs`), who may ask for one (`servers/built_in.rs`).

use nearcall_channel::{Mechanism, MechanismSet};
use nearcall_wire::{SwitchError, SwitchReason, SwitchState};

use super::switch_history::{SwitchCause, SwitchUnderWay};
use super::{Connection, Host};
use crate::deadline::Deadline;
use crate::status::{Code, Status};
use crate::trust::Trust;

/// Takes what has become of an ask: the mechanism that the connection has moved to, or why it
/// stays.
pub(super) type AskReport = Box<dyn FnOnce(Result<Mechanism, Status>) + Send>;

/// An ask of this server that is not over.
pub(super) struct OpenAsk {
    pub(super) mechanism: Mechanism,
    /// The client has begun the switch.
    pub(super) has_begun: bool,
    /// When it is reported as not answered yet.
    until: Deadline,
    /// None: it was.
    report: Option<AskReport>,
}

/// The number of a mechanism in an ask: FNV-1a of its name, 32 bits.
fn mechanism_id(mechanism: Mechanism) -> u32 {
    let bytes = mechanism.name().bytes();
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

impl<H: Host> Connection<H> {
    /// Asks the client to move the connection to another mechanism. `report` learns what has become
    /// of that, by `until` at the latest; never waits.
    pub(crate) fn ask_switch(&self, mechanism: Mechanism, until: Deadline, report: AskReport) {
        self.send_control(Deadline::NOW);
        if let Err(outcome) = self.try_ask(mechanism) {
            return report(outcome);
        }
        let (has_begun, report) = (false, Some(report));
        let ask = OpenAsk { mechanism, has_begun, until, report };
        self.switching.borrow_mut().ask = Some(ask);
        self.send_control(Deadline::NOW);
        self.host.note_deadline(until);
    }

    /// The error: there is nothing to wait for.
    fn try_ask(&self, mechanism: Mechanism) -> Result<(), Result<Mechanism, Status>> {
        if self.is_closed() {
            return Err(Err(self.close_reason()));
        }
        if self.mechanism() == mechanism {
            return Err(Ok(mechanism));
        }
        let switching = self.switching.borrow();
        if !switching.is_possible() {
            return Err(Err(Status::failed_precondition(
                "this server does not let its connections switch: its program sets \
                 the limit `switches_per_minute_max` to 0",
            )));
        }
        if let Some(ask) = &switching.ask {
            let text = format!("an earlier ask to move to {} is not over yet", ask.mechanism);
            return Err(Err(Status::unavailable(text)));
        }
        let asked = self.inner.borrow_mut().protocol.ask_switch(mechanism_id(mechanism));
        asked.map(drop).map_err(|error| {
            Err(match error {
                SwitchError::Unsupported => Status::failed_precondition(
                    "the client cannot switch: it is of an earlier version of nearcall",
                ),
                error => Status::unavailable(format!("the client cannot be asked: {error}")),
            })
        })
    }

    /// Reports the ask at its deadline. Returns when that is, if it has not passed.
    pub(crate) fn expire_ask(&self, now: Deadline) -> Deadline {
        // The time of the switch itself may be up.
        self.report_ask();
        let (report, has_begun, outcome) = {
            let switching = &mut *self.switching.borrow_mut();
            match &mut switching.ask {
                Some(ask) if ask.until > now && ask.report.is_some() => return ask.until,
                Some(ask) => (ask.report.take(), ask.has_begun, switching.ask_outcome.clone()),
                None => (None, false, None),
            }
        };
        if let Some(report) = report {
            report(outcome.unwrap_or_else(|| {
                Err(Status::deadline_exceeded(match has_begun {
                    true => "not yet: the client has begun to move, and is not done",
                    false => {
                        "not yet: the client has not answered; one without a loop, or whose calls \
                         are futures, answers, and moves, at its next call"
                    }
                }))
            }));
        }
        Deadline::NEVER
    }

    /// The client has declined what this server has asked for.
    #[cold]
    pub(super) fn take_declined(&self, reason: SwitchReason) {
        let text = match reason {
            SwitchReason::NotAllowed => {
                "the client declined: its program does not follow asks, or follows them to this \
                 mechanism only of servers of its own user or root"
                    .to_owned()
            }
            SwitchReason::Unsupported => {
                "the client declined: it does not have the mechanism, or its loop or its futures \
                 cannot wait for it, or it is on another machine"
                    .to_owned()
            }
            reason => format!("the client declined: {reason}"),
        };
        let status = match reason {
            SwitchReason::NotAllowed | SwitchReason::Unsupported => {
                Status::failed_precondition(text)
            }
            SwitchReason::TooOften => Status::resource_exhausted(text),
            _ => Status::unavailable(text),
        };
        let switching = &mut *self.switching.borrow_mut();
        if let Some(ask) = &switching.ask {
            let ended = self.asked_switch(ask.mechanism);
            switching.history.record(ended, Err(status.message()));
            switching.ask_outcome = Some(Err(status));
        }
    }

    /// Returns what the history is to say of a switch to this mechanism that a server asked for.
    pub(super) fn asked_switch(&self, mechanism: Mechanism) -> SwitchUnderWay {
        let (from, to) = (self.mechanism(), Some(mechanism));
        SwitchUnderWay { from, to, cause: SwitchCause::Asked }
    }

    /// Reports the ask whose switch has ended. While the client has to say yet that it needs the
    /// channel before no more, another ask would be refused, so this one has not ended.
    #[cold]
    pub(super) fn report_ask(&self) {
        if !self.awaits_done() {
            self.give_ask_outcome();
        }
    }

    /// Returns whether the client has yet to say that it needs the channel before no more, and has
    /// time for that.
    fn awaits_done(&self) -> bool {
        let inner = self.inner.borrow();
        let keeps_old = inner.old.as_ref().is_some_and(|old| !old.is_over);
        keeps_old && inner.protocol.switch_state() == SwitchState::AwaitingDone
    }

    fn give_ask_outcome(&self) {
        let (ask, outcome) = {
            let switching = &mut *self.switching.borrow_mut();
            let Some(outcome) = switching.ask_outcome.take() else { return };
            (switching.ask.take(), outcome)
        };
        if let Some(report) = ask.and_then(|ask| ask.report) {
            report(outcome);
        }
    }

    /// Reports the ask of a connection that has ended, maybe after it has moved.
    #[cold]
    pub(super) fn end_ask(&self) {
        let is_open = self.switching.borrow().ask.is_some();
        if is_open {
            let gone = format!("the connection has ended: {}", self.close_reason().message());
            let gone = Err(Status::unavailable(gone));
            self.switching.borrow_mut().ask_outcome.get_or_insert(gone);
            self.give_ask_outcome();
        }
    }

    /// Does what the server asks for, or declines it.
    #[cold]
    pub(super) fn follow_ask(&self, number: u64, mechanism_id: u32) {
        let begun = self.mechanism_to_follow(mechanism_id).and_then(|mechanism| {
            self.begin_switch(mechanism, SwitchCause::Asked).map_err(|status| {
                let ended = self.asked_switch(mechanism);
                let history = &mut self.switching.borrow_mut().history;
                history.record(ended, Err(status.message()));
                match status.code() {
                    Code::FailedPrecondition | Code::InvalidArgument => SwitchReason::Unsupported,
                    _ => SwitchReason::Failed,
                }
            })
        });
        match begun {
            Ok(()) => self.switching.borrow_mut().is_following = !self.host.is_watched(),
            Err(reason) => {
                let _ = self.inner.borrow_mut().protocol.refuse_ask(number, reason);
            }
        }
    }

    /// Returns whether a client without a loop has begun to follow an ask since the last time: a
    /// server does not wait for long until it is done.
    pub(crate) fn take_following(&self) -> bool {
        std::mem::take(&mut self.switching.borrow_mut().is_following)
    }

    /// Returns whether a switch is under way.
    #[inline]
    pub(crate) fn is_switching(&self) -> bool {
        self.switching.borrow().is_under_way()
    }

    /// Returns the mechanism that an ask names, if this client moves to it.
    fn mechanism_to_follow(&self, id: u32) -> Result<Mechanism, SwitchReason> {
        if !self.switching.borrow().follows_asks {
            return Err(SwitchReason::NotAllowed);
        }
        let known = Mechanism::all().find(|known| mechanism_id(*known) == id);
        let mechanism = known.ok_or(SwitchReason::Unsupported)?;
        if !self.host.can_wait_for(mechanism) || mechanism.supported().is_err() {
            return Err(SwitchReason::Unsupported);
        }
        // Over the others, another user's server could do more to this process than answer.
        let is_harmless = MechanismSet::BY_DEFAULT.contains(mechanism);
        let may_change_this = self.peer.uid() == Some(0) || Trust::SameUser.covers(&self.peer);
        match is_harmless || may_change_this {
            true => Ok(mechanism),
            false => Err(SwitchReason::NotAllowed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_mechanism_has_a_number_of_its_own() {
        let numbers: HashSet<u32> = Mechanism::all().map(mechanism_id).collect();
        assert_eq!(numbers.len(), Mechanism::all().count());
        // It never changes, since ends of different versions speak of it.
        assert_eq!(mechanism_id(Mechanism::Shm), 0xe12d_ed49);
    }
}
