//! What a connection adds to a recording of its server.
//!
//! **Invariants:** a connection that is not recorded pays one look at a flag for each message of a
//! call; a call has events only after its request, and none after its end.
//! **Not here:** the bounds of a recording (`recording.rs`), which connections are recorded
//! (`reactor/acceptor.rs`).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use nearcall_wire::{CancelReason, IncomingCall, Shape, StreamCall};

use super::{Connection, Host, RequestHead};
use crate::borrowed::BorrowedBody;
use crate::codec::{AnyMessage, Body, encode_vec};
use crate::control::recorded_event::What;
use crate::control::{
    RecordedBody, RecordedCancel, RecordedEntry, RecordedEvent, RecordedFailure, RecordedHalfClose,
    RecordedMetadata, RecordedRequest, RecordedResult,
};
use crate::metadata::Metadata;
use crate::recording::{Early, Recording};
use crate::status::Status;

/// Where a connection is recorded to, if it is.
#[derive(Default)]
pub(super) struct Recorder {
    /// Whether `tap` has something, in a place that is looked at for each message.
    is_on: Cell<bool>,
    tap: RefCell<Option<Tap>>,
}

struct Tap {
    recording: Arc<Recording>,
    /// The calls that are recorded and have not ended, with their numbers.
    calls: HashMap<IncomingCall, u64>,
    /// Events of calls that wait for their turn.
    early: HashMap<IncomingCall, Early>,
}

impl Tap {
    fn event(&self, call: u64, what: What) -> RecordedEvent {
        RecordedEvent { time_ns: self.recording.time_ns(), call, what: Some(what) }
    }

    /// Returns the beginning of a message.
    fn body(&self, data: impl Buf) -> RecordedBody {
        let (whole_bytes, max) = (data.remaining(), self.recording.body_bytes_max);
        let is_cut = whole_bytes > max;
        let cut_from_bytes = if is_cut { whole_bytes as u64 } else { 0 };
        // A copy, and no slice of a buffer that is used again.
        let mut kept = Vec::with_capacity(whole_bytes.min(max));
        kept.put(data.take(max));
        RecordedBody { data: kept.into(), cut_from_bytes }
    }

    fn message(&self, message: AnyMessage<'_>) -> RecordedBody {
        // One that is nested too deeply was not sent.
        self.body(&encode_vec(&message).unwrap_or_default()[..])
    }
}

impl<H: Host> Connection<H> {
    /// Records the calls of the peer from now on, or no more.
    pub(crate) fn record_to(&self, recording: Option<&Arc<Recording>>) {
        let tap = recording.map(|recording| Tap {
            recording: Arc::clone(recording),
            calls: HashMap::new(),
            early: HashMap::new(),
        });
        self.recorder.is_on.set(tap.is_some());
        let before = self.recorder.tap.replace(tap);
        drop(before);
    }

    /// Returns whether the calls of the peer are recorded.
    #[inline(always)]
    pub(crate) fn is_recorded(&self) -> bool {
        self.recorder.is_on.get()
    }

    /// Records a call of the peer that begins, unless its method is not chosen.
    #[cold]
    pub(crate) fn record_request(
        &self,
        head: &RequestHead,
        [object, interface, method]: [&str; 3],
        metadata: &[u8],
        body: &Body<'_>,
    ) {
        let Some(tap) = &mut *self.recorder.tap.borrow_mut() else { return };
        let early = head.call.and_then(|call| tap.early.remove(&call)).unwrap_or_default();
        if !tap.recording.chooses(interface, method) {
            return;
        }
        let body = match body.parts() {
            (rest, None) => tap.body(rest),
            (rest, Some(lent)) => tap.body(BorrowedBody::new(rest, &lent.peek())),
        };
        let request = RecordedRequest {
            connection: self.number.get(),
            object: object.to_owned(),
            method: method.to_owned(),
            is_oneway: head.call.is_none(),
            has_request_items: head.shape.caller_streams(),
            has_reply_items: matches!(head.shape, Shape::CalleeStreams | Shape::BothStream),
            timeout_ns: head
                .deadline
                .remaining()
                .map(|left| u64::try_from(left.as_nanos()).unwrap_or(u64::MAX)),
            metadata: entries_of(Metadata::new(metadata)),
            body: Some(body),
        };
        let number = tap.recording.next_call();
        if !tap.recording.push(tap.event(number, What::Request(request))) {
            return;
        }
        if let Some(call) = head.call {
            tap.calls.insert(call, number);
        }
        for event in early.take() {
            tap.recording.push(RecordedEvent { call: number, ..event });
        }
    }

