//! Calls that stay in their thread: typed where caller and service are of one build, through bytes
//! where they are not. The same cases over the channel and both short circuits must come out alike.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use nearcall::observe::Peer;
use nearcall::service::Responder;
use nearcall_channel::{Listener, Options, connect};
use nearcall_wire::{Frame, Payload};

use nearcall_testkit::directory::Directory;
use nearcall_testkit::other_echo as other_build;

use crate::raw_frames::receive;
use crate::stage::prelude::*;
use crate::streams::served::{
    Kind, Plan, Service as Streams, StreamsAsyncCaller, StreamsCaller, item, register,
};

/// What the cases need beside the plain [`Service`]: `Say` notes where its request is, and calls
/// itself as often as the request says; `Later` answers within, behind a timer or never.
#[derive(Default)]
struct Cases {
    base: Service,
    request_at: Cell<usize>,
    own: RefCell<Option<EchoCaller>>,
    later: Rc<RefCell<Vec<Responder<Words>>>>,
}

impl Echo for Cases {
    nearcall_testkit::forward_echo!(base: nothing note fail panic look);

    fn say(&self, context: &Context<'_>, request: &Words) -> Result<Words, Status> {
        self.request_at.set(std::ptr::from_ref(request).addr());
        let own = self.own.borrow().clone();
        match (request.number, own) {
            (0, _) | (_, None) => {
                let left = context.remaining().map_or(0, |left| left.as_secs());
                Ok(Words { number: left, data: request.data.clone() })
            }
            (depth, Some(own)) => own.say(&Words { number: depth - 1, data: request.data.clone() }),
        }
    }

    fn later(&self, context: &Context<'_>, request: &Words) -> Result<Words, Status> {
        context.answer_later(|responder| match request.number {
            // At once.
            0 => responder.finish(Ok(request.clone())),
            1 => responder.finish(Err(Status::not_found("later"))),
            // Not at all.
            2 => drop(responder),
            3 => panic!("asked for it"),
            4 => {
                responder.finish(Ok(request.clone()));
                panic!("asked for it")
            }
            // When somebody says so.
            _ => self.later.borrow_mut().push(responder),
        })
    }

    fn quick(&self, context: &Context<'_>, _request: &Words) -> Result<Words, Status> {
        while !context.is_cancelled() {}
        Ok(Words::default())
    }

    fn work(&self, _context: &Context<'_>, _request: &Span) -> Result<Words, Status> {
        // Answers what is kept, from inside another call.
        for responder in self.later.take() {
            responder.finish(Ok(Words { number: 77, ..Words::default() }));
        }
        Ok(Words::default())
    }
}

/// A server and a client in one loop.
struct House {
    event_loop: EventLoop,
    server: Server,
    client: Client,
    service: Arc<Cases>,
    address: String,
}

impl House {
    fn new(address: &str, short: bool) -> Self {
        let service = Arc::<Cases>::default();
        let (event_loop, server, address) =
            serve_here(address, EchoDispatcher::shared(Arc::clone(&service)));
        let client = Client::in_loop(&event_loop);
        let client = if short { client } else { client.without_short_circuit() };
        *service.own.borrow_mut() = Some(EchoCaller::new(&client, &address).unwrap());
        Self { event_loop, server, client, service, address }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        // The service calls itself: it holds its client, which holds the loop's core.
        self.service.own.borrow_mut().take();
    }
}

/// How a call came out. Texts that name the way are left out.
fn outcome<R>(result: Result<R, Status>, show: impl FnOnce(R) -> String) -> String {
    match result {
        Ok(result) => show(result),
        Err(status) if NAMING_THE_WAY.contains(&status.code()) => status.code().to_string(),
        Err(status) => status.to_string(),
    }
}

/// Their texts say where the server is.
const NAMING_THE_WAY: [Code; 2] = [Code::DeadlineExceeded, Code::ResourceExhausted];

