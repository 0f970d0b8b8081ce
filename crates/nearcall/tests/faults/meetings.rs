//! Connections over `tcp://` that move to shared memory, or must not: other users, a crowd of
//! those, other network namespaces, ends that are killed meanwhile, and clients without a
//! descriptor.
//!
//! **Not here:** what one process can show of it (`../it/upgrades.rs`).

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;

use nearcall::control::{HealthRequest, MeetRequest, ServerCaller};
use nearcall::server::{ListenOptions, RunningServer};
use nearcall_os::socket::{
    UnixAddress, connect_datagrams, try_send, unix_datagrams, unix_try_connect,
};

use crate::namespaces;
use crate::support::prelude::*;
use crate::support::server::serve_with;

pub(crate) const ROLES: &[Role] = &[
    ("moving-server", |address| serve_with(address, &ListenOptions::new(), moving(), |_, _| {})),
    ("moving-client", |address| {
        let client = Client::new();
        report(&format!("moved {}", call_until_moved(&client, address)));
        wait_for_the_parent();
    }),
    ("client-elsewhere", be_elsewhere),
    ("client-without-descriptors", be_without_descriptors),
    ("meeting-crowd", |address| {
        report("crowds");
        thread::scope(|scope| {
            for number in 0..CROWD_THREADS {
                scope.spawn(move || crowd(address, number % 4 == 0));
            }
        });
    }),
    ("client-on-its-way", |address| {
        let (at, calls) = address.split_once(' ').unwrap();
        let service = ServerCaller::new(&Client::new(), at).unwrap();
        for _ in 0..calls.parse().unwrap() {
            service.health(&HealthRequest::default()).unwrap();
        }
        report("called");
        wait_for_the_parent();
    }),
];

/// Connects with the last descriptors of this process, so that there is none for a meeting. Its
/// calls go on; its tries may be used up, and the next connection moves.
fn be_without_descriptors(address: &str) {
    let file = std::fs::File::open("/proc/self/status").unwrap();
    let mut kept: Vec<_> = std::iter::from_fn(|| file.try_clone().ok()).collect();
    let options = CallOptions::new().deadline(PATIENCE);
    let client = loop {
        kept.pop().unwrap();
        let client = Client::new();
        let service = ServerCaller::new(&client, address).unwrap();
        if service.with(options.clone()).health(&HealthRequest::default()).is_ok() {
            break client;
        }
    };
    kept.extend(std::iter::from_fn(|| file.try_clone().ok()));
    let service = ServerCaller::new(&client, address).unwrap();
    while client.connections()[0].switches.is_empty() {
        service.with(options.clone()).health(&HealthRequest::default()).unwrap();
    }
    let failed: Vec<_> = client.connections()[0].switches.iter().map(|it| it.to_string()).collect();
    drop(kept);
    for _ in 0..10 {
        service.with(options.clone()).health(&HealthRequest::default()).unwrap();
    }
    report(&format!("stayed {failed:?}"));
    report(&format!("moved {}", call_until_moved(&Client::new(), address)));
    wait_for_the_parent();
}

const CROWD_THREADS: usize = 8;

/// Does without end what any user can: finds the sockets of meetings, sends to each until it is
/// full, and connects to it; or has the server invite those clients to connections of its own.
fn crowd(address: &str, asks: bool) {
    let service = ServerCaller::new(&Client::new(), &format!("{address}?via=tcp")).unwrap();
    loop {
        let sockets = std::fs::read_to_string("/proc/net/unix").unwrap_or_default();
        for name in sockets.lines().filter_map(|line| line.split_once('@')).map(|it| it.1) {
            let Some(rest) = name.strip_prefix("nearcall-meeting-") else { continue };
            if let Some(number) = rest.strip_prefix("client-").filter(|_| asks) {
                let number = u128::from_str_radix(number, 16).unwrap_or_default().to_be_bytes();
                let _ = service.meet(&MeetRequest { number: number.to_vec().into() });
            }
            let (place, unknown_process) =
                (UnixAddress::Abstract(name.as_bytes()), unix_datagrams().unwrap());
            let _ = unix_try_connect(place);
            if connect_datagrams(&unknown_process, place).is_ok() {
                while matches!(try_send(&unknown_process, b"unknown"), Ok(Some(_))) {}
            }
        }
    }
}

