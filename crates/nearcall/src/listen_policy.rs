//! What a listener agrees to: which clients, over which mechanisms, within which limits.
//!
//! **Invariants:** a client that the policy does not admit is refused before anything is made for
//! it; the identity of a client comes from the kernel.
//! **Not here:** what a user says (`servers/listen_options.rs`), the handshake
//! (`nearcall-channel`), counting connections (`reactor/census.rs`).

use std::io;
use std::os::fd::BorrowedFd;

use nearcall_channel::{MechanismSet, Options, WaitPolicy};
use nearcall_os::socket::{self, Credentials};

use crate::limits::Limits;
use crate::trust::Trust;

/// The policy of one listener.
#[derive(Debug, Clone)]
pub(crate) struct ListenPolicy {
    pub(crate) wait: Option<WaitPolicy>,
    pub(crate) trust: Trust,
    /// The mechanisms that clients may choose from.
    pub(crate) offered: MechanismSet,
    /// Who may connect; None: everybody who can reach the socket, unless there are groups.
    pub(crate) users: Option<Vec<u32>>,
    /// Whose processes may connect as well.
    pub(crate) groups: Option<Vec<u32>>,
    /// Those of the server, or this listener's own.
    pub(crate) limits: Limits,
}

impl ListenPolicy {
    /// Returns the policy for clients of the server's own loop.
    pub(crate) fn of_own_loop(limits: Limits) -> Self {
        let (users, groups, offered) = (None, None, MechanismSet::ALL);
        Self { wait: None, trust: Trust::No, offered, users, groups, limits }
    }

    /// Returns whether the client behind a socket may connect; if not, the text for it.
    ///
    /// # Errors
    ///
    /// Who the client is, by the kernel, and that it is not let in.
    pub(crate) fn admit(&self, client: BorrowedFd<'_>) -> Result<(), String> {
        if self.users.is_none() && self.groups.is_none() {
            return Ok(());
        }
        let unknown = |error: io::Error| format!("the server cannot tell the user: {error}");
        let Credentials { uid, gid, .. } = socket::peer_credentials(client).map_err(unknown)?;
        let has = |ids: &Option<Vec<u32>>, id| ids.as_ref().is_some_and(|ids| ids.contains(&id));
        if has(&self.users, uid) || has(&self.groups, gid) {
            return Ok(());
        }
        if let Some(groups) = &self.groups {
            let theirs = socket::peer_groups(client).map_err(unknown)?;
            if theirs.iter().any(|gid| groups.contains(gid)) {
                return Ok(());
            }
        }
        Err(format!(
            "user {uid} with group {gid} is not one of those that this server lets in: have it add \
             the user to its option `users`, or the group to its option `groups`"
        ))
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
