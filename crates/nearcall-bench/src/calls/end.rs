//! Calls, and bare exchanges within one thread, as the measured loops use an end.
//!
//! To send is to call: when it returns, the reply is there. So the loops of `exchange/` measure
//! calls without knowing it. Not here: who serves (`peer.rs`, `local.rs`).

use nearcall::bytes::BytesMut;
use nearcall::stream::RequestStream;
use nearcall::{Bytes, Status};

use crate::bench_plan::Shape;
use crate::calls::generated::{Argument, BenchCaller};
use crate::cell::CellSpec;
use crate::exchange::channel::ChannelEnd;
use crate::exchange::{Cause, End, Failure, Got};
use crate::payload::{Payload, Verifier};

/// The client of calls.
pub(super) struct CallEnd<'a> {
    caller: &'a BenchCaller,
    argument: Argument,
    what: What,
    /// The stream of the phase that goes on.
    stream: Option<RequestStream<Argument, ()>>,
}

/// What a message is sent as.
#[derive(Clone, Copy)]
pub(super) enum What {
    Empty,
    Argument,
    /// So many bytes by reference.
    Reference(usize),
    Oneway,
    /// An item of a stream.
    Item,
}

impl What {
    pub(super) fn of(cell: &CellSpec) -> Self {
        match (cell.shape, cell.message_bytes) {
            (Shape::Oneway, _) => Self::Oneway,
            (Shape::Stream, _) => Self::Item,
            (_, 0) => Self::Empty,
            _ if cell.conditions.by_reference => Self::Reference(cell.bytes()),
            _ => Self::Argument,
        }
    }
}

impl<'a> CallEnd<'a> {
    pub(super) fn new(caller: &'a BenchCaller, cell: &CellSpec) -> Self {
        let argument = Argument { data: vec![0; cell.bytes()].into() };
        Self { caller, argument, what: What::of(cell), stream: None }
    }
}

/// Writes into the bytes of a message that has been sent, so that no other owner is left.
pub(super) fn rewrite(data: &mut Bytes, write: impl FnOnce(&mut [u8])) {
    let own = std::mem::take(data).try_into_mut();
    let mut own = own.unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    write(&mut own);
    *data = own.freeze();
}

impl End for CallEnd<'_> {
    #[inline]
    fn send(&mut self, payload: &Payload, number: u64) -> Result<(), Failure> {
        match self.what {
            What::Empty => return Ok(self.caller.nothing(&())?),
            What::Reference(bytes) => {
                let data = self.caller.loan(bytes)?.freeze();
                return Ok(self.caller.pass(&Argument { data })?);
            }
            What::Argument | What::Oneway | What::Item => {}
        }
        rewrite(&mut self.argument.data, |bytes| payload.fill(number, 0, bytes));
        match self.what {
            What::Oneway => Ok(self.caller.note(&self.argument)?),
            What::Item => {
                let stream = match &mut self.stream {
                    Some(stream) => stream,
                    None => self.stream.insert(self.caller.upload()?),
                };
                Ok(stream.send(&self.argument)?)
            }
            _ => Ok(self.caller.take(&self.argument)?),
        }
    }

    /// A call itself, so that all one-way calls before it were served when it returns. A stream
    /// ends with its phase, so that all of its items were read.
    fn send_mark(&mut self, _payload: &Payload, _number: u64) -> Result<bool, Failure> {
        if let Some(stream) = self.stream.take() {
            stream.finish()?;
        }
        self.caller.mark(&())?;
        Ok(false)
    }
}

impl From<Status> for Failure {
    #[cold]
    fn from(status: Status) -> Self {
        let cause = match status.code() {
            nearcall::Code::DataLoss => Cause::Corrupt,
            _ => Cause::Other,
        };
        Self { cause, text: status.to_string() }
    }
}

/// Both ends of a channel in one thread: every message is received right after it was sent.
pub(super) struct BothEnds<'a> {
    client: ChannelEnd,
    server: ChannelEnd,
    requests: &'a Payload,
    replies: &'a Payload,
    number: u64,
}

impl<'a> BothEnds<'a> {
    pub(super) fn new(
        [client, server]: [ChannelEnd; 2],
        requests: &'a Payload,
        replies: &'a Payload,
    ) -> Self {
        Self { client, server, requests, replies, number: 0 }
    }

    pub(super) fn into_ends(self) -> [ChannelEnd; 2] {
        [self.client, self.server]
    }
}

impl End for BothEnds<'_> {
    #[inline]
    fn send(&mut self, payload: &Payload, number: u64) -> Result<(), Failure> {
        self.server.announce();
        self.client.send(payload, number)?;
        self.server.sleep_announced()?;
        let mut verifier = Verifier::new(self.requests, self.number);
        self.server.receive(&mut verifier)?;
        self.client.announce();
        self.server.send(self.replies, self.number)?;
        self.number += 1;
        self.client.sleep_announced()
    }

    #[inline]
    fn receive(&mut self, verifier: &mut Verifier<'_>) -> Result<Got, Failure> {
        self.client.receive(verifier)
    }
}
