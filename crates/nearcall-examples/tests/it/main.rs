//! Runs every example as a user does, and tests hosting the loop in another one.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod book;
#[path = "../../../nearcall-wire/tests/it/golden.rs"]
mod golden;
mod heater;
mod hosted;
mod plain_client;
mod program;
mod runs;
mod thermostat;
mod tutorial;
