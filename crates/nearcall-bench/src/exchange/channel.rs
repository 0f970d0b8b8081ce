//! A mechanism's end as the measured loops use it: every byte written in place, every byte read.
//!
//! `adaptive`, `block` and `spin` wait inside the channel. `poll` waits as an event loop does: it
//! announces the sleep, sleeps in epoll on the channel's descriptor, then asks without waiting.

use nearcall_channel::{
    Deadline, Endpoint, Interest, Message, ReceiveError, SendError, WaitPolicy,
};
use nearcall_os::epoll::{Epoll, Events};
use nearcall_os::poll;

use crate::exchange::{End, Failure, Got};
use crate::payload::{Payload, Verifier};

/// An endpoint with what reading and waiting need.
pub(crate) struct ChannelEnd {
    endpoint: Endpoint,
    /// Private memory, small enough that what was copied is still in the first-level cache.
    piece: Vec<u8>,
    until: Deadline,
    poller: Option<Poller>,
    many: bool,
}

impl ChannelEnd {
    pub(crate) fn new(endpoint: Endpoint) -> Result<Self, Failure> {
        let poller = match endpoint.wait_policy() {
            WaitPolicy::Poll => Some(Poller::new(&endpoint)?),
            WaitPolicy::Adaptive | WaitPolicy::Spin | WaitPolicy::Block => None,
        };
        let until = if poller.is_some() { Deadline::NOW } else { Deadline::NEVER };
        Ok(Self { endpoint, piece: vec![0; FRAGMENT_BYTES], until, poller, many: false })
    }

    /// For both ends in one thread: announces the sleep before the other end sends, as a loop does
    /// that serves both. Until [`sleep_announced`](Self::sleep_announced) nothing may be received.
    #[inline]
    pub(crate) fn announce(&mut self) {
        self.many = true;
        if let Some(poller) = &mut self.poller {
            poller.announced = self.endpoint.arm(Interest::Receive);
        }
    }

    /// Sleeps as announced, until there is a message.
    #[inline]
    pub(crate) fn sleep_announced(&mut self) -> Result<(), Failure> {
        if let Some(poller) = &mut self.poller
            && std::mem::take(&mut poller.announced)
        {
            poller.receive.wait(&mut poller.events, None)?;
        }
        Ok(())
    }

