//! Memory of a running process, from outside, as the budgets count it.
//!
//! For any process of this user, ours or a rival's. Reading walks the process's page tables: not
//! while something is measured. Not here: what processes use of the CPU (`usage.rs`).

use nearcall_os::procfs_memory::{Rollup, rollup};

use crate::system_files::SystemFiles;

/// Bytes that only process `pid` has, clean and dirty: what ending it would give back. `None` if
/// it is gone or not ours to ask.
#[must_use]
pub fn private_bytes(pid: u32) -> Option<u64> {
    Some(read(pid)?.private_bytes)
}

/// Resident bytes of process `pid`, each shared page divided by the number of those who map it. So
/// the sum over two processes counts what they share once. `None` as for [`private_bytes`].
#[must_use]
pub fn pss_bytes(pid: u32) -> Option<u64> {
    Some(read(pid)?.pss_bytes)
}

/// The part of [`pss_bytes`] that lies in memory files and in shared memory of other kinds: rings,
/// segments. `None` as for [`private_bytes`], or if the kernel does not tell it apart.
#[must_use]
pub fn shared_pss_bytes(pid: u32) -> Option<u64> {
    let text = SystemFiles::real().text(&format!("/proc/{pid}/smaps_rollup"))?;
    parse_shared(&text)
}

fn parse_shared(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("Pss_Shmem:"))?;
    let kib: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1_024)
}

fn read(pid: u32) -> Option<Rollup> {
    // 0 would mean this process.
    let pid = i32::try_from(pid).ok().filter(|&pid| pid > 0)?;
    rollup(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_and_nobody_has_none() {
        let own = std::process::id();
        // Not every kernel reports it; where one does, the private part is in the whole.
        if let (Some(private), Some(pss)) = (private_bytes(own), pss_bytes(own)) {
            assert!(private > 0 && pss > 0, "{private} {pss}");
        }
        let text = "Rss: 9 kB\nPss_Shmem:            12 kB\nShared_Clean: 4 kB\n";
        assert_eq!((parse_shared(text), parse_shared("Pss: 1 kB\n")), (Some(12_288), None));
        assert_eq!(private_bytes(0), None);
        assert_eq!(pss_bytes(u32::MAX), None);
    }
}
