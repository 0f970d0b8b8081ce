//! Calls that are awaited, one at a time, in a tokio runtime of one thread.
//!
//! The measured loops wait for each exchange, so each is a `block_on` of its own: what entering the
//! runtime costs is part of the figure. **Not here:** calls that block (`end.rs`).

use nearcall::Client;
use nearcall::stream::AsyncRequestStream;
use tokio::runtime::{self, Runtime};

use crate::calls::end::{What, rewrite};
use crate::calls::generated::{Argument, BenchAsyncCaller};
use crate::cell::CellSpec;
use crate::exchange::{End, Failure};
use crate::payload::Payload;

/// The runtime that awaits. Neither its I/O nor its timers are enabled: nearcall needs none.
pub(super) struct Awaiting {
    runtime: Runtime,
}

impl Awaiting {
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self { runtime: runtime::Builder::new_current_thread().build()? })
    }

    /// Returns the client's end of the calls of a cell.
    pub(super) fn end(
        &self,
        client: &Client,
        address: &str,
        cell: &CellSpec,
    ) -> Result<AsyncEnd<'_>, Failure> {
        let caller = BenchAsyncCaller::new(client, address).map_err(Failure::other)?;
        let argument = Argument { data: vec![0; cell.bytes()].into() };
        let runtime = &self.runtime;
        Ok(AsyncEnd { runtime, caller, argument, what: What::of(cell), stream: None })
    }
}

/// The client of calls that are awaited.
pub(super) struct AsyncEnd<'a> {
    runtime: &'a Runtime,
    caller: BenchAsyncCaller,
    argument: Argument,
    what: What,
    /// The stream of the phase that goes on.
    stream: Option<AsyncRequestStream<Argument, ()>>,
}

impl End for AsyncEnd<'_> {
    #[inline]
    fn send(&mut self, payload: &Payload, number: u64) -> Result<(), Failure> {
        let Self { runtime, caller, argument, what, stream } = self;
        if let What::Empty = what {
            return Ok(runtime.block_on(caller.nothing(&()))?);
        }
        rewrite(&mut argument.data, |bytes| payload.fill(number, 0, bytes));
        runtime.block_on(async {
            match what {
                What::Oneway => caller.note(argument).await?,
                What::Item => {
                    let stream = match stream {
                        Some(stream) => stream,
                        None => stream.insert(caller.upload().await?),
                    };
                    stream.send(argument).await?;
                }
                _ => caller.take(argument).await?,
            }
            Ok(())
        })
    }

    /// As the end of calls that block.
    fn send_mark(&mut self, _payload: &Payload, _number: u64) -> Result<bool, Failure> {
        let stream = self.stream.take();
        self.runtime.block_on(async {
            if let Some(stream) = stream {
                stream.finish().await?;
            }
            Ok(self.caller.mark(&()).await.map(|()| false)?)
        })
    }
}
