//! A client that opens a channel as it should and then sends what no client sends.

use nearcall::observe::{RefusalKind, RefusedUser};
use nearcall_channel::{Endpoint, Options, connect};
use nearcall_wire::{CallId, Code, Frame, HEADER_BYTES};

use crate::observed::{Observed, PATIENCE, while_a_good_client_calls};
pub(super) use crate::raw_frames::{call, receive};
use crate::raw_frames::{channel_at, expect_closed, greeted_at, violations};
use crate::stage::prelude::*;
use crate::support::hello;

/// A channel to the server, on which the server has greeted.
pub(super) fn channel(server: &Observed, mechanism: Mechanism) -> Endpoint {
    channel_at(&server.place(), mechanism)
}

/// A channel on which both have greeted.
pub(super) fn greeted(server: &Observed, mechanism: Mechanism) -> Endpoint {
    greeted_at(&server.place(), mechanism)
}

const MECHANISMS: [Mechanism; 3] =
    [Mechanism::UnixStream, Mechanism::ShmFutex, Mechanism::UnixSeqpacket];

#[test]
fn what_is_no_greeting_ends_the_connection() {
    let server = Observed::start();
    server.while_a_good_client_calls(|| {
        for mechanism in MECHANISMS {
            for (what, bytes) in [
                ("nothing", vec![]),
                ("a call", call(1 << 16, "Nothing", &[], &[])),
                ("half a greeting", hello(1, 1)[..20].to_vec()),
                ("a later version", hello(4, 5)),
                ("a version from nowhere", hello(5, 0)),
                ("another protocol", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
                ("a long greeting", [hello(1, 1), vec![0; 5000]].concat()),
            ] {
                let mut endpoint = channel(&server, mechanism);
                endpoint.send(&bytes, Deadline::after(PATIENCE)).unwrap();
                expect_closed(endpoint, what);
            }
        }
    });
    server.wait_for_connections(0);
}

#[test]
fn r07_a_frame_against_the_rules_ends_the_connection() {
    let server = Observed::start();
    server.while_a_good_client_calls(|| {
        for mechanism in MECHANISMS {
            for (what, bytes) in violations() {
                let mut endpoint = greeted(&server, mechanism);
                endpoint.send(&bytes, Deadline::after(PATIENCE)).unwrap();
                expect_closed(endpoint, what);
            }
        }
    });
    server.wait_for_connections(0);
}

#[test]
fn half_a_message_delays_no_other_client() {
    for mechanism in Mechanism::all().filter(|mechanism| mechanism.supported().is_ok()) {
        for message_bytes in [200, 100_000] {
            // Without any timer that would wake it.
            let server = Served::start();
            let place = server.address.parse().unwrap();
            while_a_good_client_calls(&server.address, || {
                let mut endpoint = greeted_at(&place, mechanism);
                let mut claim = endpoint.claim(message_bytes, Deadline::after(PATIENCE)).unwrap();
                claim.write(&vec![0; message_bytes / 2]).unwrap();
                // Stays so while the good client calls on, and another comes.
                clock::pause(Duration::from_millis(10));
                let echo = server.echo("");
                let options = CallOptions::new().deadline(PATIENCE);
                if let Err(status) = echo.with(options).nothing(&()) {
                    panic!("{message_bytes} bytes over {mechanism}: {status}");
                }
            });
        }
    }
}

#[test]
fn a_client_that_opens_a_channel_and_does_not_greet_is_closed() {
    let server = Observed::start();
    let silent = MECHANISMS.map(|mechanism| channel(&server, mechanism));
    server.while_a_good_client_calls(|| {
        for endpoint in silent {
            expect_closed(endpoint, "silence");
        }
    });
    server.wait_for_connections(0);
}

/// Commits one violation, with a call under way, for `leaves_nothing`.
pub(super) fn misbehave(server: &Observed, mechanism: Mechanism, number: u64) {
    let mut endpoint = greeted(server, mechanism);
    endpoint.send(&call(9 << 16, "Later", &[], &[]), Deadline::after(PATIENCE)).unwrap();
    let mut violations = violations();
    let which = usize::try_from(number).unwrap() % violations.len();
    let (what, bytes) = violations.swap_remove(which);
    endpoint.send(&bytes, Deadline::after(PATIENCE)).unwrap();
    expect_closed(endpoint, what);
}

/// Asks for much and does not read it, is cut off, and keeps its end for a while, for `be_rude`.
pub(super) fn ask_and_stay(address: &str, mechanism: Mechanism, stay: Duration) {
    let place = address.parse().unwrap();
    let mut endpoint = connect(&place, mechanism, &Options::default()).unwrap();
    receive(&mut endpoint).expect("the server greets");
    let soon = || Deadline::after(PATIENCE);
    endpoint.send(&hello(1, 1), soon()).unwrap();
    for slot in 0..8 {
        endpoint.send(&call(1 << 16 | slot, "Say", &[], &[]), soon()).unwrap();
    }
    endpoint.send(b"no frame", soon()).unwrap();
    clock::pause(stay);
}

#[test]
fn r07_an_id_that_is_in_use_ends_the_connection_and_its_calls() {
    Observed::beside_a_good_client(|server| {
        let mut endpoint = greeted(server, Mechanism::UnixStream);
        for _ in 0..2 {
            let call = call(1 << 16, "Later", &[], &[]);
            endpoint.send(&call, Deadline::after(PATIENCE)).unwrap();
        }
        expect_closed(endpoint, "an id that is in use");
        wait_until("the first call", || server.seen.later.load(Ordering::Relaxed) == 1);
        wait_until("the end of interest", || server.seen.wanted.load(Ordering::Relaxed) == 0);
    });
}

#[test]
fn r07_random_frames_hurt_no_other_client() {
    let server = Observed::start();
    server.while_a_good_client_calls(|| {
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut endpoint = match random.bool() {
                true => channel(&server, Mechanism::UnixStream),
                false => greeted(&server, Mechanism::UnixStream),
            };
            for id in 1..=random.u64(1..6) {
                let mut bytes = match random.u8(0..3) {
                    0 => vec![0; random.usize(0..200)],
                    1 => call(id << 16, "Say", &[], &[0x12; 30]),
                    _ => violations().swap_remove(random.usize(0..violations().len())).1,
                };
                for _ in 0..random.usize(0..4) {
                    let at = random.usize(0..bytes.len().max(1));
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = random.u8(..);
                    }
                }
                // Closed by the server meanwhile, most likely.
                let _ = endpoint.send(&bytes, Deadline::after(PATIENCE));
            }
        }
    });
    server.wait_for_connections(0);
}

