//! The chores of the project: the steps of CI, and the contribution rules.
//!
//! A chore is parsed ([`chore`]), turned into steps by what this machine has ([`facts`], [`plan`])
//! and run ([`step`]); [`tidy`] holds the rules that `tests/tidy.rs` applies to the repository.
//! Nothing depends on this crate, and it uses none of ours: it must run when they do not compile.
#![forbid(unsafe_code)]

mod child;
pub mod chore;
pub mod corpus;
pub mod facts;
pub mod interop;
pub mod languages;
pub mod plan;
pub mod repository;
pub mod step;
pub mod tidy;
