//! What is started, restarted and stopped, and when: the decisions of a host, without doing them.
//!
//! What has happened comes in by `handle_*`, with the time; what is to be done comes out by
//! [`take_actions`](Supervisor::take_actions); when to come back says
//! [`next_due`](Supervisor::next_due). A *slot* is a unit of the configuration, an *instance* one
//! process that serves it, now or until it has drained.
//!
//! **Invariants:** at most one instance of a unit is not on its way out, except while another one
//! replaces it; a restart that fails changes nothing; a slot that has failed is not started again
//! by itself. No process, no clock, no descriptor.
//! **Not here:** replacing (`supervisor/replacement.rs`), what is shown (`supervisor/report.rs`),
//! doing it (`host.rs`).
//!
//! **Invariant:** an orderly restart fails no call, and one whose next process does not serve
//! changes nothing. *Checked by* `orderly_restarts_lose_no_call`,
//! `services_move_between_process_and_library_by_their_file_only`, both under load, and
//! `a_restart_that_fails_changes_nothing`.
//!
//! **Invariant:** the supervisor reads no clock and starts nothing; at most one process serves a
//! unit, except while it is replaced. *Checked by* `random_histories_keep_the_invariants`.

mod replacement;
mod report;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use nearcall_channel::Address;

use self::replacement::Replacement;
pub(crate) use self::report::{End, Report, State};
use crate::config::{Config, Restart, Unit, UnitName};
use crate::limits::STEADY_AFTER;

/// The time since some moment before the host started.
pub(crate) type Time = Duration;

/// One process of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct InstanceId(pub(crate) u64);

/// Who waits for the end of a replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) u64);

/// What the host is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Start the process of a unit, with the sockets of its services.
    Start(InstanceId, Rc<Unit>),
    /// Ask it to end: SIGTERM.
    Terminate(InstanceId),
    /// End it: SIGKILL.
    Kill(InstanceId),
    /// No service listens here any more.
    Close(Address),
    /// Give the sockets that are open the access of the configuration, which has changed.
    SetAccess,
    /// Write it to the log.
    Report(Report),
    /// Reply to whoever has asked for a replacement.
    Reply(Token, Result<String, String>),
    /// Every service is up, or has failed once: the host itself is ready.
    Settled,
    /// End the host.
    Exit(Ending),
}

/// How a host has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All services have ended, in order.
    Done,
    /// All services were killed, because a second signal came.
    AtOnce,
}

/// The decisions of a host.
#[derive(Debug)]
pub(crate) struct Supervisor {
    config: Config,
    slots: Vec<Slot>,
    instances: BTreeMap<InstanceId, Instance>,
    replacement: Option<Replacement>,
    is_stopping: bool,
    is_settled: bool,
    next_id: u64,
    actions: Vec<Action>,
}

