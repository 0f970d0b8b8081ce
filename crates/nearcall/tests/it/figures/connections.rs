//! Many connections to a server with two event loops, of which each has a call in flight.

use nearcall_os::process::raise_descriptor_limit;
use nearcall_os::procfs_memory::rollup;
use tokio::runtime::Runtime;

use super::{count, median, rounds};
use crate::stage::prelude::*;

/// Memory of this process, which has both ends of each connection, without the kernel's.
fn memory_bytes() -> f64 {
    rollup(0).map_or(f64::NAN, |memory| memory.pss_bytes as f64)
}

/// `NEARCALL_CONNECTIONS`, 50 by default, 1000 for the figure, of a client and a task each;
/// `NEARCALL_CONNECTIONS_MS` of calls in each round, 20 by default, 2000 for the figure.
#[test]
fn many_connections_on_two_loops() {
    let connections = count("NEARCALL_CONNECTIONS", 50);
    // At most eight for both ends of a connection, and some for the other tests.
    let descriptors = 8 * connections as u64 + 2_000;
    assert!(raise_descriptor_limit(descriptors).unwrap() >= descriptors, "raise `ulimit -Hn`");
    for way in ["?via=shm", "?via=unix-stream"] {
        let service = Threaded::new(|_, request| Ok(request.clone()));
        let builder = Server::builder().threads(2).register(service);
        let server = builder.listen(&unique_address()).start().unwrap();
        let address = format!("{}{way}", server.address());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (memory, start) = (memory_bytes(), clock::now());
        let callers: Vec<_> = (0..connections)
            .map(|_| {
                let echo = EchoAsyncCaller::new(&Client::new(), &address).unwrap();
                runtime.block_on(echo.nothing(&())).unwrap();
                echo
            })
            .collect();
        let connected = start.elapsed();
        let grown_kib = (memory_bytes() - memory) / 1024.0 / connections as f64;
        let on_loops = server.connection_counts();
        assert_eq!(on_loops.iter().sum::<usize>(), connections);
        assert!(on_loops[0].abs_diff(on_loops[1]) <= 1, "{on_loops:?}");
        eprintln!(
            "{connections} connections{way} on 2 loops, {on_loops:?}: connected one after another \
             in {connected:.1?}, {grown_kib:.1} KiB each for both ends"
        );
        for yields in [true, false] {
            print_calls(&runtime, &callers, yields);
        }
    }
}

/// Prints how many calls there are in some rounds, and how even they are.
fn print_calls(runtime: &Runtime, callers: &[EchoAsyncCaller], yields: bool) {
    let span = Duration::from_millis(count("NEARCALL_CONNECTIONS_MS", 20) as u64);
    let measured: Vec<_> = (0..rounds())
        .map(|_| {
            let start = clock::now();
            let calls = runtime.block_on(call_all(callers, span, yields));
            let rate = calls.iter().sum::<u64>() as f64 / start.elapsed().as_secs_f64();
            let (least, most) = (calls.iter().min().unwrap(), calls.iter().max().unwrap());
            [rate, *least as f64, *most as f64, *least as f64 / *most as f64]
        })
        .collect();
    let [rate, least, most, share] =
        [0, 1, 2, 3].map(|index| median(measured.iter().map(|it| it[index])));
    let tasks = if yields { "tasks that yield after each call" } else { "tasks" };
    eprintln!(
        "  {tasks}: {rate:.0} calls per second, {least:.0} to {most:.0} per connection in \
         {span:?}, least to most {share:.2}"
    );
}

/// Calls over each connection, one call at a time, and returns how many each has had answered.
async fn call_all(callers: &[EchoAsyncCaller], span: Duration, yields: bool) -> Vec<u64> {
    let end = clock::now() + span;
    let tasks: Vec<_> = callers
        .iter()
        .map(|echo| {
            let echo = echo.clone();
            tokio::spawn(async move {
                let mut calls = 0;
                while calls == 0 || clock::now() < end {
                    assert_eq!(echo.say(&words(calls)).await.unwrap().number, calls);
                    calls += 1;
                    if yields {
                        // One whose call is answered at once keeps the thread otherwise.
                        tokio::task::yield_now().await;
                    }
                }
                calls
            })
        })
        .collect();
    let mut calls = Vec::with_capacity(tasks.len());
    for task in tasks {
        calls.push(task.await.unwrap());
    }
    calls
}
