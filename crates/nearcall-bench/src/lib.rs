//! Measures IPC mechanisms between two real processes, stores the runs, presents them.
//!
//! Most modules are pure: statistics, payloads, warm-up, noise grades, plans, tours and tables are
//! functions of their inputs. [`machine`], [`timers`], [`detector`] and [`doctor`] read this
//! machine, through judgements that are pure; [`memory`] and [`usage`] read other processes.
//! [`run::Run::load`] and [`run::Run::save`] touch a file. [`runner`] starts processes and waits
//! for them, [`peer`] is what they run; `exchange` and [`floor`] hold the measured loops. With all
//! of that [`calls`] measures calls of the runtime, [`budgets`] what it may cost, [`waits`] how its
//! waiting does at different paces, and [`matrix`] what the way from CPU to CPU costs. [`clocks`]
//! compares the clocks themselves; [`footprint`] tells what connections and services take of
//! memory. [`mod@compare`] tells whether a later run differs from an earlier one.
#![forbid(unsafe_code)]

pub mod advise;
mod awake;
pub mod bench_plan;
pub mod budgets;
pub mod calls;
pub mod cell;
pub mod clocks;
pub mod compare;
pub mod dataset;
pub mod detector;
pub mod doctor;
mod exchange;
pub mod floor;
pub mod footprint;
pub mod histogram;
pub mod launch;
mod load;
mod locked;
pub mod machine;
pub mod matrix;
pub mod memory;
pub mod noise;
pub mod payload;
pub mod peer;
pub mod plan;
pub mod profile;
pub mod report;
pub mod run;
pub mod runner;
pub mod scene;
mod slices;
pub mod stats;
pub mod studies;
pub mod system_files;
pub mod timers;
pub mod touch;
pub mod tour;
pub mod traffic;
pub mod usage;
pub mod waits;
pub mod warmup;
