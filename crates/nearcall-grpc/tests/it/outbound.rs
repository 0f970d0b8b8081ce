//! Callers of `grpc://` addresses, through a gateway to a server of nearcall.
//!
//! **Not here:** servers of other makers (`cargo xtask interop`).

use std::net::TcpListener;
use std::sync::Once;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nearcall::client::ReconnectPolicy;
use nearcall::dynamic::{AsyncDynamicCaller, DynamicCaller, Encoded};
use nearcall::server::Health;
use nearcall::{Bytes, CallOptions, Client, Code};
use nearcall_testkit::echo::{EchoAsyncCaller, EchoCaller, Failure, Span, Words};
use nearcall_testkit::streams::{Plan, StreamsAsyncCaller, StreamsCaller};
use nearcall_testkit::support::unique_address;
use tonic::Request;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::stage::{ECHO, REFUSED, STREAMS, Stage, connect, gateway_to, item, serve, timed, unary};

fn client() -> Client {
    install();
    Client::new()
}

fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // An address that no transport carries is refused with what to do.
        let why = EchoCaller::new(&Client::new(), "grpc://127.0.0.1:1").unwrap_err();
        assert!(why.to_string().contains("nearcall_grpc::install()"), "{why}");
        nearcall_grpc::install().unwrap();
    });
    assert!(nearcall_grpc::install().is_err(), "once");
}

fn url(stage: &Stage) -> String {
    format!("grpc://{}", stage.place())
}

/// A port at which no server listens.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn words(number: u64) -> Words {
    Words { number, data: Bytes::from(vec![3; 100]) }
}

#[timed]
fn every_shape_goes_out_and_comes_in() {
    let stage = Stage::new();
    let client = client();
    let echo = EchoCaller::new(&client, &url(&stage)).unwrap();
    assert_eq!(echo.say(&words(7)).unwrap(), words(7));
    assert_eq!(echo.start_say(&words(8)).wait().unwrap(), words(8));
    echo.note(&words(9)).unwrap();
    stage.wait_until("the message", || stage.seen.noted.load(Ordering::Relaxed) == 1);

    let streams = StreamsCaller::new(&client, &url(&stage)).unwrap();
    let plan = Plan { items: 50, bytes: 10_000, code: 0 };
    let replies: Vec<_> = streams.count(&plan).unwrap().map(Result::unwrap).collect();
    assert_eq!(replies.iter().map(|it| it.number).collect::<Vec<_>>(), Vec::from_iter(0..50));
    let mut requests = streams.sum().unwrap();
    for number in 0..50 {
        requests.send(&item(number, 10_000)).unwrap();
    }
    assert_eq!(requests.finish().unwrap().number, (0..50).sum());
    let (mut requests, mut replies) = streams.exchange().unwrap();
    for number in 0..50 {
        requests.send(&item(number, 100_000)).unwrap();
        assert_eq!(replies.recv().unwrap(), Some(item(number, 100_000)));
    }
    requests.finish().unwrap();
    assert_eq!(replies.recv().unwrap(), None);
}

#[timed]
fn tasks_call_as_threads_do() {
    let stage = Stage::new();
    let client = client();
    let echo = EchoAsyncCaller::new(&client, &url(&stage)).unwrap();
    let streams = StreamsAsyncCaller::new(&client, &url(&stage)).unwrap();
    stage.runtime.block_on(async {
        assert_eq!(echo.say(&words(7)).await.unwrap(), words(7));
        let (mut requests, mut replies) = streams.exchange().await.unwrap();
        for number in 0..20 {
            requests.send(&item(number, 5)).await.unwrap();
            assert_eq!(replies.next().await.unwrap().unwrap(), item(number, 5));
        }
        requests.finish().await.unwrap();
        assert!(replies.next().await.is_none());
        // What is given up is given up at the other end as well.
        let (mut requests, mut replies) = streams.exchange().await.unwrap();
        requests.send(&item(1, 5)).await.unwrap();
        replies.next().await.unwrap().unwrap();
    });
    stage.wait_until("the end of the call", || stage.seen.dropped.load(Ordering::Relaxed) == 1);
}

