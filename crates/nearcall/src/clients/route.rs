//! Where a connection of a client leads, and by which way.
//!
//! **Invariants:** two calls share a connection exactly if their routes are equal.
//! **Not here:** connecting (`clients/connecting.rs`), the connections of a thread
//! (`clients/core.rs`).

use nearcall_channel::{Mechanism, WaitPolicy};
use nearcall_os::users;

use crate::address::{Address, At};
use crate::status::Status;
use crate::trust::Trust;

/// The key of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) at: At,
    pub(super) mechanism: Mechanism,
    /// It moves to shared memory where it can.
    pub(super) upgrades: bool,
    /// It chooses the mechanism by itself, and begins with that one.
    pub(super) is_automatic: bool,
    pub(super) wait: Option<WaitPolicy>,
    pub(super) trust: Trust,
    /// The user whose server this must be.
    pub(super) user: Option<String>,
}

impl Route {
    pub(super) fn new(address: &Address) -> Self {
        let (mechanism, wait, trust) = (address.mechanism(), address.wait, address.trust());
        let upgrades = mechanism == Mechanism::Tcp && address.via.is_none();
        let is_automatic = address.is_automatic();
        let (at, user) = (address.at.clone(), address.user.clone());
        Self { at, mechanism, upgrades, is_automatic, wait, trust, user }
    }

    /// Returns the user whose server this must be.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT`: no user has the name.
    pub(super) fn server_user(&self) -> Result<Option<u32>, Status> {
        self.user.as_deref().map(user_id).transpose()
    }
}

/// Returns the number of a user, from that or from the name.
fn user_id(user: &str) -> Result<u32, Status> {
    if let Ok(uid) = user.parse() {
        return Ok(uid);
    }
    match users::user_id_of(user) {
        Ok(Some(uid)) => Ok(uid),
        Ok(None) => Err(Status::invalid_argument(format!(
            "`user={}`: there is no such user here, by name or number",
            user.escape_debug()
        ))),
        Err(error) => Err(Status::failed_precondition(format!(
            "`user={}`: the users of this machine cannot be read: {error}",
            user.escape_debug()
        ))),
    }
}
