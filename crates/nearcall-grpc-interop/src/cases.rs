//! The cases that need nothing but a client of the test service, as gRPC describes them.
//!
//! Each checks what the description demands of the client. A call that is cancelled has no status
//! for a caller that has dropped it, neither here nor in tonic; what is checked instead is that the
//! connection goes on.
//! Not here: how calls are made (`nearcall_client.rs`, `tonic_client.rs`), compression.
//!
//! **Invariant:** every case passes between two ends of nearcall, and between two of tonic.
//! *Checked by* `tests/cases.rs`.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use nearcall::{Code, Status};
use tokio::time::{Instant, timeout};

use crate::replies::zeros;
use crate::testing::{
    EchoStatus, Payload, ResponseParameters, SimpleRequest, SimpleResponse,
    StreamingInputCallRequest, StreamingOutputCallRequest, StreamingOutputCallResponse,
};

/// The names of the cases, in the order of the descriptions.
pub const NAMES: &[&str] = &[
    "empty_unary",
    "cacheable_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "custom_metadata",
    "status_code_and_message",
    "special_status_message",
    "unimplemented_method",
    "unimplemented_service",
    "cancel_after_begin",
    "cancel_after_first_response",
    "timeout_on_sleeping_server",
    "rpc_soak",
    "channel_soak",
];

/// How long one case may take.
const CASE_LIMIT: Duration = Duration::from_secs(30);
const LARGE_REQUEST: i32 = 271_828;
const LARGE_REPLY: i32 = 314_159;
const REQUEST_SIZES: [i32; 4] = [27_182, 8, 1_828, 45_904];
const REPLY_SIZES: [i32; 4] = [31_415, 9, 2_653, 58_979];
const SOAK_CALLS: u32 = 10;
const SOAK_CALL_LIMIT: Duration = Duration::from_secs(1);
const INITIAL: &str = "test_initial_metadata_value";
const TRAILING: [u8; 6] = [0x0a, 0x0b, 0x0a, 0x0b, 0x0a, 0x0b];
const UNKNOWN: i32 = 2;
const PLAIN_TEXT: &str = "test status message";
const SPECIAL_TEXT: &str = "\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n";

/// What one call is made with.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Extras {
    pub(crate) deadline: Option<Duration>,
    /// Metadata as text.
    pub(crate) text: &'static [(&'static str, &'static str)],
    /// Metadata as bytes.
    pub(crate) bytes: &'static [(&'static str, &'static [u8])],
}

const ECHOED: Extras = Extras {
    deadline: None,
    text: &[(crate::ECHO_INITIAL, INITIAL)],
    bytes: &[(crate::ECHO_TRAILING, &TRAILING)],
};

/// What came back of the metadata that were sent.
#[derive(Debug, Default)]
pub(crate) struct Echoes {
    pub(crate) initial: Option<String>,
    pub(crate) trailing: Option<Vec<u8>>,
}

/// A client of the test service.
pub(crate) trait Caller: Sized {
    /// A call of `FullDuplexCall`.
    type Call: Duplex;

    /// Returns a client with a connection of its own to the same server.
    async fn another(&self) -> anyhow::Result<Self>;
    async fn empty(&self) -> Result<(), Status>;
    async fn unary(
        &self,
        request: SimpleRequest,
        extras: Extras,
    ) -> Result<(SimpleResponse, Echoes), Status>;
    async fn cacheable(
        &self,
        request: SimpleRequest,
        extras: Extras,
    ) -> Result<SimpleResponse, Status>;
    async fn output(
        &self,
        request: StreamingOutputCallRequest,
    ) -> Result<Vec<StreamingOutputCallResponse>, Status>;
    async fn input(&self, requests: Vec<StreamingInputCallRequest>) -> Result<i32, Status>;
    /// Begins `StreamingInputCall` and cancels it.
    async fn cancelled_input(&self) -> Result<(), Status>;
    async fn duplex(&self, extras: Extras) -> Result<Self::Call, Status>;
    async fn unimplemented_method(&self) -> Result<(), Status>;
    async fn unimplemented_service(&self) -> Result<(), Status>;
}

/// A call with a stream in each direction.
pub(crate) trait Duplex {
    async fn send(&mut self, request: StreamingOutputCallRequest) -> Result<(), Status>;
    async fn half_close(&mut self) -> Result<(), Status>;
    async fn next(&mut self) -> Result<Option<StreamingOutputCallResponse>, Status>;
    /// Returns what came back, after the end of the replies.
    async fn echoes(&mut self) -> Result<Echoes, Status>;
    fn cancel(self);
}

/// How one case ended.
#[derive(Debug)]
pub struct Outcome {
    /// Its name.
    pub case: &'static str,
    /// Nothing, or why it failed.
    pub result: anyhow::Result<()>,
}

/// Runs `work`, which is the case of the name `case`, within the limit of a case.
pub(crate) async fn outcome(
    case: &'static str,
    work: impl Future<Output = anyhow::Result<()>>,
) -> Outcome {
    let result = timeout(CASE_LIMIT, work).await;
    let late = |_| Err(anyhow::anyhow!("it has not ended within {CASE_LIMIT:?}"));
    Outcome { case, result: result.unwrap_or_else(late) }
}

