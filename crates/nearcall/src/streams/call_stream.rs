//! What a connection shares with the users of one streaming call.
//!
//! **Invariants:** the connection forgets it when its call has ended, and ends both directions
//! then, so that every wait of a user ends.
//! **Not here:** the table of them (`connection/streaming.rs`), what users hold
//! (`services/streams.rs`, `call/streaming.rs`).

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Waker;

use nearcall_wire::{grant_bytes, item_cost};

use crate::codec::{self, Message};
use crate::decoded_size::{self, MessageType};
use crate::metadata::Entries;
use crate::reservation::CallMemory;
use crate::status::Status;
use crate::streams::item_outlet::ItemOutlet;
use crate::streams::item_queue::{Item, ItemQueue, Woken};

/// The state of one call that streams, which any thread may use.
#[derive(Default)]
pub(crate) struct CallStream {
    /// Items of the peer.
    pub(crate) received: ItemQueue,
    /// Items of a service.
    pub(crate) outlet: ItemOutlet,
    /// The headers of a call of this end, once they have come.
    pub(crate) headers: OnceLock<Entries>,
    /// What this end lets the peer send and not consume, in bytes.
    window: u32,
    /// Memory that decoding an item may take, beyond its own bytes.
    decoded_bytes_max: u32,
    /// The type of the items that the peer sends, once its reader knows it.
    item_type: OnceLock<MessageType>,
    /// The task of an async caller that waits until it may send.
    sender: Mutex<Option<Waker>>,
}

impl CallStream {
    /// Creates the state of a call whose items are charged to `memory`, both those that were not
    /// read and those that were not sent.
    pub(crate) fn new(
        window: u32,
        decoded_bytes_max: u32,
        memory: Option<&Arc<CallMemory>>,
    ) -> Self {
        let (received, outlet) = (ItemQueue::charged_to(memory), ItemOutlet::charged_to(memory));
        Self { received, outlet, window, decoded_bytes_max, ..Self::default() }
    }

    /// Notes the type of the items that the peer sends.
    pub(crate) fn expect(&self, items: MessageType) {
        let _ = self.item_type.set(items);
    }

    /// Reads an item.
    #[inline]
    pub(crate) fn decode<M: Message + Default>(&self, item: &Item<'_>) -> Result<M, Status> {
        let body = item.body();
        if let Some(item_type) = self.item_type.get() {
            decoded_size::check(&body, *item_type, self.decoded_bytes_max)?;
        }
        codec::decode(body)
    }

    /// Returns what an item of the peer has cost, of a message with so many bytes.
    #[inline]
    pub(crate) fn cost(&self, message_bytes: usize) -> u64 {
        item_cost(message_bytes, self.window).into()
    }

    /// Returns the cost of items that a reader reports together: what is granted together.
    #[inline]
    pub(crate) fn report_cost(&self) -> u64 {
        grant_bytes(self.window).into()
    }

    /// Ends both directions: nothing is read or sent any more. Returns the task to wake.
    pub(crate) fn cancel(&self, status: &Status) -> Woken {
        self.outlet.end(status.clone());
        self.received.cancel(status.clone())
    }

    /// Has `waker` woken when credit has come, or at the end of the call. Returns the one before.
    pub(crate) fn set_sender(&self, waker: &Waker) -> Option<Waker> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).replace(waker.clone())
    }

    /// Takes the waker of the task that waits until it may send.
    pub(crate) fn take_sender(&self) -> Option<Waker> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