/// A unit of the configuration.
#[derive(Debug)]
struct Slot {
    unit: Rc<Unit>,
    state: SlotState,
    /// Ends in a row, each of them soon after the start.
    failures: u32,
    restarts: u64,
    last_end: Option<(End, Vec<String>)>,
    was_up: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SlotState {
    /// For those that it needs.
    Waiting,
    Running(InstanceId),
    BackingOff(Time),
    /// By itself, and its policy leaves it so.
    Ended,
    Failed,
}

#[derive(Debug)]
struct Instance {
    unit: Rc<Unit>,
    phase: Phase,
    /// Services that do not answer now, and how often each of them has not.
    unresponsive: BTreeMap<String, Missed>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Missed {
    is_now: bool,
    count: u64,
}

#[derive(Debug)]
enum Phase {
    /// These services have not answered yet that they serve.
    Starting {
        since: Time,
        by: Time,
        missing: BTreeSet<String>,
    },
    Up {
        since: Time,
    },
    /// It was killed for this reason, and its end has not been seen.
    Doomed {
        up_since: Option<Time>,
        why: End,
    },
    /// It was asked to end, and is killed then.
    Retiring {
        kill_at: Option<Time>,
    },
}

impl Slot {
    fn new(unit: Rc<Unit>) -> Self {
        let (state, was_up) = (SlotState::Waiting, false);
        Self { unit, state, failures: 0, restarts: 0, last_end: None, was_up }
    }
}

impl Supervisor {
    pub(crate) fn new(config: Config) -> Self {
        let slots = config.units.iter().map(|unit| Slot::new(Rc::clone(unit))).collect();
        Self {
            config,
            slots,
            instances: BTreeMap::new(),
            replacement: None,
            is_stopping: false,
            is_settled: false,
            next_id: 0,
            actions: Vec::new(),
        }
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// Returns what is to be done now, in this order.
    pub(crate) fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Returns when [`handle_time`](Self::handle_time) has something to do.
    pub(crate) fn next_due(&self) -> Option<Time> {
        let of_instance = |instance: &Instance| match &instance.phase {
            Phase::Starting { by, .. } => Some(*by),
            Phase::Retiring { kill_at } => *kill_at,
            Phase::Up { .. } | Phase::Doomed { .. } => None,
        };
        let of_slot = |slot: &Slot| match slot.state {
            SlotState::BackingOff(until) => Some(until),
            _ => None,
        };
        let slots = self.slots.iter().filter_map(of_slot);
        self.instances.values().filter_map(of_instance).chain(slots).min()
    }

    /// Starts what is due, and ends what has had its time.
    pub(crate) fn handle_time(&mut self, now: Time) {
        let ids: Vec<_> = self.instances.keys().copied().collect();
        for id in ids {
            let Some(instance) = self.instances.get_mut(&id) else { continue };
            match &mut instance.phase {
                Phase::Starting { by, missing, .. } if *by <= now => {
                    let missing: Vec<_> = missing.iter().cloned().collect();
                    let span = instance.unit.ready_within;
                    self.doom(id, End::NotReady(missing.join(", "), span));
                }
                Phase::Retiring { kill_at } if kill_at.is_some_and(|at| at <= now) => {
                    *kill_at = None;
                    let (name, span) = (instance.unit.name.clone(), instance.unit.stop_within);
                    self.actions.push(Action::Kill(id));
                    self.report(Report::Killed(name, span));
                }
                _ => {}
            }
        }
        for slot in &mut self.slots {
            if matches!(slot.state, SlotState::BackingOff(until) if until <= now) {
                slot.state = SlotState::Waiting;
            }
        }
        self.advance(now);
    }

    /// A service has answered that it serves.
    pub(crate) fn handle_ready(&mut self, id: InstanceId, service: &str, now: Time) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        let Phase::Starting { since, missing, .. } = &mut instance.phase else { return };
        missing.remove(service);
        if !missing.is_empty() {
            return;
        }
        let took = now.saturating_sub(*since);
        instance.phase = Phase::Up { since: now };
        let name = instance.unit.name.clone();
        if let Some(slot) = self.slot_of(id) {
            slot.was_up = true;
        }
        self.report(Report::Up(name, took));
        self.advance(now);
    }

    /// A service will not serve: it has said so, or left the question unanswered.
    pub(crate) fn handle_not_ready(&mut self, id: InstanceId, service: &str, why: &str) {
        if self.is_starting(id) {
            self.doom(id, End::Refused(service.to_owned(), why.to_owned()));
        }
    }

    /// A service has left the question whether it is well unanswered for as long as its watchdog
    /// allows.
    ///
    /// A process of which no watched service answers any more is restarted. As long as one of them
    /// does, the process goes on for it.
    pub(crate) fn handle_unresponsive(&mut self, id: InstanceId, service: &str) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        if !matches!(instance.phase, Phase::Up { .. }) {
            return;
        }
        let missed = instance.unresponsive.entry(service.to_owned()).or_default();
        let is_new = !std::mem::replace(&mut missed.is_now, true);
        missed.count += u64::from(is_new);
        let (services, unit) = (&instance.unit.services, instance.unit.name.clone());
        let span = services.iter().find(|it| it.name == service);
        let span = span.and_then(|service| service.watchdog).unwrap_or_default();
        let is_silent =
            |name: &str| instance.unresponsive.get(name).is_some_and(|missed| missed.is_now);
        let mut watched = services.iter().filter(|service| service.watchdog.is_some());
        if watched.all(|service| is_silent(&service.name)) {
            self.doom(id, End::Unresponsive(span));
        } else if is_new {
            self.report(Report::Unresponsive(service.to_owned(), unit, span));
        }
    }

    /// A service answers again.
    pub(crate) fn handle_responsive(&mut self, id: InstanceId, service: &str) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        let missed = instance.unresponsive.get_mut(service);
        if missed.is_some_and(|missed| std::mem::take(&mut missed.is_now)) {
            self.report(Report::Responsive(service.to_owned()));
        }
    }

