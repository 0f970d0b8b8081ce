//! Calls that stream, whose steps are reported to the program, at the caller's end.
//!
//! A step is opening, sending, receiving, or ending: it is started, and how it has ended is taken
//! later, by the handle of a started call.
//! **Invariants:** a direction has one step at a time; a step that is cancelled cancels the call,
//! and a stream that is freed cancels its steps.
//! **Not here:** steps that a thread waits for (`streams.rs`), who reports them (`notified.rs`).

use std::ffi::{c_char, c_void};
use std::process;
use std::sync::{Arc, Mutex};

use nearcall::Status;
use nearcall::client::ReplyMetadata;
use nearcall::dynamic::{AsyncDynamicCaller, Encoded};
use nearcall::stream::{AsyncReplyStream, AsyncRequestStream};

use crate::border::{Border, border, is_null};
use crate::handles::{self, Kind};
use crate::notified::{Canceller, Notified, Outcome, Report, lock, of_parent};
use crate::pending;
use crate::status::nearcall_status;
use crate::types::{
    NEARCALL_SHAPE_BOTH_STREAMS, NEARCALL_SHAPE_REPLY_STREAM, NEARCALL_SHAPE_REQUEST_STREAM,
    nearcall_call_options, nearcall_caller, nearcall_pending, nearcall_stream, nearcall_view,
};

/// The two directions of a call.
pub(crate) struct NotifiedStream {
    requests: Arc<Direction<Requests>>,
    replies: Arc<Direction<AsyncReplyStream<Encoded>>>,
    /// The thread that polls steps is not in a forked process.
    process: u32,
}

enum Requests {
    /// Their end is that of the call.
    WithReply(AsyncRequestStream<Encoded, Encoded>),
    /// The replies are a stream as well.
    Alone(AsyncRequestStream<Encoded, ()>),
}

impl Kind for NotifiedStream {
    const NAME: &'static str = "stream";
}

/// An end of a stream, which is with a step while there is one.
struct Direction<E> {
    /// For people.
    name: &'static str,
    state: Mutex<DirectionState<E>>,
}

enum DirectionState<E> {
    Idle(E),
    InUse(Canceller),
    Closed,
}

impl<E> Direction<E> {
    fn new(name: &'static str) -> Arc<Self> {
        let state = Mutex::new(DirectionState::InUse(Canceller::default()));
        Arc::new(Self { name, state })
    }

    fn take(&self) -> Result<E, Status> {
        let mut state = lock(&self.state);
        let in_use = DirectionState::InUse(Canceller::default());
        match std::mem::replace(&mut *state, in_use) {
            DirectionState::Idle(end) => Ok(end),
            other => {
                *state = other;
                Err(self.is_not_idle())
            }
        }
    }

    #[cold]
    fn is_not_idle(&self) -> Status {
        let name = self.name;
        Status::failed_precondition(format!(
            "this stream has no {name}, they have ended, or a step of theirs is under way: take \
             how that has ended first"
        ))
    }

    /// Ends the step that has had the end.
    fn put(&self, end: Option<E>) {
        let mut state = lock(&self.state);
        if matches!(*state, DirectionState::InUse(_)) {
            *state = end.map_or(DirectionState::Closed, DirectionState::Idle);
        }
    }

    /// Says what cancels the step that has the end.
    fn is_used_by(&self, step: Canceller) {
        let mut state = lock(&self.state);
        if let DirectionState::InUse(canceller) = &mut *state {
            return *canceller = step;
        }
        drop(state);
        step.cancel();
    }

    fn close(&self) {
        let before = std::mem::replace(&mut *lock(&self.state), DirectionState::Closed);
        if let DirectionState::InUse(step) = before {
            step.cancel();
        }
    }
}

impl NotifiedStream {
    pub(crate) fn trailers(&self) -> Result<ReplyMetadata, Status> {
        self.check_process()?;
        match &*lock(&self.replies.state) {
            DirectionState::Idle(replies) => Ok(replies.metadata()),
            _ => Err(self.replies.is_not_idle()),
        }
    }

    fn check_process(&self) -> Result<(), Status> {
        if self.process == process::id() { Ok(()) } else { Err(of_parent()) }
    }
}

