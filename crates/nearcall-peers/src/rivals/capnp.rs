//! Cap'n Proto RPC, two parties over a unix socket.

use std::cell::RefCell;
use std::rc::Rc;

use ::capnp::capability::Rc as Served;
use ::capnp::message::ReaderOptions;
use capnp_rpc::rpc_twoparty_capnp::Side;
use capnp_rpc::{RpcSystem, twoparty};
use futures::AsyncReadExt;
use nearcall_bench::payload::Payload;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::compat::TokioAsyncReadCompatExt;

use crate::launch::{Line, Orders};
use crate::measure::{self, Client, verify};
use crate::rival::{Rival, Waiting};
use crate::rivals::runtime;
use crate::service::Service;

use rival_capnp::rival;

/// Made from `schema/rival.capnp`.
#[allow(warnings, clippy::all, clippy::pedantic, clippy::restriction, reason = "generated")]
mod rival_capnp {
    include!("golden/rival_capnp.rs");
}

pub(crate) const ROW: Rival = Rival {
    name: "capnp",
    version: concat!("capnp-rpc ", env!("RIVAL_VERSION_CAPNP_RPC")),
    waiting: Waiting::Sleeping,
    rate: "calls of a streaming method",
    about: include_str!("../../about/capnp.txt"),
    missing: None,
    serve,
    ask,
    clean: || (),
};

fn system(stream: UnixStream, side: Side, bootstrap: Option<rival::Client>) -> RpcSystem<Side> {
    let (reader, writer) = stream.compat().split();
    let mut options = ReaderOptions::new();
    // Payloads are read once, but the default limit counts all readings of a message.
    options.traversal_limit_in_words(None);
    let reader = futures::io::BufReader::with_capacity(BUFFER_BYTES, reader);
    let writer = futures::io::BufWriter::with_capacity(BUFFER_BYTES, writer);
    let mut network = twoparty::VatNetwork::new(reader, writer, side, options);
    network.set_window_size(WINDOW_BYTES);
    RpcSystem::new(Box::new(network), bootstrap.map(|client| client.client))
}

fn serve(orders: &Orders) -> anyhow::Result<()> {
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime()?, async {
        let listener = UnixListener::bind(orders.folder.join("capnp"))?;
        Line::Listening.write()?;
        let (stream, _) = listener.accept().await?;
        let service = RefCell::new(Service::new(orders.seed));
        let bootstrap: rival::Client = capnp_rpc::new_client(Reader { service });
        Ok(system(stream, Side::Server, Some(bootstrap)).await?)
    })
}

struct Reader {
    service: RefCell<Service>,
}

impl rival::Server for Reader {
    async fn nothing(
        self: Served<Self>,
        _params: rival::NothingParams,
        _results: rival::NothingResults,
    ) -> Result<(), ::capnp::Error> {
        self.service.borrow_mut().take(&[]);
        Ok(())
    }

    async fn take(
        self: Served<Self>,
        params: rival::TakeParams,
        _results: rival::TakeResults,
    ) -> Result<(), ::capnp::Error> {
        self.service.borrow_mut().take(params.get()?.get_data()?);
        Ok(())
    }

    async fn echo(
        self: Served<Self>,
        params: rival::EchoParams,
        mut results: rival::EchoResults,
    ) -> Result<(), ::capnp::Error> {
        let data = params.get()?.get_data()?;
        self.service.borrow_mut().take(data);
        results.get().set_data(data);
        Ok(())
    }

    async fn note(self: Served<Self>, params: rival::NoteParams) -> Result<(), ::capnp::Error> {
        self.service.borrow_mut().take(params.get()?.get_data()?);
        Ok(())
    }

    async fn received(
        self: Served<Self>,
        _params: rival::ReceivedParams,
        mut results: rival::ReceivedResults,
    ) -> Result<(), ::capnp::Error> {
        results.get().set_messages(self.service.borrow().received());
        Ok(())
    }
}

fn ask(orders: &Orders) -> anyhow::Result<()> {
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime()?, async {
        let stream = UnixStream::connect(orders.folder.join("capnp")).await?;
        let mut system = system(stream, Side::Client, None);
        let client: rival::Client = system.bootstrap(Side::Server);
        let system = Rc::new(tokio::task::spawn_local(system));
        let outcome = measure::measure(Calls { client }, orders).await;
        system.abort();
        outcome
    })
}

struct Calls {
    client: rival::Client,
}

impl Client for Calls {
    async fn call(&mut self, echo: bool, payload: &Payload, number: u64) -> anyhow::Result<()> {
        let bytes = payload.message_bytes();
        if bytes == 0 {
            self.client.nothing_request().send().promise.await?;
        } else if echo {
            let mut request = self.client.echo_request();
            payload.fill(number, 0, request.get().init_data(u32::try_from(bytes)?));
            let reply = request.send().promise.await?;
            verify(payload, number, reply.get()?.get_data()?)?;
        } else {
            let mut request = self.client.take_request();
            payload.fill(number, 0, request.get().init_data(u32::try_from(bytes)?));
            request.send().promise.await?;
        }
        Ok(())
    }

    async fn note(&mut self, payload: &Payload, number: u64) -> anyhow::Result<()> {
        let mut request = self.client.note_request();
        let bytes = u32::try_from(payload.message_bytes())?;
        payload.fill(number, 0, request.get().init_data(bytes));
        Ok(request.send().await?)
    }

    async fn flush(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    async fn received(&mut self) -> anyhow::Result<u64> {
        let reply = self.client.received_request().send().promise.await?;
        Ok(reply.get()?.get_messages())
    }
}

/// What one read or write of small messages takes.
const BUFFER_BYTES: usize = 64 << 10;

/// How much of a stream may be under way, many small messages of it.
const WINDOW_BYTES: usize = 256 << 10;
