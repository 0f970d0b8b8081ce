//! The program nearcall: its exit code, and nothing else.
//!
//! The verbs are a table in `commands.rs`; each is a file in `commands/`, with its arguments;
//! results go out through `output.rs`.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod output;
mod places;
mod progress;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::run()
}
