//! Two ends without a control line meet by a pair of unix sockets, and no other process gets there.
//!
//! **Not here:** the connection that invites (`nearcall`), other namespaces and crowds of other
//! users (its `tests/faults`).

use std::os::fd::BorrowedFd;

use nearcall_channel::account::{Accounts, Resource};
use nearcall_channel::{CannotSwitch, Handshake, Invitation, Invited, MeetingClient, Peer};
use nearcall_os::capacity::Capacity;
use nearcall_os::descriptor::{try_send_as_self, try_send_with_fds};
use nearcall_os::random;
use nearcall_os::socket::{
    Kind, UnixAddress, bind_datagrams, connect_datagrams, unix_datagrams, unix_pair,
};

use crate::support::prelude::*;

/// Accounts by which each user may hold so many descriptors.
fn accounts(descriptors: u64) -> Accounts {
    let capacity = Capacity { descriptors: 2 * descriptors, mappings: 1 << 20, bytes: 1 << 40 };
    Accounts::new(&capacity)
}

fn at_server(invitation: &Invitation) -> String {
    format!("nearcall-meeting-server-{:032x}", u128::from_be_bytes(invitation.number))
}

fn at_client(number: [u8; 16]) -> String {
    format!("nearcall-meeting-client-{:032x}", u128::from_be_bytes(number))
}

/// What a client does by hand: its socket, connected to the server's.
fn by_hand() -> (Invited, OwnedFd) {
    let (socket, number) = (unix_datagrams().unwrap(), random::bytes().unwrap());
    bind_datagrams(&socket, UnixAddress::Abstract(at_client(number).as_bytes())).unwrap();
    let invited = Invited::new(number, None).unwrap();
    let name = at_server(invited.invitation());
    connect_datagrams(&socket, UnixAddress::Abstract(name.as_bytes())).unwrap();
    (invited, socket)
}

/// Lets both advance by turns, without any wait, until both are done.
fn complete(mut server: Handshake, mut client: Handshake) -> (Endpoint, Endpoint) {
    let (mut served, mut opened) = (None, None);
    for _ in 0..20 {
        served = served.or_else(|| server.advance().unwrap());
        opened = opened.or_else(|| client.advance().unwrap());
        if served.is_some() && opened.is_some() {
            break;
        }
    }
    (served.unwrap(), opened.unwrap())
}

