//! Memory files: what the seals forbid, what is refused, what is readable.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use nearcall_os::region::{Backing, OwnRegion, PeerRegion, RegionError, SharedRegion};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;

use crate::child::{Child, is_child};

const BYTES: usize = 3 * 4096;

/// A region of this process, and the same file as another process has it.
pub(crate) fn region_pair(bytes: usize) -> (OwnRegion, PeerRegion) {
    let (own, file) = OwnRegion::create("nearcall-test", bytes, Backing::Lazy).unwrap();
    (own, PeerRegion::open(file, bytes..=bytes).unwrap())
}

fn pair() -> (OwnRegion, PeerRegion, OwnedFd) {
    let (own, file) = OwnRegion::create("nearcall-test", BYTES, Backing::Reserved).unwrap();
    let peer = PeerRegion::open(&file, BYTES..=BYTES).unwrap();
    (own, peer, file)
}

#[test]
fn the_peer_reads_what_we_write() {
    let (mut own, peer, _file) = pair();
    assert_eq!((own.len(), peer.len()), (BYTES, BYTES));
    own.write(100, b"payload");
    own.word64(64).store(7, Ordering::Release);
    own.word32(4).store(5, Ordering::Relaxed);
    assert_eq!(peer.load64(64, Ordering::Acquire), 7);
    assert_eq!(peer.load32(4, Ordering::Relaxed), 5);
    let mut copy = [0; 7];
    peer.bytes(100..107).copy_to(&mut copy);
    assert_eq!(&copy, b"payload");
    own.zero(100..107);
    peer.get(100..107).unwrap().copy_to(&mut copy);
    assert_eq!(copy, [0; 7]);
}

#[test]
fn a_large_copy_is_exact() {
    let (mut own, peer, _file) = pair();
    for (at, byte) in own.slice_mut(0..BYTES).iter_mut().enumerate() {
        *byte = at.to_le_bytes()[0] ^ at.to_le_bytes()[1];
    }
    let mut copy = vec![0; BYTES - 3];
    peer.bytes(1..BYTES - 2).copy_to(&mut copy);
    assert!(copy == own.slice_mut(1..BYTES - 2));
}

#[test]
fn an_offset_that_a_peer_invented_gives_none() {
    let (_own, peer) = region_pair(64);
    assert!(peer.get(60..64).is_some());
    assert!(peer.get(60..65).is_none());
    assert!(peer.get(usize::MAX..usize::MAX).is_none());
    #[allow(clippy::reversed_empty_ranges, reason = "a peer may claim one")]
    let reversed = 9..8;
    assert!(peer.get(reversed).is_none());
}

