//! What runs beside a cell on purpose: starts workers before a launch and ends them after it.
//!
//! Workers are processes of our own program.
//! **Invariants:** those that [`Loads::start`] started are gone when the [`Workers`] are, whatever
//! happened between; if this process dies, the kernel ends them. A load that is less than was asked
//! for is reported as it was ([`LoadAchieved::not_reached`]).
//! **Not here:** what a worker does (`load/worker.rs`), a duty cycle (`load/duty.rs`), what figures
//! become of the samples (`load/achieved.rs`).
//!
//! **Invariant:** a load is stored as it was achieved, and its workers have ended when the launch
//! is over, however it ended. *Checked by*
//! `workers_are_gone_also_after_a_failed_and_an_interrupted_launch`.

mod achieved;
mod board;
mod duty;
pub(crate) mod worker;

use std::io;
use std::process::Stdio;
use std::time::Duration;

use nearcall_os::cpu_load::{CpuTimes, cpu_times, ticks_per_s};
use nearcall_os::process::Child;
use nearcall_os::{clock, counters, procfs_memory};

pub(crate) use achieved::achieved;

use self::board::{Counts, SharedState, State};
use self::duty::{PERIOD_NS, Steering};
use crate::conditions::Load;
use crate::launch::{Work, WorkerRequest};
use crate::runner::processes::Program;

/// Starts loads, all in the same way during one run.
pub(crate) struct Loads<'a> {
    program: &'a Program,
    /// The CPUs that a load is for.
    cpus: Vec<usize>,
    calibrated: Vec<Calibrated>,
}

/// A duty cycle as the workers of this machine must be told it.
#[derive(Clone, Debug)]
struct Calibrated {
    load: Load,
    /// One per CPU.
    steerings: Vec<Steering>,
}

impl<'a> Loads<'a> {
    /// For all of `cpus`. Starts nothing yet.
    pub(crate) fn new(program: &'a Program, cpus: Vec<usize>) -> Self {
        Self { program, cpus, calibrated: Vec::new() }
    }

    /// Finds out how busy the workers of `load` must be, with nothing measured beside them. Once
    /// per duty cycle and run; 1 to 3 seconds. Other loads need nothing of the kind.
    pub(crate) fn calibrate(&mut self, load: Load, interrupted: &dyn Fn() -> bool) {
        if load.duty_percent == 0 || self.calibrated.iter().any(|known| known.load == load) {
            return;
        }
        let new = |&cpu: &usize| Steering::new(cpu, load.duty_percent);
        let mut steerings: Vec<Steering> = self.cpus.iter().map(new).collect();
        let workers = self.start(load, 0);
        for _ in 0..CALIBRATION_ROUNDS {
            let Some(busy_percent) = busy_percent(&self.cpus, CALIBRATION, interrupted) else {
                break;
            };
            let mut near = true;
            for (steering, found) in steerings.iter_mut().zip(busy_percent) {
                near &= found.is_none_or(|found| steering.correct(found));
                // By its CPU: one that did not start leaves no place behind.
                let is_its = |worker: &&Worker| worker.work.cpu() == Some(steering.cpu);
                if let Some(worker) = workers.all.iter().find(is_its) {
                    worker.board.set_busy_ns(steering.busy_ns(PERIOD_NS));
                }
            }
            if near {
                break;
            }
        }
        drop(workers);
        self.calibrated.push(Calibrated { load, steerings });
    }

    /// Starts `load` and returns when all of its workers are at work, or have said that they
    /// cannot. `seed` decides where in its period each duty cycle begins.
    pub(crate) fn start(&self, load: Load, seed: u64) -> Workers {
        let mut rng = fastrand::Rng::with_seed(seed);
        let calibrated = self.calibrated.iter().find(|known| known.load == load);
        let mut workers = Workers {
            load,
            all: Vec::new(),
            problems: Vec::new(),
            calibrated: calibrated.cloned(),
            since_ns: 0,
        };
        let mut works = Vec::new();
        for &cpu in &self.cpus {
            if load.duty_percent > 0 {
                let defaults = Steering::new(cpu, load.duty_percent);
                let of_cpu = |one: &&Steering| one.cpu == cpu;
                let steering = calibrated.and_then(|known| known.steerings.iter().find(of_cpu));
                let busy_ns = steering.unwrap_or(&defaults).busy_ns(PERIOD_NS);
                let phase_ns = rng.u64(..PERIOD_NS);
                works.push(Work::Duty { cpu, period_ns: PERIOD_NS, busy_ns, phase_ns });
            }
            works.extend(load.cpu.then_some(Work::Cpu));
        }
        if load.memory {
            works.push(Work::Memory { bytes: workers.memory_bytes() });
        }
        works.extend(load.io.then_some(Work::Io));
        for work in works {
            match Worker::start(self.program, work) {
                Ok(worker) => workers.all.push(worker),
                Err(error) => workers.problems.push(format!("a worker did not start: {error}")),
            }
        }
        workers.come_up();
        workers
    }
}

