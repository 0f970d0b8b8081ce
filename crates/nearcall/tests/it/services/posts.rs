//! Closures that other threads run on a loop.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use nearcall::event_loop::{Event, Poster};

use super::{Threaded, serve};
use crate::stage::prelude::*;

const THREADS: u64 = 8;
const POSTS: u64 = 2_000;

thread_local! {
    /// What was run in this thread: the number of the poster's thread, and of its post.
    static RUN: RefCell<Vec<(u64, u64)>> = const { RefCell::new(Vec::new()) };
}

/// Posts from several threads, each in its order.
fn post_from_threads(poster: &Poster) -> Vec<thread::JoinHandle<()>> {
    let post = |of: u64| {
        let poster = poster.clone();
        thread::spawn(move || {
            for number in 0..POSTS {
                poster.post(move |_| RUN.with_borrow_mut(|run| run.push((of, number)))).unwrap();
            }
        })
    };
    (0..THREADS).map(post).collect()
}

#[timed]
fn every_closure_runs_once_and_those_of_a_thread_in_order() {
    let event_loop = EventLoop::new().unwrap();
    let threads = post_from_threads(&event_loop.poster());
    turn_until(&event_loop, || RUN.with_borrow(Vec::len) as u64 == THREADS * POSTS);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let run = RUN.take();
    for of in 0..THREADS {
        let numbers = run.iter().filter(|(other, _)| *other == of).map(|(_, number)| *number);
        assert!(numbers.eq(0..POSTS), "thread {of}");
    }
}

/// The loop sleeps each time: in the kernel, in a connection without a descriptor, for a host.
#[timed]
fn a_post_wakes_a_loop_that_sleeps() {
    for way in ["", "?via=shm-futex", "?via=sysv-mq", "?via=shm-spin&wait=spin"] {
        let (give, take) = mpsc::channel();
        let served = Served::with(Limits::default(), "", move |event_loop, _, _| {
            give.send(event_loop.poster()).unwrap();
        });
        let poster = take.recv().unwrap();
        let echo = served.echo(way);
        echo.say(&words(1)).unwrap();
        for number in 0..100 {
            let (give, take) = mpsc::channel();
            poster.post(move |_| give.send(number).unwrap()).unwrap();
            assert_eq!(take.recv().unwrap(), number);
        }
    }
    let event_loop = EventLoop::new().unwrap();
    event_loop.turn().unwrap();
    let (give, take) = mpsc::channel();
    event_loop.poster().post(move |_| give.send(()).unwrap()).unwrap();
    let ready = nearcall_os::poll::poll_one(
        &event_loop,
        nearcall::event_loop::Interest::Readable,
        Deadline::after(PATIENCE),
    );
    assert!(ready.unwrap().is_some());
    event_loop.turn().unwrap();
    take.try_recv().unwrap();
}

#[timed]
fn a_closure_gets_the_loop() {
    let event_loop = EventLoop::new().unwrap();
    let poster = event_loop.poster();
    let other = thread::spawn(move || {
        poster.post(|event_loop| {
            event_loop.add_timer(Duration::ZERO, None);
            event_loop.stopper();
        })
    });
    other.join().unwrap().unwrap();
    let event = event_loop.next(Deadline::after(PATIENCE)).unwrap();
    assert!(matches!(event, Some(Event::Timer(_))), "{event:?}");
    // The loop that it got was not the last handle.
    let (give, take) = mpsc::channel();
    event_loop.poster().post(move |_| give.send(()).unwrap()).unwrap();
    turn_until(&event_loop, || take.try_recv().is_ok());
}

#[timed]
fn a_closure_that_panics_ends_alone() {
    let event_loop = EventLoop::new().unwrap();
    let (poster, done) = (event_loop.poster(), Rc::new(Cell::new(false)));
    poster.post(|_| panic!("asked for it")).unwrap();
    poster.post(|_| RUN.with_borrow_mut(|run| run.push((0, 0)))).unwrap();
    turn_until(&event_loop, || {
        done.set(!RUN.with_borrow(Vec::is_empty));
        done.get()
    });
}

#[test]
fn a_loop_that_has_closed_takes_no_posts() {
    let event_loop = EventLoop::new().unwrap();
    let poster = event_loop.poster();
    let held = Arc::new(());
    let kept = Arc::clone(&held);
    poster.post(move |_| drop(kept)).unwrap();
    let client = Client::in_loop(&event_loop);
    drop(event_loop);
    assert_eq!(Arc::strong_count(&held), 1, "what was not run is dropped");
    let kept = Arc::clone(&held);
    let error = poster.post(move |_| drop(kept)).unwrap_err();
    assert!(error.to_string().contains("closed"), "{error}");
    assert_eq!(Arc::strong_count(&held), 1);
    drop(client);
}

