//! Lending over a socket pair: slots come back, and what lies is refused.

use std::sync::Arc;
use std::thread;

use nearcall_os::region::Trust;
use nearcall_os::socket::{self, Kind};

use super::*;
use crate::control::Control;
use crate::error::{ReceiveError, Violation};
use crate::limits::{SLOT_BYTES_MIN, SLOT_BYTES_PER_END_MAX, SLOTS_PER_END_MAX};

fn ends() -> (Lender, Borrower) {
    let (a, b) = socket::unix_pair(Kind::Seqpacket).unwrap();
    let (a, b) = (Arc::new(Control::new(a)), Arc::new(Control::new(b)));
    // As in a connection: both ends do both.
    let _ = Borrower::new(&a);
    (Lender::new(&a, 256 << 20), Borrower::new(&b))
}

fn trust() -> Trust {
    let (own, _other) = socket::unix_pair(Kind::Stream).unwrap();
    Trust::of_peer(own).unwrap()
}

#[test]
fn what_is_lent_is_read_where_it_lies() {
    let (mut lender, mut borrower) = ends();
    let mut loan = lender.loan(100_000).unwrap();
    assert_eq!(loan.len(), 100_000);
    loan[70_000..70_005].copy_from_slice(b"hello");
    let bytes = loan.freeze();
    let place = lender.find(&bytes[70_000..70_005]).unwrap();
    assert_eq!((place.offset, place.bytes), (70_000, 5));
    lender.pass(place);
    drop(bytes);
    let lent = borrower.borrow(place).unwrap().into_bytes(trust());
    assert_eq!(&lent[..], b"hello");
    assert_eq!(borrower.places_out(), 1);
    drop(lender);
    assert_eq!(&lent[1..], b"ello", "whatever becomes of the connection");
}

#[test]
fn a_slot_is_free_when_every_handle_at_both_ends_is_gone() {
    let (mut lender, mut borrower) = ends();
    let bytes = lender.loan(8192).unwrap().freeze();
    let place = lender.find(&bytes).unwrap();
    let slot_of_next = |lender: &mut Lender| {
        let next = lender.loan(8192).unwrap().freeze();
        lender.find(&next).unwrap().slot
    };
    lender.pass(place);
    lender.pass(place);
    assert_ne!(slot_of_next(&mut lender), place.slot, "it is held here");
    drop(bytes);
    assert_ne!(slot_of_next(&mut lender), place.slot, "it is under way");
    let first = borrower.borrow(place).unwrap();
    let second = borrower.borrow(place).unwrap().into_bytes(trust());
    let slice = second.slice(5..6);
    drop((first, second));
    assert_ne!(slot_of_next(&mut lender), place.slot, "a slice of it is held there");
    assert_eq!(lender.slots_out(), (0, 1));
    thread::spawn(move || drop(slice)).join().unwrap();
    assert_eq!((lender.slots_out(), borrower.places_out()), ((0, 0), 0));
    assert_eq!(slot_of_next(&mut lender), place.slot);
}

#[test]
fn a_message_that_was_not_sent_takes_nothing() {
    let (mut lender, _borrower) = ends();
    let bytes = lender.loan(4096).unwrap().freeze();
    let place = lender.find(&bytes).unwrap();
    lender.pass(place);
    lender.take_back(place);
    drop(bytes);
    assert_eq!(lender.slots_out(), (0, 0));
}

#[test]
fn when_all_slots_are_out_nothing_is_lent_until_one_is_back() {
    let (mut lender, mut borrower) = ends();
    let mut kept = Vec::new();
    for _ in 0..SLOTS_PER_END_MAX {
        let bytes = lender.loan(4096).unwrap().freeze();
        let place = lender.find(&bytes).unwrap();
        lender.pass(place);
        kept.push(borrower.borrow(place).unwrap().into_bytes(trust()));
    }
    let error = lender.loan(4096).unwrap_err();
    assert!(matches!(error, LoanError::AllOut { here: 0, there: SLOTS_PER_END_MAX }), "{error}");
    assert!(error.to_string().contains("drops or detaches"), "{error}");
    assert!(lender.loan(SLOT_BYTES_MIN - 1).is_ok(), "a small one is of the heap");
    kept.swap_remove(7);
    assert!(lender.loan(4096).unwrap().is_shared());
}

