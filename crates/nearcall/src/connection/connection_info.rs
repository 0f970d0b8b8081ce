//! What tools show of a connection.
//!
//! **Not here:** counting (`traffic.rs`, `call_counts.rs`).

use std::fmt;

use nearcall_channel::{Mechanism, WaitPolicy, WakeCounts};

use super::call_counts::CallCounts;
use super::switch_history::SwitchRecord;
use super::traffic::Traffic;
use crate::peer::Peer;
use crate::refusals::RefusalKind;

/// A connection as it is now, from
/// [`Client::connections`](crate::Client::connections) or
/// [`Server::connections`](crate::Server::connections).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// Its number at the server: no other connection of that server has or had it. None at a
    /// client.
    pub number: Option<u64>,
    /// Names the process at the other end, for people.
    pub name: String,
    /// The identity of the other end, as reported by the kernel.
    pub peer: Peer,
    /// The mechanism that carries the messages.
    pub mechanism: Mechanism,
    /// The wait policy of this end.
    pub wait: WaitPolicy,
    /// This end reads what it is lent where it lies, and does not copy it first.
    pub is_trusted: bool,
    /// The thread of a client that the connection belongs to. None at a server.
    pub thread: Option<ThreadInfo>,
    /// Descriptors that this end holds open for it, without those of loans.
    pub descriptors: usize,
    /// Room for messages, both directions together, in bytes: what the connection may occupy in
    /// memory of the kernel or of both processes, without loans.
    pub room_bytes: usize,
    /// Slots that this end has lent: loans that live, and what the other end has not given back.
    /// None: the connection belongs to another thread, and only that one can count them.
    pub slots_lent: Option<usize>,
    /// Messages and slices of the other end's loans that live here. None: as for `slots_lent`.
    pub slots_borrowed: Option<usize>,
    /// What it has carried. None: as for `slots_lent`.
    pub traffic: Option<Traffic>,
    /// What a server has counted of the calls that came over it. None at a client, and as for
    /// `slots_lent`.
    pub calls: Option<CallCounts>,
    /// How often the two ends have woken each other, by system calls: `taken` counts what has ended
    /// sleeps of this end, in a call or in its loop. None: as for `slots_lent`.
    pub wakes: Option<WakeCounts>,
    /// Why a connection with `via=auto` is on its mechanism: what was seen of its traffic, and what
    /// that is expected to cost. None of others, and as for `slots_lent`.
    pub automatic: Option<String>,
    /// What the server has refused to this client, and how often. Empty at a client.
    pub refusals: Vec<(RefusalKind, u64)>,
    /// The last switches to another mechanism, the oldest first: eight at most.
    pub switches: Vec<SwitchRecord>,
}

/// A thread that has connections.
///
/// Stands in a [`ConnectionInfo`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadInfo {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its number, as `ps -T` and debuggers show it.
    pub tid: i32,
}

impl ThreadInfo {
    /// Returns the thread that calls.
    pub(crate) fn current() -> Self {
        let name = std::thread::current().name().map(str::to_owned);
        Self { name, tid: nearcall_os::process::tid() }
    }
}

impl ConnectionInfo {
    /// Returns the same without what only the thread of the connection can count.
    pub(crate) fn without_counts(self) -> Self {
        Self {
            slots_lent: None,
            slots_borrowed: None,
            traffic: None,
            calls: None,
            wakes: None,
            automatic: None,
            ..self
        }
    }
}

impl fmt::Display for ThreadInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "thread {} ({name})", self.tid),
            None => write!(f, "thread {}", self.tid),
        }
    }
}

impl fmt::Display for ConnectionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, mechanism, wait, descriptors, room_bytes, .. } = self;
        let trust = if self.is_trusted { "trusted" } else { "not trusted" };
        write!(f, "{name} over {mechanism}, waits by {wait}, {trust}")?;
        if let (Some(lent), Some(borrowed)) = (self.slots_lent, self.slots_borrowed) {
            write!(f, ", {lent} slots lent, {borrowed} borrowed")?;
        }
        write!(f, ", {descriptors} descriptors, room of {room_bytes} bytes")?;
        if let Some(traffic) = &self.traffic {
            write!(f, ", {traffic}")?;
        }
        if let Some(calls) = &self.calls {
            write!(f, ", {} calls, {} in flight", calls.calls, calls.in_flight)?;
        }
        for (kind, count) in &self.refusals {
            write!(f, ", {count} {kind}")?;
        }
        match &self.thread {
            Some(thread) => write!(f, ", {thread}"),
            None => Ok(()),
        }
    }
}
