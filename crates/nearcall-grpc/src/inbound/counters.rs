//! What a gateway has done, in numbers.
//!
//! **Invariants:** each call counts once, by the code that its peer got; one whose peer went away
//! counts as `CANCELLED`.
//! **Not here:** what the servers count (`nearcall.v1.Server/Connections`).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use nearcall::Code;
use tokio::sync::OwnedSemaphorePermit;
use tonic::Status;
use tonic::body::Body;

/// Codes of a call, `OK` included.
const CODES: usize = 17;

/// What a gateway has done since it was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatewayCounters {
    /// Connections that are open.
    pub connections: u64,
    /// Connections that were accepted.
    pub connections_total: u64,
    /// Connections that were closed at once, for there were too many.
    pub connections_refused: u64,
    /// Connections that ended before a call could come: the handshake of TLS failed, or the first
    /// bytes of HTTP did not come in time.
    pub handshakes_failed: u64,
    /// Calls under way.
    pub calls: u64,
    /// Calls that have ended, by the numbers of their codes: those that went well at 0.
    pub calls_by_code: [u64; CODES],
    /// Calls that were refused, for there were too many. They count above as well.
    pub calls_refused: u64,
    /// Bytes that came from peers, those of HTTP included.
    pub bytes_in: u64,
    /// Bytes that went to peers.
    pub bytes_out: u64,
}

impl GatewayCounters {
    /// Returns how many calls have ended with this code.
    pub fn ended_with(&self, code: Code) -> u64 {
        self.calls_by_code.get(usize::from(code.number())).copied().unwrap_or_default()
    }
}

/// The numbers while they change.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) connections: AtomicU64,
    pub(super) connections_total: AtomicU64,
    pub(super) connections_refused: AtomicU64,
    pub(super) handshakes_failed: AtomicU64,
    calls: AtomicU64,
    calls_by_code: [AtomicU64; CODES],
    pub(super) calls_refused: AtomicU64,
    pub(super) bytes_in: AtomicU64,
    pub(super) bytes_out: AtomicU64,
}

/// Adds one.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn read(&self) -> GatewayCounters {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        GatewayCounters {
            connections: of(&self.connections),
            connections_total: of(&self.connections_total),
            connections_refused: of(&self.connections_refused),
            handshakes_failed: of(&self.handshakes_failed),
            calls: of(&self.calls),
            calls_by_code: self.calls_by_code.each_ref().map(of),
            calls_refused: of(&self.calls_refused),
            bytes_in: of(&self.bytes_in),
            bytes_out: of(&self.bytes_out),
        }
    }
}

/// A call that counts as under way until this is dropped.
#[derive(Debug)]
pub(super) struct CountedCall {
    counters: Arc<Counters>,
    code: i32,
    /// Its place among the calls that there may be.
    _permit: Option<OwnedSemaphorePermit>,
}

impl CountedCall {
    pub(super) fn new(counters: &Arc<Counters>, permit: Option<OwnedSemaphorePermit>) -> Self {
        count(&counters.calls);
        let code = Code::Cancelled.number().into();
        Self { counters: Arc::clone(counters), code, _permit: permit }
    }

    /// Takes the code from headers or trailers, if they have it.
    fn note(&mut self, headers: &HeaderMap) {
        if let Some(status) = Status::from_header_map(headers) {
            self.code = status.code().into();
        }
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        self.counters.calls.fetch_sub(1, Ordering::Relaxed);
        let code = usize::try_from(self.code).ok();
        if let Some(counter) = code.and_then(|code| self.counters.calls_by_code.get(code)) {
            count(counter);
        }
    }
}

/// The body of an answer: it holds its call until it was sent.
#[derive(Debug)]
pub(super) struct CountedBody {
    body: Body,
    call: Option<CountedCall>,
}

/// Has a call end when its answer was sent.
pub(super) fn counted(
    answer: http::Response<Body>,
    call: Option<CountedCall>,
) -> http::Response<CountedBody> {
    let (parts, body) = answer.into_parts();
    let mut call = call;
    if let Some(call) = &mut call {
        call.note(&parts.headers);
    }
    http::Response::from_parts(parts, CountedBody { body, call })
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(trailers) = frame.trailers_ref()
            && let Some(mut call) = self.call.take()
        {
            call.note(trailers);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
