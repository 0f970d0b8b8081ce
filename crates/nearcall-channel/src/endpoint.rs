//! One end of a connection as users hold it, with guards that keep the order of the calls.
//!
//! **Invariants:** a [`Claim`] that is dropped is aborted; a [`Message`] that is dropped is
//! released.
//! **Not here:** how bytes travel (the mechanisms), how the two ends met (`handshake.rs`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nearcall_os::fork::Epoch;
use nearcall_os::region::{SharedBytes, Trust};

use crate::account::UserAccount;
use crate::channel::{Channel, ChannelParts, ReceiveBuffer};
use crate::control::Control;
use crate::error::{ReceiveError, SendError};
use crate::growing::grow;
use crate::hang_up::HangUp;
use crate::interrupt::Interrupt;
use crate::mechanism::Mechanism;
use crate::packet::Refusal;
use crate::settings::{Peer, Settings};
use crate::shm::arena::{Borrower, Lender};
use crate::wait::{Deadline, Interest, Readiness, WaitPolicy, WakeCounts};

/// One end of a connection between two processes. Belongs to one thread at a time.
///
/// Dropping it closes the connection; the other end receives what was sent, then `PeerGone`. What
/// [`flush`](Endpoint::flush) would still have to move on is lost. Over `cma` the drop waits up to
/// 100 ms for the other end to read what lies in our memory.
///
/// A process that is forked from the one that has the endpoint can only drop it, which the other
/// end does not notice as long as the parent has it: sends and receives fail with `Os`.
pub struct Endpoint {
    // First, so that it goes before the control line whose hang-up the other end sees.
    channel: Box<dyn Channel>,
    mechanism: Mechanism,
    settings: Settings,
    control: Arc<Control>,
    /// A forked process has the same rings and sockets as its parent, and must not use them.
    epoch: Epoch,
}

impl Endpoint {
    pub(crate) fn new(
        channel: Box<dyn Channel>,
        mechanism: Mechanism,
        settings: Settings,
        control: Arc<Control>,
    ) -> Self {
        let epoch = control.epoch();
        Self { channel, mechanism, settings, control, epoch }
    }

    /// Returns the mechanism that moves this connection's messages.
    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// Returns how this end waits.
    pub fn wait_policy(&self) -> WaitPolicy {
        self.settings.wait
    }

    /// Returns the longest message that both ends agreed on, in bytes.
    pub fn message_bytes_max(&self) -> usize {
        self.settings.message_bytes_max as usize
    }

    /// Returns the longest message that travels in one fragment on this connection, in bytes.
    pub fn fragment_bytes_max(&self) -> usize {
        self.channel.transport().fragment_bytes_max()
    }

    /// Returns the room in each direction that was asked for and agreed on, in bytes.
    pub fn buffer_bytes(&self) -> usize {
        self.settings.buffer_bytes as usize
    }

