//! A peer that stops or dies between claiming room and publishing: no other process waits for it.
//!
//! **Not here:** mechanisms with locks in shared memory, which a server offers only if it names
//! them.

use nearcall_channel::Deadline;

use crate::support::hostile::greeted;
use crate::support::prelude::*;

pub(crate) const ROLES: &[Role] = &[("r19", claim_and_wait)];

/// Longer than a ring and than what a socket holds: some of it is published, and some is not.
const LARGE: usize = 1 << 20;
/// Shorter than a fragment: nothing of it is published.
const SMALL: usize = 1_000;

fn offered() -> impl Iterator<Item = Mechanism> {
    Mechanism::all().filter(|it| it.offered_by_default() && it.supported().is_ok())
}

/// Claims room for a message, writes half of it, and goes no further.
fn claim_and_wait(address: &str) {
    let (address, words) = address.split_once(' ').unwrap();
    let (mechanism, bytes) = words.split_once(' ').unwrap();
    let bytes: usize = bytes.parse().unwrap();
    let mut endpoint = greeted(address, mechanism.parse().unwrap());
    let mut claim = endpoint.claim(bytes, Deadline::after(PATIENCE)).unwrap();
    claim.write(&vec![0; bytes / 2]).unwrap();
    report("claimed");
    wait_for_the_parent();
}

#[timed]
fn r19_a_peer_that_ends_between_claim_and_publish_holds_up_no_other() {
    let mut server = ServerProcess::start();
    let vias: Vec<_> = offered().map(|it| format!("?via={it}")).collect();
    assert!(!vias.is_empty());
    server.warm_up(&vias.iter().map(String::as_str).collect::<Vec<_>>());
    let oracle = server.leak_oracle();
    let mut good = GoodClient::start(&server.address, User::Same);
    let mut peers = Vec::new();
    for mechanism in offered() {
        for bytes in [SMALL, LARGE] {
            let words = format!("{} {mechanism} {bytes}", server.address);
            let mut peer = Process::start("r19", &words);
            peer.hear("claimed");
            // The loop runs, and so does every other client.
            assert!(server.state().connections > 1, "{mechanism}");
            let (_, calls) = good.measure_while(|| server.state());
            assert!(calls.calls > 0 && calls.max < PATIENCE, "{mechanism}: {calls:?}");
            peers.push(peer);
        }
    }
    for peer in &mut peers {
        peer.kill();
    }
    server.wait_for_connections(1);
    let pids: Vec<_> = peers.iter().map(Process::pid).collect();
    good.finish();
    server.wait_for_connections(0);
    oracle.check(&pids);
    server.finish();
}

/// What has locks in shared memory, or ends that can block each other, is not offered to everybody.
#[test]
fn r19_mechanisms_with_locks_are_offered_only_by_name() {
    for mechanism in [Mechanism::ShmSemaphore, Mechanism::ShmCondvar, Mechanism::ShmMq] {
        assert!(!mechanism.offered_by_default(), "{mechanism}");
        assert!(mechanism.reason_to_be_named().is_some(), "{mechanism}");
    }
}