/// While a service waits for a call of its own, its loop runs what is posted.
#[timed]
fn closures_run_while_a_service_waits() {
    let far = serve(Limits::default(), Threaded::new(|_, request| Ok(request.clone())));
    let (give, posters) = mpsc::channel();
    let far_at = far.via("#s");
    let served = Served::with(Limits::default(), "", move |event_loop, server, _| {
        let client = Client::in_loop(event_loop);
        let far = EchoCaller::new(&client, &far_at).unwrap();
        give.send(event_loop.poster()).unwrap();
        let service = Scripted::new(move |_, request| {
            while RUN.with_borrow(Vec::is_empty) {
                far.say(request)?;
            }
            Ok(request.clone())
        });
        server.register_as("s", EchoDispatcher::new(service)).unwrap();
    });
    let poster = posters.recv().unwrap();
    let echo = served.echo("#s");
    let call = echo.start_say(&words(1));
    poster.post(|_| RUN.with_borrow_mut(|run| run.push((1, 1)))).unwrap();
    assert_eq!(call.wait().unwrap().number, 1);
}

/// The deadline of a service that waits is none of a closure's that runs inside the wait.
#[timed]
fn a_closure_inherits_no_deadline() {
    // It answers with 1 if the call has a deadline.
    let far = Threaded::new(|context, _| Ok(words(u64::from(context.deadline().is_some()))));
    let far = serve(Limits::default(), far);
    let (give, loops) = mpsc::channel();
    let (begin, begun) = mpsc::channel();
    let far_at = far.via("#s");
    let served = Served::with(Limits::default(), "", move |event_loop, server, _| {
        let client = Client::in_loop(event_loop);
        let far = EchoCaller::new(&client, &far_at).unwrap();
        give.send((event_loop.poster(), far.clone())).unwrap();
        let service = Scripted::new(move |_, request| {
            begin.send(()).unwrap();
            while RUN.with_borrow(Vec::is_empty) {
                assert_eq!(far.say(request)?.number, 1, "the service has a deadline");
            }
            Ok(words(RUN.take()[0].0))
        });
        server.register_as("s", EchoDispatcher::new(service)).unwrap();
    });
    let (poster, far) = loops.recv().unwrap();
    let echo = served.echo("#s");
    let options = CallOptions::new().deadline(PATIENCE);
    let call = echo.with(options.clone()).start_say(&words(1));
    // Else the service might run inside the wait of the closure, which it waits for.
    begun.recv().unwrap();
    let post = move |_: &EventLoop| {
        let seen = far.say(&words(1)).unwrap().number;
        RUN.with_borrow_mut(|run| run.push((seen, 0)));
    };
    poster.post(post).unwrap();
    assert_eq!(call.wait().unwrap().number, 0, "the closure has none");
}

/// Closures that wait run others inside their waits, to a bounded depth only.
#[test]
fn closures_that_wait_nest_to_a_bounded_depth() {
    /// More than may run inside each other.
    const CLOSURES: usize = 300;
    thread_local! {
        static DEPTH: Cell<usize> = const { Cell::new(0) };
        static DEEPEST: Cell<usize> = const { Cell::new(0) };
    }
    in_time(|| {
        let far = serve(Limits::default(), Threaded::new(|_, request| Ok(request.clone())));
        let event_loop = EventLoop::new().unwrap();
        let client = Client::in_loop(&event_loop);
        let far = EchoCaller::new(&client, &far.via("#s")).unwrap();
        let poster = event_loop.poster();
        for number in 0..CLOSURES as u64 {
            let far = far.clone();
            let post = move |_: &EventLoop| {
                DEPTH.set(DEPTH.get() + 1);
                DEEPEST.set(DEEPEST.get().max(DEPTH.get()));
                RUN.with_borrow_mut(|run| run.push((0, number)));
                assert_eq!(far.say(&words(number)).unwrap().number, number);
                DEPTH.set(DEPTH.get() - 1);
            };
            poster.post(post).unwrap();
        }
        turn_until(&event_loop, || RUN.with_borrow(Vec::len) == CLOSURES && DEPTH.get() == 0);
        let numbers = RUN.take().into_iter().map(|(_, number)| number);
        assert!(numbers.eq(0..CLOSURES as u64), "in their order");
        assert!((2..=32).contains(&DEEPEST.get()), "{}", DEEPEST.get());
    });
}
