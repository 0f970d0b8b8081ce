//! Starts the child, has one of its system calls fail, and judges what became of it.
//!
//! **Invariants:** a child that hangs is killed, and counts as a failure.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::{self, Display};
use std::process::{ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::Mutex;

use nearcall_os::process::{Child, kill_pidfd, wait_pidfd};
use nearcall_os::ptrace::{Errno, Event, Refusal, Tracer};
use nearcall_os::syscall_names::syscall_name;

use super::scenario::{self, ADDRESS, ALLOCATION, CALL_MAX, CLIENT, Kept, Kind, USUAL};
use crate::support::prelude::*;

/// The child must have ended by then.
const PATIENCE: Duration = Duration::from_secs(30);
/// A step that takes longer has waited for something that did not come, in milliseconds.
const STEP_MS_MAX: u128 = 4_500;
/// Processes that sweep at once.
const WORKERS: usize = 2;

/// One failure: the `nth` such call of the thread fails with `errno`.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) thread: String,
    pub(crate) call: &'static str,
    pub(crate) nth: u32,
    pub(crate) errno: Errno,
}

impl Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { thread, call, nth, errno } = self;
        write!(f, "{call} number {nth} of thread {thread}: {}", errno.error())
    }
}

/// Calls by thread and name.
pub(crate) type Counts = BTreeMap<(String, &'static str), u32>;

/// What became of one child.
pub(crate) struct Outcome {
    /// The call has come and was made to fail.
    pub(crate) fired: bool,
    pub(crate) counts: Counts,
    status: Option<ExitStatus>,
    timed_out: bool,
    output: String,
    errors: String,
}

impl Outcome {
    pub(crate) fn kept(&self) -> Option<Kept> {
        self.value("kept ")
    }

    /// Large allocations of the round with the failure.
    pub(crate) fn allocations(&self) -> u64 {
        self.value("allocations ").unwrap_or(0)
    }

    fn value<T: FromStr>(&self, name: &str) -> Option<T> {
        let line = self.output.lines().find_map(|line| line.split_once(name));
        line.and_then(|(_, value)| value.parse().ok())
    }

    /// The steps that did not succeed, of the round with the failure.
    pub(crate) fn failed_steps(&self) -> Vec<(&str, &str)> {
        let steps = self.steps().filter(|step| step.round == 0 && step.text != "ok");
        steps.map(|step| (step.name, step.text)).collect()
    }

    fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        self.output.lines().filter_map(Step::parse)
    }

    /// The standard library has ended the process, because a thread that it started found no memory
    /// for its signal stack. No library can prevent that.
    pub(crate) fn was_ended_by_std(&self) -> bool {
        self.errors.contains("std/src/sys/pal/unix/stack_overflow.rs")
    }

    /// What is wrong with it. The failure itself may have failed steps of its round.
    pub(crate) fn faults(&self, usual: Option<Kept>) -> Vec<String> {
        let mut faults = Vec::new();
        if self.timed_out {
            faults.push("it hung and was killed".to_owned());
        }
        match self.status {
            Some(status) if !status.success() => faults.push(format!("it ended with {status}")),
            _ => {}
        }
        let panic = self.errors.lines().find(|line| line.contains("panicked at"));
        faults.extend(panic.map(|line| format!("a panic: {line}")));
        for step in self.steps() {
            let Step { round, name, ms, text } = step;
            if ms > STEP_MS_MAX {
                faults.push(format!("{name} took {ms} ms: {text}"));
            } else if round > 0 && text != "ok" {
                faults.push(format!("afterwards {name} failed: {text}"));
            } else if is_unclear(text) {
                faults.push(format!("{name} ended with an unclear error: {text}"));
            }
        }
        match (self.kept(), usual) {
            (Some(kept), Some(usual)) if !kept.is_within(usual) => faults.push(format!(
                "it keeps {kept} descriptors, memory files and threads, usual is {usual}"
            )),
            (None, _) if faults.is_empty() => faults.push("it did not come to its end".to_owned()),
            _ => {}
        }
        faults
    }
}

/// A line of the child.
struct Step<'a> {
    round: u32,
    ms: u128,
    name: &'a str,
    text: &'a str,
}

impl<'a> Step<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (_, line) = line.split_once("step ")?;
        let mut words = line.splitn(4, ' ');
        let (round, ms) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Self { round, ms, name: words.next()?, text: words.next()? })
    }
}

/// An error that names neither what failed nor why.
fn is_unclear(text: &str) -> bool {
    let unclear = ["WRONG", "LOST", "UNKNOWN", "DEADLINE_EXCEEDED", "panicked", "poisoned"];
    text != "ok" && (text.len() < 20 || unclear.iter().any(|word| text.contains(word)))
}

/// Runs the child once, and has one of its system calls fail, or none. `None`: ptrace is forbidden
/// here.
pub(crate) fn run(kind: Kind, target: Option<&Target>, usual: Option<Kept>) -> Option<Outcome> {
    run_failing(kind, usual, true, |thread, call, nth| {
        let target = target?;
        let is_target = target.call == call && target.thread == thread && target.nth == nth;
        is_target.then_some(target.errno)
    })
}

