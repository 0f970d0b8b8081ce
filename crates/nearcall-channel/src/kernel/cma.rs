//! Cross-memory attach: the receiver copies the bytes out of the sender's memory.
//!
//! ```text
//! sender                                      receiver
//!   writes the fragment into its own pages
//!   record {header, offset}  -- socket -->      judges it, process_vm_readv to the caller's memory
//!                 <-- record {freed} --         every so often, or with its own next record
//! ```
//!
//! Every byte of a message moves by process_vm_readv; the socket carries records of 16 bytes.
//! Frees are reported when a quarter of the sender's room has come together. A sender then always
//! finds room while the receiver has nothing to do: the rest, even cut in two by a fragment that
//! reaches over the end, has space for the largest fragment, which is a quarter.
//!
//! **Invariants:** what is announced is not written before its free came back; an offset is judged
//! against the length that the peer announced when it opened; bytes are used only if the peer's
//! process still lived after the copy, so that its number was not another's. The bytes stay with
//! the sender until they are read. If its process ends, what it had sent and the receiver had not
//! read is lost. If it closes, its pages stay for a while (`Drop` below).
//! **Not here:** exchanging the address and trying it (`cma/meet.rs`), messages (`channel.rs`).

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nearcall_os::pages::Pages;
use nearcall_os::region::SharedBytes;
use nearcall_os::{cma, process};

use crate::error::{ReceiveError, SendError, Violation};
use crate::fragment::FragmentHeader;
use crate::kernel::cma::line::{FdPair, Record};
use crate::kernel::cma::room::Room;
use crate::liveness::PeerLiveness;
use crate::settings::Settings;
use crate::transport::Transport;
use crate::wait::{Deadline, Interest, Readiness, WaitPolicy};
use crate::watcher::{WatchGuard, watch};

mod line;
mod linger;
mod meet;
mod room;

pub(crate) use meet::{accept, offer, probe};

/// One end.
struct CmaTransport {
    line: FdPair,
    /// `None` only after the drop has passed them on.
    pages: Option<Pages>,
    room: Room,
    /// Offset and length of the reserved fragment.
    reserved: (usize, usize),
    peer: PeerMemory,
    /// Announced by the peer and not read yet: judged.
    announced: VecDeque<(FragmentHeader, usize)>,
    current: Current,
    /// Read and not reported yet: fragments, and the bytes that they took.
    freed: (u16, usize),
    liveness: Arc<PeerLiveness>,
    /// Closing does not wait for the reader.
    discards_unsent: bool,
    watch: WatchGuard,
}

/// The address of the other end's pages.
#[derive(Debug)]
struct PeerMemory {
    pid: i32,
    /// Of the process that we met, whatever process has its number now.
    pidfd: Arc<OwnedFd>,
    address: u64,
    bytes: usize,
}

/// The fragment that is being read.
struct Current {
    /// Offset and length of what is still only in the peer's memory.
    there: Range<usize>,
    /// For readers that want the bytes in place.
    copy: Box<[u8]>,
    /// The part of `copy` that was not consumed.
    here: Range<usize>,
    /// The room of the peer that the whole fragment takes.
    takes_bytes: usize,
}

impl CmaTransport {
    fn new(
        socket: OwnedFd,
        pages: Pages,
        peer: PeerMemory,
        settings: &Settings,
    ) -> io::Result<Self> {
        // The socket reports the end itself; this has what was announced before be dropped.
        let guard = watch(settings, |_| {})?;
        Ok(Self {
            line: FdPair::new(socket, settings.wait),
            room: Room::new(pages.len(), FRAGMENTS_MAX),
            pages: Some(pages),
            reserved: (0, 0),
            peer,
            announced: VecDeque::with_capacity(FRAGMENTS_MAX),
            current: Current {
                there: 0..0,
                copy: vec![0; COPY_BYTES].into_boxed_slice(),
                here: 0..0,
                takes_bytes: 0,
            },
            freed: (0, 0),
            liveness: Arc::clone(&settings.liveness),
            discards_unsent: false,
            watch: guard,
        })
    }

    /// Waits for records and takes all that have come.
    #[inline]
    fn hear(&mut self, deadline: Deadline) -> Result<(), ReceiveError> {
        match self.line.receive(deadline) {
            Ok(()) => {}
            Err(ReceiveError::PeerGone) => {
                // A closing peer keeps its pages until it knows what was read.
                let _ = self.report_frees(Deadline::NOW);
                return Err(ReceiveError::PeerGone);
            }
            Err(error) => return Err(error),
        }
        while let Some(record) = self.line.next_record()? {
            self.room.release(record.freed.into())?;
            let Some((header, offset)) = record.fragment else { continue };
            let end = offset.checked_add(header.fragment_bytes as usize);
            if end.is_none_or(|end| end > self.peer.bytes) {
                return Err(Violation::BadAddress.into());
            }
            if self.announced.len() == FRAGMENTS_MAX {
                return Err(Violation::BadIndex.into());
            }
            self.announced.push_back((header, offset));
        }
        Ok(())
    }