    /// Returns the room for messages on their way out as the kernel's object really has it, in
    /// bytes: it may be more or less than was agreed on. One or two system calls.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn room_bytes(&self) -> std::io::Result<usize> {
        self.channel.transport().room_bytes()
    }

    /// Returns the identity of the other end, as the kernel reports it.
    pub fn peer(&self) -> &Peer {
        &self.settings.peer
    }

    /// Returns the account that pays for what this end holds, if there is one.
    pub fn account(&self) -> Option<&UserAccount> {
        self.control.account()
    }

    /// Returns what it takes to read the other end's loans where they lie: the kernel's word that
    /// the other end could change this process in any case. `None` for a process of another user.
    pub fn trust(&self) -> Option<Trust> {
        self.control.trust()
    }

    /// Claims room for a message of `message_bytes`, to be written in place.
    ///
    /// # Errors
    ///
    /// [`SendError::Full`]: no room by the deadline; nothing was sent.
    /// [`SendError::TooLarge`]: above [`message_bytes_max`](Self::message_bytes_max).
    #[inline]
    pub fn claim(
        &mut self,
        message_bytes: usize,
        deadline: Deadline,
    ) -> Result<Claim<'_>, SendError> {
        let message_bytes_max = self.message_bytes_max();
        if message_bytes > message_bytes_max {
            return Err(SendError::TooLarge { message_bytes, message_bytes_max });
        }
        self.epoch.check()?;
        self.channel.claim(message_bytes, deadline)?;
        let channel = &mut *self.channel;
        Ok(Claim { channel, left_bytes: message_bytes, space_bytes: 0, ended: false })
    }

    /// Sends a copy of `message`. With any deadline but [`Deadline::NEVER`], a part of it may still
    /// be in this process afterwards: see [`flush`](Self::flush).
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim). After any error but `PeerGone`, `PeerBroken` and `Os` the other
    /// end never sees the message.
    #[inline]
    pub fn send(&mut self, message: &[u8], deadline: Deadline) -> Result<(), SendError> {
        let (message_bytes, message_bytes_max) = (message.len(), self.message_bytes_max());
        if message_bytes > message_bytes_max {
            return Err(SendError::TooLarge { message_bytes, message_bytes_max });
        }
        self.epoch.check()?;
        self.channel.send(message, deadline)
    }

    /// Sends a message of `message_bytes` that `write` puts where the mechanism takes it from, all
    /// of it: [`claim`](Self::claim), write and commit in one step. Returns the error of `write`;
    /// nothing was sent then.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send), and [`SendError::TooLarge`] also for a message that is longer than
    /// a fragment ([`fragment_bytes_max`](Self::fragment_bytes_max)).
    #[inline]
    pub fn send_with<E>(
        &mut self,
        message_bytes: usize,
        deadline: Deadline,
        mut write: impl FnMut(&mut [u8]) -> Result<(), E>,
    ) -> Result<Result<(), E>, SendError> {
        let message_bytes_max = self.message_bytes_max().min(self.fragment_bytes_max());
        if message_bytes > message_bytes_max {
            return Err(SendError::TooLarge { message_bytes, message_bytes_max });
        }
        self.epoch.check()?;
        let mut written = Ok(());
        self.channel.send_with(message_bytes, deadline, &mut |room| {
            written = write(room);
            written.is_ok()
        })?;
        Ok(written)
    }

    /// Sends what a message with any deadline but [`Deadline::NEVER`] still has in this process.
    ///
    /// The next send, and most receives, do so as well: call it before a pause or the drop.
    ///
    /// # Errors
    ///
    /// [`SendError::Full`]: not all of it by the deadline.
    pub fn flush(&mut self, deadline: Deadline) -> Result<(), SendError> {
        self.epoch.check()?;
        let ChannelParts { outgoing, transport, .. } = self.channel.parts();
        outgoing.settle(transport, deadline)?;
        transport.drain(deadline)
    }

    /// Returns how many bytes of messages that were sent are still in this process:
    /// [`flush`](Self::flush) moves them on.
    pub fn unsent_bytes(&mut self) -> usize {
        let ChannelParts { outgoing, transport, .. } = self.channel.parts();
        outgoing.unsent_bytes() + transport.unsent_bytes()
    }

    /// Waits until all that was sent has left this process and there is room for a message of
    /// `message_bytes`, or for the first part of a long one. Sends nothing new.
    ///
    /// # Errors
    ///
    /// [`SendError::Full`]: not by the deadline.
    pub fn wait_for_room(
        &mut self,
        message_bytes: usize,
        deadline: Deadline,
    ) -> Result<(), SendError> {
        self.flush(deadline)?;
        let ChannelParts { transport, .. } = self.channel.parts();
        // Short and long ones may go by different ways, each with room of its own.
        transport.reserve(message_bytes.min(transport.fragment_bytes_max()), deadline)?;
        transport.unreserve();
        Ok(())
    }

    /// Receives the next message, still where the mechanism put it.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Empty`]: none by the deadline.
    /// [`ReceiveError::PeerGone`]: all that was sent has been received, and no more will come.
    #[inline]
    pub fn receive(&mut self, deadline: Deadline) -> Result<Message<'_>, ReceiveError> {
        self.epoch.check()?;
        let message_bytes = self.channel.receive(deadline)?;
        let channel = &mut *self.channel;
        Ok(Message { channel, message_bytes, left_bytes: message_bytes, fragment_bytes: 0 })
    }

    /// Receives the next message into `into` and returns its length.
    ///
    /// The fastest receive for small messages: one copy, and no borrow of the endpoint. With a
    /// deadline that is a moment, a message that is not there as a whole is reassembled first,
    /// which costs a second copy: what has come by then is kept for the next receive.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive). [`ReceiveError::DoesNotFit`]: the message is longer than
    /// `into`; it can still be received.
    #[inline]
    pub fn receive_into(
        &mut self,
        into: &mut [u8],
        deadline: Deadline,
    ) -> Result<usize, ReceiveError> {
        self.epoch.check()?;
        match self.channel.receive_small(into, deadline) {
            Err(ReceiveError::DoesNotFit { .. }) => {
                self.channel.receive_long(ReceiveBuffer::Slice(into), deadline)
            }
            outcome => outcome,
        }
    }

    /// Works like [`receive_into`](Self::receive_into), for small messages only.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive). [`ReceiveError::DoesNotFit`]: the message is longer than
    /// `into` or has not come whole; receive it by [`receive_vec`](Self::receive_vec).
    #[inline]
    pub fn receive_small(
        &mut self,
        into: &mut [u8],
        deadline: Deadline,
    ) -> Result<usize, ReceiveError> {
        self.epoch.check()?;
        self.channel.receive_small(into, deadline)
    }

    /// Receives the next message into `into`, whose length is its room, and returns the message's
    /// length. Each byte is copied once, even if the message arrives in fragments over time.
    ///
    /// # Errors
    ///
    /// As [`receive`](Self::receive). [`ReceiveError::DoesNotFit`]: the message is longer, or comes
    /// in fragments. Give a buffer to [`swap_buffer`](Self::swap_buffer) and call again: once the
    /// message is whole, `into` and that buffer change places; until then the error is `Empty`.
    #[inline]
    pub fn receive_vec(
        &mut self,
        into: &mut Vec<u8>,
        deadline: Deadline,
    ) -> Result<usize, ReceiveError> {
        self.epoch.check()?;
        match self.channel.receive_small(into, deadline) {
            Err(ReceiveError::DoesNotFit { .. }) => {
                self.channel.receive_long(ReceiveBuffer::Vec(into), deadline)
            }
            outcome => outcome,
        }
    }

    /// Polls up to `spins` times whether a receive may return a message or an error, for callers
    /// that poll several endpoints. May return a false positive; a false negative is only
    /// temporary. Returns `true` over every mechanism that needs a system call to find out.
    #[inline]
    pub fn poll_ready(&mut self, spins: u32) -> bool {
        self.channel.poll_ready(spins)
    }

    /// Gives the channel a buffer to reassemble the next message in, in exchange for the one that
    /// it has now. An empty one grows as the message comes.
    pub fn swap_buffer(&mut self, buffer: &mut Vec<u8>) {
        self.channel.parts().incoming.swap_buffer(buffer);
    }

    /// Returns how much of a message has come that is not whole yet, in bytes, for callers that ask
    /// whether a wake-up has brought a part of it.
    pub fn collected_bytes(&mut self) -> usize {
        self.channel.parts().incoming.collected_bytes()
    }

    /// Returns how often the two ends have woken each other since the channel was opened.
    pub fn wakes(&self) -> WakeCounts {
        self.channel.transport().wakes()
    }

    /// Returns the descriptor to wait on in an event loop, if the mechanism has one.
    ///
    /// Call [`arm`](Self::arm) each time before sleeping on it.
    pub fn readiness(&self, interest: Interest) -> Option<Readiness<'_>> {
        self.channel.transport().readiness(interest)
    }

    /// Announces a sleep on [`readiness`](Self::readiness). False: do not sleep, try again
    /// first.
    #[inline]
    pub fn arm(&mut self, interest: Interest) -> bool {
        self.channel.parts().transport.arm(interest)
    }

    /// From now on sending leaves an armed endpoint [armed](Self::arm), as long as there is room.
    ///
    /// For an end that has a thread wait on [`readiness`](Self::readiness) while others send: each
    /// send spares a system call and a fence. Otherwise who sends is taken for awake, and the
    /// answer that it waits for costs the other end no wake-up.
    pub fn stay_armed(&mut self) {
        self.channel.parts().transport.stay_armed();
    }

    /// Takes what [`arm`](Self::arm) has announced back, for an end that is about to poll: what
    /// comes from now on costs the other end no wake-up. To receive does so as well.
    pub fn disarm(&mut self) {
        self.channel.parts().transport.disarm();
    }

    /// From now on [`readiness`](Self::readiness) may ask for a watch that reports once what has
    /// come: a doorbell then needs no system call after each sleep, to take the rings back. Whoever
    /// asks for it watches as `Readiness::edge` says, and passes on what that reports, and that a
    /// report was for nothing, by [`note_report`](Self::note_report): a descriptor that a peer has
    /// filled would report no more.
    pub fn watch_edges(&mut self) {
        self.channel.parts().transport.watch_edges();
    }

    /// Passes on a report of a watch over [`readiness`](Self::readiness), and whether that was a
    /// hang-up or an error.
    pub fn note_report(&mut self, has_hung_up: bool) {
        self.channel.parts().transport.note_report(has_hung_up);
    }

    /// Ends the waits of this endpoint early when `fd` becomes readable: a sleeping
    /// [`receive`](Self::receive), [`receive_into`](Self::receive_into) or [`claim`](Self::claim)
    /// then returns `Empty` or `Full`, whatever its deadline, and so do all waits after it until
    /// [`Interrupt::rearm`]. What is there is still received. From now on `receive_into` takes a
    /// message only when all of it has come, so that a sender that stalls does not block this
    /// thread: one that travels in fragments costs a second copy. Committing still waits, and so
    /// does reading after `receive`.
    ///
    /// For an event loop over a mechanism without [`readiness`](Self::readiness); give it the
    /// loop's epoll. One at a time. It costs nothing while the mechanism does not sleep; over
    /// `sysv-mq` a wait for room then asks again after up to 1 ms instead of sleeping until there
    /// is room.
    ///
    /// # Errors
    ///
    /// `Unsupported`: the mechanism has a descriptor to wait on, or never sleeps. `AlreadyExists`:
    /// the last interrupt still lives. Otherwise the kernel's, such as EPERM for a file.
    pub fn interrupt_when_readable(&mut self, fd: BorrowedFd<'_>) -> std::io::Result<Interrupt> {
        let can = self.mechanism.capabilities();
        if can.pollable || can.needs_spinning {
            let why = if can.pollable { "can be waited on" } else { "never sleeps" };
            let text = format!("a wait of {} needs no interruption: it {why}", self.mechanism);
            return Err(std::io::Error::new(std::io::ErrorKind::Unsupported, text));
        }
        self.channel.parts().incoming.set_whole_messages_only();
        Interrupt::new(&self.settings.liveness, fd)
    }

    /// Makes `drop` return at once, discarding unsent data. For a peer that broke the rules.
    pub fn discard_unsent(&mut self) {
        self.channel.parts().transport.discard_unsent();
    }

    /// Sends the reason why the other end may not keep this connection, although the handshake is
    /// over. Drop the endpoint then; the other end reads the reason by
    /// [`take_refusal`](Self::take_refusal).
    ///
    /// Does not wait. Over `tcp://`, which has no control line, nothing is sent.
    pub fn refuse(&mut self, code: Refusal, why: &str) {
        if self.has_control_line().is_ok() {
            self.control.send_refusal(code, why);
        }
    }

    /// Takes the reason that the other end gave by [`refuse`](Self::refuse). Ask only when the
    /// connection has ended: any other packet of the control line is lost by it.
    pub fn take_refusal(&mut self) -> Option<(Refusal, String)> {
        self.has_control_line().ok()?;
        self.control.take_refusal()
    }

    /// Passes descriptors to the other end, beside the messages, over the control line.
    ///
    /// Does not wait. The receiver gets duplicates; yours may be closed at any time.
    ///
    /// # Errors
    ///
    /// [`SendError::TooLarge`]: more than
    /// [`PASSED_DESCRIPTORS_MAX`](crate::limits::PASSED_DESCRIPTORS_MAX) at once.
    /// [`SendError::Full`]: the other end has not taken the earlier ones yet.
    /// [`SendError::Os`] with `Unsupported`: the other end is on another machine.
    pub fn pass_descriptors(&mut self, descriptors: &[BorrowedFd<'_>]) -> Result<(), SendError> {
        self.has_control_line().map_err(SendError::Os)?;
        self.control.pass_descriptors(descriptors)
    }

    /// Takes the descriptors of one [`pass_descriptors`](Self::pass_descriptors) of the other end.
    ///
    /// # Errors
    ///
    /// [`ReceiveError::Empty`]: none by the deadline. Otherwise as
    /// [`pass_descriptors`](Self::pass_descriptors).
    pub fn take_descriptors(&mut self, deadline: Deadline) -> Result<Vec<OwnedFd>, ReceiveError> {
        self.has_control_line().map_err(ReceiveError::Os)?;
        self.control.take_descriptors(deadline)
    }

    /// Returns the line on which the two ends met.
    pub(crate) fn control(&self) -> &Control {
        &self.control
    }

    fn has_control_line(&self) -> std::io::Result<()> {
        match &self.settings.peer {
            Peer::Process(_) => Ok(()),
            Peer::Remote(address) => Err(std::io::Error::new(
                std::io::ErrorKind::Unsupported,
                format!("descriptors do not travel over tcp://, to {address}"),
            )),
        }
    }

    /// Returns the memory that both ends lend each other; `None` for mechanisms other than `shm`.
    /// Call it once, before the first message. No memory is allocated before the first loan.
    pub fn arena(&self) -> Option<(Lender, Borrower)> {
        (self.mechanism == Mechanism::Shm).then(|| {
            let lender = Lender::new(&self.control, self.message_bytes_max());
            (lender, Borrower::new(&self.control))
        })
    }

    /// Returns the descriptor that hangs up when the other end is gone, for an event loop: the
    /// control line, or over `tcp://` the stream. Wait for the hang-up only.
    pub fn control_fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    /// Returns how many packets of the other end were taken from the control line while segments of
    /// its memory were looked for: a peer that sends many costs this end time.
    pub fn control_packets(&self) -> usize {
        self.control.packets_taken()
    }

    /// Returns how many descriptors this end holds open, without those of loans.
    pub fn descriptors(&self) -> usize {
        let control = 1 + usize::from(self.settings.peer.pidfd().is_some());
        control + self.mechanism.descriptors()
    }

    /// Returns a handle that ends this connection from any thread.
    pub fn hang_up_handle(&self) -> HangUp {
        HangUp::new(&self.control, self.channel.transport().socket())
    }
}

