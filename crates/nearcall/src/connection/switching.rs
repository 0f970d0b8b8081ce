//! A connection that moves to another channel while it is in use.
//!
//! ```text
//! client                                   server
//! begin: line, BEGIN  ── old ──▶           serves the handshake on the line
//!                     ◀─ old ── STEP       has offered
//! accepts             ── old ── STEP ──▶   is done
//!                     ◀─ old ── READY
//! LAST, sends by new  ── old ──▶           sends and receives by new
//!                     ◀─ old ── LAST
//! receives by new     ── new ── DONE ──▶   drops old
//! ```
//!
//! The handshake is that of any connection, over a line of its own, and takes a step when the peer
//! says that it has taken one, so nothing more is watched.
//! LAST takes its place behind what waits for room in the old channel, and its end moves on at
//! once: a server reads the new channel although its client has not read the old one, unless so
//! much waits for that that it reads nothing (`unread.rs`).
//! **Invariants:** an end sends by one channel at a time, and what it receives by the new one was
//! sent behind the last message of the old one; what fails before the client's LAST leaves the old
//! channel in use; an end holds two channels at most, and a server no two for longer than it
//! allows, each time anew while its client reads what was sent before.
//! **Not here:** which step is due (`nearcall-wire`), the handshake (`nearcall-channel`), the old
//! channel (`old_channel.rs`), how a loop watches the new one (`reactor/watching.rs`).

use std::time::Duration;

use nearcall_channel::{
    Endpoint, Handshake, HandshakeError, Mechanism, Options, Refusal, SendError,
};
use nearcall_os::poll;
use nearcall_wire::{SwitchError, SwitchEvent, SwitchReason, SwitchState};

use super::borrowing::Borrowing;
use super::old_channel::OldChannel;
use super::switch_asks::OpenAsk;
use super::switch_history::{AwaitedOutcomes, SwitchCause, SwitchHistory, SwitchUnderWay};
use super::{Connection, Host, Inner, takes_whole, whole_bytes_max};
use crate::deadline::{self, Deadline};
use crate::refusals::RefusalKind;
use crate::status::Status;

/// The switch of one end.
pub(super) struct Switching {
    /// How it opens another channel; none: it does not.
    options: Option<Box<Options>>,
    handshake: Option<Box<Handshake>>,
    /// Open at both ends, and not in use yet.
    opened: Option<Box<Endpoint>>,
    /// What the program wants once the connection has moved to shared memory, or stays.
    deferred: Option<Mechanism>,
    /// How those have ended that something at this end waits for.
    outcomes: AwaitedOutcomes,
    /// What the history is to say of it when it ends.
    under_way: Option<SwitchUnderWay>,
    pub(super) history: SwitchHistory,
    /// It goes on once the loop has let go of the channel before the last switch.
    waits_for_loop: bool,
    /// How long a step of the other end may take.
    timeout: Duration,
    /// When this end gives up: a server, or a client for which nothing else looks at the time.
    limit: Deadline,
    /// What then still has to leave by the channel before: messages, and bytes of one under way.
    left_before: (usize, usize),
    /// When the channel before is asked for room, if it has no descriptor that would report that.
    look_at: Deadline,
    /// What this server has asked the client for.
    pub(super) ask: Option<OpenAsk>,
    /// How it has ended, until that is reported.
    pub(super) ask_outcome: Option<Result<Mechanism, Status>>,
    /// This client moves when its server asks for it.
    pub(super) follows_asks: bool,
    /// It has begun to, and whoever waits next is to wait for the end of that.
    pub(super) is_following: bool,
}

impl Switching {
    pub(super) fn new(options: Option<Options>, timeout: Duration, follows_asks: bool) -> Self {
        Self {
            options: options.map(Box::new),
            handshake: None,
            opened: None,
            deferred: None,
            outcomes: AwaitedOutcomes::default(),
            under_way: None,
            history: SwitchHistory::default(),
            waits_for_loop: false,
            timeout,
            limit: Deadline::NEVER,
            left_before: (0, 0),
            look_at: Deadline::NEVER,
            ask: None,
            ask_outcome: None,
            follows_asks,
            is_following: false,
        }
    }

