//! Memory files (memfd) and mappings of them, as types that define which side may write.
//!
//! | type | written by | type on the other side |
//! |---|---|---|
//! | [`OwnRegion`] | this process alone; the seals forbid other processes | [`PeerRegion`] |
//! | [`PeerRegion`] | the peer, at any time | its [`OwnRegion`] |
//! | [`SharedRegion`] | both sides, at any time | [`SharedRegion`] |
//! | [`LockRegion`] | both sides, the C library among them | [`LockRegion`] |
//! | [`TrustedRegion`] | both sides, in place, by agreement | [`TrustedRegion`] |
//! | [`PlainRegion`] | this process alone, bytes only | [`PeerRegion`], or [`TrustedBytes`] |
//!
//! **Invariants:** a mapped file can no longer change its size, so no access to it can fault
//! because the peer shortened it; a peer's file is checked (kind, seals, size) before it is mapped.
//! Memory that the other side can break this process through, by locks or by changing borrowed
//! bytes, needs a [`Trust`], which the kernel grants.
//! Offsets are the caller's own numbers: one that is out of range or misaligned panics. A number
//! that a peer wrote must be checked first, or go through [`PeerRegion::get`].
//! **Assumption:** bytes that another process may be writing are copied out by plain loads, in a
//! function that the compiler may not look through from outside (`bytes.rs`). The language has no
//! such copy yet: for it this is a race between processes, for the machine a mixture of old and new
//! bytes. The same holds for copies into memory that both sides write. Within this process a region
//! has one owner, and two threads get at its plain bytes through `&mut` only; [`SharedRegion`]
//! leaves that to the lock in it.
//!
//! Both ends of one region on the heap, which one process could race on, exist in Miri only:
//!
//! ```compile_fail,E0432
//! use nearcall_os::region::region_pair_private;
//! ```
//!
//! Trust is not for the taking:
//!
//! ```compile_fail,E0451
//! let trust = nearcall_os::region::Trust { granted: () };
//! ```
//!
//! **Not here:** the layout of a region (`nearcall-channel`), sleeping on a word (`futex.rs`).
//!
//! **Invariant:** a peer's memory is mapped only after its seals and its size were checked, so that
//! it cannot shrink while it is mapped. *Checked by* `a_peer_file_without_every_seal_is_refused`,
//! `a_peer_file_of_another_size_is_refused`.
//!
//! **Invariant:** memory that a peer can write becomes a slice, or holds a lock, only with a
//! `Trust`. The kernel grants it, for a process of the same user or of root, which could write the
//! memory of this one in any case; for slices the user's option requests it in addition
//! (`?trust=`). *Checked by* documentation tests of `src/region.rs` that must not compile,
//! `crates/nearcall/tests/it/zero_copy.rs`.

mod bytes;
mod mapping;
mod own;
mod peer;
mod plain;
mod shared;
mod trusted;

use std::ops::RangeInclusive;

use rustix::fs::SealFlags;
use rustix::io::Errno;

pub use bytes::{CALL_HEADER_BYTES, SharedBytes};
pub use own::OwnRegion;
#[cfg(any(test, miri))]
pub use own::region_pair_private;
pub use peer::PeerRegion;
pub use plain::{PlainBytes, PlainRegion, Trust, TrustedBytes};
pub use shared::{LockRegion, SharedRegion};
pub use trusted::TrustedRegion;

/// The time at which the pages of a new region are allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    /// All pages now (`fallocate`). Without memory the creation fails, and a later access cannot.
    /// The pages count as used memory even if no process touches them.
    Reserved,
    /// Each page when it is first touched. Costs nothing while it is unused; but when memory
    /// has run out, the touch kills the process (SIGBUS) instead of returning an error. For big
    /// regions of which most connections use little.
    Lazy,
}

/// The reason why a region was not created or not opened. Nothing stays mapped.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
pub enum RegionError {
    /// The descriptor is no memory file: a regular file, FIFO, socket, or huge pages.
    #[error("not a memory file; the peer must send a descriptor from memfd_create")]
    NotMemoryFile,
    /// The memory file lacks a seal, or has an unexpected one. Both are seal bits (`F_SEAL_*`).
    #[error(
        "memory file has seals {found:#x} instead of {expected:#x}; the peer must seal it before \
         it sends it"
    )]
    Seals {
        /// The bits that the file must have.
        expected: u32,
        /// The bits that it has.
        found: u32,
    },
    /// The size is not one of those allowed.
    #[error(
        "region of {found} bytes instead of {} to {}; both sides must agree on the size",
        expected.start(),
        expected.end()
    )]
    Size {
        /// The sizes allowed, in bytes.
        expected: RangeInclusive<usize>,
        /// The size of the file or of the request, in bytes.
        found: u64,
    },
    /// The kernel refused.
    #[error("{}", explain(*.0))]
    Os(#[from] Errno),
}

impl RegionError {
    /// Returns whether this process or this machine had not enough of something, whatever the file
    /// is.
    #[must_use]
    pub fn is_shortage(&self) -> bool {
        use Errno as E;
        let shortages = [E::NOMEM, E::NOSPC, E::MFILE, E::NFILE, E::AGAIN, E::NOSYS];
        matches!(self, Self::Os(errno) if shortages.contains(errno))
    }
}

/// Describes an error of the kernel, and what to do about it.
fn explain(errno: Errno) -> String {
    match errno {
        Errno::NOMEM | Errno::NOSPC => {
            "no memory left for the region; ask for a smaller one or free some".to_owned()
        }
        Errno::MFILE | Errno::NFILE => {
            "no descriptor left for the region; raise the limit on open files".to_owned()
        }
        errno => format!("the kernel refused the region: {errno}"),
    }
}

/// Bytes one region may have. Far above any ring; it stops a size that was computed wrongly
/// before the kernel is asked to find the memory.
pub const REGION_BYTES_MAX: u64 = 1 << 34;

/// Seals of a file that only its creator writes: size fixed, no new writable mapping, no
/// `write`, no hole, and no further seal.
const SEALS_OWN: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// Seals of a file that both sides write: only the size is fixed.
const SEALS_SHARED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_names_the_next_action() {
        let size = RegionError::Size { expected: 4096..=8192, found: 5 };
        let seals = RegionError::Seals { expected: 0x17, found: 1 };
        for (error, text) in [
            (RegionError::NotMemoryFile, "memfd_create"),
            (seals, "0x1 instead of 0x17"),
            (size, "5 bytes instead of 4096 to 8192"),
            (RegionError::Os(Errno::NOMEM), "smaller"),
            (RegionError::Os(Errno::MFILE), "limit"),
        ] {
            let shown = error.to_string();
            assert!(shown.contains(text), "{shown}");
            assert!(!shown.ends_with('.'), "{shown}");
        }
    }
}
