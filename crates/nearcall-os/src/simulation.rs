#![allow(unsafe_code, reason = "reads what rustix keeps to itself")]
//! A simulation: real threads with real descriptors and memory, of which one runs at a time, as a
//! seed decides; time is a number, and system calls fail by chance. For tests, under
//! `--cfg simulation`.
//!
//! A thread of the simulation passes its turn on at each system call that could wait, and may do so
//! at each that moves bytes. What it waits for is judged without waiting; when no thread can run,
//! time jumps to the next moment that one waits for. A thread is part of a process: the threads of
//! one die and stop together. To die is to unwind: whatever the thread still calls fails, and its
//! descriptors close.
//! **Invariants:** the same seed and program give the same run: [`Report::trace`] shows it. One
//! simulation runs at a time. Nothing is decided by the kernel's scheduler, its clock, or chance.
//! **Not here:** what is simulated (tests of `nearcall`); waits of the standard library: a thread
//! that waits for another one by a lock or a condition variable stops the simulation.
//!
//! **Invariant:** the same seed gives the same run. *Checked by* `a_seed_gives_the_same_run_again`,
//! by a hash of every decision.

mod faults;
mod memory;
mod schedule;

use std::any::Any;
use std::borrow::Cow;
use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use self::faults::Fault;
pub use self::faults::{Faults, Injected};
use self::schedule::{Cause, State, Status, Wait};
use crate::system_call::Call;

/// A process of the simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    run: u64,
    index: usize,
}

impl Process {
    fn new(index: usize) -> Self {
        Self { run: RUN.load(Ordering::Relaxed), index }
    }

    /// Returns whether both are of the same simulation.
    #[must_use]
    pub fn is_beside(self, other: Self) -> bool {
        self.run == other.run
    }
}

/// What has happened in a simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Decisions on which thread runs.
    pub steps: u64,
    /// A hash of all decisions.
    pub trace: u64,
    /// The time that has passed, in nanoseconds.
    pub elapsed_ns: u64,
    /// What went wrong by chance.
    pub injected: Injected,
    /// The panics of threads.
    pub failures: Vec<String>,
    /// The descriptors that are open although everything has ended.
    pub left: Vec<String>,
}

/// What a killed thread unwinds with.
struct Killed;

static STATE: Mutex<Option<State>> = Mutex::new(None);
/// The thread that runs.
static TURN: AtomicUsize = AtomicUsize::new(0);
/// Counts the steps of all simulations, to see from outside whether one goes on.
static PROGRESS: AtomicU64 = AtomicU64::new(0);
/// Counts the simulations.
static RUN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The number of this thread in the simulation.
    static ME: Cell<Option<usize>> = const { Cell::new(None) };
}

fn lock() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `act` with the state and the number of this thread, if it is one of the simulation.
fn with<T>(act: impl FnOnce(&mut State, usize) -> T) -> Option<T> {
    let me = ME.get()?;
    lock().as_mut().map(|state| act(state, me))
}

/// Runs `main` as the first thread of a simulation, in a process without faults, and then ends all
/// other threads.
///
/// # Panics
///
/// If `main` panics; if no thread can ever run again, or after `steps_max` steps, in `main`.
pub fn run<T>(seed: u64, steps_max: u64, main: impl FnOnce() -> T) -> (Report, T) {
    static RUNNING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let open_before = open_descriptors();
    RUN.fetch_add(1, Ordering::Relaxed);
    let mut state = State::new(seed, steps_max);
    let me = state.add_thread("main", 0);
    state.threads[me].thread = Some(std::thread::current());
    *lock() = Some(state);
    TURN.store(me, Ordering::Release);
    ME.set(Some(me));
    let start_ns = now_ns().unwrap_or(0);
    let outcome = catch_unwind(AssertUnwindSafe(main));
    let ended = catch_unwind(end_all);
    ME.set(None);
    let state = lock().take();
    let mut left = open_descriptors();
    left.retain(|open| !open_before.contains(open));
    let report = state.map(|state| Report {
        steps: state.steps,
        trace: state.trace,
        elapsed_ns: state.now_ns - start_ns,
        injected: state.dice.injected,
        failures: state.failures,
        left,
    });
    match (outcome, ended, report) {
        (Ok(value), Ok(()), Some(report)) => (report, value),
        (Err(panic), ..) | (_, Err(panic), _) => resume_unwind(panic),
        (_, _, None) => unreachable!("the state is taken here only"),
    }
}

