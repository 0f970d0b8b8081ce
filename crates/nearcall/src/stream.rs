//! The two ends of a stream inside one process: what was received and not read yet, and what is to
//! be sent.
//!
//! **Not here:** credit (`nearcall-wire`), the handles that services and callers hold
//! (`service/streams.rs`, `call/`, `async_call/`).

pub(crate) mod call_stream;
pub(crate) mod item_outlet;
pub(crate) mod item_queue;
