//! Two processes, of which one is killed or stopped while the other calls it or serves it.
//!
//! The other process is this test program itself, which finds in its environment what it is to be.
//! **Invariants:** it dies with the thread that started it.

use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::Instant;

use nearcall_channel::Listener;
use nearcall_channel::limits::HANDSHAKE_TIMEOUT;
use nearcall_os::process::{self, Child};
use nearcall_os::signal::{Signal, send_by_pidfd};
use nearcall_os::socket::{UnixAddress, unix_connect};
use nearcall_os::socket_activation;

use crate::observed::{Observed, PATIENCE};
use crate::stage::prelude::*;

const PART: &str = "NEARCALL_TEST_PART";
const ADDRESS: &str = "NEARCALL_TEST_ADDRESS";
/// Calls that are under way when somebody dies.
const CALLS: usize = 5;
/// What a survivor may take. The promise is 100 ms; a busy machine may not run it for longer. No
/// time-out that would end it otherwise is shorter.
const AT_ONCE: Duration = HANDSHAKE_TIMEOUT;

/// Where the other process begins; nothing when the harness runs it.
#[test]
fn entry() {
    let Ok(part) = std::env::var(PART) else { return };
    let address = std::env::var(ADDRESS).unwrap();
    match part.as_str() {
        "server" => serve(&address),
        "client" => ask(&address),
        "deaf" => listen(&address),
        "caller" => call(&address),
        "one loop"
        | "two loops"
        | "threads before"
        | "all blocked"
        | "one loop too early"
        | "two loops too early" => {
            crate::server_signals::serve(&part, &address);
        }
        "streams" => crate::streams::killed::serve(&address),
        "streams-client" | "streams-tasks" | "streams-unread" => {
            crate::streams::killed::call(&part, &address);
        }
        "impostor" => crate::short_circuit::impersonate(&address),
        "rude" => crate::bad_input::be_rude(&address),
        "attached" | "restarted" => crate::restarts::serve(&address),
        "threads" => crate::threads::many::call_by_many(&address),
        "hurt" => crate::bad_input::leaves_nothing(),
        "lends" => crate::zero_copy::kept::lend_to_the_dying(&address),
        "holds" => crate::zero_copy::kept::hold(&address),
        other => panic!("there is no part `{other}`"),
    }
}

pub(crate) fn start(part: &str, address: &str) -> Child {
    start_as(Command::new(std::env::current_exe().unwrap()), part, address)
}

/// Starts the other process with a limit of open descriptors.
pub(crate) fn start_limited(descriptors: u32, part: &str, address: &str) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"")]);
    command.arg(std::env::current_exe().unwrap());
    start_as(command, part, address)
}

/// Starts the other process with a listening socket.
pub(crate) fn start_with(socket: &OwnedFd, part: &str, address: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    set_up(&mut command, part, address);
    socket_activation::spawn(command, &[("socket", socket.as_fd())], None).unwrap()
}

fn start_as(mut command: Command, part: &str, address: &str) -> Child {
    set_up(&mut command, part, address);
    Child::spawn(&mut command).unwrap()
}

fn set_up(command: &mut Command, part: &str, address: &str) {
    command
        .args(["two_processes::entry", "--exact", "--nocapture", "--test-threads=1"])
        .env(PART, part)
        .env(ADDRESS, address)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
}

fn serve(address: &str) {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    server.register(EchoDispatcher::new(Service::default())).unwrap();
    server.listen(&everything(address)).unwrap();
    event_loop.run().unwrap();
}

/// Sends a request that is never answered, and waits for it.
fn ask(address: &str) {
    let client = Client::new();
    client.hunt(address, PATIENCE).unwrap();
    let echo = EchoCaller::new(&client, address).unwrap();
    let later = || echo.start_later(&Words::default());
    let started: Vec<_> = (0..CALLS).map(|_| later()).collect();
    for call in started {
        let _ = call.wait();
    }
}

/// Calls until it is killed.
fn call(address: &str) {
    let echo = EchoCaller::new(&Client::new(), address).unwrap();
    while echo.nothing(&()).is_ok() {}
}

/// Listens and accepts no client.
fn listen(address: &str) {
    let listener = Listener::bind(&address.parse().unwrap()).unwrap();
    loop {
        clock::pause(PATIENCE);
        assert!(listener.address().to_string() == address);
    }
}

