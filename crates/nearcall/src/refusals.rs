//! What a server refuses, counted by kind and user and logged, so that an operator sees an attack,
//! its user and its process.
//!
//! The lines go to the subscriber of the `tracing` crate that the program installs, with the target
//! `nearcall` and the level `WARN`. Without a subscriber nothing is written.
//! **Invariants:** every refusal is counted, but for those that a thread of a pool finds after the
//! connection has ended; the lines of each kind and user are limited, and a line
//! reports how many were suppressed before it; memory is bounded, whoever connects; no text of a
//! peer breaks out of its line; a subscriber runs while nothing is locked.
//! **Not here:** what is refused and why: each place that refuses reports it.
//!
//! **Invariant:** a peer that breaks the protocol gets the reason, as the error of a call of its
//! own, before its connection closes, and the server counts and logs the violation by kind and user
//! (`Server::refusals`). *Checked by* `tests/it/bad_input`.
//!
//! **Invariant:** every refusal is counted by kind and user in bounded memory, and its lines in the
//! log are limited. *Checked by* `src/refusals.rs`, `tests/it/bad_input/refusals.rs`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use nearcall_channel::HandshakeError;

use crate::deadline::{self, Deadline};
use crate::limits::{
    ERROR_TEXT_BYTES_MAX, REFUSAL_LINES_MAX, REFUSAL_LINES_PERIOD, REFUSAL_USERS_MAX,
};
use crate::peer::Peer;

/// What a server has refused, or ended a connection for.
///
/// Stands in a [`RefusalCount`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RefusalKind {
    /// A client of a user or group that the listener does not allow, or a call of the built-in
    /// service by a user who may not make it.
    UserNotAllowed,
    /// A mechanism that the listener does not offer.
    MechanismNotOffered,
    /// A handshake that did not succeed: the client sent what no client sends, went away, or could
    /// not have the mechanism.
    HandshakeFailed,
    /// A client that took too long for its handshake or its greeting.
    HandshakeTimeout,
    /// A client above the number of connections or handshakes that it or all may have.
    ConnectionLimit,
    /// A request for more memory, descriptors or other resources than the user may have.
    ResourceLimit,
    /// A connection that ended because its client broke the protocol: the name of what it did, such
    /// as `second-reply`.
    ProtocolViolation(&'static str),
    /// A connection that ended because its client did not read what it had asked for.
    SlowReader,
    /// A request that cannot be decoded, or not within the limits.
    BadRequest,
    /// A call whose method would have run inside of too many others.
    NestingLimit,
    /// A connection whose client has woken the server many times without a message, and which is
    /// looked at less often until it sends one. Counted once for each connection.
    EmptyWakes,
    /// A connection whose calls ask for longer deadlines than the server grants, and are served
    /// with the longest one. Counted once for each connection.
    DeadlineCapped,
}

impl RefusalKind {
    /// The violation of a peer that breaks the rules of the mechanism below the call protocol.
    pub(crate) const BROKEN_CHANNEL: Self = Self::ProtocolViolation("broken-channel");

    /// Returns the name of the kind, which does not change between versions.
    pub fn name(self) -> &'static str {
        match self {
            Self::UserNotAllowed => "user-not-allowed",
            Self::MechanismNotOffered => "mechanism-not-offered",
            Self::HandshakeFailed => "handshake-failed",
            Self::HandshakeTimeout => "handshake-timeout",
            Self::ConnectionLimit => "connection-limit",
            Self::ResourceLimit => "resource-limit",
            Self::ProtocolViolation(_) => "protocol-violation",
            Self::SlowReader => "slow-reader",
            Self::BadRequest => "bad-request",
            Self::NestingLimit => "nesting-limit",
            Self::EmptyWakes => "empty-wakes",
            Self::DeadlineCapped => "deadline-capped",
        }
    }

    /// Returns the kind of a handshake that failed.
    pub(crate) fn of_handshake(error: &HandshakeError) -> Self {
        match error {
            HandshakeError::TimedOut => Self::HandshakeTimeout,
            HandshakeError::Exceeded(_) => Self::ResourceLimit,
            HandshakeError::NotOffered { .. } => Self::MechanismNotOffered,
            _ => Self::HandshakeFailed,
        }
    }
}

