//! A call from one library to another, as a function: its caller waits for the reply.
//!
//! **Invariants:** once the method has returned, the call ends by its deadline at the latest, and
//! its service learns of that; what answers it after that goes nowhere. A loop in the caller's
//! thread goes on serving while the reply is waited for.
//! **Not here:** finding the other library (`registry.rs`).

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use nearcall::__host::ThreadLoop;
use nearcall::Code;
use nearcall_os::Deadline;
use nearcall_os::library::{EndNotice, PendingReply, ReplyPart};

/// A call whose caller waits.
pub(super) struct WaitingCall {
    shared: Arc<Shared>,
    deadline: Deadline,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    has_ended: Condvar,
}

#[derive(Default)]
struct State {
    reply: Option<Reply>,
    is_abandoned: bool,
    notices: Vec<EndNotice>,
    /// Of the loop that serves while its thread waits.
    waker: Option<Waker>,
}

struct Reply {
    code: u32,
    message: Vec<u8>,
    metadata: Vec<u8>,
    body: Vec<u8>,
}

impl WaitingCall {
    pub(super) fn new(deadline: Deadline) -> Self {
        Self { shared: Arc::default(), deadline }
    }

    /// Returns what the library answers over.
    pub(super) fn pending_reply(&self) -> Box<dyn PendingReply> {
        Box::new(Answer { shared: Arc::clone(&self.shared), deadline: self.deadline })
    }

    /// Waits for the reply, and gives it to `give`.
    pub(super) fn wait(self, give: &mut dyn FnMut(&ReplyPart<'_>)) {
        let mut state = self.shared.lock();
        if state.reply.is_none() {
            state = self.wait_for_reply(state);
        }
        state.is_abandoned = true;
        let (reply, notices) = (state.reply.take(), std::mem::take(&mut state.notices));
        let waker = state.waker.take();
        drop(state);
        // Outside the lock: a notice runs code of the library.
        drop((notices, waker));
        match reply.filter(|_| !self.deadline.has_passed()) {
            Some(Reply { code, message, metadata, body }) => {
                give(&ReplyPart { code, message: &message, metadata: &metadata, body: &body })
            }
            None => give(&ReplyPart::error(
                Code::DeadlineExceeded.number().into(),
                "the service did not answer in time; the method may have run",
            )),
        }
    }

    /// Waits until the reply has come or the deadline has passed.
    fn wait_for_reply<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let mut own = ThreadLoop::current();
        while state.reply.is_none() && !self.deadline.has_passed() {
            if let Some(serving) = &own {
                state.waker = Some(serving.waker());
                drop(state);
                if serving.serve(None, self.deadline).is_err() {
                    own = None;
                }
                state = self.shared.lock();
                continue;
            }
            let waiting = &self.shared.has_ended;
            state = match self.deadline.remaining() {
                None => waiting.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    waiting.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        state
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a library answers over.
struct Answer {
    shared: Arc<Shared>,
    deadline: Deadline,
}

impl PendingReply for Answer {
    fn reply(self: Box<Self>, reply: &ReplyPart<'_>) {
        let mut state = self.shared.lock();
        if !state.is_abandoned {
            state.reply = Some(Reply {
                code: reply.code,
                message: reply.message.to_vec(),
                metadata: reply.metadata.to_vec(),
                body: reply.body.to_vec(),
            });
        }
    }

    fn is_cancelled(&self) -> bool {
        self.shared.lock().is_abandoned || self.deadline.has_passed()
    }

    fn on_end(&self, notice: EndNotice) {
        let mut state = self.shared.lock();
        if state.is_abandoned {
            drop(state);
            drop(notice);
        } else {
            state.notices.push(notice);
        }
    }
}

/// Ends the call: with its reply, or because the library has none.
impl Drop for Answer {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if state.reply.is_none() && !state.is_abandoned {
            let text = "the library dropped the call without an answer";
            state.reply = Some(Reply {
                code: Code::Internal.number().into(),
                message: text.into(),
                metadata: Vec::new(),
                body: Vec::new(),
            });
        }
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        self.shared.has_ended.notify_one();
    }
}
