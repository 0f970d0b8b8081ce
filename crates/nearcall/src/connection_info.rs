//! What tools show of a connection.
//!
//! **Not here:** how many calls are under way, and how long they take.

use std::fmt;

use nearcall_channel::{Mechanism, WaitPolicy};

use crate::peer::Peer;

/// A connection as it is now, from
/// [`Client::connections`](crate::Client::connections) or
/// [`Server::connections`](crate::Server::connections).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConnectionInfo {
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
    /// Slots that this end has lent: loans that live, and what the other end has not given back.
    pub slots_lent: usize,
    /// Messages and slices of the other end's loans that live here.
    pub slots_borrowed: usize,
}

impl fmt::Display for ConnectionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, mechanism, wait, slots_lent, slots_borrowed, .. } = self;
        let trust = if self.is_trusted { "trusted" } else { "not trusted" };
        write!(
            f,
            "{name} over {mechanism}, waits by {wait}, {trust}, {slots_lent} slots lent, \
             {slots_borrowed} borrowed"
        )
    }
}