#[timed]
fn statuses_metadata_and_deadlines_travel() {
    let stage = Stage::new();
    let echo = EchoCaller::new(&client(), &url(&stage)).unwrap();
    let failure = Failure { code: 5, text: "no such room: \u{e9}\n%".into() };
    let status = echo.fail(&failure).unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::NotFound, &*failure.text));
    assert_eq!(status.metadata().get("room"), Some("attic"));
    assert_eq!(status.metadata().get_bin("grpc-status-details-bin"), Some(&b"\x08\x05\0\xff"[..]));

    let options = CallOptions::new().metadata("tone", "loud").unwrap();
    let options = options.metadata_bin("token-bin", &[0, 255]).unwrap();
    let (reply, metadata) = echo.with(options).start_say(&words(1)).wait_with_metadata();
    reply.unwrap();
    // The service of the stage sends back as bytes what it has seen, and its keys are no `-bin`.
    assert_eq!(metadata.get_bin("seen-token-bin"), Some(&[0, 255][..]));

    let late = echo.with(CallOptions::new().deadline(Duration::from_millis(50)));
    assert_eq!(late.work(&Span::default()).unwrap_err().code(), Code::DeadlineExceeded);
    assert_eq!(echo.quick(&words(1)).unwrap_err().code(), Code::DeadlineExceeded);
    stage.wait_until("both to be dropped", || stage.seen.dropped.load(Ordering::Relaxed) == 2);
}

#[timed]
fn an_error_of_a_service_ends_a_stream_of_requests() {
    let stage = Stage::new();
    let streams = StreamsCaller::new(&client(), &url(&stage)).unwrap();
    let mut requests = streams.sum().unwrap();
    requests.send(&item(REFUSED, 10)).unwrap();
    // The service has ended the call, and does not wait for the last request.
    let status = loop {
        if let Err(status) = requests.send(&item(1, 100_000)) {
            break status;
        }
    };
    assert_eq!((status.code(), status.message()), (Code::OutOfRange, "as sent"));
}

#[timed]
fn a_machine_that_is_not_there_is_named_or_waited_for() {
    let (address, port) = (unique_address(), free_port());
    let url = format!("grpc://127.0.0.1:{port}");
    let echo = EchoCaller::new(&client(), &url).unwrap();
    let status = echo.say(&words(1)).unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains(&url) && status.message().contains("refused"), "{status}");
    let hunted = client().hunt(&url, Duration::from_millis(100)).unwrap_err();
    assert_eq!(hunted.code(), Code::DeadlineExceeded, "{hunted}");

    let begin = || {
        let patient = CallOptions::new().wait_for_ready(true).deadline(Duration::from_secs(60));
        let waits = ReconnectPolicy::Wait(Duration::from_secs(60));
        let client = Client::builder().reconnect(waits).build();
        let other = EchoCaller::new(&client, &url).unwrap();
        (echo.with(patient).start_say(&words(2)), other.start_say(&words(3)))
    };
    let (first, second) = begin();
    let _server = serve(&address);
    let listen = format!("127.0.0.1:{port}");
    let gateway = nearcall_grpc::Gateway::builder().expose(&address, &[ECHO.name]).listen(&listen);
    let _gateway = gateway.start().unwrap();
    client().hunt(&url, Duration::from_secs(60)).unwrap();
    assert_eq!(first.wait().unwrap(), words(2));
    assert_eq!(second.wait().unwrap(), words(3));
}

#[timed]
fn addresses_take_calls_in_turn_and_one_that_is_gone_is_passed_over() {
    let (first, second) = (Stage::new(), Stage::new());
    let places = [first.place().to_string(), second.place().to_string()];
    let url = format!("grpc://{},127.0.0.1:{},{}", places[0], free_port(), places[1]);
    let echo = EchoCaller::new(&client(), &url).unwrap();
    for number in 0..30 {
        assert_eq!(echo.say(&words(number)).unwrap(), words(number));
    }
    let counts = [&first, &second].map(|stage| stage.seen.begun.load(Ordering::Relaxed));
    assert_eq!(counts.iter().sum::<u64>(), 30);
    assert!(counts.iter().all(|count| *count >= 10), "{counts:?}");
}

