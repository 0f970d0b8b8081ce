//! Stored results of measurements, and everything that follows from them: statistics, comparison,
//! advice, tables and pages.
//!
//! **Invariants:** the same runs always give the same answer: nothing here reads a clock, starts
//! a process or opens a channel, and the manifest names no crate that could. [`run`], [`dataset`]
//! and [`system_files`] read and write the files that they are given.
//! **Not here:** measuring (`nearcall-bench`), the studies (`nearcall-studies`), options and output
//! (`nearcall-cli`).
#![forbid(unsafe_code)]

pub mod advise;
pub mod compare;
pub mod dataset;
pub mod findings;
pub mod histogram;
pub mod load;
pub mod machine;
pub mod noise;
pub mod report;
pub mod route;
pub mod run;
pub mod shape;
pub mod sizes;
pub mod stats;
pub mod system_files;
pub mod topology;
pub mod visible;
pub mod words;
