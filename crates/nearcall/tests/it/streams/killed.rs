//! Streams of which one end is killed in the middle: the other learns of it once, and others go on.
//!
//! **Invariants:** the other process dies with the thread that started it (`two_processes.rs`).

use super::forms::{Caller, caller};
use super::served::{
    Kind, Plan, Served, Service, StreamsAsyncCaller, StreamsCaller, item, register,
};
use crate::hunts::Form;
use crate::observed::PATIENCE;
use crate::stage::prelude::*;
use crate::two_processes::start;

const ENDLESS: Plan = Plan { items: 1 << 40, bytes: 1000, code: 0 };

/// The other process as a server.
pub(crate) fn serve(address: &str) {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    register(&server, Service::new(Kind::Thread));
    server.listen(&everything(address)).unwrap();
    event_loop.run().unwrap();
}

/// The other process as a client, which streams until it is killed.
pub(crate) fn call(part: &str, address: &str) {
    let client = Client::new();
    client.hunt(address, PATIENCE).unwrap();
    let streams = match part {
        "streams-tasks" => Caller::Task(StreamsAsyncCaller::new(&client, address).unwrap()),
        _ => Caller::Blocking(StreamsCaller::new(&client, address).unwrap()),
    };
    match part {
        "streams-unread" => {
            let _replies = streams.count(&ENDLESS).unwrap();
            for number in 0.. {
                streams.say(&item(number, 10)).unwrap();
            }
        }
        _ => {
            let (mut requests, mut replies) = streams.exchange().unwrap();
            for number in 0.. {
                requests.send(&item(number, 1000)).unwrap();
                assert!(replies.recv().unwrap().is_some());
            }
        }
    }
}

#[timed]
fn a_killed_server_ends_each_stream_once() {
    let event_loop = EventLoop::new().unwrap();
    for mechanism in Mechanism::all().filter(|mechanism| mechanism.supported().is_ok()) {
        let _alone = alone(mechanism.name());
        let is_awaitable = mechanism.capabilities().pollable && mechanism != Mechanism::ShmSignal;
        for form in Form::ALL.into_iter().filter(|form| *form != Form::Async || is_awaitable) {
            let what = format!("{mechanism}, {form:?}");
            let address = unique_address();
            let mut server = start("streams", &address);
            Client::new().hunt(&address, PATIENCE).unwrap();
            let at = format!("{address}?via={mechanism}");
            let streams = caller(form, &event_loop, &at);
            let mut replies = streams.count(&ENDLESS).unwrap();
            let (mut requests, mut echoes) = streams.exchange().unwrap();
            requests.send(&item(1, 10)).unwrap();
            assert_eq!(echoes.recv().unwrap(), Some(item(1, 10)), "{what}");
            let mut upload = streams.sum().unwrap();
            upload.send(&item(1, 10)).unwrap();
            for number in 0..100 {
                assert_eq!(replies.recv().unwrap().unwrap().number, number, "{what}");
            }
            server.kill().unwrap();
            let errors: Vec<_> = replies.by_ref().filter_map(Result::err).collect();
            assert_eq!(errors.len(), 1, "{what}");
            assert_eq!(errors[0].code(), Code::Unavailable, "{what}");
            assert_eq!(replies.recv().unwrap(), None, "{what}");
            assert_eq!(echoes.recv().unwrap_err().code(), Code::Unavailable, "{what}");
            assert_eq!(echoes.recv().unwrap(), None, "{what}");
            let status = requests.send(&item(2, 10)).unwrap_err();
            assert_eq!(status.code(), Code::Unavailable, "{what}");
            assert_eq!(upload.finish().unwrap_err().code(), Code::Unavailable, "{what}");
        }
    }
}

#[timed]
fn a_killed_client_ends_its_stream_and_no_other() {
    // A client that does not read gets almost as many as its window of 4 MiB holds.
    for (part, sent_min) in
        [("streams-client", 100), ("streams-tasks", 100), ("streams-unread", 4000)]
    {
        for kind in Kind::ALL {
            for way in ["", "?via=unix-stream"] {
                kill_client(part, kind, way, sent_min);
            }
        }
    }
}

/// Kills a client once the service has sent it so many items.
fn kill_client(part: &str, kind: Kind, way: &str, sent_min: u64) {
    let what = format!("{part} of {kind:?}{way}");
    let served = Served::start(kind);
    let mut client = start(part, &format!("{}{way}", served.address));
    wait_until("items", || served.counts.sent.load(Ordering::Relaxed) >= sent_min);
    client.kill().unwrap();
    let code = served.failure();
    // A future is dropped, unless it was about to send.
    let is_dropped = kind == Kind::Async && code == Code::Cancelled;
    assert!(is_dropped || code == Code::Unavailable, "{what}: {code}");
    let streams = served.caller(&Client::new(), "");
    let plan = Plan { items: 100, bytes: 100, code: 0 };
    assert_eq!(streams.count(&plan).unwrap().map(Result::unwrap).count(), 100, "{what}");
    assert_eq!(served.counts.failures.load(Ordering::Relaxed), 1, "{what}");
}

/// A server that is killed while its sender waits for credit.
#[timed]
fn a_killed_server_ends_a_stream_that_was_not_read() {
    let address = unique_address();
    let mut server = start("streams", &address);
    let client = Client::new();
    client.hunt(&address, PATIENCE).unwrap();
    let streams = StreamsCaller::new(&client, &address).unwrap();
    let replies = streams.count(&ENDLESS).unwrap();
    for _ in 0..100 {
        assert_eq!(streams.say(&item(1, 1)).unwrap(), item(1, 1));
    }
    server.kill().unwrap();
    let ends: Vec<_> = replies.filter_map(Result::err).map(|status| status.code()).collect();
    assert_eq!(ends, [Code::Unavailable]);
}
