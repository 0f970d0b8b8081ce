//! Spans of the `tracing` crate for the calls of nearcall, as one interceptor.
//!
//! Give [`CallSpans`] to a client or to a server. Each call gets a span with the name `call`, the
//! target `nearcall` and these fields:
//!
//! | field | meaning |
//! |---|---|
//! | `side` | `client` or `server` |
//! | `interface`, `method` | the names of the `.proto` file |
//! | `address` | at a client: where the object is |
//! | `peer_uid`, `peer_pid` | at a server: the caller, as the kernel knows it |
//! | `request_bytes`, `reply_bytes` | lengths of both messages |
//! | `code` | how the call ended, such as `OK` or `UNAVAILABLE` |
//! | `error` | the text of an error |
//! | `duration_us` | how long the call took at this end, in microseconds |
//! | `traceparent` | the trace that the call belongs to, if metadata of that name travel with it |
//!
//! The span of a client's call has the span as its parent that is current where the call is made.
//! That of a server has no parent in its own process: its trace is in `traceparent`.
//!
//! What a server refuses is no call: `nearcall` itself reports that, as events of the same target.
//!
//! **Invariants:** a call gets one span at each end, which closes when the call has ended.
//! **Not here:** a subscriber, an exporter.
//!
//! **Invariant:** no other crate of this workspace depends on `tracing`, except `nearcall`, for
//! what a server refuses, `nearcall-grpc`, for what a gateway refuses, and `nearcall-peers`.
//! *Checked by* `tracing_is_for_calls_and_not_for_what_lies_below`.
#![forbid(unsafe_code)]

use std::fmt;

use nearcall::Status;
use nearcall::observe::{CallEnd, CallSide, InterceptedCall, Interceptor, Peer};
use tracing::field::{Empty, display};
use tracing::{Level, Span};

/// The metadata key of the trace that a call belongs to, as the W3C has it.
const TRACEPARENT: &str = "traceparent";

/// Makes a span for each call of a client or a server.
///
/// # Examples
///
/// ```
/// use nearcall::Client;
/// use nearcall_tracing::CallSpans;
///
/// let client = Client::builder().interceptor(CallSpans::new()).build();
/// # drop(client);
/// ```
#[derive(Default)]
pub struct CallSpans {
    traceparent: Option<Traceparent>,
}

type Traceparent = Box<dyn Fn() -> Option<String> + Send + Sync>;

impl CallSpans {
    /// Creates an interceptor that makes spans and adds no metadata.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends what `current` returns as the metadata `traceparent` with each call of a client,
    /// unless the call has one by its options: the trace that the thread is in, such as that of
    /// an OpenTelemetry layer. At a server it changes nothing.
    #[must_use]
    pub fn traceparent(
        mut self,
        current: impl Fn() -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.traceparent = Some(Box::new(current));
        self
    }

    fn add_traceparent(&self, call: &mut InterceptedCall<'_>) -> Result<(), Status> {
        let is_known = call.metadata().get(TRACEPARENT).is_some();
        if let (CallSide::Client, false, Some(current)) = (call.side(), is_known, &self.traceparent)
            && let Some(value) = current()
        {
            let added = call.add_metadata(TRACEPARENT, &value);
            return added.map_err(|error| Status::internal(error.to_string()));
        }
        Ok(())
    }
}

impl Interceptor for CallSpans {
    fn start(&self, call: &mut InterceptedCall<'_>) -> Result<(), Status> {
        self.add_traceparent(call)?;
        let span = tracing::span!(
            target: "nearcall",
            Level::INFO,
            "call",
            side = match call.side() {
                CallSide::Client => "client",
                CallSide::Server => "server",
            },
            interface = call.interface().name,
            method = call.method().name,
            address = Empty,
            peer_uid = call.peer().and_then(Peer::uid),
            peer_pid = call.peer().and_then(Peer::pid),
            traceparent = call.metadata().get(TRACEPARENT),
            request_bytes = call.request_bytes(),
            reply_bytes = Empty,
            code = Empty,
            error = Empty,
            duration_us = Empty,
        );
        if span.is_disabled() {
            return Ok(());
        }
        if let Some(address) = call.address() {
            span.record("address", display(address));
        }
        call.keep(span);
        Ok(())
    }

    fn end(&self, call: &CallEnd<'_>) {
        let Some(span) = call.kept::<Span>() else { return };
        span.record("code", call.code().name());
        if let Some(status) = call.status() {
            span.record("error", status.message());
        }
        span.record("reply_bytes", call.reply_bytes());
        let micros = u64::try_from(call.duration().as_micros()).unwrap_or(u64::MAX);
        span.record("duration_us", micros);
    }
}

impl fmt::Debug for CallSpans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallSpans")
            .field("sends_traceparent", &self.traceparent.is_some())
            .finish_non_exhaustive()
    }
}
