//! The items of a stream that were received and not read yet.
//!
//! The connection puts them in, in its thread; a reader takes them out in any thread, all that have
//! come at once. What bounds it is the credit of the stream, and the account of the peer's user.
//! **Invariants:** items come out in the order in which they went in; the end comes after all
//! items, once it has come it stays, and the first one counts; wakers are returned to whoever may
//! wake them.
//! **Not here:** the bytes (`streams/item_queue/batch.rs`), credit (`nearcall-wire`).

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use bytes::Bytes;
use nearcall_channel::account::Exceeded;

use crate::deadline::Deadline;
use crate::reservation::CallMemory;
use crate::status::Status;
use crate::streams::wait_while;
use crate::waking;

mod batch;

pub(crate) use self::batch::{Item, ItemBatch};

/// Shared by a connection and the reader of one of its streams.
#[derive(Default)]
pub(crate) struct ItemQueue {
    state: Mutex<State>,
    /// Threads that wait for items.
    arrived: Condvar,
    /// What the items are charged for; none where nothing is charged.
    memory: Option<Arc<CallMemory>>,
}

#[derive(Default)]
struct State {
    items: ItemBatch,
    end: Option<ItemsEnd>,
    waker: Option<Waker>,
    /// Threads that wait for `arrived`.
    waiting: u32,
    /// No reader is left.
    is_abandoned: bool,
}

impl State {
    fn is_ready(&self) -> bool {
        !self.items.is_empty() || self.end.is_some()
    }
}

/// The task that waited, if there was one. It runs code of users, so it is woken where that may.
#[derive(Debug)]
#[must_use = "a task waits for its waker"]
pub(crate) struct Woken(pub(crate) Option<Waker>);

/// Why no more items come.
#[derive(Debug, Clone)]
pub(crate) enum ItemsEnd {
    /// The sender has half-closed, or replied.
    Finished,
    /// The call has ended otherwise.
    Failed(Status),
}

/// What a reader finds.
#[derive(Debug)]
pub(crate) enum Taken {
    Items,
    /// None now.
    Nothing,
    /// None, and no more come.
    End(ItemsEnd),
}

impl ItemQueue {
    /// Creates a queue whose items are charged for.
    pub(crate) fn charged_to(memory: Option<&Arc<CallMemory>>) -> Self {
        let mut state = State::default();
        state.items.charge_to(memory);
        let (state, memory) = (Mutex::new(state), memory.cloned());
        Self { state, memory, ..Self::default() }
    }

    /// Adds an item by copying it. Returns the task to wake. `None`: no reader is left.
    ///
    /// # Errors
    ///
    /// The share of the user does not suffice; the item was not added.
    #[inline]
    pub(crate) fn push(&self, item: &[u8]) -> Result<Option<Woken>, Exceeded> {
        self.add(|items| items.push(item))
    }

    /// Adds an item that is all of `whole` behind its first `start` bytes. Returns the task to
    /// wake. `None`: no reader is left.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push).
    pub(crate) fn push_whole(&self, whole: Bytes, start: usize) -> Result<Option<Woken>, Exceeded> {
        self.add(|items| items.push_whole(whole, start))
    }

    #[inline]
    fn add(
        &self,
        add: impl FnOnce(&mut ItemBatch) -> Result<(), Exceeded>,
    ) -> Result<Option<Woken>, Exceeded> {
        let mut state = self.lock();
        if state.is_abandoned {
            return Ok(None);
        }
        add(&mut state.items)?;
        Ok(Some(self.notify(state)))
    }

    /// Keeps nothing from now on: the reader goes. Returns what was not read.
    pub(crate) fn abandon(&self) -> ItemBatch {
        let mut state = self.lock();
        state.is_abandoned = true;
        let (left, waker) = (std::mem::take(&mut state.items), state.waker.take());
        drop(state);
        waking::retire(waker);
        left
    }

    /// Ends the stream. Items that have come can still be read. Returns the task to wake.
    pub(crate) fn end(&self, end: ItemsEnd) -> Woken {
        let mut state = self.lock();
        state.end.get_or_insert(end);
        self.notify(state)
    }

