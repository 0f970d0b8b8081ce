//! Loops and clients that wait: for a reply, for room, for the end of a drain. They sleep
//! meanwhile, keep what is under way, and bound what piles up.
//!
//! **Not here:** loops that spin (`loop_waits/spinning.rs`).

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context as TaskContext, Poll, Wake, Waker};

use nearcall::client::{PendingCall, WaitPolicy};
use nearcall::event_loop::Event;
use nearcall::service::Responder;
use nearcall_channel::{Address, Endpoint, Options, SendError, connect};
use nearcall_testkit::tasks;
use nearcall_wire::{CallId, Frame, Payload, Shape};

use crate::stage::prelude::*;
use crate::support::hello;

mod spinning;

type Note = Box<dyn Fn(&Words)>;

/// An [`Echo`] whose `Note`, `Later` and drop are the test's.
#[derive(Default)]
struct Hooked {
    base: Service,
    note: Option<Note>,
    later: Option<Box<dyn Fn(Responder<Words>)>>,
    _at_end: Option<AtEnd>,
}

/// Calls this when it is dropped.
struct AtEnd(Box<dyn Fn()>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        (self.0)();
    }
}

impl Echo for Hooked {
    nearcall_testkit::forward_echo!(base: say nothing fail panic quick look work);

    fn note(&self, context: &Context<'_>, request: &Words) {
        match &self.note {
            Some(note) => note(request),
            None => self.base.note(context, request),
        }
    }

    fn later(&self, context: &Context<'_>, request: &Words) -> Result<Words, Status> {
        match &self.later {
            Some(later) => context.answer_later(later),
            None => self.base.later(context, request),
        }
    }
}

fn until(timeout: Duration) -> CallOptions {
    CallOptions::new().deadline(timeout)
}

/// A loop with a server in it, and a caller of that.
fn own(service: Hooked) -> (EventLoop, Server, EchoCaller) {
    let (event_loop, server, _) = serve_here("inproc:own", EchoDispatcher::new(service));
    let echo = EchoCaller::new(&Client::in_loop(&event_loop), "inproc:own").unwrap();
    (event_loop, server, echo)
}

/// Processor time of this thread that `work` takes.
fn cpu(work: impl FnOnce()) -> Duration {
    let before = clock::thread_cpu_ns();
    work();
    Duration::from_nanos(clock::thread_cpu_ns() - before)
}

#[timed]
fn a_call_that_waits_in_a_hosted_loop_sleeps() {
    let served = serve_scripted(Limits::default(), |_| keeper());
    let event_loop = EventLoop::new().unwrap();
    let client = Client::in_loop(&event_loop);
    let far = EchoCaller::new(&client, &served.via("#s")).unwrap();
    far.nothing(&()).unwrap();
    event_loop.turn().unwrap();
    let spent = cpu(|| {
        far.with(until(Duration::from_millis(300))).later(&words(0)).unwrap_err();
    });
    assert!(spent < Duration::from_millis(100), "{spent:?}");
}

#[timed]
fn a_timer_that_was_late_is_due_once_also_after_a_call_that_waited() {
    let served = serve_scripted(Limits::default(), |_| keeper());
    let event_loop = EventLoop::new().unwrap();
    let far = EchoCaller::new(&Client::in_loop(&event_loop), &served.via("#s")).unwrap();
    let beat = Duration::from_millis(5);
    let timer = event_loop.add_timer(beat, Some(beat));
    far.with(until(20 * beat)).later(&words(0)).unwrap_err();
    let mut seen = 0;
    let end = clock::now() + beat;
    while let Some(event) = event_loop.next(Deadline::NOW).unwrap() {
        assert!(matches!(event, Event::Timer(due) if due == timer), "{event:?}");
        seen += 1;
        assert!(seen <= 3 || clock::now() > end, "{seen} reports");
    }
    event_loop.remove_timer(timer);
}

/// A connection to the server, by hand, on which we have greeted.
fn greeted(served: &Served) -> Endpoint {
    let place: Address = served.address.parse().unwrap();
    let mut endpoint = connect(&place, Mechanism::UnixStream, &Options::default()).unwrap();
    endpoint.send(&hello(1, 1), Deadline::after(PATIENCE)).unwrap();
    endpoint
}