/// Room for one message. Write all of it, then [`commit`](Claim::commit).
#[must_use = "a claim that is dropped aborts the message"]
pub struct Claim<'a> {
    channel: &'a mut dyn Channel,
    left_bytes: usize,
    /// Length of the last space, of which nothing was called final yet.
    space_bytes: usize,
    ended: bool,
}

impl Claim<'_> {
    /// Bytes still to be written.
    pub fn left_bytes(&self) -> usize {
        self.left_bytes
    }

    /// Returns the next part of the room, to be written in place; pass the number of final bytes to
    /// [`written`](Self::written). Empty once nothing is left.
    ///
    /// Long messages come in several parts, each on its way while the next is written.
    ///
    /// # Errors
    ///
    /// The message is lost: drop the claim. [`SendError::Full`]: no room by the claim's deadline.
    #[inline]
    pub fn space(&mut self) -> Result<&mut [u8], SendError> {
        let space = self.channel.space()?;
        self.space_bytes = space.len();
        Ok(space)
    }

    /// The first `bytes` of the last [`space`](Self::space) are final.
    ///
    /// # Errors
    ///
    /// As [`space`](Self::space). [`SendError::TooLarge`]: more than that space had, or no space
    /// was asked for since the last call.
    #[inline]
    pub fn written(&mut self, bytes: usize) -> Result<(), SendError> {
        let message_bytes_max = self.space_bytes;
        if bytes > message_bytes_max {
            return Err(SendError::TooLarge { message_bytes: bytes, message_bytes_max });
        }
        self.space_bytes = 0;
        self.channel.written(bytes)?;
        self.left_bytes -= bytes;
        Ok(())
    }

    /// Copies `bytes` to the next part of the room.
    ///
    /// # Errors
    ///
    /// As [`space`](Self::space). [`SendError::TooLarge`]: more than was claimed.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), SendError> {
        if bytes.len() > self.left_bytes {
            return Err(SendError::TooLarge {
                message_bytes: bytes.len(),
                message_bytes_max: self.left_bytes,
            });
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let space = self.space()?;
            let (now, later) = rest.split_at(rest.len().min(space.len()));
            space[..now.len()].copy_from_slice(now);
            self.written(now.len())?;
            rest = later;
        }
        Ok(())
    }

    /// Sends the message.
    ///
    /// # Errors
    ///
    /// [`SendError::Incomplete`]: not all of it was written; it was aborted.
    #[inline]
    pub fn commit(mut self) -> Result<(), SendError> {
        if self.left_bytes > 0 {
            return Err(SendError::Incomplete { missing_bytes: self.left_bytes });
        }
        self.channel.commit()?;
        self.ended = true;
        Ok(())
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let ChannelParts { outgoing, transport, .. } = self.channel.parts();
            outgoing.abort(transport);
        }
    }
}

