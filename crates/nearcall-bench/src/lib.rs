//! Measures IPC mechanisms between two real processes, stores the runs, presents them.
//!
//! The modules of this list are pure: statistics, payloads, warm-up, noise grades, plans and
//! tables are functions of their inputs. Only [`run::Run::load`] and [`run::Run::save`] touch a
//! file. Nothing here reads a clock or starts a process on its own; the runner does both.
#![forbid(unsafe_code)]

pub mod bench_plan;
pub mod histogram;
pub mod noise;
pub mod payload;
pub mod plan;
pub mod report;
pub mod run;
pub mod stats;
pub mod warmup;
