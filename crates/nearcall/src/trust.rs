//! Which peers a connection trusts not to change what they have handed over.
//!
//! **Invariants:** no peer is trusted unless the user declares it for a connection; the identity of
//! the other end comes from the kernel.
//! **Not here:** what follows from it (`connection/borrowing.rs`).

use std::fmt;
use std::str::FromStr;

use nearcall_os::users::is_overflow_user;

use crate::peer::Peer;

/// Decides whether the other end of a connection may hand over memory that is read in place.
///
/// Over `shm` the bytes of a loan are passed by reference. An end that trusts the other gets them
/// without a copy: `bytes` fields are slices of the other's memory. An end that does not copies
/// them once, before it looks at them, since the other could change them meanwhile; a trusted end
/// that did so would break this process. Say it with `?trust=` in an address.
///
/// Read by [`Address::trust`](crate::Address::trust).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Trust {
    /// No peer is trusted: everything is copied once. The default.
    #[default]
    No,
    /// A process of the same user id, by the kernel. No process, where this one has no user id in
    /// its user namespace.
    SameUser,
    /// Whoever is at this address, if that is a process of the same user or of root, which could
    /// change this one in any case. For clients only.
    Yes,
}

impl Trust {
    /// Returns the name that an address uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::SameUser => "same-user",
            Self::Yes => "yes",
        }
    }

    /// Returns whether this peer is trusted. A peer on another machine never is: it shares no
    /// memory.
    pub(crate) fn covers(self, peer: &Peer) -> bool {
        match (self, peer) {
            (Self::No, _) | (_, Peer::Remote(_)) => false,
            (Self::Yes, _) | (_, Peer::Local) => true,
            (Self::SameUser, peer) => {
                let own = nearcall_os::process::user_id();
                // That number stands for all users without one, also for unknown ones.
                peer.uid() == Some(own) && !is_overflow_user(own)
            }
        }
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Trust {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let known = [Self::No, Self::SameUser, Self::Yes];
        let found = known.into_iter().find(|trust| trust.name() == word);
        found.ok_or_else(|| {
            format!("unknown trust `{}`: there are no, same-user and yes", word.escape_debug())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for trust in [Trust::No, Trust::SameUser, Trust::Yes] {
            assert_eq!(trust.name().parse(), Ok(trust));
        }
        assert!("perhaps".parse::<Trust>().unwrap_err().contains("same-user"));
    }

    #[test]
    fn another_machine_is_never_trusted() {
        let far = Peer::Remote("192.0.2.1:4".parse().unwrap());
        assert!(!Trust::Yes.covers(&far) && !Trust::SameUser.covers(&far));
        assert!(!Trust::No.covers(&Peer::Local) && Trust::SameUser.covers(&Peer::Local));
    }
}
