//! Servers with event loops of their own: how clients spread over them, limits, ends.
//!
//! **Not here:** signals (`server_signals.rs`), a loop that fails (`server/running.rs`, which can
//! have one fail).

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::{Condvar, OnceLock, Weak};
use std::thread::{self, JoinHandle};

use nearcall::server::{RunningServer, ServerBuilder, ServerError, StartError};
use nearcall::service::{Dispatcher, Incoming, Interface};
use nearcall_os::process::raise_descriptor_limit;

use crate::observed::while_a_good_client_calls;
use crate::stage::prelude::*;
use crate::two_processes;

mod drains;

/// A service that returns what it gets.
pub(crate) fn shared_echo() -> EchoDispatcher<Threaded> {
    Threaded::new(|_, request| Ok(request.clone()))
}

/// A server with so many threads, and where it listens.
fn start(threads: usize, dispatcher: EchoDispatcher<Threaded>) -> RunningServer {
    start_with(Server::builder().threads(threads), dispatcher)
}

fn start_with(builder: ServerBuilder, dispatcher: EchoDispatcher<Threaded>) -> RunningServer {
    builder.register(dispatcher).listen(&everything(&unique_address())).start().unwrap()
}

/// A client of its own that has called the server.
fn connect(server: &RunningServer, parameters: &str) -> Result<EchoCaller, Status> {
    let address = format!("{}{parameters}", server.address());
    let echo = EchoCaller::new(&Client::new(), &address).unwrap();
    echo.with(CallOptions::new().deadline(PATIENCE)).say(&words(7))?;
    Ok(echo)
}

/// A client in a thread of its own, that is connected.
pub(crate) struct Caller {
    go: mpsc::Sender<u64>,
    thread: JoinHandle<Result<u64, Status>>,
}

impl Caller {
    /// Connects by a call of `Nothing`.
    pub(crate) fn start(address: &str) -> Self {
        let address = address.to_owned();
        let ((go, number), (give, is_connected)) = (mpsc::channel(), mpsc::channel());
        let thread = thread::spawn(move || {
            let echo = EchoCaller::new(&Client::new(), &address).unwrap();
            echo.nothing(&()).unwrap();
            give.send(()).unwrap();
            echo.say(&words(number.recv().unwrap())).map(|reply| reply.number)
        });
        is_connected.recv().unwrap();
        Self { go, thread }
    }

    /// Calls `Say` with this number.
    pub(crate) fn call(self, number: u64) -> JoinHandle<Result<u64, Status>> {
        self.go.send(number).unwrap();
        self.thread
    }
}

fn total(server: &RunningServer) -> usize {
    server.connection_counts().iter().sum()
}

/// Stops methods until the test says so.
#[derive(Default)]
pub(crate) struct Gate {
    /// How many methods have come, and whether the gate is open.
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Gate {
    /// Waits in a method until the gate is open.
    pub(crate) fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        self.changed.notify_all();
        drop(self.changed.wait_while(state, |(_, is_open)| !*is_open).unwrap());
    }

    pub(crate) fn wait_for(&self, count: usize) {
        let state = self.state.lock().unwrap();
        let come = self.changed.wait_timeout_while(state, PATIENCE, |(come, _)| *come < count);
        assert!(!come.unwrap().1.timed_out(), "not {count} methods within {PATIENCE:?}");
    }

