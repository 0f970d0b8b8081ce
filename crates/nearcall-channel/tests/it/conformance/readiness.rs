//! Event loops: what they sleep on wakes them, and only when there is something.

use nearcall_channel::DataPath;
use nearcall_os::epoll::{Epoll, Events};
use nearcall_os::poll;

use super::room::fill_up;
use super::sizes::{expect_message, settle};
use crate::support::prelude::*;

/// Long enough to see a loop that does not sleep.
const QUIET: Duration = Duration::from_millis(20);
/// Wake-ups for nothing that one event may cost. They are allowed, but not forever.
const SPURIOUS_MAX: u32 = 20;

/// Sleeps on the readiness of one interest. Says whether there was an event.
fn sleep(endpoint: &Endpoint, interest: Interest, timeout: Duration) -> bool {
    let readiness = endpoint.readiness(interest).expect("pollable");
    let wanted = match readiness.writable {
        true => poll::Interest::Writable,
        false => poll::Interest::Readable,
    };
    let epoll = Epoll::create().unwrap();
    epoll.add(readiness.fd, wanted, 7).unwrap();
    let mut events = Events::with_capacity(4);
    let events = epoll.wait(&mut events, Some(timeout)).unwrap();
    let woken = !events.is_empty();
    epoll.delete(readiness.fd).unwrap();
    woken
}

/// Asks and arms until the channel says that there is nothing and that one may sleep.
#[track_caller]
fn drain_and_arm(endpoint: &mut Endpoint) {
    for _ in 0..SPURIOUS_MAX {
        match endpoint.receive(Deadline::NOW).err() {
            Some(ReceiveError::Empty) => {}
            other => panic!("nothing was sent, but: {other:?}"),
        }
        if endpoint.arm(Interest::Receive) {
            return;
        }
    }
    panic!("an empty channel that never lets its user sleep");
}

pub(super) fn an_event_loop_sleeps_until_a_message(play: &mut Play) {
    let mut endpoint = play.meet();
    if play.wait != WaitPolicy::Poll {
        return settle(play);
    }
    for (number, len) in (0..).zip([10, 0, 5000, 60, 1]) {
        // Who stays armed is told of a message also if it has sent one since it was armed.
        let sends_too = number >= 2;
        if !play.is_first() {
            play.hear();
            if sends_too {
                expect_message(&mut endpoint, number, 8, Deadline::NEVER);
            }
            endpoint.send(&pattern(number, len), Deadline::NEVER).unwrap();
            continue;
        }
        if sends_too {
            endpoint.stay_armed();
        }
        drain_and_arm(&mut endpoint);
        if sends_too {
            endpoint.send(&pattern(number, 8), Deadline::NEVER).unwrap();
            assert!(endpoint.arm(Interest::Receive), "not armed before message {number}");
        }
        let woken = sleep(&endpoint, Interest::Receive, QUIET);
        assert!(!woken, "woken for nothing, before message {number}");
        play.tell(number);
        assert!(sleep(&endpoint, Interest::Receive, PATIENCE), "not woken by message {number}");
        // What was not taken is still told of.
        assert!(sleep(&endpoint, Interest::Receive, Duration::ZERO), "not level-triggered");
        receive_in_a_loop(&mut endpoint, number, len);
    }
    settle(play);
}

pub(super) fn a_disarmed_end_is_not_woken(play: &mut Play) {
    let mut endpoint = play.meet();
    if play.wait != WaitPolicy::Poll {
        return settle(play);
    }
    for number in 0..2 {
        if !play.is_first() {
            play.hear();
            endpoint.send(&pattern(number, 60), Deadline::NEVER).unwrap();
            play.tell(number);
            continue;
        }
        drain_and_arm(&mut endpoint);
        endpoint.disarm();
        play.tell(number);
        play.hear();
        if play.mechanism.data_path() == DataPath::SharedMemory {
            let woken = sleep(&endpoint, Interest::Receive, Duration::ZERO);
            assert!(!woken, "woken by message {number}, although it looks for that itself");
        }
        expect_message(&mut endpoint, number, 60, Deadline::NEVER);
    }
    settle(play);
}

/// Receives message `number` the way an event loop does.
#[track_caller]
fn receive_in_a_loop(endpoint: &mut Endpoint, number: u64, len: usize) {
    for _ in 0..SPURIOUS_MAX {
        match endpoint.receive(Deadline::NOW) {
            Ok(mut message) => {
                let mut bytes = Vec::new();
                message.read_to_end(&mut bytes).unwrap();
                return expect_pattern(&bytes, number, len);
            }
            Err(ReceiveError::Empty) => {}
            Err(error) => panic!("{error:?}"),
        }
        if endpoint.arm(Interest::Receive) {
            assert!(
                sleep(endpoint, Interest::Receive, PATIENCE),
                "message {number} is not told of"
            );
        }
    }
    panic!("woken again and again for a message that is not there");
}

pub(super) fn an_event_loop_sleeps_until_room(play: &mut Play) {
    let mut endpoint = play.meet_with(&Options { buffer_bytes: 8 << 10, ..play.options() });
    if play.wait != WaitPolicy::Poll {
        return settle(play);
    }
    if !play.is_first() {
        let sent = play.hear();
        for number in 0..=sent {
            expect_message(&mut endpoint, number, 100, Deadline::NEVER);
        }
        return settle(play);
    }
    let mut sent = fill_up(&mut endpoint, 0);
    // What the kernel moved on in the meantime may make room for a few more.
    let mut armed = false;
    for _ in 0..SPURIOUS_MAX {
        armed = endpoint.arm(Interest::Send) && !sleep(&endpoint, Interest::Send, QUIET);
        if armed {
            break;
        }
        sent += fill_up(&mut endpoint, sent);
    }
    assert!(armed, "a full channel that never lets its user sleep");
    play.tell(sent);
    for _ in 0..SPURIOUS_MAX {
        if endpoint.arm(Interest::Send) {
            assert!(sleep(&endpoint, Interest::Send, PATIENCE), "not woken by room");
        }
        match endpoint.send(&pattern(sent, 100), Deadline::NOW) {
            Ok(()) => {
                endpoint.flush(Deadline::NEVER).unwrap();
                return settle(play);
            }
            Err(SendError::Full) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("woken again and again for room that is not there");
}

pub(super) fn an_event_loop_notices_the_end(play: &mut Play) {
    let mut endpoint = play.meet();
    if play.wait != WaitPolicy::Poll {
        return settle(play);
    }
    if !play.is_first() {
        play.hear();
        play.die();
    }
    drain_and_arm(&mut endpoint);
    play.tell(0);
    let death = play.hear_of_death();
    let end = clock::now() + DEATH_NOTICED;
    loop {
        match endpoint.receive(Deadline::NOW).err() {
            Some(ReceiveError::PeerGone) => break,
            Some(ReceiveError::Empty) => {}
            other => panic!("{other:?}"),
        }
        let left = end.saturating_duration_since(clock::now());
        if endpoint.arm(Interest::Receive) {
            assert!(sleep(&endpoint, Interest::Receive, left), "death does not wake an event loop");
        }
    }
    death.now("death in an event loop", play);
}
