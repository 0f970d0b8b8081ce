//! The control line: the unix socket on which two ends met and which stays open between them.
//!
//! It is a SOCK_SEQPACKET socket: one packet is one message with its descriptors, so there is no
//! framing that an unknown process could attack. It carries the handshake, then descriptors that
//! the users pass to each other, the segments of shared memory, and the line of a handshake for
//! another mechanism. Its hang-up is how an end learns that the other is gone.
//! All of these come in one order; a reader of one kind keeps the others.
//!
//! **Invariants:** sending never waits; what comes in is at most `HANDSHAKE_PACKET_BYTES_MAX` bytes
//! with as many descriptors as were asked for, else the peer is broken. The kernel is asked for the
//! sender of the server's answer, and of nothing else. A server keeps at most one line of a
//! handshake, and a client none.
//! **Not here:** what the packets of the handshake mean (`handshake.rs`), and those of segments
//! (`shm/segments.rs`).

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use nearcall_os::descriptor::{self, Received};
use nearcall_os::fork::Epoch;
use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::region::Trust;
use nearcall_os::sender::{self, Sender};
use nearcall_os::socket;

use crate::account::{self, Charge, Exceeded, Resource, UserAccount};
use crate::error::{ReceiveError, SendError, Violation};
use crate::fds::ChannelFds;
use crate::limits::{
    CONTROL_PACKETS_PER_LOOK_MAX, HANDSHAKE_PACKET_BYTES_MAX, PASSED_DESCRIPTORS_KEPT_MAX,
    PASSED_DESCRIPTORS_MAX,
};
use crate::packet::{Packet, Refusal, escape};
use crate::shm::segment_table::{self, COUNTS, MADE, Outbox, RETIRED};
use crate::wait::Deadline;

/// First byte of a packet that passes descriptors between the users of a connection.
pub(crate) const PASSED: u8 = 0xD5;

/// First byte of a packet by which a client passes the server's end of the line of a handshake for
/// another mechanism, with that one descriptor.
pub(crate) const LINE: u8 = 0xD9;

/// One end of a control line.
#[derive(Debug)]
pub(crate) struct Control {
    socket: OwnedFd,
    /// A forked process has the same socket as its parent, and must not touch it.
    epoch: Epoch,
    /// The packets that wait until their reader takes them. There is no lock on the path of a
    /// message: this one is taken when descriptors or segments come.
    inbox: Mutex<Inbox>,
    outbox: Mutex<Outbox>,
    /// Whose account pays for what this end holds, and what was charged when it was opened.
    account: Option<UserAccount>,
    charges: Mutex<Vec<Charge>>,
    /// Descriptors that the users of this end have passed, a packet without any counted as one.
    passed_descriptors: AtomicUsize,
    /// Packets that were taken while segments were looked for.
    packets_taken: AtomicUsize,
    /// The process that has answered the client, which need not be the one whose socket it has
    /// connected to. Inside `None`: it has not given its credentials.
    server: OnceLock<Option<Sender>>,
}

/// The packets that came after the handshake.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    passed: VecDeque<Vec<OwnedFd>>,
    /// The charge for those.
    descriptors: Option<Charge>,
    /// The reason why the other end refuses the connection after all.
    refusal: Option<(Refusal, String)>,
    /// The line of a handshake that the client has begun, or why it could not be kept. It is
    /// charged with the descriptors of the users.
    line: Option<Result<OwnedFd, ReceiveError>>,
    /// This end is the client's, which is passed no line.
    is_client: bool,
    pub(crate) segments: segment_table::Inbox,
}

