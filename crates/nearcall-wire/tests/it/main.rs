//! The protocol between two connections in memory, with time as a number.
//!
//! **Invariants:** no test waits, and whatever is random comes from a seed that a failure prints.
//! **Not here:** details of the tables, which are tested beside the code.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod document;
mod frames;
mod golden;
mod headers;
mod hostile;
mod link;
mod pair;
mod simulation;
mod streams;
mod switches;
mod violations;
