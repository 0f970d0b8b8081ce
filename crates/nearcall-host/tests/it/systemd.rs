//! What systemd hands over and is told.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

use nearcall::Client;
use nearcall_os::process::{Child, kill_pidfd, pidfd_open};
use nearcall_os::socket::{self, UnixAddress};
use nearcall_os::socket_activation;

use crate::home::{SetTargetRequest, ThermostatCaller};
use crate::tested::{Directory, PATIENCE, TestedHost, example, in_time, process};

#[test]
fn a_program_of_a_socket_unit_takes_the_clients_that_came_before_it() {
    let directory = Directory::new();
    let path = directory.path("room");
    let listener = socket::unix_listen(UnixAddress::Path(&path), 8).unwrap();
    let address = format!("unix:{}", path.display());
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            let room = ThermostatCaller::new(&Client::new(), &address).unwrap();
            let before =
                room.with(in_time()).set_target(&SetTargetRequest { celsius: 21.0 }).unwrap();
            // The kernel names the program that serves, and not the one that made the socket.
            let client = socket::unix_connect(UnixAddress::Path(&path), Some(PATIENCE)).unwrap();
            let server = socket::peer_credentials(&client).unwrap().pid;
            (before.celsius_before, server)
        });
        let mut command = Command::new(example("test_program"));
        command.arg("plain").env("NEARCALL_LISTEN", &address).stdin(Stdio::null());
        let sockets = [("room.socket", listener.as_fd())];
        let mut child = socket_activation::spawn(command, &sockets, None).unwrap();
        let pid = i32::try_from(child.pid()).ok();
        assert_eq!(first.join().unwrap(), (0.0, pid));
        child.kill().unwrap();
    });
    assert!(path.exists(), "its file stays");
}

#[test]
fn a_host_says_when_its_services_are_up_and_when_it_stops() {
    let directory = Directory::new();
    let notified = directory.path("log-of-systemd");
    let socket = UnixDatagram::bind(&notified).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut host = TestedHost::start_by(&process("room", &["plain"], ""), |mut command| {
        Child::spawn(command.env("NOTIFY_SOCKET", &notified)).unwrap()
    });
    let receive = || {
        let mut bytes = [0; 1024];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    };
    let ready = receive();
    assert!(ready.contains("READY=1"), "{ready}");
    assert!(ready.contains("STATUS=1 of 1 services are up"), "{ready}");
    host.wait_until_up();
    assert_eq!(host.stop(), Some(0));
    assert!(receive().contains("STOPPING=1"));
    fs::remove_file(notified).unwrap();
}

#[test]
fn a_host_hands_over_what_systemd_has_bound() {
    let directory = Directory::new();
    let path = directory.path("room");
    let listener = socket::unix_listen(UnixAddress::Path(&path), 8).unwrap();
    let theirs = format!("unix:{}", path.display());
    let services = process("room", &["plain"], "restart = \"never\"");
    let services = services.replace("unix:DIRECTORY/room", &theirs);
    let sockets = [("room.socket", listener.as_fd())];
    let mut host = TestedHost::start_by(&services, |command| {
        socket_activation::spawn(command, &sockets, None).unwrap()
    });
    let room = ThermostatCaller::new(&Client::new(), &theirs).unwrap();
    room.with(in_time()).set_target(&SetTargetRequest { celsius: 21.0 }).unwrap();
    host.restart(&["room"]).unwrap();
    room.with(in_time()).set_target(&SetTargetRequest { celsius: 21.0 }).unwrap();
    // Also after the service has ended and was given up: the socket is there for the next process.
    let pid = i32::try_from(host.service("room").pid).unwrap();
    kill_pidfd(pidfd_open(pid).unwrap()).unwrap();
    host.wait_for("room", |service| service.state == "failed");
    host.restart(&["room"]).unwrap();
    room.with(in_time()).set_target(&SetTargetRequest { celsius: 21.0 }).unwrap();
    assert_eq!(host.stop(), Some(0), "{}", host.log());
    assert!(path.exists(), "what it has not bound it does not remove");
}
