//! What channels promise, tried over every mechanism of the table and between real processes.
//!
//! **Invariants:** a case runs in two processes of its own, everything started has a deadline and
//! is killed by its number, and a mechanism that is not to be had here passes and says why.
//! **Not here:** parsing, judging of fragments and the like, which are tested beside the code.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod conformance;
mod handshake;
mod hostile_region;
mod interrupt;
mod killed_peer;
mod listener;
mod meeting;
mod remote;
mod shm_mixed;
mod support;
mod switch;
mod tuning;
