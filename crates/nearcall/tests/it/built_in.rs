//! What every server answers without being registered, as its clients see it.
//!
//! **Not here:** callers of other users, and servers by name (`../faults/names.rs`).

use nearcall::client::ReconnectPolicy;
use nearcall::control::{
    ConnectionsRequest, DescribeReply, DescribeRequest, HealthRequest, STOP_BY_SIGNAL,
    ServerCaller, StopRequest,
};
use nearcall::observe::{InterceptedCall, Interceptor};
use nearcall::prost::Message;
use nearcall::prost_types::FileDescriptorSet;
use nearcall::server::{Health, RegisterError, StartError};
use nearcall::service::Interface;
use nearcall_os::process;

use crate::server_threads::{Caller, Gate, shared_echo};
use crate::stage::prelude::*;
use crate::support::LoopThread;

fn describe(server: &ServerCaller) -> DescribeReply {
    server.describe(&DescribeRequest::default()).unwrap()
}

fn health(server: &ServerCaller, object: &str) -> Result<Health, Status> {
    let request = HealthRequest { object: object.to_owned() };
    server.health(&request).map(|reply| reply.health())
}

fn names(server: &DescribeReply) -> Vec<&str> {
    server.objects.iter().map(|object| object.name.as_str()).collect()
}

#[timed]
fn a_server_describes_itself_over_every_kind_of_address() {
    let event_loop = EventLoop::new().unwrap();
    for address in [&*unique_address(), "tcp://127.0.0.1:0", "inproc:described"] {
        let is_inproc = address.starts_with("inproc:");
        let server = Server::new(&event_loop);
        server.register_as("hall", EchoDispatcher::new(Service::default())).unwrap();
        server.register(EchoDispatcher::new(Service::default())).unwrap();
        let address = server.listen(address).unwrap().to_string();
        let client = match is_inproc {
            true => Client::in_loop(&event_loop),
            false => Client::in_loop(&event_loop).without_short_circuit(),
        };
        let described = describe(&ServerCaller::new(&client, &address).unwrap());
        assert_eq!(names(&described), ["echo.v1.Echo", "echo.v1.Echo@hall"]);
        assert_eq!(described.objects[1].instance, "hall");
        assert_eq!(described.health(), Health::Serving);
        assert_eq!(described.version, env!("CARGO_PKG_VERSION"));
        // A client of another machine learns nothing of the process.
        let is_near = !address.starts_with("tcp:");
        assert_eq!(described.pid, is_near.then(process::pid), "{address}");
        assert_eq!(described.uid, is_near.then(process::user_id), "{address}");
        let expected: &[String] = if is_near { &[address] } else { &[] };
        assert_eq!(described.addresses, expected);
        let offered = described.mechanisms.iter().filter(|it| it.offered);
        let offered: Vec<_> = offered.map(|it| it.name.as_str()).collect();
        match (is_near, is_inproc) {
            (false, _) => assert_eq!(offered, ["tcp"]),
            (_, true) => assert_eq!(offered, [""; 0]),
            _ => assert!(offered.contains(&"shm") && !offered.contains(&"cma"), "{offered:?}"),
        }
    }
}

#[test]
fn interfaces_come_once_and_their_descriptors_on_request() {
    let served = Served::with(Limits::default(), "", |_, server, _| {
        server.register_as("hall", EchoDispatcher::new(Service::default())).unwrap();
    });
    let caller = ServerCaller::new(&Client::new(), &served.address).unwrap();
    let plain = describe(&caller);
    let [interface] = &plain.interfaces[..] else { panic!("{plain:?}") };
    assert!(interface.name == "echo.v1.Echo" && interface.descriptor_set.is_empty());
    let request = DescribeRequest { with_descriptor_sets: true, ..DescribeRequest::default() };
    let whole = caller.describe(&request).unwrap();
    let [of_whole] = &whole.interfaces[..] else { panic!("{whole:?}") };
    assert_eq!(of_whole.descriptor_hash, interface.descriptor_hash);
    let set = FileDescriptorSet::decode(&*of_whole.descriptor_set).unwrap();
    assert!(set.file.iter().any(|file| file.package() == "echo.v1"), "{set:?}");
    let request = DescribeRequest { interface: "echo.v1.Other".into(), ..request };
    let none = caller.describe(&request).unwrap();
    assert!(none.objects.is_empty() && none.interfaces.is_empty(), "{none:?}");
}

#[test]
fn the_health_of_an_object_is_what_its_program_says() {
    let served = Served::with(Limits::default(), "", |_, server, _| {
        server.register_as("hall", EchoDispatcher::new(Service::default())).unwrap();
        assert!(server.set_health("echo.v1.Echo@hall", Health::NotServing));
        assert!(!server.set_health("echo.v1.Echo@cellar", Health::Serving));
    });
    let caller = ServerCaller::new(&Client::new(), &served.address).unwrap();
    assert_eq!(health(&caller, "echo.v1.Echo"), Ok(Health::Serving));
    assert_eq!(health(&caller, "echo.v1.Echo@hall"), Ok(Health::NotServing));
    assert_eq!(health(&caller, ""), Ok(Health::NotServing));
    let outcome = health(&caller, "echo.v1.Echo@cellar");
    expect_error(outcome, Code::NotFound, &["`echo.v1.Echo@cellar`"]);
    // A long name is not looked at, and its letters not escaped, of which each is four.
    let outcome = health(&caller, &"\u{7f}".repeat((4 << 20) - 100));
    expect_error(outcome, Code::InvalidArgument, &["4194204 bytes", "limit of 256 bytes"]);
    // Calls are served whatever it is.
    served.echo("#hall").nothing(&()).unwrap();
}

