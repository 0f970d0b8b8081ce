//! Many futures of one caller in flight, in one thread of tokio.

use super::{count, median, rounds};
use crate::services::{Shelf, put, serve, take_all};
use crate::stage::prelude::*;

/// `NEARCALL_FUTURES`, 1000 by default, 10000 for the figure: answered at once with the usual limit
/// of calls in flight and without, and answered when all have come to the service.
#[test]
fn many_futures_in_flight() {
    let futures = count("NEARCALL_FUTURES", 1000);
    let usual = Limits::default();
    let all = Limits { calls_max: u16::try_from(futures).unwrap(), ..usual };
    for way in ["?via=shm", "?via=unix-stream"] {
        for (limits, object) in [(usual, ""), (all, ""), (all, "#s")] {
            let held = Shelf::default();
            let keeper = Threaded::new(move |context, request| {
                let number = request.number;
                let status = context.answer_later(|responder| put(&held, (number, responder)));
                if held.lock().unwrap().len() == futures {
                    for (number, responder) in take_all(&held) {
                        responder.finish(Ok(words(number)));
                    }
                }
                status
            });
            let served = serve(limits, keeper);
            let client = Client::builder().limits(limits).build();
            let at = served.via(&format!("{way}{object}"));
            let echo = EchoAsyncCaller::new(&client, &at).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let measured: Vec<_> =
                (0..rounds()).map(|_| runtime.block_on(call(&echo, futures))).collect();
            assert_eq!(client.connections().len(), 1);
            let seconds = median(measured.iter().map(|(seconds, _)| *seconds));
            let answered = if object.is_empty() { "at once" } else { "when all have come" };
            eprintln!(
                "{futures} futures{way}, {} calls in flight allowed, answered {answered}: {:.1} \
                 ms, {:.0} calls per second, {} begun and not ended at most",
                limits.calls_max,
                seconds * 1e3,
                futures as f64 / seconds,
                measured.iter().map(|(_, most)| most).max().unwrap()
            );
        }
    }
}

/// Calls in a task for each future. Returns the time in seconds until the last has ended, and how
/// many had begun and not ended at most.
async fn call(echo: &EchoAsyncCaller, futures: usize) -> (f64, usize) {
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let start = clock::now();
    let tasks: Vec<_> = (0..futures as u64)
        .map(|number| {
            let (echo, open, most) = (echo.clone(), Arc::clone(&open), Arc::clone(&most));
            tokio::spawn(async move {
                most.fetch_max(open.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                assert_eq!(echo.say(&words(number)).await.unwrap().number, number);
                open.fetch_sub(1, Ordering::Relaxed);
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    (start.elapsed().as_secs_f64(), most.load(Ordering::Relaxed))
}