#[timed]
fn a_client_that_pings_and_never_reads_is_cut_off() {
    let served = Served::start();
    let mut endpoint = greeted(&served);
    for number in 0..200_000 {
        let ping = Frame::Ping { number }.encode();
        match endpoint.send(&ping, Deadline::after(PATIENCE)) {
            Ok(()) => {}
            Err(SendError::PeerGone) => return,
            Err(error) => panic!("after {number} pings: {error}"),
        }
    }
    panic!("not cut off");
}

#[timed]
fn a_panic_that_leaves_a_responder_behind_ends_the_call_of_this_thread() {
    let kept = Rc::new(RefCell::new(Vec::new()));
    let keep = Rc::clone(&kept);
    let later = move |responder| {
        keep.borrow_mut().push(responder);
        panic!("asked for it");
    };
    let (_event_loop, _server, echo) =
        own(Hooked { later: Some(Box::new(later)), ..Hooked::default() });
    expect_code(echo.with(until(Duration::from_secs(5))).later(&words(0)), Code::Unknown);
}

/// A server whose `Say` waits for each message of `go`, or for its end.
fn blocking(go: mpsc::Receiver<()>) -> Served {
    serve_scripted(Limits::default(), move |_| {
        Scripted::new(move |_, request| {
            let _ = go.recv_timeout(PATIENCE);
            Ok(words(request.number))
        })
    })
}

fn large(number: u64) -> Words {
    Words { number, data: vec![7; 64 << 10].into() }
}

#[test]
fn what_a_client_without_a_loop_could_not_send_at_once_is_sent_later() {
    each_in_time(["#s", "?via=shm-futex#s", "?via=pipe#s"], |way| {
        let (go, wait) = mpsc::channel();
        let served = blocking(wait);
        let echo = served.echo(way);
        echo.nothing(&()).unwrap();
        let mut started = Vec::new();
        let options = until(PATIENCE);
        let refused = loop {
            let options = if started.is_empty() { &options } else { &until(SHORT) };
            let call = echo.with(options.clone()).start_say(&large(0));
            if call.is_done() {
                break call.wait().unwrap_err();
            }
            started.push(call);
            assert!(started.len() < 200, "{way}: it reads");
        };
        assert_eq!(refused.code(), Code::DeadlineExceeded, "{way}: {refused}");
        started.pop().unwrap().cancel();
        drop(go);
        echo.with(until(PATIENCE / 4)).nothing(&()).unwrap();
    });
}

const SHORT: Duration = Duration::from_millis(50);

#[timed]
fn a_service_that_ends_may_call_its_server() {
    let caller = Rc::new(RefCell::new(None::<EchoCaller>));
    let (at_end, codes) = (Rc::clone(&caller), Rc::new(RefCell::new(Vec::new())));
    let seen = Rc::clone(&codes);
    let dropped = move || {
        if let Some(echo) = &*at_end.borrow() {
            seen.borrow_mut().push(echo.nothing(&()).map_err(|status| status.code()));
        }
    };
    let (_event_loop, server, echo) =
        own(Hooked { _at_end: Some(AtEnd(Box::new(dropped))), ..Hooked::default() });
    *caller.borrow_mut() = Some(echo);
    assert!(server.unregister("echo.v1.Echo"));
    assert_eq!(*codes.borrow(), [Err(Code::Unimplemented)]);
    caller.borrow_mut().take();
}

#[timed]
fn an_answer_that_came_in_time_may_be_taken_late() {
    let (event_loop, server, echo) = own(Hooked::default());
    let address = server.listen(&unique_address()).unwrap().to_string();
    let client = Client::in_loop(&event_loop).without_short_circuit();
    let far = EchoCaller::new(&client, &address).unwrap();
    far.nothing(&()).unwrap();
    for echo in [far, echo] {
        let started = echo.with(until(SHORT)).start_say(&words(4));
        turn_until(&event_loop, || started.is_done());
        clock::pause(2 * SHORT);
        assert_eq!(started.wait().map(|reply| reply.number), Ok(4), "{echo:?}");
    }
}

