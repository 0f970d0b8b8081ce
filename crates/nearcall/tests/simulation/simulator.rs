//! The simulator itself: it finds what never ends, its time is a number, its processes die.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nearcall_os::simulation::{self, Faults, Process};
use nearcall_os::socket::{self, Kind};
use nearcall_os::{Deadline, clock, futex, pipe};

const STEPS_MAX: u64 = 10_000;

fn process(name: &str, body: impl FnOnce() + Send + 'static) -> Process {
    let process = simulation::new_process();
    simulation::start(process, name, body).unwrap();
    process
}

/// Runs `main`, which must fail, and returns why.
fn failure(main: impl FnOnce()) -> String {
    let run = catch_unwind(AssertUnwindSafe(|| simulation::run(1, STEPS_MAX, main)));
    *run.unwrap_err().downcast::<String>().unwrap()
}

#[test]
fn a_sleep_that_nobody_ends_is_found() {
    let text = failure(|| {
        let sleep = || {
            futex::wait(&AtomicU32::new(0), 0, Deadline::NEVER);
        };
        let sleeper = process("sleeper", sleep);
        simulation::wait_ended(sleeper, Duration::MAX);
    });
    assert!(text.contains("every thread waits") && text.contains("sleeper"), "{text}");
}

#[test]
fn a_thread_that_goes_on_for_ever_is_found() {
    let text = failure(|| {
        let turn = process("spinner", || {
            loop {
                clock::pause(Duration::from_micros(1));
            }
        });
        simulation::wait_ended(turn, Duration::MAX);
    });
    assert!(text.contains("the most steps"), "{text}");
}

#[test]
fn time_passes_only_by_waiting_for_it() {
    let real = std::time::SystemTime::now();
    let (report, waited) = simulation::run(1, STEPS_MAX, || {
        let before = clock::now();
        clock::pause(Duration::from_secs(3600));
        before.elapsed_in_simulation()
    });
    assert!(waited >= Duration::from_secs(3600) && waited < Duration::from_secs(3601));
    assert!(report.elapsed_ns >= 3_600_000_000_000);
    assert!(real.elapsed().unwrap() < Duration::from_secs(600));
}

/// `Instant::elapsed` reads the real clock.
trait ElapsedInSimulation {
    fn elapsed_in_simulation(self) -> Duration;
}

impl ElapsedInSimulation for std::time::Instant {
    fn elapsed_in_simulation(self) -> Duration {
        clock::now() - self
    }
}

#[test]
fn a_process_that_is_killed_lets_go_of_everything_and_sends_nothing_more() {
    let (report, ()) = simulation::run(1, STEPS_MAX, || {
        let (ours, theirs) = socket::unix_pair(Kind::Seqpacket).unwrap();
        let victim = process("victim", move || {
            socket::send(&theirs, b"one").unwrap();
            clock::pause(Duration::from_secs(1));
            socket::send(&theirs, b"two").unwrap();
        });
        clock::pause(Duration::from_millis(500));
        simulation::kill(victim);
        let mut buffer = [0; 8];
        assert_eq!(socket::recv_message(&ours, &mut buffer).unwrap(), 3);
        assert_eq!(socket::recv_message(&ours, &mut buffer).unwrap(), 0);
        assert!(simulation::wait_ended(victim, Duration::ZERO));
    });
    assert_eq!(report.failures, Vec::<String>::new());
}

#[test]
fn a_descriptor_that_is_left_is_found() {
    let (report, ours) = simulation::run(1, STEPS_MAX, || {
        let (ours, _theirs) = socket::unix_pair(Kind::Stream).unwrap();
        ours
    });
    assert!(matches!(&report.left[..], [socket] if socket.contains("socket:")), "{report:?}");
    drop(ours);
}

#[test]
fn a_receive_finds_what_the_kernel_has_told_of() {
    let report = simulation::run(1, STEPS_MAX, || {
        simulation::set_faults(Faults { blocked: 1_000_000, ..Faults::default() });
        let (ours, theirs) = socket::unix_pair(Kind::Stream).unwrap();
        let receiver = process("receiver", move || {
            let mut byte = [0];
            assert_eq!(socket::try_recv(&ours, &mut byte).unwrap(), None);
            assert_eq!(pipe::queued_bytes(&ours).unwrap(), 1);
            assert_eq!(socket::try_recv(&ours, &mut byte).unwrap(), Some(1));
            assert_eq!(socket::try_recv(&ours, &mut byte).unwrap(), None);
        });
        socket::send(&theirs, &[1]).unwrap();
        simulation::wait_ended(receiver, Duration::MAX);
    })
    .0;
    assert_eq!(report.failures, Vec::<String>::new());
}

#[test]
fn a_process_that_is_stopped_does_nothing_meanwhile() {
    simulation::run(1, STEPS_MAX, || {
        let count = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&count);
        let counter = process("counter", move || {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                clock::pause(Duration::from_micros(10));
            }
        });
        clock::pause(Duration::from_millis(1));
        simulation::stop_for(counter, Duration::from_millis(5));
        let before = count.load(Ordering::Relaxed);
        clock::pause(Duration::from_millis(4));
        assert_eq!(count.load(Ordering::Relaxed), before);
        clock::pause(Duration::from_millis(2));
        assert!(count.load(Ordering::Relaxed) > before);
    });
}

#[test]
fn calls_fail_as_often_as_asked_for_and_alike_for_one_seed() {
    let run = |seed| {
        simulation::run(seed, STEPS_MAX, || {
            let (ours, theirs) = socket::unix_pair(Kind::Stream).unwrap();
            simulation::set_faults(Faults { partial: 500_000, ..Faults::default() });
            let sender = process("sender", move || {
                let mut sent = 0;
                while sent < 1000 {
                    sent += socket::send(&theirs, &[7; 1000][sent..]).unwrap();
                }
            });
            let (mut received, mut buffer) = (0, [0; 1000]);
            while received < 1000 {
                received += socket::recv(&ours, &mut buffer).unwrap();
            }
            simulation::wait_ended(sender, Duration::MAX);
        })
        .0
    };
    let partial: u64 = (0..20).map(|seed| run(seed).injected.partial).sum();
    assert!(partial > 10, "{partial}");
    assert_eq!(run(3), run(3));
    assert_ne!(run(3).trace, run(4).trace);
}
