//! The program nearcall: its exit code, and nothing else.
//!
//! The verbs are a table in `commands.rs`; each is a file in `commands/`, with its arguments;
//! results go out through `output.rs`.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod completion;
mod output;
mod places;
mod progress;
mod terminal;

use std::process::ExitCode;

use clap_complete::CompleteEnv;

fn main() -> ExitCode {
    // Only where a shell asks for completion: by the variable COMPLETE.
    CompleteEnv::with_factory(commands::command).complete();
    commands::run()
}