    pub(crate) fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

/// A service whose `Say` waits at the gate if the number is 1.
fn gated() -> (Arc<Gate>, EchoDispatcher<Threaded>) {
    let gate = Arc::<Gate>::default();
    let at_gate = Arc::clone(&gate);
    let dispatcher = Threaded::new(move |_, request| {
        if request.number == 1 {
            at_gate.pass();
        }
        Ok(request.clone())
    });
    (gate, dispatcher)
}

#[test]
fn the_clients_are_spread_evenly_and_every_loop_serves() {
    const CLIENTS: usize = 64;
    each_in_time([1, 2, 4], |threads| {
        let names = Arc::new(Mutex::new(BTreeSet::new()));
        let seen = Arc::clone(&names);
        let server = start(
            threads,
            Threaded::new(move |_, request| {
                let name = thread::current().name().unwrap_or_default().to_owned();
                seen.lock().unwrap().insert(name);
                Ok(request.clone())
            }),
        );
        let clients: Vec<_> = (0..CLIENTS).map(|_| connect(&server, "").unwrap()).collect();
        let counts = server.connection_counts();
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(most - least <= 1, "{counts:?}");
        assert_eq!(server.connections().len(), CLIENTS);
        let expected: BTreeSet<_> =
            (0..threads).map(|index| format!("nearcall-loop-{index}")).collect();
        assert_eq!(*names.lock().unwrap(), expected);
        for (number, echo) in (0..).zip(&clients) {
            assert_eq!(echo.say(&words(number)).unwrap().number, number);
        }
        drop(clients);
        wait_until("the ends of the connections", || total(&server) == 0);
        // Places that were given back are given again, the emptiest loop first.
        let _clients: Vec<_> = (0..threads).map(|_| connect(&server, "").unwrap()).collect();
        assert_eq!(server.connection_counts(), vec![1; threads]);
    });
}

#[test]
fn two_loops_serve_a_thousand_connections() {
    const CONNECTIONS: usize = 1_000;
    // At most eight for both ends of a connection, and some for the other tests.
    let descriptors = 8 * CONNECTIONS as u64 + 2_000;
    assert!(raise_descriptor_limit(descriptors).unwrap() >= descriptors, "raise `ulimit -Hn`");
    in_time(|| {
        let server = start(2, shared_echo());
        let clients: Vec<_> =
            (0..CONNECTIONS).map(|_| connect(&server, "?via=unix-stream").unwrap()).collect();
        assert_eq!(server.connection_counts(), [CONNECTIONS / 2; 2]);
        for (number, echo) in (0..).zip(&clients) {
            assert_eq!(echo.say(&words(number)).unwrap().number, number);
        }
        drop(clients);
        wait_until("the ends of the connections", || total(&server) == 0);
        server.stop().unwrap();
    });
}

#[timed]
fn limits_hold_for_all_loops_together() {
    let limits = Limits { connections_max: 3, ..Limits::default() };
    let server = start_with(Server::builder().threads(2).limits(limits), shared_echo());
    let mut clients: Vec<_> = (0..3).map(|_| connect(&server, "").unwrap()).collect();
    expect_error(connect(&server, ""), Code::Unavailable, &["the server has 3 connections"]);
    clients.pop();
    wait_until("a place", || total(&server) == 2);
    clients.push(connect(&server, "").unwrap());
    let limits = Limits { connections_per_uid_max: 2, ..Limits::default() };
    let server = start_with(Server::builder().threads(2).limits(limits), shared_echo());
    let _clients = [0, 1].map(|_| connect(&server, "").unwrap());
    let refused = connect(&server, "").unwrap_err();
    assert!(refused.message().contains("this user has 2 connections"), "{refused}");
}

#[timed]
fn each_loop_sleeps_in_one_connection_without_a_descriptor() {
    let server = start(2, shared_echo());
    let via = format!("?via={}", Mechanism::ShmFutex);
    let clients = [0, 1].map(|_| connect(&server, &via).unwrap());
    assert_eq!(server.connection_counts(), [1, 1]);
    expect_error(connect(&server, &via), Code::Unavailable, &["descriptor"]);
    for echo in clients {
        echo.nothing(&()).unwrap();
    }
    wait_until("the ends of the connections", || total(&server) == 0);
    connect(&server, &via).unwrap();
}

#[test]
fn every_mechanism_reaches_every_loop() {
    each_in_time(Mechanism::all().filter(|mechanism| mechanism.supported().is_ok()), |mechanism| {
        let _alone = alone(mechanism.name());
        let server = start(2, shared_echo());
        let clients =
            [0, 1].map(|_| connect(&server, &format!("?via={mechanism}")).expect("a place"));
        assert_eq!(server.connection_counts(), [1, 1], "{mechanism}");
        for round in 0..20 {
            for echo in &clients {
                assert_eq!(echo.say(&words(round)).unwrap().number, round, "{mechanism}");
            }
        }
        assert!(server.drain(PATIENCE), "{mechanism}");
    });
}

#[timed]
fn a_method_that_does_not_return_keeps_no_one_waiting() {
    let (gate, dispatcher) = gated();
    let server = start(2, dispatcher);
    let call = Caller::start(&server.address().to_string()).call(1);
    gate.wait_for(1);
    // The loop does not answer, so its one connection is missing.
    assert_eq!((server.connections().len(), total(&server)), (0, 1));
    let Err(ServerError::StillRunning(threads)) = server.stop() else { panic!("it runs") };
    assert_eq!(threads, ["nearcall-loop-0"]);
    gate.open();
    wait_until("the end of the method", || server.stop().is_ok());
    assert_eq!(call.join().unwrap(), Ok(1), "it had its reply");
}

/// A server that does this in its method with requests of 1.
fn with_itself(
    threads: usize,
    act: impl Fn(&RunningServer) + Send + Sync + 'static,
) -> Arc<RunningServer> {
    let handle = Arc::new(OnceLock::<Weak<RunningServer>>::new());
    let in_method = Arc::clone(&handle);
    let dispatcher = Threaded::new(move |_, request| {
        if request.number == 1 {
            act(&in_method.get().and_then(Weak::upgrade).unwrap());
        }
        Ok(request.clone())
    });
    let server = Arc::new(start(threads, dispatcher));
    handle.set(Arc::downgrade(&server)).unwrap();
    server
}

#[timed]
fn a_method_may_stop_its_server() {
    let server = with_itself(2, |server| server.stop().unwrap());
    let echo = connect(&server, "").unwrap();
    // Its reply may come before the end of the connection.
    let _ = echo.say(&words(1));
    server.run_until_signal().unwrap();
    assert_eq!(total(&server), 0);
}

#[timed]
fn a_client_that_is_killed_leaves_nothing_and_harms_no_other() {
    let server = start(2, shared_echo());
    let address = server.address().to_string();
    while_a_good_client_calls(&address, || {
        for _ in 0..4 {
            let mut clients = [0, 1].map(|_| two_processes::start("caller", &address));
            wait_until("the clients", || server.connection_counts().iter().sum::<usize>() == 3);
            for client in &mut clients {
                client.kill().unwrap();
            }
            wait_until("the ends of the clients", || total(&server) == 1);
        }
    });
}

#[timed]
fn a_server_that_cannot_start_reports_why_and_leaves_nothing() {
    let address = unique_address();
    let builder = |threads| Server::builder().threads(threads).listen(&address);
    let error = builder(0).start().unwrap_err();
    assert!(matches!(error, StartError::Threads(0)), "{error}");
    assert!(error.to_string().contains("use 1 to as many as the process has CPUs"), "{error}");
    let error = builder(100_000).start().unwrap_err();
    assert!(error.to_string().contains("100000 `threads` are above the 1024"), "{error}");
    let twice = builder(2).register(shared_echo()).register(shared_echo());
    let error = twice.start().unwrap_err();
    assert!(matches!(error, StartError::Register(_)), "{error}");
    let error = Server::builder().listen("inproc:x").start().unwrap_err();
    assert!(error.to_string().contains("use `unix:@NAME`"), "{error}");
    let limits = Limits { message_bytes_max: u32::MAX, ..Limits::default() };
    let error = builder(2).limits(limits).start().unwrap_err();
    assert!(error.to_string().contains("message_bytes_max"), "{error}");
    let error = builder(2).register(PanicsOnClone).start().unwrap_err();
    assert!(error.to_string().contains("it panicked: no clone"), "{error}");
    // The second of its addresses is taken, and the first one is free afterwards.
    let taken = start(1, shared_echo());
    let error = builder(2).listen(&taken.address().to_string()).start().unwrap_err();
    assert!(error.to_string().contains("one server with several threads"), "{error}");
    let server = builder(2).register(shared_echo()).start().unwrap();
    assert_eq!(server.addresses().len(), 1);
    connect(&server, "").unwrap();
}

struct PanicsOnClone;

impl Clone for PanicsOnClone {
    fn clone(&self) -> Self {
        panic!("no clone")
    }
}

impl Dispatcher for PanicsOnClone {
    fn interface(&self) -> &'static Interface {
        EchoCaller::INTERFACE
    }

    fn local(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn dispatch(&self, incoming: Incoming<'_>) {
        incoming.unimplemented();
    }
}

#[timed]
fn objects_and_addresses_may_be_several() {
    let server = Server::builder()
        .threads(2)
        .register(shared_echo())
        .register_as("plus", Threaded::new(|_, request| Ok(words(request.number + 1))))
        .listen(&everything(&unique_address()))
        .listen("tcp://127.0.0.1:0?wait=poll")
        .start()
        .unwrap();
    let [local, remote] = server.addresses() else { panic!("{:?}", server.addresses()) };
    for address in [local, remote] {
        let address = address.to_string();
        let place = address.split('?').next().unwrap();
        let client = Client::new();
        let echo = EchoCaller::new(&client, place).unwrap();
        let plus = EchoCaller::new(&client, &format!("{place}#plus")).unwrap();
        assert_eq!(echo.say(&words(1)).unwrap().number, 1);
        assert_eq!(plus.say(&words(1)).unwrap().number, 2);
    }
}
