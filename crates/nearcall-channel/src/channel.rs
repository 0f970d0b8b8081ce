//! The trait that every mechanism implements: whole messages, both ways, between two processes.
//!
//! Always true: one message is claimed at a time and one is being received at a time; a claim is
//! ended by `commit` or `abort`, a received message by `release`; messages arrive whole, once and
//! in their order; no operation waits past its [`Deadline`] or after the other end has gone.
//! Not here: who may call what when (the guards of `endpoint.rs` see to it), calls and replies
//! (another crate), meeting (`handshake.rs`).

use std::os::fd::BorrowedFd;

use nearcall_os::region::SharedBytes;

use crate::error::{ReceiveError, SendError};
use crate::wait::Deadline;

/// What a waiter waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Interest {
    /// A message.
    Receive,
    /// Room for a message, or for the rest of the one that is on its way.
    Send,
}

/// A descriptor to wait on, and which of its events tells that a channel may have become ready.
#[derive(Debug, Clone, Copy)]
pub struct Readiness<'a> {
    /// Belongs to the channel: wait on it, never read or close it.
    pub fd: BorrowedFd<'a>,
    /// Wait for writability instead of readability.
    pub writable: bool,
}

/// One mechanism's end of a connection.
///
/// Users hold an [`Endpoint`](crate::Endpoint), which calls these in the right order. All waiting
/// follows the policy with which the channel was opened; `Deadline::NOW` never waits, except for
/// a lock that a mechanism shares with the other end (`shm/monitor.rs`).
pub trait Channel: Send {
    /// Begins a message of `message_bytes` bytes, at most the connection's limit.
    ///
    /// With `Deadline::NOW` a success means that the rest of the message will not wait either.
    /// Otherwise the fragments of a long message wait for room until `deadline`.
    ///
    /// # Errors
    ///
    /// `Full`: no room by the deadline, or the previous message is still on its way.
    fn claim(&mut self, message_bytes: usize, deadline: Deadline) -> Result<(), SendError>;

    /// The next part of the claimed message, to be written in place. Empty once all is written.
    ///
    /// # Errors
    ///
    /// As [`claim`](Channel::claim); the message is then lost and must be aborted.
    fn space(&mut self) -> Result<&mut [u8], SendError>;

    /// The first `bytes` of the last [`space`](Channel::space) are final and may travel.
    fn written(&mut self, bytes: usize) -> Result<(), SendError>;

    /// Ends the claimed message, all of which was written. It will arrive.
    ///
    /// Unless its deadline is `Never`, a part may still wait in this process: see
    /// [`flush`](Channel::flush). It is lost if the channel is dropped then.
    fn commit(&mut self) -> Result<(), SendError>;

    /// Gives the claimed message up. The receiver never sees it as a message.
    fn abort(&mut self);

    /// Sends a copy of `message`: claim, write and commit in one step.
    fn send(&mut self, message: &[u8], deadline: Deadline) -> Result<(), SendError>;

    /// Hands what a committed message still has in this process to the mechanism.
    ///
    /// # Errors
    ///
    /// `Full`: some of it is still here.
    fn flush(&mut self, deadline: Deadline) -> Result<(), SendError>;

    /// Waits for a message and tells its length.
    ///
    /// With `Deadline::NOW` it is there as a whole. Otherwise its fragments may still be on their
    /// way, and reading them waits until `deadline`.
    fn receive(&mut self, deadline: Deadline) -> Result<usize, ReceiveError>;

    /// Looks so many times whether a receive might give anything. Wrongly yes at times, never
    /// wrongly no for good.
    fn poll_ready(&mut self, spins: u32) -> bool;

    /// The next bytes of the received message where they lie. Empty once all are consumed.
    ///
    /// They may be in memory that the other end can still write: judge copies, never the original.
    fn fragment(&mut self) -> Result<SharedBytes<'_>, ReceiveError>;

    /// The first `bytes` of the last [`fragment`](Channel::fragment) are no longer needed.
    fn consume(&mut self, bytes: usize);

    /// Copies the next `into.len()` bytes of the message, which has as many left.
    fn read(&mut self, into: &mut [u8]) -> Result<(), ReceiveError> {
        let mut copied = 0;
        while copied < into.len() {
            let fragment = self.fragment()?;
            let bytes = fragment.len().min(into.len() - copied);
            fragment.slice(0..bytes).copy_to(&mut into[copied..copied + bytes]);
            self.consume(bytes);
            copied += bytes;
        }
        Ok(())
    }

    /// Receives a message into `into`: receive, read and release in one step. Its length.
    ///
    /// What has come of a message when `deadline` passes is kept for the next receive.
    ///
    /// # Errors
    ///
    /// `DoesNotFit`: it is longer than `into`. It is still there for [`receive`](Channel::receive).
    fn receive_into(&mut self, into: &mut [u8], deadline: Deadline) -> Result<usize, ReceiveError>;

    /// As [`receive_into`](Channel::receive_into), for a message that came in one part.
    ///
    /// # Errors
    ///
    /// `DoesNotFit`: it is longer than `into`, or something else than that.
    fn receive_small(&mut self, into: &mut [u8], deadline: Deadline)
    -> Result<usize, ReceiveError>;

    /// As [`receive_into`](Channel::receive_into), into a buffer whose length is its room.
    ///
    /// # Errors
    ///
    /// `DoesNotFit`: a message that is longer, or whose parts are still to come. Then
    /// [`swap_buffer`](Channel::swap_buffer) a buffer and ask again: that one comes back in exchange for `into`,
    /// with the message.
    fn receive_vec(
        &mut self,
        into: &mut Vec<u8>,
        deadline: Deadline,
    ) -> Result<usize, ReceiveError>;

    /// Lends a buffer to collect messages in, and gives back the one that was used before. It may
    /// be empty: room is made as the message comes.
    fn swap_buffer(&mut self, buffer: &mut Vec<u8>);

    /// Ends the received message, read or not, and frees its space. Does not wait.
    fn release(&mut self);

    /// From now on [`receive_into`](Channel::receive_into) takes a message only when all of it has
    /// come, whatever the deadline: who is called away must not be held by a sender that stalls.
    fn set_whole_messages_only(&mut self) {}

    /// Closing will not wait for the other end to read what was sent.
    fn discard_unsent(&mut self) {}

    /// How many bytes of messages on their way out there is really room for, as read back from the
    /// kernel's object: it may give more or less than was asked for, and counts in its own way.
    fn room_bytes(&self) -> std::io::Result<usize>;

    /// The longest message that travels in one fragment, in bytes.
    fn fragment_bytes_max(&self) -> usize;

    /// What an event loop waits on, where the mechanism has such a thing.
    fn readiness(&self, interest: Interest) -> Option<Readiness<'_>>;

    /// Announces that the caller is about to sleep on [`readiness`](Channel::readiness).
    ///
    /// True: go to sleep. False: what was waited for may be there already, so ask again first.
    fn arm(&mut self, interest: Interest) -> bool;
}
