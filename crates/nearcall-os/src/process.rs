//! Processes: watched and ended by pidfd, started so that they cannot be forgotten.
//!
//! **Invariants:** a pidfd always means the same process; a pid may be reused.
//! **Not here:** how a process of another parent has ended (`process/ended.rs`).
#![allow(
    unsafe_code,
    reason = "Command::pre_exec is unsafe to call; rustix has no getrlimit that can fail"
)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit};

use crate::deadline::Deadline;
use crate::platform;
use crate::poll::{Interest, poll_one};
use crate::signal::{Signal, send_by_pidfd};

mod ended;

pub use self::ended::{ProcessEnd, ReportedEnd, try_end_of};

/// The number of this process, in its own PID namespace.
#[must_use]
pub fn pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// The effective user id of this process.
#[must_use]
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The effective group id of this process.
#[must_use]
pub fn group_id() -> u32 {
    rustix::process::getegid().as_raw()
}

/// The number of this thread.
#[must_use]
pub fn tid() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Ends this process with this code, without what is registered for its exit: exit handlers and
/// static destructors, which other threads that still run would not survive.
pub fn exit_at_once(code: i32) -> ! {
    // SAFETY: takes a number, and does not return.
    unsafe { libc::_exit(code) }
}

/// Returns a limit of this process, in the resource's unit.
///
/// # Errors
///
/// Only of a filter of system calls.
pub(crate) fn limit(resource: Resource) -> io::Result<Rlimit> {
    let mut limit = MaybeUninit::<libc::rlimit>::zeroed();
    // SAFETY: the pointer is to a local of the right type.
    if unsafe { libc::getrlimit(resource as u32 as _, limit.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: filled by the kernel; plain integers.
    let limit = unsafe { limit.assume_init() };
    let bounded = |limit| (limit != libc::RLIM_INFINITY).then_some(platform::count(limit));
    Ok(Rlimit { current: bounded(limit.rlim_cur), maximum: bounded(limit.rlim_max) })
}

/// The limits of open descriptors that a process has.
#[derive(Debug, Clone, Copy)]
pub struct DescriptorLimit(Rlimit);

impl DescriptorLimit {
    /// Returns those of this process.
    ///
    /// # Errors
    ///
    /// Only of a filter of system calls.
    pub fn of_process() -> io::Result<Self> {
        limit(Resource::Nofile).map(Self)
    }

    /// Gives them to this process. A plain system call.
    pub(crate) fn set(self) -> io::Result<()> {
        Ok(rustix::process::setrlimit(Resource::Nofile, self.0)?)
    }
}

/// Raises the limit of open descriptors of this process to `at_least`, within the hard limit, and
/// returns how many it may have now.
///
/// # Errors
///
/// The error of the kernel.
pub fn raise_descriptor_limit(at_least: u64) -> io::Result<u64> {
    let mut limit = limit(Resource::Nofile)?;
    let now = limit.current.unwrap_or(u64::MAX);
    if now >= at_least {
        return Ok(now);
    }
    let allowed = limit.maximum.map_or(at_least, |maximum| maximum.min(at_least));
    limit.current = Some(allowed);
    rustix::process::setrlimit(Resource::Nofile, limit)?;
    Ok(allowed)
}

/// Refuses this process address space beyond `bytes`, for good: allocations that need more fail.
///
/// # Errors
///
/// The kernel's. A hard limit below `bytes` stays as it is, which is no error.
pub fn limit_address_space(bytes: u64) -> io::Result<()> {
    let mut limit = limit(Resource::As)?;
    let bytes = limit.maximum.map_or(bytes, |maximum| maximum.min(bytes));
    (limit.current, limit.maximum) = (Some(bytes), Some(bytes));
    Ok(rustix::process::setrlimit(Resource::As, limit)?)
}

/// A pidfd of process `pid`. Only for children of this process, and before they are reaped, is it
/// certain which process that is; of a peer take [`crate::socket::peer_pidfd`].
///
/// # Errors
///
/// ESRCH when there is no such process, `InvalidInput` for a number that cannot be one.
pub fn pidfd_open(pid: i32) -> io::Result<OwnedFd> {
    // rustix panics on negative numbers in debug builds.
    let pid = (pid > 0).then(|| Pid::from_raw(pid)).flatten();
    let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}

/// Waits until the process of `pidfd` has died; false when not in time. It may still be unreaped.
///
/// # Errors
///
/// The error of the kernel.
pub fn wait_pidfd(pidfd: impl AsFd, deadline: impl Into<Deadline>) -> io::Result<bool> {
    Ok(poll_one(pidfd, Interest::Readable, deadline)?.is_some())
}

/// Ends the process of `pidfd` at once. One that is dead already is no error.
///
/// # Errors
///
/// EPERM when it is another user's.
pub fn kill_pidfd(pidfd: impl AsFd) -> io::Result<()> {
    match send_by_pidfd(pidfd, Signal::KILL) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        outcome => outcome,
    }
}

/// Asks the process of `pidfd` to end, by SIGTERM. One that is dead already is no error.
///
/// # Errors
///
/// EPERM when it is another user's.
pub fn terminate_pidfd(pidfd: impl AsFd) -> io::Result<()> {
    match send_by_pidfd(pidfd, Signal::TERM) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        outcome => outcome,
    }
}