    /// Fills `into` with the next bytes of the current fragment.
    #[inline]
    fn fetch(
        peer: &PeerMemory,
        there: &mut Range<usize>,
        into: &mut [u8],
    ) -> Result<(), io::Error> {
        // The offset was judged against the length, and the length against the address space.
        cma::read_of(&*peer.pidfd, peer.pid, peer.address + there.start as u64, into)?;
        there.start += into.len();
        Ok(())
    }

    /// Judges the outcome of a copy.
    #[inline]
    fn check_copy(&mut self, outcome: io::Result<()>) -> Result<(), ReceiveError> {
        let error = match outcome {
            Ok(()) => return Ok(()),
            Err(error) => self.why_not(error),
        };
        // Nothing else that it announced can be read either.
        self.announced.clear();
        if matches!(error, ReceiveError::PeerGone) {
            self.line.end();
        }
        Err(error)
    }

    /// Returns whether the process that we met is no more. One load as long as the other end is
    /// open.
    #[inline]
    fn has_died(&self) -> bool {
        self.liveness.is_gone() && !self.peer_lives()
    }

    #[cold]
    fn why_not(&self, error: io::Error) -> ReceiveError {
        match error.raw_os_error() {
            Some(NO_SUCH_PROCESS) => ReceiveError::PeerGone,
            Some(BAD_ADDRESS) if self.line.has_hung_up() => ReceiveError::PeerGone,
            Some(BAD_ADDRESS) => Violation::BadAddress.into(),
            _ => ReceiveError::Os(error),
        }
    }

    /// Returns whether the number still belongs to the process that we met.
    #[cold]
    fn peer_lives(&self) -> bool {
        process::wait_pidfd(&*self.peer.pidfd, Deadline::NOW).is_ok_and(|has_died| !has_died)
    }

    /// Returns whether so much was read that it should be reported to the sender.
    #[inline]
    fn owes_frees(&self) -> bool {
        let (fragments, bytes) = self.freed;
        usize::from(fragments) >= FRAGMENTS_MAX / 4 || bytes >= self.peer.bytes / 4
    }

    fn report_frees(&mut self, deadline: Deadline) -> Result<(), SendError> {
        if self.freed.0 == 0 {
            return Ok(());
        }
        self.line.drain(deadline)?;
        let (freed, _) = std::mem::take(&mut self.freed);
        self.line.queue(Record { freed, fragment: None });
        self.line.drain(deadline)
    }
}

impl Transport for CmaTransport {
    fn room_bytes(&self) -> io::Result<usize> {
        Ok(self.pages.as_ref().map_or(0, |pages| pages.len()))
    }

    fn fragment_bytes_max(&self) -> usize {
        self.room.fragment_bytes_max().min(FRAGMENT_BYTES_MAX)
    }

    fn has_room_for(&mut self, message_bytes: usize) -> bool {
        // What several fragments need depends on where the first of them lies.
        message_bytes <= self.fragment_bytes_max() && self.room.place(message_bytes).is_some()
    }

    #[inline]
    fn reserve(&mut self, fragment_bytes: usize, deadline: Deadline) -> Result<(), SendError> {
        if self.line.has_ended() || self.liveness.is_gone() {
            return Err(SendError::PeerGone);
        }
        self.line.drain(deadline)?;
        loop {
            if let Some(offset) = self.room.place(fragment_bytes) {
                self.reserved = (offset, fragment_bytes);
                return Ok(());
            }
            self.hear(deadline).map_err(to_send_error)?;
        }
    }

    #[inline]
    fn room(&mut self) -> &mut [u8] {
        let (offset, bytes) = self.reserved;
        match &mut self.pages {
            Some(pages) => &mut pages[offset..offset + bytes],
            None => &mut [],
        }
    }

    #[inline]
    fn publish(&mut self, header: FragmentHeader, deadline: Deadline) -> Result<(), SendError> {
        let (offset, bytes) = self.reserved;
        self.room.take(offset, bytes);
        let (freed, _) = std::mem::take(&mut self.freed);
        self.line.queue(Record { freed, fragment: Some((header, offset)) });
        match self.line.drain(deadline) {
            // The record waits here and goes out before the next one.
            Err(SendError::Full) => Ok(()),
            outcome => outcome,
        }
    }

    fn unreserve(&mut self) {
        self.reserved = (0, 0);
    }

    fn drain(&mut self, deadline: Deadline) -> Result<(), SendError> {
        self.line.drain(deadline)
    }

    #[inline]
    fn next(&mut self, deadline: Deadline) -> Result<FragmentHeader, ReceiveError> {
        if self.has_died() {
            let gone = io::Error::from_raw_os_error(NO_SUCH_PROCESS);
            return self.check_copy(Err(gone)).and(Err(ReceiveError::PeerGone));
        }
        loop {
            if let Some((header, offset)) = self.announced.pop_front() {
                let fragment_bytes = header.fragment_bytes as usize;
                self.current.there = offset..offset + fragment_bytes;
                self.current.here = 0..0;
                self.current.takes_bytes = Room::takes_bytes(fragment_bytes);
                return Ok(header);
            }
            if self.owes_frees() {
                // The socket was full when they were due, which no correct peer lets happen.
                let _ = self.report_frees(deadline);
            }
            self.hear(deadline)?;
        }
    }

