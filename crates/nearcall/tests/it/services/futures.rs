//! Async services: methods whose futures answer, on the loop and on tokio.

use std::future::poll_fn;
use std::task::{Poll, Waker};

use nearcall::client::PendingCall;
use nearcall::service::TaskRunner;

use super::{Futures, Shelf, code, put, serve, thread_number, wait_for};
use crate::stage::prelude::*;

/// Something that a future waits for and another thread does.
#[derive(Default)]
struct Signal(Mutex<(bool, Option<Waker>)>);

impl Signal {
    fn set(&self) {
        let waker = {
            let mut state = self.0.lock().unwrap();
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    async fn wait(&self) {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            state.1 = Some(context.waker().clone());
            if state.0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Lets others have their turn once.
async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_time().build().unwrap()
}

/// Polls each future in the loop, and runs those that wait in the runtime.
fn pending_on(runtime: &tokio::runtime::Runtime) -> TaskRunner {
    let (inside, handle) = (runtime.handle().clone(), runtime.handle().clone());
    let enter = move |poll: &mut dyn FnMut()| {
        let _inside = inside.enter();
        poll();
    };
    TaskRunner::spawn_pending_on(enter, move |task| {
        handle.spawn(task);
    })
}

/// The three ways in which the futures of these tests run. The runtime ends with its tests.
fn with_runners(test: impl Fn(&TaskRunner)) {
    test(&TaskRunner::default());
    let runtime = runtime();
    let handle = runtime.handle().clone();
    test(&TaskRunner::spawn_on(move |task| {
        handle.spawn(task);
    }));
    test(&pending_on(&runtime));
}

/// Long enough that a call gets to its service on a busy machine.
const SOON: Duration = Duration::from_millis(250);

#[timed]
fn a_future_answers() {
    with_runners(|runner| {
        let service = Futures::new(|context, request: Words| async move {
            match request.number % 4 {
                0 => Ok(request),
                1 => {
                    yield_now().await;
                    Ok(request)
                }
                2 => {
                    let signal = Arc::new(Signal::default());
                    let other = Arc::clone(&signal);
                    thread::spawn(move || other.set());
                    signal.wait().await;
                    assert_eq!(context.method(), "Say");
                    assert_eq!(context.metadata().get("key"), Some("value"));
                    assert!(context.remaining().is_some() && !context.is_cancelled());
                    Ok(request)
                }
                _ => Err(Status::not_found("three")),
            }
        });
        let served = serve(Limits::default(), service.on(runner));
        let client = Client::new();
        for way in ["", "?via=shm-futex", "?via=unix-stream", "?via=shm-spin&wait=spin"] {
            let echo = EchoCaller::new(&client, &served.via(&format!("{way}#s"))).unwrap();
            let options = CallOptions::new().deadline(Duration::from_secs(60));
            let options = options.metadata("key", "value").unwrap();
            let lengths = [0, 100, 20_000, 1 << 20, 5_000].into_iter().cycle();
            for (number, data_bytes) in (0..100).zip(lengths) {
                let data = vec![1; data_bytes].into();
                let request = Words { number, data };
                let answer = echo.with(options.clone()).say(&request);
                match number % 4 {
                    3 => assert_eq!(code(answer), Code::NotFound),
                    _ => assert_eq!(answer.unwrap(), request),
                }
            }
            echo.note(&words(0)).unwrap();
        }
    });
}

#[timed]
fn futures_on_the_loop_run_in_its_thread_and_many_at_once() {
    const CALLS: u64 = 4_096;
    let (signal, running) = (Arc::new(Signal::default()), Arc::new(AtomicUsize::new(0)));
    let (signals, inside) = (Arc::new(Mutex::new(Vec::new())), Arc::clone(&running));
    let kept = Arc::clone(&signals);
    let service = Futures::new(move |_, _: Words| {
        let (own, inside) = (Arc::new(Signal::default()), Arc::clone(&inside));
        kept.lock().unwrap().push(Arc::clone(&own));
        async move {
            inside.fetch_add(1, Ordering::SeqCst);
            own.wait().await;
            Ok(words(thread_number()))
        }
    });
    drop(signal);
    let limits = Limits { calls_max: 4_096, ..Limits::default() };
    let served = serve(limits, service);
    let client = Client::with_limits(None, limits);
    let echo = EchoCaller::new(&client, &served.via("#s")).unwrap();
    let calls: Vec<_> = (0..CALLS).map(|_| echo.start_say(&words(0))).collect();
    wait_until("all futures", || running.load(Ordering::SeqCst) as u64 == CALLS);
    let open = || signals.lock().unwrap().drain(..).rev().for_each(|signal| signal.set());
    thread::scope(|scope| scope.spawn(open).join().unwrap());
    let threads: Vec<_> = calls.into_iter().map(|call| call.wait().unwrap().number).collect();
    assert!(threads.iter().all(|number| *number == threads[0]));
    assert_ne!(threads[0], thread_number());
}

/// What is done at its first poll is done by the loop, within the runtime: only what waits changes
/// threads.
#[timed]
fn futures_that_wait_leave_the_loop() {
    let service = Futures::new(|_, request: Words| async move {
        let first = thread_number();
        if request.number > 0 {
            tokio::time::sleep(Duration::from_millis(request.number)).await;
        }
        Ok(Words { number: first, data: thread_number().to_le_bytes().to_vec().into() })
    });
    let runtime = runtime();
    let served = serve(Limits::default(), service.on(&pending_on(&runtime)));
    let echo = EchoCaller::new(&Client::new(), &served.via("#s")).unwrap();
    let threads = |wait_ms| {
        let reply = echo.say(&words(wait_ms)).unwrap();
        (reply.number, u64::from_le_bytes(reply.data[..].try_into().unwrap()))
    };
    let (first, last) = threads(0);
    assert_eq!(first, last);
    assert_eq!(threads(0), (first, first), "the loop");
    let (began, ended) = threads(1);
    assert_eq!(began, first);
    assert_ne!(ended, first, "a thread of the runtime");
}

/// How a call of a test ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Cancelled,
    Late,
    Disconnected,
}

/// A future with several points at which it waits, and what is seen of it.
#[derive(Default)]
struct Walk {
    signals: [Signal; POINTS],
    reached: AtomicUsize,
    dropped: AtomicUsize,
    cancelled: AtomicUsize,
}

const POINTS: usize = 4;

struct CountsItsEnd(Arc<Walk>);

impl Drop for CountsItsEnd {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

impl Walk {
    /// A future that has not begun when its call ends is dropped as well.
    fn go(self: Arc<Self>) -> impl Future<Output = Result<Words, Status>> + Send + 'static {
        let end = CountsItsEnd(Arc::clone(&self));
        async move {
            let _end = end;
            for signal in &self.signals {
                self.reached.fetch_add(1, Ordering::SeqCst);
                signal.wait().await;
            }
            Ok(Words::default())
        }
    }

    fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }
}

/// Ends a call whose future has reached `point`, and checks that it was dropped there, once.
fn end_at(point: usize, end: End, runner: &TaskRunner, way: &str) {
    let walk = Arc::<Walk>::default();
    let of_call = Arc::clone(&walk);
    let service = Futures::new(move |context, _: Words| {
        let walk = Arc::clone(&of_call);
        let watched = Arc::clone(&walk);
        let waker = Waker::from(Arc::new(OnEnd(Arc::clone(&walk))));
        let mut ended = Box::pin(context.cancelled());
        let polled = ended.as_mut().poll(&mut std::task::Context::from_waker(&waker));
        assert!(polled.is_pending());
        thread::spawn(move || {
            // Holds what waits for the end until it has come.
            wait_until("the end", || watched.cancelled.load(Ordering::SeqCst) > 0);
            assert!(ended.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_ready());
        });
        walk.go()
    });
    let served = serve(Limits::default(), service.on(runner));
    let client = Client::new();
    let echo = EchoCaller::new(&client, &served.via(&format!("{way}#s"))).unwrap();
    let other = EchoCaller::new(&client, &served.via(way)).unwrap();
    let until = match end {
        End::Late => CallOptions::new().deadline(SOON),
        _ => CallOptions::new(),
    };
    // Connected, so that all of the time is the call's.
    other.nothing(&()).unwrap();
    let call = echo.with(until.clone()).start_say(&words(0));
    walk.signals[..point].iter().for_each(Signal::set);
    // On a busy machine the deadline may pass before.
    let is_late = || matches!(end, End::Late) && walk.dropped() == 1;
    wait_until("the point", || walk.reached.load(Ordering::SeqCst) == point + 1 || is_late());
    match end {
        End::Cancelled => drop(call),
        End::Late => assert_eq!(code(call.wait()), Code::DeadlineExceeded),
        End::Disconnected => drop((call, echo, client)),
    }
    wait_until("the drop", || walk.dropped() == 1);
    wait_until("the notice", || walk.cancelled.load(Ordering::SeqCst) == 1);
    // Nothing runs on, and the others are served.
    let reached = walk.reached.load(Ordering::SeqCst);
    walk.signals.iter().for_each(Signal::set);
    let again = served.echo("");
    again.nothing(&()).unwrap();
    if !matches!(end, End::Disconnected) {
        other.nothing(&()).unwrap();
    }
    assert_eq!((walk.reached.load(Ordering::SeqCst), walk.dropped()), (reached, 1), "{end:?}");
}

struct OnEnd(Arc<Walk>);

impl std::task::Wake for OnEnd {
    fn wake(self: Arc<Self>) {
        self.0.cancelled.fetch_add(1, Ordering::SeqCst);
    }
}

#[timed]
fn a_future_whose_call_ends_is_dropped_at_every_point() {
    with_runners(|runner| {
        for way in ["", "?via=unix-stream"] {
            for end in [End::Cancelled, End::Late, End::Disconnected] {
                (0..POINTS).for_each(|point| end_at(point, end, runner, way));
            }
        }
    });
}

#[timed]
fn a_panic_in_a_future_ends_its_call_only() {
    with_runners(|runner| {
        let service = Futures::new(|_, request: Words| {
            assert_ne!(request.number, 1, "asked for it");
            async move {
                assert_ne!(request.number, 2, "asked for it");
                yield_now().await;
                assert_ne!(request.number, 3, "asked for it");
                Ok(request)
            }
        });
        let served = serve(Limits::default(), service.on(runner));
        let echo = served.echo("#s");
        let others: Vec<PendingCall<Words>> =
            (10..20).map(|number| echo.start_say(&words(number))).collect();
        for number in 1..4 {
            assert_eq!(code(echo.say(&words(number))), Code::Unknown);
            echo.note(&words(number)).unwrap();
        }
        for (number, call) in others.into_iter().enumerate() {
            assert_eq!(call.wait().unwrap().number, number as u64 + 10);
        }
        assert_eq!(echo.say(&words(4)).unwrap().number, 4);
    });
}

/// A runtime that ends, or loses a task, does not leave its callers waiting.
#[timed]
fn a_task_that_is_dropped_fails_its_call() {
    let service = Futures::new(|_, request| async move {
        std::future::pending::<()>().await;
        Ok(request)
    });
    let shelf = Shelf::default();
    let kept = Arc::clone(&shelf);
    let dropping = service.clone().on(&TaskRunner::spawn_on(drop));
    let keeping = service.on(&TaskRunner::spawn_on(move |task| put(&kept, task)));
    let client = Client::new();
    let served = serve(Limits::default(), dropping);
    let echo = EchoCaller::new(&client, &served.via("#s")).unwrap();
    assert_eq!(code(echo.say(&words(1))), Code::Internal);
    let served = serve(Limits::default(), keeping);
    let echo = EchoCaller::new(&client, &served.via("#s")).unwrap();
    let call = echo.start_say(&words(1));
    drop(wait_for(&shelf, 1));
    assert_eq!(code(call.wait()), Code::Internal);
}

/// A task that is ready all the time takes turns with the connections.
#[timed]
fn a_task_that_never_rests_starves_nobody() {
    let ends = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&ends);
    let service = Futures::new(move |_, request: Words| {
        let end = Arc::clone(&end);
        async move {
            while request.number == 1 && !end.load(Ordering::SeqCst) {
                yield_now().await;
            }
            Ok(request)
        }
    });
    let served = serve(Limits::default(), service);
    for way in ["", "?via=shm-futex", "?via=unix-stream"] {
        let client = Client::new();
        let echo = EchoCaller::new(&client, &served.via(&format!("{way}#s"))).unwrap();
        let plain = EchoCaller::new(&client, &served.via(way)).unwrap();
        let restless: Vec<_> = (0..100).map(|_| echo.start_say(&words(1))).collect();
        for number in 2..200 {
            assert_eq!(echo.say(&words(number)).unwrap().number, number);
            plain.nothing(&()).unwrap();
        }
        ends.store(true, Ordering::SeqCst);
        restless.into_iter().for_each(|call| assert!(call.wait().is_ok()));
        ends.store(false, Ordering::SeqCst);
    }
}

