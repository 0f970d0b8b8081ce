//! A call that a service of Python serves.
//!
//! **Invariants:** it is answered once; what is done after its end does nothing.
//! **Not here:** the calls that wait to be served (`call_queue.rs`).
//!
//! **Invariant:** the text of an exception stays in its process. *Checked by*
//! `test_an_exception_stays_in_the_service`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use nearcall::client::Loan;
use nearcall::dynamic::{DynamicRequest, Encoded};
use nearcall::observe::Peer;
use nearcall::stream::{AsyncItemReceiver, AsyncItemSender};
use nearcall::{CallContext, Code, Status};
use pyo3::types::{PyBytes, PyTuple};
use pyo3::{Bound, PyAny, PyResult, Python, pyclass, pymethods};

use crate::buffers::{self, encoded};
use crate::failure;
use crate::operation::Operation;
use crate::results::{item, nothing, opened_as};
use crate::slot::Slot;

/// A call, for the thread of the server and for Python.
pub(crate) struct CallState {
    pub(crate) id: u64,
    service: usize,
    context: CallContext,
    request: Option<Encoded>,
    requests: Option<Arc<Slot<AsyncItemReceiver<Encoded>>>>,
    replies: Option<Arc<Slot<AsyncItemSender<Encoded>>>>,
    answer: Mutex<Answer>,
    /// What the loop of the server is to lend: it alone can.
    wanted: Mutex<Vec<Arc<Wanted>>>,
}

/// Memory for a part of the reply, until Python has it.
struct Wanted {
    length: usize,
    state: Mutex<WantedState>,
}

enum WantedState {
    Waiting(Option<Waker>),
    Lent(Result<Loan, Status>),
    Taken,
}

impl Wanted {
    fn lend(&self, loan: Result<Loan, Status>) {
        let mut state = lock(&self.state);
        let before = std::mem::replace(&mut *state, WantedState::Lent(loan));
        drop(state);
        if let WantedState::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }

    fn poll(&self, waker: &Waker) -> Poll<Result<Loan, Status>> {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, WantedState::Taken) {
            WantedState::Lent(loan) => Poll::Ready(loan),
            WantedState::Waiting(_) | WantedState::Taken => {
                *state = WantedState::Waiting(Some(waker.clone()));
                Poll::Pending
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

enum Answer {
    Awaited(Option<Waker>),
    Given(Result<Encoded, Status>),
    /// Taken by the server, or not wanted any more.
    Over,
}

impl CallState {
    pub(crate) fn new(
        id: u64,
        service: usize,
        context: CallContext,
        request: DynamicRequest,
    ) -> Self {
        let (request, requests, replies) = match request {
            DynamicRequest::Unary(request) => (Some(request), None, None),
            DynamicRequest::ReplyStream(request, replies) => (Some(request), None, Some(replies)),
            DynamicRequest::RequestStream(requests) => (None, Some(requests), None),
            DynamicRequest::BothStreams(requests, replies) => (None, Some(requests), Some(replies)),
        };
        let (requests, replies) = (requests.map(Slot::new), replies.map(Slot::new));
        let answer = Mutex::new(Answer::Awaited(None));
        let wanted = Mutex::default();
        Self { id, service, context, request, requests, replies, answer, wanted }
    }

    fn answer(&self) -> MutexGuard<'_, Answer> {
        lock(&self.answer)
    }

    /// Gives what is wanted.
    fn lend(&self, loan: impl Fn(usize) -> Result<Loan, Status>) {
        let wanted = std::mem::take(&mut *lock(&self.wanted));
        wanted.iter().for_each(|wanted| wanted.lend(loan(wanted.length)));
    }

    /// Has the loop lend memory.
    fn want(&self, length: usize) -> Arc<Wanted> {
        let state = Mutex::new(WantedState::Waiting(None));
        let wanted = Arc::new(Wanted { length, state });
        lock(&self.wanted).push(Arc::clone(&wanted));
        let waker = match &*self.answer() {
            Answer::Awaited(waker) => Ok(waker.clone()),
            Answer::Given(_) | Answer::Over => Err(()),
        };
        match waker {
            Ok(waker) => waker.into_iter().for_each(Waker::wake),
            Err(()) => self.lend(|_| Err(over())),
        }
        wanted
    }

    /// Takes the answer, in the loop of the server.
    pub(crate) fn poll_answer(&self, waker: &Waker) -> Poll<Result<Encoded, Status>> {
        let polled = self.poll_given(waker);
        // After its waker is known: nothing is wanted meanwhile that it does not learn of.
        self.lend(|length| self.context.loan(length));
        polled
    }

    fn poll_given(&self, waker: &Waker) -> Poll<Result<Encoded, Status>> {
        let mut answer = self.answer();
        match &mut *answer {
            Answer::Awaited(awaited) => {
                *awaited = Some(waker.clone());
                Poll::Pending
            }
            Answer::Given(_) => match std::mem::replace(&mut *answer, Answer::Over) {
                Answer::Given(given) => Poll::Ready(given),
                _ => Poll::Pending,
            },
            Answer::Over => Poll::Pending,
        }
    }

    /// Ends the call at this end. Returns whether it has had its answer.
    pub(crate) fn close(&self) -> bool {
        let before = std::mem::replace(&mut *self.answer(), Answer::Over);
        self.requests.iter().for_each(|slot| slot.close());
        self.replies.iter().for_each(|slot| slot.close());
        self.lend(|_| Err(over()));
        matches!(before, Answer::Over)
    }

    fn give(&self, given: Result<Encoded, Status>) -> bool {
        let mut answer = self.answer();
        let Answer::Awaited(waker) = &mut *answer else { return false };
        let waker = waker.take();
        *answer = Answer::Given(given);
        drop(answer);
        waker.into_iter().for_each(Waker::wake);
        true
    }
}

#[cold]
fn over() -> Status {
    Status::new(Code::Cancelled, "the call was answered, or is not waited for any more")
}

/// A call to be served.
#[pyclass(frozen)]
pub(crate) struct ServerCall(pub(crate) Arc<CallState>);

#[pymethods]
impl ServerCall {
    /// The number of the call in its server.
    #[getter]
    fn id(&self) -> u64 {
        self.0.id
    }

    /// Which of the services of the server is called.
    #[getter]
    fn service(&self) -> usize {
        self.0.service
    }

    /// The name of the method.
    #[getter]
    fn method(&self) -> &'static str {
        self.0.context.method()
    }

    /// The request, or `None` where it is a stream.
    #[getter]
    fn request<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.0.request.as_ref().map(|request| PyBytes::new(py, request.bytes()))
    }

