//! Every system call fails once: each kind, each number, each error that Linux may give, at the
//! server and at its client, from listening to the end; and every large allocation.
//!
//! `cargo test` takes a sample. In the environment, `NEARCALL_SWEEP=all` (`cargo xtask sweep`)
//! takes all, `each` every call with one of its errors, and a number another sample.

use std::collections::VecDeque;

mod scenario;
mod sweep;

use nearcall_os::ptrace::Errno;

pub(crate) use self::scenario::Kind;
pub(crate) use self::sweep::Target;
use self::sweep::{Counts, Found, Outcome};

/// The name of the test that is the child.
const ENTRY: &str = "failing_syscalls::entry";
/// Failures of each kind of client in a sample.
const SAMPLE: usize = 12;
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
    let choice = choice();
    let mut faults = Vec::new();
    for kind in Kind::ALL {
        // What a process does without a failure, and what it keeps.
        let Some(plain) = sweep::run(kind, None, None) else { return };
        assert_eq!(plain.faults(None), Vec::<String>::new());
        let usual = plain.kept().unwrap();
        let mut targets = targets(&plain.counts, choice == "each");
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
        let mut numbers: Vec<_> = (1..=count).collect();
        if let Ok(seed) = choice().parse() {
            println!("{SAMPLE} of them, seed {seed}");
            fastrand::Rng::with_seed(seed).shuffle(&mut numbers);
            numbers.truncate(SAMPLE);
        }
        for nth in numbers {
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

fn choice() -> String {
    std::env::var("NEARCALL_SWEEP").unwrap_or_else(|_| SEED.to_string())
}

/// Runs the scenario with one failure. `None`: ptrace is forbidden here.
pub(crate) fn run_with(kind: Kind, target: &Target) -> Option<Outcome> {
    sweep::run(kind, Some(target), None)
}

/// Runs the scenario as if the kernel had none of these calls, or a filter forbade them.
pub(crate) fn run_without(kind: Kind, calls: &[&str], errno: Errno) -> Option<Outcome> {
    sweep::run_failing(kind, None, false, |_, call, _| calls.contains(&call).then_some(errno))
}

/// All failures of a process that makes these calls; with `each` one for each call, all errors in
/// turn.
fn targets(counts: &Counts, each: bool) -> VecDeque<Target> {
    let mut targets = VecDeque::new();
    for ((thread, call), count) in counts {
        let errors = sweep::plausible(call);
        for nth in 1..=count + MORE_CALLS {
            let chosen = errors.iter().cycle().skip(nth as usize);
            let number = if each { errors.len().min(1) } else { errors.len() };
            let target =
                |errno: &Errno| Target { thread: thread.clone(), call, nth, errno: *errno };
            targets.extend(chosen.take(number).map(target));
        }
    }
    targets
}

/// Prints what was found, and returns the faults.
fn report(kind: Kind, found: Found) -> Vec<String> {
    let Found { runs, fired, ended_by_std, unnoticed, faults, texts } = found;
    println!(
        "{}: {runs} runs, {fired} failures injected, {unnoticed} of them without effect, \
         {ended_by_std} new threads without a signal stack",
        kind.name
    );
    for (text, count) in texts {
        println!("{count:5} {text}");
    }
    assert!(fired > 0, "nothing was injected");
    faults
}
