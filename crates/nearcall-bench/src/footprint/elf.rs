//! The program headers of ELF files of 64 bits, the low byte first.
//!
//! **Invariants:** a file that is cut off or is no such file is `None`; nothing is read behind the
//! bytes that are given.
//! **Not here:** sections and symbols, which are not loaded.

/// A part of an ELF file that is loaded, or describes one that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) kind: u64,
    pub(super) offset: u64,
    pub(super) address: u64,
    pub(super) file_bytes: u64,
    pub(super) memory_bytes: u64,
}

/// The kind of a segment that is loaded.
pub(super) const LOADED: u64 = 1;

/// The kind of what is made read-only when the dynamic linker has written addresses into it.
pub(super) const READ_ONLY_AFTER_RELOCATION: u64 = 0x6474_e552;

/// Holds the program headers of every program that linkers write.
pub(super) const HEAD_BYTES: u64 = 4_096;

/// Reads the segments from the first [`HEAD_BYTES`] of a file.
pub(super) fn segments(head: &[u8]) -> Option<Vec<Segment>> {
    let number = |offset: usize, bytes: usize| {
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(head.get(offset..offset.checked_add(bytes)?)?);
        Some(u64::from_le_bytes(value))
    };
    if head.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, entry, entries) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    let read = |index: u64| {
        let at = usize::try_from(table.checked_add(index * entry)?).ok()?;
        let field = |offset: usize, bytes| number(at.checked_add(offset)?, bytes);
        Some(Segment {
            kind: field(0, 4)?,
            offset: field(8, 8)?,
            address: field(16, 8)?,
            file_bytes: field(32, 8)?,
            memory_bytes: field(40, 8)?,
        })
    };
    (0..entries).map(read).collect()
}