/// A future makes a call of its own, which waits in rounds of the loop that poll other futures.
#[timed]
fn futures_of_a_loop_run_while_one_of_them_waits_in_a_call() {
    let far = serve(Limits::default(), Threaded::new(|_, request| Ok(words(request.number + 1))));
    let at = far.via("#s");
    let (give, take) = mpsc::channel();
    let served = thread::spawn(move || {
        let event_loop = EventLoop::new().unwrap();
        let server = Server::new(&event_loop);
        thread_local! {
            static FAR: std::cell::RefCell<Option<EchoCaller>> =
                const { std::cell::RefCell::new(None) };
        }
        let client = Client::in_loop(&event_loop);
        FAR.set(Some(EchoCaller::new(&client, &at).unwrap()));
        let service = Futures::new(|_, request| async move {
            yield_now().await;
            let answer = FAR.with_borrow(|far| far.as_ref().unwrap().say(&request))?;
            yield_now().await;
            Ok(answer)
        });
        server.register(service).unwrap();
        let address = server.listen(&unique_address()).unwrap().to_string();
        give.send((address, event_loop.stopper())).unwrap();
        event_loop.run().unwrap();
        FAR.take();
    });
    let (address, stopper) = take.recv().unwrap();
    let client = Client::new();
    let echo = EchoCaller::new(&client, &address).unwrap();
    // Few at a time: each waits inside another, and how deep is bounded.
    for _ in 0..20 {
        let calls: Vec<_> = (0..10).map(|number| echo.start_say(&words(number))).collect();
        for (number, call) in calls.into_iter().enumerate() {
            assert_eq!(call.wait().unwrap().number, number as u64 + 1);
        }
    }
    stopper.stop();
    served.join().unwrap();
}