    /// Returns whether this end can move to another channel.
    pub(super) fn is_possible(&self) -> bool {
        self.options.is_some()
    }

    /// Returns whether a switch has begun and not ended.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Notes how the switch has ended that is under way.
    fn end(&mut self, outcome: Result<(), Status>) {
        if let Some(ended) = self.under_way.take() {
            self.history.record(ended, outcome.as_ref().copied().map_err(Status::message));
            if let Some(ask) = self.ask.as_ref().filter(|ask| ask.has_begun) {
                let moved = outcome.clone().map(|()| ended.to.unwrap_or(ask.mechanism));
                self.ask_outcome = Some(moved);
            }
            self.outcomes.put(ended.cause, outcome);
        }
    }

    /// Drops what the handshake has made.
    fn forget(&mut self) {
        self.handshake = None;
        self.opened = None;
        self.waits_for_loop = false;
        self.limit = Deadline::NEVER;
    }
}

impl<H: Host> Connection<H> {
    /// Begins to move to another channel. The client's part.
    ///
    /// # Errors
    ///
    /// The reason why this connection stays on its channel.
    pub(crate) fn begin_switch(
        &self,
        mechanism: Mechanism,
        cause: SwitchCause,
    ) -> Result<(), Status> {
        if self.switch_due() != Deadline::NEVER {
            // Without a loop nothing else may have looked at the time.
            self.handle_switch_timeout(deadline::now());
        }
        if cause == SwitchCause::Program && self.is_upgrading() && !self.is_closed() {
            return self.defer_switch(mechanism);
        }
        self.begin_switch_by(mechanism, cause, |endpoint, options| {
            endpoint.begin_switch(mechanism, options)
        })
    }

    /// Works like [`begin_switch`](Self::begin_switch), by a handshake that `begin` begins.
    pub(super) fn begin_switch_by(
        &self,
        mechanism: Mechanism,
        cause: SwitchCause,
        begin: impl FnOnce(&mut Endpoint, &Options) -> Result<Handshake, HandshakeError>,
    ) -> Result<(), Status> {
        self.send_control(Deadline::NOW);
        if self.is_closed() {
            return Err(self.close_reason());
        }
        let begun = {
            let switching = &mut *self.switching.borrow_mut();
            let inner = &mut *self.inner.borrow_mut();
            let cannot = |error| self.cannot_switch(mechanism, error);
            inner.protocol.may_begin_switch().map_err(cannot)?;
            let options = switching.options.as_ref();
            let options = options.ok_or_else(|| cannot(SwitchError::Unsupported))?;
            let handshake = begin(&mut inner.endpoint, options);
            let handshake = handshake.map_err(|error| self.not_switched(&error))?;
            switching.handshake = Some(Box::new(handshake));
            drop(switching.outcomes.take(cause));
            let (from, to) = (self.mechanism(), Some(mechanism));
            switching.under_way = Some(SwitchUnderWay { from, to, cause });
            inner.protocol.begin_switch().map(drop).map_err(cannot)
        };
        if begun.is_ok() && matches!(cause, SwitchCause::Asked | SwitchCause::Upgrade) {
            self.begin_limit();
        }
        self.send_control(Deadline::NOW);
        begun
    }

    /// Has a switch of the program begin when the move to shared memory has ended: over `tcp://`
    /// there is none.
    #[cold]
    fn defer_switch(&self, mechanism: Mechanism) -> Result<(), Status> {
        let switching = &mut *self.switching.borrow_mut();
        if switching.deferred.is_some() {
            return Err(self.cannot_switch(mechanism, SwitchError::Busy));
        }
        switching.deferred = Some(mechanism);
        drop(switching.outcomes.take(SwitchCause::Program));
        Ok(())
    }

