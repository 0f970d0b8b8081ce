//! The cases of compression, over a channel of tonic, with frames that are built and read here.
//!
//! They choose for each message whether it is compressed and check the same of the replies; a
//! client of tonic chooses for a whole call, and does not show what came.

use std::convert::Infallible;

use anyhow::{Context as _, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use nearcall::{Code, Status};
use prost::Message;
use tonic::body::Body;
use tonic::transport::Channel;
use tower::ServiceExt;

use crate::cases::{fails, is_zeros, large, large_reply};
use crate::frames::{self, Frame};
use crate::replies::{self, zeros};
use crate::testing::{
    BoolValue, ResponseParameters, SimpleRequest, SimpleResponse, StreamingInputCallRequest,
    StreamingInputCallResponse, StreamingOutputCallRequest, StreamingOutputCallResponse,
};

/// The names of the cases of [`run`].
pub(crate) const NAMES: &[&str] = &[
    "client_compressed_unary",
    "server_compressed_unary",
    "client_compressed_streaming",
    "server_compressed_streaming",
];

/// Runs one case of [`NAMES`].
pub(crate) async fn run(channel: &Channel, case: &str) -> anyhow::Result<()> {
    match case {
        "client_compressed_unary" => client_compressed_unary(channel).await,
        "server_compressed_unary" => server_compressed_unary(channel).await,
        "client_compressed_streaming" => client_compressed_streaming(channel).await,
        "server_compressed_streaming" => server_compressed_streaming(channel).await,
        _ => bail!("there is no case of this name"),
    }
}

const fn flag(value: bool) -> Option<BoolValue> {
    Some(BoolValue { value })
}

/// A reply, and whether it came compressed.
type Reply<R> = (R, bool);

/// Calls a method of the test service with the requests of one call, each compressed or not.
async fn call<R: Message + Default>(
    channel: &Channel,
    method: &str,
    requests: &[(bool, Vec<u8>)],
) -> anyhow::Result<Result<Vec<Reply<R>>, Status>> {
    let mut body = Vec::new();
    for (is_compressed, message) in requests {
        frames::append(&mut body, *is_compressed, message)?;
    }
    let body = Full::new(Bytes::from(body)).map_err(|never: Infallible| match never {});
    let encoding =
        if requests.iter().any(|(is_compressed, _)| *is_compressed) { "gzip" } else { "identity" };
    let request = http::Request::post(format!("/grpc.testing.TestService/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-encoding", encoding)
        .header("grpc-accept-encoding", "gzip")
        .body(Body::new(body))?;
    let response = channel.clone().oneshot(request).await?;
    let headers = response.headers().clone();
    let body = response.into_body().collect().await?;
    let ends = body.trailers().filter(|trailers| trailers.contains_key("grpc-status"));
    let ends = ends.unwrap_or(&headers);
    let text = |key| ends.get(key).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let code: i32 = text("grpc-status").parse().context("the call has no status")?;
    if code != 0 {
        return Ok(Err(Status::new(replies::code(code), text("grpc-message"))));
    }
    let replies = frames::split(&body.to_bytes())?
        .into_iter()
        .map(|Frame { is_compressed, message }| Ok((R::decode(&message[..])?, is_compressed)));
    Ok(Ok(replies.collect::<anyhow::Result<_>>()?))
}

async fn unary(
    channel: &Channel,
    is_compressed: bool,
    request: &SimpleRequest,
) -> anyhow::Result<Result<Reply<SimpleResponse>, Status>> {
    let requests = [(is_compressed, request.encode_to_vec())];
    let replies = match call(channel, "UnaryCall", &requests).await? {
        Ok(replies) => replies,
        Err(status) => return Ok(Err(status)),
    };
    let [reply] = <[_; 1]>::try_from(replies)
        .map_err(|all| anyhow::anyhow!("{} replies came, expected one", all.len()))?;
    Ok(Ok(reply))
}

async fn client_compressed_unary(channel: &Channel) -> anyhow::Result<()> {
    let request =
        |value| Ok::<_, Status>(SimpleRequest { expect_compressed: flag(value), ..large()? });
    fails(unary(channel, false, &request(true)?).await?, Code::InvalidArgument)
        .context("the probe")?;
    for is_compressed in [true, false] {
        let (reply, _) = unary(channel, is_compressed, &request(is_compressed)?).await??;
        is_zeros(reply.payload.as_ref(), large_reply())?;
    }
    Ok(())
}

async fn server_compressed_unary(channel: &Channel) -> anyhow::Result<()> {
    for expected in [true, false] {
        let request = SimpleRequest { response_compressed: flag(expected), ..large()? };
        let (reply, is_compressed) = unary(channel, false, &request).await??;
        is_zeros(reply.payload.as_ref(), large_reply())?;
        ensure!(is_compressed == expected, "compressed: {is_compressed}, expected {expected}");
    }
    Ok(())
}

async fn client_compressed_streaming(channel: &Channel) -> anyhow::Result<()> {
    let request = |is_compressed, expected, size| {
        let request =
            StreamingInputCallRequest { expect_compressed: flag(expected), payload: zeros(size)? };
        Ok::<_, Status>((is_compressed, request.encode_to_vec()))
    };
    let method = "StreamingInputCall";
    let probe = [request(false, true, 27_182)?];
    let probed = call::<StreamingInputCallResponse>(channel, method, &probe).await?;
    fails(probed, Code::InvalidArgument).context("the probe")?;
    let requests = [request(true, true, 27_182)?, request(false, false, 45_904)?];
    let replies = call::<StreamingInputCallResponse>(channel, method, &requests).await??;
    let sums: Vec<i32> = replies.iter().map(|(reply, _)| reply.aggregated_payload_size).collect();
    ensure!(sums == [73_086], "the service received {sums:?} bytes, expected 73086");
    Ok(())
}

async fn server_compressed_streaming(channel: &Channel) -> anyhow::Result<()> {
    let expected = [(31_415, true), (92_653, false)];
    let parameters = |(size, is_compressed)| ResponseParameters {
        size,
        compressed: flag(is_compressed),
        ..Default::default()
    };
    let request = StreamingOutputCallRequest {
        response_parameters: expected.map(parameters).to_vec(),
        ..Default::default()
    };
    let requests = [(false, request.encode_to_vec())];
    let method = "StreamingOutputCall";
    let replies = call::<StreamingOutputCallResponse>(channel, method, &requests).await??;
    ensure!(replies.len() == expected.len(), "{} replies came", replies.len());
    for ((reply, is_compressed), (size, expected)) in replies.iter().zip(expected) {
        is_zeros(reply.payload.as_ref(), size)?;
        ensure!(*is_compressed == expected, "compressed: {is_compressed}, expected {expected}");
    }
    Ok(())
}
