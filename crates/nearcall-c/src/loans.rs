//! Memory that is written by the program and sent without a copy, where the mechanism can.
//!
//! **Invariants:** a loan is sent once or given back; from then on its handle is none.
//! **Not here:** which memory that is (`nearcall::client::Loan`).
//!
//! **Invariant:** a loan is sent once or given back, and over shared memory its bytes are in no
//! message. *Checked by* `c_calls_c_over_shared_memory`.

use std::sync::{Mutex, PoisonError};

use nearcall::Status;
use nearcall::client::Loan;
use nearcall::dynamic::Encoded;

use crate::border::{Border, border};
use crate::handles::{self, Kind};
use crate::status::nearcall_status;
use crate::types::{nearcall_call_options, nearcall_caller, nearcall_loan, nearcall_view};

/// Memory that the program writes, until it is sent.
pub(crate) struct Lent(Mutex<Option<Loan>>);

impl Kind for Lent {
    const NAME: &'static str = "loan";
}

impl Border {
    /// Gives a loan away.
    pub(crate) fn lend(
        &self,
        mut lent: Loan,
        loan: *mut nearcall_loan,
        data: *mut *mut u8,
    ) -> Result<(), Status> {
        // It stays there, wherever the owner of the memory is kept.
        self.put("data", data, lent.as_mut_ptr())?;
        let id = handles::add(Lent(Mutex::new(Some(lent))));
        self.put("loan", loan, nearcall_loan { id })
    }

    /// Takes the message out of a loan, whose first bytes it is.
    pub(crate) fn lent_message(
        &self,
        loan: nearcall_loan,
        message: nearcall_view,
    ) -> Result<Encoded, Status> {
        let lent = handles::take::<Lent>(loan.id)?;
        let lent = lent.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let lent = lent.ok_or_else(|| Status::failed_precondition("the loan was sent"))?;
        if message.size > lent.len() || (message.size > 0 && message.data != lent.as_ptr()) {
            let text = format!("the message is not the first bytes of its loan of {}", lent.len());
            return Err(Status::invalid_argument(text));
        }
        Ok(Encoded::from(lent.freeze().slice(..message.size)))
    }
}

/// Lends `size` bytes for a request, and waits for them while the server has not given back enough
/// of what it was lent before, as the options say. Write the encoded request to `data`, then make a
/// call with `options.loan`, or give the loan back by `nearcall_loan_free`.
///
/// Where the mechanism can (`shm`, from 4 KiB on) the server gets the memory itself, if this thread
/// makes the call by one of the functions that wait or by `nearcall_start`; else it is copied.
/// Write nothing there after the call began.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_loan_new(
    caller: nearcall_caller,
    size: usize,
    options: *const nearcall_call_options,
    loan: *mut nearcall_loan,
    data: *mut *mut u8,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            at.place("loan", loan)?;
            at.place("data", data)?;
            let options = at.options("options", options)?;
            let lent = at.with_caller(caller, options.as_ref(), |caller| caller.loan(size))?;
            at.lend(lent, loan, data)
        })
    }
}

/// Gives back a loan that was not sent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_loan_free(loan: nearcall_loan) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe { border(|_| handles::take::<Lent>(loan.id).map(drop)) }
}
