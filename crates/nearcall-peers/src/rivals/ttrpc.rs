//! ttrpc, the light gRPC of containerd, in its threaded and its async form.

use std::sync::{Arc, Mutex, PoisonError};

use ::ttrpc::r#async as asynchronous;
use ::ttrpc::{Client as Connection, TtrpcContext, context};
use anyhow::Context;
use async_trait::async_trait;
use nearcall_bench::payload::Payload;

use crate::launch::{Line, Orders};
use crate::measure::{self, Client, at_once, verify};
use crate::rival::{Rival, Waiting};
use crate::rivals::runtime;
use crate::service::Service;

use tasks::notes_ttrpc;
use tasks::rival as task;
use tasks::rival_ttrpc as task_ttrpc;
use threads::rival as thread;
use threads::rival_ttrpc as thread_ttrpc;

/// Made by the build script from `proto/rival.proto`, for threads.
#[allow(warnings, clippy::all, clippy::pedantic, clippy::restriction, reason = "generated")]
mod threads {
    include!(concat!(env!("OUT_DIR"), "/ttrpc_threads/mod.rs"));
}

/// The same, for tasks.
#[allow(warnings, clippy::all, clippy::pedantic, clippy::restriction, reason = "generated")]
mod tasks {
    include!(concat!(env!("OUT_DIR"), "/ttrpc_tasks/mod.rs"));
}

pub(crate) const THREADS: Rival = Rival {
    name: "ttrpc-sync",
    version: concat!("ttrpc ", env!("RIVAL_VERSION_TTRPC")),
    waiting: Waiting::Sleeping,
    rate: "calls, one after the other: it has neither one-way calls nor streams",
    about: include_str!("../../about/ttrpc.txt"),
    missing: None,
    serve: serve_with_threads,
    ask: ask_with_threads,
    clean: || (),
};

pub(crate) const TASKS: Rival = Rival {
    name: "ttrpc-async",
    rate: "messages of a client stream",
    serve: serve_with_tasks,
    ask: ask_with_tasks,
    ..THREADS
};

fn address(orders: &Orders) -> String {
    format!("unix://{}", orders.folder.join("ttrpc").display())
}

struct Reader {
    service: Mutex<Service>,
}

impl Reader {
    fn new(orders: &Orders) -> Arc<Self> {
        Arc::new(Self { service: Mutex::new(Service::new(orders.seed)) })
    }

    fn judge(&self, bytes: &[u8]) {
        self.service.lock().unwrap_or_else(PoisonError::into_inner).take(bytes);
    }

    fn count(&self) -> u64 {
        self.service.lock().unwrap_or_else(PoisonError::into_inner).received()
    }
}

fn serve_with_threads(orders: &Orders) -> anyhow::Result<()> {
    let service = thread_ttrpc::create_rival(Reader::new(orders));
    let server = ::ttrpc::Server::new().bind(&address(orders))?;
    let mut server = server.register_service(service);
    server.start()?;
    Line::Listening.write()?;
    loop {
        std::thread::park();
    }
}

impl thread_ttrpc::Rival for Reader {
    fn nothing(&self, _: &TtrpcContext, _: thread::Empty) -> ::ttrpc::Result<thread::Empty> {
        self.judge(&[]);
        Ok(thread::Empty::new())
    }

    fn take(&self, _: &TtrpcContext, data: thread::Argument) -> ::ttrpc::Result<thread::Empty> {
        self.judge(&data.data);
        Ok(thread::Empty::new())
    }

    fn echo(&self, _: &TtrpcContext, data: thread::Argument) -> ::ttrpc::Result<thread::Argument> {
        self.judge(&data.data);
        Ok(data)
    }

    fn received(&self, _: &TtrpcContext, _: thread::Empty) -> ::ttrpc::Result<thread::Count> {
        Ok(thread::Count { messages: self.count(), ..Default::default() })
    }
}

fn serve_with_tasks(orders: &Orders) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let reader = Reader::new(orders);
        let notes = notes_ttrpc::create_notes(Arc::clone(&reader) as _);
        let service = task_ttrpc::create_rival(reader);
        let server = asynchronous::Server::new().bind(&address(orders))?;
        let mut server = server.register_service(service).register_service(notes);
        server.start().await?;
        Line::Listening.write()?;
        std::future::pending().await
    })
}

