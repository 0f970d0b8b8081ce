//! Users and groups of this machine: their numbers, and the number of users without one.
#![allow(unsafe_code, reason = "getpwnam_r and getgrnam_r fill buffers of the caller")]

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Room for the entry of a user, in bytes. glibc suggests 1 KiB; entries of directories are longer.
const ENTRY_BYTES: usize = 16 << 10;

/// Most room for the entry of a group, in bytes: one with a hundred thousand members.
const GROUP_BYTES_MAX: usize = 1 << 20;

/// What the kernel takes for users without a number here, unless it was told otherwise.
const OVERFLOW_USER_DEFAULT: u32 = 65_534;

/// Returns the number of the user with this name; `None` if there is none.
///
/// # Errors
///
/// `InvalidInput` for a name with a zero byte, otherwise that of the C library: the directory of
/// users cannot be read.
pub fn user_id_of(name: &str) -> io::Result<Option<u32>> {
    let name = CString::new(name)?;
    let mut entry = MaybeUninit::<libc::passwd>::zeroed();
    let mut room: Vec<libc::c_char> = vec![0; ENTRY_BYTES];
    let mut found: *mut libc::passwd = ptr::null_mut();
    // SAFETY: the name ends in a zero byte, `room` has as many bytes as is said, and all of them
    // outlive the call.
    let outcome = unsafe {
        libc::getpwnam_r(
            name.as_ptr(),
            entry.as_mut_ptr(),
            room.as_mut_ptr(),
            room.len(),
            &raw mut found,
        )
    };
    match outcome {
        0 if found.is_null() => Ok(None),
        // SAFETY: the library has filled the entry, which lies in `entry`.
        0 => Ok(Some(unsafe { (*found).pw_uid })),
        // What some libraries say where no user has the name.
        libc::ENOENT | libc::ESRCH => Ok(None),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Returns the number of the group with this name; `None` if there is none.
///
/// # Errors
///
/// As for [`user_id_of`].
pub fn group_id_of(name: &str) -> io::Result<Option<u32>> {
    let name = CString::new(name)?;
    let mut entry = MaybeUninit::<libc::group>::zeroed();
    let mut room: Vec<libc::c_char> = vec![0; ENTRY_BYTES];
    let mut found: *mut libc::group = ptr::null_mut();
    let outcome = loop {
        // SAFETY: the name ends in a zero byte, `room` has as many bytes as is said, and all of
        // them outlive the call.
        let outcome = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                room.as_mut_ptr(),
                room.len(),
                &raw mut found,
            )
        };
        // An entry has all members of the group.
        if outcome != libc::ERANGE || room.len() >= GROUP_BYTES_MAX {
            break outcome;
        }
        room.resize(2 * room.len(), 0);
    };
    match outcome {
        0 if found.is_null() => Ok(None),
        // SAFETY: the library has filled the entry, which lies in `entry`.
        0 => Ok(Some(unsafe { (*found).gr_gid })),
        libc::ENOENT | libc::ESRCH => Ok(None),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Returns whether this number stands for every user that has none in the user namespace of this
/// process, so that two processes with it may be of different users. A process that has no number
/// itself has this one as well.
#[must_use]
pub fn is_overflow_user(uid: u32) -> bool {
    let set = std::fs::read_to_string("/proc/sys/kernel/overflowuid");
    let set = set.ok().and_then(|text| text.trim().parse().ok());
    uid == set.unwrap_or(OVERFLOW_USER_DEFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn a_user_is_found_by_name() {
        assert_eq!(user_id_of("root").unwrap(), Some(0));
        assert_eq!(user_id_of("no-such-user-of-nearcall").unwrap(), None);
        assert!(user_id_of("a\0b").is_err());
        assert_eq!(group_id_of("root").unwrap(), Some(0));
        assert_eq!(group_id_of("no-such-group-of-nearcall").unwrap(), None);
        assert!(!is_overflow_user(0));
    }
}
