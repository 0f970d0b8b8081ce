//! Mechanisms in which the kernel moves the bytes.
//!
//! Always true: what arrives is in memory of this process alone before anybody looks at it.
//! Not here: shared memory (`shm.rs`).

pub(crate) mod cma;
pub(crate) mod uring;
pub(crate) mod vmsplice;
