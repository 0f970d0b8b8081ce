//! The test service by the server of tonic.
//!
//! Two layers around it do what a service of tonic cannot: they send metadata back behind a single
//! reply and note which requests came compressed, and they decompress those messages of a stream
//! that are to be sent as they are.

use anyhow::Context as _;
use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use http_body_util::BodyExt;
use nearcall::Status;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataValue;
use tonic::service::Routes;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Streaming};
use tower::ServiceExt;

use crate::frames::{self, Flags};
use crate::testing::{
    BoolValue, Empty, ResponseParameters, SimpleRequest, SimpleResponse, StreamingInputCallRequest,
    StreamingInputCallResponse, StreamingOutputCallRequest, StreamingOutputCallResponse,
};
use crate::tonic_testing::test_service_server::{TestService, TestServiceServer};
use crate::{CACHE_CONTROL, ECHO_INITIAL, ECHO_TRAILING, replies};

/// Replies of a stream that wait to be sent.
const UNSENT_MAX: usize = 4;

/// Serves the test service at `listener` until `shutdown` ends; with `tls`, a certificate and its
/// key as PEM, over TLS.
///
/// # Errors
///
/// The certificate is unusable, or the server has failed.
pub async fn serve(
    listener: TcpListener,
    tls: Option<(String, String)>,
    shutdown: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let service = TestServiceServer::new(Tests)
        .accept_compressed(CompressionEncoding::Gzip)
        .send_compressed(CompressionEncoding::Gzip);
    let mut server = Server::builder();
    if let Some((certificate, key)) = tls {
        let identity = Identity::from_pem(certificate, key);
        let config = ServerTlsConfig::new().identity(identity);
        server = server.tls_config(config).context("the certificate or its key is unusable")?;
    }
    let layer = tower::layer::layer_fn(|routes: Routes| {
        tower::service_fn(move |request| pass(routes.clone(), request))
    });
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let serving = server.layer(layer).add_service(service);
    Ok(serving.serve_with_incoming_shutdown(incoming, shutdown).await?)
}

/// What is done to each call around the service.
async fn pass(
    routes: Routes,
    mut request: http::Request<Body>,
) -> Result<http::Response<Body>, std::convert::Infallible> {
    let flags = Flags::default();
    request.extensions_mut().insert(flags.clone());
    let [initial, trailing] = [ECHO_INITIAL, ECHO_TRAILING]
        .map(|key| Some((HeaderName::from_static(key), request.headers().get(key)?.clone())));
    let request = request.map(|body| {
        Body::new(body.map_frame(move |frame| {
            frame.data_ref().into_iter().for_each(|data| flags.read(data));
            frame
        }))
    });
    let mut response = routes.oneshot(request).await?;
    response.headers_mut().extend(initial);
    let has_ended = response.headers().contains_key("grpc-status");
    if has_ended {
        response.headers_mut().extend(trailing);
    } else if let Some(trailing) = trailing {
        let trailers = HeaderMap::from_iter([trailing]);
        response =
            response.map(|body| Body::new(body.with_trailers(async move { Some(Ok(trailers)) })));
    }
    if let Some(Plan(plan)) = response.extensions_mut().remove() {
        response = response.map(|body| decompress(body, plan));
    }
    Ok(response)
}

/// Which messages of a stream are to be compressed.
#[derive(Clone)]
struct Plan(Vec<bool>);

/// Undoes the compression of the messages that are not to be compressed. A part of a body from
/// tonic consists of whole messages.
fn decompress(body: Body, plan: Vec<bool>) -> Body {
    let mut plan = plan.into_iter();
    Body::new(body.map_frame(move |frame| {
        frame.map_data(|data| {
            let rewritten = frames::split(&data).and_then(|messages| {
                let mut rewritten = Vec::new();
                for message in messages {
                    let is_compressed = message.is_compressed && plan.next().unwrap_or(true);
                    frames::append(&mut rewritten, is_compressed, &message.message)?;
                }
                Ok(Bytes::from(rewritten))
            });
            rewritten.unwrap_or(data)
        })
    }))
}

fn status(status: Status) -> tonic::Status {
    let code = tonic::Code::from(i32::from(status.code().number()));
    tonic::Status::new(code, status.message())
}

/// Fails unless a message came as it says.
fn came(flags: Option<&Flags>, expected: Option<BoolValue>) -> Result<(), tonic::Status> {
    let is_compressed = flags.is_some_and(Flags::next);
    match expected {
        Some(expected) if expected.value != is_compressed => {
            Err(tonic::Status::invalid_argument(format!("compressed: {is_compressed}")))
        }
        _ => Ok(()),
    }
}

type Item = Result<StreamingOutputCallResponse, tonic::Status>;

