//! One call to another machine.
//!
//! **Invariants:** items pass one by one, so that credit of one side and windows of the other hold
//! back whoever sends; a call that is dropped here is reset there.
//! **Not here:** connections (`remote.rs`).
//!
//! **Invariant:** a call is sent again only if no machine has seen it, or if its method is
//! idempotent. *Checked by* `only_an_idempotent_call_is_sent_again`.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use http::uri::PathAndQuery;
use nearcall::client::{BadMetadata, ReconnectPolicy};
use nearcall::dynamic::{DynamicRequest, DynamicService, Encoded};
use nearcall::service::Interface;
use nearcall::stream::{AsyncItemReceiver, AsyncItemSender};
use nearcall::transport::WAIT_FOR_READY;
use nearcall::{CallContext, Code, Deadline, Status};
use tokio::sync::oneshot;
use tonic::codec::{Codec, CompressionEncoding, EncodeBuf, Encoder, Streaming};
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{ConnectError, Response, TimeoutExpired};

use super::lock;
use super::remote::{PAUSE_MAX, PAUSE_MIN, Remote, chain_of};
use crate::codec::BytesCodec;
use crate::convert;

/// How often a call is sent again whose connection has ended, if it is idempotent or was not sent:
/// a server that ends each time is not to be asked without end.
const RESENDS_MAX: usize = 3;

/// Forwards the calls of an interface.
pub(super) struct Forward {
    remote: Arc<Remote>,
    interface: &'static Interface,
}

/// What goes with a call.
struct Call<'a> {
    context: &'a CallContext,
    path: PathAndQuery,
    is_idempotent: bool,
    /// Until when another machine that cannot be reached is tried again.
    patience: Option<Deadline>,
}

impl Forward {
    pub(super) fn new(remote: Arc<Remote>, interface: &'static Interface) -> Self {
        Self { remote, interface }
    }

    fn call<'a>(&self, context: &'a CallContext) -> Result<Call<'a>, Status> {
        let method = context.method();
        let path = format!("/{}/{method}", self.interface.name);
        let path = path.parse().map_err(|_| Status::internal(format!("{path} is no path")))?;
        let known = self.interface.method_named(method);
        let is_idempotent = known.is_some_and(|method| method.is_idempotent());
        let span = match self.remote.policy {
            _ if context.metadata().get(WAIT_FOR_READY).is_some() => Some(Duration::MAX),
            ReconnectPolicy::Wait(span) | ReconnectPolicy::AtOnce(span) => Some(span),
            _ => None,
        };
        let patience = span.map(Deadline::after);
        Ok(Call { context, path, is_idempotent, patience })
    }

    /// Opens the call over one connection.
    async fn open(
        &self,
        call: &Call<'_>,
        channel: Channel,
        requests: Requests,
    ) -> Result<Response<Streaming<Encoded>>, tonic::Status> {
        let options = &self.remote.options;
        let mut grpc = tonic::client::Grpc::new(channel)
            .max_decoding_message_size(options.message_bytes_max)
            .accept_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Zstd);
        if options.gzip {
            grpc = grpc.send_compressed(CompressionEncoding::Gzip);
        }
        let mut request = tonic::Request::new(requests);
        for (key, value) in call.context.metadata().iter() {
            convert::add_entry(request.metadata_mut(), key, value);
        }
        if let Some(left) = call.context.remaining() {
            request.set_timeout(left);
        }
        grpc.ready().await.map_err(|error| tonic::Status::from_error(error.into()))?;
        grpc.streaming(request, call.path.clone(), RequestCodec).await
    }

    async fn unary(&self, call: &Call<'_>, request: Encoded) -> Result<Encoded, Status> {
        let mut attempts = Attempts::new(&self.remote, call.patience, call.is_idempotent);
        loop {
            let channel = attempts.channel().await?;
            let reply = match self.open(call, channel, Requests::one(&request)).await {
                Ok(answers) => read_one(call.context, answers).await,
                Err(status) => Err(status),
            };
            match reply {
                Ok(reply) => return Ok(reply),
                Err(status) => attempts.failed(status).await?,
            }
        }
    }

    async fn taken(
        &self,
        call: &Call<'_>,
        requests: AsyncItemReceiver<Encoded>,
    ) -> Result<Encoded, Status> {
        // Dropped with this call.
        let (_waits, while_waited) = oneshot::channel();
        let answers = self.open_items(call, (requests, while_waited)).await?;
        let reply = read_one(call.context, answers).await;
        reply.map_err(|status| end_of(&self.remote, &status))
    }

    /// Opens a call whose requests are a stream. None of them is lost while no machine is reached.
    async fn open_items(
        &self,
        call: &Call<'_>,
        requests: Items,
    ) -> Result<Response<Streaming<Encoded>>, Status> {
        let kept = Arc::new(Mutex::new(Some(requests)));
        let requests = || Requests::Items(lock(&kept).take(), Arc::clone(&kept));
        self.open_stream(call, requests).await
    }

    /// Opens a call of which nothing is sent again once a machine has seen it.
    async fn open_stream(
        &self,
        call: &Call<'_>,
        requests: impl Fn() -> Requests,
    ) -> Result<Response<Streaming<Encoded>>, Status> {
        let mut attempts = Attempts::new(&self.remote, call.patience, false);
        loop {
            let channel = attempts.channel().await?;
            match self.open(call, channel, requests()).await {
                Ok(answers) => return Ok(answers),
                Err(status) => attempts.failed(status).await?,
            }
        }
    }
}