    /// Begins the switch that has waited for the move to shared memory, once that has ended.
    #[cold]
    pub(super) fn begin_deferred(&self) {
        if self.switching.borrow().deferred.is_none() || self.is_upgrading() {
            return;
        }
        let Some(mechanism) = self.switching.borrow_mut().deferred.take() else { return };
        let begun = match self.mechanism() == mechanism {
            true => Some(Ok(())),
            false => self.begin_switch(mechanism, SwitchCause::Program).err().map(Err),
        };
        if let Some(outcome) = begun {
            self.switching.borrow_mut().outcomes.put(SwitchCause::Program, outcome);
        }
    }

    /// Returns whether another switch has to end before one can begin, whatever it leads to.
    pub(crate) fn awaits_switch(&self) -> bool {
        let may_begin = self.inner.borrow().protocol.may_begin_switch();
        self.is_switching() || matches!(may_begin, Err(it) if it != SwitchError::Unsupported)
    }

    /// Returns what has begun the switch that is under way.
    pub(super) fn switch_cause(&self) -> Option<SwitchCause> {
        self.switching.borrow().under_way.map(|it| it.cause)
    }

    /// Returns how the switch has ended that the client has begun for this cause, once it has.
    pub(crate) fn take_switch_outcome(&self, cause: SwitchCause) -> Option<Result<(), Status>> {
        self.switching.borrow_mut().outcomes.take(cause)
    }

    /// Gives up a switch that takes too long, if it is the one under way and there is a way back,
    /// and returns the status of it.
    #[cold]
    pub(crate) fn late_switch(&self, mechanism: Mechanism, cause: SwitchCause) -> Status {
        let name = &self.name;
        if cause == SwitchCause::Program
            && self.switching.borrow_mut().deferred.take_if(|it| *it == mechanism).is_some()
        {
            let status = Status::deadline_exceeded(format!(
                "{name} has not moved to {} in time, from where it would go to {mechanism}",
                Mechanism::Shm
            ));
            // Has tasks that share the connection see that none of them waits for it any more.
            self.switching.borrow_mut().outcomes.put(cause, Err(status.clone()));
            return status;
        }
        let under_way = self.switching.borrow().under_way;
        let is_it = under_way.is_some_and(|it| (it.to, it.cause) == (Some(mechanism), cause));
        if is_it && self.refuse_switch(SwitchReason::TimedOut) {
            let status = Status::deadline_exceeded(format!(
                "{name} did not open {mechanism} in time; the connection stays on {}",
                self.mechanism()
            ));
            self.stay(status.clone());
            self.send_control(Deadline::NOW);
            return status;
        }
        Status::deadline_exceeded(format!(
            "{name} has opened {mechanism} and did not move to it in time; the connection moves \
             when it does"
        ))
    }

    /// Says of the newest switch that has ended why it was made or what it was worth, in a text
    /// that is cut off after 512 bytes, and, where `cause` is known, what made it begin. False:
    /// there was none, or this end has asked for it and `cause` says otherwise.
    #[cold]
    pub(crate) fn amend_switch(&self, cause: Option<SwitchCause>, note: &str) -> bool {
        self.switching.borrow_mut().history.amend(cause, note)
    }

    /// Says the same of the last switch between two mechanisms that this end has decided on.
    /// Returns whether it is the newest of all.
    #[cold]
    pub(crate) fn amend_automatic_switch(
        &self,
        from: Mechanism,
        to: Mechanism,
        note: &str,
    ) -> bool {
        self.switching.borrow_mut().history.amend_automatic(from, to, note)
    }

