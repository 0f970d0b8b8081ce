//! The program nearcall-host, for the tests of this package, which Cargo builds it for.
//!
//! **Not here:** the program itself (`nearcall_host::program`).
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    nearcall_host::program::run(std::env::args_os().skip(1))
}
