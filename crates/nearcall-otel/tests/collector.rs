//! Spans and durations of calls, as a collector receives them by OTLP.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nearcall::{CallOptions, Client, Context, Limits, Status};
use nearcall_otel::CallTelemetry;
use opentelemetry::global;
use opentelemetry::trace::Tracer;
use opentelemetry_otlp::{MetricExporter, SpanExporter, WithExportConfig};
use opentelemetry_proto::tonic::collector::metrics::v1 as metrics;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server as metrics_server;
use opentelemetry_proto::tonic::collector::trace::v1 as traces;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server as traces_server;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind, status::StatusCode};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tonic::{Request, Response};

use nearcall_testkit::home::{
    NoteRequest, SetTargetReply, SetTargetRequest, Thermostat, ThermostatCaller,
    ThermostatDispatcher, WatchReply, WatchRequest,
};
use nearcall_testkit::support::{LoopThread, unique_address};

/// The trace and the span of somebody else.
const OWN_TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A collector that keeps what it receives.
#[derive(Clone, Default)]
struct Collector {
    spans: Arc<Mutex<Vec<Span>>>,
    /// Name, attributes and count of each point.
    points: Arc<Mutex<Vec<(String, String, u64)>>>,
}

#[tonic::async_trait]
impl traces_server::TraceService for Collector {
    async fn export(
        &self,
        request: Request<traces::ExportTraceServiceRequest>,
    ) -> Result<Response<traces::ExportTraceServiceResponse>, tonic::Status> {
        let resources = request.into_inner().resource_spans.into_iter();
        let spans = resources.flat_map(|it| it.scope_spans).flat_map(|it| it.spans);
        self.spans.lock().unwrap_or_else(PoisonError::into_inner).extend(spans);
        Ok(Response::new(Default::default()))
    }
}

#[tonic::async_trait]
impl metrics_server::MetricsService for Collector {
    async fn export(
        &self,
        request: Request<metrics::ExportMetricsServiceRequest>,
    ) -> Result<Response<metrics::ExportMetricsServiceResponse>, tonic::Status> {
        let resources = request.into_inner().resource_metrics.into_iter();
        let all = resources.flat_map(|it| it.scope_metrics).flat_map(|it| it.metrics);
        for metric in all {
            assert_eq!(metric.unit, "s");
            let Some(Data::Histogram(histogram)) = metric.data else { continue };
            let points = histogram.data_points.iter();
            let points = points.map(|it| (metric.name.clone(), text(&it.attributes), it.count));
            self.points.lock().unwrap_or_else(PoisonError::into_inner).extend(points);
        }
        Ok(Response::new(Default::default()))
    }
}

/// Returns attributes that are texts, sorted.
fn text(attributes: &[KeyValue]) -> String {
    let one = |it: &KeyValue| match it.value.as_ref().and_then(|it| it.value.as_ref()) {
        Some(Value::StringValue(value)) => format!("{}={value}", it.key),
        other => format!("{}={other:?}", it.key),
    };
    let mut all: Vec<_> = attributes.iter().map(one).collect();
    all.sort();
    all.join(" ")
}

/// A thermostat that calls the next one, if there is one.
struct Room {
    next: Option<ThermostatCaller>,
}

impl Thermostat for Room {
    fn set_target(
        &self,
        context: &Context<'_>,
        request: &SetTargetRequest,
    ) -> Result<SetTargetReply, Status> {
        let trace = context.kept::<opentelemetry::Context>().unwrap();
        let _guard = trace.attach();
        match &self.next {
            Some(next) => next.set_target(request),
            None if request.celsius > 30.0 => Err(Status::out_of_range("this is no sauna")),
            None => Ok(SetTargetReply { celsius_before: 18.0 }),
        }
    }

