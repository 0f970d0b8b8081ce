//! Runs a set of services that a file names: as processes, or as libraries that share a process.
//!
//! The host binds the socket of each service and hands it over to the process that serves it, so
//! that clients who connect during a restart wait in its queue and lose no call.
//!
//! [`Config`] reads the file, [`run`] runs what it says until a signal ends the host,
//! [`run_worker`] is the process of a group of libraries, [`program`] the program that is both.
//! [`proto`] has the interface by which a host is asked.
//!
//! **Invariants:** what the host has started ends with it, however it ends.
//! **Not here:** calls and servers (`nearcall`), processes and sockets as the kernel has them
//! (`nearcall-os`), `status` and `restart` (`nearcall-cli`).
//!
//! # Inside
//!
//! What runs in one process is a *unit*. `config.rs` and `config/` turn the file into units, or
//! into an error with its line; gateways are processes of the program `nearcall`. `supervisor.rs`
//! and `supervisor/` decide what is started, restarted, replaced and ended: what has happened and
//! the time come in, what is to be done comes out. `host.rs` does it in one event loop, with
//! `host/process.rs` for one process, `host/watch.rs` for the question whether a service is well,
//! `host/log.rs` for the log, which a thread writes, and `host/service.rs` for being asked
//! (`proto/nearcall/v1/host.proto`). `worker.rs` enters the process of a group of libraries, which
//! `library.rs` and `library/` are; `bin/nearcall-group.rs` is a program that is nothing else.
//!
//! The host binds the socket of each service and hands it over with exec (`socket_activation.rs` of
//! `nearcall-os`); a process adopts it by listening at its address (`inherited.rs` of
//! `nearcall-channel`). Beside it lies a socket whose file was removed before it listened, so that
//! only the host can connect to it, at which the adopting server listens as well: there the host
//! asks that process, and no other that shares the first socket. The exec of a process reports its
//! error over a pipe of its own: the sockets may take the number of the pipe that the standard
//! library has for that.
#![forbid(unsafe_code)]

#[cfg(nearcall_shared)]
use nearcall_runtime as _;

mod config;
mod host;
pub mod library;
mod limits;
pub mod program;
mod supervisor;
mod worker;

pub use config::{Config, ConfigError, LISTEN_DEFAULT};
pub use host::{HostError, HostOptions, run};
pub use supervisor::Ending;
pub use worker::run_worker;

/// The interface of a host, generated from `proto/nearcall/v1/host.proto`.
pub mod proto {
    include!("golden/host.rs");
}