impl DynamicService for Forward {
    async fn serve(
        &self,
        context: CallContext,
        request: DynamicRequest,
    ) -> Result<Encoded, Status> {
        let call = &self.call(&context)?;
        match request {
            DynamicRequest::Unary(request) => self.unary(call, request).await,
            DynamicRequest::RequestStream(requests) => self.taken(call, requests).await,
            DynamicRequest::ReplyStream(request, replies) => {
                let answers = self.open_stream(call, || Requests::one(&request)).await?;
                pass_items(&self.remote, call.context, answers, replies).await
            }
            DynamicRequest::BothStreams(requests, replies) => {
                let (_waits, while_waited) = oneshot::channel();
                let answers = self.open_items(call, (requests, while_waited)).await?;
                pass_items(&self.remote, call.context, answers, replies).await
            }
        }
    }
}

/// The attempts to make one call: again where that does no harm.
struct Attempts<'a> {
    remote: &'a Remote,
    patience: Option<Deadline>,
    is_idempotent: bool,
    resends: usize,
    /// Addresses that were tried and not reached since the last pause.
    tried: usize,
    places: usize,
    pause: Duration,
}

impl<'a> Attempts<'a> {
    fn new(remote: &'a Remote, patience: Option<Deadline>, is_idempotent: bool) -> Self {
        let (resends, tried, places, pause) = (0, 0, 1, PAUSE_MIN);
        Self { remote, patience, is_idempotent, resends, tried, places, pause }
    }

    /// Returns the connection for the next attempt.
    async fn channel(&mut self) -> Result<Channel, Status> {
        loop {
            match self.remote.channel().await {
                Ok((channel, places)) => {
                    self.places = places;
                    return Ok(channel);
                }
                Err(status) => self.wait(status).await?,
            }
        }
    }

    /// Returns once there may be another attempt.
    ///
    /// # Errors
    ///
    /// The status of the call: there is to be none.
    async fn failed(&mut self, status: tonic::Status) -> Result<(), Status> {
        let may_resend = self.remote.policy != ReconnectPolicy::Never && self.resends < RESENDS_MAX;
        if was_not_sent(&status) && may_resend {
            self.resends += 1;
            return Ok(());
        }
        if has_not_begun(&status) {
            self.remote.look_again();
            self.tried += 1;
            if self.tried < self.places {
                return Ok(());
            }
            let why = std::error::Error::source(&status).map_or_else(String::new, chain_of);
            let text = format!("{} cannot be reached: {why}", self.remote.address);
            return self.wait(Status::unavailable(text)).await;
        }
        let status = end_of(self.remote, &status);
        if status.code() == Code::Unavailable && self.is_idempotent && may_resend {
            self.resends += 1;
            return Ok(());
        }
        Err(status)
    }

