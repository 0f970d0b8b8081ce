//! What an idle connection over `shm` costs: pages and threads of this process, which has both
//! ends.
//!
//! A program of its own, because other tests make memory files and threads, too.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::thread;
use std::time::Duration;

use nearcall_channel::{
    Deadline, Endpoint, Interest, Mechanism, MechanismSet, Options, ReceiveError, WaitPolicy,
    accept_over, connect_over,
};
use nearcall_os::clock;
use nearcall_os::socket::{self, Kind};

/// What DESIGN.md, section 6, allows for both directions together, in bytes.
const IDLE_BYTES_MAX: usize = 64 << 10;

/// Ends a test that would otherwise hang.
const PATIENCE: Duration = Duration::from_secs(20);

fn pair(client: WaitPolicy, server: WaitPolicy) -> (Endpoint, Endpoint) {
    let (ours, theirs) = socket::unix_pair(Kind::Seqpacket).unwrap();
    let options = |wait| Options { wait: Some(wait), ..Options::offering(MechanismSet::ALL) };
    let server = thread::spawn(move || accept_over(theirs, &options(server)).unwrap());
    let client = connect_over(ours, Mechanism::Shm, &options(client)).unwrap();
    (client, server.join().unwrap())
}

/// Bytes of each ring's memory file that are in memory: as its owner sees it, and as it is read.
fn touched() -> Vec<usize> {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut touched = Vec::new();
    let mut is_ring = false;
    for line in maps.lines() {
        match line.strip_prefix("Rss:") {
            Some(rss) if is_ring => {
                let kib: usize = rss.trim().trim_end_matches(" kB").parse().unwrap();
                touched.push(kib << 10);
                is_ring = false;
            }
            _ => is_ring = is_ring || line.contains("/memfd:nearcall-ring"),
        }
    }
    touched
}

/// Returns how many lanes this process has mapped, as owner or as reader.
fn lanes() -> usize {
    fs::read_to_string("/proc/self/maps").unwrap().matches("/memfd:nearcall-segment").count()
}

/// Waits until `done`, which must come sooner or later.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = clock::now() + PATIENCE;
    while !done() {
        assert!(clock::now() < end, "{what}");
        clock::pause(Duration::from_millis(20));
    }
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// A call of `bytes` bytes from `client` and its answer, in one thread.
fn call(client: &mut Endpoint, server: &mut Endpoint, bytes: usize) {
    hand_over(client, server, bytes);
    hand_over(server, client, bytes);
}

fn hand_over(from: &mut Endpoint, to: &mut Endpoint, bytes: usize) {
    let (message, mut got) = (vec![7; bytes], Vec::new());
    from.send(&message, Deadline::NOW).unwrap();
    to.receive(Deadline::NOW).unwrap().read_to_end(&mut got).unwrap();
    assert_eq!(got, message);
}

#[test]
fn an_idle_connection_is_small_and_a_loop_needs_no_thread() {
    let threads_before = threads();
    let (mut client, mut server) = pair(WaitPolicy::Poll, WaitPolicy::Adaptive);
    let maps = touched();
    assert_eq!(maps.len(), 4, "two files, each mapped twice: {maps:?}");
    // Each file counts twice here, so the true figure is half of it.
    assert!(maps.iter().sum::<usize>() <= IDLE_BYTES_MAX, "{maps:?}");
    for number in 0..10_000 {
        call(&mut client, &mut server, number % 200);
    }
    let used = touched();
    assert_eq!(used, maps, "calls of up to 200 bytes take no further page");
    // As loops do, on both sides.
    for end in [&mut client, &mut server] {
        assert!(matches!(end.receive(Deadline::NOW), Err(ReceiveError::Empty)));
        assert!(end.arm(Interest::Receive));
        assert!(end.readiness(Interest::Receive).is_some());
    }
    // A thread that was joined may be listed for a while; one that watches would stay.
    wait_until("no end has slept outside of a loop", || threads() == threads_before);
    // The first sleep on the futex begins the watch over the other end.
    drop(client);
    assert!(matches!(server.receive(Deadline::NEVER), Err(ReceiveError::PeerGone)));
    drop(server);
    long_messages_give_their_memory_back();
}

/// In the same test: what other tests of this program map would be counted, too.
fn long_messages_give_their_memory_back() {
    let (mut client, mut server) = pair(WaitPolicy::Poll, WaitPolicy::Adaptive);
    let before = touched();
    for _ in 0..20 {
        call(&mut client, &mut server, 100_000);
    }
    assert_eq!(lanes(), 4, "a lane for each direction, mapped by both ends");
    assert_eq!(touched(), before, "long fragments do not lie in the rings");
    // One end sleeps in its call, the other one in a loop that goes round now and then.
    let server = thread::spawn(move || {
        let message = server.receive(Deadline::NEVER).map(|message| message.len());
        (message, server)
    });
    wait_until("idle ends keep their lanes", || {
        let _ = client.receive(Deadline::NOW);
        client.arm(Interest::Receive);
        lanes() == 0
    });
    // And they get new ones.
    let message = vec![3; 100_000];
    client.send(&message, Deadline::NEVER).unwrap();
    let (received, server) = server.join().unwrap();
    assert_eq!(received.unwrap(), message.len());
    drop((client, server));
    assert_eq!(lanes(), 0);
}