/// Runs one case of [`NAMES`].
pub(crate) async fn run(caller: &impl Caller, case: &str) -> anyhow::Result<()> {
    match case {
        "empty_unary" => Ok(caller.empty().await?),
        "cacheable_unary" => cacheable_unary(caller).await,
        "large_unary" => large_unary(caller).await,
        "client_streaming" => client_streaming(caller).await,
        "server_streaming" => server_streaming(caller).await,
        "ping_pong" => ping_pong(caller).await,
        "empty_stream" => empty_stream(caller).await,
        "custom_metadata" => custom_metadata(caller).await,
        "status_code_and_message" => status_code_and_message(caller).await,
        "special_status_message" => refused_unary(caller, SPECIAL_TEXT).await,
        "unimplemented_method" => {
            fails(caller.unimplemented_method().await, Code::Unimplemented).map(drop)
        }
        "unimplemented_service" => {
            fails(caller.unimplemented_service().await, Code::Unimplemented).map(drop)
        }
        "cancel_after_begin" => cancel_after_begin(caller).await,
        "cancel_after_first_response" => cancel_after_first_response(caller).await,
        "timeout_on_sleeping_server" => timeout_on_sleeping_server(caller).await,
        "rpc_soak" => soak(caller, false).await,
        "channel_soak" => soak(caller, true).await,
        _ => bail!("there is no case of this name"),
    }
}

/// Returns the error of a call that must have failed with `code`.
pub(crate) fn fails<T>(result: Result<T, Status>, code: Code) -> anyhow::Result<Status> {
    match result {
        Ok(_) => bail!("the call succeeded, expected {code}"),
        Err(status) if status.code() == code => Ok(status),
        Err(status) => bail!("the call failed with {status}, expected {code}"),
    }
}

/// Checks the size and the content of a payload.
pub(crate) fn is_zeros(payload: Option<&Payload>, size: i32) -> anyhow::Result<()> {
    let payload = payload.context("a reply has no payload")?;
    let bytes = payload.body.len();
    ensure!(usize::try_from(size) == Ok(bytes), "a payload has {bytes} bytes, expected {size}");
    ensure!(payload.r#type == 0, "a payload has the type {}", payload.r#type);
    ensure!(payload.body.iter().all(|byte| *byte == 0), "a payload of {size} bytes is not zeros");
    Ok(())
}

/// The request of the cases with large messages.
pub(crate) fn large() -> Result<SimpleRequest, Status> {
    let payload = zeros(LARGE_REQUEST)?;
    Ok(SimpleRequest { response_size: LARGE_REPLY, payload, ..Default::default() })
}

/// The size of the reply to [`large`].
pub(crate) const fn large_reply() -> i32 {
    LARGE_REPLY
}

fn turn(request: i32, reply: i32) -> Result<StreamingOutputCallRequest, Status> {
    Ok(StreamingOutputCallRequest {
        response_parameters: vec![ResponseParameters { size: reply, ..Default::default() }],
        payload: zeros(request)?,
        ..Default::default()
    })
}

async fn end(call: &mut impl Duplex) -> anyhow::Result<()> {
    ensure!(call.next().await?.is_none(), "a reply came that was not asked for");
    Ok(())
}

async fn reply(call: &mut impl Duplex, size: i32) -> anyhow::Result<()> {
    let item = call.next().await?.context("the replies ended early")?;
    is_zeros(item.payload.as_ref(), size)
}

async fn cacheable_unary(caller: &impl Caller) -> anyhow::Result<()> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let body = now.as_nanos().to_string().into();
    let payload = Some(Payload { body, ..Default::default() });
    let request = SimpleRequest { payload, ..Default::default() };
    let extras = Extras { text: &[("x-user-ip", "1.2.3.4")], ..Default::default() };
    let first = caller.cacheable(request.clone(), extras).await?;
    let second = caller.cacheable(request, extras).await?;
    ensure!(first.payload.is_some(), "a reply has no payload");
    ensure!(first.payload == second.payload, "the two replies differ");
    Ok(())
}

async fn large_unary(caller: &impl Caller) -> anyhow::Result<()> {
    let (reply, _) = caller.unary(large()?, Extras::default()).await?;
    is_zeros(reply.payload.as_ref(), LARGE_REPLY)
}

async fn client_streaming(caller: &impl Caller) -> anyhow::Result<()> {
    let request =
        |size| Ok(StreamingInputCallRequest { payload: zeros(size)?, ..Default::default() });
    let requests = REQUEST_SIZES.into_iter().map(request).collect::<Result<Vec<_>, Status>>()?;
    let (sum, expected) = (caller.input(requests).await?, REQUEST_SIZES.iter().sum::<i32>());
    ensure!(sum == expected, "the service received {sum} bytes, expected {expected}");
    Ok(())
}