    /// Takes a step of the peer.
    #[cold]
    pub(super) fn handle_switch(&self, event: SwitchEvent) {
        match event {
            SwitchEvent::Asked { number, mechanism } => self.follow_ask(number, mechanism),
            SwitchEvent::Declined { reason, .. } => self.take_declined(reason),
            SwitchEvent::Begun { ask, .. } => self.serve_switch(ask.is_some()),
            SwitchEvent::Rejected { reason, ask, .. } => self.reject_switch(ask.is_some(), reason),
            SwitchEvent::Step { .. } => self.advance_switch(),
            SwitchEvent::Ready { .. } => self.complete_switch(),
            SwitchEvent::PeerLast { .. } => self.take_last(),
            SwitchEvent::Done { .. } => self.drop_old(),
            SwitchEvent::Refused { reason, .. } => self.take_switch_refusal(reason),
        }
        self.send_control(Deadline::NOW);
        self.report_ask();
        self.begin_deferred();
        // A peer may have this end answer again and again, and read none of it.
        self.owes_events.set(true);
    }

    /// Begins to serve the handshake of the client.
    fn serve_switch(&self, is_asked: bool) {
        let invited = self.take_invited();
        let begun = {
            let switching = &mut *self.switching.borrow_mut();
            let inner = &mut *self.inner.borrow_mut();
            // Without options this end has not said that it switches.
            let Some(options) = &mut switching.options else { return };
            let mut under_way = self.begun_switch(&mut switching.ask, is_asked);
            let handshake = match invited {
                Some(invited) => {
                    under_way.cause = SwitchCause::Upgrade;
                    invited.serve(options)
                }
                None => inner.endpoint.serve_switch(options),
            };
            switching.under_way = Some(under_way);
            handshake.map(|handshake| switching.handshake = Some(Box::new(handshake)))
        };
        self.begin_limit();
        match begun {
            Ok(()) => self.advance_switch(),
            Err(error) => self.fail_switch(&error),
        }
    }

    /// Gives the client of a server the time for its next part, or the server of a client the time
    /// until the new channel is open.
    fn begin_limit(&self) {
        let switching = &mut *self.switching.borrow_mut();
        switching.limit = Deadline::after(switching.timeout);
        switching.left_before = self.inner.borrow_mut().left_before();
        self.note_deadline(switching.limit);
    }

    /// Takes the line of a switch that was refused before it began, and closes it.
    fn reject_switch(&self, is_asked: bool, reason: SwitchReason) {
        drop(self.take_invited());
        let switching = &mut *self.switching.borrow_mut();
        let Some(options) = &switching.options else { return };
        let handshake = self.inner.borrow_mut().endpoint.serve_switch(options);
        switching.under_way = Some(self.begun_switch(&mut switching.ask, is_asked));
        switching.end(Err(match reason {
            SwitchReason::TooOften => Status::resource_exhausted(
                "the client has switched as often in a minute as this server allows: \
                 its limit `switches_per_minute_max`; try again later",
            ),
            reason => Status::unavailable(format!("this server does not switch: {reason}")),
        }));
        self.note_refusal(RefusalKind::ResourceLimit, &format!("a switch was refused: {reason}"));
        drop(handshake);
    }

    /// Returns what a server knows of a switch that the client has just begun.
    fn begun_switch(&self, ask: &mut Option<OpenAsk>, is_asked: bool) -> SwitchUnderWay {
        match ask {
            Some(ask) if is_asked => {
                ask.has_begun = true;
                self.asked_switch(ask.mechanism)
            }
            _ => SwitchUnderWay { from: self.mechanism(), to: None, cause: SwitchCause::Program },
        }
    }

    /// Takes the step of the handshake that follows the peer's.
    fn advance_switch(&self) {
        match self.advance_handshake() {
            None => {}
            Some(Ok(None)) => {
                // It fails only where the switch has ended meanwhile.
                let _ = self.inner.borrow_mut().protocol.step_switch();
            }
            Some(Ok(Some(opened))) if self.serves.is_some() => {
                let is_ready = self.inner.borrow_mut().protocol.ready_switch().is_ok();
                self.switching.borrow_mut().opened = is_ready.then(|| Box::new(opened));
                self.begin_limit();
            }
            // A client is done by the last packet only, and that is said by another step.
            Some(Ok(Some(_))) => self.refuse_opened(),
            Some(Err(error)) => self.fail_switch(&error),
        }
    }

