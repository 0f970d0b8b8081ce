//! Measures IPC mechanisms between two real processes. Runs are stored and shown by
//! `nearcall-results`.
//!
//! Many modules are pure: payloads, warm-up, plans and tours are functions of their inputs.
//! [`machine`], [`timers`], [`detector`] and [`doctor`] read this machine, through judgements that
//! are pure; [`memory`] and [`usage`] read other processes. [`runner`] starts processes and waits
//! for them, [`peer`] is what they run; `exchange` and [`floor`] hold the measured loops. With all
//! of that [`calls`] measures calls of the runtime, [`budgets`] what it may cost, [`waits`] how its
//! waiting does at different paces, and [`matrix`] what the way from CPU to CPU costs. [`clocks`]
//! compares the clocks themselves; [`footprint`] tells what connections and services take of
//! memory; [`advise`] measures what advice needs.
#![forbid(unsafe_code)]

// What is stored and how it is shown: modules of this crate use them by these names.
use nearcall_results::{histogram, noise, report, run, stats, system_files, words};

pub mod advise;
mod awake;
pub mod bench_plan;
pub mod budgets;
pub mod calls;
pub mod cell;
pub mod clocks;
pub mod detector;
pub mod doctor;
mod exchange;
pub mod floor;
pub mod footprint;
pub mod launch;
mod load;
mod locked;
pub mod machine;
pub mod matrix;
pub mod memory;
pub mod payload;
pub mod peer;
pub mod plan;
pub mod profile;
pub mod runner;
pub mod scene;
pub mod studies;
pub mod timers;
pub mod touch;
pub mod tour;
pub mod traffic;
pub mod usage;
pub mod waits;
pub mod warmup;
