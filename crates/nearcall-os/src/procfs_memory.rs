//! Memory of a process and of the machine, from the text files of /proc and /sys; and locking the
//! memory of this process.
//!
//! **Invariants:** every parser is a function of its text; a missing file or line is `None`.
//! **Not here:** mappings and regions (`pages.rs`, `region.rs`).

use std::io;
use std::os::fd::AsFd;

use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::Resource;

use crate::{platform, process};

mod mappings;

pub use self::mappings::{Mapping, mappings, page_table_bytes, parse_mappings};

/// /proc/PID/smaps_rollup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rollup {
    /// Resident bytes.
    pub rss_bytes: u64,
    /// Resident bytes; shared ones divided by the number of processes that share them.
    pub pss_bytes: u64,
    /// Resident bytes that no other process maps, clean and dirty.
    pub private_bytes: u64,
    /// Bytes swapped out.
    pub swap_bytes: u64,
}

/// Memory of process `pid` (0: this one). Walks its page tables: not while measuring.
#[must_use]
pub fn rollup(pid: i32) -> Option<Rollup> {
    parse_rollup(&std::fs::read_to_string(proc_file(pid, "smaps_rollup")).ok()?)
}

/// Counts the mappings of process `pid` (0: this one). For leak checks.
#[must_use]
pub fn mapping_count(pid: i32) -> Option<usize> {
    Some(std::fs::read_to_string(proc_file(pid, "maps")).ok()?.lines().count())
}