#[track_caller]
fn expect_cannot(outcome: Result<Handshake, HandshakeError>, why: &CannotSwitch) {
    match outcome.map(drop) {
        Err(HandshakeError::CannotSwitch(reason)) => assert_eq!(reason, *why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_opens_a_channel_as_its_own_user() {
    let accounts = accounts(100);
    let account = accounts.user(None);
    for _ in 0..3 {
        let client = MeetingClient::new().unwrap();
        let invited = Invited::new(client.number(), Some(&account)).unwrap();
        assert_eq!(accounts.used(Resource::Descriptors).0, 1, "what waits is charged");
        let invitation = invited.invitation().clone();
        let client = client.begin(&invitation, Mechanism::Shm, &Options::default()).unwrap();
        let mut options = Options { account: Some(account.clone()), ..Options::default() };
        let server = invited.serve(&mut options).unwrap();
        let own = process::user_id();
        assert_eq!(options.account.unwrap().user(), Some(own));
        let (mut server, mut client) = complete(server, client);
        for (one, other) in [(0, 1), (1, 0)] {
            let ends = [&mut server, &mut client];
            ends[one].send(b"met", patient()).unwrap();
            let mut received = Vec::new();
            ends[other].receive(patient()).unwrap().read_to_end(&mut received).unwrap();
            assert_eq!(received, b"met");
        }
        for end in [&server, &client] {
            let Peer::Process(peer) = end.peer() else { panic!("{:?}", end.peer()) };
            assert_eq!((peer.pid, peer.uid), (Some(process::pid()), own));
        }
        assert_eq!(server.account().unwrap().user(), Some(own));
        assert!(accounts.used(Resource::Descriptors).0 > 0);
    }
    assert_eq!(accounts.used(Resource::Descriptors).0, 0, "all was given back");
}

#[test]
fn an_invitation_is_for_one_client() {
    let (first, second) = (MeetingClient::new().unwrap(), MeetingClient::new().unwrap());
    let [one, two] = [&first, &second].map(|it| Invited::new(it.number(), None).unwrap());
    assert_ne!(one.invitation().number, two.invitation().number);
    let mut options = Options::default();
    // The socket of one connection takes nothing of the client of another.
    let crossed = second.begin(one.invitation(), Mechanism::Shm, &options);
    expect_cannot(crossed, &CannotSwitch::NotMet);
    expect_cannot(two.serve(&mut options), &CannotSwitch::NotMet);
    let client = first.begin(&one.invitation().clone(), Mechanism::Shm, &options).unwrap();
    complete(one.serve(&mut options).unwrap(), client);
}

#[test]
fn no_client_goes_to_a_meeting_elsewhere() {
    let options = Options::default();
    let client = || MeetingClient::new().unwrap();
    for change in [
        |invitation: &mut Invitation| invitation.place ^= 1,
        |invitation: &mut Invitation| invitation.number = [7; 16],
    ] {
        let client = client();
        let invited = Invited::new(client.number(), None).unwrap();
        let mut invitation = invited.invitation().clone();
        change(&mut invitation);
        let begun = client.begin(&invitation, Mechanism::Shm, &options);
        expect_cannot(begun, &CannotSwitch::Elsewhere);
        expect_cannot(invited.serve(&mut Options::default()), &CannotSwitch::NotMet);
    }
    // The server sees no client by that name.
    let invited = Invited::new([7; 16], None).unwrap();
    let begun = client().begin(invited.invitation(), Mechanism::Shm, &options);
    expect_cannot(begun, &CannotSwitch::NotMet);
    expect_cannot(invited.serve(&mut Options::default()), &CannotSwitch::NotMet);
    // The server has gone.
    let here = client();
    let invitation = Invited::new(here.number(), None).unwrap().invitation().clone();
    expect_cannot(here.begin(&invitation, Mechanism::Shm, &options), &CannotSwitch::NotMet);
}

/// Whoever reads the names of the two sockets can send to neither.
#[test]
fn a_crowd_at_the_meeting_is_refused_by_the_kernel_and_keeps_no_client_out() {
    let client = MeetingClient::new().unwrap();
    let name = at_client(client.number());
    let crowd: Vec<_> = (0..100).map(|_| unix_datagrams().unwrap()).collect();
    for unknown_process in &crowd {
        connect_datagrams(unknown_process, UnixAddress::Abstract(name.as_bytes())).unwrap();
        let sent = try_send_with_fds(unknown_process, b"garbage", &[]);
        assert_eq!(sent.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    }
    let invited = Invited::new(client.number(), None).unwrap();
    let name = at_server(invited.invitation());
    for unknown_process in &crowd {
        let refused = connect_datagrams(unknown_process, UnixAddress::Abstract(name.as_bytes()));
        assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    }
    let client = client.begin(invited.invitation(), Mechanism::Shm, &Options::default()).unwrap();
    complete(invited.serve(&mut Options::default()).unwrap(), client);
}

#[test]
fn what_is_no_line_of_the_client_itself_ends_the_handshake() {
    let (stream, _other) = unix_pair(Kind::Stream).unwrap();
    let file = fs::File::open("/proc/self/status").unwrap();
    let (line, _end) = unix_pair(Kind::Seqpacket).unwrap();
    let line = line.as_fd();
    let cases: [(&str, &[u8], &[BorrowedFd<'_>]); 6] = [
        ("none", b"\xDA", &[]),
        ("another byte", b"\xDB", &[line]),
        ("more bytes", b"\xDA\xDA", &[line]),
        ("two lines", b"\xDA", &[line, line]),
        ("a stream", b"\xDA", &[stream.as_fd()]),
        ("no socket", b"\xDA", &[file.as_fd()]),
    ];
    for (what, packet, descriptors) in cases {
        let (invited, socket) = by_hand();
        try_send_as_self(&socket, packet, descriptors).unwrap().unwrap();
        let error = invited.serve(&mut Options::default()).map(drop).unwrap_err();
        let is_bad = matches!(error, HandshakeError::PeerBroken(Violation::BadPacket));
        assert!(is_bad, "{what}: {error:?}");
    }
}

#[test]
fn what_waits_is_refused_where_its_account_is_full() {
    let accounts = accounts(1);
    let account = accounts.user(None);
    let client = MeetingClient::new().unwrap();
    let kept = Invited::new(client.number(), Some(&account)).unwrap();
    expect_err!(Invited::new(client.number(), Some(&account)), HandshakeError::Exceeded(_));
    drop(kept);
    assert!(Invited::new(client.number(), Some(&account)).is_ok());
    assert_eq!(accounts.used(Resource::Descriptors).0, 0);
}
