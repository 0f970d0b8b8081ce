//! Fills what iceoryx2 has loaned, without writing it twice.
//!
//! Its own examples do this too. The safe ways are a call per byte, zeroes first, or a second copy.
#![allow(unsafe_code, reason = "iceoryx2 has no safe way to fill a loan by appending")]

use std::mem::MaybeUninit;

use iceoryx2::prelude::ipc;
use iceoryx2::request_mut::RequestMut;
use iceoryx2::request_mut_uninit::RequestMutUninit;
use nearcall_bench::payload::Payload;

/// A loaned request before it is written.
type Loan = RequestMutUninit<ipc::Service, [MaybeUninit<u8>], u64, [u8], ()>;

/// Writes message `number` to `loan`, whose length is the message's.
///
/// # Panics
///
/// If it is not.
#[inline]
pub(crate) fn fill(
    mut loan: Loan,
    payload: &Payload,
    number: u64,
) -> RequestMut<ipc::Service, [u8], u64, [u8], ()> {
    let mut rest = loan.payload_mut();
    assert_eq!(rest.len(), payload.message_bytes(), "the loan has the message's length");
    payload.parts(number, |part| {
        let (now, later) = std::mem::take(&mut rest).split_at_mut(part.len());
        now.write_copy_of_slice(part);
        rest = later;
    });
    assert!(rest.is_empty(), "the parts are the whole message");
    // SAFETY: the loop above has written every byte of the loan: the parts were as long as it is.
    unsafe { loan.assume_init() }
}
