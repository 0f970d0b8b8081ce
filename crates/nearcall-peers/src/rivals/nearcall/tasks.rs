//! nearcall's client of futures, in a tokio runtime of one thread.

use anyhow::anyhow;
use nearcall::Bytes;
use nearcall::bytes::BytesMut;
use nearcall_bench::payload::Payload;

use super::address;
use super::generated::{Argument, PeerAsyncCaller};
use crate::measure::{Client, measure, verify};
use crate::request::LaunchRequest;
use crate::rivals::runtime;

pub(super) fn ask(launch: &LaunchRequest) -> anyhow::Result<()> {
    let client = nearcall::Client::new();
    let caller = PeerAsyncCaller::new(&client, &address(launch));
    let caller = caller.map_err(|error| anyhow!("{error}"))?;
    runtime()?.block_on(measure(Calls { caller, buffer: Bytes::new() }, launch))
}

struct Calls {
    caller: PeerAsyncCaller,
    /// Of the last request.
    buffer: Bytes,
}

impl Calls {
    /// Message `number`, in the buffer of the request before, of which `buffer` keeps a handle.
    #[inline]
    fn argument(&mut self, payload: &Payload, number: u64) -> Argument {
        let own = std::mem::take(&mut self.buffer).try_into_mut();
        let mut own = own.unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        own.resize(payload.message_bytes(), 0);
        payload.fill(number, 0, &mut own);
        self.buffer = own.freeze();
        Argument { data: self.buffer.clone() }
    }
}

impl Client for Calls {
    #[inline]
    async fn call(&mut self, echo: bool, payload: &Payload, number: u64) -> anyhow::Result<()> {
        if payload.message_bytes() == 0 {
            return Ok(self.caller.nothing(&()).await?);
        }
        let argument = self.argument(payload, number);
        if echo {
            return verify(payload, number, &self.caller.echo(&argument).await?.data);
        }
        Ok(self.caller.take(&argument).await?)
    }

    #[inline]
    async fn note(&mut self, payload: &Payload, number: u64) -> anyhow::Result<()> {
        let argument = self.argument(payload, number);
        Ok(self.caller.note(&argument).await?)
    }

    async fn received(&mut self) -> anyhow::Result<u64> {
        Ok(self.caller.received(&()).await?.messages)
    }
}
