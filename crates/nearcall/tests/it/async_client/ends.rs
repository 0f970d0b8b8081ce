//! How calls end that do not end by a reply.

use std::time::Instant;

use futures_util::future::{join_all, join3};
use nearcall::client::ReconnectPolicy;
use nearcall_channel::{Listener, Options};

use super::{Books, PATIENCE, Served, block_on, poll_once, start_to_drain, words};
use crate::stage::prelude::*;
use crate::support::hello;
use crate::two_processes;

#[test]
fn a_call_ends_at_its_deadline() {
    const TIMEOUT: Duration = Duration::from_millis(30);
    let served = Served::start();
    let client = Client::builder().default_deadline(TIMEOUT).build();
    let plain = Client::new();
    for via in ["", "?wait=poll", "?via=unix-stream"] {
        let by_client = EchoAsyncCaller::new(&client, &served.via(via)).unwrap();
        let echo = EchoAsyncCaller::new(&plain, &served.via(via)).unwrap();
        block_on(client.hunt_async(&served.via(via), PATIENCE)).unwrap();
        block_on(plain.hunt_async(&served.via(via), PATIENCE)).unwrap();
        let options = CallOptions::new().deadline(TIMEOUT);
        let request = words(1);
        let start = clock::now();
        let ended = block_on(join3(
            by_client.later(&request),
            echo.with(options).later(&request),
            // By its interface, after 20 ms.
            echo.quick(&request),
        ));
        assert!(start.elapsed() >= TIMEOUT);
        for ended in [ended.0, ended.1, ended.2] {
            expect_code(ended, Code::DeadlineExceeded);
        }
        let options = CallOptions::new().deadline(PATIENCE);
        let seen = block_on(echo.with(options).look(&())).unwrap();
        let timeout_ns = u64::try_from(PATIENCE.as_nanos()).unwrap();
        assert!((1..=timeout_ns).contains(&seen.remaining_ns));
        assert_eq!(block_on(echo.look(&())).unwrap().remaining_ns, 0);
        block_on(echo.nothing(&())).unwrap();
        assert_eq!(Books::get(&served.books.held), 0);
    }
}

#[test]
fn a_deadline_that_has_passed_sends_nothing() {
    let served = Served::start();
    let echo = served.echo("");
    block_on(echo.nothing(&())).unwrap();
    let options = CallOptions::new().deadline(Duration::ZERO);
    expect_code(block_on(echo.with(options.clone()).later(&words(1))), Code::DeadlineExceeded);
    expect_code(block_on(echo.with(options.clone()).note(&words(1))), Code::DeadlineExceeded);
    block_on(echo.nothing(&())).unwrap();
    assert_eq!(Books::get(&served.books.begun), 0);
    assert_eq!(Books::get(&served.books.notes), 0);
}

#[test]
fn metadata_travels() {
    let served = Served::start();
    let echo = served.echo("");
    let options = CallOptions::new().metadata("key", "value").unwrap();
    let seen = block_on(echo.with(options).look(&())).unwrap();
    assert_eq!(seen.metadata["key"], "value");
}

#[test]
fn a_killed_server_ends_each_call_once() {
    const CALLS: usize = 300;
    for via in ["", "?wait=poll", "?via=unix-stream", "?via=shm-eventfd"] {
        let address = unique_address();
        let server = two_processes::start("server", &address);
        let client = Client::new();
        let at = format!("{address}{via}");
        block_on(client.hunt_async(&at, PATIENCE)).unwrap();
        let echo = EchoAsyncCaller::new(&client, &at).unwrap();
        let request = words(1);
        // Some are in flight, some wait for a place.
        let mut calls: Vec<_> = (0..CALLS).map(|_| Box::pin(echo.later(&request))).collect();
        for call in &mut calls {
            assert!(poll_once(call.as_mut()).is_pending());
        }
        let start = clock::now();
        drop(server);
        let ended = block_on(join_all(calls));
        assert!(start.elapsed() < PATIENCE, "{via}");
        assert_eq!(ended.len(), CALLS);
        for ended in ended {
            let status = ended.unwrap_err();
            assert_eq!(status.code(), Code::Unavailable, "{via}: {status}");
        }
        assert!(client.connections().is_empty());
        let status = block_on(echo.nothing(&())).unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{via}: {status}");
    }
}

/// Waits until a client knows that its connections have ended: nothing is called meanwhile.
fn wait_for_the_end(client: &Client) {
    let start = clock::now();
    while !client.connections().is_empty() {
        assert!(start.elapsed() < PATIENCE, "the driver has not noticed it");
        thread::yield_now();
    }
}

