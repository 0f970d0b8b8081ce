//! The examples are in `examples/`: each is one file that can be copied into a program of yours.
//!
//! **Not here:** anything that an example uses.
//!
//! `proto/` has their interfaces, `build.rs` generates code as a user's build script does,
//! `src/lib.rs` starts an example's second process, `python/` has a client without this library. It
//! is the only crate that uses nearcall as a user does, so an awkward API is visible here first. An
//! example leaves no process behind: one of the two waits for a pipe or a connection to the other.
//!
//! **Invariant:** published examples work. *Checked by* `tests/it/runs.rs`, which runs every
//! example and checks its last line.
//!
//! **Invariant:** the client in Python uses nothing but its standard library and what
//! `docs/book/src/reference/protocol.md` says. *Checked by* `tests/it/plain_client.rs`, which also
//! sends the golden bytes of that document to real servers.
#![forbid(unsafe_code)]

/// The code in README.md is compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// That of the document about calling, too.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/calling.md")]
struct Calling;