/// The name, and that of the violation.
impl fmt::Display for RefusalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProtocolViolation(violation) => write!(f, "{}/{violation}", self.name()),
            kind => f.write_str(kind.name()),
        }
    }
}

/// The user whose processes were refused.
///
/// Stands in a [`RefusalCount`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RefusedUser {
    /// A user of this machine, by the kernel's word.
    Uid(u32),
    /// Other machines, all together.
    Remote,
    /// Users beyond the first 64 that were refused anything, all together.
    Others,
}

impl fmt::Display for RefusedUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uid(uid) => write!(f, "user {uid}"),
            Self::Remote => f.write_str("other machines"),
            Self::Others => f.write_str("other users"),
        }
    }
}

/// How often a server has refused one thing to one user, from
/// [`Server::refusals`](crate::Server::refusals).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusalCount {
    /// What was refused.
    pub kind: RefusalKind,
    /// The user whose processes were refused it.
    pub user: RefusedUser,
    /// How often, since the server was created.
    pub count: u64,
    /// The process that was refused last, if the kernel reports it.
    pub last_pid: Option<i32>,
}

impl fmt::Display for RefusalCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, user, count, last_pid } = self;
        write!(f, "{kind}: {count} of {user}")?;
        match last_pid {
            Some(pid) => write!(f, ", last of process {pid}"),
            None => Ok(()),
        }
    }
}

/// The refusals of one server, shared by its loops.
#[derive(Default)]
pub(crate) struct Refusals {
    /// A lock, because refusals are rare or an attack; no call that is served takes it.
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    users: BTreeSet<RefusedUser>,
    rows: BTreeMap<(RefusalKind, RefusedUser), Row>,
}

#[derive(Default)]
struct Row {
    count: u64,
    last_pid: Option<i32>,
    /// Since the period began.
    lines: u32,
    /// Since the last line.
    suppressed: u64,
    /// When the next period begins.
    period_end: Option<Deadline>,
}

impl Refusals {
    /// Counts a refusal, and logs it unless there were too many of its kind and user lately.
    #[cold]
    pub(crate) fn note(&self, kind: RefusalKind, uid: Option<u32>, pid: Option<i32>, why: &str) {
        let user = uid.map_or(RefusedUser::Remote, RefusedUser::Uid);
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let suppressed = table.count(kind, user, pid, deadline::now());
        drop(table);
        if let Some(suppressed) = suppressed {
            let (kind, why) = (tracing::field::display(kind), printable(why));
            tracing::warn!(target: "nearcall", %kind, %user, pid, suppressed, "refused: {why}");
        }
    }

    /// Returns what was refused, by kind and user.
    pub(crate) fn counts(&self) -> Vec<RefusalCount> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = table.rows.iter().map(|(&(kind, user), row)| {
            let &Row { count, last_pid, .. } = row;
            RefusalCount { kind, user, count, last_pid }
        });
        rows.collect()
    }
}

/// What a server has refused to the peer of one connection.
pub(crate) struct ConnectionRefusals {
    of_server: Arc<Refusals>,
    /// At most one entry for each kind.
    counts: RefCell<Vec<(RefusalKind, u64)>>,
}

impl ConnectionRefusals {
    pub(crate) fn new(of_server: Arc<Refusals>) -> Self {
        Self { of_server, counts: RefCell::default() }
    }

    /// Counts a refusal for the connection and for the server, and logs it as the server does.
    pub(crate) fn note(&self, kind: RefusalKind, peer: &Peer, why: &str) {
        let mut counts = self.counts.borrow_mut();
        match counts.iter_mut().find(|(other, _)| *other == kind) {
            Some((_, count)) => *count += 1,
            None => counts.push((kind, 1)),
        }
        drop(counts);
        self.of_server.note(kind, peer.uid(), peer.pid(), why);
    }