/// A server in another process, once it listens.
fn server(address: &str) -> Child {
    let server = start("server", address);
    Client::new().hunt(address, PATIENCE).unwrap();
    server
}

/// Every mechanism that can be had here and each of its ways to wait, with a client that blocks
/// and with one in a loop.
fn everywhere(case: impl Fn(&str, &Client)) {
    let event_loop = EventLoop::new().unwrap();
    for mechanism in Mechanism::all().filter(|mechanism| mechanism.supported().is_ok()) {
        let _alone = alone(mechanism.name());
        for wait in mechanism.waits() {
            for client in [Client::new(), Client::in_loop(&event_loop)] {
                case(&format!("via={mechanism}&wait={wait}"), &client);
            }
        }
    }
}

/// Kills `victim` a little later, and says when.
fn kill_soon(victim: &Child) -> thread::JoinHandle<Instant> {
    let pidfd = victim.pidfd().try_clone_to_owned().unwrap();
    thread::spawn(move || {
        // So that most calls wait by then; it does not matter if one does not.
        clock::pause(Duration::from_millis(10));
        let at = clock::now();
        send_by_pidfd(&pidfd, Signal::KILL).unwrap();
        at
    })
}

/// Stops a process, and waits until it has stopped.
pub(crate) fn stop(process: &Child) {
    send_by_pidfd(process.pidfd(), Signal::STOP).unwrap();
    let path = format!("/proc/{}/stat", process.pid());
    wait_until("the stop", || {
        let stat = std::fs::read_to_string(&path).unwrap();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    });
}

#[track_caller]
fn expect_gone<T: std::fmt::Debug>(outcome: Result<T, Status>, what: &str) {
    let status = outcome.expect_err("its server is dead");
    assert_eq!(status.code(), Code::Unavailable, "{what}: {status}");
    assert!(status.message().contains("went away"), "{what}: {status}");
}

#[test]
fn r09_a_server_that_vanishes_ends_each_call_once_and_at_once() {
    everywhere(|via, client| {
        let place = unique_address();
        let first = server(&place);
        let echo = EchoCaller::new(client, &format!("{place}?{via}")).unwrap();
        echo.nothing(&()).unwrap();
        let later = || echo.start_later(&Words::default());
        let started: Vec<_> = (0..CALLS).map(|_| later()).collect();
        let killer = kill_soon(&first);
        // It may begin after the death, and find no server.
        let status = echo.later(&Words::default()).expect_err("its server is dead");
        assert_eq!(status.code(), Code::Unavailable, "{via}: {status}");
        let took = killer.join().unwrap().elapsed();
        assert!(took < AT_ONCE, "{via}: {took:?}");
        for call in started {
            assert!(call.is_done(), "{via}");
            expect_gone(call.wait(), via);
        }
        let status = echo.nothing(&()).unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{via}: {status}");
        let _second = server(&place);
        echo.nothing(&()).expect("it connects again by itself");
    });
}

#[test]
fn r09_a_server_that_was_replaced_between_calls_is_found_again() {
    everywhere(|via, client| {
        let place = unique_address();
        let mut first = server(&place);
        let echo = EchoCaller::new(client, &format!("{place}?{via}")).unwrap();
        echo.nothing(&()).unwrap();
        first.kill().unwrap();
        let _second = server(&place);
        // A mechanism may take a request before it has noticed the death. Then it is
        // unknown whether the method ran, so this is for the caller to decide.
        if let Err(status) = echo.nothing(&()) {
            expect_gone(Err::<(), _>(status), via);
        }
        echo.nothing(&()).expect("it connects again by itself");
        echo.note(&Words::default()).unwrap();
    });
}

#[test]
fn r08_a_client_that_is_killed_leaves_nothing_in_its_server() {
    for mechanism in Mechanism::all().filter(|mechanism| mechanism.supported().is_ok()) {
        let _alone = alone(mechanism.name());
        let server = Observed::start();
        server.while_a_good_client_calls(|| {
            let mut client = start("client", &format!("{}?via={mechanism}", server.address));
            let seen = &server.seen;
            wait_until("the calls", || seen.wanted.load(Ordering::Relaxed) == CALLS);
            client.kill().unwrap();
            let killed = clock::now();
            wait_until("the end of interest", || seen.wanted.load(Ordering::Relaxed) == 0);
            server.wait_for_connections(1);
            assert!(killed.elapsed() < AT_ONCE, "{mechanism}: {:?}", killed.elapsed());
        });
        assert_eq!(server.seen.later.load(Ordering::Relaxed), CALLS);
    }
}