/// Returns what the descriptors of this program are, with their numbers.
fn open_descriptors() -> Vec<String> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let target = std::fs::read_link(entry.path()).ok()?;
        let is_listing = target.starts_with("/proc/") && target.ends_with("fd");
        let number = entry.file_name();
        (!is_listing).then(|| format!("{}: {}", number.display(), target.display()))
    });
    named.collect()
}

/// Kills all processes but this one, and waits until their threads have ended.
fn end_all() {
    let count = with(|state, _| {
        state.stuck = None;
        state.steps_max = state.steps + TEARDOWN_STEPS_MAX;
        state.processes.iter_mut().skip(1).for_each(|process| process.is_dead = true);
        state.processes.len()
    });
    for process in 1..count.unwrap_or(1) {
        wait_ended(Process::new(process), Duration::MAX);
    }
}

/// Returns a number that grows as long as a simulation goes on. For a thread outside.
pub fn progress() -> u64 {
    PROGRESS.load(Ordering::Relaxed)
}

/// Creates a process without threads.
#[must_use]
pub fn new_process() -> Process {
    let index = with(|state, _| {
        state.processes.push(schedule::Process::default());
        state.processes.len() - 1
    });
    Process::new(index.unwrap_or(0))
}

/// Returns the process of this thread; `None` outside of a simulation.
#[must_use]
pub fn current_process() -> Option<Process> {
    with(|state, me| Process::new(state.threads[me].process))
}

/// Starts a thread in a process.
///
/// # Errors
///
/// The process was killed, or the kernel has no thread.
pub fn start(process: Process, name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let index = with(|state, _| {
        let is_dead = state.processes[process.index].is_dead;
        (!is_dead).then(|| state.add_thread(name, process.index))
    });
    let Some(Some(index)) = index else { return Err(io::ErrorKind::OutOfMemory.into()) };
    let run = move || {
        ME.set(Some(index));
        wait_for_turn(index);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            resume();
            body();
        }));
        leave(outcome);
    };
    let started = std::thread::Builder::new().name(name.to_owned()).spawn(run);
    let handle = started.inspect_err(|_| {
        with(|state, _| state.threads[index].status = Status::Ended);
    })?;
    with(|state, _| {
        let thread = &mut state.threads[index];
        thread.thread = Some(handle.thread().clone());
        thread.join = Some(handle);
    });
    Ok(())
}

/// Starts a thread in the process of this thread; gives `body` back outside of a simulation.
pub(crate) fn start_beside<F: FnOnce() + Send + 'static>(
    name: &str,
    body: F,
) -> Result<io::Result<()>, F> {
    match current_process() {
        Some(process) => Ok(start(process, name, body)),
        None => Err(body),
    }
}

/// Passes the turn on at the end of a thread. The next one waits until this one is gone.
fn leave(outcome: Result<(), Box<dyn Any + Send>>) {
    let next = with(|state, me| {
        if let Err(panic) = outcome
            && !panic.is::<Killed>()
        {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let (name, text) = (&state.threads[me].name, text.unwrap_or_default());
            state.failures.push(format!("{name}: {text}"));
        }
        state.threads[me].status = Status::Ended;
        state.leaving = state.threads[me].join.take();
        let next = state.pick();
        (next, state.threads[next].thread.clone())
    });
    if let Some((next, thread)) = next {
        give_turn(next, thread);
    }
}

fn give_turn(next: usize, thread: Option<std::thread::Thread>) {
    TURN.store(next, Ordering::Release);
    if let Some(thread) = thread {
        thread.unpark();
    }
}

fn wait_for_turn(me: usize) {
    while TURN.load(Ordering::Acquire) != me {
        std::thread::park();
    }
}

