//! What other users may put where a server has its socket, and what becomes of it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nearcall::{CallOptions, Client, EventLoop, ListenOptions, Server};
use nearcall_os::lock_file::LockFile;

use crate::echo::EchoCaller;
use crate::support::child::{Process, command, report};
use crate::support::{PATIENCE, Role, User, in_time, skip};

pub(crate) const ROLES: &[Role] = &[
    ("listener", try_to_listen),
    ("visitor", try_to_call),
    ("waiting-visitor", try_to_hunt),
    ("lock-holder", hold_a_lock),
];

/// Tries to listen, and reports how that ended.
fn try_to_listen(address: &str) {
    let event_loop = EventLoop::new().unwrap();
    let outcome = Server::new(&event_loop).listen(address);
    report(&match outcome {
        Ok(_) => "outcome ok".to_owned(),
        Err(error) => format!("outcome {error}"),
    });
}

/// Tries to call, and reports how that ended.
fn try_to_call(address: &str) {
    let client = Client::new();
    let echo = EchoCaller::new(&client, address).unwrap();
    let outcome = echo.nothing_with(&(), &CallOptions::new().deadline(PATIENCE));
    report(&match outcome {
        Ok(()) => "outcome ok".to_owned(),
        Err(status) => format!("outcome {status}"),
    });
}

/// Waits for a server for longer than the test does, and reports how that ended.
fn try_to_hunt(address: &str) {
    let outcome = Client::new().hunt(address, Duration::from_secs(3600));
    report(&match outcome {
        Ok(()) => "outcome ok".to_owned(),
        Err(status) => format!("outcome {status}"),
    });
}

/// Locks the file at the path that it gets until the parent says so.
fn hold_a_lock(path: &str) {
    let lock = LockFile::acquire(Path::new(path)).unwrap();
    report("locked");
    crate::support::child::wait_for_the_parent();
    lock.remove();
}

/// A directory of its own, gone with this.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn make(mode: u32) -> Self {
        let name = format!("nearcall-faults-{:016x}", fastrand::u64(..));
        let place = Self(std::env::temp_dir().join(name));
        fs::DirBuilder::new().mode(0o700).create(&place.0).unwrap();
        set_mode(&place.0, mode);
        place
    }

    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// What a process says that does this with this runtime directory.
pub(crate) fn outcome_in(directory: &Path, role: &str, address: &str) -> String {
    let mut command = command(role, address, "");
    command.env("NEARCALL_RUNTIME_DIR", directory);
    let mut process = Process::start_as(role, command);
    let outcome = process.hear("outcome");
    process.finish();
    outcome
}

#[test]
fn r24_a_runtime_directory_that_others_may_change_is_refused_by_both_ends() {
    in_time(|| {
        let place = Place::make(0o700);
        let good = place.directory("good");
        assert_eq!(outcome_in(&good, "listener", "name"), "ok");
        let mut refused = vec![];
        let link = place.0.join("link");
        symlink(&good, &link).unwrap();
        refused.push((link, "it is a symbolic link"));
        let open = place.directory("open");
        set_mode(&open, 0o777);
        refused.push((open, "its mode is 0777, not 0700"));
        let shut = place.directory("shut");
        set_mode(&shut, 0o600);
        refused.push((shut, "its mode is 0600, not 0700"));
        let file = place.0.join("file");
        fs::write(&file, "").unwrap();
        refused.push((file, "it is not a directory"));
        // Whoever may rename it may put another in its place.
        let shared = place.directory("shared");
        let inside = place.directory("shared/inside");
        set_mode(&shared, 0o777);
        refused.push((inside, "any user may replace what lies in"));
        // A link is as safe as the directory that it lies in.
        symlink(&place.0, shared.join("link")).unwrap();
        refused.push((shared.join("link/good"), "any user may replace what lies in"));
        if let Some(User::Uid(uid)) = User::another() {
            let foreign = place.directory("foreign");
            chown(&foreign, Some(uid), Some(uid)).unwrap();
            refused.push((foreign, "it belongs to user 65533"));
            let owned = place.directory("owned");
            let inside = place.directory("owned/inside");
            chown(&owned, Some(uid), Some(uid)).unwrap();
            refused.push((inside, "its owner, user 65533, may replace what lies in"));
            let team = place.directory("team");
            let inside = place.directory("team/inside");
            chown(&team, None, Some(uid)).unwrap();
            set_mode(&team, 0o775);
            refused.push((inside, "group 65533 may replace what lies in"));
        } else {
            skip("r24 with directories of another user", "only root can give files away");
        }
        for (directory, why) in refused {
            for role in ["listener", "visitor", "waiting-visitor", "lister"] {
                let outcome = outcome_in(&directory, role, "name");
                assert!(outcome.contains(why), "{role} in {}: {outcome}", directory.display());
                assert!(outcome.contains("cannot be trusted"), "{outcome}");
            }
        }
        // As /tmp: no user may replace what is another's.
        set_mode(&shared, 0o1777);
        assert_eq!(outcome_in(&shared.join("inside"), "listener", "name"), "ok");
        assert_eq!(outcome_in(&shared.join("link/good"), "listener", "name"), "ok");
    });
}

