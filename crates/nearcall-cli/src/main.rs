//! The program nearcall: its exit code, and nothing else.
//!
//! The verbs are a table in `commands.rs`; each is a file in `commands/`, with its arguments;
//! results go out through `output.rs`.
//!
//! This crate turns arguments into a plan, errors into sentences, results into text or JSON.
//! Options that several verbs have are flattened from `args/options.rs`; `args/help.rs` gives an
//! option its heading in the help; the options that experiments of `bench` share are in
//! `args/bench.rs`. What several verbs ask of a server is in `commands/asked_server.rs`, and what
//! it offers, with the nearest names for unknown ones, in `commands/offered.rs`.
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
