//! Nothing is allocated on the path of a call once all buffers are there: neither by the client,
//! with or without a loop or as futures, nor by the server; whether an end finds what it waits for
//! awake or is woken for it.
//! The warm-up has both ends sleep as often as it takes for all that sleeps bring about: lists grow
//! with the first of them, and the sixteenth has the cost of a wake-up measured, once in a process,
//! by a thread. Which of the counted waits are sleeps, the machine's load decides.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::Cell;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nearcall::client::WaitPolicy;
use nearcall::service::{Dispatcher, Incoming, Interface, TaskRunner};
use nearcall::{Client, Context, EventLoop, Mechanism, Server, Status};
use nearcall_os::alloc_count::{self, CountingAllocator};
use nearcall_os::{clock, process};

use nearcall_testkit::echo::{
    Adder, AdderAsyncCaller, AdderCaller, AdderDispatcher, Numbers, Row, Total,
};
use nearcall_testkit::tasks;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[derive(Default)]
struct Service {
    total: Cell<u64>,
}

fn sum(row: Option<&Row>) -> u64 {
    row.map_or(0, |row| row.n0 + row.n1 + row.n2 + row.n3 + row.n4 + row.n5 + row.n6 + row.n7)
}

impl Adder for Service {
    fn empty(&self, _context: &Context<'_>, _request: &()) -> Result<(), Status> {
        Ok(())
    }

    fn add(&self, _context: &Context<'_>, request: &Numbers) -> Result<Total, Status> {
        let Numbers { r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, r13 } = request;
        let rows = [r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10, r11, r12, r13];
        Ok(Total { sum: rows.iter().map(|row| sum(row.as_ref())).sum() })
    }

    fn tick(&self, _context: &Context<'_>, request: &Total) {
        if request.sum == PAUSE {
            clock::pause(LONGER_THAN_A_SPIN);
        }
        self.total.set(self.total.get().wrapping_add(request.sum));
    }

    fn allocations(&self, _context: &Context<'_>, _request: &()) -> Result<Total, Status> {
        Ok(Total { sum: alloc_count::this_thread() })
    }
}

/// More than a kilobyte as it travels.
fn numbers() -> Numbers {
    let row = Row { n0: 1, n1: 2, n2: 3, n3: 4, n4: 5, n5: 6, n6: 7, n7: 8 };
    let row = || Some(row);
    Numbers {
        r0: row(),
        r1: row(),
        r2: row(),
        r3: row(),
        r4: row(),
        r5: row(),
        r6: row(),
        r7: row(),
        r8: row(),
        r9: row(),
        r10: row(),
        r11: row(),
        r12: row(),
        r13: row(),
    }
}

const CALLS: u32 = 200;

/// Calls of them that each end has to sleep for: more than it sleeps before it looks at the cost of
/// a wake-up.
const SLEEPS: u32 = 24;

/// Has the server pause, so that the client sleeps before the answer to its next call.
const PAUSE: u64 = u64::MAX;

/// Longer than any end spins.
const LONGER_THAN_A_SPIN: Duration = Duration::from_micros(500);

/// Calls in every way, with every way to wait.
fn calls(adder: &AdderCaller, request: &Numbers) {
    for number in 0..CALLS {
        if number < SLEEPS {
            // The server has nothing to do meanwhile, so that it sleeps before the next call.
            clock::pause(LONGER_THAN_A_SPIN);
        }
        adder.empty(&()).unwrap();
        let pauses = (SLEEPS..2 * SLEEPS).contains(&number);
        adder.tick(&Total { sum: if pauses { PAUSE } else { 1 } }).unwrap();
        assert_eq!(adder.add(request).unwrap().sum, 14 * 36);
    }
}

/// Allocations of client and server while calls are made, after a warm-up.
fn allocations(client: &Client, at: &str) -> (u64, u64) {
    let adder = AdderCaller::new(client, at).unwrap();
    let request = numbers();
    assert!(nearcall::Message::encoded_len(&request) >= 1_024);
    calls(&adder, &request);
    let there = adder.allocations(&()).unwrap().sum;
    assert!(there > 0, "it counts there, too");
    let here = alloc_count::this_thread();
    calls(&adder, &request);
    let here = alloc_count::this_thread() - here;
    (here, adder.allocations(&()).unwrap().sum - there)
}

