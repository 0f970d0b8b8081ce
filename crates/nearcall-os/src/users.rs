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

/// Returns why processes of other users than this one and root may be in a group: a member's name,
/// or that the group is unknown. `None`: it is that user's own. By `/etc/group` and `/etc/passwd`
/// only, so that a group of a directory service is unknown.
#[must_use]
pub fn other_member(gid: u32, uid: u32) -> Option<String> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    other_member_in(&read("/etc/group"), &read("/etc/passwd"), gid, uid)
}

fn other_member_in(groups: &str, users: &str, gid: u32, uid: u32) -> Option<String> {
    let fields = |line: &'_ str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    let number = |fields: &[String], at: usize| fields.get(at).and_then(|it| it.parse().ok());
    let trusted = |other: u32| other == 0 || other == uid;
    let users: Vec<_> = users.lines().map(fields).collect();
    let Some(group) = groups.lines().map(fields).find(|group| number(group, 2) == Some(gid)) else {
        return Some("is not in /etc/group".to_owned());
    };
    let is_trusted = |name: &str| {
        users.iter().any(|user| user[0] == name && number(user, 2).is_some_and(trusted))
    };
    let members = group.get(3).into_iter().flat_map(|names| names.split(','));
    let mut others = members.map(str::trim).filter(|name| !name.is_empty() && !is_trusted(name));
    // Those that have the group from the moment when they log in are not among its members.
    let by_login = || {
        let is_other = |user: &&Vec<String>| {
            number(user, 3) == Some(gid) && !number(user, 2).is_some_and(trusted)
        };
        users.iter().find(is_other).map(|user| user[0].as_str())
    };
    others.next().or_else(by_login).map(|name| format!("has the member `{}`", name.escape_debug()))
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
    fn a_group_with_another_member_is_not_a_users_own() {
        let users = "root:x:0:0::/:/bin/sh\nann:x:1000:1000::/:/bin/sh\n\
                     bob:x:1001:1001::/:/bin/sh\neve:x:1002:1003::/:/bin/sh\nbroken\n";
        let other = |groups: &str, gid| other_member_in(groups, users, gid, 1000);
        assert_eq!(other("root:x:0:\nann:x:1000:\n", 1000), None);
        assert_eq!(other("ann:x:1000:ann,root\n", 1000), None);
        assert_eq!(other("root:x:0:\n", 0), None);
        let has = |name: &str| Some(format!("has the member `{name}`"));
        assert_eq!(other("ann:x:1000:ann,bob\n", 1000), has("bob"));
        assert_eq!(other("ann:x:1000:gone\n", 1000), has("gone"));
        assert_eq!(other("team:x:1003:\n", 1003), has("eve"));
        assert_eq!(other("root:x:0:\nbroken\n", 1000).as_deref(), Some("is not in /etc/group"));
        assert_eq!(other("", 0).as_deref(), Some("is not in /etc/group"));
    }

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
