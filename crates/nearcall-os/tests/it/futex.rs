//! Sleeping and waking, in one process and across two.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nearcall_os::clock;
use nearcall_os::futex::{self, Wait};
use nearcall_os::region::{Backing, OwnRegion, PeerRegion};

use crate::child::{Child, PATIENCE, is_child};
use crate::region::region_pair;

#[test]
fn a_changed_word_is_not_slept_on() {
    assert_eq!(futex::wait(&AtomicU32::new(1), 0, None), Wait::Changed);
}

#[test]
fn a_sleep_ends_when_its_time_is_over() {
    let timeout = Duration::from_millis(5);
    let start = clock::now();
    // A signal may end one sleep early, but not a thousand.
    let ended =
        (0..1000).any(|_| futex::wait(&AtomicU32::new(0), 0, Some(timeout)) == Wait::TimedOut);
    assert!(ended);
    assert!(clock::now() - start >= timeout);
    assert_eq!(futex::wait(&AtomicU32::new(0), 0, Some(Duration::ZERO)), Wait::TimedOut);
}

#[test]
fn waking_without_a_waiter_is_harmless() {
    assert_eq!(futex::wake(&AtomicU32::new(0), 1), 0);
    assert_eq!(futex::wake(&AtomicU32::new(0), u32::MAX), 0);
}

#[test]
fn a_thread_is_woken_through_private_memory() {
    let (own, peer) = region_pair(64);
    wake_a_thread(&own, &peer);
}

#[test]
fn a_sleeper_on_a_read_only_mapping_is_woken() {
    let (own, file) = OwnRegion::create("nearcall-test", 4096, Backing::Reserved).unwrap();
    let peer = PeerRegion::open(&file, 4096..=4096).unwrap();
    wake_a_thread(&own, &peer);
}

fn wake_a_thread(own: &OwnRegion, peer: &PeerRegion) {
    let sleeping = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            sleeping.store(1, Ordering::Release);
            sleep_until_not_zero(peer)
        });
        while sleeping.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        own.word32(4).store(9, Ordering::Release);
        // The sleeper checks the word in the kernel, so one wake after the store is enough.
        futex::wake(own.word32(4), 1);
        assert_eq!(sleeper.join().unwrap(), Some(9));
    });
}

fn sleep_until_not_zero(peer: &PeerRegion) -> Option<u32> {
    let end = clock::now() + PATIENCE;
    loop {
        let value = peer.load32(4, Ordering::Acquire);
        if value != 0 {
            return Some(value);
        }
        let left = end.checked_duration_since(clock::now())?;
        futex::wait(peer.futex_word(4), 0, Some(left));
    }
}

#[test]
fn a_sleeper_in_another_process_is_woken() {
    let (own, file) = OwnRegion::create("nearcall-test", 4096, Backing::Reserved).unwrap();
    let mut child = Child::start("futex::child_sleeps", file);
    // A successful wake proves that the child slept on this word through its own mapping.
    let end = clock::now() + PATIENCE;
    while futex::wake(own.word32(4), 1) == 0 {
        assert!(child.poll().is_none() && clock::now() < end, "the child never slept");
        std::thread::yield_now();
    }
    own.word32(4).store(3, Ordering::Release);
    futex::wake(own.word32(4), u32::MAX);
    child.finish();
}

#[test]
fn child_sleeps() {
    if !is_child("futex::child_sleeps") {
        return;
    }
    let peer = PeerRegion::open(std::io::stdin().as_fd(), 4096..=4096).unwrap();
    assert_eq!(sleep_until_not_zero(&peer), Some(3));
}
