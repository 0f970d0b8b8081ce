//! How much may be allocated without hurting anybody.
//!
//! A part of what the machine, and the control group that we are in, can still give. Reads text
//! files; judgement is pure.
//!
//! **Invariant:** memory is allocated only within a budget that is a fraction of the free memory of
//! machine and control group. *Checked by* `a_quarter_of_the_tightest_is_the_most`,
//! `allocation_ends_at_the_floor_or_at_the_cap`.

use nearcall_os::procfs_memory;

use crate::system_files::SystemFiles;

/// Bytes that the machine could still give: MemAvailable, and the free pages in the processors' own
/// lists, which it does not know of and which move by a hundred megabytes when processes end.
pub(super) fn left_bytes() -> Option<u64> {
    Some(
        procfs_memory::available_bytes()?
            .saturating_add(procfs_memory::per_cpu_free_bytes().unwrap_or(0)),
    )
}

/// Bytes that may be allocated for a moment: `needed_bytes`, or 32 MiB if that is more, as far as
/// the machine has them. `None` if it does not say what it has.
pub(super) fn bytes(needed_bytes: u64) -> Option<u64> {
    let left_bytes = group_left_bytes(&SystemFiles::real());
    Some(judge(procfs_memory::available_bytes()?, left_bytes, needed_bytes))
}

fn judge(available_bytes: u64, group_left_bytes: Option<u64>, needed_bytes: u64) -> u64 {
    let left = group_left_bytes.map_or(available_bytes, |group| group.min(available_bytes));
    (left / PART).min(BYTES_MAX.max(needed_bytes))
}

/// What the control groups above this process still allow, the tightest of them. `None` without a
/// limit.
fn group_left_bytes(files: &SystemFiles) -> Option<u64> {
    let groups = files.text("/proc/self/cgroup")?;
    let mut tightest: Option<u64> = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, limit, used) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
            _ => continue,
        };
        // Each level may have a limit.
        let mut path = path.trim_end_matches('/');
        loop {
            let left = files
                .number(&format!("{root}{path}/{limit}"))
                .zip(files.number(&format!("{root}{path}/{used}")))
                .map(|(limit, used)| limit.saturating_sub(used));
            tightest = tightest.into_iter().chain(left).min();
            let Some((above, _)) = path.rsplit_once('/') else { break };
            path = above;
        }
    }
    tightest
}

/// Some times what two services take. More would take longer, and others disturb what takes long.
const BYTES_MAX: u64 = 32 << 20;

/// A quarter of what is left.
const PART: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_tightest_is_the_most() {
        assert_eq!(judge(8 << 30, None, 0), BYTES_MAX);
        assert_eq!(judge(8 << 30, None, 80 << 20), 80 << 20);
        assert_eq!(judge(100 << 20, None, 80 << 20), 25 << 20);
        assert_eq!(judge(8 << 30, Some(40 << 20), 0), 10 << 20);
    }

    #[test]
    fn every_level_of_the_groups_counts() {
        let files = SystemFiles::forged(&[
            ("/proc/self/cgroup", "4:memory:/a/b\n1:cpu:/a\n0::/c\n"),
            ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000"),
            ("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "400"),
            ("/sys/fs/cgroup/c/memory.max", "max"),
            ("/sys/fs/cgroup/c/memory.current", "7"),
        ]);
        assert_eq!(group_left_bytes(&files), Some(600));
        assert_eq!(group_left_bytes(&SystemFiles::forged(&[])), None);
    }
}
