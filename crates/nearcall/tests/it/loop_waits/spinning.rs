//! What the spinning of a loop, and messages that come in parts, must not lose.
//!
//! **Invariants:** a loss shows as a call that does not end in time.

use super::*;

const ADAPTIVE: &str = "?via=shm&wait=adaptive";

/// Far above what a call takes, so that it only ends a hang.
const SOON: Duration = Duration::from_secs(5);

/// Enough to meet a loop at the end of a spin.
const ROUNDS: u64 = 300;

#[timed]
fn a_connection_that_was_armed_inside_its_own_service_is_served_again() {
    let other = Served::start();
    let other_address = other.via("?via=unix-stream");
    let ended = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ended);
    let served = Served::with(Limits::default(), "", move |event_loop, server, _| {
        let far = EchoCaller::new(&Client::in_loop(event_loop), &other_address).unwrap();
        let note: Note = Box::new(move |_| {
            far.work(&Span { ms: 3 }).unwrap();
            count.fetch_add(1, Ordering::Relaxed);
        });
        let service = Hooked { note: Some(note), ..Hooked::default() };
        server.register_as("s", EchoDispatcher::new(service)).unwrap();
    });
    let echo = served.echo(&format!("{ADAPTIVE}#s"));
    for round in 0..20 {
        echo.with(until(SOON)).nothing(&()).unwrap_or_else(|end| panic!("{round}: {end}"));
        // Often enough that the loop spins, and finds the last one so.
        (0..200).for_each(|_| echo.nothing(&()).unwrap());
        echo.note(&words(0)).unwrap();
        // Not for a time: on a busy machine one note would begin inside the other.
        wait_until("the end of the note", || ended.load(Ordering::Relaxed) > round);
        clock::pause(Duration::from_millis(8));
    }
    echo.with(until(SOON)).nothing(&()).unwrap();
}

#[timed]
fn an_answer_that_comes_too_late_leaves_its_connection_armed() {
    let served = serve_scripted(Limits::default(), |_| keeper());
    let via = served.via(&format!("{ADAPTIVE}#s"));
    let echo = EchoCaller::new(&Client::new(), &via).unwrap();
    let other = EchoCaller::new(&Client::new(), &via).unwrap();
    for round in 0..3 {
        let long = Words { number: 0, data: vec![1; 1000].into() };
        let started = echo.start_later(&long);
        // Served before what comes after it.
        echo.nothing(&()).unwrap();
        started.cancel();
        clock::pause(Duration::from_millis(20));
        assert_eq!(other.say(&words(command::ANSWER)).unwrap().number, 1);
        clock::pause(Duration::from_millis(20));
        echo.with(until(SOON)).nothing(&()).unwrap_or_else(|end| panic!("{round}: {end}"));
    }
}

#[timed]
fn a_connection_that_opens_while_the_loop_spins_is_noticed() {
    let other = Served::start();
    let other_address = other.via("?via=unix-stream");
    let served = Served::with(Limits::default(), "", move |event_loop, server, _| {
        // Each connects once.
        let clients = (0..ROUNDS).map(|_| Client::in_loop(event_loop));
        let clients = RefCell::new(clients.collect::<Vec<_>>());
        let service = Scripted::new(move |_, request| {
            let client = clients.borrow_mut().pop().unwrap();
            let far = EchoCaller::new(&client, &other_address).unwrap();
            far.nothing(&()).map(|()| request.clone())
        });
        server.register_as("s", EchoDispatcher::new(service)).unwrap();
    });
    let echo = served.echo(&format!("{ADAPTIVE}#s"));
    for round in 0..ROUNDS {
        (0..round % 40).for_each(|_| echo.nothing(&()).unwrap());
        echo.with(until(SOON)).say(&words(round)).unwrap();
    }
}

#[timed]
fn a_client_that_comes_while_the_loop_spins_is_served() {
    let served = Served::start();
    let echo = served.echo(ADAPTIVE);
    for round in 0..400_u32 {
        let address = served.via("?via=shm-eventfd");
        let came = thread::spawn(move || {
            let echo = EchoCaller::new(&Client::new(), &address).unwrap();
            echo.with(until(SOON)).nothing(&())
        });
        for _ in 0..round % 40 {
            echo.nothing(&()).unwrap();
        }
        came.join().unwrap().unwrap_or_else(|end| panic!("{round}: {end}"));
    }
}

#[timed]
fn a_connection_that_the_loop_would_sleep_in_is_served_beside_a_busy_one() {
    let served = Served::start();
    let quiet = served.echo("?via=shm-futex");
    quiet.nothing(&()).unwrap();
    // So many that there always is one with something.
    let stop = Arc::new(AtomicUsize::new(0));
    let (begin, begun) = mpsc::channel();
    let callers = [0; 4].map(|_| {
        let (busy, stop, begin) = (served.via(ADAPTIVE), Arc::clone(&stop), begin.clone());
        thread::spawn(move || {
            let echo = EchoCaller::new(&Client::new(), &busy).unwrap();
            while stop.load(Ordering::Relaxed) == 0 {
                (0..100).for_each(|_| echo.nothing(&()).unwrap());
                let _ = begin.send(());
            }
        })
    });
    begun.recv().unwrap();
    let ends: Vec<_> = (0..50).map(|_| quiet.with(until(SOON)).nothing(&())).collect();
    stop.store(1, Ordering::Relaxed);
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    for end in ends {
        end.unwrap();
    }
}

#[timed]
fn a_call_that_waits_while_something_concerns_the_user_sleeps() {
    let served = serve_scripted(Limits::default(), |_| keeper());
    for via in [ADAPTIVE, "?via=unix-stream"] {
        let event_loop = EventLoop::new().unwrap();
        let client = Client::in_loop(&event_loop);
        let far = EchoCaller::new(&client, &served.via(&format!("{via}#s"))).unwrap();
        far.nothing(&()).unwrap();
        event_loop.add_timer(Duration::from_millis(1), None);
        let spent = cpu(|| {
            far.with(until(Duration::from_millis(300))).later(&words(0)).unwrap_err();
        });
        assert!(spent < Duration::from_millis(100), "{via}: {spent:?}");
    }
}
