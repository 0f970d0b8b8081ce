//! An allocator whose n-th large allocation fails, for tests of what a program does without memory.
//!
//! Takes effect where a program makes it its allocator:
//!
//! ```
//! # use nearcall_os::alloc_fail::{self, FailingAllocator};
//! #[global_allocator]
//! static ALLOCATOR: FailingAllocator = FailingAllocator;
//!
//! alloc_fail::fail_nth(1 << 20, 1);
//! assert!(Vec::<u8>::new().try_reserve(1 << 20).is_err());
//! assert!(Vec::<u8>::new().try_reserve(1 << 20).is_ok());
//! assert_eq!(alloc_fail::disarm(), 2);
//! ```
//!
//! **Invariants:** one allocation fails, and none before [`fail_nth`].
//! **Not here:** counting allocations of a thread (`alloc_count.rs`), a limit on the memory of the
//! process ([`limit_address_space`](crate::process::limit_address_space)).
#![allow(unsafe_code, reason = "GlobalAlloc is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The allocator of the system, of which one allocation fails.
#[derive(Debug)]
pub struct FailingAllocator;

/// Allocations of at least so many bytes count. None does while this is not armed.
static BYTES_MIN: AtomicUsize = AtomicUsize::new(usize::MAX);
/// The number of the one that fails.
static NTH: AtomicU64 = AtomicU64::new(0);
/// Allocations that counted.
static COUNT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_EXEMPT: Cell<bool> = const { Cell::new(false) };
}

/// Has the `nth` allocation of at least `bytes_min` bytes from now on fail, in whichever thread;
/// with zero none fails, and they are counted only.
pub fn fail_nth(bytes_min: usize, nth: u64) {
    COUNT.store(0, Ordering::Relaxed);
    NTH.store(nth, Ordering::Relaxed);
    BYTES_MIN.store(bytes_min, Ordering::Relaxed);
}

/// Has no further allocation fail. Returns how many have counted since [`fail_nth`].
pub fn disarm() -> u64 {
    BYTES_MIN.store(usize::MAX, Ordering::Relaxed);
    COUNT.load(Ordering::Relaxed)
}

/// Runs something whose allocations, in this thread, neither fail nor count.
pub fn exempt<T>(run: impl FnOnce() -> T) -> T {
    let was_exempt = IS_EXEMPT.replace(true);
    let outcome = run();
    IS_EXEMPT.set(was_exempt);
    outcome
}

fn fails(bytes: usize) -> bool {
    if bytes < BYTES_MIN.load(Ordering::Relaxed) || IS_EXEMPT.try_with(Cell::get).unwrap_or(true) {
        return false;
    }
    COUNT.fetch_add(1, Ordering::Relaxed) + 1 == NTH.load(Ordering::Relaxed)
}

// SAFETY: every function hands its arguments on to `System`, which keeps the contract, or returns
// null, which means that there is no memory.
unsafe impl GlobalAlloc for FailingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) {
            return ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) {
            return ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        if fails(new_bytes) {
            return ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `realloc`; `memory` came from `System`.
        unsafe { System.realloc(memory, layout, new_bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`; `memory` came from `System`.
        unsafe { System.dealloc(memory, layout) }
    }
}
