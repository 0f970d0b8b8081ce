//! One user floods a server with connections, segments, half messages and requests whose replies it
//! does not read: it ends at its share, with the reason, and another user has all that it needs.
//! The same with the threads of a pool, and with wake-ups for nothing.

use std::collections::VecDeque;

use nearcall::service::{Blocking, BlockingPool};
use nearcall_channel::{Address, Endpoint, HandshakeError, Interest, Options, Refusal, connect};
use nearcall_os::socket;

use crate::echo::{Echo, EchoDispatcher, Span};
use crate::raw_frames::call;
use crate::served::{Stateless, hello};
use crate::support::prelude::*;

pub(crate) const ROLES: &[Role] =
    &[("lend-much", lend_much), ("pool-server", serve_pool), ("fill-pool", fill_pool)];

/// A channel on which this end has greeted; none if it was refused.
fn open(address: &str, mechanism: Mechanism) -> Result<Endpoint, HandshakeError> {
    let address: Address = address.parse().unwrap();
    let mut endpoint = connect(&address, mechanism, &Options::default())?;
    // The server may have closed.
    let _ = endpoint.send(&hello(1, 1), Deadline::after(PATIENCE));
    Ok(endpoint)
}

/// A number of `/proc/PID/status` in KiB, such as `VmRSS`.
pub(crate) fn status_kib(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap().trim().trim_end_matches(" kB").parse().unwrap()
}

/// Time of a CPU that a process has used, in hundredths of a second.
pub(crate) fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let numbers: Vec<u64> =
        fields.split(' ').skip(11).take(2).map(|it| it.parse().unwrap()).collect();
    numbers.iter().sum()
}

/// Lets another user call while `flood` is there. It is the same user where no other can be.
fn expect_room_for_another_user(test: &str, server: &ServerProcess) {
    let Some(another) = User::another() else {
        return skip(test, "only root can become another user");
    };
    let mut good = GoodClient::start(&server.address, another);
    let latencies = good.measure(Duration::from_millis(100));
    println!("{test}: the other user's calls take {:?} (p99)", latencies.p99);
    good.finish();
}