    /// The server is ready, and so must this client be.
    fn complete_switch(&self) {
        match self.advance_handshake() {
            None => {}
            // What was agreed on has to fit into the new channel, too; and a server that has waited
            // for too long has dropped it.
            Some(Ok(Some(opened)))
                if opened.message_bytes_max() >= self.message_bytes_max.get() as usize
                    && !is_hung_up(&opened) =>
            {
                {
                    let switching = &mut *self.switching.borrow_mut();
                    (switching.opened, switching.limit) = (Some(Box::new(opened)), Deadline::NEVER);
                }
                self.end_old_channel();
            }
            Some(Ok(_)) => self.refuse_opened(),
            Some(Err(error)) => self.fail_switch(&error),
        }
    }

    /// Refuses a channel that came out of turn or does not fit.
    fn refuse_opened(&self) {
        let text = format!("{} opened a channel that does not fit, or has ended", self.name);
        self.stay(Status::unavailable(text));
        self.refuse_switch(SwitchReason::Failed);
    }

    /// Takes a step of the handshake, if one is under way. One that is over is forgotten.
    fn advance_handshake(&self) -> Option<Result<Option<Endpoint>, HandshakeError>> {
        let mut switching = self.switching.borrow_mut();
        let handshake = switching.handshake.as_mut()?;
        let before = handshake.deadline();
        let mut advanced = handshake.advance();
        if matches!(advanced, Ok(None)) && handshake.deadline() == before {
            // A peer that says it has taken a step has sent its packet before.
            advanced = Err(HandshakeError::TimedOut);
        }
        if !matches!(advanced, Ok(None)) {
            switching.handshake = None;
        }
        Some(advanced)
    }

    fn fail_switch(&self, error: &HandshakeError) {
        if let HandshakeError::NotOffered { mechanism, .. } | HandshakeError::Open(mechanism, _) =
            error
            && let Some(under_way) = &mut self.switching.borrow_mut().under_way
        {
            under_way.to = Some(*mechanism);
        }
        self.stay(self.not_switched(error));
        self.note_refusal(RefusalKind::of_handshake(error), &error.to_string());
        self.refuse_switch(match error {
            HandshakeError::NotOffered { .. } => SwitchReason::NotAllowed,
            HandshakeError::TimedOut => SwitchReason::TimedOut,
            _ => SwitchReason::Failed,
        });
    }

    /// Refuses the switch that is under way. False: there is none, or no way back.
    fn refuse_switch(&self, reason: SwitchReason) -> bool {
        self.inner.borrow_mut().protocol.refuse_switch(reason).is_ok()
    }

    /// The peer has refused the switch. Its reason in words is on the line of the handshake.
    fn take_switch_refusal(&self, reason: SwitchReason) {
        let status = match self.advance_handshake() {
            Some(Err(error @ HandshakeError::Refused { .. })) => self.not_switched(&error),
            _ => self.refused(reason),
        };
        self.stay(status);
    }

    /// Ends a switch that has failed: the connection stays on its channel.
    fn stay(&self, reason: Status) {
        let mut switching = self.switching.borrow_mut();
        let cause = switching.under_way.map(|it| it.cause);
        switching.forget();
        switching.end(Err(reason));
        drop(switching);
        if cause == Some(SwitchCause::Upgrade) {
            self.retry_upgrade();
        }
    }

    /// Notes that a connection over `tcp://` was not moved, before anything was begun.
    #[cold]
    pub(super) fn note_no_upgrade(&self, why: &Status) {
        let (from, to) = (self.mechanism(), Some(Mechanism::Shm));
        let ended = SwitchUnderWay { from, to, cause: SwitchCause::Upgrade };
        self.switching.borrow_mut().history.record(ended, Err(why.message()));
    }

