//! Full and empty channels, deadlines, and both directions at once.

use std::time::Instant;

use nearcall_channel::mechanism::DataPath;
use nearcall_os::poll::{PollFd, PollFlags, poll};

use super::claims::expect_given_up_then;
use super::sizes::{expect_message, settle};
use crate::support::prelude::*;

/// More small messages than any channel has room for.
const FULL_MAX: u64 = 1_000_000;

/// Sends messages of 100 bytes, numbered from `from`, without waiting, until the channel is full.
/// Says how many.
#[track_caller]
pub(super) fn fill_up(endpoint: &mut Endpoint, from: u64) -> u64 {
    for sent in 0..FULL_MAX {
        match endpoint.send(&pattern(from + sent, 100), Deadline::NOW) {
            Ok(()) => {}
            Err(SendError::Full) => return sent,
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("never full")
}

pub(super) fn a_full_channel_refuses_and_loses_nothing(play: &mut Play) {
    let options = Options { buffer_bytes: 16 << 10, ..play.options() };
    let mut endpoint = play.meet_with(&options);
    let mut number = 0;
    for _ in 0..2 {
        if play.is_first() {
            let sent = fill_up(&mut endpoint, number);
            assert!(sent > 0, "an empty channel has no room");
            play.tell(sent);
            endpoint.flush(patient()).unwrap();
            number += sent;
        } else {
            let sent = play.hear();
            for number in number..number + sent {
                expect_message(&mut endpoint, number, 100, Deadline::NEVER);
            }
            number += sent;
        }
        settle(play);
        if !play.is_first() {
            expect_err!(endpoint.receive(Deadline::NOW), ReceiveError::Empty);
        }
        settle(play);
    }
}

const SHORT: Duration = Duration::from_millis(30);
/// What a wait of [`SHORT`] may take on a busy machine.
const NOT_HOURS: Duration = Duration::from_secs(3);

#[track_caller]
fn expect_kept(started: Instant) {
    let took = clock::now() - started;
    assert!(took >= SHORT, "gave up after {took:?}, before the deadline");
    assert!(took < NOT_HOURS, "gave up only after {took:?}");
}

pub(super) fn deadlines_are_kept(play: &mut Play) {
    let mut endpoint = play.meet_with(&Options { buffer_bytes: 4 << 10, ..play.options() });
    if play.is_first() {
        expect_err!(endpoint.receive(Deadline::NOW), ReceiveError::Empty);
        let started = clock::now();
        expect_err!(endpoint.receive(Deadline::at(started + SHORT)), ReceiveError::Empty);
        expect_kept(started);
        expect_err!(endpoint.receive(Deadline::from_ns(1)), ReceiveError::Empty);

        let sent = fill_up(&mut endpoint, 0);
        let started = clock::now();
        let full = endpoint.send(&[0; 100], Deadline::at(started + SHORT)).err();
        assert!(matches!(full, Some(SendError::Full)), "{full:?}");
        expect_kept(started);
        play.tell(sent);
        endpoint.send(&pattern(sent, 100), Deadline::NEVER).unwrap();
        endpoint.flush(patient()).unwrap();
    } else {
        let sent = play.hear();
        for number in 0..=sent {
            expect_message(&mut endpoint, number, 100, patient());
        }
    }
    settle(play);
}

pub(super) fn a_late_message_is_given_up(play: &mut Play) {
    const LONG: usize = 150_000;
    let mut endpoint = play.meet_with(&Options { buffer_bytes: 4 << 10, ..play.options() });
    if play.is_first() {
        // Many, because a kernel may have room for several.
        let late = (0..200).any(|_| {
            let mut claim = match endpoint.claim(LONG, Deadline::after(SHORT)) {
                Ok(claim) => claim,
                Err(SendError::Full) => return true,
                Err(error) => panic!("{error:?}"),
            };
            match claim.write(&pattern(3, LONG)).and_then(|()| claim.commit()) {
                Ok(()) => false,
                Err(SendError::Full) => true,
                Err(error) => panic!("{error:?}"),
            }
        });
        assert!(late, "a channel without a reader takes everything");
        play.tell(0);
        endpoint.send(&pattern(4, 99), Deadline::NEVER).unwrap();
    } else {
        play.hear();
        loop {
            let mut message = endpoint.receive(Deadline::NEVER).unwrap();
            let (len, mut bytes) = (message.len(), Vec::new());
            match message.read_to_end(&mut bytes) {
                Ok(()) if len == 99 => break expect_pattern(&bytes, 4, 99),
                Ok(()) => expect_pattern(&bytes, 3, LONG),
                Err(ReceiveError::Aborted) => {
                    drop(message);
                    break expect_given_up_then(&mut endpoint, 4);
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    }
    settle(play);
}

/// A message comes slower than its receiver's deadlines, none of which may cost a byte of it.
pub(super) fn a_slow_message_outlives_deadlines(play: &mut Play) {
    const LONG: usize = 200_000;
    let mut endpoint = play.meet();
    let bytes = pattern(8, LONG);
    if play.is_first() {
        let mut claim = endpoint.claim(LONG, Deadline::NEVER).unwrap();
        claim.write(&bytes[..LONG / 2]).unwrap();
        play.tell(0);
        play.hear();
        claim.write(&bytes[LONG / 2..]).unwrap();
        claim.commit().unwrap();
    } else {
        let mut into = vec![0; LONG];
        while !play.is_told() {
            expect_err!(
                endpoint.receive_into(&mut into, Deadline::after(SHORT)),
                ReceiveError::Empty
            );
        }
        play.hear();
        play.tell(0);
        assert_eq!(endpoint.receive_into(&mut into, Deadline::NEVER).unwrap(), LONG);
        expect_pattern(&into, 8, LONG);
    }
    settle(play);
}

/// Sends and receives on one thread, never waiting but for readiness.
pub(super) fn both_directions_at_once(play: &mut Play) {
    const MESSAGES: u64 = 4;
    const LEN: usize = 200_000;
    let mut endpoint = play.meet_with(&Options { buffer_bytes: 8 << 10, ..play.options() });
    let (mut sent, mut received, mut flushed) = (0, 0, false);
    while received < MESSAGES || !flushed {
        let mut moved = false;
        if sent < MESSAGES {
            match endpoint.send(&pattern(sent, LEN), Deadline::NOW) {
                Ok(()) => (sent, moved) = (sent + 1, true),
                Err(SendError::Full) => {}
                Err(error) => panic!("{error:?}"),
            }
        } else if !flushed {
            match endpoint.flush(Deadline::NOW) {
                Ok(()) => (flushed, moved) = (true, true),
                Err(SendError::Full) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        match endpoint.receive(Deadline::NOW) {
            Ok(mut message) => {
                let mut bytes = Vec::new();
                message.read_to_end(&mut bytes).unwrap();
                drop(message);
                expect_pattern(&bytes, received, LEN);
                (received, moved) = (received + 1, true);
            }
            Err(ReceiveError::Empty) => {}
            Err(error) => panic!("{error:?}"),
        }
        if !moved && (received < MESSAGES || !flushed) {
            rest(play, &mut endpoint, !flushed);
        }
    }
    settle(play);
}

/// Sleeps until something may have become possible.
fn rest(play: &Play, endpoint: &mut Endpoint, wants_to_send: bool) {
    if play.wait != WaitPolicy::Poll {
        return thread::yield_now();
    }
    let sleep = !wants_to_send || endpoint.arm(Interest::Send);
    if !(endpoint.arm(Interest::Receive) && sleep) {
        return;
    }
    let mut interests = vec![Interest::Receive];
    if wants_to_send {
        interests.push(Interest::Send);
    }
    let mut fds: Vec<PollFd<'_>> = interests
        .into_iter()
        .map(|interest| {
            let readiness = endpoint.readiness(interest).unwrap();
            let flags = if readiness.writable { PollFlags::OUT } else { PollFlags::IN };
            PollFd::from_borrowed_fd(readiness.fd, flags)
        })
        .collect();
    let ready = poll(&mut fds, Some(PATIENCE)).unwrap();
    assert!(ready > 0, "nothing wakes an event loop that waits for both");
}

/// A message for the lane, of which a slot has several.
const ABOVE_RING_BYTES: usize = 1_100;

/// Rings of shared memory ring a sender once much is read; the kernel wakes it for a message.
/// Without deadlines: with one, a sender into a System V queue tries again after pauses.
pub(super) fn a_sender_sleeps_once_for_many_messages(play: &mut Play) {
    const MESSAGES: u64 = 2_000;
    let mut endpoint = play.meet();
    if play.is_first() {
        let before = sleeps(process::tid());
        for number in 0..MESSAGES {
            endpoint.send(&pattern(number, ABOVE_RING_BYTES), Deadline::NEVER).unwrap();
        }
        endpoint.flush(Deadline::NEVER).unwrap();
        let sleeps = sleeps(process::tid()) - before;
        let most = match endpoint.mechanism() {
            Mechanism::Shm => MESSAGES / 16,
            Mechanism::ShmCondvar | Mechanism::ShmMq => MESSAGES,
            // A ring is shorter than a lane, and a doorbell may have rung for an earlier sleep.
            ring if ring.data_path() == DataPath::SharedMemory => MESSAGES / 4,
            _ => MESSAGES,
        };
        assert!(sleeps <= most, "{sleeps} sleeps for {MESSAGES} messages, {most} are allowed");
    } else {
        for number in 0..MESSAGES {
            expect_message(&mut endpoint, number, ABOVE_RING_BYTES, patient());
        }
    }
    settle(play);
}
