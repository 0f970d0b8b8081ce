//! Two ends without a control line meet on a unix socket, and no other process gets a line there.
//!
//! **Not here:** the connection that invites (`nearcall`), other namespaces (its `tests/faults`).

use std::os::fd::OwnedFd;
use std::sync::Arc;

use nearcall_channel::account::{Accounts, Resource};
use nearcall_channel::{
    CannotSwitch, Endpoint, Handshake, HandshakeError, Invitation, Mechanism, Meeting, Options,
    Peer, Uninvited, Violation,
};
use nearcall_os::capacity::Capacity;
use nearcall_os::process;
use nearcall_os::socket::{UnixAddress, try_send, unix_connect, unix_try_connect};

use crate::support::{PATIENCE, patient};

/// A meeting whose guests may hold so many descriptors each.
fn open(descriptors: u64) -> (Arc<Meeting>, Accounts) {
    let capacity = Capacity { descriptors: 2 * descriptors, mappings: 1 << 20, bytes: 1 << 40 };
    let accounts = Accounts::new(&capacity);
    (Arc::new(Meeting::open(accounts.clone()).unwrap()), accounts)
}

fn name(invitation: &Invitation) -> String {
    format!("nearcall-meeting-{:032x}", u128::from_be_bytes(invitation.number))
}

fn unknown_process(invitation: &Invitation) -> OwnedFd {
    unix_connect(UnixAddress::Abstract(name(invitation).as_bytes()), Some(PATIENCE)).unwrap()
}

fn show(line: &OwnedFd, token: &[u8]) {
    let packet = [&[0xDA], token].concat();
    assert_eq!(try_send(line, &packet).unwrap(), Some(packet.len()));
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
fn a_client_with_its_token_opens_a_channel_as_its_own_user() {
    let (meeting, accounts) = open(100);
    let mut uninvited = Vec::new();
    for _ in 0..3 {
        let invited = meeting.invite(&mut uninvited).unwrap();
        let client = invited.invitation().begin(Mechanism::Shm, &Options::default()).unwrap();
        let mut options = Options { account: Some(accounts.user(None)), ..Options::default() };
        let server = invited.serve(&mut options, &mut uninvited).unwrap();
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
    assert!(uninvited.is_empty(), "{uninvited:?}");
    assert_eq!(accounts.used(Resource::Descriptors).0, 0, "all was given back");
}

#[test]
fn a_token_is_for_one_line_of_one_connection() {
    let (meeting, accounts) = open(100);
    let mut uninvited = Vec::new();
    let mut options = Options::default();
    let (first, second) =
        (meeting.invite(&mut uninvited).unwrap(), meeting.invite(&mut uninvited).unwrap());
    let invitation = first.invitation();
    let kept = unknown_process(&invitation);
    show(&kept, &invitation.token);
    let again = unknown_process(&invitation);
    show(&again, &invitation.token);
    // Another connection gets nothing of it.
    expect_cannot(second.serve(&mut options, &mut uninvited), &CannotSwitch::NotMet);
    assert_eq!(accounts.used(Resource::Descriptors).0, 1, "the line that waits is charged");
    assert!(first.serve(&mut options, &mut uninvited).is_ok());
    let late = unknown_process(&invitation);
    show(&late, &invitation.token);
    let dropped = meeting.invite(&mut uninvited).unwrap().invitation();
    let late = unknown_process(&dropped);
    show(&late, &dropped.token);
    drop(meeting.invite(&mut uninvited).unwrap());
    assert_eq!(uninvited.len(), 3, "{uninvited:?}");
    for Uninvited { user, pid, error } in uninvited {
        assert_eq!((user, pid), (Some(process::user_id()), Some(process::pid())));
        let is_bad = matches!(error, HandshakeError::PeerBroken(Violation::BadPacket));
        assert!(is_bad, "{error}");
    }
    assert_eq!(accounts.used(Resource::Descriptors).0, 0);
}

#[test]
fn no_client_goes_to_a_meeting_elsewhere() {
    let (meeting, _) = open(100);
    let mut uninvited = Vec::new();
    let invited = meeting.invite(&mut uninvited).unwrap();
    let invitation = invited.invitation();
    let options = Options::default();
    for elsewhere in [
        Invitation { place: invitation.place ^ 1, ..invitation.clone() },
        Invitation { number: [7; 16], ..invitation.clone() },
    ] {
        expect_cannot(elsewhere.begin(Mechanism::Shm, &options), &CannotSwitch::Elsewhere);
    }
    // The socket is as old as the last invited.
    drop(meeting);
    assert!(invitation.begin(Mechanism::Shm, &options).is_ok());
    drop(invited);
    expect_cannot(invitation.begin(Mechanism::Shm, &options), &CannotSwitch::Elsewhere);
    assert!(uninvited.is_empty(), "no token was shown: {uninvited:?}");
}

#[test]
fn a_crowd_at_the_meeting_is_bounded_and_gives_way() {
    let (meeting, accounts) = open(2);
    let mut uninvited = Vec::new();
    let invited = meeting.invite(&mut uninvited).unwrap();
    let invitation = invited.invitation();
    let name = name(&invitation);
    let connect = || unix_try_connect(UnixAddress::Abstract(name.as_bytes())).unwrap();
    let crowd: Vec<_> = std::iter::from_fn(connect).collect();
    assert!((64..80).contains(&crowd.len()), "{}", crowd.len());
    let options = Options::default();
    expect_cannot(invitation.begin(Mechanism::Shm, &options), &CannotSwitch::LineFull);
    // The next look makes room.
    let others: Vec<_> = (0..3).map(|_| meeting.invite(&mut uninvited).unwrap()).collect();
    let silent = uninvited.len();
    assert_eq!(silent, crowd.len() - 8, "those that came last may still show a token");
    assert!(uninvited.iter().all(|it| matches!(it.error, HandshakeError::TimedOut)));
    let client = invitation.begin(Mechanism::Shm, &options).unwrap();
    let server = invited.serve(&mut Options::default(), &mut uninvited).unwrap();
    drop((server, client));
    // Lines that wait are charged to their user.
    let lines: Vec<_> = others.iter().map(|it| unknown_process(&it.invitation())).collect();
    for (line, invited) in lines.iter().zip(&others) {
        show(line, &invited.invitation().token);
    }
    drop(meeting.invite(&mut uninvited).unwrap());
    assert_eq!(accounts.used(Resource::Descriptors).0, 2);
    let refused = uninvited.iter().filter(|it| matches!(it.error, HandshakeError::Exceeded(_)));
    assert_eq!(refused.count(), 1, "{uninvited:?}");
    drop((others, crowd));
    drop(meeting.invite(&mut uninvited).unwrap());
    assert_eq!(accounts.used(Resource::Descriptors).0, 0);
}
