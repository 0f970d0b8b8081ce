//! Memory of a running process, from outside, as the budgets count it.
//!
//! For any process of this user, ours or a rival's. Reading walks the process's page tables: not
//! while something is measured. Not here: what processes use of the CPU (`usage.rs`).

use nearcall_os::memory::{Rollup, rollup};

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
        // Not every kernel tells; where it does, the private part is in the whole.
        if let (Some(private), Some(pss)) = (private_bytes(own), pss_bytes(own)) {
            assert!(private > 0 && pss > 0, "{private} {pss}");
        }
        assert_eq!(private_bytes(0), None);
        assert_eq!(pss_bytes(u32::MAX), None);
    }
}
