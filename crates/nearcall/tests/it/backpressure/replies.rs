//! Replies that wait for room: a caller that reads gets all of them, whatever their number and
//! size.
//!
//! **Not here:** callers that do not read (`unread.rs`).

use futures_util::future::join_all;
use nearcall::observe::RefusalKind;
use nearcall::server::RunningServer;
use nearcall::service::{Blocking, BlockingPool};

use crate::services::Futures;
use crate::stage::in_time_of;
use crate::stage::prelude::*;
use crate::streams::served::{self, Kind, Plan, item};

/// Bytes of each reply, and calls at once.
pub(crate) const LOADS: [(usize, usize); 4] =
    [(2_000_000, 7), (2_000_000, 50), (500_000, 20), (60_000, 256)];

/// What answers: in the loop, in threads of a pool, as futures.
pub(crate) const SERVICES: [&str; 3] = ["loop", "pool", "task"];

/// How the messages travel.
pub(crate) const WAYS: [&str; 3] = ["shm", "unix-stream", "tcp"];

fn reply(request: &Words) -> Words {
    let bytes = usize::try_from(request.number).unwrap();
    Words { data: vec![7; bytes].into(), ..request.clone() }
}

/// A server whose replies are as long as the numbers of the requests.
pub(crate) struct Replying(RunningServer);

impl Replying {
    pub(crate) fn start() -> Self {
        Self::with(Limits::default())
    }

    pub(crate) fn with(limits: Limits) -> Self {
        let threaded = Threaded::new(|_, request| Ok(reply(request)));
        let pool = BlockingPool::builder().threads(4).queue(1_000).build();
        let server = Server::builder()
            .limits(limits)
            .register_as("loop", threaded.clone())
            .register_as("pool", Blocking::new(threaded, &pool))
            .register_as("task", Futures::new(|_, request| async move { Ok(reply(&request)) }))
            .listen(&everything(&unique_address()))
            .listen("tcp://127.0.0.1:0");
        Self(server.start().unwrap())
    }

    /// How often a client was cut off.
    pub(crate) fn slow_readers(&self) -> u64 {
        let refusals = self.0.refusals();
        refusals.iter().filter(|it| it.kind == RefusalKind::SlowReader).map(|it| it.count).sum()
    }

    pub(crate) fn connections(&self) -> usize {
        self.0.connections().len()
    }

    pub(crate) fn at(&self, way: &str, service: &str) -> String {
        let [local, remote] = self.0.addresses() else { panic!("it listens twice") };
        let address = if way == "tcp" { remote } else { local };
        let address = address.to_string();
        let place = address.split('?').next().unwrap();
        format!("{place}?via={way}#{service}")
    }
}

fn check(outcome: Result<Words, Status>, bytes: usize) -> Result<(), Status> {
    let words = outcome?;
    assert_eq!(words.data.len(), bytes);
    // As slices: a loop over gigabytes would be most of the time of an unoptimised test.
    assert!(words.data == vec![7; bytes]);
    Ok(())
}

/// Starts all calls, then takes the replies.
pub(crate) fn blocking_round(echo: &EchoCaller, bytes: usize, calls: usize) -> Vec<Status> {
    let started: Vec<_> = (0..calls).map(|_| echo.start_say(&words(bytes as u64))).collect();
    started.into_iter().filter_map(|call| check(call.wait(), bytes).err()).collect()
}

/// The same by tasks, of which one connection carries all.
pub(crate) fn async_round(echo: &EchoAsyncCaller, bytes: usize, calls: usize) -> Vec<Status> {
    let request = words(bytes as u64);
    let calls = (0..calls).map(|_| async { check(echo.say(&request).await, bytes) });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let ended = runtime.block_on(join_all(calls));
    ended.into_iter().filter_map(Result::err).collect()
}

/// Response times of a client of its own while `load` runs, in nanoseconds.
pub(crate) fn times_beside(at: &str, load: impl FnOnce()) -> Vec<u64> {
    let is_over = AtomicBool::new(false);
    let echo_at = at.to_owned();
    thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let echo = EchoCaller::new(&Client::new(), &echo_at).unwrap();
            let mut times_ns = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let start_ns = clock::monotonic_ns();
                echo.nothing(&()).unwrap();
                times_ns.push(clock::monotonic_ns() - start_ns);
            }
            times_ns
        });
        load();
        is_over.store(true, Ordering::Relaxed);
        beside.join().unwrap()
    })
}

