//! Cross-memory attach: one copy between our memory and that of a peer, by its number and address.
//!
//! The kernel checks the right to do so (the same as ptrace: same user, or the capability, and
//! Yama). A false address from the peer can only make the copy fail or read other memory of the
//! peer. When the peer dies, its pid may be given to another process: check its pidfd after the
//! copy.
//! **Not here:** memory with an address that stays (`pages.rs`).
#![allow(unsafe_code, reason = "rustix has no process_vm_readv")]

use std::io;

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
        // SAFETY: `local` is the rest of `buffer`, ours alone and writable; the kernel judges the
        // address in the other process. Both vectors outlive the call.
        let copied =
            unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
        done += progress(copied)?;
    }
    Ok(())
}

/// Writes `bytes` into the peer's memory from `address` on, all of them or an error.
///
/// # Errors
///
/// As for [`read`]. Some bytes may have been written.
pub fn write(pid: i32, address: u64, bytes: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        let source = bytes[done..].as_ptr().cast_mut();
        let (local, remote) = vectors(source, bytes.len() - done, address, done)?;
        // SAFETY: `local` is the rest of `bytes`, which the kernel only reads here; it judges the
        // address in the other process. Both vectors outlive the call.
        let copied =
            unsafe { libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0) };
        done += progress(copied)?;
    }
    Ok(())
}

/// Tries to read one byte at `address` of `pid`.
///
/// # Errors
///
/// Why it is not possible, in words for a user.
pub fn probe(pid: i32, address: u64) -> Result<(), String> {
    read(pid, address, &mut [0]).map_err(|error| refusal(&error))
}

/// The reason behind an error of [`read`] or [`write()`], in words for a user.
#[must_use]
pub fn refusal(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM) => {
            let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
            refusal_by_yama(scope.ok().as_deref())
        }
        Some(libc::ENOSYS) => "this kernel has no process_vm_readv".to_owned(),
        Some(libc::ESRCH) => "the peer is gone".to_owned(),
        Some(libc::EFAULT) => "the peer has no memory at that address".to_owned(),
        _ => format!("process_vm_readv failed: {error}"),
    }
}

fn refusal_by_yama(scope: Option<&str>) -> String {
    match scope.map(str::trim) {
        Some(scope @ ("1" | "2" | "3")) => format!(
            "not allowed to read the peer's memory: kernel.yama.ptrace_scope is {scope} (0 allows \
             it between processes of one user)"
        ),
        _ => "not allowed to read the peer's memory: another user, or not dumpable, or seccomp"
            .to_owned(),
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
        assert!(refusal_by_yama(Some("1\n")).contains("ptrace_scope is 1"));
        assert!(!refusal_by_yama(Some("0\n")).contains("ptrace_scope"));
        assert!(!refusal_by_yama(None).contains("ptrace_scope"));
    }
}
