//! How late deadlines are.

use super::{count, percentile};
use crate::stage::prelude::*;

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
            let echo = echo.with(CallOptions::new().deadline(timeout));
            let mut late_ns: Vec<u64> = (0..deadlines)
                .map(|_| {
                    let start_ns = clock::monotonic_ns();
                    expect_code(echo.later(&words(0)), Code::DeadlineExceeded);
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
                percentile(&late_ns, 0.5),
                percentile(&late_ns, 1.0)
            );
        }
    }
}
