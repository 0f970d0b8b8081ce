//! Epoll, eventfd and timerfd.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use nearcall_os::epoll::{Epoll, Events};
use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::{clock, eventfd, fork, pipe, timerfd};

use crate::partner::{PATIENCE, SHORT};

#[test]
fn events_carry_their_token_until_the_cause_is_gone() {
    let epoll = Epoll::create().unwrap();
    let mut events = Events::with_capacity(4);
    let bell = eventfd::create(eventfd::Kind::Counter).unwrap();
    epoll.add(&bell, Interest::Readable, u64::MAX).unwrap();
    assert!(epoll.wait(&mut events, SHORT).unwrap().is_empty());
    eventfd::add_one(&bell).unwrap();
    for _ in 0..2 {
        let ready = epoll.wait(&mut events, PATIENCE).unwrap();
        assert_eq!((ready.len(), ready[0].token, ready[0].ready.readable), (1, u64::MAX, true));
    }
    epoll.modify(&bell, Interest::Both, 7).unwrap();
    let ready = epoll.wait(&mut events, PATIENCE).unwrap();
    assert!(ready[0].token == 7 && ready[0].ready.writable);
    epoll.delete(&bell).unwrap();
    assert!(epoll.wait(&mut events, SHORT).unwrap().is_empty());
}

#[test]
fn a_one_shot_is_reported_once_each_time_it_is_asked_for() {
    let epoll = Epoll::create().unwrap();
    let mut events = Events::with_capacity(4);
    let bell = eventfd::create(eventfd::Kind::Counter).unwrap();
    epoll.add_once(&bell, Interest::Readable, 3).unwrap();
    eventfd::add_one(&bell).unwrap();
    for _ in 0..2 {
        let ready = epoll.wait(&mut events, PATIENCE).unwrap();
        assert_eq!((ready.len(), ready[0].token), (1, 3));
        assert!(epoll.wait(&mut events, SHORT).unwrap().is_empty());
        epoll.modify_once(&bell, Interest::Readable, 3).unwrap();
    }
}

#[test]
fn a_timeout_has_less_than_milliseconds() {
    let epoll = Epoll::create().unwrap();
    let mut events = Events::with_capacity(1);
    let timeout = Duration::from_micros(200);
    // A loaded machine may be late now and then, but not each time.
    let shortest = (0..200).map(|_| {
        let started = clock::now();
        assert!(epoll.wait(&mut events, Some(timeout)).unwrap().is_empty());
        clock::now() - started
    });
    let shortest = shortest.min().unwrap();
    assert!((timeout..Duration::from_micros(900)).contains(&shortest), "{shortest:?}");
}

#[test]
fn an_epoll_is_readable_in_another() {
    let (inner, outer) = (Epoll::create().unwrap(), Epoll::create().unwrap());
    let bell = eventfd::create(eventfd::Kind::Counter).unwrap();
    inner.add(&bell, Interest::Readable, 1).unwrap();
    outer.add(&inner, Interest::Readable, 2).unwrap();
    let mut events = Events::with_capacity(1);
    assert!(outer.wait(&mut events, SHORT).unwrap().is_empty());
    eventfd::add_one(&bell).unwrap();
    assert_eq!(outer.wait(&mut events, PATIENCE).unwrap()[0].token, 2);
}

#[test]
fn a_closed_writer_is_a_hang_up() {
    let epoll = Epoll::create().unwrap();
    let pipe = pipe::create().unwrap();
    epoll.add(&pipe.read, Interest::Readable, 1).unwrap();
    drop(pipe.write);
    let mut events = Events::with_capacity(1);
    assert!(epoll.wait(&mut events, PATIENCE).unwrap()[0].ready.hung_up);
}

#[test]
fn a_counter_gives_the_sum_and_a_semaphore_gives_ones() {
    for (kind, expected) in [
        (eventfd::Kind::Counter, [Some(2), None, None]),
        (eventfd::Kind::Semaphore, [Some(1), Some(1), None]),
    ] {
        let bell = eventfd::create(kind).unwrap();
        eventfd::add_one(&bell).unwrap();
        assert!(eventfd::try_add_one(&bell).unwrap());
        for value in expected {
            assert_eq!(eventfd::try_read(&bell).unwrap(), value);
        }
        eventfd::add_one(&bell).unwrap();
        assert_eq!(eventfd::read(&bell).unwrap(), 1);
    }
}

#[test]
fn a_timer_expires_and_can_be_stopped() {
    let timer = timerfd::create().unwrap();
    timerfd::arm(&timer, Duration::ZERO, None).unwrap();
    assert!(poll_one(&timer, Interest::Readable, PATIENCE).unwrap().is_some());
    assert_eq!(timerfd::read(&timer).unwrap(), 1);
    timerfd::arm(&timer, Duration::from_micros(1), Some(Duration::from_micros(1))).unwrap();
    assert!(timerfd::read(&timer).unwrap() >= 1);
    timerfd::disarm(&timer).unwrap();
    assert!(poll_one(&timer, Interest::Readable, SHORT).unwrap().is_none());
}

/// The other holder of an eventfd has filled it, in which state a write waits.
#[test]
fn r21_a_signal_never_waits_whatever_the_other_holder_does() {
    let bell = Arc::new(eventfd::create(eventfd::Kind::Counter).unwrap());
    // Many more than the kernel keeps, if what it says of them is not taken.
    let many = 5_000;
    (0..many).for_each(|_| eventfd::signal(&bell).unwrap());
    assert_eq!(eventfd::try_read(&bell).unwrap(), Some(many));
    let forked = fork::run_in_child(|| u8::from(eventfd::signal(&bell).is_err()));
    assert_eq!((forked.unwrap(), eventfd::try_read(&bell).unwrap()), (0, Some(1)));
    let fill = || rustix::io::write(&bell, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    for _ in 0..50 {
        // Given up by the kernel, which may add its one a moment later.
        assert_eq!((fill(), eventfd::signal(&bell).unwrap()), (8, ()));
        if eventfd::read(&bell).unwrap() == u64::MAX - 1 {
            assert!(poll_one(&bell, Interest::Readable, PATIENCE).unwrap().is_some());
            assert_eq!(eventfd::read(&bell).unwrap(), 1);
        }
    }
    fill();
    let (done, is_done) = mpsc::channel();
    let signals = {
        let bell = Arc::clone(&bell);
        thread::spawn(move || done.send((0..many).all(|_| eventfd::signal(&bell).is_ok())))
    };
    let outcome = is_done.recv_timeout(Duration::from_secs(20));
    // Frees the thread, if it waits.
    let _ = eventfd::try_read(&bell);
    signals.join().unwrap().unwrap();
    assert_eq!(outcome, Ok(true), "a signal waited for the other holder");
}
