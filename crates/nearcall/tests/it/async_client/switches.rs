//! A connection that tasks share moves to another mechanism while they use it.

use std::pin::pin;
use std::task::Poll;

use nearcall_channel::{Listener, Options};

use super::{block_on, poll_once};
use crate::stage::prelude::*;
use crate::streams::served::{StreamsAsyncCaller, item};
use crate::support::hello;
use crate::switching::{BOOKS, Both, long};

const SOME: [Mechanism; 6] = [
    Mechanism::Shm,
    Mechanism::ShmEventfd,
    Mechanism::UnixStream,
    Mechanism::UnixSeqpacket,
    Mechanism::Pipe,
    Mechanism::ShmUnix,
];

fn often() -> Limits {
    Limits { switches_per_minute_max: 100_000, ..Limits::default() }
}

fn mechanism_of(client: &Client) -> Mechanism {
    client.connections()[0].mechanism
}

/// Calls of several lengths, each checked, until `is_over`.
pub(super) async fn keep_calling(echo: EchoAsyncCaller, is_over: Arc<AtomicBool>) -> u64 {
    let mut calls = 0;
    while !is_over.load(Ordering::Relaxed) {
        for bytes in [0, 60, 3_000, 90_000] {
            let wanted = long(calls, bytes);
            assert_eq!(echo.say(&wanted).await.unwrap(), wanted);
            calls += 1;
        }
    }
    calls
}

/// One-way messages with their numbers, now and then a long one. Returns how many.
pub(super) async fn keep_noting(echo: EchoAsyncCaller, is_over: Arc<AtomicBool>) -> u64 {
    let mut notes = 0;
    while !is_over.load(Ordering::Relaxed) {
        let bytes = if notes % 50 == 0 { 100_000 } else { 10 };
        echo.note(&long(notes, bytes)).await.unwrap();
        notes += 1;
        if notes % 8 == 0 {
            tokio::task::yield_now().await;
        }
    }
    notes
}

/// Items there and back on one stream.
pub(super) async fn keep_streaming(streams: StreamsAsyncCaller, is_over: Arc<AtomicBool>) -> u64 {
    let (mut requests, mut replies) = streams.exchange().await.unwrap();
    let mut items = 0;
    while !is_over.load(Ordering::Relaxed) {
        for number in items..items + 3 {
            requests.send(&item(number, 700)).await.unwrap();
        }
        for number in items..items + 3 {
            assert_eq!(replies.next().await.unwrap().unwrap(), item(number, 700));
        }
        items += 3;
    }
    requests.finish().await.unwrap();
    assert!(replies.next().await.is_none());
    items
}