/// The places of connections that have ended are free without another call to the same address.
#[test]
fn servers_come_and_go() {
    const SERVERS: usize = 12;
    let limits = Limits { client_connections_max: 3, ..Limits::default() };
    let client = Client::builder().limits(limits).build();
    for via in ["", "?via=unix-stream"] {
        for number in 0..SERVERS {
            let served = Served::start();
            let echo = EchoAsyncCaller::new(&client, &served.via(via)).unwrap();
            let said = block_on(echo.nothing(&()));
            said.unwrap_or_else(|status| panic!("{via} server {number}: {status}"));
            drop((echo, served));
            wait_for_the_end(&client);
        }
    }
}

#[test]
fn a_call_connects_again_as_its_policy_has_it() {
    let address = unique_address();
    let once = Client::new();
    let never = Client::builder().reconnect(ReconnectPolicy::Never).build();
    let callers: Vec<_> =
        [&once, &never].map(|it| EchoAsyncCaller::new(it, &address).unwrap()).into();
    let served = Served::at(address.clone(), Limits::default());
    for echo in &callers {
        block_on(echo.nothing(&())).unwrap();
    }
    drop(served);
    // A call that is sent before that is known ends with it, as one that was under way.
    wait_for_the_end(&once);
    wait_for_the_end(&never);
    expect_code(block_on(callers[0].nothing(&())), Code::Unavailable);
    let served = Served::at(address, Limits::default());
    block_on(callers[0].nothing(&())).unwrap();
    expect_error(block_on(callers[1].nothing(&())), Code::Unavailable, &["connects once"]);
    drop(served);
}

/// A call of it goes on for as long as it likes.
#[test]
fn calls_that_wait_go_to_another_server_when_theirs_drains() {
    let name = format!("nearcall-test-{:016x}.sock", fastrand::u64(..));
    let address = format!("unix:{}", std::env::temp_dir().join(name).display());
    let limits = Limits { calls_max: 1, ..Limits::default() };
    let draining = start_to_drain(&address, limits);
    let policy = ReconnectPolicy::Wait(PATIENCE);
    let client = Client::builder().limits(limits).reconnect(policy).build();
    let echo = EchoAsyncCaller::new(&client, &address).unwrap();
    block_on(echo.nothing(&())).unwrap();
    let requests = [words(1), words(2), words(3)];
    let mut stays = Box::pin(echo.later(&requests[0]));
    let mut waits = Box::pin(echo.say(&requests[1]));
    assert!(poll_once(stays.as_mut()).is_pending());
    assert!(poll_once(waits.as_mut()).is_pending());
    assert!(!draining.drain(Duration::from_millis(1)), "a call is under way");
    let served = Served::at(address, Limits::default());
    assert_eq!(block_on(waits).unwrap().number, 2);
    assert_eq!(block_on(echo.say(&requests[2])).unwrap().number, 3);
    assert_eq!(*served.books.said.lock().unwrap(), [2, 3]);
    assert!(poll_once(stays.as_mut()).is_pending(), "it goes on");
    draining.stop().unwrap();
    expect_code(block_on(stays), Code::Unavailable);
}

#[test]
fn a_call_waits_for_its_server() {
    let address = unique_address();
    let client = Client::builder().reconnect(ReconnectPolicy::Wait(PATIENCE)).build();
    let echo = EchoAsyncCaller::new(&client, &address).unwrap();
    let request = words(7);
    let mut call = Box::pin(echo.say(&request));
    assert!(poll_once(call.as_mut()).is_pending());
    let served = Served::at(address.clone(), Limits::default());
    assert_eq!(block_on(call).unwrap().number, 7);
    drop(served);
    wait_for_the_end(&client);
    let options = CallOptions::new().deadline(Duration::from_millis(20));
    expect_code(block_on(echo.with(options).say(&request)), Code::DeadlineExceeded);
    let options = CallOptions::new().reconnect(ReconnectPolicy::Wait(Duration::from_millis(5)));
    expect_code(block_on(echo.with(options).say(&request)), Code::Unavailable);
}

#[test]
fn a_connection_is_opened_again_at_once_if_that_is_the_policy() {
    let address = unique_address();
    let client = Client::builder().reconnect(ReconnectPolicy::AtOnce(PATIENCE)).build();
    let echo = EchoAsyncCaller::new(&client, &address).unwrap();
    let served = Served::at(address.clone(), Limits::default());
    block_on(echo.nothing(&())).unwrap();
    drop(served);
    wait_for_the_end(&client);
    let served = Served::at(address, Limits::default());
    // Nothing is called.
    wait_until("another connection", || client.connections().len() == 1);
    drop((client, served));
}