    /// Sends text. Not for the measured region.
    pub(crate) fn say(&mut self, text: &str) -> Result<(), Failure> {
        loop {
            match self.endpoint.send(text.as_bytes(), self.until) {
                Err(SendError::Full) if self.poller.is_some() => self.wait(Interest::Send)?,
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Waits for text. Not for the measured region.
    pub(crate) fn hear(&mut self) -> Result<String, Failure> {
        self.many = false;
        loop {
            match self.endpoint.receive(self.until) {
                Err(ReceiveError::Empty) if self.poller.is_some() => {}
                Err(error) => return Err(error.into()),
                Ok(mut message) => {
                    let mut text = Vec::new();
                    message.read_to_end(&mut text)?;
                    return String::from_utf8(text).map_err(Failure::other);
                }
            }
            self.wait(Interest::Receive)?;
        }
    }

    #[inline]
    fn receive_with<T>(
        &mut self,
        read: impl FnOnce(Message<'_>, &mut [u8]) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        if let Some(poller) = &mut self.poller {
            if !self.many {
                poller.wait(&mut self.endpoint, Interest::Receive)?;
            }
            loop {
                match self.endpoint.receive(Deadline::NOW) {
                    Ok(message) => return read(message, &mut self.piece),
                    Err(ReceiveError::Empty) => {}
                    Err(error) => return Err(error.into()),
                }
                poller.wait(&mut self.endpoint, Interest::Receive)?;
            }
        }
        read(self.endpoint.receive(self.until)?, &mut self.piece)
    }

    #[inline]
    fn send_with(
        &mut self,
        bytes: usize,
        mut fill: impl FnMut(usize, &mut [u8]),
    ) -> Result<(), Failure> {
        loop {
            match self.endpoint.claim(bytes, self.until) {
                Ok(mut claim) => {
                    let mut offset = 0;
                    while offset < bytes {
                        let space = claim.space()?;
                        let part = space.len().min(bytes - offset);
                        fill(offset, &mut space[..part]);
                        offset += part;
                        claim.written(part)?;
                    }
                    claim.commit()?;
                    break;
                }
                Err(SendError::Full) if self.poller.is_some() => {}
                Err(error) => return Err(error.into()),
            }
            self.wait(Interest::Send)?;
        }
        if self.poller.is_some() { self.flush() } else { Ok(()) }
    }

    /// Moves a message on that was longer than the room of the channel.
    fn flush(&mut self) -> Result<(), Failure> {
        loop {
            match self.endpoint.flush(Deadline::NOW) {
                Err(SendError::Full) => self.wait(Interest::Send)?,
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Reads only what is to be read, and gives the rest back where it lies.
    fn receive_part(&mut self, verifier: &mut Verifier<'_>) -> Result<Got, Failure> {
        self.receive_with(|mut message, piece| {
            if message.is_empty() {
                return Ok(Got::Mark);
            }
            let wanted = verifier.needs_bytes().unwrap_or(0).min(piece.len());
            let mut read = 0;
            while read < wanted && message.left_bytes() > 0 {
                let bytes = message.read(&mut piece[..wanted - read])?;
                verifier.piece(&piece[..bytes]);
                read += bytes;
            }
            // All of it has to come: the sender of a long message waits until it is gone.
            while message.left_bytes() > 0 {
                let bytes = message.fragment()?.len();
                message.consume(bytes);
                verifier.skip(bytes);
            }
            drop(message);
            verifier.end()?;
            Ok(Got::Message)
        })
    }

    #[inline]
    fn wait(&mut self, interest: Interest) -> Result<(), Failure> {
        match &mut self.poller {
            Some(poller) => poller.wait(&mut self.endpoint, interest),
            None => Ok(()),
        }
    }
}

impl End for ChannelEnd {
    #[inline]
    fn send(&mut self, payload: &Payload, number: u64) -> Result<(), Failure> {
        let bytes = payload.message_bytes();
        if bytes <= SHORT_BYTES && self.poller.is_none() {
            let mut message = [0; SHORT_BYTES];
            payload.fill(number, 0, &mut message[..bytes]);
            return Ok(self.endpoint.send(&message[..bytes], self.until)?);
        }
        self.send_with(bytes, |offset, space| payload.fill(number, offset, space))
    }

    #[inline]
    fn receive(&mut self, verifier: &mut Verifier<'_>) -> Result<Got, Failure> {
        if verifier.needs_bytes().is_some() {
            return self.receive_part(verifier);
        }
        if self.poller.is_none() {
            match self.endpoint.receive_into(&mut self.piece, self.until) {
                Ok(0) => return Ok(Got::Mark),
                Ok(bytes) => {
                    verifier.whole(&self.piece[..bytes])?;
                    return Ok(Got::Message);
                }
                // Longer: read piece by piece, each still hot.
                Err(ReceiveError::DoesNotFit { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.receive_with(|mut message, piece| {
            if message.is_empty() {
                return Ok(Got::Mark);
            }
            while message.left_bytes() > 0 {
                let bytes = message.read(piece)?;
                verifier.piece(&piece[..bytes]);
            }
            drop(message);
            verifier.end()?;
            Ok(Got::Message)
        })
    }

    #[inline]
    fn send_empty(&mut self) -> Result<(), Failure> {
        match self.poller {
            None => Ok(self.endpoint.send(&[], self.until)?),
            Some(_) => self.send_with(0, |_, _| {}),
        }
    }

    #[inline]
    fn receive_empty(&mut self) -> Result<(), Failure> {
        if self.poller.is_none() {
            return match self.endpoint.receive_into(&mut [], self.until) {
                Err(ReceiveError::DoesNotFit { message_bytes }) => Err(Failure::other(format!(
                    "a reply of {message_bytes} bytes where none was due"
                ))),
                outcome => Ok(outcome.map(|_| ())?),
            };
        }
        self.receive_with(|message, _| match message.len() {
            0 => Ok(()),
            bytes => Err(Failure::other(format!("a reply of {bytes} bytes where none was due"))),
        })
    }

    fn send_mark(&mut self, _payload: &Payload, _number: u64) -> Result<bool, Failure> {
        self.send_empty()?;
        Ok(false)
    }

    fn expect_many(&mut self, many: bool) {
        self.many = many;
    }
}

/// Sleeps as an event loop does.
struct Poller {
    receive: Epoll,
    send: Epoll,
    events: Events,
    announced: bool,
}

impl Poller {
    fn new(endpoint: &Endpoint) -> Result<Self, Failure> {
        let watch = |interest| -> Result<Epoll, Failure> {
            let readiness = endpoint.readiness(interest);
            let readiness = readiness.ok_or_else(|| Failure::other("no descriptor to poll"))?;
            let wanted = match readiness.writable {
                true => poll::Interest::Writable,
                false => poll::Interest::Readable,
            };
            let epoll = Epoll::create()?;
            epoll.add(readiness.fd, wanted, 0)?;
            Ok(epoll)
        };
        let (receive, send) = (watch(Interest::Receive)?, watch(Interest::Send)?);
        Ok(Self { receive, send, events: Events::with_capacity(1), announced: false })
    }

    #[inline]
    fn wait(&mut self, endpoint: &mut Endpoint, interest: Interest) -> Result<(), Failure> {
        if endpoint.arm(interest) {
            let epoll = match interest {
                Interest::Receive => &self.receive,
                Interest::Send => &self.send,
            };
            epoll.wait(&mut self.events, None)?;
        }
        Ok(())
    }
}

/// Up to here a message is made in private memory and sent by one call; a longer one is written in
/// place.
const SHORT_BYTES: usize = 64;

/// Half of the smallest usual first-level cache, and the piece in which long messages travel.
const FRAGMENT_BYTES: usize = 16 << 10;