#[timed]
fn a_future_of_a_service_of_the_same_loop_is_woken_once_and_at_the_end() {
    let kept = Rc::new(RefCell::new(Vec::new()));
    let keep = Rc::clone(&kept);
    let later = move |responder| keep.borrow_mut().push(responder);
    let (event_loop, _server, echo) =
        own(Hooked { later: Some(Box::new(later)), ..Hooked::default() });
    let (woken, waker) = tasks::waker();
    let mut task = TaskContext::from_waker(&waker);
    let mut started = pin!(echo.start_later(&words(7)));
    assert!(started.as_mut().poll(&mut task).is_pending());
    event_loop.next(Deadline::NOW).unwrap();
    assert_eq!(woken.count(), 0, "nothing has happened");
    let responder: Responder<Words> = kept.borrow_mut().pop().unwrap();
    responder.finish(Ok(words(8)));
    assert_eq!(woken.count(), 1);
    let Poll::Ready(reply) = started.as_mut().poll(&mut task) else { panic!("not ready") };
    assert_eq!(reply.unwrap().number, 8);
    // The deadline wakes as well.
    let mut started = pin!(echo.with(until(SHORT)).start_later(&words(7)));
    assert!(started.as_mut().poll(&mut task).is_pending());
    turn_until(&event_loop, || woken.count() == 2);
    let Poll::Ready(late) = started.as_mut().poll(&mut task) else { panic!("not ready") };
    assert_eq!(late.unwrap_err().code(), Code::DeadlineExceeded);
    kept.borrow_mut().clear();
}

#[test]
fn a_server_that_drains_sends_the_answers_that_wait_for_room() {
    each_in_time(["", "?via=shm-eventfd&wait=poll", "?via=pipe"], |way| {
        let served = Served::with(Limits::default(), "", |_, server, _| {
            let base = Arc::<Service>::default();
            let (kept, server_too) = (Arc::clone(&base), server.clone());
            let say = move |_: &Context<'_>, request: &Words| {
                if request.number == command::WANTED {
                    return Ok(words(kept.later.borrow().len() as u64));
                }
                for (words, responder) in kept.later.take() {
                    responder.finish(Ok(words));
                }
                server_too.drain();
                Ok(words(0))
            };
            let scripted = Scripted { base, say: Box::new(say) };
            server.register_as("s", EchoDispatcher::new(scripted)).unwrap();
        });
        let echo = served.echo(&format!("{way}#s"));
        let started: Vec<_> =
            (0..40).map(|number| echo.with(until(PATIENCE)).start_later(&large(number))).collect();
        let other = served.echo("#s");
        // What the server has not read when it drains is refused.
        wait_until("all calls", || other.say(&words(command::WANTED)).unwrap().number == 40);
        other.say(&words(command::ANSWER)).unwrap();
        for (number, started) in (0..).zip(started) {
            assert_eq!(started.wait().map(|reply| reply.number), Ok(number), "{way}");
        }
    });
}

#[test]
fn a_loop_that_waits_for_room_sleeps() {
    for mechanism in Mechanism::all().filter(|mechanism| mechanism.supported().is_ok()) {
        if !mechanism.waits().contains(&WaitPolicy::Poll) {
            continue;
        }
        in_time(move || {
            let (go, wait) = mpsc::channel();
            let served = blocking(wait);
            let event_loop = EventLoop::new().unwrap();
            let client = Client::in_loop(&event_loop);
            let at = served.via(&format!("?via={mechanism}&wait=poll#s"));
            let echo = EchoCaller::new(&client, &at).unwrap();
            echo.nothing(&()).unwrap();
            let started: Vec<_> = (0..30).map(|n| echo.start_say(&large(n))).collect();
            let spent = cpu(|| {
                let soon = clock::now() + Duration::from_millis(200);
                event_loop.next(Deadline::at(soon)).unwrap();
            });
            assert!(spent < Duration::from_millis(60), "{mechanism}: {spent:?}");
            drop(go);
            for (number, started) in (0..).zip(started) {
                assert_eq!(started.wait().map(|reply| reply.number), Ok(number), "{mechanism}");
            }
        });
    }
}

