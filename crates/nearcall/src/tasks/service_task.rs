//! The future of one call of an async service, and where it runs.
//!
//! **Invariants:** the future is dropped as soon as its call has ended, by the next poll of its
//! task, which the end of the call wakes; a panic in it ends its call only.
//! **Not here:** the loop's executor (`executor.rs`), what makes the future
//! (`services/async_service.rs`).

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::deadline::Deadline;
use crate::nesting::{Handler, NestingGuard};
use crate::panics::contain;
use crate::tasks::cancellation::Cancellation;

/// One call of an async service, as a task to be spawned. It answers its call by itself and ends
/// with it.
///
/// Dropped unfinished, it drops the future of the method, and the call fails with `INTERNAL` if its
/// caller still waits.
///
/// Given to the function of
/// [`AsyncDispatcher::spawn_on`](crate::service::AsyncDispatcher::spawn_on).
#[must_use = "a call whose task is not spawned fails"]
pub struct ServiceTask {
    future: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    call: Arc<Cancellation>,
    deadline: Deadline,
}

impl ServiceTask {
    /// Creates the task of a call from a future that answers it.
    pub(crate) fn new(
        future: Pin<Box<dyn Future<Output = ()> + Send>>,
        call: &Arc<Cancellation>,
        deadline: Deadline,
    ) -> Self {
        Self { future: Some(future), call: Arc::clone(call), deadline }
    }

    fn end(&mut self) {
        self.call.forget_task();
        let future = self.future.take();
        // What its values do at their end is no more to be trusted than what it does.
        contain(|| drop(future));
    }
}

impl Future for ServiceTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.call.poll_ended_by_task(context.waker()) {
            this.end();
        }
        let Some(future) = &mut this.future else { return Poll::Ready(()) };
        // Calls that it makes end at its deadline at the latest.
        let Ok(_guard) = NestingGuard::enter(Handler::own(this.deadline)) else {
            context.waker().wake_by_ref();
            return Poll::Pending;
        };
        // A panic drops what answers the call, and that reports it.
        match contain(|| future.as_mut().poll(context)) {
            Some(Poll::Pending) => Poll::Pending,
            Some(Poll::Ready(())) | None => {
                this.end();
                Poll::Ready(())
            }
        }
    }
}

impl Drop for ServiceTask {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for ServiceTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_done = self.future.is_none();
        f.debug_struct("ServiceTask").field("is_done", &is_done).finish_non_exhaustive()
    }
}

/// Where the futures of an async service run: by default on the loop that serves it.
///
/// See [`AsyncDispatcher::spawn_on`](crate::service::AsyncDispatcher::spawn_on) and
/// [`spawn_pending_on`](crate::service::AsyncDispatcher::spawn_pending_on).
#[derive(Clone, Default)]
pub struct TaskRunner {
    /// Polls each task once in the loop, inside of what the runtime wants around it.
    enter: Option<Arc<Enter>>,
    /// None: the loop.
    spawn: Option<Arc<Spawn>>,
}

type Enter = dyn Fn(&mut dyn FnMut()) + Send + Sync;

type Spawn = dyn Fn(ServiceTask) + Send + Sync;

impl TaskRunner {
    /// Creates a runner that has `spawn` run each task, such as
    /// `move |task| { handle.spawn(task); }` with the handle of a tokio runtime.
    pub fn spawn_on(spawn: impl Fn(ServiceTask) + Send + Sync + 'static) -> Self {
        Self { enter: None, spawn: Some(Arc::new(spawn)) }
    }

    /// Creates a runner that polls each task once in the loop, within `enter`, and has `spawn` run
    /// those that are not done by then.
    pub fn spawn_pending_on(
        enter: impl Fn(&mut dyn FnMut()) + Send + Sync + 'static,
        spawn: impl Fn(ServiceTask) + Send + Sync + 'static,
    ) -> Self {
        Self { enter: Some(Arc::new(enter)), spawn: Some(Arc::new(spawn)) }
    }

    /// Runs a task: `in_loop` takes it if no other place was named.
    pub(crate) fn run(&self, task: ServiceTask, in_loop: impl FnOnce(ServiceTask)) {
        let Some(spawn) = &self.spawn else { return in_loop(task) };
        match &self.enter {
            Some(enter) => {
                if let Some(task) = poll_once(task, &**enter) {
                    spawn(task);
                }
            }
            None => spawn(task),
        }
    }
}

/// Polls a task, and returns it if it is not done. No wake-up is lost with this waker: whoever runs
/// the task polls it first.
fn poll_once(task: ServiceTask, enter: &Enter) -> Option<ServiceTask> {
    let mut pending = Some(task);
    enter(&mut || {
        let mut context = Context::from_waker(Waker::noop());
        if pending.as_mut().is_some_and(|task| Pin::new(task).poll(&mut context).is_ready()) {
            pending = None;
        }
    });
    pending
}

impl fmt::Debug for TaskRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (&self.enter, &self.spawn) {
            (Some(_), _) => "TaskRunner(spawn_pending_on)",
            (None, Some(_)) => "TaskRunner(spawn_on)",
            (None, None) => "TaskRunner(loop)",
        })
    }
}
