//! A listener of a server before a loop accepts its clients.
//!
//! **Not here:** accepting (`reactor/handshakes.rs`).

use std::sync::Arc;

use nearcall_channel::{Listener, MechanismSet};
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
        let health = listener.take_health_listener().map(|health| {
            // A name in the abstract namespace has no mode that would keep other users out.
            let users = Some(vec![process::user_id()]);
            let policy = ListenPolicy { users, ..ListenPolicy::of_own_loop(limits) };
            let policy = ListenPolicy { offered: MechanismSet::default(), ..policy };
            (Arc::new(health), Arc::new(policy))
        });
        let (listener, policy) = (Arc::new(listener), Arc::new(policy));
        Ok(Self { address, listener, policy, health })
    }
}
