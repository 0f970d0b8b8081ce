//! What the memory of a process is used for, by mapping: /proc/PID/smaps and the ELF program
//! headers of the files that are mapped.
//!
//! **Invariants:** each resident page counts for one cause.
//! **Not here:** starting what is looked at (`setups.rs`).

use std::fs::File;
use std::io::Read;
use std::path::Path;

use nearcall_os::procfs_memory::{self, Mapping};
use nearcall_results::findings::memory::{Cause, MemoryMap, PartBytes};

use super::elf::{self, Segment};

/// Adds the memory of a process to `map`.
///
/// # Errors
///
/// One sentence: it is gone, or not ours to ask.
pub(super) fn add(map: &mut MemoryMap, pid: u32) -> Result<(), String> {
    let mappings = i32::try_from(pid).ok().and_then(procfs_memory::mappings);
    let mappings = mappings.ok_or("/proc/PID/smaps of a measured process cannot be read")?;
    add_mappings(map, &mappings, |path| {
        let mut head = Vec::new();
        File::open(path).ok()?.take(elf::HEAD_BYTES).read_to_end(&mut head).ok()?;
        elf::segments(&head)
    });
    let tables = i32::try_from(pid).ok().and_then(procfs_memory::page_table_bytes);
    let sum = map.page_table_bytes.unwrap_or(0);
    map.page_table_bytes = tables.map(|bytes| sum.saturating_add(signed(bytes)));
    Ok(())
}

fn add_mappings(
    map: &mut MemoryMap,
    mappings: &[Mapping],
    segments: impl Fn(&Path) -> Option<Vec<Segment>>,
) {
    let mut file: Option<LoadedFile> = None;
    let mut before: Option<&Mapping> = None;
    for mapping in mappings {
        let is_file = mapping.name.starts_with('/') && !is_shared_memory(&mapping.name);
        if is_file && file.as_ref().is_none_or(|it| it.path != mapping.name) {
            file = Some(LoadedFile::new(mapping, segments(Path::new(&mapping.name))));
        }
        let name = base_name(&mapping.name);
        let all = bytes_of(mapping);
        let cause = match &*mapping.name {
            "[heap]" => Cause::Allocator,
            "[stack]" => Cause::Stacks,
            "" => cause_without_file(mapping, before, file.as_ref()),
            name if is_shared_memory(name) => cause_in_memory(name),
            name if name.starts_with('/') => {
                // Of pages that were written to, none is shared with another process.
                let written = signed(mapping.anonymous_bytes);
                let own = PartBytes { private: written, shared: 0, pss: written };
                let cause = match file.as_ref().is_some_and(|file| file.is_relocated(mapping)) {
                    true => Cause::Relocations,
                    false => Cause::Variables,
                };
                add_part(map, cause, base_name(name), own);
                let cause = if mapping.is_executable { Cause::Text } else { Cause::Constants };
                add_part(map, cause, base_name(name), all - own);
                before = Some(mapping);
                continue;
            }
            _ => Cause::Other,
        };
        let name = if mapping.name.is_empty() { cause.name() } else { name };
        add_part(map, cause, name, all);
        before = Some(mapping);
    }
}

fn add_part(map: &mut MemoryMap, cause: Cause, name: &str, bytes: PartBytes) {
    if bytes != PartBytes::default() {
        map.add(cause, name, bytes);
    }
}

