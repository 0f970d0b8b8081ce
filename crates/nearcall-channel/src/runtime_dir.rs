//! The directory in which servers have their sockets by name.
//!
//! `$NEARCALL_RUNTIME_DIR`, else `$XDG_RUNTIME_DIR/nearcall`, else `/run/nearcall` for root, else
//! `/tmp/nearcall-UID`.
//!
//! **Invariants:** a directory that is used belongs to this user and no other user may enter it, so
//! no process of another user can put a socket there; and no other user but root can replace a
//! directory or a link on the way to it, so it stays the one that was looked at. A group that may
//! has no member but this user and root.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nearcall_os::socket::{self, UnixAddress};
use nearcall_os::users::{self, is_overflow_user};
use nearcall_os::{descriptor, process};
use thiserror::Error;

use crate::error::debug_as_display;

/// The directory is not one that only this user may change, which retrying cannot fix.
#[derive(Error)]
#[error(
    "the runtime directory {} cannot be trusted: {why}; mend it, or set NEARCALL_RUNTIME_DIR to \
     another",
    path.display()
)]
pub(crate) struct Untrusted {
    path: PathBuf,
    why: String,
}

debug_as_display!(Untrusted);

/// The socket of a name has a path that no unix socket can have, which retrying cannot fix.
#[derive(Error)]
#[error("{0}")]
pub(crate) struct PathTooLong(String);

debug_as_display!(PathTooLong);

/// What has chosen the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChosenBy {
    Variable(&'static str),
    Default,
}

impl fmt::Display for ChosenBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => f.write_str(name),
            Self::Default => {
                f.write_str("default, as neither NEARCALL_RUNTIME_DIR nor XDG_RUNTIME_DIR is set")
            }
        }
    }
}

fn choice() -> (PathBuf, ChosenBy) {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = set(OWN_VARIABLE) {
        return (path, ChosenBy::Variable(OWN_VARIABLE));
    }
    if let Some(path) = set(XDG_VARIABLE) {
        return (path.join("nearcall"), ChosenBy::Variable(XDG_VARIABLE));
    }
    (default_of(process::user_id()), ChosenBy::Default)
}

const OWN_VARIABLE: &str = "NEARCALL_RUNTIME_DIR";
const XDG_VARIABLE: &str = "XDG_RUNTIME_DIR";

/// Returns the directory of a user where no variable is set.
fn default_of(user: u32) -> PathBuf {
    match user {
        0 => PathBuf::from("/run/nearcall"),
        user => PathBuf::from(format!("/tmp/nearcall-{user}")),
    }
}

/// Returns where servers of a user have their sockets unless variables say something else: in the
/// directory of a login, or in the default one. Neither need exist.
pub fn usual_of(user: u32) -> [PathBuf; 2] {
    [PathBuf::from(format!("/run/user/{user}/nearcall")), default_of(user)]
}

/// Returns the path of the directory, which need not exist.
pub fn path() -> PathBuf {
    choice().0
}

/// Returns what has chosen the directory, for a text: a variable, or that none is set.
pub fn chosen_by() -> String {
    choice().1.to_string()
}

/// Returns whether servers of this user can put their sockets there; false: the first of them makes
/// the directory. Connects to nothing.
///
/// # Errors
///
/// `PermissionDenied`: it cannot be trusted, and why. `InvalidInput`: its path is too long.
/// Otherwise the kernel's.
pub fn check_usable() -> io::Result<bool> {
    match existing() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        outcome => outcome.map(|_| true),
    }
}

/// Returns what to do if the server of a name, which was not found, listens in a directory that is
/// usual for this user, or for the one that has called `sudo`: whoever starts the two programs has
/// given them other variables. Connects to nothing.
pub fn hint_at_other(name: &str) -> Option<String> {
    let (own, _) = choice();
    let user = process::user_id();
    let by_sudo = env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok());
    let users = [Some(user), by_sudo.filter(|_| user == 0)];
    users.into_iter().flatten().find_map(|uid| {
        usual_of(uid).into_iter().filter(|path| *path != own).find_map(|path| {
            // What another user has put there is not worth a word.
            if check(&path, uid).is_err() {
                return None;
            }
            let socket = path.join(name);
            socket::unix_bound(UnixAddress::Path(&socket)).ok().flatten()?;
            let path = path.display();
            Some(match uid == user {
                true => format!(
                    "a server of that name listens in {path}, since it was started with other \
                     variables: set {OWN_VARIABLE}={path} for this program"
                ),
                false => format!(
                    "a server of that name, of user {uid}, listens in {path}, and a name leads to \
                     servers of the same user ({user}): use the address unix:{}",
                    socket.display()
                ),
            })
        })
    })
}

