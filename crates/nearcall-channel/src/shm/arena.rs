//! The arena of a connection: memory that one end writes, lends to the other, and gets back.
//!
//! Each end has a [`Lender`] for what it lends and a [`Borrower`] for what it is lent. A slot is a
//! segment of its own (`segments.rs`); messages name slot, segment and bytes, as a [`Place`].
//!
//! ```text
//! lender                                        borrower
//!   loan -> written -> frozen                     reads the message, finds the segment,
//!   passed: counts it, sends a message that  -->  copies the bytes out, or lends slices of them
//!   names the place                               done with them: counts it in a page of its own
//!   free: no handle here, and as many        <--  (a word for each slot, only it writes there)
//!   counted there as here
//! ```
//!
//! The borrower's page is handed over with the first message that names a place, so a connection
//! that lends nothing has no page, no slot and no cost.
//!
//! **Invariants:** a slot is written only while no handle of it lives here and the peer has said
//! that it is done with it; a place is judged before it is used; a peer that lies about what it is
//! done with sees other bytes than it was sent, and nothing else happens.
//! **Not here:** how a place travels in a message (`nearcall-wire`), which peer is trusted
//! (`nearcall`).

mod borrower;
mod lender;

pub use borrower::{Borrowed, Borrower};
pub use lender::{Lender, Loan, LoanError};

/// The position of lent bytes, as a message names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The lender's number of the slot.
    pub slot: u16,
    /// The segment that is the slot now.
    pub segment: u16,
    /// The offset of the bytes in the segment.
    pub offset: u32,
    /// The number of bytes.
    pub bytes: u32,
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests;
