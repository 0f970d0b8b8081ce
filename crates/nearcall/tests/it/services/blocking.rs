//! Methods that block, in the threads of a pool.

use nearcall::observe::{CallEnd, Interceptor, RefusalKind};
use nearcall::service::{Blocking, BlockingPool, WhenFull};

use super::{Threaded, code, serve, thread_number};
use crate::stage::prelude::*;

const WAYS: [&str; 3] = ["", "?via=shm-futex", "?via=unix-stream"];

/// A service whose `Say` waits for the test with requests above zero.
struct Gate {
    entered: Arc<AtomicUsize>,
    open: mpsc::Sender<()>,
}

impl Gate {
    fn new() -> (Self, EchoDispatcher<Threaded>) {
        let (open, opened) = mpsc::channel();
        let (entered, opened) = (Arc::new(AtomicUsize::new(0)), Mutex::new(opened));
        let inside = Arc::clone(&entered);
        let service = Threaded::new(move |_, request| {
            if request.number > 0 {
                inside.fetch_add(1, Ordering::SeqCst);
                opened.lock().unwrap().recv().unwrap();
            }
            Ok(request.clone())
        });
        (Self { entered, open }, service)
    }

    fn wait_for(&self, count: usize) {
        wait_until("methods that block", || self.entered.load(Ordering::SeqCst) == count);
    }

    fn open(&self) {
        self.open.send(()).unwrap();
    }
}

/// Long enough that a call gets to its service on a busy machine.
const SOON: Duration = Duration::from_millis(500);

#[timed]
fn a_method_that_blocks_holds_nobody_up() {
    for way in WAYS {
        let (gate, service) = Gate::new();
        let pool = BlockingPool::builder().threads(2).build();
        let served = serve(Limits::default(), Blocking::new(service, &pool));
        let (client, other) = (Client::new(), Client::new());
        let blocked = EchoCaller::new(&client, &served.via(&format!("{way}#s"))).unwrap();
        let blocked = blocked.start_say(&words(1));
        gate.wait_for(1);
        // Through the pool, and on the loop: all of it while the method blocks.
        let echo = EchoCaller::new(&other, &served.via("#s")).unwrap();
        let plain = EchoCaller::new(&other, &served.via("")).unwrap();
        for _ in 0..200 {
            assert_eq!(echo.say(&words(0)).unwrap().number, 0);
            plain.nothing(&()).unwrap();
        }
        assert_eq!(gate.entered.load(Ordering::SeqCst), 1);
        gate.open();
        assert_eq!(blocked.wait().unwrap().number, 1);
    }
}

#[timed]
fn a_full_pool_refuses_and_the_server_counts_it() {
    let (gate, service) = Gate::new();
    let pool = BlockingPool::builder().threads(1).queue(1).build();
    let builder = Server::builder().register(Blocking::new(service, &pool));
    let server = builder.listen(&unique_address()).start().unwrap();
    let client = Client::new();
    let echo = EchoCaller::new(&client, &server.address().to_string()).unwrap();
    let first = echo.start_say(&words(1));
    gate.wait_for(1);
    let second = echo.start_say(&words(2));
    wait_until("the second call", || pool.waiting() == 1);
    expect_error(echo.say(&words(3)), Code::ResourceExhausted, &["1 threads"]);
    let [counted] = server.refusals().try_into().unwrap();
    assert_eq!((counted.kind, counted.count), (RefusalKind::ResourceLimit, 1));
    gate.open();
    gate.open();
    assert_eq!(first.wait().unwrap().number, 1);
    assert_eq!(second.wait().unwrap().number, 2);
    assert_eq!((pool.threads(), pool.waiting()), (1, 0));
}

#[timed]
fn a_full_pool_can_let_calls_wait() {
    let (gate, service) = Gate::new();
    let when_full = WhenFull::WaitUntilDeadline;
    let pool = BlockingPool::builder().threads(1).queue(0).when_full(when_full).build();
    let served = serve(Limits::default(), Blocking::new(service, &pool));
    let client = Client::new();
    let echo = EchoCaller::new(&client, &served.via("#s")).unwrap();
    let first = echo.start_say(&words(1));
    gate.wait_for(1);
    let late = echo.with(CallOptions::new().deadline(SOON)).start_say(&words(2));
    let patient = echo.start_say(&words(3));
    wait_until("both calls", || pool.waiting() == 2);
    assert_eq!(code(late.wait()), Code::DeadlineExceeded);
    // It comes after the news of that.
    EchoCaller::new(&client, &served.via("")).unwrap().nothing(&()).unwrap();
    gate.open();
    gate.open();
    assert_eq!(first.wait().unwrap().number, 1);
    assert_eq!(patient.wait().unwrap().number, 3);
    // The one whose time was up did not run.
    assert_eq!(echo.say(&words(0)).unwrap().number, 0);
    assert_eq!(gate.entered.load(Ordering::SeqCst), 2);
}