    /// A process has ended, or could not be started. `lines` are the last ones that it wrote to its
    /// standard error.
    pub(crate) fn handle_end(&mut self, id: InstanceId, end: End, lines: Vec<String>, now: Time) {
        let Some(instance) = self.instances.remove(&id) else { return };
        let (end, up_since) = match instance.phase {
            Phase::Retiring { .. } => return self.advance(now),
            Phase::Doomed { up_since, why } => (why, up_since),
            Phase::Starting { .. } => (end, None),
            Phase::Up { since } => (end, Some(since)),
        };
        if self.is_replacing(id) {
            self.abort_replacement(&instance.unit.name, &end, &lines, now);
        } else if let Some(slot) =
            self.slots.iter().position(|it| it.state == SlotState::Running(id))
        {
            self.slot_ended(slot, end, lines, up_since, now);
        }
        self.advance(now);
    }

    /// Ends all services in order, and then the host. The second time: at once.
    pub(crate) fn handle_stop(&mut self, now: Time) {
        if self.is_stopping {
            let ids: Vec<_> = self.instances.keys().copied().collect();
            self.actions.extend(ids.into_iter().map(Action::Kill));
            self.report(Report::StoppedAtOnce);
            self.actions.push(Action::Exit(Ending::AtOnce));
            return;
        }
        self.report(Report::Stopping);
        self.is_stopping = true;
        self.drop_replacement("the host is stopping", now);
        self.advance(now);
    }

    /// Decides what an end means for the unit.
    fn slot_ended(
        &mut self,
        slot: usize,
        end: End,
        lines: Vec<String>,
        up_since: Option<Time>,
        now: Time,
    ) {
        let is_covered = self.is_covered(slot);
        let slot = &mut self.slots[slot];
        let policy = slot.unit.policy;
        let steady = STEADY_AFTER.max(policy.back_off_max);
        if up_since.is_some_and(|since| now.saturating_sub(since) >= steady) {
            slot.failures = 0;
        }
        slot.last_end = Some((end.clone(), lines.clone()));
        let name = slot.unit.name.clone();
        let restarts = match policy.restart {
            Restart::Never => false,
            Restart::OnFailure => !end.is_clean(),
            Restart::Always => true,
        };
        if self.is_stopping || is_covered {
            slot.state = SlotState::Waiting;
            return self.report(Report::Ended(name, end, None));
        }
        if !restarts {
            slot.state = if end.is_clean() { SlotState::Ended } else { SlotState::Failed };
            let report = match end.is_clean() {
                true => Report::Ended(name, end, None),
                false => Report::Failed(name, end, lines),
            };
            self.close_slot(&report);
            return self.report(report);
        }
        slot.failures += 1;
        let failures = slot.failures;
        if policy.limit.is_some_and(|limit| failures > limit) {
            slot.state = SlotState::Failed;
            // Said once: after a crash loop was reported, without the same lines again.
            let lines = if failures > 2 { Vec::new() } else { lines };
            let report = Report::GaveUp(name, end, failures, lines);
            self.close_slot(&report);
            return self.report(report);
        }
        let pause = back_off(policy.back_off_min, policy.back_off_max, failures);
        slot.state = SlotState::BackingOff(now + pause);
        match failures {
            1 => self.report(Report::Ended(name, end, Some(pause))),
            2 => self.report(Report::CrashLoop(name, end, policy, lines)),
            _ => {}
        }
    }

    /// Closes the sockets of the unit of a report, so that clients do not wait in their queues.
    fn close_slot(&mut self, report: &Report) {
        let name = report.unit();
        let slots = self.slots.iter().filter(|slot| Some(&slot.unit.name) == name);
        let addresses = slots.flat_map(|slot| slot.unit.addresses());
        let closed: Vec<_> = addresses.cloned().map(Action::Close).collect();
        self.actions.extend(closed);
    }

