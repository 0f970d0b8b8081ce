//! A call of gRPC, of whatever shape, as one of nearcall.
//!
//! **Invariants:** nothing here keeps more than one message of each direction: a side that is slow
//! holds the other. A call of which the peer wants to know no more is dropped, and so cancelled.
//! **Not here:** HTTP/2 (`connections.rs`), which calls there are (`exposed.rs`).

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_core::Stream;
use futures_util::{StreamExt, stream};
use hyper::body::Incoming;
use nearcall::client::ReplyMetadata;
use nearcall::dynamic::{AsyncDynamicCaller, Encoded};
use nearcall::service::{Interface, MethodKind};
use nearcall::stream::{AsyncReplyStream, AsyncRequestStream};
use nearcall::{CallOptions, Code};
use tokio::task::AbortHandle;
use tonic::codec::CompressionEncoding::{Gzip, Zstd};
use tonic::metadata::MetadataMap;
use tonic::server::{Grpc, StreamingService};
use tonic::{Request, Response, Status, Streaming};

use super::Shared;
use super::connections::Peer;
use super::request_body::{GIVEN_UP, RequestBody};
use super::timeout::{passed, timeout_of};
use crate::codec::BytesCodec;
use crate::convert::{entries_of, metadata_of, to_grpc, with_entry};

/// The keys of the metadata that say who calls. They are not taken from peers.
const PEER_ADDRESS: &str = "nearcall-peer-address";
const PEER_NAME: &str = "nearcall-peer-name";

type Replies = Pin<Box<dyn Stream<Item = Result<Encoded, Status>> + Send>>;

/// Answers a request for a method of an exposed interface.
pub(super) async fn answer(
    shared: &Arc<Shared>,
    peer: &Arc<Peer>,
    request: http::Request<Incoming>,
) -> http::Response<tonic::body::Body> {
    let message_bytes_max = shared.limits.message_bytes_max;
    let mut grpc = Grpc::new(BytesCodec)
        .max_decoding_message_size(usize::try_from(message_bytes_max).unwrap_or(usize::MAX))
        .accept_compressed(Gzip)
        .accept_compressed(Zstd);
    if shared.compresses_replies {
        grpc = grpc.send_compressed(Gzip).send_compressed(Zstd);
    }
    let path = request.uri().path().to_owned();
    let call = Call { shared: Arc::clone(shared), peer: Arc::clone(peer), path };
    grpc.streaming(call, request.map(RequestBody)).await
}

struct Call {
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    /// `/package.Service/Method`
    path: String,
}

impl StreamingService<Encoded> for Call {
    type Response = Encoded;
    type ResponseStream = Replies;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Replies>, Status>> + Send>>;

    fn call(&mut self, request: Request<Streaming<Encoded>>) -> Self::Future {
        let (shared, peer) = (Arc::clone(&self.shared), Arc::clone(&self.peer));
        let path = std::mem::take(&mut self.path);
        Box::pin(async move {
            let timeout = timeout_of(request.metadata().as_ref())?;
            let options = options_of(request.metadata(), timeout, &peer);
            let answer = begin(&shared, &path, options, request.into_inner());
            match timeout {
                Some(timeout) => {
                    tokio::time::timeout(timeout, answer).await.map_err(|_| passed())?
                }
                None => answer.await,
            }
        })
    }
}

/// Returns the options of a call with what the peer sent, and who it is.
fn options_of(sent: &MetadataMap, timeout: Option<Duration>, peer: &Peer) -> CallOptions {
    let mut options = CallOptions::new();
    if let Some(timeout) = timeout {
        options = options.deadline(timeout);
    }
    for (key, value) in entries_of(sent) {
        options = with_entry(options, key, &value);
    }
    options = with_entry(options, PEER_ADDRESS, peer.address.to_string().as_bytes());
    peer.names.iter().fold(options, |options, name| with_entry(options, PEER_NAME, name.as_bytes()))
}

/// Makes a call, and returns when there is something to say of its end or its first reply.
async fn begin(
    shared: &Shared,
    path: &str,
    options: CallOptions,
    requests: Streaming<Encoded>,
) -> Result<Response<Replies>, Status> {
    let no_such = || Status::unimplemented(format!("there is no method {path:?} here"));
    let (service, method) =
        path.strip_prefix('/').and_then(|path| path.split_once('/')).ok_or_else(no_such)?;
    let servers = shared.exposed.find(service).ok_or_else(no_such)?;
    let (caller, interface) = servers.caller(&options).await.map_err(|it| to_grpc(&it))?;
    let kind = kind_of(interface, method).ok_or_else(no_such)?;
    match kind {
        MethodKind::Unary => unary(&caller, method, requests).await,
        MethodKind::Oneway => {
            let request = only(requests).await?;
            caller.send(method, &request).await.map_err(|it| to_grpc(&it))?;
            Ok(reply(Encoded::default(), &ReplyMetadata::default()))
        }
        MethodKind::ReplyStream => {
            let request = only(requests).await?;
            let replies = caller.open_reply_stream(method, &request).await;
            Flow { replies: replies.map_err(|it| to_grpc(&it))?, requests: None }.answer().await
        }
        MethodKind::RequestStream => {
            let stream = caller.open_request_stream(method).await.map_err(|it| to_grpc(&it))?;
            collect(stream, requests).await
        }
        MethodKind::BothStreams => {
            let opened = caller.open_both_streams(method).await;
            let (stream, replies) = opened.map_err(|it| to_grpc(&it))?;
            let requests = Some(Requests::send(stream, requests));
            Flow { replies, requests }.answer().await
        }
    }
}

fn kind_of(interface: &Interface, method: &str) -> Option<MethodKind> {
    interface.method_named(method).map(|method| method.kind)
}

