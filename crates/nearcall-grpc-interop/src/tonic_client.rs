//! The calls of the cases by the client of tonic.

use std::time::Duration;

use anyhow::Context as _;
use nearcall::Status;
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{BinaryMetadataKey, MetadataMap, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Response, Streaming};

use crate::cases::{self, Caller, Duplex, Echoes, Extras, Outcome};
use crate::testing::{
    Empty, SimpleRequest, SimpleResponse, StreamingInputCallRequest, StreamingOutputCallRequest,
    StreamingOutputCallResponse,
};
use crate::tonic_testing::test_service_client::TestServiceClient;
use crate::tonic_testing::unimplemented_service_client::UnimplementedServiceClient;
use crate::{ECHO_INITIAL, ECHO_TRAILING, compression, replies};

/// Requests of a stream that wait to be sent.
const UNSENT_MAX: usize = 4;
/// A deadline for calls without one of their own.
const FAR: Duration = Duration::from_secs(3600);

/// Returns the names of all cases that a client of tonic can run.
pub fn names() -> Vec<&'static str> {
    [cases::NAMES, compression::NAMES].concat()
}

/// Runs the cases of the names `names` against the server at `address`, `http://HOST:PORT` or
/// `https://HOST:PORT`, one after the other. With `tls` the certificate of the server is that of
/// the domain, signed by the PEM before it.
///
/// # Errors
///
/// The server cannot be reached.
pub async fn call(
    address: &str,
    tls: Option<(&str, &str)>,
    names: &[&'static str],
) -> anyhow::Result<Vec<Outcome>> {
    let mut endpoint = Endpoint::from_shared(address.to_owned())?.tcp_nodelay(true);
    if let Some((ca, domain)) = tls {
        let config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca));
        endpoint = endpoint.tls_config(config.domain_name(domain))?;
    }
    let calls = Calls::connect(endpoint).await?;
    let mut outcomes = Vec::new();
    for case in names {
        let outcome = if compression::NAMES.contains(case) {
            cases::outcome(case, compression::run(&calls.channel, case)).await
        } else {
            cases::outcome(case, cases::run(&calls, case)).await
        };
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

struct Calls {
    endpoint: Endpoint,
    channel: Channel,
}

impl Calls {
    async fn connect(endpoint: Endpoint) -> anyhow::Result<Self> {
        let cannot = || format!("cannot connect to {}", endpoint.uri());
        let channel = endpoint.connect().await.with_context(cannot)?;
        Ok(Self { endpoint, channel })
    }

    fn service(&self) -> TestServiceClient<Channel> {
        TestServiceClient::new(self.channel.clone())
    }
}

/// tonic reports a deadline that it has kept itself as CANCELLED, with this text.
const TONIC_TIMEOUT: &str = "Timeout expired";

fn status(status: tonic::Status) -> Status {
    if status.code() == tonic::Code::Cancelled && status.message() == TONIC_TIMEOUT {
        return Status::deadline_exceeded(TONIC_TIMEOUT);
    }
    Status::new(replies::code(status.code().into()), status.message())
}

fn request<T>(message: T, extras: Extras) -> Result<Request<T>, Status> {
    let bad = |key: &str| Status::invalid_argument(format!("metadata {key} cannot be sent"));
    let mut request = Request::new(message);
    let metadata = request.metadata_mut();
    for (key, value) in extras.text {
        metadata.insert(*key, value.parse().map_err(|_| bad(key))?);
    }
    for (key, value) in extras.bytes {
        let key = BinaryMetadataKey::from_static(key);
        metadata.insert_bin(key, MetadataValue::from_bytes(value));
    }
    if let Some(deadline) = extras.deadline {
        request.set_timeout(deadline);
    }
    Ok(request)
}

fn echoes(header: &MetadataMap, trailer: &MetadataMap) -> Echoes {
    let initial = header.get(ECHO_INITIAL).and_then(|value| value.to_str().ok());
    let trailing = trailer.get_bin(ECHO_TRAILING).and_then(|value| value.to_bytes().ok());
    Echoes { initial: initial.map(str::to_owned), trailing: trailing.map(|bytes| bytes.to_vec()) }
}

impl Caller for Calls {
    type Call = Call;

    async fn another(&self) -> anyhow::Result<Self> {
        Self::connect(self.endpoint.clone()).await
    }

    async fn empty(&self) -> Result<(), Status> {
        self.service().empty_call(Empty::default()).await.map(drop).map_err(status)
    }

    async fn unary(
        &self,
        message: SimpleRequest,
        extras: Extras,
    ) -> Result<(SimpleResponse, Echoes), Status> {
        let reply = self.service().unary_call(request(message, extras)?).await.map_err(status)?;
        // tonic puts the trailers of a single reply to its headers.
        let echoes = echoes(reply.metadata(), reply.metadata());
        Ok((reply.into_inner(), echoes))
    }

    async fn cacheable(
        &self,
        message: SimpleRequest,
        extras: Extras,
    ) -> Result<SimpleResponse, Status> {
        let reply = self.service().cacheable_unary_call(request(message, extras)?).await;
        reply.map(Response::into_inner).map_err(status)
    }

    async fn output(
        &self,
        message: StreamingOutputCallRequest,
    ) -> Result<Vec<StreamingOutputCallResponse>, Status> {
        let replies = self.service().streaming_output_call(message).await.map_err(status)?;
        let mut replies = replies.into_inner();
        let mut items = Vec::new();
        while let Some(item) = replies.message().await.map_err(status)? {
            items.push(item);
        }
        Ok(items)
    }

    async fn input(&self, requests: Vec<StreamingInputCallRequest>) -> Result<i32, Status> {
        let reply = self.service().streaming_input_call(tokio_stream::iter(requests)).await;
        Ok(reply.map_err(status)?.into_inner().aggregated_payload_size)
    }

    async fn cancelled_input(&self) -> Result<(), Status> {
        let mut service = self.service();
        // It has begun, and waits for its first request, when the time of this one is over.
        let call = service.streaming_input_call(tokio_stream::pending());
        match tokio::time::timeout(Duration::from_millis(50), call).await {
            Ok(Ok(_)) => Err(Status::internal("the call ended without being cancelled")),
            Ok(Err(error)) => Err(status(error)),
            Err(_) => Ok(()),
        }
    }

    async fn duplex(&self, extras: Extras) -> Result<Call, Status> {
        let (requests, to_send) = channel(UNSENT_MAX);
        let request = request(ReceiverStream::new(to_send), extras)?;
        let mut service = self.service();
        // A server may wait for the first request before it sends anything.
        let opening = tokio::spawn(async move { service.full_duplex_call(request).await });
        Ok(Call {
            requests: Some(requests),
            replies: Replies::Opening(opening),
            header: MetadataMap::new(),
            deadline: Instant::now() + extras.deadline.unwrap_or(FAR),
        })
    }

    async fn unimplemented_method(&self) -> Result<(), Status> {
        self.service().unimplemented_call(Empty::default()).await.map(drop).map_err(status)
    }

    async fn unimplemented_service(&self) -> Result<(), Status> {
        let mut service = UnimplementedServiceClient::new(self.channel.clone());
        service.unimplemented_call(Empty::default()).await.map(drop).map_err(status)
    }
}

type Opened = Result<Response<Streaming<StreamingOutputCallResponse>>, tonic::Status>;

enum Replies {
    Opening(JoinHandle<Opened>),
    Open(Box<Streaming<StreamingOutputCallResponse>>),
}

struct Call {
    requests: Option<Sender<StreamingOutputCallRequest>>,
    replies: Replies,
    header: MetadataMap,
    deadline: Instant,
}

impl Call {
    async fn replies(&mut self) -> Result<&mut Streaming<StreamingOutputCallResponse>, Status> {
        if let Replies::Opening(opening) = &mut self.replies {
            let opened = opening.await.map_err(|error| Status::internal(error.to_string()))?;
            let (header, replies, _) = opened.map_err(status)?.into_parts();
            self.header = header;
            self.replies = Replies::Open(Box::new(replies));
        }
        match &mut self.replies {
            Replies::Open(replies) => Ok(replies),
            Replies::Opening(_) => Err(Status::internal("the call is not open")),
        }
    }
}

impl Duplex for Call {
    async fn send(&mut self, request: StreamingOutputCallRequest) -> Result<(), Status> {
        if let Some(requests) = &self.requests {
            // The call has ended if this fails; `next` shows how.
            let _ = requests.send(request).await;
        }
        Ok(())
    }

    async fn half_close(&mut self) -> Result<(), Status> {
        self.requests = None;
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<StreamingOutputCallResponse>, Status> {
        // tonic keeps a deadline until the headers have come, not for what follows.
        let next = timeout_at(self.deadline, async {
            self.replies().await?.message().await.map_err(status)
        });
        next.await.unwrap_or_else(|_| Err(Status::deadline_exceeded(TONIC_TIMEOUT)))
    }

    async fn echoes(&mut self) -> Result<Echoes, Status> {
        let trailer = self.replies().await?.trailers().await.map_err(status)?;
        Ok(echoes(&self.header, &trailer.unwrap_or_default()))
    }

    fn cancel(self) {
        if let Replies::Opening(opening) = self.replies {
            opening.abort();
        }
    }
}
