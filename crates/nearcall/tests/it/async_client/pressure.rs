//! More than there is room for: calls in flight, messages in the channel.

use std::thread::JoinHandle;

use futures_util::future::{join, join_all};

use super::{Books, PATIENCE, Served, block_on, poll_once, words};
use crate::stage::prelude::*;

const MANY: u64 = 10_000;

#[test]
fn ten_thousand_futures_share_a_connection_of_256_calls() {
    for via in ["", "?via=unix-stream"] {
        let served = Served::start();
        let client = Client::new();
        let echo = EchoAsyncCaller::new(&client, &served.via(via)).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        runtime.block_on(async {
            let tasks: Vec<_> = (0..MANY)
                .map(|number| {
                    let echo = echo.clone();
                    tokio::spawn(async move { echo.say(&words(number)).await.unwrap().number })
                })
                .collect();
            for (number, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.await.unwrap(), number as u64);
            }
        });
        let mut said = served.books.said.lock().unwrap().clone();
        said.sort_unstable();
        assert!(said.into_iter().eq(0..MANY), "each call ran once");
        assert_eq!(client.connections().len(), 1);
    }
}

#[test]
fn ten_thousand_calls_are_in_flight_at_once() {
    let limits = Limits { calls_max: 10_000, ..Limits::default() };
    let served = Served::with(limits);
    let client = Client::builder().limits(limits).build();
    let echo = EchoAsyncCaller::new(&client, &served.address).unwrap();
    let requests: Vec<_> = (0..MANY).map(words).collect();
    let calls = join_all(requests.iter().map(|request| echo.later(request)));
    let answer = async {
        // Another client: the connection of the calls has no place for one more.
        let other = served.echo("");
        while Books::get(&served.books.held) < MANY {
            other.nothing(&()).await.unwrap();
        }
        other.fail(&Failure::default()).await.unwrap();
    };
    let (ended, ()) = block_on(join(calls, answer));
    for (number, ended) in ended.into_iter().enumerate() {
        assert_eq!(ended.unwrap().number, number as u64);
    }
    assert_eq!(Books::get(&served.books.begun), MANY);
}

#[test]
fn calls_wait_for_a_place_in_their_order() {
    let limits = Limits { calls_max: 1, ..Limits::default() };
    let served = Served::with(limits);
    let client = Client::builder().limits(limits).build();
    let echo = EchoAsyncCaller::new(&client, &served.address).unwrap();
    block_on(client.hunt_async(&served.address, PATIENCE)).unwrap();
    let requests: Vec<_> = (0..10).map(words).collect();
    let mut first = Box::pin(echo.later(&requests[0]));
    assert!(poll_once(first.as_mut()).is_pending());
    let mut waiting: Vec<_> = requests[1..].iter().map(|it| Box::pin(echo.say(it))).collect();
    for call in &mut waiting {
        assert!(poll_once(call.as_mut()).is_pending());
    }
    // Those that give up keep no other one waiting.
    drop(waiting.remove(3));
    drop(waiting.remove(0));
    let late = CallOptions::new().deadline(Duration::from_millis(10));
    expect_code(block_on(echo.with(late.clone()).say(&requests[0])), Code::DeadlineExceeded);
    drop(first);
    let ended = block_on(join_all(waiting.into_iter().rev()));
    assert!(ended.into_iter().rev().map(|it| it.unwrap().number).eq([2, 3, 5, 6, 7, 8, 9]));
    assert_eq!(*served.books.said.lock().unwrap(), [2, 3, 5, 6, 7, 8, 9]);
}

#[timed]
fn messages_without_an_answer_wait_for_room() {
    const NOTES: u64 = 200;
    for via in ["", "?via=unix-stream", "?via=unix-seqpacket", "?via=pipe", "?via=shm-eventfd"] {
        let served = Served::start();
        let echo = served.echo(via);
        block_on(echo.nothing(&())).unwrap();
        let blocked = block(&served);
        let notes: Vec<_> =
            (0..NOTES).map(|number| Words { number, data: vec![1; 20_000].into() }).collect();
        let mut sends: Vec<_> = notes.iter().map(|note| Box::pin(echo.note(note))).collect();
        sends.retain_mut(|send| poll_once(send.as_mut()).is_pending());
        let waiting = sends;
        assert!(waiting.len() > 100, "{via}: {} wait", waiting.len());
        served.books.open_gate();
        for sent in block_on(join_all(waiting)) {
            sent.unwrap();
        }
        block_on(echo.nothing(&())).unwrap();
        blocked.join().unwrap();
        assert_eq!(Books::get(&served.books.notes), NOTES, "{via}");
        assert_eq!(Books::get(&served.books.notes_sum), NOTES * (NOTES - 1) / 2, "{via}");
    }
}