    /// Returns whether this server opens `mechanism` beside the channel in use.
    pub(super) fn may_move_to(&self, mechanism: Mechanism) -> bool {
        let switching = self.switching.borrow();
        switching.options.as_ref().is_some_and(|options| options.offered.contains(mechanism))
    }

    /// Returns the status of a switch that was not begun.
    #[cold]
    fn cannot_switch(&self, mechanism: Mechanism, error: SwitchError) -> Status {
        let text = format!("cannot move the connection to {} to {mechanism}: {error}", self.name);
        match error {
            SwitchError::Unsupported => Status::failed_precondition(text),
            _ => Status::unavailable(text),
        }
    }

    /// Returns the status of a switch whose handshake has failed.
    #[cold]
    fn not_switched(&self, error: &HandshakeError) -> Status {
        let text =
            format!("the connection to {} stays on {}: {error}", self.name, self.mechanism());
        match error {
            HandshakeError::BadOptions(_) => Status::invalid_argument(text),
            HandshakeError::Exceeded(_)
            | HandshakeError::Refused { code: Refusal::Exhausted, .. } => {
                Status::resource_exhausted(text)
            }
            HandshakeError::TimedOut | HandshakeError::PeerGone | HandshakeError::Os(_) => {
                Status::unavailable(text)
            }
            _ => Status::failed_precondition(text),
        }
    }

    /// Returns the status of a switch that the peer has refused.
    #[cold]
    fn refused(&self, reason: SwitchReason) -> Status {
        let text = format!("{} refused to move to another channel: {reason}", self.name);
        match reason {
            SwitchReason::NotAllowed | SwitchReason::Unsupported => {
                Status::failed_precondition(text)
            }
            SwitchReason::TooOften => Status::resource_exhausted(text),
            _ => Status::unavailable(text),
        }
    }

    /// The last message of the peer on the old channel has come.
    fn take_last(&self) {
        if self.serves.is_some() {
            let is_open = self.switching.borrow().opened.is_some();
            return if is_open { self.end_old_channel() } else { self.abort_late() };
        }
        let finished = {
            let inner = &mut *self.inner.borrow_mut();
            if let Some(old) = &mut inner.old {
                old.receives = false;
            }
            self.move_receiving(inner);
            inner.protocol.finish_switch()
        };
        if finished.is_ok() {
            self.switching.borrow_mut().end(Ok(()));
        }
        self.drop_old();
        self.host.note_switched();
        self.show_moved();
    }

    /// Sends the last message of this end on its channel, or puts it behind what waits there, and
    /// moves on to the new one.
    fn end_old_channel(&self) {
        let moved = {
            let switching = &mut *self.switching.borrow_mut();
            let inner = &mut *self.inner.borrow_mut();
            // The loop still watches the channel before the last switch.
            switching.waits_for_loop = inner.old.is_some();
            if switching.waits_for_loop {
                return;
            }
            let Some(opened) = switching.opened.take() else { return };
            let sent = match inner.send_last() {
                // What a client has sent by the new channel before it ended is still received.
                Err(SendError::PeerGone) if self.serves.is_some() => {
                    inner.forget_unsent();
                    Ok(true)
                }
                sent => sent,
            };
            match sent {
                Ok(true) => {
                    if self.serves.is_some() {
                        if let Some(under_way) = &mut switching.under_way {
                            under_way.to = Some(opened.mechanism());
                        }
                        switching.end(Ok(()));
                    }
                    self.move_sending(inner, *opened);
                    Ok(true)
                }
                Ok(false) => {
                    switching.forget();
                    let text = format!("{} takes no more calls", self.name);
                    switching.end(Err(Status::unavailable(text)));
                    inner.send_control(Deadline::NOW).map(|_| false)
                }
                Err(error) => Err(error),
            }
        };
        match moved {
            // A client is watched by its old channel until the server's last message.
            Ok(true) if self.serves.is_some() => {
                self.begin_limit();
                // Nothing may wait any more.
                self.unread_due();
                self.host.note_switched();
            }
            Ok(true) => self.show_moved(),
            Ok(false) => {}
            Err(error) => self.channel_failed(&error),
        }
    }

