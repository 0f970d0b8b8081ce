//! A service that is written once and runs as a program and as a dynamic library: the program.
//!
//! ```text
//! NEARCALL_LISTEN=thermostat cargo run --example heater -- 17.5    in one terminal
//! cargo run --example thermostat -- set 21.5                      in another
//! ```
//!
//! It listens at the address in `NEARCALL_LISTEN`, or at its own name, `heater`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

// In a crate of its own: `use heater::...`, the library of the crate.
#[path = "heater_library.rs"]
mod heater_library;

fn main() -> ExitCode {
    heater_library::main()
}
