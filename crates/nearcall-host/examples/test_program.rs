//! The program that the tests of hosts start: a host, its process for libraries, and services, well
//! behaved or not.
//!
//! `host FILE`, `worker`; `exit CODE`, `abort`, `endless` and `silent` for services that fail;
//! anything else are arguments of the service that `test_library.rs` is as a library.
//! **Not here:** the tests (`tests/it`).
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "it is the log of the host, or what is tested")]

#[path = "test_library.rs"]
mod test_library;

use std::path::Path;
use std::process::ExitCode;
use std::thread;

use nearcall_host::{Config, Ending, HostOptions};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["host", file] => host(Path::new(file)),
        ["worker"] => nearcall_host::run_worker(std::io::stdin().lock()),
        ["exit", code] => {
            eprintln!("the heating is out of order");
            ExitCode::from(code.parse::<u8>().unwrap())
        }
        ["abort"] => {
            eprintln!("the heating burns");
            std::process::abort()
        }
        ["endless"] => loop {
            eprintln!("the heating is on");
        },
        ["silent"] => loop {
            thread::park();
        },
        _ => test_library::main(),
    }
}

fn host(file: &Path) -> ExitCode {
    let config = match Config::read(file) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    let worker = vec!["/proc/self/exe".into(), "worker".into()];
    let options =
        HostOptions { worker, gateway: Vec::new(), log: Box::new(|line| eprintln!("{line}")) };
    match nearcall_host::run(config, options) {
        Ok(Ending::Done) => ExitCode::SUCCESS,
        Ok(Ending::AtOnce) => ExitCode::from(130),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
