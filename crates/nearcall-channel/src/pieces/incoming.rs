//! The receiving half: pieces become messages.
//!
//! With time to wait, a message is handed out at its first piece and read as the others come.
//! Without, its pieces are collected until it is whole; one that is whole already is read in place.
//! Always true: what is collected grows with what came, never by what was announced, and stays
//! below the connection's limit; after a misdeed of the peer every later receive reports it.

use nearcall_os::region::SharedBytes;

use crate::error::{Misdeed, ReceiveError};
use crate::piece::{Assembly, Step};
use crate::wait::Deadline;
use crate::way::PieceWay;

/// What is being received.
pub(super) struct Incoming {
    state: State,
    assembly: Assembly,
    /// Kept between messages, so that collecting allocates only while messages grow.
    collected: Vec<u8>,
    broken: Option<Misdeed>,
}

/// The piece that is being read.
#[derive(Clone, Copy)]
struct Piece {
    left_bytes: usize,
    last: bool,
}

#[derive(Clone, Copy)]
enum State {
    Nothing,
    /// Handed out; read from the way. Without a piece between two of them.
    Streaming {
        piece: Option<Piece>,
        until: Deadline,
    },
    /// Not handed out yet.
    Collecting {
        piece: Option<Piece>,
        message_bytes: usize,
    },
    /// Handed out; read from what was collected.
    Collected {
        read_bytes: usize,
    },
    /// Handed out and done with before it was whole: its other pieces are dropped as they come.
    Skipping,
}

impl Incoming {
    pub(super) fn new(message_bytes_max: u32) -> Self {
        Self {
            state: State::Nothing,
            assembly: Assembly::new(message_bytes_max),
            collected: Vec::new(),
            broken: None,
        }
    }

    #[inline]
    pub(super) fn receive(
        &mut self,
        way: &mut impl PieceWay,
        until: Deadline,
    ) -> Result<usize, ReceiveError> {
        loop {
            let message_bytes = match self.state {
                State::Nothing => self.begin(way, until)?,
                State::Collecting { .. } => self.collect(way, until)?,
                State::Skipping => self.skip(way, until)?,
                State::Streaming { .. } | State::Collected { .. } => {
                    self.release(way);
                    None
                }
            };
            if let Some(message_bytes) = message_bytes {
                return Ok(message_bytes);
            }
        }
    }

