//! The server that a command asks: at an address, or in a process; and the process of a server that
//! was asked.
//!
//! **Invariants:** a process is the one that the kernel reports at the other end of the connection.
//! What a server says of its process is its own word, and counts in its own PID namespace.
//! **Not here:** what it is asked.

use std::os::fd::OwnedFd;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use nearcall::client::ReconnectPolicy;
use nearcall::observe::{Peer, PeerIdentity};
use nearcall::{Address, BadAddress, Client, Code, Status};
use nearcall_channel::runtime_dir;
use nearcall_os::process;

/// The server that a command is about.
#[derive(Debug, Clone)]
pub(crate) enum ServerChoice {
    /// That of a process, which listens by name.
    Process(i32),
    At(Address),
}

impl FromStr for ServerChoice {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(pid) if pid > 0 => Ok(Self::Process(pid)),
            _ => text.parse().map(Self::At),
        }
    }
}

/// Which host is asked.
#[derive(Debug, Args)]
pub(crate) struct AskedHostArgs {
    /// The address of the host, which its file may set as `listen` of `[host]`
    #[arg(long, value_name = "ADDRESS", default_value = nearcall_host::LISTEN_DEFAULT)]
    pub(crate) host: Address,
}

/// Returns the address of the server.
pub(super) fn address(choice: &ServerChoice) -> anyhow::Result<String> {
    let pid = match choice {
        ServerChoice::At(address) => return own_address(address),
        ServerChoice::Process(pid) => *pid,
    };
    let names = nearcall::observe::names().context("cannot look for the server of the process")?;
    let is_it = |process: &PeerIdentity| process.pid == Some(pid);
    match names.iter().find(|entry| entry.process.as_ref().is_some_and(is_it)) {
        Some(entry) => Ok(entry.name.clone()),
        None => bail!(
            "no server of process {pid} listens by name in {} and answers: give its address \
             instead; `nearcall list` shows the names",
            runtime_dir::path().display()
        ),
    }
}

/// Returns an address as text, unless only `describe` and `call` reach it.
pub(super) fn own_address(address: &Address) -> anyhow::Result<String> {
    match address.is_remote() {
        true => bail!(
            "{address} is a server of gRPC, which has no nearcall.v1.Server: `nearcall describe` \
             and `nearcall call` take it, and others the address of a server of nearcall"
        ),
        false => Ok(address.to_string()),
    }
}

/// Returns a client for one server that is the same one in each of its calls.
pub(super) fn client() -> Client {
    Client::builder().reconnect(ReconnectPolicy::Never).build()
}

/// Returns what the kernel reports of the server that a client for one server has asked. `None`:
/// it was asked over the network.
pub(super) fn process_of(client: &Client) -> Option<PeerIdentity> {
    client.connections().into_iter().find_map(|connection| match connection.peer {
        Peer::Process(identity) => Some(identity),
        _ => None,
    })
}

/// Returns a hold on the process of a server, which keeps its meaning when the process has ended.
/// `claimed` is the number that the server gives itself.
pub(super) fn hold(identity: &PeerIdentity, claimed: Option<i32>) -> Option<Arc<OwnedFd>> {
    if let Some(pidfd) = &identity.pidfd {
        return Some(Arc::clone(pidfd));
    }
    // The kernel is older than Linux 6.5. It may know only which process has made the socket, which
    // is another one than the server if they disagree.
    let pid = identity.pid.filter(|pid| Some(*pid) == claimed)?;
    process::pidfd_open(pid).ok().map(Arc::new)
}

/// Returns whether the number that a server gives its process is another one than the kernel gives
/// it here.
pub(super) fn is_elsewhere(process: Option<&PeerIdentity>, claimed: Option<i32>) -> bool {
    process.is_some_and(|process| claimed.is_some() && process.pid != claimed)
}

/// Returns a failure of asking as the user of a command needs it: a program could wait for a
/// server, a command line cannot.
pub(super) fn failure(status: Status) -> anyhow::Error {
    let text = without_hunt(&status);
    match text.len() == status.message().len() {
        true => status.into(),
        false => Status::new(status.code(), text).into(),
    }
}

/// Returns the text of a status without the advice to wait for a server.
pub(super) fn without_hunt(status: &Status) -> String {
    status.message().replace(", or hunt for it, which waits until it is there", "")
}

/// Returns the status of a server whose version is too old to describe its interfaces.
pub(super) fn undescribed(address: &impl std::fmt::Display, version: &str, why: &str) -> Status {
    let gap = if why.is_empty() { "" } else { ": " };
    Status::unimplemented(format!(
        "{address}: {version} is too old to describe its interfaces, rebuild the server{gap}{why}"
    ))
}

/// Returns whether no server listens where one was asked.
pub(super) fn is_absent(status: &Status) -> bool {
    status.code() == Code::Unavailable && status.message().starts_with("no server listens at ")
}

/// Returns a failure of asking a host at `address`.
pub(super) fn host_failure(status: Status, address: &impl std::fmt::Display) -> anyhow::Error {
    match is_absent(&status) {
        true => Status::new(
            status.code(),
            format!(
                "no host runs at {address}: start one with `nearcall host FILE.toml`, or name its \
                 address by --host"
            ),
        )
        .into(),
        false => failure(status),
    }
}
