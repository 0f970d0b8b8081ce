//! What others may put where a server has its socket, take away there, or hand over in its place,
//! and what becomes of it.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};

use nearcall::server::ListenOptions;
use nearcall_os::lock_file::LockFile;
use nearcall_os::socket::{UnixAddress, accept, unix_bind, unix_connect, unix_listen};
use nearcall_testkit::directory::Directory;

use crate::support::prelude::*;

pub(crate) const ROLES: &[Role] = &[
    ("listener", try_to_listen),
    ("visitor", try_to_call),
    ("waiting-visitor", try_to_hunt),
    ("attaching-visitor", try_to_attach),
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
    let outcome = echo.with(CallOptions::new().deadline(PATIENCE)).nothing(&());
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

/// Attaches to a server, and reports how that ended.
fn try_to_attach(address: &str) {
    let outcome = Client::new().attach(address);
    report(&match outcome {
        Ok(_) => "outcome ok".to_owned(),
        Err(status) => format!("outcome {status}"),
    });
}

/// Locks the file at the path that it gets until the parent says so.
fn hold_a_lock(path: &str) {
    let lock = LockFile::acquire(Path::new(path)).unwrap();
    report("locked");
    wait_for_the_parent();
    lock.remove();
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

#[timed]
fn r24_a_runtime_directory_that_others_may_change_is_refused_by_both_ends() {
    let place = Directory::with_mode(0o700);
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
}

#[timed]
fn r24_what_lies_at_the_place_of_a_socket_is_left_alone() {
    let place = Directory::with_mode(0o700);
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
}

#[timed]
fn r24_a_lock_of_another_user_is_named() {
    let Some(User::Uid(uid)) = User::another() else {
        return skip("r24 with a lock of another user", "only root can become another user");
    };
    // As /tmp is.
    let place = Directory::with_mode(0o1777);
    let address = format!("unix:{}/socket", place.0.display());
    let lock = place.0.join(".socket.lock");
    let mut holder = command("lock-holder", &lock.to_string_lossy(), "");
    holder.uid(uid).gid(uid);
    let mut holder = Process::start_as("lock-holder", holder);
    holder.hear("locked");
    let outcome = outcome_in(&place.0, "listener", &address);
    let holder_of_it = format!("process {} has locked", holder.pid());
    assert!(outcome.contains(&holder_of_it), "{outcome}");
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
}

#[test]
fn r24_policies_that_let_no_client_in_are_refused_where_the_server_listens() {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    let place = Directory::with_mode(0o700);
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
        (&path, new().mechanisms(nearcall::mechanism::MechanismSet::NONE), "names none"),
        (&format!("{path}?allow=cma"), new().mechanisms(Mechanism::Shm), "contradicts"),
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

/// Starts a server for each client that waits at the listener, as a socket unit with `Accept=yes`
/// does, with the socket that was accepted as what `hand_over` has. Returns what they report, of 20
/// at most.
fn start_one_for_each(
    listener: &OwnedFd,
    mut hand_over: impl FnMut(OwnedFd) -> Process,
) -> Vec<String> {
    let mut outcomes = Vec::new();
    while outcomes.len() < 20
        && let Some(connection) = accept(listener, Deadline::NOW).unwrap()
    {
        let mut server = hand_over(connection);
        outcomes.push(server.hear("outcome"));
        server.finish();
    }
    outcomes
}

#[timed]
fn r24_a_connected_socket_is_refused_and_starts_no_further_server() {
    let place = Directory::with_mode(0o700);
    let path = place.0.join("socket");
    let address = format!("unix:{}", path.display());
    let listener = unix_listen(UnixAddress::Path(&path), 8).unwrap();
    let client = || unix_connect(UnixAddress::Path(&path), PATIENCE).unwrap();
    let _client = client();
    let outcomes = start_one_for_each(&listener, |connection| {
        Process::start_with(&connection, "listener", command("listener", &address, ""))
    });
    assert_eq!(outcomes.len(), 1, "{outcomes:?}");
    assert!(outcomes[0].contains("has a connected socket of"), "{outcomes:?}");
    assert!(outcomes[0].contains("Accept=no"), "{outcomes:?}");
    // A program that is not told what it was handed, as by inetd.
    let _client = client();
    let outcomes = start_one_for_each(&listener, |connection| {
        let process = Process::start("listener", &address);
        drop(connection);
        process
    });
    assert_eq!(outcomes.len(), 1, "{outcomes:?}");
    assert!(outcomes[0].contains("is in use"), "{outcomes:?}");
    assert!(path.exists());
}

#[timed]
fn r24_a_socket_that_no_server_can_use_is_refused_with_what_is_wrong_with_it() {
    let place = Directory::with_mode(0o700);
    let path = |name: &str| place.0.join(name);
    let sockets: [(&str, OwnedFd, &str); 4] = [
        ("stream", UnixListener::bind(path("stream")).unwrap().into(), "ListenSequentialPacket="),
        ("datagram", UnixDatagram::bind(path("datagram")).unwrap().into(), "of datagrams"),
        ("bound", unix_bind(UnixAddress::Path(&path("bound"))).unwrap(), "does not listen"),
        // The server has another address than its socket unit.
        ("other", unix_listen(UnixAddress::Path(&path("unit")), 8).unwrap(), "/unit"),
    ];
    let mut taken = Vec::new();
    for (name, socket, why) in &sockets {
        if *name == "other" {
            taken.push(unix_listen(UnixAddress::Path(&path(name)), 8).unwrap());
        }
        let address = format!("unix:{}", path(name).display());
        let mut server = Process::start_with(socket, "listener", command("listener", &address, ""));
        let outcome = server.hear("outcome");
        server.finish();
        assert!(outcome.contains("LISTEN_FDS") && outcome.contains(why), "{name}: {outcome}");
    }
    // A port that was taken says so as well.
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", port.local_addr().unwrap());
    let mut server =
        Process::start_with(&sockets[3].1, "listener", command("listener", &address, ""));
    let outcome = server.hear("outcome");
    server.finish();
    assert!(outcome.contains("in use") && outcome.contains("/unit"), "{outcome}");
    // What a client says of such sockets: no wait mends them.
    for (name, why) in [("stream", "SOCK_STREAM"), ("datagram", "SOCK_DGRAM")] {
        let address = format!("unix:{}", path(name).display());
        for role in ["visitor", "waiting-visitor", "attaching-visitor"] {
            let outcome = outcome_in(&place.0, role, &address);
            assert!(outcome.starts_with("FAILED_PRECONDITION"), "{role}: {outcome}");
            assert!(outcome.contains(why) && !outcome.contains("start the"), "{outcome}");
        }
    }
}

/// The same file by another path is the same socket.
#[timed]
fn r24_a_socket_is_adopted_by_any_path_that_leads_to_it() {
    let place = Directory::with_mode(0o700);
    let directory = place.directory("real");
    symlink(&directory, place.0.join("link")).unwrap();
    let socket = unix_listen(UnixAddress::Path(&directory.join("socket")), 8).unwrap();
    let address = format!("unix:{}/link/socket", place.0.display());
    let mut server = Process::start_with(&socket, "listener", command("listener", &address, ""));
    assert_eq!(server.hear("outcome"), "ok");
    server.finish();
    assert!(directory.join("socket").exists(), "it is its binder's");
}

/// A server at the name `kitchen` of a runtime directory of its own.
fn kitchen() -> ServerProcess {
    ServerSetup::new("server").at("kitchen").start()
}

fn call_at(path: &Path) {
    let address = format!("unix:{}", path.display());
    let client = Client::new();
    client.hunt(&address, PATIENCE).unwrap();
    let options = CallOptions::new().deadline(PATIENCE);
    EchoCaller::new(&client, &address).unwrap().with(options).nothing(&()).unwrap();
}

#[timed]
fn r24_a_server_whose_socket_file_was_removed_makes_it_again() {
    let mut server = kitchen();
    let (socket, lock) = (server.runtime.join("kitchen"), server.runtime.join(".kitchen.lock"));
    let is_back = |path: &Path| wait_until("the file", || path.exists());
    let kept = Client::new();
    let before = EchoCaller::new(&kept, &format!("unix:{}", socket.display())).unwrap();
    before.nothing(&()).unwrap();
    fs::set_permissions(&socket, Permissions::from_mode(0o640)).unwrap();
    let oracle = server.leak_oracle();
    let remove = |paths: &[&Path]| paths.iter().for_each(|path| fs::remove_file(path).unwrap());
    for removed in [&[&*socket][..], &[&*lock], &[&*socket, &*lock], &[&*lock, &*socket]] {
        remove(removed);
        is_back(&socket);
        is_back(&lock);
        call_at(&socket);
        assert_eq!(fs::metadata(&socket).unwrap().mode() & 0o777, 0o600, "as it asks for");
        let listed = outcome_in(&server.runtime, "lister", "");
        assert!(listed.starts_with("[kitchen: process"), "{listed}");
        let outcome = outcome_in(&server.runtime, "listener", "kitchen");
        assert!(outcome.contains("in use"), "{outcome}");
        assert!(outcome.contains(&format!("process {}", server.pid())), "{outcome}");
        // Connections go on meanwhile.
        before.nothing(&()).unwrap();
        server.wait_for_connections(1);
    }
    oracle.check(&[]);
    // A file that was renamed is found by both names.
    let renamed = server.runtime.join("renamed");
    fs::rename(&socket, &renamed).unwrap();
    is_back(&socket);
    call_at(&socket);
    call_at(&renamed);
    fs::remove_file(&renamed).unwrap();
    // With its directory, as `mv` and `rm -r` take it away.
    let away = server.runtime.with_extension("away");
    fs::rename(&server.runtime, &away).unwrap();
    is_back(&socket);
    call_at(&socket);
    fs::remove_dir_all(&away).unwrap();
    call_at(&socket);
    // Nothing of the loss may be pending when the next one is waited for.
    server.wait_for_connections(1);
    fs::remove_dir_all(&server.runtime).unwrap();
    is_back(&socket);
    call_at(&socket);
    server.wait_for_connections(1);
    drop(kept);
    server.finish();
    assert!(!socket.exists() && !lock.exists(), "it takes its files along");
}

#[timed]
fn r24_what_has_taken_the_place_of_a_socket_file_is_left_alone() {
    let mut server = kitchen();
    let socket = server.runtime.join("kitchen");
    let other = server.runtime.join("other");
    let squatter = unix_listen(UnixAddress::Path(&other), 8).unwrap();
    fs::rename(&other, &socket).unwrap();
    let inode = || fs::symlink_metadata(&socket).unwrap().ino();
    let replaced = inode();
    // The server goes on for those that it has, and leaves the file of the other.
    server.state();
    server.process().tell("stop");
    server.process().finish();
    assert_eq!(inode(), replaced);
    drop(squatter);
}

/// Times that a process has gone to sleep.
fn sleeps(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    count.trim().parse().unwrap()
}

#[timed]
fn r24_a_server_sleeps_while_other_files_of_its_directory_come_and_go() {
    let mut server = kitchen();
    server.state();
    wait_until("a sleep", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", server.pid())).unwrap();
        stat.contains(") S ")
    });
    let before = sleeps(server.pid());
    for number in 0..200 {
        let path = server.runtime.join(format!("other-{number}"));
        fs::write(&path, "").unwrap();
        let client = unix_connect(UnixAddress::Path(&path), Duration::ZERO);
        assert!(client.is_err());
        fs::remove_file(&path).unwrap();
    }
    assert_eq!(sleeps(server.pid()), before);
    server.finish();
}

#[timed]
fn r24_a_path_that_no_socket_can_have_is_named_with_its_length_and_its_cause() {
    let place = Directory::with_mode(0o700);
    let mut directory = place.0.clone();
    let fill = |directory: &mut PathBuf, bytes: usize| {
        let rest = bytes - 1 - directory.as_os_str().len();
        *directory = directory.join("d".repeat(rest));
        fs::DirBuilder::new().mode(0o700).create(&*directory).unwrap();
    };
    fill(&mut directory, 86);
    let long = "thermostat-of-the-attic";
    let total = (86 + 1 + long.len()).to_string();
    for role in ["listener", "visitor", "waiting-visitor", "attaching-visitor"] {
        let outcome = outcome_in(&directory, role, long);
        for word in [&*directory.to_string_lossy(), &total, "107", "NEARCALL_RUNTIME_DIR"] {
            assert!(outcome.contains(word), "{role}: {outcome}");
        }
        let is_final = outcome.starts_with("FAILED_PRECONDITION") || role == "listener";
        assert!(is_final, "{role}: {outcome}");
        let fits = outcome_in(&directory, "listener", "thermostat");
        assert_eq!(fits, "ok");
    }
    assert_eq!(outcome_in(&directory, "lister", ""), "[]");
    // One that leaves hardly any room for names is refused as a whole, also if it is absent.
    let mut directory = place.0.clone();
    fill(&mut directory, 100);
    for directory in [&directory, &directory.with_extension("not")] {
        for role in ["listener", "visitor", "waiting-visitor", "attaching-visitor", "lister"] {
            let outcome = outcome_in(directory, role, "a");
            let bytes = directory.as_os_str().len().to_string();
            for word in [&*directory.to_string_lossy(), &bytes, "107", "NEARCALL_RUNTIME_DIR"] {
                assert!(outcome.contains(word), "{role}: {outcome}");
            }
            let is_final = outcome.starts_with("FAILED_PRECONDITION") || role == "listener";
            assert!(is_final, "{role}: {outcome}");
        }
    }
    assert!(!directory.with_extension("not").exists());
}

#[timed]
fn r24_a_client_that_finds_no_server_names_what_has_chosen_the_directory() {
    let place = Directory::with_mode(0o711);
    let own = place.directory("own");
    let outcome = outcome_in(&own, "visitor", "kitchen");
    let path = own.join("kitchen");
    assert!(outcome.starts_with("UNAVAILABLE"), "{outcome}");
    assert!(outcome.contains(path.to_str().unwrap()), "{outcome}");
    assert!(outcome.contains("NEARCALL_RUNTIME_DIR"), "{outcome}");
    let outcome_as = |variables: &[(&str, &Path)], user: Option<u32>, name: &str| {
        let mut command = command("visitor", name, "");
        command.env_remove("NEARCALL_RUNTIME_DIR").env_remove("XDG_RUNTIME_DIR");
        command.envs(variables.iter().copied());
        if let Some(uid) = user {
            command.uid(uid).gid(uid);
        }
        let mut process = Process::start_as("visitor", command);
        let outcome = process.hear("outcome");
        process.finish();
        outcome
    };
    let outcome = outcome_as(&[("XDG_RUNTIME_DIR", &place.0)], None, "kitchen");
    assert!(outcome.contains("XDG_RUNTIME_DIR"), "{outcome}");
    let outcome = outcome_as(&[], None, "nearcall-test-nobody");
    assert!(outcome.contains("neither NEARCALL_RUNTIME_DIR nor XDG_RUNTIME_DIR"), "{outcome}");
    let Some(User::Uid(uid)) = User::another() else {
        return skip("r24 with another runtime directory", "only root can become another user");
    };
    // The server of a login, and a client that cron or sudo has started.
    let name = format!("kitchen-{:016x}", fastrand::u64(..));
    let usual = PathBuf::from(format!("/tmp/nearcall-{uid}"));
    let mut server = command("server", &name, "");
    server.env_remove("NEARCALL_RUNTIME_DIR").env_remove("XDG_RUNTIME_DIR").uid(uid).gid(uid);
    let mut server = Process::start_as("server", server);
    server.hear("listens");
    let session = place.directory("session");
    fs::create_dir(session.join("nearcall")).unwrap();
    set_mode(&session.join("nearcall"), 0o700);
    for path in [&session, &session.join("nearcall")] {
        chown(path, Some(uid), Some(uid)).unwrap();
    }
    let outcome = outcome_as(&[("XDG_RUNTIME_DIR", &session)], Some(uid), &name);
    assert!(outcome.contains("XDG_RUNTIME_DIR"), "{outcome}");
    let found = format!("NEARCALL_RUNTIME_DIR={}", usual.display());
    assert!(outcome.contains(&found), "{outcome}");
    // Root by `sudo` is told by which address it reaches the server of the user.
    let outcome = outcome_as(&[("SUDO_UID", Path::new("65533"))], None, &name);
    assert!(outcome.contains(&format!("unix:{}/{name}", usual.display())), "{outcome}");
    server.tell("stop");
    server.finish();
    // It may have been there before, with sockets of others.
    let _ = fs::remove_dir(&usual);
}

#[timed]
fn r24_a_directory_that_a_group_may_write_is_refused_unless_its_user_is_alone_in_it() {
    let Some(User::Uid(uid)) = User::another() else {
        return skip("r24 with groups", "only root can become another user");
    };
    let place = Directory::with_mode(0o711);
    let shared = place.directory("shared");
    let inside = place.directory("shared/inside");
    for path in [&shared, &inside] {
        chown(path, Some(uid), Some(uid)).unwrap();
    }
    let outcome = || {
        let mut command = command("listener", "name", "");
        command.env("NEARCALL_RUNTIME_DIR", &inside).uid(uid).gid(uid);
        let mut process = Process::start_as("listener", command);
        let outcome = process.hear("outcome");
        process.finish();
        outcome
    };
    assert_eq!(outcome(), "ok");
    // No entry says that this user is alone in the group with its number.
    set_mode(&shared, 0o770);
    let refused = outcome();
    assert!(refused.contains("group 65533, which is not in /etc/group,"), "{refused}");
    assert!(refused.contains("may replace what lies in"), "{refused}");
    set_mode(&shared, 0o1770);
    assert_eq!(outcome(), "ok", "no other may replace what is this user's");
    // The group of root has no other member, by the rule of most systems.
    let team = place.directory("team");
    let inside = place.directory("team/inside");
    set_mode(&team, 0o770);
    if nearcall_os::users::other_member(0, 0).is_none() {
        assert_eq!(outcome_in(&inside, "listener", "name"), "ok");
    }
}
