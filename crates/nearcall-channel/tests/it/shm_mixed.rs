//! `shm` between ends that wait in different ways: each is woken in the way that it asked for.

use nearcall_os::epoll::{Epoll, Events};
use nearcall_os::poll;
use nearcall_os::socket::{self, Kind};

use crate::support::prelude::*;

/// How an end of these tests waits.
#[derive(Debug, Clone, Copy)]
enum Waits {
    Inside(WaitPolicy),
    /// In a loop, on the descriptor.
    InLoop(WaitPolicy),
    /// By turns.
    Changing,
}

const WAYS: [Waits; 7] = [
    Waits::Inside(WaitPolicy::Adaptive),
    Waits::Inside(WaitPolicy::Spin),
    Waits::Inside(WaitPolicy::Block),
    Waits::Inside(WaitPolicy::Poll),
    Waits::InLoop(WaitPolicy::Block),
    Waits::InLoop(WaitPolicy::Adaptive),
    Waits::Changing,
];

impl Waits {
    fn policy(self) -> WaitPolicy {
        match self {
            Self::Inside(policy) | Self::InLoop(policy) => policy,
            Self::Changing => WaitPolicy::Adaptive,
        }
    }

    /// Returns whether the wait number `number` is one of a loop.
    fn loops(self, number: u64) -> bool {
        match self {
            Self::Inside(_) => false,
            Self::InLoop(_) => true,
            Self::Changing => number % 3 == 1,
        }
    }
}

/// Two ends with the smallest room.
fn pair(first: Waits, second: Waits) -> (Endpoint, Endpoint) {
    pair_with_room(4 << 10, first, second)
}

fn pair_with_room(buffer_bytes: u32, first: Waits, second: Waits) -> (Endpoint, Endpoint) {
    let (ours, theirs) = socket::unix_pair(Kind::Seqpacket).unwrap();
    let options =
        move |waits: Waits| Options { wait: Some(waits.policy()), buffer_bytes, ..offering_all() };
    let server = thread::spawn(move || accept_over(theirs, &options(second)).unwrap());
    let client = connect_over(ours, Mechanism::Shm, &options(first)).unwrap();
    (client, server.join().unwrap())
}

/// Sleeps as a loop does.
fn sleep(endpoint: &mut Endpoint, interest: Interest) {
    if endpoint.arm(interest) {
        let readiness = endpoint.readiness(interest).unwrap();
        let event = poll::poll_one(readiness.fd, poll::Interest::Readable, Some(PATIENCE));
        assert!(event.unwrap().is_some(), "a loop was not woken for {interest:?}");
    }
}

fn send(endpoint: &mut Endpoint, waits: Waits, number: u64, message: &[u8]) {
    if !waits.loops(number) {
        return endpoint.send(message, patient()).unwrap();
    }
    loop {
        match endpoint.send(message, Deadline::NOW) {
            Ok(()) => break,
            Err(SendError::Full) => sleep(endpoint, Interest::Send),
            Err(error) => panic!("{error:?}"),
        }
    }
    while let Err(error) = endpoint.flush(Deadline::NOW) {
        assert!(matches!(error, SendError::Full), "{error:?}");
        sleep(endpoint, Interest::Send);
    }
}

fn receive(endpoint: &mut Endpoint, waits: Waits, number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if !waits.loops(number) {
        endpoint.receive(patient()).unwrap().read_to_end(&mut bytes).unwrap();
        return bytes;
    }
    loop {
        match endpoint.receive(Deadline::NOW) {
            Ok(mut message) => {
                message.read_to_end(&mut bytes).unwrap();
                return bytes;
            }
            Err(ReceiveError::Empty) => {}
            Err(error) => panic!("{error:?}"),
        }
        sleep(endpoint, Interest::Receive);
    }
}

fn length(number: u64) -> usize {
    [0, 8, 100, 900, 3_000][usize::try_from(number % 5).unwrap()]
}

fn for_each_pair(test: impl Fn(Waits, Waits)) {
    for first in WAYS {
        for second in WAYS {
            test(first, second);
        }
    }
}

#[test]
fn answers_come_whatever_the_two_ends_sleep_on() {
    for_each_pair(|first, second| {
        let (mut client, mut server) = pair(first, second);
        let server = thread::spawn(move || {
            for number in 0..ROUNDS {
                let message = receive(&mut server, second, number);
                send(&mut server, second, number, &message);
            }
        });
        for number in 0..ROUNDS {
            if number % 10 == 9 {
                // Long enough that the other end falls asleep.
                clock::pause(Duration::from_micros(300));
            }
            let message = pattern(number, length(number));
            send(&mut client, first, number, &message);
            assert_eq!(receive(&mut client, first, number), message, "{first:?} {second:?}");
        }
        server.join().unwrap();
    });
}

