//! The service that `nearcall bench memory --setups` measures: the program.
//!
//! **Not here:** what it serves, which is the crate `nearcall-bench-service`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    nearcall_bench_service::program()
}