    /// Waits before all addresses are tried again.
    async fn wait(&mut self, status: Status) -> Result<(), Status> {
        if self.patience.is_none_or(Deadline::has_passed) {
            return Err(status);
        }
        self.remote.look_again();
        tokio::time::sleep(self.pause).await;
        (self.pause, self.tried) = ((2 * self.pause).min(PAUSE_MAX), 0);
        Ok(())
    }
}

/// Returns how a call has ended: by the other machine's word, or since its connection was lost.
fn end_of(remote: &Remote, status: &tonic::Status) -> Status {
    let address = &remote.address;
    match std::error::Error::source(status) {
        // tonic has a code of its own for that.
        Some(_) if causes(status).any(|error| error.is::<TimeoutExpired>()) => {
            let text = format!("no answer from {address} in time; the method may have run");
            Status::deadline_exceeded(text)
        }
        Some(why) if is_of_connection(status) => Status::unavailable(format!(
            "the connection to {address} has ended, and the method may have run: {}",
            chain_of(why)
        )),
        Some(why) if was_dropped(status) => Status::unavailable(format!(
            "the call at {address} has ended, and the method may have run: {}",
            chain_of(why)
        )),
        _ => convert::from_grpc(status),
    }
}

/// Returns whether the other end has dropped the call without a word: a server that ends may reset
/// its calls before its connection is closed. Callers that give up reset calls at this end.
fn was_dropped(status: &tonic::Status) -> bool {
    let error = causes(status).find_map(|error| error.downcast_ref::<h2::Error>());
    error.is_some_and(|error| {
        error.is_reset() && error.is_remote() && error.reason() == Some(h2::Reason::CANCEL)
    })
}

/// Returns the errors that have caused a status of this end.
fn causes(status: &tonic::Status) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(std::error::Error::source(status), |error| error.source())
}

/// Returns whether the connection has ended, and not the call alone.
pub(super) fn is_of_connection(status: &tonic::Status) -> bool {
    match causes(status).find_map(|error| error.downcast_ref::<h2::Error>()) {
        Some(error) => !error.is_reset(),
        None => status.code() == tonic::Code::Unknown,
    }
}

/// Returns whether no server has seen the call.
pub(super) fn has_not_begun(status: &tonic::Status) -> bool {
    was_not_sent(status) || causes(status).any(|error| error.is::<ConnectError>())
}

/// Returns whether the connection had ended already when the call was to be sent.
fn was_not_sent(status: &tonic::Status) -> bool {
    // Over HTTP/2 hyper cancels nothing but what it gives back.
    let errors = causes(status).filter_map(|error| error.downcast_ref::<hyper::Error>());
    errors.into_iter().any(hyper::Error::is_canceled)
}

/// Reads the answer of a call with one reply, and sends what goes beside it.
async fn read_one(
    context: &CallContext,
    answers: Response<Streaming<Encoded>>,
) -> Result<Encoded, tonic::Status> {
    let (headers, mut answers, _) = answers.into_parts();
    let reply = answers.message().await?;
    let reply =
        reply.ok_or_else(|| tonic::Status::internal("the call has ended without a reply"))?;
    if answers.message().await?.is_some() {
        return Err(tonic::Status::internal("the call has several replies and should have one"));
    }
    let trailers = answers.trailers().await?.unwrap_or_default();
    add_headers(context, &headers);
    add_trailers(context, &trailers);
    Ok(reply)
}

