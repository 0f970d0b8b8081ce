//! Traces the system calls of another process (ptrace): each entry with its arguments, each exit
//! with its outcome. A call that has begun can be made to fail, for tests.
//!
//! **Invariants:** a tracer belongs to the thread that made it, and all threads of the process are
//! watched, also those that it starts later. The process is only slowed down, unless
//! [`Tracer::fail_call`] is called. When the tracer is dropped with its thread, the process runs on
//! untraced.
//! **Not here:** single instructions (`ptrace/step.rs`), the names of system calls
//! (`syscall_names.rs`), starting and reaping the process (`process.rs`): its end is seen here and
//! left to its parent.
#![allow(unsafe_code, reason = "rustix has no ptrace, and no waitid for all children of a thread")]

mod step;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

pub use self::step::{Step, Stepper};
use crate::platform::{
    CALL_REGISTERS, CallRegisters, PTRACE_GET_SYSCALL_INFO, PTRACE_SYSCALL_INFO_ENTRY,
    PTRACE_SYSCALL_INFO_EXIT, PtraceRequest,
};

/// The number of an error of the kernel, such as `libc::ENOMEM`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Errno(i32);

impl Errno {
    /// A call was interrupted by a signal.
    pub const INTR: Self = Self(libc::EINTR);
    /// It would have to wait, or a limit of the user is reached.
    pub const AGAIN: Self = Self(libc::EAGAIN);
    /// No memory is left.
    pub const NOMEM: Self = Self(libc::ENOMEM);
    /// The process has as many descriptors as it may have.
    pub const MFILE: Self = Self(libc::EMFILE);
    /// The system has as many open files as it may have.
    pub const NFILE: Self = Self(libc::ENFILE);
    /// It is forbidden.
    pub const PERM: Self = Self(libc::EPERM);
    /// The file may not be accessed.
    pub const ACCES: Self = Self(libc::EACCES);
    /// No space is left on the device, or for the user.
    pub const NOSPC: Self = Self(libc::ENOSPC);
    /// No buffer space is left.
    pub const NOBUFS: Self = Self(libc::ENOBUFS);
    /// The kernel has no such call.
    pub const NOSYS: Self = Self(libc::ENOSYS);
    /// Too many descriptors of this user are on their way.
    pub const TOOMANYREFS: Self = Self(libc::ETOOMANYREFS);

    /// The error as the standard library has it.
    #[must_use]
    pub fn error(self) -> io::Error {
        io::Error::from_raw_os_error(self.0)
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> i32 {
        self.0
    }
}

/// Watches one process, from the thread that made it.
#[derive(Debug)]
pub struct Tracer {
    pid: libc::pid_t,
    /// Of each thread that is inside a system call, which and with what.
    inside: BTreeMap<libc::pid_t, (u64, [u64; 6])>,
    /// Of each thread whose call is to fail, with which error.
    failing: BTreeMap<libc::pid_t, Errno>,
    /// Calls are not reported any more.
    ignores_calls: bool,
    /// The stopped thread to continue, and the signal that it gets then.
    stopped: Option<(libc::pid_t, libc::c_int)>,
    /// Only the thread that has seized may ask and continue.
    _not_send: PhantomData<*const ()>,
}

/// An event of a thread of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A system call has begun.
    Begun {
        /// The thread.
        tid: i32,
        /// The number of the call on this architecture.
        number: u64,
        /// Its arguments as they stand in the registers.
        arguments: [u64; 6],
    },
    /// The call that this thread had begun has ended.
    Ended {
        /// The thread.
        tid: i32,
        /// The number of the call.
        number: u64,
        /// Its arguments.
        arguments: [u64; 6],
        /// The result; an error is a negative errno.
        outcome: i64,
    },
}

