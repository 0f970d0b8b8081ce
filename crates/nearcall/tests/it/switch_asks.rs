//! Administrators that have clients move to another mechanism, and clients that say why they did.
//!
//! **Not here:** switches that a client begins (`switching.rs`).

use std::thread::{self, JoinHandle};

use nearcall::control::{
    Connection, ConnectionsRequest, DescribeRequest, HealthRequest, ServerCaller, SwitchOutcome,
    SwitchReport, SwitchRequest,
};
use nearcall::observe::SwitchCause;
use nearcall::server::RunningServer;

use crate::stage::prelude::*;

pub(crate) fn start(threads: usize, allow: &str) -> RunningServer {
    let limits = Limits { switches_per_minute_max: 100, ..Limits::default() };
    let at = format!("{}{allow}", unique_address());
    Server::builder().threads(threads).limits(limits).listen(&at).start().unwrap()
}

/// The address for clients.
pub(crate) fn address(server: &RunningServer) -> String {
    server.address().to_string()
}

pub(crate) fn service(client: &Client, at: &str) -> ServerCaller {
    ServerCaller::new(client, at).unwrap()
}

fn call(client: &Client, at: &str) {
    service(client, at).describe(&DescribeRequest::default()).unwrap();
}

pub(crate) fn request(mechanism: &str) -> SwitchRequest {
    let timeout_ms = u32::try_from(PATIENCE.as_millis()).unwrap();
    SwitchRequest { mechanism: mechanism.to_owned(), timeout_ms, ..SwitchRequest::default() }
}

pub(crate) fn options() -> CallOptions {
    CallOptions::new().deadline(2 * PATIENCE)
}

/// All connections but that of the call.
fn others(admin: &ServerCaller) -> Vec<Connection> {
    let live = ConnectionsRequest { live: true, own_only: false };
    let mut others = admin.with(options()).connections(&live).unwrap().connections;
    others.retain(|it| it.name != "the client" && it.traffic.is_some());
    others.sort_by_key(|it| it.number);
    others.pop(); // The administrator has come last.
    others
}

/// A client in a thread, until it is dropped.
struct Elsewhere {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<SwitchCause>>,
}

impl Elsewhere {
    /// Without a loop, it calls again and again; with one it only serves.
    fn start(at: &str, in_loop: bool) -> Self {
        let (stop, at) = (Arc::new(AtomicBool::new(false)), at.to_owned());
        let stopped = Arc::clone(&stop);
        let (give, connected) = mpsc::channel();
        let thread = thread::spawn(move || {
            let event_loop = EventLoop::new().unwrap();
            let client = if in_loop { Client::in_loop(&event_loop) } else { Client::new() };
            call(&client, &at);
            give.send(()).unwrap();
            while !stopped.load(Ordering::Relaxed) {
                match in_loop {
                    true => {
                        let soon = Deadline::after(Duration::from_millis(2));
                        let _ = event_loop.next(soon).unwrap();
                    }
                    false => call(&client, &at),
                }
            }
            let own = client.connections().remove(0);
            assert_eq!(own.mechanism, Mechanism::Pipe);
            own.switches[0].cause
        });
        connected.recv_timeout(PATIENCE).unwrap();
        Self { stop, thread: Some(thread) }
    }

