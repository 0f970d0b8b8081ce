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