    /// Does what has become possible.
    fn advance(&mut self, now: Time) {
        if self.is_stopping {
            return self.advance_stop(now);
        }
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            let is_due = slot.state == SlotState::Waiting && !self.is_covered(at);
            if is_due && slot.unit.after.iter().all(|needed| self.is_up(needed)) {
                let unit = Rc::clone(&slot.unit);
                let restarts = u64::from(slot.last_end.is_some());
                let id = self.start(unit, now);
                let slot = &mut self.slots[at];
                slot.state = SlotState::Running(id);
                slot.restarts += restarts;
            }
        }
        self.advance_replacement(now);
        if !self.is_settled && self.slots.iter().all(|slot| self.has_settled(slot)) {
            self.is_settled = true;
            self.actions.push(Action::Settled);
        }
    }

    /// Returns whether the unit of a slot was up once, or has failed, or waits for such a one.
    fn has_settled(&self, slot: &Slot) -> bool {
        if slot.was_up || slot.last_end.is_some() {
            return true;
        }
        let is_stuck = |needed: &UnitName| {
            let mut slots = self.slots.iter();
            slots.any(|it| it.unit.name == *needed && !self.is_up(needed) && self.has_settled(it))
        };
        slot.state == SlotState::Waiting && slot.unit.after.iter().any(is_stuck)
    }

    /// Ends the units that no other one needs any more.
    fn advance_stop(&mut self, now: Time) {
        let is_running = |slot: &Slot| match slot.state {
            SlotState::Running(id) => self.instances.contains_key(&id),
            _ => false,
        };
        let running: Vec<usize> =
            (0..self.slots.len()).filter(|at| is_running(&self.slots[*at])).collect();
        for at in &running {
            let name = &self.slots[*at].unit.name;
            let is_needed =
                running.iter().any(|other| self.slots[*other].unit.after.contains(name));
            let SlotState::Running(id) = self.slots[*at].state else { continue };
            if !is_needed && !self.is_retiring(id) {
                let addresses = self.slots[*at].unit.addresses();
                let closed: Vec<_> = addresses.cloned().map(Action::Close).collect();
                self.actions.extend(closed);
                self.retire(id, now);
            }
        }
        if self.instances.is_empty() && !self.actions.contains(&Action::Exit(Ending::Done)) {
            self.actions.push(Action::Exit(Ending::Done));
        }
    }

    fn start(&mut self, unit: Rc<Unit>, now: Time) -> InstanceId {
        let id = InstanceId(self.next_id);
        self.next_id += 1;
        let missing = unit.services.iter().map(|service| service.name.clone()).collect();
        let phase = Phase::Starting { since: now, by: now + unit.ready_within, missing };
        let unresponsive = BTreeMap::new();
        self.instances.insert(id, Instance { unit: Rc::clone(&unit), phase, unresponsive });
        self.actions.push(Action::Start(id, unit));
        id
    }

    /// Asks an instance to end, and kills it if it does not in time.
    fn retire(&mut self, id: InstanceId, now: Time) {
        if let Some(instance) = self.instances.get_mut(&id) {
            let kill_at = Some(now + instance.unit.stop_within);
            instance.phase = Phase::Retiring { kill_at };
            self.actions.push(Action::Terminate(id));
        }
    }

    /// Kills an instance for a reason.
    fn doom(&mut self, id: InstanceId, why: End) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        let up_since = match instance.phase {
            Phase::Up { since } => Some(since),
            Phase::Starting { .. } => None,
            Phase::Doomed { .. } | Phase::Retiring { .. } => return,
        };
        instance.phase = Phase::Doomed { up_since, why };
        self.actions.push(Action::Kill(id));
    }

    fn report(&mut self, report: Report) {
        self.actions.push(Action::Report(report));
    }

    fn slot_of(&mut self, id: InstanceId) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.state == SlotState::Running(id))
    }

    fn is_starting(&self, id: InstanceId) -> bool {
        let instance = self.instances.get(&id);
        instance.is_some_and(|instance| matches!(instance.phase, Phase::Starting { .. }))
    }

    fn is_retiring(&self, id: InstanceId) -> bool {
        let instance = self.instances.get(&id);
        instance.is_some_and(|instance| matches!(instance.phase, Phase::Retiring { .. }))
    }

    fn is_instance_up(&self, id: InstanceId) -> bool {
        let instance = self.instances.get(&id);
        instance.is_some_and(|instance| matches!(instance.phase, Phase::Up { .. }))
    }

    /// Returns whether a unit of the configuration serves.
    fn is_up(&self, name: &UnitName) -> bool {
        let slot = self.slots.iter().find(|slot| slot.unit.name == *name);
        slot.is_some_and(|slot| match slot.state {
            SlotState::Running(id) => self.is_instance_up(id),
            _ => false,
        })
    }
}

/// The pause after so many failures in a row: twice as long each time.
fn back_off(min: Duration, max: Duration, failures: u32) -> Duration {
    let factor = 1u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    min.checked_mul(factor).map_or(max, |pause| pause.min(max))
}
