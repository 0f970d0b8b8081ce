//! Memory of one end and the other end's view of it, both in this process.
//!
//! **Not here:** the layout (`shm/layout.rs`).

use nearcall_os::region::{OwnRegion, PeerRegion};

/// Makes `bytes` zeroed bytes, as between two processes: one file that is mapped twice.
#[cfg(not(miri))]
pub(crate) fn region_pair(bytes: usize) -> (OwnRegion, PeerRegion) {
    let lazy = nearcall_os::region::Backing::Lazy;
    let (own, file) = OwnRegion::create("nearcall-fuzz", bytes, lazy).expect("a memory file");
    (own, PeerRegion::open(file, bytes..=bytes).expect("the file that was just made"))
}

/// The same for the interpreter, which has no memory files and sees every race.
#[cfg(miri)]
pub(crate) fn region_pair(bytes: usize) -> (OwnRegion, PeerRegion) {
    nearcall_os::region::region_pair_private(bytes)
}

/// Makes memory in which this process keeps locks with itself.
#[cfg(test)]
pub(crate) fn lock_region(bytes: usize) -> std::sync::Arc<nearcall_os::region::LockRegion> {
    use nearcall_os::region::{Backing, SharedRegion, Trust};
    use nearcall_os::socket::{Kind, unix_pair};

    let (own, _other) = unix_pair(Kind::Stream).unwrap();
    let (region, _fd) = SharedRegion::create("test", bytes, Backing::Reserved).unwrap();
    std::sync::Arc::new(region.for_locks(Trust::of_peer(own).unwrap()))
}
