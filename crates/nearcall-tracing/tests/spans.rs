//! Spans of calls, as a subscriber sees them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use nearcall::{CallOptions, Client, Context, Deadline, EventLoop, Server, Status};
use nearcall_tracing::CallSpans;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

use nearcall_testkit::home::{
    NoteRequest, SetTargetReply, SetTargetRequest, Thermostat, ThermostatCaller,
    ThermostatDispatcher, WatchReply, WatchRequest,
};

type Fields = BTreeMap<&'static str, String>;

/// Keeps the fields of each span, and which spans were closed.
#[derive(Clone, Default)]
struct Keeper(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    spans: Vec<Fields>,
    closed: usize,
    is_disabled: bool,
}

struct Visitor<'a>(&'a mut Fields);

impl Visit for Visitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Subscriber for Keeper {
    /// Tests run side by side, and none may answer for the others.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "nearcall" && !self.0.lock().unwrap().is_disabled
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        assert_eq!(span.metadata().name(), "call");
        let mut fields = Fields::new();
        span.record(&mut Visitor(&mut fields));
        let mut kept = self.0.lock().unwrap();
        kept.spans.push(fields);
        Id::from_u64(kept.spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let index = usize::try_from(span.into_u64() - 1).unwrap();
        values.record(&mut Visitor(&mut self.0.lock().unwrap().spans[index]));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}

    fn try_close(&self, _: Id) -> bool {
        self.0.lock().unwrap().closed += 1;
        true
    }
}

struct Room;

impl Thermostat for Room {
    fn set_target(
        &self,
        context: &Context<'_>,
        request: &SetTargetRequest,
    ) -> Result<SetTargetReply, Status> {
        assert_eq!(context.metadata().get("traceparent"), Some("00-trace"));
        match request.celsius > 30.0 {
            true => Err(Status::out_of_range("this is no sauna")),
            false => Ok(SetTargetReply { celsius_before: 18.0 }),
        }
    }

    fn note(&self, _: &Context<'_>, _: &NoteRequest) {}

    fn watch(&self, _: &Context<'_>, _: &WatchRequest) -> Result<WatchReply, Status> {
        Ok(WatchReply::default())
    }

    fn reset(&self, _: &Context<'_>, _: &()) -> Result<(), Status> {
        Ok(())
    }
}

/// A client and a server of one loop with spans, by a mechanism or directly.
fn calls(address: &str, call: impl FnOnce(&EventLoop, &ThermostatCaller)) {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    server.add_interceptor(CallSpans::new());
    server.register(ThermostatDispatcher::new(Room)).unwrap();
    let address = server.listen(address).unwrap().to_string();
    let spans = CallSpans::new().traceparent(|| Some("00-trace".to_owned()));
    let client = Client::builder().in_loop(&event_loop).interceptor(spans).build();
    let client =
        if address.starts_with("inproc") { client } else { client.without_short_circuit() };
    call(&event_loop, &ThermostatCaller::new(&client, &address).unwrap());
}

#[track_caller]
fn expect(fields: &Fields, expected: &[(&str, &str)]) {
    for (name, value) in expected {
        assert_eq!(fields.get(name).map(String::as_str), Some(*value), "{name} of {fields:?}");
    }
}

#[test]
fn each_end_of_a_call_has_a_span() {
    let pid = std::process::id();
    for address in ["inproc:room", &format!("unix:@nearcall-spans-{pid}")] {
        let keeper = Keeper::default();
        tracing::subscriber::with_default(keeper.clone(), || {
            calls(address, |_, thermostat| {
                thermostat.set_target(&SetTargetRequest { celsius: 20.0 }).unwrap();
                thermostat.set_target(&SetTargetRequest { celsius: 90.0 }).unwrap_err();
            });
        });
        let kept = keeper.0.lock().unwrap();
        assert_eq!((kept.spans.len(), kept.closed), (4, 4), "{address}");
        for (span, side) in kept.spans.iter().zip(["client", "server", "client", "server"]) {
            let name = ("interface", "home.v1.Thermostat");
            let (method, trace) = (("method", "SetTarget"), ("traceparent", "00-trace"));
            expect(span, &[("side", side), name, method, trace, ("request_bytes", "9")]);
            span["duration_us"].parse::<u64>().unwrap();
            assert_eq!(span.contains_key("address"), side == "client", "{span:?}");
            assert_eq!(span.contains_key("peer_uid"), side == "server", "{span:?}");
        }
        for span in &kept.spans[..2] {
            expect(span, &[("code", "OK"), ("reply_bytes", "9")]);
            assert!(!span.contains_key("error"));
        }
        for span in &kept.spans[2..] {
            let error = ("error", "this is no sauna");
            expect(span, &[("code", "OUT_OF_RANGE"), error, ("reply_bytes", "0")]);
        }
    }
}

#[test]
fn a_traceparent_of_the_call_itself_stays() {
    let keeper = Keeper::default();
    tracing::subscriber::with_default(keeper.clone(), || {
        calls("inproc:room", |event_loop, thermostat| {
            let options = CallOptions::new().metadata("traceparent", "00-own").unwrap();
            thermostat.with(options).note(&NoteRequest::default()).unwrap();
            event_loop.next(Deadline::NOW).unwrap();
        });
    });
    let kept = keeper.0.lock().unwrap();
    assert_eq!((kept.spans.len(), kept.closed), (2, 2));
    for span in &kept.spans {
        expect(span, &[("method", "Note"), ("code", "OK"), ("traceparent", "00-own")]);
    }
}

#[test]
fn a_subscriber_that_wants_no_spans_gets_none() {
    let keeper = Keeper::default();
    keeper.0.lock().unwrap().is_disabled = true;
    tracing::subscriber::with_default(keeper.clone(), || {
        calls("inproc:room", |_, thermostat| {
            thermostat.set_target(&SetTargetRequest { celsius: 20.0 }).unwrap();
        });
    });
    assert!(keeper.0.lock().unwrap().spans.is_empty());
}
