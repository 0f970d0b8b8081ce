//! Many at once: calls on one connection, connections to one server.

use nearcall_os::process::raise_descriptor_limit;

use crate::stage::prelude::*;

const CALLS: u16 = 10_000;
const CONNECTIONS: usize = 1_000;

/// Descriptors that a connection needs at most in both processes together, and some for the rest.
const DESCRIPTORS: u64 = 8 * CONNECTIONS as u64 + 200;

fn ten_thousand(client: &Client, at: &str) {
    let echo = EchoCaller::new(client, at).unwrap();
    let started: Vec<_> =
        (0..CALLS).map(|number| echo.start_later(&words(number.into()))).collect();
    assert_eq!(echo.say(&words(command::WANTED)).unwrap().number, CALLS.into(), "{at}");
    assert!(started.iter().all(|started| !started.is_done()), "{at}");
    // The last one first.
    assert_eq!(echo.say(&words(command::ANSWER)).unwrap().number, CALLS.into(), "{at}");
    let mut rest: Vec<_> = (0..u64::from(CALLS)).zip(started).collect();
    fastrand::Rng::with_seed(7).shuffle(&mut rest);
    for (number, started) in rest {
        assert_eq!(started.wait().unwrap().number, number, "{at}");
    }
}

#[test]
fn ten_thousand_calls_are_in_flight_on_one_connection() {
    // One more for the call that says what to do with them.
    let limits = Limits { calls_max: CALLS + 1, ..Limits::default() };
    each_in_time(["", "?via=shm-eventfd", "?via=shm-futex"], move |way| {
        let served = serve_scripted(limits, |_| keeper());
        let at = served.via(&format!("{way}#s"));
        ten_thousand(&Client::with_limits(None, limits), &at);
        drop(served);
        let served = serve_scripted(limits, |_| keeper());
        let at = served.via(&format!("{way}#s"));
        let event_loop = EventLoop::new().unwrap();
        ten_thousand(&Client::with_limits(Some(&event_loop), limits), &at);
    });
}

#[timed]
fn one_call_too_many_is_refused_and_the_others_go_on() {
    let limits = Limits { calls_max: 10, ..Limits::default() };
    let served = serve_scripted(limits, |_| keeper());
    let echo = served.echo("#s");
    let mut started: Vec<_> = (0..10).map(|number| echo.start_later(&words(number))).collect();
    let status = echo
        .with(CallOptions::new().no_wait())
        .start_nothing(&())
        .ensure_started()
        .map(drop)
        .unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    started.remove(0).cancel();
    assert_eq!(echo.say(&words(command::ANSWER)).unwrap().number, 10);
    for (number, started) in (1..).zip(started) {
        assert_eq!(started.wait().unwrap().number, number);
    }
}

#[timed]
fn a_thousand_clients_are_served() {
    let allowed = raise_descriptor_limit(DESCRIPTORS).unwrap();
    if allowed < DESCRIPTORS {
        // Nothing to test here: the machine does not allow so many descriptors.
        return;
    }
    let served = Served::start();
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let echo = served.echo("");
            assert_eq!(echo.say(&words(number as u64)).unwrap().number, number as u64);
            echo
        })
        .collect();
    // All at once, then each for itself.
    let started: Vec<_> = clients
        .iter()
        .zip(0..)
        .map(|(echo, number)| (number, echo.start_say(&words(number))))
        .collect();
    for (number, started) in started.into_iter().rev() {
        assert_eq!(started.wait().unwrap().number, number);
    }
    for echo in &clients {
        echo.nothing(&()).unwrap();
    }
}
