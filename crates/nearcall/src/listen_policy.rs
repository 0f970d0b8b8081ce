//! What a listener agrees to: which clients, over which mechanisms, within which limits.
//!
//! **Invariants:** a client that the policy does not admit is refused before anything is made for
//! it; the identity of a client comes from the kernel.
//! **Not here:** what a user says (`server/listen_options.rs`), the handshake
//! (`nearcall-channel`), counting connections (`reactor/census.rs`).

use nearcall_channel::{MechanismSet, Options, WaitPolicy};

use crate::address::Address;
use crate::limits::Limits;
use crate::trust::Trust;

/// The policy of one listener.
#[derive(Debug, Clone)]
pub(crate) struct ListenPolicy {
    pub(crate) wait: Option<WaitPolicy>,
    pub(crate) trust: Trust,
    /// The mechanisms that clients may choose from.
    pub(crate) offered: MechanismSet,
    /// Those of the server, or this listener's own.
    pub(crate) limits: Limits,
}

impl ListenPolicy {
    /// Returns the policy of a listener at `address` of a server with these limits.
    pub(crate) fn new(address: &Address, limits: Limits) -> Self {
        let offered = address.allow.unwrap_or_default();
        Self { wait: address.wait, trust: address.trust(), offered, limits }
    }

    /// Returns the policy for clients of the server's own loop.
    pub(crate) fn of_own_loop(limits: Limits) -> Self {
        Self { wait: None, trust: Trust::No, offered: MechanismSet::ALL, limits }
    }

    /// Returns the options of a handshake with a client.
    pub(crate) fn options(&self, pollable_only: bool) -> Options {
        Options {
            wait_preferred: loop_preference(self.wait),
            pollable_only,
            offered: self.offered,
            ..self.limits.channel()
        }
    }
}

/// Returns the wait policies that a loop prefers, the best first.
pub(crate) fn loop_preference(wanted: Option<WaitPolicy>) -> &'static [WaitPolicy] {
    use WaitPolicy::{Adaptive, Block, Poll, Spin};
    match wanted {
        Some(Spin) => &[Spin, Adaptive, Poll, Block],
        Some(Poll | Block) => &[Poll, Block, Adaptive, Spin],
        Some(Adaptive) | None => &[Adaptive, Poll, Block, Spin],
    }
}
