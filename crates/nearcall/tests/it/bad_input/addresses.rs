//! Addresses that are invalid, that have no listener, or that belong to another server.

use std::path::PathBuf;

use nearcall::server::ListenError;
use nearcall_channel::HandshakeError;
use nearcall_os::socket::{UnixAddress, unix_listen};

use super::expect;
use nearcall_testkit::directory::Directory;

use crate::observed::{Observed, PATIENCE};
use crate::stage::prelude::*;

/// A directory of the test, a path in it, and its address.
fn place() -> (Directory, PathBuf, String) {
    let directory = Directory::new();
    let (path, address) = (directory.0.join("socket"), directory.address("socket"));
    (directory, path, address)
}

/// What a server is told that wants to listen there.
fn listen_error(address: &str) -> String {
    let event_loop = EventLoop::new().unwrap();
    Server::new(&event_loop).listen(address).expect_err("it cannot listen there").to_string()
}

#[test]
fn the_socket_of_a_dead_server_is_taken_over() {
    let (_directory, path, at) = place();
    drop(unix_listen(UnixAddress::Path(&path), 1).unwrap());
    let caller = EchoCaller::new(&Client::new(), &at).unwrap();
    expect(caller.nothing(&()), Code::Unavailable, &["no server listens", &at]);
    let server = Observed::at(&at, Limits::default());
    caller.nothing(&()).unwrap();
    drop(server);
    assert!(!path.exists(), "a server that ends takes its socket along");
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let (_directory, path, at) = place();
    std::fs::write(&path, "precious").unwrap();
    let error = listen_error(&at);
    assert!(error.contains(&at) && error.contains("no socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    let caller = EchoCaller::new(&Client::new(), &at).unwrap();
    expect(caller.nothing(&()), Code::Unavailable, &[&at]);
}

#[test]
fn a_place_that_cannot_be_had_is_named_with_the_cause() {
    let error = listen_error("unix:/nearcall-nowhere/socket");
    assert!(error.contains("unix:/nearcall-nowhere/socket"), "{error}");
    assert!(error.contains("the directory /nearcall-nowhere is not there"), "{error}");
    let error = listen_error("tcp://192.0.2.1:9");
    assert!(error.contains("tcp://192.0.2.1:9") && error.contains("ssign"), "{error}");
}

#[test]
fn two_servers_at_one_place_are_one_too_many() {
    let server = Observed::start();
    let address = server.address.clone();
    server.while_a_good_client_calls(|| {
        let error = listen_error(&address);
        assert!(error.contains(&address) && error.contains("in use"), "{error}");
        assert!(error.contains("one server with several threads"), "{error}");
    });
    let event_loop = EventLoop::new().unwrap();
    let first = Server::new(&event_loop);
    let second = Server::new(&event_loop);
    for address in [unique_address(), "inproc:twice".to_owned()] {
        first.listen(&address).unwrap();
        let error = second.listen(&address).unwrap_err();
        assert!(matches!(error, ListenError::InUse(_)), "{error:?}");
        assert!(error.to_string().contains(&address), "{error}");
    }
    let (_directory, _, at) = place();
    let _listens = Observed::at(&at, Limits::default());
    let error = first.listen(&at).unwrap_err();
    let ListenError::Rendezvous(_, cause) = &error else { panic!("{error:?}") };
    assert!(matches!(**cause, HandshakeError::AddressInUse(..)), "{error:?}");
}

#[test]
fn text_that_is_no_address_is_quoted_with_the_cause() {
    let client = Client::new();
    for (text, why) in [
        ("", "empty"),
        ("kitchen/heater", "a path starts with `unix:`"),
        ("unix:", "must follow"),
        ("unix:/a\0b", "zero byte"),
        ("tcp://localhost", "host:port"),
        ("http://localhost:80/", "unknown scheme `http://`"),
        ("x?via=telepathy", "unknown mechanism `telepathy`"),
        ("x?via=shm-futx", "did you mean `shm-futex`"),
        ("x?wait=nap", "unknown wait policy `nap`"),
        ("x?speed=high", "unknown parameter"),
        ("x#", "an instance must follow"),
    ] {
        let quoted = format!("`{}`", text.escape_debug());
        let caller = EchoCaller::new(&client, text).unwrap_err().to_string();
        assert!(caller.contains(&quoted) && caller.contains(why), "{caller}");
        let error = listen_error(text);
        assert!(error.contains(&quoted) && error.contains(why), "{error}");
        expect(client.hunt(text, PATIENCE), Code::InvalidArgument, &[&quoted, why]);
    }
}

#[test]
fn a_server_refuses_the_parts_of_an_address_that_are_for_clients() {
    for (text, part) in [
        ("x?via=shm", "`via=shm` is for clients"),
        ("unix:@x?wait=spin&via=pipe", "`via=pipe` is for clients"),
        ("tcp://127.0.0.1:0#kitchen", "`#kitchen` is for clients"),
        ("x?trust=yes", "a server trusts `no` client"),
    ] {
        let error = listen_error(text);
        assert!(error.contains(text) && error.contains(part), "{error}");
        let error = Server::builder().listen(text).start().unwrap_err().to_string();
        assert!(error.contains(text) && error.contains(part), "{error}");
    }
}

#[test]
fn a_place_without_a_listener_is_reported_with_the_way_to_wait() {
    let event_loop = EventLoop::new().unwrap();
    for client in [Client::new(), Client::in_loop(&event_loop)] {
        let (_directory, _, at) = place();
        for address in [&at, &unique_address(), "nearcall-test-nobody", "tcp://127.0.0.1:1"] {
            let caller = EchoCaller::new(&client, address).unwrap();
            let words = ["no server listens", address, "hunt for it"];
            expect(caller.nothing(&()), Code::Unavailable, &words);
            let started = caller.start_nothing(&());
            expect(started.wait(), Code::Unavailable, &words);
        }
    }
}

#[test]
fn a_hunt_finds_a_server_that_starts_later() {
    let event_loop = EventLoop::new().unwrap();
    for client in [Client::new(), Client::in_loop(&event_loop)] {
        let address = unique_address();
        thread::scope(|scope| {
            let server = scope.spawn(|| {
                clock::pause(Duration::from_millis(50));
                Observed::at(&address, Limits::default())
            });
            client.hunt(&address, PATIENCE).unwrap();
            EchoCaller::new(&client, &address).unwrap().nothing(&()).unwrap();
            drop(server.join().unwrap());
        });
    }
}

#[test]
fn a_hunt_gives_up_in_time() {
    let event_loop = EventLoop::new().unwrap();
    for client in [Client::new(), Client::in_loop(&event_loop)] {
        let (address, start) = (unique_address(), clock::now());
        let outcome = client.hunt(&address, Duration::from_millis(100));
        let status = outcome.unwrap_err();
        // On a busy machine an attempt may end by the time.
        assert!(matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded), "{status}");
        let whys = ["no server listens", "in time"];
        assert!(whys.iter().any(|why| status.message().contains(why)), "{status}");
        assert!(status.message().contains(&address), "{status}");
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(40) && took < PATIENCE, "{took:?}");
    }
}

