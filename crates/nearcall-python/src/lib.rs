//! `nearcall._native`: the native half of the Python package `nearcall`.
//!
//! It moves messages as bytes; the half in `python/nearcall` turns them into objects and gives the
//! calls the shapes that programs of gRPC know.
//! **Invariants:** no thread of the runtime takes the lock of the interpreter; a thread of Python
//! that waits here has released it, and looks for signals and for the end of the program.
//! **Not here:** calls themselves (`nearcall`), messages (Google's protobuf).
//!
//! `client.rs` and `streams.rs` call, `attachment.rs` watches over servers, `server.rs`,
//! `call_queue.rs` and `server_call.rs` serve, `operation.rs` is what a thread (`waiting.rs`) or a
//! loop of asyncio (`notifier.rs`) waits for, `slot.rs` holds an end of a stream, and `buffers.rs`
//! has memory that is not copied, of which `_buffers.py` makes buffers. What is lent for a reply
//! the loop of the server lends, when it polls the call. `nearcall gen --lang
//! python` (`python.rs` of `nearcall-build`) writes the stubs; `_interceptors.py` and
//! `_aio_interceptors.py` stand between them and calls, and between calls and methods. maturin
//! builds the package, no plain `cargo build` does; `tests/run.py` builds and tests both halves.
#![forbid(unsafe_code)]

mod attachment;
mod buffers;
mod call_queue;
mod client;
mod failure;
mod notifier;
mod operation;
mod options;
mod results;
mod server;
mod server_call;
mod slot;
mod streams;
mod waiting;

/// The module as Python sees it.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::attachment::Attachment;
    #[pymodule_export]
    use crate::buffers::{Loan, Memory};
    #[pymodule_export]
    use crate::client::{Client, Object};
    #[pymodule_export]
    use crate::notifier::Notifier;
    #[pymodule_export]
    use crate::operation::Operation;
    #[pymodule_export]
    use crate::server::Server;
    #[pymodule_export]
    use crate::server_call::ServerCall;
    #[pymodule_export]
    use crate::streams::{Replies, Requests};
    #[pymodule_export]
    use crate::waiting::shutdown;

    /// The version of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    /// A field shorter than that stays in its message.
    #[pymodule_export]
    const BUFFER_BYTES_MIN: usize = crate::buffers::BUFFER_BYTES_MIN;
}