/// Runs the child once; `fail` decides which calls fail, by thread, name and number. With `once`
/// the first of them is the only one.
pub(crate) fn run_failing(
    kind: Kind,
    usual: Option<Kept>,
    once: bool,
    fail: impl Fn(&str, &str, u32) -> Option<Errno>,
) -> Option<Outcome> {
    let mut child = start(kind, usual, &[]);
    let mut tracer = match Tracer::seize(child.pid()) {
        Ok(tracer) => tracer,
        Err(refusal @ Refusal::Forbidden { .. }) => {
            println!("SKIPPED: {refusal}");
            return None;
        }
        Err(refusal) => panic!("{refusal}"),
    };
    let pid = child.pid();
    Some(finish(&mut child, || watch(&mut tracer, pid, once, fail)))
}

/// Runs the child once, and has its `nth` large allocation fail; with zero none.
pub(crate) fn run_without_memory(kind: Kind, nth: u64, usual: Option<Kept>) -> Outcome {
    let mut child = start(kind, usual, &[(ALLOCATION, &nth.to_string())]);
    finish(&mut child, || (Counts::new(), nth > 0))
}

fn start(kind: Kind, usual: Option<Kept>, more: &[(&str, &str)]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([super::ENTRY, "--exact", "--nocapture", "--test-threads=1"])
        .env(ADDRESS, unique_address())
        .env(CLIENT, kind.name)
        .envs(more.iter().copied())
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(usual) = usual {
        command.env(USUAL, usual.to_string());
    }
    Child::spawn(&mut command).unwrap()
}

/// Has the child go on, and waits for its end. One that hangs is killed.
fn finish(child: &mut Child, watch: impl FnOnce() -> (Counts, bool)) -> Outcome {
    let pidfd = child.pidfd().try_clone_to_owned().unwrap();
    let guard = std::thread::spawn(move || {
        let ended = wait_pidfd(&pidfd, PATIENCE).unwrap();
        kill_pidfd(&pidfd).unwrap();
        ended
    });
    drop(child.pipes().stdin.take());
    let output = child.pipes().stdout.take().unwrap();
    let errors = child.pipes().stderr.take().unwrap();
    let (counts, fired) = watch();
    let timed_out = !guard.join().unwrap();
    Outcome {
        fired,
        counts,
        status: child.wait(CALL_MAX).unwrap(),
        timed_out,
        output: std::io::read_to_string(output).unwrap(),
        errors: std::io::read_to_string(errors).unwrap(),
    }
}

/// Watches the child until it ends, and has calls fail.
fn watch(
    tracer: &mut Tracer,
    pid: u32,
    once: bool,
    fail: impl Fn(&str, &str, u32) -> Option<Errno>,
) -> (Counts, bool) {
    let (mut counts, mut fired, mut marks) = (Counts::new(), false, 0);
    let mut names: BTreeMap<i32, String> = BTreeMap::new();
    while let Some(event) = tracer.next_event().unwrap() {
        match event {
            Event::Begun { tid, number, arguments } if marks == 1 => {
                let Some(call) = name_of(number, &arguments) else { continue };
                let thread = names.entry(tid).or_insert_with(|| thread_name(pid, tid));
                let count = counts.entry((thread.clone(), call)).or_insert(0);
                *count += 1;
                if let Some(errno) = fail(thread, call, *count) {
                    tracer.fail_call(errno).unwrap();
                    fired = true;
                    if once {
                        tracer.ignore_calls();
                    }
                }
            }
            Event::Ended { tid, number, .. } => match syscall_name(number) {
                Some("getppid") => {
                    marks += 1;
                    if marks == 2 {
                        tracer.ignore_calls();
                    }
                }
                // It has a name of its own from now on.
                Some("prctl") => drop(names.remove(&tid)),
                _ => {}
            },
            Event::Begun { .. } => {}
        }
    }
    (counts, fired)
}

/// The name of a call, with what of its arguments decides how it may fail.
fn name_of(number: u64, arguments: &[u64; 6]) -> Option<&'static str> {
    const FUTEX_WAKE: u64 = 1;
    const FUTEX_OPERATION: u64 = 0x7f;
    match syscall_name(number)? {
        "futex" if arguments[1] & FUTEX_OPERATION == FUTEX_WAKE => None,
        // A doorbell: it is full only if it was rung already.
        "sendto" if arguments[2] == 1 => Some("sendto(1)"),
        name => Some(name),
    }
}

fn thread_name(pid: u32, tid: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"));
    name.map_or_else(|_| "gone".to_owned(), |name| name.trim().to_owned())
}