/// Bytes that programs could still get without swapping.
#[must_use]
pub fn available_bytes() -> Option<u64> {
    parse_available(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

/// Free bytes that wait in per-processor lists, which [`available_bytes`] does not count. On large
/// machines that are hundreds of megabytes, which come and go with what processes free.
#[must_use]
pub fn per_cpu_free_bytes() -> Option<u64> {
    let pages = parse_per_cpu_pages(&std::fs::read_to_string("/proc/zoneinfo").ok()?)?;
    pages.checked_mul(page_bytes() as u64)
}

/// The size of a page.
#[must_use]
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// Locks each page of this process once it was touched. Later mappings are included only if the
/// limit on locked memory (RLIMIT_MEMLOCK) does not apply to this process; under the limit, a later
/// allocation would fail. `Ok(false)`: locking is not allowed, and nothing was done. No page is
/// made present by this call: touch it first.
///
/// # Errors
///
/// The error of the kernel, for another reason than the limit.
pub fn lock_all() -> io::Result<bool> {
    let limit = process::limit(Resource::Memlock);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut flags = MlockAllFlags::CURRENT | MlockAllFlags::ONFAULT;
    // Only a process without the limit may lock more than it allows.
    let is_exceeded = |limit| parse_virtual(&status).is_some_and(|bytes| bytes > limit);
    if limit.is_ok_and(|limit| limit.current.is_none_or(is_exceeded)) {
        flags |= MlockAllFlags::FUTURE;
    }
    match mlockall(flags) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::NOMEM | rustix::io::Errno::PERM) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The bytes of this process that are locked now; `None` if the kernel does not say.
#[must_use]
pub fn locked_bytes() -> Option<u64> {
    parse_locked(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// The bytes that this process may lock; `None`: any number; 0 if the kernel does not say.
#[must_use]
pub fn lock_limit_bytes() -> Option<u64> {
    process::limit(Resource::Memlock).map_or(Some(0), |limit| limit.current)
}

/// Returns whether the file of `fd` is on a tmpfs, so that syncing it writes to no disk. False if
/// the kernel does not answer.
#[must_use]
pub fn is_in_memory(fd: impl AsFd) -> bool {
    rustix::fs::fstatfs(fd).is_ok_and(|stat| platform::count(stat.f_type) == TMPFS_MAGIC)
}

/// Reads the address space in use (VmSize) from the text of /proc/PID/status.
#[must_use]
pub fn parse_virtual(text: &str) -> Option<u64> {
    kib_line(text, "VmSize:")
}

/// Reads the locked memory (VmLck) from the text of /proc/PID/status.
#[must_use]
pub fn parse_locked(text: &str) -> Option<u64> {
    kib_line(text, "VmLck:")
}

/// Reads the text of smaps_rollup.
#[must_use]
pub fn parse_rollup(text: &str) -> Option<Rollup> {
    Some(Rollup {
        rss_bytes: kib_line(text, "Rss:")?,
        pss_bytes: kib_line(text, "Pss:")?,
        private_bytes: kib_line(text, "Private_Clean:")?
            .checked_add(kib_line(text, "Private_Dirty:")?)?,
        swap_bytes: kib_line(text, "Swap:").unwrap_or(0),
    })
}

/// Reads MemAvailable from the text of meminfo.
#[must_use]
pub fn parse_available(text: &str) -> Option<u64> {
    kib_line(text, "MemAvailable:")
}

/// Sums up the pages in the lists of all processors from the text of zoneinfo.
#[must_use]
pub fn parse_per_cpu_pages(text: &str) -> Option<u64> {
    let counts = text.lines().filter_map(|line| line.trim().strip_prefix("count:"));
    let counts: Option<Vec<u64>> = counts.map(|count| count.trim().parse().ok()).collect();
    let counts = counts.filter(|counts| !counts.is_empty())?;
    counts.into_iter().try_fold(0, u64::checked_add)
}

fn proc_file(pid: i32, name: &str) -> String {
    match pid {
        0 => format!("/proc/self/{name}"),
        pid => format!("/proc/{pid}/{name}"),
    }
}

/// The value of a line `Name:   123 kB`, in bytes.
fn kib_line(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// `f_type` of a tmpfs.
const TMPFS_MAGIC: u64 = 0x0102_1994;

#[cfg(test)]
mod tests {
    use super::*;

    const ROLLUP: &str = "\
55d0-7ffe ---p 00000000 00:00 0                          [rollup]
Rss:                1820 kB
Pss:                 612 kB
Pss_Dirty:           400 kB
Shared_Clean:       1300 kB
Private_Clean:       120 kB
Private_Dirty:       400 kB
Swap:                  8 kB
SwapPss:               0 kB
";

    #[test]
    fn the_address_space_is_read_in_bytes() {
        assert_eq!(parse_virtual("Name:\tx\nVmSize:\t    8824 kB\n"), Some(9_035_776));
        assert_eq!(parse_virtual("Name:\tx\n"), None);
        assert_eq!(parse_locked("Name:\tx\nVmLck:\t       8 kB\n"), Some(8_192));
    }

    #[test]
    fn a_rollup_is_read_in_bytes() {
        let rollup = parse_rollup(ROLLUP).unwrap();
        assert_eq!(rollup.rss_bytes, 1820 * 1024);
        assert_eq!(rollup.pss_bytes, 612 * 1024);
        assert_eq!(rollup.private_bytes, 520 * 1024);
        assert_eq!(rollup.swap_bytes, 8 * 1024);
    }

    #[test]
    fn a_rollup_that_is_cut_off_or_absurd_is_none() {
        assert_eq!(parse_rollup("Rss: 12 kB\n"), None);
        assert_eq!(parse_rollup(&ROLLUP.replace("1820", "99999999999999999999")), None);
        assert_eq!(parse_rollup(&ROLLUP.replace("1820", "18446744073709551615")), None);
    }

    #[test]
    fn the_lists_of_all_processors_are_summed_up() {
        let text = "Node 0, zone   Normal\n  pages free     3000\n  pagesets\n    cpu: 0\n\
                    count:    120\n              high:     1833\n    cpu: 1\n  count: 7\n";
        assert_eq!(parse_per_cpu_pages(text), Some(127));
        assert_eq!(parse_per_cpu_pages("  pages free     3000\n"), None);
        assert_eq!(parse_per_cpu_pages("count: 18446744073709551615\ncount: 1\n"), None);
    }

    #[test]
    fn this_process_has_memory() {
        assert!(rollup(0).is_none_or(|rollup| rollup.pss_bytes > 0));
        assert!(mapping_count(0).unwrap() > 3);
        assert!(available_bytes().unwrap() > 0);
    }
}
