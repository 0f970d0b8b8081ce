//! A killed process fails its cell, the other one notices, and nothing stays behind.

use std::cell::Cell as Slot;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use nearcall_bench::cell::CellSpec;
use nearcall_bench::runner::{RunContext, bench_specs};
use nearcall_bench::usage;
use nearcall_os::process::{kill_pidfd, pidfd_open};
use nearcall_results::run::Kind;
use nearcall_results::shape::Shape;
use nearcall_studies::methods::Method;

use crate::{
    BUFFERED, CALLS, SIGNALS, STREAMS, alone, cell, children, context, has_two_cpus, plan,
};

/// Names of queues, memory and named pipes that somebody has left behind. Those that others have
/// for a moment are in one listing at most.
fn names() -> Vec<PathBuf> {
    let list = || {
        let directories = ["/dev/shm".into(), "/dev/mqueue".into(), std::env::temp_dir()];
        let entries = directories.into_iter().filter_map(|one| std::fs::read_dir(one).ok());
        let paths = entries.flatten().filter_map(|entry| Some(entry.ok()?.path()));
        let is_ours = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            // Directories are those of tests.
            name.contains("nearcall-") && !path.is_dir()
        };
        paths.filter(is_ours).collect::<BTreeSet<PathBuf>>()
    };
    list().intersection(&list()).cloned().collect()
}

/// Whether a process has worked for longer than starting and meeting take.
fn is_measuring(pid: i32) -> bool {
    let used = u32::try_from(pid).ok().and_then(usage::of);
    used.is_some_and(|used| used.cpu_ns >= CPU_NS_BEFORE_KILL)
}

/// Kills the server (0) or the client (1) of every launch in the middle of its exchanges.
fn check_survivor_notices(methods: &[Method], kind: Kind, shape: Shape, victim: usize) {
    let killed = Slot::new(0);
    let kill = || {
        let children = children();
        if let [_, _] = children[..]
            && killed.get() != children[victim]
            && children.iter().all(|&pid| is_measuring(pid))
        {
            // A child of this thread that was not waited for: the number is its own.
            kill_pidfd(pidfd_open(children[victim]).unwrap()).unwrap();
            killed.set(children[victim]);
        }
        false
    };
    let context = RunContext { interrupted: &kill, ..context() };
    // By time, and long enough that the kill comes first.
    let cells: Vec<CellSpec> =
        methods.iter().map(|&method| cell(method, kind, shape, 4_096, u32::MAX)).collect();
    let budget = Duration::from_secs(30 * methods.len() as u64);
    let started = nearcall_os::clock::now();
    let run = bench_specs(&plan(1, budget), &cells, &context).unwrap();
    assert!(started.elapsed() < budget, "no end waits for a dead one");
    assert!(run.study_cells.is_empty() && run.parts.is_empty());
    for &method in methods {
        let failed = run.skipped.iter().find(|one| one.mechanism == method.name()).unwrap();
        assert!(!failed.unsupported, "{method}: {}", failed.reason);
        // The runner had to end neither. The C library's condition variables may keep the
        // survivor; the runner ends it then.
        let was_ended = ["did not", "in time"].iter().any(|text| failed.reason.contains(text));
        let excused = method.name().contains("condvar");
        assert!(!was_ended || excused, "{method}, {kind:?}, {victim}: {}", failed.reason);
        let names_peer = ["gone", "Broken pipe", "reset"].iter().any(|w| failed.reason.contains(w));
        let has_to =
            STREAMS.contains(&method) || [Method::Flag, Method::Semaphore].contains(&method);
        assert!(names_peer || !has_to, "{method}, {kind:?}, {victim}: {}", failed.reason);
    }
    assert_eq!(children(), [0; 0], "processes are left");
}

#[test]
fn a_killed_process_fails_its_cell_and_the_other_notices() {
    let _alone = alone();
    let before = names();
    let mut one_by_one = [&STREAMS[..], &BUFFERED, &SIGNALS].concat();
    if has_two_cpus() {
        one_by_one.push(Method::Flag);
    }
    let in_a_row = [&STREAMS[..], &SIGNALS].concat();
    for victim in [0, 1] {
        check_survivor_notices(&one_by_one, Kind::Latency, Shape::Echo, victim);
        check_survivor_notices(&in_a_row, Kind::Throughput, Shape::Sink, victim);
        check_survivor_notices(&CALLS, Kind::Latency, Shape::Sink, victim);
    }
    assert_eq!(names(), before);
}

/// Starting takes some milliseconds of this.
const CPU_NS_BEFORE_KILL: u64 = 80_000_000;
