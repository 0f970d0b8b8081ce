//! A listener of a server before a loop accepts its clients.
//!
//! **Not here:** accepting (`reactor/handshakes.rs`).

use std::sync::Arc;

use nearcall_channel::Listener;

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
        Ok(Self { address, listener: Arc::new(listener), policy: Arc::new(policy) })
    }
}