#[timed]
fn r13_one_user_leaves_descriptors_to_another() {
    let mut server = ServerSetup::new("server").ulimit("-n 1024").start();
    let mut kept = Vec::new();
    let refused = loop {
        assert!(kept.len() < 400, "one user has {} connections", kept.len());
        match open(&server.address, Mechanism::Shm) {
            Ok(endpoint) => kept.push(endpoint),
            Err(error) => break error,
        }
    };
    println!("at 1,024 descriptors one user has {} connections", kept.len());
    let HandshakeError::Refused { code: Refusal::Exhausted, text } = refused else {
        panic!("{refused}")
    };
    for part in ["descriptors", "may hold", "half of what others leave", "ulimit -n"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(server.state().refusals > 0);
    expect_room_for_another_user("r13 descriptors", &server);
    drop(kept);
    server.wait_for_connections(0);
    drop(open(&server.address, Mechanism::Shm).unwrap());
    server.finish();
}

/// The number of the next descriptor that a process opens.
fn first_free(pid: u32) -> u64 {
    let is_open =
        |number: &u64| std::fs::symlink_metadata(format!("/proc/{pid}/fd/{number}")).is_ok();
    (0..).find(|number| !is_open(number)).unwrap()
}

/// Sets how many descriptors a process may have; `false` without the tool for it.
fn limit_descriptors(pid: u32, count: u64) -> bool {
    let (pid, limit) = (format!("--pid={pid}"), format!("--nofile={count}:"));
    Command::new("prlimit").args([pid, limit]).status().is_ok_and(|status| status.success())
}

#[timed]
fn r13_a_server_without_a_descriptor_refuses_and_sleeps() {
    let server = ServerProcess::start();
    let client = Client::new();
    let echo = EchoCaller::new(&client, &server.address).unwrap();
    echo.nothing(&()).unwrap();
    if !limit_descriptors(server.pid(), first_free(server.pid())) {
        return skip("r13 without a descriptor", "there is no tool `prlimit`");
    }
    // The one that is kept for that suffices to say why.
    let error = open(&server.address, Mechanism::Shm).err().unwrap().to_string();
    assert!(error.contains("no descriptor is free"), "{error}");
    // Now not even that one.
    assert!(limit_descriptors(server.pid(), 3));
    let address = server.address.clone();
    let waiting = std::thread::spawn(move || open(&address, Mechanism::Shm).map(drop));
    let (before, time) = (cpu_ticks(server.pid()), Duration::from_millis(500));
    clock::pause(time);
    let ticks = cpu_ticks(server.pid()) - before;
    println!("a server that can accept no client used {} ms of {time:?}", 10 * ticks);
    assert!(ticks <= 5, "{ticks} hundredths of a second in {time:?}");
    echo.nothing(&()).unwrap();
    assert!(limit_descriptors(server.pid(), 1000));
    waiting.join().unwrap().unwrap();
    server.finish();
}

/// Connections of one process that hands over segments.
const LENDERS: usize = 350;

/// Has a server map as many segments as it takes, over many connections.
fn lend_much(address: &str) {
    let mut kept = Vec::new();
    for number in 1..=LENDERS {
        let Ok(mut endpoint) = open(address, Mechanism::Shm) else { break };
        let (mut lender, _) = endpoint.arena().unwrap();
        let loans: Vec<_> = (0..64).map_while(|_| lender.loan(4 << 10).ok()).collect();
        // It names a segment of its own, before which the server finds the others.
        let _ = endpoint.send(&call(1 << 16, "Nothing", &[], &[0; 256 << 10]), Deadline::NOW);
        kept.push((endpoint, lender, loans));
        report(&format!("lent {number}"));
    }
    report("lent all");
    wait_for_the_parent();
}

#[test]
fn r16_segments_of_a_thousand_connections_leave_mappings_to_another_user() {
    within(Duration::from_secs(300), || {
        let mut server = ServerProcess::start();
        let mut lenders: Vec<_> =
            (0..3).map(|_| Process::start("lend-much", &server.address)).collect();
        let mut lent = 0;
        for lender in &mut lenders {
            while lender.hear("lent") != "all" {
                lent += 1;
            }
        }
        let state = server.state();
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", server.pid())).unwrap();
        println!(
            "{lent} connections lent; the server has {} mappings, {state:?}",
            maps.lines().count()
        );
        assert!(state.refusals > 0, "nothing was refused");
        expect_room_for_another_user("r16 mappings", &server);
        for lender in &mut lenders {
            lender.kill();
        }
        server.wait_for_connections(0);
        server.finish();
    });
}

/// A server with little memory: what a user may have of it is a quarter of that.
const MEMORY_KIB: u64 = 1_600_000;

fn small_server() -> ServerProcess {
    ServerSetup::new("server").ulimit(&format!("-v {MEMORY_KIB}")).start()
}

/// Runs a flood of one user, and checks what the server's memory does.
fn expect_memory_back(test: &str, flood: impl FnOnce(&str) -> Vec<Endpoint>) {
    let mut server = small_server();
    server.warm_up(&["", "?via=unix-stream"]);
    let (before, pid) = (status_kib(server.pid(), "VmRSS"), server.pid());
    let kept = flood(&server.address);
    // It answers after what has come.
    let refusals = server.state().refusals;
    let peak = status_kib(pid, "VmHWM");
    expect_room_for_another_user(test, &server);
    drop(kept);
    server.wait_for_connections(0);
    let share = MEMORY_KIB / 4;
    println!("{test}: {before} KiB, at most {peak} KiB in the flood, {refusals} refusals");
    assert!(refusals > 0, "nothing was refused");
    assert!(peak <= before + share + share / 4, "{peak} KiB, above the share of {share} KiB");
    let limit = before + before / 10 + (16 << 10);
    wait_until("the memory to come back", || status_kib(pid, "VmRSS") <= limit);
    println!("{test}: {} KiB afterwards", status_kib(pid, "VmRSS"));
    server.finish();
}

#[timed]
fn r16_half_messages_stay_within_the_share_of_their_user() {
    expect_memory_back("r16 half messages", |address| {
        let message = vec![7; (4 << 20) - 1000];
        let opened = (0..300).map_while(|_| open(address, Mechanism::UnixStream).ok());
        let mut kept: Vec<Endpoint> = opened.collect();
        for endpoint in &mut kept {
            let Ok(mut claim) = endpoint.claim(message.len(), Deadline::NEVER) else {
                continue;
            };
            // A server that refuses closes.
            let _ = claim.write(&message[..message.len() - (20 << 10)]);
            // The rest never comes, nor an abort.
            std::mem::forget(claim);
        }
        kept
    });
}

/// A number as protobuf writes it.
fn varint(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 127 {
        bytes.push(u8::try_from(number & 127).unwrap() | 128);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap());
    bytes
}

/// Clients that ask for as long replies as there are, and read none of them, until the server reads
/// no more of their requests: then it has two replies of 4 MB for each.
fn flood_unread(address: &str, clients: usize) -> Vec<Endpoint> {
    let text = vec![b'x'; (4 << 20) - 1000];
    let body = [&[0x0a][..], &varint(text.len()), &text].concat();
    let opened = (0..clients).map_while(|_| open(address, Mechanism::UnixStream).ok());
    let mut kept: Vec<Endpoint> = opened.collect();
    for endpoint in &mut kept {
        for number in 0..60_u64 {
            let message = call(1 << 16 | number, "Say", &[], &body);
            if endpoint.send(&message, Deadline::after(Duration::from_millis(100))).is_err() {
                break;
            }
        }
    }
    kept
}

#[test]
fn r11_replies_that_are_never_read_stay_within_the_share_of_their_user() {
    within(Duration::from_secs(100), || {
        expect_memory_back("r11 unread replies", |address| flood_unread(address, 100));
    });
}

#[test]
fn memory_after_a_hundred_floods_beside_two_thousand_connections_is_as_before() {
    within(Duration::from_secs(300), || {
        let mut server = ServerProcess::start();
        server.warm_up(&["", "?via=unix-stream"]);
        let opened = (0..2000).map_while(|_| open(&server.address, Mechanism::Shm).ok());
        let kept: Vec<Endpoint> = opened.collect();
        if kept.len() < 2000 {
            let limit = "this machine's limits give one user fewer connections";
            return skip("memory after floods", limit);
        }
        server.wait_for_connections(2000);
        flood_unread(&server.address, 1);
        server.wait_for_connections(2000);
        let (pid, before) = (server.pid(), status_kib(server.pid(), "VmRSS"));
        for _ in 0..10 {
            drop(flood_unread(&server.address, 10));
        }
        server.wait_for_connections(2000);
        let now = || status_kib(pid, "VmRSS");
        wait_until("the memory to come back", || now() <= before + before / 10);
        let (peak, after) = (status_kib(pid, "VmHWM"), now());
        println!(
            "2,000 connections: {before} KiB; at most {peak} KiB in 100 floods; {after} KiB after"
        );
        drop(kept);
        server.wait_for_connections(0);
        server.finish();
    });
}

/// Methods of which one blocks.
#[derive(Default)]
struct Blocks {
    stateless: Stateless,
}

impl Echo for Blocks {
    nearcall_testkit::forward_echo!(stateless: say nothing note fail panic later quick look);

    fn work(&self, _: &Context<'_>, request: &Span) -> Result<Words, Status> {
        clock::pause(Duration::from_millis(request.ms.into()));
        Ok(Words::default())
    }
}

/// Serves them in a pool as it is by default.
fn serve_pool(address: &str) {
    let pool = BlockingPool::builder().build();
    serve(address, Limits::default(), |_, server| {
        server
            .register_as("pool", Blocking::new(EchoDispatcher::new(Blocks::default()), &pool))
            .unwrap();
    });
}

/// Calls of one client at the same time: more than a pool runs and keeps.
const CALLS: usize = 200;

/// Keeps a pool full with methods of 300 ms, whatever it refuses.
fn fill_pool(address: &str) {
    let echo = EchoCaller::new(&Client::new(), address).unwrap();
    let mut pending = VecDeque::new();
    let mut has_begun = false;
    loop {
        while pending.len() < CALLS {
            pending.push_back(echo.start_work(&Span { ms: 300 }));
        }
        let _ = pending.pop_front().map(|call| call.wait());
        if !std::mem::replace(&mut has_begun, true) {
            report("begun");
        }
    }
}

#[timed]
fn a_user_that_fills_a_pool_has_no_call_of_another_refused_or_wait_for_long() {
    let test = "a full pool";
    let Some(another) = User::another() else {
        return skip(test, "only root can become another user");
    };
    let mut server = ServerSetup::new("pool-server").start();
    let pool = server.via("#pool");
    // A third user: that of the server may take all threads.
    let mut attacker = command("fill-pool", &pool, "");
    attacker.uid(65_532).gid(65_532);
    let mut attacker = Process::start_as("fill-pool", attacker);
    attacker.hear("begun");
    // None of its calls may fail.
    let mut good = GoodClient::start(&pool, another);
    let latencies = good.measure(Duration::from_millis(1000));
    println!("{test}: the other user's calls: {latencies:?}");
    // Behind the calls of the attacker it would make three or four of them.
    assert!(latencies.calls > 20, "{latencies:?}");
    good.finish();
    assert!(attacker.is_alive() && server.state().refusals > 0);
    attacker.kill();
    server.finish();
}

/// Rings the bell of a server for a while, and sends nothing. Returns how often.
fn ring(endpoint: &Endpoint, time: Duration) -> u64 {
    let bell = endpoint.readiness(Interest::Receive).unwrap();
    let (end, mut rings) = (Deadline::after(time), 0);
    while !end.has_passed() {
        rings += u64::from(socket::try_send(bell.fd, &[1]).unwrap().is_some());
    }
    rings
}

#[timed]
fn r20_a_peer_that_only_wakes_is_looked_at_now_and_then() {
    let mut server = ServerProcess::start();
    let mut endpoint = open(&server.address, Mechanism::Shm).unwrap();
    endpoint.receive_into(&mut [0; 4096], Deadline::after(PATIENCE)).unwrap();
    server.wait_for_connections(1);
    let time = Duration::from_millis(500);
    wait_until("the server looks less often", || {
        ring(&endpoint, time);
        server.state().refusals == 1
    });
    let before = cpu_ticks(server.pid());
    let rings = ring(&endpoint, time);
    let ticks = cpu_ticks(server.pid()) - before;
    println!("a server that was rung {rings} times used {} ms of {time:?}", 10 * ticks);
    assert_eq!(server.state().refusals, 1, "it is counted once");
    // A message whose ring finds no room ends the connection: its process has filled the bell.
    wait_until("the server to take the rings", || {
        let bell = endpoint.readiness(Interest::Receive).unwrap();
        (0..16).all(|_| socket::try_send(bell.fd, &[1]).unwrap().is_some())
    });
    // Its messages are as good as before.
    endpoint.send(&call(1 << 16, "Nothing", &[], &[]), Deadline::after(PATIENCE)).unwrap();
    let reply = endpoint.receive_into(&mut [0; 4096], Deadline::after(PATIENCE));
    assert!(reply.is_ok(), "{reply:?}");
    server.finish();
}

#[test]
fn r16_memory_of_a_thousand_connections_over_tcp_comes_back() {
    within(Duration::from_secs(300), || {
        let mut server = ServerSetup::new("server").at("tcp://127.0.0.1:0").start();
        let (base, pid) = (server.state().bytes, server.pid());
        drop(open(&server.address, Mechanism::Tcp).unwrap());
        server.wait_for_connections(0);
        let before = status_kib(pid, "VmRSS");
        let opened = (0..1000).map_while(|_| open(&server.address, Mechanism::Tcp).ok());
        let kept: Vec<Endpoint> = opened.collect();
        if kept.len() < 1000 {
            return skip("r16 tcp", "this machine's limits give one user fewer connections");
        }
        server.wait_for_connections(1000);
        let (peak, charged) = (status_kib(pid, "VmRSS"), server.state().bytes - base);
        assert!(charged >> 10 >= peak - before, "{charged} bytes for {} KiB", peak - before);
        drop(kept);
        server.wait_for_connections(0);
        assert_eq!(server.state().bytes, base);
        let limit = before + before / 10 + (16 << 10);
        wait_until("the memory to come back", || status_kib(pid, "VmRSS") <= limit);
        let after = status_kib(pid, "VmRSS");
        println!("1,000 over tcp: {before} KiB, {peak} KiB, {after} KiB after; charged {charged}");
        server.finish();
    });
}
