//! What was found out beside runs: about clocks and about memory, each a document of its own.

pub mod clocks;
pub mod memory;