#[test]
fn a_private_pair_behaves_like_a_mapped_one() {
    let (own, peer) = region_pair(4096);
    let writer = std::thread::spawn(move || {
        let mut own = own;
        own.write(8, &[9; 600]);
        own.word32(0).store(1, Ordering::Release);
        own.prefault().unwrap();
        own
    });
    while peer.load32(0, Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    let mut copy = [0; 600];
    peer.bytes(8..608).copy_to(&mut copy);
    assert_eq!(copy, [9; 600]);
    drop(writer.join().unwrap());
    assert_eq!(peer.load32(0, Ordering::Relaxed), 1, "the reader keeps the memory");
}

#[test]
fn two_halves_of_a_region_are_written_by_two_threads() {
    let (own, peer, _file) = pair();
    let (mut first, mut second) = own.split_at(4096 + 128);
    std::thread::scope(|scope| {
        scope.spawn(|| first.write(0, &[1; 4096]));
        scope.spawn(|| second.write(0, &[2; 4096]));
    });
    assert_eq!((first.len(), second.len()), (4096 + 128, BYTES - 4096 - 128));
    second.prefault().unwrap();
    drop(first);
    second.word32(4096).store(3, Ordering::Relaxed);
    assert_eq!(peer.bytes(4000..4096).read_u32(92), 0x0101_0101);
    assert_eq!(peer.load32(4096 + 128, Ordering::Relaxed), 0x0202_0202);
    assert_eq!(peer.load32(8192 + 128, Ordering::Relaxed), 3);
}

#[test]
#[should_panic(expected = "no aligned word")]
fn a_misaligned_word_panics() {
    let _ = region_pair(64).0.word64(4);
}

#[test]
#[should_panic(expected = "no aligned word")]
fn a_word_past_the_end_panics() {
    let _ = region_pair(64).1.load32(64, Ordering::Relaxed);
}

#[test]
fn an_empty_or_huge_region_is_refused() {
    for bytes in [0, usize::MAX] {
        let refused = OwnRegion::create("nearcall-test", bytes, Backing::Lazy).unwrap_err();
        assert!(matches!(refused, RegionError::Size { .. }), "{refused}");
    }
}

#[test]
fn a_lazy_region_takes_no_memory_until_it_is_touched() {
    let blocks = |file: &OwnedFd| rustix::fs::fstat(file).unwrap().st_blocks;
    let (mut own, file) = OwnRegion::create("nearcall-test", 1 << 20, Backing::Lazy).unwrap();
    assert_eq!(blocks(&file), 0);
    own.write(5000, &[1]);
    assert!(blocks(&file) > 0);
    own.prefault().unwrap();
    assert!(blocks(&file) * 512 >= 1 << 20);
    let (_own, file) = OwnRegion::create("nearcall-test", 1 << 20, Backing::Reserved).unwrap();
    assert!(blocks(&file) * 512 >= 1 << 20);
}

#[test]
fn the_creator_alone_can_write() {
    let (_own, peer, file) = pair();
    peer.prefault().unwrap();
    assert_eq!(rustix::fs::ftruncate(&file, 0), Err(Errno::PERM));
    assert_eq!(rustix::fs::ftruncate(&file, 1 << 20), Err(Errno::PERM));
    assert_eq!(rustix::io::pwrite(&file, b"x", 0), Err(Errno::PERM));
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    assert_eq!(rustix::fs::fallocate(&file, punch, 0, 4096), Err(Errno::PERM));
    assert_eq!(rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE), Err(Errno::PERM));
    // Opened anew through /proc, a writable mapping is still refused: by `SharedRegion` for the
    // seals, and by the kernel for any code.
    let refused = SharedRegion::open(&file, BYTES..=BYTES).unwrap_err();
    assert!(matches!(refused, RegionError::Seals { expected: 7, .. }), "{refused}");
    use std::os::fd::AsRawFd as _;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let again = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    // Some kernels refuse the open, others the write.
    if let Ok(again) = again {
        assert_eq!(rustix::io::pwrite(&again, b"x", 0), Err(Errno::PERM));
    }
}

#[test]
fn the_descriptor_closes_on_exec() {
    let (_own, _peer, file) = pair();
    let flags = rustix::io::fcntl_getfd(&file).unwrap();
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
}

#[track_caller]
fn check_refused(file: impl AsFd, is_right: impl Fn(&RegionError) -> bool) {
    let refused = PeerRegion::open(file, BYTES..=BYTES).unwrap_err();
    assert!(is_right(&refused), "{refused:?}");
}

fn memory_file(flags: MemfdFlags, bytes: u64, seals: SealFlags) -> OwnedFd {
    let flags = flags | MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("nearcall-test", flags).unwrap();
    rustix::fs::ftruncate(&file, bytes).unwrap();
    rustix::fs::fcntl_add_seals(&file, seals).unwrap();
    file
}

const SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

#[test]
fn a_peer_file_without_every_seal_is_refused() {
    for missing in [SEALS, SealFlags::SHRINK, SealFlags::GROW, SealFlags::FUTURE_WRITE] {
        let file = memory_file(MemfdFlags::empty(), BYTES as u64, SEALS.difference(missing));
        check_refused(&file, |error| matches!(error, RegionError::Seals { .. }));
    }
    let file = memory_file(MemfdFlags::empty(), BYTES as u64, SEALS | SealFlags::WRITE);
    check_refused(&file, |error| matches!(error, RegionError::Seals { .. }));
    let shared = SharedRegion::create("nearcall-test", BYTES, Backing::Lazy).unwrap().1;
    check_refused(&shared, |error| matches!(error, RegionError::Seals { .. }));
}

#[test]
fn a_peer_file_of_another_size_is_refused() {
    for bytes in [0, BYTES as u64 - 1, BYTES as u64 + 1, 1 << 50] {
        let file = memory_file(MemfdFlags::empty(), bytes, SEALS);
        check_refused(
            &file,
            |error| matches!(error, RegionError::Size { found, .. } if *found == bytes),
        );
    }
    let file = memory_file(MemfdFlags::empty(), BYTES as u64, SEALS);
    assert_eq!(PeerRegion::open(&file, 1..=BYTES).unwrap().len(), BYTES);
    assert_eq!(PeerRegion::open(&file, 0..=usize::MAX).unwrap().len(), BYTES);
}

