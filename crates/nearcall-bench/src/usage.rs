//! What a running process uses of the CPU, from outside: time, switches, threads.
//!
//! For any process of this user, ours or a rival's; the process itself is not disturbed. Threads
//! that have ended do not count. Not here: its memory (`memory.rs`), what an end counts of itself
//! (`exchange/count.rs`).

use nearcall_os::counters::parse_schedstat;
use serde::{Deserialize, Serialize};

use crate::system_files::SystemFiles;

/// One reading of a process, all of its threads together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessUsage {
    /// CPU time since the threads began. Of a thread that runs right now the last some
    /// milliseconds may be missing.
    pub cpu_ns: u64,
    /// Times that a thread gave up the CPU: each sleep is one, and so each wake-up.
    pub voluntary_switches: u64,
    /// Times that the CPU was taken from a thread.
    pub involuntary_switches: u64,
    /// How many threads the process has.
    pub threads: u32,
}

impl ProcessUsage {
    /// What was used between `earlier` and this. The threads are those of now.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(earlier.involuntary_switches),
            threads: self.threads,
        }
    }
}

/// Reads process `pid`. `None` if it is gone, or if the kernel does not keep these figures.
#[must_use]
pub fn of(pid: u32) -> Option<ProcessUsage> {
    read(&SystemFiles::real(), pid)
}

fn read(files: &SystemFiles, pid: u32) -> Option<ProcessUsage> {
    let tasks = format!("/proc/{pid}/task");
    let mut usage = ProcessUsage::default();
    for thread in files.names(&tasks) {
        // A thread may end between the list and this.
        let Some(status) = files.text(&format!("{tasks}/{thread}/status")) else { continue };
        let number = |name: &str| -> Option<u64> {
            let line = status.lines().find(|line| line.starts_with(name))?;
            line.split_ascii_whitespace().nth(1)?.parse().ok()
        };
        let schedstat = files.text(&format!("{tasks}/{thread}/schedstat"))?;
        usage.cpu_ns += parse_schedstat(&schedstat)?.run_ns;
        usage.voluntary_switches += number("voluntary_ctxt_switches:")?;
        usage.involuntary_switches += number("nonvoluntary_ctxt_switches:")?;
        usage.threads += 1;
    }
    (usage.threads > 0).then_some(usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_count() {
        let status = |voluntary: u64| {
            format!("Name:\tx\nvoluntary_ctxt_switches:\t{voluntary}\n")
                + "nonvoluntary_ctxt_switches:\t2\n"
        };
        let (first, second) = (status(5), status(7));
        let files = SystemFiles::forged(&[
            ("/proc/9/task/9/status", &first),
            ("/proc/9/task/9/schedstat", "1000 20 3\n"),
            ("/proc/9/task/10/status", &second),
            ("/proc/9/task/10/schedstat", "500 20 3\n"),
        ]);
        let expected = ProcessUsage {
            cpu_ns: 1_500,
            voluntary_switches: 12,
            involuntary_switches: 4,
            threads: 2,
        };
        assert_eq!(read(&files, 9), Some(expected));
        assert_eq!(read(&files, 8), None);
        assert_eq!(expected.since(expected), ProcessUsage { threads: 2, ..Default::default() });
    }

    #[test]
    fn this_process_has_threads() {
        if let Some(usage) = of(std::process::id()) {
            assert!(usage.threads >= 1);
        }
    }
}
