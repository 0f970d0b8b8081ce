//! Figures of the runtime, printed rather than judged: other machines are busy. Run them alone:
//! `cargo test --release -p nearcall --test it figures -- --nocapture --test-threads 1`.
#![allow(clippy::print_stderr, reason = "they print figures")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nearcall::{CallOptions, Client, Code, EventLoop, Limits};
use nearcall_os::clock;

use crate::echo::EchoCaller;
use crate::stage::{keeper, serve_scripted, words};
use crate::support::Served;

/// A number from the environment.
fn count(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn at(sorted: &[u64], share: f64) -> f64 {
    let last = sorted.len() - 1;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index between zero and the last"
    )]
    let index = (last as f64 * share).round() as usize;
    sorted[index.min(last)] as f64 / 1e3
}

/// How late deadlines of 5 ms are: `NEARCALL_DEADLINES`, 20 by default, 1000 for the figure.
#[test]
fn deadline_overshoot() {
    let deadlines = count("NEARCALL_DEADLINES", 20);
    let timeout = Duration::from_millis(5);
    for way in ["", "?via=shm-futex", "?via=shm-eventfd", "?via=pipe"] {
        let served = serve_scripted(Limits::default(), |_| keeper());
        let event_loop = EventLoop::new().unwrap();
        let clients = [("blocking", Client::new()), ("in a loop", Client::in_loop(&event_loop))];
        for (name, client) in clients {
            let echo = EchoCaller::new(&client, &served.via(&format!("{way}#s"))).unwrap();
            echo.nothing(&()).unwrap();
            let options = CallOptions::new().deadline(timeout);
            let mut late_ns: Vec<u64> = (0..deadlines)
                .map(|_| {
                    let start_ns = clock::monotonic_ns();
                    let status = echo.later_with(&words(0), &options).unwrap_err();
                    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
                    let took_ns = clock::monotonic_ns() - start_ns;
                    let asked_ns = u64::try_from(timeout.as_nanos()).unwrap();
                    assert!(took_ns >= asked_ns, "{took_ns} ns are too early");
                    took_ns - asked_ns
                })
                .collect();
            late_ns.sort_unstable();
            eprintln!(
                "{deadlines} deadlines of 5 ms, {name}{way}: late by {:.0} us in the median, \
                 {:.0} us at most",
                at(&late_ns, 0.5),
                at(&late_ns, 1.0)
            );
        }
    }
}

/// Response times of a client that calls once a millisecond, in microseconds: median and p99.
fn paced(served: &Served, way: &str, calls: usize) -> (f64, f64) {
    let echo = EchoCaller::new(&Client::new(), &served.via(way)).unwrap();
    echo.nothing(&()).unwrap();
    let mut times_ns = Vec::with_capacity(calls);
    let mut due = clock::now();
    for _ in 0..calls {
        due += Duration::from_millis(1);
        clock::pause(due.saturating_duration_since(clock::now()));
        let start_ns = clock::monotonic_ns();
        echo.nothing(&()).unwrap();
        times_ns.push(clock::monotonic_ns() - start_ns);
    }
    times_ns.sort_unstable();
    (at(&times_ns, 0.5), at(&times_ns, 0.99))
}

/// Keeps calls in flight until it is told to stop, and says how many were answered.
fn flood(at: &str, stop: &AtomicBool) -> u64 {
    let echo = EchoCaller::new(&Client::new(), at).unwrap();
    let options = CallOptions::new();
    let mut answered = 0;
    while !stop.load(Ordering::Relaxed) {
        let started: Vec<_> = (0..200).map(|_| echo.start_nothing_with(&(), &options)).collect();
        for started in started {
            started.wait().unwrap();
            answered += 1;
        }
    }
    answered
}

/// Paced calls to `served` while another client floods the server at `flooded`: median, p99, and
/// how many calls of the flood were answered.
fn paced_beside(served: &Served, flooded: &Served, way: &str, calls: usize) -> (f64, f64, u64) {
    let stop = Arc::new(AtomicBool::new(false));
    let (flood_at, flood_stop) = (flooded.via(way), Arc::clone(&stop));
    let flooding = thread::spawn(move || flood(&flood_at, &flood_stop));
    let (median, p99) = paced(served, way, calls);
    stop.store(true, Ordering::Relaxed);
    (median, p99, flooding.join().unwrap())
}

/// What a peer that floods does to another one: `NEARCALL_FLOOD_CALLS` calls, 200 by default,
/// 10000 for the figure. It needs three processors: server, paced client, flooding client. With
/// fewer the scheduler has its part, which a flood of another server shows.
#[test]
fn p99_beside_a_flood() {
    let calls = count("NEARCALL_FLOOD_CALLS", 200);
    for way in ["", "?via=shm-eventfd", "?via=pipe"] {
        let (served, other) = (Served::start(), Served::start());
        let (quiet_median, quiet) = paced(&served, way, calls);
        let (busy_median, busy, _) = paced_beside(&served, &other, way, calls);
        let (median, p99, answered) = paced_beside(&served, &served, way, calls);
        eprintln!(
            "{calls} paced calls{way}: p50 {quiet_median:.1} us, p99 {quiet:.1} us; beside a flood \
             of another server p50 {busy_median:.1} us, p99 {busy:.1} us; beside a flood of theirs \
             ({answered} calls) p50 {median:.1} us, p99 {p99:.1} us: ratio of p99 {:.2} to quiet, \
             {:.2} to the other flood",
            p99 / quiet,
            p99 / busy
        );
    }
}