fn moving() -> Limits {
    Limits { switches_per_minute_max: 1_000, ..Limits::default() }
}

/// Calls until the connection has moved, or for long.
fn call_until_moved(client: &Client, at: &str) -> Mechanism {
    let service = ServerCaller::new(client, at).unwrap();
    for _ in 0..200 {
        let options = CallOptions::new().deadline(PATIENCE);
        service.with(options).health(&HealthRequest::default()).unwrap();
        if client.connections()[0].mechanism != Mechanism::Tcp {
            break;
        }
    }
    client.connections()[0].mechanism
}

#[timed]
fn a_client_of_another_user_moves_and_leaves_nothing() {
    let mut server = ServerSetup::new("moving-server").at("tcp://127.0.0.1:0").start();
    let address = server.via("");
    // What a process keeps of the first: threads that watch.
    assert_eq!(call_until_moved(&Client::new(), &address), Mechanism::Shm);
    server.wait_for_connections(0);
    let oracle = server.leak_oracle();
    for user in [Some(User::Same), User::another()].into_iter().flatten() {
        let mut client = command("moving-client", &address, "");
        if let User::Uid(uid) = user {
            client.uid(uid).gid(uid);
        }
        let mut client = Process::start_as("moving-client", client);
        assert_eq!(client.hear("moved"), "shm", "{user:?}");
        client.kill();
        server.wait_for_connections(0);
        oracle.check(&[]);
    }
    assert_eq!(server.state().refusals, 0);
    server.finish();
}

#[timed]
fn a_client_without_a_descriptor_for_a_meeting_goes_on_and_says_why() {
    let mut server = ServerSetup::new("moving-server").at("tcp://127.0.0.1:0").start();
    let command = command("client-without-descriptors", &server.via(""), "-n 64");
    let mut client = Process::start_as("client-without-descriptors", command);
    let why = client.hear("stayed");
    assert!(why.contains("Too many open files"), "{why}");
    assert_eq!(client.hear("moved"), "shm");
    client.kill();
    server.wait_for_connections(0);
    server.finish();
}

#[test]
fn r12_a_crowd_at_the_meeting_keeps_no_client_on_tcp() {
    within(8 * PATIENCE, || {
        let mut server = ServerSetup::new("moving-server").at("tcp://127.0.0.1:0").start();
        let address = server.via("");
        let mut crowd = command("meeting-crowd", &address, "");
        if let Some(User::Uid(uid)) = User::another() {
            crowd.uid(uid).gid(uid);
        }
        let mut crowd = Process::start_as("meeting-crowd", crowd);
        crowd.hear("crowds");
        let moved: Vec<_> = (0..8)
            .map(|_| {
                let (client, start) = (Client::new(), clock::now());
                (call_until_moved(&client, &address), start.elapsed())
            })
            .collect();
        println!("r12: clients beside a crowd: {moved:?}");
        assert!(moved.iter().all(|(it, _)| *it == Mechanism::Shm), "{moved:?}");
        crowd.kill();
        server.wait_for_connections(0);
        server.finish();
    });
}

/// A client takes a step with each of its first calls.
#[timed]
fn a_client_killed_on_its_way_leaves_nothing() {
    let mut server = ServerSetup::new("moving-server").at("tcp://127.0.0.1:0").start();
    let address = server.via("");
    assert_eq!(call_until_moved(&Client::new(), &address), Mechanism::Shm);
    server.wait_for_connections(0);
    let oracle = server.leak_oracle();
    for calls in 1..8 {
        let mut client = Process::start("client-on-its-way", &format!("{address} {calls}"));
        client.hear("called");
        client.kill();
        server.wait_for_connections(0);
        oracle.check(&[]);
    }
    server.finish();
}

