//! File systems that lack something: a small `/dev/shm`, as containers have it, a full runtime
//! directory, no `/proc`.

use nearcall_os::ptrace::Errno;

use crate::failing_syscalls::{Kind, Target, run_with};
use crate::namespaces;
use crate::served::Served;
use crate::support::prelude::*;

pub(crate) const ROLES: &[Role] = &[("r17", |_| without_space()), ("r17_proc", |_| without_proc())];

/// Longer than `/dev/shm` there.
const LARGE: usize = 3 << 20;

/// Neither the channels nor their segments lie in `/dev/shm`.
fn without_space() {
    let full = "/dev/shm/full";
    while std::fs::File::create(format!("{full}/{:x}", fastrand::u64(..))).is_ok() {}
    let served = Served::start();
    for via in ["", "?via=unix-stream"] {
        let echo = EchoCaller::new(&Client::new(), &served.via(via)).unwrap();
        let words = Words { data: vec![7; LARGE].into(), number: 1 };
        for _ in 0..3 {
            assert!(echo.say(&words).unwrap() == words, "{via}");
        }
    }
    let event_loop = EventLoop::new().unwrap();
    let error = Server::new(&event_loop).listen("r17").unwrap_err().to_string();
    assert!(error.contains("No space left"), "{error}");
    report(&format!("done {error}"));
}

#[timed]
fn r17_a_small_dev_shm_is_enough_and_a_full_runtime_directory_is_an_error() {
    let setup = "mount -t tmpfs -o size=64k,nr_inodes=8 tmpfs /dev/shm && \
                     mkdir -m 700 /dev/shm/full && \
                     export NEARCALL_RUNTIME_DIR=/dev/shm/full";
    let test = "r17_a_small_dev_shm_is_enough_and_a_full_runtime_directory_is_an_error";
    let Some(mut process) = namespaces::start(test, &["-m"], setup, "r17", "none") else {
        return;
    };
    println!("{}", process.hear("done"));
    process.finish();
}

/// Neither mode nor owner of a socket's file can be set by its descriptor there.
fn without_proc() {
    let event_loop = EventLoop::new().unwrap();
    let path = std::env::temp_dir().join(format!("nearcall-r17-{:016x}", fastrand::u64(..)));
    let address = format!("unix:{}", path.display());
    let error = Server::new(&event_loop).listen(&address).unwrap_err().to_string();
    assert!(error.contains("there is no /proc") && error.contains("mount it"), "{error}");
    assert!(!path.exists(), "half started: {}", path.display());
    report(&format!("done {error}"));
}

#[timed]
fn r17_a_missing_proc_is_named() {
    let (test, setup) = ("r17_a_missing_proc_is_named", "mount -t tmpfs tmpfs /proc");
    let Some(mut process) = namespaces::start(test, &["-m"], setup, "r17_proc", "none") else {
        return;
    };
    println!("{}", process.hear("done"));
    process.finish();
}

/// The kernel has no room for a ring: said when the channel is made, with what to do.
#[timed]
fn r17_a_ring_without_space_is_refused_when_it_is_made() {
    for thread in ["client", "nearcall-loop-0"] {
        let (thread, errno) = (thread.to_owned(), Errno::NOSPC);
        let target = Target { thread, call: "fallocate", nth: 1, errno };
        let Some(outcome) = run_with(Kind::ALL[0], &target) else { return };
        assert!(outcome.fired, "{target}: no ring was made");
        for (step, text) in outcome.failed_steps() {
            println!("{target}: {step}: {text}");
            let hint = "no memory left for the region; ask for a smaller one or free some";
            assert!(text.contains(hint), "{text}");
        }
    }
}
