//! The calls of the cases by the generated async caller of nearcall.

use nearcall::client::ReplyMetadata;
use nearcall::stream::{AsyncReplyStream, AsyncRequestStream};
use nearcall::{CallOptions, Client, Status};

use crate::cases::{self, Caller, Duplex, Echoes, Extras, Outcome};
use crate::testing::{
    Empty, SimpleRequest, SimpleResponse, StreamingInputCallRequest, StreamingOutputCallRequest,
    StreamingOutputCallResponse, TestServiceAsyncCaller, UnimplementedServiceAsyncCaller,
};
use crate::{ECHO_INITIAL, ECHO_TRAILING};

/// Runs the cases of the names `names` against the server at `address`, one after the other.
///
/// # Errors
///
/// `address` cannot be parsed.
pub async fn call(address: &str, names: &[&'static str]) -> anyhow::Result<Vec<Outcome>> {
    let calls = Calls::new(address)?;
    let mut outcomes = Vec::new();
    for case in names {
        outcomes.push(cases::outcome(case, cases::run(&calls, case)).await);
    }
    Ok(outcomes)
}

struct Calls {
    address: String,
    service: TestServiceAsyncCaller,
    unimplemented: UnimplementedServiceAsyncCaller,
}

impl Calls {
    fn new(address: &str) -> anyhow::Result<Self> {
        let client = Client::new();
        Ok(Self {
            address: address.to_owned(),
            service: TestServiceAsyncCaller::new(&client, address)?,
            unimplemented: UnimplementedServiceAsyncCaller::new(&client, address)?,
        })
    }

    fn with(&self, extras: Extras) -> Result<TestServiceAsyncCaller, Status> {
        let bad =
            |error: nearcall::client::BadMetadata| Status::invalid_argument(error.to_string());
        let mut options = CallOptions::new();
        for (key, value) in extras.text {
            options = options.metadata(key, value).map_err(bad)?;
        }
        for (key, value) in extras.bytes {
            options = options.metadata_bin(key, value).map_err(bad)?;
        }
        if let Some(deadline) = extras.deadline {
            options = options.deadline(deadline);
        }
        Ok(self.service.with(options))
    }
}

fn echoes(metadata: &ReplyMetadata) -> Echoes {
    Echoes {
        initial: metadata.headers().get(ECHO_INITIAL).map(str::to_owned),
        trailing: metadata.get_bin(ECHO_TRAILING).map(<[u8]>::to_vec),
    }
}

impl Caller for Calls {
    type Call = Call;

    async fn another(&self) -> anyhow::Result<Self> {
        Self::new(&self.address)
    }

    async fn empty(&self) -> Result<(), Status> {
        self.service.empty_call(&Empty::default()).await.map(drop)
    }

    async fn unary(
        &self,
        request: SimpleRequest,
        extras: Extras,
    ) -> Result<(SimpleResponse, Echoes), Status> {
        let (reply, metadata) = self.with(extras)?.unary_call(&request).with_metadata().await;
        Ok((reply?, echoes(&metadata)))
    }

    async fn cacheable(
        &self,
        request: SimpleRequest,
        extras: Extras,
    ) -> Result<SimpleResponse, Status> {
        self.with(extras)?.cacheable_unary_call(&request).await
    }

    async fn output(
        &self,
        request: StreamingOutputCallRequest,
    ) -> Result<Vec<StreamingOutputCallResponse>, Status> {
        let mut replies = self.service.streaming_output_call(&request).await?;
        let mut items = Vec::new();
        while let Some(item) = replies.next().await {
            items.push(item?);
        }
        Ok(items)
    }

    async fn input(&self, requests: Vec<StreamingInputCallRequest>) -> Result<i32, Status> {
        let mut call = self.service.streaming_input_call().await?;
        for request in &requests {
            call.send(request).await?;
        }
        Ok(call.finish().await?.aggregated_payload_size)
    }

    async fn cancelled_input(&self) -> Result<(), Status> {
        self.service.streaming_input_call().await?.cancel();
        Ok(())
    }

    async fn duplex(&self, extras: Extras) -> Result<Call, Status> {
        let (requests, replies) = self.with(extras)?.full_duplex_call().await?;
        Ok(Call { requests: Some(requests), replies })
    }

    async fn unimplemented_method(&self) -> Result<(), Status> {
        self.service.unimplemented_call(&Empty::default()).await.map(drop)
    }

    async fn unimplemented_service(&self) -> Result<(), Status> {
        self.unimplemented.unimplemented_call(&Empty::default()).await.map(drop)
    }
}

struct Call {
    requests: Option<AsyncRequestStream<StreamingOutputCallRequest, ()>>,
    replies: AsyncReplyStream<StreamingOutputCallResponse>,
}

impl Duplex for Call {
    async fn send(&mut self, request: StreamingOutputCallRequest) -> Result<(), Status> {
        match &mut self.requests {
            Some(requests) => requests.send(&request).await,
            None => Err(Status::failed_precondition("the requests have ended")),
        }
    }

    async fn half_close(&mut self) -> Result<(), Status> {
        match self.requests.take() {
            Some(requests) => requests.finish().await,
            None => Ok(()),
        }
    }

    async fn next(&mut self) -> Result<Option<StreamingOutputCallResponse>, Status> {
        self.replies.next().await.transpose()
    }

    async fn echoes(&mut self) -> Result<Echoes, Status> {
        Ok(echoes(&self.replies.metadata()))
    }

    fn cancel(self) {
        self.replies.cancel();
    }
}