#[test]
fn bytes_are_limited_as_slots_are() {
    let (mut lender, _borrower) = ends();
    let large = lender.loan(SLOT_BYTES_PER_END_MAX + 1).unwrap_err();
    assert!(matches!(large, LoanError::TooLarge { .. }), "{large}");
    let half = SLOT_BYTES_PER_END_MAX / 2;
    let (first, second) = (lender.loan(half).unwrap(), lender.loan(half).unwrap());
    let error = lender.loan(4096).unwrap_err();
    assert!(matches!(error, LoanError::AllOut { here: 2, there: 0 }), "{error}");
    drop((first, second));
    // Those two are free, and make room for what they are too small for.
    assert!(lender.loan(half + 1).unwrap().is_shared());
    assert!(lender.loan(4096).is_ok());
}

#[test]
fn a_free_slot_is_used_again() {
    let (mut lender, _borrower) = ends();
    let first = lender.loan(10_000).unwrap();
    let start = first.as_ptr();
    drop(first);
    let second = lender.loan(9_000).unwrap();
    assert_eq!(second.as_ptr(), start);
    assert!(lender.is_lending());
    drop(second);
    assert!(!lender.is_lending());
}

#[test]
fn only_what_lies_in_a_loan_is_found() {
    let (mut lender, _borrower) = ends();
    let bytes = lender.loan(4096).unwrap().freeze();
    assert!(lender.find(&[0; 5000]).is_none());
    let copy = bytes.to_vec();
    assert!(lender.find(&copy).is_none());
    assert!(lender.find(&bytes[4090..]).is_some());
    let plain = Loan::plain(10_000).freeze();
    assert!(lender.find(&plain).is_none());
}

#[test]
fn every_lie_about_a_place_is_refused() {
    let (mut lender, mut borrower) = ends();
    let bytes = lender.loan(4096).unwrap().freeze();
    let place = lender.find(&bytes).unwrap();
    for lie in [
        Place { slot: 64, ..place },
        Place { slot: u16::MAX, ..place },
        Place { segment: 1, ..place },
        Place { segment: u16::MAX, ..place },
        Place { offset: 1, ..place },
        Place { offset: u32::MAX, ..place },
        Place { bytes: 4097, ..place },
        Place { bytes: u32::MAX, ..place },
        Place { bytes: 0, ..place },
    ] {
        let refused = borrower.borrow(lie);
        let Err(ReceiveError::PeerBroken(violation)) = refused else { panic!("{lie:?}") };
        assert_eq!(violation, Violation::BadSegment);
    }
    assert!(borrower.borrow(place).is_ok());
}

#[test]
fn a_loan_outlives_its_lender() {
    let (mut lender, _borrower) = ends();
    let mut loan = lender.loan(4096).unwrap();
    drop(lender);
    loan.fill(7);
    let bytes = loan.freeze();
    assert!(bytes.iter().all(|&byte| byte == 7));
}

#[test]
fn small_slots_make_room_for_a_large_one() {
    let (mut lender, mut borrower) = ends();
    for round in 0..5 {
        let many: Vec<_> = (0..SLOTS_PER_END_MAX).map(|_| lender.loan(4096).unwrap()).collect();
        drop(many);
        let bytes = lender.loan(1 << 20).unwrap().freeze();
        let place = lender.find(&bytes).expect("of a slot");
        lender.pass(place);
        assert_eq!(borrower.borrow(place).unwrap().len(), 1 << 20, "{round}");
    }
}

#[test]
fn a_refusal_says_what_was_out_when_it_was_decided() {
    let (mut lender, mut borrower) = ends();
    for _ in 0..200 {
        let passed: Vec<_> = (0..SLOTS_PER_END_MAX)
            .map(|_| {
                let bytes = lender.loan(4096).unwrap().freeze();
                let place = lender.find(&bytes).unwrap();
                lender.pass(place);
                borrower.borrow(place).unwrap()
            })
            .collect();
        thread::scope(|scope| {
            scope.spawn(move || drop(passed));
            loop {
                match lender.loan(4096) {
                    Ok(_) => break,
                    Err(LoanError::AllOut { here, there }) => assert!(here == 0 && there > 0),
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
}
