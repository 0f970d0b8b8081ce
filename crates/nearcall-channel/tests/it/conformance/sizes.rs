//! Messages of every size arrive whole, once and in their order.

use crate::support::bytes::checksum;
use crate::support::prelude::*;

/// Receives the next message and demands that it is number `number`, of `len` bytes.
#[track_caller]
pub(super) fn expect_message(endpoint: &mut Endpoint, number: u64, len: usize, deadline: Deadline) {
    let mut bytes = Vec::new();
    let mut message = endpoint.receive(deadline).unwrap();
    assert_eq!(message.len(), len, "length of message {number}");
    message.read_to_end(&mut bytes).unwrap();
    assert_eq!(message.left_bytes(), 0);
    drop(message);
    expect_pattern(&bytes, number, len);
}

pub(super) fn many_messages_arrive_in_order(play: &mut Play) {
    const MESSAGES: u64 = 20_000;
    let len = |number: u64| 8 + (number * 7 % 57) as usize;
    let mut endpoint = play.meet();
    let mut sum = 0;
    if play.is_first() {
        for number in 0..MESSAGES {
            let message = pattern(number, len(number));
            sum = checksum(sum, &message);
            endpoint.send(&message, Deadline::NEVER).unwrap();
        }
        let mut theirs = [0; 8];
        endpoint.receive(Deadline::NEVER).unwrap().read(&mut theirs).unwrap();
        assert_eq!(u64::from_le_bytes(theirs), sum, "checksum over all messages");
    } else {
        let mut bytes = [0; 64];
        for number in 0..MESSAGES {
            let mut message = endpoint.receive(Deadline::NEVER).unwrap();
            let read = message.read(&mut bytes).unwrap();
            drop(message);
            expect_pattern(&bytes[..read], number, len(number));
            sum = checksum(sum, &bytes[..read]);
        }
        endpoint.send(&sum.to_le_bytes(), Deadline::NEVER).unwrap();
        play.tell(0);
    }
    if play.is_first() {
        play.hear();
    }
}

pub(super) fn timed_sends_arrive_in_order(play: &mut Play) {
    const MESSAGES: u64 = 600;
    let seed = play.seed;
    let len = |number: u64| fastrand::Rng::with_seed(seed ^ number).usize(0..3000);
    let mut endpoint = play.meet();
    for number in 0..MESSAGES {
        if play.is_first() {
            endpoint.send(&pattern(number, len(number)), patient()).unwrap();
        } else {
            expect_message(&mut endpoint, number, len(number), patient());
        }
    }
    settle(play);
}

/// Both ends are done: neither closes while the other still looks.
pub(super) fn settle(play: &Play) {
    play.tell(0);
    play.hear();
}

pub(super) fn odd_sizes(play: &mut Play) {
    const LIMIT: u32 = 150_001;
    let options = Options { message_bytes_max: LIMIT, ..play.options() };
    let mut endpoint = play.meet_with(&options);
    let limit = endpoint.message_bytes_max();
    assert_eq!(limit, LIMIT as usize);
    let sizes = [0, 1, 63, 64, 65, 4095, 4096, 65_535, 65_537, limit, 0, limit - 1, 7];
    for (number, len) in (0..).zip(sizes) {
        if play.is_first() {
            endpoint.send(&pattern(number, len), Deadline::NEVER).unwrap();
            expect_message(&mut endpoint, number + 100, len, Deadline::NEVER);
        } else {
            expect_message(&mut endpoint, number, len, Deadline::NEVER);
            endpoint.send(&pattern(number + 100, len), Deadline::NEVER).unwrap();
        }
        match endpoint.send(&vec![0; limit + 1], Deadline::NEVER) {
            Err(SendError::TooLarge { message_bytes, message_bytes_max }) => {
                assert_eq!((message_bytes, message_bytes_max), (limit + 1, limit));
            }
            outcome => panic!("one byte more than the limit: {outcome:?}"),
        }
    }
    settle(play);
}

pub(super) fn oversized(play: &mut Play) {
    const LEN: usize = 4 << 20;
    const SPUN_FILLINGS: usize = 32;
    assert!(play.mechanism.capabilities().survives_oversized, "the only answer there is today");
    let small = Options { buffer_bytes: 4 << 10, ..play.options() };
    for options in [small, play.options()] {
        // Ends that spin and share a CPU take turns by the scheduler's slices, a turn for each
        // filling of the room; how long a slice is depends on what else runs.
        let len = match play.wait {
            WaitPolicy::Spin => LEN.min(SPUN_FILLINGS * options.buffer_bytes as usize),
            _ => LEN,
        };
        let mut endpoint = play.meet_with(&options);
        for from_first in [true, false] {
            if from_first == play.is_first() {
                endpoint.send(&pattern(5, len), Deadline::NEVER).unwrap();
                endpoint.send(&pattern(6, 6), Deadline::NEVER).unwrap();
            } else {
                expect_message(&mut endpoint, 5, len, Deadline::NEVER);
                expect_message(&mut endpoint, 6, 6, Deadline::NEVER);
            }
        }
        settle(play);
    }
}