/// The reason why a process cannot be traced.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The kernel forbids it: by the scope of Yama, if this kernel has it, or by a filter.
    #[error("{}", explain_forbidden(*yama_scope))]
    Forbidden {
        /// /proc/sys/kernel/yama/ptrace_scope.
        yama_scope: Option<i32>,
    },
    /// The kernel is older than 5.3 and has no PTRACE_GET_SYSCALL_INFO.
    #[error("this kernel has no PTRACE_GET_SYSCALL_INFO (Linux 5.3)")]
    TooOld,
    /// Anything else.
    #[error("cannot watch a process: {0}")]
    Os(io::Error),
}

impl Tracer {
    /// Begins to watch process `pid` with all of its threads. What they do goes on, with one short
    /// stop each.
    ///
    /// # Errors
    ///
    /// [`Refusal`].
    pub fn seize(pid: u32) -> Result<Self, Refusal> {
        let leader =
            libc::pid_t::try_from(pid).map_err(|error| Refusal::Os(io::Error::other(error)))?;
        seize_thread(leader).map_err(refusal)?;
        // Those that it has already; a watched one's children are watched from their beginning. A
        // thread that is not watched yet may start another, so until there is no new one.
        let mut known = BTreeSet::from([leader]);
        loop {
            let threads = list_threads(leader).map_err(Refusal::Os)?;
            let new: Vec<_> = threads.into_iter().filter(|tid| known.insert(*tid)).collect();
            if new.is_empty() {
                break;
            }
            for tid in new {
                match seize_thread(tid).map_err(|error| (error.raw_os_error(), error)) {
                    // Watched since its beginning, or gone.
                    Ok(()) | Err((Some(libc::EPERM | libc::ESRCH), _)) => {}
                    Err((_, error)) => return Err(refusal(error)),
                }
            }
        }
        Ok(Self {
            pid: leader,
            inside: BTreeMap::new(),
            failing: BTreeMap::new(),
            ignores_calls: false,
            stopped: None,
            _not_send: PhantomData,
        })
    }

    /// Reports no further system call, only the end of the process, and no longer slows it down. A
    /// call that was made to fail still does.
    pub fn ignore_calls(&mut self) {
        self.ignores_calls = true;
    }

    /// Has the call that the last event has [`Begun`](Event::Begun) fail with `error`: the kernel
    /// does not execute it. A thread that was killed in the meantime is no error.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: the last event was not the beginning of a call. `Unsupported`: on another
    /// architecture than `x86_64`. The kernel's otherwise.
    pub fn fail_call(&mut self, error: Errno) -> io::Result<()> {
        let at = self.stopped.map(|(tid, _)| tid).filter(|tid| self.inside.contains_key(tid));
        let tid = at.ok_or(io::ErrorKind::InvalidInput)?;
        // No call has this number, so the kernel executes none.
        write_register(tid, |registers| registers.number, -1)?;
        self.failing.insert(tid, error);
        Ok(())
    }

    /// Lets the thread that did the last event go on, and waits for the next one of any thread.
    ///
    /// `None`: the process has ended, and its parent may reap it. Some system calls each.
    ///
    /// # Errors
    ///
    /// The kernel's; [`Refusal::TooOld`] at the first call.
    pub fn next_event(&mut self) -> Result<Option<Event>, Refusal> {
        loop {
            if let Some((tid, signal)) = self.stopped.take() {
                let request = match self.ignores_calls && !self.failing.contains_key(&tid) {
                    true => libc::PTRACE_CONT,
                    false => libc::PTRACE_SYSCALL,
                };
                resume(request, tid, signal).map_err(Refusal::Os)?;
            }
            let Some(change) = next_change().map_err(Refusal::Os)? else { return Ok(None) };
            match change {
                Change { tid, what: What::Ended } if tid == self.pid => return Ok(None),
                Change { tid, what: What::Ended } => {
                    self.inside.remove(&tid);
                    self.failing.remove(&tid);
                    // Only the tracer can: it alone is notified of the end of a thread.
                    reap(tid).map_err(Refusal::Os)?;
                }
                Change { tid, what: What::Stopped { status } } => {
                    if let Some(event) = self.stop(tid, status)? {
                        return Ok(Some(event));
                    }
                }
            }
        }
    }

