//! One client in many threads: connections of each thread, and how they end.
//!
//! **Invariants:** a test that has to see an end waits for that end itself, not for a time.

pub(crate) mod many;

use std::cell::RefCell;
use std::sync::Barrier;

use nearcall::client::{ClientBuilder, ObjectRef, PendingCall, ReconnectPolicy};
use nearcall::observe::ConnectionInfo;

use crate::stage::prelude::*;

const THREADS: u64 = 8;
const CALLS: u64 = 200;

/// What is promised to be usable from any thread is so at compile time.
const fn usable_anywhere<T: Send + Sync + Clone>() {}
const _: () = {
    usable_anywhere::<Client>();
    usable_anywhere::<ObjectRef>();
    usable_anywhere::<EchoCaller>();
    usable_anywhere::<ConnectionInfo>();
};

/// A server whose `Say` to `#count` returns how many connections it has.
fn counting() -> Served {
    Served::with(Limits::default(), "", |_, server, _| {
        let counted = server.clone();
        let count = move |_: &Context<'_>, _: &Words| -> Result<Words, Status> {
            Ok(words(counted.connections().len() as u64))
        };
        server.register_as("count", EchoDispatcher::new(Scripted::new(count))).unwrap();
    })
}

/// Starts a call that is not answered before a test asks for it.
fn start_later(caller: &EchoCaller, number: u64) -> PendingCall<Words> {
    caller.start_later(&words(number))
}

/// Waits until the server has `expected` connections, that of the one who asks included.
fn wait_for_connections(count: &EchoCaller, expected: u64) {
    let end = clock::now() + PATIENCE;
    loop {
        let connections = count.say(&words(0)).unwrap().number;
        if connections == expected {
            return;
        }
        assert!(clock::now() < end, "{connections} instead of {expected} connections");
        thread::yield_now();
    }
}

fn payload(thread: u64, number: u64) -> Words {
    let length = usize::try_from(number % 300).unwrap();
    let byte = u8::try_from(thread).unwrap();
    Words { number: thread << 32 | number, data: Bytes::from(vec![byte; length]) }
}

#[timed]
fn eight_threads_call_through_clones_of_one_caller() {
    let served = Served::start();
    let client = Client::new();
    let caller = EchoCaller::new(&client, &served.address).unwrap();
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let caller = caller.clone();
            thread::spawn(move || {
                for call in 0..CALLS {
                    let request = payload(number, call);
                    assert_eq!(caller.say(&request).unwrap(), request);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(client.connections().is_empty(), "connections end with their threads");
}

#[timed]
fn scoped_threads_share_one_caller_by_reference() {
    let served = Served::start();
    let client = Client::new();
    let caller = EchoCaller::new(&client, &served.address).unwrap();
    let all_connected = Barrier::new(usize::try_from(THREADS).unwrap() + 1);
    let sum = AtomicU64::new(0);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (caller, all_connected, sum) = (&caller, &all_connected, &sum);
            let thread = thread::Builder::new().name(format!("worker-{number}"));
            let work = move || {
                for call in 0..CALLS {
                    let reply = caller.say(&payload(number, call)).unwrap();
                    sum.fetch_add(reply.number & 0xffff_ffff, Ordering::Relaxed);
                }
                all_connected.wait();
                all_connected.wait();
            };
            thread.spawn_scoped(scope, work).unwrap();
        }
        all_connected.wait();
        let connections = client.connections();
        // Nothing is checked before the threads may end: a failure must not keep them.
        all_connected.wait();
        assert_eq!(connections.len() as u64, THREADS);
        let mut names: Vec<_> = connections
            .iter()
            .map(|info| info.thread.clone().unwrap())
            .inspect(|thread| assert_ne!(thread.tid, nearcall_os::process::tid()))
            .map(|thread| thread.name.unwrap())
            .collect();
        names.sort_unstable();
        let expected: Vec<_> = (0..THREADS).map(|number| format!("worker-{number}")).collect();
        assert_eq!(names, expected);
        for info in &connections {
            assert_eq!(info.descriptors, 3, "{info}");
            assert_eq!(info.room_bytes, 2 * (256 << 10), "{info}");
            assert_eq!((info.slots_lent, info.slots_borrowed), (None, None), "{info}");
        }
    });
    assert_eq!(sum.into_inner(), THREADS * (CALLS - 1) * CALLS / 2);
    // A scope ends before the thread-local values of its threads are dropped.
    while !client.connections().is_empty() {
        thread::yield_now();
    }
}

