//! The tasks of one loop: the futures of its async services.
//!
//! A waker posts the task to the loop's mailbox, which costs a lock and no system call while the
//! loop is awake; the loop polls what was posted, a bounded number of tasks in each round.
//! **Invariants:** a task is polled by one poll at a time, though a task may run rounds of the
//! loop; a wake-up during a poll leads to another one; nothing is borrowed while a task is polled
//! or dropped.
//! **Not here:** the tasks (`service_task.rs`), the rounds (`reactor/posts.rs`).

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use nearcall_channel::PostedFlag;

use crate::tasks::mailbox::{Mailbox, Post, TaskKey};
use crate::tasks::service_task::ServiceTask;

/// The tasks of a loop.
pub(crate) struct Executor {
    mailbox: Arc<Mailbox>,
    slots: RefCell<Slots>,
}

#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    is_closed: bool,
}

struct Slot {
    generation: u32,
    state: State,
}

enum State {
    Free,
    Idle(ServiceTask, Arc<TaskWaker>),
    /// It is being polled. It is to be polled again if it was woken meanwhile.
    Polled {
        again: bool,
    },
}

/// Posts a task to its loop.
struct TaskWaker {
    key: TaskKey,
    mailbox: Arc<Mailbox>,
    posted: PostedFlag,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.posted.note_wake() {
            // A loop that has closed has dropped its tasks.
            let _ = self.mailbox.post(Post::Poll(self.key));
        }
    }
}

impl Executor {
    pub(crate) fn new(mailbox: &Arc<Mailbox>) -> Self {
        Self { mailbox: Arc::clone(mailbox), slots: RefCell::default() }
    }

    /// Takes a task, and polls it for the first time. A loop that has closed drops it.
    pub(crate) fn spawn(&self, task: ServiceTask) {
        let Some(key) = self.slots.borrow_mut().add() else { return drop(task) };
        let mailbox = Arc::clone(&self.mailbox);
        let waker = Arc::new(TaskWaker { key, mailbox, posted: PostedFlag::new() });
        self.poll_taken(key, task, waker);
    }

    /// Polls a task that was woken, unless it has ended.
    pub(crate) fn poll(&self, key: TaskKey) {
        let taken = self.slots.borrow_mut().take(key);
        if let Some((task, waker)) = taken {
            waker.posted.begin_poll();
            self.poll_taken(key, task, waker);
        }
    }

    fn poll_taken(&self, key: TaskKey, mut task: ServiceTask, waker: Arc<TaskWaker>) {
        let std_waker = Waker::from(Arc::clone(&waker));
        let polled = Pin::new(&mut task).poll(&mut Context::from_waker(&std_waker));
        if polled.is_ready() {
            self.slots.borrow_mut().remove(key);
            return;
        }
        let again = self.slots.borrow_mut().put_back(key, task, &waker);
        match again {
            Ok(true) => {
                let _ = self.mailbox.post(Post::Poll(key));
            }
            Ok(false) => {}
            // The loop was closed meanwhile.
            Err(task) => drop(task),
        }
    }

    /// Drops all tasks, and those that come.
    pub(crate) fn close(&self) {
        let closed = Slots { is_closed: true, ..Slots::default() };
        let slots = self.slots.replace(closed);
        // Where nothing is borrowed: the end of a task may wake others.
        drop(slots);
    }
}

impl Slots {
    /// Takes a place for a task that is about to be polled. `None`: the loop has closed.
    fn add(&mut self) -> Option<TaskKey> {
        if self.is_closed {
            return None;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, state: State::Free });
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        });
        let slot = &mut self.slots[index as usize];
        slot.state = State::Polled { again: false };
        Some(TaskKey { index, generation: slot.generation })
    }

    fn slot(&mut self, key: TaskKey) -> Option<&mut Slot> {
        self.slots.get_mut(key.index as usize).filter(|slot| slot.generation == key.generation)
    }

    /// Takes a task to be polled. One that is being polled is polled once more afterwards.
    fn take(&mut self, key: TaskKey) -> Option<(ServiceTask, Arc<TaskWaker>)> {
        let slot = self.slot(key)?;
        match std::mem::replace(&mut slot.state, State::Polled { again: false }) {
            State::Idle(task, waker) => Some((task, waker)),
            State::Polled { .. } => {
                slot.state = State::Polled { again: true };
                None
            }
            State::Free => {
                slot.state = State::Free;
                None
            }
        }
    }

    /// Puts a task back after its poll. Returns whether it is to be polled once more.
    fn put_back(
        &mut self,
        key: TaskKey,
        task: ServiceTask,
        waker: &Arc<TaskWaker>,
    ) -> Result<bool, ServiceTask> {
        let Some(slot) = self.slot(key) else { return Err(task) };
        let again = matches!(slot.state, State::Polled { again: true });
        slot.state = State::Idle(task, Arc::clone(waker));
        Ok(again)
    }

    fn remove(&mut self, key: TaskKey) {
        if let Some(slot) = self.slot(key) {
            slot.generation = slot.generation.wrapping_add(1);
            slot.state = State::Free;
            self.free.push(key.index);
        }
    }
}
