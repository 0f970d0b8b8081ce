//! The same calls over every mechanism and wait policy.

use std::time::Duration;

use nearcall::{CallOptions, Client, Mechanism};

use crate::echo::{EchoCaller, Words};
use crate::stage::alone;
use crate::support::Served;

fn exchange(mechanism: Mechanism, parameters: &str) {
    let _alone = alone(parameters);
    let served = Served::start();
    let client = Client::new();
    let echo = EchoCaller::new(&client, &served.via(parameters)).unwrap();
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
    let options = CallOptions::new().deadline(Duration::from_secs(10));
    let quick = echo.quick_with(&Words { number: 4, ..Words::default() }, &options).unwrap();
    assert_eq!(quick.number, 5);
    assert!(echo.look_with(&(), &options).unwrap().remaining_ns > 1_000_000_000);
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
        let event_loop = nearcall::EventLoop::new().unwrap();
        let client = Client::in_loop(&event_loop);
        let via = format!("?via={mechanism}");
        let echo = EchoCaller::new(&client, &served.via(&via)).unwrap();
        let options = CallOptions::new().deadline(Duration::from_secs(5));
        for _ in 0..3 {
            echo.nothing_with(&(), &options).unwrap_or_else(|error| panic!("{mechanism}: {error}"));
        }
        for bytes in [100, 100_000, 1 << 20] {
            let request = Words { data: vec![7; bytes].into(), number: 1 };
            let reply = echo.say_with(&request, &options);
            let reply = reply.unwrap_or_else(|error| panic!("{mechanism}: {error}"));
            assert!(reply == request, "{mechanism}: {bytes} bytes came back changed");
        }
        // More than any channel holds: the client has to wait for room, and must not oversleep it.
        for number in 0..20_000 {
            echo.note_with(&Words { number, ..Words::default() }, &options)
                .unwrap_or_else(|error| panic!("{mechanism}: {error}"));
        }
        echo.nothing_with(&(), &options).unwrap_or_else(|error| panic!("{mechanism}: {error}"));
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
        futex.nothing_with(&(), &options).unwrap();
        signal.nothing_with(&(), &options).unwrap();
    }
}
