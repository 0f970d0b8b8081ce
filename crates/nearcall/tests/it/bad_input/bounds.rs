//! Too large and too many: refused with the limit in the text, and nothing else ends.

use nearcall::Message;
use nearcall::client::ObjectRef;
use nearcall::prost::DecodeError;
use nearcall::prost::bytes::{Buf, BufMut};
use nearcall::prost::encoding::{DecodeContext, WireType};
use nearcall_channel::{Endpoint, SendError};
use nearcall_wire::Frame;

use super::expect;
use super::frames::{call, greeted, receive};
use crate::observed::{Observed, PATIENCE};
use crate::stage::prelude::*;

/// A message of any length that fails the test when it is marshalled.
#[derive(Debug)]
struct Huge(usize);

impl Message for Huge {
    fn encode_raw(&self, _: &mut impl BufMut) {
        panic!("a message that is refused is not marshalled");
    }

    fn merge_field(
        &mut self,
        _: u32,
        _: WireType,
        _: &mut impl Buf,
        _: DecodeContext,
    ) -> Result<(), DecodeError> {
        Ok(())
    }

    fn encoded_len(&self) -> usize {
        self.0
    }

    fn clear(&mut self) {}
}

#[test]
fn a_message_over_the_limit_is_refused_before_it_is_made() {
    Observed::beside_a_good_client(|server| {
        for parameters in ["", "?via=shm-futex", "?via=unix-seqpacket", "?via=pipe"] {
            let client = Client::new();
            let address = format!("{}{parameters}", server.address);
            let interface = EchoCaller::INTERFACE;
            let [say, note] = ["Say", "Note"]
                .map(|name| *interface.methods.iter().find(|method| method.name == name).unwrap());
            let object = ObjectRef::new(&client, interface, &address).unwrap();
            for bytes in [4 << 20, 5 << 20, 1 << 30, usize::MAX / 2] {
                let limit = if bytes > 1 << 32 { "above every limit" } else { "of 4194304" };
                let started = object.start::<_, ()>(say, &Huge(bytes));
                expect(started.wait(), Code::ResourceExhausted, &[limit]);
                let within = CallOptions::new().deadline(PATIENCE);
                let called = object.with(within).call(say, &Huge(bytes), |(): &(), _, _| Ok(()));
                expect(called, Code::ResourceExhausted, &[limit]);
                let sent = object.send(note, &Huge(bytes));
                expect(sent, Code::ResourceExhausted, &[limit]);
            }
            let echo = EchoCaller::new(&client, &address).unwrap();
            // The largest that fits: a header, and a tag and a length before the data.
            let data = vec![1; (4 << 20) - 40 - 5].into();
            assert!(echo.say(&Words { data, ..Words::default() }).is_ok());
        }
    });
}

#[test]
fn metadata_over_the_limit_are_refused() {
    Observed::beside_a_good_client(|server| {
        let echo = server.echo("");
        let options = CallOptions::new().metadata_bin("much-bin", &[0; 8192]).unwrap();
        expect(echo.with(options).look(&()), Code::ResourceExhausted, &["metadata", "8192"]);
        let options = CallOptions::new().metadata_bin("much-bin", &[0; 8000]).unwrap();
        assert_eq!(echo.with(options).look(&()).unwrap().metadata["much-bin"].len(), 8000);
    });
}

#[test]
fn a_reply_over_the_limit_fails_its_call_only() {
    Observed::beside_a_good_client(|server| {
        // One byte more than the request needs: `Quick` adds one to the number.
        let limits = Limits { message_bytes_max: 42, ..Limits::default() };
        let echo = EchoCaller::new(&Client::with_limits(None, limits), &server.address).unwrap();
        let options = CallOptions::new().deadline(PATIENCE);
        let with = |number| echo.with(options.clone()).quick(&Words { number, ..Words::default() });
        expect(with(127), Code::ResourceExhausted, &[]);
        assert_eq!(with(1).unwrap().number, 2);
        // With room for the text.
        let limits = Limits { message_bytes_max: 1000, ..Limits::default() };
        let echo = EchoCaller::new(&Client::with_limits(None, limits), &server.address).unwrap();
        let mut refused = 0;
        for bytes in 900..950 {
            let options = CallOptions::new().metadata_bin("much-bin", &vec![0; bytes]).unwrap();
            match echo.with(options).look(&()) {
                Ok(_) => {}
                outcome => {
                    refused += 1;
                    expect(outcome, Code::ResourceExhausted, &["limit"]);
                }
            }
        }
        assert!((1..50).contains(&refused), "{refused}");
    });
}

