//! The thread that waits for async connections: it runs while there are any, and sleeps while
//! calls find their replies by themselves.
//!
//! One test, in a program of its own: the thread is one for each process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use nearcall::{CallOptions, Client, EventLoop, Server, Status};
use nearcall_os::clock;

use self::echo::{Adder, AdderAsyncCaller, AdderDispatcher, Numbers, Total};

/// Generated from `nearcall-build/tests/golden/echo.proto`.
mod echo {
    include!("../../nearcall-build/tests/golden/echo.rs");
}

struct Service;

impl Adder for Service {
    fn empty(&self, _context: &nearcall::Context<'_>, _request: &()) -> Result<(), Status> {
        Ok(())
    }

    fn add(&self, _: &nearcall::Context<'_>, _: &Numbers) -> Result<Total, Status> {
        clock::pause(LONGER_THAN_A_SPIN);
        Ok(Total::default())
    }

    fn tick(&self, _: &nearcall::Context<'_>, _: &Total) {}

    fn allocations(&self, _: &nearcall::Context<'_>, _: &()) -> Result<Total, Status> {
        Ok(Total::default())
    }
}

/// A reply that takes so long is not looked for until it comes.
const LONGER_THAN_A_SPIN: Duration = Duration::from_millis(2);

/// What a busy machine may take to let a thread run.
const PATIENCE: Duration = Duration::from_secs(20);

fn serve(address: &str) -> (nearcall::Stopper, thread::JoinHandle<()>) {
    let (give, take) = std::sync::mpsc::channel();
    let address = address.to_owned();
    let thread = thread::spawn(move || {
        let event_loop = EventLoop::new().unwrap();
        let server = Server::new(&event_loop);
        server.register(AdderDispatcher::new(Service)).unwrap();
        server.listen(&address).unwrap();
        give.send(event_loop.stopper()).unwrap();
        event_loop.run().unwrap();
    });
    (take.recv().unwrap(), thread)
}

/// The numbers of the threads with the name of the driver.
fn drivers() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let is_driver = |comm: &String| comm.trim_end() == "nearcall-driver";
    tasks
        .filter(|task| fs::read_to_string(task.join("comm")).ok().as_ref().is_some_and(is_driver))
        .map(|task| task.file_name().unwrap().to_string_lossy().into_owned())
        .collect()
}

/// How often a thread has gone to sleep.
fn sleeps(thread: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Returns the output, and how often the future had to wait.
fn block_on<F: Future>(future: F) -> (F::Output, u64) {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut waits = 0;
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return (output, waits),
            Poll::Pending => waits += 1,
        }
        thread::park_timeout(PATIENCE);
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let start = clock::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        thread::yield_now();
    }
}

#[test]
fn the_driver_runs_while_it_is_needed_and_sleeps_while_it_is_not() {
    let address = format!("unix:@nearcall-driver-{}", std::process::id());
    let (stopper, server) = serve(&address);
    assert!(drivers().is_empty(), "nothing waits");
    for _ in 0..3 {
        let client = Client::new();
        let adder = AdderAsyncCaller::new(&client, &address).unwrap();
        block_on(adder.empty(&())).0.unwrap();
        let other = Client::new();
        block_on(other.hunt_async(&address, PATIENCE)).0.unwrap();
        // A new thread takes its name by itself, perhaps after the first reply.
        wait_until("no driver has its name", || !drivers().is_empty());
        let running = drivers();
        let [driver] = &running[..] else { panic!("{running:?}: one for all connections") };

        // A deadline that is later than another one wakes nothing, and the earliest one does once.
        let options = CallOptions::new().deadline(PATIENCE * 10);
        let before = sleeps(driver);
        let mut waits = 0;
        for _ in 0..2_000 {
            let (outcome, waited) = block_on(adder.empty_with(&(), &options));
            outcome.unwrap();
            waits += waited;
        }
        let slept = sleeps(driver) - before;
        assert!(slept <= 2 * waits + 2, "it was woken {slept} times for {waits} calls that waited");

        // A reply that takes long wakes it, and its task.
        let before = sleeps(driver);
        let (outcome, waited) = block_on(adder.add(&Numbers::default()));
        outcome.unwrap();
        assert!(waited >= 1);
        wait_until("the driver did not sleep again", || sleeps(driver) > before);

        drop((client, adder));
        assert_eq!(drivers().len(), 1, "another connection is left");
        drop(other);
        wait_until("the driver did not end", || drivers().is_empty());
    }
    stopper.stop();
    server.join().unwrap();
}