    /// Records something of a call, if its request was recorded.
    fn record_event(&self, call: IncomingCall, is_end: bool, what: impl FnOnce(&Tap) -> What) {
        let Some(tap) = &mut *self.recorder.tap.borrow_mut() else { return };
        if let Some(number) = tap.calls.get(&call).copied() {
            let what = what(tap);
            tap.recording.push(tap.event(number, what));
            if is_end {
                tap.calls.remove(&call);
            }
        } else if is_end {
            tap.early.remove(&call);
        } else if self.inbound.borrow().iter().any(|it| it.head.call == Some(call)) {
            let event = tap.event(0, what(tap));
            tap.recording.keep(tap.early.entry(call).or_default(), event);
        }
    }

    /// Records the reply to a call.
    #[cold]
    pub(super) fn record_reply(&self, call: IncomingCall, metadata: &[u8], reply: AnyMessage<'_>) {
        self.record_event(call, true, |tap| {
            let metadata = entries_of(Metadata::new(metadata));
            What::Result(RecordedResult { body: Some(tap.message(reply)), metadata })
        });
    }

    /// Records the error of a call.
    #[cold]
    pub(super) fn record_failure(&self, call: IncomingCall, status: &Status) {
        self.record_event(call, true, |_| {
            let (code, message) = (status.code() as i32, status.message().to_owned());
            What::Failure(RecordedFailure {
                code,
                message,
                metadata: entries_of(status.metadata()),
            })
        });
    }

    /// Records that the peer waits for a call no more.
    #[cold]
    pub(super) fn record_cancel(&self, call: IncomingCall, reason: CancelReason) {
        let by_deadline = matches!(reason, CancelReason::DeadlineExceeded);
        self.record_event(call, true, |_| What::Cancel(RecordedCancel { by_deadline }));
    }

    /// Records metadata that were sent before the reply.
    #[cold]
    pub(super) fn record_headers(&self, call: IncomingCall, headers: &[u8]) {
        let entries = entries_of(Metadata::new(headers));
        self.record_event(call, false, |_| What::Headers(RecordedMetadata { entries }));
    }

    /// Records an item of the peer.
    #[cold]
    pub(super) fn record_request_item(&self, call: StreamCall, item: &[u8]) {
        if let StreamCall::Incoming(call) = call {
            self.record_event(call, false, |tap| What::RequestItem(tap.body(item)));
        }
    }

    /// Records an item of a service.
    #[cold]
    pub(super) fn record_reply_item(&self, call: StreamCall, item: AnyMessage<'_>) {
        if let StreamCall::Incoming(call) = call {
            self.record_event(call, false, |tap| What::ReplyItem(tap.message(item)));
        }
    }

    /// Records that the peer sends no more items.
    #[cold]
    pub(super) fn record_half_close(&self, call: IncomingCall) {
        self.record_event(call, false, |_| What::HalfClose(RecordedHalfClose {}));
    }
}

fn entries_of(metadata: Metadata<'_>) -> Vec<RecordedEntry> {
    let entry = |(key, value): (&str, &[u8])| RecordedEntry {
        key: key.to_owned(),
        value: Bytes::copy_from_slice(value),
    };
    metadata.iter().map(entry).collect()
}