    /// Interprets a stop, and records how the thread is to continue.
    fn stop(&mut self, tid: libc::pid_t, status: libc::c_int) -> Result<Option<Event>, Refusal> {
        let (signal, event) = (status & 0xff, status >> 8);
        if status == libc::SIGTRAP | SYSTEM_CALL {
            self.stopped = Some((tid, 0));
            let event = self.system_call(tid)?;
            return Ok(event.filter(|_| !self.ignores_calls));
        }
        if event == libc::PTRACE_EVENT_STOP && is_group_stop(signal) {
            // A stop by a signal, which lasts until SIGCONT.
            resume(libc::PTRACE_LISTEN, tid, 0).map_err(Refusal::Os)?;
        } else {
            // An event of ptrace is no signal; a signal is passed on.
            self.stopped = Some((tid, if event == 0 { signal } else { 0 }));
        }
        Ok(None)
    }

    fn system_call(&mut self, tid: libc::pid_t) -> Result<Option<Event>, Refusal> {
        let mut info = [0_u64; INFO_WORDS];
        // SAFETY: the kernel writes at most the length that is given to `info`, which outlives the
        // call; the thread is stopped, and traced by this one.
        let outcome = unsafe {
            libc::ptrace(
                PTRACE_GET_SYSCALL_INFO,
                tid,
                size_of_val(&info),
                ptr::from_mut(&mut info).cast::<libc::c_void>(),
            )
        };
        if outcome < 0 {
            let error = io::Error::last_os_error();
            return match error.raw_os_error() {
                // Killed in the meantime: its end comes next.
                Some(libc::ESRCH) => Ok(None),
                Some(libc::EIO | libc::EINVAL) => Err(Refusal::TooOld),
                _ => Err(Refusal::Os(error)),
            };
        }
        // The first byte is the kind of stop.
        Ok(match info[0].to_ne_bytes()[0] {
            PTRACE_SYSCALL_INFO_ENTRY => {
                let arguments = std::array::from_fn(|index| info[INFO_ARGUMENTS + index]);
                let number = info[INFO_FIRST];
                self.inside.insert(tid, (number, arguments));
                Some(Event::Begun { tid, number, arguments })
            }
            PTRACE_SYSCALL_INFO_EXIT => {
                let mut outcome = info[INFO_FIRST].cast_signed();
                if let Some(error) = self.failing.remove(&tid) {
                    let errno = isize::try_from(error.0).unwrap_or(isize::MAX);
                    outcome = -i64::from(error.0);
                    write_register(tid, |registers| registers.outcome, -errno)
                        .map_err(Refusal::Os)?;
                }
                // A call that was entered before the tracer attached is not reported.
                let begun = self.inside.remove(&tid);
                begun.map(|(number, arguments)| Event::Ended { tid, number, arguments, outcome })
            }
            _ => None,
        })
    }
}

fn seize_thread(tid: libc::pid_t) -> io::Result<()> {
    ptrace(libc::PTRACE_SEIZE, tid, 0, OPTIONS as usize)?;
    // It stops once, and goes on from there to its next system call.
    ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0)
}

fn list_threads(pid: libc::pid_t) -> io::Result<Vec<libc::pid_t>> {
    let mut threads: Vec<libc::pid_t> = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let name = entry?.file_name();
        threads.extend(name.to_str().and_then(|name| name.parse::<libc::pid_t>().ok()));
    }
    Ok(threads)
}

/// A thread that the tracer has to do with.
struct Change {
    tid: libc::pid_t,
    what: What,
}

enum What {
    Ended,
    Stopped { status: libc::c_int },
}

impl What {
    /// What waitid reports by `si_code` and `si_status`.
    fn of(code: libc::c_int, status: libc::c_int) -> Self {
        match code {
            libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED => Self::Ended,
            _ => Self::Stopped { status },
        }
    }
}

