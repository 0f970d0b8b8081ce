//! What each of the two processes of a launch runs.
//!
//! Reads its request from standard input, pins itself, and plays its end of one rival.

use anyhow::Context;
use nearcall_bench::worker;
use nearcall_os::cpu;

use crate::request::{LaunchRequest, Line, Role};
use crate::rivals;

/// Plays one end. What goes wrong is on standard output too, for who started it.
pub(crate) fn run() -> anyhow::Result<()> {
    let outcome = play();
    if let Err(error) = &outcome {
        Line::Failed(format!("{error:#}")).write()?;
    }
    outcome
}

fn play() -> anyhow::Result<()> {
    let request: LaunchRequest = worker::read_request()?;
    if let Some(cpu) = request.cpu {
        // Before the rival has any thread, so that all of them inherit it.
        cpu::pin_current(cpu)?;
    }
    let rivals = rivals::all();
    let rival = rivals.iter().find(|rival| rival.name == request.rival).context("no such rival")?;
    match request.role {
        Role::Server => (rival.serve)(&request),
        Role::Client => (rival.ask)(&request),
    }
}
