//! What the shared suite does not look at: each mechanism here, with each policy, in one process.

use std::thread;
use std::time::Duration;

use nearcall_os::clock;
use nearcall_os::socket::{Kind, unix_pair};

use crate::endpoint::Endpoint;
use crate::error::{ReceiveError, SendError};
use crate::handshake::{Options, accept_over, connect_over};
use crate::mechanism::{Mechanism, MechanismSet};
use crate::wait::{Deadline, WaitPolicy};

const MECHANISMS: [Mechanism; 9] = [
    Mechanism::Pipe,
    Mechanism::Fifo,
    Mechanism::UnixStream,
    Mechanism::UnixSeqpacket,
    Mechanism::UnixDgram,
    Mechanism::Tcp,
    Mechanism::Udp,
    Mechanism::PosixMq,
    Mechanism::SysvMq,
];

const SIZES: [usize; 9] = [0, 1, 8, 4087, 4096, 65_528, 65_529, 200_000, 1 << 20];

fn pair(mechanism: Mechanism, wait: WaitPolicy, buffer_bytes: u32) -> (Endpoint, Endpoint) {
    let options =
        Options { wait: Some(wait), buffer_bytes, ..Options::offering(MechanismSet::ALL) };
    let (client, server) = connected(mechanism, &options, |_| {});
    (server, client)
}

/// The end that connects and the one that accepts. A thread that has ended made the second, and
/// used it first.
pub(super) fn connected(
    mechanism: Mechanism,
    options: &Options,
    first_use: impl FnOnce(&mut Endpoint) + Send + 'static,
) -> (Endpoint, Endpoint) {
    let (here, there) = unix_pair(Kind::Seqpacket).unwrap();
    let theirs = options.clone();
    let accepted = thread::spawn(move || {
        let mut endpoint = accept_over(here, &theirs).unwrap();
        first_use(&mut endpoint);
        endpoint
    });
    let connected = connect_over(there, mechanism, options).unwrap();
    (connected, accepted.join().unwrap())
}

fn each(check: impl Fn(Mechanism, WaitPolicy)) {
    for mechanism in MECHANISMS {
        for wait in mechanism.waits() {
            check(mechanism, *wait);
        }
    }
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_secs(20))
}

fn message(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + at / 251 + seed).to_le_bytes()[0]).collect()
}

fn echo(mut server: Endpoint, deadline: fn() -> Deadline) {
    let (mechanism, wait) = (server.mechanism(), server.wait_policy());
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        match server.receive(deadline()) {
            Ok(mut message) => message.read_to_end(&mut bytes).unwrap(),
            Err(ReceiveError::PeerGone) => return,
            Err(error) => panic!("{mechanism} {wait} {error}"),
        }
        server.send(&bytes, deadline()).unwrap();
    }
}

fn check_echo(buffer_bytes: u32, deadline: fn() -> Deadline) {
    each(|mechanism, wait| {
        let (server, mut client) = pair(mechanism, wait, buffer_bytes);
        let server = thread::spawn(move || echo(server, deadline));
        for (seed, bytes) in SIZES.into_iter().enumerate() {
            let sent = message(bytes, seed);
            let mut received = Vec::new();
            client.send(&sent, deadline()).unwrap();
            client.receive(deadline()).unwrap().read_to_end(&mut received).unwrap();
            assert!(sent == received, "{mechanism} {wait} {bytes}");
        }
        drop(client);
        server.join().unwrap();
    });
}

#[test]
fn messages_of_all_sizes_come_back() {
    check_echo(256 << 10, || Deadline::NEVER);
}

#[test]
fn messages_come_back_through_the_smallest_room_with_a_deadline() {
    check_echo(4 << 10, soon);
}

#[test]
fn both_ends_send_at_once_without_waiting() {
    each(|mechanism, wait| {
        let (mut one, mut other) = pair(mechanism, wait, 64 << 10);
        let long = message(1 << 20, 7);
        one.send(&long, Deadline::NOW).unwrap();
        other.send(&long, Deadline::NOW).unwrap();
        let (mut received, started) = ([false, false], clock::now());
        while received != [true, true] {
            assert!(started.elapsed() < Duration::from_secs(20), "{mechanism} {wait} hangs");
            for (end, received) in [&mut one, &mut other].into_iter().zip(&mut received) {
                match end.flush(Deadline::NOW) {
                    Ok(()) | Err(SendError::Full) => {}
                    Err(error) => panic!("{mechanism} {wait} {error}"),
                }
                let mut bytes = Vec::new();
                match end.receive(Deadline::NOW) {
                    Ok(mut message) => {
                        message.read_to_end(&mut bytes).unwrap();
                        assert!(bytes == long, "{mechanism} {wait}");
                        *received = true;
                    }
                    Err(ReceiveError::Empty) => {}
                    Err(error) => panic!("{mechanism} {wait} {error}"),
                }
            }
        }
    });
}