/// All cases with the callers of one build of the interface.
macro_rules! cases {
    ($build:ident, $house:expr) => {{
        use $build::{EchoCaller, Failure, Span, Words};
        let house: &House = $house;
        let echo = EchoCaller::new(&house.client, &house.address).unwrap();
        let words = |number| Words { number, data: vec![1, 2, 3].into() };
        let show = |reply: Words| format!("{} {:?}", reply.number, reply.data);
        let within = |timeout| CallOptions::new().deadline(timeout);
        let short = Duration::from_millis(10);
        let mut seen = Vec::new();
        // Twice: the way to the object is found with the first call.
        for _ in 0..2 {
            seen.push(outcome(echo.say(&words(0)), show));
            seen.push(outcome(echo.say(&words(3)), show));
            seen.push(outcome(echo.say(&words(1_000)), show));
            seen.push(outcome(echo.nothing(&()), |()| "nothing".into()));
            for code in [1, 5, 12, 16] {
                let failure = Failure { code, text: format!("text {code}") };
                seen.push(outcome(echo.fail(&failure), |()| String::new()));
            }
            seen.push(outcome(echo.panic(&()), |()| String::new()));
            for number in 0..5 {
                seen.push(outcome(echo.later(&words(number)), show));
            }
            seen.push(outcome(echo.with(within(short)).later(&words(9)), show));
            seen.push(outcome(echo.quick(&words(0)), show));
            seen.push(outcome(echo.with(within(Duration::ZERO)).say(&words(0)), show));
            let options = within(PATIENCE).metadata("a", "b").unwrap();
            seen.push(outcome(echo.with(options).look(&()), |seen| {
                assert!(seen.remaining_ns > 0);
                format!("{} {:?} {}", seen.uid, seen.metadata, seen.method)
            }));
            let options = CallOptions::new().metadata("long", &"v".repeat(9_000)).unwrap();
            seen.push(outcome(echo.with(options).look(&()), |_| "taken".into()));
            // Started calls: ended by another call, by a deadline, by being given up.
            let started = echo.start_later(&words(9));
            seen.push(format!("done: {}", started.is_done()));
            seen.push(outcome(echo.work(&Span { ms: 0 }), show));
            seen.push(outcome(started.wait(), show));
            seen.push(outcome(echo.with(within(short)).start_later(&words(9)).wait(), show));
            let unwanted = echo.start_later(&words(9));
            seen.push(outcome(echo.nothing(&()), |()| "nothing".into()));
            unwanted.cancel();
            seen.push(outcome(echo.nothing(&()), |()| "nothing".into()));
            let kept = house.service.later.take();
            seen.push(format!(
                "wanted: {}",
                kept.iter().filter(|call| !call.is_cancelled()).count()
            ));
            drop(kept);
            seen.push(outcome(echo.start_panic(&()).wait(), |()| String::new()));
            let failure = Failure { code: 5, text: "started".into() };
            let failed = echo.start_fail(&failure);
            seen.push(outcome(failed.wait(), |()| String::new()));
        }
        seen
    }};
}

#[test]
fn a_service_in_an_rc_is_called_directly_as_well() {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    let service = Rc::new(Cases::default());
    let dispatcher = EchoDispatcher::shared(Rc::clone(&service));
    assert!(Rc::ptr_eq(dispatcher.service(), &service));
    server.register(dispatcher.clone()).unwrap();
    server.listen("inproc:in-an-rc").unwrap();
    let echo = EchoCaller::new(&Client::in_loop(&event_loop), "inproc:in-an-rc").unwrap();
    let request = Words::default();
    echo.say(&request).unwrap();
    assert_eq!(service.request_at.get(), std::ptr::from_ref(&request).addr());
    // As a message.
    assert_eq!(echo.start_say(&request).wait(), Ok(Words::default()));
}

#[timed]
fn all_ways_give_the_same_results() {
    let channel = House::new(&unique_address(), false);
    let over_channel = cases!(crate_echo, &channel);
    assert_eq!(channel.server.connections().len(), 1, "it took the channel");
    let typed = House::new(&unique_address(), true);
    let directly = cases!(crate_echo, &typed);
    assert_eq!(typed.server.connections().len(), 0, "it took the short circuit");
    let bytes = House::new(&unique_address(), true);
    let through_bytes = cases!(other_build, &bytes);
    assert_eq!(bytes.server.connections().len(), 0, "it took the short circuit");
    for (index, wanted) in over_channel.iter().enumerate() {
        assert_eq!(&directly[index], wanted, "case {index}, typed");
        assert_eq!(&through_bytes[index], wanted, "case {index}, through bytes");
    }
    assert_eq!((directly.len(), through_bytes.len()), (over_channel.len(), over_channel.len()));
}

use crate::echo as crate_echo;

