//! An object of another service of the same host: where a library's calls leave for it.
//!
//! **Not here:** the calls (`call/hosted.rs`), what the host does with them (`nearcall-host`).

use nearcall_os::library::{HostLink, ReplyPart, RequestPart};

use crate::address::Address;

/// An object of another service of the same host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostedObject {
    host: HostLink,
    number: u64,
}

impl HostedObject {
    /// Returns the object with this name, if this is a library and its host has it.
    pub(crate) fn find(address: &Address, object: &str) -> Option<Self> {
        let host = HostLink::current()?;
        // The user of a server is asked of the kernel, over a connection.
        if address.user.is_some() {
            return None;
        }
        let number = host.find(&address.at.to_string(), object)?;
        Some(Self { host, number })
    }

    /// Calls it and gives its reply to `reply`. Returns `false`, without a reply, if it is not
    /// there any more.
    pub(crate) fn call(
        &self,
        request: RequestPart<'_>,
        reply: impl FnOnce(&ReplyPart<'_>),
    ) -> bool {
        self.host.call(self.number, request, reply)
    }
}