/// Calls that were given up take no place in the queue.
#[timed]
fn calls_that_were_given_up_make_room() {
    let (gate, service) = Gate::new();
    let pool = BlockingPool::builder().threads(1).queue(2).build();
    let served = serve(Limits::default(), Blocking::new(service, &pool));
    let echo = served.echo("#s");
    let first = echo.start_say(&words(1));
    gate.wait_for(1);
    let dropped: Vec<_> = (0..2).map(|_| echo.start_say(&words(2))).collect();
    wait_until("both calls", || pool.waiting() == 2);
    drop(dropped);
    // It comes after the cancellations.
    let last = echo.start_say(&words(3));
    wait_until("the last call", || pool.waiting() == 1);
    gate.open();
    gate.open();
    assert_eq!(first.wait().unwrap().number, 1);
    assert_eq!(last.wait().unwrap().number, 3);
}

#[timed]
fn a_panic_in_a_pool_ends_its_call_only() {
    let service = Threaded::new(|_, request| Ok(request.clone()));
    let pool = BlockingPool::builder().threads(1).build();
    let served = serve(Limits::default(), Blocking::new(service, &pool));
    let echo = served.echo("#s");
    for number in 0..10 {
        assert_eq!(code(echo.panic(&())), Code::Unknown);
        assert_eq!(echo.say(&words(number)).unwrap().number, number);
    }
    assert_eq!(pool.threads(), 1);
}

