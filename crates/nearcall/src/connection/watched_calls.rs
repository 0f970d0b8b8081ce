//! The calls of the peer whose end some code waits for that has no access to the connection: it
//! answers later, or in another thread.
//!
//! **Invariants:** the end of a call is noted once; a connection without such calls pays a look at
//! an empty list when one of its calls is cancelled.
//! **Not here:** what is notified (`tasks/cancellation.rs`).

use std::cell::RefCell;
use std::sync::Arc;

use nearcall_wire::IncomingCall;

use super::{Connection, Host};
use crate::codec::Message;
use crate::status::Status;
use crate::tasks::cancellation::Cancellation;

/// By the slot of the call.
#[derive(Default)]
pub(super) struct WatchedCalls(RefCell<Vec<Watched>>);

type Watched = Option<(IncomingCall, Arc<Cancellation>)>;

impl<H: Host> Connection<H> {
    /// Has `cancellation` notified of the end of a call.
    pub(crate) fn watch_call(&self, call: IncomingCall, cancellation: &Arc<Cancellation>) {
        if self.is_cancelled(call) {
            return cancellation.end();
        }
        let mut watched = self.watched_calls.0.borrow_mut();
        let slot = usize::from(call.slot());
        if slot >= watched.len() {
            watched.resize_with(slot + 1, || None);
        }
        watched[slot] = Some((call, Arc::clone(cancellation)));
    }

    fn unwatch_call(&self, call: IncomingCall) -> Option<Arc<Cancellation>> {
        let mut watched = self.watched_calls.0.borrow_mut();
        let entry = watched.get_mut(usize::from(call.slot()))?;
        match entry {
            Some((other, _)) if *other == call => entry.take().map(|(_, watched)| watched),
            _ => None,
        }
    }

    /// Notes that a call of the peer waits for no answer any more.
    #[cold]
    pub(super) fn note_cancelled(&self, call: IncomingCall) {
        if let Some(cancellation) = self.unwatch_call(call) {
            cancellation.end();
        }
    }

    /// Ends a call that was answered after its method had returned, or in another thread. If its
    /// caller does not wait any more, nothing happens.
    pub(crate) fn reply_detached(
        &self,
        call: IncomingCall,
        metadata: &[u8],
        answer: Result<&impl Message, &Status>,
    ) {
        if self.has_streams.get() && self.end_stream_call(call, metadata, answer) {
            return self.note_cancelled(call);
        }
        match answer {
            Ok(result) => self.reply(call, metadata, result),
            Err(status) => self.fail(call, status),
        }
        self.note_cancelled(call);
    }
}
