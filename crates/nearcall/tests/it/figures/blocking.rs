//! Calls of a client while methods for another one block threads of a pool.

use nearcall::service::{Blocking, BlockingPool};

use super::{compare, count, rounds, time_calls};
use crate::services::serve;
use crate::stage::prelude::*;

/// Calls that block at the same time: half of the threads of a pool.
const BLOCKED: usize = 4;

/// What methods that block do to another client, whose calls are served by the loop or by the pool:
/// `NEARCALL_BLOCK_MS` that each blocks, 20 by default, 1000 for the figure.
#[test]
fn p99_beside_methods_that_block() {
    let span = Duration::from_millis(count("NEARCALL_BLOCK_MS", 20) as u64);
    for way in ["?via=shm", "?via=unix-stream"] {
        for (object, server) in [("", "the loop"), ("#s", "the pool")] {
            let entered = Arc::new(AtomicUsize::new(0));
            let inside = Arc::clone(&entered);
            let service = Threaded::new(move |_, request| {
                inside.fetch_add(1, Ordering::SeqCst);
                clock::pause(span);
                Ok(request.clone())
            });
            let pool = BlockingPool::builder().threads(2 * BLOCKED).build();
            let served = serve(Limits::default(), Blocking::new(service, &pool));
            let echo = served.echo(&format!("{way}{object}"));
            let call = || echo.nothing(&()).unwrap();
            call();
            let compared = compare(
                || {
                    let end = clock::now() + span;
                    time_calls(|| clock::now() >= end, call)
                },
                || {
                    entered.store(0, Ordering::SeqCst);
                    let blocked_at = served.via(&format!("{way}#s"));
                    let blocked = thread::spawn(move || block(&blocked_at));
                    let count = || entered.load(Ordering::SeqCst);
                    wait_until("methods that block", || count() == BLOCKED);
                    let times_ns = time_calls(|| blocked.is_finished(), call);
                    blocked.join().unwrap();
                    times_ns
                },
            );
            eprintln!(
                "empty calls{way} served by {server} for {span:?}, {} rounds, beside {BLOCKED} \
                 methods that block: {compared}",
                rounds()
            );
        }
    }
}

/// Has some methods block at the same time, for a client of its own, until all have ended.
fn block(at: &str) {
    let echo = EchoCaller::new(&Client::new(), at).unwrap();
    let started: Vec<_> =
        (0..BLOCKED as u64).map(|number| echo.start_say(&words(number))).collect();
    for (number, started) in (0..).zip(started) {
        assert_eq!(started.wait().unwrap().number, number);
    }
}
