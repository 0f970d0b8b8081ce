//! Random bytes of the kernel, which no process can predict.
//!
//! **Not here:** random numbers that are no secret, which need no system call (`fastrand`).

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Returns so many random bytes, at most 256.
///
/// # Errors
///
/// The error of the kernel, such as ENOSYS where a filter forbids the call. `InvalidInput`: more
/// than 256, of which the kernel may return a part.
pub fn bytes<const COUNT: usize>() -> io::Result<[u8; COUNT]> {
    let mut random = [0; COUNT];
    if COUNT > WHOLE_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    rustix::io::retry_on_intr(|| getrandom(&mut random, GetRandomFlags::empty()))?;
    Ok(random)
}

/// Up to so many bytes come whole or not at all.
const WHOLE_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_keys_differ_and_too_many_bytes_are_refused() {
        assert_ne!(bytes::<16>().unwrap(), bytes::<16>().unwrap());
        assert_eq!(bytes::<257>().unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
