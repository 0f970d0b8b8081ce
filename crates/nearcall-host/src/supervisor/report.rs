//! What a host says of its services: in its log, and when it is asked.
//!
//! **Invariants:** a text names the unit, what happened, and what follows.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use super::{InstanceId, Phase, SlotState, Supervisor, Time};
use crate::config::{Policy, UnitName};

/// How a process of a unit has ended, or why it was ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Exited(i32),
    /// By this signal, not of the host.
    Killed(i32),
    NotStarted(String),
    /// These services had not answered that they serve after this time.
    NotReady(String, Duration),
    /// A service has said that it does not serve.
    Refused(String, String),
    /// It did not answer for this time.
    Unresponsive(Duration),
}

impl End {
    /// Returns whether it has ended as programs do that have done their work.
    pub(crate) fn is_clean(&self) -> bool {
        *self == Self::Exited(0)
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "has exited with {code}"),
            Self::Killed(number) => write!(f, "was killed by {}", signal_name(*number)),
            Self::NotStarted(why) => write!(f, "could not be started: {why}"),
            Self::NotReady(services, span) => write!(
                f,
                "was killed, because {services} had not answered after {span:?} that it serves: \
                 does it listen at $NEARCALL_LISTEN? Raise `ready-within` if it needs longer"
            ),
            Self::Refused(service, why) => write!(f, "was killed, because {service} failed: {why}"),
            Self::Unresponsive(span) => {
                write!(f, "was killed, because it did not answer for {span:?} (`watchdog`)")
            }
        }
    }
}

/// Returns the name of a signal, as the standard library has it in the text of a status.
fn signal_name(number: i32) -> String {
    let text = ExitStatus::from_raw(number).to_string();
    let name = text.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    name.map_or_else(|| format!("signal {number}"), |(name, _)| name.to_owned())
}

/// A line of the log, with further lines that belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    Up(UnitName, Duration),
    /// And is started again after this pause.
    Ended(UnitName, End, Option<Duration>),
    Failed(UnitName, End, Vec<String>),
    CrashLoop(UnitName, End, Policy, Vec<String>),
    /// After so many ends in a row.
    GaveUp(UnitName, End, u32, Vec<String>),
    Unresponsive(String, UnitName, Duration),
    Responsive(String),
    /// It had not ended after this time.
    Killed(UnitName, Duration),
    Applied(String),
    NotApplied(String),
    Stopping,
    StoppedAtOnce,
}

impl Report {
    /// Returns the unit that it is about.
    pub(super) fn unit(&self) -> Option<&UnitName> {
        match self {
            Self::Up(unit, _)
            | Self::Ended(unit, ..)
            | Self::Failed(unit, ..)
            | Self::CrashLoop(unit, ..)
            | Self::GaveUp(unit, ..)
            | Self::Unresponsive(_, unit, _)
            | Self::Killed(unit, _) => Some(unit),
            Self::Responsive(_)
            | Self::Applied(_)
            | Self::NotApplied(_)
            | Self::Stopping
            | Self::StoppedAtOnce => None,
        }
    }

