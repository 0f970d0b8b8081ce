//! Clients and servers in event loops: calls in circles, several servers and objects, fairness,
//! one-way messages.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::OnceLock;

use nearcall::client::WaitPolicy;
use nearcall::event_loop::EventLoop;

use crate::stage::prelude::*;

/// Parameters of all ways to talk that a loop can have many of.
fn ways() -> Vec<String> {
    let mut ways = Vec::new();
    for mechanism in Mechanism::all().filter(|mechanism| mechanism.supported().is_ok()) {
        for wait in mechanism.waits().iter().filter(|wait| **wait != WaitPolicy::Block) {
            ways.push(format!("?via={mechanism}&wait={wait}"));
        }
    }
    ways
}

#[timed]
fn a_loop_is_client_and_server_at_once() {
    for way in ways() {
        let _alone = alone(&way);
        let (event_loop, server, address) =
            serve_here(&unique_address(), EchoDispatcher::new(Service::default()));
        let client = Client::in_loop(&event_loop).without_short_circuit();
        let echo = EchoCaller::new(&client, &format!("{address}{way}")).unwrap();
        for number in 0..20 {
            assert_eq!(echo.say(&words(number)).unwrap().number, number, "{way}");
        }
        assert!(!echo.look(&()).unwrap().local, "{way}");
        assert_eq!(server.connections().len(), 1);
    }
}

/// A server whose `Say` counts down with the help of another one.
fn counting(to: &Arc<OnceLock<String>>) -> Served {
    let to = Arc::clone(to);
    serve_scripted(Limits::default(), move |event_loop| {
        let client = Client::in_loop(event_loop);
        let next = OnceCell::new();
        Scripted::new(move |_, request| {
            if request.number == 0 {
                return Ok(words(0));
            }
            let next = next.get_or_init(|| EchoCaller::new(&client, to.get().unwrap()).unwrap());
            let below = next.say(&words(request.number - 1))?;
            Ok(words(below.number + 1))
        })
    })
}

/// Two servers in threads of their own, whose `Say` calls that of the other; a caller of one.
fn circle(way: &str) -> (Served, Served, EchoCaller) {
    let (first_at, second_at) = (Arc::default(), Arc::default());
    let (first, second) = (counting(&second_at), counting(&first_at));
    first_at.set(first.via(&format!("{way}#s"))).unwrap();
    second_at.set(second.via(&format!("{way}#s"))).unwrap();
    let echo = EchoCaller::new(&Client::new(), &first.via("#s")).unwrap();
    (first, second, echo)
}

#[test]
fn calls_in_circles_do_not_deadlock() {
    each_in_time(ways(), |way| {
        let _alone = alone(&way);
        let (_first, _second, echo) = circle(&way);
        let echo = echo.with(CallOptions::new().deadline(PATIENCE / 2));
        for depth in [1, 2, 3, 10, 10] {
            let reply = echo.say(&words(depth));
            assert_eq!(reply.map(|reply| reply.number), Ok(depth), "{way}");
        }
    });
}

#[timed]
fn calls_that_nest_too_deep_are_refused_and_no_connection_ends() {
    let (first, second, echo) = circle("");
    for _ in 0..2 {
        expect_code(echo.say(&words(1_000)), Code::ResourceExhausted);
        assert_eq!(echo.say(&words(14)).unwrap().number, 14);
    }
    for served in [first, second] {
        served.echo("").nothing(&()).unwrap();
    }
}

#[timed]
fn one_loop_has_several_servers_and_objects() {
    let (give, take) = mpsc::channel();
    let served = Served::with(Limits::default(), "", move |event_loop, server, _| {
        let object = |number| EchoDispatcher::new(Scripted::new(move |_, _| Ok(words(number))));
        server.register_as("a", object(1)).unwrap();
        server.register_as("b", object(2)).unwrap();
        let error = server.register_as("a", object(0)).unwrap_err();
        assert!(error.to_string().contains("echo.v1.Echo@a"), "{error}");
        let other = Server::new(event_loop);
        other.register_as("a", object(3)).unwrap();
        give.send(other.listen(&everything(&unique_address())).unwrap().to_string()).unwrap();
        // It serves as long as somebody has it, so a service of the first one does.
        let keep = Scripted::new(move |_, _| Ok(words(other.connections().len() as u64)));
        server.register_as("keep", EchoDispatcher::new(keep)).unwrap();
    });
    let other = take.recv().unwrap();
    let client = Client::new();
    let say = |at: String| {
        let echo = EchoCaller::new(&client, &at).unwrap();
        echo.say(&words(9)).map(|reply| reply.number).map_err(|status| status.code())
    };
    assert_eq!(say(served.via("")), Ok(9));
    assert_eq!(say(served.via("#a")), Ok(1));
    assert_eq!(say(served.via("#b")), Ok(2));
    assert_eq!(say(format!("{other}#a")), Ok(3));
    assert_eq!(say(other.clone()), Err(Code::Unimplemented));
    assert_eq!(say(format!("{other}#b")), Err(Code::Unimplemented));
    assert_eq!(say(served.via("#keep")), Ok(1), "one connection for all callers of a client");
}

