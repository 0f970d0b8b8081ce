//! Runs one thread of another process instruction by instruction.
//!
//! **Invariants:** the other threads of the process run on; a stepper belongs to the thread that
//! made it. A thread that waits in the kernel is not interrupted: its step ends when the system
//! call does.
//! **Not here:** system calls as events (`ptrace.rs`).

use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::time::Duration;

use super::{Refusal, is_group_stop, ptrace, reap, refusal};
use crate::clock;
use crate::deadline::Deadline;
use crate::process::kill_pidfd;

/// Looks at a thread that makes a step, before the looks become rare: a step takes some
/// microseconds.
const LOOKS_WITHOUT_PAUSE: u32 = 2000;
/// Pause between two looks at a thread that waits in the kernel.
const PAUSE: Duration = Duration::from_micros(50);

/// Runs one thread of another process instruction by instruction, from the thread that made it.
///
/// When it is dropped, the thread runs on untraced, unless it is inside a step: then it does when
/// the thread of the stepper ends.
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
    /// The thread waits in the kernel. The next step goes on waiting.
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

    /// Reaps a thread that has ended or is about to. The parent reaps a process.
    fn reap(&self) -> io::Result<()> {
        match self.tid == self.leader {
            true => Ok(()),
            // Only the tracer can: it alone is notified of the end of a thread.
            false => reap(self.tid),
        }
    }

    fn wait(&mut self, deadline: Deadline) -> Result<Step, Refusal> {
        for look in 0.. {
            let stopped = match self.look(libc::WSTOPPED) {
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(Step::Ended),
                stopped => stopped.map_err(Refusal::Os)?,
            };
            if let Some(status) = stopped {
                self.runs = false;
                let (signal, event) = (status & 0xff, status >> 8);
                // A step ends with SIGTRAP, which is not the thread's; an event is no signal.
                let is_signal = event == 0 && signal != libc::SIGTRAP;
                self.signal = if is_signal && !is_group_stop(signal) { signal } else { 0 };
                return Ok(Step::Done);
            }
            if self.look(libc::WEXITED | libc::WNOWAIT).map_err(Refusal::Os)?.is_some() {
                self.reap().map_err(Refusal::Os)?;
                return Ok(Step::Ended);
            }
            if look >= LOOKS_WITHOUT_PAUSE {
                if deadline.has_passed() {
                    break;
                }
                clock::pause(PAUSE);
            }
        }
        Ok(Step::Waits)
    }

    /// Asks for a change of the thread, without waiting for one.
    fn look(&self, changes: libc::c_int) -> io::Result<Option<libc::c_int>> {
        let id = libc::id_t::try_from(self.tid).map_err(io::Error::other)?;
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let options = changes | libc::WNOHANG | libc::__WALL;
        // SAFETY: the pointer is to a local of the right type.
        if unsafe { libc::waitid(libc::P_PID, id, info.as_mut_ptr(), options) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: zeroed above, and filled by the kernel if there was a change; plain integers.
        let info = unsafe { info.assume_init() };
        // SAFETY: zero without a change, and otherwise the kernel has filled it in for a child.
        if unsafe { info.si_pid() } == 0 {
            return Ok(None);
        }
        // SAFETY: as above.
        Ok(Some(unsafe { info.si_status() }))
    }
}

impl Drop for Stepper {
    fn drop(&mut self) {
        if !self.runs {
            let signal = usize::try_from(self.signal).unwrap_or(0);
            // One that was killed in the meantime needs none.
            let _ = ptrace(libc::PTRACE_DETACH, self.tid, 0, signal);
        }
    }
}
