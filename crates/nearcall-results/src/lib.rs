//! Stored results of measurements, and everything that follows from them: statistics, comparison,
//! advice, tables and pages.
//!
//! **Invariants:** the same runs always give the same answer: nothing here reads a clock, starts
//! a process or opens a channel, and the manifest names no crate that could. [`run`], [`dataset`]
//! and [`system_files`] read and write the files that they are given.
//! **Not here:** measuring (`nearcall-bench`), the studies (`nearcall-studies`), options and output
//! (`nearcall-cli`).
//!
//! # Inside
//!
//! `run.rs` and `run/` are the stored model, `findings/` the documents about clocks and memory,
//! `stats/`, `histogram.rs` and `noise.rs` the figures and their grades. `machine/` and
//! `topology.rs` make the record of a machine from texts of `/proc` and `/sys`, those of the
//! running machine or those of a test. `shape.rs`, `route.rs`, `load.rs` and `sizes.rs` are the
//! words of the command line that stored runs have too. A figure of a cell is one row of
//! `run/fact.rs` (name, unit, column, value, launches, which way is better), which headline, flat
//! table, columns, curves and answers read.
//!
//! Runs are evaluated in four ways, all of which join cells by their measured quantity
//! (`run/key.rs`) and group runs by machine (`report/hosts.rs`), which refuses runs with
//! conflicting definitions:
//!
//! - `report/`: what is fast here? `table/` writes a run as a `Document` of titles, sentences and
//!   tables, which `document.rs` lays out for a terminal and for a page; `page/` and `markdown.rs`
//!   are the report; `chart/` draws plain numbers as SVG; `figure.rs` is the list of questions that
//!   charts answer, `figure/` assigns cells to them.
//! - `compare/`: did it become slower? Ratios with intervals, corrected for many cells;
//!   `stats/two_samples.rs` decides.
//! - `dataset/`: what do many runs show? A directory of runs, its flat table (`rows.rs`) as CSV and
//!   JSON lines.
//! - `advise/`: which mechanism to use? Requirements exclude (`needs.rs`, `candidates.rs`),
//!   evidence is collected and judged (`evidence.rs`, `judge.rs`), ranked (`rank.rs`) and explained
//!   (`reasons.rs`); `trace.rs` counts recorded traffic. The blind test is `examples/advise_check`
//!   of `nearcall-bench`.
//!
//! **Invariant:** all output is a function of stored runs. Tables, pages, comparisons and advice
//! read no clock, no `/proc` and no settings. *Checked by* `crates_depend_one_way_and_share_lints`,
//! since the manifest names no crate that could, and `tests/it/table.rs`.
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
