//! What a connection shares with the users of one streaming call.
//!
//! **Invariants:** it outlives neither its call's items nor its readers: the connection forgets it
//! when the call has ended.
//! **Not here:** the table of them (`connection/streaming.rs`), what users hold (`streams.rs`).

use crate::item_queue::ItemQueue;

/// The state of one call that streams, which any thread may use.
#[derive(Default)]
pub(crate) struct CallStream {
    /// Items of the peer.
    pub(crate) received: ItemQueue,
}