    /// Returns the last lines that the unit has written to its standard error.
    fn lines(&self) -> &[String] {
        match self {
            Self::Failed(.., lines) | Self::CrashLoop(.., lines) | Self::GaveUp(.., lines) => lines,
            _ => &[],
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up(unit, took) => write!(f, "{unit} is up after {took:.1?}")?,
            Self::Ended(unit, end, Some(pause)) => {
                write!(f, "{unit} {end}; it is started again in {pause:?}")?;
            }
            Self::Ended(unit, end, None) => write!(f, "{unit} {end}")?,
            Self::Failed(unit, end, _) => {
                write!(f, "{unit} {end}, and is not started again (`restart`)")?;
            }
            Self::CrashLoop(unit, end, policy, _) => {
                let max = policy.back_off_max;
                write!(f, "{unit} ends again and again: the last time it {end}; it is started ")?;
                match policy.limit {
                    Some(limit) => write!(f, "up to {limit} times, with pauses of up to {max:?}")?,
                    None => write!(f, "without end, with pauses of up to {max:?}")?,
                }
            }
            Self::GaveUp(unit, end, failures, _) => write!(
                f,
                "{unit} has ended {failures} times in a row and is not started again \
                 (`restart-limit`): the last time it {end}; `nearcall restart` starts it"
            )?,
            Self::Unresponsive(service, unit, span) => write!(
                f,
                "{service} has not answered for {span:?} (`watchdog`); the other services of \
                 {unit} go on, and `nearcall restart {service}` restarts all of them"
            )?,
            Self::Responsive(service) => write!(f, "{service} answers again")?,
            Self::Killed(unit, span) => write!(
                f,
                "{unit} had not ended {span:?} after SIGTERM (`stop-within`) and was killed"
            )?,
            Self::Applied(what) => f.write_str(what)?,
            Self::NotApplied(why) => write!(f, "not restarted: {why}")?,
            Self::Stopping => f.write_str("stopping")?,
            Self::StoppedAtOnce => f.write_str("stopped at once, by the second signal")?,
        }
        for line in self.lines() {
            write!(f, "\n  | {line}")?;
        }
        Ok(())
    }
}

/// What a unit does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    Starting,
    Up,
    BackingOff,
    Stopping,
    Ended,
    Failed,
}

impl State {
    /// Returns the word for people and programs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Starting => "starting",
            Self::Up => "up",
            Self::BackingOff => "backing-off",
            Self::Stopping => "stopping",
            Self::Ended => "ended",
            Self::Failed => "failed",
        }
    }
}

/// What is known of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceState {
    pub(crate) name: String,
    pub(crate) unit: UnitName,
    pub(crate) state: State,
    pub(crate) instance: Option<InstanceId>,
    /// Since it is up.
    pub(crate) up: Option<Duration>,
    pub(crate) restarts: u64,
    pub(crate) failures: u32,
    pub(crate) last_end: Option<(End, Vec<String>)>,
    /// It does not answer now.
    pub(crate) is_unresponsive: bool,
    /// How often it has not, since its process was started.
    pub(crate) missed: u64,
}

impl Supervisor {
    /// Returns what is known of all services, in the order in which they start.
    pub(crate) fn status(&self, now: Time) -> Vec<ServiceState> {
        let mut states = Vec::new();
        for slot in &self.slots {
            let id = match slot.state {
                SlotState::Running(id) => Some(id),
                _ => None,
            };
            let instance = id.and_then(|id| self.instances.get(&id));
            let (state, up) = match (slot.state, instance.map(|instance| &instance.phase)) {
                (_, Some(Phase::Starting { .. })) => (State::Starting, None),
                (_, Some(Phase::Up { since })) => (State::Up, Some(now.saturating_sub(*since))),
                (_, Some(Phase::Doomed { .. } | Phase::Retiring { .. })) => (State::Stopping, None),
                (SlotState::BackingOff(_), None) => (State::BackingOff, None),
                (SlotState::Failed, None) => (State::Failed, None),
                (SlotState::Ended | SlotState::Running(_), None) => (State::Ended, None),
                (SlotState::Waiting, None) => (State::Waiting, None),
            };
            for (at, service) in slot.unit.services.iter().enumerate() {
                // What the process has written is said once, with the first of its services.
                let last_end = slot.last_end.as_ref().map(|(end, lines)| {
                    (end.clone(), if at == 0 { lines.clone() } else { Vec::new() })
                });
                let missed = instance.and_then(|it| it.unresponsive.get(&service.name));
                states.push(ServiceState {
                    name: service.name.clone(),
                    unit: slot.unit.name.clone(),
                    state,
                    instance: id.filter(|_| instance.is_some()),
                    up,
                    restarts: slot.restarts,
                    failures: slot.failures,
                    last_end,
                    is_unresponsive: missed.is_some_and(|missed| missed.is_now),
                    missed: missed.map_or(0, |missed| missed.count),
                });
            }
        }
        states
    }

    /// Returns how many processes drain after they were replaced.
    pub(crate) fn retiring_count(&self) -> usize {
        self.instances.keys().filter(|id| self.is_retiring(**id)).count()
    }
}