#[test]
fn streams_through_the_smallest_room_arrive_whatever_the_two_ends_sleep_on() {
    for_each_pair(|first, second| {
        let (mut sender, mut receiver) = pair(first, second);
        let sender = thread::spawn(move || {
            for number in 0..STREAM {
                send(&mut sender, first, number, &pattern(number, length(number)));
            }
            sender
        });
        for number in 0..STREAM {
            expect_pattern(&receive(&mut receiver, second, number), number, length(number));
        }
        drop(sender.join().unwrap());
        let end = receiver.receive(patient()).map(drop);
        assert!(matches!(end, Err(ReceiveError::PeerGone)), "{first:?} {second:?}: {end:?}");
    });
}

#[test]
fn long_messages_arrive_whatever_the_two_ends_sleep_on() {
    let length = |number: u64| {
        [20_000, 8, 300_000, 900, 3_000, 100_000][usize::try_from(number % 6).unwrap()]
    };
    for_each_pair(|first, second| {
        let (mut sender, mut receiver) = pair_with_room(128 << 10, first, second);
        let sender = thread::spawn(move || {
            for number in 0..ROUNDS {
                send(&mut sender, first, number, &pattern(number, length(number)));
            }
            sender
        });
        for number in 0..ROUNDS {
            expect_pattern(&receive(&mut receiver, second, number), number, length(number));
        }
        drop(sender.join().unwrap());
    });
}

/// Asks again and again after the other end has gone, until this end notices.
fn time_to_notice(waits: Waits, mut ask: impl FnMut(&mut Endpoint) -> bool) {
    let (mut client, server) = pair_with_room(128 << 10, waits, waits);
    assert!(!ask(&mut client), "{waits:?}");
    drop(server);
    let start = clock::now();
    while !ask(&mut client) {
        let so_far = clock::now() - start;
        assert!(so_far < DEATH_NOTICED, "{waits:?}: no notice after {so_far:?}");
    }
}

#[test]
fn a_receiver_that_waits_for_short_times_notices_a_death() {
    for waits in WAYS {
        for timeout in [Duration::from_nanos(1), Duration::from_micros(20)] {
            time_to_notice(waits, |client| {
                let outcome = client.receive(Deadline::after(timeout)).map(drop);
                matches!(outcome, Err(ReceiveError::PeerGone))
            });
        }
    }
}

#[test]
fn a_receiver_that_polls_now_and_then_notices_a_death() {
    for waits in WAYS {
        time_to_notice(waits, |client| {
            clock::pause(Duration::from_millis(1));
            let outcome = client.receive(Deadline::NOW).map(drop);
            matches!(outcome, Err(ReceiveError::PeerGone))
        });
    }
}

#[test]
fn an_end_that_only_sends_notices_a_death() {
    for waits in WAYS {
        for bytes in [8, 3_000] {
            time_to_notice(waits, |client| {
                clock::pause(Duration::from_micros(100));
                let outcome = client.send(&pattern(0, bytes), Deadline::NOW);
                matches!(outcome, Err(SendError::PeerGone))
            });
        }
    }
}

/// More rings than may lie unread, each reported once, and the hang-up behind them.
#[test]
fn an_end_that_is_watched_for_edges_is_woken_by_each_ring() {
    const CALLS: u64 = 40;
    let waits = Waits::InLoop(WaitPolicy::Adaptive);
    let (mut client, mut server) = pair(Waits::Inside(WaitPolicy::Block), waits);
    server.watch_edges();
    let (epoll, mut events) = (Epoll::create().unwrap(), Events::with_capacity(1));
    let readiness = server.readiness(Interest::Receive).unwrap();
    assert!(readiness.edge);
    epoll.add(readiness.fd, poll::Interest::ReadableEdge, 0).unwrap();
    let caller = thread::spawn(move || {
        for number in 0..CALLS {
            // The server sleeps by then, most often.
            clock::pause(Duration::from_millis(1));
            client.send(&pattern(number, 8), patient()).unwrap();
            client.receive_into(&mut [0; 8], patient()).unwrap();
        }
    });
    let (mut received, mut reported) = (0, 0);
    loop {
        match server.receive_into(&mut [0; 8], Deadline::NOW) {
            Ok(_) => {
                received += 1;
                server.send(&[], patient()).unwrap();
            }
            Err(ReceiveError::Empty) if server.arm(Interest::Receive) => {
                let event = epoll.wait(&mut events, Some(PATIENCE)).unwrap().first();
                let event = event.expect("the end was not woken");
                reported += 1;
                server.note_report(event.ready.hung_up);
            }
            Err(ReceiveError::Empty) => {}
            Err(error) => break assert!(matches!(error, ReceiveError::PeerGone), "{error:?}"),
        }
    }
    caller.join().unwrap();
    assert_eq!(received, CALLS);
    assert!(reported > CALLS / 2, "{reported} reports");
    assert!(reported <= CALLS + 4, "{reported} reports");
}