/// Passes the turn on with this status, and returns when it comes back.
fn pass_turn(status: Status) -> Cause {
    PROGRESS.fetch_add(1, Ordering::Relaxed);
    let next = with(|state, me| {
        state.threads[me].status = status;
        let next = state.pick();
        (me, next, state.threads[next].thread.clone())
    });
    let Some((me, next, thread)) = next else { return Cause::Ready };
    if next != me {
        give_turn(next, thread);
        wait_for_turn(me);
    }
    resume()
}

/// Takes up the turn: waits for the thread that has ended before, and dies if it has to.
fn resume() -> Cause {
    let leaving = with(|state, _| state.leaving.take()).flatten();
    if let Some(leaving) = leaving {
        let _ = leaving.join();
    }
    let (cause, is_dead, stuck) = with(|state, me| {
        let stuck = if me == 0 { state.stuck.clone() } else { None };
        (state.threads[me].cause, state.process_of(me).is_dead, stuck)
    })
    .unwrap_or((Cause::Ready, false, None));
    if !std::thread::panicking() {
        if let Some(stuck) = stuck {
            std::panic::panic_any(stuck);
        }
        if is_dead {
            resume_unwind(Box::new(Killed));
        }
    }
    cause
}

/// Returns whether this thread is dying, or has ended but for its thread-local values.
fn is_leaving() -> bool {
    let is_leaving = with(|state, me| {
        let has_ended = matches!(state.threads[me].status, Status::Ended);
        has_ended || (state.process_of(me).is_dead && std::thread::panicking())
    });
    is_leaving.unwrap_or(false)
}

/// Waits as a thread of the simulation. `None`: this thread is none.
fn wait(what: Wait, until_ns: u64) -> Option<Cause> {
    ME.get()?;
    if is_leaving() {
        return Some(Cause::TimedOut);
    }
    Some(pass_turn(Status::Waits(what, until_ns)))
}

/// Kills a process: its threads unwind at their next turns. Nothing that they do meanwhile reaches
/// another process, except that descriptors close.
pub fn kill(process: Process) {
    with(|state, me| {
        if !std::mem::replace(&mut state.processes[process.index].is_dead, true) {
            state.mappings.sever(process.index);
            state.log(me, &("kills", process));
        }
    });
}

/// Returns what each thread does, for people.
#[must_use]
pub fn describe() -> String {
    with(|state, _| state.describe()).unwrap_or_default()
}

/// Stops a process for a while, as SIGSTOP does.
pub fn stop_for(process: Process, duration: Duration) {
    let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    with(|state, _| {
        state.processes[process.index].stopped_until_ns = state.now_ns.saturating_add(ns)
    });
}

/// Lets a process write wrong bytes, by a chance in a million for each of its calls.
pub fn set_hostile(process: Process, chance: u32) {
    with(|state, _| state.processes[process.index].hostile = chance);
}

/// Sets how often calls fail from now on, in all processes but the first.
pub fn set_faults(faults: Faults) {
    with(|state, _| state.dice.faults = faults);
}

/// Returns how many files of memory a process has mapped.
#[must_use]
pub fn mappings(process: Process) -> usize {
    with(|state, _| state.mappings.count(process.index)).unwrap_or(0)
}

/// Waits until all threads of a process have ended. Returns whether they have in time.
pub fn wait_ended(process: Process, timeout: Duration) -> bool {
    let ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    let until_ns = with(|state, _| state.now_ns.saturating_add(ns)).unwrap_or(0);
    wait(Wait::End(process.index), until_ns);
    with(|state, _| state.has_ended(process.index)).unwrap_or(true)
}

/// Returns the time of the simulation, in nanoseconds. A reading takes a moment.
pub(crate) fn now_ns() -> Option<u64> {
    with(|state, _| {
        state.now_ns += CLOCK_NS;
        state.now_ns
    })
}

/// Sleeps in the simulation. False: this thread is in none.
pub(crate) fn pause_until(ns: u64) -> bool {
    wait(Wait::Time, ns).is_some()
}

