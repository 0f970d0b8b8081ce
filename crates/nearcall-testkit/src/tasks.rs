//! Waiting: for a condition, and for futures without an executor, with one that blocks, one poll,
//! and wakers that count or panic.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use nearcall_os::clock;

/// Longer than anything takes that is not broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `done`, and fails when that takes too long.
#[track_caller]
pub fn wait_until(what: &str, done: impl FnMut() -> bool) {
    wait_within(PATIENCE, what, done);
}

/// Waits until `done`, and fails when that takes longer than `limit`.
#[track_caller]
pub fn wait_within(limit: Duration, what: &str, mut done: impl FnMut() -> bool) {
    let end = clock::now() + limit;
    while !done() {
        assert!(clock::now() < end, "timed out waiting for {what}");
        clock::pause(Duration::from_micros(500));
    }
}

/// Counts how often it is woken, and unparks the thread that has made it.
#[derive(Debug)]
pub struct Woken {
    thread: Thread,
    wakes: AtomicU64,
}

impl Woken {
    /// Returns how often it was woken.
    pub fn count(&self) -> u64 {
        self.wakes.load(Ordering::SeqCst)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// Returns a waker of this thread, and what counts how often it wakes.
pub fn waker() -> (Arc<Woken>, Waker) {
    let woken = Arc::new(Woken { thread: thread::current(), wakes: AtomicU64::new(0) });
    (Arc::clone(&woken), Waker::from(woken))
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("asked for it");
    }
}

/// Returns a waker that panics when it is woken.
pub fn panicking() -> Waker {
    Waker::from(Arc::new(Panics))
}

/// The executor with nothing in it. Fails instead of waiting without end.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let (woken, waker) = waker();
    block_on_with(&woken, &waker, future)
}

/// Works like [`block_on`] with what [`waker`] has returned in this thread.
pub fn block_on_with<F: Future>(woken: &Woken, waker: &Waker, future: F) -> F::Output {
    let mut future = pin!(future);
    let start = clock::now();
    loop {
        let before = woken.count();
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(waker)) {
            return output;
        }
        // Polled again only when it was woken, so that a wake-up that is lost shows.
        while woken.count() == before {
            assert!(start.elapsed() < PATIENCE, "the future was not woken");
            thread::park_timeout(PATIENCE);
        }
    }
}

/// Polls a future once.
pub fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}
