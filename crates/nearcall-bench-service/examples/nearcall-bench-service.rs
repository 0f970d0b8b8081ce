//! The program of the service, for builds without the program nearcall.
//!
//! **Not here:** what it serves (`nearcall_bench_service::program`).
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    nearcall_bench_service::program()
}