/// Returns the replies that `work` sends, and its error behind them. `work` ends where no more
/// replies are wanted.
fn stream<F: Future<Output = Result<(), tonic::Status>> + Send + 'static>(
    work: impl FnOnce(Sender<Item>) -> F,
) -> Response<ReceiverStream<Item>> {
    let (replies, items) = channel(UNSENT_MAX);
    let work = work(replies.clone());
    tokio::spawn(async move {
        tokio::select! {
            end = work => if let Err(status) = end {
                let _ = replies.send(Err(status)).await;
            },
            () = replies.closed() => {}
        }
    });
    Response::new(ReceiverStream::new(items))
}

async fn send_items(
    request: &StreamingOutputCallRequest,
    replies: &Sender<Item>,
) -> Result<(), tonic::Status> {
    for parameters in &request.response_parameters {
        let item = replies::item(parameters).await.map_err(status)?;
        let gone = |_| tonic::Status::cancelled("the caller has gone");
        replies.send(Ok(item)).await.map_err(gone)?;
    }
    Ok(())
}

/// The test service.
struct Tests;

#[tonic::async_trait]
impl TestService for Tests {
    type StreamingOutputCallStream = ReceiverStream<Item>;
    type FullDuplexCallStream = ReceiverStream<Item>;
    type HalfDuplexCallStream = ReceiverStream<Item>;

    async fn empty_call(&self, _: Request<Empty>) -> Result<Response<Empty>, tonic::Status> {
        Ok(Response::new(Empty::default()))
    }

    async fn unary_call(
        &self,
        request: Request<SimpleRequest>,
    ) -> Result<Response<SimpleResponse>, tonic::Status> {
        came(request.extensions().get(), request.get_ref().expect_compressed)?;
        let mut reply = Response::new(replies::unary(request.get_ref()).map_err(status)?);
        if !request.get_ref().response_compressed.is_some_and(|flag| flag.value) {
            reply.disable_compression();
        }
        Ok(reply)
    }

    async fn cacheable_unary_call(
        &self,
        request: Request<SimpleRequest>,
    ) -> Result<Response<SimpleResponse>, tonic::Status> {
        let mut reply = Response::new(replies::cacheable(request.into_inner()));
        let (key, value) = CACHE_CONTROL;
        reply.metadata_mut().insert(key, MetadataValue::from_static(value));
        Ok(reply)
    }

    async fn streaming_output_call(
        &self,
        request: Request<StreamingOutputCallRequest>,
    ) -> Result<Response<ReceiverStream<Item>>, tonic::Status> {
        let request = request.into_inner();
        let is_compressed = |item: &ResponseParameters| item.compressed.is_some_and(|f| f.value);
        let plan = Plan(request.response_parameters.iter().map(is_compressed).collect());
        let mut reply = stream(|replies| async move { send_items(&request, &replies).await });
        reply.extensions_mut().insert(plan);
        Ok(reply)
    }

    async fn streaming_input_call(
        &self,
        request: Request<Streaming<StreamingInputCallRequest>>,
    ) -> Result<Response<StreamingInputCallResponse>, tonic::Status> {
        let flags = request.extensions().get::<Flags>().cloned();
        let mut requests = request.into_inner();
        let mut reply = StreamingInputCallResponse::default();
        while let Some(request) = requests.message().await? {
            came(flags.as_ref(), request.expect_compressed)?;
            let sum = reply.aggregated_payload_size;
            reply.aggregated_payload_size = replies::add(sum, request.payload.as_ref());
        }
        Ok(Response::new(reply))
    }

    async fn full_duplex_call(
        &self,
        request: Request<Streaming<StreamingOutputCallRequest>>,
    ) -> Result<Response<ReceiverStream<Item>>, tonic::Status> {
        let mut requests = request.into_inner();
        Ok(stream(|replies| async move {
            while let Some(request) = requests.message().await? {
                replies::echo(request.response_status.as_ref()).map_err(status)?;
                send_items(&request, &replies).await?;
            }
            Ok(())
        }))
    }

    async fn half_duplex_call(
        &self,
        request: Request<Streaming<StreamingOutputCallRequest>>,
    ) -> Result<Response<ReceiverStream<Item>>, tonic::Status> {
        let mut requests = request.into_inner();
        Ok(stream(|replies| async move {
            let mut kept = Vec::new();
            while let Some(request) = requests.message().await? {
                kept.push(request);
            }
            for request in &kept {
                send_items(request, &replies).await?;
            }
            Ok(())
        }))
    }

    async fn unimplemented_call(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<Empty>, tonic::Status> {
        Err(tonic::Status::unimplemented("UnimplementedCall is not implemented"))
    }
}