impl Control {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self::charged_to(None, socket)
    }

    /// Creates one end, whose connection charges what it holds to an account.
    pub(crate) fn charged_to(account: Option<&UserAccount>, socket: OwnedFd) -> Self {
        let charge = |resource| account.map(|account| account.empty_charge(resource));
        let segments =
            segment_table::Inbox::charged_to(charge(Resource::Mappings), charge(Resource::Bytes));
        let descriptors = charge(Resource::Descriptors);
        let outbox = Outbox::charged_to(charge(Resource::Mappings), charge(Resource::Bytes));
        Self {
            socket,
            inbox: Mutex::new(Inbox { segments, descriptors, ..Inbox::default() }),
            outbox: Mutex::new(outbox),
            account: account.cloned(),
            charges: Mutex::default(),
            passed_descriptors: AtomicUsize::new(0),
            packets_taken: AtomicUsize::new(0),
            server: OnceLock::new(),
            epoch: Epoch::current(),
        }
    }

    /// Returns the account that pays for what this end holds, if there is one.
    pub(crate) fn account(&self) -> Option<&UserAccount> {
        self.account.as_ref()
    }

    /// Charges something for as long as this end is open.
    pub(crate) fn charge(&self, resource: Resource, amount: usize) -> Result<(), Exceeded> {
        if let Some(account) = &self.account {
            let charge = account.charge(resource, amount as u64)?;
            self.charges.lock().unwrap_or_else(PoisonError::into_inner).push(charge);
        }
        Ok(())
    }

    /// Returns the process that the connection belongs to.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Sends one packet, or fails at once with `WouldBlock`.
    pub(crate) fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.epoch.check()?;
        check_sent(descriptor::try_send_with_fds(self, bytes, descriptors)?, bytes)
    }

    /// Sends the answer of a server, with its credentials.
    pub(crate) fn send_answer(
        &self,
        answer: &Packet,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        self.epoch.check()?;
        let bytes = answer.encode();
        check_sent(descriptor::try_send_as_self(self, &bytes, descriptors)?, &bytes)
    }

    /// Sends the reason why the connection ends. Does not wait; an end that does not get it sees
    /// the line close.
    pub(crate) fn send_refusal(&self, code: Refusal, why: &str) {
        let _ = self.send_answer(&Packet::Refusal { code, text: why.to_owned() }, &[]);
    }

    /// Has the kernel report who sends the server's answer.
    pub(crate) fn expect_answer(&self) -> io::Result<()> {
        self.epoch.check()?;
        sender::report_senders(self, true)
    }

    /// Takes the server's answer, which [`expect_answer`](Self::expect_answer) has announced, if it
    /// is there, and keeps the identity of its sender.
    pub(crate) fn receive_answer(
        &self,
        descriptors_max: usize,
    ) -> Result<ChannelFds, ReceiveError> {
        let mut server = None;
        let answer = self.receive_by(Deadline::NOW, descriptors_max, |buffer| {
            let received = sender::try_receive_with_sender(self, buffer, descriptors_max)?;
            Ok(received.map(|(received, sender)| {
                server = sender;
                received
            }))
        });
        if !matches!(answer, Err(ReceiveError::Empty)) {
            // The sender would take the room of descriptors in later packets.
            sender::report_senders(self, false)?;
            let _ = self.server.set(server);
            self.inbox().is_client = true;
        }
        answer
    }

    /// Returns the process that has answered, once one has. Inside `None`: it is not known.
    pub(crate) fn server(&self) -> Option<Option<&Sender>> {
        self.server.get().map(Option::as_ref)
    }

    /// Returns the trust in the other end that the kernel's word about it allows.
    pub(crate) fn trust(&self) -> Option<Trust> {
        match self.server.get() {
            Some(server) => Trust::of_sender(server.as_ref()?),
            None => Trust::of_peer(self),
        }
    }

    /// Takes the reason for the end of the connection from a line that the other end has closed.
    /// Returns `None` if the next packet, if there is one, is no refusal.
    pub(crate) fn take_refusal(&self) -> Option<(Refusal, String)> {
        let mut inbox = self.inbox();
        if inbox.refusal.is_none() {
            let packet = self.receive(Deadline::NOW, PASSED_DESCRIPTORS_MAX).ok()?;
            // A refusal is kept, and any other packet is of no use at the end of the connection.
            let _ = inbox.put(packet);
        }
        inbox.refusal.take()
    }

    /// Waits for one packet with at most `descriptors_max` descriptors.
    pub(crate) fn receive(
        &self,
        deadline: Deadline,
        descriptors_max: usize,
    ) -> Result<ChannelFds, ReceiveError> {
        self.receive_by(deadline, descriptors_max, |buffer| {
            descriptor::try_receive_with_fds(self, buffer, descriptors_max)
        })
    }

    fn receive_by(
        &self,
        deadline: Deadline,
        descriptors_max: usize,
        mut receive: impl FnMut(&mut [u8]) -> io::Result<Option<Received>>,
    ) -> Result<ChannelFds, ReceiveError> {
        self.epoch.check()?;
        if poll_one(self, Interest::Readable, deadline)?.is_none() {
            return Err(ReceiveError::Empty);
        }
        let mut buffer = [0; HANDSHAKE_PACKET_BYTES_MAX];
        let received = match receive(&mut buffer) {
            // An end that left something unread is reported once, before the packets still here.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => receive(&mut buffer),
            received => received,
        };
        let received = received?.ok_or(ReceiveError::Empty)?;
        let whole = received.bytes < buffer.len();
        if received.truncated && whole && received.fds.len() < descriptors_max {
            // Fewer came than there was room for: this process may have no more.
            if buffer[..received.bytes] == [LINE] {
                // That handshake fails, and the connection goes on.
                return Ok(ChannelFds { bytes: vec![LINE], descriptors: Vec::new() });
            }
            return Err(no_descriptor_left());
        }
        if received.truncated {
            return Err(Violation::BadPacket.into());
        }
        if received.bytes == 0 {
            return Err(ReceiveError::PeerGone);
        }
        Ok(ChannelFds { bytes: buffer[..received.bytes].to_vec(), descriptors: received.fds })
    }

    pub(crate) fn pass_descriptors(&self, fds: &[BorrowedFd<'_>]) -> Result<(), SendError> {
        if fds.len() > PASSED_DESCRIPTORS_MAX {
            return Err(SendError::TooLarge {
                message_bytes: fds.len(),
                message_bytes_max: PASSED_DESCRIPTORS_MAX,
            });
        }
        self.send(&[PASSED], fds)?;
        self.passed_descriptors.fetch_add(fds.len().max(1), Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn take_descriptors(
        &self,
        deadline: Deadline,
    ) -> Result<Vec<OwnedFd>, ReceiveError> {
        for _ in 0..CONTROL_PACKETS_PER_LOOK_MAX {
            let mut inbox = self.inbox();
            if let Some(fds) = inbox.pop_passed() {
                return Ok(fds);
            }
            match self.receive(Deadline::NOW, PASSED_DESCRIPTORS_MAX) {
                Ok(parts) => inbox.put(parts)?,
                Err(ReceiveError::Empty) => {
                    drop(inbox);
                    if poll_one(self, Interest::Readable, deadline)?.is_none() {
                        break;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(ReceiveError::Empty)
    }

    /// Passes the other end of the line of a handshake to the server. Does not wait.
    pub(crate) fn pass_line(&self, line: BorrowedFd<'_>) -> io::Result<()> {
        self.send(&[LINE], &[line])
    }

    /// Takes the line that the client has passed, if it is there. Does not wait. `Exceeded` or
    /// `Os`: it came, and could not be kept.
    pub(crate) fn take_line(&self) -> Result<OwnedFd, ReceiveError> {
        for _ in 0..CONTROL_PACKETS_PER_LOOK_MAX {
            let mut inbox = self.inbox();
            if let Some(line) = inbox.pop_line() {
                return line;
            }
            if inbox.is_full() {
                break;
            }
            let parts = self.receive(Deadline::NOW, PASSED_DESCRIPTORS_MAX)?;
            inbox.put(parts)?;
        }
        Err(ReceiveError::Empty)
    }

    /// Takes up to `packets_max` packets that are there until `enough`, and keeps each for its
    /// reader. One lock covers taking and keeping a packet, because the lender and the receiver
    /// may be two threads and the order of the packets counts.
    pub(crate) fn take_packets(
        &self,
        packets_max: usize,
        enough: impl Fn(&segment_table::Inbox) -> bool,
    ) -> Result<(), ReceiveError> {
        for _ in 0..packets_max {
            let mut inbox = self.inbox();
            if enough(&inbox.segments) || inbox.is_full() {
                break;
            }
            match self.receive(Deadline::NOW, PASSED_DESCRIPTORS_MAX) {
                Ok(parts) => {
                    self.packets_taken.fetch_add(1, Ordering::Relaxed);
                    inbox.put(parts)?;
                }
                // The end of the peer is reported by the receive of its next message.
                Err(ReceiveError::Empty | ReceiveError::PeerGone) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// From now on segments may come.
    pub(crate) fn expect_segments(&self) {
        self.inbox().segments.expect();
    }

    /// Returns how many descriptors the users of this end have passed since the beginning.
    pub(crate) fn passed_descriptors(&self) -> usize {
        self.passed_descriptors.load(Ordering::Relaxed)
    }

    /// Returns how many packets were taken while segments were looked for, since the beginning.
    pub(crate) fn packets_taken(&self) -> usize {
        self.packets_taken.load(Ordering::Relaxed)
    }

    pub(crate) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check_sent(sent: Option<usize>, bytes: &[u8]) -> io::Result<()> {
    match sent {
        Some(sent) if sent == bytes.len() => Ok(()),
        Some(_) => Err(io::ErrorKind::WriteZero.into()),
        None => Err(io::ErrorKind::WouldBlock.into()),
    }
}

fn no_descriptor_left() -> ReceiveError {
    ReceiveError::Os(descriptor::no_descriptor_left())
}

/// Returns whether no process has the other end of a line any more.
fn is_hung_up(line: &OwnedFd) -> bool {
    let ready = poll_one(line, Interest::HangUp, Deadline::NOW);
    ready.is_ok_and(|ready| ready.is_some_and(|ready| ready.hung_up))
}

impl Inbox {
    pub(crate) fn pop_passed(&mut self) -> Option<Vec<OwnedFd>> {
        let fds = self.passed.pop_front();
        self.charge_less();
        fds
    }

    fn pop_line(&mut self) -> Option<Result<OwnedFd, ReceiveError>> {
        let line = self.line.take();
        self.charge_less();
        line
    }

    /// Charges what is left, which is never refused.
    fn charge_less(&mut self) {
        let kept = self.kept_descriptors() + self.kept_lines();
        let _ = account::resize(&mut self.descriptors, kept);
    }

    /// Keeps a line, unless there is one. A client that has given the handshake of that up has
    /// closed it, and may pass another.
    fn put_line(&mut self, fds: Vec<OwnedFd>) -> Result<(), ReceiveError> {
        if self.is_client || matches!(&self.line, Some(Ok(kept)) if !is_hung_up(kept)) {
            return Err(Violation::BadPacket.into());
        }
        self.line = None;
        let line = match <[OwnedFd; 1]>::try_from(fds) {
            Ok([line]) => line,
            Err(none) if none.is_empty() => {
                self.line = Some(Err(no_descriptor_left()));
                return Ok(());
            }
            Err(_) => return Err(Violation::BadPacket.into()),
        };
        // Anything else must not even be polled: a process may serve the file.
        if !socket::is_unix_seqpacket(&line)? {
            return Err(Violation::BadPacket.into());
        }
        let kept = self.kept_descriptors() + 1;
        let charged = account::resize(&mut self.descriptors, kept);
        self.line = Some(charged.map(|()| line).map_err(ReceiveError::Exceeded));
        Ok(())
    }

    fn put(&mut self, parts: ChannelFds) -> Result<(), ReceiveError> {
        match parts.bytes[..] {
            [PASSED] => {
                let kept = self.kept_descriptors() + self.kept_lines() + parts.descriptors.len();
                account::resize(&mut self.descriptors, kept)?;
                self.passed.push_back(parts.descriptors);
                Ok(())
            }
            [LINE] => self.put_line(parts.descriptors),
            [MADE | RETIRED | COUNTS, ..] => self.segments.put(&parts.bytes, parts.descriptors),
            _ => {
                if let Ok(Packet::Refusal { code, text }) = Packet::decode(&parts.bytes) {
                    self.refusal = Some((code, escape(&text)));
                }
                Err(Violation::BadPacket.into())
            }
        }
    }

    /// Returns whether no more packets may be kept: the next one could bring as many as one may.
    fn is_full(&self) -> bool {
        self.kept_descriptors() > PASSED_DESCRIPTORS_KEPT_MAX
    }

    /// Returns how many descriptors are kept for the users, a packet without any counted as one.
    pub(crate) fn kept_descriptors(&self) -> usize {
        self.passed.iter().map(|fds| fds.len().max(1)).sum()
    }

    /// Returns how many lines of handshakes are kept: one or none.
    pub(crate) fn kept_lines(&self) -> usize {
        usize::from(matches!(self.line, Some(Ok(_))))
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
