//! Connections that a loop spins over because they were busy lately: no other is forgotten.
//! And large messages: what is kept of them, and that they pass a loop in parts.

use std::cell::RefCell;

use nearcall::event_loop::Event;
use nearcall_os::poll;

use crate::stage::prelude::*;

const VIA: &str = "?via=shm&wait=adaptive";

/// Calls a server without a pause until it is told to stop. How often it called.
fn busy(address: String, stop: Arc<AtomicBool>) -> thread::JoinHandle<u64> {
    thread::spawn(move || {
        let client = Client::new();
        let echo = EchoCaller::new(&client, &address).unwrap();
        let mut calls = 0;
        while !stop.load(Ordering::Relaxed) {
            echo.nothing(&()).unwrap();
            calls += 1;
        }
        calls
    })
}

#[timed]
fn timers_and_descriptors_are_reported_beside_a_busy_connection() {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    let service = Arc::<Service>::default();
    server.register(EchoDispatcher::shared(service)).unwrap();
    let address = unique_address();
    server.listen(&address).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let caller = busy(format!("{address}{VIA}"), Arc::clone(&stop));
    let every = Duration::from_millis(1);
    let timer = event_loop.add_timer(every, Some(every));
    let (reader, writer) =
        nearcall_os::socket::unix_pair(nearcall_os::socket::Kind::Stream).unwrap();
    event_loop.add_descriptor(&reader, poll::Interest::Readable).unwrap();
    let mut ticks = 0;
    let mut written = false;
    loop {
        match event_loop.next(Deadline::NEVER).unwrap() {
            Some(Event::Timer(due)) if due == timer => ticks += 1,
            Some(Event::Descriptor(..)) => break,
            event => panic!("{event:?}"),
        }
        if ticks >= 20 && !written {
            written = true;
            nearcall_os::socket::try_send(&writer, &[1]).unwrap();
        }
    }
    stop.store(true, Ordering::Relaxed);
    while !caller.is_finished() {
        event_loop.next(Deadline::at(clock::now() + every)).unwrap();
    }
    assert!(caller.join().unwrap() > 0);
}

#[timed]
fn a_descriptor_that_becomes_ready_as_the_spinning_ends_is_reported() {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    let service = Arc::<Service>::default();
    server.register(EchoDispatcher::shared(service)).unwrap();
    let address = unique_address();
    server.listen(&address).unwrap();
    let (reader, writer) =
        nearcall_os::socket::unix_pair(nearcall_os::socket::Kind::Stream).unwrap();
    event_loop.add_descriptor(&reader, poll::Interest::Readable).unwrap();
    let (heard, hears) = mpsc::channel();
    let via = format!("{address}{VIA}");
    let caller = thread::spawn(move || {
        let client = Client::new();
        let echo = EchoCaller::new(&client, &via).unwrap();
        for round in 0..ROUNDS {
            // So many calls that the loop is at every place between two looks by turns.
            for _ in 0..round % 67 {
                echo.nothing(&()).unwrap();
            }
            nearcall_os::socket::try_send(&writer, &[1]).unwrap();
            hears.recv_timeout(Duration::from_secs(20)).expect("the loop has heard of it");
        }
    });
    for _ in 0..ROUNDS {
        let Some(Event::Descriptor(..)) = event_loop.next(Deadline::NEVER).unwrap() else {
            panic!("nothing else concerns the user")
        };
        nearcall_os::socket::try_recv(&reader, &mut [0]).unwrap();
        heard.send(()).unwrap();
    }
    let pause = Duration::from_millis(1);
    while !caller.is_finished() {
        event_loop.next(Deadline::at(clock::now() + pause)).unwrap();
    }
    caller.join().unwrap();
}

/// Enough to meet the loop at the end of a spin again and again.
const ROUNDS: usize = 1_000;

#[timed]
fn a_connection_that_fell_silent_beside_a_busy_one_is_served_again() {
    let served = Served::start();
    let stop = Arc::new(AtomicBool::new(false));
    let caller = busy(served.via(VIA), Arc::clone(&stop));
    let clients: Vec<_> = (0..20).map(|_| served.echo(VIA)).collect();
    for number in 0..5 {
        for echo in &clients {
            assert_eq!(echo.say(&words(number)).unwrap().number, number);
        }
        clock::pause(Duration::from_millis(2));
    }
    stop.store(true, Ordering::Relaxed);
    assert!(caller.join().unwrap() > 0);
}

#[timed]
fn bytes_that_are_kept_stay_what_they_were() {
    let served = serve_scripted(Limits::default(), |_| {
        let kept = RefCell::new(Vec::<Bytes>::new());
        Scripted::new(move |_, request| {
            kept.borrow_mut().push(request.data.clone());
            let first = &kept.borrow()[0];
            let last = kept.borrow().last().map_or(0, Bytes::len);
            Ok(Words { number: last as u64, data: first.clone() })
        })
    });
    for via in [VIA, "?via=unix-stream"] {
        let echo = served.echo(&format!("{via}#s"));
        let mut replies = Vec::new();
        for number in 1..6_u8 {
            let data = Bytes::from(vec![number; 200_000 * usize::from(number)]);
            let reply = echo.say(&Words { number: 0, data }).unwrap();
            assert_eq!(reply.number, 200_000 * u64::from(number));
            replies.push(reply.data);
        }
        for data in replies {
            assert!(data.len() == 200_000 && data.iter().all(|byte| *byte == 1), "{via}");
        }
    }
}

#[timed]
fn large_calls_of_a_loop_pass_in_parts_and_in_order() {
    let (give, take) = mpsc::channel();
    let served = serve_scripted(Limits::default(), move |_| {
        Scripted::new(move |_, request| {
            give.send((request.number, request.data.len())).unwrap();
            Ok(words(request.number))
        })
    });
    let event_loop = EventLoop::new().unwrap();
    let client = Client::in_loop(&event_loop);
    let echo = EchoCaller::new(&client, &served.via(&format!("{VIA}#s"))).unwrap();
    let data = Bytes::from(vec![7; 3 << 20]);
    let started: Vec<_> =
        (0..4).map(|number| echo.start_say(&Words { number, data: data.clone() })).collect();
    let small: Vec<_> = (4..8).map(|number| echo.start_say(&words(number))).collect();
    let ends = started.into_iter().chain(small).map(|call| call.wait());
    let ends = ends.collect::<Vec<Result<Words, Status>>>();
    let refused = ends.iter().filter(|end| end.is_err()).count();
    let seen: Vec<_> = take.try_iter().collect();
    assert_eq!(seen.len() + refused, ends.len(), "each ran once or was refused: {ends:?}");
    assert!(seen.is_sorted(), "{seen:?}");
    assert!(seen.len() >= 2, "{seen:?}");
    assert!(seen.iter().all(|(number, bytes)| *bytes == if *number < 4 { 3 << 20 } else { 0 }));
}