#[test]
fn a_sealed_file_of_huge_pages_is_refused() {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
    let Ok(file) = rustix::fs::memfd_create("nearcall-test", flags) else {
        return; // A kernel without huge pages.
    };
    rustix::fs::fcntl_add_seals(&file, SEALS).unwrap();
    check_refused(&file, |error| *error == RegionError::NotMemoryFile);
}

#[test]
fn what_is_no_memory_file_is_refused() {
    let (fifo, _other_end) = rustix::pipe::pipe().unwrap();
    check_refused(&fifo, |error| *error == RegionError::NotMemoryFile);
    let binary = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    let is_right = |error: &RegionError| {
        // A regular file; on a tmpfs it has a seal that forbids seals.
        matches!(error, RegionError::NotMemoryFile | RegionError::Seals { .. })
    };
    check_refused(&binary, is_right);
    let proc_file = std::fs::File::open("/proc/self/maps").unwrap();
    check_refused(&proc_file, is_right);
}

#[test]
fn a_file_of_dev_shm_is_refused() {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open("/dev/shm", flags, Mode::RUSR | Mode::WUSR) else {
        return; // A machine without /dev/shm.
    };
    rustix::fs::ftruncate(&file, BYTES as u64).unwrap();
    check_refused(&file, |error| matches!(error, RegionError::Seals { .. }));
}

#[test]
fn both_sides_write_a_shared_region() {
    let (a, file) = SharedRegion::create("nearcall-test", BYTES, Backing::Reserved).unwrap();
    let b = SharedRegion::open(&file, BYTES..=BYTES).unwrap();
    assert_eq!(rustix::fs::ftruncate(&file, 0), Err(Errno::PERM));
    a.prefault().unwrap();
    a.write(1000, &[7; 1000]);
    let mut copy = [0; 1000];
    b.read(1000, &mut copy);
    assert_eq!(copy, [7; 1000]);
    b.word64(0).fetch_add(5, Ordering::Relaxed);
    a.word32(8).store(6, Ordering::Relaxed);
    assert_eq!(a.word64(0).load(Ordering::Relaxed), 5);
    assert_eq!(b.bytes(8..12).read_u32(0), 6);
    b.write(3, b"xyz");
    assert_eq!(a.bytes(3..6).len(), 3);
    assert_eq!(a.byte(4).load(Ordering::Relaxed), b'y');
    a.byte(BYTES - 1).store(9, Ordering::Relaxed);
    let last = b.byte(BYTES - 1).load(Ordering::Relaxed);
    assert_eq!((last, b.byte(BYTES - 2).load(Ordering::Relaxed)), (9, 0));
}

#[test]
fn locking_returns_whether_it_was_allowed() {
    let (own, peer, _file) = pair();
    let (_, _): (bool, bool) = (own.lock().unwrap(), peer.lock().unwrap());
    // More than any usual limit allows: false where there is a limit, true where there is none.
    let (big, _file) = OwnRegion::create("nearcall-test", 16 << 20, Backing::Lazy).unwrap();
    big.lock().unwrap();
}

#[test]
fn another_process_reads_and_cannot_write() {
    let (mut own, _peer, file) = pair();
    own.write(8, b"hello");
    own.word32(0).store(42, Ordering::Release);
    Child::start("region::child_reads", file).finish();
}

#[test]
fn child_reads() {
    if !is_child("region::child_reads") {
        return;
    }
    let input = std::io::stdin();
    let peer = PeerRegion::open(input.as_fd(), BYTES..=BYTES).unwrap();
    assert_eq!(peer.load32(0, Ordering::Acquire), 42);
    let mut copy = [0; 5];
    peer.bytes(8..13).copy_to(&mut copy);
    assert_eq!(&copy, b"hello");
    assert_eq!(rustix::io::pwrite(input.as_fd(), b"x", 0), Err(Errno::PERM));
    assert_eq!(rustix::fs::ftruncate(input.as_fd(), 0), Err(Errno::PERM));
}