#[async_trait]
impl task_ttrpc::Rival for Reader {
    async fn nothing(
        &self,
        _: &asynchronous::TtrpcContext,
        _: task::Empty,
    ) -> ::ttrpc::Result<task::Empty> {
        self.judge(&[]);
        Ok(task::Empty::new())
    }

    async fn take(
        &self,
        _: &asynchronous::TtrpcContext,
        data: task::Argument,
    ) -> ::ttrpc::Result<task::Empty> {
        self.judge(&data.data);
        Ok(task::Empty::new())
    }

    async fn echo(
        &self,
        _: &asynchronous::TtrpcContext,
        data: task::Argument,
    ) -> ::ttrpc::Result<task::Argument> {
        self.judge(&data.data);
        Ok(data)
    }

    async fn received(
        &self,
        _: &asynchronous::TtrpcContext,
        _: task::Empty,
    ) -> ::ttrpc::Result<task::Count> {
        Ok(task::Count { messages: self.count(), ..Default::default() })
    }
}

#[async_trait]
impl notes_ttrpc::Notes for Reader {
    async fn note(
        &self,
        _: &asynchronous::TtrpcContext,
        mut stream: asynchronous::ServerStreamReceiver<task::Argument>,
    ) -> ::ttrpc::Result<task::Empty> {
        while let Some(argument) = stream.recv().await? {
            self.judge(&argument.data);
        }
        Ok(task::Empty::new())
    }
}

fn ask_with_threads(orders: &Orders) -> anyhow::Result<()> {
    let connection = Connection::connect(&address(orders))?;
    let client = thread_ttrpc::RivalClient::new(connection);
    at_once(measure::measure(Threads { client, argument: thread::Argument::new() }, orders))
}

struct Threads {
    client: thread_ttrpc::RivalClient,
    argument: thread::Argument,
}

impl Threads {
    fn fill(&mut self, payload: &Payload, number: u64) {
        self.argument.data.resize(payload.message_bytes(), 0);
        payload.fill(number, 0, &mut self.argument.data);
    }
}

impl Client for Threads {
    async fn call(&mut self, echo: bool, payload: &Payload, number: u64) -> anyhow::Result<()> {
        let context = context::with_timeout(0);
        if payload.message_bytes() == 0 {
            self.client.nothing(context, &thread::Empty::new())?;
            return Ok(());
        }
        self.fill(payload, number);
        if echo {
            let reply = self.client.echo(context, &self.argument)?;
            verify(payload, number, &reply.data)?;
        } else {
            self.client.take(context, &self.argument)?;
        }
        Ok(())
    }

    async fn note(&mut self, payload: &Payload, number: u64) -> anyhow::Result<()> {
        self.call(false, payload, number).await
    }

    async fn flush(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    async fn received(&mut self) -> anyhow::Result<u64> {
        let reply = self.client.received(context::with_timeout(0), &thread::Empty::new())?;
        Ok(reply.messages)
    }
}

fn ask_with_tasks(orders: &Orders) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let connection = asynchronous::Client::connect(&address(orders)).await?;
        let notes = notes_ttrpc::NotesClient::new(connection.clone());
        let client = task_ttrpc::RivalClient::new(connection);
        let argument = task::Argument::new();
        measure::measure(Tasks { client, notes, argument, stream: None }, orders).await
    })
}

struct Tasks {
    client: task_ttrpc::RivalClient,
    notes: notes_ttrpc::NotesClient,
    argument: task::Argument,
    stream: Option<asynchronous::ClientStreamSender<task::Argument, task::Empty>>,
}

impl Tasks {
    fn fill(&mut self, payload: &Payload, number: u64) {
        self.argument.data.resize(payload.message_bytes(), 0);
        payload.fill(number, 0, &mut self.argument.data);
    }
}

impl Client for Tasks {
    async fn call(&mut self, echo: bool, payload: &Payload, number: u64) -> anyhow::Result<()> {
        let context = context::with_timeout(0);
        if payload.message_bytes() == 0 {
            self.client.nothing(context, &task::Empty::new()).await?;
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
        Ok(self.client.received(context, &task::Empty::new()).await?.messages)
    }
}