#[timed]
fn only_an_idempotent_call_is_sent_again() {
    let address = unique_address();
    let (_server, seen) = serve(&address);
    let listen = |port: u16| {
        let gateway = nearcall_grpc::Gateway::builder().expose(&address, &[ECHO.name]);
        gateway.listen(&format!("127.0.0.1:{port}")).start()
    };
    let gateway = listen(0).unwrap();
    let port = gateway.addresses()[0].port();
    let echo = EchoCaller::new(&client(), &format!("grpc://127.0.0.1:{port}")).unwrap();
    echo.say(&words(1)).unwrap();
    // `Look` has no side effects, `Later` may have.
    let waits = CallOptions::new().deadline(Duration::from_secs(60));
    let work = echo.with(waits.clone()).start_work(&Span::default());
    crate::stage::wait_until("the call", || seen.begun.load(Ordering::Relaxed) == 2);
    drop(gateway);
    let lost = work.wait().unwrap_err();
    assert_eq!(lost.code(), Code::Unavailable, "{lost}");
    assert!(lost.message().contains("has ended, and the method may have run"), "{lost}");
    assert_eq!(seen.begun.load(Ordering::Relaxed), 2, "not again");
    let _gateway = listen(port).unwrap();
    client().hunt(&format!("grpc://127.0.0.1:{port}"), Duration::from_secs(60)).unwrap();
    echo.with(waits).look(&()).unwrap();
}

#[timed]
fn a_caller_by_names_asks_by_reflection() {
    let stage = Stage::new();
    let client = client();
    let streams = DynamicCaller::new(&client, &url(&stage), STREAMS.name).unwrap();
    let message = Encoded::new(&item(3, 100)).unwrap();
    assert_eq!(streams.call("Say", &message).unwrap(), message);
    let shape = streams.call("Count", &message).unwrap_err();
    assert!(shape.message().contains("replies with a stream"), "{shape}");
    let tasks = AsyncDynamicCaller::new(&client, &url(&stage), STREAMS.name).unwrap();
    assert_eq!(stage.runtime.block_on(tasks.call("Say", &message)).unwrap(), message);
    let other = DynamicCaller::new(&client, &url(&stage), "tests.v1.Nothing").unwrap();
    let status = other.call("Say", &message).unwrap_err();
    assert!(status.message().contains("does not describe tests.v1.Nothing"), "{status}");
}

#[timed]
fn what_is_about_this_machine_is_refused() {
    let client = client();
    for (address, why) in [
        ("grpc://a:1?via=shm", "no mechanism to choose"),
        ("grpc://a:1#kitchen", "no instances"),
        ("grpc://a", "a host and a port"),
        ("grpc://a b:1", "is no host"),
    ] {
        let error = EchoCaller::new(&client, address).unwrap_err().to_string();
        assert!(error.contains(why), "{address}: {error}");
    }
    let attached = client.attach("grpc://127.0.0.1:1").unwrap_err();
    assert_eq!(attached.code(), Code::InvalidArgument, "{attached}");
    let unknown = EchoCaller::new(&client, "grpc://no-such-host.invalid:1").unwrap();
    let status = unknown.say(&words(1)).unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("cannot be resolved"), "{status}");
    // Plain text to a port of TLS is in `tls.rs`.
}

#[timed]
fn a_gateway_exposes_what_another_one_does() {
    install();
    let first = Stage::new();
    let second = gateway_to(&url(&first)).start().unwrap();
    let channel = first.runtime.block_on(connect(&second));
    let health = || {
        let mut client = tonic::client::Grpc::new(channel.clone());
        let question = HealthCheckRequest { service: ECHO.name.to_owned() };
        let path = "/grpc.health.v1.Health/Check";
        let asked = unary::<_, HealthCheckResponse>(&mut client, path, Request::new(question));
        first.runtime.block_on(asked).unwrap().into_inner().status()
    };
    assert_eq!(health(), ServingStatus::Serving);
    let echo = EchoCaller::new(&client(), &format!("grpc://{}", second.addresses()[0])).unwrap();
    assert_eq!(echo.say(&words(7)).unwrap(), words(7));
    first.server.set_health(ECHO.name, Health::NotServing);
    assert_eq!(health(), ServingStatus::NotServing);

    // One that has not asked yet what there is.
    first.server.stop().unwrap();
    let third = gateway_to(&url(&first)).start().unwrap();
    let other = EchoCaller::new(&client(), &format!("grpc://{}", third.addresses()[0])).unwrap();
    assert_eq!(other.say(&words(7)).unwrap_err().code(), Code::Unavailable);
    drop(first.gateway);
    assert_eq!(health(), ServingStatus::NotServing);
    assert_eq!(echo.say(&words(7)).unwrap_err().code(), Code::Unavailable);
}
