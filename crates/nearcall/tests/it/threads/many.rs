//! More threads that call than there are connections for: by the limit of their client, by the
//! descriptors of either process, or by the share of their user at the server.
//!
//! **Invariants:** all threads of a test live at once, and none gives its connection back before
//! all have called.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;

use nearcall_os::Deadline;
use nearcall_os::process::Child;

use crate::stage::prelude::*;
use crate::streams;
use crate::streams::served::{Kind, StreamsCaller, item};
use crate::two_processes::{start, start_limited};

/// Calls of each thread.
const CALLS: u64 = 3;

/// Has so many threads call at once through one caller, and returns why calls failed.
fn call_at_once(caller: &EchoCaller, threads: usize) -> Vec<Status> {
    let (all_there, failed) = (Barrier::new(threads), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for number in 0..threads {
            let (all_there, failed) = (&all_there, &failed);
            let call = move || {
                all_there.wait();
                for call in 0..CALLS {
                    let request = words(number as u64 * CALLS + call);
                    match caller.say(&request) {
                        Ok(reply) => assert_eq!(reply, request),
                        Err(status) => failed.lock().unwrap().push(status),
                    }
                }
                all_there.wait();
            };
            let thread = thread::Builder::new().stack_size(128 << 10);
            thread.spawn_scoped(scope, call).unwrap();
        }
    });
    failed.into_inner().unwrap()
}

fn check(failed: &[Status]) {
    let first = failed.first();
    assert!(first.is_none(), "{} calls failed, the first: {}", failed.len(), first.unwrap());
}

#[timed]
fn four_hundred_threads_call_through_one_caller() {
    let served = Served::start();
    let caller = served.echo("");
    check(&call_at_once(&caller, 400));
}

#[timed]
fn two_thousand_threads_call_through_one_caller() {
    let served = Served::start();
    let limits = Limits { client_connections_max: 8, ..Limits::default() };
    for limits in [Limits::default(), limits] {
        let client = Client::builder().limits(limits).build();
        let caller = EchoCaller::new(&client, &served.address).unwrap();
        check(&call_at_once(&caller, 2000));
    }
}

/// The user of the threads may have few connections to the server.
#[timed]
fn threads_share_a_connection_where_the_server_refuses_more() {
    let limits = Limits { connections_per_uid_max: 20, ..Limits::default() };
    let served = Served::with(limits, "", |_, _, _| {});
    let caller = served.echo("");
    check(&call_at_once(&caller, 100));
}

/// Threads of one process, as [`crate::two_processes`] starts it.
pub(crate) fn call_by_many(address: &str) {
    let client = Client::new();
    client.hunt(address, PATIENCE).unwrap();
    let caller = EchoCaller::new(&client, address).unwrap();
    check(&call_at_once(&caller, 200));
}

fn wait_for_success(mut child: Child) {
    let ended = child.wait(Deadline::after(PATIENCE)).unwrap();
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
}

#[timed]
fn threads_share_a_connection_where_descriptors_are_few() {
    let served = Served::start();
    // So few that threads have no connections of their own at all is no case.
    wait_for_success(start_limited(128, "threads", &served.address));
    let address = unique_address();
    let _server = start_limited(256, "server", &address);
    wait_for_success(start("threads", &address));
}

/// A server and a client that use up what they may have, in other ways than by threads.
#[timed]
fn a_lack_of_descriptors_names_the_side_that_has_it() {
    let address = unique_address();
    let _server = start_limited(64, "server", &address);
    let clients: Vec<_> = (0..40).map(|_| Client::new()).collect();
    clients[0].hunt(&address, PATIENCE).unwrap();
    let call = |client| EchoCaller::new(client, &address).unwrap().nothing(&());
    let refused = clients.iter().find_map(|client| call(client).err()).unwrap();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert!(refused.message().contains("`ulimit -n`"), "{refused}");
    assert!(refused.message().contains("refused the connection"), "{refused}");
    call(&clients[0]).unwrap();
}

