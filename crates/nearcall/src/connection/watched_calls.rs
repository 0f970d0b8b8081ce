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
use crate::tasks::reply_extras::ReplyExtras;

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
        extras: Option<Box<ReplyExtras>>,
        answer: Result<&impl Message, &Status>,
    ) {
        let stream = if self.has_streams.get() { self.stream(call) } else { None };
        match stream {
            Some(stream) => self.end_stream_call(call, &stream, extras, answer),
            None => self.answer(call, extras, answer),
        }
        self.note_cancelled(call);
    }

    /// Ends a call whose method has failed to return, also for a responder that it has given away.
    #[cold]
    pub(crate) fn fail_watched(&self, call: IncomingCall, status: &Status) {
        let watched = self.unwatch_call(call);
        let extras = watched.as_ref().and_then(|watched| watched.extras.take());
        self.answer(call, extras, Err::<&(), _>(status));
        if let Some(cancellation) = watched {
            cancellation.end();
        }
    }
}