impl Drop for NotifiedStream {
    fn drop(&mut self) {
        if self.process != process::id() {
            // The parent's thread may have held any lock.
            std::mem::forget((Arc::clone(&self.requests), Arc::clone(&self.replies)));
            return;
        }
        self.requests.close();
        self.replies.close();
    }
}

type Opened = (Option<Requests>, Option<AsyncReplyStream<Encoded>>);

async fn open(
    caller: AsyncDynamicCaller,
    method: String,
    shape: u32,
    request: Encoded,
) -> Result<Opened, Status> {
    Ok(match shape {
        NEARCALL_SHAPE_REPLY_STREAM => {
            (None, Some(caller.open_reply_stream(&method, &request).await?))
        }
        NEARCALL_SHAPE_REQUEST_STREAM => {
            (Some(Requests::WithReply(caller.open_request_stream(&method).await?)), None)
        }
        _ => {
            let (requests, replies) = caller.open_both_streams(&method).await?;
            (Some(Requests::Alone(requests)), Some(replies))
        }
    })
}

fn check_shape(shape: u32, request: nearcall_view) -> Result<(), Status> {
    let text = match shape {
        NEARCALL_SHAPE_REPLY_STREAM => return Ok(()),
        NEARCALL_SHAPE_REQUEST_STREAM | NEARCALL_SHAPE_BOTH_STREAMS if request.size == 0 => {
            return Ok(());
        }
        NEARCALL_SHAPE_REQUEST_STREAM | NEARCALL_SHAPE_BOTH_STREAMS => {
            "`request` is not empty: send the items by nearcall_stream_start_send".to_owned()
        }
        _ => format!("`shape` is {shape}: it has to be that of a call that streams"),
    };
    Err(Status::invalid_argument(text))
}

/// Opens a call that streams as `nearcall_open_reply_stream` and the others do, by `shape`, for a
/// loop that waits for other things as well. `request` is empty where requests are a stream.
///
/// `stream` is set at once. Opening is a step, as are `nearcall_stream_start_send` and the others:
/// `done` is called once with `data` at its end, as `nearcall_start_notified` has it; then take how
/// it has ended by `nearcall_pending_wait`, and only then start the next step of that direction.
/// Requests and replies are independent. A step that is cancelled cancels the call.
///
/// Of the functions that wait, only `nearcall_stream_trailers` and `nearcall_stream_free` are for
/// this stream: they do not wait. The handle may be used in any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_open_notified(
    caller: nearcall_caller,
    method: *const c_char,
    shape: u32,
    request: nearcall_view,
    options: *const nearcall_call_options,
    done: Option<unsafe extern "C" fn(data: *mut c_void)>,
    data: *mut c_void,
    stream: *mut nearcall_stream,
    pending: *mut nearcall_pending,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            at.place("stream", stream)?;
            let pending = at.place("pending", pending)?;
            // First, since the call uses up its loan in any case.
            let options = at.options("options", options)?;
            let encoded = at.request(request, options.as_ref())?.into_encoded();
            let method = at.text("method", method)?.to_owned();
            let done = done.ok_or_else(|| is_null("done"))?;
            check_shape(shape, request)?;
            let caller = at.notified_caller(caller, options.as_ref())?;
            let requests = Direction::new("requests");
            let replies = Direction::new("replies");
            let (for_requests, for_replies) = (Arc::clone(&requests), Arc::clone(&replies));
            let work = async move {
                let opened = open(caller, method, shape, encoded).await;
                let (ends, ended) = match opened {
                    Ok(ends) => (ends, Ok(None)),
                    Err(status) => ((None, None), Err(status)),
                };
                for_requests.put(ends.0);
                for_replies.put(ends.1);
                (ended, ReplyMetadata::default())
            };
            let id = handles::next_id();
            at.put("stream", stream, nearcall_stream { id })?;
            let process = process::id();
            let started = pending::start(at, work, Report { done, data }, pending, |step| {
                requests.is_used_by(step.canceller());
                replies.is_used_by(step.canceller());
                handles::add_as(id, NotifiedStream { requests, replies, process });
            });
            started.or_else(|status| {
                at.put("stream", stream, nearcall_stream { id: 0 })?;
                Err(status)
            })
        })
    }
}