async fn server_streaming(caller: &impl Caller) -> anyhow::Result<()> {
    let parameters = |size| ResponseParameters { size, ..Default::default() };
    let replies = caller.output(StreamingOutputCallRequest {
        response_parameters: REPLY_SIZES.map(parameters).to_vec(),
        ..Default::default()
    });
    let replies = replies.await?;
    ensure!(replies.len() == REPLY_SIZES.len(), "{} replies came", replies.len());
    let mut pairs = replies.iter().zip(REPLY_SIZES);
    pairs.try_for_each(|(reply, size)| is_zeros(reply.payload.as_ref(), size))
}

async fn ping_pong(caller: &impl Caller) -> anyhow::Result<()> {
    let mut call = caller.duplex(Extras::default()).await?;
    for (request, size) in REQUEST_SIZES.into_iter().zip(REPLY_SIZES) {
        call.send(turn(request, size)?).await?;
        reply(&mut call, size).await?;
    }
    call.half_close().await?;
    end(&mut call).await
}

async fn empty_stream(caller: &impl Caller) -> anyhow::Result<()> {
    let mut call = caller.duplex(Extras::default()).await?;
    call.half_close().await?;
    end(&mut call).await
}

async fn custom_metadata(caller: &impl Caller) -> anyhow::Result<()> {
    let came_back = |echoes: &Echoes| {
        let initial = echoes.initial.as_deref();
        ensure!(initial == Some(INITIAL), "the initial metadata came back as {initial:?}");
        let trailing = echoes.trailing.as_deref();
        ensure!(trailing == Some(&TRAILING[..]), "the trailing ones came back as {trailing:?}");
        Ok(())
    };
    let request = SimpleRequest { response_size: 1, payload: zeros(1)?, ..Default::default() };
    let (answer, echoes) = caller.unary(request, ECHOED).await?;
    is_zeros(answer.payload.as_ref(), 1)?;
    came_back(&echoes).context("UnaryCall")?;

    let mut call = caller.duplex(ECHOED).await?;
    call.send(turn(1, 1)?).await?;
    call.half_close().await?;
    reply(&mut call, 1).await?;
    end(&mut call).await?;
    came_back(&call.echoes().await?).context("FullDuplexCall")
}

fn refusal(text: &str) -> Option<EchoStatus> {
    Some(EchoStatus { code: UNKNOWN, message: text.to_owned() })
}

fn is_refusal<T>(result: Result<T, Status>, text: &str) -> anyhow::Result<()> {
    let status = fails(result, Code::Unknown)?;
    ensure!(status.message() == text, "the text is {:?}, expected {text:?}", status.message());
    Ok(())
}

async fn refused_unary(caller: &impl Caller, text: &str) -> anyhow::Result<()> {
    let request = SimpleRequest { response_status: refusal(text), ..Default::default() };
    is_refusal(caller.unary(request, Extras::default()).await, text)
}

async fn status_code_and_message(caller: &impl Caller) -> anyhow::Result<()> {
    refused_unary(caller, PLAIN_TEXT).await.context("UnaryCall")?;
    let mut call = caller.duplex(Extras::default()).await?;
    let response_status = refusal(PLAIN_TEXT);
    call.send(StreamingOutputCallRequest { response_status, ..Default::default() }).await?;
    // The service may have ended the call already, which `next` shows.
    let _ = call.half_close().await;
    is_refusal(call.next().await, PLAIN_TEXT).context("FullDuplexCall")
}

async fn cancel_after_begin(caller: &impl Caller) -> anyhow::Result<()> {
    caller.cancelled_input().await?;
    Ok(caller.empty().await?)
}

async fn cancel_after_first_response(caller: &impl Caller) -> anyhow::Result<()> {
    let mut call = caller.duplex(Extras::default()).await?;
    call.send(turn(REQUEST_SIZES[0], REPLY_SIZES[0])?).await?;
    reply(&mut call, REPLY_SIZES[0]).await?;
    call.cancel();
    Ok(caller.empty().await?)
}

async fn timeout_on_sleeping_server(caller: &impl Caller) -> anyhow::Result<()> {
    // So that the time is spent waiting for the service and not for a connection.
    caller.empty().await?;
    let extras = Extras { deadline: Some(Duration::from_millis(1)), ..Default::default() };
    let request = StreamingOutputCallRequest { payload: zeros(27_182)?, ..Default::default() };
    let replies = async {
        let mut call = caller.duplex(extras).await?;
        call.send(request).await?;
        call.next().await
    };
    fails(replies.await, Code::DeadlineExceeded).map(drop)
}

/// Large calls, each within a second; each over a connection of its own if `reconnects`.
async fn soak(caller: &impl Caller, reconnects: bool) -> anyhow::Result<()> {
    for call in 1..=SOAK_CALLS {
        let started = Instant::now();
        if reconnects {
            large_unary(&caller.another().await?).await
        } else {
            large_unary(caller).await
        }
        .with_context(|| format!("call {call}"))?;
        let took = started.elapsed();
        ensure!(took < SOAK_CALL_LIMIT, "call {call} took {took:?}");
    }
    Ok(())
}
