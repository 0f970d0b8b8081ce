//! Listening sockets handed over to a child.

use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use nearcall_os::signal::{self, Signal, SignalSet};
use nearcall_os::socket::{self, UnixAddress};
use nearcall_os::socket_activation::{self, InheritedState, ListeningPlace};

use crate::partner::{PATIENCE, read_until, role, send};

const TEST: &str = "socket_activation::a_child_gets_the_sockets_with_their_names";

#[test]
fn a_child_gets_the_sockets_with_their_names() {
    if std::env::var_os("LISTEN_FDS").is_some() {
        return take();
    }
    let names = ["one", "two/health", "three"];
    let listeners = names.map(|name| {
        let address = format!("nearcall-os-{}-{name}", std::process::id());
        let listener = socket::unix_listen(UnixAddress::Abstract(address.as_bytes()), 8).unwrap();
        (name, address, listener)
    });
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([TEST, "--exact", "--nocapture", "--test-threads=1"]);
    command.env("NEARCALL_OS_PREFIX", format!("nearcall-os-{}-", std::process::id()));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let handed: Vec<_> = listeners.iter().map(|(name, _, it)| (*name, it.as_fd())).collect();
    // What this thread waits for is no concern of the child.
    let before = signal::block(&SignalSet::new(&[Signal::TERM])).unwrap();
    let mut child = socket_activation::spawn(command, &handed, None).unwrap();
    signal::set_mask(&before).unwrap();
    let mut output = child.pipes().stdout.take().unwrap();
    read_until(&mut output, "taken\n");
    // The parent's are as before, and the child accepts at the same sockets.
    for (name, address, _) in &listeners {
        let client = socket::unix_connect(UnixAddress::Abstract(address.as_bytes()), PATIENCE);
        let mut bytes = [0; 16];
        let client = client.unwrap();
        let length = socket::recv(&client, &mut bytes).unwrap();
        assert_eq!(&bytes[..length], name.as_bytes());
        // The kernel takes the process that listened last for the other end.
        let server = socket::peer_credentials(&client).unwrap().pid;
        assert_eq!(server, i32::try_from(child.pid()).ok());
    }
    assert!(child.wait(PATIENCE).unwrap().unwrap().success());
}

/// The child's part.
fn take() {
    assert!(role().is_none());
    // Of this thread: the C library blocks all signals in the one that starts it meanwhile.
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    assert!(status.contains("SigBlk:\t0000000000000000\n"), "{status}");
    let prefix = std::env::var("NEARCALL_OS_PREFIX").unwrap();
    let sockets = socket_activation::take_inherited().unwrap();
    assert!(socket_activation::take_inherited().unwrap().is_empty());
    assert_eq!(sockets.len(), 3);
    let sockets = sockets.into_iter().map(|inherited| {
        let inherited = inherited.unwrap();
        let name = inherited.name.clone();
        assert_eq!(
            inherited.place,
            ListeningPlace::Abstract(format!("{prefix}{name}").into_bytes())
        );
        assert_eq!(inherited.kind, socket::Kind::Seqpacket);
        assert_eq!(inherited.state, InheritedState::Listening);
        let socket = inherited.take().unwrap().unwrap();
        socket::start_listening(&socket, 8).unwrap();
        (name, socket)
    });
    let sockets: Vec<_> = sockets.collect();
    send("taken\n");
    for (name, socket) in &sockets {
        let client = socket::accept(socket, PATIENCE).unwrap().unwrap();
        socket::send(&client, name.as_bytes()).unwrap();
    }
}

#[test]
fn a_program_that_is_not_there_is_an_error_of_the_start() {
    let socket = socket::unix_listen(
        UnixAddress::Abstract(format!("nearcall-os-{}-none", std::process::id()).as_bytes()),
        1,
    )
    .unwrap();
    let command = || Command::new("/nonexistent/program");
    let error = socket_activation::spawn(command(), &[("a:b", socket.as_fd())], None).unwrap_err();
    assert!(error.to_string().contains("`a:b`"), "{error}");
    // Whatever numbers become free meanwhile: those of the sockets are taken by nothing that the
    // report of the error needs.
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let held: Vec<_> = (0..8).map(|_| socket.try_clone().unwrap()).collect();
                drop(held);
            }
        });
        for count in (1..=64).cycle().take(200) {
            let sockets = vec![("none", socket.as_fd()); count];
            let error = socket_activation::spawn(command(), &sockets, None).map(drop);
            is_over.store(error.is_ok(), Ordering::Relaxed);
            let error = error.expect_err("there is no such program");
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
