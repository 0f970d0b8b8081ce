//! Payload in a segment, allocated for each call; where it lies goes over a line of its own.
//!
//! A call: allocate, copy the argument in, tell where it is; the server copies it out into private
//! memory, reads it and reports that it is done; then the client frees it. Two copies of the
//! payload between private memories; making the argument comes before, as where calls marshal
//! theirs.
//! Freeing lies within the time of the call, since the study does not say when it freed.
//! Not here: the segment (`segment.rs`), the lines (`lines.rs`, `signals.rs`).

use nearcall_bench::custom::{Carrier, Cause, Failure, Meeting, OpenedEnd, Role, open};
use nearcall_bench::payload::{Payload, Verifier};

use crate::methods::notice::{DONE, Line, Notice, TAKE};
use crate::methods::segment::{Handle, Segment};

/// Opens an end that hands payload over in a segment, and where it lies over `line`.
pub(super) fn handing_over<'a>(
    line: impl Line + 'a,
    meeting: &'a Meeting,
    role: Role,
    bytes: usize,
) -> OpenedEnd<'a> {
    open(Handover::meet(meeting, role, bytes, line)?, meeting, BUFFER_BYTES)
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
        if notice.function() != function {
            return Err(Failure::other("the other end sent what was not due"));
        }
        Ok(notice.argument())
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
pub(super) const BUFFER_BYTES: u64 = 512 << 10;
