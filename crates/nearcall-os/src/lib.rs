//! Linux as typed functions for nearcall: memory files, waiting, clocks, processors.
//!
//! Always true: this is the only crate with unsafe code, and each unsafe block says who guarantees
//! what. A function here is one system call, or the few that are only right together.
//! Not here: what the bytes mean (`nearcall-channel`), what is measured (`nearcall-bench`).

pub mod clock;
pub mod cpu;
pub mod futex;
pub mod pshared;
pub mod region;
pub mod tsc;