/// Passes the replies of a call on, one by one.
async fn pass_items(
    remote: &Remote,
    context: &CallContext,
    answers: Response<Streaming<Encoded>>,
    mut replies: AsyncItemSender<Encoded>,
) -> Result<Encoded, Status> {
    let (headers, mut answers, _) = answers.into_parts();
    add_headers(context, &headers);
    context.send_headers();
    let failed = |status: tonic::Status| end_of(remote, &status);
    while let Some(reply) = answers.message().await.map_err(failed)? {
        replies.send(&reply).await?;
    }
    add_trailers(context, &answers.trailers().await.map_err(failed)?.unwrap_or_default());
    Ok(Encoded::default())
}

/// Sends what the other machine has sent before its reply.
fn add_headers(context: &CallContext, metadata: &MetadataMap) {
    add(metadata, |key, value| context.add_header_bin(key, value));
}

/// Sends what the other machine has sent with the end of the call.
fn add_trailers(context: &CallContext, metadata: &MetadataMap) {
    add(metadata, |key, value| context.add_reply_metadata_bin(key, value));
}

/// Adds entries, text as well: what a value may be, its key decides.
fn add(metadata: &MetadataMap, entry: impl Fn(&str, &[u8]) -> Result<(), BadMetadata>) {
    for (key, value) in convert::entries_of(metadata) {
        if let Err(error) = entry(key, &value) {
            tracing::debug!("metadata of a reply were left out: {error}");
        }
    }
}

/// The items of a call, and what ends when its caller does not wait any more.
type Items = (AsyncItemReceiver<Encoded>, oneshot::Receiver<()>);

/// The requests of a call, for tonic. One of `None` resets it.
enum Requests {
    One(Option<Encoded>),
    /// And where they go back to if the call is opened again.
    Items(Option<Items>, Arc<Mutex<Option<Items>>>),
}

impl Requests {
    fn one(request: &Encoded) -> Self {
        Self::One(Some(request.clone()))
    }
}

impl Stream for Requests {
    type Item = Option<Encoded>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.get_mut() {
            Self::One(request) => Poll::Ready(request.take().map(Some)),
            Self::Items(None, _) => Poll::Ready(None),
            Self::Items(Some((items, waits)), _) => {
                // To end them would be to say that these were all.
                if Pin::new(waits).poll(context).is_ready() {
                    return Poll::Ready(Some(None));
                }
                match Pin::new(items).poll_next(context) {
                    Poll::Ready(Some(Ok(item))) => Poll::Ready(Some(Some(item))),
                    Poll::Ready(None) => Poll::Ready(None),
                    // The call has ended here, and is dropped now.
                    Poll::Ready(Some(Err(_))) | Poll::Pending => Poll::Pending,
                }
            }
        }
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        if let Self::Items(items, kept) = self {
            *lock(kept) = items.take();
        }
    }
}

/// Sends messages as they are, and resets the call where there is none.
#[derive(Debug, Clone, Copy, Default)]
struct RequestCodec;

impl Codec for RequestCodec {
    type Encode = Option<Encoded>;
    type Decode = Encoded;
    type Encoder = Self;
    type Decoder = BytesCodec;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> BytesCodec {
        BytesCodec
    }
}

impl Encoder for RequestCodec {
    type Item = Option<Encoded>;
    type Error = tonic::Status;

    fn encode(
        &mut self,
        message: Option<Encoded>,
        into: &mut EncodeBuf<'_>,
    ) -> Result<(), tonic::Status> {
        let given_up = || tonic::Status::from_error(h2::Error::from(h2::Reason::CANCEL).into());
        BytesCodec.encode(message.ok_or_else(given_up)?, into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outbound;

    #[test]
    fn a_call_whose_time_is_over_for_tonic_has_passed_its_deadline() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (options, policy) = (Arc::new(Outbound::new()), ReconnectPolicy::Once);
        let address = "grpc://127.0.0.1:1";
        let remote = Remote::new(0, address, policy, options, runtime.handle()).unwrap();
        let status = tonic::Status::from_error(Box::new(TimeoutExpired(())));
        assert_eq!(status.code(), tonic::Code::Cancelled);
        assert_eq!(end_of(&remote, &status).code(), Code::DeadlineExceeded);
    }
}
