//! Sending the items that services have handed over, as credit and room permit.
//!
//! **Invariants:** while items of a call wait here, they are sent when credit comes, when there is
//! room, and before the end of their call.
//! **Not here:** where they wait (`streams/item_outlet.rs`), sending one (`streaming.rs`).

use std::sync::Arc;

use nearcall_wire::IncomingCall;

use super::{Connection, Host, ItemUnsent, SendMode};
use crate::codec::{Encoded, Message};
use crate::deadline::Deadline;
use crate::status::Status;
use crate::streams::call_stream::CallStream;
use crate::tasks::reply_extras::ReplyExtras;

impl<H: Host> Connection<H> {
    /// Sends items that the service of this call has handed over.
    pub(crate) fn pump(&self, call: IncomingCall) {
        if let Some(stream) = self.stream(call) {
            self.pump_stream(call, &stream);
        }
    }

    fn pump_stream(&self, call: IncomingCall, stream: &Arc<CallStream>) {
        self.send_stream_headers(call, stream);
        loop {
            // Before an item is taken, since this may send others of the same stream. Those may
            // have filled the channel again: then sending this one would flush, and let others
            // pass it.
            if self.has_pending_writes() && (!self.flush_out_of_turn() || self.has_pending_writes())
            {
                return self.note_blocked();
            }
            let Some(item) = stream.outlet.take() else { break };
            match self.send_item(call.into(), &item, SendMode::Keep) {
                Ok(()) => {}
                // The credit resumes it, or the room, which was noted.
                Err(ItemUnsent::NoCredit | ItemUnsent::NoRoom) => {
                    return stream.outlet.put_back(item);
                }
                Err(ItemUnsent::Ended) => return,
                Err(ItemUnsent::Failed(status)) => {
                    return self.end_streamed(call, None, Err::<&(), _>(&status));
                }
            }
        }
        if let Some((extras, answer)) = stream.outlet.take_answer() {
            self.end_streamed(call, extras, answer.as_ref());
        }
    }

    /// Has the flush that makes room resume what waits for it.
    pub(super) fn note_blocked(&self) {
        self.inner.borrow_mut().has_blocked_streams = true;
        self.touch(Deadline::NEVER);
    }

    /// Sends what had waited for room in the channel.
    #[cold]
    pub(super) fn pump_blocked(&self) {
        self.inner.borrow_mut().has_blocked_streams = false;
        self.ask_for_meeting();
        let streams = self.streams.borrow().incoming();
        for (call, stream) in streams {
            if stream.outlet.is_posted() {
                self.pump_stream(call, &stream);
            }
            // There is no room for the others either, and their looks for it would lead here.
            if self.inner.borrow().has_blocked_streams {
                break;
            }
        }
    }

    /// Ends a call of the peer that streams, after the items that wait.
    #[cold]
    pub(super) fn end_stream_call(
        &self,
        call: IncomingCall,
        stream: &CallStream,
        extras: Option<Box<ReplyExtras>>,
        answer: Result<&impl Message, &Status>,
    ) {
        match stream.outlet.is_empty() {
            true => self.end_streamed(call, extras, answer),
            // Items leave in this thread only, so it does not become empty meanwhile.
            false => {
                let answer = answer.map_err(Status::clone).and_then(Encoded::new);
                stream.outlet.defer((extras, answer));
            }
        }
    }

    fn end_streamed(
        &self,
        call: IncomingCall,
        extras: Option<Box<ReplyExtras>>,
        answer: Result<&impl Message, &Status>,
    ) {
        let extras = self.end_headers(call, extras);
        self.answer(call, extras, answer);
        self.forget_stream(call);
    }

    /// Forgets the stream of a call that was answered.
    pub(super) fn forget_stream(&self, call: IncomingCall) {
        let stream = self.streams.borrow_mut().remove(call.into());
        if let Some(stream) = stream {
            self.wake(stream.cancel(&Status::failed_precondition("the call was answered")));
        }
    }
}