/// Each costs both ends a handshake, though nothing is called.
#[test]
fn a_server_that_ends_each_connection_is_connected_to_ever_more_seldom() {
    let address = unique_address();
    let listener = Listener::bind(&address.parse().unwrap()).unwrap();
    let accept = |deadline| {
        let mut endpoint = listener.accept(deadline, &Options::default()).ok()?;
        endpoint.send(&hello(1, 1), Deadline::after(PATIENCE)).unwrap();
        Some(endpoint)
    };
    let client = Client::builder().reconnect(ReconnectPolicy::AtOnce(Duration::MAX)).build();
    let accepted = thread::scope(|scope| {
        let first = scope.spawn(|| accept(Deadline::after(PATIENCE)).unwrap());
        block_on(client.hunt_async(&address, PATIENCE)).unwrap();
        drop(first.join().unwrap());
        drop(accept(Deadline::after(PATIENCE)).expect("it is opened again"));
        let end = Deadline::after(Duration::from_millis(300));
        std::iter::from_fn(|| accept(end)).map(drop).count()
    });
    // After 1, 2, 4, ... ms.
    assert!(accepted < 20, "{accepted} connections in 300 ms");
}

/// Whatever its client does beside it.
#[timed]
fn a_call_that_is_not_to_wait_ends_while_its_connection_is_opened_again() {
    let address = unique_address();
    let client = Client::builder().reconnect(ReconnectPolicy::AtOnce(Duration::MAX)).build();
    let echo = EchoAsyncCaller::new(&client, &address).unwrap();
    let served = Served::at(address.clone(), Limits::default());
    block_on(echo.nothing(&())).unwrap();
    drop(served);
    wait_for_the_end(&client);
    for options in [
        CallOptions::new().wait_for_ready(false),
        CallOptions::new().reconnect(ReconnectPolicy::Once),
    ] {
        expect_code(block_on(echo.with(options.clone()).nothing(&())), Code::Unavailable);
    }
}

#[test]
fn a_hunt_waits_for_its_server_and_no_longer() {
    let address = unique_address();
    let client = Client::new();
    let start: Instant = clock::now();
    let missing = block_on(client.hunt_async(&address, Duration::from_millis(20))).unwrap_err();
    // On a busy machine the thread that connects may not have begun.
    assert!(matches!(missing.code(), Code::Unavailable | Code::DeadlineExceeded), "{missing}");
    assert!(start.elapsed() >= Duration::from_millis(15));
    expect_code(block_on(client.hunt_async("no/address", PATIENCE)), Code::InvalidArgument);
    let mut hunt = Box::pin(client.hunt_async(&address, PATIENCE));
    assert!(poll_once(hunt.as_mut()).is_pending());
    let served = Served::at(address.clone(), Limits::default());
    block_on(hunt).unwrap();
    assert_eq!(client.connections().len(), 1);
    drop(served);
}

#[test]
fn mechanisms_that_cannot_be_waited_for_are_refused_by_name() {
    let served = Served::start();
    let client = Client::new();
    let refused = |it: &Mechanism| !it.capabilities().pollable || *it == Mechanism::ShmSignal;
    for mechanism in Mechanism::all().filter(refused) {
        let at = served.via(&format!("?via={mechanism}"));
        let echo = EchoAsyncCaller::new(&client, &at).unwrap();
        let refused = expect_code(block_on(echo.nothing(&())), Code::FailedPrecondition);
        assert!(refused.message().contains(mechanism.name()), "{refused}");
        assert!(refused.message().contains("unix-stream"), "{refused}");
    }
    let echo = EchoAsyncCaller::new(&client, &served.via("?wait=spin")).unwrap();
    expect_code(block_on(echo.nothing(&())), Code::FailedPrecondition);
    let echo = EchoAsyncCaller::new(&client, "inproc:room").unwrap();
    expect_code(block_on(echo.nothing(&())), Code::FailedPrecondition);
    assert!(client.connections().is_empty());
}

#[test]
fn connections_of_tasks_count_as_those_of_threads_do() {
    let served = Served::start();
    let limits = Limits { client_connections_max: 1, ..Limits::default() };
    let client = Client::builder().limits(limits).build();
    let echo = EchoAsyncCaller::new(&client, &served.address).unwrap();
    block_on(echo.nothing(&())).unwrap();
    let other = EchoAsyncCaller::new(&client, &served.via("?via=pipe")).unwrap();
    expect_code(block_on(other.nothing(&())), Code::ResourceExhausted);
    drop((client, echo, other));
}