    /// Returns the request, whose long fields of these numbers are not copied.
    fn borrow<'py>(
        &self,
        py: Python<'py>,
        fields: Vec<u32>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let request = self.0.request.as_ref();
        request.map(|request| buffers::message(py, request, Some(&fields))).transpose()
    }

    /// Receives the next item of the request; `None` at their end. Long fields of these numbers are
    /// not copied.
    #[pyo3(signature = (fields=None))]
    fn receive(&self, fields: Option<Vec<u32>>) -> Operation {
        let slot = self.0.requests.clone();
        let next = async move {
            match slot {
                None => Ok(None),
                Some(slot) => slot
                    .run(|mut requests| async move {
                        let next = requests.next().await.transpose();
                        (requests, next)
                    })
                    .await
                    .unwrap_or_else(Err),
            }
        };
        Operation::new(next, move |py, next| item(py, next, fields.as_deref()))
    }

    /// Sends an item of the reply. Waits for credit and for room.
    fn send(&self, item: &Bound<'_, PyAny>) -> PyResult<Operation> {
        let (slot, item) = (self.0.replies.clone(), encoded(item)?);
        let sent = async move {
            match slot {
                None => Err(Status::new(Code::Internal, "the reply of the method is no stream")),
                Some(slot) => slot
                    .run(|mut replies| async move {
                        let sent = replies.send(&item).await;
                        (replies, sent)
                    })
                    .await
                    .unwrap_or_else(Err),
            }
        };
        Ok(Operation::new(sent, nothing))
    }

    /// Makes a wait for memory for a part of the reply.
    fn loan(&self, length: usize) -> Operation {
        let wanted = self.0.want(length);
        let lent = std::future::poll_fn(move |context| wanted.poll(context.waker()));
        Operation::new(lent, |py, loan| opened_as(py, loan.map(buffers::Loan::new)))
    }

    /// Answers the call. Returns whether it was waited for.
    fn reply(&self, reply: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.0.give(Ok(encoded(reply)?)))
    }

    /// Answers the call with an error. Returns whether it was waited for.
    fn fail(&self, code: u32, details: &str) -> PyResult<bool> {
        let code = match failure::code(code)? {
            Code::Ok => Code::Unknown,
            code => code,
        };
        Ok(self.0.give(Err(Status::new(code, details))))
    }

    /// Returns whether the caller does not wait any more.
    fn is_cancelled(&self) -> bool {
        self.0.context.is_cancelled() || matches!(*self.0.answer(), Answer::Over)
    }

    /// Returns how many seconds are left until the deadline, if there is one.
    fn remaining(&self) -> Option<f64> {
        self.0.context.remaining().map(|left| left.as_secs_f64())
    }

    /// Returns what the caller has sent beside the request.
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        failure::metadata(py, self.0.context.metadata())
    }

    /// Adds what is sent with the end of the call.
    fn add_trailing(&self, entries: &Bound<'_, PyAny>) -> PyResult<()> {
        let context = &self.0.context;
        failure::add_entries(entries, |key, value| context.add_reply_metadata_bin(key, value))
    }

    /// Sends entries before the first item and the reply.
    fn send_initial(&self, entries: &Bound<'_, PyAny>) -> PyResult<()> {
        let context = &self.0.context;
        failure::add_entries(entries, |key, value| context.add_header_bin(key, value))?;
        context.send_headers();
        Ok(())
    }

    /// Returns who calls: as text, the process id and the user id. The kernel vouches for the ids.
    fn peer(&self) -> (String, Option<i32>, Option<u32>) {
        let peer = self.0.context.peer();
        let (pid, uid) = (peer.pid(), peer.uid());
        let text = match peer {
            Peer::Remote(address) => format!("tcp:{address}"),
            _ => format!("process:{}", pid.unwrap_or(0)),
        };
        (text, pid, uid)
    }
}
