//! The thread that waits for async connections: it runs while there are any, and sleeps while
//! calls find their replies by themselves.
//!
//! One test, in a program of its own: the thread is one for each process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nearcall::{CallOptions, Client, EventLoop, Server, Status};
use nearcall_os::clock;

use nearcall_testkit::echo::{Adder, AdderAsyncCaller, AdderDispatcher, Numbers, Total};
use nearcall_testkit::tasks::block_on;

struct Service;

impl Adder for Service {
    fn empty(&self, _context: &nearcall::Context<'_>, _request: &()) -> Result<(), Status> {
        Ok(())
    }

    fn add(&self, _: &nearcall::Context<'_>, _: &Numbers) -> Result<Total, Status> {
        let start = clock::now();
        while !MAY_REPLY.swap(false, Ordering::AcqRel) && start.elapsed() < PATIENCE {
            clock::pause(Duration::from_millis(1));
        }
        Ok(Total::default())
    }

    fn tick(&self, _: &nearcall::Context<'_>, _: &Total) {}

    fn allocations(&self, _: &nearcall::Context<'_>, _: &()) -> Result<Total, Status> {
        Ok(Total::default())
    }
}

/// Calls without a deadline's or a reply's wake-up: far more than chance would leave alone.
const CALLS_PER_BATCH: usize = 100;

/// The task that calls `add` has looked for the reply without success.
static MAY_REPLY: AtomicBool = AtomicBool::new(false);

/// What a busy machine may take to let a thread run.
const PATIENCE: Duration = Duration::from_secs(20);

fn serve(address: &str) -> (nearcall::event_loop::Stopper, thread::JoinHandle<()>) {
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

/// Has the service reply once `call` waits for that.
async fn releasing<F: Future>(call: F) -> F::Output {
    let mut call = pin!(call);
    poll_fn(|context| {
        let polled = call.as_mut().poll(context);
        MAY_REPLY.store(polled.is_pending(), Ordering::Release);
        polled
    })
    .await
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
        block_on(adder.empty(&())).unwrap();
        let other = Client::new();
        block_on(other.hunt_async(&address, PATIENCE)).unwrap();
        // A new thread takes its name by itself, perhaps after the first reply.
        wait_until("no driver has its name", || !drivers().is_empty());
        let running = drivers();
        let [driver] = &running[..] else { panic!("{running:?}: one for all connections") };

        // Calls find their replies by looking, and a deadline that is later than another one wakes
        // nothing. A reply that takes longer than a look does, so not each batch of calls has it
        // asleep all the time on a busy machine.
        let options = CallOptions::new().deadline(PATIENCE * 10);
        wait_until("each batch of calls woke the driver", || {
            let before = sleeps(driver);
            (0..CALLS_PER_BATCH)
                .for_each(|_| block_on(adder.with(options.clone()).empty(&())).unwrap());
            sleeps(driver) == before
        });

        // A reply that takes long wakes it, and its task.
        let before = sleeps(driver);
        block_on(releasing(adder.add(&Numbers::default()))).unwrap();
        wait_until("the driver did not sleep again", || sleeps(driver) > before);

        drop((client, adder));
        assert_eq!(drivers().len(), 1, "another connection is left");
        drop(other);
        wait_until("the driver did not end", || drivers().is_empty());
    }
    stopper.stop();
    server.join().unwrap();
}
