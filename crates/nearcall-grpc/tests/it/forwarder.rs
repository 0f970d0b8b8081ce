//! A forwarder to a gateway: programs that know nothing of gRPC call through both.

use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nearcall::prost::Message;
use nearcall::prost_types::FileDescriptorSet;
use nearcall::server::Health;
use nearcall::{Bytes, CallOptions, Client, Code};
use nearcall_grpc::proto::{GatewayCaller, GatewayCountersRequest};
use nearcall_grpc::{Forwarder, Gateway};
use nearcall_testkit::echo::{EchoCaller, Failure, Span, Words};
use nearcall_testkit::streams::{Plan, StreamsCaller};
use nearcall_testkit::support::unique_address;

use crate::stage::{ECHO, STREAMS, Stage, gateway_to, item, serve, timed, wait_until};

fn words(number: u64) -> Words {
    Words { number, data: Bytes::from(vec![3; 100]) }
}

fn forwarder(stage: &Stage) -> (Forwarder, String) {
    let name = unique_address();
    (Forwarder::new(&name, &format!("grpc://{}", stage.place())), name)
}

#[timed]
fn every_shape_is_forwarded_by_what_reflection_describes() {
    let stage = Stage::new();
    let (forwarder, name) = forwarder(&stage);
    let forwarder = forwarder.start().unwrap();
    assert_eq!(forwarder.interfaces(), [ECHO.name, STREAMS.name]);
    let client = Client::new();
    let echo = EchoCaller::new(&client, &name).unwrap();
    assert_eq!(echo.say(&words(7)).unwrap(), words(7));
    echo.note(&words(9)).unwrap();
    stage.wait_until("the message", || stage.seen.noted.load(Ordering::Relaxed) == 1);
    let failure = Failure { code: 5, text: "no such room".into() };
    let status = echo.fail(&failure).unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::NotFound, &*failure.text));
    assert_eq!(status.metadata().get("room"), Some("attic"));
    assert_eq!(status.metadata().get_bin("grpc-status-details-bin"), Some(&b"\x08\x05\0\xff"[..]));
    let options = CallOptions::new().metadata_bin("token-bin", &[0, 255]).unwrap();
    let (_, metadata) = echo.with(options).start_say(&words(1)).wait_with_metadata();
    assert_eq!(metadata.get_bin("seen-token-bin"), Some(&[0, 255][..]));
    let late = echo.with(CallOptions::new().deadline(Duration::from_millis(50)));
    assert_eq!(late.work(&Span::default()).unwrap_err().code(), Code::DeadlineExceeded);
    let begun = || stage.seen.begun.load(Ordering::Relaxed);
    let before = begun();
    let given_up = echo.start_work(&Span::default());
    stage.wait_until("the call", || begun() > before);
    drop(given_up);
    stage.wait_until("both to be dropped", || stage.seen.dropped.load(Ordering::Relaxed) == 2);

    let streams = StreamsCaller::new(&client, &name).unwrap();
    let plan = Plan { items: 50, bytes: 10_000, code: 0 };
    assert_eq!(streams.count(&plan).unwrap().map(Result::unwrap).count(), 50);
    let mut requests = streams.sum().unwrap();
    for number in 0..50 {
        requests.send(&item(number, 10_000)).unwrap();
    }
    assert_eq!(requests.finish().unwrap().number, (0..50).sum());
    let (mut requests, mut replies) = streams.exchange().unwrap();
    requests.send(&item(3, 100_000)).unwrap();
    assert_eq!(replies.recv().unwrap(), Some(item(3, 100_000)));
    requests.finish().unwrap();
    assert_eq!(replies.recv().unwrap(), None);
    assert!(forwarder.stop());
}

