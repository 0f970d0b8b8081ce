//! The program nearcall-host: `nearcall_host::program` with the arguments of this process.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    nearcall_host::program::run(std::env::args_os().skip(1))
}
