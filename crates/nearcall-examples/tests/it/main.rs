//! Runs every example as a user does, and the shared parts that only a host needs.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod hosted;
mod program;
mod runs;
mod thermostat;