/// A received message, borrowed from the channel. Dropping it frees its space.
pub struct Message<'a> {
    channel: &'a mut dyn Channel,
    message_bytes: usize,
    left_bytes: usize,
    /// Length of the last fragment, of which nothing was consumed yet.
    fragment_bytes: usize,
}

impl Message<'_> {
    /// Length of the whole message, in bytes.
    pub fn len(&self) -> usize {
        self.message_bytes
    }

    /// Returns whether it is a message without bytes.
    pub fn is_empty(&self) -> bool {
        self.message_bytes == 0
    }

    /// Bytes that have not been read yet.
    pub fn left_bytes(&self) -> usize {
        self.left_bytes
    }

    /// Copies the next bytes into `into` and returns how many: all that fit or all that are left.
    ///
    /// # Errors
    ///
    /// The message is lost. [`ReceiveError::Empty`]: the rest did not come by the deadline of
    /// [`receive`](Endpoint::receive). [`ReceiveError::Aborted`]: the sender aborted it.
    #[inline]
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, ReceiveError> {
        let bytes = into.len().min(self.left_bytes);
        self.fragment_bytes = 0;
        self.channel.read(&mut into[..bytes])?;
        self.left_bytes -= bytes;
        Ok(bytes)
    }

    /// Appends all bytes that are left to `into`.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read). `into` is then as it was.
    pub fn read_to_end(&mut self, into: &mut Vec<u8>) -> Result<(), ReceiveError> {
        let start = into.len();
        grow(into, start + self.left_bytes).map_err(ReceiveError::Os)?;
        let outcome = self.read(&mut into[start..]);
        outcome.map(drop).inspect_err(|_| into.truncate(start))
    }

    /// The next bytes where they lie, possibly in memory that the other end can still write.
    ///
    /// Pass the number of bytes that are done with to [`consume`](Self::consume). Empty once none
    /// are left.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn fragment(&mut self) -> Result<SharedBytes<'_>, ReceiveError> {
        let ChannelParts { incoming, transport, .. } = self.channel.parts();
        let fragment = incoming.fragment(transport)?;
        self.fragment_bytes = fragment.len();
        Ok(fragment)
    }

    /// The first `bytes` of the last [`fragment`](Self::fragment), at most all of it, are done
    /// with.
    ///
    /// Once for each fragment: ask for the next before consuming more.
    pub fn consume(&mut self, bytes: usize) {
        let bytes = bytes.min(self.fragment_bytes);
        self.fragment_bytes = 0;
        self.left_bytes -= bytes;
        let ChannelParts { incoming, transport, .. } = self.channel.parts();
        incoming.consume(transport, bytes);
    }
}

impl Drop for Message<'_> {
    #[inline]
    fn drop(&mut self) {
        self.channel.release();
    }
}
