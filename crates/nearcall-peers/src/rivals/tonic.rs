//! gRPC by tonic, over a unix socket.

use ::tonic::transport::{Channel, Endpoint, Uri};
use ::tonic::{Request, Response, Status, Streaming};
use anyhow::Context;
use bytes::{Bytes, BytesMut};
use hyper_util::rt::TokioIo;
use nearcall_bench::payload::Payload;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::{ReceiverStream, UnixListenerStream};

use crate::measure::{Client, measure, verify};
use crate::request::{LaunchRequest, Line};
use crate::rival::{Rival, Waiting};
use crate::rivals::runtime;
use crate::service::Shared;

use generated::notes_client::NotesClient;
use generated::notes_server::{Notes, NotesServer};
use generated::rival_client::RivalClient;
use generated::rival_server::{Rival as Served, RivalServer};
use generated::{Argument, Count, Empty};

/// Made by the build script from `proto/rival.proto`.
#[allow(warnings, clippy::all, clippy::pedantic, clippy::restriction, reason = "generated")]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/rival.v1.rs"));
}

pub(crate) const ROW: Rival = Rival {
    name: "tonic",
    version: concat!("tonic ", env!("RIVAL_VERSION_TONIC")),
    waiting: Waiting::Sleeping,
    rate: "messages of a client stream",
    about: include_str!("../../about/tonic.txt"),
    missing: None,
    serve,
    ask,
    clean: || (),
};

fn serve(launch: &LaunchRequest) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let listener = UnixListener::bind(launch.folder.join("tonic"))?;
        let service = Shared::new(launch.seed);
        let limit = launch.message_bytes_max + SLACK_BYTES;
        let notes = NotesServer::new(service.clone());
        let service = RivalServer::new(service)
            .max_decoding_message_size(limit)
            .max_encoding_message_size(limit);
        Line::Listening.write()?;
        ::tonic::transport::Server::builder()
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .max_frame_size(FRAME_BYTES)
            .add_service(service)
            .add_service(notes)
            .serve_with_incoming(UnixListenerStream::new(listener))
            .await?;
        Ok(())
    })
}

#[::tonic::async_trait]
impl Served for Shared {
    async fn nothing(&self, _request: Request<Empty>) -> Result<Response<Empty>, Status> {
        Shared::take(self, &[]);
        Ok(Response::new(Empty {}))
    }

    async fn take(&self, request: Request<Argument>) -> Result<Response<Empty>, Status> {
        Shared::take(self, &request.get_ref().data);
        Ok(Response::new(Empty {}))
    }

    async fn echo(&self, request: Request<Argument>) -> Result<Response<Argument>, Status> {
        Shared::take(self, &request.get_ref().data);
        Ok(Response::new(request.into_inner()))
    }

    async fn received(&self, _request: Request<Empty>) -> Result<Response<Count>, Status> {
        Ok(Response::new(Count { messages: Shared::received(self) }))
    }
}

#[::tonic::async_trait]
impl Notes for Shared {
    async fn note(&self, request: Request<Streaming<Argument>>) -> Result<Response<Empty>, Status> {
        let mut stream = request.into_inner();
        while let Some(argument) = stream.next().await {
            Shared::take(self, &argument?.data);
        }
        Ok(Response::new(Empty {}))
    }
}

fn ask(launch: &LaunchRequest) -> anyhow::Result<()> {
    runtime()?.block_on(async {
        let path = launch.folder.join("tonic");
        // The address is not used: the connector knows where to go.
        let channel =
            Endpoint::from_static("http://rival")
                .initial_stream_window_size(WINDOW_BYTES)
                .initial_connection_window_size(WINDOW_BYTES)
                .connect_with_connector(tower::service_fn(move |_: Uri| {
                    let path = path.clone();
                    async move {
                        Ok::<_, std::io::Error>(TokioIo::new(UnixStream::connect(path).await?))
                    }
                }))
                .await?;
        let limit = launch.message_bytes_max + SLACK_BYTES;
        let notes = NotesClient::new(channel.clone());
        let client = RivalClient::new(channel)
            .max_decoding_message_size(limit)
            .max_encoding_message_size(limit);
        measure(Calls { client, notes, buffer: BytesMut::new(), stream: None }, launch).await
    })
}

struct Calls {
    client: RivalClient<Channel>,
    notes: NotesClient<Channel>,
    buffer: BytesMut,
    stream: Option<Stream>,
}

/// A call under way whose messages are sent one by one.
type Stream = (mpsc::Sender<Argument>, JoinHandle<Result<Response<Empty>, Status>>);

impl Calls {
    /// Fills the buffer, which comes back when the call is over.
    fn argument(&mut self, payload: &Payload, number: u64) -> Argument {
        self.buffer.resize(payload.message_bytes(), 0);
        payload.fill(number, 0, &mut self.buffer);
        Argument { data: std::mem::take(&mut self.buffer).freeze() }
    }

    fn give_back(&mut self, data: Bytes) {
        self.buffer = data.try_into_mut().unwrap_or_default();
    }
}

impl Client for Calls {
    async fn call(&mut self, echo: bool, payload: &Payload, number: u64) -> anyhow::Result<()> {
        if payload.message_bytes() == 0 {
            self.client.nothing(Empty {}).await?;
            return Ok(());
        }
        let argument = self.argument(payload, number);
        let data = argument.data.clone();
        if echo {
            let reply = self.client.echo(argument).await?;
            verify(payload, number, &reply.get_ref().data)?;
        } else {
            self.client.take(argument).await?;
        }
        self.give_back(data);
        Ok(())
    }

    async fn note(&mut self, payload: &Payload, number: u64) -> anyhow::Result<()> {
        if self.stream.is_none() {
            let (sender, receiver) = mpsc::channel(STREAM_MESSAGES);
            let mut client = self.notes.clone();
            let call = async move { client.note(ReceiverStream::new(receiver)).await };
            self.stream = Some((sender, tokio::spawn(call)));
        }
        let mut data = BytesMut::zeroed(payload.message_bytes());
        payload.fill(number, 0, &mut data);
        let (sender, _) = self.stream.as_ref().context("no stream")?;
        sender.send(Argument { data: data.freeze() }).await.context("the stream has ended")
    }

    async fn flush(&mut self) -> anyhow::Result<()> {
        if let Some((sender, call)) = self.stream.take() {
            drop(sender);
            call.await??;
        }
        Ok(())
    }

    async fn received(&mut self) -> anyhow::Result<u64> {
        Ok(self.client.received(Empty {}).await?.get_ref().messages)
    }
}

/// Room for a message's own fields beside its payload.
const SLACK_BYTES: usize = 1024;

/// No message waits for a window update: four of the largest.
const WINDOW_BYTES: u32 = 4 << 20;

/// The largest frame, so that a large message is one.
const FRAME_BYTES: u32 = (1 << 24) - 1;

/// Messages that wait to be sent.
const STREAM_MESSAGES: usize = 1024;
