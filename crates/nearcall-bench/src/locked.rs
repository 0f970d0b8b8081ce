//! Keeps the memory of a measured process present (rule R8).
//!
//! Both ends of mechanisms and floors keep what they touched, so that nothing is paged out in the
//! middle; buffers are written and warm-up is run before anything counts. Cells that count from the
//! first exchange, and memory that is measured itself, are left as programs have it.

use nearcall_os::procfs_memory;

use crate::cell::Subject;
use crate::launch::LaunchRequest;

/// Locks what this process has, if the request asks for it. In words what came of it; empty if it
/// was not tried. Called once both ends are connected, so that the set-up is not slowed.
pub(crate) fn lock_for(request: &LaunchRequest) -> String {
    let is_for_it = matches!(request.subject, Subject::Mechanism(_) | Subject::Floor(_));
    let counts_from_first = request.cells.iter().any(|cell| cell.conditions.exchanges > 0);
    match is_for_it && !counts_from_first && request.conditions.idle_connections == 0 {
        true => {
            let outcome = procfs_memory::lock_all();
            // Read back: only what the kernel says is locked is reported to be.
            let locked_bytes = procfs_memory::locked_bytes();
            words(outcome, locked_bytes, procfs_memory::lock_limit_bytes())
        }
        false => String::new(),
    }
}

fn words(
    outcome: std::io::Result<bool>,
    locked_bytes: Option<u64>,
    limit_bytes: Option<u64>,
) -> String {
    match (outcome, limit_bytes) {
        (Ok(true), _) if locked_bytes == Some(0) => {
            "not locked: the kernel allowed it and shows none as locked".to_owned()
        }
        (Ok(true), _) => LOCKED.to_owned(),
        (Ok(false), Some(bytes)) => {
            let kib = bytes >> 10;
            format!("not locked: the limit is {kib} KiB (ulimit -l), or CAP_IPC_LOCK is missing")
        }
        (Ok(false), None) => "not locked: not permitted".to_owned(),
        (Err(error), _) => format!("not locked: {error}"),
    }
}

/// What stands in the settings of a run if all is well.
const LOCKED: &str = "locked, both ends";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_is_in_the_way() {
        assert_eq!(words(Ok(true), Some(4_096), Some(1)), LOCKED);
        assert!(words(Ok(true), Some(0), Some(1)).starts_with("not locked: "));
        let refused = words(Ok(false), Some(0), Some(8 << 20));
        assert!(refused.contains("8192 KiB (ulimit -l)"), "{refused}");
        let error = std::io::Error::from(std::io::ErrorKind::Unsupported);
        assert!(words(Err(error), None, None).starts_with("not locked: "));
    }
}
