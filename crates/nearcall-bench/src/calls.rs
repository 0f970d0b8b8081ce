//! Measures calls of the runtime: a fake server without work, over every mechanism and directly.
//!
//! Each call is measured beside what it moves on the bare channel, with the same bytes and the same
//! wait policy at each end, in the same two processes, in random order; so their ratio is the price
//! of marshalling, dispatch and event loop. Launches, warm-up, statistics and grades are those of
//! every run (`runner.rs`).
//! Not here: which calls a run has (`experiment/calls.rs`), the table (`nearcall-results`).

mod awaiting;
pub(crate) mod breakdown;
mod end;
mod local;
mod loops;
mod many;
mod meet;
pub(crate) mod ours;
pub mod part;
mod parts;
pub(crate) mod peer;
pub(crate) mod rest;
pub mod route;
pub mod service;
mod switches;

/// The interface of the fake server, from `proto/bench.proto`.
pub mod generated {
    include!("golden/bench.rs");
}

/// The same once more, as a library built by itself would have it: other types, the same interface.
pub(crate) mod generated_again {
    include!("golden/bench.rs");
}
