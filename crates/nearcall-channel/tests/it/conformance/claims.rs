//! Claiming, writing in place, giving up; reading in place, reading half.

use super::sizes::{expect_message, settle};
use crate::support::bytes::fill;
use crate::support::prelude::*;

/// Larger than the room of a channel that was opened with [`small`].
const LONG: usize = 150_000;

fn small(play: &Play) -> Options {
    Options { buffer_bytes: 4 << 10, ..play.options() }
}

pub(super) fn writing_in_place(play: &mut Play) {
    let mut endpoint = play.meet();
    // A multiple of eight per step, except for the last, since patterns come in words.
    for (number, len) in (0..).zip([0, 1, 100, 5000, 70_000, LONG]) {
        if !play.is_first() {
            expect_message(&mut endpoint, number, len, Deadline::NEVER);
            continue;
        }
        let mut claim = endpoint.claim(len, Deadline::NEVER).unwrap();
        let mut written = 0;
        let step = 8 * (1 + len % 97);
        expect_err!(claim.written(len.max(1)), SendError::TooLarge { message_bytes_max: 0, .. });
        while claim.left_bytes() > 0 {
            assert_eq!(claim.left_bytes(), len - written);
            let space = claim.space().unwrap();
            assert!(!space.is_empty(), "no space for the rest of a claim");
            assert!(space.len() <= len - written, "more space than was claimed");
            let bytes = space.len().min(step);
            // Fragments may end anywhere: what lies before them is written anew.
            let lead = written % 8;
            let mut words = vec![0; lead + bytes];
            fill(number, written - lead, &mut words);
            space[..bytes].copy_from_slice(&words[lead..]);
            claim.written(bytes).unwrap();
            written += bytes;
        }
        assert!(claim.space().unwrap().is_empty());
        expect_err!(claim.written(1), SendError::TooLarge { .. });
        claim.commit().unwrap();
    }
    settle(play);
}

pub(super) fn dropped_claims_are_never_seen(play: &mut Play) {
    let mut endpoint = play.meet();
    for number in 0..50 {
        if play.is_first() {
            let mut claim = endpoint.claim(100, Deadline::NEVER).unwrap();
            claim.write(&pattern(1000, number)).unwrap();
            drop(claim);
            drop(endpoint.claim(0, Deadline::NEVER).unwrap());
            let message = pattern(number as u64, number * 3);
            let mut send = |outcome| {
                endpoint.send_with(message.len(), Deadline::NEVER, |room| {
                    room.copy_from_slice(&message);
                    outcome
                })
            };
            assert_eq!(send(Err("given up")).unwrap(), Err("given up"));
            assert_eq!(send(Ok(())).unwrap(), Ok(()));
        } else {
            expect_message(&mut endpoint, number as u64, number * 3, Deadline::NEVER);
        }
    }
    settle(play);
}

pub(super) fn a_long_message_given_up_half_way(play: &mut Play) {
    let mut endpoint = play.meet_with(&small(play));
    for number in 0..3 {
        if play.is_first() {
            let mut claim = endpoint.claim(LONG, Deadline::NEVER).unwrap();
            claim.write(&pattern(7, 100_000)).unwrap();
            drop(claim);
            endpoint.send(&pattern(number, 99), Deadline::NEVER).unwrap();
        } else {
            expect_given_up_then(&mut endpoint, number);
        }
    }
    settle(play);
}

/// Receives as long as messages turn out to be aborted, then demands message `number`.
#[track_caller]
pub(super) fn expect_given_up_then(endpoint: &mut Endpoint, number: u64) {
    let mut given_up = 0;
    loop {
        let mut message = endpoint.receive(Deadline::NEVER).unwrap();
        let (len, mut bytes) = (message.len(), Vec::new());
        match message.read_to_end(&mut bytes) {
            Ok(()) => return expect_pattern(&bytes, number, 99),
            Err(ReceiveError::Aborted) => {
                assert_eq!(len, LONG);
                given_up += 1;
                assert_eq!(given_up, 1, "one message was given up");
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

pub(super) fn an_incomplete_commit_gives_up(play: &mut Play) {
    let mut endpoint = play.meet();
    if play.is_first() {
        let mut claim = endpoint.claim(10, Deadline::NEVER).unwrap();
        claim.write(&[1; 4]).unwrap();
        expect_err!(claim.commit(), SendError::Incomplete { missing_bytes: 6 });
        let refused = endpoint.claim(3, Deadline::NEVER).unwrap().write(&[0; 4]).unwrap_err();
        assert!(matches!(refused, SendError::TooLarge { message_bytes_max: 3, .. }), "{refused:?}");
        endpoint.send(&pattern(1, 20), Deadline::NEVER).unwrap();
    } else {
        expect_message(&mut endpoint, 1, 20, Deadline::NEVER);
    }
    settle(play);
}

pub(super) fn a_message_released_half_read(play: &mut Play) {
    let mut endpoint = play.meet_with(&small(play));
    for (number, len) in (0..).zip([1000, LONG, 64, 4096, LONG]) {
        if play.is_first() {
            endpoint.send(&pattern(number, len), Deadline::NEVER).unwrap();
            endpoint.send(&pattern(number + 50, 33), Deadline::NEVER).unwrap();
        } else {
            let mut message = endpoint.receive(Deadline::NEVER).unwrap();
            let mut bytes = [0; 16];
            assert_eq!(message.read(&mut bytes).unwrap(), 16);
            assert_eq!(message.left_bytes(), len - 16);
            drop(message);
            assert_eq!(bytes[..], pattern(number, 16));
            expect_message(&mut endpoint, number + 50, 33, Deadline::NEVER);
        }
    }
    settle(play);
}

pub(super) fn reading_in_place(play: &mut Play) {
    let mut endpoint = play.meet_with(&small(play));
    for (number, len) in (0..).zip([0, 1, 100, 5000, LONG]) {
        if play.is_first() {
            endpoint.send(&pattern(number, len), Deadline::NEVER).unwrap();
            continue;
        }
        let mut message = endpoint.receive(Deadline::NEVER).unwrap();
        let (mut read, mut step) = (Vec::new(), 1);
        message.consume(len);
        assert_eq!(message.left_bytes(), len, "nothing was shown that could be consumed");
        while message.left_bytes() > 0 {
            let fragment = message.fragment().unwrap();
            assert!(!fragment.is_empty(), "an empty fragment before the end");
            let bytes = fragment.len().min(step);
            let start = read.len();
            read.resize(start + bytes, 0);
            fragment.slice(0..bytes).copy_to(&mut read[start..]);
            message.consume(bytes);
            step = (step * 2 + 1).min(1 << 16);
        }
        assert!(message.fragment().unwrap().is_empty());
        drop(message);
        expect_pattern(&read, number, len);
    }
    settle(play);
}