/// Bytes that the directory must leave for a name. One that leaves fewer is refused whatever the
/// name is, so that the first server finds out and not the first with a longer name. Enough for
/// `nearcall-host` and most others.
const NAME_ROOM_MIN: usize = 16;

/// Returns an error if the path of a socket in the directory would be longer than the kernel takes.
fn check_length(path: &Path, by: ChosenBy, name: Option<&str>) -> io::Result<()> {
    let most = socket::UNIX_PATH_BYTES_MAX;
    let (bytes, room) = (path.as_os_str().len(), name.map_or(0, str::len));
    let total = bytes + 1 + name.map_or(NAME_ROOM_MIN, str::len);
    if bytes + 1 + NAME_ROOM_MIN <= most && total <= most {
        return Ok(());
    }
    let directory = path.display();
    let what = match name.filter(|_| total > most) {
        Some(name) => format!("the path of the socket, {directory}/{name}, has {total} bytes"),
        None => format!("it leaves no {NAME_ROOM_MIN} bytes for the name of a server"),
    };
    let text = format!(
        "the runtime directory {directory} of {bytes} bytes is too long: {what}, and the path of a \
         unix socket has at most {most}; it was chosen by {by}: set {OWN_VARIABLE} to a directory \
         of at most {} bytes",
        most - 1 - room.max(NAME_ROOM_MIN)
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, PathTooLong(text)))
}

/// Returns the path of the socket of a name in the directory, which must exist and be safe.
pub(crate) fn socket_path(name: &str) -> io::Result<PathBuf> {
    let (path, by) = choice();
    check_length(&path, by, Some(name))?;
    Ok(existing()?.join(name))
}

/// Returns an error if no server can listen at this name here, without making the directory.
pub(crate) fn check_name(name: &str) -> io::Result<()> {
    match socket_path(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Returns the directory, which must exist and be safe.
pub(crate) fn existing() -> io::Result<PathBuf> {
    let (path, by) = choice();
    check_length(&path, by, None)?;
    check(&path, process::user_id())?;
    Ok(path)
}

/// Returns an error if the directory is not there, or not one that only this user may change.
fn check(path: &Path, user: u32) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    let unsafe_because = if metadata.is_symlink() {
        Some("it is a symbolic link".to_owned())
    } else if !metadata.is_dir() {
        Some("it is not a directory".to_owned())
    } else if metadata.uid() != user {
        Some(format!("it belongs to user {}", metadata.uid()))
    } else if metadata.mode() & 0o077 != 0 {
        Some(format!("others may enter it: its mode is {:04o}, not 0700", metadata.mode() & 0o7777))
    } else if metadata.mode() & 0o700 != 0o700 {
        Some(format!(
            "this user may not use it: its mode is {:04o}, not 0700",
            metadata.mode() & 0o7777
        ))
    } else {
        replaceable(path, user)?
    };
    match unsafe_because {
        None => Ok(()),
        Some(why) => {
            let untrusted = Untrusted { path: path.to_owned(), why };
            Err(io::Error::new(io::ErrorKind::PermissionDenied, untrusted))
        }
    }
}

/// Returns why another user could put another directory in the place of `path`; `None` if none can.
/// Looks at each directory and each link on the way, those of links as well.
fn replaceable(path: &Path, user: u32) -> io::Result<Option<String>> {
    let path = std::path::absolute(path)?;
    let Some(parent) = path.parent() else { return Ok(None) };
    let (mut at, mut rest, mut links) = (PathBuf::from("/"), parts(parent), 0);
    loop {
        let found = fs::symlink_metadata(&at)?;
        if found.is_symlink() {
            if !is_trusted(found.uid(), user) {
                return Ok(Some(format!("the link {} is of user {}", at.display(), found.uid())));
            }
            links += 1;
            if links > LINKS_MAX {
                return Ok(Some(format!("there are more than {LINKS_MAX} links on the way to it")));
            }
            rest.extend(parts(&fs::read_link(&at)?));
            at.pop();
        } else if let Some(who) = who_may_replace(&at, &found, user)? {
            return Ok(Some(format!("{who} may replace what lies in {}", at.display())));
        }
        match rest.pop() {
            None => return Ok(None),
            Some(part) if part == ".." => drop(at.pop()),
            // A target that begins at the root takes the place of all before.
            Some(part) => at.push(part),
        }
    }
}

/// Returns the parts of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
}

fn is_trusted(uid: u32, user: u32) -> bool {
    // In a user namespace the files of root may have no owner that it knows.
    uid == 0 || uid == user || is_overflow_user(uid)
}