    pub(crate) fn counts(&self) -> Vec<(RefusalKind, u64)> {
        self.counts.borrow().clone()
    }
}

impl Table {
    /// Counts a refusal. Returns how many lines were suppressed before, if it may have a line.
    fn count(
        &mut self,
        kind: RefusalKind,
        user: RefusedUser,
        pid: Option<i32>,
        now: Deadline,
    ) -> Option<u64> {
        let is_known = self.users.contains(&user)
            || self.users.len() < REFUSAL_USERS_MAX && self.users.insert(user);
        let user = if is_known { user } else { RefusedUser::Others };
        let row = self.rows.entry((kind, user)).or_default();
        row.count += 1;
        row.last_pid = pid;
        if row.period_end.is_none_or(|end| end <= now) {
            row.period_end = Some(deadline::later(now, REFUSAL_LINES_PERIOD));
            row.lines = 0;
        }
        if row.lines >= REFUSAL_LINES_MAX {
            row.suppressed += 1;
            return None;
        }
        row.lines += 1;
        Some(std::mem::take(&mut row.suppressed))
    }
}

/// Returns a text for a line of a log, though a peer may have written a part of it.
fn printable(text: &str) -> String {
    let ends = text.char_indices().map(|(start, char)| start + char.len_utf8());
    let end = ends.take_while(|end| *end <= ERROR_TEXT_BYTES_MAX).last().unwrap_or(0);
    text[..end].chars().map(|it| if it.is_control() { '?' } else { it }).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const KIND: RefusalKind = RefusalKind::BadRequest;
    const ROOT: RefusedUser = RefusedUser::Uid(0);

    #[test]
    fn lines_are_limited_for_each_kind_and_user_and_the_next_one_reports_the_rest() {
        let (mut table, now) = (Table::default(), Deadline::from_ns(7));
        for _ in 0..REFUSAL_LINES_MAX {
            assert_eq!(table.count(KIND, ROOT, Some(1), now), Some(0));
        }
        for _ in 0..1000 {
            assert_eq!(table.count(KIND, ROOT, Some(2), now), None);
        }
        assert_eq!(table.count(RefusalKind::SlowReader, ROOT, Some(1), now), Some(0));
        assert_eq!(table.count(KIND, RefusedUser::Remote, None, now), Some(0));
        let early = deadline::later(now, REFUSAL_LINES_PERIOD - Duration::from_nanos(1));
        assert_eq!(table.count(KIND, ROOT, Some(3), early), None);
        let later = deadline::later(now, REFUSAL_LINES_PERIOD);
        assert_eq!(table.count(KIND, ROOT, Some(4), later), Some(1001));
        assert_eq!(table.count(KIND, ROOT, Some(4), later), Some(0));
        let row = &table.rows[&(KIND, ROOT)];
        assert_eq!((row.count, row.last_pid), (u64::from(REFUSAL_LINES_MAX) + 1003, Some(4)));
    }

    #[test]
    fn users_beyond_the_bound_are_counted_together() {
        let (mut table, now) = (Table::default(), Deadline::NOW);
        for uid in 0..10_000 {
            table.count(KIND, RefusedUser::Uid(uid), None, now);
        }
        assert_eq!(table.rows.len(), REFUSAL_USERS_MAX + 1);
        let others = &table.rows[&(KIND, RefusedUser::Others)];
        assert_eq!(others.count, 10_000 - REFUSAL_USERS_MAX as u64);
        // Those that are known stay known.
        table.count(KIND, ROOT, None, now);
        assert_eq!(table.rows[&(KIND, ROOT)].count, 2);
    }

    #[test]
    fn a_text_of_a_peer_stays_in_its_line() {
        assert_eq!(printable("a\nroot: all is well\x1b[2J"), "a?root: all is well?[2J");
        assert_eq!(printable(&"ä".repeat(ERROR_TEXT_BYTES_MAX)).len(), ERROR_TEXT_BYTES_MAX);
    }
}