/// Returns the only message of a request that is no stream.
async fn only(mut requests: Streaming<Encoded>) -> Result<Encoded, Status> {
    let none = || Status::internal("the request has no message; a method like this takes one");
    let request = next(&mut requests).await?.ok_or_else(none)?;
    match next(&mut requests).await? {
        None => Ok(request),
        Some(_) => Err(Status::internal("the request has several messages; the method takes one")),
    }
}

/// Returns the next message of a peer.
async fn next(requests: &mut Streaming<Encoded>) -> Result<Option<Encoded>, Status> {
    requests.message().await.map_err(|status| match status.code() {
        // What other servers say of a message above the limit.
        tonic::Code::OutOfRange => Status::resource_exhausted(status.message()),
        GIVEN_UP => Status::cancelled("the peer has given the call up"),
        _ => status,
    })
}

async fn unary(
    caller: &AsyncDynamicCaller,
    method: &str,
    requests: Streaming<Encoded>,
) -> Result<Response<Replies>, Status> {
    let request = only(requests).await?;
    let (answer, metadata) = caller.call_with_metadata(method, &request).await;
    Ok(reply(answer.map_err(|it| to_grpc(&it))?, &metadata))
}

/// Sends the items of the peer, and returns the one reply.
async fn collect(
    mut stream: AsyncRequestStream<Encoded, Encoded>,
    mut requests: Streaming<Encoded>,
) -> Result<Response<Replies>, Status> {
    loop {
        let item = tokio::select! {
            biased;
            () = stream.ended() => break,
            item = next(&mut requests) => item?,
        };
        let Some(item) = item else { break };
        match stream.send(&item).await {
            Ok(()) => {}
            // It may have replied without reading all.
            Err(status) if status.code() == Code::FailedPrecondition => break,
            Err(status) => return Err(to_grpc(&status)),
        }
    }
    let (answer, metadata) = stream.finish_with_metadata().await;
    Ok(reply(answer.map_err(|it| to_grpc(&it))?, &metadata))
}

/// Returns an answer of one message.
fn reply(message: Encoded, metadata: &ReplyMetadata) -> Response<Replies> {
    let replies: Replies = Box::pin(stream::iter([Ok(message), end(metadata)]));
    with_headers(replies, metadata.headers().iter())
}

/// Returns the answer with what goes before the first message.
fn with_headers<'a>(
    replies: Replies,
    headers: impl Iterator<Item = (&'a str, &'a [u8])>,
) -> Response<Replies> {
    let mut response = Response::new(replies);
    *response.metadata_mut() = metadata_of(headers);
    response
}

/// Returns the end of a call that went well, as the last item of its replies: the trailers.
fn end(metadata: &ReplyMetadata) -> Result<Encoded, Status> {
    Err(Status::with_metadata(tonic::Code::Ok, "", metadata_of(metadata.iter())))
}

/// The replies of a call, and the task that sends its requests if they are a stream as well.
struct Flow {
    replies: AsyncReplyStream<Encoded>,
    requests: Option<Requests>,
}

impl Flow {
    async fn answer(mut self) -> Result<Response<Replies>, Status> {
        let headers = self.replies.headers().await;
        if !headers.is_empty() {
            // They need not wait for the first item.
            let replies = Box::pin(self.rest());
            return Ok(with_headers(replies, headers.iter()));
        }
        match self.replies.next().await {
            Some(Ok(first)) => {
                let replies = stream::iter([Ok(first)]).chain(self.rest());
                Ok(Response::new(Box::pin(replies)))
            }
            Some(Err(status)) => Err(self.failure(&status)),
            None => Ok(Response::new(Box::pin(stream::iter([end(&self.replies.metadata())])))),
        }
    }

    /// Returns the items that were not taken, and the end.
    fn rest(self) -> impl Stream<Item = Result<Encoded, Status>> + Send {
        stream::unfold(Some(self), |flow| async {
            let mut flow = flow?;
            let item = flow.replies.next().await;
            Some(flow.item(item))
        })
    }

    /// Returns an item for the peer, and this if more may come.
    fn item(
        self,
        item: Option<Result<Encoded, nearcall::Status>>,
    ) -> (Result<Encoded, Status>, Option<Self>) {
        match item {
            Some(Ok(item)) => (Ok(item), Some(self)),
            Some(Err(status)) => (Err(self.failure(&status)), None),
            None => (end(&self.replies.metadata()), None),
        }
    }

    /// Returns why the call failed: what was wrong with its requests if that has cancelled it.
    fn failure(&self, status: &nearcall::Status) -> Status {
        let requests = self.requests.as_ref().filter(|_| status.code() == Code::Cancelled);
        let why = requests.and_then(|requests| requests.failure.get().cloned());
        why.unwrap_or_else(|| to_grpc(status))
    }
}

/// The task that sends the requests of a call while its replies come.
struct Requests {
    task: AbortHandle,
    failure: Arc<OnceLock<Status>>,
}

impl Requests {
    fn send(mut stream: AsyncRequestStream<Encoded, ()>, mut requests: Streaming<Encoded>) -> Self {
        let failure = Arc::new(OnceLock::new());
        let noted = Arc::clone(&failure);
        let task = tokio::spawn(async move {
            let sent = async {
                while let Some(item) = next(&mut requests).await? {
                    stream.send(&item).await.map_err(|it| to_grpc(&it))?;
                }
                Ok(())
            };
            match sent.await {
                // Where the replies are a stream, how the call ends is reported there.
                Ok(()) => drop(stream.finish().await),
                Err(status) => {
                    // Before the stream is dropped, which ends the replies.
                    let _ = noted.set(status);
                    stream.cancel();
                }
            }
        });
        Self { task: task.abort_handle(), failure }
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.task.abort();
    }
}
