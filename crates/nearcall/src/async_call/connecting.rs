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
use crate::client::{
    AsyncRoute, ConnectFailure, Connected, Hunt, NextTry, PendingConnection, may_change,
};
use crate::deadline::{Deadline, Pauses};
use crate::limits::DRAINING_TRIES_MAX;
use crate::reconnect::ReconnectPolicy;
use crate::status::Status;

/// A task that wants a connection.
pub(super) struct Connecting {
    stage: Stage,
    /// Until when to try again; set by the first failure.
    end: Option<Deadline>,
    /// From the first failure on, if the policy is to wait.
    hunt: Option<Box<RouteHunt>>,
    /// How many that were opened had ended before they were used.
    reopened: u32,
    /// Between those that end as soon as they are open.
    pauses: Pauses,
    /// How often a server that drained has ended the attempt.
    draining_tries: u32,
    /// Why the last attempt failed, which is what a hunt ends with.
    failed: Option<Status>,
    timer: Option<Timer>,
}

enum Stage {
    Start,
    Pending(PendingConnection),
    /// Until the next attempt is due, after one that failed.
    Pause(NextTry, Status),
}

/// A hunt by attempts that other tasks share.
struct RouteHunt {
    hunt: Hunt,
    /// Attempts up to this one began before the last change, and may have missed what it reports.
    attempts_before: u64,
}

impl Default for Connecting {
    fn default() -> Self {
        Self {
            stage: Stage::Start,
            end: None,
            hunt: None,
            reopened: 0,
            pauses: Pauses::HUNT,
            draining_tries: 0,
            failed: None,
            timer: None,
        }
    }
}

impl RouteHunt {
    fn start(route: &AsyncRoute) -> Self {
        let hunt = Hunt::start(route.at());
        Self { hunt, attempts_before: route.attempts() }
    }

    fn begin_attempt(&mut self, route: &AsyncRoute) {
        if self.hunt.begin_attempt(route.at()) {
            self.attempts_before = route.attempts();
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
                Stage::Start => match self.start(route, policy)? {
                    Connected::Open(connection) => return self.opened(connection),
                    Connected::Pending(pending) => self.stage = Stage::Pending(pending),
                },
                Stage::Pending(pending) => match pending.poll(waker) {
                    Poll::Ready(Ok(connection)) => return self.opened(connection),
                    // Another server may listen in the place of one that drains.
                    Poll::Ready(Err(failure))
                        if failure.status.has_not_begun()
                            && policy != ReconnectPolicy::Never
                            && self.draining_tries < DRAINING_TRIES_MAX =>
                    {
                        self.draining_tries += 1;
                        self.stage = Stage::Start;
                    }
                    Poll::Ready(Err(failure)) => {
                        let attempt = pending.attempt();
                        match self.next_stage(route, policy, &failure, attempt) {
                            Some(next) => self.stage = next,
                            None => return Poll::Ready(Err(failure.status)),
                        }
                    }
                    Poll::Pending if poll_timer(&mut self.timer, deadline, waker)? => {
                        return Poll::Ready(Err(match self.failed.take() {
                            Some(failed) if self.end == Some(deadline) => failed,
                            Some(failed) => late(route, failed.message()),
                            None => late(route, "it is being opened"),
                        }));
                    }
                    Poll::Pending => return Poll::Pending,
                },
                Stage::Pause(next, status) => {
                    let hunt = self.hunt.as_mut().filter(|_| next.or_at_change);
                    if !hunt.is_some_and(|it| it.hunt.poll_change(waker)) {
                        let next = next.at;
                        if !poll_timer(&mut self.timer, next.min(deadline), waker)? {
                            return Poll::Pending;
                        }
                        if self.end == Some(deadline) && deadline <= next {
                            return Poll::Ready(Err(status.clone()));
                        }
                        if deadline <= next {
                            return Poll::Ready(Err(late(route, status.message())));
                        }
                    }
                    self.failed = Some(status.clone());
                    self.stage = Stage::Start;
                }
            }
        }
    }

    fn start(
        &mut self,
        route: &Arc<AsyncRoute>,
        policy: ReconnectPolicy,
    ) -> Result<Connected, Status> {
        if let Some(hunt) = &mut self.hunt {
            hunt.begin_attempt(route);
        }
        route.connect(policy)
    }

    fn opened(
        &mut self,
        connection: Arc<AsyncConnection>,
    ) -> Poll<Result<Arc<AsyncConnection>, Status>> {
        self.hunt = None;
        Poll::Ready(Ok(connection))
    }

    /// Begins anew, with what time there is left.
    pub(super) fn restart(&mut self) {
        self.stage = Stage::Start;
    }

    /// Notes that a request was sent over a connection, whatever becomes of it: what follows has
    /// tries of its own.
    pub(super) fn note_sent(&mut self, policy: ReconnectPolicy) {
        if policy == ReconnectPolicy::Once {
            (self.reopened, self.draining_tries) = (0, 0);
        }
    }

    /// Begins anew after a connection that has ended or drains: at once if that is the first one,
    /// and as after an attempt that failed if it has done so as soon as it was open. Without
    /// patience some of those are opened again at once: another server may serve by now.
    ///
    /// # Errors
    ///
    /// `ended`: the policy leaves it at that, or its time is up.
    #[cold]
    pub(super) fn reopen(&mut self, policy: ReconnectPolicy, ended: Status) -> Result<(), Status> {
        let at_once = match policy {
            ReconnectPolicy::Once => self.reopened <= DRAINING_TRIES_MAX,
            _ => self.reopened == 0,
        };
        if at_once {
            self.reopened += 1;
            self.stage = Stage::Start;
            return Ok(());
        }
        let Some(end) = self.end_of_tries(policy, &ended) else { return Err(ended) };
        let next = NextTry { at: self.pauses.next().min(end), or_at_change: false };
        self.stage = Stage::Pause(next, ended);
        Ok(())
    }

    /// Returns what follows an attempt that has failed, if it is to be tried again at all.
    #[cold]
    fn next_stage(
        &mut self,
        route: &AsyncRoute,
        policy: ReconnectPolicy,
        failure: &ConnectFailure,
        attempt: u64,
    ) -> Option<Stage> {
        let end = self.end_of_tries(policy, &failure.status)?;
        let is_first = self.hunt.is_none();
        let hunt = self.hunt.get_or_insert_with(|| Box::new(RouteHunt::start(route)));
        if is_first || attempt <= hunt.attempts_before {
            self.failed = Some(failure.status.clone());
            return Some(Stage::Start);
        }
        let next = hunt.hunt.next_try(failure.is_absent).before(end);
        Some(Stage::Pause(next, failure.status.clone()))
    }

    /// Returns until when to try again; `None` if that is over, or of no use.
    fn end_of_tries(&mut self, policy: ReconnectPolicy, failed: &Status) -> Option<Deadline> {
        let span = policy.patience()?;
        let end = *self.end.get_or_insert_with(|| Deadline::after(span));
        (may_change(failed) && !end.has_passed()).then_some(end)
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
