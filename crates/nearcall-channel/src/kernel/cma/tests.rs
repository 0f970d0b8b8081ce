//! Hostile records, and ends that close early.

use std::process::Command;

use nearcall_os::pages::Pages;
use nearcall_os::{process, socket};

use super::*;
use crate::control::Control;
use crate::error::{OpenError, Unsupported};
use crate::fds::ChannelFds;
use crate::handshake::Options;
use crate::kernel::tests::connected;
use crate::mechanism::{Mechanism, MechanismSet};
use crate::settings::{Peer, PeerIdentity};

/// An end of ours whose peer is this test: it holds the other end of the line.
fn end_with_raw_peer(address: u64, bytes: usize) -> (CmaTransport, OwnedFd, OwnedFd) {
    let own = process::pidfd_open(process::pid()).unwrap();
    end_with_peer(PeerMemory { pid: process::pid(), pidfd: Arc::new(own), address, bytes })
}

fn end_with_peer(peer: PeerMemory) -> (CmaTransport, OwnedFd, OwnedFd) {
    let (line, raw) = socket::unix_pair(socket::Kind::Stream).unwrap();
    let (settings, other) = settings();
    let pages = Pages::create(4096).unwrap();
    (CmaTransport::new(line, pages, peer, &settings).unwrap(), raw, other)
}

/// For a peer of which process the socket gave no pidfd, and its end of the control line.
fn settings() -> (Settings, OwnedFd) {
    let (control, other) = socket::unix_pair(socket::Kind::Seqpacket).unwrap();
    let settings = Settings {
        spin: crate::spin::SpinOptions::default(),
        wait: WaitPolicy::Block,
        message_bytes_max: 1 << 20,
        buffer_bytes: 4096,
        peer: Peer::Process(PeerIdentity {
            pid: Some(process::pid()),
            uid: 0,
            gid: 0,
            pidfd: None,
        }),
        liveness: Arc::default(),
        control: Arc::new(Control::new(control)),
    };
    (settings, other)
}

fn record(fragment_bytes: u32, offset: u32, freed: u16) -> Vec<u8> {
    let mut bytes =
        FragmentHeader::data(fragment_bytes as usize, fragment_bytes as usize, 0).encode().to_vec();
    bytes.extend(offset.to_le_bytes());
    bytes.extend(freed.to_le_bytes());
    bytes.extend([1, 0]);
    bytes
}

#[track_caller]
fn check(records: &[Vec<u8>], expected: Violation) {
    let theirs = Pages::create(4096).unwrap();
    let (mut transport, raw, _control) = end_with_raw_peer(theirs.address(), theirs.len());
    socket::send(&raw, &records.concat()).unwrap();
    let outcome = transport.next(Deadline::NOW);
    assert!(matches!(outcome, Err(ReceiveError::PeerBroken(found)) if found == expected));
}

#[test]
fn hostile_records_are_named() {
    check(&[record(1, 4096, 0)], Violation::BadAddress);
    check(&[record(4097, 0, 0)], Violation::BadAddress);
    check(&[record(9, u32::MAX, 0)], Violation::BadAddress);
    check(&[record(9, 0, 1)], Violation::BadIndex);
    check(&vec![record(9, 0, 0); FRAGMENTS_MAX + 1], Violation::BadIndex);
    check(&[vec![0xff; 16]], Violation::BadHeader);
}

#[test]
fn memory_that_is_not_there_is_a_violation_by_the_peer() {
    // The first page of a process is never mapped.
    let (mut transport, raw, _control) = end_with_raw_peer(64, 4096);
    socket::send(&raw, &record(9, 0, 0)).unwrap();
    transport.next(Deadline::NEVER).unwrap();
    let outcome = transport.read(&mut [0; 9], Deadline::NEVER);
    assert!(matches!(outcome, Err(ReceiveError::PeerBroken(Violation::BadAddress))), "{outcome:?}");
}

#[test]
fn r22_bytes_of_the_process_that_got_the_number_of_the_peer_are_not_taken() {
    let mut child = process::Child::spawn(&mut Command::new("true")).unwrap();
    let pidfd = Arc::new(child.pidfd().try_clone_to_owned().unwrap());
    child.wait(None).unwrap();
    // The peer has died, its number is another's by now (here this process's), and neither its line
    // nor the watcher has reported it yet.
    let theirs = Pages::create(4096).unwrap();
    let (pid, address, bytes) = (process::pid(), theirs.address(), theirs.len());
    let (mut transport, raw, _control) = end_with_peer(PeerMemory { pid, pidfd, address, bytes });
    socket::send(&raw, &record(9, 0, 0)).unwrap();
    transport.next(Deadline::NEVER).unwrap();
    let outcome = transport.read(&mut [0; 9], Deadline::NEVER);
    assert!(matches!(outcome, Err(ReceiveError::PeerGone)), "{outcome:?}");
}

#[test]
fn r22_a_peer_without_a_pidfd_of_the_socket_is_refused() {
    // Its number is that of a living process, which has the announced number at the address.
    let mut theirs = Pages::create(4096).unwrap();
    theirs[..8].copy_from_slice(&7_u64.to_le_bytes());
    let told = [theirs.address(), theirs.len() as u64, 7].map(u64::to_le_bytes).concat();
    let (_here, there) = socket::unix_pair(socket::Kind::Stream).unwrap();
    let (settings, _control) = settings();
    let outcome = accept(&settings, ChannelFds { bytes: told, descriptors: vec![there] });
    let Err(OpenError::Unsupported(Unsupported::Missing(why))) = outcome.map(drop) else {
        panic!("not refused for want of a pidfd")
    };
    assert!(why.contains("Linux 6.5"), "{why}");
}

#[test]
fn what_was_sent_can_be_read_after_the_sender_closed() {
    if probe().is_err() {
        return;
    }
    let options = Options::offering(MechanismSet::ALL);
    let (mut sender, mut receiver) = connected(Mechanism::Cma, &options, |_| {});
    sender.send(b"farewell", Deadline::NEVER).unwrap();
    drop(sender);
    let mut bytes = [0; 8];
    receiver.receive(Deadline::NEVER).unwrap().read(&mut bytes).unwrap();
    assert_eq!(&bytes, b"farewell");
    assert!(matches!(receiver.receive(Deadline::NEVER), Err(ReceiveError::PeerGone)));
}