#[timed]
fn two_that_connect_at_once_share_the_connection() {
    let served = Served::with(Limits::default(), "", |_, server, _| {
        let counted = server.clone();
        let say = move |_: &Context<'_>, _: &Words| Ok(words(counted.connections().len() as u64));
        server.register_as("s", EchoDispatcher::new(Scripted::new(say))).unwrap();
    });
    let event_loop = EventLoop::new().unwrap();
    let client = Client::in_loop(&event_loop);
    let far = EchoCaller::new(&client, &served.via("#s")).unwrap();
    let (inner, ran) = (far.clone(), Rc::new(Cell::new(false)));
    let has_run = Rc::clone(&ran);
    let note = move |_: &Words| {
        inner.nothing(&()).unwrap();
        has_run.set(true);
    };
    let server = Server::new(&event_loop);
    let hooked = Hooked { note: Some(Box::new(note)), ..Hooked::default() };
    server.register(EchoDispatcher::new(hooked)).unwrap();
    server.listen("inproc:own").unwrap();
    let own = EchoCaller::new(&client, "inproc:own").unwrap();
    own.note(&words(0)).unwrap();
    // Connecting runs the loop, which serves the message, which connects.
    far.nothing(&()).unwrap();
    assert!(ran.get());
    turn_until(&event_loop, || far.say(&words(0)).unwrap().number == 1);
}

#[test]
fn a_large_oneway_with_a_deadline_arrives_though_its_client_does_nothing_more() {
    each_in_time(["#h", "?via=pipe#h", "?via=shm-futex#h"], |way| {
        let (tell, told) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let served = Served::with(Limits::default(), "", move |_, server, _| {
            let note = move |request: &Words| {
                if request.number == 0 {
                    let _ = wait.recv_timeout(SHORT);
                }
                tell.send(request.data.len()).unwrap();
            };
            let hooked = Hooked { note: Some(Box::new(note)), ..Hooked::default() };
            server.register_as("h", EchoDispatcher::new(hooked)).unwrap();
        });
        let echo = served.echo(way);
        let options = until(PATIENCE / 2);
        // Some of these are just longer than the room that is left.
        for data_bytes in (1..24).map(|step| step * (24 << 10)) {
            echo.with(options.clone()).note(&words(0)).unwrap();
            let data = vec![7; data_bytes].into();
            echo.with(options.clone()).note(&Words { number: 1, data }).unwrap();
            assert_eq!(told.recv_timeout(PATIENCE / 4), Ok(0), "{way}");
            let arrived = told.recv_timeout(PATIENCE / 4);
            assert_eq!(arrived, Ok(data_bytes), "{way}");
        }
        drop(go);
    });
}

#[test]
fn a_large_call_that_runs_out_of_time_while_it_is_sent_hurts_no_other() {
    each_in_time(["#s", "?via=shm-futex#s", "?via=pipe#s"], |way| {
        let (go, wait) = mpsc::channel();
        let served = blocking(wait);
        let echo = served.echo(way);
        let first = echo.with(until(PATIENCE)).start_say(&words(3));
        let data = Bytes::from(vec![7; 3 << 20]);
        let status = echo.with(until(SHORT)).say(&Words { number: 4, data }).unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{way}: {status}");
        drop(go);
        assert_eq!(first.wait().map(|reply| reply.number), Ok(3), "{way}");
        let next = echo.with(until(PATIENCE)).say(&large(5));
        assert_eq!(next.map(|reply| reply.number), Ok(5), "{way}");
    });
}

#[timed]
fn a_client_that_comes_in_while_the_server_drains_is_not_served() {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    server.register(EchoDispatcher::new(Service::default())).unwrap();
    let address = server.listen("tcp://127.0.0.1:0").unwrap().to_string();
    // Between the two, so that the handshake takes as long as the test likes.
    let between = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("tcp://{}", between.local_addr().unwrap());
    let client = thread::spawn(move || {
        let echo = EchoCaller::new(&Client::new(), &at).unwrap();
        echo.with(until(PATIENCE / 4)).nothing(&())
    });
    let (near, _) = between.accept().unwrap();
    let far = std::net::TcpStream::connect(address.strip_prefix("tcp://").unwrap()).unwrap();
    event_loop.next(Deadline::NOW).unwrap();
    server.drain();
    let pass = |from: &std::net::TcpStream, to: &std::net::TcpStream| {
        let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
        thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(std::net::Shutdown::Both);
        })
    };
    let passing = [pass(&near, &far), pass(&far, &near)];
    turn_until(&event_loop, || client.is_finished());
    expect_code(client.join().unwrap(), Code::Unavailable);
    turn_until(&event_loop, || server.connections().is_empty());
    drop((near, far));
    drop(event_loop);
    passing.into_iter().for_each(|passing| passing.join().unwrap());
}