/// Fails a system call as the seed decides.
pub(crate) fn enter(call: Call) -> Result<(), Errno> {
    match decide(call, true) {
        Some(Fault::Fails(errno)) => Err(errno),
        _ => Ok(()),
    }
}

/// Decides whether a call of this thread fails.
fn decide(call: Call, may_wait: bool) -> Option<Fault> {
    with(|state, me| {
        state.note(call as u64);
        let process = state.threads[me].process;
        let is_ended = matches!(state.threads[me].status, Status::Ended);
        let moves = matches!(
            call,
            Call::Send
                | Call::Ring
                | Call::SendPacket
                | Call::Receive
                | Call::ReceivePacket
                | Call::Connect
        );
        if state.processes[process].is_dead && moves {
            // Nothing leaves a process that has died.
            return Some(Fault::Fails(Errno::PIPE));
        }
        // What a test itself does always works; thread-local values are dropped without failures.
        if process == 0 || is_ended {
            return None;
        }
        if state.dice.happens(state.dice.faults.delay) {
            state.dice.injected.delay += 1;
            state.now_ns += state.dice.random.u64(0..DELAY_NS_MAX);
        }
        let hostile = state.processes[process].hostile;
        if state.dice.happens(hostile)
            && state.mappings.write_wrong_word(process, &mut state.dice.random)
        {
            state.dice.injected.mangled += 1;
            state.log(me, &"a wrong word");
        }
        let fault = state.dice.fault(call, may_wait);
        if let Some(fault) = &fault {
            state.log(me, &(call, fault));
        }
        fault
    })
    .flatten()
}

/// Runs a system call that moves bytes or accepts; other threads may run before. One that may wait
/// does so in the simulation.
pub(crate) fn transfer<T>(
    call: Call,
    fd: BorrowedFd<'_>,
    must_not_wait: bool,
    mut run: impl FnMut(bool) -> Result<T, Errno>,
) -> Result<T, Errno> {
    if ME.get().is_none() {
        return run(must_not_wait);
    }
    if !is_leaving() && with(|state, _| state.dice.random.u8(0..4) == 0).unwrap_or(false) {
        pass_turn(Status::Runnable);
    }
    // The kernel finds what it has told of.
    let is_there = call == Call::Receive
        && with(|state, _| state.told.contains(&fd.as_raw_fd())).unwrap_or(false);
    match decide(call, !must_not_wait || is_there) {
        Some(Fault::Fails(errno)) => return Err(errno),
        Some(Fault::Breaks) => {
            let _ = rustix::net::shutdown(fd, rustix::net::Shutdown::Both);
        }
        None => {}
    }
    let flags = match call {
        Call::Send | Call::Ring | Call::SendPacket => PollFlags::OUT,
        _ => PollFlags::IN,
    };
    loop {
        let outcome = run(true);
        if let (Call::Receive, Err(Errno::AGAIN)) = (call, &outcome) {
            with(|state, _| state.told.remove(&fd.as_raw_fd()));
        }
        match outcome {
            Err(Errno::AGAIN) if !must_not_wait => {
                if is_leaving() {
                    return Err(Errno::PIPE);
                }
                wait(Wait::Ready(vec![(fd.as_raw_fd(), flags)]), u64::MAX);
            }
            outcome => return outcome,
        }
    }
}

/// Notes that the kernel has told of bytes that can be received.
pub(crate) fn note_queued(fd: BorrowedFd<'_>) {
    with(|state, _| state.told.insert(fd.as_raw_fd()));
}

/// Returns how many bytes a call may move.
pub(crate) fn shorten(call: Call, bytes: usize) -> usize {
    let is_stream = matches!(call, Call::Send | Call::Receive);
    let shorter = with(|state, me| {
        let has_faults = state.threads[me].process != 0 && is_stream && bytes > 1;
        (has_faults && state.dice.happens(state.dice.faults.partial)).then(|| {
            state.dice.injected.partial += 1;
            state.dice.random.usize(1..bytes)
        })
    });
    shorter.flatten().unwrap_or(bytes)
}

