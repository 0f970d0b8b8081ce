//! Tests of the functions of this crate on the running kernel.
//!
//! **Invariants:** a test leaves no process, file or descriptor behind, and bounds every wait.
//! **Not here:** parsing and arithmetic, which are tested beside the code.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod child;
mod clock;
mod cma;
mod cpu;
mod descriptor;
mod epoll;
mod futex;
mod mqueue;
mod partner;
mod pipe;
mod process;
mod pshared;
mod ptrace;
mod region;
mod signal;
mod socket;
mod socket_activation;
mod sysv;
mod uring;
mod vmsplice;