    /// Goes on with a switch that has waited for the loop.
    pub(crate) fn resume_switch(&self) {
        if self.switching.borrow().waits_for_loop && !self.is_closed() {
            self.end_old_channel();
        }
    }

    /// Sends by a new channel from now on; a server receives by it as well.
    fn move_sending(&self, inner: &mut Inner, endpoint: Endpoint) {
        let (lender, borrower) = endpoint.arena().unzip();
        self.lending.set_lender(lender);
        inner.takes_whole = takes_whole(&endpoint);
        inner.whole_bytes_max = whole_bytes_max(&endpoint);
        self.mechanism.set(endpoint.mechanism());
        self.wait.set(endpoint.wait_policy());
        self.packets_seen.set(endpoint.control_packets());
        let before = std::mem::replace(&mut inner.endpoint, endpoint);
        self.readiness.wakes_before.update(|wakes| wakes.plus(before.wakes()));
        let receives = self.serves.is_none();
        let (unflushed, waiting) = (std::mem::take(&mut inner.unflushed), inner.outbox.len());
        let old = OldChannel { endpoint: before, unflushed, waiting, receives, is_over: false };
        inner.next_borrower = borrower;
        inner.old = Some(Box::new(old));
        self.readiness.is_stale.set(self.host.is_watched());
        if !receives {
            self.move_receiving(inner);
        }
    }

    /// Receives by the new channel from now on.
    fn move_receiving(&self, inner: &mut Inner) {
        let trust = inner.endpoint.trust().filter(|_| self.is_trusted);
        inner.borrowing =
            inner.next_borrower.take().map(|borrower| Borrowing::new(borrower, trust));
        inner.protocol.set_references(inner.borrowing.is_some());
    }

    /// Both ends are done with the old channel. One that a loop watches is dropped after that.
    fn drop_old(&self) {
        self.switching.borrow_mut().limit = Deadline::NEVER;
        {
            let Inner { old, outbox, .. } = &mut *self.inner.borrow_mut();
            let Some(channel) = old else { return };
            channel.forget_unsent(outbox);
            channel.is_over = true;
        }
        match self.readiness.tokens.get().before {
            Some(_) => self.host.note_switched(),
            None if self.readiness.is_stale.get() => {}
            None => self.forget_old(),
        }
    }

    /// Drops the old channel, if nothing needs it.
    fn forget_old(&self) {
        let over = self.inner.borrow_mut().old.take_if(|old| old.is_over);
        drop(over);
    }

    /// Uses the channel that the loop watches for messages.
    pub(crate) fn with_watched_endpoint<T>(&self, use_it: impl FnOnce(&mut Endpoint) -> T) -> T {
        let Inner { endpoint, old, .. } = &mut *self.inner.borrow_mut();
        match old {
            Some(old) if self.readiness.is_stale.get() => use_it(&mut old.endpoint),
            _ => use_it(endpoint),
        }
    }

    /// Returns whether room for what is sent now is reported by the channel that is watched: while
    /// a client moves, the last message of its server is waited for instead.
    pub(crate) fn is_room_reported(&self) -> bool {
        let inner = self.inner.borrow();
        inner.old.as_ref().is_none_or(|old| !old.receives || old.has_unsent())
    }

    /// Returns whether messages come by a channel that the loop does not watch yet.
    pub(crate) fn is_between(&self) -> bool {
        let receives = self.inner.borrow().old.as_ref().is_some_and(|old| old.receives);
        self.readiness.is_stale.get() && !receives
    }

    /// Uses the channel before the last switch, if there still is one.
    pub(crate) fn with_old_endpoint<T>(&self, use_it: impl FnOnce(&Endpoint) -> T) -> Option<T> {
        self.inner.borrow().old.as_ref().map(|old| use_it(&old.endpoint))
    }

