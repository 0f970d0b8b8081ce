//! Processors: the allowed ones, pinning a thread to one, and how two of them are related.
//!
//! **Invariants:** what the machine does not describe is `None` or [`PlacementClass::Unknown`],
//! never an error. Text is parsed by functions of text, so foreign machines are tested from
//! strings.
//! **Not here:** clock speed, load, caches' sizes (`nearcall-bench`).

mod topology;

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

pub use topology::{Cpu, PlacementClass, Topology};

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

/// Parses the kernel's list of processors, as `0-3,7`. `None` if it is not one.
#[must_use]
pub fn parse_list(text: &str) -> Option<Vec<usize>> {
    let text = text.trim();
    let mut cpus = Vec::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        // Without the sum, a text that repeats a long range would make the parser allocate.
        if first > last || last >= CPU_NUMBER_MAX || cpus.len() + last - first >= CPU_NUMBER_MAX {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

fn parse_allowed(status: &str) -> Option<Vec<usize>> {
    parse_list(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?)
}

/// Processors have lower numbers than this. The kernel's own limit is 8192; a text that claims more
/// must not make the parser allocate.
const CPU_NUMBER_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&[usize]>) {
        assert_eq!(parse_list(text).as_deref(), expected, "{text:?}");
    }

    #[test]
    fn lists_of_processors_are_read() {
        check("0\n", Some(&[0]));
        check("0-3,7\n", Some(&[0, 1, 2, 3, 7]));
        check("7,0-1,1", Some(&[0, 1, 7]));
        check("\n", Some(&[]));
    }

    #[test]
    fn a_long_range_again_and_again_is_refused() {
        check(&"0-65535,".repeat(1_000), None);
        check(&["0-60000"; 2].join(","), None);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["a", "1-", "-1", "3-1", "0,,1", "0-4000000000", "0-99999999999999999999"] {
            check(text, None);
        }
    }

    #[test]
    fn the_allowed_list_is_found_in_a_status() {
        let status = "Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\nMems_allowed:\t1\n";
        assert_eq!(parse_allowed(status), Some(vec![0, 1]));
        assert_eq!(parse_allowed("Name:\tx\n"), None);
    }
}