/// Errors that Linux gives for a call without a mistake of the caller.
///
/// Not here are calls whose failure leaves what they should have ended: `close`, `munmap`.
pub(crate) fn plausible(call: &str) -> &'static [Errno] {
    use Errno as E;
    match call {
        "accept4" => &[E::INTR, E::AGAIN, E::MFILE, E::NFILE, E::NOMEM, E::NOBUFS, E::PERM],
        "bind" | "listen" => &[E::ACCES, E::NOMEM],
        "brk" => &[E::NOMEM],
        "clone3" => &[E::AGAIN, E::NOMEM, E::NOSYS],
        "connect" => &[E::INTR, E::AGAIN, E::ACCES],
        "dup" | "pipe2" => &[E::MFILE, E::NFILE],
        "epoll_create1" | "eventfd2" | "timerfd_create" => &[E::MFILE, E::NFILE, E::NOMEM],
        "epoll_ctl" => &[E::NOMEM, E::NOSPC],
        "epoll_pwait" | "epoll_wait" => &[E::INTR],
        "epoll_pwait2" => &[E::INTR, E::NOSYS, E::PERM],
        "fallocate" => &[E::INTR, E::NOMEM, E::NOSPC],
        "fcntl" => &[E::MFILE, E::PERM],
        "fstat" | "statx" | "newfstatat" => &[E::NOMEM, E::ACCES],
        "ftruncate" => &[E::INTR, E::NOMEM, E::NOSPC],
        "futex" => &[E::INTR, E::AGAIN],
        "futex_waitv" => &[E::INTR, E::AGAIN, E::NOSYS],
        "getrandom" => &[E::INTR],
        "getsockname" | "getsockopt" | "setsockopt" => &[E::NOMEM, E::PERM],
        "madvise" => &[E::NOMEM, E::AGAIN, E::PERM],
        "membarrier" => &[E::NOSYS, E::PERM],
        "memfd_create" => &[E::MFILE, E::NFILE, E::NOMEM, E::NOSYS, E::PERM],
        "mmap" => &[E::NOMEM, E::AGAIN, E::PERM],
        "mprotect" | "mremap" => &[E::NOMEM],
        "openat" | "open" => &[E::INTR, E::MFILE, E::NFILE, E::NOMEM, E::ACCES],
        "pidfd_open" => &[E::MFILE, E::NOMEM, E::NOSYS, E::PERM],
        "poll" | "ppoll" => &[E::INTR, E::NOMEM],
        "prctl" | "prlimit64" | "sched_getaffinity" | "sched_setaffinity" => &[E::PERM],
        "read" | "recvfrom" | "recvmsg" => &[E::INTR, E::AGAIN, E::NOMEM],
        "sendmsg" | "sendto" => &[E::INTR, E::AGAIN, E::NOMEM, E::NOBUFS, E::PERM, E::TOOMANYREFS],
        "sendto(1)" => &[E::INTR, E::NOMEM, E::NOBUFS],
        "socket" | "socketpair" => &[E::MFILE, E::NFILE, E::NOMEM, E::ACCES, E::NOBUFS],
        "timerfd_settime" => &[E::NOMEM],
        "utimensat" => &[E::ACCES, E::PERM],
        // To an eventfd, which is never full.
        "write" => &[E::INTR],
        _ => &[],
    }
}

/// What a sweep has found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) runs: u32,
    pub(crate) fired: u32,
    /// Runs that the standard library has ended; see [`Outcome::was_ended_by_std`].
    pub(crate) ended_by_std: u32,
    /// Runs in which every step succeeded in spite of the failure.
    pub(crate) unnoticed: u32,
    pub(crate) faults: Vec<String>,
    /// Texts of steps that failed, with their number.
    pub(crate) texts: BTreeMap<String, u32>,
}

/// Takes targets until none is left. `next` learns whether the last one has fired.
pub(crate) fn sweep(kind: Kind, targets: VecDeque<Target>, usual: Kept) -> Found {
    let (targets, found) = (Mutex::new(targets), Mutex::new(Found::default()));
    let next = || targets.lock().unwrap().pop_front();
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(target) = next() {
                    let outcome = run(kind, Some(&target), Some(usual)).unwrap();
                    found.lock().unwrap().add(&target, &outcome, usual);
                }
            });
        }
    });
    found.into_inner().unwrap()
}

impl Found {
    fn add(&mut self, target: &Target, outcome: &Outcome, usual: Kept) {
        self.runs += 1;
        if !outcome.fired {
            return;
        }
        self.fired += 1;
        if outcome.was_ended_by_std() {
            self.ended_by_std += 1;
            return;
        }
        let failed = outcome.failed_steps();
        self.unnoticed += u32::from(failed.is_empty());
        for (step, text) in failed {
            let text = without_address(text);
            let text = format!("{} of {}: {step}: {text}", target.call, target.thread);
            *self.texts.entry(text).or_default() += 1;
        }
        for fault in outcome.faults(Some(usual)) {
            println!("FAULT {target}: {fault}");
            self.faults.push(format!("{target}: {fault}"));
        }
    }
}

/// Every child has its own.
fn without_address(text: &str) -> String {
    let words = text.split(' ').map(|word| match word.starts_with("unix:") {
        true => "ADDRESS",
        false => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Entry of the child.
pub(crate) fn entry() -> bool {
    let Ok(address) = std::env::var(ADDRESS) else { return false };
    scenario::run_child(&address);
    true
}
