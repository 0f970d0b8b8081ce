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
    /// Who is at the other end, for people.
    pub name: String,
    /// Who it is, by the kernel.
    pub peer: Peer,
    /// How messages travel.
    pub mechanism: Mechanism,
    /// How this end waits.
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
