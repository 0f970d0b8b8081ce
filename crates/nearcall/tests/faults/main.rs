//! Faults.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod r18;
mod support;

/// Generated from `nearcall-build/tests/golden/streams.proto`.
mod streams {
    include!("../../../nearcall-build/tests/golden/streams.rs");
}

#[global_allocator]
static ALLOCATOR: nearcall_os::alloc_fail::FailingAllocator =
    nearcall_os::alloc_fail::FailingAllocator;
