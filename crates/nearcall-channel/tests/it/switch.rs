//! Many changes of one connection's mechanism, and what is lent while they happen.
//!
//! **Invariants:** afterwards an end holds what a connection that was opened so holds.
//! **Not here:** each pair of mechanisms (`conformance/switching.rs`), changes that fail (the test
//! program `switching`).

use nearcall_channel::account::{Accounts, Resource};
use nearcall_channel::{Borrowed, Place};
use nearcall_os::capacity::Capacity;

use crate::support::leaks;
use crate::support::play::{self, Case};
use crate::support::prelude::*;
use crate::support::stage::Run;
use crate::support::switcher::Switcher;

const CASES: &[(&str, Case)] = &[
    ("a_hundred_changes_leave_nothing", a_hundred_changes),
    ("what_is_lent_outlives_the_change", what_is_lent),
];

const CHANGES: usize = 100;
const TIMEOUT: Duration = Duration::from_secs(60);
const LOAN_BYTES: usize = 100_000;

/// Where the processes of a case begin; nothing when the harness runs it.
#[test]
fn entry() {
    play::enter(CASES);
}

fn run(case: &str, first_serves: bool) {
    let (entry, timeout) = ("switch::entry", TIMEOUT);
    let (mechanism, wait) = (Mechanism::Shm, WaitPolicy::Adaptive);
    let run = Run { entry, case, mechanism, wait, first_serves, timeout };
    for line in run.run() {
        report(&format!("{case}: {line}"));
    }
}

#[test]
fn a_hundred_changes_leave_nothing() {
    run("a_hundred_changes_leave_nothing", true);
    run("a_hundred_changes_leave_nothing", false);
}

#[test]
fn what_is_lent_outlives_the_change() {
    run("what_is_lent_outlives_the_change", true);
    run("what_is_lent_outlives_the_change", false);
}

/// What an end holds: descriptors, shared mappings, and what is charged.
fn held(accounts: &Accounts) -> (usize, usize, [u64; 3]) {
    let (descriptors, mappings) = leaks::counts();
    let resources = [Resource::Descriptors, Resource::Mappings, Resource::Bytes];
    (descriptors, mappings, resources.map(|resource| accounts.used(resource).0))
}

fn a_hundred_changes(play: &mut Play) {
    let capacity = Capacity { descriptors: 1 << 20, mappings: 1 << 20, bytes: 1 << 40 };
    let accounts = Accounts::new(&capacity);
    let account = play.serves().then(|| accounts.user(Some(7)));
    let options = Options { account, wait: None, ..play.options() };
    let mut end = Switcher::new(play.meet_with(&options), !play.serves(), &options);
    // Both with the same seed. What watches for deaths is started by the first, and stays.
    let mut random = fastrand::Rng::with_seed(play.seed);
    let possible: Vec<_> = Mechanism::all().filter(|it| it.supported().is_ok()).collect();
    end.switch_to(Mechanism::ShmFutex, true);
    end.switch_to(Mechanism::Shm, true);
    let before = held(&accounts);
    for _ in 0..CHANGES {
        end.switch_to(possible[random.usize(0..possible.len())], random.u8(0..8) == 0);
    }
    // The long messages of its past are no part of what a connection holds at its beginning.
    end.switch_to(Mechanism::Shm, true);
    assert_eq!(held(&accounts), before, "seed {}", play.seed);
}

/// Sends where a loan lies.
fn send_place(endpoint: &mut Endpoint, place: Place) {
    let mut message = Vec::new();
    message.extend(place.slot.to_le_bytes());
    message.extend(place.segment.to_le_bytes());
    message.extend(place.offset.to_le_bytes());
    message.extend(place.bytes.to_le_bytes());
    endpoint.send(&message, patient()).unwrap();
}

fn receive_place(endpoint: &mut Endpoint) -> Place {
    let mut message = [0; 12];
    assert_eq!(endpoint.receive_into(&mut message, patient()).unwrap(), message.len());
    let [a, b, c, d, e, f, g, h, i, j, k, l] = message;
    let (slot, segment) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
    let (offset, bytes) = (u32::from_le_bytes([e, f, g, h]), u32::from_le_bytes([i, j, k, l]));
    Place { slot, segment, offset, bytes }
}

#[track_caller]
fn expect_fill(borrowed: &Borrowed, fill: u8) {
    let mut bytes = vec![0; borrowed.len()];
    borrowed.bytes().copy_to(&mut bytes);
    assert_eq!(bytes, vec![fill; LOAN_BYTES]);
}

fn what_is_lent(play: &mut Play) {
    let options = Options { wait: None, ..play.options() };
    for to in [Mechanism::UnixStream, Mechanism::Shm, Mechanism::ShmFutex] {
        let mut endpoint = play.meet();
        let (mut lender, mut borrower) = endpoint.arena().unwrap();
        // Both ends lend one place, and have another loan that stays at home.
        let mut loan = lender.loan(LOAN_BYTES).unwrap();
        let fill = 1 + u8::from(play.is_first());
        loan.fill(fill);
        let lent = loan.freeze();
        let kept = lender.loan(LOAN_BYTES).unwrap().freeze();
        let place = lender.find(&lent).unwrap();
        lender.pass(place);
        send_place(&mut endpoint, place);
        let theirs = receive_place(&mut endpoint);
        let borrowed = borrower.borrow(theirs).unwrap();
        let mut end = Switcher::new(endpoint, !play.serves(), &options);
        end.switch_to(to, true);
        // The old endpoints are gone. What is lent is here, and is given back.
        expect_fill(&borrowed, 3 - fill);
        drop((lent, kept));
        assert_eq!(lender.slots_out(), (0, 1), "after a change to {to}");
        end.round(true);
        play.tell(0);
        play.hear();
        drop(borrowed);
        let limit = clock::now() + PATIENCE;
        while lender.slots_out() != (0, 0) {
            assert!(clock::now() < limit, "not given back after a change to {to}");
            clock::pause(Duration::from_millis(1));
        }
        // The memory serves again, as long as its two ends live.
        let mut loan = lender.loan(LOAN_BYTES).unwrap();
        loan.fill(fill);
        let lent = loan.freeze();
        let place = lender.find(&lent).unwrap();
        lender.pass(place);
        send_place(end.endpoint(), place);
        let borrowed = borrower.borrow(receive_place(end.endpoint())).unwrap();
        drop((lender, borrower, lent));
        end.round(false);
        expect_fill(&borrowed, 3 - fill);
    }
}