#[test]
fn a_mechanism_or_policy_that_cannot_be_had_is_said_at_once() {
    let server = Observed::start();
    let event_loop = EventLoop::new().unwrap();
    server.while_a_good_client_calls(|| {
        for client in [Client::new(), Client::in_loop(&event_loop)] {
            let call = |parameters: &str| {
                let address = format!("{}?{parameters}", server.address);
                let start = clock::now();
                let hunted = client.hunt(&address, PATIENCE);
                assert!(start.elapsed() < PATIENCE / 2, "{:?}", start.elapsed());
                assert!(hunted.is_err(), "{address}");
                EchoCaller::new(&client, &address).unwrap().nothing(&())
            };
            let words = ["shm-futex", "poll", "only by block", &server.address];
            expect(call("via=shm-futex&wait=poll"), Code::InvalidArgument, &words);
            expect(call("via=shm-spin&wait=block"), Code::InvalidArgument, &["only by spin"]);
            for mechanism in Mechanism::all() {
                if let Err(missing) = mechanism.supported() {
                    let outcome = call(&format!("via={mechanism}"));
                    expect(outcome, Code::FailedPrecondition, &[mechanism.name(), &missing]);
                }
            }
        }
    });
}

#[test]
fn over_tcp_there_is_one_mechanism() {
    let server = Observed::at("tcp://127.0.0.1:0", Limits::default());
    server.while_a_good_client_calls(|| {
        let address = format!("{}?via=shm-futex", server.address);
        let caller = EchoCaller::new(&Client::new(), &address).unwrap();
        let words = ["only the mechanism tcp", "shm-futex"];
        expect(caller.nothing(&()), Code::InvalidArgument, &words);
    });
}

#[test]
fn a_limit_above_the_largest_is_refused_where_the_server_listens() {
    let event_loop = EventLoop::new().unwrap();
    let limits = Limits { message_bytes_max: u32::MAX, ..Limits::default() };
    let server = Server::with_limits(&event_loop, limits);
    let error = server.listen("tcp://127.0.0.1:0").unwrap_err();
    assert!(matches!(error, ListenError::Limits(..)), "{error}");
    assert!(error.to_string().contains("limit `message_bytes_max` is 4294967295"), "{error}");
    assert_eq!(format!("{error:?}"), error.to_string());
}
