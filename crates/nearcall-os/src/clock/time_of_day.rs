#![allow(unsafe_code, reason = "calls gettimeofday of the C library")]
//! `gettimeofday`, as old programs read the time. Only to be measured beside the other clocks.

use std::ptr;

use crate::platform::count;

/// Microseconds since 1970 by `gettimeofday`. Wall time: may jump. No system call on usual
/// machines.
#[must_use]
#[inline]
pub fn time_of_day_us() -> u64 {
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
    // SAFETY: `time` is writable for the call, and no time zone is asked for. With valid pointers
    // the call cannot fail.
    unsafe { libc::gettimeofday(&raw mut time, ptr::null_mut()) };
    // Times before 1970 and beyond 2^44 seconds do not occur.
    count(time.tv_sec) * US_PER_S + count(time.tv_usec)
}

const US_PER_S: u64 = 1_000_000;