/// Processes that make a load. They end when this is dropped.
pub(crate) struct Workers {
    load: Load,
    all: Vec<Worker>,
    /// Why the load is less than was asked for.
    problems: Vec<String>,
    calibrated: Option<Calibrated>,
    /// When they were up.
    since_ns: u64,
}

/// What the workers of one launch did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    load: Load,
    observed_ns: u64,
    all: Vec<Did>,
    problems: Vec<String>,
    /// What each CPU was found to be busy in the calibration, and what its worker shall use.
    steerings: Vec<Steering>,
}

/// What one worker did.
#[derive(Clone, Copy, Debug)]
struct Did {
    work: Work,
    cpu_ns: u64,
    counts: Counts,
}

impl Workers {
    /// As `stress` is usually told, but never so much that the machine has to swap.
    fn memory_bytes(&mut self) -> u64 {
        let available = procfs_memory::available_bytes().unwrap_or(u64::MAX);
        let bytes = MEMORY_BYTES.min(available / MEMORY_PART);
        if bytes < MEMORY_BYTES {
            let mib = bytes >> 20;
            self.problems.push(format!("the memory worker has only {mib} MiB, little is free"));
        }
        bytes
    }

    /// Waits until each worker works or has failed; those that have are ended.
    fn come_up(&mut self) {
        let until_ns = clock::monotonic_ns().saturating_add(COME_UP_NS);
        let is_starting = |worker: &Worker| worker.board.state() == State::Starting;
        while self.all.iter().any(is_starting) && clock::monotonic_ns() < until_ns {
            clock::pause(COME_UP_POLL);
        }
        let problems = &mut self.problems;
        self.all.retain(|worker| match worker.board.state() {
            State::Up => {
                let said = worker.board.said();
                problems.extend(said.map(|reason| format!("{}: {reason}", worker.work.name())));
                true
            }
            State::Starting => {
                problems.push(format!("{} was not up in time", worker.work.name()));
                false
            }
            State::Failed(reason) => {
                problems.push(format!("{}: {reason}", worker.work.name()));
                false
            }
        });
        for worker in &mut self.all {
            worker.before = worker.now();
        }
        self.since_ns = clock::monotonic_ns();
    }

    /// Ends the workers and says what they did.
    pub(crate) fn end(mut self) -> Sample {
        let observed_ns = clock::monotonic_ns().saturating_sub(self.since_ns);
        let mut all = Vec::new();
        for worker in &mut self.all {
            let ((cpu_ns, counts), (cpu_ns_before, before)) = (worker.now(), worker.before);
            all.push(Did {
                work: worker.work,
                cpu_ns: cpu_ns.saturating_sub(cpu_ns_before),
                counts: Counts {
                    bytes: counts.bytes.saturating_sub(before.bytes),
                    syncs: counts.syncs.saturating_sub(before.syncs),
                },
            });
            if let Ok(Some(status)) = worker.child.wait(Some(Duration::ZERO)) {
                let reason = match worker.board.state() {
                    State::Failed(reason) => reason,
                    State::Starting | State::Up => format!("ended with {status}"),
                };
                self.problems.push(format!("{}: {reason}", worker.work.name()));
            }
        }
        let calibrated = self.calibrated.take();
        Sample {
            load: self.load,
            observed_ns,
            all,
            problems: std::mem::take(&mut self.problems),
            steerings: calibrated.map(|known| known.steerings).unwrap_or_default(),
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // All are told first, then each is waited for: a large one takes a while to go. A failure
        // here is one of the wait that follows with the child's own drop.
        for worker in &self.all {
            let _ = nearcall_os::process::kill_pidfd(worker.child.pidfd());
        }
    }
}

/// One process.
struct Worker {
    work: Work,
    child: Child,
    board: SharedState,
    before: (u64, Counts),
}

impl Worker {
    fn start(program: &Program, work: Work) -> io::Result<Self> {
        let request = serde_json::to_string(&WorkerRequest::Load(work))?;
        let (board, input) = SharedState::create(&format!("{request}\n"))?;
        let mut command = program.command(0);
        command.stdin(input).stdout(Stdio::null()).stderr(Stdio::null());
        let child = Child::spawn(&mut command)?;
        Ok(Self { work, child, board, before: Default::default() })
    }