#[timed]
fn a_call_that_was_given_up_before_its_turn_does_not_run() {
    let (tell, told) = mpsc::channel();
    let served = serve_scripted(Limits::default(), move |_| {
        Scripted::new(move |context, request| {
            tell.send(request.number).unwrap();
            while request.number == 1 && !context.is_cancelled() {}
            Ok(words(0))
        })
    });
    let echo = served.echo("#s");
    let first = echo.start_say(&words(1));
    assert_eq!(told.recv_timeout(PATIENCE), Ok(1));
    // Found while the first looks for its cancellation.
    let second = echo.start_say(&words(2));
    second.cancel();
    first.cancel();
    echo.say(&words(3)).unwrap();
    assert_eq!(told.recv_timeout(PATIENCE), Ok(3));
}

#[timed]
fn what_waits_behind_a_service_that_looks_often_is_bounded_in_bytes() {
    let served = serve_scripted(Limits::default(), |_| {
        Scripted::new(|context, request| {
            let end = clock::now() + Duration::from_secs(2);
            while request.number == 1 && clock::now() < end && !context.is_cancelled() {}
            Ok(words(0))
        })
    });
    let echo = served.echo("#s");
    let options = until(PATIENCE);
    let first = echo.with(options).start_say(&words(1));
    // None of these is read before the first ends, except for what may wait.
    let data = Bytes::from(vec![7; 3 << 20]);
    let mut sent = 0;
    let end = clock::now() + Duration::from_secs(1);
    while clock::now() < end && sent < 40 {
        let call = echo.with(until(4 * SHORT)).start_say(&Words { number: 2, data: data.clone() });
        if call.is_done() {
            break;
        }
        sent += 1;
    }
    assert!(sent < 10, "{sent} calls of 3 MiB wait");
    drop(first);
}

#[timed]
fn a_service_that_looks_learns_of_the_end_of_a_client_that_floods() {
    let (tell, told) = mpsc::channel();
    let served = serve_scripted(Limits::default(), move |_| {
        Scripted::new(move |context, request| {
            while request.number == 1 && !context.is_cancelled() {}
            tell.send(request.number).unwrap();
            Ok(words(0))
        })
    });
    let mut endpoint = greeted(&served);
    // FNV-1a of the name, as the protocol says.
    let object = "echo.v1.Echo@s".bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let methods = EchoCaller::INTERFACE.methods;
    let method = methods.iter().find(|method| method.name == "Say").unwrap().id;
    let body = nearcall::Message::encode_to_vec(&words(1));
    let payload = Payload::new(0, body.len()).unwrap();
    for slot in 0..200 {
        let id = CallId::from_word(1 << 16 | slot);
        let frame = Frame::Call { id, object, method, timeout_ns: 0, payload, shape: Shape::Unary };
        let call = [&frame.encode()[..], &body].concat();
        endpoint.send(&call, Deadline::after(PATIENCE)).unwrap();
    }
    endpoint.discard_unsent();
    drop(endpoint);
    assert_eq!(told.recv_timeout(PATIENCE / 4), Ok(1));
}