/// Callers of the loop's own thread: the short circuit, and over a connection to itself.
#[timed]
fn futures_answer_callers_of_their_own_loop() {
    with_runners(|runner| {
        let event_loop = EventLoop::new().unwrap();
        let server = Server::new(&event_loop);
        let dropped = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&dropped);
        struct Counts(Arc<AtomicUsize>);
        impl Drop for Counts {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let service = Futures::new(move |_, request: Words| {
            let counts = Arc::clone(&counts);
            async move {
                if request.number == 0 {
                    let _counts = Counts(counts);
                    std::future::pending::<()>().await;
                }
                yield_now().await;
                Ok(request)
            }
        });
        server.register(service.on(runner)).unwrap();
        let address = server.listen(&unique_address()).unwrap().to_string();
        for (short, count) in [(true, 0), (false, 3)] {
            let client = Client::in_loop(&event_loop);
            let client = if short { client } else { client.without_short_circuit() };
            let echo = EchoCaller::new(&client, &address).unwrap();
            for number in 1..50 {
                assert_eq!(echo.say(&words(number)).unwrap().number, number);
            }
            let soon = || CallOptions::new().deadline(SOON);
            let cancelled = echo.start_say(&words(0));
            drop(cancelled);
            assert_eq!(code(echo.with(soon()).say(&words(0))), Code::DeadlineExceeded);
            let late = echo.with(soon()).start_say(&words(0));
            turn_until(&event_loop, || late.is_done());
            // One that was given up before it was received never ran.
            let due = || dropped.load(Ordering::SeqCst) >= count + 2;
            turn_until(&event_loop, due);
            let left = echo.start_say(&words(0));
            echo.say(&words(1)).unwrap();
            drop((left, echo, client));
            dropped.store(3, Ordering::SeqCst);
        }
    });
}

