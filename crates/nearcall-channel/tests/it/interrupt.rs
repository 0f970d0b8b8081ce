//! A sleep inside a mechanism without a descriptor is ended from outside, and loses nothing.
//!
//! **Invariants:** everything here runs in this process, an end in each of two threads; a sleep
//! that nothing ends would end by its partner's leaving, as a failure.
//! **Not here:** mechanisms that can be waited on (`conformance/readiness.rs`).

use std::sync::mpsc;

use nearcall_channel::Interrupt;
use nearcall_os::eventfd;
use nearcall_os::socket::{self, Kind};

use crate::support::prelude::*;

/// Sleeps of which each test sees the end.
const ROUNDS: u64 = 1000;

/// The mechanisms that need it, as far as they are to be had here.
fn sleepers() -> impl Iterator<Item = Mechanism> {
    let needs = |mechanism: &Mechanism| {
        let can = mechanism.capabilities();
        !can.pollable && !can.needs_spinning && mechanism.supported().is_ok()
    };
    Mechanism::all().filter(needs)
}

/// Two ends, the first of which is interrupted by the bell.
struct Pair {
    endpoint: Endpoint,
    partner: Endpoint,
    interrupt: Interrupt,
    bell: OwnedFd,
}

fn pair(mechanism: Mechanism) -> Pair {
    pair_that_waits(mechanism, None)
}

fn pair_that_waits(mechanism: Mechanism, wait: Option<WaitPolicy>) -> Pair {
    let (ours, theirs) = socket::unix_pair(Kind::Seqpacket).unwrap();
    let options = Options { buffer_bytes: 4 << 10, wait, ..offering_all() };
    let (mut endpoint, partner) = thread::scope(|scope| {
        let server = scope.spawn(|| accept_over(ours, &options).unwrap());
        let client = connect_over(theirs, mechanism, &options).unwrap();
        (server.join().unwrap(), client)
    });
    let bell = eventfd::create(eventfd::Kind::Counter).unwrap();
    let interrupt = endpoint.interrupt_when_readable(bell.as_fd()).unwrap();
    Pair { endpoint, partner, interrupt, bell }
}

fn is_empty<T>(outcome: &Result<T, ReceiveError>) -> bool {
    matches!(outcome, Err(ReceiveError::Empty))
}