/// One more thread than may have a connection of its own shares one.
#[timed]
fn the_threads_of_a_client_have_as_many_connections_as_its_limit() {
    let served = Served::start();
    let limits = Limits { client_connections_max: 2, ..Limits::default() };
    let client = Client::builder().limits(limits).build();
    let caller = EchoCaller::new(&client, &served.address).unwrap();
    caller.nothing(&()).unwrap();
    // Another address is another connection.
    let pipe = EchoCaller::new(&client, &served.via("?via=pipe")).unwrap();
    pipe.nothing(&()).unwrap();
    let (caller, kept) = thread::spawn(move || {
        caller.nothing(&()).unwrap();
        (caller, pipe)
    })
    .join()
    .unwrap();
    // Those that are there go on.
    caller.nothing(&()).unwrap();
    kept.nothing(&()).unwrap();
    let connections = client.connections();
    let of_threads = connections.iter().filter(|it| it.thread.is_some()).count();
    assert_eq!((of_threads, connections.len()), (2, 3), "{connections:?}");
}

#[timed]
fn a_thread_that_has_ended_makes_room_for_another() {
    let served = Served::start();
    let limits = Limits { client_connections_max: 1, ..Limits::default() };
    let client = Client::builder().limits(limits).build();
    let caller = EchoCaller::new(&client, &served.address).unwrap();
    for _ in 0..20 {
        thread::scope(|scope| {
            let call = || caller.nothing(&());
            scope.spawn(call).join().unwrap().unwrap();
        });
    }
}

#[timed]
fn a_handshake_that_fails_gives_its_place_back() {
    let limits = Limits { client_connections_max: 1, ..Limits::default() };
    let client = Client::builder().limits(limits).build();
    let address = unique_address();
    let caller = EchoCaller::new(&client, &address).unwrap();
    for _ in 0..3 {
        assert_eq!(caller.nothing(&()).unwrap_err().code(), Code::Unavailable);
    }
    assert!(client.connections().is_empty());
}

/// Ends that see each other's end in different ways.
const VIAS: [&str; 4] = ["", "?via=unix-stream", "?via=shm-futex", "?via=pipe"];

thread_local! {
    /// Dropped after or before the connections of its thread.
    static KEPT: RefCell<Option<PendingCall<Words>>> = const { RefCell::new(None) };
}

/// Starts a call that is never answered.
type Start = fn(&EchoCaller) -> PendingCall<Words>;

/// Has a thread start a call that is never answered, do `keep` with it and end. The server has to
/// see the end.
fn ends_with_a_call(vias: &[&str], keep: fn(&EchoCaller, Start)) {
    let served = counting();
    for via in vias {
        let client = Client::new();
        let count = EchoCaller::new(&client, &served.via("#count")).unwrap();
        wait_for_connections(&count, 1);
        let caller = EchoCaller::new(&client, &served.via(via)).unwrap();
        let there = caller.clone();
        thread::spawn(move || keep(&there, |caller| start_later(caller, 1))).join().unwrap();
        wait_for_connections(&count, 1);
        assert_eq!(client.connections().len(), 1, "{via}");
        // The caller is as good as before.
        caller.nothing(&()).unwrap();
    }
}

#[timed]
fn a_thread_that_ends_with_a_call_in_flight_closes_its_connection() {
    ends_with_a_call(&VIAS, |caller, start| drop((start(caller), caller.nothing(&()))));
}

#[timed]
fn a_thread_that_forgets_a_call_closes_its_connection() {
    // Over others the descriptors are as lost as the call.
    let vias = ["", "?via=shm-futex"];
    ends_with_a_call(&vias, |caller, start| std::mem::forget(start(caller)));
}

#[timed]
fn a_call_in_a_thread_local_that_goes_later_does_not_keep_the_connection() {
    ends_with_a_call(&VIAS, |caller, start| {
        KEPT.with_borrow_mut(|kept| *kept = None);
        let call = start(caller);
        KEPT.with_borrow_mut(|kept| *kept = Some(call));
    });
}

#[timed]
fn a_call_in_a_thread_local_that_goes_first_is_cancelled() {
    ends_with_a_call(&VIAS, |caller, start| {
        let call = start(caller);
        KEPT.with_borrow_mut(|kept| *kept = Some(call));
    });
}

/// Calls when its thread has ended so far that it is dropped.
struct CallsAtTheEnd(EchoCaller, mpsc::Sender<Result<(), Status>>);

impl Drop for CallsAtTheEnd {
    fn drop(&mut self) {
        self.1.send(self.0.nothing(&())).unwrap();
    }
}

thread_local! {
    static LAST: RefCell<Option<CallsAtTheEnd>> = const { RefCell::new(None) };
}

