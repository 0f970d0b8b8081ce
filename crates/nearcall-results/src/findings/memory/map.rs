//! Where the memory of processes lies: by mapping and by cause.
//!
//! Plain data, and sums over it. Amounts have a sign, as a map may be the difference of two.

use std::ops::Sub;

use serde::{Deserialize, Serialize};

use crate::words::words;

/// What memory is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Code of program files.
    Text,
    /// Constants, unwind tables and symbols of program files.
    Constants,
    /// Pages that the dynamic linker has written addresses into, and that are constant then
    /// (RELRO).
    Relocations,
    /// Variables of program files.
    Variables,
    /// The heap, arenas of the allocator, and other memory without a file.
    Allocator,
    /// Stacks of all threads.
    Stacks,
    /// Rings of connections.
    Ring,
    /// Segments for larger messages.
    Segments,
    /// Tables in shared memory, beside rings and segments.
    Tables,
    /// What is none of these.
    #[default]
    Other,
}

words! { Cause:
    Text => "program text",
    Constants => "constants",
    Relocations => "relocations",
    Variables => "variables",
    Allocator => "allocator",
    Stacks => "stacks",
    Ring => "ring",
    Segments => "segments",
    Tables => "tables",
    Other => "other",
}

/// The memory of the processes of one set-up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryMap {
    /// In words: the set-up.
    pub what: String,
    /// What page tables take in the kernel, which is in no process's memory.
    pub page_table_bytes: Option<i64>,
    /// One for each file and cause.
    pub parts: Vec<MemoryPart>,
}

/// A part of the memory of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryPart {
    /// What it is used for.
    pub cause: Cause,
    /// The name of the file without its directories, or of a mapping without a file.
    pub mapping: String,
    /// Its memory.
    pub bytes: PartBytes,
}

/// Amounts of memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PartBytes {
    /// Resident, and mapped by no other process.
    pub private: i64,
    /// Resident, and mapped by others too.
    pub shared: i64,
    /// Resident, each page divided by the number of processes that map it.
    pub pss: i64,
}

impl PartBytes {
    /// Adds other amounts.
    pub fn add(&mut self, other: Self) {
        self.private = self.private.saturating_add(other.private);
        self.shared = self.shared.saturating_add(other.shared);
        self.pss = self.pss.saturating_add(other.pss);
    }

    fn divided_by(self, count: i64) -> Self {
        Self { private: self.private / count, shared: self.shared / count, pss: self.pss / count }
    }
}

impl Sub for PartBytes {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            private: self.private.saturating_sub(other.private),
            shared: self.shared.saturating_sub(other.shared),
            pss: self.pss.saturating_sub(other.pss),
        }
    }
}

impl MemoryMap {
    /// Adds a part, to that with the same cause and name if there is one.
    pub fn add(&mut self, cause: Cause, mapping: &str, bytes: PartBytes) {
        let same = |part: &&mut MemoryPart| part.cause == cause && part.mapping == mapping;
        match self.parts.iter_mut().find(same) {
            Some(part) => part.bytes.add(bytes),
            None => self.parts.push(MemoryPart { cause, mapping: mapping.to_owned(), bytes }),
        }
    }

    /// Returns the sum of all parts that have this cause; of all without one.
    #[must_use]
    pub fn sum(&self, cause: Option<Cause>) -> PartBytes {
        let mut sum = PartBytes::default();
        let parts = self.parts.iter().filter(|part| cause.is_none_or(|cause| part.cause == cause));
        parts.for_each(|part| sum.add(part.bytes));
        sum
    }

    /// Returns by what each of `count` further things has enlarged `before`, by cause. `count` is
    /// not 0.
    #[must_use]
    pub fn growth(&self, before: &Self, count: u32, what: &str) -> Self {
        let count = i64::from(count.max(1));
        let page_tables = self.page_table_bytes.zip(before.page_table_bytes);
        let mut growth = Self {
            what: what.to_owned(),
            page_table_bytes: page_tables.map(|(after, before)| (after - before) / count),
            parts: Vec::new(),
        };
        for cause in Cause::ALL {
            let grown = self.sum(Some(cause)) - before.sum(Some(cause));
            if grown != PartBytes::default() {
                growth.add(cause, "", grown.divided_by(count));
            }
        }
        growth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(private: i64, pss: i64) -> PartBytes {
        PartBytes { private, shared: 1, pss }
    }

    #[test]
    fn growth_is_the_difference_by_cause_and_may_be_below_zero() {
        let mut one = MemoryMap { page_table_bytes: Some(100), ..MemoryMap::default() };
        one.add(Cause::Text, "a", bytes(10, 10));
        one.add(Cause::Ring, "ring", bytes(8, 8));
        let mut three = MemoryMap { page_table_bytes: Some(140), ..one.clone() };
        three.add(Cause::Text, "b", bytes(30, 20));
        three.add(Cause::Text, "b", bytes(4, 4));
        three.add(Cause::Ring, "ring", PartBytes { private: -8, shared: 0, pss: -8 });
        assert_eq!(three.sum(None).private, 44);
        let each = three.growth(&one, 2, "each");
        assert_eq!(each.page_table_bytes, Some(20));
        assert_eq!(each.sum(Some(Cause::Text)), PartBytes { private: 17, shared: 1, pss: 12 });
        assert_eq!(each.sum(Some(Cause::Ring)).private, -4);
        assert_eq!(each.parts.len(), 2);
    }
}