#[timed]
fn a_server_killed_on_the_way_ends_the_calls_of_its_client() {
    for calls in 1..8 {
        let mut server = ServerSetup::new("moving-server").at("tcp://127.0.0.1:0").start();
        let options = CallOptions::new().deadline(PATIENCE);
        let service = ServerCaller::new(&Client::new(), &server.via("")).unwrap();
        for _ in 0..calls {
            service.with(options.clone()).health(&HealthRequest::default()).unwrap();
        }
        server.kill();
        let lost = service.with(options.clone()).health(&HealthRequest::default()).unwrap_err();
        assert_eq!(lost.code(), Code::Unavailable, "after {calls} calls: {lost}");
    }
}

/// A stream that two threads use.
trait Shared: Read + Write + Send + 'static {
    fn end(&self);
}

impl Shared for TcpStream {
    fn end(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Shared for UnixStream {
    fn end(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

/// Copies what comes from each end to the other, in threads that end with them.
fn relay<A: Shared, B: Shared>((one_in, one_out): (A, A), (other_in, other_out): (B, B)) {
    fn copy(mut from: impl Shared, mut to: impl Shared) {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        from.end();
        to.end();
    }
    thread::spawn(move || copy(one_in, other_out));
    thread::spawn(move || copy(other_in, one_out));
}

fn both(stream: TcpStream) -> (TcpStream, TcpStream) {
    stream.set_nodelay(true).unwrap();
    (stream.try_clone().unwrap(), stream)
}

fn halves(stream: UnixStream) -> (UnixStream, UnixStream) {
    (stream.try_clone().unwrap(), stream)
}

/// Passes connections to a socket in the file system on to the server, whose namespace it is in.
fn relay_to_the_server(path: &Path, server: &RunningServer) {
    let place = server.address().to_string().replace("tcp://", "");
    let listener = UnixListener::bind(path).unwrap();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            relay(halves(stream), both(TcpStream::connect(&place).unwrap()));
        }
    });
}

/// Returns the address of a port of this namespace that is passed on to the socket.
fn relay_to_the_socket(path: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("tcp://{}", listener.local_addr().unwrap());
    let path = path.to_owned();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            relay(both(stream), halves(UnixStream::connect(&path).unwrap()));
        }
    });
    at
}

/// Calls from another network namespace, where the two sockets see none of the other.
fn be_elsewhere(path: &str) {
    let at = relay_to_the_socket(path);
    let client = Client::new();
    assert_eq!(call_until_moved(&client, &at), Mechanism::Tcp);
    let connections = client.connections();
    let [stayed] = &connections[0].switches[..] else { panic!("it tries once") };
    let why = stayed.outcome.as_ref().unwrap_err();
    assert!(why.contains("network namespace"), "{why}");
    report("done");
    wait_for_the_parent();
}

#[timed]
fn a_client_elsewhere_stays_on_tcp() {
    let test = "a_client_elsewhere_stays_on_tcp";
    let server = Server::builder().limits(moving()).listen("tcp://127.0.0.1:0");
    let server = server.start().unwrap();
    let path = std::env::temp_dir().join(format!("nearcall-relay-{:016x}", fastrand::u64(..)));
    relay_to_the_server(&path, &server);
    let path_text = path.to_str().unwrap();
    // In one namespace a relay changes nothing: both ends can meet.
    let at = relay_to_the_socket(path_text);
    assert_eq!(call_until_moved(&Client::new(), &at), Mechanism::Shm);
    let (flags, setup) = (["-n"], "ip link set lo up");
    match namespaces::start(test, &flags, setup, "client-elsewhere", path_text) {
        Some(mut client) => {
            client.hear("done");
            let connections = server.connections();
            assert!(connections.iter().all(|it| it.mechanism == Mechanism::Tcp));
            client.kill();
        }
        None => skip(test, "there is no other network namespace"),
    }
    std::fs::remove_file(&path).unwrap();
    wait_until("the connections", || server.connections().is_empty());
    assert!(server.refusals().is_empty(), "{:?}", server.refusals());
}
