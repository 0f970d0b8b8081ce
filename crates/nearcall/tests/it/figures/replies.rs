//! Many large replies at once to callers that read them, and another client beside them.

use super::{count, percentile};
use crate::backpressure::replies::{
    LOADS, Replying, SERVICES, WAYS, async_round, blocking_round, times_beside,
};
use crate::stage::prelude::*;

/// Prints how many of `NEARCALL_REPLY_ROUNDS` rounds, 10 by default, 300 for the figure, brought
/// all replies, for blocking callers and tasks, and the response times of another client meanwhile.
#[test]
#[ignore = "the same in few rounds: `backpressure::replies`"]
fn parallel_replies() {
    let rounds = count("NEARCALL_REPLY_ROUNDS", 10);
    let server = Replying::start();
    for way in WAYS {
        for service in SERVICES {
            let client = Client::new();
            let at = server.at(way, service);
            let blocking = EchoCaller::new(&client, &at).unwrap();
            let tasks = EchoAsyncCaller::new(&client, &at).unwrap();
            let beside = server.at(way, "loop");
            for (bytes, calls) in LOADS {
                let name = format!("{calls:3} x {bytes:7} bytes, {way:11}, {service}");
                print(&name, "threads", rounds, &beside, || {
                    blocking_round(&blocking, bytes, calls)
                });
                print(&name, "tasks", rounds, &beside, || async_round(&tasks, bytes, calls));
            }
        }
    }
}

/// Runs rounds, each of which returns the calls that have failed.
fn print(name: &str, callers: &str, rounds: usize, beside: &str, round: impl Fn() -> Vec<Status>) {
    let (mut whole, mut lost, mut why) = (0, 0, None);
    let mut times_ns = times_beside(beside, || {
        for _ in 0..rounds {
            let failed = round();
            whole += usize::from(failed.is_empty());
            lost += failed.len();
            why = failed.into_iter().next().or(why.take());
        }
    });
    times_ns.sort_unstable();
    let why = why.map_or_else(String::new, |why| format!(": {why}"));
    eprintln!(
        "{name}, {callers:7}: {whole} of {rounds} rounds whole, {lost} calls failed; beside p50 \
         {:.1} us, p99 {:.1} us{why}",
        percentile(&times_ns, 0.5),
        percentile(&times_ns, 0.99)
    );
}