    /// The loop has ended its watch over the channel before a switch.
    pub(crate) fn forget_watched(&self) {
        self.readiness.is_stale.set(false);
        self.forget_old();
    }

    /// Has the channel before a switch asked for room at this moment.
    #[cold]
    pub(crate) fn ask_old_at(&self, moment: Deadline) {
        self.switching.borrow_mut().look_at = moment;
        self.note_deadline(moment);
    }

    /// Returns when [`handle_switch_timeout`](Self::handle_switch_timeout) has something to do.
    pub(crate) fn switch_due(&self) -> Deadline {
        let switching = self.switching.borrow();
        switching.limit.min(switching.look_at)
    }

    /// Asks the channel before a switch for room, and ends what the other end does not finish in
    /// time.
    #[cold]
    pub(crate) fn handle_switch_timeout(&self, now: Deadline) {
        if self.switching.borrow().look_at <= now {
            self.switching.borrow_mut().look_at = Deadline::NEVER;
            // The loop has it asked again, if that was not enough.
            self.flush_out_of_turn();
        }
        if self.switching.borrow().limit <= now {
            self.switching.borrow_mut().limit = Deadline::NEVER;
            if !self.is_closed() {
                self.end_late_switch();
                self.begin_deferred();
            }
        }
    }

    /// Ends a switch that the other end does not finish.
    #[cold]
    fn end_late_switch(&self) {
        let state = self.inner.borrow().protocol.switch_state();
        match state {
            SwitchState::Idle
            | SwitchState::Asked
            | SwitchState::LastSent
            | SwitchState::LastReceived => {}
            // It reads what was sent before, however slowly.
            SwitchState::AwaitingDone if self.has_read_before() => self.begin_limit(),
            // Its next step may have come, behind requests that are not read before it reads.
            _ if self.is_paused() && !self.inner.borrow().has_unsent_before() => self.begin_limit(),
            SwitchState::Handshaking => {
                self.fail_switch(&HandshakeError::TimedOut);
                self.send_control(Deadline::NOW);
            }
            // Only the client can refuse now, which finds that the channel has ended.
            SwitchState::Ready => {
                let text = self.late_text();
                {
                    let switching = &mut *self.switching.borrow_mut();
                    switching.forget();
                    switching.end(Err(Status::deadline_exceeded(text.clone())));
                }
                self.note_refusal(RefusalKind::HandshakeTimeout, &text);
            }
            SwitchState::AwaitingDone if self.inner.borrow().has_unsent_before() => {
                let text = format!("{}, and has not read what was sent before", self.late_text());
                self.abort_for(RefusalKind::SlowReader, Status::resource_exhausted(text));
            }
            // It can read what was sent although this end is gone from there.
            SwitchState::AwaitingDone => {
                self.note_refusal(RefusalKind::HandshakeTimeout, &self.late_text());
                self.drop_old();
            }
        }
    }

    /// Returns whether something has left by the channel before since the limit began.
    #[cold]
    fn has_read_before(&self) -> bool {
        let left = self.inner.borrow_mut().left_before();
        left != (0, 0) && left < self.switching.borrow().left_before
    }

    /// Ends the connection of a client that wants to move to a channel that this end has dropped.
    #[cold]
    fn abort_late(&self) {
        let text = format!("{} to the channel that it has opened", self.late_text());
        self.abort_for(RefusalKind::HandshakeTimeout, Status::unavailable(text));
    }

    #[cold]
    fn late_text(&self) -> String {
        let timeout = self.switching.borrow().timeout;
        format!("{} has not moved within {timeout:?}", self.name)
    }
}

/// Returns whether the other end of a channel that is not in use yet has dropped it.
fn is_hung_up(opened: &Endpoint) -> bool {
    let polled = poll::poll_one(opened.control_fd(), poll::Interest::HangUp, Deadline::NOW);
    matches!(polled, Ok(Some(_)))
}
