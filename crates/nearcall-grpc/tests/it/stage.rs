//! What the tests share: a server of nearcall with streams, a gateway before it, and a client.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::uri::PathAndQuery;
use nearcall::dynamic::{
    DynamicDispatcher, DynamicRequest, DynamicService, Encoded, interface_from_descriptor_set,
};
use nearcall::server::RunningServer;
use nearcall::service::Interface;
use nearcall::{CallContext, Code, Server};
use nearcall_grpc::{Gateway, GatewayBuilder, RunningGateway};
use nearcall_testkit::echo::{EchoCaller, Failure};
use nearcall_testkit::streams::{Plan, StreamsCaller};
use nearcall_testkit::support::unique_address;
use prost::Message;
use tokio::runtime::Runtime;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

pub(crate) use nearcall::prost;
pub(crate) use nearcall_testkit::streams::Item;
pub(crate) use nearcall_testkit::timed;

pub(crate) const STREAMS: &Interface = StreamsCaller::INTERFACE;
pub(crate) const ECHO: &Interface = EchoCaller::INTERFACE;

/// What the service has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Calls that have begun.
    pub(crate) begun: AtomicU64,
    /// Calls that were dropped before their end.
    pub(crate) dropped: AtomicU64,
    /// One-way messages.
    pub(crate) noted: AtomicU64,
    /// Items that were sent.
    pub(crate) sent: AtomicU64,
}

struct Service(Arc<Seen>);

/// Counts a call that is dropped.
struct Unfinished<'a>(&'a Seen);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

impl DynamicService for Service {
    async fn serve(
        &self,
        context: CallContext,
        request: DynamicRequest,
    ) -> Result<Encoded, nearcall::Status> {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        // What came goes back.
        for (key, value) in context.metadata().iter() {
            let key = format!("seen-{key}");
            context.add_reply_metadata_bin(&key, value)?;
        }
        let unfinished = Unfinished(&self.0);
        let answer = match request {
            DynamicRequest::Unary(request) => self.unary(context.method(), request).await,
            DynamicRequest::ReplyStream(plan, mut items) => {
                let plan: Plan = plan.decode()?;
                let item = Item { number: 7, data: vec![1; plan.bytes as usize].into() };
                for number in 0..plan.items {
                    let item = Item { number, ..item.clone() };
                    items.send(&Encoded::new(&item)?).await?;
                    self.0.sent.fetch_add(1, Ordering::Relaxed);
                }
                end_of(&plan)
            }
            DynamicRequest::RequestStream(mut items) => {
                let mut number = 0;
                while let Some(item) = items.next().await {
                    let item: Item = item?.decode()?;
                    if item.number == REFUSED {
                        return Err(nearcall::Status::out_of_range("as sent"));
                    }
                    number += item.number;
                }
                Encoded::new(&Item { number, ..Item::default() })
            }
            DynamicRequest::BothStreams(mut items, mut replies) => {
                while let Some(item) = items.next().await {
                    replies.send(&item?).await?;
                }
                Ok(Encoded::default())
            }
        };
        std::mem::forget(unfinished);
        answer
    }
}

/// The number of an item that has the service end a stream of requests.
pub(crate) const REFUSED: u64 = 666;

fn end_of(plan: &Plan) -> Result<Encoded, nearcall::Status> {
    match u16::try_from(plan.code).ok().and_then(Code::from_number) {
        None | Some(Code::Ok) => Ok(Encoded::default()),
        Some(code) => Err(nearcall::Status::new(code, "as planned")),
    }
}

impl Service {
    async fn unary(&self, method: &str, request: Encoded) -> Result<Encoded, nearcall::Status> {
        match method {
            "Note" => {
                self.0.noted.fetch_add(1, Ordering::Relaxed);
                Ok(request)
            }
            "Fail" => {
                let failure: Failure = request.decode()?;
                let code = u16::try_from(failure.code).ok().and_then(Code::from_number).unwrap();
                let status = nearcall::Status::new(code, failure.text);
                let status = status.with_metadata("room", "attic")?;
                Err(status.with_metadata_bin("grpc-status-details-bin", b"\x08\x05\0\xff")?)
            }
            "Work" | "Quick" => std::future::pending().await,
            _ => Ok(request),
        }
    }
}

/// Serves the streams and the echo at an address.
pub(crate) fn serve(address: &str) -> (RunningServer, Arc<Seen>) {
    let seen = Arc::default();
    let dispatcher = |interface: &Interface| {
        let set = interface.descriptor_set;
        let interface = interface_from_descriptor_set(set, interface.name).unwrap();
        DynamicDispatcher::new(interface, Service(Arc::clone(&seen)))
    };
    let server = Server::builder().register(dispatcher(STREAMS)).register(dispatcher(ECHO));
    (server.listen(address).start().unwrap(), seen)
}

