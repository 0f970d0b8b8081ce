//! A listener of a server before a loop accepts its clients.
//!
//! **Not here:** accepting (`reactor/handshakes.rs`).

use std::sync::Arc;

use nearcall_channel::{Listener, MechanismSet, SocketAccess};
use nearcall_os::process;

use super::errors::ListenError;
use super::listen_options::ListenOptions;
use crate::address::{Address, At};
use crate::limits::Limits;
use crate::listen_policy::ListenPolicy;

/// A listener, where it listens, and what it agrees to.
pub(super) struct Listening {
    /// The address for clients.
    pub(super) address: Address,
    pub(super) listener: Arc<Listener>,
    pub(super) policy: Arc<ListenPolicy>,
    /// Where the process that has started this one asks how the server is.
    pub(super) health: Option<(Arc<Listener>, Arc<ListenPolicy>)>,
}

impl Listening {
    /// Listens at an address that has a socket.
    ///
    /// # Errors
    ///
    /// It is taken, or not available here, or the options contradict each other.
    pub(super) fn bind(
        mut address: Address,
        options: &ListenOptions,
        limits: Limits,
    ) -> Result<Self, ListenError> {
        let At::Socket(place) = &address.at else {
            return Err(ListenError::BadAddress(address.only_in_one_loop()));
        };
        let policy = options.policy(&address, limits);
        let (policy, access) = policy.map_err(|text| ListenError::Limits(address.clone(), text))?;
        let bound = Listener::bind_for(place, access);
        let listener =
            bound.map_err(|error| ListenError::Rendezvous(address.clone(), error.into()))?;
        address.at = At::Socket(listener.address().clone());
        address.allow = None;
        if listener.is_inherited()
            && options.ask_for_access()
            && let Ok(Some(found)) = listener.access()
            && let Some(warning) = access_warning(&address, access, found)
        {
            tracing::warn!(target: "nearcall", "{warning}");
        }
        let health = listener.take_health_listener().map(|health| {
            // The socket of a host has no name, one of another program may have.
            let users = Some(vec![process::user_id()]);
            let policy = ListenPolicy { users, ..ListenPolicy::of_own_loop(limits) };
            let policy = ListenPolicy { offered: MechanismSet::default(), ..policy };
            (Arc::new(health), Arc::new(policy))
        });
        let (listener, policy) = (Arc::new(listener), Arc::new(policy));
        Ok(Self { address, listener, policy, health })
    }
}

/// Returns what to say of a socket that was handed over with another mode or owner than its server
/// asks for, and cannot set.
fn access_warning(address: &Address, asked: SocketAccess, found: SocketAccess) -> Option<String> {
    let owned = |owner| match owner {
        Some((uid, gid)) => format!(" of user {uid} and group {gid}"),
        None => String::new(),
    };
    let is_as_asked = asked.mode == found.mode
        && asked.owner.is_none_or(|owner| found.owner.is_some_and(|found| found == owner));
    let (asked_owner, found_owner) = (owned(asked.owner), owned(found.owner));
    (!is_as_asked).then(|| {
        format!(
            "the socket of {address} was handed over with mode {:04o}{found_owner}, and its server \
             asks for {:04o}{asked_owner}: clients get what it was handed over with; set it where \
             the socket is bound (`socket-mode` and `socket-owner` of `nearcall host`, \
             `SocketMode=` of systemd)",
            found.mode, asked.mode
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_with_another_access_than_its_server_asks_for_is_named() {
        let address: Address = "unix:/run/room".parse().unwrap();
        let access = |mode, owner| SocketAccess { mode, owner };
        let found = access(0o600, Some((0, 5)));
        assert_eq!(access_warning(&address, access(0o600, None), found), None);
        assert_eq!(access_warning(&address, access(0o600, Some((0, 5))), found), None);
        let text = access_warning(&address, access(0o660, None), found).unwrap();
        assert!(text.contains("with mode 0600 of user 0 and group 5"), "{text}");
        assert!(text.contains("asks for 0660: "), "{text}");
        let text = access_warning(&address, access(0o600, Some((7, 7))), found).unwrap();
        assert!(text.contains("asks for 0600 of user 7 and group 7: "), "{text}");
    }
}
