//! The switches of one connection that have ended, for people who ask why it is where it is.
//!
//! **Invariants:** bounded in number and in bytes, whatever the peer makes of it; nothing is
//! allocated before the first switch ends; texts of the peer have no control characters.
//! **Not here:** how a connection switches (`switching.rs`).
//!
//! **Invariant:** a connection that moves to another channel sends by one channel at a time, holds
//! two at most, and loses, doubles and reorders nothing of calls, one-way messages and streams that
//! are under way; a switch that fails before the client's LAST leaves it where it was. The
//! handshake takes a step when the peer says that it has taken one, so a loop watches nothing more.
//! Connections of one thread and those that tasks share switch alike. What waits for room in the
//! old channel leaves by it, behind it the sender's LAST; its end does not wait for that, so a
//! server reads the new channel although its client has not read the old one, unless the replies
//! that wait are so many that it reads nothing. A server bounds it by
//! `Limits::switches_per_minute_max`, 0 to forbid it, and a client that does not do its part within
//! `Limits::switch_timeout` is refused, loses the second channel, or, if it still needs it, the
//! connection; all are counted. A client gives up in that time what its server has asked for, or
//! invited it to, and does not do. *Checked by* `tests/it/switching.rs`,
//! `tests/it/async_client/switches.rs`, `tests/it/half_switches.rs`, `tests/it/switch_history.rs`,
//! `tests/stress`, `tests/faults/killed_switches.rs`, and for minutes by `cargo xtask switch-storm`
//! and `cargo xtask kill-storm`.

use std::collections::VecDeque;
use std::fmt;
use std::time::Instant;

use nearcall_channel::Mechanism;
use nearcall_os::clock;

use crate::limits::{SWITCH_HISTORY_MAX, SWITCH_NOTE_BYTES_MAX};
use crate::status::Status;

/// What made a connection move to another mechanism.
///
/// Stands in a [`SwitchRecord`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SwitchCause {
    /// The program of the client, by [`Client::switch`](crate::Client::switch).
    Program,
    /// The server has asked for it, for its program or an administrator.
    Asked,
    /// The client has decided by what it saw of the traffic.
    Automatic,
    /// The connection began over another transport, and moved to what both ends can do.
    Upgrade,
}

impl SwitchCause {
    /// Every cause.
    pub(crate) const ALL: [Self; 4] = [Self::Program, Self::Asked, Self::Automatic, Self::Upgrade];

    /// Returns its name, such as `automatic`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Asked => "asked",
            Self::Automatic => "automatic",
            Self::Upgrade => "upgrade",
        }
    }

    /// Returns the cause of this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.name() == name)
    }
}

impl fmt::Display for SwitchCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How the last switch has ended of each cause for which something at this end looks for that,
/// until it has. Of the others an ask is answered, and an upgrade is tried again.
#[derive(Debug, Default)]
pub(super) struct AwaitedOutcomes {
    program: Option<Result<(), Status>>,
    automatic: Option<Result<(), Status>>,
}

impl AwaitedOutcomes {
    pub(super) fn put(&mut self, cause: SwitchCause, outcome: Result<(), Status>) {
        match cause {
            SwitchCause::Program => self.program = Some(outcome),
            SwitchCause::Automatic => self.automatic = Some(outcome),
            SwitchCause::Asked | SwitchCause::Upgrade => {}
        }
    }

    pub(super) fn take(&mut self, cause: SwitchCause) -> Option<Result<(), Status>> {
        match cause {
            SwitchCause::Program => self.program.take(),
            SwitchCause::Automatic => self.automatic.take(),
            SwitchCause::Asked | SwitchCause::Upgrade => None,
        }
    }
}

/// A switch of a connection to another mechanism that has ended, well or not.
///
/// Stands in a [`ConnectionInfo`](crate::observe::ConnectionInfo).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SwitchRecord {
    /// When it ended; `elapsed` is its age.
    pub at: Instant,
    /// The mechanism before it, which a switch that failed has left in use.
    pub from: Mechanism,
    /// The mechanism that was asked for. None: it failed before this end knew.
    pub to: Option<Mechanism>,
    /// What made it begin, as far as this end knows: a server takes those that it has not asked for
    /// as begun by the client's program, unless the client reports another cause.
    pub cause: SwitchCause,
    /// The error: why the connection stayed where it was.
    pub outcome: Result<(), String>,
    /// Why it was done, or what it was worth, in a sentence; empty: nothing was said.
    pub note: String,
}

impl fmt::Display for SwitchRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, cause, outcome, note, .. } = self;
        match to {
            Some(to) => write!(f, "{from} to {to} ({cause})")?,
            None => write!(f, "{from} to another ({cause})")?,
        }
        if let Err(why) = outcome {
            write!(f, ": failed: {why}")?;
        }
        if note.is_empty() { Ok(()) } else { write!(f, ": {note}") }
    }
}

/// A switch that is under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct SwitchUnderWay {
    pub(super) from: Mechanism,
    /// None: this end does not know yet.
    pub(super) to: Option<Mechanism>,
    pub(super) cause: SwitchCause,
}

/// The newest switches of a connection, the oldest first.
#[derive(Debug, Default)]
pub(super) struct SwitchHistory {
    records: VecDeque<SwitchRecord>,
}

impl SwitchHistory {
    /// Notes the end of a switch.
    #[cold]
    pub(super) fn record(&mut self, ended: SwitchUnderWay, outcome: Result<(), &str>) {
        let SwitchUnderWay { from, to, cause } = ended;
        if self.records.len() >= SWITCH_HISTORY_MAX {
            self.records.pop_front();
        }
        let outcome = outcome.map_err(to_note);
        let (at, note) = (clock::now(), String::new());
        self.records.push_back(SwitchRecord { at, from, to, cause, outcome, note });
    }

