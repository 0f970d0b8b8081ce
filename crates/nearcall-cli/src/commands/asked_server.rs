//! The server that a command asks: at an address, or in a process.
//!
//! **Not here:** what it is asked.

use anyhow::{Context, bail};
use nearcall_channel::runtime_dir;

use crate::args::ServerChoice;

/// Returns the address of the server.
pub(super) fn address(choice: &ServerChoice) -> anyhow::Result<String> {
    let pid = match choice {
        ServerChoice::At(address) => return Ok(address.to_string()),
        ServerChoice::Process(pid) => *pid,
    };
    let names = nearcall::names().context("cannot look for the server of the process")?;
    let is_it = |server: &nearcall::control::DescribeReply| server.pid == Some(pid);
    match names.iter().find(|entry| entry.server.as_ref().is_ok_and(is_it)) {
        Some(entry) => Ok(entry.name.clone()),
        None => bail!(
            "no server of process {pid} listens by name in {} and answers: give its address \
             instead; `nearcall list` shows the names",
            runtime_dir::path().display()
        ),
    }
}