    fn note(&self, _: &Context<'_>, _: &NoteRequest) {}

    fn watch(&self, _: &Context<'_>, _: &WatchRequest) -> Result<WatchReply, Status> {
        Ok(WatchReply::default())
    }

    fn reset(&self, _: &Context<'_>, _: &()) -> Result<(), Status> {
        Err(Status::internal("the heater is cold"))
    }
}

fn caller(address: &str) -> ThermostatCaller {
    let client = Client::builder().default_deadline(Duration::from_secs(60));
    let client = client.interceptor(CallTelemetry::new()).build();
    ThermostatCaller::new(&client, address).unwrap()
}

/// Serves a thermostat that calls the one at `next`.
fn serve(next: Option<String>) -> (LoopThread, String) {
    LoopThread::serve(Limits::default(), move |_, server| {
        server.add_interceptor(CallTelemetry::new());
        let room = Room { next: next.map(|next| caller(&next)) };
        server.register(ThermostatDispatcher::new(room)).unwrap();
        server.listen(&unique_address()).unwrap().to_string()
    })
}

/// Has a collector receive what the global providers of this process report.
fn collect(runtime: &tokio::runtime::Runtime) -> (Collector, SdkTracerProvider, SdkMeterProvider) {
    let collector = Collector::default();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let _inside = runtime.enter();
    let incoming = tokio::net::TcpListener::from_std(listener).unwrap();
    let incoming = tokio_stream::wrappers::TcpListenerStream::new(incoming);
    let server = tonic::transport::Server::builder()
        .add_service(traces_server::TraceServiceServer::new(collector.clone()))
        .add_service(metrics_server::MetricsServiceServer::new(collector.clone()));
    runtime.spawn(server.serve_with_incoming(incoming));
    let spans = SpanExporter::builder().with_tonic().with_endpoint(&endpoint).build().unwrap();
    let points = MetricExporter::builder().with_tonic().with_endpoint(&endpoint).build().unwrap();
    let tracers = SdkTracerProvider::builder().with_batch_exporter(spans).build();
    let meters = SdkMeterProvider::builder().with_periodic_exporter(points).build();
    global::set_tracer_provider(tracers.clone());
    global::set_meter_provider(meters.clone());
    (collector, tracers, meters)
}

/// Asserts which kind a span has, and the attributes that matter.
#[track_caller]
fn expect(span: &Span, kind: SpanKind, method: &str, code: &str) {
    let attributes = text(&span.attributes);
    assert_eq!((span.kind(), &*span.name), (kind, method), "{attributes}");
    assert!(attributes.contains(&format!("rpc.method={method}")), "{attributes}");
    assert!(attributes.contains("rpc.system.name=nearcall"), "{attributes}");
    assert!(attributes.contains(&format!("rpc.response.status_code={code}")), "{attributes}");
    let has_address = attributes.contains("server.address=unix:@");
    assert_eq!(has_address, kind == SpanKind::Client, "{attributes}");
}

#[test]
fn a_trace_through_two_servers_and_durations_reach_a_collector() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (collector, tracers, meters) = collect(&runtime);
    let (boiler, address) = serve(None);
    let (room_server, address) = serve(Some(address));
    let room = caller(&address);
    global::tracer("test").in_span("evening", |_| {
        room.set_target(&SetTargetRequest { celsius: 20.0 }).unwrap();
        room.set_target(&SetTargetRequest { celsius: 90.0 }).unwrap_err();
        room.reset(&()).unwrap_err();
    });
    let own = CallOptions::new().metadata("traceparent", OWN_TRACE).unwrap();
    room.with(own).reset(&()).unwrap_err();
    // A server's span ends after its reply has left: the threads have ended all of them.
    drop((room_server, boiler));
    tracers.force_flush().unwrap();
    meters.force_flush().unwrap();

    let mut spans = collector.spans.lock().unwrap().clone();
    let evening = spans.iter().find(|span| span.name == "evening").unwrap().clone();
    // A trace that a call has by its options stays: the server's span is in it.
    let is_own = |span: &&Span| {
        span.trace_id == 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes()
    };
    let own: Vec<_> =
        spans.iter().filter(is_own).map(|it| (it.kind(), &*it.parent_span_id)).collect();
    assert_eq!(own, [(SpanKind::Server, &0xb7ad_6b71_6920_3331_u64.to_be_bytes()[..])]);
    spans.retain(|span| span.trace_id == evening.trace_id);
    let below = |parent: &Span| {
        let mut all: Vec<_> =
            spans.iter().filter(|span| span.parent_span_id == parent.span_id).collect();
        all.sort_by_key(|span| span.start_time_unix_nano);
        all
    };
    let (set, reset) = ("home.v1.Thermostat/SetTarget", "home.v1.Thermostat/Reset");
    let calls = below(&evening);
    for (call, code) in calls[..2].iter().zip(["OK", "OUT_OF_RANGE"]) {
        let mut span = *call;
        for kind in [SpanKind::Client, SpanKind::Server, SpanKind::Client, SpanKind::Server] {
            expect(span, kind, set, code);
            // A server has not failed where it refuses a bad request.
            let failed = span.status.as_ref().is_some_and(|it| it.code() == StatusCode::Error);
            assert_eq!(failed, code != "OK" && kind == SpanKind::Client, "{span:?}");
            let Some(next) = below(span).first().copied() else { break };
            span = next;
        }
        assert!(below(span).is_empty() && span.kind() == SpanKind::Server);
    }
    let [served] = below(calls[2])[..] else { panic!("one server has served Reset") };
    expect(calls[2], SpanKind::Client, reset, "INTERNAL");
    expect(served, SpanKind::Server, reset, "INTERNAL");
    assert_eq!(served.status.as_ref().unwrap().message, "the heater is cold");
    assert_eq!(spans.len(), 1 + 4 + 4 + 2);

    let points = collector.points.lock().unwrap().clone();
    let count = |side: &str, attributes: &str| {
        let name = format!("rpc.{side}.call.duration");
        let is_it = |it: &&(String, String, u64)| it.0 == name && it.1 == attributes;
        points.iter().find(is_it).unwrap_or_else(|| panic!("{name} {attributes}: {points:?}")).2
    };
    let usual = |method, code| {
        format!("rpc.method={method} rpc.response.status_code={code} rpc.system.name=nearcall")
    };
    let failed = |method, code| format!("error.type={code} {}", usual(method, code));
    assert_eq!(count("client", &usual(set, "OK")), 2);
    assert_eq!(count("server", &usual(set, "OK")), 2);
    assert_eq!(count("client", &failed(set, "OUT_OF_RANGE")), 2);
    assert_eq!(count("server", &usual(set, "OUT_OF_RANGE")), 2);
    assert_eq!(count("server", &failed(reset, "INTERNAL")), 2);
    tracers.shutdown_with_timeout(Duration::from_secs(5)).unwrap();
    meters.shutdown_with_timeout(Duration::from_secs(5)).unwrap();
}
