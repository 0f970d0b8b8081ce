//! The thesis's `allocmem`: allocates 1 KiB at a time, and writes to it, until a limit says no.
//!
//! The thesis let the whole device run out of memory. Here the limit is our own: the machine's
//! available memory may fall to a floor that lies above a set part of it, so what services take is
//! missing from the sum. An address space limit stands behind that, should the first one fail.

use std::fs;

use nearcall_os::{process, procfs_memory};
use serde::{Deserialize, Serialize};

use super::budget;

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limit {
    /// Available memory of the machine does not fall below this.
    pub(crate) floor_bytes: u64,
    /// No more is allocated than this, whatever the floor says.
    pub(crate) bytes_max: u64,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Allocated {
    /// The sum of all blocks.
    pub(crate) bytes: u64,
    /// What said no.
    pub(crate) by: Stopped,
}

/// What ended an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stopped {
    /// Available memory fell to the floor.
    Floor,
    /// The cap of the allocation itself.
    Cap,
    /// The allocator refused: the address space limit.
    Refused,
}

/// Allocates in this process.
pub(super) fn allocate(limit: &Limit) -> Result<Allocated, String> {
    // Should memory end all the same, this process goes first. Making it worse is always allowed.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    let own_bytes = address_space_bytes().ok_or("cannot tell the own address space")?;
    let beside_bytes = limit.bytes_max / OVERHEAD_PART + ADDRESS_SPACE_BESIDE_BYTES;
    let address_space_bytes =
        own_bytes.saturating_add(limit.bytes_max).saturating_add(beside_bytes);
    process::limit_address_space(address_space_bytes)
        .map_err(|error| format!("cannot limit the address space: {error}"))?;
    budget::left_bytes().ok_or("the machine reports no available memory")?;
    Ok(fill(limit, || budget::left_bytes().unwrap_or(0)))
}

fn fill(limit: &Limit, available_bytes: impl Fn() -> u64) -> Allocated {
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    let blocks_max = usize::try_from(limit.bytes_max / BLOCK_BYTES).unwrap_or(usize::MAX);
    let by = if blocks.try_reserve_exact(blocks_max).is_err() {
        Stopped::Refused
    } else {
        loop {
            if blocks.len() >= blocks_max {
                break Stopped::Cap;
            }
            let due = blocks.len().is_multiple_of(BLOCKS_PER_LOOK);
            if due && available_bytes() <= limit.floor_bytes {
                break Stopped::Floor;
            }
            let mut block = Vec::new();
            if block.try_reserve_exact(BLOCK).is_err() {
                break Stopped::Refused;
            }
            block.resize(BLOCK, 1);
            blocks.push(std::hint::black_box(block));
        }
    };
    Allocated { bytes: blocks.len() as u64 * BLOCK_BYTES, by }
}

/// Bytes of address space that this process has.
fn address_space_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    pages.checked_mul(procfs_memory::page_bytes() as u64)
}

/// As the thesis.
pub(super) const BLOCK_BYTES: u64 = 1_024;
const BLOCK: usize = 1_024;

/// Blocks between two looks at the machine, which take longer than to write them: 256 KiB, what a
/// sum can be wrong by.
const BLOCKS_PER_LOOK: usize = 256;

/// A block has 16 bytes of the allocator's and 24 of ours beside it: a sixteenth covers both.
const OVERHEAD_PART: u64 = 16;

/// What the allocator asks for in one piece.
const ADDRESS_SPACE_BESIDE_BYTES: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn allocation_ends_at_the_floor_or_at_the_cap() {
        let left = Cell::new(2_000_000_u64);
        let available = || {
            left.set(left.get() - 256 * 1_024);
            left.get()
        };
        let limit = Limit { floor_bytes: 500_000, bytes_max: 10 << 20 };
        let found = fill(&limit, available);
        assert_eq!((found.by, found.bytes), (Stopped::Floor, 5 * 256 * 1_024));
        let limit = Limit { floor_bytes: 0, bytes_max: 100 * 1_024 + 5 };
        let found = fill(&limit, || u64::MAX);
        assert_eq!((found.by, found.bytes), (Stopped::Cap, 100 * 1_024));
    }
}
