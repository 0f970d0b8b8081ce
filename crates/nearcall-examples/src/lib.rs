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

/// Compiles the Rust code of documents.
macro_rules! compiled {
    ($($name:ident $path:literal)+) => {$(
        #[cfg(doctest)]
        #[doc = include_str!($path)]
        struct $name;
    )+};
}

compiled! {
    Readme "../../../README.md"
    FirstCall "../../../docs/book/src/tutorial/first-call.md"
    Threads "../../../docs/book/src/guides/threads.md"
    SlowMethods "../../../docs/book/src/guides/slow-methods.md"
    ZeroCopy "../../../docs/book/src/guides/zero-copy.md"
    Names "../../../docs/book/src/guides/names.md"
    Gateway "../../../docs/book/src/guides/gateway.md"
}