    /// Ends the stream and forgets what was not read. Returns the task to wake.
    pub(crate) fn cancel(&self, status: Status) -> Woken {
        let mut state = self.lock();
        if !matches!(state.end, Some(ItemsEnd::Failed(_))) {
            state.end = Some(ItemsEnd::Failed(status));
        }
        let items = std::mem::take(&mut state.items);
        let woken = self.notify(state);
        drop(items);
        woken
    }

    /// Takes the task that waits for items, to wake it for something else.
    pub(crate) fn take_waker(&self) -> Woken {
        self.notify(self.lock())
    }

    /// Returns whether the end has come, whatever is left to read.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().end.is_some()
    }

    /// Exchanges `batch`, of which everything was read, for what has come.
    pub(crate) fn take(&self, batch: &mut ItemBatch) -> Taken {
        let mut state = self.lock();
        if !state.items.is_empty() {
            batch.clear();
            std::mem::swap(&mut state.items, batch);
            state.items.charge_to(self.memory.as_ref());
            return Taken::Items;
        }
        match &state.end {
            Some(end) => Taken::End(end.clone()),
            None => Taken::Nothing,
        }
    }

    /// Returns whether [`take`](Self::take) gives something.
    pub(crate) fn is_ready(&self) -> bool {
        self.lock().is_ready()
    }

    /// Has `waker` woken by the next item or the end, unless there is one already: false.
    pub(crate) fn set_waker(&self, waker: &Waker) -> bool {
        let mut state = self.lock();
        if state.is_ready() {
            return false;
        }
        let before = state.waker.replace(waker.clone());
        drop(state);
        waking::retire(before);
        true
    }

    /// Blocks this thread until there is something, or until `deadline`.
    pub(crate) fn wait(&self, deadline: Deadline) {
        let mut state = self.lock();
        state.waiting += 1;
        wait_while(&self.arrived, state, deadline, |state| !state.is_ready()).waiting -= 1;
    }

    #[inline]
    fn notify(&self, mut state: MutexGuard<'_, State>) -> Woken {
        let waker = state.waker.take();
        let is_awaited = state.waiting > 0;
        drop(state);
        if is_awaited {
            self.arrived.notify_all();
        }
        Woken(waker)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::batch::Item;
    use super::*;
    use crate::waking::tests::panicking;

    #[test]
    fn the_end_comes_after_all_items() {
        let queue = ItemQueue::default();
        let mut batch = ItemBatch::default();
        assert!(matches!(queue.take(&mut batch), Taken::Nothing));
        let _ = queue.push(b"one");
        let _ = queue.end(ItemsEnd::Finished);
        let _ = queue.end(ItemsEnd::Failed(Status::cancelled("later")));
        assert!(matches!(queue.take(&mut batch), Taken::Items));
        assert!(matches!(batch.next(), Some(Item::Copied(b"one"))));
        assert!(batch.next().is_none());
        assert!(matches!(queue.take(&mut batch), Taken::End(ItemsEnd::Finished)));
    }

    #[test]
    fn a_cancelled_stream_keeps_nothing() {
        let queue = ItemQueue::default();
        let _ = queue.push(b"one");
        let _ = queue.cancel(Status::cancelled("by the caller"));
        let taken = queue.take(&mut ItemBatch::default());
        assert!(matches!(taken, Taken::End(ItemsEnd::Failed(_))));
    }

    #[test]
    fn a_waker_that_panics_when_it_is_dropped_ends_nothing_else() {
        let queue = ItemQueue::default();
        assert!(queue.set_waker(&panicking()));
        assert!(queue.set_waker(&panicking()));
        let _ = queue.abandon();
    }

    #[test]
    fn a_thread_waits_for_an_item_of_another() {
        let queue = Arc::new(ItemQueue::default());
        let reader = std::thread::spawn({
            let queue = Arc::clone(&queue);
            move || {
                queue.wait(Deadline::NEVER);
                matches!(queue.take(&mut ItemBatch::default()), Taken::Items)
            }
        });
        let _ = queue.push(b"");
        assert!(reader.join().unwrap());
    }
}