/// A peer that has sent nothing for so long has filled its channel.
const STILL: Duration = Duration::from_millis(50);

/// Messages of a peer that floods which may be served before the next one of another peer.
const TURNS_FAIR_MAX: usize = 16;

#[test]
fn a_client_that_floods_does_not_hold_up_another() {
    each_in_time(ways(), |way| {
        let _alone = alone(&way);
        let event_loop = EventLoop::new().unwrap();
        let server = Server::new(&event_loop);
        let order = Rc::new(RefCell::new(Vec::new()));
        let seen = Rc::clone(&order);
        let say = move |_: &Context<'_>, request: &Words| {
            seen.borrow_mut().push(request.number);
            Ok(words(0))
        };
        server.register(EchoDispatcher::new(Scripted::new(say))).unwrap();
        let at = listen_for(&server, &way);
        let (flooding, flooded) = (flood(&at, 0, 200), flood(&at, 1, 1));
        turn_until(&event_loop, || server.connections().len() == 2 && order.borrow().len() == 2);
        order.borrow_mut().clear();
        flooding.go.send(()).unwrap();
        // As much as the channel holds; how much that is only makes the test stronger.
        let mut sent = 0;
        while sent < 200 && flooding.sent.recv_timeout(STILL).is_ok() {
            sent += 1;
        }
        flooded.go.send(()).unwrap();
        flooded.sent.recv_timeout(PATIENCE).unwrap();
        turn_until(&event_loop, || order.borrow().len() == 201);
        let place = order.borrow().iter().position(|number| *number == 1).unwrap();
        assert!(place <= TURNS_FAIR_MAX, "{way}: {place} others were served before");
        let peers = [flooding, flooded];
        turn_until(&event_loop, || peers.iter().all(|peer| peer.thread.is_finished()));
        peers.into_iter().for_each(|peer| peer.thread.join().unwrap());
    });
}

#[test]
fn a_client_that_floods_while_the_loop_spins_does_not_hold_up_another() {
    each_in_time(ways(), |way| {
        let _alone = alone(&way);
        let event_loop = EventLoop::new().unwrap();
        let server = Server::new(&event_loop);
        let (order, peers) = (Rc::new(RefCell::new(Vec::new())), Rc::new(OnceCell::new()));
        let (seen, senders, calls) = (Rc::clone(&order), Rc::clone(&peers), Cell::new(0));
        let say = move |_: &Context<'_>, request: &Words| {
            seen.borrow_mut().push(request.number);
            calls.set(calls.get() + 1);
            if calls.get() == 3 {
                // The first message of the flood: the loop serves its connection, and the other
                // one rests. Both send while the service runs.
                let [flooding, flooded]: &[Peer; 2] = senders.get().unwrap();
                while flooding.sent.recv_timeout(STILL).is_ok() {}
                flooded.go.send(()).unwrap();
                flooded.sent.recv_timeout(PATIENCE).unwrap();
            }
            Ok(words(0))
        };
        server.register(EchoDispatcher::new(Scripted::new(say))).unwrap();
        let at = listen_for(&server, &way);
        let [flooding, flooded] = peers.get_or_init(|| [flood(&at, 0, 200), flood(&at, 1, 1)]);
        turn_until(&event_loop, || order.borrow().len() == 2);
        order.borrow_mut().clear();
        flooding.go.send(()).unwrap();
        turn_until(&event_loop, || order.borrow().len() == 201);
        let place = order.borrow().iter().position(|number| *number == 1).unwrap();
        assert!(place <= TURNS_FAIR_MAX, "{way}: {place} others were served before");
        turn_until(&event_loop, || flooding.thread.is_finished() && flooded.thread.is_finished());
    });
}

/// Has a server wait in this way, and returns where clients call it in the same way.
fn listen_for(server: &Server, way: &str) -> String {
    let (place, (_, wait)) = (unique_address(), way.split_once('&').unwrap());
    server.listen(&everything(&format!("{place}?{wait}"))).unwrap();
    format!("{place}{way}")
}

