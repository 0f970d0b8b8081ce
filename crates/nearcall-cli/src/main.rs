//! The program nearcall: its exit code, and nothing else.
//!
//! Arguments become a typed command in `args.rs`; each command is a file in `commands/`; results go
//! out through `output.rs`.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod output;
mod places;
mod progress;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::run(std::env::args_os())
}