#[timed]
fn with_descriptions_it_starts_before_its_server() {
    let (name, address) = (unique_address(), unique_address());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("grpc://{}", listener.local_addr().unwrap());
    let of_echo = || {
        let forwarder = Forwarder::new(&name, &url).interfaces(&[ECHO.name]);
        forwarder.descriptor_set(ECHO.descriptor_set.to_vec())
    };
    let _forwarder = of_echo().start().unwrap();
    let why = of_echo().start().unwrap_err().to_string();
    assert!(
        why.contains("does not forward to") && why.contains("in use by another server"),
        "{why}"
    );
    let _server = serve(&address);
    let gateway = Gateway::builder().expose(&address, &[ECHO.name]).listen_on(listener);
    let _gateway = gateway.start().unwrap();
    let echo = EchoCaller::new(&Client::new(), &name).unwrap();
    assert_eq!(echo.say(&words(7)).unwrap(), words(7));
    // A set without a choice has all of its services.
    let (both, name) = (descriptor_sets(), unique_address());
    let forwarder = Forwarder::new(&name, &url).descriptor_set(both).start().unwrap();
    let expected = ["echo.v1.Adder", ECHO.name, "echo.v1.Store", STREAMS.name];
    assert_eq!(forwarder.interfaces(), expected);
}

fn descriptor_sets() -> Vec<u8> {
    let [mut echo, streams] = [ECHO, STREAMS]
        .map(|interface| FileDescriptorSet::decode(interface.descriptor_set).unwrap());
    echo.file.extend(streams.file);
    echo.file.sort_by(|one, other| one.name().cmp(other.name()));
    echo.file.dedup_by(|one, other| one.name() == other.name());
    echo.encode_to_vec()
}

#[timed]
fn what_is_wrong_is_said() {
    let stage = Stage::new();
    let name = unique_address();
    // A port at which no server listens.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let there = format!("grpc://{}", stage.place());
    for (url, interfaces, why) in [
        ("http://a:1", &[][..], "`http` is no scheme of a gRPC server"),
        ("grpc://a", &[], "a host and a port"),
        (&*format!("grpc://{gone}"), &[], "refused"),
        (&*there, &["tests.v1.Nothing"], "does not describe tests.v1.Nothing"),
        (&*there, &["tests.v1.Nothing"], "give a descriptor set if the server has no reflection"),
    ] {
        let error = Forwarder::new(&name, url).interfaces(interfaces).start().unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    let forwarder = || Forwarder::new(&name, &there);
    let error = forwarder().descriptor_set(b"\xff".to_vec()).start().unwrap_err();
    assert!(error.to_string().contains("no descriptor set"), "{error}");
    forwarder().check().unwrap();
    let away = Forwarder::new(&name, &format!("grpcs://{gone}"));
    let away = away.descriptor_set(ECHO.descriptor_set.to_vec()).interfaces(&[ECHO.name]);
    let error = away.check().unwrap_err();
    assert!(error.to_string().contains("could not be reached in time"), "{error}");
}

#[timed]
fn a_gateway_with_a_name_is_asked_how_it_is() {
    let (address, name) = (unique_address(), unique_address());
    let gateway = gateway_to(&address).name(&name).start().unwrap();
    let other = gateway_to(&address).name(&name).start().unwrap_err();
    assert!(other.to_string().contains("cannot be asked at"), "{other}");
    let client = Client::new();
    let server = nearcall::control::ServerCaller::new(&client, &name).unwrap();
    let health = || server.health(&nearcall::control::HealthRequest::default()).unwrap().health();
    wait_until("it does not serve without its server", || health() == Health::NotServing);
    let _server = serve(&address);
    wait_until("it serves", || health() == Health::Serving);
    let url = format!("grpc://{}", gateway.addresses()[0]);
    let far = Forwarder::new(&unique_address(), &url).start().unwrap();
    let echo = EchoCaller::new(&client, &far.address().to_string()).unwrap();
    echo.say(&words(7)).unwrap();
    echo.fail(&Failure { code: 5, text: String::new() }).unwrap_err();
    let counters = GatewayCaller::new(&client, &name).unwrap();
    let counters = counters.counters(&GatewayCountersRequest {}).unwrap();
    assert_eq!(counters.addresses, [gateway.addresses()[0].to_string()]);
    let codes = &counters.calls_by_code;
    // The other calls were questions for descriptions.
    assert_eq!((codes.len(), codes[5], counters.connections_total), (17, 1, 1), "{counters:?}");
    assert!(codes[0] >= 1 && counters.bytes_in > 100 && counters.bytes_out > 100);
    assert!(gateway.stop());
}