/// One has a place among the calls and waits for room, the other one the other way around.
#[timed]
fn calls_that_wait_for_a_place_and_for_room_do_not_wait_for_each_other() {
    let limits = Limits { calls_max: 1, ..Limits::default() };
    for via in ["", "?via=unix-stream"] {
        let served = Served::with(limits);
        let client = Client::builder().limits(limits).build();
        let echo = EchoAsyncCaller::new(&client, &served.via(via)).unwrap();
        let answering = EchoCaller::new(&Client::new(), &served.address).unwrap();
        block_on(echo.nothing(&())).unwrap();
        let request = words(1);
        let mut open = Box::pin(echo.later(&request));
        assert!(poll_once(open.as_mut()).is_pending());
        let blocked = block(&served);
        let note = Words { number: 1, data: vec![1; 20_000].into() };
        let mut notes: Vec<_> = (0..200).map(|_| Box::pin(echo.note(&note))).collect();
        notes.retain_mut(|note| poll_once(note.as_mut()).is_pending());
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(echo.say(&request))).collect();
        for call in &mut waiting {
            assert!(poll_once(call.as_mut()).is_pending());
        }
        let answer = async {
            served.books.open_gate();
            join_all(notes).await.into_iter().for_each(Result::unwrap);
            // All of them know that there is no place.
            for _ in 0..100 {
                answering.nothing(&()).unwrap();
                tokio::task::yield_now().await;
            }
            answering.fail(&Failure::default()).unwrap();
            open.await.unwrap();
        };
        let (said, ()) = block_on(join(join_all(waiting), answer));
        said.into_iter().for_each(|said| assert_eq!(said.unwrap().number, 1));
        blocked.join().unwrap();
    }
}

/// Has the server do nothing until its gate opens.
fn block(served: &Served) -> JoinHandle<()> {
    let address = served.address.clone();
    let thread = thread::spawn(move || {
        let blocker = EchoCaller::new(&Client::new(), &address).unwrap();
        blocker.work(&Span { ms: 0 }).unwrap();
    });
    while !served.books.is_blocked.load(Ordering::SeqCst) {
        thread::yield_now();
    }
    thread
}

/// Bytes of a message for which no channel has room.
const LONGER_THAN_ROOM: usize = 2 << 20;

/// Whatever has told its task that it was sent is not lost with the client.
#[timed]
fn a_message_longer_than_the_room_is_awaited_until_it_is_in_the_channel() {
    for via in ["", "?via=unix-stream", "?via=pipe", "?via=shm-eventfd"] {
        let served = Served::start();
        let echo = served.echo(via);
        block_on(echo.nothing(&())).unwrap();
        let blocked = block(&served);
        let long = Words { number: 1, data: vec![1; LONGER_THAN_ROOM].into() };
        let small = words(2);
        let mut first = Box::pin(echo.note(&long));
        let mut second = Box::pin(echo.note(&small));
        assert!(poll_once(first.as_mut()).is_pending(), "{via}: there is no room for it");
        assert!(poll_once(second.as_mut()).is_pending(), "{via}: it goes past the first one");
        let options = CallOptions::new().deadline(Duration::from_millis(20));
        expect_code(block_on(echo.with(options).note(&long)), Code::DeadlineExceeded);
        served.books.open_gate();
        let (first, second) = block_on(join(first, second));
        first.unwrap();
        second.unwrap();
        block_on(echo.note(&long)).unwrap();
        drop(echo);
        blocked.join().unwrap();
        let start = clock::now();
        while Books::get(&served.books.notes) < 3 {
            assert!(start.elapsed() < PATIENCE, "{via}: a message was lost");
            thread::yield_now();
        }
        assert_eq!(Books::get(&served.books.notes_sum), 4, "{via}");
    }
}

/// A part of it is in the channel, and the rest follows.
#[timed]
fn a_message_that_is_in_the_channel_in_part_has_a_deadline() {
    let served = Served::start();
    let echo = served.echo("");
    block_on(echo.nothing(&())).unwrap();
    let blocked = block(&served);
    let long = Words { number: 1, data: vec![1; LONGER_THAN_ROOM].into() };
    let options = CallOptions::new().deadline(Duration::from_millis(20));
    let outcome = block_on(echo.with(options).note(&long));
    expect_error(outcome, Code::DeadlineExceeded, &["may still arrive"]);
    served.books.open_gate();
    block_on(echo.nothing(&())).unwrap();
    blocked.join().unwrap();
    assert_eq!(Books::get(&served.books.notes), 1);
}

#[timed]
fn a_message_that_finds_no_room_in_time_was_not_sent() {
    for via in ["", "?via=unix-stream", "?via=pipe"] {
        let served = Served::start();
        let echo = served.echo(via);
        let request = words(1);
        let mut call = Box::pin(echo.later(&request));
        block_on(echo.nothing(&())).unwrap();
        assert!(poll_once(call.as_mut()).is_pending());
        let blocked = block(&served);
        let note = Words { number: 1, data: vec![1; 20_000].into() };
        let options = CallOptions::new().deadline(Duration::from_millis(20));
        let mut sent = 0;
        let late = loop {
            match block_on(echo.with(options.clone()).note(&note)) {
                Ok(()) => sent += 1,
                // A socket has taken a part of it.
                Err(late) if late.message().contains("may still arrive") => sent += 1,
                Err(late) => break late,
            }
        };
        assert_eq!(late.code(), Code::DeadlineExceeded, "{late}");
        expect_code(block_on(echo.with(options.clone()).say(&note)), Code::DeadlineExceeded);
        let mut dropped = Box::pin(echo.note(&note));
        assert!(poll_once(dropped.as_mut()).is_pending());
        drop(dropped);
        // The server learns of it although there was no room for the news.
        drop(call);
        served.books.open_gate();
        block_on(echo.nothing(&())).unwrap();
        blocked.join().unwrap();
        assert_eq!(Books::get(&served.books.notes), sent, "{via}");
        assert_eq!(Books::get(&served.books.cancelled), 1, "{via}");
        assert!(served.books.said.lock().unwrap().is_empty());
    }
}
