//! Futures that are dropped, at each point at which they may be.

use std::task::{Context, Poll, Wake, Waker};

use nearcall_testkit::tasks;

use super::{Books, PATIENCE, Served, block_on, poll_once, words};
use crate::stage::prelude::*;

/// Polls a future so many times, when it is woken or some time has passed. Returns whether it has
/// ended.
fn poll_times<T>(future: &mut (impl Future<Output = T> + Unpin), polls: u64) -> bool {
    let (woken, waker) = tasks::waker();
    for _ in 0..polls {
        let before = woken.count();
        let polled = std::pin::Pin::new(&mut *future).poll(&mut Context::from_waker(&waker));
        if polled.is_ready() {
            return true;
        }
        let start = clock::now();
        while woken.count() == before && start.elapsed() < Duration::from_millis(5) {
            thread::yield_now();
        }
    }
    false
}

#[test]
fn a_call_that_is_not_polled_is_not_made() {
    let served = Served::start();
    let client = Client::new();
    let echo = EchoAsyncCaller::new(&client, &served.address).unwrap();
    drop(echo.later(&words(1)));
    assert!(client.connections().is_empty());
    block_on(echo.nothing(&())).unwrap();
    drop(echo.later(&words(1)));
    block_on(echo.nothing(&())).unwrap();
    assert_eq!(Books::get(&served.books.begun), 0);
}

#[test]
fn a_drop_cancels_the_call_at_once() {
    for via in ["", "?wait=poll", "?via=unix-stream"] {
        let served = Served::start();
        let client = Client::new();
        let at = served.via(via);
        block_on(client.hunt_async(&at, PATIENCE)).unwrap();
        let echo = EchoAsyncCaller::new(&client, &at).unwrap();
        let span = Span { ms: 60_000 };
        let mut work = Box::pin(echo.work(&span));
        assert!(poll_once(work.as_mut()).is_pending());
        drop(work);
        // The server has one thread, which works until it is cancelled.
        block_on(echo.nothing(&())).unwrap();
        assert_eq!(Books::get(&served.books.cancelled), 1);
    }
}

#[test]
fn a_future_is_dropped_after_each_number_of_polls() {
    for via in ["", "?wait=poll", "?via=unix-stream"] {
        let served = Served::start();
        let at = served.via(via);
        let long = Words { number: 9, data: vec![9; 300_000].into() };
        for polls in 0..6 {
            // Also while it connects.
            let client = Client::new();
            let echo = EchoAsyncCaller::new(&client, &at).unwrap();
            for _ in 0..5 {
                let small = words(1);
                assert!(!poll_times(&mut echo.later(&small), polls), "it is not answered");
                poll_times(&mut echo.say(&small), polls);
                assert!(!poll_times(&mut echo.later(&long), polls), "it is not answered");
                poll_times(&mut echo.say(&long), polls);
                poll_times(&mut echo.note(&long), polls);
            }
            assert_eq!(block_on(echo.say(&long)).unwrap(), long);
            block_on(echo.nothing(&())).unwrap();
            assert_eq!(Books::get(&served.books.held), 0, "{via} {polls}");
        }
        let (begun, cancelled) = (&served.books.begun, &served.books.cancelled);
        assert!(Books::get(begun) > 0);
        assert_eq!(Books::get(begun), Books::get(cancelled), "{via}");
    }
}

#[test]
fn a_future_is_dropped_while_it_waits_for_a_place() {
    let limits = Limits { calls_max: 2, ..Limits::default() };
    let served = Served::with(limits);
    let client = Client::builder().limits(limits).build();
    let echo = EchoAsyncCaller::new(&client, &served.address).unwrap();
    block_on(echo.nothing(&())).unwrap();
    let request = words(1);
    for granted in [false, true] {
        let mut open: Vec<_> = (0..2).map(|_| Box::pin(echo.later(&request))).collect();
        for call in &mut open {
            assert!(poll_once(call.as_mut()).is_pending());
        }
        let mut waiting: Vec<_> = (0..4).map(|_| Box::pin(echo.say(&request))).collect();
        for call in &mut waiting {
            assert!(poll_once(call.as_mut()).is_pending());
        }
        if granted {
            drop(open);
            // The first two have a place each that they do not take.
            waiting.drain(..2);
            for call in waiting {
                block_on(call).unwrap();
            }
        } else {
            drop(waiting);
            drop(open);
        }
        block_on(echo.nothing(&())).unwrap();
        assert_eq!(Books::get(&served.books.held), 0);
    }
    assert_eq!(served.books.said.lock().unwrap().len(), 2);
}

#[test]
fn a_waker_that_panics_ends_nothing_else() {
    let served = Served::start();
    let echo = served.echo("");
    block_on(echo.nothing(&())).unwrap();
    let answering = EchoCaller::new(&Client::new(), &served.address).unwrap();
    let request = words(1);
    let panics = tasks::panicking();
    let mut first = Box::pin(echo.later(&request));
    let polled = first.as_mut().poll(&mut Context::from_waker(&panics));
    assert!(polled.is_pending());
    // Both are answered at once.
    thread::scope(|scope| {
        let second = scope.spawn(|| block_on(echo.later(&words(2))).unwrap().number);
        while Books::get(&served.books.held) < 2 {
            thread::yield_now();
        }
        answering.fail(&Failure::default()).unwrap();
        assert_eq!(second.join().unwrap(), 2);
    });
    assert_eq!(block_on(first).unwrap().number, 1);
    // The thread that waits goes on.
    let options = CallOptions::new().deadline(Duration::from_millis(10));
    expect_code(block_on(echo.with(options).later(&request)), Code::DeadlineExceeded);
    block_on(served.echo("").nothing(&())).unwrap();
}

/// A waker that holds the future which it wakes, as tasks of executors do: dropping the last one
/// drops the call.
struct Task {
    call: Mutex<Option<futures_util::future::BoxFuture<'static, Result<Words, Status>>>>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_call_may_be_dropped_by_the_drop_of_its_waker() {
    let served = Served::start();
    let echo = served.echo("");
    block_on(echo.nothing(&())).unwrap();
    for _ in 0..10 {
        let caller = echo.clone();
        let call = Box::pin(async move { caller.later(&words(1)).await });
        let task = Arc::new(Task { call: Mutex::new(Some(call)) });
        let waker = Waker::from(Arc::clone(&task));
        let mut call = task.call.lock().unwrap();
        let polled = call.as_mut().unwrap().as_mut().poll(&mut Context::from_waker(&waker));
        assert!(matches!(polled, Poll::Pending));
        let taken = call.take();
        drop(call);
        drop((task, waker));
        drop(taken);
    }
    block_on(echo.nothing(&())).unwrap();
    assert_eq!(Books::get(&served.books.cancelled), 10);
}
