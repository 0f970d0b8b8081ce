//! What an idle server costs: its memory, its threads, its processor time.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use nearcall_os::{clock, counters};
use nearcall_results::run::IdleServer;

/// Watches the process `pid` for `duration`.
pub(crate) fn watch(pid: u32, duration: Duration) -> anyhow::Result<IdleServer> {
    clock::pause(SETTLE);
    let begin_ns = clock::monotonic_ns();
    let cpu_ns = counters::process_cpu_ns_of(pid)?;
    clock::pause(duration);
    let cpu_ns = counters::process_cpu_ns_of(pid)?.saturating_sub(cpu_ns);
    let elapsed_ns = clock::monotonic_ns().saturating_sub(begin_ns).max(1);
    let text =
        fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).context("no smaps_rollup")?;
    let threads = fs::read_dir(format!("/proc/{pid}/task"))?.count();
    Ok(IdleServer {
        private_bytes: field(&text, "Private_Clean") + field(&text, "Private_Dirty"),
        private_dirty_bytes: field(&text, "Private_Dirty"),
        channel_bytes: field(&text, "Pss_Shmem"),
        proportional_bytes: field(&text, "Pss"),
        threads: threads as u64,
        cpu_share: cpu_ns as f64 / elapsed_ns as f64,
    })
}

/// The field `name` in bytes; zero if it is not there.
fn field(text: &str, name: &str) -> u64 {
    let mut words = text.lines().filter_map(|line| line.split_once(':'));
    let value = words.find(|(field, _)| *field == name).map(|(_, value)| value.trim());
    let kib = value.and_then(|value| value.strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// After the last call, before the server counts as idle.
const SETTLE: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_in_bytes() {
        let text = "00400000-7fff [rollup]\nRss:    8 kB\nPss:   4 kB\nPrivate_Dirty:   12 kB\n";
        assert_eq!(field(text, "Private_Dirty"), 12 << 10);
        assert_eq!(field(text, "Pss"), 4 << 10);
        assert_eq!(field(text, "Swap"), 0);
    }

    #[test]
    fn this_process_has_memory_and_threads() {
        let idle = watch(std::process::id(), Duration::from_millis(1)).unwrap();
        assert!(idle.private_dirty_bytes > 0 && idle.threads > 0);
        assert!(idle.private_bytes >= idle.private_dirty_bytes);
    }
}