/// Returns who else may remove and make files in a directory.
fn who_may_replace(path: &Path, directory: &Metadata, user: u32) -> io::Result<Option<String>> {
    let (mode, group) = (directory.mode(), directory.gid());
    if !is_trusted(directory.uid(), user) {
        return Ok(Some(format!("its owner, user {},", directory.uid())));
    }
    // Of a sticky directory only its owner, and the owner of what lies in it, remove that.
    let is_sticky = mode & 0o1000 != 0;
    if is_sticky || mode & 0o022 == 0 {
        return Ok(None);
    }
    if mode & 0o002 != 0 {
        return Ok(Some("any user".to_owned()));
    }
    // Its mask stands in the place of the rights of the group.
    if descriptor::has_access_list(path)? {
        return Ok(Some("users or groups of its access list (`getfacl`)".to_owned()));
    }
    // By the convention of `useradd` a group with the number of its user is that user's alone.
    if group != 0 && group != user {
        return Ok(Some(format!("group {group}")));
    }
    let others = users::other_member(group, user);
    Ok(others.map(|why| format!("group {group}, which {why},")))
}

/// Most links on the way to the directory: as many as the kernel follows.
const LINKS_MAX: usize = 40;

/// The directory, made if it is not there.
pub(crate) fn create() -> io::Result<PathBuf> {
    let (path, by) = choice();
    check_length(&path, by, None)?;
    match fs::DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            let text = format!(
                "the runtime directory {}, chosen by {by}, cannot be made: {error}; set \
                 {OWN_VARIABLE}",
                path.display()
            );
            Err(io::Error::new(error.kind(), text))
        }
        _ => existing(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::{XattrFlags, setxattr};

    /// An access list that lets user 65533 write, as the kernel keeps it: version 2, then a kind,
    /// rights and a number for each entry.
    fn list_with_a_user() -> Vec<u8> {
        let (none, user) = (u32::MAX, 65_533);
        let entries: [(u16, u16, u32); 5] =
            [(1, 7, none), (2, 7, user), (4, 0, none), (0x10, 7, none), (0x20, 0, none)];
        let mut bytes = 2_u32.to_le_bytes().to_vec();
        for (kind, rights, number) in entries {
            bytes.extend(kind.to_le_bytes());
            bytes.extend(rights.to_le_bytes());
            bytes.extend(number.to_le_bytes());
        }
        bytes
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn who_may_replace_a_directory_is_known_by_its_mode_its_group_and_its_access_list() {
        let name = format!("nearcall-runtime-dir-{:016x}", fastrand::u64(..));
        let path = env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        let user = process::user_id();
        let who = |mode: u32| {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            who_may_replace(&path, &fs::metadata(&path).unwrap(), user).unwrap()
        };
        assert_eq!(who(0o755), None);
        assert_eq!(who(0o1777), None);
        assert_eq!(who(0o757).as_deref(), Some("any user"));
        assert_eq!(who(0o777).as_deref(), Some("any user"));
        let of_group = who(0o770);
        let set =
            setxattr(&path, "system.posix_acl_access", &list_with_a_user(), XattrFlags::empty());
        match set {
            // The mode that it leaves is that with which the group was judged.
            Ok(()) => {
                assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o770);
                let by_list = who(0o770).unwrap();
                assert!(by_list.contains("access list"), "{by_list}, {of_group:?}");
                assert_eq!(who(0o700), None, "the mask lets none of them write");
                assert_eq!(who(0o1770), None);
            }
            // This file system has none.
            Err(error) => assert_eq!(error, rustix::io::Errno::NOTSUP),
        }
        fs::remove_dir(&path).unwrap();
    }

    #[test]
    fn a_path_of_a_socket_has_at_most_what_the_kernel_takes() {
        let check = |bytes: usize, name: Option<&str>| {
            let path = PathBuf::from(format!("/{}", "d".repeat(bytes - 1)));
            let error = check_length(&path, ChosenBy::Variable(XDG_VARIABLE), name).err()?;
            assert!(error.get_ref().is_some_and(|inner| inner.is::<PathTooLong>()));
            Some(error.to_string())
        };
        assert_eq!(check(90, None), None);
        assert_eq!(check(90, Some("sixteen-letters-")), None);
        let one_more = check(90, Some("seventeen-letters")).unwrap();
        assert!(one_more.contains("has 108 bytes"), "{one_more}");
        assert!(one_more.contains("chosen by XDG_RUNTIME_DIR"), "{one_more}");
        assert!(one_more.ends_with("a directory of at most 89 bytes"), "{one_more}");
        assert_eq!(check(91, Some("short")).as_deref(), check(91, None).as_deref());
        assert!(check(91, None).unwrap().contains("leaves no 16 bytes"));
        let longest = "n".repeat(64);
        assert_eq!(check(42, Some(&longest)), None);
        assert!(check(43, Some(&longest)).is_some());
    }
}
