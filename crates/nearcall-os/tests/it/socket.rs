//! Sockets: meeting, identity, loopback pairs.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nearcall_os::descriptor::receive_with_fds;
use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::socket::{self, Half, Kind, UnixAddress};

use crate::partner::{PATIENCE, SHORT};

#[test]
fn only_the_holder_of_its_handle_connects_to_a_socket_without_a_name() {
    let place = Place::new("unnamed");
    let (listener, held) = socket::unix_listen_unnamed(&place.0, 4).unwrap();
    assert!(!place.0.exists());
    let handle = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
    let client = socket::unix_connect(UnixAddress::Path(&handle), PATIENCE).unwrap();
    let server = socket::accept(&listener, PATIENCE).unwrap().unwrap();
    assert_eq!(socket::send(&client, b"hello").unwrap(), 5);
    assert_eq!(receive_with_fds(&server, &mut [0; 8], 0).unwrap().bytes, 5);
    let names = std::fs::read_to_string("/proc/net/unix").unwrap();
    // Its path is still listed, and leads nowhere.
    assert!(names.contains(place.0.to_str().unwrap()));
    assert!(socket::unix_connect(UnixAddress::Path(&place.0), PATIENCE).is_err());
    // A process that another test forks has a copy until its `exec`.
    socket::shutdown(&listener, Half::Both).unwrap();
    drop(listener);
    let gone = socket::unix_connect(UnixAddress::Path(&handle), PATIENCE).unwrap_err();
    assert_eq!(gone.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_client_meets_a_listener_by_path_and_by_abstract_name() {
    let place = Place::new("meet");
    let name = place.0.as_os_str().as_encoded_bytes();
    for address in [UnixAddress::Path(&place.0), UnixAddress::Abstract(name)] {
        let listener = socket::unix_listen(address, 4).unwrap();
        assert!(socket::accept(&listener, SHORT).unwrap().is_none());
        let client = socket::unix_connect(address, PATIENCE).unwrap();
        let server = socket::accept(&listener, PATIENCE).unwrap().unwrap();
        assert_eq!(socket::send(&client, b"hello").unwrap(), 5);
        assert_eq!(receive_with_fds(&server, &mut [0; 8], 0).unwrap().bytes, 5);
        let credentials = socket::peer_credentials(&server).unwrap();
        assert_eq!(credentials.pid, Some(nearcall_os::process::pid()));
        match socket::peer_pidfd(&server) {
            Ok(pidfd) => assert!(poll_one(&pidfd, Interest::Readable, SHORT).unwrap().is_none()),
            // Before Linux 6.5.
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc_enoprotoopt())),
        }
        drop(client);
        let ready = poll_one(&server, Interest::Readable, PATIENCE).unwrap().unwrap();
        assert!(ready.readable && ready.hung_up);
    }
}

#[test]
fn a_full_queue_ends_a_connect_in_time() {
    let place = Place::new("full");
    let address = UnixAddress::Path(&place.0);
    let listener = socket::unix_listen(address, 0).unwrap();
    let mut clients = Vec::new();
    let error = loop {
        match socket::unix_connect(address, SHORT) {
            Ok(client) => clients.push(client),
            Err(error) => break error,
        }
        assert!(clients.len() < 10);
    };
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    drop(listener);
}

#[test]
fn a_name_that_is_too_long_is_refused_with_the_limit() {
    let longest = "x".repeat(socket::UNIX_PATH_BYTES_MAX);
    let address = UnixAddress::Path(Path::new(&longest));
    let error = socket::unix_connect(address, SHORT).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    let longer = format!("{longest}x");
    let address = UnixAddress::Path(Path::new(&longer));
    let error = socket::unix_connect(address, SHORT).unwrap_err();
    assert!(error.to_string().contains("108") && error.to_string().contains("107"), "{error}");
}

#[test]
fn every_pair_carries_bytes_both_ways() {
    let unix = [Kind::Stream, Kind::Seqpacket, Kind::Datagram].map(socket::unix_pair);
    let pairs = unix.into_iter().chain([socket::tcp_pair(), socket::udp_pair()]);
    for (here, there) in pairs.map(Result::unwrap) {
        for (from, to) in [(&here, &there), (&there, &here)] {
            let mut buffer = [0; 8];
            assert_eq!(socket::try_recv(to, &mut buffer).unwrap(), None);
            assert_eq!(socket::try_send(from, b"hello").unwrap(), Some(5));
            assert_eq!(socket::recv(to, &mut buffer).unwrap(), 5);
            assert_eq!(&buffer[..5], b"hello");
        }
    }
}

#[test]
fn a_cut_message_reports_its_full_length() {
    for kind in [Kind::Seqpacket, Kind::Datagram] {
        let (here, there) = socket::unix_pair(kind).unwrap();
        socket::send(&here, b"hello").unwrap();
        assert_eq!(socket::recv_message(&there, &mut [0; 2]).unwrap(), 5);
        assert_eq!(socket::try_recv_message(&there, &mut [0; 2]).unwrap(), None);
    }
}

#[test]
fn buffer_sizes_are_read_back() {
    let (here, _there) = socket::unix_pair(Kind::Stream).unwrap();
    let before = socket::buffer_bytes(&here).unwrap();
    let after = socket::set_buffer_bytes(&here, Some(16_384), None).unwrap();
    assert_eq!((after.send, after.receive), (32_768, before.receive));
}

#[test]
fn a_shut_half_is_the_end_for_the_other_side() {
    let (here, there) = socket::tcp_pair().unwrap();
    socket::shutdown(&here, Half::Send).unwrap();
    assert_eq!(socket::recv(&there, &mut [0; 8]).unwrap(), 0);
    let error = socket::send(&here, b"x").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}

#[test]
fn a_poll_without_an_event_ends_in_time() {
    let (here, _there) = socket::unix_pair(Kind::Stream).unwrap();
    let zero = Some(Duration::ZERO);
    assert!(poll_one(&here, Interest::Readable, zero).unwrap().is_none());
    assert!(poll_one(&here, Interest::Writable, zero).unwrap().unwrap().writable);
}

/// A path for a socket that is removed with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let name = format!("nearcall-os-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn libc_enoprotoopt() -> i32 {
    92
}

#[test]
fn only_a_unix_socket_with_packets_is_one() {
    let (packets, _other) = socket::unix_pair(Kind::Seqpacket).unwrap();
    assert!(socket::is_unix_seqpacket(&packets).unwrap());
    let (stream, _other) = socket::unix_pair(Kind::Stream).unwrap();
    let (tcp, _other) = socket::tcp_pair().unwrap();
    let pipe = nearcall_os::pipe::create().unwrap();
    for other in [&stream, &tcp, &pipe.read] {
        assert!(!socket::is_unix_seqpacket(other).unwrap());
    }
}
