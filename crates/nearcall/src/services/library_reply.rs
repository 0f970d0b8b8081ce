//! The answer to a call that came from the host of this library.
//!
//! **Invariants:** a call is answered once, whichever thread answers first; one that is dropped
//! was answered with an error. No lock is held while the host is called with an answer.
//! **Not here:** how the call came in (`library/served.rs`).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nearcall_os::library::{CallToken, ReplyPart};

use crate::codec::{self, Message};
use crate::status::{Code, Lack, Status};
use crate::tasks::cancellation::Cancellation;
use crate::tasks::reply_extras::{ReplyExtras, Sent};
use crate::tasks::service_task::ServiceTask;

/// A call of the host, until it is answered.
pub(crate) struct LibraryReply {
    token: Mutex<Option<CallToken>>,
    is_watched: AtomicBool,
    /// Runs the futures of async services.
    spawn: fn(ServiceTask),
}

impl LibraryReply {
    pub(crate) fn new(token: CallToken, spawn: fn(ServiceTask)) -> Self {
        let (token, is_watched) = (Mutex::new(Some(token)), AtomicBool::new(false));
        Self { token, is_watched, spawn }
    }

    /// Gives the answer to the host, with what goes with it.
    pub(crate) fn answer(
        &self,
        extras: Option<Box<ReplyExtras>>,
        answer: Result<&impl Message, &Status>,
    ) {
        let Some(token) = self.take() else {
            return extras.into_iter().for_each(|extras| extras.end_given_up());
        };
        let mut extras = extras;
        if let Some(extras) = &mut extras
            && let Some(headers) = extras.headers.take()
        {
            // The host takes them with the answer only.
            extras.metadata.prepend(headers);
        }
        let entries = extras.as_ref().map_or(&[][..], |extras| extras.metadata.as_bytes());
        let body = answer.map_err(Status::clone).and_then(codec::encode_vec);
        match &body {
            Ok(body) => {
                token.reply(&ReplyPart { code: 0, message: &[], metadata: entries, body });
            }
            Err(status) => {
                let lack = status.lack().map_or(&[][..], Lack::metadata);
                let metadata = [lack, entries, status.metadata().as_bytes()].concat();
                token.reply(&ReplyPart {
                    code: status.code().number().into(),
                    message: status.message().as_bytes(),
                    metadata: &metadata,
                    body: &[],
                });
            }
        }
        if let Some(extras) = extras {
            let sent = match body {
                Err(status) if answer.is_ok() => Sent::Instead(Box::new(status)),
                _ => Sent::AsGiven,
            };
            extras.end(sent, answer);
        }
    }

    /// Returns whether the caller does not wait any more.
    pub(crate) fn look_for_cancel(&self) -> bool {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        token.as_ref().is_none_or(CallToken::is_cancelled)
    }

    /// Has `cancellation` end when the call ends for its caller. Before the first that could answer
    /// it elsewhere has it.
    pub(crate) fn watch_end(&self, cancellation: &Arc<Cancellation>) {
        if self.is_watched.swap(true, Ordering::Relaxed) {
            return;
        }
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(token) = &*token {
            let cancellation = Arc::clone(cancellation);
            token.on_end(move || cancellation.end());
        }
    }

    /// Runs the future that answers the call.
    pub(crate) fn spawn(&self, task: ServiceTask) {
        (self.spawn)(task);
    }

    fn take(&self) -> Option<CallToken> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A reply of the host's, or of another library, as a status if it is an error.
pub(crate) fn read_reply<'a>(reply: &ReplyPart<'a>) -> Result<&'a [u8], Status> {
    if reply.code == 0 {
        return Ok(reply.body);
    }
    let code = u16::try_from(reply.code).ok().and_then(Code::from_number);
    Err(Status::from_peer(code.unwrap_or(Code::Unknown), reply.metadata, reply.message))
}
