//! Whether the caller of a call still waits, for code that may run in any thread.
//!
//! The connection that a call came over has its table of calls in the loop's thread. A call that
//! outlives its method registers one of these there, and is notified of its end.
//! **Invariants:** once a call has ended it stays so; each registered task is woken for that once.
//! **Not here:** who notices the end (`connection/watched_calls.rs`, `services/local_reply.rs`).

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::tasks::reply_extras::SharedExtras;
use crate::waking;

/// Shared by the loop that learns of the end of a call and by the code that answers it.
#[derive(Debug, Default)]
pub(crate) struct Cancellation {
    has_ended: AtomicBool,
    /// What goes with the answer.
    pub(crate) extras: SharedExtras,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Of the task that answers the call.
    task: Option<Waker>,
    last: u64,
    wakers: Vec<(u64, Waker)>,
}

impl Cancellation {
    /// Returns whether the call waits for no answer any more. One load.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Notes that the call has ended, and wakes the tasks that wait for that.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        let mut waiting = self.lock();
        let (task, wakers) = (waiting.task.take(), std::mem::take(&mut waiting.wakers));
        drop(waiting);
        for waker in task.into_iter().chain(wakers.into_iter().map(|(_, waker)| waker)) {
            waking::wake(waker);
        }
    }

    /// Returns whether the call has ended, and has the task that answers it woken for that if not.
    pub(crate) fn poll_ended_by_task(&self, waker: &Waker) -> bool {
        let mut waiting = self.lock();
        // Under the lock: `end` takes the wakers after it has set the flag.
        if self.has_ended() {
            return true;
        }
        let before = match &waiting.task {
            Some(task) if task.will_wake(waker) => None,
            _ => waiting.task.replace(waker.clone()),
        };
        drop(waiting);
        // Outside the lock: the end of a waker may run a task's.
        waking::retire(before);
        false
    }

    /// Wakes the task that answers the call for its end no more: it has the answer.
    pub(crate) fn forget_task(&self) {
        let task = self.lock().task.take();
        waking::retire(task);
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until a call has ended for its caller: cancelled, past its deadline, disconnected or
/// answered.
///
/// Returned by [`CallContext::cancelled`](crate::CallContext::cancelled).
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Cancelled {
    call: Arc<Cancellation>,
    /// The number of the waker that is registered.
    number: Option<u64>,
}

impl Cancelled {
    pub(crate) fn new(call: &Arc<Cancellation>) -> Self {
        Self { call: Arc::clone(call), number: None }
    }

    /// Returns whether the call has ended, and has `waker` woken for that if not.
    fn poll_ended(&mut self, waker: &Waker) -> bool {
        let mut waiting = self.call.lock();
        // Under the lock: `end` takes the wakers after it has set the flag.
        if self.call.has_ended() {
            return true;
        }
        let registered = waiting.wakers.iter_mut().find(|(other, _)| Some(*other) == self.number);
        let before = match registered {
            Some((_, known)) if known.will_wake(waker) => None,
            Some((_, known)) => Some(std::mem::replace(known, waker.clone())),
            None => {
                waiting.last += 1;
                self.number = Some(waiting.last);
                let number = waiting.last;
                waiting.wakers.push((number, waker.clone()));
                None
            }
        };
        drop(waiting);
        waking::retire(before);
        false
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        let Some(number) = self.number.take() else { return };
        let mut waiting = self.call.lock();
        let index = waiting.wakers.iter().position(|(other, _)| *other == number);
        let waker = index.map(|index| waiting.wakers.swap_remove(index));
        drop(waiting);
        waking::retire(waker.map(|(_, waker)| waker));
    }
}

impl Future for Cancelled {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.poll_ended(context.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waking::tests::counted;
    use std::task::Wake;

    /// The last waker of a task whose future waits for the end of the same call.
    struct Holds {
        _held: Mutex<Option<Cancelled>>,
    }

    impl Wake for Holds {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn a_waker_that_is_replaced_may_drop_its_task() {
        let call = Arc::<Cancellation>::default();
        let holds = || {
            let mut held = Cancelled::new(&call);
            assert!(!held.poll_ended(Waker::noop()));
            Waker::from(Arc::new(Holds { _held: Mutex::new(Some(held)) }))
        };
        let mut waits = Cancelled::new(&call);
        assert!(!waits.poll_ended(&holds()) && !call.poll_ended_by_task(&holds()));
        assert!(!waits.poll_ended(Waker::noop()) && !call.poll_ended_by_task(Waker::noop()));
        assert_eq!(call.lock().wakers.len(), 1);
    }

    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("asked for it");
        }
    }

    #[test]
    fn a_waker_that_panics_loses_no_other() {
        let call = Arc::<Cancellation>::default();
        let (count, good) = counted();
        let bad = Waker::from(Arc::new(Panics));
        let waiting = [&good, &bad, &good, &bad, &good].map(|waker| {
            let mut waits = Cancelled::new(&call);
            assert!(!waits.poll_ended(waker));
            waits
        });
        assert!(!call.poll_ended_by_task(&bad));
        call.end();
        assert_eq!(count.get(), 3);
        drop(waiting);
    }

    #[test]
    fn every_task_that_waits_is_woken_once() {
        let call = Arc::<Cancellation>::default();
        let (count, waker) = counted();
        let (mut one, mut other) = (Cancelled::new(&call), Cancelled::new(&call));
        let mut dropped = Cancelled::new(&call);
        assert!(!one.poll_ended(&waker) && !one.poll_ended(&waker));
        assert!(!other.poll_ended(&waker) && !dropped.poll_ended(&waker));
        drop(dropped);
        call.end();
        call.end();
        assert_eq!(count.get(), 2);
        assert!(call.poll_ended_by_task(&waker));
        assert!(one.poll_ended(&waker) && Cancelled::new(&call).poll_ended(&waker));
    }
}