/// What the server answers to a body, and that the connection lives.
#[track_caller]
fn expect_bad_request(server: &Observed, name: &str, body: &[u8]) {
    let mut endpoint = greeted(server, Mechanism::UnixStream);
    endpoint.send(&call(1 << 16, name, &[], body), Deadline::after(PATIENCE)).unwrap();
    let answer = receive(&mut endpoint).expect("an answer");
    let frame = Frame::decode(&answer, answer.len()).unwrap();
    let Frame::Error { status, .. } = frame else { panic!("not refused: {frame:?}") };
    assert_eq!(status, Code::Internal);
    let text = String::from_utf8_lossy(&answer[HEADER_BYTES..]);
    assert!(text.contains("bad request"), "{text}");
    assert!(text.len() < 1024, "{} bytes of text", text.len());
    endpoint.send(&call(2 << 16, "Nothing", &[], &[]), Deadline::after(PATIENCE)).unwrap();
    let answer = receive(&mut endpoint).expect("the connection lives");
    assert!(matches!(Frame::decode(&answer, answer.len()), Ok(Frame::Reply { .. })));
}

#[test]
fn a_body_that_cannot_be_decoded_is_refused_and_the_connection_lives() {
    Observed::beside_a_good_client(|server| {
        // A length that points past the end, of 2^63; an endless varint; a wrong wire type.
        expect_bad_request(server, "Say", &[0x0a, 0x7f, 1, 2]);
        let past = [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        expect_bad_request(server, "Say", &past);
        expect_bad_request(server, "Say", &[0x10; 1]);
        expect_bad_request(server, "Say", &[[0x10].as_slice(), &[0xff; 20]].concat());
        expect_bad_request(server, "Say", &[0x08, 0x01]);
        // Text that is no UTF-8.
        expect_bad_request(server, "Fail", &[0x12, 0x02, 0xff, 0xfe]);
        // Groups in groups, a hundred thousand deep, of an unknown field.
        expect_bad_request(server, "Say", &[0x53; 100_000]);
        let deep = [vec![0x53; 150], vec![0x54; 150]].concat();
        expect_bad_request(server, "Say", &deep);
    });
}

#[test]
fn metadata_that_are_none_are_refused_or_dropped() {
    Observed::beside_a_good_client(|server| {
        for seed in 0..100 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut metadata = vec![0; random.usize(1..200)];
            random.fill(&mut metadata);
            let mut endpoint = greeted(server, Mechanism::UnixStream);
            let call = call(1 << 16, "Look", &metadata, &[]);
            endpoint.send(&call, Deadline::after(PATIENCE)).unwrap();
            // Any end but a panic of the server, which its thread would tell.
            receive(&mut endpoint);
        }
    });
}