/// A server, a gateway before it, and a client of that.
pub(crate) struct Stage {
    pub(crate) runtime: Runtime,
    pub(crate) channel: Channel,
    pub(crate) gateway: RunningGateway,
    pub(crate) address: String,
    pub(crate) server: RunningServer,
    pub(crate) seen: Arc<Seen>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(|gateway| gateway)
    }

    pub(crate) fn with(set: impl FnOnce(GatewayBuilder) -> GatewayBuilder) -> Self {
        let address = unique_address();
        let (server, seen) = serve(&address);
        let gateway = set(gateway_to(&address)).start().unwrap();
        let runtime = runtime();
        let channel = runtime.block_on(connect(&gateway));
        Self { runtime, channel, gateway, address, server, seen }
    }

    /// Returns what calls methods, with messages of any length.
    pub(crate) fn client(&self) -> Grpc<Channel> {
        Grpc::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }

    /// Calls a method with one request and one reply.
    pub(crate) fn call<Q, R>(&self, path: &'static str, request: Request<Q>) -> Answer<R>
    where
        Q: Message + Default + 'static,
        R: Message + Default + 'static,
    {
        self.runtime.block_on(unary(&mut self.client(), path, request))
    }

    pub(crate) fn place(&self) -> std::net::SocketAddr {
        self.gateway.addresses()[0]
    }

    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn() -> bool) {
        wait_until(what, is_so);
    }
}

pub(crate) type Answer<R> = Result<Response<R>, Status>;

pub(crate) fn gateway_to(address: &str) -> GatewayBuilder {
    Gateway::builder().expose(address, &[STREAMS.name, ECHO.name]).listen("127.0.0.1:0")
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

pub(crate) async fn connect(gateway: &RunningGateway) -> Channel {
    let place = format!("http://{}", gateway.addresses()[0]);
    Endpoint::from_shared(place).unwrap().connect().await.unwrap()
}

pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..1_000 {
        if is_so() {
            return;
        }
        nearcall_os::clock::pause(Duration::from_millis(10));
    }
    panic!("still not: {what}");
}

pub(crate) async fn unary<Q, R>(
    client: &mut Grpc<Channel>,
    path: &'static str,
    request: Request<Q>,
) -> Answer<R>
where
    Q: Message + Default + 'static,
    R: Message + Default + 'static,
{
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static(path);
    client.unary(request, path, ProstCodec::<Q, R>::default()).await
}

pub(crate) async fn reply_stream<Q, R>(
    client: &mut Grpc<Channel>,
    path: &'static str,
    request: Request<Q>,
) -> Result<Streaming<R>, Status>
where
    Q: Message + Default + 'static,
    R: Message + Default + 'static,
{
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static(path);
    let answer = client.server_streaming(request, path, ProstCodec::<Q, R>::default()).await?;
    Ok(answer.into_inner())
}

pub(crate) trait Items: futures_core::Stream<Item = Item> + Send + 'static {}

impl<S: futures_core::Stream<Item = Item> + Send + 'static> Items for S {}

pub(crate) async fn both_streams(
    client: &mut Grpc<Channel>,
    items: impl Items,
) -> Result<Streaming<Item>, Status> {
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/streams.v1.Streams/Exchange");
    let codec = ProstCodec::<Item, Item>::default();
    Ok(client.streaming(Request::new(items), path, codec).await?.into_inner())
}

pub(crate) async fn request_stream(client: &mut Grpc<Channel>, items: impl Items) -> Answer<Item> {
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static("/streams.v1.Streams/Sum");
    let codec = ProstCodec::<Item, Item>::default();
    client.client_streaming(Request::new(items), path, codec).await
}

pub(crate) fn item(number: u64, bytes: usize) -> Item {
    Item { number, data: vec![7; bytes].into() }
}

/// Longest time of a test. On a machine whose processors are all taken they are slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a test in a thread of its own, and panics if that takes too long.
pub(crate) fn in_time<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, receive) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || send.send(body()));
    match receive.recv_timeout(PATIENCE) {
        Ok(value) => value,
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("not done in {PATIENCE:?}"),
        Err(_) => match thread.join() {
            Err(panicked) => std::panic::resume_unwind(panicked),
            Ok(_) => unreachable!("it has sent its value"),
        },
    }
}
