//! The bytes of a request, of which the end counts only if the peer has said it.
//!
//! hyper reports a stream that its peer has reset with `NO_ERROR` as one that has ended, and tonic
//! one that was reset with `CANCEL`. A service would take what came so far for all there is.
//!
//! **Invariants:** an end is one of HTTP/2, or an error.
//! **Not here:** messages (`tonic::Streaming`).
//!
//! **Invariant:** a stream of requests ends only where its peer has ended it (`request_body.rs`):
//! hyper and tonic report a reset as an end. *Checked by*
//! `a_call_that_its_peer_gives_up_is_cancelled`.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tonic::{Code, Status};

/// The code of a request that has not come to its end: tonic makes no error with it by itself.
pub(super) const GIVEN_UP: Code = Code::DataLoss;

/// A body whose end is one.
#[derive(Debug)]
pub(super) struct RequestBody(pub(super) Incoming);

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let given_up = || Poll::Ready(Some(Err(Status::new(GIVEN_UP, ""))));
        match ready!(Pin::new(&mut self.0).poll_frame(context)) {
            Some(Ok(frame)) => Poll::Ready(Some(Ok(frame))),
            Some(Err(_)) => given_up(),
            None if !self.0.is_end_stream() => given_up(),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
