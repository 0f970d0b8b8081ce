//! Enea's signal messages: allocated, told by a number, sent to a process that was hunted for.
//!
//! A signal is a buffer of its own: its number, its sender and its length, then the payload. Who
//! sends allocates and fills it, and it is gone when it was sent; who receives reads the header,
//! allocates, reads the payload and frees it. The client hunts for the server by name, as often as
//! it takes, and both attach to each other by the connection that the hunt ends with. Signals go
//! over what the hunted one hands out: named pipes, or a unix socket.
//! **Invariants:** what a header says is judged before anything is allocated by it.
//! **Not here:** bytes in pipes and sockets (`floor/stream.rs`).

use std::time::Duration;

use nearcall_bench::custom::{
    Carrier, Failure, MEET_TIMEOUT, Meeting, OpenedEnd, Pipes, Role, Stream, Unix, open,
};
use nearcall_bench::payload::{Payload, Verifier};
use nearcall_os::poll::{Interest, poll_one};
use nearcall_os::{clock, process};

use crate::cell::CellSpec;
use crate::methods::counter_process;
use crate::methods::stream::{PIPE_BYTES, UNIX_BYTES, named_pipe};

/// Signals by named pipes.
pub(super) fn by_fifo<'a>(meeting: &'a Meeting, role: Role, cell: &CellSpec) -> OpenedEnd<'a> {
    let link = Link::open(meeting, role)?;
    let pipes = Pipes::meet_over(&link.line, role, named_pipe)?;
    let end = Signals { link, stream: pipes, payload_bytes: cell.bytes() };
    open(end, meeting, PIPE_BYTES)
}

/// Signals by a unix socket.
pub(super) fn by_socket<'a>(meeting: &'a Meeting, role: Role, cell: &CellSpec) -> OpenedEnd<'a> {
    let link = Link::open(meeting, role)?;
    let socket = Unix::meet(&link.line, role)?;
    let end = Signals { link, stream: socket, payload_bytes: cell.bytes() };
    open(end, meeting, UNIX_BYTES)
}

/// What two processes have once one has found the other.
struct Link {
    /// Stays silent, and ends when the process at its other end does: that is what attaching is.
    line: Meeting,
    /// Of the signals that we send.
    own_id: u32,
    /// Of those that we get.
    peer_id: u32,
}

impl Link {
    fn open(meeting: &Meeting, role: Role) -> Result<Self, Failure> {
        let own_id = process::pid().unsigned_abs();
        let line = match role {
            Role::Server => {
                let name = format!("nearcall-signals-{own_id}-{:x}", clock::monotonic_ns());
                // The client hunts for a name that may not be there yet.
                meeting.say(&name)?;
                Meeting::accept(&name, || Ok(()))?
            }
            Role::Client => hunt(&meeting.hear()?, meeting)?,
        };
        line.say(&own_id.to_string())?;
        let peer_id = line.hear()?.parse().map_err(Failure::other)?;
        Ok(Self { line, own_id, peer_id })
    }

    /// What attaching is for: the signal that the other one is gone.
    #[cold]
    fn lost(&self) -> Failure {
        let gone = poll_one(&self.line, Interest::HangUp, Some(Duration::from_secs(1)));
        match gone {
            Ok(Some(_)) => counter_process::gone(),
            _ => Failure::other("the signals have an end, and the other process is still there"),
        }
    }
}

/// Waits until somebody has the name, and connects.
fn hunt(name: &str, meeting: &Meeting) -> Result<Meeting, Failure> {
    let until_ns = clock::monotonic_ns() + ns(MEET_TIMEOUT);
    loop {
        match Meeting::connect(name) {
            Ok(line) => return Ok(line),
            Err(failure) if clock::monotonic_ns() >= until_ns => return Err(failure),
            Err(_) => {}
        }
        if poll_one(meeting, Interest::HangUp, Some(HUNT_EVERY))?.is_some() {
            return Err(counter_process::gone());
        }
    }
}

/// One end.
struct Signals<S> {
    link: Link,
    stream: S,
    payload_bytes: usize,
}

/// What stands before the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    number: u32,
    sender: u32,
    bytes: u64,
}

