//! The same calls over every mechanism and wait policy.

use nearcall::mechanism::MechanismSet;
use nearcall::server::ListenOptions;

use crate::stage::prelude::*;
use crate::support::LoopThread;

/// Calls of each client that shares signals with others: most runs of the loop before it looked at
/// all of them did not come as far.
const SHARED_SIGNALS: u32 = 2_000;

fn exchange(mechanism: Mechanism, parameters: &str) {
    let _alone = alone(parameters);
    let served = Served::start();
    let echo = served.echo(parameters);
    echo.nothing(&()).unwrap();
    for bytes in [0, 1, 63, 5_000, 100_000, 1 << 20] {
        let data: Vec<u8> = (0..=250).cycle().take(bytes).collect();
        let request = Words { data: data.into(), number: bytes as u64 };
        let reply = echo.say(&request).unwrap();
        assert!(reply == request, "{mechanism}: {bytes} bytes came back changed");
    }
    for number in 0..100 {
        echo.note(&Words { number, ..Words::default() }).unwrap();
    }
    let echo = echo.with(CallOptions::new().deadline(Duration::from_secs(10)));
    let quick = echo.quick(&Words { number: 4, ..Words::default() }).unwrap();
    assert_eq!(quick.number, 5);
    assert!(echo.look(&()).unwrap().remaining_ns > 1_000_000_000);
}

#[test]
fn every_mechanism_carries_calls() {
    for mechanism in Mechanism::all() {
        if let Err(missing) = mechanism.supported() {
            assert!(!missing.is_empty());
            continue;
        }
        for wait in mechanism.waits() {
            exchange(mechanism, &format!("?via={mechanism}&wait={wait}"));
        }
    }
}

#[test]
fn every_mechanism_carries_calls_of_a_client_in_a_loop() {
    for mechanism in Mechanism::all() {
        if mechanism.supported().is_err() {
            continue;
        }
        let served = Served::start();
        let event_loop = EventLoop::new().unwrap();
        let client = Client::in_loop(&event_loop);
        let via = format!("?via={mechanism}");
        let echo = EchoCaller::new(&client, &served.via(&via)).unwrap();
        let echo = echo.with(CallOptions::new().deadline(Duration::from_secs(5)));
        for _ in 0..3 {
            echo.nothing(&()).unwrap_or_else(|error| panic!("{mechanism}: {error}"));
        }
        for bytes in [100, 100_000, 1 << 20] {
            let request = Words { data: vec![7; bytes].into(), number: 1 };
            let reply = echo.say(&request);
            let reply = reply.unwrap_or_else(|error| panic!("{mechanism}: {error}"));
            assert!(reply == request, "{mechanism}: {bytes} bytes came back changed");
        }
        // More than any channel holds: the client has to wait for room, and must not oversleep it.
        for number in 0..20_000 {
            echo.note(&Words { number, ..Words::default() })
                .unwrap_or_else(|error| panic!("{mechanism}: {error}"));
        }
        echo.nothing(&()).unwrap_or_else(|error| panic!("{mechanism}: {error}"));
    }
}

/// A signalfd reports only to the thread that polls it, and a loop that sleeps in a connection has
/// another thread poll for it: clients whose bell is a signal were not heard.
#[test]
fn a_loop_that_sleeps_in_one_connection_receives_signals() {
    let served = Served::start();
    let (first, second) = (Client::new(), Client::new());
    let futex = EchoCaller::new(&first, &served.via("?via=shm-futex")).unwrap();
    let signal = EchoCaller::new(&second, &served.via("?via=shm-signal")).unwrap();
    let options = CallOptions::new().deadline(Duration::from_secs(10));
    for _ in 0..20 {
        futex.with(options.clone()).nothing(&()).unwrap();
        signal.with(options.clone()).nothing(&()).unwrap();
    }
}

/// A signal to a thread is taken by whichever of its connections comes first. The others had
/// announced their sleep, and were not looked at: both ends slept.
#[test]
fn a_signal_that_one_connection_takes_is_heard_by_the_others() {
    let served = Served::start();
    let at = served.via("?via=shm-signal");
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let event_loop = EventLoop::new().unwrap();
                let clients = [(); 2].map(|()| Client::in_loop(&event_loop));
                let echoes = clients.map(|client| EchoCaller::new(&client, &at).unwrap());
                let options = CallOptions::new().deadline(Duration::from_secs(20));
                for _ in 0..SHARED_SIGNALS {
                    let pending =
                        echoes.each_ref().map(|echo| echo.with(options.clone()).start_nothing(&()));
                    pending.into_iter().for_each(|call| call.wait().unwrap());
                }
            });
        }
    });
}