#[timed]
fn what_was_sent_before_the_end_is_served_also_behind_a_service_that_sees_the_end() {
    let (tell, told) = mpsc::channel();
    let served = serve_scripted(Limits::default(), move |_| {
        let base = Arc::<Service>::default();
        let seen = Arc::clone(&base);
        let say = move |context: &Context<'_>, request: &Words| {
            let end = clock::now() + Duration::from_millis(request.number);
            while request.number > 0 && clock::now() < end && !context.is_cancelled() {}
            tell.send(seen.notes.get()).unwrap();
            Ok(words(seen.notes.get()))
        };
        Scripted { base, say: Box::new(say) }
    });
    let mut endpoint = greeted(&served);
    let object = "echo.v1.Echo@s".bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let methods = EchoCaller::INTERFACE.methods;
    let number = |name| methods.iter().find(|method| method.name == name).unwrap().id;
    let (say, note, timeout_ns) = (number("Say"), number("Note"), 0);
    let mut send = |frame: Frame, body: &[u8]| {
        let message = [&frame.encode()[..], body].concat();
        endpoint.send(&message, Deadline::after(PATIENCE)).unwrap();
    };
    // The first finds all others, the second sees the end.
    for (slot, looks_ms) in [(0, 50), (1, 30_000)] {
        let body = nearcall::Message::encode_to_vec(&words(looks_ms));
        let payload = Payload::new(0, body.len()).unwrap();
        let id = CallId::from_word(1 << 16 | slot);
        send(
            Frame::Call { id, object, method: say, timeout_ns, payload, shape: Shape::Unary },
            &body,
        );
    }
    for _ in 0..3 {
        send(Frame::Oneway { object, method: note, timeout_ns, payload: Payload::EMPTY }, &[]);
    }
    told.recv_timeout(PATIENCE / 4).unwrap();
    drop(endpoint);
    told.recv_timeout(PATIENCE / 4).unwrap();
    let echo = served.echo("#s");
    assert_eq!(echo.say(&words(0)).unwrap().number, 3);
}

/// Gives a call up when it is dropped, as a task does whose last waker goes.
struct Holds;

thread_local! {
    static HELD: RefCell<Vec<PendingCall<Words>>> = const { RefCell::new(Vec::new()) };
}

impl Wake for Holds {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Holds {
    fn drop(&mut self) {
        drop(HELD.take());
    }
}

#[timed]
fn a_waker_that_goes_may_give_up_calls_of_the_same_connection() {
    let served = serve_scripted(Limits::default(), |_| keeper());
    let event_loop = EventLoop::new().unwrap();
    let far = EchoCaller::new(&Client::in_loop(&event_loop), &served.via("#s")).unwrap();
    for moved in [true, false] {
        HELD.with_borrow_mut(|held| held.push(far.start_later(&words(1))));
        let waker = Waker::from(Arc::new(Holds));
        let mut started = Box::pin(far.start_later(&words(2)));
        let mut task = TaskContext::from_waker(&waker);
        assert!(started.as_mut().poll(&mut task).is_pending());
        drop(waker);
        if moved {
            let mut task = TaskContext::from_waker(Waker::noop());
            assert!(started.as_mut().poll(&mut task).is_pending());
        }
        drop(started);
        assert!(HELD.take().is_empty(), "its task has gone");
    }
    far.nothing(&()).unwrap();
}

#[timed]
fn a_oneway_within_a_loop_has_its_deadline_as_well() {
    let (event_loop, server, echo) = own(Hooked::default());
    let address = server.listen(&unique_address()).unwrap().to_string();
    let client = Client::in_loop(&event_loop).without_short_circuit();
    let far = EchoCaller::new(&client, &address).unwrap();
    far.nothing(&()).unwrap();
    for echo in [far, echo] {
        let status = echo.with(until(Duration::ZERO)).note(&words(0)).unwrap_err();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{echo:?}");
    }
}

#[timed]
fn a_oneway_that_finds_no_room_in_time_fails() {
    let (go, wait) = mpsc::channel();
    let served = blocking(wait);
    let event_loop = EventLoop::new().unwrap();
    let far = EchoCaller::new(&Client::in_loop(&event_loop), &served.via("#s")).unwrap();
    let _first = far.start_say(&words(0));
    let mut outcomes = (0..20).map(|number| far.with(until(SHORT)).note(&large(number)));
    let status = outcomes.find_map(Result::err).expect("20 fit in no channel");
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    drop(go);
}

#[timed]
fn a_late_oneway_of_a_client_without_a_loop_is_not_kept() {
    let (go, wait) = mpsc::channel();
    let served = blocking(wait);
    let far = served.echo("#s");
    let _first = far.start_say(&words(0));
    let late = until(Duration::ZERO);
    let mut outcomes = (0..20).map(|number| far.with(late.clone()).note(&large(number)));
    let status = outcomes.find_map(Result::err).expect("20 fit in no channel");
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
    drop(go);
}