fn bytes_of(mapping: &Mapping) -> PartBytes {
    PartBytes {
        private: signed(mapping.private_bytes),
        shared: signed(mapping.rss_bytes.saturating_sub(mapping.private_bytes)),
        pss: signed(mapping.pss_bytes),
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Memory without a file: variables that a program file has no bytes for, a stack of a thread,
/// which lies above a page that must not be touched, or the allocator's.
fn cause_without_file(
    mapping: &Mapping,
    before: Option<&Mapping>,
    file: Option<&LoadedFile>,
) -> Cause {
    if file.is_some_and(|file| file.has_address(mapping.start)) {
        return Cause::Variables;
    }
    // An arena of the allocator has what must not be touched above it, not below.
    let is_guarded = before.is_some_and(|guard| {
        let is_guard = !guard.is_readable && guard.name.is_empty();
        is_guard && guard.end == mapping.start && guard.end - guard.start <= GUARD_BYTES_MAX
    });
    if is_guarded { Cause::Stacks } else { Cause::Allocator }
}

/// Whether this names shared memory of connections, or of others, and no program file.
fn is_shared_memory(name: &str) -> bool {
    name.starts_with("/memfd:") || name.starts_with("/dev/shm/")
}

fn cause_in_memory(name: &str) -> Cause {
    match name.strip_prefix("/memfd:").and_then(|name| name.split_ascii_whitespace().next()) {
        Some("nearcall-ring") => Cause::Ring,
        Some("nearcall-segment") => Cause::Segments,
        Some(_) => Cause::Tables,
        None => Cause::Other,
    }
}

/// A program file where it was loaded.
struct LoadedFile {
    path: String,
    base: u64,
    /// `None`: no ELF file that can be read, or it is gone.
    segments: Option<Vec<Segment>>,
}

impl LoadedFile {
    /// From its first mapping, which begins with its first loaded segment.
    fn new(first: &Mapping, segments: Option<Vec<Segment>>) -> Self {
        let loaded = segments.iter().flatten().filter(|segment| segment.kind == elf::LOADED);
        let lowest = loaded.map(|segment| segment.address / PAGE_BYTES * PAGE_BYTES).min();
        let base = first.start.saturating_sub(lowest.unwrap_or(0));
        Self { path: first.name.clone(), base, segments }
    }

    /// Whether the dynamic linker makes the mapping read-only when it is relocated. Where the
    /// headers cannot be read: whether it cannot be written to now.
    fn is_relocated(&self, mapping: &Mapping) -> bool {
        match &self.segments {
            None => !mapping.is_writable,
            Some(_) => self.overlaps(elf::READ_ONLY_AFTER_RELOCATION, mapping.start, mapping.end),
        }
    }

    /// Whether the address is in a loaded segment.
    fn has_address(&self, address: u64) -> bool {
        self.overlaps(elf::LOADED, address, address.saturating_add(1))
    }

    fn overlaps(&self, kind: u64, start: u64, end: u64) -> bool {
        let segments = self.segments.iter().flatten().filter(|segment| segment.kind == kind);
        segments.into_iter().any(|segment| {
            let first = self.base.saturating_add(segment.address);
            start < first.saturating_add(segment.memory_bytes) && first < end
        })
    }
}

/// The alignment of loaded segments, at least.
const PAGE_BYTES: u64 = 4_096;

/// The guard of a stack is a page, or some.
const GUARD_BYTES_MAX: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = PAGE_BYTES;

    fn mapping(pages: [u64; 2], permissions: &str, name: &str, anonymous: u64) -> Mapping {
        let is_guard = permissions.is_empty();
        let bytes = if is_guard { 0 } else { (pages[1] - pages[0]) * PAGE };
        Mapping {
            start: pages[0] * PAGE,
            end: pages[1] * PAGE,
            is_readable: permissions.contains('r'),
            is_writable: permissions.contains('w'),
            is_executable: permissions.contains('x'),
            name: name.to_owned(),
            rss_bytes: bytes,
            pss_bytes: bytes,
            private_bytes: bytes,
            anonymous_bytes: anonymous * PAGE,
            ..Mapping::default()
        }
    }

    fn segment(kind: u64, page: u64, pages: u64) -> Segment {
        let (address, bytes) = (page * PAGE + 16, pages * PAGE - 16);
        Segment { kind, offset: address, address, file_bytes: bytes, memory_bytes: bytes }
    }

    #[test]
    fn each_page_counts_for_one_cause() {
        let mappings = [
            mapping([10, 12], "r", "/a/program", 0),
            mapping([12, 20], "rx", "/a/program", 1),
            mapping([20, 23], "r", "/a/program", 3),
            mapping([23, 24], "rw", "/a/program", 1),
            mapping([24, 26], "rw", "", 2),
            mapping([40, 44], "rw", "[heap]", 4),
            mapping([50, 51], "", "", 0),
            mapping([51, 53], "rw", "", 2),
            mapping([60, 61], "rw", "/memfd:nearcall-ring (deleted)", 0),
            mapping([61, 62], "rw", "/memfd:nearcall-segment (deleted)", 0),
            mapping([62, 63], "rw", "/memfd:nearcall-monitor (deleted)", 0),
            mapping([70, 80], "rw", "", 10),
            mapping([90, 91], "rx", "[vdso]", 0),
        ];
        let segments = vec![
            segment(elf::LOADED, 0, 2),
            segment(elf::LOADED, 2, 8),
            segment(elf::LOADED, 10, 3),
            segment(elf::LOADED, 13, 3),
            segment(elf::READ_ONLY_AFTER_RELOCATION, 10, 3),
        ];
        let mut map = MemoryMap::default();
        add_mappings(&mut map, &mappings, |_| Some(segments.clone()));
        let pages = |cause| map.sum(Some(cause)).private / signed(PAGE);
        let found = Cause::ALL.map(|cause| (cause, pages(cause)));
        let expected = [
            (Cause::Text, 7),
            (Cause::Constants, 2),
            (Cause::Relocations, 3),
            // One page of code was written to, as a breakpoint does.
            (Cause::Variables, 1 + 1 + 2),
            (Cause::Allocator, 4 + 10),
            (Cause::Stacks, 2),
            (Cause::Ring, 1),
            (Cause::Segments, 1),
            (Cause::Tables, 1),
            (Cause::Other, 1),
        ];
        assert_eq!(found, expected);
        let all: u64 = mappings.iter().map(|it| it.private_bytes).sum();
        assert_eq!(map.sum(None).private, signed(all));
        let mut unread = MemoryMap::default();
        add_mappings(&mut unread, &mappings[..4], |_| None);
        assert_eq!(unread.sum(Some(Cause::Relocations)).private, signed(4 * PAGE));
    }

    #[test]
    fn a_process_that_is_gone_has_no_map() {
        let mut map = MemoryMap::default();
        assert!(add(&mut map, u32::MAX).unwrap_err().contains("smaps"));
        if add(&mut map, std::process::id()).is_ok() {
            assert!(map.sum(Some(Cause::Text)).pss > 0 && map.sum(Some(Cause::Stacks)).pss > 0);
        }
    }
}