#[test]
fn a_server_that_is_killed_during_a_hunt_is_waited_for_again() {
    let event_loop = EventLoop::new().unwrap();
    for client in [Client::new(), Client::in_loop(&event_loop)] {
        let place = unique_address();
        let mut deaf = start("deaf", &place);
        // It listens when a connection to its socket succeeds.
        let name = UnixAddress::Abstract(place.strip_prefix("unix:@").unwrap().as_bytes());
        wait_until("the deaf server", || unix_connect(name, Some(PATIENCE)).is_ok());
        thread::scope(|scope| {
            let killer = kill_soon(&deaf);
            let next = scope.spawn(|| {
                killer.join().unwrap();
                // Its socket is there until it is gone.
                process::wait_pidfd(deaf.pidfd(), Some(PATIENCE)).unwrap();
                Observed::at(&place, Limits::default())
            });
            client.hunt(&place, PATIENCE).unwrap();
            EchoCaller::new(&client, &place).unwrap().nothing(&()).unwrap();
            drop(next.join().unwrap());
        });
        deaf.wait(Some(PATIENCE)).unwrap().expect("it was killed");
    }
}

#[test]
fn r10_a_stopped_server_costs_a_call_its_deadline_and_no_more() {
    everywhere(|via, client| {
        let place = unique_address();
        let server = server(&place);
        let echo = EchoCaller::new(client, &format!("{place}?{via}")).unwrap();
        echo.nothing(&()).unwrap();
        stop(&server);
        let options = CallOptions::new().deadline(Duration::from_millis(5));
        let words = |number| Words { number, ..Words::default() };
        let begun = clock::now();
        for number in 0..2 {
            let status = echo.with(options.clone()).say(&words(number)).expect_err("it is stopped");
            assert_eq!(status.code(), Code::DeadlineExceeded, "{via}: {status}");
        }
        assert!(begun.elapsed() < AT_ONCE, "{via}: {:?}", begun.elapsed());
        send_by_pidfd(server.pidfd(), Signal::CONT).unwrap();
        // Replies to the calls from before may come and are dropped.
        let echo = echo.with(CallOptions::new().deadline(PATIENCE));
        for number in 10..20 {
            match echo.say(&words(number)) {
                Ok(reply) => assert_eq!(reply.number, number, "{via}"),
                Err(status) => panic!("{via}: {status}"),
            }
        }
    });
}

#[test]
fn r10_a_client_that_connects_to_a_stopped_server_gives_up_in_time() {
    let place = unique_address();
    let server = server(&place);
    stop(&server);
    let event_loop = EventLoop::new().unwrap();
    for client in [Client::new(), Client::in_loop(&event_loop)] {
        let begun = clock::now();
        let options = CallOptions::new().deadline(Duration::from_millis(50));
        let echo = EchoCaller::new(&client, &place).unwrap();
        expect_code(echo.with(options).nothing(&()), Code::DeadlineExceeded);
        assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    }
}

#[test]
fn bad_input_leaves_nothing_behind() {
    // In a process of its own, where no other test opens anything.
    let mut hurt = start("hurt", &unique_address());
    let status = hurt.wait(Some(3 * PATIENCE)).unwrap().expect("it does not hang");
    assert!(status.success(), "{status}");
}

#[test]
fn a_client_that_neither_reads_nor_leaves_delays_no_other_when_it_is_cut_off() {
    let server = Observed::start();
    let echo = server.echo("");
    let mut rude = start("rude", &server.address);
    let (mut slow, mut calls) = (0, 0);
    while rude.wait(Some(Duration::ZERO)).unwrap().is_none() {
        let begun = clock::now();
        echo.nothing(&()).unwrap();
        calls += 1;
        slow += usize::from(begun.elapsed() > Duration::from_millis(80));
    }
    // A busy machine may account for some.
    assert!(slow < crate::bad_input::RUDE_ROUNDS * 3 / 4, "{slow} of {calls} calls were slow");
}
