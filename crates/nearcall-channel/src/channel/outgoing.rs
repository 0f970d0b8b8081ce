//! The sending half: a message is written in place, fragment by fragment.
//!
//! Each full fragment is on its way while the next is written. What finds no room of a long message
//! that must not wait is staged in this process; as much as there is room for by then goes on with
//! each further fragment, the rest by `settle`.
//!
//! **Invariants:** at most one message is being written, and one of which something is staged ends
//! before the next begins; a message of which a fragment has been published ends with its last
//! fragment or with an abort.

use std::ops::Range;

use crate::error::SendError;
use crate::fragment::FragmentHeader;
use crate::growing::grow;
use crate::transport::Transport;
use crate::wait::Deadline;

/// The message that is being sent.
#[derive(Default)]
pub(crate) struct Outgoing {
    writing: Writing,
    staged: Staged,
    /// A message of this length was begun and must be aborted as soon as there is room to say so.
    abort_owed: Option<usize>,
}

/// The message being written.
#[derive(Default)]
enum Writing {
    #[default]
    Nothing,
    /// Straight into the way.
    Direct(Direct),
    /// Into `Staged`; so many bytes are not written yet.
    Staging { later_bytes: usize },
}

struct Direct {
    deadline: Deadline,
    message_bytes: usize,
    /// Bytes behind the reserved fragment.
    later_bytes: usize,
    /// Length of the reserved fragment, and how much of it is written.
    reserved: Option<(usize, usize)>,
    /// A fragment has been published.
    begun: bool,
}

/// The rest of a message that goes out when there is room.
#[derive(Default)]
struct Staged {
    /// Kept between messages, so that staging allocates only while messages grow. Its length is
    /// its room.
    bytes: Vec<u8>,
    /// The bytes that are written there and not sent.
    filled: Range<usize>,
    /// Length of the whole message.
    message_bytes: usize,
    /// Of these, those that no published fragment has had.
    left_bytes: usize,
    /// All of it is written, and some is here.
    pending: bool,
}

impl Outgoing {
    #[inline]
    pub(crate) fn claim(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
        message_bytes: usize,
        deadline: Deadline,
    ) -> Result<(), SendError> {
        self.settle(transport, deadline)?;
        let fragment_bytes = message_bytes.min(transport.fragment_bytes_max());
        let long = fragment_bytes < message_bytes;
        if long && deadline == Deadline::NOW && !transport.has_room_for(message_bytes) {
            match transport.reserve(fragment_bytes, deadline) {
                Err(SendError::Full) => {
                    self.stage(message_bytes, message_bytes);
                    return Ok(());
                }
                reserved => reserved?,
            }
        } else {
            transport.reserve(fragment_bytes, deadline)?;
        }
        self.writing = Writing::Direct(Direct {
            deadline,
            message_bytes,
            later_bytes: message_bytes - fragment_bytes,
            reserved: Some((fragment_bytes, 0)),
            begun: false,
        });
        Ok(())
    }

    /// The rest of the message that is being written is staged from here on.
    #[cold]
    fn stage(&mut self, message_bytes: usize, later_bytes: usize) {
        let Staged { filled, left_bytes, .. } = &mut self.staged;
        (*filled, *left_bytes) = (0..0, later_bytes);
        self.staged.message_bytes = message_bytes;
        self.writing = Writing::Staging { later_bytes };
    }

    /// Sends a copy of a message that is longer than a fragment.
    #[inline(never)]
    pub(super) fn send_in_fragments(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
        message: &[u8],
        deadline: Deadline,
    ) -> Result<(), SendError> {
        self.claim(transport, message.len(), deadline)?;
        let mut rest = message;
        while !rest.is_empty() {
            let written = self.space(transport).map(|space| {
                let (now, later) = rest.split_at(rest.len().min(space.len()));
                space[..now.len()].copy_from_slice(now);
                rest = later;
                now.len()
            });
            let outcome = written.and_then(|bytes| self.written(transport, bytes));
            outcome.inspect_err(|_| self.abort(transport))?;
        }
        self.commit(transport).inspect_err(|_| self.abort(transport))
    }

