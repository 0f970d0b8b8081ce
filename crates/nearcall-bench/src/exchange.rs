//! What happens between two processes while a cell is measured: the loops of both ends.
//!
//! ```text
//! client                              server
//!   cell (text)           -->
//!                         <--         "ready"
//!   first exchange, warm-up  <-->
//!   mark                  -->         begins to count
//!                         <--         empty reply
//!   measured exchanges    <-->
//!   mark                  -->         ends counting
//!                         <--         empty reply, then its report (text)
//! ```
//!
//! Everything goes over the channel that is measured; there is no other line while it is.
//! The loops are generic over the [`End`], so that floors and mechanisms run the same code.
//! Not here: processes (`peer.rs`, `runner.rs`), the floors' ends (`floor/`).

use std::fmt;
use std::io;

use nearcall_channel::{HandshakeError, OpenError, ReceiveError, Refusal, SendError};
use serde::{Deserialize, Serialize};

use crate::payload::{Corruption, Payload, Verifier};

pub(crate) mod bursts;
pub(crate) mod channel;
pub(crate) mod client;
pub(crate) mod count;
pub(crate) mod exact;
pub(crate) mod gapped;
pub(crate) mod job;
pub(crate) mod measured;
pub(crate) mod opened;
pub(crate) mod paced;
pub(crate) mod server;
pub(crate) mod stamps;
pub(crate) mod starts;
pub(crate) mod stream;

/// What came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// The message that was due, read and verified.
    Message,
    /// The end of a phase.
    Mark,
}

/// One end of what is measured. What an end does beside [`send`](Self::send) is by default that of
/// a caller, which has its reply when that returns.
pub trait End {
    /// Sends message `number`, every byte of it written.
    ///
    /// # Errors
    ///
    /// The other process is gone.
    fn send(&mut self, payload: &Payload, number: u64) -> Result<(), Failure>;

    /// Waits for what comes next, and reads all of it.
    ///
    /// # Errors
    ///
    /// The message is damaged, or the other process is gone.
    fn receive(&mut self, _verifier: &mut Verifier<'_>) -> Result<Got, Failure> {
        Err(Failure::other("calls give nothing back"))
    }

    /// Sends a reply that has no payload.
    ///
    /// # Errors
    ///
    /// The other process is gone.
    fn send_empty(&mut self) -> Result<(), Failure> {
        Err(Failure::other("a caller does not reply"))
    }

    /// Waits for a reply that has no payload.
    ///
    /// # Errors
    ///
    /// The other process is gone.
    fn receive_empty(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// Reports to the server that a phase is over. True if that used up message `number`.
    ///
    /// # Errors
    ///
    /// The other process is gone.
    fn send_mark(&mut self, _payload: &Payload, _number: u64) -> Result<bool, Failure> {
        Ok(false)
    }

    /// Whether from now on many messages come in a row, so that the next one is looked for before
    /// sleeping.
    fn expect_many(&mut self, _many: bool) {}
}

/// Why a cell was not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What follows from it.
    pub cause: Cause,
    /// In words.
    pub text: String,
}

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cause {
    /// This machine lacks what is needed: skip it.
    Unsupported,
    /// A message was damaged: nothing of this run can be trusted.
    Corrupt,
    /// Anything else: the cell has failed.
    Other,
}

impl Failure {
    /// Returns a failure from which nothing else follows.
    pub fn other(text: impl fmt::Display) -> Self {
        Self { cause: Cause::Other, text: text.to_string() }
    }
}

impl From<SendError> for Failure {
    #[cold]
    fn from(error: SendError) -> Self {
        Self::other(error)
    }
}

impl From<ReceiveError> for Failure {
    #[cold]
    fn from(error: ReceiveError) -> Self {
        Self::other(error)
    }
}

impl From<io::Error> for Failure {
    #[cold]
    fn from(error: io::Error) -> Self {
        Self::other(error)
    }
}

impl From<serde_json::Error> for Failure {
    #[cold]
    fn from(error: serde_json::Error) -> Self {
        Self::other(format!("the other end says what is no report: {error}"))
    }
}

impl From<Corruption> for Failure {
    #[cold]
    fn from(corruption: Corruption) -> Self {
        Self { cause: Cause::Corrupt, text: corruption.to_string() }
    }
}

impl From<HandshakeError> for Failure {
    fn from(error: HandshakeError) -> Self {
        let unsupported = matches!(
            error,
            HandshakeError::Refused { code: Refusal::Unsupported, .. }
                | HandshakeError::Open(_, OpenError::Unsupported(_))
        );
        let cause = if unsupported { Cause::Unsupported } else { Cause::Other };
        Self { cause, text: error.to_string() }
    }
}