#[timed]
fn a_shared_connection_moves_between_all_pairs_while_tasks_use_it() {
    let both = Both::start(often());
    let (client, at) = (Client::new(), both.address.clone());
    let echo = EchoAsyncCaller::new(&client, &at).unwrap();
    let streams = StreamsAsyncCaller::new(&client, &at).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let is_over = Arc::<AtomicBool>::default();
        echo.nothing(&()).await.unwrap();
        let mut others: Vec<_> = (0..3)
            .map(|_| tokio::spawn(keep_calling(echo.clone(), Arc::clone(&is_over))))
            .collect();
        others.push(tokio::spawn(keep_streaming(streams, Arc::clone(&is_over))));
        let noting = tokio::spawn(keep_noting(echo.clone(), Arc::clone(&is_over)));
        for from in SOME {
            for to in SOME.into_iter().filter(|to| *to != from) {
                for next in [from, to] {
                    if next != mechanism_of(&client) {
                        client.switch_async(&at, next.name(), PATIENCE).await.unwrap();
                    }
                    assert_eq!(mechanism_of(&client), next);
                }
                for number in 0..5 {
                    assert_eq!(echo.say(&words(number)).await.unwrap(), words(number));
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
        for other in others {
            assert!(other.await.unwrap() > 0);
        }
        let notes = noting.await.unwrap();
        assert_eq!(echo.say(&words(BOOKS)).await.unwrap().number, notes);
    });
    assert_eq!(client.connections().len(), 1);
    let switches = &client.connections()[0].switches;
    assert!(!switches.is_empty() && switches.iter().all(|it| it.outcome.is_ok()));
}

/// Nothing but the switch is under way: the driver is awake for it by itself.
#[timed]
fn an_idle_connection_moves_and_notices_the_end_of_its_server_afterwards() {
    let both = Both::start(often());
    let (client, at) = (Client::new(), both.address.clone());
    let echo = EchoAsyncCaller::new(&client, &at).unwrap();
    block_on(async {
        echo.nothing(&()).await.unwrap();
        for to in [Mechanism::UnixStream, Mechanism::Pipe, Mechanism::Shm, Mechanism::Pipe] {
            client.switch_async(&at, to.name(), PATIENCE).await.unwrap();
            assert_eq!(mechanism_of(&client), to);
        }
        echo.nothing(&()).await.unwrap();
    });
    drop(both);
    let until = Deadline::after(PATIENCE);
    while !client.connections().is_empty() {
        assert!(!until.has_passed(), "the end of the server was not noticed");
        clock::pause(Duration::from_millis(1));
    }
}

/// A future that is dropped gives its switch up or leaves it to end; the connection goes on either
/// way, and switches again.
#[timed]
fn a_switch_that_is_dropped_does_no_harm() {
    let both = Both::start(often());
    let (client, at) = (Client::new(), both.address.clone());
    let echo = EchoAsyncCaller::new(&client, &at).unwrap();
    block_on(echo.nothing(&())).unwrap();
    let mut rng = fastrand::Rng::with_seed(5);
    let mut begun = 0;
    for round in 0..200 {
        let to = SOME[rng.usize(..SOME.len())];
        let mut switch = Box::pin(client.switch_async(&at, to.name(), PATIENCE));
        let first = poll_once(switch.as_mut());
        begun += u32::from(first.is_pending());
        for _ in 0..rng.u32(..4) {
            clock::pause(Duration::from_micros(rng.u64(..300)));
            if first.is_pending() && poll_once(switch.as_mut()).is_ready() {
                break;
            }
        }
        drop(switch);
        assert_eq!(block_on(echo.say(&words(round))).unwrap(), words(round));
    }
    assert!(begun > 20, "{begun}");
    let move_to = |to: Mechanism| {
        // The last one may still be under way.
        while let Err(busy) = block_on(client.switch_async(&at, to.name(), PATIENCE)) {
            assert_eq!(busy.code(), Code::Unavailable, "{busy}");
        }
        assert_eq!(mechanism_of(&client), to);
    };
    move_to(Mechanism::Pipe);
    move_to(Mechanism::Shm);
    assert_eq!(block_on(echo.say(&long(1, 90_000))).unwrap(), long(1, 90_000));
}

#[timed]
fn what_cannot_be_had_is_refused_and_the_connection_stays() {
    let limits = Limits { switches_per_minute_max: 2, ..Limits::default() };
    let both = Both::start(limits);
    let (client, at) = (Client::new(), both.address.clone());
    let echo = EchoAsyncCaller::new(&client, &at).unwrap();
    let fails = |to: &str| block_on(client.switch_async(&at, to, PATIENCE)).unwrap_err();
    let none = fails("pipe");
    assert_eq!(none.code(), Code::FailedPrecondition);
    assert!(none.message().contains("call a service"), "{none}");
    block_on(echo.nothing(&())).unwrap();
    let unknown = fails("pipes");
    assert_eq!(unknown.code(), Code::InvalidArgument);
    let no_descriptor = fails("sysv-mq");
    assert_eq!(no_descriptor.code(), Code::FailedPrecondition);
    assert!(no_descriptor.message().contains("no descriptor"), "{no_descriptor}");
    // Of two at once, one is refused.
    let mut first = pin!(client.switch_async(&at, "pipe", PATIENCE));
    match poll_once(first.as_mut()) {
        // The driver has ended it between its begin and the look at it.
        Poll::Ready(ended) => ended.unwrap(),
        Poll::Pending => {
            let second = block_on(client.switch_async(&at, "pipe", PATIENCE));
            assert!(second.is_ok() || second.unwrap_err().code() == Code::Unavailable);
            block_on(first).unwrap();
        }
    }
    assert_eq!(mechanism_of(&client), Mechanism::Pipe);
    assert_eq!(block_on(echo.say(&words(5))).unwrap(), words(5));
    let _ = block_on(client.switch_async(&at, "unix-stream", PATIENCE));
    let before = mechanism_of(&client);
    let too_often = fails("shm");
    assert_eq!(too_often.code(), Code::ResourceExhausted, "{too_often}");
    assert_eq!(mechanism_of(&client), before);
    assert_eq!(block_on(echo.say(&words(6))).unwrap(), words(6));
}

#[timed]
fn a_server_that_does_not_answer_is_given_up_at_the_timeout() {
    let address = unique_address();
    let listener = Listener::bind(&address.parse().unwrap()).unwrap();
    let (give, end) = mpsc::channel::<()>();
    let server = thread::spawn(move || {
        let mut endpoint = listener.accept(Deadline::after(PATIENCE), &Options::default()).unwrap();
        endpoint.send(&hello(1, 2), Deadline::after(PATIENCE)).unwrap();
        let _ = end.recv();
    });
    let client = Client::new();
    let echo = EchoAsyncCaller::new(&client, &address).unwrap();
    block_on(async {
        echo.note(&words(1)).await.unwrap();
        let short = Duration::from_millis(50);
        for _ in 0..2 {
            let outcome = client.switch_async(&address, "pipe", short).await;
            expect_error(outcome, Code::DeadlineExceeded, &["stays on shm"]);
        }
        echo.note(&words(2)).await.unwrap();
    });
    drop(give);
    server.join().unwrap();
}