impl Header {
    fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.number.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.sender.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.bytes.to_ne_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; HEADER_BYTES]) -> Self {
        let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let bytes = u64::from_ne_bytes(std::array::from_fn(|byte| bytes[8 + byte]));
        Self { number: word(0), sender: word(4), bytes }
    }

    /// The length of the payload, if this is the signal that is due.
    fn judge(self, number: u32, sender: u32, bytes: usize) -> Result<usize, Failure> {
        if (self.number, self.sender) != (number, sender) {
            return Err(Failure::other("a signal that was not due"));
        }
        match self.bytes == bytes as u64 {
            true => Ok(bytes),
            false => Err(Failure::other(format!("a signal of {} bytes", self.bytes))),
        }
    }
}

impl<S: Stream> Signals<S> {
    /// A buffer with its header and room for `bytes` more.
    #[inline]
    fn allocate(&self, number: u32, bytes: usize) -> Vec<u8> {
        let mut signal = Vec::with_capacity(HEADER_BYTES + bytes);
        let header = Header { number, sender: self.link.own_id, bytes: bytes as u64 };
        signal.extend_from_slice(&header.to_bytes());
        signal
    }

    /// Sends a signal, which is gone then.
    #[inline]
    fn post(&mut self, signal: Vec<u8>) -> Result<(), Failure> {
        let mut written = 0;
        while written < signal.len() {
            match self.stream.write(&signal[written..]) {
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
                    return Err(self.link.lost());
                }
                Err(error) => return Err(error.into()),
            }
        }
        drop(signal);
        Ok(())
    }

    /// Waits for a signal of this number and length, and gives its payload.
    #[inline]
    fn get(&mut self, number: u32, bytes: usize) -> Result<Vec<u8>, Failure> {
        let mut header = [0; HEADER_BYTES];
        self.fill(&mut header)?;
        let header = Header::from_bytes(header);
        let mut payload = vec![0; header.judge(number, self.link.peer_id, bytes)?];
        self.fill(&mut payload)?;
        Ok(payload)
    }

    #[inline]
    fn fill(&mut self, into: &mut [u8]) -> Result<(), Failure> {
        let mut filled = 0;
        while filled < into.len() {
            match self.stream.read(&mut into[filled..])? {
                0 => return Err(self.link.lost()),
                bytes => filled += bytes,
            }
        }
        Ok(())
    }
}

impl<S: Stream> Carrier for Signals<S> {
    #[inline]
    fn send(&mut self, payload: &Payload, number: u64) -> Result<(), Failure> {
        let mut signal = self.allocate(DATA, payload.message_bytes());
        payload.parts(number, |part| signal.extend_from_slice(part));
        self.post(signal)
    }

    #[inline]
    fn receive(&mut self, verifier: &mut Verifier<'_>) -> Result<(), Failure> {
        let payload = self.get(DATA, self.payload_bytes)?;
        Ok(verifier.whole(&payload)?)
    }

    #[inline]
    fn send_empty(&mut self) -> Result<(), Failure> {
        let signal = self.allocate(ACKNOWLEDGED, 0);
        self.post(signal)
    }

    #[inline]
    fn receive_empty(&mut self) -> Result<(), Failure> {
        self.get(ACKNOWLEDGED, 0)?;
        Ok(())
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The number of a signal with a payload.
const DATA: u32 = 0x3001;

/// The number of a signal that only says that one was read.
const ACKNOWLEDGED: u32 = 0x3002;

/// Number, sender, length.
const HEADER_BYTES: usize = 16;

/// How long a hunt waits before it looks again.
const HUNT_EVERY: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_comes_back_as_it_was_written() {
        let header = Header { number: DATA, sender: 77, bytes: 1 << 40 };
        assert_eq!(Header::from_bytes(header.to_bytes()), header);
    }

    #[test]
    fn only_the_signal_that_is_due_is_taken() {
        let header = Header { number: DATA, sender: 77, bytes: 64 };
        assert_eq!(header.judge(DATA, 77, 64), Ok(64));
        assert!(header.judge(ACKNOWLEDGED, 77, 64).is_err());
        assert!(header.judge(DATA, 78, 64).is_err());
        assert!(Header { bytes: u64::MAX, ..header }.judge(DATA, 77, 64).is_err());
    }
}
