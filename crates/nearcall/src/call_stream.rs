//! What a connection shares with the users of one streaming call.
//!
//! **Invariants:** the connection forgets it when its call has ended, and ends both directions
//! then, so that no user waits for ever.
//! **Not here:** the table of them (`connection/streaming.rs`), what users hold (`streams.rs`,
//! `call/streaming.rs`).

use crate::item_outlet::ItemOutlet;
use crate::item_queue::ItemQueue;
use crate::status::Status;

/// The state of one call that streams, which any thread may use.
#[derive(Default)]
pub(crate) struct CallStream {
    /// Items of the peer.
    pub(crate) received: ItemQueue,
    /// Items of a service.
    pub(crate) outlet: ItemOutlet,
    /// Bytes of items that a reader reports together.
    pub(crate) report_bytes: u64,
}

impl CallStream {
    /// Ends both directions: nothing is read or sent any more.
    pub(crate) fn cancel(&self, status: &Status) {
        self.received.cancel(status.clone());
        self.outlet.end(status.clone());
    }
}
