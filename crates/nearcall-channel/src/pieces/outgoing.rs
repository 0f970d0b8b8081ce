//! The sending half: a message is written in place, piece by piece.
//!
//! Each full piece is on its way while the next is written. A long message that must not wait is
//! staged in this process instead and moved on by `settle`.
//! Always true: at most one message is being written and at most one is staged; a message of which
//! a piece has been published ends with its last piece or with an abort.

use crate::error::SendError;
use crate::piece::PieceHeader;
use crate::wait::Deadline;
use crate::way::PieceWay;

/// What is being sent.
#[derive(Default)]
pub(super) struct Outgoing {
    writing: Writing,
    staged: Staged,
    /// A message of this length was begun and must be given up as soon as there is room to say so.
    abort_owed: Option<usize>,
}

/// The message being written.
#[derive(Default)]
enum Writing {
    #[default]
    Nothing,
    /// Straight into the way.
    Direct(Direct),
    /// Into `Staged`, of which so many bytes are written.
    Staging { written_bytes: usize },
}

struct Direct {
    until: Deadline,
    message_bytes: usize,
    /// Bytes behind the reserved piece.
    later_bytes: usize,
    /// Length of the reserved piece, and how much of it is written.
    reserved: Option<(usize, usize)>,
    /// A piece has been published.
    begun: bool,
}

/// A committed message that goes out when there is room.
#[derive(Default)]
struct Staged {
    /// Kept between messages, so that staging allocates only while messages grow.
    bytes: Vec<u8>,
    sent_bytes: usize,
    pending: bool,
}

impl Outgoing {
    #[inline]
    pub(super) fn claim(
        &mut self,
        way: &mut impl PieceWay,
        message_bytes: usize,
        until: Deadline,
    ) -> Result<(), SendError> {
        self.settle(way, until)?;
        let piece_bytes = message_bytes.min(way.piece_bytes_max());
        let long = piece_bytes < message_bytes;
        if long && until == Deadline::Now && !way.has_room_for(message_bytes) {
            self.staged.bytes.resize(message_bytes, 0);
            self.writing = Writing::Staging { written_bytes: 0 };
            return Ok(());
        }
        way.reserve(piece_bytes, until)?;
        self.writing = Writing::Direct(Direct {
            until,
            message_bytes,
            later_bytes: message_bytes - piece_bytes,
            reserved: Some((piece_bytes, 0)),
            begun: false,
        });
        Ok(())
    }

    /// Claim, write and commit; for one piece without a detour through the state.
    #[inline(always)]
    pub(super) fn send(
        &mut self,
        way: &mut impl PieceWay,
        message: &[u8],
        until: Deadline,
    ) -> Result<(), SendError> {
        let message_bytes = message.len();
        if message_bytes > way.piece_bytes_max() {
            return self.send_in_pieces(way, message, until);
        }
        self.settle(way, until)?;
        way.reserve(message_bytes, until)?;
        copy(message, way.room());
        way.publish(PieceHeader::data(message_bytes, message_bytes, 0), until)
    }

    #[inline(never)]
    fn send_in_pieces(
        &mut self,
        way: &mut impl PieceWay,
        message: &[u8],
        until: Deadline,
    ) -> Result<(), SendError> {
        self.claim(way, message.len(), until)?;
        let mut rest = message;
        while !rest.is_empty() {
            let written = self.space(way).map(|space| {
                let (now, later) = rest.split_at(rest.len().min(space.len()));
                space[..now.len()].copy_from_slice(now);
                rest = later;
                now.len()
            });
            let outcome = written.and_then(|bytes| self.written(way, bytes));
            outcome.inspect_err(|_| self.abort(way))?;
        }
        self.commit(way).inspect_err(|_| self.abort(way))
    }

