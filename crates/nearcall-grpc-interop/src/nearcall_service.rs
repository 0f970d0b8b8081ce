//! The test service as an async service of nearcall, whose methods run in tokio.
//!
//! Not here: `UnimplementedService`, which no server has, by intent.

use anyhow::Context as _;
use nearcall::server::RunningServer;
use nearcall::service::Dispatcher;
use nearcall::stream::{AsyncItemReceiver, AsyncItemSender};
use nearcall::{CallContext, Server, Status};

use crate::testing::{
    Empty, SimpleRequest, SimpleResponse, StreamingInputCallRequest, StreamingInputCallResponse,
    StreamingOutputCallRequest, StreamingOutputCallResponse, TestServiceAsync,
    TestServiceAsyncDispatcher,
};
use crate::{CACHE_CONTROL, ECHO_INITIAL, ECHO_TRAILING, replies};

/// The test service.
#[derive(Debug, Clone, Copy)]
pub struct TestService;

/// Starts a server of the test service that listens at `address`. Its methods run in the runtime
/// of tokio that this is called in.
///
/// # Errors
///
/// Nothing can listen at `address`.
pub fn start(address: &str) -> anyhow::Result<RunningServer> {
    let server = Server::builder().register(dispatcher()).listen(address).start();
    server.with_context(|| format!("cannot listen at {address}"))
}

/// Returns the service for a server, as for [`start`].
pub(crate) fn dispatcher() -> impl Dispatcher + Clone + Send + Sync {
    let tasks = tokio::runtime::Handle::current();
    TestServiceAsyncDispatcher::new(TestService).spawn_on(move |task| {
        tasks.spawn(task);
    })
}

/// Sends the metadata back that a case asks for.
fn echo_metadata(context: &CallContext) -> Result<(), Status> {
    let asked = context.metadata();
    if let Some(value) = asked.get(ECHO_INITIAL) {
        context.add_header(ECHO_INITIAL, value).map_err(refused)?;
    }
    if let Some(value) = asked.get_bin(ECHO_TRAILING) {
        context.add_reply_metadata_bin(ECHO_TRAILING, value).map_err(refused)?;
    }
    Ok(())
}

fn refused(error: nearcall::service::BadMetadata) -> Status {
    Status::invalid_argument(error.to_string())
}

async fn send_items(
    request: &StreamingOutputCallRequest,
    replies: &mut AsyncItemSender<StreamingOutputCallResponse>,
) -> Result<(), Status> {
    for parameters in &request.response_parameters {
        replies.send(&replies::item(parameters).await?).await?;
    }
    Ok(())
}

impl TestServiceAsync for TestService {
    async fn empty_call(&self, _: CallContext, _: Empty) -> Result<Empty, Status> {
        Ok(Empty::default())
    }

    async fn unary_call(
        &self,
        context: CallContext,
        request: SimpleRequest,
    ) -> Result<SimpleResponse, Status> {
        echo_metadata(&context)?;
        replies::unary(&request)
    }

    async fn cacheable_unary_call(
        &self,
        context: CallContext,
        request: SimpleRequest,
    ) -> Result<SimpleResponse, Status> {
        context.add_reply_metadata(CACHE_CONTROL.0, CACHE_CONTROL.1).map_err(refused)?;
        Ok(replies::cacheable(request))
    }

    async fn streaming_output_call(
        &self,
        _: CallContext,
        request: StreamingOutputCallRequest,
        mut replies: AsyncItemSender<StreamingOutputCallResponse>,
    ) -> Result<(), Status> {
        send_items(&request, &mut replies).await
    }

    async fn streaming_input_call(
        &self,
        _: CallContext,
        mut requests: AsyncItemReceiver<StreamingInputCallRequest>,
    ) -> Result<StreamingInputCallResponse, Status> {
        let mut reply = StreamingInputCallResponse::default();
        while let Some(request) = requests.next().await {
            let sum = reply.aggregated_payload_size;
            reply.aggregated_payload_size = replies::add(sum, request?.payload.as_ref());
        }
        Ok(reply)
    }

    async fn full_duplex_call(
        &self,
        context: CallContext,
        mut requests: AsyncItemReceiver<StreamingOutputCallRequest>,
        mut replies: AsyncItemSender<StreamingOutputCallResponse>,
    ) -> Result<(), Status> {
        echo_metadata(&context)?;
        while let Some(request) = requests.next().await {
            let request = request?;
            replies::echo(request.response_status.as_ref())?;
            send_items(&request, &mut replies).await?;
        }
        Ok(())
    }

    async fn half_duplex_call(
        &self,
        _: CallContext,
        mut requests: AsyncItemReceiver<StreamingOutputCallRequest>,
        mut replies: AsyncItemSender<StreamingOutputCallResponse>,
    ) -> Result<(), Status> {
        let mut kept = Vec::new();
        while let Some(request) = requests.next().await {
            kept.push(request?);
        }
        for request in &kept {
            send_items(request, &mut replies).await?;
        }
        Ok(())
    }

    async fn unimplemented_call(&self, _: CallContext, _: Empty) -> Result<Empty, Status> {
        Err(Status::unimplemented("UnimplementedCall is not implemented"))
    }
}
