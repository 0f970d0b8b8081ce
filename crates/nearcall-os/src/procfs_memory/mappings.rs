//! The mappings of a process, with the memory behind each: /proc/PID/smaps.
//!
//! **Invariants:** the parser is a function of its text; what it does not know it passes over, and
//! a text without a mapping is `None`.
//! **Not here:** what a mapping is used for.

use super::{kib_line, proc_file};

/// A mapping of a process, as the kernel reports it. Numbers are bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// The address behind it.
    pub end: u64,
    /// It may be read.
    pub is_readable: bool,
    /// It may be written.
    pub is_writable: bool,
    /// It may be run.
    pub is_executable: bool,
    /// Where it begins in its file.
    pub offset: u64,
    /// Its file, a name in brackets such as `[heap]`, or empty. Bytes of the file's owner: to be
    /// escaped before it is printed.
    pub name: String,
    /// Resident bytes.
    pub rss_bytes: u64,
    /// Resident bytes; each page divided by the number of processes that map it.
    pub pss_bytes: u64,
    /// Resident bytes that no other process maps.
    pub private_bytes: u64,
    /// Resident bytes that are no longer those of its file, or never had one.
    pub anonymous_bytes: u64,
}

/// Returns the mappings of process `pid` (0: this one), by address. `None`: it is gone, or not ours
/// to ask. Walks its page tables: not while measuring.
#[must_use]
pub fn mappings(pid: i32) -> Option<Vec<Mapping>> {
    parse_mappings(&std::fs::read_to_string(proc_file(pid, "smaps")).ok()?)
}

/// Returns the memory that the page tables of process `pid` (0: this one) take in the kernel, in
/// bytes. It is in no other figure of the process.
#[must_use]
pub fn page_table_bytes(pid: i32) -> Option<u64> {
    kib_line(&std::fs::read_to_string(proc_file(pid, "status")).ok()?, "VmPTE:")
}

/// Reads the text of smaps.
#[must_use]
pub fn parse_mappings(text: &str) -> Option<Vec<Mapping>> {
    let mut mappings: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        if let Some(mapping) = parse_head(line) {
            mappings.push(mapping);
            continue;
        }
        let Some(mapping) = mappings.last_mut() else { continue };
        let Some((name, value)) = line.split_once(':') else { continue };
        let kib = value.trim().strip_suffix("kB").and_then(|kib| kib.trim().parse::<u64>().ok());
        let Some(bytes) = kib.and_then(|kib| kib.checked_mul(1024)) else { continue };
        match name {
            "Rss" => mapping.rss_bytes = bytes,
            "Pss" => mapping.pss_bytes = bytes,
            "Private_Clean" | "Private_Dirty" => {
                mapping.private_bytes = mapping.private_bytes.saturating_add(bytes);
            }
            "Anonymous" => mapping.anonymous_bytes = bytes,
            _ => {}
        }
    }
    (!mappings.is_empty()).then_some(mappings)
}

/// Reads a line `55d0-7ffe r-xp 0002f000 fe:00 246999    /usr/bin/bash`.
fn parse_head(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
    let permissions = fields.next().filter(|permissions| permissions.len() == 4)?;
    let offset = hexadecimal(fields.next()?)?;
    let name = fields.nth(2).unwrap_or_default().trim();
    Some(Mapping {
        start,
        end,
        is_readable: permissions.contains('r'),
        is_writable: permissions.contains('w'),
        is_executable: permissions.contains('x'),
        offset,
        name: name.to_owned(),
        ..Mapping::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
56032af69000-56032b02a000 r-xp 0002f000 fe:00 246999                     /usr/bin/a b (deleted)
Size:                772 kB
Rss:                 700 kB
Pss:                 350 kB
Private_Clean:         8 kB
Private_Dirty:         4 kB
Anonymous:             4 kB
VmFlags: rd mr mw me
7f00-8f00 rw-p 00000000 00:00 0
Rss:                  99999999999999999999 kB
";

    #[test]
    fn mappings_are_read_with_their_memory() {
        let mappings = parse_mappings(TEXT).unwrap();
        let [file, unnamed] = &mappings[..] else { panic!("{mappings:?}") };
        assert_eq!(file.name, "/usr/bin/a b (deleted)");
        assert_eq!((file.start, file.end, file.offset), (0x56032af69000, 0x56032b02a000, 0x2f000));
        assert_eq!((file.is_readable, file.is_writable, file.is_executable), (true, false, true));
        assert_eq!((file.rss_bytes, file.pss_bytes), (700 << 10, 350 << 10));
        assert_eq!((file.private_bytes, file.anonymous_bytes), (12 << 10, 4 << 10));
        assert_eq!((unnamed.name.as_str(), unnamed.rss_bytes), ("", 0), "an absurd number");
        assert_eq!(parse_mappings("Rss: 1 kB\nnothing\n"), None);
    }

    #[test]
    fn this_process_runs_code_and_has_page_tables() {
        if let Some(mappings) = mappings(0) {
            assert!(mappings.iter().any(|it| it.is_executable && it.rss_bytes > 0));
        }
        assert!(page_table_bytes(0).is_none_or(|bytes| bytes > 0));
    }
}