    #[inline]
    pub(super) fn space<'a>(
        &'a mut self,
        way: &'a mut impl PieceWay,
    ) -> Result<&'a mut [u8], SendError> {
        match &mut self.writing {
            Writing::Nothing => Ok(&mut []),
            Writing::Staging { written_bytes } => Ok(&mut self.staged.bytes[*written_bytes..]),
            Writing::Direct(direct) => {
                if direct.reserved.is_none() && direct.later_bytes > 0 {
                    direct.reserve_next(way)?;
                }
                match direct.reserved {
                    Some((_, written_bytes)) => Ok(&mut way.room()[written_bytes..]),
                    None => Ok(&mut []),
                }
            }
        }
    }

    #[inline]
    pub(super) fn written(
        &mut self,
        way: &mut impl PieceWay,
        bytes: usize,
    ) -> Result<(), SendError> {
        match &mut self.writing {
            Writing::Nothing => Ok(()),
            Writing::Staging { written_bytes } => {
                *written_bytes += bytes;
                Ok(())
            }
            Writing::Direct(direct) => direct.written(way, bytes),
        }
    }

    #[inline]
    pub(super) fn commit(&mut self, way: &mut impl PieceWay) -> Result<(), SendError> {
        match &mut self.writing {
            Writing::Nothing => Ok(()),
            Writing::Direct(direct) => {
                direct.publish(way)?;
                self.writing = Writing::Nothing;
                Ok(())
            }
            Writing::Staging { .. } => {
                self.writing = Writing::Nothing;
                self.staged.sent_bytes = 0;
                self.staged.pending = true;
                match self.settle(way, Deadline::Now) {
                    Err(SendError::Full) => Ok(()),
                    outcome => outcome,
                }
            }
        }
    }

    pub(super) fn abort(&mut self, way: &mut impl PieceWay) {
        if let Writing::Direct(direct) = std::mem::take(&mut self.writing) {
            if direct.reserved.is_some() {
                way.unreserve();
            }
            if direct.begun {
                self.abort_owed = Some(direct.message_bytes);
                // If there is no room now, the next claim or flush says it.
                let _ = self.settle(way, Deadline::Now);
            }
        }
    }

    /// Sends what earlier messages left here.
    #[inline(always)]
    pub(super) fn settle(
        &mut self,
        way: &mut impl PieceWay,
        until: Deadline,
    ) -> Result<(), SendError> {
        match self.abort_owed.is_some() || self.staged.pending {
            true => self.settle_debts(way, until),
            false => Ok(()),
        }
    }

    #[cold]
    fn settle_debts(&mut self, way: &mut impl PieceWay, until: Deadline) -> Result<(), SendError> {
        if let Some(message_bytes) = self.abort_owed {
            way.reserve(0, until)?;
            self.abort_owed = None;
            way.publish(PieceHeader::aborted(message_bytes), until)?;
        }
        while self.staged.pending {
            let (whole, from) = (self.staged.bytes.len(), self.staged.sent_bytes);
            let piece_bytes = (whole - from).min(way.piece_bytes_max());
            way.reserve(piece_bytes, until)?;
            way.room().copy_from_slice(&self.staged.bytes[from..from + piece_bytes]);
            self.staged.sent_bytes += piece_bytes;
            let left_bytes = whole - self.staged.sent_bytes;
            self.staged.pending = left_bytes > 0;
            way.publish(PieceHeader::data(whole, piece_bytes, left_bytes), until)?;
        }
        Ok(())
    }
}

/// Copies all of `from`. One word is so common that it has a copy of its own, without a call.
#[inline(always)]
fn copy(from: &[u8], to: &mut [u8]) {
    match (<&[u8; 8]>::try_from(from), <&mut [u8; 8]>::try_from(&mut *to)) {
        (Ok(from), Ok(to)) => *to = *from,
        _ => to.copy_from_slice(from),
    }
}

impl Direct {
    fn reserve_next(&mut self, way: &mut impl PieceWay) -> Result<(), SendError> {
        let piece_bytes = self.later_bytes.min(way.piece_bytes_max());
        way.set_deaf(true);
        let reserved = way.reserve(piece_bytes, self.until);
        way.set_deaf(false);
        reserved?;
        self.later_bytes -= piece_bytes;
        self.reserved = Some((piece_bytes, 0));
        Ok(())
    }

    #[inline]
    fn written(&mut self, way: &mut impl PieceWay, bytes: usize) -> Result<(), SendError> {
        let Some((piece_bytes, written_bytes)) = &mut self.reserved else { return Ok(()) };
        *written_bytes += bytes;
        // The last piece waits for the commit, so that a message can be given up until then.
        match written_bytes == piece_bytes && self.later_bytes > 0 {
            true => self.publish(way),
            false => Ok(()),
        }
    }

    #[inline]
    fn publish(&mut self, way: &mut impl PieceWay) -> Result<(), SendError> {
        let Some((piece_bytes, _)) = self.reserved.take() else { return Ok(()) };
        self.begun = true;
        let header = PieceHeader::data(self.message_bytes, piece_bytes, self.later_bytes);
        way.publish(header, self.until)
    }
}
