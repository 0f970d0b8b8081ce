//! Processors: the allowed ones, and pinning a thread to one.
//!
//! **Invariants:** a thread that was pinned is where it was to be: the mask is read back.
//! **Not here:** how processors are related (`nearcall-results`), clock speed, load.

use std::io;

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// The processors that the calling thread may run on, ascending. Empty only if the kernel does
/// not say.
#[must_use]
pub fn allowed() -> Vec<usize> {
    if let Ok(set) = sched_getaffinity(None) {
        return (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
    }
    // More processors than the fixed set has room for: the text has no such limit.
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    parse_allowed(&status).unwrap_or_default()
}

/// The processors that the first thread of another process may run on, ascending.
///
/// # Errors
///
/// What the kernel says: there is no such process, or too many processors for the fixed set.
pub fn allowed_of(pid: i32) -> io::Result<Vec<usize>> {
    let no_process = || io::Error::new(io::ErrorKind::InvalidInput, "no number of a process");
    let set = sched_getaffinity(Some(Pid::from_raw(pid).ok_or_else(no_process)?))?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Pins the calling thread to `cpu`, and reads back that it worked. Threads started later by this
/// thread inherit it.
///
/// # Errors
///
/// When the processor does not exist, is not allowed, or something else changed the mask.
pub fn pin_current(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no such processor"));
    }
    let mut wanted = CpuSet::new();
    wanted.set(cpu);
    sched_setaffinity(None, &wanted)?;
    match allowed()[..] {
        [only] if only == cpu => Ok(()),
        _ => Err(io::Error::other("the thread is pinned, but not to the processor asked for")),
    }
}

/// Lets the calling thread run on all of `cpus` again.
///
/// # Errors
///
/// When none of them exists and is allowed.
pub fn unpin_current(cpus: &[usize]) -> io::Result<()> {
    let mut wanted = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
        wanted.set(cpu);
    }
    Ok(sched_setaffinity(None, &wanted)?)
}

/// The processor that the calling thread runs on at this moment. No system call on usual machines.
#[must_use]
#[inline]
pub fn current_cpu() -> usize {
    sched_getcpu()
}

/// The kernel's list, as `0-3,7`.
fn parse_allowed(status: &str) -> Option<Vec<usize>> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut cpus = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowed_list_is_found_in_a_status() {
        let status = "Name:\tx\nCpus_allowed:\t8b\nCpus_allowed_list:\t0-1,3,7\nMems_allowed:\t1\n";
        assert_eq!(parse_allowed(status), Some(vec![0, 1, 3, 7]));
        assert_eq!(parse_allowed("Name:\tx\n"), None);
    }
}
