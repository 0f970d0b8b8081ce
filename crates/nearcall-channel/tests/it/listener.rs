//! The file of a listener's socket: who gets it, who may connect, and who removes it.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Barrier;

use nearcall_channel::SocketAccess;
use nearcall_os::fork;
use nearcall_os::socket::{self, UnixAddress};

use crate::support::prelude::*;

/// A directory of its own, gone with this.
struct Place(PathBuf);

impl Place {
    fn make() -> Self {
        let name = format!("nearcall-listener-{:016x}", fastrand::u64(..));
        let place = Self(std::env::temp_dir().join(name));
        fs::create_dir(&place.0).unwrap();
        place
    }

    fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }

    fn address(&self) -> Address {
        format!("unix:{}", self.socket().display()).parse().unwrap()
    }

    /// Leaves what a server leaves that was killed.
    fn leave_stale(&self) {
        drop(socket::unix_listen(UnixAddress::Path(&self.socket()), 1).unwrap());
        fs::write(self.0.join(".socket.lock"), "").unwrap();
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::set_permissions(&self.0, fs::Permissions::from_mode(0o700));
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Two servers that started together both removed the stale socket, and the first one's clients
/// found the second.
#[test]
fn of_listeners_that_take_over_a_stale_socket_in_the_same_instant_one_gets_it() {
    const ROUNDS: usize = 300;
    const SERVERS: usize = 4;
    let place = Place::make();
    for round in 0..ROUNDS {
        place.leave_stale();
        let (start, end) = (Barrier::new(SERVERS), Barrier::new(SERVERS));
        let address = place.address();
        let compete = || {
            start.wait();
            let bound = Listener::bind(&address);
            end.wait();
            match bound {
                Ok(listener) => {
                    let client = UnixAddress::Path(&place.socket()).connect();
                    assert!(listener.accept_socket().unwrap().is_some(), "found by no client");
                    drop(client);
                    1
                }
                Err(HandshakeError::AddressInUse(..)) => 0,
                Err(error) => panic!("round {round}: {error}"),
            }
        };
        let listeners: i32 = thread::scope(|scope| {
            let threads: Vec<_> = (0..SERVERS).map(|_| scope.spawn(compete)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(listeners, 1, "round {round}");
        assert!(place.files().is_empty(), "{:?}", place.files());
    }
}

trait Connect {
    fn connect(self) -> OwnedFd;
}

impl Connect for UnixAddress<'_> {
    fn connect(self) -> OwnedFd {
        socket::unix_connect(self, Some(Duration::from_secs(20))).unwrap()
    }
}

#[test]
fn a_listener_that_goes_removes_its_own_socket_and_no_successors() {
    let place = Place::make();
    let first = Listener::bind(&place.address()).unwrap();
    assert_eq!(place.files(), [".socket.lock", "socket"]);
    // As an operator does who clears up behind a server that lives.
    fs::remove_dir_all(&place.0).unwrap();
    fs::create_dir(&place.0).unwrap();
    let second = Listener::bind(&place.address()).unwrap();
    drop(first);
    assert_eq!(place.files(), [".socket.lock", "socket"]);
    let _client = UnixAddress::Path(&place.socket()).connect();
    assert!(second.accept_socket().unwrap().is_some());
    drop(second);
    assert!(place.files().is_empty(), "{:?}", place.files());
}

#[test]
fn a_forked_process_removes_nothing_and_accepts_no_one() {
    let place = Place::make();
    let listener = Listener::bind(&place.address()).unwrap();
    let client = UnixAddress::Path(&place.socket()).connect();
    let mut listener = Some(listener);
    let code = fork::run_in_child(|| {
        let inherited = listener.take().unwrap();
        let refused = inherited.accept_socket().is_err();
        inherited.unlink();
        drop(inherited);
        u8::from(!refused)
    });
    assert_eq!(code.unwrap(), 0, "it took a client of the parent");
    assert_eq!(place.files(), [".socket.lock", "socket"]);
    let listener = listener.unwrap();
    assert!(listener.accept_socket().unwrap().is_some());
    drop(client);
}

#[test]
fn the_mode_is_what_the_listener_says_and_not_the_umask() {
    let place = Place::make();
    let mode = || fs::metadata(place.socket()).unwrap().mode() & 0o7777;
    drop({
        let listener = Listener::bind(&place.address()).unwrap();
        assert_eq!(mode(), 0o600);
        listener
    });
    for wanted in [0o600, 0o660, 0o666, 0o222] {
        let access = SocketAccess { mode: wanted, ..SocketAccess::default() };
        let listener = Listener::bind_for(&place.address(), access).unwrap();
        assert_eq!(mode(), wanted);
        drop(listener);
    }
    let owner = Some((65_534, 65_533));
    let access = SocketAccess { mode: 0o660, owner };
    match Listener::bind_for(&place.address(), access) {
        Ok(listener) => {
            let file = fs::metadata(place.socket()).unwrap();
            assert_eq!((file.uid(), file.gid(), mode()), (65_534, 65_533, 0o660));
            drop(listener);
        }
        // Only root may give files away.
        Err(error) => assert!(error.to_string().contains("to user 65534"), "{error}"),
    }
    assert!(place.files().is_empty(), "{:?}", place.files());
}

#[test]
fn a_directory_where_any_user_may_replace_the_socket_is_refused() {
    let place = Place::make();
    fs::set_permissions(&place.0, fs::Permissions::from_mode(0o777)).unwrap();
    let refused = Listener::bind(&place.address()).err().unwrap().to_string();
    assert!(refused.contains("0777") && refused.contains("replace the socket"), "{refused}");
    // As /tmp is: no user may replace what is another's.
    fs::set_permissions(&place.0, fs::Permissions::from_mode(0o1777)).unwrap();
    drop(Listener::bind(&place.address()).unwrap());
    assert!(place.files().is_empty(), "{:?}", place.files());
}

#[test]
fn a_lock_that_is_no_file_and_a_listener_of_another_kind_are_refused() {
    let place = Place::make();
    std::os::unix::fs::symlink("/dev/null", place.0.join(".socket.lock")).unwrap();
    let refused = Listener::bind(&place.address()).err().unwrap().to_string();
    assert!(refused.contains("is no lock file"), "{refused}");
    fs::remove_file(place.0.join(".socket.lock")).unwrap();
    // A program that knows of no lock listens there.
    let other = socket::unix_listen(UnixAddress::Path(&place.socket()), 1).unwrap();
    expect_err!(Listener::bind(&place.address()), HandshakeError::AddressInUse(..));
    assert!(socket::accept(&other, Deadline::NOW).is_ok());
    assert_eq!(place.files(), ["socket"]);
}
