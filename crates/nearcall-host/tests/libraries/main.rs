//! Services in dynamic libraries: loaded, called, calling each other, and misbehaving.
//!
//! A group of libraries runs in a child process, which is this test program again with its settings
//! in the environment ([`entry`]).
//! **Invariants:** a process that a test starts dies with the test; nothing has a fixed name; what
//! a test needs and this machine lacks it names in a line with `SKIPPED`.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "processes report, and so do tests")]

mod calls;
mod figures;
mod files;
mod group;
mod misbehaving;

use nearcall_testkit::home;

/// The group of a child process; in the test program itself nothing.
#[test]
fn entry() {
    group::enter();
}