#[timed]
fn a_method_in_a_pool_learns_of_the_end_of_its_call() {
    let (entered, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (inside, seen) = (Arc::clone(&entered), Arc::clone(&ended));
    let service = Threaded::new(move |context, _| {
        inside.fetch_add(1, Ordering::SeqCst);
        while !context.is_cancelled() {
            thread::yield_now();
        }
        seen.fetch_add(1, Ordering::SeqCst);
        Err(Status::cancelled("the caller does not wait any more"))
    });
    let pool = BlockingPool::builder().threads(3).build();
    let served = serve(Limits::default(), Blocking::new(service, &pool));
    let echo = served.echo("#s");
    let cancelled = echo.start_say(&words(1));
    let late = echo.with(CallOptions::new().deadline(SOON)).start_say(&words(2));
    let left = echo.start_say(&words(3));
    // One that has ended before is not run.
    wait_until("the methods", || entered.load(Ordering::SeqCst) == 3);
    drop(cancelled);
    assert_eq!(code(late.wait()), Code::DeadlineExceeded);
    wait_until("two of them", || {
        let _ = echo.fail(&Failure::default());
        ended.load(Ordering::SeqCst) == 2
    });
    drop((left, echo));
    wait_until("the last", || ended.load(Ordering::SeqCst) == 3);
}

/// What a method in a pool sees of its call, and what calls of its own inherit.
#[timed]
fn a_call_in_a_pool_is_like_any_other() {
    let far = serve(Limits::default(), Threaded::new(|_, request| Ok(request.clone())));
    let far_at = far.via("#s");
    let service = Threaded::new(move |context, request| {
        let far = EchoCaller::new(&Client::new(), &far_at).unwrap();
        assert_eq!(context.method(), "Say");
        assert_eq!(context.metadata().get("key"), Some("value"));
        assert_eq!(context.peer().pid(), i32::try_from(std::process::id()).ok());
        let data = request.data.clone();
        Ok(Words { number: far.look(&())?.remaining_ns, data })
    });
    let pool = BlockingPool::builder().build();
    let served = serve(Limits::default(), Blocking::new(service, &pool));
    let client = Client::new();
    let minute = Duration::from_secs(60);
    for way in WAYS.iter().copied().chain(["?trust=same-user"]) {
        let echo = EchoCaller::new(&client, &served.via(&format!("{way}#s"))).unwrap();
        for data_bytes in [0, 100, 5_000, 100_000, 1 << 20] {
            let mut data = echo.loan(data_bytes).unwrap();
            data.fill(3);
            let request = Words { data: data.freeze(), number: 0 };
            let options = CallOptions::new().deadline(minute).metadata("key", "value").unwrap();
            let answer = echo.with(options.clone()).say(&request).unwrap();
            assert_eq!(answer.data, request.data);
            let remaining_ns = u128::from(answer.number);
            assert!((1..=minute.as_nanos()).contains(&remaining_ns), "{remaining_ns}");
        }
    }
}

#[timed]
fn only_the_methods_that_were_named_leave_the_loop() {
    let service = Threaded::new(|_, _| Ok(words(thread_number())));
    let pool = BlockingPool::builder().threads(1).build();
    let blocking = Blocking::new(service, &pool).methods(&["Say"]);
    let served = serve(Limits::default(), blocking);
    let echo = served.echo("#s");
    let (there, here) = (echo.say(&words(0)).unwrap(), echo.quick(&words(0)).unwrap());
    assert_ne!(there.number, here.number);
    assert_eq!(echo.later(&words(0)).unwrap().number, here.number);
}

#[test]
#[should_panic(expected = "has no method `Shout`; it has: Say, Nothing")]
fn a_method_that_does_not_exist_cannot_be_named() {
    let service = Threaded::new(|_, request| Ok(request.clone()));
    let pool = BlockingPool::builder().build();
    let _ = Blocking::new(service, &pool).methods(&["Shout"]);
}

#[test]
#[should_panic(expected = "0 threads")]
fn a_pool_without_threads_is_refused() {
    let _ = BlockingPool::builder().threads(0);
}

/// A caller of the loop's own thread does not run the method there either.
#[timed]
fn the_short_circuit_goes_through_the_pool() {
    let pool = BlockingPool::builder().threads(1).build();
    let service = Threaded::new(|context, request| match request.number {
        0 => Ok(words(thread_number())),
        _ => context.answer_later(|responder| responder.finish(Ok(words(7)))),
    });
    let (event_loop, _server, address) =
        serve_here("inproc:blocking", Blocking::new(service, &pool));
    let client = Client::in_loop(&event_loop);
    let echo = EchoCaller::new(&client, &address).unwrap();
    assert_ne!(echo.say(&words(0)).unwrap().number, thread_number());
    assert_eq!(echo.say(&words(1)).unwrap().number, 7);
    assert_eq!(code(echo.panic(&())), Code::Unknown);
    echo.note(&words(1)).unwrap();
    echo.nothing(&()).unwrap();
}

#[timed]
fn a_pool_that_closes_answers_what_waits_in_it() {
    let (gate, service) = Gate::new();
    let pool = BlockingPool::builder().threads(1).build();
    let (event_loop, server, address) =
        serve_here(&unique_address(), Blocking::new(service, &pool));
    let client = Client::in_loop(&event_loop).without_short_circuit();
    let echo = EchoCaller::new(&client, &address).unwrap();
    let runs = echo.start_say(&words(1));
    turn_until(&event_loop, || gate.entered.load(Ordering::SeqCst) == 1);
    let waits = echo.start_say(&words(2));
    turn_until(&event_loop, || pool.waiting() == 1);
    drop(pool);
    assert!(!waits.is_done(), "the dispatcher holds the pool");
    assert!(server.unregister("echo.v1.Echo"));
    assert_eq!(code(waits.wait()), Code::Unavailable);
    gate.open();
    assert_eq!(runs.wait().unwrap().number, 1, "what runs is not waited for, and counts");
}

/// An interceptor of a call that has left the queue may use the pool.
#[test]
fn interceptors_of_calls_that_were_given_up_may_look_at_the_pool() {
    struct Looks(BlockingPool, mpsc::Sender<Code>);

    impl Interceptor for Looks {
        fn end(&self, call: &CallEnd<'_>) {
            if self.0.waiting() <= 1 {
                let _ = self.1.send(call.code());
            }
        }
    }

    in_time(|| {
        let (gate, service) = Gate::new();
        let pool = BlockingPool::builder().threads(1).queue(1).build();
        let blocking = Blocking::new(service, &pool);
        let (give, ends) = mpsc::channel();
        let interceptor = Looks(pool.clone(), give);
        let served = Served::with(Limits::default(), "", move |_, server, _| {
            server.add_interceptor(interceptor);
            server.register_as("s", blocking).unwrap();
        });
        let echo = served.echo("#s");
        let first = echo.start_say(&words(1));
        gate.wait_for(1);
        let given_up = echo.start_say(&words(2));
        wait_until("the second call", || pool.waiting() == 1);
        drop(given_up);
        let third = echo.start_say(&words(3));
        assert_eq!(ends.recv().unwrap(), Code::Cancelled);
        gate.open();
        gate.open();
        assert_eq!(first.wait().unwrap().number, 1);
        assert_eq!(third.wait().unwrap().number, 3);
    });
}