#[timed]
fn a_call_from_the_end_of_a_thread_works_or_is_refused() {
    let served = counting();
    let client = Client::new();
    let count = EchoCaller::new(&client, &served.via("#count")).unwrap();
    for first in [true, false] {
        let (give, take) = mpsc::channel();
        let caller = EchoCaller::new(&client, &served.address).unwrap();
        thread::spawn(move || {
            if first {
                caller.nothing(&()).unwrap();
            }
            let last = CallsAtTheEnd(caller.clone(), give);
            LAST.with_borrow_mut(|place| *place = Some(last));
            caller.nothing(&()).unwrap();
        })
        .join()
        .unwrap();
        // Either the thread-local value went first, or the connections did.
        if let Err(status) = take.recv().unwrap() {
            assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
            assert!(status.message().contains("thread is ending"), "{status}");
        }
        wait_for_connections(&count, 1);
    }
}

#[timed]
fn the_last_handle_may_be_dropped_in_another_thread() {
    let served = counting();
    let count = served.echo("#count");
    for via in ["", "?via=shm-futex", "?via=shm-eventfd"] {
        let caller = served.echo(via);
        let (give, take) = mpsc::channel();
        let (go_on, wait) = mpsc::channel::<()>();
        let (other_address, there) = (served.address.clone(), caller.clone());
        let user = thread::spawn(move || {
            there.nothing(&()).unwrap();
            drop(there);
            give.send(()).unwrap();
            // Lives on without the client, and then uses another.
            wait.recv().unwrap();
            let other = EchoCaller::new(&Client::new(), &other_address).unwrap();
            other.nothing(&()).unwrap();
        });
        take.recv().unwrap();
        wait_for_connections(&count, 2);
        drop(caller);
        wait_for_connections(&count, 1);
        go_on.send(()).unwrap();
        user.join().unwrap();
        wait_for_connections(&count, 1);
    }
}

#[timed]
fn a_started_call_outlives_the_last_handle() {
    let served = serve_scripted(Limits::default(), |_| keeper());
    let watching = served.echo("#s");
    let caller = served.echo("#s");
    let (give, take) = mpsc::channel();
    let (go_on, wait) = mpsc::channel::<()>();
    let here = start_later(&caller, 1);
    let there = caller.clone();
    let other = thread::spawn(move || {
        let call = start_later(&there, 2);
        drop(there);
        give.send(()).unwrap();
        wait.recv().unwrap();
        call.wait().unwrap().number
    });
    take.recv().unwrap();
    drop(caller);
    let wanted = watching.say(&words(command::WANTED)).unwrap().number;
    assert_eq!(wanted, 2, "both are under way");
    watching.say(&words(command::ANSWER)).unwrap();
    go_on.send(()).unwrap();
    assert_eq!(here.wait().unwrap().number, 1);
    assert_eq!(other.join().unwrap(), 2);
}

#[timed]
fn a_client_of_a_loop_blocks_other_threads_while_the_loop_is_called_directly() {
    let (event_loop, server, address) =
        serve_here(&unique_address(), EchoDispatcher::new(Service::default()));
    let client = Client::in_loop(&event_loop);
    let caller = EchoCaller::new(&client, &address).unwrap();
    let there = caller.clone();
    let other = thread::spawn(move || {
        let seen = there.look(&()).unwrap();
        for number in 0..CALLS {
            assert_eq!(there.say(&words(number)).unwrap().number, number);
        }
        seen.local
    });
    while !other.is_finished() {
        assert!(caller.look(&()).unwrap().local, "the loop's thread takes the short circuit");
        event_loop.next(Deadline::after(Duration::from_millis(1))).unwrap();
    }
    assert!(!other.join().unwrap(), "another thread goes over the mechanism");
    turn_until(&event_loop, || server.connections().is_empty());
}

#[timed]
fn an_object_of_the_same_loop_is_no_other_threads() {
    let (event_loop, _server, _) =
        serve_here("inproc:threads", EchoDispatcher::new(Service::default()));
    let client = Client::in_loop(&event_loop);
    let caller = EchoCaller::new(&client, "inproc:threads").unwrap();
    caller.nothing(&()).unwrap();
    let refused = thread::spawn(move || caller.nothing(&()).unwrap_err()).join().unwrap();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("servers of the same loop only"), "{refused}");
}

#[timed]
fn a_loop_may_be_dropped_before_its_client() {
    let served = counting();
    let count = served.echo("#count");
    let event_loop = EventLoop::new().unwrap();
    let client = Client::in_loop(&event_loop);
    let caller = EchoCaller::new(&client, &served.address).unwrap();
    caller.nothing(&()).unwrap();
    wait_for_connections(&count, 2);
    drop(event_loop);
    let there = caller.clone();
    thread::spawn(move || there.nothing(&())).join().unwrap().unwrap();
    drop((client, caller));
    wait_for_connections(&count, 1);
}