#[timed]
fn a_server_with_several_loops_answers_as_one() {
    let server = Server::builder().threads(2).register(shared_echo());
    let server = server.listen(&unique_address()).start().unwrap();
    let address = server.address().to_string();
    // The loop with the fewest connections gets the next one, so both have one.
    let callers = [0, 1].map(|_| ServerCaller::new(&Client::new(), &address).unwrap());
    callers.iter().for_each(|caller| assert_eq!(names(&describe(caller)), ["echo.v1.Echo"]));
    for caller in &callers {
        let listed = caller.connections(&ConnectionsRequest::default()).unwrap();
        let mut loops: Vec<_> = listed.connections.iter().map(|it| it.r#loop).collect();
        loops.sort_unstable();
        assert_eq!(loops, [0, 1]);
        for connection in &listed.connections {
            assert_eq!(connection.pid, Some(process::pid()));
            assert_eq!(connection.uid, Some(process::user_id()));
            assert_eq!(connection.mechanism, "shm");
            assert!(connection.room_bytes > 0 && connection.descriptors > 0);
        }
        let counted = listed.connections.iter().filter(|it| it.slots_lent.is_some()).count();
        assert_eq!(counted, 1, "only the own loop counts what is lent");
        for live in [false, true] {
            let request = ConnectionsRequest { live, ..ConnectionsRequest::default() };
            let listed = caller.connections(&request).unwrap().connections;
            assert_eq!(listed.iter().filter(|it| it.is_asking).count(), 1, "{listed:?}");
        }
        let described = describe(caller);
        let shm = described.mechanisms.iter().find(|it| it.name == "shm").unwrap();
        assert_eq!(shm.connections, Some(1), "the one of the call does not count");
    }
    assert!(server.set_health("echo.v1.Echo", Health::NotServing));
    assert!(!server.set_health("echo.v1.Other", Health::NotServing));
    for caller in &callers {
        assert_eq!(health(caller, "echo.v1.Echo"), Ok(Health::NotServing));
    }
    let [_, gone] = callers;
    drop(gone);
    wait_until("its end", || server.connection_counts().contains(&0));
    let caller = ServerCaller::new(&Client::new(), &address).unwrap();
    let listed = caller.connections(&ConnectionsRequest { own_only: true, live: false }).unwrap();
    assert_eq!(listed.connections.len(), 2);
    server.stop().unwrap();
}

#[test]
fn the_name_is_reserved_and_the_service_is_not_the_programs() {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    let own = |instance: Option<&str>| match instance {
        None => server.register(OfThatName),
        Some(instance) => server.register_as(instance, OfThatName),
    };
    let reserved = |name: &str| RegisterError::Reserved(name.to_owned());
    assert_eq!(own(None), Err(reserved("nearcall.v1.Server")));
    assert_eq!(own(Some("x")), Err(reserved("nearcall.v1.Server@x")));
    let text = own(None).unwrap_err().to_string();
    assert!(text.contains("`nearcall.v1.Server` is reserved"), "{text}");
    let error = Server::builder().register(OfThatName).start().unwrap_err();
    assert!(matches!(error, StartError::Register(RegisterError::Reserved(_))), "{error}");
    assert!(!server.unregister("nearcall.v1.Server"));
    // The name of the server as a whole, whose health stays.
    assert!(!server.unregister(""));
    assert!(server.set_health("", Health::Serving));
    // An error that lists what there is lists what the program has registered.
    server.listen("inproc:reserved").unwrap();
    let client = Client::in_loop(&event_loop);
    let error = EchoCaller::new(&client, "inproc:reserved").unwrap().nothing(&()).unwrap_err();
    assert!(error.message().contains("this server has nothing"), "{error}");
}

/// A dispatcher of a program with the name of the built-in interface.
#[derive(Clone)]
struct OfThatName;

static OF_THAT_NAME: Interface = Interface::new("nearcall.v1.Server", &[], &[]);

impl nearcall::service::Dispatcher for OfThatName {
    fn interface(&self) -> &'static Interface {
        &OF_THAT_NAME
    }

    fn dispatch(&self, incoming: nearcall::service::Incoming<'_>) {
        incoming.unimplemented();
    }
}

