#![allow(unsafe_code, reason = "asks for descriptors that threads which wait have borrowed")]
//! The threads of a simulation, what each waits for, and which one runs next.
//!
//! **Invariants:** one thread runs at a time; which one follows from the seed and from what the
//! threads have done. Time passes only when a step takes some, or when no thread can run.
//! **Not here:** passing the turn from thread to thread (`simulation.rs`).

use std::collections::{BTreeSet, VecDeque};
use std::os::fd::{BorrowedFd, RawFd};
use std::thread::{JoinHandle, Thread};

use rustix::event::{PollFd, PollFlags};
use rustix::time::Timespec;

use super::faults::Dice;
use super::memory::{Mappings, WordKey};

/// What a thread waits for, beside its deadline.
#[derive(Debug)]
pub(super) enum Wait {
    /// Only the deadline.
    Time,
    /// A wake-up of a word.
    Word { key: WordKey, is_woken: bool },
    /// Any of these descriptors.
    Ready(Vec<(RawFd, PollFlags)>),
    /// The end of all threads of a process.
    End(usize),
}

/// What a thread does.
#[derive(Debug)]
pub(super) enum Status {
    /// It runs, or could.
    Runnable,
    /// It waits, until this time in nanoseconds at most.
    Waits(Wait, u64),
    Ended,
}

/// Why a thread runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// What it has waited for is there; or it waited for nothing.
    Ready,
    TimedOut,
}

pub(super) struct SimThread {
    pub(super) name: String,
    pub(super) process: usize,
    pub(super) status: Status,
    pub(super) cause: Cause,
    /// To wake it up for its turn.
    pub(super) thread: Option<Thread>,
    pub(super) join: Option<JoinHandle<()>>,
}

/// A process of the simulation: threads that die and stop together.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Process {
    pub(super) is_dead: bool,
    pub(super) stopped_until_ns: u64,
    /// The chance in a million that a call writes wrong bytes.
    pub(super) hostile: u32,
}

pub(super) struct State {
    pub(super) dice: Dice,
    pub(super) now_ns: u64,
    pub(super) steps: u64,
    pub(super) steps_max: u64,
    /// A hash of everything that was decided.
    pub(super) trace: u64,
    pub(super) threads: Vec<SimThread>,
    pub(super) processes: Vec<Process>,
    pub(super) mappings: Mappings,
    /// The descriptors of which the kernel has told that bytes can be received, until none can.
    pub(super) told: BTreeSet<RawFd>,
    /// The thread that has ended and whose thread-local values are being dropped.
    pub(super) leaving: Option<JoinHandle<()>>,
    /// Why the first thread has to give up.
    pub(super) stuck: Option<String>,
    /// Panics of threads.
    pub(super) failures: Vec<String>,
    /// What went wrong lately.
    log: VecDeque<String>,
    candidates: Vec<(usize, Cause)>,
}

/// The time at which a simulation begins, in nanoseconds: not zero, which means "now" elsewhere.
const START_NS: u64 = 1_000_000_000;

impl State {
    pub(super) fn new(seed: u64, steps_max: u64) -> Self {
        Self {
            dice: Dice::new(seed),
            now_ns: START_NS,
            steps: 0,
            steps_max,
            trace: seed,
            threads: Vec::new(),
            processes: vec![Process::default()],
            mappings: Mappings::default(),
            told: BTreeSet::new(),
            leaving: None,
            stuck: None,
            failures: Vec::new(),
            log: VecDeque::new(),
            candidates: Vec::new(),
        }
    }

    pub(super) fn add_thread(&mut self, name: &str, process: usize) -> usize {
        let (status, cause) = (Status::Runnable, Cause::Ready);
        let (name, thread, join) = (name.to_owned(), None, None);
        self.threads.push(SimThread { name, process, status, cause, thread, join });
        self.threads.len() - 1
    }

    pub(super) fn process_of(&self, thread: usize) -> Process {
        self.processes[self.threads[thread].process]
    }

    pub(super) fn has_ended(&self, process: usize) -> bool {
        let mut threads = self.threads.iter();
        threads.all(|it| it.process != process || matches!(it.status, Status::Ended))
    }

    /// Mixes a number into the trace.
    pub(super) fn note(&mut self, number: u64) {
        // FNV-1a over words: any difference changes all that follows.
        self.trace = (self.trace ^ number).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }

    /// Chooses the thread that runs next, and lets time pass if none can.
    pub(super) fn pick(&mut self) -> usize {
        self.steps += 1;
        let step_ns = self.dice.random.u64(0..STEP_NS_MAX);
        self.now_ns += step_ns;
        if self.steps > self.steps_max && self.stuck.is_none() {
            self.give_up("no end after the most steps that a run may take");
        }
        loop {
            self.find_candidates();
            if !self.candidates.is_empty() {
                break;
            }
            match self.next_moment() {
                Some(ns) => self.now_ns = ns,
                None => self.give_up("every thread waits, and for no time"),
            }
        }
        let chosen = self.dice.random.usize(0..self.candidates.len());
        let (index, cause) = self.candidates[chosen];
        self.note(index as u64);
        self.note(self.now_ns);
        let thread = &mut self.threads[index];
        thread.status = Status::Runnable;
        thread.cause = cause;
        index
    }

