//! Every system call fails once: each kind, each number, each error that Linux may give, at the
//! server and at its client, from listening to the end; and every large allocation.
//!
//! `cargo test` takes a sample; `NEARCALL_SWEEP=all` (`cargo xtask sweep`) takes all, and
//! `NEARCALL_SWEEP=SEED` another sample.

use std::collections::VecDeque;

mod scenario;
mod sweep;

use self::scenario::Kind;
use self::sweep::{Counts, Found, Target};

/// The name of the test that is the child.
const ENTRY: &str = "r18::entry";
/// Failures of each kind of client in a sample.
const SAMPLE: usize = 20;
/// The sample of `cargo test` is always the same.
const SEED: u64 = 18;
/// Calls that come in one run and not in another.
const MORE_CALLS: u32 = 3;

/// Where the other process begins; nothing when the harness runs it.
#[test]
fn entry() {
    sweep::entry();
}

#[test]
fn r18_the_nth_system_call_fails() {
    let choice = std::env::var("NEARCALL_SWEEP").unwrap_or_else(|_| SEED.to_string());
    let mut faults = Vec::new();
    for kind in Kind::ALL {
        // What a process does without a failure, and what it keeps.
        let Some(plain) = sweep::run(kind, None, None) else { return };
        assert_eq!(plain.faults(None), Vec::<String>::new());
        let usual = plain.kept().unwrap();
        let mut targets = targets(&plain.counts);
        if let Ok(seed) = choice.parse() {
            println!("{}: {SAMPLE} of {}, seed {seed}", kind.name, targets.len());
            let mut rng = fastrand::Rng::with_seed(seed);
            rng.shuffle(targets.make_contiguous());
            targets.truncate(SAMPLE);
        }
        faults.extend(report(kind, sweep::sweep(kind, targets, usual)));
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn r18_the_nth_large_allocation_fails() {
    let mut faults = Vec::new();
    for kind in Kind::ALL {
        let plain = sweep::run_without_memory(kind, 0, None);
        assert_eq!(plain.faults(None), Vec::<String>::new());
        let (usual, count) = (plain.kept().unwrap(), plain.allocations());
        assert!(count > 0, "{}: nothing large was allocated", kind.name);
        println!("{}: {count} large allocations", kind.name);
        for nth in 1..=count {
            let outcome = sweep::run_without_memory(kind, nth, Some(usual));
            for (step, text) in outcome.failed_steps() {
                println!("{nth:5} {step}: {text}");
            }
            let of_this = outcome.faults(Some(usual)).into_iter();
            faults.extend(of_this.map(|fault| format!("{}: number {nth}: {fault}", kind.name)));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

fn targets(counts: &Counts) -> VecDeque<Target> {
    let mut targets = VecDeque::new();
    for ((thread, call), count) in counts {
        for errno in sweep::plausible(call) {
            let target = |nth| Target { thread: thread.clone(), call, nth, errno: *errno };
            targets.extend((1..=count + MORE_CALLS).map(target));
        }
    }
    targets
}

/// Prints what was found, and returns the faults.
fn report(kind: Kind, found: Found) -> Vec<String> {
    let Found { runs, fired, unnoticed, faults, texts } = found;
    println!(
        "{}: {runs} runs, {fired} failures injected, {unnoticed} of them without effect",
        kind.name
    );
    for (text, count) in texts {
        println!("{count:5} {text}");
    }
    assert!(fired > 0, "nothing was injected");
    faults
}
