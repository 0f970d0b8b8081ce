//! How a task comes to a connection: it takes the one that is open, or waits for one to be opened,
//! again and again if its policy says so.
//!
//! **Invariants:** it ends by its deadline, whatever the attempt does.
//! **Not here:** the attempt (`client/async_routes.rs`).

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::async_connection::{AsyncConnection, Timer};
use crate::client::{AsyncRoute, Connected, PendingConnection, ReconnectPolicy, may_change};
use crate::deadline::{Deadline, Pauses};
use crate::limits::DRAINING_TRIES_MAX;
use crate::status::Status;

/// A task that wants a connection.
pub(super) struct Connecting {
    stage: Stage,
    /// Until when to try again; set by the first failure.
    end: Option<Deadline>,
    pauses: Pauses,
    /// One that was opened had ended before it was used.
    has_reopened: bool,
    /// How often a server that drained has ended the attempt.
    draining_tries: u32,
    /// Why the last attempt failed, which is what a hunt ends with.
    failed: Option<Status>,
    timer: Option<Timer>,
}

enum Stage {
    Start,
    Pending(PendingConnection),
    /// Until this moment, after an attempt that failed.
    Pause(Deadline, Status),
}

impl Default for Connecting {
    fn default() -> Self {
        Self {
            stage: Stage::Start,
            end: None,
            pauses: Pauses::HUNT,
            has_reopened: false,
            draining_tries: 0,
            failed: None,
            timer: None,
        }
    }
}

impl Connecting {
    /// Returns the connection once it is there.
    pub(super) fn poll(
        &mut self,
        route: &Arc<AsyncRoute>,
        policy: ReconnectPolicy,
        deadline: Deadline,
        waker: &Waker,
    ) -> Poll<Result<Arc<AsyncConnection>, Status>> {
        loop {
            match &mut self.stage {
                Stage::Start => match route.connect(policy) {
                    Ok(Connected::Open(connection)) => return Poll::Ready(Ok(connection)),
                    Ok(Connected::Pending(pending)) => self.stage = Stage::Pending(pending),
                    Err(status) => return Poll::Ready(Err(status)),
                },
                Stage::Pending(pending) => match pending.poll(waker) {
                    Poll::Ready(Ok(connection)) => return Poll::Ready(Ok(connection)),
                    // Another server may listen in the place of one that drains.
                    Poll::Ready(Err(status))
                        if status.has_not_begun() && self.draining_tries < DRAINING_TRIES_MAX =>
                    {
                        self.draining_tries += 1;
                        self.stage = Stage::Start;
                    }
                    Poll::Ready(Err(status)) => match self.next_try(policy, &status) {
                        Some(next) => self.stage = Stage::Pause(next, status),
                        None => return Poll::Ready(Err(status)),
                    },
                    Poll::Pending if poll_timer(&mut self.timer, deadline, waker)? => {
                        let failed = self.failed.take_if(|_| self.end == Some(deadline));
                        let late = || late(route, "it is being opened");
                        return Poll::Ready(Err(failed.unwrap_or_else(late)));
                    }
                    Poll::Pending => return Poll::Pending,
                },
                Stage::Pause(next, status) => {
                    let next = *next;
                    if !poll_timer(&mut self.timer, next.min(deadline), waker)? {
                        return Poll::Pending;
                    }
                    if self.end == Some(deadline) && deadline <= next {
                        return Poll::Ready(Err(status.clone()));
                    }
                    if deadline <= next {
                        return Poll::Ready(Err(late(route, status.message())));
                    }
                    self.failed = Some(status.clone());
                    self.stage = Stage::Start;
                }
            }
        }
    }

    /// Begins anew, with what time there is left.
    pub(super) fn restart(&mut self) {
        self.stage = Stage::Start;
    }

    /// Begins anew after a connection that has ended or drains: at once if that is the first one,
    /// and as after an attempt that failed if it has done so as soon as it was open.
    ///
    /// # Errors
    ///
    /// `ended`: the policy leaves it at that, or its time is up.
    #[cold]
    pub(super) fn reopen(&mut self, policy: ReconnectPolicy, ended: Status) -> Result<(), Status> {
        if !std::mem::replace(&mut self.has_reopened, true) {
            self.stage = Stage::Start;
            return Ok(());
        }
        let Some(next) = self.next_try(policy, &ended) else { return Err(ended) };
        self.stage = Stage::Pause(next, ended);
        Ok(())
    }

    /// Returns when to try again, if that is to be done at all.
    #[cold]
    fn next_try(&mut self, policy: ReconnectPolicy, failed: &Status) -> Option<Deadline> {
        let span = policy.patience()?;
        let end = *self.end.get_or_insert_with(|| Deadline::after(span));
        if !may_change(failed) || end.has_passed() {
            return None;
        }
        Some(self.pauses.next().min(end))
    }
}

/// Returns a connection that takes calls, once there is one.
pub(super) async fn connection(
    route: &Arc<AsyncRoute>,
    policy: ReconnectPolicy,
    deadline: Deadline,
) -> Result<Arc<AsyncConnection>, Status> {
    connect(Connecting::default(), route, policy, deadline).await
}

/// Returns a connection that takes calls, once a server listens.
pub(super) async fn hunt(
    route: &Arc<AsyncRoute>,
    timeout: Duration,
) -> Result<Arc<AsyncConnection>, Status> {
    let deadline = Deadline::after(timeout);
    let connecting = Connecting { end: Some(deadline), ..Connecting::default() };
    connect(connecting, route, ReconnectPolicy::Wait(timeout), deadline).await
}

async fn connect(
    mut connecting: Connecting,
    route: &Arc<AsyncRoute>,
    policy: ReconnectPolicy,
    deadline: Deadline,
) -> Result<Arc<AsyncConnection>, Status> {
    loop {
        let connected =
            poll_fn(|context| connecting.poll(route, policy, deadline, context.waker()));
        let connection = connected.await?;
        if connection.is_open() {
            return Ok(connection);
        }
        // It has ended since it was used last.
        route.forget(&connection);
        connecting.reopen(policy, connection.close_reason())?;
    }
}

/// Waits until `moment`.
pub(super) async fn sleep_until(moment: Deadline) -> Result<(), Status> {
    let mut timer = Timer::new()?;
    poll_fn(|context| match timer.poll(moment, context.waker()) {
        Ok(false) => Poll::Pending,
        outcome => Poll::Ready(outcome.map(drop)),
    })
    .await
}

/// Returns whether a moment has passed; if not, `waker` is woken then. The timer of the task is
/// made when it is first needed.
pub(super) fn poll_timer(
    timer: &mut Option<Timer>,
    moment: Deadline,
    waker: &Waker,
) -> Result<bool, Status> {
    let timer = match timer {
        _ if moment == Deadline::NEVER => return Ok(false),
        Some(timer) => timer,
        empty => empty.insert(Timer::new()?),
    };
    timer.poll(moment, waker)
}

#[cold]
fn late(route: &AsyncRoute, why: &str) -> Status {
    Status::deadline_exceeded(format!("no connection to {} in time: {why}", route.at()))
}
