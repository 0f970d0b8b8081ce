//! The seam between this crate's system calls and a simulation: who runs next, what time it is,
//! which call fails.
//!
//! **Invariants:** outside of `--cfg simulation`, and in threads that no simulation started, every
//! function here returns its argument, so nothing of it is left in the program.
//! **Not here:** what a simulation decides (`simulation.rs`).

pub(crate) use crate::system_call::Call;

#[cfg(not(simulation))]
mod real {
    use std::borrow::Cow;
    use std::os::fd::BorrowedFd;

    use rustix::event::{PollFd, PollFlags};
    use rustix::io::Errno;

    use super::Call;

    /// Returns the time of the simulation, in nanoseconds.
    #[inline(always)]
    pub(crate) fn now_ns() -> Option<u64> {
        None
    }

    /// Sleeps in the simulation. False: this thread is in none.
    #[inline(always)]
    pub(crate) fn pause_until(_ns: u64) -> bool {
        false
    }

    /// Fails a system call as the simulation decides.
    #[inline(always)]
    pub(crate) fn enter(_call: Call) -> Result<(), Errno> {
        Ok(())
    }

    /// Runs a system call that moves bytes or accepts, with whether it must not wait.
    #[inline(always)]
    pub(crate) fn transfer<T>(
        _call: Call,
        _fd: BorrowedFd<'_>,
        must_not_wait: bool,
        mut run: impl FnMut(bool) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        run(must_not_wait)
    }

    /// Returns how many bytes a call may move.
    #[inline(always)]
    pub(crate) fn shorten(_call: Call, bytes: usize) -> usize {
        bytes
    }

    /// Notes that the kernel has told of bytes that can be received.
    #[inline(always)]
    pub(crate) fn note_queued(_fd: BorrowedFd<'_>) {}

    /// Returns what leaves in the place of `bytes`.
    #[inline(always)]
    pub(crate) fn mangle(bytes: &[u8]) -> Cow<'_, [u8]> {
        Cow::Borrowed(bytes)
    }

    /// Waits in the simulation until `fd` is ready. False: this thread is in none.
    #[inline(always)]
    pub(crate) fn wait_ready(_: BorrowedFd<'_>, _: PollFlags, _until_ns: u64) -> bool {
        false
    }

    /// As [`wait_ready`], for any of some descriptors.
    #[inline(always)]
    pub(crate) fn wait_any_ready(_: &[PollFd<'_>], _until_ns: u64) -> bool {
        false
    }

    /// Notes a mapping of a file of memory.
    #[inline(always)]
    pub(crate) fn note_mapping(_start: usize, _bytes: usize, _fd: BorrowedFd<'_>, _writable: bool) {
    }

    /// Forgets a mapping.
    #[inline(always)]
    pub(crate) fn forget_mapping(_start: usize) {}
}

#[cfg(not(simulation))]
pub(crate) use real::{
    enter, forget_mapping, mangle, note_mapping, note_queued, now_ns, pause_until, shorten,
    transfer, wait_any_ready, wait_ready,
};

#[cfg(simulation)]
pub(crate) use crate::simulation::{
    enter, forget_mapping, mangle, note_mapping, note_queued, now_ns, pause_until, shorten,
    transfer, wait_any_ready, wait_ready,
};