    #[inline]
    pub(crate) fn space<'a>(
        &'a mut self,
        transport: &'a mut (impl Transport + ?Sized),
    ) -> Result<&'a mut [u8], SendError> {
        if let Writing::Direct(direct) = &mut self.writing
            && direct.reserved.is_none()
            && direct.later_bytes > 0
        {
            match direct.reserve_next(transport) {
                Err(SendError::Full) if direct.deadline == Deadline::NOW => {
                    let (message_bytes, later_bytes) = (direct.message_bytes, direct.later_bytes);
                    self.stage(message_bytes, later_bytes);
                }
                reserved => reserved?,
            }
        }
        Ok(match &mut self.writing {
            Writing::Nothing => &mut [],
            Writing::Staging { later_bytes } => {
                self.staged.room((*later_bytes).min(transport.fragment_bytes_max()))?
            }
            Writing::Direct(direct) => match direct.reserved {
                Some((_, written_bytes)) => &mut transport.room()[written_bytes..],
                None => &mut [],
            },
        })
    }

    #[inline]
    pub(crate) fn written(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
        bytes: usize,
    ) -> Result<(), SendError> {
        match &mut self.writing {
            Writing::Nothing => Ok(()),
            Writing::Staging { later_bytes } => {
                *later_bytes -= bytes;
                self.staged.filled.end += bytes;
                // The last fragment waits for the commit here, too.
                let kept_bytes = transport.fragment_bytes_max();
                match self.staged.send(transport, kept_bytes, Deadline::NOW) {
                    Err(SendError::Full) => Ok(()),
                    outcome => outcome,
                }
            }
            Writing::Direct(direct) => direct.written(transport, bytes),
        }
    }

    #[inline]
    pub(crate) fn commit(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
    ) -> Result<(), SendError> {
        match &mut self.writing {
            Writing::Nothing => Ok(()),
            Writing::Direct(direct) => {
                direct.publish(transport)?;
                self.writing = Writing::Nothing;
                Ok(())
            }
            Writing::Staging { .. } => {
                self.writing = Writing::Nothing;
                self.staged.pending = true;
                match self.settle(transport, Deadline::NOW) {
                    Err(SendError::Full) => Ok(()),
                    outcome => outcome,
                }
            }
        }
    }

    pub(crate) fn abort(&mut self, transport: &mut (impl Transport + ?Sized)) {
        let begun = match std::mem::take(&mut self.writing) {
            Writing::Nothing => None,
            Writing::Direct(direct) => {
                if direct.reserved.is_some() {
                    transport.unreserve();
                }
                direct.begun.then_some(direct.message_bytes)
            }
            Writing::Staging { .. } => {
                let Staged { message_bytes, left_bytes, .. } = self.staged;
                (left_bytes < message_bytes).then_some(message_bytes)
            }
        };
        if begun.is_some() {
            self.abort_owed = begun;
            // If there is no room now, the next claim or flush says it.
            let _ = self.settle(transport, Deadline::NOW);
        }
    }

    /// Returns how many bytes of messages that were committed are still here.
    pub(crate) fn unsent_bytes(&self) -> usize {
        if self.staged.pending { self.staged.filled.len() } else { 0 }
    }

    /// Sends what earlier messages left here.
    #[inline(always)]
    pub(crate) fn settle(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
        deadline: Deadline,
    ) -> Result<(), SendError> {
        match self.abort_owed.is_some() || self.staged.pending {
            true => self.settle_debts(transport, deadline),
            false => Ok(()),
        }
    }

    #[cold]
    fn settle_debts(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
        deadline: Deadline,
    ) -> Result<(), SendError> {
        if let Some(message_bytes) = self.abort_owed {
            transport.reserve(0, deadline)?;
            self.abort_owed = None;
            transport.publish(FragmentHeader::aborted(message_bytes), deadline)?;
        }
        if self.staged.pending {
            self.staged.send(transport, 0, deadline)?;
            self.staged.pending = false;
        }
        Ok(())
    }
}

impl Staged {
    /// Room for the next `bytes`.
    fn room(&mut self, bytes: usize) -> Result<&mut [u8], SendError> {
        let Range { start, end } = self.filled;
        if start > 0 && end - start <= bytes {
            // Back to the start, so that a receiver that keeps up keeps us in the cache.
            self.bytes.copy_within(start..end, 0);
            self.filled = 0..end - start;
        }
        let end = self.filled.end;
        if self.bytes.len() < end + bytes {
            grow(&mut self.bytes, end + bytes).map_err(SendError::Os)?;
        }
        Ok(&mut self.bytes[end..end + bytes])
    }

    /// Sends fragments while there is room, until at most `kept_bytes` are here.
    fn send(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
        kept_bytes: usize,
        deadline: Deadline,
    ) -> Result<(), SendError> {
        while self.filled.len() > kept_bytes {
            let fragment_bytes = self.filled.len().min(transport.fragment_bytes_max());
            transport.reserve(fragment_bytes, deadline)?;
            let start = self.filled.start;
            transport.room().copy_from_slice(&self.bytes[start..start + fragment_bytes]);
            self.filled.start += fragment_bytes;
            self.left_bytes -= fragment_bytes;
            let header = FragmentHeader::data(self.message_bytes, fragment_bytes, self.left_bytes);
            transport.publish(header, deadline)?;
        }
        Ok(())
    }
}

impl Direct {
    fn reserve_next(&mut self, transport: &mut (impl Transport + ?Sized)) -> Result<(), SendError> {
        let fragment_bytes = self.later_bytes.min(transport.fragment_bytes_max());
        transport.set_interruptible(false);
        let reserved = transport.reserve(fragment_bytes, self.deadline);
        transport.set_interruptible(true);
        reserved?;
        self.later_bytes -= fragment_bytes;
        self.reserved = Some((fragment_bytes, 0));
        Ok(())
    }

    #[inline]
    fn written(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
        bytes: usize,
    ) -> Result<(), SendError> {
        let Some((fragment_bytes, written_bytes)) = &mut self.reserved else { return Ok(()) };
        *written_bytes += bytes;
        // The last fragment waits for the commit, so that a message can be aborted until then.
        match written_bytes == fragment_bytes && self.later_bytes > 0 {
            true => self.publish(transport),
            false => Ok(()),
        }
    }

    #[inline]
    fn publish(&mut self, transport: &mut (impl Transport + ?Sized)) -> Result<(), SendError> {
        let Some((fragment_bytes, _)) = self.reserved.take() else { return Ok(()) };
        self.begun = true;
        let header = FragmentHeader::data(self.message_bytes, fragment_bytes, self.later_bytes);
        transport.publish(header, self.deadline)
    }
}