/// Where a step goes, and who is told of its end.
struct Step {
    done: Option<unsafe extern "C" fn(data: *mut c_void)>,
    data: *mut c_void,
    pending: *mut nearcall_pending,
}

impl Step {
    /// Starts it: it has the end of a direction, and gives back what is left of that.
    fn start<E: Send + 'static, F>(
        self,
        at: &Border,
        stream: nearcall_stream,
        direction: impl FnOnce(&NotifiedStream) -> &Arc<Direction<E>>,
        run: impl FnOnce(E) -> F,
    ) -> Result<(), Status>
    where
        F: Future<Output = (Option<E>, Outcome)> + Send + 'static,
    {
        let Self { done, data, pending } = self;
        let pending = at.place("pending", pending)?;
        let done = done.ok_or_else(|| is_null("done"))?;
        let stream = handles::get::<NotifiedStream>(stream.id)?;
        stream.check_process()?;
        let direction = Arc::clone(direction(&stream));
        let user = Arc::clone(&direction);
        let run = run(direction.take()?);
        let work = async move {
            let (end, outcome) = run.await;
            direction.put(end);
            outcome
        };
        let started = |step: &Notified| user.is_used_by(step.canceller());
        pending::start(at, work, Report { done, data }, pending, started)
    }
}

/// Starts to send an item of the request: the step ends when there was credit and room. Take how
/// it has ended by `nearcall_pending_wait`; there is no reply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_stream_start_send(
    stream: nearcall_stream,
    item: nearcall_view,
    done: Option<unsafe extern "C" fn(data: *mut c_void)>,
    data: *mut c_void,
    pending: *mut nearcall_pending,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            let item = Encoded::from(at.bytes("item", item)?.to_vec());
            let step = Step { done, data, pending };
            step.start(
                at,
                stream,
                |stream| &stream.requests,
                |mut requests| async move {
                    let sent = match &mut requests {
                        Requests::WithReply(requests) => requests.send(&item).await,
                        Requests::Alone(requests) => requests.send(&item).await,
                    };
                    (Some(requests), (sent.map(|()| None), ReplyMetadata::default()))
                },
            )
        })
    }
}

/// Starts to receive the next item of the reply. Take it by `nearcall_pending_wait_item`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_stream_start_receive(
    stream: nearcall_stream,
    done: Option<unsafe extern "C" fn(data: *mut c_void)>,
    data: *mut c_void,
    pending: *mut nearcall_pending,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            let step = Step { done, data, pending };
            step.start(
                at,
                stream,
                |stream| &stream.replies,
                |mut replies| async move {
                    let received = replies.next().await.transpose();
                    (Some(replies), (received, ReplyMetadata::default()))
                },
            )
        })
    }
}

/// Starts to wait for the headers: what the service sends before the first item. Take them by
/// `nearcall_pending_wait`; there is no reply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_stream_start_headers(
    stream: nearcall_stream,
    done: Option<unsafe extern "C" fn(data: *mut c_void)>,
    data: *mut c_void,
    pending: *mut nearcall_pending,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            let step = Step { done, data, pending };
            step.start(
                at,
                stream,
                |stream| &stream.replies,
                |mut replies| async move {
                    let headers = replies.headers().await;
                    (Some(replies), (Ok(None), headers))
                },
            )
        })
    }
}

/// Starts to end the items of the request. Where the reply is one message, the step ends with it:
/// take it by `nearcall_pending_wait`; where it is a stream, read that to its end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_stream_start_finish(
    stream: nearcall_stream,
    done: Option<unsafe extern "C" fn(data: *mut c_void)>,
    data: *mut c_void,
    pending: *mut nearcall_pending,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            let step = Step { done, data, pending };
            step.start(
                at,
                stream,
                |stream| &stream.requests,
                |requests| async move {
                    let ended = match requests {
                        Requests::WithReply(requests) => {
                            let (reply, sent) = requests.finish_with_metadata().await;
                            (reply.map(Some), sent)
                        }
                        Requests::Alone(requests) => {
                            let finished = requests.finish().await;
                            (finished.map(|()| None), ReplyMetadata::default())
                        }
                    };
                    (None, ended)
                },
            )
        })
    }
}