    fn stop(mut self) -> SwitchCause {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[timed]
fn clients_of_all_loops_move_when_an_administrator_asks() {
    let server = start(3, "?allow=all");
    let at = address(&server);
    let clients = [false, true, false].map(|in_loop| Elsewhere::start(&at, in_loop));
    let client = Client::new();
    let admin = service(&client, &at);
    let all = SwitchRequest { all: true, ..request("pipe") };
    let moved = admin.with(options()).switch(&all).unwrap().connections;
    let facts = |it: &SwitchOutcome| (it.code, it.before.clone(), it.after.clone());
    let all_moved = vec![(0, "shm".to_owned(), "pipe".to_owned()); 3];
    assert_eq!(moved.iter().map(facts).collect::<Vec<_>>(), all_moved, "{moved:?}");
    for connection in others(&admin) {
        assert_eq!(connection.mechanism, "pipe");
        let [switched] = &connection.switches[..] else { panic!("{connection:?}") };
        assert_eq!((&*switched.cause, &*switched.failure), ("asked", ""), "{switched:?}");
    }
    // What they use already is no switch.
    let again = admin.with(options()).switch(&all).unwrap().connections;
    assert!(again.iter().all(|it| it.code == 0 && it.before == "pipe"), "{again:?}");
    assert_eq!(client.connections()[0].mechanism, Mechanism::Shm, "the one of the call stays");
    assert_eq!(clients.map(Elsewhere::stop), [SwitchCause::Asked; 3]);
}

#[timed]
fn a_client_that_does_not_call_moves_when_it_does() {
    let server = start(1, "");
    let (idle, at) = (Client::new(), address(&server));
    call(&idle, &at);
    let client = Client::new();
    let admin = service(&client, &at);
    let number = admin.connections(&ConnectionsRequest::default()).unwrap().connections;
    let number = number.iter().map(|it| it.number).min().unwrap();
    let one = SwitchRequest { connections: vec![number], timeout_ms: 50, ..request("unix-stream") };
    let waited = admin.with(options()).switch(&one).unwrap().connections;
    let [not_yet] = &waited[..] else { panic!("{waited:?}") };
    assert_eq!(not_yet.code, Code::DeadlineExceeded as i32, "{not_yet:?}");
    assert!(not_yet.message.contains("next call"), "{not_yet:?}");
    let twice = admin.with(options()).switch(&one).unwrap().connections;
    assert!(twice[0].message.contains("an earlier ask"), "{twice:?}");
    // The first call does, unless the machine is too busy.
    wait_until("the move", || {
        call(&idle, &at);
        idle.connections()[0].mechanism == Mechanism::UnixStream
    });
    // Its end is reported.
    let pipe = SwitchRequest { mechanism: "pipe".to_owned(), timeout_ms: 60_000, ..one };
    let waiting = admin.with(options()).start_switch(&pipe);
    // The server has begun the call before once it has answered this one.
    admin.health(&HealthRequest::default()).unwrap();
    drop(idle);
    match waiting.wait() {
        Ok(reply) => assert_eq!(reply.connections[0].code, Code::Unavailable as i32),
        // The server has seen its end before the request.
        Err(status) => assert_eq!(status.code(), Code::NotFound, "{status}"),
    }
}

#[timed]
fn what_keeps_a_connection_is_reported() {
    let server = start(1, "?allow=shm,pipe");
    let at = address(&server);
    let unwilling = Client::builder().follow_asks(false).build();
    let calls = Arc::new(AtomicBool::new(true));
    let calling = Arc::clone(&calls);
    let unwilling_at = at.clone();
    let (give, both_have_called) = mpsc::channel();
    let thread = thread::spawn(move || {
        let client = Client::new();
        while calling.load(Ordering::Relaxed) {
            call(&unwilling, &unwilling_at);
            call(&client, &unwilling_at);
            let _ = give.send(());
        }
    });
    both_have_called.recv().unwrap();
    let client = Client::new();
    let admin = service(&client, &at);
    let all = |mechanism: &str| SwitchRequest { all: true, ..request(mechanism) };
    let ask = |request: &SwitchRequest| {
        admin.with(options()).switch(request).map(|reply| reply.connections)
    };
    let stayed = ask(&all("unix-stream")).unwrap();
    assert!(stayed[0].message.contains("does not follow asks"), "{stayed:?}");
    assert!(stayed[1].message.contains("does not offer unix-stream"), "{stayed:?}");
    assert!(stayed.iter().all(|it| it.code == Code::FailedPrecondition as i32), "{stayed:?}");
    assert!(stayed.iter().all(|it| it.after == "shm"), "{stayed:?}");
    let failed = &others(&admin)[1].switches[0];
    assert_eq!((&*failed.to, &*failed.cause), ("unix-stream", "asked"), "{failed:?}");
    assert!(failed.failure.contains("offer"), "{failed:?}");
    let wrong = |request: SwitchRequest| ask(&request).unwrap_err();
    let unknown = wrong(all("pip"));
    assert_eq!(unknown.code(), Code::InvalidArgument, "{unknown}");
    let of = |numbers: &[u64]| SwitchRequest { connections: numbers.to_vec(), ..request("pipe") };
    let missing = wrong(of(&[1, 77]));
    assert_eq!(missing.code(), Code::NotFound, "{missing}");
    assert!(missing.message().contains("no connection 77"), "{missing}");
    let own = wrong(of(&[3]));
    assert!(own.message().contains("carries this call"), "{own}");
    assert_eq!(wrong(request("pipe")).code(), Code::InvalidArgument);
    let both = SwitchRequest { pid: Some(1), ..all("pipe") };
    assert_eq!(wrong(both).code(), Code::InvalidArgument);
    let nobody = SwitchRequest { pid: Some(i32::MAX), ..request("pipe") };
    assert_eq!(wrong(nobody).code(), Code::NotFound);
    calls.store(false, Ordering::Relaxed);
    thread.join().unwrap();
}

#[timed]
fn a_server_whose_connections_do_not_switch_says_so() {
    let limits = Limits { switches_per_minute_max: 0, ..Limits::default() };
    let server = Server::builder().limits(limits).listen(&unique_address()).start().unwrap();
    let at = address(&server);
    let (other, client) = (Client::new(), Client::new());
    call(&other, &at);
    let all = SwitchRequest { all: true, ..request("pipe") };
    let stayed = service(&client, &at).with(options()).switch(&all).unwrap().connections;
    assert!(stayed[0].message.contains("switches_per_minute_max"), "{stayed:?}");
}

#[timed]
fn an_ask_beyond_what_the_server_allows_in_a_minute_is_refused_and_says_so() {
    let limits = Limits { switches_per_minute_max: 1, ..Limits::default() };
    let at = format!("{}?allow=all", unique_address());
    let server = Server::builder().limits(limits).listen(&at).start().unwrap();
    let at = address(&server);
    let moving = Elsewhere::start(&at, true);
    let client = Client::new();
    let admin = service(&client, &at);
    let all = |mechanism| SwitchRequest { all: true, ..request(mechanism) };
    let moved = admin.with(options()).switch(&all("pipe")).unwrap().connections;
    assert_eq!((moved[0].code, &*moved[0].after), (0, "pipe"), "{moved:?}");
    for _ in 0..3 {
        let stayed = admin.with(options()).switch(&all("shm")).unwrap().connections;
        let [refused] = &stayed[..] else { panic!("{stayed:?}") };
        assert_eq!(refused.code, Code::ResourceExhausted as i32, "{refused:?}");
        assert!(refused.message.contains("switches_per_minute_max"), "{refused:?}");
        assert_eq!(refused.after, "pipe", "{refused:?}");
    }
    moving.stop();
}

#[timed]
fn a_client_says_why_it_has_switched_in_few_plain_words() {
    let server = start(2, "?allow=all");
    let (other, at) = (Client::new(), address(&server));
    let reporter = service(&other, &at);
    let note = "\u{1b}[2J and more ".repeat(100);
    let report = SwitchReport { cause: "automatic".to_owned(), note };
    reporter.report_switch(&report).unwrap(); // There was no switch yet.
    call(&other, &at);
    other.switch(&at, "pipe", PATIENCE).unwrap();
    reporter.report_switch(&report).unwrap();
    call(&other, &at);
    let client = Client::new();
    let seen = others(&service(&client, &at)).remove(0);
    let [switch] = &seen.switches[..] else { panic!("{seen:?}") };
    assert_eq!((&*switch.cause, &*switch.from, &*switch.to), ("automatic", "shm", "pipe"));
    assert!(switch.note.len() <= 512 && switch.note.starts_with("\\u{1b}[2J and"), "{switch:?}");
    let traffic = seen.traffic.unwrap();
    assert!(traffic.received.unwrap().bytes > 0 && traffic.sent.unwrap().bytes > 0);
}
