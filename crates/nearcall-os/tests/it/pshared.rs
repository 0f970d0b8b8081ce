//! Locks in shared memory, also when a process dies with one.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nearcall_os::clock;
use nearcall_os::futex;
use nearcall_os::pshared::{Condvar, CondvarWait, Lock, Mutex, Semaphore};
use nearcall_os::region::{Backing, LockRegion, SharedRegion, Trust};
use nearcall_os::socket::{Kind, unix_pair};

use crate::child::{Child, PATIENCE, is_child};

const BYTES: usize = 4096;
const WORD: usize = 0;
const MUTEX: usize = 128;
const CONDVAR: usize = 256;
const SEMAPHORE: usize = 384;
const SEMAPHORE_BACK: usize = 512;

const SHORT: Duration = Duration::from_millis(5);

fn region() -> (Arc<LockRegion>, OwnedFd) {
    let (region, file) = SharedRegion::create("nearcall-test", BYTES, Backing::Reserved).unwrap();
    (Arc::new(region.for_locks(trust())), file)
}

/// In this process, and in those that it starts.
fn trust() -> Trust {
    let (own, _other) = unix_pair(Kind::Stream).unwrap();
    Trust::of_peer(own).unwrap()
}

fn region_of_parent() -> Arc<LockRegion> {
    let region = SharedRegion::open(std::io::stdin().as_fd(), BYTES..=BYTES).unwrap();
    Arc::new(region.for_locks(trust()))
}

#[test]
fn a_semaphore_counts() {
    let (region, _file) = region();
    let semaphore = Semaphore::init(&region, SEMAPHORE, 1).unwrap();
    let other = Semaphore::attach(&region, SEMAPHORE);
    assert!(semaphore.try_wait().unwrap());
    assert!(!semaphore.try_wait().unwrap());
    assert!(!semaphore.wait_timeout(SHORT).unwrap());
    other.post().unwrap();
    other.post().unwrap();
    assert!(semaphore.wait_timeout(Duration::MAX).unwrap());
    semaphore.wait().unwrap();
    assert!(!semaphore.try_wait().unwrap());
    assert!(Semaphore::init(&region, SEMAPHORE, u32::MAX).is_err());
}

#[test]
#[should_panic(expected = "not aligned")]
fn a_misaligned_place_panics() {
    let _ = Semaphore::attach(&region().0, 4);
}

#[test]
#[should_panic(expected = "outside of")]
fn a_place_without_room_panics() {
    let _ = Mutex::attach(&region().0, BYTES - 8);
}

#[test]
fn a_semaphore_wakes_the_other_process() {
    let (region, file) = region();
    let there = Semaphore::init(&region, SEMAPHORE, 0).unwrap();
    let back = Semaphore::init(&region, SEMAPHORE_BACK, 0).unwrap();
    let child = Child::start("pshared::child_answers_a_semaphore", file);
    for _ in 0..10 {
        there.post().unwrap();
        assert!(back.wait_timeout(PATIENCE).unwrap());
    }
    child.finish();
}

#[test]
fn child_answers_a_semaphore() {
    if !is_child("pshared::child_answers_a_semaphore") {
        return;
    }
    let region = region_of_parent();
    let there = Semaphore::attach(&region, SEMAPHORE);
    let back = Semaphore::attach(&region, SEMAPHORE_BACK);
    for _ in 0..10 {
        assert!(there.wait_timeout(PATIENCE).unwrap());
        back.post().unwrap();
    }
}

#[test]
fn a_held_mutex_is_refused_to_others() {
    let (region, _file) = region();
    let mutex = Mutex::init(&region, MUTEX).unwrap();
    let guard = mutex.lock().unwrap();
    assert_eq!(guard.lock_state(), Lock::Clean);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let other = Mutex::attach(&region, MUTEX);
            assert!(other.try_lock().unwrap().is_none());
            assert!(other.lock_timeout(SHORT).unwrap().is_none());
        });
    });
    drop(guard);
    assert!(mutex.try_lock().unwrap().is_some());
    assert!(mutex.lock_timeout(SHORT).unwrap().is_some());
}

