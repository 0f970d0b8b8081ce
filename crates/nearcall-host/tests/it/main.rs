//! Hosts in processes of their own, and their clients.
//!
//! **Invariants:** what a test starts dies with the test; nothing has a fixed name; every wait is
//! bounded.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "figures")]

mod bad;
mod libraries;
mod processes;
mod restarts;
mod systemd;
mod tested;

use nearcall_testkit::home;