#[test]
fn the_call_one_too_many_is_refused_and_the_others_end() {
    let limits = Limits { calls_max: 4, ..Limits::default() };
    let server = Observed::with(limits);
    server.while_a_good_client_calls(|| {
        let client = Client::new();
        let echo = EchoCaller::new(&client, &server.address).unwrap();
        let work = || echo.start_work(&Span { ms: 20 });
        let started: Vec<_> = (0..4).map(|_| work()).collect();
        let object = object(&client, EchoCaller::INTERFACE, &server.address);
        let say = method(EchoCaller::INTERFACE, "Say");
        let refused = object
            .with(CallOptions::new().no_wait())
            .start::<_, Words>(say, &Words::default())
            .ensure_started();
        expect(refused, Code::ResourceExhausted, &["too many open calls", &server.address]);
        for call in started {
            call.wait().expect("it was started before");
        }
        echo.nothing(&()).unwrap();
    });
}

#[test]
fn the_client_one_too_many_is_refused_with_the_reason() {
    let all = Limits { connections_max: 3, ..Limits::default() };
    let of_user = Limits { connections_per_uid_max: 3, ..Limits::default() };
    for (limits, words) in [(all, "the server has 3 connections"), (of_user, "this user has 3")] {
        let server = Observed::with(limits);
        server.while_a_good_client_calls(|| {
            let mut clients = [Client::new(), Client::new()];
            for client in &clients {
                EchoCaller::new(client, &server.address).unwrap().nothing(&()).unwrap();
            }
            let echo = server.echo("");
            for _ in 0..20 {
                expect(echo.nothing(&()), Code::Unavailable, &[words, &server.address]);
            }
            clients[0] = Client::new();
            server.wait_for_connections(2);
            echo.nothing(&()).unwrap();
            drop(clients);
        });
    }
}

/// Sends calls until the server reads no more of them. Returns how many.
fn ask_until_paused(endpoint: &mut Endpoint, body: &[u8]) -> u64 {
    let mut calls = 0;
    loop {
        let call = call(((calls / 256 + 1) << 16) | (calls % 256), "Say", &[], body);
        // Far longer than a server takes that reads.
        match endpoint.send(&call, Deadline::after(Duration::from_millis(500))) {
            Ok(()) => calls += 1,
            Err(SendError::Full) => return calls,
            Err(error) => panic!("after {calls} calls: {error}"),
        }
        assert!(calls < 60_000, "the server reads on");
    }
}

#[test]
fn r11_a_client_that_does_not_read_is_read_no_more_until_it_does() {
    Observed::beside_a_good_client(|server| {
        for mechanism in [Mechanism::UnixStream, Mechanism::ShmFutex] {
            for body_bytes in [0, 2000, 64 << 10] {
                let mut endpoint = greeted(server, mechanism);
                let body = Words { data: vec![7; body_bytes].into(), ..Words::default() };
                let rss_before = rss_bytes();
                let calls = ask_until_paused(&mut endpoint, &body.encode_to_vec());
                let grown = rss_bytes().saturating_sub(rss_before);
                assert!(grown < 200 << 20, "{grown} bytes for {calls} calls");
                for number in 0..calls {
                    let answer = receive(&mut endpoint).expect("it is not cut off");
                    let frame = Frame::decode(&answer, answer.len()).unwrap();
                    assert!(matches!(frame, Frame::Reply { .. }), "{number}: {frame:?}");
                }
                // The loop can sleep in one connection over shm-futex only.
                drop(endpoint);
                server.wait_for_connections(1);
            }
        }
    });
}

#[test]
fn r11_a_client_that_never_reads_is_cut_off() {
    let limits = Limits { unread_timeout: Duration::from_millis(100), ..Limits::default() };
    let server = Observed::with(limits);
    server.while_a_good_client_calls(|| {
        for body_bytes in [0, 2000] {
            let mut endpoint = greeted(&server, Mechanism::UnixStream);
            server.wait_for_connections(2);
            let body =
                Words { data: vec![7; body_bytes].into(), ..Words::default() }.encode_to_vec();
            let end = clock::now() + 3 * PATIENCE;
            let mut calls = 0;
            loop {
                assert!(clock::now() < end, "not cut off after {calls} calls");
                let call = call(((calls / 256 + 1) << 16) | (calls % 256), "Say", &[], &body);
                match endpoint.send(&call, Deadline::at(end)) {
                    Ok(()) => calls += 1,
                    Err(SendError::PeerGone) => break,
                    Err(error) => panic!("after {calls} calls: {error}"),
                }
            }
            server.wait_for_connections(1);
        }
    });
}

/// Memory of this process, in which other tests run, too.
fn rss_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn the_second_client_that_a_loop_would_have_to_sleep_in_is_refused_with_advice() {
    Observed::beside_a_good_client(|server| {
        let first = EchoCaller::new(&Client::new(), &format!("{}?via=shm-futex", server.address));
        let first = first.unwrap();
        first.nothing(&()).unwrap();
        for mechanism in ["shm-futex", "shm-semaphore"] {
            let address = format!("{}?via={mechanism}", server.address);
            let second = EchoCaller::new(&Client::new(), &address).unwrap();
            let outcome = second.nothing(&());
            expect(outcome, Code::Unavailable, &[&server.address, "pollable", "shm-eventfd"]);
        }
        first.nothing(&()).unwrap();
    });
}
