//! What a server's end holds is charged to the account of its client's user, and given back.
//!
//! A program of its own, because other tests open and map as well.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Mutex, PoisonError};

use nearcall_channel::account::{Accounts, Resource};
use nearcall_channel::{
    Endpoint, HandshakeError, Mechanism, MechanismSet, Options, Refusal, accept_over, connect_over,
};
use nearcall_os::capacity::Capacity;
use nearcall_os::socket::{Kind, unix_pair};
use nearcall_os::{descriptor, procfs_memory};

/// Each counts what the process has.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn accounts(descriptors: u64, mappings: u64) -> Accounts {
    Accounts::new(&Capacity { descriptors, mappings, bytes: 1 << 40 })
}

fn open(
    mechanism: Mechanism,
    accounts: &Accounts,
) -> (Result<Endpoint, HandshakeError>, Result<Endpoint, HandshakeError>) {
    let (ours, theirs) = unix_pair(Kind::Seqpacket).unwrap();
    let account = Some(accounts.user(Some(7)));
    std::thread::scope(|scope| {
        let options = Options { account, ..Options::offering(MechanismSet::ALL) };
        let server = scope.spawn(move || accept_over(ours, &options));
        let client = connect_over(theirs, mechanism, &Options::default());
        (server.join().unwrap(), client)
    })
}

#[test]
fn what_is_charged_covers_what_a_connection_holds() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for mechanism in Mechanism::all().filter(|mechanism| mechanism.supported().is_ok()) {
        if mechanism == Mechanism::Tcp {
            continue;
        }
        let accounts = accounts(1 << 20, 1 << 20);
        // The watcher's thread and what it has stay.
        drop(open(mechanism, &accounts));
        let held = || {
            let open = descriptor::open_count().unwrap();
            [open, procfs_memory::mapping_count(0).unwrap()]
        };
        let before = held();
        // Of queues a user may have few.
        let pairs = (0..8).map(|_| open(mechanism, &accounts));
        let pairs: Vec<_> =
            pairs.take_while(|(server, client)| server.is_ok() && client.is_ok()).collect();
        assert!(!pairs.is_empty(), "{mechanism}");
        let after = held();
        for (index, resource) in [Resource::Descriptors, Resource::Mappings].iter().enumerate() {
            // Both ends hold as much, and the server's is charged. The heap may grow.
            let (charged, held) = (accounts.used(*resource).0, after[index] - before[index]);
            assert!(held as u64 <= 2 * charged + 6, "{mechanism}: {charged} {resource}, {held}");
        }
        drop(pairs);
        assert_eq!(accounts.used(Resource::Descriptors).0, 0, "{mechanism}");
        assert_eq!(accounts.used(Resource::Mappings).0, 0, "{mechanism}");
        assert_eq!(accounts.used(Resource::Bytes).0, 0, "{mechanism}");
    }
}

#[test]
fn a_client_beyond_its_share_is_refused_with_resource_share_and_limit() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let accounts = accounts(12, 1 << 20);
    let (server, client) = open(Mechanism::Shm, &accounts);
    let _kept = (server.unwrap(), client.unwrap());
    let used = accounts.used(Resource::Descriptors);
    let mut kept = Vec::new();
    let refused = loop {
        match open(Mechanism::Shm, &accounts) {
            (Ok(server), Ok(client)) => kept.push((server, client)),
            (server, client) => break (server.err().unwrap(), client.err().unwrap()),
        }
    };
    assert!(matches!(refused.0, HandshakeError::Exceeded(_)), "{:?}", refused.0);
    let HandshakeError::Refused { code, text } = refused.1 else { panic!("{:?}", refused.1) };
    assert_eq!(code, Refusal::Exhausted);
    for part in ["user 7", "descriptors", "may hold 6", "of 12", "ulimit -n"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    drop(kept);
    assert_eq!(accounts.used(Resource::Descriptors), used);
}
