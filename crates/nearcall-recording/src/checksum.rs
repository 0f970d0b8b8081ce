//! The first field of each record: what finds damage of its length, its place and its bytes.
//!
//! **Not here:** who reads and writes it (`reader.rs`, `writer.rs`).

/// The tag of the field `check` of a record: number 1, 64 bits.
pub(crate) const CHECK_TAG: u8 = 0x09;

/// Length of that field, in bytes.
pub(crate) const CHECK_BYTES: usize = 9;

/// Longest record, in bytes: a header with the descriptors of some hundred interfaces.
pub(crate) const RECORD_BYTES_MAX: u64 = 64 << 20;

/// Returns the low half of a check.
pub(crate) fn of_head(offset: u64, record_bytes: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&offset.to_le_bytes());
    hasher.update(&record_bytes.to_le_bytes());
    hasher.finalize()
}

/// Returns the high half of a check, of the bytes behind it.
pub(crate) fn of_content(content: &[u8]) -> u32 {
    crc32fast::hash(content)
}