#[test]
fn r24_what_lies_at_the_place_of_a_socket_is_left_alone() {
    in_time(|| {
        let place = Place::make(0o700);
        let directory = place.directory("runtime");
        let precious = place.0.join("precious");
        fs::write(&precious, "precious").unwrap();
        symlink(&precious, directory.join("link")).unwrap();
        fs::hard_link(&precious, directory.join("hard")).unwrap();
        fs::create_dir(directory.join("directory")).unwrap();
        symlink(&precious, directory.join(".locked.lock")).unwrap();
        for name in ["link", "hard", "directory", "locked"] {
            let outcome = outcome_in(&directory, "listener", name);
            let is_named = outcome.contains("is no socket") || outcome.contains("is no lock file");
            assert!(is_named && outcome.contains(name), "{outcome}");
        }
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
        let left = fs::read_dir(&directory).unwrap().count();
        assert_eq!(left, 4, "a lock was left");
    });
}

#[test]
fn r24_a_lock_of_another_user_is_named() {
    in_time(|| {
        let Some(User::Uid(uid)) = User::another() else {
            return skip("r24 with a lock of another user", "only root can become another user");
        };
        // As /tmp is.
        let place = Place::make(0o1777);
        let address = format!("unix:{}/socket", place.0.display());
        let lock = place.0.join(".socket.lock");
        let mut holder = command("lock-holder", &lock.to_string_lossy(), "");
        holder.uid(uid).gid(uid);
        let mut holder = Process::start_as("lock-holder", holder);
        holder.hear("locked");
        let outcome = outcome_in(&place.0, "listener", &address);
        assert!(outcome.contains("another process has locked"), "{outcome}");
        assert!(outcome.contains("belongs to user 65533"), "{outcome}");
        holder.kill();
        // Root takes over what a dead process has left; others may not touch what is root's.
        assert_eq!(outcome_in(&place.0, "listener", &address), "ok");
        let held = LockFile::acquire(&lock).unwrap();
        let mut other = command("listener", &address, "");
        other.uid(uid).gid(uid);
        let mut other = Process::start_as("listener", other);
        let outcome = other.hear("outcome");
        other.finish();
        assert!(outcome.contains("belongs to user 0, and this is user 65533"), "{outcome}");
        held.remove();
    });
}

#[test]
fn r24_policies_that_let_no_client_in_are_refused_where_the_server_listens() {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    let place = Place::make(0o700);
    let path = format!("unix:{}/socket", place.0.display());
    let own = nearcall_os::process::user_id();
    let new = ListenOptions::new;
    for (address, options, why) in [
        (&*path, new().users([]), "name none"),
        (&path, new().groups([]), "name none"),
        (&path, new().socket_mode(0o444), "no process connect"),
        (&path, new().socket_mode(0o10600), "bits above 0o777"),
        (&path, new().users([own + 7]).socket_mode(0o600), "cannot connect"),
        (&path, new().users([own + 7]), "to enter, 0o1"),
        (&path, new().socket_mode(0o660), "lets its group in"),
        (&path, new().socket_mode(0o666), "lets all users in"),
        (&path, new().message_bytes_max(0), "is 0"),
        (&path, new().deadline_max(Duration::ZERO), "is 0"),
        (&path, new().mechanisms(nearcall::MechanismSet::NONE), "names none"),
        (&format!("{path}?allow=cma"), new().mechanisms(nearcall::Mechanism::Shm), "contradicts"),
        ("name", new().users([own + 7]), "cannot reach `name`"),
        ("name", new().socket_mode(0o660), "cannot reach `name`"),
        ("unix:@nearcall-no-file", new().socket_mode(0o600), "need a socket with a file"),
        ("tcp://127.0.0.1:0", new().users([0]), "need a unix socket"),
        ("tcp://127.0.0.1:0", new().socket_owner(0, 0), "need a socket with a file"),
        ("inproc:policies", new().users([0]), "need a unix socket"),
    ] {
        let refused = server.listen_with(address, &options).unwrap_err().to_string();
        assert!(refused.contains(why), "{address}, {options:?}: {refused}");
    }
    assert_eq!(fs::read_dir(&place.0).unwrap().count(), 0);
    // The same is right where others may enter.
    set_mode(&place.0, 0o755);
    server.listen_with(&path, &new().users([own, own + 7])).unwrap();
}