/// Nothing waits for a one-way message, so only the loop bounds how many go on.
#[timed]
fn one_way_futures_are_bounded() {
    const MAX: usize = 4_096;
    let entered = Arc::new(AtomicUsize::new(0));
    let (inside, signal) = (Arc::clone(&entered), Arc::new(Signal::default()));
    let opened = Arc::clone(&signal);
    let service = Futures::new(move |_, request: Words| {
        let (inside, opened) = (Arc::clone(&inside), Arc::clone(&opened));
        async move {
            if request.number == 1 {
                inside.fetch_add(1, Ordering::SeqCst);
                while !opened.0.lock().unwrap().0 {
                    std::future::pending::<()>().await;
                }
            }
            Ok(request)
        }
    });
    let served = serve(Limits::default(), service);
    let echo = served.echo("#s");
    (0..MAX + 1_000).for_each(|_| echo.note(&words(1)).unwrap());
    // It comes after them.
    echo.say(&words(0)).unwrap();
    assert_eq!(entered.load(Ordering::SeqCst), MAX);
    signal.set();
}

/// A loop that ends drops the futures of its calls.
#[timed]
fn futures_end_with_their_loop() {
    with_runners(|runner| {
        let walk = Arc::<Walk>::default();
        let of_call = Arc::clone(&walk);
        let service = Futures::new(move |_, _| Arc::clone(&of_call).go()).on(runner);
        let served = serve(Limits::default(), service);
        let echo = served.echo("#s");
        let call = echo.start_say(&words(0));
        wait_until("the future", || walk.reached.load(Ordering::SeqCst) == 1);
        drop(served);
        assert_eq!(code(call.wait()), Code::Unavailable);
        wait_until("the drop", || walk.dropped() == 1);
    });
}
