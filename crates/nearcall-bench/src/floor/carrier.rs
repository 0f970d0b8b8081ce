//! What all floors with two ends have in common: counting messages, and ending a phase.
//!
//! A phase ends with an ordinary message whose place in the order was published before in memory
//! that the server maps. So a floor's messages are what they would be without us.

use std::sync::atomic::Ordering;

use crate::exchange::opened::{OpenedEnd, opened};
use crate::exchange::{End, Failure, Got};
use crate::floor::meeting::{Meeting, Regions};
use crate::payload::{Payload, Verifier};

/// Moves messages of one floor. Each end has one.
pub trait Carrier {
    /// Sends message `number`. Without a payload, unless the floor has one.
    ///
    /// # Errors
    ///
    /// The other process is gone.
    #[inline]
    fn send(&mut self, _payload: &Payload, _number: u64) -> Result<(), Failure> {
        self.send_empty()
    }

    /// Waits for a message and reads it.
    ///
    /// # Errors
    ///
    /// The message is damaged, or the other process is gone.
    #[inline]
    fn receive(&mut self, _verifier: &mut Verifier<'_>) -> Result<(), Failure> {
        self.receive_empty()
    }

    /// Sends a reply without a payload.
    ///
    /// # Errors
    ///
    /// The other process is gone.
    fn send_empty(&mut self) -> Result<(), Failure>;
    /// Waits for a reply without a payload.
    ///
    /// # Errors
    ///
    /// The other process is gone.
    fn receive_empty(&mut self) -> Result<(), Failure>;
}

/// A carrier as the measured loops use it.
pub(crate) struct FloorEnd<C> {
    carrier: C,
    marks: Regions,
    sent: u64,
    received: u64,
}

impl<C: Carrier> FloorEnd<C> {
    pub(crate) fn new(carrier: C, meeting: &Meeting) -> Result<Self, Failure> {
        let marks = meeting.regions(MARK_REGION_BYTES)?;
        Ok(Self { carrier, marks, sent: 0, received: 0 })
    }
}

impl<C: Carrier> End for FloorEnd<C> {
    #[inline]
    fn send(&mut self, payload: &Payload, number: u64) -> Result<(), Failure> {
        self.sent += 1;
        self.carrier.send(payload, number)
    }

    #[inline]
    fn receive(&mut self, verifier: &mut Verifier<'_>) -> Result<Got, Failure> {
        self.carrier.receive(verifier)?;
        self.received += 1;
        match self.marks.peer.load64(0, Ordering::Acquire) == self.received {
            true => Ok(Got::Mark),
            false => Ok(Got::Message),
        }
    }

    #[inline]
    fn send_empty(&mut self) -> Result<(), Failure> {
        self.carrier.send_empty()
    }

    #[inline]
    fn receive_empty(&mut self) -> Result<(), Failure> {
        self.carrier.receive_empty()
    }

    fn send_mark(&mut self, payload: &Payload, number: u64) -> Result<bool, Failure> {
        self.marks.own.word64(0).store(self.sent + 1, Ordering::Release);
        self.send(payload, number)?;
        Ok(true)
    }
}

/// Opens an end whose messages `carrier` moves and that holds up to `buffer_bytes` on the way.
///
/// # Errors
///
/// The other process is gone.
pub fn open<'a>(carrier: impl Carrier + 'a, meeting: &Meeting, buffer_bytes: u64) -> OpenedEnd<'a> {
    Ok(opened(FloorEnd::new(carrier, meeting)?, buffer_bytes))
}

/// One page, of which one word is used.
const MARK_REGION_BYTES: usize = 4 << 10;
