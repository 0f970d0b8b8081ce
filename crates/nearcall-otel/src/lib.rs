//! Traces and metrics of OpenTelemetry for the calls of nearcall, as one interceptor.
//!
//! Give [`CallTelemetry`] to clients and servers once the program has set its global providers.
//! Each call gets a span at each end, of the kind `CLIENT` or `SERVER`, and one value in a
//! histogram. Names follow the semantic conventions for RPC:
//!
//! | name | meaning |
//! |---|---|
//! | the span's name, `rpc.method` | the method, such as `home.v1.Thermostat/SetTarget` |
//! | `rpc.system.name` | `nearcall` |
//! | `rpc.response.status_code` | how the call ended, such as `OK` or `UNAVAILABLE` |
//! | `error.type` | the same, of a call that failed |
//! | `server.address` | at a client: where the object is |
//! | `rpc.client.call.duration` | a histogram of a client's calls, in seconds |
//! | `rpc.server.call.duration` | a histogram of a server's calls, in seconds |
//!
//! The trace goes to the server as the metadata `traceparent` and `tracestate` (W3C), which other
//! interceptors, languages and gateways to gRPC pass on. A service makes its own calls part of the
//! trace by the context that the interceptor keeps:
//!
//! ```
//! use nearcall::Context;
//!
//! fn in_a_method(context: &Context<'_>) {
//!     let trace = context.kept::<opentelemetry::Context>().unwrap_or_default();
//!     let _guard = trace.attach(); // Calls of this thread have the server's span as their parent.
//! }
//! ```
//!
//! A method that is `async` gives it to `opentelemetry::context::FutureExt::with_context`.
//!
//! **Invariants:** a call gets one span and one value at each end, when it has ended there.
//! **Not here:** providers, exporters, and the text of Prometheus.
//!
//! **Invariant:** a trace goes through all servers that a call passes, and a collector receives it.
//! *Checked by* `tests/collector.rs`, which receives OTLP.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::fmt;

use nearcall::observe::{CallEnd, CallSide, InterceptedCall, Interceptor};
use nearcall::{Code, Status};
use opentelemetry::global::BoxedTracer;
use opentelemetry::metrics::Histogram;
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::{SpanKind, Status as SpanStatus, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue, global};
use opentelemetry_sdk::propagation::TraceContextPropagator;

/// The name of the instrumentation, and of the system in `rpc.system.name`.
const NAME: &str = "nearcall";

/// Upper bounds of the buckets of durations, in seconds. The usual ones begin at 5 ms, where most
/// calls of one machine have long ended.
const BOUNDARIES_S: [f64; 17] = [
    5e-7, 1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 5e-3, 2.5e-2, 0.1, 0.5, 2.5,
    10.0,
];

/// Makes a span, and notes the duration, of each call of a client or a server.
///
/// # Examples
///
/// ```
/// use nearcall::Client;
/// use nearcall_otel::CallTelemetry;
///
/// // First `opentelemetry::global::set_tracer_provider` and `set_meter_provider`.
/// let client = Client::builder().interceptor(CallTelemetry::new()).build();
/// # drop(client);
/// ```
pub struct CallTelemetry {
    tracer: BoxedTracer,
    client_duration: Histogram<f64>,
    server_duration: Histogram<f64>,
    propagator: TraceContextPropagator,
}

impl CallTelemetry {
    /// Creates an interceptor that reports to the global providers as they are now. Before a
    /// program has set them they drop everything, and no trace reaches the servers.
    #[must_use]
    pub fn new() -> Self {
        let meter = global::meter(NAME);
        let histogram = |name: &'static str, what: &'static str| {
            let histogram = meter.f64_histogram(name).with_unit("s").with_description(what);
            histogram.with_boundaries(BOUNDARIES_S.to_vec()).build()
        };
        Self {
            tracer: global::tracer(NAME),
            client_duration: histogram("rpc.client.call.duration", "Duration of outgoing calls."),
            server_duration: histogram("rpc.server.call.duration", "Duration of incoming calls."),
            propagator: TraceContextPropagator::new(),
        }
    }