#[test]
fn messages_as_long_as_the_room_for_them_may_come_in_parts() {
    let server = Observed::start();
    let place = server.place();
    for mechanism in [Mechanism::Shm, Mechanism::ShmEventfd, Mechanism::UnixStream] {
        for message_bytes in [60, 100, 4096, 8192, 16384] {
            let options = Options { buffer_bytes: 4096, ..Options::default() };
            let mut endpoint = connect(&place, mechanism, &options).unwrap();
            receive(&mut endpoint).expect("the server greets");
            endpoint.send(&hello(1, 1), Deadline::after(PATIENCE)).unwrap();
            let message = call(1 << 16, "Nothing", &[], &vec![0; message_bytes - HEADER_BYTES]);
            endpoint.send(&message, Deadline::after(PATIENCE)).unwrap();
            let reply = receive(&mut endpoint).expect("it is answered");
            assert_eq!(reply[1], nearcall_wire::Kind::Error as u8, "{mechanism} {message_bytes}");
        }
    }
}

/// The reason comes as the error of the call that broke the protocol, and the server counts it.
#[test]
fn a_connection_that_breaks_the_protocol_is_closed_with_the_reason_and_counted() {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    let address = server.listen("tcp://127.0.0.1:0").unwrap().to_string();
    let client = thread::spawn(move || {
        let mut endpoint =
            connect(&address.parse().unwrap(), Mechanism::Tcp, &Options::default()).unwrap();
        receive(&mut endpoint).expect("the server greets");
        endpoint.send(&hello(1, 1), Deadline::after(PATIENCE)).unwrap();
        endpoint.send(&call(0, "Nothing", &[], &[]), Deadline::after(PATIENCE)).unwrap();
        let notice = receive(&mut endpoint).expect("the reason");
        assert_eq!(receive(&mut endpoint), None, "closed");
        notice
    });
    let deadline = Deadline::after(PATIENCE);
    while server.refusals().is_empty() {
        assert!(!deadline.has_passed(), "the violation was not counted");
        event_loop.next(Deadline::after(Duration::from_millis(5))).unwrap();
    }
    let [refused] = server.refusals().try_into().expect("one row");
    assert_eq!(refused.kind, RefusalKind::ProtocolViolation("call-id-reused"));
    assert_eq!((refused.user, refused.count), (RefusedUser::Remote, 1));
    let notice = client.join().unwrap();
    let frame = Frame::decode(&notice, notice.len()).unwrap();
    let Frame::Error { id, status: Code::Internal, .. } = frame else { panic!("{frame:?}") };
    assert_eq!(id, CallId::from_word(0));
    let text = String::from_utf8_lossy(&notice[HEADER_BYTES..]);
    assert_eq!(text, "the connection is closed: this peer used the id of an older call");
}
