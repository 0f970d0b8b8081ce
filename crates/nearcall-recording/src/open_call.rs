//! A call that is being replayed, of any shape.
//!
//! **Invariants:** a call has one outcome, which is kept once it is known.
//! **Not here:** when something of it happens, and what is compared (`player.rs`).

use std::time::Duration;

use bytes::Bytes;
use nearcall::client::PendingCall;
use nearcall::control::{RecordedEntry, RecordedRequest};
use nearcall::dynamic::{DynamicCaller, Encoded};
use nearcall::stream::{ReplyStream, RequestStream};
use nearcall::{CallOptions, Status};

/// The end of a call: its reply, which calls with items of the service have none of.
pub(crate) type Outcome = Result<Option<Bytes>, Status>;

/// A call under way.
pub(crate) enum OpenCall {
    Unary(PendingCall<Encoded>),
    Replies(ReplyStream<Encoded>),
    Requests(RequestStream<Encoded, Encoded>),
    Both(Option<RequestStream<Encoded, ()>>, ReplyStream<Encoded>),
    Ended(Outcome),
}

impl OpenCall {
    /// Sends the request of a call or a one-way message.
    pub(crate) fn start(
        caller: &DynamicCaller,
        request: &RecordedRequest,
        timeout: Duration,
    ) -> Self {
        Self::try_start(caller, request, timeout).unwrap_or_else(|status| Self::Ended(Err(status)))
    }

    fn try_start(
        caller: &DynamicCaller,
        request: &RecordedRequest,
        timeout: Duration,
    ) -> Result<Self, Status> {
        let caller = caller.with(options(&request.metadata, timeout)?);
        let body = request.body.as_ref().map(|body| body.data.clone()).unwrap_or_default();
        let (method, body) = (request.method.as_str(), Encoded::from(body));
        Ok(match (request.has_request_items, request.has_reply_items) {
            (false, false) if request.is_oneway => {
                caller.send(method, &body)?;
                Self::Ended(Ok(None))
            }
            (false, false) => Self::Unary(caller.start(method, &body)),
            (false, true) => Self::Replies(caller.open_reply_stream(method, &body)?),
            (true, false) => Self::Requests(caller.open_request_stream(method)?),
            (true, true) => {
                let (requests, replies) = caller.open_both_streams(method)?;
                Self::Both(Some(requests), replies)
            }
        })
    }

    /// Sends an item.
    pub(crate) fn send(&mut self, item: Bytes) {
        let item = Encoded::from(item);
        let sent = match self {
            Self::Requests(requests) => requests.send(&item),
            Self::Both(Some(requests), _) => requests.send(&item),
            _ => Ok(()),
        };
        // The end of the call says it again where it has one to be read.
        if let (Err(status), Self::Requests(_)) = (sent, &*self) {
            *self = Self::Ended(Err(status));
        }
    }

    /// Ends the items of the caller, and waits for the reply where there is one.
    pub(crate) fn half_close(&mut self) {
        match std::mem::replace(self, Self::Ended(Ok(None))) {
            Self::Requests(requests) => {
                *self = Self::Ended(requests.finish().map(|reply| Some(reply.into_bytes())));
            }
            Self::Both(Some(requests), replies) => {
                // The end of the replies is the end of the call.
                let _ = requests.finish();
                *self = Self::Both(None, replies);
            }
            other => *self = other,
        }
    }

    /// Waits for the next item of the service. `None`: the call has ended.
    pub(crate) fn next_item(&mut self) -> Option<Bytes> {
        let next = match self {
            Self::Replies(replies) | Self::Both(_, replies) => replies.recv(),
            _ => return None,
        };
        match next {
            Ok(Some(item)) => Some(item.into_bytes()),
            Ok(None) => {
                *self = Self::Ended(Ok(None));
                None
            }
            Err(status) => {
                *self = Self::Ended(Err(status));
                None
            }
        }
    }

    /// Waits for the end of a call. An item that comes instead is returned beside no end.
    pub(crate) fn finish(mut self) -> Result<Outcome, Bytes> {
        if matches!(self, Self::Requests(_)) {
            self.half_close();
        }
        if let Some(item) = self.next_item() {
            return Err(item);
        }
        Ok(match self {
            Self::Unary(pending) => pending.wait().map(|reply| Some(reply.into_bytes())),
            Self::Ended(outcome) => outcome,
            Self::Replies(_) | Self::Requests(_) | Self::Both(..) => Ok(None),
        })
    }
}

fn options(metadata: &[RecordedEntry], timeout: Duration) -> Result<CallOptions, Status> {
    let mut options = CallOptions::new().deadline(timeout);
    for RecordedEntry { key, value } in metadata {
        options = options.metadata_bin(key, value)?;
    }
    Ok(options)
}
