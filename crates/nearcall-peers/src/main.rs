//! The program nearcall-peers: nearcall beside other IPC libraries, measured in one harness.
//!
//! Words become settings in `args.rs`; `rivals.rs` lists what is measured, one file each below
//! `rivals/`; `bench.rs` launches pairs of processes (`launch.rs`) which run `peer.rs` by the
//! requests of `request.rs`, with the loops of `measure.rs` in the client and the judge of
//! `service.rs` in the server; `results.rs` makes a run of what they found. `shim.rs` may be
//! unsafe.
//! **Not here:** nearcall's own benchmarks (`nearcall-bench`), whose payloads and workers are used,
//! and how a run is shown and compared (`nearcall-results`).
#![deny(unsafe_code)]

mod args;
mod bench;
mod launch;
mod measure;
mod memory;
mod peer;
mod request;
mod results;
mod rival;
mod rivals;
mod service;
mod shim;

use std::process::ExitCode;

fn main() -> ExitCode {
    args::run(std::env::args_os())
}
