//! What came by reference: bytes of a message that lie in memory of the other end.
//!
//! From a peer that is trusted they become slices of that memory; from any other they are copied,
//! once, to where they stand in the message, and given back.
//! **Invariants:** references are judged before anything is read; what they name is given back
//! once, also if the message has no receiver any more.
//! **Not here:** the memory (`nearcall-channel`), reading the message (`codec.rs`).

use nearcall_channel::{Borrower, Place, ReceiveError};
use nearcall_os::region::Trust;
use nearcall_wire::{End, Event, HEADER_BYTES, Payload, Reference, References};

use super::receiving::Unreceived;
use super::{Connection, Host};
use crate::borrowed::BorrowedSegments;

/// The segments that one end borrows over one connection.
#[derive(Debug)]
pub(super) struct Borrowing {
    borrower: Borrower,
    /// If the user has the peer trusted, and the kernel has no objection.
    trust: Option<Trust>,
}

impl Borrowing {
    pub(super) fn new(borrower: Borrower, trust: Option<Trust>) -> Self {
        Self { borrower, trust }
    }

    /// Returns how much lives here of the other end's loans.
    pub(super) fn places_out(&self) -> usize {
        self.borrower.places_out()
    }
}

impl<H: Host> Connection<H> {
    /// Takes what a message in `buffer` names. Returns the event, and the segments if the message
    /// is read where they lie; otherwise the message in `buffer` is whole then.
    #[inline(never)]
    pub(super) fn borrow_segments(
        &self,
        event: Option<Event>,
        buffer: &mut Vec<u8>,
        message_bytes: usize,
    ) -> Result<Whole, Unreceived> {
        let inner = &mut *self.inner.borrow_mut();
        // The protocol refuses references where there is nothing to borrow.
        let Some(Borrowing { borrower, trust }) = &mut inner.borrowing else {
            return Ok((event, None));
        };
        let message = &buffer[..message_bytes];
        let start = body_start(message);
        let (head, body) = message.split_at_checked(start).unwrap_or((message, &[]));
        let body_bytes_max = (self.message_bytes_max.get() as usize).saturating_sub(start);
        let read = References::read(body, body_bytes_max);
        let (references, rest) = read.map_err(Unreceived::Protocol)?;
        if let &mut Some(trust) = trust {
            let mut segments = self.buffers.take_segments();
            segments.rest = message_bytes - rest.len()..message_bytes;
            for reference in references.iter() {
                let borrowed = borrower.borrow(place(&reference)).map_err(Unreceived::Channel)?;
                segments.push(reference.position as usize, borrowed.into_bytes(trust));
            }
            if event.is_some() {
                return Ok((event, Some(segments)));
            }
            // Those of a message that has no receiver any more go at once.
            self.buffers.give_segments(segments);
            return Ok((None, None));
        }
        let whole_bytes = start + references.body_bytes();
        let mut whole = self.buffers.take_large(whole_bytes);
        let grown = self.buffers.grow(&mut whole, whole_bytes);
        grown.map_err(|error| Unreceived::Channel(ReceiveError::Os(error)))?;
        let (place_of_head, place_of_body) = whole[..whole_bytes].split_at_mut(start);
        place_of_head.copy_from_slice(head);
        copy_together(borrower, &references, rest, place_of_body).map_err(Unreceived::Channel)?;
        let event = event.map(|event| with_whole_body(event, references.body_bytes()));
        self.buffers.give(std::mem::replace(buffer, whole));
        Ok((event, None))
    }
}

/// An event, and what of its message lies in memory of the peer.
type Whole = (Option<Event>, Option<Box<BorrowedSegments>>);

/// Puts a body together from its rest and what it names, each copied once.
fn copy_together(
    borrower: &mut Borrower,
    references: &References<'_>,
    mut rest: &[u8],
    mut into: &mut [u8],
) -> Result<(), ReceiveError> {
    let mut at = 0;
    for reference in references.iter() {
        let position = reference.position as usize;
        let (before, later) = rest.split_at(position - at);
        let (place_of_before, further) = into.split_at_mut(before.len());
        place_of_before.copy_from_slice(before);
        let borrowed = borrower.borrow(place(&reference))?;
        let (place_of_lent, further) = further.split_at_mut(borrowed.len());
        borrowed.bytes().copy_to(place_of_lent);
        at = position + borrowed.len();
        (rest, into) = (later, further);
    }
    into.copy_from_slice(rest);
    Ok(())
}

/// Returns the offset of the body in a message.
fn body_start(message: &[u8]) -> usize {
    match message {
        [_, _, _, _, low, high, ..] => {
            HEADER_BYTES + usize::from(u16::from_le_bytes([*low, *high]))
        }
        _ => HEADER_BYTES,
    }
}

fn place(reference: &Reference) -> Place {
    let &Reference { slot, segment, offset, bytes, .. } = reference;
    Place { slot, segment, offset, bytes }
}

/// Returns the event of a message that has all its bytes now.
fn with_whole_body(event: Event, body_bytes: usize) -> Event {
    let whole = |payload: Payload| {
        // The body is within the limit of the connection, which has 32 bits.
        let body_bytes = u32::try_from(body_bytes).unwrap_or(u32::MAX);
        Payload { body_bytes, references: false, ..payload }
    };
    match event {
        Event::Call { call, object, method, deadline, payload, shape } => {
            Event::Call { call, object, method, deadline, payload: whole(payload), shape }
        }
        Event::Oneway { object, method, deadline, payload } => {
            Event::Oneway { object, method, deadline, payload: whole(payload) }
        }
        Event::Ended { call, end: End::Reply(payload) } => {
            Event::Ended { call, end: End::Reply(whole(payload)) }
        }
        other => other,
    }
}
