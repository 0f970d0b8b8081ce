//! Streams as services use them: items that a method is called with, and items that it replies
//! with.
//!
//! **Invariants:** as in the files below.
//! **Not here:** streams as callers use them (`call/reply_stream.rs`, `call/request_stream.rs`),
//! credit (`nearcall-wire`).

mod dispatching;
mod item_receiver;
mod item_sender;

pub use self::item_receiver::{AsyncItemReceiver, ItemReceiver};
pub use self::item_sender::{AsyncItemSender, ItemSender};
