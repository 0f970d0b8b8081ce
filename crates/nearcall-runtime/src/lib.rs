//! nearcall as one dynamic library, which services and their host share: its code is in memory
//! once, whatever the number of processes and of service libraries.
//!
//! A crate with [`service_main!`](nearcall::service_main) links it where everything is built with
//! `--cfg nearcall_shared` (`docs/book/src/guides/memory.md`), and has this in its `Cargo.toml`:
//!
//! ```toml
//! [target.'cfg(nearcall_shared)'.dependencies]
//! nearcall-runtime = "0.1"
//! ```
//!
//! A Rust dynamic library exports every function of every crate in it. What an image needs of them
//! is known once the image is built: `cc.sh` then links this with these alone.
//! **Invariants:** it adds nothing to nearcall: what is linked to it does what it does without.
//! **Not here:** the interface between a host and its libraries, which is the same either way.
#![forbid(unsafe_code)]

pub use nearcall;