/// Calls of all loads by all services, with another client beside them.
fn every_reply_comes(way: &'static str) {
    in_time_of(3 * PATIENCE, move || {
        let server = Replying::start();
        for service in SERVICES {
            let at = server.at(way, service);
            let client = Client::new();
            let blocking = EchoCaller::new(&client, &at).unwrap();
            let tasks = EchoAsyncCaller::new(&client, &at).unwrap();
            times_beside(&server.at(way, "loop"), || {
                for (bytes, calls) in LOADS {
                    let name = format!("{calls} times {bytes} bytes over {way} by {service}");
                    let failed = blocking_round(&blocking, bytes, calls);
                    assert!(failed.is_empty(), "{name}: {failed:?}");
                    let failed = async_round(&tasks, bytes, calls);
                    assert!(failed.is_empty(), "tasks, {name}: {failed:?}");
                }
            });
        }
        assert_eq!(server.slow_readers(), 0);
    });
}

#[test]
fn a_caller_that_reads_gets_every_reply_over_shm() {
    every_reply_comes("shm");
}

#[test]
fn a_caller_that_reads_gets_every_reply_over_a_socket() {
    every_reply_comes("unix-stream");
}

#[test]
fn a_caller_that_reads_gets_every_reply_over_tcp() {
    every_reply_comes("tcp");
}

/// Requests and replies that are long: the server waits for its replies to be read, and the caller
/// for its requests.
#[test]
fn a_caller_with_long_requests_gets_every_reply() {
    in_time_of(3 * PATIENCE, || {
        let event_loop = EventLoop::new().unwrap();
        let options = [CallOptions::new(), CallOptions::new().deadline(PATIENCE)];
        for way in ["?via=shm", "?via=unix-stream", "?via=pipe", "?via=shm-futex"] {
            for client in [Client::new(), Client::in_loop(&event_loop)] {
                // Of its own: a loop has one connection over `shm-futex`, until it sees its end.
                let server = Served::start();
                let echo = EchoCaller::new(&client, &server.via(way)).unwrap();
                for (bytes, calls) in [(500_000, 20), (3_000, 250), (2_000_000, 5)] {
                    let request = Words { data: vec![7; bytes].into(), number: 1 };
                    for options in &options {
                        let start = |_| echo.with(options.clone()).start_say(&request);
                        let started: Vec<_> = (0..calls).map(start).collect();
                        for call in started {
                            check(call.wait(), bytes).unwrap();
                        }
                    }
                }
            }
        }
    });
}

/// What the replies to calls that were given up hold up are messages that no reply is waited for.
#[timed]
fn messages_after_calls_that_were_given_up_are_sent() {
    for way in ["?via=shm", "?via=unix-stream"] {
        let server = Served::start();
        let echo = server.echo(way);
        let request = Words { data: vec![7; 500_000].into(), number: 1 };
        drop((0..20).map(|_| echo.start_say(&request)).collect::<Vec<_>>());
        let note = Words { data: vec![7; 30_000].into(), number: 1 };
        for _ in 0..200 {
            echo.note(&note).unwrap();
        }
        echo.nothing(&()).unwrap();
    }
}

/// Calls and streams in both directions over one connection, each of which fills it.
#[timed]
fn streams_go_on_beside_replies_that_wait() {
    for kind in Kind::BESIDE_THE_LOOP {
        let served = served::Served::start(kind);
        for way in ["?via=shm", "?via=unix-stream"] {
            let streams = served.caller(&Client::new(), way);
            let request = item(1, 400_000);
            let plan = Plan { items: 200, bytes: 30_000, code: 0 };
            let count = streams.count(&plan).unwrap();
            let started: Vec<_> = (0..30).map(|_| streams.start_say(&request)).collect();
            let mut sum = streams.sum().unwrap();
            let (mut requests, replies) = streams.exchange().unwrap();
            for number in 0..100 {
                sum.send(&item(number, 30_000)).unwrap();
                requests.send(&item(number, 20_000)).unwrap();
            }
            requests.finish().unwrap();
            assert_eq!(sum.finish().unwrap().number, 4_950, "{kind:?}{way}");
            for call in started {
                assert_eq!(call.wait().unwrap().data.len(), 400_000);
            }
            assert_eq!(count.map(Result::unwrap).count(), 200);
            assert_eq!(replies.map(Result::unwrap).count(), 100);
        }
    }
}

#[timed]
fn a_connection_moves_while_its_replies_wait() {
    let server = Replying::start();
    for (way, to) in [("shm", Mechanism::UnixStream), ("unix-stream", Mechanism::Pipe)] {
        for service in SERVICES {
            let client = Client::new();
            let at = server.at(way, service);
            let echo = EchoCaller::new(&client, &at).unwrap();
            let started: Vec<_> = (0..100).map(|_| echo.start_say(&words(60_000))).collect();
            let place = at.split('#').next().unwrap();
            client.switch(place, to.name(), PATIENCE).unwrap();
            for call in started {
                check(call.wait(), 60_000).unwrap();
            }
            assert_eq!(client.connections()[0].mechanism, to);
            let failed = blocking_round(&echo, 60_000, 100);
            assert!(failed.is_empty(), "{way} to {to}: {failed:?}");
        }
    }
}
