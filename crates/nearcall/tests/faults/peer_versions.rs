//! Peers of other versions: a relay between a client and a server changes the version that each
//! reads of the other.
//!
//! **Not here:** the bytes of frames (`nearcall-wire/tests/it/frames.rs`), unknown kinds of packets
//! (`nearcall-channel/tests/it/handshake.rs`).

use std::thread::{self, JoinHandle};

use nearcall_os::Deadline;
use nearcall_os::descriptor::{Received, receive_with_fds, send_with_fds};
use nearcall_os::poll::{PollFd, PollFlags, poll};
use nearcall_os::socket::{self, UnixAddress, unix_connect, unix_listen};

use crate::support::prelude::*;

/// The greeting of a client of this version for `unix-stream` with the usual limits, as released.
const HELLO: &[u8] = b"NEARCALL\x01\x01\0\0\0\0\0\x40\0\0\0\x04\0unix-stream";
/// The answer to it.
const OFFER: &[u8] = b"\x02\x01\0\0\0\0\0\x40\0\0\0\x04\0";
/// Where both have the version, after what comes before it.
const HELLO_VERSION: usize = 9;
const OFFER_VERSION: usize = 1;

/// What a relay changes, and what it has seen.
#[derive(Clone, Copy)]
struct Change {
    /// What the server reads of the client's version, and the client of the server's.
    client: [u8; 4],
    server: [u8; 4],
}

/// Passes one client on to a server, and returns the first packet of each.
fn relay(to: &str, change: Change) -> (String, JoinHandle<[Vec<u8>; 2]>) {
    let address = unique_address();
    let name = |address: &str| address.strip_prefix("unix:@").unwrap().as_bytes().to_vec();
    let listener = unix_listen(UnixAddress::Abstract(&name(&address)), 4).unwrap();
    let to = name(to);
    let thread = thread::spawn(move || {
        let client = socket::accept(&listener, Deadline::after(PATIENCE)).unwrap().unwrap();
        let server = unix_connect(UnixAddress::Abstract(&to), Some(PATIENCE)).unwrap();
        let ends = [client, server];
        let mut first = [Vec::new(), Vec::new()];
        while let Some((from, bytes, fds)) = next_packet(&ends) {
            let mut bytes = bytes;
            if first[from].is_empty() {
                first[from].clone_from(&bytes);
                let (place, version) = match from {
                    0 => (HELLO_VERSION, change.client),
                    _ => (OFFER_VERSION, change.server),
                };
                if bytes[0] != b'\x05' {
                    bytes[place..place + 4].copy_from_slice(&version);
                }
            }
            let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
            if send_with_fds(&ends[1 - from], &bytes, &fds).is_err() {
                break;
            }
        }
        first
    });
    (address, thread)
}

/// The next packet of either end; `None` when one has closed.
fn next_packet(ends: &[OwnedFd; 2]) -> Option<(usize, Vec<u8>, Vec<OwnedFd>)> {
    let mut polled = [0, 1].map(|end| PollFd::from_borrowed_fd(ends[end].as_fd(), PollFlags::IN));
    poll(&mut polled, Deadline::after(PATIENCE)).unwrap();
    let from = polled.iter().position(|end| !end.revents().is_empty())?;
    let mut buffer = [0; 2048];
    let received = receive_with_fds(&ends[from], &mut buffer, 16);
    let Received { bytes, fds, .. } = received.ok()?;
    (bytes > 0).then(|| (from, buffer[..bytes].to_vec(), fds))
}

/// A call over a relay, with the first packets of both ends.
fn call(server: &ServerProcess, via: &str, change: Change) -> (Result<(), Status>, [Vec<u8>; 2]) {
    let (address, relay) = relay(&server.address, change);
    let client = Client::new();
    let echo = EchoCaller::new(&client, &format!("{address}{via}")).unwrap();
    let words = Words { data: vec![5; 1000].into(), number: 5 };
    let outcome = echo.say(&words).map(|reply| assert!(reply == words));
    drop((echo, words));
    drop(client);
    (outcome, relay.join().unwrap())
}

const SAME: [u8; 4] = [1, 0, 0, 0];
const NEWER_MINOR: [u8; 4] = [1, 0, 9, 0];
const NEWER_MAJOR: [u8; 4] = [2, 0, 3, 0];

#[timed]
fn r25_the_handshake_is_the_released_one_byte_by_byte() {
    let server = ServerProcess::start();
    let same = Change { client: SAME, server: SAME };
    let (outcome, [hello, offer]) = call(&server, "?via=unix-stream", same);
    outcome.unwrap();
    assert_eq!(hello, HELLO, "{}", hello.escape_ascii());
    assert_eq!(offer, OFFER, "{}", offer.escape_ascii());
    server.finish();
}

#[timed]
fn r25_a_newer_minor_version_works_both_ways_and_another_major_names_both() {
    let server = ServerProcess::start();
    // Not over shared memory, where a message may be there before what the relay still holds.
    for via in ["?via=unix-stream", "?via=unix-seqpacket"] {
        for (client, of_server) in [(NEWER_MINOR, SAME), (SAME, NEWER_MINOR)] {
            call(&server, via, Change { client, server: of_server }).0.unwrap();
        }
        for (client, of_server) in [(NEWER_MAJOR, SAME), (SAME, NEWER_MAJOR)] {
            let change = Change { client, server: of_server };
            let status = call(&server, via, change).0.unwrap_err();
            assert_eq!(status.code(), Code::Unavailable, "{via}: {status}");
            let text = status.message();
            assert!(text.contains("2.3") && text.contains("1.0"), "{via}: {text}");
        }
    }
    server.finish();
}
