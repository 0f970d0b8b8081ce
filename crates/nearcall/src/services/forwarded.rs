//! A call that is handed on as bytes, to an implementation behind another boundary: a loaded
//! library.
//!
//! **Invariants:** a forwarded call is answered once; one that is dropped is answered with an
//! error. Its implementation sees the caller as the kernel reported it, and each of its notices
//! when the call has ended, not before.
//! **Not here:** the libraries (`nearcall-host`), their side (`library/served.rs`).

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Wake, Waker};

use bytes::Buf;
use nearcall_os::library::{Caller, EndNotice, PendingReply, ReplyPart, RequestPart};

use crate::borrowed::BorrowedBody;
use crate::codec::EncodedSlice;
use crate::deadline::Deadline;
use crate::interface::MethodKind;
use crate::peer::Peer;
use crate::reservation::Reservation;
use crate::services::detached_sink::DetachedSink;
use crate::services::dispatcher::Incoming;
use crate::services::library_reply::read_reply;
use crate::status::Status;

impl Incoming<'_> {
    /// Hands the call on as bytes: `serve` gets the request, with 0 for the number of the object,
    /// and what answers it, now or later, in any thread. For dispatchers of interfaces that are
    /// not known when the program is built.
    pub fn forward(self, serve: impl FnOnce(&RequestPart<'_>, ForwardedCall)) {
        let Some(method) = self.context.interface().method(self.method) else {
            return self.unimplemented();
        };
        let Self { body, context, .. } = self;
        // The library may keep what it decodes.
        let reservation = match context.reserve(true) {
            Ok(reservation) => reservation,
            Err(status) => return context.fail(&status),
        };
        let call = context.detach();
        let deadline = context.deadline_moment();
        let joined;
        let body = match body.parts() {
            (rest, None) => rest,
            (rest, Some(borrowed)) => {
                let mut body = BorrowedBody::new(rest, borrowed);
                joined = body.copy_to_bytes(body.remaining());
                &joined[..]
            }
        };
        let address;
        let caller = match &call.peer {
            Peer::Local => Caller::Local,
            Peer::Process(it) => Caller::Process { pid: it.pid, uid: it.uid, gid: it.gid },
            Peer::Remote(socket) => {
                address = socket.to_string();
                Caller::Remote(&address)
            }
        };
        let is_oneway = method.kind == MethodKind::Oneway;
        let (method, metadata) = (method.id, context.metadata().as_bytes());
        let request =
            RequestPart { object: 0, method, is_oneway, deadline, metadata, body, caller };
        serve(&request, ForwardedCall::new(call.sink, deadline, reservation));
    }
}

/// Answers a call that was handed on as bytes. Dropped, it fails its call.
///
/// See [`Incoming::forward`](crate::service::Incoming::forward).
pub struct ForwardedCall {
    /// None: it was answered.
    sink: Option<DetachedSink>,
    deadline: Deadline,
    /// Of the end of the call, if the implementation has asked for some.
    notices: OnceLock<Arc<Notices>>,
    /// Of the request.
    _reservation: Reservation,
}

impl ForwardedCall {
    fn new(sink: DetachedSink, deadline: Deadline, reservation: Reservation) -> Self {
        let notices = OnceLock::new();
        Self { sink: Some(sink), deadline, notices, _reservation: reservation }
    }
}

impl PendingReply for ForwardedCall {
    fn reply(mut self: Box<Self>, reply: &ReplyPart<'_>) {
        let Some(sink) = self.sink.take() else { return };
        if self.deadline.has_passed() {
            return sink.fail(&Status::answered_late());
        }
        match read_reply(reply) {
            Ok(body) => {
                if !reply.metadata.is_empty() {
                    let extras = &sink.cancellation().extras;
                    extras.change(|extras| extras.metadata.append(reply.metadata));
                }
                sink.finish(Ok(&EncodedSlice::new(body)));
            }
            Err(status) => sink.fail(&status),
        }
    }

    fn is_cancelled(&self) -> bool {
        self.sink.as_ref().is_none_or(DetachedSink::look_for_cancel) || self.deadline.has_passed()
    }

    fn on_end(&self, notice: EndNotice) {
        let Some(sink) = &self.sink else { return };
        let notices = self.notices.get_or_init(Arc::default);
        notices.lock().push(notice);
        // One waker for all of them: the call keeps the last one only.
        let waker = Waker::from(Arc::clone(notices));
        if sink.cancellation().poll_ended_by_task(&waker) {
            waker.wake();
        }
    }
}

impl Drop for ForwardedCall {
    fn drop(&mut self) {
        if let Some(sink) = self.sink.take() {
            sink.fail(&Status::internal("the library dropped the call without an answer"));
        }
    }
}

impl fmt::Debug for ForwardedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForwardedCall").finish_non_exhaustive()
    }
}

/// Notifies a library of the end of a call when it is woken.
#[derive(Default)]
struct Notices(Mutex<Vec<EndNotice>>);

impl Notices {
    fn lock(&self) -> MutexGuard<'_, Vec<EndNotice>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Notices {
    fn wake(self: Arc<Self>) {
        let notices = std::mem::take(&mut *self.lock());
        // Outside the lock: a notice runs code of the library.
        drop(notices);
    }
}
