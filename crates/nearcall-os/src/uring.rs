//! One connected stream socket driven by io_uring: one send and one receive may be under way.
//!
//! Buffers belong to the ring and cannot be touched while the kernel uses them: the accessors give
//! `None` then. Queuing costs no system call; [`StreamRing::wait`] submits what is queued and waits
//! in one `io_uring_enter`. A blocking send or receive is thus one system call.
//! **Invariants:** on a processor that the crate `io-uring` has no tables for, [`probe`] refuses
//! and no [`StreamRing`] exists. The manifest names the same processors.
//! **Not here:** framing messages (the channel does that).

use std::io;

pub use self::ring::{StreamRing, probe};

#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64",
    target_arch = "loongarch64",
    target_arch = "powerpc64"
))]
mod ring;
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64",
    target_arch = "loongarch64",
    target_arch = "powerpc64"
)))]
#[path = "uring/no_ring.rs"]
mod ring;

/// The reason why io_uring cannot be used here.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The kernel was built without it, or a sandbox pretends so (ENOSYS).
    #[error("this kernel has no io_uring (or a sandbox hides it)")]
    Missing,
    /// kernel.io_uring_disabled has this value, which forbids it.
    #[error("kernel.io_uring_disabled is {0} (0 allows io_uring to every process)")]
    Disabled(u32),
    /// Not allowed though the sysctl would: seccomp, as container runtimes set it up.
    #[error("io_uring is forbidden, probably by seccomp")]
    Forbidden,
    /// The kernel lacks this operation or feature.
    #[error("this kernel's io_uring lacks {0}")]
    Lacks(&'static str),
    /// The library that drives it has no tables for this processor.
    #[error("io_uring cannot be driven on this processor by this program (it can on 64-bit ones)")]
    Processor,
    /// Anything else, such as RLIMIT_MEMLOCK or too many descriptors.
    #[error("cannot make an io_uring: {0}")]
    Os(io::Error),
}

/// A direction of the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The send under way.
    Send,
    /// The receive under way.
    Receive,
}
