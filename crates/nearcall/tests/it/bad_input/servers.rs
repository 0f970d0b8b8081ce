//! Servers that do what no server does, and what their clients are told.

use nearcall::client::ReconnectPolicy;
use nearcall_channel::{Endpoint, Listener, Options};
use nearcall_wire::{CallId, Frame, Payload};

use super::expect;
use super::frames::{call, receive};
use crate::observed::PATIENCE;
use crate::stage::prelude::*;
use crate::support::hello;

/// A client's call to a server that does `serve` with its channel.
fn call_to(
    serve: impl FnOnce(&mut Endpoint) + Send,
    options: &CallOptions,
    in_loop: bool,
) -> Result<Words, Status> {
    let address = unique_address();
    let listener = Listener::bind(&address.parse().unwrap()).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let accepted = listener.accept(Deadline::after(PATIENCE), &Options::default());
            let mut endpoint = accepted.unwrap();
            serve(&mut endpoint);
            // Until the client has had enough.
            while receive(&mut endpoint).is_some() {}
        });
        let event_loop = EventLoop::new().unwrap();
        let client = if in_loop { Client::in_loop(&event_loop) } else { Client::new() };
        EchoCaller::new(&client, &address).unwrap().with(options.clone()).say(&Words::default())
    })
}

fn send(endpoint: &mut Endpoint, bytes: &[u8]) {
    endpoint.send(bytes, Deadline::after(PATIENCE)).unwrap();
}

#[test]
fn a_server_of_another_version_is_named_with_it() {
    for in_loop in [false, true] {
        let outcome = call_to(|it| send(it, &hello(4, 5)), &CallOptions::new(), in_loop);
        expect(outcome, Code::Internal, &["the server at unix:@", "versions 4 to 5"]);
        let outcome = call_to(|it| send(it, b"HTTP/1.1 400"), &CallOptions::new(), in_loop);
        expect(outcome, Code::Internal, &["the server at unix:@", "did not greet as nearcall"]);
    }
}

#[test]
fn a_server_that_does_not_greet_is_given_up_at_the_deadline() {
    for in_loop in [false, true] {
        let start = clock::now();
        let options = CallOptions::new().deadline(Duration::from_millis(50));
        expect(call_to(|_| {}, &options, in_loop), Code::DeadlineExceeded, &["did not greet"]);
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    }
}

#[test]
fn a_server_that_does_not_answer_the_handshake_is_given_up_at_the_deadline() {
    for in_loop in [false, true] {
        let address = unique_address();
        let _listener = Listener::bind(&address.parse().unwrap()).unwrap();
        let event_loop = EventLoop::new().unwrap();
        let client = if in_loop { Client::in_loop(&event_loop) } else { Client::new() };
        let start = clock::now();
        let options = CallOptions::new().deadline(Duration::from_millis(50));
        let outcome = EchoCaller::new(&client, &address).unwrap().with(options).nothing(&());
        expect(outcome, Code::DeadlineExceeded, &[&address]);
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    }
}

#[test]
fn a_reply_to_a_call_that_was_never_made_ends_the_call() {
    let serve = |endpoint: &mut Endpoint| {
        send(endpoint, &hello(1, 1));
        let (_greeting, _call) = (receive(endpoint), receive(endpoint));
        let (id, payload) = (CallId::from_word(0xfff << 16 | 5), Payload::EMPTY);
        send(endpoint, &Frame::Reply { id, payload }.encode());
    };
    for in_loop in [false, true] {
        let outcome = call_to(serve, &CallOptions::new(), in_loop);
        let words = ["the server at unix:@", "replied to a call that was never made"];
        expect(outcome, Code::Internal, &words);
    }
}

#[test]
fn a_reply_that_cannot_be_decoded_is_an_error_of_the_call() {
    let serve = |endpoint: &mut Endpoint| {
        send(endpoint, &hello(1, 1));
        receive(endpoint);
        let call = receive(endpoint).unwrap();
        let Ok(Frame::Call { id, .. }) = Frame::decode(&call, call.len()) else {
            panic!("{call:?}")
        };
        let payload = Payload { metadata_bytes: 0, body_bytes: 2, ..Payload::EMPTY };
        send(endpoint, &[&Frame::Reply { id, payload }.encode()[..], &[0x0a, 0x7f]].concat());
    };
    for in_loop in [false, true] {
        let outcome = call_to(serve, &CallOptions::new(), in_loop);
        expect(outcome, Code::Internal, &["cannot be decoded"]);
    }
}

#[test]
fn a_text_from_a_server_is_bounded_and_harmless() {
    let serve = |endpoint: &mut Endpoint| {
        send(endpoint, &hello(1, 1));
        receive(endpoint);
        let bytes = receive(endpoint).unwrap();
        let Ok(Frame::Call { id, .. }) = Frame::decode(&bytes, bytes.len()) else { panic!() };
        let text = b"\x1b[2J\xff";
        let payload = Payload { metadata_bytes: 0, body_bytes: 5, ..Payload::EMPTY };
        let frame = Frame::Error { id, status: Code::NotFound, payload };
        send(endpoint, &[&frame.encode()[..], text].concat());
    };
    let status = call_to(serve, &CallOptions::new(), false).unwrap_err();
    assert_eq!(status.to_string(), "NOT_FOUND: \\u{1b}[2J\u{fffd}");
}

#[test]
fn a_call_from_a_server_is_refused_by_a_client() {
    let serve = |endpoint: &mut Endpoint| {
        send(endpoint, &hello(1, 1));
        let (_greeting, theirs) = (receive(endpoint), receive(endpoint).unwrap());
        send(endpoint, &call(1 << 16, "Nothing", &[], &[]));
        let answer = receive(endpoint).unwrap();
        let frame = Frame::decode(&answer, answer.len()).unwrap();
        assert!(matches!(frame, Frame::Error { status: Code::Unimplemented, .. }), "{frame:?}");
        let Ok(Frame::Call { id, .. }) = Frame::decode(&theirs, theirs.len()) else { panic!() };
        send(endpoint, &Frame::Reply { id, payload: Payload::EMPTY }.encode());
    };
    for in_loop in [false, true] {
        call_to(serve, &CallOptions::new(), in_loop).expect("its own call goes on");
    }
}

#[test]
fn a_server_that_ends_connections_as_soon_as_they_are_open_is_given_pauses() {
    // The first, another at once, and those after pauses of 1, 2, 4, 8, 16, 32 and 50 ms.
    const CONNECTIONS_MAX: usize = 9;
    let address = unique_address();
    let listener = Listener::bind(&address.parse().unwrap()).unwrap();
    let (connections, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                let accepted = listener.accept(Deadline::after(PATIENCE), &Options::default());
                let mut endpoint = accepted.unwrap();
                connections.fetch_add(1, Ordering::SeqCst);
                let _greeting = receive(&mut endpoint);
                send(&mut endpoint, &hello(1, 1));
            }
        });
        let client = Client::new();
        let echo = EchoCaller::new(&client, &format!("{address}?via=unix-stream")).unwrap();
        let waits = ReconnectPolicy::Wait(Duration::from_millis(100));
        for _ in 0..5 {
            let before = connections.load(Ordering::SeqCst);
            let options = CallOptions::new().reconnect(waits);
            expect(echo.with(options).nothing(&()), Code::Unavailable, &[]);
            let made = connections.load(Ordering::SeqCst) - before;
            assert!((1..=CONNECTIONS_MAX).contains(&made), "{made} connections");
        }
        is_over.store(true, Ordering::SeqCst);
        expect(echo.nothing(&()), Code::Unavailable, &[]);
    });
}