#[test]
fn the_mechanisms_without_a_descriptor_are_those_that_can_be_interrupted() {
    let (ours, theirs) = socket::unix_pair(Kind::Seqpacket).unwrap();
    let bell = eventfd::create(eventfd::Kind::Counter).unwrap();
    let server = thread::spawn(|| accept_over(ours, &offering_all()).unwrap());
    let mut client = connect_over(theirs, Mechanism::ShmEventfd, &offering_all()).unwrap();
    let error = client.interrupt_when_readable(bell.as_fd()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    assert!(error.to_string().contains("can be waited on"), "{error}");
    drop(server.join().unwrap());
    for mechanism in sleepers() {
        let mut pair = pair(mechanism);
        let second = pair.endpoint.interrupt_when_readable(pair.bell.as_fd()).unwrap_err();
        assert_eq!(second.kind(), std::io::ErrorKind::AlreadyExists, "{mechanism}");
        drop(pair.interrupt);
        pair.interrupt = pair.endpoint.interrupt_when_readable(pair.bell.as_fd()).unwrap();
    }
}

#[test]
fn a_sleeping_receive_is_ended_and_sleeps_again_when_armed() {
    for mechanism in sleepers() {
        let Pair { mut endpoint, partner, mut interrupt, bell } = pair(mechanism);
        let (ended, next_turn) = mpsc::channel::<()>();
        let ringer = bell.try_clone().unwrap();
        let partner = thread::spawn(move || {
            let mut rung = Vec::new();
            for turn in 0..ROUNDS {
                // Some come before the sleep, some amid it, a few deep in it.
                clock::pause(Duration::from_micros([0, 20, 60, 150, 2000][(turn % 5) as usize]));
                rung.push(clock::now());
                eventfd::add_one(&ringer).unwrap();
                // Its leaving ends a sleep that the bell did not.
                next_turn.recv_timeout(PATIENCE).unwrap();
            }
            drop(partner);
            rung
        });
        let mut ends = Vec::new();
        let mut into = [0; 8];
        for turn in 0..ROUNDS {
            let outcome = match turn % 2 {
                0 => endpoint.receive_into(&mut into, Deadline::NEVER).map(drop),
                _ => endpoint.receive(patient()).map(drop),
            };
            ends.push(clock::now());
            assert!(is_empty(&outcome), "{mechanism}: {outcome:?}");
            // It stays so until it is armed again.
            assert!(interrupt.has_fired(), "{mechanism}");
            assert!(is_empty(&endpoint.receive(Deadline::NEVER).map(drop)), "{mechanism}");
            assert_eq!(eventfd::try_read(&bell).unwrap(), Some(1));
            interrupt.rearm().unwrap();
            ended.send(()).unwrap();
        }
        let rung = partner.join().unwrap();
        let mut took: Vec<_> = ends.iter().zip(rung).map(|(end, ring)| *end - ring).collect();
        took.sort();
        // Well below the slices of the condition variables, which end by themselves.
        assert!(took[took.len() / 4] < Duration::from_millis(4), "{mechanism}: {took:?}");
    }
}

#[test]
fn a_spinning_receive_is_ended_too() {
    let spins = |mechanism: &Mechanism| mechanism.waits().contains(&WaitPolicy::Spin);
    for mechanism in sleepers().filter(spins) {
        let Pair { mut endpoint, partner, interrupt, bell } =
            pair_that_waits(mechanism, Some(WaitPolicy::Spin));
        let ringer = thread::spawn(move || eventfd::add_one(&bell).unwrap());
        let outcome = endpoint.receive(patient()).map(drop);
        assert!(is_empty(&outcome) && interrupt.has_fired(), "{mechanism}: {outcome:?}");
        ringer.join().unwrap();
        drop(partner);
    }
}

#[test]
fn a_message_that_comes_with_an_interruption_is_received() {
    for mechanism in sleepers() {
        let Pair { mut endpoint, mut partner, mut interrupt, bell } = pair(mechanism);
        let ringer = bell.try_clone().unwrap();
        let sender = thread::spawn(move || {
            let mut random = fastrand::Rng::with_seed(7);
            for number in 0..ROUNDS {
                if random.bool() {
                    eventfd::add_one(&ringer).unwrap();
                }
                let length = [0, 8, 100, 900, 20_000][random.usize(0..5)];
                partner.send(&pattern(number, length), patient()).unwrap();
                partner.flush(patient()).unwrap();
                if random.bool() {
                    eventfd::add_one(&ringer).unwrap();
                }
                if random.u8(0..4) == 0 {
                    clock::pause(Duration::from_micros(random.u64(0..200)));
                }
            }
            partner
        });
        let mut random = fastrand::Rng::with_seed(7);
        let mut bytes = Vec::new();
        let mut number = 0;
        let lengths: Vec<_> = (0..ROUNDS)
            .map(|_| {
                random.bool();
                let length = [0, 8, 100, 900, 20_000][random.usize(0..5)];
                random.bool();
                if random.u8(0..4) == 0 {
                    random.u64(0..200);
                }
                length
            })
            .collect();
        while number < ROUNDS {
            bytes.clear();
            match endpoint.receive(Deadline::NEVER) {
                Ok(mut message) => {
                    message.read_to_end(&mut bytes).unwrap();
                    drop(message);
                    expect_pattern(&bytes, number, lengths[usize::try_from(number).unwrap()]);
                    number += 1;
                }
                Err(ReceiveError::Empty) => {
                    let _ = eventfd::try_read(&bell).unwrap();
                    interrupt.rearm().unwrap();
                }
                Err(error) => panic!("{mechanism}: {error:?}"),
            }
        }
        drop(sender.join().unwrap());
    }
}

#[test]
fn a_wait_for_room_is_ended_and_a_long_message_is_not_cut_off() {
    const LONG: usize = 100_000;
    for mechanism in sleepers() {
        let Pair { mut endpoint, mut partner, mut interrupt, bell } = pair(mechanism);
        let mut sent = 0;
        // Rung all the time: every wait that may be ended is.
        eventfd::add_one(&bell).unwrap();
        loop {
            match endpoint.send(&pattern(sent, 100), Deadline::NEVER) {
                Ok(()) => sent += 1,
                Err(SendError::Full) => break,
                Err(error) => panic!("{mechanism}: {error:?}"),
            }
            assert!(sent < 10_000, "{mechanism} is never full");
        }
        let reader = thread::spawn(move || {
            let mut bytes = Vec::new();
            for number in 0..=sent {
                bytes.clear();
                let length = if number == sent { LONG } else { 100 };
                let mut message = partner.receive(patient()).unwrap();
                message.read_to_end(&mut bytes).unwrap();
                drop(message);
                expect_pattern(&bytes, number, length);
                if number % 16 == 0 {
                    clock::pause(Duration::from_millis(1));
                }
            }
            partner
        });
        let long = pattern(sent, LONG);
        let end = clock::now() + PATIENCE;
        loop {
            interrupt.rearm().unwrap();
            match endpoint.send(&long, Deadline::NEVER) {
                Ok(()) => break,
                Err(SendError::Full) => assert!(clock::now() < end, "{mechanism}"),
                Err(error) => panic!("{mechanism}: {error:?}"),
            }
        }
        drop(reader.join().unwrap());
    }
}

#[test]
fn waiting_for_an_interruption_costs_no_wake_ups() {
    for mechanism in sleepers() {
        let Pair { mut endpoint, mut partner, interrupt: _interrupter, bell: _bell } =
            pair(mechanism);
        let (tell, told) = mpsc::channel();
        let sleeper = thread::spawn(move || {
            tell.send(process::tid()).unwrap();
            let mut into = [0; 8];
            endpoint.receive_into(&mut into, Deadline::NEVER).unwrap();
            endpoint
        });
        let tid = told.recv().unwrap();
        clock::pause(Duration::from_millis(20));
        let (begun, before) = (clock::now(), sleeps(tid));
        clock::pause(Duration::from_millis(200));
        let sleeper_switches = sleeps(tid) - before;
        let took = begun.elapsed();
        // The condition variables wait in slices of 10 ms.
        let most = took.as_millis() / 10 * 3 / 2 + 5;
        let what = format!("{mechanism}: {sleeper_switches} wake-ups in {took:?}");
        assert!(u128::from(sleeper_switches) <= most, "{what}");
        let watcher = thread_named("nearcall-watch");
        // Other tests wake it as well, but not in every window; nagging would.
        let end = clock::now() + PATIENCE;
        let rests = || {
            let before = sleeps(watcher);
            clock::pause(Duration::from_millis(10));
            sleeps(watcher) - before <= 2
        };
        while !rests() {
            assert!(clock::now() < end, "{mechanism}: the watcher does not rest");
        }
        partner.send(b"awake", patient()).unwrap();
        drop(sleeper.join().unwrap());
    }
}

/// Waits until a thread of ours has this name, which it takes itself.
fn thread_named(name: &str) -> i32 {
    let end = clock::now() + PATIENCE;
    loop {
        let mut threads = fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap());
        let found = threads.find(|entry| {
            fs::read_to_string(entry.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
        });
        if let Some(found) = found {
            return found.file_name().to_str().unwrap().parse().unwrap();
        }
        assert!(clock::now() < end, "no thread {name}");
        clock::pause(Duration::from_millis(1));
    }
}