/// Runs `share` while another thread of the client has the only place that threads may have, which
/// `call` takes: without a loop, and in a loop that goes on serving.
fn while_sharing(call: impl Fn(&Client) + Sync, share: impl Fn(&Client)) {
    let limits = Limits { client_connections_max: 1, ..Limits::default() };
    let event_loop = EventLoop::new().unwrap();
    let builder = || Client::builder().limits(limits);
    for client in [builder().build(), builder().in_loop(&event_loop).build()] {
        let all_there = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                call(&client);
                all_there.wait();
                all_there.wait();
            });
            all_there.wait();
            let shared = catch_unwind(AssertUnwindSafe(|| share(&client)));
            let connections = client.connections();
            all_there.wait();
            // Nothing is checked before the other thread may end: a failure must not keep it.
            shared.unwrap();
            let own = nearcall_os::process::tid();
            let is_own =
                connections.iter().any(|it| it.thread.as_ref().is_some_and(|it| it.tid == own));
            assert!(!is_own && connections.len() == 2, "{connections:?}");
        });
    }
}

#[timed]
fn every_form_of_call_works_over_the_shared_connection() {
    let served = Served::start();
    let caller = |client: &Client| EchoCaller::new(client, &served.address).unwrap();
    while_sharing(
        |client| caller(client).nothing(&()).unwrap(),
        |client| {
            let caller = caller(client);
            assert_eq!(caller.say(&words(1)).unwrap().number, 1);
            let long = Words { number: 2, data: Bytes::from(vec![7; 300 << 10]) };
            assert_eq!(caller.say(&long).unwrap(), long);
            let calls: Vec<_> = (0..10).map(|number| caller.start_say(&words(number))).collect();
            for (number, call) in (0..).zip(calls) {
                assert_eq!(call.wait().unwrap().number, number);
            }
            let started = caller
                .with(CallOptions::new().no_wait())
                .start_say(&words(3))
                .ensure_started()
                .unwrap();
            assert_eq!(started.wait().unwrap().number, 3);
            drop(caller.start_say(&words(4)));
            caller.note(&words(5)).unwrap();
            caller.with(CallOptions::new().no_wait()).note(&words(6)).unwrap();
            for loan in
                [caller.loan(100_000), caller.with(CallOptions::new().no_wait()).loan(100_000)]
            {
                let mut loan = loan.unwrap();
                loan.fill(7);
                let lent = Words { number: 8, data: loan.freeze() };
                assert_eq!(caller.say(&lent).unwrap(), lent);
            }
        },
    );
}

#[timed]
fn streams_work_over_the_shared_connection() {
    let served = streams::served::Served::start(Kind::Thread);
    let caller = |client: &Client| StreamsCaller::new(client, &served.address).unwrap();
    while_sharing(
        |client| drop(caller(client).say(&item(1, 1)).unwrap()),
        |client| streams::exchange_all(&streams::Caller::Blocking(caller(client))),
    );
}

#[timed]
fn deadlines_hold_for_threads_that_share_a_connection() {
    let served = serve_scripted(Limits::default(), |_| keeper());
    let limits = Limits { client_connections_max: 1, ..Limits::default() };
    let client = Client::builder().limits(limits).build();
    let caller = EchoCaller::new(&client, &served.via("#s")).unwrap();
    let kept = caller.start_later(&words(1));
    let there = caller.clone();
    thread::spawn(move || {
        let there = there.with(CallOptions::new().deadline(Duration::from_millis(30)));
        expect_code(there.later(&words(2)), Code::DeadlineExceeded);
        expect_code(there.start_later(&words(3)).wait(), Code::DeadlineExceeded);
    })
    .join()
    .unwrap();
    drop(kept);
}

/// A thread that shares gets a connection of its own when one is given back.
#[timed]
fn the_connection_of_a_thread_that_has_ended_is_free_for_the_next() {
    let served = Served::start();
    let limits = Limits { client_connections_max: 1, ..Limits::default() };
    let client = Client::builder().limits(limits).build();
    let caller = EchoCaller::new(&client, &served.address).unwrap();
    let all_there = Barrier::new(2);
    thread::scope(|scope| {
        let first = scope.spawn(|| {
            caller.nothing(&()).unwrap();
            all_there.wait();
            all_there.wait();
        });
        all_there.wait();
        caller.nothing(&()).unwrap();
        let own = nearcall_os::process::tid();
        let is_own = |client: &Client| {
            let connections = client.connections();
            connections.iter().any(|it| it.thread.as_ref().is_some_and(|it| it.tid == own))
        };
        assert!(!is_own(&client), "{:?}", client.connections());
        all_there.wait();
        first.join().unwrap();
        // A scope ends before the thread-local values of its threads are dropped.
        while !is_own(&client) {
            caller.nothing(&()).unwrap();
            thread::yield_now();
        }
    });
}
