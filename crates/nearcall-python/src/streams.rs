//! Calls that stream, at the caller's end.
//!
//! **Invariants:** an end that is dropped before the call has ended cancels it.
//! **Not here:** the service's end (`server_call.rs`), opening streams (`client.rs`).

use std::sync::Arc;

use nearcall::Status;
use nearcall::client::ReplyMetadata;
use nearcall::dynamic::Encoded;
use nearcall::stream::{AsyncReplyStream, AsyncRequestStream};
use pyo3::types::PyTuple;
use pyo3::{Bound, PyAny, PyResult, Python, pyclass, pymethods};

use crate::buffers::encoded;
use crate::failure;
use crate::operation::Operation;
use crate::results::{item, nothing, reply};
use crate::slot::Slot;

/// The replies of a call.
#[pyclass(frozen)]
pub(crate) struct Replies(Arc<Slot<AsyncReplyStream<Encoded>>>);

impl Replies {
    pub(crate) fn new(replies: AsyncReplyStream<Encoded>) -> Self {
        Self(Slot::new(replies))
    }
}

#[pymethods]
impl Replies {
    /// Receives the next item; `None` at the end of a call that has succeeded. Long fields of these
    /// numbers are not copied.
    #[pyo3(signature = (fields=None))]
    fn next(&self, fields: Option<Vec<u32>>) -> Operation {
        let slot = Arc::clone(&self.0);
        let next = slot.run(|mut replies| async move {
            let next = replies.next().await.transpose();
            (replies, next)
        });
        Operation::new(async move { next.await.unwrap_or_else(Err) }, move |py, next| {
            item(py, next, fields.as_deref())
        })
    }

    /// Waits for what the service sends before the first item.
    fn headers(&self) -> Operation {
        let slot = Arc::clone(&self.0);
        let headers = slot.run(|mut replies| async move {
            let headers = replies.headers().await;
            (replies, headers)
        });
        Operation::new(headers, |py, headers| match headers {
            Ok(headers) => Ok(failure::metadata(py, headers.headers())?.into_any().unbind()),
            Err(status) => Err(failure::error(py, &status)),
        })
    }

    /// Returns what came with the end of the call, after that end.
    fn trailing<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let sent = self.0.read(|replies| replies.metadata()).unwrap_or_default();
        Ok(failure::both(py, &sent)?.0)
    }

    /// Cancels the call.
    fn cancel(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }
}

/// The requests of a call.
#[pyclass(frozen)]
pub(crate) struct Requests(Ends);

enum Ends {
    /// Their end is that of the call.
    WithReply(Arc<Slot<AsyncRequestStream<Encoded, Encoded>>>),
    /// The replies are a stream as well.
    Alone(Arc<Slot<AsyncRequestStream<Encoded, ()>>>),
}

impl Requests {
    pub(crate) fn with_reply(requests: AsyncRequestStream<Encoded, Encoded>) -> Self {
        Self(Ends::WithReply(Slot::new(requests)))
    }

    pub(crate) fn alone(requests: AsyncRequestStream<Encoded, ()>) -> Self {
        Self(Ends::Alone(Slot::new(requests)))
    }
}

async fn send<R: nearcall::prost::Message + Default + Send + 'static>(
    slot: Arc<Slot<AsyncRequestStream<Encoded, R>>>,
    item: Encoded,
) -> Result<(), Status> {
    let sent = slot.run(|mut requests| async move {
        let sent = requests.send(&item).await;
        (requests, sent)
    });
    sent.await.unwrap_or_else(Err)
}

#[pymethods]
impl Requests {
    /// Sends an item. Waits for credit and for room.
    fn send(&self, item: &Bound<'_, PyAny>) -> PyResult<Operation> {
        let item = encoded(item)?;
        Ok(match &self.0 {
            Ends::WithReply(slot) => Operation::new(send(Arc::clone(slot), item), nothing),
            Ends::Alone(slot) => Operation::new(send(Arc::clone(slot), item), nothing),
        })
    }

    /// Ends the items. The result is the reply with what came after and before it, or `None` where
    /// the replies are a stream.
    fn finish(&self) -> Operation {
        match &self.0 {
            Ends::WithReply(slot) => {
                let slot = Arc::clone(slot);
                let finished = async move {
                    match slot.take() {
                        Ok(requests) => requests.finish_with_metadata().await,
                        Err(status) => (Err(status), ReplyMetadata::default()),
                    }
                };
                Operation::new(finished, |py, ended| reply(py, ended, None))
            }
            Ends::Alone(slot) => {
                let slot = Arc::clone(slot);
                let finished = async move {
                    match slot.take() {
                        Ok(requests) => requests.finish().await,
                        Err(status) => Err(status),
                    }
                };
                Operation::new(finished, nothing)
            }
        }
    }

    /// Cancels the call.
    fn cancel(&self, py: Python<'_>) {
        py.detach(|| match &self.0 {
            Ends::WithReply(slot) => slot.close(),
            Ends::Alone(slot) => slot.close(),
        });
    }
}