    /// Has the first thread run, which panics.
    fn give_up(&mut self, why: &str) {
        self.stuck = Some(format!("{why}:{}", self.describe()));
        self.threads[0].status = Status::Runnable;
    }

    /// Returns what each thread does.
    pub(super) fn describe(&self) -> String {
        let mut text = format!("\n  at {} ns", self.now_ns);
        for SimThread { name, process, status, .. } in &self.threads {
            if !matches!(status, Status::Ended) {
                text += &format!("\n  {name} of process {process}: {status:?}");
            }
        }
        text += "\nafter";
        self.log.iter().for_each(|line| text += &format!("\n  {line}"));
        text
    }

    /// Notes what went wrong in a thread, for [`describe`](Self::describe).
    pub(super) fn log(&mut self, thread: usize, what: &dyn std::fmt::Debug) {
        if self.log.len() == LOGGED_MAX {
            self.log.pop_front();
        }
        let SimThread { name, process, .. } = &self.threads[thread];
        self.log.push_back(format!("{} ns: {name} of {process}: {what:?}", self.now_ns));
    }

    fn find_candidates(&mut self) {
        let ready = self.poll_descriptors();
        let mut ready = ready.into_iter();
        self.candidates.clear();
        for (index, thread) in self.threads.iter().enumerate() {
            let process = self.processes[thread.process];
            let is_ready = match &thread.status {
                Status::Waits(Wait::Ready(fds), _) => {
                    ready.by_ref().take(fds.len()).fold(false, |any, ready| any | ready)
                }
                Status::Waits(Wait::Word { is_woken, .. }, _) => *is_woken,
                Status::Waits(Wait::End(process), _) => self.has_ended(*process),
                Status::Waits(Wait::Time, _) => false,
                Status::Runnable => true,
                Status::Ended => continue,
            };
            let is_stopped = process.stopped_until_ns > self.now_ns && !process.is_dead;
            let is_forced = index == 0 && self.stuck.is_some();
            if is_stopped && !is_forced {
                continue;
            }
            if is_ready || process.is_dead || is_forced {
                self.candidates.push((index, Cause::Ready));
            } else if let Status::Waits(_, until_ns) = thread.status
                && until_ns <= self.now_ns
            {
                self.candidates.push((index, Cause::TimedOut));
            }
        }
        self.wake_without_reason();
    }

    /// Lets a sleeper on a word wake up by chance.
    fn wake_without_reason(&mut self) {
        if !self.dice.happens(self.dice.faults.spurious) {
            return;
        }
        let sleeps = |thread: &SimThread| {
            matches!(thread.status, Status::Waits(Wait::Word { is_woken: false, .. }, _))
        };
        let is_stopped =
            |thread: &SimThread| self.processes[thread.process].stopped_until_ns > self.now_ns;
        let mut threads = self.threads.iter();
        if let Some(index) = threads.position(|thread| sleeps(thread) && !is_stopped(thread))
            && self.candidates.iter().all(|(other, _)| *other != index)
        {
            self.dice.injected.spurious += 1;
            self.candidates.push((index, Cause::Ready));
        }
    }

    /// Asks the kernel which of the descriptors that are waited for are ready, in the order of the
    /// threads.
    fn poll_descriptors(&self) -> Vec<bool> {
        let mut fds = Vec::new();
        for thread in &self.threads {
            let Status::Waits(Wait::Ready(waited), _) = &thread.status else { continue };
            for (fd, flags) in waited {
                // SAFETY: the thread that waits has borrowed the descriptor for its wait.
                let fd = unsafe { BorrowedFd::borrow_raw(*fd) };
                fds.push(PollFd::from_borrowed_fd(fd, *flags));
            }
        }
        if !fds.is_empty() {
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            let _ = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&at_once)));
        }
        fds.iter().map(|fd| !fd.revents().is_empty()).collect()
    }

    /// Returns when the next thread can run, if none can now.
    fn next_moment(&self) -> Option<u64> {
        let moments = self.threads.iter().filter_map(|thread| {
            let stopped_until_ns = self.processes[thread.process].stopped_until_ns;
            match &thread.status {
                Status::Ended => None,
                // Stopped, or it would run.
                Status::Runnable => Some(stopped_until_ns),
                Status::Waits(_, until_ns) if stopped_until_ns > self.now_ns => {
                    Some(stopped_until_ns)
                }
                Status::Waits(_, until_ns) => Some(*until_ns),
            }
        });
        moments.filter(|ns| *ns != u64::MAX).min()
    }
}

/// What is kept of what went wrong.
const LOGGED_MAX: usize = 30;

/// The most that one step takes, in nanoseconds.
const STEP_NS_MAX: u64 = 2_000;
