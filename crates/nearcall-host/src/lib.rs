//! Runs a set of services that a file names: as processes, or as libraries that share a process.
//!
//! The host binds the socket of each service and hands it over to the process that serves it, so
//! that clients who connect during a restart wait in its queue and lose no call.
//!
//! **Invariants:** what the host has started ends with it, however it ends.
//! **Not here:** calls and servers (`nearcall`), processes and sockets as the kernel has them
//! (`nearcall-os`), what is printed (`nearcall-cli`).
#![forbid(unsafe_code)]

pub mod library;