#[test]
fn a_typed_call_hands_over_the_request_itself() {
    let house = House::new("inproc:typed", true);
    let echo = EchoCaller::new(&house.client, &house.address).unwrap();
    let request = Words { number: 0, data: vec![1].into() };
    echo.say(&request).unwrap();
    assert_eq!(house.service.request_at.get(), std::ptr::from_ref(&request).addr());
    assert!(echo.look(&()).unwrap().local);
    let other = other_build::EchoCaller::new(&house.client, &house.address).unwrap();
    let request = other_build::Words { number: 0, data: vec![1].into() };
    assert_eq!(other.say(&request).unwrap().data, &[1][..]);
    assert_ne!(house.service.request_at.get(), std::ptr::from_ref(&request).addr());
    assert!(other.look(&()).unwrap().local);
    assert_eq!(Peer::Local.pid(), Some(nearcall_os::process::pid()));
}

#[test]
fn a_deadline_is_inherited_within_a_thread() {
    let house = House::new("inproc:inherited", true);
    let echo = EchoCaller::new(&house.client, &house.address).unwrap();
    let options = CallOptions::new().deadline(PATIENCE);
    let left = echo.with(options).say(&Words { number: 3, ..Words::default() }).unwrap();
    assert!((1..=PATIENCE.as_secs()).contains(&left.number), "{left:?}");
}

/// A method has run though a call of its own has not begun, and says so by its status.
#[test]
fn what_a_method_says_of_a_call_of_its_own_is_not_said_of_it() {
    for short in [false, true] {
        let house = House::new(&unique_address(), short);
        let absent = EchoCaller::new(&Client::new(), &unique_address()).unwrap();
        *house.service.own.borrow_mut() = Some(absent);
        let typed = EchoCaller::new(&house.client, &house.address).unwrap();
        let bytes = other_build::EchoCaller::new(&house.client, &house.address).unwrap();
        let outcomes = [
            typed.say(&Words { number: 1, ..Words::default() }).map(drop),
            bytes.say(&other_build::Words { number: 1, ..Default::default() }).map(drop),
        ];
        for outcome in outcomes {
            let status = expect_code(outcome, Code::Unavailable);
            assert!(!status.has_not_begun(), "short: {short}");
        }
    }
}

#[test]
fn a_place_or_object_that_the_loop_does_not_serve_is_refused() {
    let house = House::new("inproc:here", true);
    let call = |at: &str| EchoCaller::new(&house.client, at).unwrap().nothing(&()).unwrap_err();
    let status = call("inproc:there");
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    assert!(status.message().contains("inproc:there"), "{status}");
    let status = call("inproc:here#other");
    assert_eq!(status.code(), Code::Unimplemented, "{status}");
    assert!(status.message().contains("echo.v1.Echo@other"), "{status}");
    let outside = EchoCaller::new(&Client::new(), "inproc:here").unwrap().nothing(&());
    assert_eq!(outside.unwrap_err().code(), Code::Unavailable);
    assert!(Server::new(&house.event_loop).listen("inproc:here").is_err(), "taken");
}

/// Streams have a connection within the thread; other calls to the same object have none.
#[timed]
fn a_stream_of_the_own_loop_has_a_connection_and_other_calls_have_none() {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    register(&server, Streams::new(Kind::Async));
    server.listen("inproc:streams").unwrap();
    let client = Client::in_loop(&event_loop);
    let streams = StreamsCaller::new(&client, "inproc:streams").unwrap();
    assert_eq!(streams.say(&item(1, 1)).unwrap(), item(1, 1));
    assert_eq!((server.connections().len(), client.connections().len()), (0, 0));
    let plan = Plan { items: 3, bytes: 10, code: 0 };
    let count = || streams.count(&plan)?.collect::<Result<Vec<_>, _>>();
    for _ in 0..2 {
        assert_eq!(count().unwrap().len(), 3);
        assert_eq!((server.connections().len(), client.connections().len()), (1, 1));
    }
    server.drain();
    assert_eq!(count().unwrap_err().code(), Code::Unavailable);
    server.listen("inproc:streams").unwrap();
    assert_eq!(count().unwrap().len(), 3, "it listens again");
    drop(server);
    assert_eq!(count().unwrap_err().code(), Code::Unavailable);
}