/// As a service that calls on in the thread of its loop.
#[test]
fn a_signal_that_a_client_without_a_loop_takes_is_heard_by_the_loop() {
    let at = [(); 2].map(|()| Served::start());
    let at = at.each_ref().map(|served| served.via("?via=shm-signal"));
    let event_loop = EventLoop::new().unwrap();
    let echo = EchoCaller::new(&Client::in_loop(&event_loop), &at[0]).unwrap();
    let other = EchoCaller::new(&Client::new(), &at[1]).unwrap();
    let options = CallOptions::new().deadline(Duration::from_secs(20));
    let first = echo.with(options.clone()).start_work(&Span { ms: 30 });
    let soon = clock::now() + Duration::from_millis(10);
    assert!(event_loop.next(Deadline::at(soon)).unwrap().is_none());
    // The reply to the first one comes while this one sleeps.
    other.with(options.clone()).work(&Span { ms: 60 }).unwrap();
    first.wait().unwrap();
}

/// The outcome of one call over each mechanism that this kernel has.
fn outcomes(address: &str) -> Vec<(Mechanism, Result<(), Status>)> {
    let here = Mechanism::all().filter(|mechanism| mechanism.supported().is_ok());
    here.map(|mechanism| {
        let client = Client::new();
        let echo = EchoCaller::new(&client, &format!("{address}?via={mechanism}")).unwrap();
        let options = CallOptions::new().deadline(Duration::from_secs(20));
        (mechanism, echo.with(options).nothing(&()))
    })
    .collect()
}

/// A client chose any mechanism, and with that a mutex in memory that it writes, eventfds that it
/// fills, or a busy processor of the server.
#[test]
fn a_client_gets_no_mechanism_that_the_server_did_not_offer() {
    for (parameters, offered) in [
        ("", MechanismSet::BY_DEFAULT),
        ("?allow=shm-condvar,cma", "shm-condvar,cma".parse().unwrap()),
    ] {
        let (address, served_at) = (unique_address(), unique_address());
        let _one_loop = LoopThread::serve(Limits::default(), {
            let listens = format!("{address}{parameters}");
            move |_, server| {
                server.register(EchoDispatcher::new(Service::default())).unwrap();
                let told = server.listen(&listens).unwrap().to_string();
                assert!(!told.contains("allow"), "clients cannot say {told}");
            }
        });
        let server = Server::builder().threads(2).listen(&format!("{served_at}{parameters}"));
        let server = server.start().unwrap();
        for (at, has_object) in [(&address, true), (&served_at, false)] {
            for (mechanism, outcome) in outcomes(at) {
                let Err(status) = outcome else {
                    assert!(has_object && offered.contains(mechanism), "{mechanism} at {at}");
                    continue;
                };
                let text = status.message();
                if offered.contains(mechanism) {
                    assert!(!has_object && status.code() == Code::Unimplemented, "{text}");
                    continue;
                }
                assert_eq!(status.code(), Code::FailedPrecondition, "{mechanism}: {text}");
                let names: Vec<_> = offered.iter().map(Mechanism::name).collect();
                let expected = format!("does not offer {mechanism}, only {}", names.join(", "));
                assert!(text.contains(&expected), "{text}");
            }
        }
        server.stop().unwrap();
    }
}

/// A refused client waits for nothing: the server made nothing, and asking again changes nothing.
#[test]
fn a_hunt_for_a_mechanism_that_is_not_offered_ends_at_once() {
    let server = Server::builder().listen(&unique_address()).start().unwrap();
    let client = Client::new();
    let at = format!("{}?via=shm-condvar", server.address());
    let outcome = client.hunt(&at, Duration::from_secs(3600));
    expect_error(outcome, Code::FailedPrecondition, &["`?allow=shm-condvar`"]);
    assert!(server.connections().is_empty());
}

#[test]
fn limits_of_a_listener_hold_for_its_clients_only() {
    let (strict, at) = (unique_address(), unique_address());
    let options = ListenOptions::new()
        .deadline_max(Duration::from_secs(10))
        .message_bytes_max(64 << 10)
        .mechanisms(Mechanism::UnixStream);
    let (_served, ()) = LoopThread::serve(Limits::default(), {
        let (strict, at) = (strict.clone(), at.clone());
        move |_, server| {
            server.register(EchoDispatcher::new(Service::default())).unwrap();
            server.listen_with(&strict, &options).unwrap();
            server.listen(&at).unwrap();
        }
    });
    let client = Client::new();
    let asked = CallOptions::new().deadline(Duration::from_secs(100));
    let large = Words { data: vec![1; 100_000].into(), number: 1 };
    for (address, is_strict) in [(format!("{strict}?via=unix-stream"), true), (at, false)] {
        let echo = EchoCaller::new(&client, &address).unwrap();
        let left = Duration::from_nanos(echo.with(asked.clone()).look(&()).unwrap().remaining_ns);
        assert_eq!(left <= Duration::from_secs(10), is_strict, "{left:?}");
        match echo.with(asked.clone()).say(&large) {
            Ok(reply) => assert!(!is_strict && reply == large),
            Err(status) => {
                assert!(is_strict && status.code() == Code::ResourceExhausted, "{status}");
            }
        }
    }
    let refused = EchoCaller::new(&client, &strict).unwrap().with(asked.clone()).nothing(&());
    assert_eq!(refused.unwrap_err().code(), Code::FailedPrecondition);
}