    #[inline]
    pub(super) fn piece<'a>(
        &'a mut self,
        way: &'a mut impl PieceWay,
    ) -> Result<SharedBytes<'a>, ReceiveError> {
        if let State::Collected { read_bytes } = self.state {
            return Ok(SharedBytes::from_slice(&self.collected[read_bytes..]));
        }
        match self.current(way)? {
            (0, _) => Ok(SharedBytes::from_slice(&[])),
            (left_bytes, until) => {
                let here = way.bytes(until)?;
                let bytes = here.len().min(left_bytes);
                Ok(here.slice(0..bytes))
            }
        }
    }

    pub(super) fn consume(&mut self, way: &mut impl PieceWay, bytes: usize) {
        match &mut self.state {
            State::Collected { read_bytes } => *read_bytes += bytes,
            State::Streaming { piece: Some(piece), .. } => {
                piece.left_bytes -= bytes;
                way.consume(bytes);
            }
            _ => {}
        }
    }

    #[inline]
    pub(super) fn read(
        &mut self,
        way: &mut impl PieceWay,
        into: &mut [u8],
    ) -> Result<(), ReceiveError> {
        if let State::Collected { read_bytes } = &mut self.state {
            let end = *read_bytes + into.len();
            into.copy_from_slice(&self.collected[*read_bytes..end]);
            *read_bytes = end;
            return Ok(());
        }
        let mut rest = into;
        while !rest.is_empty() {
            let (left_bytes, until) = self.current(way)?;
            if left_bytes == 0 {
                // Only a caller that reads past the end of its message comes here.
                return Err(ReceiveError::Aborted);
            }
            let (now, later) = rest.split_at_mut(left_bytes.min(rest.len()));
            way.read(now, until)?;
            if let State::Streaming { piece: Some(piece), .. } = &mut self.state {
                piece.left_bytes -= now.len();
            }
            rest = later;
        }
        Ok(())
    }

    #[inline]
    pub(super) fn release(&mut self, way: &mut impl PieceWay) {
        self.state = match self.state {
            State::Streaming { piece: Some(piece), .. } => {
                way.finish();
                if piece.last { State::Nothing } else { State::Skipping }
            }
            State::Streaming { piece: None, .. } => State::Skipping,
            State::Collected { .. } => State::Nothing,
            other => other,
        };
    }

    /// The piece to read from, waiting for the next one if this is used up: what is left of it.
    #[inline]
    fn current(&mut self, way: &mut impl PieceWay) -> Result<(usize, Deadline), ReceiveError> {
        loop {
            let State::Streaming { piece, until } = self.state else {
                return Err(ReceiveError::Aborted);
            };
            let piece = match piece {
                Some(piece) if piece.left_bytes > 0 || piece.last => {
                    return Ok((piece.left_bytes, until));
                }
                Some(_) => {
                    way.finish();
                    None
                }
                None => match self.next(way, until)? {
                    (_, Step::Aborted, _) => {
                        self.state = State::Nothing;
                        return Err(ReceiveError::Aborted);
                    }
                    (_, _, piece) => Some(piece),
                },
            };
            self.state = State::Streaming { piece, until };
        }
    }

    /// Takes the next header: the message's length, what the piece means, the piece.
    #[inline]
    fn next(
        &mut self,
        way: &mut impl PieceWay,
        until: Deadline,
    ) -> Result<(usize, Step, Piece), ReceiveError> {
        if let Some(misdeed) = self.broken {
            return Err(misdeed.into());
        }
        let outcome = way.next(until);
        let outcome = outcome
            .and_then(|header| Ok((header, self.assembly.handle(header)?)))
            .inspect_err(|error| {
                if let ReceiveError::PeerBroken(misdeed) = error {
                    self.broken = Some(*misdeed);
                }
            });
        let (header, step) = outcome?;
        if step == Step::Aborted {
            way.finish();
        }
        let piece = Piece { left_bytes: header.piece_bytes as usize, last: step == Step::Complete };
        Ok((header.message_bytes as usize, step, piece))
    }

    /// Begins the next message. Its length, if it can be handed out now.
    #[inline]
    fn begin(
        &mut self,
        way: &mut impl PieceWay,
        until: Deadline,
    ) -> Result<Option<usize>, ReceiveError> {
        let (message_bytes, step, piece) = self.next(way, until)?;
        if step == Step::Aborted {
            // Nobody has heard of this message, so nobody needs to hear of its end.
            return Ok(None);
        }
        if until != Deadline::Now || (piece.last && way.is_whole(piece.left_bytes)) {
            self.state = State::Streaming { piece: Some(piece), until };
            return Ok(Some(message_bytes));
        }
        self.collected.clear();
        self.state = State::Collecting { piece: Some(piece), message_bytes };
        Ok(None)
    }

    /// Collects what has come. The message's length once it is whole.
    fn collect(
        &mut self,
        way: &mut impl PieceWay,
        until: Deadline,
    ) -> Result<Option<usize>, ReceiveError> {
        let State::Collecting { piece, message_bytes } = self.state else { return Ok(None) };
        let piece = match piece {
            Some(Piece { left_bytes, last }) if left_bytes > 0 => {
                let here = way.bytes(until)?;
                let bytes = here.len().min(left_bytes);
                let start = self.collected.len();
                self.collected.resize(start + bytes, 0);
                here.slice(0..bytes).copy_to(&mut self.collected[start..]);
                way.consume(bytes);
                Some(Piece { left_bytes: left_bytes - bytes, last })
            }
            Some(Piece { last, .. }) => {
                way.finish();
                if last {
                    self.state = State::Collected { read_bytes: 0 };
                    return Ok(Some(message_bytes));
                }
                None
            }
            None => match self.next(way, until)? {
                (_, Step::Aborted, _) => {
                    self.state = State::Nothing;
                    return Ok(None);
                }
                (_, _, piece) => Some(piece),
            },
        };
        self.state = State::Collecting { piece, message_bytes };
        Ok(None)
    }

    /// Drops the pieces of a message that the user is done with.
    fn skip(
        &mut self,
        way: &mut impl PieceWay,
        until: Deadline,
    ) -> Result<Option<usize>, ReceiveError> {
        let (_, step, _) = self.next(way, until)?;
        if step != Step::Aborted {
            way.finish();
        }
        if step != Step::More {
            self.state = State::Nothing;
        }
        Ok(None)
    }
}
