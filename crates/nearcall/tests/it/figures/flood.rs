//! Calls of a client while another one floods the server.

use super::{count, percentile};
use crate::stage::prelude::*;

/// Response times of a client that calls once a millisecond, in microseconds: median and p99.
fn paced(served: &Served, way: &str, calls: usize) -> (f64, f64) {
    let echo = served.echo(way);
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
    (percentile(&times_ns, 0.5), percentile(&times_ns, 0.99))
}

/// Keeps calls in flight until it is told to stop, and says how many were answered.
fn flood(at: &str, stop: &AtomicBool) -> u64 {
    let echo = EchoCaller::new(&Client::new(), at).unwrap();
    let mut answered = 0;
    while !stop.load(Ordering::Relaxed) {
        let started: Vec<_> = (0..200).map(|_| echo.start_nothing(&())).collect();
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
