//! The answer of a service to a caller in its own thread, as bytes.
//!
//! **Invariants:** the first answer counts; the task that awaits it is woken once.
//! **Not here:** answers over connections (`connection/calls.rs`), calls that need no bytes
//! (`call.rs`).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use crate::status::Status;

/// Shared by the caller and the code that answers.
pub(crate) type LocalReply = Rc<LocalAnswer>;

/// An answer, once it is there.
#[derive(Default)]
pub(crate) struct LocalAnswer {
    answer: RefCell<Option<Result<Vec<u8>, Status>>>,
    waker: Cell<Option<Waker>>,
}

impl LocalAnswer {
    /// Gives the answer, unless there was one: a service may panic after it has answered.
    pub(crate) fn end(&self, answer: Result<Vec<u8>, Status>) {
        self.answer.borrow_mut().get_or_insert(answer);
        self.wake();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.answer.borrow().is_some()
    }

    /// Takes the answer, if it has come.
    pub(crate) fn take(&self) -> Option<Result<Vec<u8>, Status>> {
        self.answer.borrow_mut().take()
    }

    /// Registers the waker of the task that awaits the answer or its deadline. Returns whether none
    /// was registered.
    pub(crate) fn set_waker(&self, waker: &Waker) -> bool {
        self.waker.replace(Some(waker.clone())).is_none()
    }

    /// Wakes the task that awaits the answer.
    pub(crate) fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