/// Allocations of the thread that polls calls as futures, after a warm-up.
fn async_allocations(at: &str) -> u64 {
    let client = Client::new();
    let adder = AdderAsyncCaller::new(&client, at).unwrap();
    let (request, (woken, waker)) = (numbers(), tasks::waker());
    let calls = || {
        for number in 0..CALLS {
            if number < SLEEPS {
                clock::pause(LONGER_THAN_A_SPIN);
            }
            tasks::block_on_with(&woken, &waker, adder.empty(&())).unwrap();
            let pauses = (SLEEPS..2 * SLEEPS).contains(&number);
            let total = Total { sum: if pauses { PAUSE } else { 1 } };
            tasks::block_on_with(&woken, &waker, adder.tick(&total)).unwrap();
            assert_eq!(
                tasks::block_on_with(&woken, &waker, adder.add(&request)).unwrap().sum,
                14 * 36
            );
        }
    };
    calls();
    let before = alloc_count::this_thread();
    calls();
    alloc_count::this_thread() - before
}

/// An [`Adder`] whose methods are futures that are ready at once.
struct ReadyFutures(TaskRunner);

impl Dispatcher for ReadyFutures {
    fn interface(&self) -> &'static Interface {
        AdderCaller::INTERFACE
    }

    fn dispatch(&self, incoming: Incoming<'_>) {
        incoming.reply_async(&self.0, |_, request: Total| async move { Ok(request) });
    }
}

/// Allocations of the loop for a call of an async service: the future, the waker of its task, and
/// what notifies it of the end of the call.
const ALLOCATIONS_OF_A_FUTURE: u64 = 3;

#[test]
fn a_call_of_an_async_service_allocates_as_stated() {
    let (give, take) = mpsc::channel();
    let name = format!("unix:@nearcall-alloc-{}-{}", process::pid(), clock::monotonic_ns());
    let at = name.clone();
    let thread = thread::spawn(move || {
        let event_loop = EventLoop::new().unwrap();
        let server = Server::new(&event_loop);
        server.register(AdderDispatcher::new(Service::default())).unwrap();
        server.register_as("futures", ReadyFutures(TaskRunner::default())).unwrap();
        server.listen(&name).unwrap();
        give.send(event_loop.stopper()).unwrap();
        event_loop.run().unwrap();
    });
    let stopper = take.recv().unwrap();
    let client = Client::new();
    let plain = AdderCaller::new(&client, &at).unwrap();
    let futures = AdderCaller::new(&client, &format!("{at}#futures")).unwrap();
    // The loop sleeps in the first round as in the second: once it has slept so often, it starts a
    // thread that measures what a wake-up costs.
    let calls = || {
        for number in 0..CALLS {
            if number < SLEEPS {
                clock::pause(LONGER_THAN_A_SPIN);
            }
            futures.empty(&()).unwrap();
        }
    };
    calls();
    let before = plain.allocations(&()).unwrap().sum;
    calls();
    let allocations = plain.allocations(&()).unwrap().sum - before;
    assert_eq!(allocations, u64::from(CALLS) * ALLOCATIONS_OF_A_FUTURE);
    stopper.stop();
    thread.join().unwrap();
}

#[test]
fn calls_allocate_nothing() {
    let before = alloc_count::this_thread();
    drop(std::hint::black_box(vec![0_u8; 100]));
    assert_eq!(alloc_count::this_thread() - before, 1, "it counts");
    let mut guilty = Vec::new();
    for mechanism in Mechanism::all().filter(|mechanism| mechanism.supported().is_ok()) {
        let (give, take) = mpsc::channel();
        let name = format!("unix:@nearcall-alloc-{}-{}", process::pid(), clock::monotonic_ns());
        let at = format!("{name}?via={mechanism}");
        let thread = thread::spawn(move || {
            let event_loop = EventLoop::new().unwrap();
            let server = Server::new(&event_loop);
            server.register(AdderDispatcher::new(Service::default())).unwrap();
            server.listen(&format!("{name}?allow=all")).unwrap();
            give.send(event_loop.stopper()).unwrap();
            event_loop.run().unwrap();
        });
        let stopper = take.recv().unwrap();
        let client = Client::new();
        let blocking = allocations(&client, &at);
        drop(client);
        let event_loop = EventLoop::new().unwrap();
        let in_loop = allocations(&Client::in_loop(&event_loop), &at);
        // A signal is for one thread, and tasks belong to none.
        let for_tasks = mechanism != Mechanism::ShmSignal;
        let as_futures = match for_tasks && mechanism.waits().contains(&WaitPolicy::Poll) {
            true => async_allocations(&at),
            false => 0,
        };
        stopper.stop();
        thread.join().unwrap();
        if (blocking, in_loop, as_futures) != ((0, 0), (0, 0), 0) {
            guilty.push(format!(
                "{mechanism}: blocking {blocking:?}, in a loop {in_loop:?}, as futures {as_futures}"
            ));
        }
    }
    assert!(guilty.is_empty(), "(client, server) in {} calls: {guilty:#?}", 3 * CALLS);
}