    /// Says of the newest switch why it was made or what it was worth, and of its cause what this
    /// end cannot know. False: there was none, or this end knows better.
    #[cold]
    pub(super) fn amend(&mut self, cause: Option<SwitchCause>, note: &str) -> bool {
        let Some(record) = self.records.back_mut() else { return false };
        // The report is of another switch, which was not the newest any more.
        if record.cause == SwitchCause::Asked && cause.is_some_and(|it| it != record.cause) {
            return false;
        }
        record.cause = cause.unwrap_or(record.cause);
        record.note = to_note(note);
        true
    }

    /// Says of the last switch between two mechanisms that this end has decided on why it was made
    /// or what it was worth. Returns whether it is the newest of all.
    #[cold]
    pub(super) fn amend_automatic(&mut self, from: Mechanism, to: Mechanism, note: &str) -> bool {
        let is_it = |it: &SwitchRecord| {
            it.cause == SwitchCause::Automatic
                && (it.from, it.to) == (from, Some(to))
                && it.outcome.is_ok()
        };
        let Some(at) = self.records.iter().rposition(is_it) else { return false };
        self.records[at].note = to_note(note);
        at + 1 == self.records.len()
    }

    pub(super) fn records(&self) -> Vec<SwitchRecord> {
        self.records.iter().cloned().collect()
    }
}

/// Returns a text of anyone as one that is short and prints as one line.
pub(crate) fn to_note(text: &str) -> String {
    let mut note = String::new();
    for character in text.chars() {
        let escaped = character.escape_debug();
        let is_plain = escaped.len() == 1 || matches!(character, '\'' | '"');
        let bytes = if is_plain { character.len_utf8() } else { escaped.len() };
        if note.len() + bytes > SWITCH_NOTE_BYTES_MAX {
            break;
        }
        match is_plain {
            true => note.push(character),
            false => note.extend(escaped),
        }
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_kept_for_its_own_cause() {
        let (program, automatic) = (SwitchCause::Program, SwitchCause::Automatic);
        let mut outcomes = AwaitedOutcomes::default();
        outcomes.put(program, Ok(()));
        outcomes.put(SwitchCause::Asked, Ok(()));
        assert!(outcomes.take(automatic).is_none());
        outcomes.put(automatic, Err(Status::unavailable("full")));
        assert!(matches!(outcomes.take(automatic), Some(Err(_))));
        assert!(matches!(outcomes.take(program), Some(Ok(()))));
        assert!(outcomes.take(program).is_none() && outcomes.take(SwitchCause::Asked).is_none());
    }

    fn ended(cause: SwitchCause) -> SwitchUnderWay {
        SwitchUnderWay { from: Mechanism::Shm, to: Some(Mechanism::Pipe), cause }
    }

    #[test]
    fn the_newest_are_kept() {
        let mut history = SwitchHistory::default();
        assert!(!history.amend(None, "nothing to amend"));
        assert_eq!(history.records.capacity(), 0);
        for number in 0..3 * SWITCH_HISTORY_MAX {
            history.record(ended(SwitchCause::Program), Err(&number.to_string()));
        }
        let kept: Vec<_> =
            history.records().into_iter().map(|it| it.outcome.unwrap_err()).collect();
        let newest = 2 * SWITCH_HISTORY_MAX..3 * SWITCH_HISTORY_MAX;
        assert_eq!(kept, newest.map(|number| number.to_string()).collect::<Vec<_>>());
    }

    #[test]
    fn texts_are_short_and_plain() {
        let mut history = SwitchHistory::default();
        history.record(ended(SwitchCause::Program), Err("\u{1b}[2J"));
        assert!(history.amend(Some(SwitchCause::Automatic), &"\u{7}é".repeat(1_000)));
        let record = history.records().pop().unwrap();
        assert_eq!(record.outcome, Err("\\u{1b}[2J".to_owned()));
        assert_eq!(record.cause, SwitchCause::Automatic);
        assert!(record.note.len() <= SWITCH_NOTE_BYTES_MAX, "{}", record.note.len());
        assert!(record.note.starts_with("\\u{7}é"), "{}", record.note);
        assert!(!record.to_string().contains('\u{7}'));
    }

    #[test]
    fn a_note_is_for_the_switch_that_it_is_of() {
        let mut history = SwitchHistory::default();
        history.record(ended(SwitchCause::Automatic), Ok(()));
        assert!(history.amend_automatic(Mechanism::Shm, Mechanism::Pipe, "first"));
        assert!(!history.amend_automatic(Mechanism::Pipe, Mechanism::Shm, "another"));
        history.record(ended(SwitchCause::Program), Ok(()));
        assert!(!history.amend_automatic(Mechanism::Shm, Mechanism::Pipe, "older"));
        history.record(ended(SwitchCause::Asked), Ok(()));
        assert!(!history.amend(Some(SwitchCause::Automatic), "of another"));
        let notes: Vec<String> = history.records().into_iter().map(|it| it.note).collect();
        assert_eq!(notes, ["older", "", ""]);
    }

    #[test]
    fn names_of_causes_are_known() {
        for cause in SwitchCause::ALL {
            assert_eq!(SwitchCause::from_name(cause.name()), Some(cause));
        }
        assert_eq!(SwitchCause::from_name("chance"), None);
    }
}
