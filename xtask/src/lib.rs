//! The chores of the project: the steps of CI, and the contribution rules.
//!
//! A chore is parsed ([`chore`]), turned into steps by what this machine has ([`facts`], [`plan`])
//! and run ([`step`]); [`tidy`] holds the rules that `tests/tidy.rs` applies to the repository.
//! Nothing depends on this crate, and it uses none of ours: it must run when they do not compile.
//!
//! All steps of `cargo xtask ci` but that of the oldest compiler share one build: `xtask/cfg/` adds
//! `--cfg loom` and `--cfg simulation` to the crates of the workspace alone, and the program is run
//! as the tests have built it. It ends with a table of its steps; `--quick` stops after the unit
//! tests. `release-check` adds what takes longer or needs tools that it installs first. What clippy
//! can check is among the lints of the workspace and not here.
//!
//! **Invariant:** `xtask` uses no other crate of this repository, because it must run when they do
//! not compile. *Checked by* `crates_depend_one_way_and_share_lints`.
#![forbid(unsafe_code)]

mod child;
pub mod chore;
pub mod corpus;
pub mod device;
pub mod facts;
pub mod interop;
pub mod languages;
pub mod package;
pub mod plan;
pub mod platforms;
pub mod repository;
pub mod step;
pub mod tidy;
