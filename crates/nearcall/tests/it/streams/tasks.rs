//! Streams of async callers, in executors that know nothing of each other.

use std::pin::pin;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use nearcall::stream::{AsyncReplyStream, AsyncRequestStream};

use super::length;
use super::served::{Item, Kind, Plan, Served, StreamsAsyncCaller, item};
use crate::async_client::poll_once;
use crate::stage::prelude::*;

fn caller(served: &Served) -> StreamsAsyncCaller {
    StreamsAsyncCaller::new(&Client::new(), &served.address).unwrap()
}

/// All shapes with items of these lengths, checked item by item.
async fn exchange(streams: &StreamsAsyncCaller, items: u64, bytes: u32) {
    let plan = Plan { items, bytes, code: 0 };
    let mut replies = streams.count(&plan).await.unwrap();
    let mut next = 0;
    while let Some(reply) = replies.next().await {
        assert_eq!(reply.unwrap(), item(next, bytes));
        next += 1;
    }
    assert_eq!(next, items);
    assert!(replies.next().await.is_none(), "the end stays");

    let mut upload = streams.sum().await.unwrap();
    for number in 0..items {
        upload.send(&item(number, bytes)).await.unwrap();
    }
    assert_eq!(upload.finish().await.unwrap().number, (0..items).sum());

    let (mut requests, mut replies) = streams.exchange().await.unwrap();
    for number in 0..items {
        requests.send(&item(number, bytes)).await.unwrap();
        assert_eq!(replies.next().await.unwrap().unwrap(), item(number, bytes));
    }
    requests.finish().await.unwrap();
    assert!(replies.next().await.is_none());
}

#[timed]
fn many_streams_of_one_connection_go_on_beside_each_other() {
    let served = Served::start(Kind::Async);
    let streams = caller(&served);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
    runtime.unwrap().block_on(async {
        let tasks = (0..20).map(|task| {
            let streams = streams.clone();
            tokio::spawn(async move {
                for round in 0..10 {
                    exchange(&streams, 20, length(task + round)).await;
                }
            })
        });
        for ended in join_all(tasks).await {
            ended.unwrap();
        }
    });
}

#[timed]
fn a_stream_is_one_of_futures_too() {
    let served = Served::start(Kind::Thread);
    let streams = caller(&served);
    smol::block_on(async {
        let plan = Plan { items: 100, bytes: 10, code: 10 };
        let replies = streams.count(&plan).await.unwrap();
        let (items, errors): (Vec<_>, Vec<_>) =
            replies.collect::<Vec<_>>().await.into_iter().partition(Result::is_ok);
        assert_eq!((items.len(), errors.len()), (100, 1));
        assert_eq!(errors[0].as_ref().unwrap_err().code(), Code::Aborted);
    });
}

#[timed]
fn whole_streams_are_sent() {
    let served = Served::start(Kind::Async);
    let streams = caller(&served);
    block_on(async {
        // More than the window, so that both ends wait.
        for (items, bytes) in [(0, 0), (300, 8), (200, 20_000)] {
            let mut upload = streams.sum().await.unwrap();
            let all = stream::iter(0..items).map(|number| item(number, bytes));
            upload.send_all(all).await.unwrap();
            assert_eq!(upload.finish().await.unwrap().number, (0..items).sum());
            let plan = Plan { items, bytes, code: 10 };
            // Its own deadline is short.
            let options = CallOptions::new().deadline(PATIENCE);
            let replies = streams.with(options.clone()).count_quickly(&plan).await.unwrap();
            let mut replies: Vec<_> = replies.collect().await;
            let end = replies.pop().unwrap().unwrap_err();
            assert_eq!(end.code(), Code::Aborted, "the error of the stream ends the call");
            let sent: Vec<_> = (0..items).map(|number| Ok(item(number, bytes))).collect();
            assert_eq!(replies, sent);
        }
        // A call that has ended takes no more.
        let mut upload = streams.with(CallOptions::new().deadline(Duration::ZERO)).sum().await;
        let endless = stream::iter(0..).map(|number| item(number, 8));
        if let Ok(upload) = &mut upload {
            expect_code(upload.send_all(endless).await, Code::DeadlineExceeded);
        }
    });
}

