//! Servers that take no more calls: what they wait for.

use std::future::pending;
use std::os::fd::OwnedFd;

use futures_util::future::abortable;
use nearcall::service::{Blocking, BlockingPool, Dispatcher, TaskRunner};
use nearcall_channel::{HandshakeError, Options, connect_over};
use nearcall_os::socket::{UnixAddress, unix_connect};

use super::{Caller, Gate, connect, gated, shared_echo, start, total, with_itself};
use crate::async_client::poll_once;
use crate::services::Futures;
use crate::stage::prelude::*;

#[timed]
fn a_drain_lets_calls_end_and_refuses_new_ones() {
    let (gate, dispatcher) = gated();
    let server = Arc::new(start(2, dispatcher));
    let idle = [0, 1].map(|_| connect(&server, "").unwrap());
    let address = server.address().to_string();
    let busy = [0, 1].map(|_| Caller::start(&address));
    assert_eq!(server.connection_counts(), [2, 2]);
    let calls = busy.map(|caller| caller.call(1));
    gate.wait_for(2);
    assert!(!server.drain(Duration::from_millis(20)), "two methods run");
    assert_eq!(connect(&server, "").unwrap_err().code(), Code::Unavailable);
    // Two at once: each gets its answer.
    let drained = [(); 2].map(|()| {
        let server = Arc::clone(&server);
        thread::spawn(move || server.drain(PATIENCE))
    });
    gate.open();
    for call in calls {
        assert_eq!(call.join().unwrap(), Ok(1), "a call under way has its reply");
    }
    for drained in drained {
        assert!(drained.join().unwrap());
    }
    assert_eq!(total(&server), 0);
    for echo in idle {
        assert_eq!(echo.say(&words(2)).unwrap_err().code(), Code::Unavailable);
    }
    server.stop().unwrap();
    server.stop().unwrap();
}

/// Checks that tasks may have the future.
fn is_send<F: Future + Send>(future: F) -> F {
    future
}

#[timed]
fn a_server_in_an_async_program_serves_until_it_is_told_to_end_and_lets_calls_end() {
    let (gate, dispatcher) = gated();
    let server = start(2, dispatcher);
    let address = server.address().to_string();
    let (shutdown, handle) = abortable(pending::<()>());
    let shutdown = async move { assert!(shutdown.await.is_err()) };
    let serving = is_send(server.serve_until(shutdown));
    let program = thread::spawn(move || block_on(serving));
    let call = Caller::start(&address).call(1);
    gate.wait_for(1);
    handle.abort();
    let client = Client::new();
    wait_until("the drain", || EchoCaller::new(&client, &address).unwrap().say(&words(2)).is_err());
    assert!(!program.is_finished(), "a call is under way");
    gate.open();
    assert_eq!(call.join().unwrap(), Ok(1));
    assert_eq!(program.join().unwrap(), Ok(()));
}

#[timed]
fn a_server_whose_future_is_dropped_has_stopped() {
    let server = start(1, shared_echo());
    let echo = connect(&server, "").unwrap();
    let mut serving = Box::pin(server.serve());
    assert!(poll_once(serving.as_mut()).is_pending());
    echo.say(&words(1)).unwrap();
    drop(serving);
    assert_eq!(echo.say(&words(2)).unwrap_err().code(), Code::Unavailable);
}

/// Raw clients that connect and say nothing, so that their handshakes do not end.
fn silent_clients(address: &str) -> Vec<OwnedFd> {
    let name = UnixAddress::Abstract(address.strip_prefix("unix:@").unwrap().as_bytes());
    (0..10).map(|_| unix_connect(name, Some(PATIENCE)).unwrap()).collect()
}

/// Checks that the server has sent each of them why it is refused.
fn expect_refused(clients: Vec<OwnedFd>) {
    for socket in clients {
        let error = connect_over(socket, Mechanism::Shm, &Options::default()).err().unwrap();
        let HandshakeError::Refused { text, .. } = error else { panic!("{error}") };
        assert!(text.contains("takes no more clients"), "{text}");
    }
}

#[timed]
fn clients_in_their_handshake_are_refused_with_the_reason_by_a_drain() {
    let server = start(2, shared_echo());
    let clients = silent_clients(&server.address().to_string());
    // Those before it were accepted: there is one queue.
    connect(&server, "").unwrap();
    server.drain(PATIENCE);
    expect_refused(clients);
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    let address = server.listen(&unique_address()).unwrap().to_string();
    // One in its handshake, and those that are left in the queue of the socket.
    let mut clients = silent_clients(&address);
    event_loop.next(Deadline::NOW).unwrap();
    clients.extend(silent_clients(&address));
    server.drain();
    expect_refused(clients);
}

/// One-way messages whose methods go on after they have left their loop.
fn check_oneways(gate: &Gate, dispatcher: impl Dispatcher + Clone + Send + Sync) {
    let builder = Server::builder().threads(2).register(dispatcher).listen(&unique_address());
    let server = Arc::new(builder.start().unwrap());
    let client = Client::new();
    let echo = EchoCaller::new(&client, &server.address().to_string()).unwrap();
    echo.note(&words(1)).unwrap();
    gate.wait_for(1);
    assert!(!server.drain(Duration::from_millis(20)), "its method runs");
    // No call is under way, so each loop closes its connections in its next round.
    wait_until("the connections end", || total(&server) == 0);
    let to_drain = Arc::clone(&server);
    let drained = thread::spawn(move || to_drain.drain(PATIENCE));
    gate.open();
    assert!(drained.join().unwrap());
    assert!(server.drain(PATIENCE));
}

#[timed]
fn a_drain_waits_for_one_way_messages_that_go_on() {
    let gate = Arc::<Gate>::default();
    let in_pool = Arc::clone(&gate);
    let service = Threaded::new(move |_, request| {
        in_pool.pass();
        Ok(request.clone())
    });
    let pool = BlockingPool::builder().threads(1).build();
    check_oneways(&gate, Blocking::new(service, &pool));
    let gate = Arc::<Gate>::default();
    let in_task = Arc::clone(&gate);
    let service = Futures::new(move |_, request: Words| {
        let gate = Arc::clone(&in_task);
        async move {
            gate.pass();
            Ok(request)
        }
    });
    let runner = TaskRunner::spawn_on(|task| {
        thread::spawn(|| block_on(task));
    });
    check_oneways(&gate, service.on(&runner));
}

/// It waits for the other loops only: its own goes on when it returns.
#[test]
fn a_method_may_drain_its_server() {
    const TOO_LONG: Duration = Duration::from_secs(3_600);

    each_in_time([1, 2], |threads| {
        let server = with_itself(threads, |server| assert!(!server.drain(TOO_LONG)));
        let echo = connect(&server, "").unwrap();
        assert_eq!(echo.say(&words(1)).unwrap().number, 1, "a call under way has its reply");
        wait_until("the end of the connection", || total(&server) == 0);
        assert_eq!(connect(&server, "").unwrap_err().code(), Code::Unavailable);
        assert!(server.drain(PATIENCE));
    });
}