    fn duration(&self, side: CallSide) -> &Histogram<f64> {
        match side {
            CallSide::Client => &self.client_duration,
            CallSide::Server => &self.server_duration,
        }
    }
}

impl Default for CallTelemetry {
    fn default() -> Self {
        Self::new()
    }
}

impl Interceptor for CallTelemetry {
    fn start(&self, call: &mut InterceptedCall<'_>) -> Result<(), Status> {
        let name = format!("{}/{}", call.interface().name, call.method().name);
        let mut attributes =
            vec![KeyValue::new("rpc.system.name", NAME), KeyValue::new("rpc.method", name.clone())];
        let (kind, parent) = match call.side() {
            CallSide::Client => (SpanKind::Client, Context::current()),
            CallSide::Server => (SpanKind::Server, self.propagator.extract(&Received(call))),
        };
        let address = call.address().map(|at| KeyValue::new("server.address", at.to_string()));
        attributes.extend(address);
        let span = self.tracer.span_builder(name).with_kind(kind).with_attributes(attributes);
        let trace = parent.with_span(self.tracer.build_with_context(span, &parent));
        // A trace that the call has by its options stays.
        if call.side() == CallSide::Client && Received(call).get("traceparent").is_none() {
            let mut sent = Sent { call: &mut *call, failed: None };
            self.propagator.inject_context(&trace, &mut sent);
            if let Some(status) = sent.failed {
                return Err(status);
            }
        }
        call.keep(trace);
        Ok(())
    }

    fn end(&self, call: &CallEnd<'_>) {
        let Some(trace) = call.kept::<Context>() else { return };
        let code = call.code();
        let mut attributes = vec![KeyValue::new("rpc.response.status_code", code.name())];
        if is_error(call.side(), code) {
            attributes.push(KeyValue::new("error.type", code.name()));
            let text = call.status().map_or("", Status::message).to_owned();
            trace.span().set_status(SpanStatus::Error { description: Cow::Owned(text) });
        }
        trace.span().set_attributes(attributes.iter().cloned());
        trace.span().end();
        let name = format!("{}/{}", call.interface().name, call.method().name);
        attributes.push(KeyValue::new("rpc.system.name", NAME));
        attributes.push(KeyValue::new("rpc.method", name));
        self.duration(call.side()).record(call.duration().as_secs_f64(), &attributes);
    }
}

impl fmt::Debug for CallTelemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallTelemetry").finish_non_exhaustive()
    }
}

/// Returns whether a call that ended so has failed at this side. A server does what it should where
/// it refuses a bad request.
fn is_error(side: CallSide, code: Code) -> bool {
    match (side, code) {
        (_, Code::Ok) => false,
        (CallSide::Client, _) => true,
        (CallSide::Server, _) => matches!(
            code,
            Code::Unknown
                | Code::DeadlineExceeded
                | Code::Unimplemented
                | Code::Internal
                | Code::Unavailable
                | Code::DataLoss
        ),
    }
}

/// The metadata that a call came with, or goes with so far.
struct Received<'a, 'b>(&'a InterceptedCall<'b>);

impl Extractor for Received<'_, '_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.metadata().get(key)
    }

    fn keys(&self) -> Vec<&str> {
        self.0.metadata().iter().map(|(key, _)| key).collect()
    }
}

/// Adds metadata to a call.
struct Sent<'a, 'b> {
    call: &'a mut InterceptedCall<'b>,
    failed: Option<Status>,
}

impl Injector for Sent<'_, '_> {
    fn set(&mut self, key: &str, value: String) {
        // An empty state says nothing.
        if !value.is_empty()
            && let Err(error) = self.call.add_metadata(key, &value)
        {
            self.failed = Some(Status::internal(format!("{key}: {error}")));
        }
    }
}
