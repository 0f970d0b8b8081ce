//! What a connection shares with the users of one streaming call.
//!
//! **Invariants:** the connection forgets it when its call has ended, and ends both directions
//! then, so that every wait of a user ends.
//! **Not here:** the table of them (`connection/streaming.rs`), what users hold (`streams.rs`,
//! `call/streaming.rs`).

use std::sync::{Mutex, PoisonError};
use std::task::Waker;

use crate::item_outlet::ItemOutlet;
use crate::item_queue::{ItemQueue, Woken};
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
    /// The task of an async caller that waits until it may send.
    sender: Mutex<Option<Waker>>,
}

impl CallStream {
    pub(crate) fn new(report_bytes: u64) -> Self {
        Self { report_bytes, ..Self::default() }
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
