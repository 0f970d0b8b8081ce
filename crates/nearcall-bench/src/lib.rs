//! Measures IPC mechanisms between two real processes, stores the runs, presents them.
//!
//! Most modules are pure: statistics, payloads, warm-up, noise grades, plans and tables are
//! functions of their inputs. [`machine`], [`timers`], [`detector`] and [`doctor`] read this
//! machine, through judgements that are pure. [`run::Run::load`] and [`run::Run::save`] touch a
//! file. Starting processes is the runner's.
#![forbid(unsafe_code)]

pub mod bench_plan;
pub mod detector;
pub mod doctor;
pub mod histogram;
pub mod machine;
pub mod noise;
pub mod payload;
pub mod plan;
pub mod report;
pub mod run;
pub mod stats;
pub mod system_files;
pub mod timers;
pub mod warmup;
