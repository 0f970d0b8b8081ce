//! One answer to a call that all loops of a server contribute to.
//!
//! **Invariants:** the call is answered once, when no contributor is left, in whichever thread that
//! is; a loop that ends contributes nothing and holds nothing up; what waits for the others is
//! charged to the user of the caller.
//! **Not here:** what is asked (`built_in.rs`, `switch_service.rs`).

use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use crate::codec::Message;
use crate::connection::ServerId;
use crate::limits::GATHERED_ROW_BYTES;
use crate::reactor::Reactor;
use crate::reactor::acceptor::Acceptor;
use crate::services::responder::Responder;
use crate::status::Status;
use crate::tasks::mailbox::{Mailbox, Post};

/// How a part of a server in one loop is reached from other threads.
#[derive(Clone)]
pub(super) struct LoopHandle {
    pub(super) index: usize,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) server: ServerId,
}

impl LoopHandle {
    /// Runs something there, after the method that runs there now. A loop that has ended drops it.
    pub(super) fn post(&self, work: impl FnOnce(&Rc<Acceptor>) + Send + 'static) {
        let (mailbox, server) = (Arc::clone(&self.mailbox), self.server);
        let _ = self.mailbox.post(Post::Run(Box::new(move || {
            let reactor = Reactor::of_thread(&mailbox);
            if let Some(acceptor) = reactor.and_then(|reactor| reactor.acceptor(server)) {
                work(&acceptor);
            }
        })));
    }
}

/// The rows of an answer. It is given when the last clone of its `Arc` is dropped.
pub(super) struct Gathering<R: Message, T> {
    rows: Mutex<Vec<T>>,
    answer: Mutex<Option<Answer<R, T>>>,
}

struct Answer<R: Message, T> {
    responder: Responder<R>,
    reply: Box<dyn FnOnce(Vec<T>) -> R + Send>,
    /// Why rows were left out, if the user of the caller may not have so many wait.
    refused: Option<Status>,
}

impl<R: Message, T> Gathering<R, T> {
    pub(super) fn new(
        responder: Responder<R>,
        reply: impl FnOnce(Vec<T>) -> R + Send + 'static,
    ) -> Arc<Self> {
        let answer = Mutex::new(Some(Answer { responder, reply: Box::new(reply), refused: None }));
        Arc::new(Self { rows: Mutex::default(), answer })
    }

    pub(super) fn add(&self, rows: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>) {
        let rows = rows.into_iter();
        let mut answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Answer { responder, refused, .. }) = answer.as_mut()
            && let Err(status) = responder.reserve(rows.len() * GATHERED_ROW_BYTES)
        {
            *refused = Some(status);
            return;
        }
        drop(answer);
        let mut all = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend(rows);
    }
}

impl<R: Message, T> Drop for Gathering<R, T> {
    fn drop(&mut self) {
        let rows = self.rows.get_mut().unwrap_or_else(PoisonError::into_inner);
        let answer = self.answer.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(Answer { responder, reply, refused }) = answer.take() {
            let rows = std::mem::take(rows);
            responder.finish(refused.map_or_else(|| Ok(reply(rows)), Err));
        }
    }
}