#[test]
fn a_full_way_refuses_and_delivers_what_it_took() {
    each(|mechanism, wait| {
        let (mut one, mut other) = pair(mechanism, wait, 64 << 10);
        let (mut sent, mut received) = (0_usize, 0_usize);
        while one.send(&message(1000, sent), Deadline::NOW).is_ok() {
            sent += 1;
            assert!(sent < 100_000, "{mechanism} {wait} never fills");
        }
        // TCP moves what it took to the other side later, so a few more may fit.
        let refused = loop {
            match one.send(&message(1000, sent), Deadline::after(Duration::from_millis(20))) {
                Ok(()) => sent += 1,
                Err(error) => break error,
            }
            assert!(sent < 100_000, "{mechanism} {wait} never fills");
        };
        assert!(matches!(refused, SendError::Full), "{mechanism} {wait} {refused:?}");
        while received < sent {
            let mut bytes = Vec::new();
            let _ = one.flush(Deadline::NOW);
            other.receive(soon()).unwrap().read_to_end(&mut bytes).unwrap();
            assert!(bytes == message(1000, received), "{mechanism} {wait} {received}");
            received += 1;
        }
        let nothing = other.receive(Deadline::after(Duration::from_millis(5))).err();
        assert!(matches!(nothing, Some(ReceiveError::Empty)), "{mechanism} {wait} {nothing:?}");
    });
}

#[test]
fn what_was_sent_before_the_end_arrives_then_the_end() {
    each(|mechanism, wait| {
        let (mut one, mut other) = pair(mechanism, wait, 64 << 10);
        for at in 0..5 {
            one.send(&message(100, at), Deadline::NEVER).unwrap();
        }
        drop(one);
        // So late that the watcher has done its part, too.
        clock::pause(Duration::from_millis(5));
        for at in 0..5 {
            let mut bytes = Vec::new();
            other.receive(Deadline::NEVER).unwrap().read_to_end(&mut bytes).unwrap();
            assert!(bytes == message(100, at), "{mechanism} {wait} {at}");
        }
        for deadline in [Deadline::NEVER, Deadline::NOW, soon()] {
            let end = other.receive(deadline).err();
            assert!(matches!(end, Some(ReceiveError::PeerGone)), "{mechanism} {wait} {end:?}");
        }
        let end = other.send(&[1], Deadline::NEVER);
        assert!(matches!(end, Err(SendError::PeerGone)), "{mechanism} {wait} {end:?}");
    });
}

#[test]
fn a_sleeping_end_wakes_up_when_the_other_closes() {
    each(|mechanism, wait| {
        for deadline in [|| Deadline::NEVER, soon] {
            let (one, mut other) = pair(mechanism, wait, 64 << 10);
            let asleep = thread::spawn(move || other.receive(deadline()).err());
            clock::pause(Duration::from_millis(2));
            drop(one);
            let end = asleep.join().unwrap();
            assert!(matches!(end, Some(ReceiveError::PeerGone)), "{mechanism} {wait} {end:?}");

            let (one, mut other) = pair(mechanism, wait, 64 << 10);
            let asleep = thread::spawn(move || {
                loop {
                    if let Err(error) = other.send(&[0; 5000], deadline()) {
                        return error;
                    }
                }
            });
            clock::pause(Duration::from_millis(5));
            drop(one);
            let end = asleep.join().unwrap();
            assert!(matches!(end, SendError::PeerGone), "{mechanism} {wait} {end:?}");
        }
    });
}

#[test]
fn a_message_that_was_not_read_to_its_end_does_not_spoil_the_next() {
    each(|mechanism, wait| {
        let (mut one, mut other) = pair(mechanism, wait, 256 << 10);
        let sender = thread::spawn(move || {
            for at in 0..4 {
                one.send(&message(150_000, at), Deadline::NEVER).unwrap();
            }
            one
        });
        let mut start = [0; 10];
        other.receive(Deadline::NEVER).unwrap().read(&mut start).unwrap();
        drop(other.receive(Deadline::NEVER).unwrap());
        drop(other.receive(Deadline::NEVER).unwrap());
        let mut bytes = Vec::new();
        other.receive(Deadline::NEVER).unwrap().read_to_end(&mut bytes).unwrap();
        assert!(bytes == message(150_000, 3), "{mechanism} {wait}");
        drop(sender.join().unwrap());
    });
}
