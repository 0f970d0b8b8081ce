//! The other end closes: what it sent arrives, then everybody learns that it is gone.

use super::sizes::expect_message;
use crate::support::prelude::*;

/// Lets the other end fall asleep first. Only makes that likely: either order must work.
pub(super) fn let_it_sleep() {
    clock::pause(Duration::from_millis(20));
}

/// Demands that receiving and sending say that the other end is gone.
#[track_caller]
pub(super) fn expect_gone(endpoint: &mut Endpoint) {
    for deadline in [Deadline::NEVER, Deadline::NOW, Deadline::after(DEATH_NOTICED)] {
        expect_err!(endpoint.receive(deadline), ReceiveError::PeerGone);
    }
    // The first sends may still find a buffer: a kernel reports some ends only then.
    let end = clock::now() + DEATH_NOTICED;
    for attempt in 0.. {
        match endpoint.send(&[0; 100], Deadline::NEVER) {
            Err(SendError::PeerGone) => break,
            Ok(()) => {
                assert!(attempt < 3 || clock::now() < end, "sends without a receiver still succeed")
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    let gone = endpoint.send(&[0; 100], Deadline::NOW).err();
    assert!(matches!(gone, Some(SendError::PeerGone)), "{gone:?}");
}

/// Sends until an error ends it, which must be that the other end is gone.
#[track_caller]
pub(super) fn send_until_gone(endpoint: &mut Endpoint, message: &[u8]) {
    loop {
        match endpoint.send(message, Deadline::NEVER) {
            Ok(()) => {}
            Err(SendError::PeerGone) => return,
            Err(error) => panic!("{error:?}"),
        }
    }
}

pub(super) fn what_was_sent_before_the_close_arrives(play: &mut Play) {
    let mut endpoint = play.meet();
    // All of it fits the smallest queue that a kernel has by default, since there is no reader yet.
    let lens = [10, 0, 5000, 63, 4000];
    if play.is_first() {
        play.hear();
        for (number, len) in (0..).zip(lens) {
            expect_message(&mut endpoint, number, len, Deadline::NEVER);
        }
        expect_gone(&mut endpoint);
        play.tell(0);
    } else {
        for (number, len) in (0..).zip(lens) {
            endpoint.send(&pattern(number, len), Deadline::NEVER).unwrap();
        }
        drop(endpoint);
        play.tell(0);
        play.hear();
    }
}

pub(super) fn a_close_wakes_a_receiver(play: &mut Play) {
    let mut endpoint = play.meet();
    if play.is_first() {
        expect_err!(endpoint.receive(Deadline::NEVER), ReceiveError::PeerGone);
        play.hear_of_close().now("close in receive", play);
        play.tell(0);
    } else {
        let_it_sleep();
        play.tell(clock::monotonic_ns());
        drop(endpoint);
        play.hear();
    }
}

pub(super) fn a_close_wakes_a_sender(play: &mut Play) {
    let mut endpoint = play.meet_with(&Options { buffer_bytes: 4 << 10, ..play.options() });
    if play.is_first() {
        send_until_gone(&mut endpoint, &[5; 100]);
        play.hear_of_close().now("close in send", play);
        play.tell(0);
    } else {
        let_it_sleep();
        play.tell(clock::monotonic_ns());
        drop(endpoint);
        play.hear();
    }
}
