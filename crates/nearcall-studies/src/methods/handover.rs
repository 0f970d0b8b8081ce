//! Payload in a segment, allocated for each call; where it lies goes over a line of its own.
//!
//! A call: allocate, copy the argument in, tell where it is; the server copies it out into private
//! memory, reads it and tells that it is done; then the client frees it. Two copies of the payload
//! between private memories; making the argument comes before, as where calls marshal theirs.
//! Freeing lies within the time of the call, since the study does not say when it freed.
//! Not here: the segment (`segment.rs`), the lines (`lines.rs`, `signals.rs`).

use nearcall_bench::custom::{Bytes, Carrier, Cause, Failure, Meeting, Opened, Role, Unix, open};
use nearcall_bench::payload::{Payload, Verifier};

use crate::cell::CellSpec;
use crate::methods::Method;
use crate::methods::lines::{PolledUnix, QueueLine, StreamLine};
use crate::methods::segment::{Handle, Segment};
use crate::methods::signals::{CallerLine, ServerLine};

/// Opens an end of `method`, which is one of those of the study of calls.
pub(super) fn open_end<'a>(
    method: Method,
    meeting: &'a Meeting,
    role: Role,
    cell: &CellSpec,
) -> Result<Box<dyn Opened + 'a>, Failure> {
    let bytes = cell.bytes();
    match method {
        Method::AllocSignal if role == Role::Client => {
            handing_over(CallerLine::meet(meeting)?, meeting, role, bytes)
        }
        Method::AllocSignal => handing_over(ServerLine::meet(meeting)?, meeting, role, bytes),
        Method::AllocQueue => handing_over(QueueLine::meet(meeting, role)?, meeting, role, bytes),
        Method::AllocSocket => {
            handing_over(StreamLine(Unix::meet(meeting, role)?), meeting, role, bytes)
        }
        Method::AllocPoll => {
            handing_over(StreamLine(PolledUnix::meet(meeting, role)?), meeting, role, bytes)
        }
        Method::SocketPoll => {
            let polled = PolledUnix::meet(meeting, role)?;
            open(Bytes::new(polled, bytes), meeting, BUFFER_BYTES)
        }
        _ => Err(Failure::other(format!("{method} hands nothing over in a segment"))),
    }
}

fn handing_over<'a>(
    line: impl Line + 'a,
    meeting: &'a Meeting,
    role: Role,
    bytes: usize,
) -> Result<Box<dyn Opened + 'a>, Failure> {
    open(Handover::meet(meeting, role, bytes, line)?, meeting, BUFFER_BYTES)
}

/// Tells the other end something short, and waits for what it tells.
pub(super) trait Line {
    /// The segment is there for lines that keep what they tell in it.
    fn tell(&mut self, segment: &Segment, notice: Notice) -> Result<(), Failure>;
    /// Waits until the other end tells something.
    fn hear(&mut self, segment: &Segment) -> Result<Notice, Failure>;
}

/// What ends tell each other: which function to call, and where its argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    function: u64,
    argument: Handle,
}

impl Notice {
    /// Bytes of it on a line.
    pub(super) const BYTES: usize = 24;

    /// A call with this argument.
    pub(super) fn take(argument: Handle) -> Self {
        Self { function: TAKE, argument }
    }

    /// Where its argument is.
    pub(super) fn argument(self) -> Handle {
        self.argument
    }

    /// The call is complete.
    pub(super) const DONE: Self = Self { function: DONE, argument: Handle { at: 0, bytes: 0 } };

    pub(super) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let words = [self.function, self.argument.at, self.argument.bytes];
        for (word, place) in words.iter().zip(bytes.chunks_exact_mut(8)) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let word = |at: usize| {
            u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at * size_of::<u64>() + byte]))
        };
        Self { function: word(0), argument: Handle { at: word(1), bytes: word(2) } }
    }
}

/// An end that hands payload over in a segment.
pub(super) struct Handover<L> {
    segment: Segment,
    line: L,
    /// What the other end still reads.
    lent: Option<Handle>,
    /// Private memory: arguments are made in it and copied to the segment, or copied from there.
    argument: Vec<u8>,
}

impl<L: Line> Handover<L> {
    /// Meets over `meeting`; `line` is this end of the line.
    pub(super) fn meet(
        meeting: &Meeting,
        role: Role,
        message_bytes: usize,
        line: L,
    ) -> Result<Self, Failure> {
        let segment = Segment::meet(meeting, role, message_bytes)?;
        Ok(Self { segment, line, lent: None, argument: vec![0; message_bytes] })
    }

    fn hear(&mut self, function: u64) -> Result<Handle, Failure> {
        let notice = self.line.hear(&self.segment)?;
        if let Some(lent) = self.lent.take() {
            self.segment.free(lent)?;
        }
        if notice.function != function {
            return Err(Failure::other("the other end tells what was not due"));
        }
        Ok(notice.argument)
    }
}

impl<L: Line> Carrier for Handover<L> {
    #[inline]
    fn send(&mut self, payload: &Payload, number: u64) -> Result<(), Failure> {
        if self.lent.is_some() {
            let text = "a call ends before the next one begins".to_owned();
            return Err(Failure { cause: Cause::Unsupported, text });
        }
        payload.fill(number, 0, &mut self.argument);
        let handle = self.segment.allocate(self.argument.len())?;
        self.segment.write(handle, &self.argument)?;
        self.lent = Some(handle);
        self.line.tell(&self.segment, Notice::take(handle))
    }

    #[inline]
    fn receive(&mut self, verifier: &mut Verifier<'_>) -> Result<(), Failure> {
        let handle = self.hear(TAKE)?;
        self.segment.read(handle, &mut self.argument)?;
        Ok(verifier.whole(&self.argument)?)
    }

    #[inline]
    fn send_empty(&mut self) -> Result<(), Failure> {
        self.line.tell(&self.segment, Notice::DONE)
    }

    #[inline]
    fn receive_empty(&mut self) -> Result<(), Failure> {
        self.hear(DONE)?;
        Ok(())
    }
}

/// At least what the two buffers of a socket hold.
const BUFFER_BYTES: u64 = 512 << 10;

/// The function that reads its argument.
const TAKE: u64 = 1;

/// The call is complete.
const DONE: u64 = 2;