/// Returns what leaves in the place of `bytes`: something else if the process is hostile.
pub(crate) fn mangle(bytes: &[u8]) -> Cow<'_, [u8]> {
    let mangled = with(|state, me| {
        let hostile = state.process_of(me).hostile;
        if bytes.is_empty() || !state.dice.happens(hostile) {
            return None;
        }
        state.dice.injected.mangled += 1;
        let mut mangled = bytes.to_vec();
        let place = state.dice.random.usize(0..bytes.len().min(MANGLED_REACH));
        mangled[place] = state.dice.random.u8(..);
        Some(mangled)
    });
    mangled.flatten().map_or(Cow::Borrowed(bytes), Cow::Owned)
}

/// Waits in the simulation until `fd` is ready. False: this thread is in none.
pub(crate) fn wait_ready(fd: BorrowedFd<'_>, flags: PollFlags, until_ns: u64) -> bool {
    wait_any_ready(&[PollFd::from_borrowed_fd(fd, flags)], until_ns)
}

/// As [`wait_ready`], for any of some descriptors. What needs no waiting is not waited for.
pub(crate) fn wait_any_ready(fds: &[PollFd<'_>], until_ns: u64) -> bool {
    if until_ns == 0 {
        return false;
    }
    let fds: Vec<_> = fds.iter().map(|fd| (raw(fd), events(fd))).collect();
    wait(Wait::Ready(fds), until_ns).is_some()
}

fn raw(fd: &PollFd<'_>) -> i32 {
    use std::os::fd::AsFd;
    fd.as_fd().as_raw_fd()
}

/// The events that are waited for, which rustix keeps to itself but prints.
fn events(fd: &PollFd<'_>) -> PollFlags {
    // SAFETY: `PollFd` is a `repr(transparent)` form of the kernel's `pollfd`.
    let kernels: libc::pollfd = unsafe { std::ptr::read(std::ptr::from_ref(fd).cast()) };
    PollFlags::from_bits_truncate(kernels.events.cast_unsigned())
}

/// Sleeps on a word of memory. Returns whether it was woken in time, and `None` if the word had
/// changed before; in all `None` if this thread is in no simulation.
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, until_ns: u64) -> Option<Option<bool>> {
    let key = with(|state, _| state.mappings.key(std::ptr::from_ref(word).addr()))?;
    if word.load(Ordering::Relaxed) != expected {
        return Some(None);
    }
    let cause = wait(Wait::Word { key, is_woken: false }, until_ns)?;
    Some(Some(cause == Cause::Ready))
}

/// Wakes sleepers of a word. `None`: this thread is in no simulation.
pub(crate) fn futex_wake(word: &AtomicU32, count: u32) -> Option<usize> {
    with(|state, me| {
        let key = state.mappings.key(std::ptr::from_ref(word).addr());
        let is_dead = state.process_of(me).is_dead;
        let mut woken = 0;
        for thread in &mut state.threads {
            if let Status::Waits(Wait::Word { key: other, is_woken }, _) = &mut thread.status
                && *other == key
                && !*is_woken
                && !is_dead
                && woken < count as usize
            {
                *is_woken = true;
                woken += 1;
            }
        }
        woken
    })
}

/// Notes a mapping of a file of memory.
pub(crate) fn note_mapping(start: usize, bytes: usize, fd: BorrowedFd<'_>, writable: bool) {
    if ME.get().is_none() {
        return;
    }
    let file = rustix::fs::fstat(fd).map_or(0, |status| status.st_ino);
    with(|state, me| {
        let process = state.threads[me].process;
        state.mappings.add(start, bytes, file, process, writable);
    });
}

/// Forgets a mapping.
pub(crate) fn forget_mapping(start: usize) {
    with(|state, _| state.mappings.remove(start));
}

/// The time that a reading of the clock takes, in nanoseconds.
const CLOCK_NS: u64 = 30;

/// The longest delay before a call, in nanoseconds: longer than the short deadlines of callers.
const DELAY_NS_MAX: u64 = 5_000_000;

/// The first bytes of a message, of which one is changed: headers stand there.
const MANGLED_REACH: usize = 64;

/// The steps that the end of all threads may take.
const TEARDOWN_STEPS_MAX: u64 = 1_000_000;
