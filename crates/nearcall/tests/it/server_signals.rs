//! SIGTERM and SIGINT to servers in processes of their own.
//!
//! **Not here:** the servers with threads themselves (`server_threads.rs`).

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

use nearcall::server::TerminationSignals;
use nearcall_os::process::{self, Child};
use nearcall_os::signal::{self, Signal, SignalSet, send_by_pidfd};

use nearcall_testkit::directory::Directory;

use crate::observed::PATIENCE;
use crate::server_threads::Caller;
use crate::stage::prelude::*;
use crate::two_processes::start;

/// The parts of another process that are servers which end by a signal.
const PARTS: [&str; 4] = ["one loop", "two loops", "threads before", "all blocked"];

/// Longest drain of the servers: no test waits for it.
const DRAIN: Duration = Duration::from_secs(600);

/// Is the server of the part with this name, in a process of its own.
pub(crate) fn serve(part: &str, address: &str) {
    match part {
        "one loop" => {
            let limits = Limits { drain_timeout: DRAIN, ..Limits::default() };
            let event_loop = EventLoop::new().unwrap();
            let server = Server::with_limits(&event_loop, limits);
            server.register(EchoDispatcher::new(Service::default())).unwrap();
            server.listen(address).unwrap();
            server.run_until_signal(&event_loop).unwrap();
            assert!(server.connections().is_empty());
        }
        "one loop too early" => {
            let _termination = TerminationSignals::install().unwrap();
            let event_loop = EventLoop::new().unwrap();
            let server = Server::new(&event_loop);
            server.listen(address).unwrap();
            signal_itself();
            server.run_until_signal(&event_loop).unwrap();
        }
        "two loops too early" => {
            let _termination = TerminationSignals::install().unwrap();
            let server = Server::builder().threads(2).listen(address).start().unwrap();
            signal_itself();
            server.run_until_signal().unwrap();
        }
        // Threads from before the server, that take signals.
        "threads before" => {
            let (give, take) = mpsc::channel::<()>();
            let take = Mutex::new(take);
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| take.lock().unwrap().recv());
                }
                serve_in_threads(address);
                drop(give);
            });
        }
        // The program has blocked the signals in all threads, as for a signalfd.
        "all blocked" => {
            signal::block(&SignalSet::new(&[Signal::TERM, Signal::INT])).unwrap();
            thread::scope(|scope| {
                scope.spawn(|| serve_in_threads(address));
            });
        }
        _ => serve_in_threads(address),
    }
}

fn signal_itself() {
    let pidfd = process::pidfd_open(process::pid()).unwrap();
    send_by_pidfd(pidfd.as_fd(), Signal::TERM).unwrap();
}

fn serve_in_threads(address: &str) {
    let socket = PathBuf::from(address.strip_prefix("unix:").unwrap());
    // 1: waits until the socket file is gone; 2: does not return. A file shows that it runs.
    let say = move |_: &Context<'_>, request: &Words| {
        let runs = socket.with_extension(request.number.to_string());
        std::fs::write(&runs, "").unwrap();
        while request.number == 2 || socket.exists() {
            clock::pause(Duration::from_millis(1));
        }
        std::fs::remove_file(runs).unwrap();
        Ok(request.clone())
    };
    let server = Server::builder()
        .threads(2)
        .limits(Limits { drain_timeout: DRAIN, ..Limits::default() })
        .register(Threaded::new(say))
        .listen(address)
        .start()
        .unwrap();
    server.run_until_signal().unwrap();
}

/// Starts a server that ends by a signal, and waits until it listens and waits for signals.
fn server(part: &str, address: &str) -> Child {
    let server = start(part, address);
    Client::new().hunt(address, PATIENCE).unwrap();
    wait_until("its handlers", || catches_signals(&server));
    server
}

fn catches_signals(server: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    let caught = u64::from_str_radix(caught.trim(), 16).unwrap();
    [Signal::TERM, Signal::INT].iter().all(|signal| caught >> (signal.as_raw() - 1) & 1 == 1)
}

fn send(server: &Child, signal: Signal) {
    send_by_pidfd(server.pidfd(), signal).unwrap();
}

fn wait(server: &mut Child) -> ExitStatus {
    server.wait(Some(PATIENCE)).unwrap().expect("it ends by the signal")
}

#[timed]
fn a_signal_ends_a_server_with_0_and_without_its_socket_file() {
    let directory = Directory::new();
    for part in PARTS {
        for signal in [Signal::TERM, Signal::INT] {
            let address = directory.address("socket");
            let mut server = server(part, &address);
            // A client that is connected and idle, which never reads the goodbye.
            let echo = EchoCaller::new(&Client::new(), &address).unwrap();
            echo.nothing(&()).unwrap();
            assert_eq!(directory.files(), 1);
            send(&server, signal);
            let status = wait(&mut server);
            assert_eq!(status.code(), Some(0), "{part}, {signal:?}: {status}");
            assert!(directory.is_empty(), "{part}, {signal:?}");
            assert_eq!(echo.nothing(&()).unwrap_err().code(), Code::Unavailable, "{part}");
        }
    }
}

