//! ttrpc, the light gRPC of containerd, in its async form.

use std::sync::Arc;

use ::ttrpc::r#async::{self as asynchronous, TtrpcContext};
use ::ttrpc::context;
use anyhow::Context;
use async_trait::async_trait;
use nearcall_bench::payload::Payload;

use crate::measure::{self, Client, verify};
use crate::request::{LaunchRequest, Line};
use crate::rival::{Rival, Waiting};
use crate::rivals::runtime;
use crate::service::Shared;

use generated::notes_ttrpc;
use generated::rival::{Argument, Count, Empty};
use generated::rival_ttrpc;

/// Made by the build script from `proto/rival.proto`.
#[allow(warnings, clippy::all, clippy::pedantic, clippy::restriction, reason = "generated")]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/ttrpc/mod.rs"));
}

pub(crate) const ROW: Rival = Rival {
    name: "ttrpc",
    version: concat!("ttrpc ", env!("RIVAL_VERSION_TTRPC")),
    waiting: Waiting::Sleeping,
    rate: "messages of a client stream",
    about: include_str!("../../about/ttrpc.txt"),
    missing: None,
    serve,
    ask,
    clean: || (),
};

fn address(request: &LaunchRequest) -> String {
    format!("unix://{}", request.folder.join("ttrpc").display())
}

fn serve(request: &LaunchRequest) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let reader = Arc::new(Shared::new(request.seed));
        let notes = notes_ttrpc::create_notes(Arc::clone(&reader) as _);
        let service = rival_ttrpc::create_rival(reader);
        let server = asynchronous::Server::new().bind(&address(request))?;
        let mut server = server.register_service(service).register_service(notes);
        server.start().await?;
        Line::Listening.write()?;
        std::future::pending().await
    })
}

#[async_trait]
impl rival_ttrpc::Rival for Shared {
    async fn nothing(&self, _: &TtrpcContext, _: Empty) -> ::ttrpc::Result<Empty> {
        Shared::take(self, &[]);
        Ok(Empty::new())
    }

    async fn take(&self, _: &TtrpcContext, data: Argument) -> ::ttrpc::Result<Empty> {
        Shared::take(self, &data.data);
        Ok(Empty::new())
    }

    async fn echo(&self, _: &TtrpcContext, data: Argument) -> ::ttrpc::Result<Argument> {
        Shared::take(self, &data.data);
        Ok(data)
    }

    async fn received(&self, _: &TtrpcContext, _: Empty) -> ::ttrpc::Result<Count> {
        Ok(Count { messages: Shared::received(self), ..Default::default() })
    }
}

#[async_trait]
impl notes_ttrpc::Notes for Shared {
    async fn note(
        &self,
        _: &TtrpcContext,
        mut stream: asynchronous::ServerStreamReceiver<Argument>,
    ) -> ::ttrpc::Result<Empty> {
        while let Some(argument) = stream.recv().await? {
            Shared::take(self, &argument.data);
        }
        Ok(Empty::new())
    }
}

fn ask(request: &LaunchRequest) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let connection = asynchronous::Client::connect(&address(request)).await?;
        let notes = notes_ttrpc::NotesClient::new(connection.clone());
        let client = rival_ttrpc::RivalClient::new(connection);
        let argument = Argument::new();
        measure::measure(Calls { client, notes, argument, stream: None }, request).await
    })
}

struct Calls {
    client: rival_ttrpc::RivalClient,
    notes: notes_ttrpc::NotesClient,
    argument: Argument,
    stream: Option<asynchronous::ClientStreamSender<Argument, Empty>>,
}

impl Calls {
    fn fill(&mut self, payload: &Payload, number: u64) {
        self.argument.data.resize(payload.message_bytes(), 0);
        payload.fill(number, 0, &mut self.argument.data);
    }
}

impl Client for Calls {
    async fn call(&mut self, echo: bool, payload: &Payload, number: u64) -> anyhow::Result<()> {
        let context = context::with_timeout(0);
        if payload.message_bytes() == 0 {
            self.client.nothing(context, &Empty::new()).await?;
            return Ok(());
        }
        self.fill(payload, number);
        if echo {
            let reply = self.client.echo(context, &self.argument).await?;
            verify(payload, number, &reply.data)?;
        } else {
            self.client.take(context, &self.argument).await?;
        }
        Ok(())
    }

    async fn note(&mut self, payload: &Payload, number: u64) -> anyhow::Result<()> {
        self.fill(payload, number);
        if self.stream.is_none() {
            self.stream = Some(self.notes.note(context::with_timeout(0)).await?);
        }
        let stream = self.stream.as_ref().context("no stream")?;
        Ok(stream.send(&self.argument).await?)
    }

    async fn flush(&mut self) -> anyhow::Result<()> {
        if let Some(mut stream) = self.stream.take() {
            stream.close_and_recv().await?;
        }
        Ok(())
    }

    async fn received(&mut self) -> anyhow::Result<u64> {
        let context = context::with_timeout(0);
        Ok(self.client.received(context, &Empty::new()).await?.messages)
    }
}
