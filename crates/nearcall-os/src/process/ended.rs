//! How a process has ended that is no child of this one.
//!
//! A process that has ended is a zombie until its parent waits for it, and gone afterwards. Of one
//! that is gone Linux 6.15 keeps the wait status for whoever holds a pidfd; of a zombie
//! `/proc/PID/stat` has it, for whoever may look into that process: others read a zero.
//! **Invariants:** a status read by number is returned only if the pidfd confirms afterwards that
//! the number still was that of its process.
//! **Not here:** children (`process.rs`), whose parent waits for them.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::deadline::Deadline;
use crate::poll::{Interest, poll_one};

/// How a process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessEnd {
    /// By itself, with this code: 0 to 255.
    Exited(i32),
    /// By the signal with this number.
    Killed(i32),
}

impl ProcessEnd {
    /// Reads a status as `wait` returns it.
    fn from_wait_status(status: i32) -> Self {
        match status & 0x7f {
            0 => Self::Exited(status >> 8 & 0xff),
            signal => Self::Killed(signal),
        }
    }
}

/// What the kernel reports of the end of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportedEnd {
    /// How it has ended.
    Known(ProcessEnd),
    /// A parent has not waited for it yet, and before that the kernel does not report it: this
    /// process may not look into the zombie (`ptrace`). The pidfd hangs up afterwards.
    NotYet,
    /// The kernel reports no ends (Linux before 6.13), or has forgotten this one (before 6.15).
    Never,
}

/// Returns how the process of `pidfd` has ended, which its descriptor has reported.
///
/// # Errors
///
/// The error of the kernel.
pub fn try_end_of(pidfd: impl AsFd) -> io::Result<ReportedEnd> {
    let pidfd = pidfd.as_fd();
    let Some(info) = PidfdInfo::read(pidfd)? else { return Ok(ReportedEnd::Never) };
    if let Some(end) = info.end() {
        return Ok(ReportedEnd::Known(end));
    }
    if let Some(status) = info.zombie_status() {
        return Ok(match PidfdInfo::read(pidfd)? {
            // It was waited for meanwhile, and the number may be another process's.
            Some(info) if info.end().is_some() => info.end().into(),
            Some(info) if info.pid != 0 => ReportedEnd::Known(ProcessEnd::from_wait_status(status)),
            _ => ReportedEnd::Never,
        });
    }
    match poll_one(pidfd, Interest::HangUp, Deadline::NOW)? {
        None => Ok(ReportedEnd::NotYet),
        Some(_) => Ok(PidfdInfo::read(pidfd)?.and_then(|info| info.end()).into()),
    }
}

impl From<Option<ProcessEnd>> for ReportedEnd {
    fn from(end: Option<ProcessEnd>) -> Self {
        end.map_or(Self::Never, Self::Known)
    }
}

/// What the kernel reports of a process: `struct pidfd_info` in its first form.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    /// What is asked for, and then what was filled in.
    mask: u64,
    cgroup: u64,
    /// In the PID namespace of this process; zero if it has none there, or is gone.
    pid: u32,
    group: u32,
    parent: u32,
    /// Users and groups: real, effective, saved and of files.
    users: [[u32; 2]; 4],
    wait_status: i32,
}

/// The wait status of a process that was waited for.
const PIDFD_INFO_EXIT: u64 = 1 << 3;

/// `PIDFD_GET_INFO` of Linux 6.13, which libc does not name yet: `_IOWR(0xFF, 11, pidfd_info)`.
const PIDFD_GET_INFO: u64 = 3 << 30 | (size_of::<PidfdInfo>() as u64) << 16 | 0xFF << 8 | 11;

impl PidfdInfo {
    /// Returns what the kernel reports. `None`: this kernel does not, or no longer.
    fn read(pidfd: BorrowedFd<'_>) -> io::Result<Option<Self>> {
        // While the parent waits for a process, it is gone for a moment before its end is known.
        match Self::read_once(pidfd)? {
            None => Self::read_once(pidfd),
            info => Ok(info),
        }
    }

    fn read_once(pidfd: BorrowedFd<'_>) -> io::Result<Option<Self>> {
        let mut info = Self { mask: PIDFD_INFO_EXIT, ..Self::default() };
        let request = PIDFD_GET_INFO as _;
        // SAFETY: the kernel writes as many bytes as the request names: those of the struct, which
        // lives until then and for which all bytes are valid.
        let outcome = unsafe { libc::ioctl(pidfd.as_raw_fd(), request, &raw mut info) };
        if outcome == 0 {
            return Ok(Some(info));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ESRCH | libc::ENOTTY | libc::EINVAL) => Ok(None),
            _ => Err(error),
        }
    }

    /// Returns the end of a process that was waited for.
    fn end(&self) -> Option<ProcessEnd> {
        let is_known = self.mask & PIDFD_INFO_EXIT != 0;
        is_known.then(|| ProcessEnd::from_wait_status(self.wait_status))
    }

    /// Returns the wait status of a zombie, as its number leads to it.
    fn zombie_status(&self) -> Option<i32> {
        if self.pid == 0 {
            return None;
        }
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        // The name before the state may contain anything.
        let fields = stat.rsplit_once(") ")?.1;
        let is_zombie = fields.starts_with(['Z', 'X']);
        let status = fields.split_whitespace().next_back()?.parse().ok()?;
        // The kernel writes 0 for those that may not know it. It asks for the same permission
        // before it says that a zombie has no working directory any more.
        let may_know = || {
            let directory = fs::read_link(format!("/proc/{}/cwd", self.pid));
            directory.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        (is_zombie && (status != 0 || may_know())).then_some(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_status_is_a_code_or_a_signal() {
        assert_eq!(ProcessEnd::from_wait_status(0), ProcessEnd::Exited(0));
        assert_eq!(ProcessEnd::from_wait_status(255 << 8), ProcessEnd::Exited(255));
        assert_eq!(ProcessEnd::from_wait_status(9), ProcessEnd::Killed(9));
        assert_eq!(ProcessEnd::from_wait_status(11 | 0x80), ProcessEnd::Killed(11), "with a core");
    }

    #[test]
    fn the_kernel_is_asked_for_the_first_form_of_its_struct() {
        assert_eq!(size_of::<PidfdInfo>(), 64);
        assert_eq!(PIDFD_GET_INFO, 0xc040_ff0b);
    }
}
