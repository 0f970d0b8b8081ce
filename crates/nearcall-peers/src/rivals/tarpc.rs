//! tarpc over its serde transport on a unix socket.

use ::tarpc::client::{Config, RpcError};
use ::tarpc::context;
use ::tarpc::serde_transport::unix;
use ::tarpc::server::{BaseChannel, Channel};
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use nearcall_bench::payload::Payload;
use serde_bytes::ByteBuf;
use tokio_serde::formats::Bincode;

use crate::measure::{self, Client, verify};
use crate::request::{LaunchRequest, Line};
use crate::rival::{Rival, Waiting};
use crate::rivals::{PIPELINED_CALLS, runtime};
use crate::service::Shared;

pub(crate) const ROW: Rival = Rival {
    name: "tarpc",
    version: concat!("tarpc ", env!("RIVAL_VERSION_TARPC")),
    waiting: Waiting::Sleeping,
    rate: "pipelined calls, at most 64 at once: it has no one-way calls",
    about: include_str!("../../about/tarpc.txt"),
    missing: None,
    serve,
    ask,
    clean: || (),
};

/// What is called.
#[::tarpc::service]
trait Peer {
    /// Nothing in, nothing out.
    async fn nothing();
    /// Reads the argument.
    async fn take(data: ByteBuf);
    /// Reads the argument and gives it back.
    async fn echo(data: ByteBuf) -> ByteBuf;
    /// How many messages have come.
    async fn received() -> u64;
}

fn serve(request: &LaunchRequest) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let path = request.folder.join("tarpc");
        let mut incoming = unix::listen(path, Bincode::default).await?;
        incoming.config_mut().max_frame_length(request.message_bytes_max + SLACK_BYTES);
        Line::Listening.write()?;
        let reader = Shared::new(request.seed);
        while let Some(transport) = incoming.next().await {
            let channel = BaseChannel::with_defaults(transport?);
            tokio::spawn(channel.execute(reader.clone().serve()).for_each(|call| async {
                tokio::spawn(call);
            }));
        }
        Ok(())
    })
}

impl Peer for Shared {
    async fn nothing(self, _context: context::Context) {
        Shared::take(&self, &[]);
    }

    async fn take(self, _context: context::Context, data: ByteBuf) {
        Shared::take(&self, &data);
    }

    async fn echo(self, _context: context::Context, data: ByteBuf) -> ByteBuf {
        Shared::take(&self, &data);
        data
    }

    async fn received(self, _context: context::Context) -> u64 {
        Shared::received(&self)
    }
}

fn ask(request: &LaunchRequest) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let mut connect = unix::connect(request.folder.join("tarpc"), Bincode::default);
        connect.config_mut().max_frame_length(request.message_bytes_max + SLACK_BYTES);
        let client = PeerClient::new(Config::default(), connect.await?).spawn();
        measure::measure(Calls { client, pending: FuturesUnordered::new() }, request).await
    })
}

struct Calls {
    client: PeerClient,
    pending: FuturesUnordered<BoxFuture<'static, Result<(), RpcError>>>,
}

/// A new buffer for every call: the library takes it along.
fn argument(payload: &Payload, number: u64) -> ByteBuf {
    let mut data = Vec::with_capacity(payload.message_bytes());
    payload.parts(number, |part| data.extend_from_slice(part));
    ByteBuf::from(data)
}

impl Client for Calls {
    async fn call(&mut self, echo: bool, payload: &Payload, number: u64) -> anyhow::Result<()> {
        let context = context::current();
        if payload.message_bytes() == 0 {
            self.client.nothing(context).await?;
        } else if echo {
            let reply = self.client.echo(context, argument(payload, number)).await?;
            verify(payload, number, &reply)?;
        } else {
            self.client.take(context, argument(payload, number)).await?;
        }
        Ok(())
    }

    async fn note(&mut self, payload: &Payload, number: u64) -> anyhow::Result<()> {
        let (client, data) = (self.client.clone(), argument(payload, number));
        let call = async move { client.take(context::current(), data).await };
        self.pending.push(call.boxed());
        while self.pending.len() >= PIPELINED_CALLS {
            self.pending.next().await.transpose()?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> anyhow::Result<()> {
        while let Some(outcome) = self.pending.next().await {
            outcome?;
        }
        Ok(())
    }

    async fn received(&mut self) -> anyhow::Result<u64> {
        Ok(self.client.received(context::current()).await?)
    }
}

/// Room for a message's own fields beside its payload.
const SLACK_BYTES: usize = 1024;