    fn is_whole(&mut self, _fragment_bytes: usize) -> bool {
        true
    }

    fn bytes(&mut self, _until: Deadline) -> Result<SharedBytes<'_>, ReceiveError> {
        if self.current.here.is_empty() {
            let Current { there, copy, .. } = &mut self.current;
            let bytes = there.len().min(copy.len());
            let outcome = Self::fetch(&self.peer, there, &mut copy[..bytes]);
            self.check_copy(outcome)?;
            self.current.here = 0..bytes;
        }
        Ok(SharedBytes::from_slice(&self.current.copy[self.current.here.clone()]))
    }

    fn consume(&mut self, bytes: usize) {
        self.current.here.start += bytes;
    }

    #[inline]
    fn read(&mut self, into: &mut [u8], _until: Deadline) -> Result<(), ReceiveError> {
        let Current { there, copy, here, .. } = &mut self.current;
        let bytes = here.len().min(into.len());
        let (first, rest) = into.split_at_mut(bytes);
        first.copy_from_slice(&copy[here.start..here.start + bytes]);
        here.start += bytes;
        if rest.is_empty() {
            return Ok(());
        }
        let outcome = Self::fetch(&self.peer, there, rest);
        self.check_copy(outcome)
    }

    #[inline]
    fn finish(&mut self) {
        self.current.there = 0..0;
        self.current.here = 0..0;
        let (fragments, bytes) = self.freed;
        // At most a few more than FRAGMENTS_MAX: they are reported before more are announced.
        self.freed = (fragments.saturating_add(1), bytes + self.current.takes_bytes);
        if self.owes_frees() {
            let _ = self.report_frees(Deadline::NOW);
        }
    }

    fn discard_unsent(&mut self) {
        self.discards_unsent = true;
    }

    fn readiness(&self, interest: Interest) -> Option<Readiness<'_>> {
        // Room comes as a record, too; only a full socket is waited for otherwise.
        let writable = interest == Interest::Send && self.line.is_waiting_to_send();
        Some(Readiness::level(self.line.descriptor()?, writable))
    }

    fn arm(&mut self, interest: Interest) -> bool {
        match interest {
            Interest::Receive => self.announced.is_empty() && !self.line.has_ended(),
            Interest::Send => {
                let room = self.room.place(self.fragment_bytes_max()).is_some();
                self.line.is_waiting_to_send() || !(room || self.line.has_ended())
            }
        }
    }
}

impl Drop for CmaTransport {
    /// Closes, and keeps the pages as long as the other end may still want to read them.
    ///
    /// A peer in another process gets up to [`linger::BLOCKING_MAX`] in this call; after that a
    /// thread of its own keeps them for up to [`linger::MAX`], or until this process ends.
    fn drop(&mut self) {
        if self.discards_unsent || !self.watch.epoch().is_current() {
            return;
        }
        let _ = self.report_frees(Deadline::NOW);
        while self.hear(Deadline::NOW).is_ok() {}
        let _ = self.line.close();
        if self.room.is_all_free() || self.line.has_hung_up() {
            return;
        }
        if self.peer.pid != process::pid() {
            self.line.wait_by(WaitPolicy::Block);
            let deadline = Deadline::after(linger::BLOCKING_MAX);
            while !self.room.is_all_free() {
                match self.hear(deadline) {
                    Ok(()) => self.announced.clear(),
                    Err(ReceiveError::Empty) => break,
                    Err(_) => return,
                }
            }
        }
        if let (Some(pages), false) = (self.pages.take(), self.room.is_all_free()) {
            linger::keep(pages, self.line.take_socket());
        }
    }
}

fn to_send_error(error: ReceiveError) -> SendError {
    match error {
        ReceiveError::Empty | ReceiveError::Aborted | ReceiveError::DoesNotFit { .. } => {
            SendError::Full
        }
        ReceiveError::PeerGone => SendError::PeerGone,
        ReceiveError::PeerBroken(violation) => SendError::PeerBroken(violation),
        ReceiveError::Os(error) => SendError::Os(error),
        error @ ReceiveError::Exceeded(_) => SendError::Os(io::Error::other(error)),
    }
}

/// Most fragments on their way in one direction. Their records and those of the frees fit into a
/// socket's buffer of the usual size (each takes about 800 of 212,992 bytes there), so that sending
/// a record does not wait.
const FRAGMENTS_MAX: usize = 128;

/// The longest fragment, in bytes: the sender writes the next while the receiver copies one.
const FRAGMENT_BYTES_MAX: usize = 64 << 10;

/// Bytes that are copied at once for a reader that wants them in place.
const COPY_BYTES: usize = 16 << 10;

/// ESRCH, the same number on every machine.
const NO_SUCH_PROCESS: i32 = 3;

/// EFAULT, the same number on every machine.
const BAD_ADDRESS: i32 = 14;

#[cfg(test)]
#[cfg(not(miri))]
mod tests;
