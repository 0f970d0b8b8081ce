//! What a row of the table claims is so, and what it denies as well.

use nearcall_channel::limits::PASSED_DESCRIPTORS_MAX;
use nearcall_os::{cpu, pipe};

use super::sizes::{expect_message, settle};
use crate::support::prelude::*;

pub(super) fn claims_of_the_table_hold(play: &mut Play) {
    let claims = play.mechanism.capabilities();
    let waits = play.mechanism.waits();
    assert_eq!(claims.needs_spinning, waits == [WaitPolicy::Spin]);
    assert!(!(claims.needs_spinning && claims.same_cpu_safe));
    let mut endpoint = play.meet();
    assert_eq!(endpoint.mechanism(), play.mechanism);
    assert_eq!(endpoint.wait_policy(), play.wait);
    for interest in [Interest::Receive, Interest::Send] {
        let has = endpoint.readiness(interest).is_some();
        match play.wait {
            WaitPolicy::Poll => assert!(has && claims.pollable, "{interest:?}"),
            _ => assert!(!has || claims.pollable, "{interest:?}"),
        }
    }
    let unit = endpoint.fragment_bytes_max();
    if let Some(max) = claims.atomic_message_bytes_max {
        assert!(unit <= max as usize, "units of {unit} bytes, {max} claimed");
    }
    // What one end may break by its death, a hostile one may break alive.
    assert!(claims.kill_safe || !claims.isolation);
    // One unit and one byte more: the border must not show.
    for (number, len) in (0..).zip([unit, unit + 1, unit - 1]) {
        if play.is_first() {
            endpoint.send(&pattern(number, len), Deadline::NEVER).unwrap();
        } else {
            expect_message(&mut endpoint, number, len, Deadline::NEVER);
        }
    }
    if play.is_first() {
        assert_eq!(endpoint.peer().process().unwrap().pid, Some(play.second_pid().cast_signed()));
    }
    settle(play);
}

pub(super) fn both_ends_on_one_cpu(play: &mut Play) {
    let safe = play.mechanism.capabilities().same_cpu_safe && play.wait != WaitPolicy::Spin;
    let rounds = if safe { 200 } else { 3 };
    let mut endpoint = play.meet();
    cpu::pin_current(cpu::allowed()[0]).unwrap();
    for number in 0..rounds {
        if play.is_first() {
            endpoint.send(&pattern(number, 60), Deadline::NEVER).unwrap();
            expect_message(&mut endpoint, number, 60, patient());
        } else {
            expect_message(&mut endpoint, number, 60, patient());
            endpoint.send(&pattern(number, 60), Deadline::NEVER).unwrap();
        }
    }
    settle(play);
}

pub(super) fn descriptors_pass(play: &mut Play) {
    assert!(play.mechanism.capabilities().descriptor_passing, "the only answer there is today");
    let mut endpoint = play.meet();
    if play.is_first() {
        let pipe = pipe::create().unwrap();
        expect_err!(endpoint.take_descriptors(Deadline::NOW), ReceiveError::Empty);
        let many = vec![pipe.write.as_fd(); PASSED_DESCRIPTORS_MAX + 1];
        expect_err!(endpoint.pass_descriptors(&many), SendError::TooLarge { .. });
        endpoint.pass_descriptors(&many[1..]).unwrap();
        drop(many);
        drop(pipe.write);
        endpoint.send(&pattern(1, 30), Deadline::NEVER).unwrap();
        let mut bytes = [0; 32];
        assert_eq!(pipe::read(&pipe.read, &mut bytes).unwrap(), 5);
        assert_eq!(&bytes[..5], b"hello");
        assert_eq!(pipe::read(&pipe.read, &mut bytes).unwrap(), 0, "all copies are closed");
    } else {
        expect_message(&mut endpoint, 1, 30, Deadline::NEVER);
        let fds = endpoint.take_descriptors(patient()).unwrap();
        assert_eq!(fds.len(), PASSED_DESCRIPTORS_MAX);
        assert_eq!(pipe::write(&fds[3], b"hello").unwrap(), 5);
    }
    settle(play);
}

pub(super) fn meeting_by_name(play: &mut Play) {
    let options = Options { message_bytes_max: 1000, ..play.options() };
    let mut endpoint = play.meet_at(&"some-service".parse().unwrap(), &options);
    if play.is_first() {
        endpoint.send(b"by name", Deadline::NEVER).unwrap();
    } else {
        assert_eq!(endpoint.receive(Deadline::NEVER).unwrap().len(), 7);
    }
    settle(play);
}