#[test]
fn the_lock_of_a_killed_process_goes_to_the_next_one() {
    let (region, file) = region();
    let mutex = Mutex::init(&region, MUTEX).unwrap();
    let child = Child::start("pshared::child_dies_with_the_lock", file);
    let end = clock::now() + PATIENCE;
    while region.word32(WORD).load(Ordering::Acquire) == 0 {
        assert!(clock::now() < end, "the child never locked");
        futex::wait(region.word32(WORD), 0, Some(PATIENCE));
    }
    assert!(mutex.try_lock().unwrap().is_none());
    child.kill();
    let guard = mutex.lock_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!(guard.lock_state(), Lock::OwnerDied);
    drop(guard);
    assert_eq!(mutex.lock().unwrap().lock_state(), Lock::Clean);
}

#[test]
fn child_dies_with_the_lock() {
    if !is_child("pshared::child_dies_with_the_lock") {
        return;
    }
    let region = region_of_parent();
    let mutex = Mutex::attach(&region, MUTEX);
    let _guard = mutex.lock().unwrap();
    region.word32(WORD).store(1, Ordering::Release);
    futex::wake(region.word32(WORD), 1);
    clock::pause(PATIENCE);
}

#[test]
fn a_lock_whose_thread_ended_is_found_as_owner_died() {
    let (region, _file) = region();
    let mutex = Mutex::init(&region, MUTEX).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| std::mem::forget(Mutex::attach(&region, MUTEX).lock().unwrap()));
    });
    let guard = mutex.lock_timeout(PATIENCE).unwrap().unwrap();
    assert_eq!(guard.lock_state(), Lock::OwnerDied);
}

#[test]
fn a_condition_is_waited_for_at_most_so_long() {
    let (region, _file) = region();
    let mutex = Mutex::init(&region, MUTEX).unwrap();
    let condvar = Condvar::init(&region, CONDVAR).unwrap();
    let mut guard = mutex.lock().unwrap();
    let ended = (0..1000)
        .any(|_| condvar.wait_timeout(&mut guard, SHORT).unwrap() == CondvarWait::TimedOut);
    assert!(ended);
    assert_eq!(guard.lock_state(), Lock::Clean);
    drop(guard);
    assert!(mutex.try_lock().unwrap().is_some(), "the wait took the lock again, once");
}

#[test]
fn a_condition_wakes_the_other_process() {
    let (region, file) = region();
    let mutex = Mutex::init(&region, MUTEX).unwrap();
    let condvar = Condvar::init(&region, CONDVAR).unwrap();
    let child = Child::start("pshared::child_answers_a_condition", file);
    for turn in 0..10 {
        take_turn(&region, &mutex, &condvar, 2 * turn);
    }
    child.finish();
}

#[test]
fn child_answers_a_condition() {
    if !is_child("pshared::child_answers_a_condition") {
        return;
    }
    let region = region_of_parent();
    let (mutex, condvar) = (Mutex::attach(&region, MUTEX), Condvar::attach(&region, CONDVAR));
    for turn in 0..10 {
        take_turn(&region, &mutex, &condvar, 2 * turn + 1);
    }
}

/// Waits until the word is `turn`, and makes it the next one.
fn take_turn(region: &LockRegion, mutex: &Mutex, condvar: &Condvar, turn: u32) {
    let end = clock::now() + PATIENCE;
    let mut guard = mutex.lock_timeout(PATIENCE).unwrap().unwrap();
    while region.word32(WORD).load(Ordering::Relaxed) != turn {
        assert!(clock::now() < end, "the other side never came to {turn}");
        condvar.wait_timeout(&mut guard, PATIENCE).unwrap();
    }
    region.word32(WORD).store(turn + 1, Ordering::Relaxed);
    drop(guard);
    condvar.signal().unwrap();
    condvar.broadcast().unwrap();
}
