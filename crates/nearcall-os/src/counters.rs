//! Counters of the kernel for a thread or process: processor time, faults, switches, migrations.
//!
//! **Invariants:** every parser is a function of its text; a missing line is `None`.
//! **Not here:** perf events (`perf.rs`).
#![allow(unsafe_code, reason = "rustix has no getrusage and no clocks of other processes")]

use std::io;
use std::mem::MaybeUninit;

use crate::platform::count;

/// Resource use since the start of the process or thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// User time, as the scheduler accounts it.
    pub user_ns: u64,
    /// System time.
    pub system_ns: u64,
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
}

/// /proc/*/schedstat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SchedStat {
    /// Time on a processor.
    pub run_ns: u64,
    /// Time ready to run but waiting for a processor.
    pub wait_ns: u64,
    /// Turns on a processor.
    pub turns: u64,
}

/// Resource use of the whole process, ended threads included. One system call.
///
/// # Errors
///
/// The kernel's; none is known.
pub fn process_usage() -> io::Result<Usage> {
    usage(libc::RUSAGE_SELF)
}

/// Processor time that another process has used, its ended threads included, in nanoseconds. Two
/// system calls. Exact also for a process that is running.
///
/// # Errors
///
/// ESRCH: there is no such process.
pub fn process_cpu_ns_of(pid: u32) -> io::Result<u64> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the call writes one clock number to `clock`, which lives until after it.
    let errno = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if errno != 0 {
        return Err(io::Error::from_raw_os_error(errno));
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one time to `time`, which lives until after it.
    match unsafe { libc::clock_gettime(clock, &raw mut time) } {
        0 => Ok(count(time.tv_sec) * 1_000_000_000 + count(time.tv_nsec)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Scheduler times of this thread; `None` when the kernel does not keep them. Brought up to date at
/// a tick or a switch, so a young thread may show zero.
#[must_use]
pub fn thread_schedstat() -> Option<SchedStat> {
    parse_schedstat(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// Returns how often this thread was moved to another CPU; `None` without CONFIG_SCHED_DEBUG.
#[must_use]
pub fn thread_migrations() -> Option<u64> {
    parse_migrations(&std::fs::read_to_string("/proc/thread-self/sched").ok()?)
}

/// Reads the text of a schedstat file.
#[must_use]
pub fn parse_schedstat(text: &str) -> Option<SchedStat> {
    let mut fields = text.split_ascii_whitespace().map(|field| field.parse().ok());
    Some(SchedStat { run_ns: fields.next()??, wait_ns: fields.next()??, turns: fields.next()?? })
}

/// Finds the migrations in the text of a sched file.
#[must_use]
pub fn parse_migrations(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.trim_start().starts_with("se.nr_migrations"))?;
    line.split_once(':')?.1.trim().parse().ok()
}

impl Usage {
    /// The difference to `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(earlier.involuntary_switches),
        }
    }
}

fn usage(who: libc::c_int) -> io::Result<Usage> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a local of the right type.
    if unsafe { libc::getrusage(who, usage.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: filled by the kernel; plain integers.
    let usage = unsafe { usage.assume_init() };
    let ns = |time: libc::timeval| count(time.tv_sec) * 1_000_000_000 + count(time.tv_usec) * 1_000;
    // The kernel's counts start at zero and only grow.
    Ok(Usage {
        user_ns: ns(usage.ru_utime),
        system_ns: ns(usage.ru_stime),
        minor_faults: count(usage.ru_minflt),
        major_faults: count(usage.ru_majflt),
        voluntary_switches: count(usage.ru_nvcsw),
        involuntary_switches: count(usage.ru_nivcsw),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_text_is_read_and_a_short_one_refused() {
        let expected = SchedStat { run_ns: 1_075_929, wait_ns: 128_249, turns: 1 };
        assert_eq!(parse_schedstat("1075929 128249 1\n"), Some(expected));
        assert_eq!(parse_schedstat("1 2"), None);
        assert_eq!(parse_schedstat("a b c"), None);
    }

    #[test]
    fn migrations_are_found_among_other_lines() {
        let text = "cat (1, #threads: 1)\n-----\nse.exec_start   :   12.5\n\
                    se.nr_migrations                             :                   17\n";
        assert_eq!(parse_migrations(text), Some(17));
        assert_eq!(parse_migrations("se.load.weight : 1"), None);
    }

    #[test]
    fn own_usage_grows() {
        let before = process_usage().unwrap();
        assert!(before.minor_faults > 0);
        let after = process_usage().unwrap().since(before);
        assert!(after.user_ns < 60_000_000_000, "{after:?}");
    }
}