#[timed]
fn a_signal_before_a_server_waits_for_it_ends_it_as_well() {
    let directory = Directory::new();
    for part in ["one loop too early", "two loops too early"] {
        let mut server = start(part, &directory.address("socket"));
        let status = wait(&mut server);
        assert_eq!(status.code(), Some(0), "{part}: {status}");
        assert!(directory.is_empty(), "{part}");
    }
}

#[timed]
fn ten_servers_leave_no_file() {
    let directory = Directory::new();
    let mut servers: Vec<_> = (0..10)
        .map(|number| start(PARTS[number % 2], &directory.address(&number.to_string())))
        .collect();
    for number in 0..10 {
        let address = directory.address(&number.to_string());
        Client::new().hunt(&address, PATIENCE).unwrap();
    }
    wait_until("their handlers", || servers.iter().all(catches_signals));
    assert_eq!(directory.files(), 10);
    servers.iter().for_each(|server| send(server, Signal::TERM));
    for server in &mut servers {
        assert!(wait(server).success());
    }
    assert!(directory.is_empty());
}

#[timed]
fn a_call_under_way_has_its_reply_and_a_second_signal_ends_the_server_at_once() {
    for signals in [[Signal::TERM, Signal::TERM], [Signal::TERM, Signal::INT]] {
        let directory = Directory::new();
        let address = directory.address("socket");
        let mut server = server("two loops", &address);
        // Each in a loop of its own: the second connection goes to the emptier one.
        // Both before a method holds up the loop that accepts clients.
        let [short, long] = [0, 1].map(|_| Caller::start(&address));
        let (short, long) = (short.call(1), long.call(2));
        wait_until("the methods", || directory.files() == 3);
        send(&server, signals[0]);
        assert_eq!(short.join().unwrap(), Ok(1));
        // The first signal has done its work, and the long call goes on.
        assert_eq!(directory.files(), 1);
        assert!(!long.is_finished());
        send(&server, signals[1]);
        assert_eq!(wait(&mut server).signal(), Some(signals[1].as_raw()));
        assert_eq!(long.join().unwrap().unwrap_err().code(), Code::Unavailable);
    }
}

#[timed]
fn a_server_of_one_loop_lets_calls_end_until_the_second_signal() {
    let directory = Directory::new();
    let address = directory.address("socket");
    let mut server = server("one loop", &address);
    let client = Client::new();
    let echo = EchoCaller::new(&client, &address).unwrap();
    echo.nothing(&()).unwrap();
    let later = echo.start_later(&words(1));
    echo.nothing(&()).unwrap();
    send(&server, Signal::INT);
    wait_until("the end of the socket file", || directory.files() == 0);
    // It serves on: it refuses calls, and the one from before has no reply yet.
    assert_eq!(echo.nothing(&()).unwrap_err().code(), Code::Unavailable);
    assert!(!later.is_done());
    send(&server, Signal::INT);
    assert_eq!(wait(&mut server).signal(), Some(Signal::INT.as_raw()));
    assert_eq!(later.wait().unwrap_err().code(), Code::Unavailable);
}

#[timed]
fn a_server_that_is_stopped_returns_as_after_a_signal() {
    let dispatcher = EchoDispatcher::new(Service::default());
    let service = Arc::clone(dispatcher.service());
    let (event_loop, server, address) = serve_here(&unique_address(), dispatcher);
    let (end, has_ended) = mpsc::channel();
    let stopper = event_loop.stopper();
    let client = thread::spawn(move || {
        let client = Client::new();
        let echo = EchoCaller::new(&client, &address).unwrap();
        echo.nothing(&()).unwrap();
        let notes = (0..20).map(|number| echo.note(&words(number)));
        assert!(notes.collect::<Result<Vec<_>, _>>().is_ok());
        stopper.stop();
        has_ended.recv().unwrap();
        assert_eq!(echo.nothing(&()).unwrap_err().code(), Code::Unavailable);
    });
    server.run_until_signal(&event_loop).unwrap();
    assert_eq!(service.notes.get(), 20, "what was sent before was served");
    assert!(server.connections().is_empty());
    end.send(()).unwrap();
    client.join().unwrap();
    let other = EventLoop::new().unwrap();
    let error = server.run_until_signal(&other).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{error}");
}

#[timed]
fn the_mask_of_the_thread_is_as_before() {
    let set = SignalSet::new(&[Signal::TERM, Signal::INT]);
    let mask = || signal::block(&SignalSet::new(&[])).unwrap();
    signal::unblock(&set).unwrap();
    drop(TerminationSignals::install().unwrap());
    assert!(!mask().contains(Signal::TERM) && !mask().contains(Signal::INT));
    signal::block(&SignalSet::new(&[Signal::TERM])).unwrap();
    let (one, two) =
        (TerminationSignals::install().unwrap(), TerminationSignals::install().unwrap());
    assert!(!mask().contains(Signal::TERM));
    drop((two, one));
    assert!(mask().contains(Signal::TERM) && !mask().contains(Signal::INT));
}
