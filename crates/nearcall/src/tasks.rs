//! What runs in the thread of a loop besides calls that arrive: closures and replies that other
//! threads post, and futures.
//!
//! **Not here:** the turns that run them (`reactor.rs`), what is posted from outside
//! (`event_loop/poster.rs`).

pub(crate) mod cancellation;
pub(crate) mod executor;
pub(crate) mod mailbox;
pub(crate) mod reply_extras;
pub(crate) mod service_task;
