//! The receiving half: fragments become messages.
//!
//! With time to wait, a message is handed out at its first fragment and read as the others come.
//! Without, its fragments are collected until it is whole; one that is whole already is read in
//! place. A whole message that is received by a deadline is collected, too: what came too late for
//! one call is there for the next. A caller that lends the buffer for collecting gets it back with
//! the message, so that each byte is copied once.
//!
//! **Invariants:** what is collected grows with what came, never by what was announced, and stays
//! below the connection's limit; after a violation of the peer every later receive reports it.

use nearcall_os::region::SharedBytes;

use crate::error::{ReceiveError, Violation};
use crate::fragment::{FragmentHeader, Reassembly, Step};
use crate::growing::{grow, grow_by_doubling};
use crate::limits::{
    ABORTED_PER_RECEIVE_MAX, COLLECTED_PER_RECEIVE_MAX, REASSEMBLY_STEP_BYTES,
    REASSEMBLY_STEP_BYTES_MAX,
};
use crate::transport::Transport;
use crate::wait::Deadline;

/// The destination of a received message.
pub(crate) enum ReceiveBuffer<'a> {
    /// `DoesNotFit` if the message is longer; it can still be received.
    Slice(&'a mut [u8]),
    /// Its length is its room. A message that is longer, or whose fragments are still to come, is
    /// reassembled in the buffer given by [`Incoming::swap_buffer`], which then comes back in
    /// exchange for this one. `DoesNotFit` if none was given.
    Vec(&'a mut Vec<u8>),
}

/// The message that is being received.
pub(crate) struct Incoming {
    state: State,
    reassembly: Reassembly,
    /// Kept between messages, so that collecting allocates only while messages grow. Its length is
    /// its room.
    collected: Vec<u8>,
    /// The number of bytes that are filled.
    collected_bytes: usize,
    /// It belongs to the receiver, and goes there with the next long message.
    is_lent: bool,
    broken: Option<Violation>,
    /// For an end that is called away: it must not wait for the rest of a message.
    whole_only: bool,
}

/// The fragment that is being read.
#[derive(Clone, Copy)]
struct Fragment {
    left_bytes: usize,
    last: bool,
}

#[derive(Clone, Copy)]
enum State {
    Nothing,
    /// Handed out; read from the way. Without a fragment between two of them.
    Streaming {
        fragment: Option<Fragment>,
        deadline: Deadline,
    },
    /// Begun, but did not fit its reader; to be handed out by the next receive.
    Offered {
        fragment: Fragment,
        message_bytes: usize,
    },
    /// Not handed out yet.
    Collecting {
        fragment: Option<Fragment>,
        message_bytes: usize,
    },
    /// Whole; read from what was collected, once it is handed out.
    Collected {
        read_bytes: usize,
        handed_out: bool,
    },
    /// Handed out and done with before it was whole: its other fragments are dropped as they come.
    Skipping,
}

impl Incoming {
    pub(crate) fn new(message_bytes_max: u32) -> Self {
        Self {
            state: State::Nothing,
            reassembly: Reassembly::new(message_bytes_max),
            collected: Vec::new(),
            collected_bytes: 0,
            is_lent: false,
            broken: None,
            whole_only: false,
        }
    }

    /// Hands no message out before it is whole, but to a caller that asks for its fragments.
    pub(crate) fn set_whole_messages_only(&mut self) {
        self.whole_only = true;
    }

    /// Returns the bytes of the message that is being collected which have come.
    pub(crate) fn collected_bytes(&self) -> usize {
        self.collected_bytes
    }

    /// Returns whether a message is under way.
    #[inline]
    pub(crate) fn is_amid_message(&self) -> bool {
        !matches!(self.state, State::Nothing) || self.broken.is_some()
    }

    #[inline]
    pub(crate) fn receive(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
        deadline: Deadline,
    ) -> Result<usize, ReceiveError> {
        self.receive_as(transport, deadline, deadline != Deadline::NOW)
    }

    /// With `streams`, a message is handed out before it is whole.
    #[inline]
    fn receive_as(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
        deadline: Deadline,
        streams: bool,
    ) -> Result<usize, ReceiveError> {
        let (mut aborted, mut collected) = (0, 0);
        loop {
            let message_bytes = match self.state {
                State::Nothing if aborted >= ABORTED_PER_RECEIVE_MAX && deadline.has_passed() => {
                    return Err(ReceiveError::Empty);
                }
                State::Nothing => {
                    aborted += 1;
                    self.begin(transport, deadline, streams)?
                }
                // Between fragments: a sleep would miss the rest of one that is there.
                State::Collecting { fragment: None, .. }
                    if collected >= COLLECTED_PER_RECEIVE_MAX && deadline == Deadline::NOW =>
                {
                    return Err(ReceiveError::Empty);
                }
                State::Collecting { .. } => {
                    let before = self.collected_bytes;
                    let message_bytes = self.collect(transport, deadline)?;
                    collected += self.collected_bytes - before;
                    message_bytes
                }
                State::Skipping => self.skip(transport, deadline)?,
                State::Offered { fragment, message_bytes } => {
                    self.hand_out(transport, fragment, message_bytes, deadline, streams)
                }
                State::Collected { read_bytes, handed_out: false } => {
                    self.state = State::Collected { read_bytes, handed_out: true };
                    Some(self.collected_bytes)
                }
                State::Streaming { .. } | State::Collected { .. } => {
                    self.release(transport);
                    None
                }
            };
            if let Some(message_bytes) = message_bytes {
                return Ok(message_bytes);
            }
        }
    }

    /// Returns whether a fragment is a message as a whole, sound and within the limit.
    #[inline(always)]
    pub(super) fn is_whole_message(&self, header: FragmentHeader) -> bool {
        self.reassembly.is_whole_message(header)
    }

    /// Keeps the fragment of another message than that for [`receive_long`](Self::receive_long).
    #[inline(never)]
    pub(super) fn offer(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
        header: FragmentHeader,
    ) -> Result<usize, ReceiveError> {
        let (message_bytes, step, fragment) = self.classify(transport, header)?;
        if step != Step::Aborted {
            self.state = State::Offered { fragment, message_bytes };
        }
        Err(ReceiveError::DoesNotFit { message_bytes })
    }

    /// As [`Channel::receive_small`](super::Channel::receive_small), for a message that it did not
    /// take.
    pub(crate) fn receive_long(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
        into: ReceiveBuffer<'_>,
        deadline: Deadline,
    ) -> Result<usize, ReceiveError> {
        match into {
            ReceiveBuffer::Slice(into) => self.receive_into_slice(transport, into, deadline),
            ReceiveBuffer::Vec(into) => self.receive_into_vec(transport, into, deadline),
        }
    }

    /// Collects, whatever the deadline: what has come when it passes is there for the next call.
    #[inline(never)]
    fn receive_into_vec(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
        into: &mut Vec<u8>,
        deadline: Deadline,
    ) -> Result<usize, ReceiveError> {
        if let State::Offered { fragment, message_bytes } = self.state {
            let is_there = fragment.last && transport.is_whole(fragment.left_bytes);
            if is_there && message_bytes <= into.len() {
                self.state = State::Streaming { fragment: Some(fragment), deadline };
                let outcome = self.read(transport, &mut into[..message_bytes]);
                self.release(transport);
                return outcome.map(|()| message_bytes);
            }
            if !self.is_lent {
                return Err(ReceiveError::DoesNotFit { message_bytes });
            }
            self.collected_bytes = 0;
            self.state = State::Collecting { fragment: Some(fragment), message_bytes };
        }
        let message_bytes = self.receive_as(transport, deadline, false)?;
        if let State::Collected { .. } = self.state
            && self.is_lent
        {
            self.is_lent = false;
            self.state = State::Nothing;
            std::mem::swap(&mut self.collected, into);
            return Ok(message_bytes);
        }
        if message_bytes > into.len() {
            grow(into, message_bytes).map_err(ReceiveError::Os)?;
        }
        let outcome = self.read(transport, &mut into[..message_bytes]);
        self.release(transport);
        outcome.map(|()| message_bytes)
    }

    /// Exchanges `buffer` for the one that messages are collected in, unless one is under way.
    pub(crate) fn swap_buffer(&mut self, buffer: &mut Vec<u8>) {
        if let State::Nothing | State::Offered { .. } | State::Skipping = self.state {
            self.is_lent = true;
            std::mem::swap(&mut self.collected, buffer);
        }
    }

    #[inline(never)]
    fn receive_into_slice(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
        into: &mut [u8],
        deadline: Deadline,
    ) -> Result<usize, ReceiveError> {
        let streams = deadline == Deadline::NEVER && !self.whole_only;
        let message_bytes = self.receive_as(transport, deadline, streams)?;
        if message_bytes > into.len() {
            // Nothing of it has been read: as good as not received.
            self.state = match self.state {
                State::Streaming { fragment: Some(fragment), .. } => {
                    State::Offered { fragment, message_bytes }
                }
                State::Collected { .. } => State::Collected { read_bytes: 0, handed_out: false },
                other => other,
            };
            return Err(ReceiveError::DoesNotFit { message_bytes });
        }
        let outcome = self.read(transport, &mut into[..message_bytes]);
        self.release(transport);
        outcome.map(|()| message_bytes)
    }

    #[inline]
    pub(crate) fn fragment<'a>(
        &'a mut self,
        transport: &'a mut (impl Transport + ?Sized),
    ) -> Result<SharedBytes<'a>, ReceiveError> {
        if let State::Collected { read_bytes, .. } = self.state {
            let unread = &self.collected[read_bytes..self.collected_bytes];
            return Ok(SharedBytes::from_slice(unread));
        }
        match self.current(transport)? {
            (0, _) => Ok(SharedBytes::from_slice(&[])),
            (left_bytes, deadline) => {
                let here = transport.bytes(deadline)?;
                let bytes = here.len().min(left_bytes);
                Ok(here.slice(0..bytes))
            }
        }
    }

    pub(crate) fn consume(&mut self, transport: &mut (impl Transport + ?Sized), bytes: usize) {
        match &mut self.state {
            State::Collected { read_bytes, .. } => *read_bytes += bytes,
            State::Streaming { fragment: Some(fragment), .. } => {
                fragment.left_bytes -= bytes;
                transport.consume(bytes);
            }
            _ => {}
        }
    }

    #[inline]
    pub(crate) fn read(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
        into: &mut [u8],
    ) -> Result<(), ReceiveError> {
        if let State::Collected { read_bytes, .. } = &mut self.state {
            let end = *read_bytes + into.len();
            if end > self.collected_bytes {
                return Err(ReceiveError::Aborted);
            }
            into.copy_from_slice(&self.collected[*read_bytes..end]);
            *read_bytes = end;
            return Ok(());
        }
        let mut rest = into;
        while !rest.is_empty() {
            let (left_bytes, deadline) = self.current(transport)?;
            if left_bytes == 0 {
                // Only a caller that reads past the end of its message comes here.
                return Err(ReceiveError::Aborted);
            }
            let (now, later) = rest.split_at_mut(left_bytes.min(rest.len()));
            if let Err(error) = transport.read(now, deadline) {
                return Err(self.record_violation(error));
            }
            if let State::Streaming { fragment: Some(fragment), .. } = &mut self.state {
                fragment.left_bytes -= now.len();
            }
            rest = later;
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn release(&mut self, transport: &mut (impl Transport + ?Sized)) {
        self.state = match self.state {
            State::Streaming { fragment: Some(fragment), .. } => {
                transport.finish();
                if fragment.last { State::Nothing } else { State::Skipping }
            }
            State::Streaming { fragment: None, .. } => State::Skipping,
            State::Collected { .. } => State::Nothing,
            other => other,
        };
    }

    /// The fragment to read from, waiting for the next one if this is used up: what is left of it.
    #[inline]
    fn current(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
    ) -> Result<(usize, Deadline), ReceiveError> {
        loop {
            let State::Streaming { fragment, deadline } = self.state else {
                return Err(ReceiveError::Aborted);
            };
            let fragment = match fragment {
                Some(fragment) if fragment.left_bytes > 0 || fragment.last => {
                    return Ok((fragment.left_bytes, deadline));
                }
                Some(_) => {
                    transport.finish();
                    None
                }
                None => {
                    transport.set_interruptible(false);
                    let next = self.next(transport, deadline);
                    transport.set_interruptible(true);
                    match next? {
                        (_, Step::Aborted, _) => {
                            self.state = State::Nothing;
                            return Err(ReceiveError::Aborted);
                        }
                        (_, _, fragment) => Some(fragment),
                    }
                }
            };
            self.state = State::Streaming { fragment, deadline };
        }
    }

    /// Takes the next header: the message's length, what the fragment means, the fragment.
    #[inline(always)]
    fn next(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
        deadline: Deadline,
    ) -> Result<(usize, Step, Fragment), ReceiveError> {
        if let Some(violation) = self.broken {
            return Err(violation.into());
        }
        let header = match transport.next(deadline) {
            Ok(header) => header,
            Err(error) => return Err(self.record_violation(error)),
        };
        self.classify(transport, header)
    }

    #[inline]
    fn classify(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
        header: FragmentHeader,
    ) -> Result<(usize, Step, Fragment), ReceiveError> {
        let step = match self.reassembly.handle(header) {
            Ok(step) => step,
            Err(violation) => return Err(self.record_violation(violation.into())),
        };
        if step == Step::Aborted {
            transport.finish();
        }
        let fragment =
            Fragment { left_bytes: header.fragment_bytes as usize, last: step == Step::Complete };
        Ok((header.message_bytes as usize, step, fragment))
    }

    /// A violation is never forgiven.
    #[cold]
    pub(super) fn record_violation(&mut self, error: ReceiveError) -> ReceiveError {
        if let ReceiveError::PeerBroken(violation) = error {
            self.broken = Some(violation);
        }
        error
    }

    /// Begins the next message. Its length, if it can be handed out now.
    #[inline]
    fn begin(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
        deadline: Deadline,
        streams: bool,
    ) -> Result<Option<usize>, ReceiveError> {
        let (message_bytes, step, fragment) = self.next(transport, deadline)?;
        if step == Step::Aborted {
            // The user has seen nothing of this message, so its end is not reported either.
            return Ok(None);
        }
        Ok(self.hand_out(transport, fragment, message_bytes, deadline, streams))
    }

    /// Hands a begun message out, or starts to collect it if that could wait.
    #[inline]
    fn hand_out(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
        fragment: Fragment,
        message_bytes: usize,
        deadline: Deadline,
        streams: bool,
    ) -> Option<usize> {
        if streams || (fragment.last && transport.is_whole(fragment.left_bytes)) {
            self.state = State::Streaming { fragment: Some(fragment), deadline };
            return Some(message_bytes);
        }
        self.collected_bytes = 0;
        self.state = State::Collecting { fragment: Some(fragment), message_bytes };
        None
    }

    /// Collects what has come.
    fn collect(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
        deadline: Deadline,
    ) -> Result<Option<usize>, ReceiveError> {
        let State::Collecting { fragment, message_bytes } = self.state else { return Ok(None) };
        let fragment = match fragment {
            Some(Fragment { left_bytes, last }) if left_bytes > 0 => {
                let bytes = transport.read_some(self.room_for(left_bytes)?, deadline)?;
                self.collected_bytes += bytes;
                Some(Fragment { left_bytes: left_bytes - bytes, last })
            }
            Some(Fragment { last, .. }) => {
                transport.finish();
                if last {
                    self.state = State::Collected { read_bytes: 0, handed_out: false };
                    return Ok(None);
                }
                None
            }
            None => match self.next(transport, deadline)? {
                (_, Step::Aborted, _) => {
                    self.state = State::Nothing;
                    return Ok(None);
                }
                (_, _, fragment) => Some(fragment),
            },
        };
        self.state = State::Collecting { fragment, message_bytes };
        Ok(None)
    }

    /// Room to collect some of the next `bytes` in. It grows with what has come: the rest may never
    /// come, and pages that are touched at once take long.
    #[inline]
    fn room_for(&mut self, bytes: usize) -> Result<&mut [u8], ReceiveError> {
        let start = self.collected_bytes;
        let step = start.clamp(REASSEMBLY_STEP_BYTES, REASSEMBLY_STEP_BYTES_MAX);
        let end = self.collected.len().max(start + step).min(start + bytes);
        if self.collected.len() < end {
            grow_by_doubling(&mut self.collected, end).map_err(ReceiveError::Os)?;
        }
        Ok(&mut self.collected[start..end])
    }

    /// Drops the fragments of a message that the user is done with.
    fn skip(
        &mut self,
        transport: &mut (impl Transport + ?Sized),
        deadline: Deadline,
    ) -> Result<Option<usize>, ReceiveError> {
        let (_, step, _) = self.next(transport, deadline)?;
        if step != Step::Aborted {
            transport.finish();
        }
        if step != Step::More {
            self.state = State::Nothing;
        }
        Ok(None)
    }
}
