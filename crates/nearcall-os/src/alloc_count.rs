//! Counts allocations of each thread, for tests that nothing is allocated on a path.
//!
//! Takes effect where a program makes it its allocator:
//!
//! ```
//! # use nearcall_os::alloc_count::{self, CountingAllocator};
//! #[global_allocator]
//! static ALLOCATOR: CountingAllocator = CountingAllocator;
//!
//! let before = alloc_count::this_thread();
//! drop(vec![1, 2, 3]);
//! assert_eq!(alloc_count::this_thread() - before, 1);
//! ```
//!
//! **Invariants:** counting allocates nothing.
//! **Not here:** how much was allocated.
#![allow(unsafe_code, reason = "GlobalAlloc is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The allocator of the system, with a count. Costs a nanosecond each time.
#[derive(Debug)]
pub struct CountingAllocator;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of allocations and reallocations of this thread; always zero unless
/// [`CountingAllocator`] is the program's allocator.
#[must_use]
pub fn this_thread() -> u64 {
    COUNT.get()
}

fn count() {
    // A thread that ends may allocate after its counter is gone.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every function hands its arguments on to `System`, which keeps the contract.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `realloc`; `memory` came from `System`.
        unsafe { System.realloc(memory, layout, new_bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`; `memory` came from `System`.
        unsafe { System.dealloc(memory, layout) }
    }
}