#[test]
fn interceptors_do_not_see_its_calls() {
    struct Counts(Arc<AtomicUsize>);
    impl Interceptor for Counts {
        fn start(&self, _call: &mut InterceptedCall<'_>) -> Result<(), Status> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }
    let count = Arc::new(AtomicUsize::new(0));
    let counts = Counts(Arc::clone(&count));
    let served = Served::with(Limits::default(), "", move |_, server, _| {
        server.add_interceptor(counts);
    });
    let client = Client::new();
    describe(&ServerCaller::new(&client, &served.address).unwrap());
    assert_eq!(count.load(Ordering::Relaxed), 0);
    EchoCaller::new(&client, &served.address).unwrap().nothing(&()).unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[timed]
fn a_program_that_waits_for_a_signal_is_stopped_by_a_call() {
    // One loop, which the program runs.
    let address = unique_address();
    let at = address.clone();
    let (give, listens) = mpsc::channel();
    let program = thread::spawn(move || {
        let event_loop = EventLoop::new().unwrap();
        let server = Server::new(&event_loop);
        server.listen(&at).unwrap();
        event_loop.poster().post(move |_| give.send(()).unwrap()).unwrap();
        server.run_until_signal(&event_loop)
    });
    // The loop runs, and with it what waits for the signal.
    listens.recv().unwrap();
    let stop = || stop_by(&ServerCaller::new(&Client::new(), &address).unwrap());
    assert_eq!(stop(), Ok(process::pid()));
    program.join().unwrap().unwrap();
    // Loops of its own.
    let server = Server::builder().threads(2).listen(&address).start().unwrap();
    let server = Arc::new(server);
    let waiting = Arc::clone(&server);
    let program = thread::spawn(move || waiting.run_until_signal());
    assert_eq!(stop_when_it_can(stop), Ok(process::pid()));
    assert_eq!(program.join().unwrap(), Ok(()));
    assert_eq!(stop().unwrap_err().code(), Code::Unavailable);
    // The same as a task.
    let server = Server::builder().threads(2).listen(&address).start().unwrap();
    let program = thread::spawn(|| block_on(server.serve()));
    assert_eq!(stop_when_it_can(stop), Ok(process::pid()));
    assert_eq!(program.join().unwrap(), Ok(()));
    assert_eq!(stop().unwrap_err().code(), Code::Unavailable);
}

fn stop_by(server: &ServerCaller) -> Result<i32, Status> {
    server.stop(&StopRequest {}).map(|reply| reply.pid)
}

/// Stops a server whose program may not wait for that yet.
fn stop_when_it_can(stop: impl Fn() -> Result<i32, Status>) -> Result<i32, Status> {
    let mut outcome = stop();
    wait_until("the program to wait", || {
        let is_early = |status: &Status| status.code() == Code::FailedPrecondition;
        let is_early = outcome.as_ref().is_err_and(is_early);
        if is_early {
            outcome = stop();
        }
        !is_early
    });
    outcome
}

#[timed]
fn a_call_under_way_has_its_reply_and_no_other_begins() {
    let gate = Arc::new(Gate::default());
    let closed = Arc::clone(&gate);
    let limits = Limits { drain_timeout: PATIENCE, ..Limits::default() };
    let server =
        Server::builder().threads(2).limits(limits).register(Threaded::new(move |_, request| {
            closed.pass();
            Ok(request.clone())
        }));
    let server = Arc::new(server.listen(&unique_address()).start().unwrap());
    let address = server.address().to_string();
    // It goes to the other loop than the method that blocks its own.
    let call = Caller::start(&address);
    // The loop that would accept another connection is blocked.
    let stopper = Client::builder().reconnect(ReconnectPolicy::Never).build();
    let stopper = ServerCaller::new(&stopper, &address).unwrap();
    describe(&stopper);
    let call = call.call(7);
    gate.wait_for(1);
    let waiting = Arc::clone(&server);
    let program = thread::spawn(move || waiting.run_until_signal());
    assert_eq!(stop_when_it_can(|| stop_by(&stopper)), Ok(process::pid()));
    wait_until("the drain", || describe_or_fail(&stopper).is_err());
    expect_code(describe_or_fail(&stopper), Code::Unavailable);
    assert!(!call.is_finished() && !program.is_finished());
    gate.open();
    assert_eq!(call.join().unwrap(), Ok(7));
    assert_eq!(program.join().unwrap(), Ok(()));
}

fn describe_or_fail(server: &ServerCaller) -> Result<DescribeReply, Status> {
    server.describe(&DescribeRequest::default())
}

#[test]
fn a_program_that_ends_in_another_way_is_not_stopped() {
    let (served, address) = LoopThread::serve(Limits::default(), |_, server| {
        server.listen(&unique_address()).unwrap().to_string()
    });
    let caller = ServerCaller::new(&Client::new(), &address).unwrap();
    let refused = expect_code(stop_by(&caller), Code::FailedPrecondition);
    let pid = format!("a signal to process {}", process::pid());
    assert!(refused.message().contains(&pid), "{refused}");
    assert_eq!(refused.metadata().get(STOP_BY_SIGNAL), Some("SIGTERM"));
    assert_eq!(describe(&caller).health(), Health::Serving);
    drop(served);
    assert_eq!(describe_or_fail(&caller).unwrap_err().code(), Code::Unavailable);
}