/// Has the kernel send `signal` to this process when the thread that started it ends.
///
/// # Errors
///
/// The error of the kernel.
pub fn set_parent_death_signal(signal: Signal) -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(signal))?)
}

/// Has the kernel kill this process, a child of `parent`, when the thread that started it ends.
pub(crate) fn die_with(parent: Pid) -> io::Result<()> {
    set_parent_death_signal(Signal::KILL)?;
    // Had the parent died before that call, no signal would ever come.
    match rustix::process::getppid() {
        Some(now) if now == parent => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::ESRCH)),
    }
}

/// A child process that is killed and reaped when it is dropped, and that the kernel kills when
/// this process ends.
///
/// It dies when the *thread* that spawned it ends, so spawn from one that stays. No descriptor of
/// this process is inherited but the three standard ones: everything in this crate is
/// close-on-exec.
#[derive(Debug)]
pub struct Child {
    child: std::process::Child,
    pidfd: OwnedFd,
    /// Its number may be another process's.
    is_reaped: bool,
}

impl Child {
    /// Starts `command`.
    ///
    /// # Errors
    ///
    /// That of the exec, or EMFILE.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        let parent = rustix::process::getpid();
        Self::spawn_prepared(command, move || die_with(parent))
    }

    /// Starts `command` after `prepare` has run in the child, which must make plain system calls
    /// only and has it die with its parent.
    pub(crate) fn spawn_prepared(
        command: &mut Command,
        prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        // SAFETY: between fork and exec the closures of this crate make plain system calls; they
        // allocate nothing and take no lock.
        let child = unsafe { command.pre_exec(prepare) }.spawn()?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        // Only this process reaps its child, so the pid is still its own.
        let mut child = child;
        match pidfd_open(pid) {
            Ok(pidfd) => Ok(Self { child, pidfd, is_reaped: false }),
            Err(error) => {
                child.kill()?;
                child.wait()?;
                Err(error)
            }
        }
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its pidfd: readable once it has died.
    #[must_use]
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// The pipes that `command` asked for (`Stdio::piped`): take them from here.
    pub fn pipes(&mut self) -> &mut std::process::Child {
        &mut self.child
    }

    /// Waits for its end and reaps it; `None` when not in time.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub fn wait(&mut self, deadline: impl Into<Deadline>) -> io::Result<Option<ExitStatus>> {
        match wait_pidfd(&self.pidfd, deadline)? {
            true => self.reap().map(Some),
            false => Ok(None),
        }
    }

    fn reap(&mut self) -> io::Result<ExitStatus> {
        self.is_reaped = true;
        self.child.wait()
    }

    /// Kills (SIGKILL) all processes of the group that it leads, itself included, as long as it was
    /// not reaped. Nothing happens if it leads none.
    ///
    /// # Errors
    ///
    /// EPERM when every one of them is another user's.
    pub fn kill_group(&self) -> io::Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let Some(pid) = pid.filter(|_| !self.is_reaped) else { return Ok(()) };
        // Its number is no other group's: the kernel keeps it for as long as it was not reaped.
        match rustix::process::kill_process_group(pid, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Kills it (SIGKILL) and reaps it. If it had ended before, gives how it did.
    ///
    /// # Errors
    ///
    /// The error of the kernel.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        kill_pidfd(&self.pidfd)?;
        // Its end and not a stop: of one that is traced a plain wait would report that, too.
        wait_pidfd(&self.pidfd, Deadline::NEVER)?;
        self.reap()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // A failure cannot be reported here; the death signal above still ends the child.
        let _ = self.kill();
    }
}