/// An end that is awake takes them back as well: a full descriptor would report no other.
#[test]
fn a_flood_of_rings_leaves_room_for_the_next_one() {
    let waits = Waits::InLoop(WaitPolicy::Adaptive);
    let (mut client, mut server) = pair(waits, waits);
    server.watch_edges();
    let (epoll, mut events) = (Epoll::create().unwrap(), Events::with_capacity(1));
    let readiness = server.readiness(Interest::Receive).unwrap();
    epoll.add(readiness.fd, poll::Interest::ReadableEdge, 0).unwrap();
    for _ in 0..3 {
        let bell = client.readiness(Interest::Receive).unwrap().fd;
        while socket::try_send(bell, &[1]).unwrap().is_some() {}
        assert_eq!(epoll.wait(&mut events, Some(PATIENCE)).unwrap().len(), 1);
        server.note_report(false);
        assert!(server.arm(Interest::Receive));
        client.send(&pattern(0, 8), patient()).unwrap();
        assert_eq!(epoll.wait(&mut events, Some(PATIENCE)).unwrap().len(), 1, "not woken");
        assert_eq!(server.receive_into(&mut [0; 8], Deadline::NOW).unwrap(), 8);
    }
}

/// Its own process has filled it. The other end would not notice the message: an error, not a wait.
#[test]
fn an_end_whose_bell_is_full_is_gone() {
    let waits = Waits::InLoop(WaitPolicy::Adaptive);
    let (mut client, mut server) = pair(waits, waits);
    server.watch_edges();
    assert!(server.arm(Interest::Receive));
    let bell = client.readiness(Interest::Receive).unwrap().fd;
    while socket::try_send(bell, &[1]).unwrap().is_some() {}
    client.send(&pattern(0, 8), patient()).unwrap();
    assert!(matches!(client.receive(patient()), Err(ReceiveError::PeerGone)));
    // What came is still there.
    assert_eq!(server.receive_into(&mut [0; 8], Deadline::NOW).unwrap(), 8);
}

#[test]
fn a_flood_of_rings_wakes_a_loop_a_few_times() {
    let waits = Waits::InLoop(WaitPolicy::Adaptive);
    let (client, mut server) = pair(waits, waits);
    let bell = client.readiness(Interest::Receive).unwrap().fd;
    let flood = socket::try_send(bell, &[1; 200_000]).unwrap().unwrap();
    let mut wake_ups = 0;
    while server.arm(Interest::Receive) {
        let fd = server.readiness(Interest::Receive).unwrap().fd;
        if poll::poll_one(fd, poll::Interest::Readable, Some(Duration::ZERO)).unwrap().is_none() {
            break;
        }
        wake_ups += 1;
        assert!(matches!(server.receive(Deadline::NOW), Err(ReceiveError::Empty)));
    }
    assert!(wake_ups < 10, "{wake_ups} wake-ups for {flood} bytes");
}

#[test]
fn a_tiny_dev_shm_does_not_matter() {
    const INSIDE: &str = "NEARCALL_TEST_TINY_DEV_SHM";
    if std::env::var_os(INSIDE).is_some() {
        let options = || Options { wait: Some(WaitPolicy::Adaptive), ..offering_all() };
        let (ours, theirs) = socket::unix_pair(Kind::Seqpacket).unwrap();
        let server = thread::spawn(move || accept_over(theirs, &options()).unwrap());
        let mut client = connect_over(ours, Mechanism::Shm, &options()).unwrap();
        let mut server = server.join().unwrap();
        // More than fits there, and than the first pages of the ring.
        let message = pattern(1, 100_000);
        let sender = thread::spawn(move || client.send(&message, patient()).unwrap());
        let mut bytes = Vec::new();
        server.receive(patient()).unwrap().read_to_end(&mut bytes).unwrap();
        expect_pattern(&bytes, 1, 100_000);
        sender.join().unwrap();
        return;
    }
    let mount = "mount -t tmpfs -o size=4k none /dev/shm && \
                 head -c 9999 /dev/zero > /dev/shm/full 2>/dev/null; df /dev/shm | grep -q 100% || \
                 exit 77; exec \"$0\" --exact shm_mixed::a_tiny_dev_shm_does_not_matter";
    let program = std::env::current_exe().unwrap();
    let run = Command::new("timeout")
        .args(["30", "unshare", "--mount", "--map-root-user", "sh", "-c", mount])
        .arg(program)
        .env(INSIDE, "1")
        .output();
    match run {
        Ok(run) if run.status.success() => {
            let text = String::from_utf8_lossy(&run.stdout).into_owned();
            assert!(text.contains("1 passed"), "{text}");
        }
        Ok(run) if run.status.code() == Some(101) => {
            panic!("{}", String::from_utf8_lossy(&run.stdout));
        }
        other => report(&format!("a tiny /dev/shm was not tried: {other:?}")),
    }
}

/// Calls of each pair.
const ROUNDS: u64 = 60;

/// Messages of each stream.
const STREAM: u64 = 200;