    /// CPU time and counts up to now. A worker that is gone has used nothing more that is known.
    fn now(&self) -> (u64, Counts) {
        let cpu_ns = counters::process_cpu_ns_of(self.child.pid()).unwrap_or(0);
        (cpu_ns, self.board.counts())
    }
}

impl Work {
    fn name(self) -> String {
        match self {
            Self::Cpu => "the cpu worker".to_owned(),
            Self::Memory { .. } => "the memory worker".to_owned(),
            Self::Io => "the io worker".to_owned(),
            Self::Duty { cpu, .. } => format!("the worker of CPU {cpu}"),
        }
    }
}

/// How busy each CPU is during `duration`, in percent; `None` for one that is not told. `None` as a
/// whole when interrupted.
fn busy_percent(
    cpus: &[usize],
    duration: Duration,
    interrupted: &dyn Fn() -> bool,
) -> Option<Vec<Option<f64>>> {
    let begin_ns = clock::monotonic_ns();
    let before = cpu_times();
    let until_ns = begin_ns.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    loop {
        let left_ns = until_ns.saturating_sub(clock::monotonic_ns());
        if (interrupted)() {
            return None;
        }
        if left_ns == 0 {
            break;
        }
        clock::pause(Duration::from_nanos(left_ns.min(INTERRUPT_POLL_NS)));
    }
    let after = cpu_times();
    let elapsed_ns = clock::monotonic_ns().saturating_sub(begin_ns);
    let busy = |&cpu: &usize| busy_part(&before, &after, cpu, elapsed_ns, ticks_per_s());
    Some(cpus.iter().map(busy).collect())
}

/// From idle time, which the kernel counts exactly; busy time it samples at ticks, and a duty cycle
/// that keeps step with the ticks would fool it.
fn busy_part(
    before: &[CpuTimes],
    after: &[CpuTimes],
    cpu: usize,
    elapsed_ns: u64,
    ticks_per_s: u64,
) -> Option<f64> {
    let idle = |times: &[CpuTimes]| times.iter().find(|one| one.cpu == cpu).map(|one| one.idle);
    let ticks = idle(after)?.saturating_sub(idle(before)?);
    if elapsed_ns == 0 || ticks_per_s == 0 {
        return None;
    }
    let idle_percent = ticks as f64 * 1e11 / ticks_per_s as f64 / elapsed_ns as f64;
    Some((100.0 - idle_percent).clamp(0.0, 100.0))
}

/// As `stress --vm-bytes 128M`.
const MEMORY_BYTES: u64 = 128 << 20;

/// Of what is free, the memory worker takes at most one in so many.
const MEMORY_PART: u64 = 4;

/// A worker needs some milliseconds; on a crowded machine more.
const COME_UP_NS: u64 = 2_000_000_000;

/// Short beside what a worker needs.
const COME_UP_POLL: Duration = Duration::from_micros(200);

/// `/proc/stat` counts in hundredths of a second: this gives one percent.
const CALIBRATION: Duration = Duration::from_secs(1);

/// The first finds what else runs here, the second checks the correction.
const CALIBRATION_ROUNDS: u32 = 3;

/// How often an interruption is looked for.
const INTERRUPT_POLL_NS: u64 = 50_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_is_what_is_not_idle() {
        let times = |idle: u64| [CpuTimes { cpu: 3, busy: 0, idle, steal: 0 }];
        let busy = |idle: u64| busy_part(&times(100), &times(100 + idle), 3, 1_000_000_000, 100);
        assert_eq!(busy(65), Some(35.0));
        assert_eq!((busy(0), busy(102)), (Some(100.0), Some(0.0)));
        assert_eq!(busy_part(&times(0), &times(1), 4, 1_000, 100), None);
        assert_eq!(busy_part(&times(0), &times(1), 3, 0, 100), None);
    }
}