/// A client in a thread of its own.
struct Peer {
    go: mpsc::Sender<()>,
    sent: mpsc::Receiver<()>,
    thread: thread::JoinHandle<()>,
}

/// A client that calls once, waits to be told, and then starts so many calls at once.
fn flood(at: &str, number: u64, count: usize) -> Peer {
    let at = at.to_owned();
    let ((go, wait), (tell, sent)) = (mpsc::channel(), mpsc::channel());
    let thread = thread::spawn(move || {
        let echo = EchoCaller::new(&Client::new(), &at).unwrap();
        echo.say(&words(number)).unwrap();
        wait.recv_timeout(PATIENCE).unwrap();
        let start = |_| {
            let started = echo.start_say(&words(number));
            tell.send(()).unwrap();
            started
        };
        let started: Vec<_> = (0..count).map(start).collect();
        started.into_iter().for_each(|started| drop(started.wait().unwrap()));
    });
    Peer { go, sent, thread }
}

/// A service that counts one-way messages, slowly, and says how many came in their order.
fn slow_counter() -> Scripted {
    let base = Arc::<Service>::default();
    let notes = Arc::clone(&base);
    Scripted {
        base,
        say: Box::new(move |_, _| {
            let reply = words(notes.notes_in_order.get());
            Ok(Words { data: notes.notes_sum.get().to_le_bytes().to_vec().into(), ..reply })
        }),
    }
}

fn all_oneways_arrive(client: &Client, at: &str, count: u64) {
    let echo = EchoCaller::new(client, at).unwrap();
    for number in 0..count {
        echo.note(&words(number)).unwrap();
    }
    let seen = echo.say(&words(0)).unwrap();
    assert_eq!(seen.number, count, "in order, {at}");
    assert_eq!(seen.data, (count * (count - 1) / 2).to_le_bytes()[..], "{at}");
}

#[timed]
fn a_hundred_thousand_oneways_to_a_slow_server_arrive_in_order() {
    let served = serve_scripted(Limits::default(), |_| slow_counter());
    all_oneways_arrive(&Client::new(), &served.via("#s"), 100_000);
}

#[timed]
fn oneways_from_a_loop_wait_for_room() {
    let served = serve_scripted(Limits::default(), |_| slow_counter());
    let event_loop = EventLoop::new().unwrap();
    all_oneways_arrive(&Client::in_loop(&event_loop), &served.via("#s"), 100_000);
}

#[test]
fn oneways_over_every_mechanism_arrive_in_order() {
    each_in_time(Mechanism::all().filter(|mechanism| mechanism.supported().is_ok()), |mechanism| {
        let at = format!("?via={mechanism}#s");
        let _alone = alone(&at);
        let served = serve_scripted(Limits::default(), |_| slow_counter());
        all_oneways_arrive(&Client::new(), &served.via(&at), 2_000);
        drop(served);
        let served = serve_scripted(Limits::default(), |_| slow_counter());
        let event_loop = EventLoop::new().unwrap();
        all_oneways_arrive(&Client::in_loop(&event_loop), &served.via(&at), 2_000);
    });
}

#[test]
fn oneways_within_a_loop_are_served_later() {
    let service = Arc::<Service>::default();
    let (event_loop, _server, _) =
        serve_here("inproc:here", EchoDispatcher::shared(Arc::clone(&service)));
    let client = Client::in_loop(&event_loop);
    let echo = EchoCaller::new(&client, "inproc:here").unwrap();
    for number in 0..10 {
        echo.note(&words(number)).unwrap();
    }
    assert_eq!(service.notes.get(), 0, "they are not calls of a function");
    event_loop.next(Deadline::NOW).unwrap();
    assert_eq!((service.notes.get(), service.notes_in_order.get()), (10, 10));
    // No server takes more than a channel would hold.
    let object = object(&client, EchoCaller::INTERFACE, "inproc:here");
    let note = method(EchoCaller::INTERFACE, "Note");
    let refused = Cell::new(None);
    for _ in 0..100_000 {
        if let Err(status) = object.with(CallOptions::new().no_wait()).send(note, &words(0)) {
            refused.set(Some(status));
            break;
        }
    }
    assert_eq!(refused.take().unwrap().code(), Code::ResourceExhausted);
    event_loop.next(Deadline::NOW).unwrap();
    echo.note(&words(0)).unwrap();
}