/// Waits until a traced thread has stopped or ended. It stays so. `None`: there is none left.
fn next_change() -> io::Result<Option<Change>> {
    let options = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT | libc::__WALL | libc::__WNOTHREAD;
    let info = match wait(libc::P_ALL, 0, options) {
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(None),
        info => info?,
    };
    // SAFETY: waitid has filled this in for a child that changed.
    let tid = unsafe { info.si_pid() };
    // SAFETY: as above.
    let status = unsafe { info.si_status() };
    Ok(Some(Change { tid, what: What::of(info.si_code, status) }))
}

fn reap(tid: libc::pid_t) -> io::Result<()> {
    let id = libc::id_t::try_from(tid).map_err(io::Error::other)?;
    let options = libc::WEXITED | libc::__WALL | libc::__WNOTHREAD;
    match wait(libc::P_PID, id, options) {
        // Of a process that is killed meanwhile, a thread may be gone already.
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(()),
        reaped => reaped.map(|_| ()),
    }
}

fn wait(kind: libc::idtype_t, id: libc::id_t, options: libc::c_int) -> io::Result<libc::siginfo_t> {
    loop {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        // SAFETY: the pointer is to a local of the right type.
        if unsafe { libc::waitid(kind, id, info.as_mut_ptr(), options) } == 0 {
            // SAFETY: zeroed above and filled by the kernel; plain integers.
            return Ok(unsafe { info.assume_init() });
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Continues a stopped thread. One that was killed in the meantime is no error.
fn resume(request: PtraceRequest, tid: libc::pid_t, signal: libc::c_int) -> io::Result<()> {
    match ptrace(request, tid, 0, usize::try_from(signal).unwrap_or(0)) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        outcome => outcome,
    }
}

/// Makes a request that reads and writes no memory of this process.
fn ptrace(request: PtraceRequest, pid: libc::pid_t, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: of the requests made here (seize, interrupt, syscall, listen, single step, detach,
    // and the write of a register of the other process) the kernel takes both words as plain
    // numbers.
    match unsafe { libc::ptrace(request, pid, address, data) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Writes a register of a thread that is stopped in a system call. One that was killed in the
/// meantime is no error.
fn write_register(
    tid: libc::pid_t,
    register: impl FnOnce(CallRegisters) -> usize,
    value: isize,
) -> io::Result<()> {
    let offset = CALL_REGISTERS.map(register).ok_or(io::ErrorKind::Unsupported)?;
    match ptrace(libc::PTRACE_POKEUSER, tid, offset, value.cast_unsigned()) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        outcome => outcome,
    }
}

fn is_group_stop(signal: libc::c_int) -> bool {
    [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&signal)
}

fn explain_forbidden(yama_scope: Option<i32>) -> String {
    match yama_scope {
        Some(scope @ 1..) => format!("kernel.yama.ptrace_scope is {scope}"),
        _ => "ptrace is refused, by another tracer or a filter".to_owned(),
    }
}

fn refusal(error: io::Error) -> Refusal {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => {
            let text = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
            let yama_scope = text.ok().and_then(|text| text.trim().parse().ok());
            Refusal::Forbidden { yama_scope }
        }
        _ => Refusal::Os(error),
    }
}

/// Mark stops by system calls, and watch new threads from their first moment.
const OPTIONS: libc::c_int = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE;

/// Beside SIGTRAP: stopped by a system call.
const SYSTEM_CALL: libc::c_int = 0x80;

/// `ptrace_syscall_info` in words of 8 bytes: what and where, then number or outcome, then the
/// arguments.
const INFO_WORDS: usize = 10;
const INFO_FIRST: usize = 3;
const INFO_ARGUMENTS: usize = 4;
const _: () = assert!(INFO_ARGUMENTS + 6 == INFO_WORDS);
