//! Kills a process at a step of what it does: at one of its system calls, or between two of its
//! instructions.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nearcall_os::process::kill_pidfd;
use nearcall_os::ptrace::{Refusal, Step, Stepper, Tracer};

use super::child::Process;
use super::{number, skip};

/// How long one look at a thread that waits in the kernel lasts.
const LOOK: Duration = Duration::from_millis(1);

/// What a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// An entry or an exit of a system call of any thread of the process.
    SystemCalls,
    /// An instruction of one thread, which must wait in the kernel when it is attached to.
    Instructions { tid: i32 },
}

/// A process that runs step by step.
#[derive(Debug)]
pub(crate) struct Steps {
    shared: Arc<Shared>,
    thread: JoinHandle<Result<(), Refusal>>,
}

#[derive(Debug, Default)]
struct Shared {
    taken: AtomicU64,
    killed: AtomicBool,
}

impl Steps {
    /// From now on the process runs step by step, and is killed at step `kill_at`. `None`, with the
    /// reason in a line: ptrace is forbidden here.
    pub(crate) fn attach(process: &mut Process, unit: Unit, kill_at: Option<u64>) -> Option<Self> {
        Self::attach_with(process, unit, kill_at, || {})
    }

    /// Works like [`Steps::attach`]; `look` runs while the process stands at its last step.
    pub(crate) fn attach_with(
        process: &mut Process,
        unit: Unit,
        kill_at: Option<u64>,
        look: impl FnOnce() + Send + 'static,
    ) -> Option<Self> {
        process.expect_end();
        let (pid, shared) = (process.pid(), Arc::new(Shared::default()));
        let pidfd = process.child().pidfd().try_clone_to_owned().unwrap();
        let (attached, is_attached) = mpsc::channel();
        let mut look = Some(look);
        let look: Look = Box::new(move || look.take().map_or((), |look| look()));
        let job = Job { pid, pidfd, kill_at, look, shared: Arc::clone(&shared) };
        let thread = thread::spawn(move || match unit {
            Unit::SystemCalls => job.run_by_system_call(&attached),
            Unit::Instructions { tid } => job.run_by_instruction(tid, &attached),
        });
        if is_attached.recv().is_ok() {
            return Some(Self { shared, thread });
        }
        match thread.join().unwrap() {
            Err(refusal @ Refusal::Forbidden { .. }) => {
                skip("steps of a process", &refusal.to_string());
                None
            }
            other => panic!("{other:?}"),
        }
    }

    /// Steps so far.
    pub(crate) fn taken(&self) -> u64 {
        self.shared.taken.load(Ordering::Relaxed)
    }

    /// Kills the process if it has not come to its step. Returns whether it had.
    pub(crate) fn end(self, process: &mut Process) -> bool {
        let killed = self.shared.killed.load(Ordering::Relaxed);
        // It can be reaped only once its tracer has seen the end of its threads.
        kill_pidfd(process.child().pidfd()).unwrap();
        self.thread.join().unwrap().unwrap();
        process.kill();
        killed
    }
}

/// What is done before the kill.
type Look = Box<dyn FnMut() + Send>;

struct Job {
    pid: u32,
    pidfd: OwnedFd,
    kill_at: Option<u64>,
    look: Look,
    shared: Arc<Shared>,
}

impl Job {
    /// Counts a step. Returns whether it is the one to be killed at.
    fn count(&mut self) -> bool {
        let taken = self.shared.taken.fetch_add(1, Ordering::Relaxed) + 1;
        let is_last = self.kill_at == Some(taken);
        if is_last {
            (self.look)();
        }
        self.shared.killed.fetch_or(is_last, Ordering::Relaxed);
        is_last
    }

    fn run_by_system_call(mut self, attached: &mpsc::Sender<()>) -> Result<(), Refusal> {
        let mut tracer = Tracer::seize(self.pid)?;
        let _ = attached.send(());
        while tracer.next_event()?.is_some() {
            if self.count() {
                kill_pidfd(&self.pidfd).unwrap();
            }
        }
        Ok(())
    }

    fn run_by_instruction(mut self, tid: i32, attached: &mpsc::Sender<()>) -> Result<(), Refusal> {
        let mut stepper = Stepper::seize(self.pid, tid)?;
        let _ = attached.send(());
        loop {
            match stepper.step(LOOK)? {
                Step::Done if self.count() => {
                    stepper.kill(&self.pidfd).unwrap();
                    return Ok(());
                }
                Step::Done | Step::Waits => {}
                Step::Ended => return Ok(()),
            }
        }
    }
}

/// The steps of `total` at which a test kills: all, or a random sample of `NEARCALL_STEPS`, or of
/// `kills` without it.
pub(crate) fn sample(total: u64, kills: u64, random: &mut fastrand::Rng) -> Vec<u64> {
    let kills = number("NEARCALL_STEPS", kills);
    match kills >= total {
        true => (1..=total).collect(),
        false => (0..kills).map(|_| random.u64(1..=total)).collect(),
    }
}

/// The generator of a test, from `NEARCALL_SEED` or from chance, with the seed in a line.
pub(crate) fn random(test: &str) -> fastrand::Rng {
    let seed = number("NEARCALL_SEED", fastrand::u64(..));
    eprintln!("{test}: NEARCALL_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}
