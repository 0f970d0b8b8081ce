//! Runs one thread of another process instruction by instruction.
//!
//! **Invariants:** the other threads of the process run on; a stepper belongs to the thread that
//! made it. A thread that waits in the kernel is not interrupted: its step ends when the system
//! call does.
//! **Not here:** system calls as events (`ptrace.rs`).

use std::io;
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::time::Duration;

use super::{Refusal, What, is_group_stop, ptrace, reap, refusal, wait};
use crate::clock;
use crate::deadline::Deadline;
use crate::process::kill_pidfd;

/// Looks at a thread that makes a step, before the looks become rare: a step takes some
/// microseconds.
const LOOKS_WITHOUT_PAUSE: u32 = 2000;
/// Pause between two looks at a thread that waits in the kernel.
const PAUSE: Duration = Duration::from_micros(50);
/// Longest wait for a thread that is to stop inside a system call, on a busy machine.
const INTERRUPTED_WITHIN: Duration = Duration::from_secs(1);

/// Runs one thread of another process instruction by instruction, from the thread that made it.
///
/// When it is dropped, the thread runs on untraced.
#[derive(Debug)]
pub struct Stepper {
    leader: libc::pid_t,
    tid: libc::pid_t,
    /// The signal that the thread gets with its next step.
    signal: libc::c_int,
    /// It was resumed and has not stopped since.
    runs: bool,
    /// Only the thread that has seized may ask and continue.
    _not_send: PhantomData<*const ()>,
}

/// The outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// One instruction was executed; a system call counts as one.
    Done,
    /// The step has not ended by the deadline: the thread waits in the kernel. The next step goes
    /// on waiting.
    Waits,
    /// The thread has ended, and nothing more comes of it.
    Ended,
}

impl Stepper {
    /// Stops thread `tid` of process `pid`, wherever it is.
    ///
    /// # Errors
    ///
    /// [`Refusal`].
    pub fn seize(pid: u32, tid: i32) -> Result<Self, Refusal> {
        let leader = libc::pid_t::try_from(pid);
        let leader = leader.map_err(|error| Refusal::Os(io::Error::other(error)))?;
        ptrace(libc::PTRACE_SEIZE, tid, 0, 0).map_err(refusal)?;
        let mut stepper = Self { leader, tid, signal: 0, runs: true, _not_send: PhantomData };
        ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0).map_err(Refusal::Os)?;
        while stepper.wait(Deadline::NEVER)? == Step::Waits {}
        Ok(stepper)
    }

    /// Lets the thread execute one instruction. Some system calls.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn step(&mut self, deadline: impl Into<Deadline>) -> Result<Step, Refusal> {
        if !self.runs {
            let signal = usize::try_from(std::mem::take(&mut self.signal)).unwrap_or(0);
            match ptrace(libc::PTRACE_SINGLESTEP, self.tid, 0, signal) {
                Ok(()) => self.runs = true,
                // It is being killed: its end comes next.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(Refusal::Os(error)),
            }
        }
        self.wait(deadline.into())
    }

    /// Kills the process of the thread, of which `pidfd` is the pidfd. Its parent reaps it.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn kill(mut self, pidfd: impl AsFd) -> io::Result<()> {
        kill_pidfd(pidfd)?;
        self.runs = true;
        self.reap()
    }

    /// Waits for the end of a thread that is killed, and reaps it. The parent reaps a process.
    fn reap(&self) -> io::Result<()> {
        if self.tid == self.leader {
            return Ok(());
        }
        loop {
            // Only the tracer can: it alone is notified of the end of a thread.
            match self.change(libc::WNOWAIT)? {
                Some(What::Ended) => return reap(self.tid),
                // A stop from before.
                _ => self.change(libc::WNOHANG)?,
            };
        }
    }

    fn wait(&mut self, deadline: Deadline) -> Result<Step, Refusal> {
        for look in 0.. {
            match self.change(libc::WNOHANG | libc::WNOWAIT).map_err(Refusal::Os)? {
                Some(What::Ended) => {
                    self.reap().map_err(Refusal::Os)?;
                    return Ok(Step::Ended);
                }
                Some(What::Stopped { status }) => {
                    self.change(libc::WNOHANG).map_err(Refusal::Os)?;
                    self.runs = false;
                    let (signal, event) = (status & 0xff, status >> 8);
                    // A step ends with SIGTRAP, which is not the thread's; an event is no signal.
                    let is_signal = event == 0 && signal != libc::SIGTRAP;
                    self.signal = if is_signal && !is_group_stop(signal) { signal } else { 0 };
                    return Ok(Step::Done);
                }
                None if look < LOOKS_WITHOUT_PAUSE => {}
                None if deadline.has_passed() => break,
                None => clock::pause(PAUSE),
            }
        }
        Ok(Step::Waits)
    }

    /// Looks for a change of the thread, of which a stop is taken without WNOWAIT. A tracer is
    /// notified of stops whatever it asks for.
    fn change(&self, options: libc::c_int) -> io::Result<Option<What>> {
        let id = libc::id_t::try_from(self.tid).map_err(io::Error::other)?;
        let options = options | libc::WSTOPPED | libc::WEXITED | libc::__WALL;
        let info = match wait(libc::P_PID, id, options) {
            // The parent has reaped it.
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
                return Ok(Some(What::Ended));
            }
            info => info?,
        };
        // SAFETY: zero without a change, and otherwise filled in for a child.
        if unsafe { info.si_pid() } == 0 {
            return Ok(None);
        }
        // SAFETY: as above.
        Ok(Some(What::of(info.si_code, unsafe { info.si_status() })))
    }
}

impl Drop for Stepper {
    fn drop(&mut self) {
        // One that was killed in the meantime needs none of this.
        if self.runs && ptrace(libc::PTRACE_INTERRUPT, self.tid, 0, 0).is_ok() {
            let _ = self.wait(Deadline::after(INTERRUPTED_WITHIN));
        }
        if !self.runs {
            let signal = usize::try_from(self.signal).unwrap_or(0);
            let _ = ptrace(libc::PTRACE_DETACH, self.tid, 0, signal);
        }
    }
}