#[timed]
fn the_client_of_a_loop_may_be_dropped_in_another_thread() {
    let served = counting();
    let count = served.echo("#count");
    let event_loop = EventLoop::new().unwrap();
    let caller = EchoCaller::new(&Client::in_loop(&event_loop), &served.address).unwrap();
    caller.nothing(&()).unwrap();
    wait_for_connections(&count, 2);
    thread::spawn(move || drop(caller)).join().unwrap();
    wait_for_connections(&count, 1);
    event_loop.next(Deadline::NOW).unwrap();
}

#[timed]
fn a_service_calls_through_the_caller_that_is_being_called() {
    let address = unique_address();
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    let client = Client::in_loop(&event_loop).without_short_circuit();
    let caller = EchoCaller::new(&client, &address).unwrap();
    let again = caller.clone();
    let count_down = move |_: &Context<'_>, request: &Words| match request.number {
        0 => Ok(words(0)),
        number => Ok(words(again.say(&words(number - 1))?.number + 1)),
    };
    server.register(EchoDispatcher::new(Scripted::new(count_down))).unwrap();
    server.listen(&everything(&address)).unwrap();
    assert_eq!(caller.say(&words(10)).unwrap().number, 10);
    // The service holds a caller of the loop, and must go before it.
    server.unregister("echo.v1.Echo");
}

fn builder() -> ClientBuilder<'static> {
    Client::builder()
}

#[timed]
fn the_default_deadline_is_for_calls_that_have_none() {
    let served = Served::start();
    let caller = |default| {
        let client = builder().default_deadline(default).build();
        EchoCaller::new(&client, &served.address).unwrap()
    };
    expect_code(caller(Duration::from_millis(20)).later(&words(1)), Code::DeadlineExceeded);
    let caller = caller(Duration::from_secs(60));
    let left = |options| caller.with(options).look(&()).unwrap().remaining_ns;
    let seconds = |s| u64::try_from(Duration::from_secs(s).as_nanos()).unwrap();
    let default = left(CallOptions::new());
    assert!(0 < default && default <= seconds(60), "{default}");
    let own = left(CallOptions::new().deadline(Duration::from_secs(200)));
    assert!(seconds(60) < own && own <= seconds(200), "{own}");
    assert_eq!(left(CallOptions::new().no_deadline()), 0, "it has none at all");
}

#[timed]
fn a_client_that_never_reconnects_names_the_end_of_its_connection() {
    let served = Served::start();
    let address = served.address.clone();
    let client = builder().reconnect(ReconnectPolicy::Never).build();
    let caller = EchoCaller::new(&client, &address).unwrap();
    caller.nothing(&()).unwrap();
    drop(served);
    expect_code(caller.nothing(&()), Code::Unavailable);
    let _served = Served::at(&address);
    for caller in [&caller, &EchoCaller::new(&client, &address).unwrap()] {
        expect_error(caller.nothing(&()), Code::Unavailable, &["connects once"]);
    }
    // One call may say otherwise.
    let once = CallOptions::new().reconnect(ReconnectPolicy::Once);
    caller.with(once).nothing(&()).unwrap();
    caller.nothing(&()).unwrap();
}

#[timed]
fn a_call_that_waits_is_served_by_a_server_that_starts_later() {
    let address = unique_address();
    let client = builder().reconnect(ReconnectPolicy::Wait(PATIENCE)).build();
    let caller = EchoCaller::new(&client, &address).unwrap();
    let (give, take) = mpsc::channel();
    let there = caller.clone();
    let waiting = thread::spawn(move || {
        let once = CallOptions::new().reconnect(ReconnectPolicy::Once);
        give.send(there.with(once).nothing(&())).unwrap();
        there.say(&words(7))
    });
    expect_code(take.recv().unwrap(), Code::Unavailable);
    let served = Served::at(&address);
    assert_eq!(waiting.join().unwrap().unwrap().number, 7);
    // The same for a server that starts again.
    caller.nothing(&()).unwrap();
    drop(served);
    let _served = Served::at(&address);
    // A call that went to the server that has ended may have run, and is not repeated.
    if let Err(gone) = caller.nothing(&()) {
        assert_eq!(gone.code(), Code::Unavailable, "{gone}");
        caller.nothing(&()).unwrap();
    }
}

#[timed]
fn waiting_for_a_server_ends_with_the_call() {
    let address = unique_address();
    let waits = builder().reconnect(ReconnectPolicy::Wait(PATIENCE)).build();
    let caller = EchoCaller::new(&waits, &address).unwrap();
    let short = CallOptions::new().deadline(Duration::from_millis(30));
    expect_error(caller.with(short).nothing(&()), Code::DeadlineExceeded, &["no server listens"]);
    let briefly = ReconnectPolicy::Wait(Duration::from_millis(30));
    expect_code(caller.with(CallOptions::new().reconnect(briefly)).nothing(&()), Code::Unavailable);
}
