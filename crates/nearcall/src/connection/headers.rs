//! Headers of calls: metadata that reach the caller before the first item and the answer.
//!
//! **Invariants:** headers are sent once for each call, before its items and its answer; where the
//! version of the peer has none, they go in front of the metadata of the answer. What has come of a
//! call that was not taken is bounded by the number of calls.
//! **Not here:** what a service adds (`tasks/reply_extras.rs`, `streams/item_outlet.rs`).

use nearcall_wire::{IncomingCall, OutgoingCall, ReplyError};

use super::calls::Outcome;
use super::sending::Unsent;
use super::{Connection, Host, Inner};
use crate::deadline::Deadline;
use crate::metadata::Entries;
use crate::status::Status;
use crate::streams::call_stream::CallStream;
use crate::tasks::reply_extras::ReplyExtras;

impl<H: Host> Connection<H> {
    /// Sends the headers of a call of the peer. Never waits. Returns those that have to go with its
    /// answer: the peer takes none, or there is no room to keep them.
    #[cold]
    pub(super) fn send_headers(&self, call: IncomingCall, headers: Entries) -> Entries {
        let sent = self.inner.borrow_mut().send_headers(call, headers.as_bytes());
        self.touch(Deadline::NEVER);
        match sent {
            Ok(()) => {
                if self.is_recorded() {
                    self.record_headers(call, headers.as_bytes());
                }
                Entries::new()
            }
            Err(Unsent::Channel(error)) => {
                self.channel_failed(&error);
                Entries::new()
            }
            Err(_) => headers,
        }
    }

    /// Sends the headers of a call of the peer that streams, if it has some that were not sent.
    pub(crate) fn send_stream_headers(&self, call: IncomingCall, stream: &CallStream) {
        if let Some(headers) = stream.outlet.take_headers() {
            let left = self.send_headers(call, headers);
            stream.outlet.keep_for_answer(left);
        }
    }

    /// Sends the headers of a call that streams and ends now. Returns what goes with its answer.
    pub(super) fn end_headers(
        &self,
        call: IncomingCall,
        extras: Option<Box<ReplyExtras>>,
    ) -> Option<Box<ReplyExtras>> {
        let Some(stream) = self.stream(call) else { return extras };
        stream.outlet.close_headers();
        self.send_stream_headers(call, &stream);
        let left = stream.outlet.take_for_answer();
        if left.is_empty() {
            return extras;
        }
        let mut extras = extras.unwrap_or_default();
        extras.metadata.prepend(left);
        Some(extras)
    }

    /// Keeps headers of a call of this end: for the readers of its items, or until it ends.
    #[cold]
    pub(super) fn note_headers(&self, call: OutgoingCall, metadata: &[u8]) {
        let headers = Entries::from_peer(metadata);
        match self.outgoing_stream(call) {
            Some(stream) => {
                // They come once.
                let _ = stream.headers.set(headers);
                self.wake(stream.received.take_waker());
            }
            None => {
                self.headers.borrow_mut().insert(call.slot(), (call, headers));
                self.has_headers.set(true);
            }
        }
    }

    /// Takes the headers of a call of this end that does not stream.
    pub(crate) fn take_headers(&self, call: OutgoingCall) -> Entries {
        if !self.has_headers.get() {
            return Entries::new();
        }
        let mut headers = self.headers.borrow_mut();
        let taken = headers.remove(&call.slot()).filter(|(of, _)| *of == call);
        self.has_headers.set(!headers.is_empty());
        taken.map_or_else(Entries::new, |(_, headers)| headers)
    }

    /// Returns the outcome of a call with its headers.
    #[cold]
    pub(super) fn with_headers(&self, call: OutgoingCall, outcome: Outcome) -> Outcome {
        let headers = self.take_headers(call);
        match outcome {
            Ok(mut reply) => {
                reply.headers = (!headers.is_empty()).then(|| Box::new(headers));
                Ok(reply)
            }
            Err(status) => Err(Status::with_headers(status, headers)),
        }
    }
}

impl Inner {
    fn send_headers(
        &mut self,
        call: IncomingCall,
        headers: &[u8],
    ) -> Result<(), Unsent<ReplyError>> {
        self.send_control(Deadline::NOW).map_err(Unsent::Channel)?;
        let too_large = |_| Unsent::Protocol(ReplyError::TooLarge);
        let metadata_bytes = u16::try_from(headers.len()).map_err(too_large)?;
        let head = self.protocol.send_headers(call, metadata_bytes).map_err(Unsent::Protocol)?;
        self.send_bytes(&[&head, headers].concat())
    }
}