#[timed]
fn a_task_waits_for_credit_and_for_its_deadline() {
    let limits = Limits { stream_window_bytes: 1000, ..Limits::default() };
    let served = Served::with(Kind::Async, limits);
    let client = Client::with_limits(None, limits);
    let streams = StreamsAsyncCaller::new(&client, &served.address).unwrap();
    block_on(async {
        // Connected, so that all of the time is the call's.
        streams.say(&item(1, 1)).await.unwrap();
        let options = CallOptions::new().deadline(Duration::from_millis(300));
        let (mut requests, mut replies) = streams.with(options).exchange().await.unwrap();
        // The echoes are not read, so the service stops reading.
        let late = loop {
            if let Err(status) = requests.send(&item(1, 500)).await {
                break status;
            }
        };
        assert_eq!(late.code(), Code::DeadlineExceeded);
        let mut last = None;
        while let Some(reply) = replies.next().await {
            last = Some(reply);
        }
        assert_eq!(last.unwrap().unwrap_err().code(), Code::DeadlineExceeded);
        exchange(&streams, 50, 700).await;
    });
}

/// The end of its call wakes a task that waits behind others for room, and has tried nothing yet.
#[timed]
fn a_deadline_ends_a_wait_for_room_behind_others() {
    let served = Served::start(Kind::Async);
    let streams = caller(&served);
    let (give_stuck, stuck) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    block_on(async {
        // Connected, so that all of the time is the call's.
        streams.say(&item(1, 1)).await.unwrap();
        let options = CallOptions::new().deadline(Duration::from_millis(300));
        let mut late = streams.with(options).drain().await.unwrap();
        let mut other = streams.drain().await.unwrap();
        let posted = served.poster.post(move |_| {
            give_stuck.send(()).unwrap();
            // The server reads nothing until the test is over.
            let _ = released.recv();
        });
        posted.unwrap();
        stuck.recv().unwrap();
        let sent = std::cell::Cell::new(0);
        let mut full = pin!(async {
            loop {
                other.send(&item(1, 10_000)).await.unwrap();
                sent.set(sent.get() + 1);
            }
        });
        // It yields in between, and waits once the channel is full.
        let mut before = u64::MAX;
        while std::mem::replace(&mut before, sent.get()) != sent.get() {
            let filled: std::task::Poll<()> = poll_once(full.as_mut());
            assert!(filled.is_pending(), "the channel is full");
        }
        expect_code(late.send(&item(1, 10)).await, Code::DeadlineExceeded);
    });
    drop(release);
}

#[timed]
fn a_service_that_ends_early_ends_the_requests() {
    let served = Served::start(Kind::Async);
    let streams = caller(&served);
    block_on(async {
        let mut requests = streams.drain().await.unwrap();
        drop(served);
        let ended = loop {
            if let Err(status) = requests.send(&item(1, 10_000)).await {
                break status;
            }
        };
        assert_eq!(ended.code(), Code::Unavailable);
        assert_eq!(requests.finish().await.unwrap_err().code(), Code::Unavailable);
    });
}

#[test]
fn handles_of_tasks_may_go_to_other_threads() {
    fn is_send<T: Send>(_: &T) {}
    fn is_send_type<T: Send>() {}
    is_send_type::<AsyncReplyStream<Item>>();
    is_send_type::<AsyncRequestStream<Item, Item>>();
    in_time(|| {
        let served = Served::start(Kind::Async);
        let streams = caller(&served);
        let future = exchange(&streams, 3, 10);
        is_send(&future);
        block_on(future);
    });
}
