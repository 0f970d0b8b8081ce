//! How much this process can have of what runs out: descriptors, mappings, memory.
//!
//! **Invariants:** the smallest limit that applies counts; a limit that cannot be read counts as
//! the kernel's default; a part is left to the program itself.
#![allow(unsafe_code, reason = "the C library's allocator is called")]

use std::path::Path;

use rustix::process::Resource;

use crate::{descriptor, process};

/// What there is for the peers of this process together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Open descriptors.
    pub descriptors: u64,
    /// Mappings of memory.
    pub mappings: u64,
    /// Bytes of memory.
    pub bytes: u64,
}

impl Capacity {
    /// Reads the limits of this process: RLIMIT_NOFILE, vm.max_map_count, RLIMIT_AS, the control
    /// group's memory, and that of the machine. An eighth of each, the descriptors open now, and
    /// half of the memory are left to the program itself.
    #[must_use]
    pub fn of_process() -> Self {
        let files = match process::limit(Resource::Nofile) {
            Ok(limit) => limit.current.unwrap_or(DESCRIPTORS_MAX),
            Err(_) => DESCRIPTORS_DEFAULT,
        };
        let open = descriptor::open_count().map_or(0, |count| count as u64);
        let mappings = read_number("/proc/sys/vm/max_map_count").unwrap_or(MAPPINGS_DEFAULT);
        let address_space = process::limit(Resource::As).ok().and_then(|limit| limit.current);
        let bytes = [group_bytes(), machine_bytes(), address_space];
        let bytes = bytes.into_iter().flatten().min().unwrap_or(BYTES_DEFAULT);
        Self {
            descriptors: (files - files / 8).saturating_sub(open),
            mappings: mappings - mappings / 8,
            bytes: bytes / 2,
        }
    }
}

/// Gives memory that was freed back to the kernel, as far as the allocator of the C library can.
/// Takes about a millisecond in a heap of some hundred megabytes.
pub fn trim_heap() {
    #[cfg(all(target_env = "gnu", not(miri)))]
    // SAFETY: the call has no conditions; it may be made at any time in any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Has threads share heaps where the address space of this process is limited (RLIMIT_AS). The
/// allocator of the C library reserves 64 MiB for a heap of each thread that allocates, up to eight
/// heaps for each CPU: a sixteenth of the limit is left to that, and one heap at least. Nothing
/// happens where the environment variable `MALLOC_ARENA_MAX` has a number of its own.
pub fn fit_heaps() {
    #[cfg(all(target_env = "gnu", not(miri)))]
    {
        let limit = process::limit(Resource::As).ok().and_then(|limit| limit.current);
        let heaps = limit.map(|bytes| (bytes / 16 / HEAP_BYTES).max(1));
        let heaps = heaps.and_then(|heaps| i32::try_from(heaps).ok());
        if let Some(heaps) = heaps.filter(|_| std::env::var_os("MALLOC_ARENA_MAX").is_none()) {
            // SAFETY: the call takes two numbers, and may be made at any time in any thread.
            unsafe {
                libc::mallopt(libc::M_ARENA_MAX, heaps);
            }
        }
    }
}

/// Address space that the allocator reserves for one heap, in bytes.
#[cfg(all(target_env = "gnu", not(miri)))]
const HEAP_BYTES: u64 = 64 << 20;

/// Most descriptors that count where there is no limit.
const DESCRIPTORS_MAX: u64 = 1 << 20;

/// The kernel's default of RLIMIT_NOFILE.
const DESCRIPTORS_DEFAULT: u64 = 1024;

/// The kernel's default of vm.max_map_count.
const MAPPINGS_DEFAULT: u64 = 65_530;

/// Memory of a machine that does not say how much it has, in bytes.
const BYTES_DEFAULT: u64 = 1 << 30;

fn read_number(path: impl AsRef<Path>) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn machine_bytes() -> Option<u64> {
    parse_total(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

/// The smallest memory limit of the control groups that this process is in, of version 2 or 1.
fn group_bytes() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let (path, root, file) = parse_group(&groups)?;
    let limits = Path::new(&path).ancestors().filter_map(|group| {
        let group = group.strip_prefix("/").unwrap_or(group);
        read_number(Path::new(root).join(group).join(file))
    });
    limits.min()
}

/// The control group with the memory limit: its path, where such groups lie, and the file.
fn parse_group(groups: &str) -> Option<(String, &'static str, &'static str)> {
    let lines = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        Some((parts.next()?, parts.next()?, parts.next()?))
    });
    let v1 = lines.clone().find(|(_, of, _)| of.split(',').any(|one| one == "memory"));
    match v1 {
        Some((_, _, path)) => {
            Some((path.to_owned(), "/sys/fs/cgroup/memory", "memory.limit_in_bytes"))
        }
        None => {
            let (_, _, path) = lines.clone().find(|(number, ..)| *number == "0")?;
            Some((path.to_owned(), "/sys/fs/cgroup", "memory.max"))
        }
    }
}

fn parse_total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_control_groups_are_found() {
        let v2 = parse_group("0::/system.slice/a:b.service\n").unwrap();
        assert_eq!(v2, ("/system.slice/a:b.service".into(), "/sys/fs/cgroup", "memory.max"));
        let mixed = "12:cpu,cpuacct:/x\n5:memory:/docker/abc\n0::/\n";
        let v1 = parse_group(mixed).unwrap();
        assert_eq!(v1.0, "/docker/abc");
        assert_eq!(v1.2, "memory.limit_in_bytes");
        assert_eq!(parse_group("12:cpu:/x\n"), None);
        assert_eq!(parse_group(""), None);
    }

    #[test]
    fn the_memory_of_the_machine_is_read() {
        assert_eq!(parse_total("MemTotal:       1024 kB\nMemFree: 3 kB\n"), Some(1 << 20));
        assert_eq!(parse_total("MemFree: 3 kB\n"), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn this_process_can_have_something_of_everything() {
        let capacity = Capacity::of_process();
        assert!(capacity.descriptors > 0 && capacity.mappings > 1000, "{capacity:?}");
        assert!(capacity.bytes > 1 << 20 && capacity.bytes < 1 << 50, "{capacity:?}");
    }
}
