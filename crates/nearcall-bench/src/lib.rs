//! Measures IPC mechanisms between two real processes. Runs are stored and shown by
//! `nearcall-results`.
//!
//! Many modules are pure: payloads, warm-up, plans and tours are functions of their inputs.
//! [`machine`], [`timers`], [`detector`] and [`doctor`] read this machine, through judgements that
//! are pure; [`memory`] and [`usage`] read other processes. [`runner`] starts processes and waits
//! for them by [`worker`], [`peer`] is what they run; `exchange` and [`floor`] hold the measured
//! loops. [`experiment`] has the table of what can be measured with all of that, [`calls`] the
//! runtime's calls, [`custom`] what others have measured. [`footprint`] shows what connections and
//! services take of memory; [`advise`] measures what advice needs.
//!
//! # Inside
//!
//! A *cell* is a combination of mechanism, size, shape, placement, load and wait policy
//! (`conditions.rs` has the last three and the rate). A *floor* is the same exchange without a
//! channel and is stored as a cell too. A *run* is the JSON document that holds them together with
//! the machine's description. The cells of a plain run share their launches: `slices.rs` keeps an
//! end of each subject open and gives each cell a slice in turn. An interrupted runner closes the
//! client's standard input, which asks for what has been measured.
//!
//! `peer.rs` is what each process of a launch runs: `ends.rs` opens what is measured, `exchange/`
//! has the loops, and `session.rs` what the ends tell each other and the runner. `experiment.rs` is
//! the table of what `bench` measures, from which its command line is made; a new experiment is a
//! row in a file of `experiment/` and its name in `ALL`.
//!
//! `calls/` has what experiments with calls of the runtime measure: every call has its *bare
//! exchange*, the same bytes on the bare channel with the same wait policy at each end, in the same
//! two processes. Their ratio, taken launch by launch, is the cost of marshalling, dispatch and
//! event loop. The measured loops treat a call as a send that returns when the reply has arrived.
//! The code generated from `proto/bench.proto` is included twice, so that the short circuit through
//! bytes has a caller of other types.
//!
//! `experiment/traffic.rs` has the rows whose traffic is not back-to-back exchanges, each with a
//! field in a cell's `Conditions` and its own loop (`exchange/paced.rs`, `gapped.rs`, `bursts.rs`,
//! `starts.rs`, `calls/many.rs`). In the open loop the client has one exchange in flight and
//! catches up with the exchanges that fell due meanwhile, as wrk2 does: a backlog counts in full
//! from the time when each exchange was due, but it is never in the channel at once.
//!
//! `footprint/` reads the memory of processes with idle connections and of services;
//! `footprint/setups.rs` runs equal services as processes, as libraries of hosts and linked into
//! one program. `profile/` examines one mechanism by several launches, one purpose each, because
//! measuring perturbs: one undisturbed, one under ptrace, one sampled by `perf`; a `getrusage` call
//! marks each border of the measured region. `load.rs` generates background load: worker processes
//! of the program itself, started before a launch and ended after it, so that the noise detector
//! between launches does not see them.
#![forbid(unsafe_code)]

// What is stored and how it is shown: modules of this crate use them by these names.
use nearcall_results::{histogram, noise, report, run, stats, system_files, words};

pub use exchange::stamps::TimestampSource;

pub mod advise;
mod awake;
pub mod bench_plan;
pub mod calls;
pub mod cell;
pub mod cell_list;
pub mod conditions;
pub mod custom;
mod custom_name;
pub mod detector;
pub mod doctor;
mod ends;
mod exchange;
pub mod experiment;
pub mod floor;
pub mod footprint;
pub mod launch;
mod load;
mod locked;
pub mod machine;
pub mod memory;
pub mod payload;
pub mod peer;
pub mod plan;
pub mod profile;
pub mod runner;
mod session;
mod slices;
pub mod timers;
pub mod touch;
pub mod usage;
pub mod warmup;
pub mod worker;
