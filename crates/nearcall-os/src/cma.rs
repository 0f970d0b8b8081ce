//! Cross-memory attach: one copy out of the memory of a peer, by pid and address.
//!
//! The kernel checks the right to do so (the same as ptrace: same user, or the capability, and
//! Yama). A false address from the peer can only make the copy fail or read other memory of the
//! peer. When the peer dies, its pid may be given to another process, so [`read_of`] looks at its
//! pidfd after the copy.
//! **Not here:** writing into another process, which is never sure not to be this one; memory with
//! an address that stays (`pages.rs`).
#![allow(unsafe_code, reason = "rustix has no process_vm_readv")]

use std::io;
use std::os::fd::AsFd;

use crate::deadline::Deadline;
use crate::poll::{Interest, poll_one};

/// Fills `buffer` with the peer's bytes from `address` on, all of them or an error. One system call
/// per 2 GiB, one copy, no wake-up; does not wait.
///
/// # Errors
///
/// EPERM when it is not allowed ([`Refusal`] names the reason), ESRCH when the peer is gone, EFAULT
/// when it has no such memory. The buffer may have been filled in part.
pub fn read(pid: i32, address: u64, buffer: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        let (local, remote) =
            vectors(buffer[done..].as_mut_ptr(), buffer.len() - done, address, done)?;
        // SAFETY: `local` is the rest of `buffer`, exclusive and writable; the kernel checks the
        // address in the other process. Both vectors outlive the call.
        let copied =
            unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
        done += progress(copied)?;
    }
    Ok(())
}

/// [`read`] from the process of `pidfd`, whose number was `pid` when it lived. Another system call,
/// since the number may be another process's by the time of the copy: a process that has not died
/// after it was there all the time.
///
/// # Errors
///
/// As for [`read`]; ESRCH also when the process has died meanwhile. The buffer may hold bytes of
/// another process then: do not use them.
pub fn read_of(pidfd: impl AsFd, pid: i32, address: u64, buffer: &mut [u8]) -> io::Result<()> {
    let copied = read(pid, address, buffer);
    match poll_one(pidfd, Interest::Readable, Deadline::NOW)? {
        None => copied,
        Some(_) => Err(io::Error::from_raw_os_error(libc::ESRCH)),
    }
}

/// The reason why memory of the peer cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Yama forbids it: the value of kernel.yama.ptrace_scope.
    #[error(
        "not allowed to read the peer's memory: kernel.yama.ptrace_scope is {0} (0 allows it \
         between processes of one user)"
    )]
    Yama(u8),
    /// Another rule forbids it.
    #[error("not allowed to read the peer's memory: another user, or not dumpable, or seccomp")]
    Forbidden,
    /// The kernel has no such call.
    #[error("this kernel has no process_vm_readv")]
    Missing,
    /// The peer has ended.
    #[error("the peer is gone")]
    PeerGone,
    /// The address is not mapped in the peer.
    #[error("the peer has no memory at that address")]
    BadAddress,
    /// Any other error.
    #[error("process_vm_readv failed: {0}")]
    Os(io::Error),
}

/// Reads one byte at `address` of `pid`, to learn whether that is possible.
///
/// # Errors
///
/// [`Refusal`] names the reason.
pub fn probe(pid: i32, address: u64) -> Result<(), Refusal> {
    Ok(read(pid, address, &mut [0])?)
}

/// The reason behind an error of [`read`].
impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EPERM) => {
                let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
                explain_forbidden(scope.ok().as_deref())
            }
            Some(libc::ENOSYS) => Self::Missing,
            Some(libc::ESRCH) => Self::PeerGone,
            Some(libc::EFAULT) => Self::BadAddress,
            _ => Self::Os(error),
        }
    }
}

fn explain_forbidden(scope: Option<&str>) -> Refusal {
    match scope.and_then(|scope| scope.trim().parse().ok()) {
        Some(scope @ 1..=3) => Refusal::Yama(scope),
        _ => Refusal::Forbidden,
    }
}

fn vectors(
    local: *mut u8,
    length: usize,
    address: u64,
    done: usize,
) -> io::Result<(libc::iovec, libc::iovec)> {
    let at = usize::try_from(address).ok().and_then(|address| address.checked_add(done));
    let Some(at) = at else { return Err(io::Error::from_raw_os_error(libc::EFAULT)) };
    let local = libc::iovec { iov_base: local.cast(), iov_len: length };
    let remote = libc::iovec { iov_base: std::ptr::without_provenance_mut(at), iov_len: length };
    Ok((local, remote))
}

fn progress(copied: isize) -> io::Result<usize> {
    match usize::try_from(copied) {
        Ok(0) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        Ok(copied) => Ok(copied),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_by_yama_names_the_switch() {
        assert!(explain_forbidden(Some("1\n")).to_string().contains("ptrace_scope is 1"));
        assert!(!explain_forbidden(Some("0\n")).to_string().contains("ptrace_scope"));
        assert!(!explain_forbidden(None).to_string().contains("ptrace_scope"));
    }
}