#[timed]
fn two_first_calls_at_once_share_one_connection() {
    let (far_loop, near_loop) = (mpsc::channel(), EventLoop::new().unwrap());
    let far = Served::with(Limits::default(), "", move |_, server, _| {
        let counted = server.clone();
        let count = Scripted::new(move |_, _| Ok(words(counted.connections().len() as u64)));
        server.register_as("count", EchoDispatcher::new(count)).unwrap();
        far_loop.0.send(()).unwrap();
    });
    far_loop.1.recv_timeout(PATIENCE).unwrap();
    let client = Client::in_loop(&near_loop);
    let echo = EchoCaller::new(&client, &far.address).unwrap();
    // A call that is in the channel already is served while the client connects, and its
    // service connects, too.
    let server = Server::new(&near_loop);
    let nested = echo.clone();
    let say = Scripted::new(move |_, request| nested.say(request));
    server.register(EchoDispatcher::new(say)).unwrap();
    let near = server.listen(&everything(&unique_address())).unwrap().to_string();
    let peer = flood(&near, 1, 1);
    // Its first call: no connection yet, then one for both.
    turn_until(&near_loop, || server.connections().len() == 1);
    peer.go.send(()).unwrap();
    echo.nothing(&()).unwrap();
    turn_until(&near_loop, || peer.thread.is_finished());
    peer.thread.join().unwrap();
    let counter = far.echo("#count");
    let until = clock::now() + PATIENCE / 2;
    while counter.say(&words(0)).unwrap().number != 2 {
        assert!(clock::now() < until, "more than one and the counter's own");
    }
    server.unregister("echo.v1.Echo");
    drop((echo, client));
    while counter.say(&words(0)).unwrap().number != 1 {
        assert!(clock::now() < until, "a connection outlives its client");
    }
}

/// Two clients whose handshakes begin before either is over: what each of them gets.
fn meet_at_once(limits: Limits, way: &str) -> Vec<Result<(), Status>> {
    let (event_loop, _server, place) =
        serve_here_with(limits, &unique_address(), EchoDispatcher::new(Service::default()));
    let ((tell, told), at) = (mpsc::channel(), format!("{place}{way}"));
    let client = |at: String, tell: mpsc::Sender<_>| {
        let (leave, stay) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let client = Client::new();
            let called = EchoCaller::new(&client, &at).unwrap().nothing(&());
            tell.send(called).unwrap();
            // Whoever came first is there until the other one has its answer.
            assert!(stay.recv_timeout(PATIENCE).is_err());
        });
        (leave, thread)
    };
    let clients = [client(at.clone(), tell.clone()), client(at, tell)];
    // The listener and both clients: the loop takes them in one round.
    let name = place.strip_prefix("unix:").unwrap();
    let until = clock::now() + PATIENCE;
    let sockets = || std::fs::read_to_string("/proc/net/unix").unwrap();
    while sockets().lines().filter(|line| line.ends_with(name)).count() < 3 {
        assert!(clock::now() < until, "the clients do not come to {name}");
        thread::yield_now();
    }
    let mut outcomes = Vec::new();
    turn_until(&event_loop, || {
        outcomes.extend(told.try_iter());
        outcomes.len() == 2
    });
    for (leave, thread) in clients {
        drop(leave);
        thread.join().unwrap();
    }
    outcomes
}

/// Of two clients one is served, and the other is told why it is not.
fn one_of_two_is_refused(limits: Limits, way: &str, why: &str) {
    let outcomes = meet_at_once(limits, way);
    let [Err(refused)] = &outcomes.iter().filter(|it| it.is_err()).collect::<Vec<_>>()[..] else {
        panic!("{way}: {outcomes:?}");
    };
    assert_eq!(refused.code(), Code::Unavailable, "{way}: {refused}");
    assert!(refused.message().contains(why), "{way}: {refused}");
}

#[test]
fn a_second_client_without_a_descriptor_is_refused_with_the_reason() {
    for mechanism in Mechanism::all().filter(|mechanism| mechanism.supported().is_ok()) {
        let can = mechanism.capabilities();
        if !can.pollable && !can.needs_spinning {
            let way = format!("?via={mechanism}");
            in_time(move || one_of_two_is_refused(Limits::default(), &way, "has no descriptor"));
        }
    }
}

#[test]
fn a_client_above_the_limit_of_connections_is_refused_after_its_handshake() {
    for way in ["", "?via=shm-futex", "?via=pipe", "?via=unix-stream", "?via=cma"] {
        let limits = Limits { connections_max: 1, ..Limits::default() };
        in_time(move || one_of_two_is_refused(limits, way, "has 1 connections, its limit"));
    }
}