#[timed]
fn streams_to_a_loop_without_a_socket_come_from_its_thread_only() {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    register(&server, Streams::new(Kind::Async));
    server.listen("inproc:streams").unwrap();
    let client = Client::in_loop(&event_loop);
    let refusal = |client: &Client| {
        let streams = StreamsCaller::new(client, "inproc:streams").unwrap();
        streams.count(&Plan::default()).unwrap_err()
    };
    let elsewhere = thread::scope(|scope| scope.spawn(|| refusal(&client)).join());
    assert_eq!(elsewhere.unwrap().code(), Code::Unavailable);
    assert_eq!(refusal(&Client::new()).code(), Code::Unavailable);
    let long = refusal(&Client::in_loop(&event_loop).without_short_circuit());
    assert_eq!(long.code(), Code::FailedPrecondition);
    let streams = StreamsAsyncCaller::new(&client, "inproc:streams").unwrap();
    let outcome = block_on(streams.count(&Plan::default()));
    expect_error(outcome, Code::FailedPrecondition, &["use another address of the server"]);
    assert_eq!(server.connections().len(), 0);
}

#[test]
fn what_is_unregistered_or_closed_is_not_called_any_more() {
    let house = House::new("inproc:closing", true);
    let echo = EchoCaller::new(&house.client, &house.address).unwrap();
    echo.nothing(&()).unwrap();
    assert!(house.server.unregister("echo.v1.Echo"));
    assert_eq!(echo.nothing(&()).unwrap_err().code(), Code::Unimplemented);
    house.server.register(EchoDispatcher::new(Service::default())).unwrap();
    echo.nothing(&()).unwrap();
    house.server.drain();
    assert_eq!(echo.nothing(&()).unwrap_err().code(), Code::Unavailable);
}

#[timed]
fn a_server_is_known_by_its_greeting_under_another_name() {
    let directory = Directory::new();
    let house = House::new(&directory.address("socket"), true);
    std::os::unix::fs::symlink(directory.0.join("socket"), directory.0.join("link")).unwrap();
    let link = directory.address("link");
    for (at, short) in [(&link, true), (&link, false)] {
        let client = Client::in_loop(&house.event_loop);
        let client = if short { client } else { client.without_short_circuit() };
        let echo = EchoCaller::new(&client, at).unwrap();
        echo.nothing(&()).unwrap();
        assert_eq!(echo.look(&()).unwrap().local, short);
    }
    drop(house);
}

/// Learns what the server at the first of two places greets with, and greets with that at the
/// second, where it refuses every call.
pub(crate) fn impersonate(places: &str) {
    let (victim, own) = places.split_once(' ').unwrap();
    let victim = &victim.parse().unwrap();
    let mut endpoint = connect(victim, Mechanism::Shm, &Options::default()).unwrap();
    let greeting = receive(&mut endpoint).expect("the server greets");
    let listener = Listener::bind(&own.parse().unwrap()).unwrap();
    let deadline = Deadline::after(PATIENCE);
    let mut endpoint = listener.accept(deadline, &Options::default()).unwrap();
    endpoint.send(&greeting, deadline).unwrap();
    while let Some(message) = receive(&mut endpoint) {
        if let Ok(Frame::Call { id, .. }) = Frame::decode(&message, message.len()) {
            let (status, payload) = (Code::DataLoss, Payload::EMPTY);
            endpoint.send(&Frame::Error { id, status, payload }.encode(), deadline).unwrap();
        }
    }
}

#[timed]
fn r23_a_server_of_another_process_that_greets_as_ours_is_not_taken_for_it() {
    let house = House::new(&unique_address(), true);
    let other = unique_address();
    let places = format!("{} {other}", house.address);
    let _impostor = crate::two_processes::start("impostor", &places);
    house.client.hunt(&other, PATIENCE).unwrap();
    let echo = EchoCaller::new(&house.client, &other).unwrap();
    let status = echo.look(&()).expect_err("the other process refuses");
    assert_eq!(status.code(), Code::DataLoss, "{status}");
    let own = EchoCaller::new(&house.client, &house.address).unwrap();
    assert!(own.look(&()).unwrap().local);
}

#[test]
fn limits_of_the_server_do_not_bound_what_never_leaves() {
    // Written down because it differs: nothing is copied, so no limit of a copy is needed.
    let limits = Limits { message_bytes_max: 4_096, ..Limits::default() };
    let (event_loop, _server, _) =
        serve_here_with(limits, "inproc:limits", EchoDispatcher::new(Service::default()));
    let echo = EchoCaller::new(&Client::in_loop(&event_loop), "inproc:limits").unwrap();
    let request = Words { data: vec![0; 10_000].into(), number: 0 };
    assert_eq!(echo.say(&request).unwrap().data.len(), 10_000);
}
