//! The executors of other people, and none.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;

use futures_util::future::join3;
use nearcall::client::{AsyncCall, AsyncObjectRef, AsyncSend};

use super::{Books, PATIENCE, Served, block_on, words};
use crate::stage::prelude::*;

/// Calls of every kind, one after the other and side by side.
async fn exercise(client: Client, address: String) {
    client.hunt_async(&address, PATIENCE).await.unwrap();
    let echo = EchoAsyncCaller::new(&client, &address).unwrap();
    for number in 0..200 {
        assert_eq!(echo.say(&words(number)).await.unwrap().number, number);
    }
    let long = Words { number: 1, data: vec![7; 1 << 20].into() };
    assert_eq!(echo.say(&long).await.unwrap(), long);
    let (first, second, third) =
        (words(1), words(2), Words { data: vec![3; 500].into(), number: 3 });
    let calls = join3(echo.say(&first), echo.say(&second), echo.say(&third));
    let (a, b, c) = calls.await;
    assert_eq!((a.unwrap(), b.unwrap(), c.unwrap()), (first, second, third));
    let options = CallOptions::new().deadline(Duration::from_millis(20));
    expect_code(echo.with(options).later(&words(0)).await, Code::DeadlineExceeded);
    expect_code(echo.panic(&()).await, Code::Unknown);
    for number in 0..100 {
        echo.note(&words(number)).await.unwrap();
    }
    echo.nothing(&()).await.unwrap();
}

fn check(books: &Books) {
    assert_eq!(Books::get(&books.notes), 100);
    assert_eq!(Books::get(&books.notes_sum), 99 * 100 / 2);
}

#[test]
fn tokio_with_many_threads() {
    let served = Served::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let task = runtime.spawn(exercise(Client::new(), served.address.clone()));
    runtime.block_on(task).unwrap();
    check(&served.books);
}

#[test]
fn tokio_in_one_thread_without_io_and_timers() {
    let served = Served::start();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(exercise(Client::new(), served.address.clone()));
    check(&served.books);
}

#[test]
fn smol_and_its_threads() {
    let served = Served::start();
    smol::block_on(smol::spawn(exercise(Client::new(), served.address.clone())));
    check(&served.books);
}

#[test]
fn no_executor_at_all() {
    let served = Served::start();
    block_on(exercise(Client::new(), served.via("?wait=poll")));
    check(&served.books);
}

#[test]
fn every_mechanism_that_can_be_waited_for() {
    let can = |it: &Mechanism| it.capabilities().pollable && *it != Mechanism::ShmSignal;
    for mechanism in Mechanism::all().filter(|it| it.supported().is_ok()).filter(can) {
        let served = Served::start();
        block_on(exercise(Client::new(), served.via(&format!("?via={mechanism}"))));
        check(&served.books);
    }
}

/// As anyone would write it.
#[test]
fn tasks_have_callers_of_their_own() {
    let served = Served::start();
    let client = Client::new();
    let echo = EchoAsyncCaller::new(&client, &served.address).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..100)
            .map(|number| {
                let echo = echo.clone();
                tokio::spawn(async move { echo.say(&Words { number, ..Words::default() }).await })
            })
            .collect();
        for (number, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.await.unwrap().unwrap().number, number as u64);
        }
    });
    assert_eq!(client.connections().len(), 1);
    assert_eq!(client.connections()[0].thread, None, "it belongs to all of them");
}

#[test]
fn many_threads_poll_tasks_of_one_connection() {
    const THREADS: u64 = 8;
    const CALLS: u64 = 500;
    for via in ["", "?via=unix-stream"] {
        let served = Served::start();
        let client = Client::new();
        let echo = EchoAsyncCaller::new(&client, &served.via(via)).unwrap();
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let echo = &echo;
                scope.spawn(move || {
                    for number in thread * CALLS..(thread + 1) * CALLS {
                        assert_eq!(block_on(echo.say(&words(number))).unwrap().number, number);
                    }
                });
            }
        });
        let mut said = served.books.said.lock().unwrap().clone();
        said.sort_unstable();
        assert!(said.into_iter().eq(0..THREADS * CALLS), "each call ran once");
        assert_eq!(client.connections().len(), 1);
    }
}

#[test]
fn a_caller_outlives_its_runtime_and_works_in_another() {
    let served = Served::start();
    let echo = served.echo("");
    let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
    let first = runtime();
    assert_eq!(first.block_on(echo.say(&words(1))).unwrap().number, 1);
    // A task that waits when its runtime ends is dropped with it.
    let waits = echo.clone();
    first.spawn(async move { waits.later(&words(2)).await });
    first.block_on(async {
        while Books::get(&served.books.begun) == 0 {
            tokio::task::yield_now().await;
        }
    });
    drop(first);
    let second = runtime();
    second.block_on(echo.nothing(&())).unwrap();
    assert_eq!(Books::get(&served.books.cancelled), 1);
    assert_eq!(second.block_on(echo.say(&words(3))).unwrap().number, 3);
    drop(second);
    assert_eq!(smol::block_on(echo.say(&words(4))).unwrap().number, 4);
}

#[test]
fn a_call_begins_in_one_executor_and_ends_in_another() {
    let served = Served::start();
    let client = Client::new();
    let echo = EchoAsyncCaller::new(&client, &served.address).unwrap();
    let request = words(5);
    let mut call = Box::pin(echo.later(&request));
    block_on(async {
        let first = poll_fn(|context| {
            let polled = call.as_mut().poll(context);
            std::task::Poll::Ready(polled.is_pending())
        });
        assert!(first.await);
        // The connection was opened meanwhile, or is: the call is sent by the next poll at last.
    });
    thread::scope(|scope| {
        let answered = scope.spawn(|| block_on(call));
        let answerer = EchoAsyncCaller::new(&client, &served.address).unwrap();
        while Books::get(&served.books.held) == 0 {
            block_on(answerer.say(&words(0))).unwrap();
        }
        block_on(answerer.fail(&Failure::default())).unwrap();
        assert_eq!(answered.join().unwrap().unwrap().number, 5);
    });
}

#[test]
fn what_tasks_need_can_be_sent() {
    fn is_send<T: Send>() {}
    fn is_shared<T: Send + Sync + Clone + 'static>() {}
    is_shared::<Client>();
    is_shared::<AsyncObjectRef>();
    is_shared::<EchoAsyncCaller>();
    is_send::<AsyncCall<'_, Words, Words>>();
    is_send::<nearcall::client::AsyncCallWithMetadata<'_, Words, Words>>();
    is_send::<AsyncSend<'_, Words>>();
    let client = Client::new();
    let hunt = client.hunt_async("absent", Duration::ZERO);
    fn takes_send(_: impl Send) {}
    takes_send(hunt);
}

#[test]
fn a_task_whose_messages_never_wait_lets_others_run() {
    let served = Served::start();
    let echo = served.echo("");
    let sent = Cell::new(0);
    let mut task = pin!(async {
        while sent.get() < 2_000 {
            echo.note(&words(0)).await.unwrap();
            sent.set(sent.get() + 1);
        }
    });
    let mut most = 0;
    block_on(poll_fn(|context| {
        let before = sent.get();
        let polled = task.as_mut().poll(context);
        most = most.max(sent.get() - before);
        polled
    }));
    assert!(most <= 50, "{most} messages before the task gave its thread up");
}
