//! How a task comes to a connection: it takes the one that is open, or waits for one to be opened,
//! again and again if its policy says so.
//!
//! **Invariants:** it ends by its deadline, whatever the attempt does. **Not here:** the attempt
//! (`clients/async_routes.rs`), when to try again (`clients/attempts.rs`).

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::async_connection::{AsyncConnection, Timer};
use crate::clients::attempts::{Action, Attempts, Event, NextTry, Rules, SocketWatch};
use crate::clients::{AsyncRoute, Connected, Hunt, PendingConnection};
use crate::deadline::{self, Deadline};
use crate::reconnect::ReconnectPolicy;
use crate::status::Status;

/// A task that wants a connection.
#[derive(Default)]
pub(super) struct Connecting {
    stage: Stage,
    attempts: Attempts,
    /// From the first failure on, if the policy is to wait.
    hunt: Option<Box<RouteHunt>>,
    timer: Option<Timer>,
}

#[derive(Default)]
enum Stage {
    #[default]
    Start,
    Pending(PendingConnection),
    /// Until the next attempt is due, after one that failed.
    Pause(NextTry),
}

/// A hunt by attempts that other tasks share.
struct RouteHunt {
    hunt: Hunt,
    /// Attempts up to this one began before the last change, and may have missed what it reports.
    attempts_before: u64,
}

impl RouteHunt {
    fn start(route: &AsyncRoute) -> Self {
        let hunt = Hunt::start(route.at());
        Self { hunt, attempts_before: route.attempts() }
    }

    fn arm(&mut self, route: &AsyncRoute) -> SocketWatch {
        let watch = self.hunt.arm(route.at());
        if watch.has_changed {
            self.attempts_before = route.attempts();
        }
        watch
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
                Stage::Start => match route.connect(policy)? {
                    Connected::Open(connection) => return self.opened(connection),
                    Connected::Pending(pending) => self.stage = Stage::Pending(pending),
                },
                Stage::Pending(pending) => match pending.poll(waker) {
                    Poll::Ready(Ok(connection)) => return self.opened(connection),
                    Poll::Ready(Err(failure)) => {
                        let attempt = pending.attempt();
                        let hunt = self.hunt.as_ref();
                        let event = match hunt.is_some_and(|it| attempt <= it.attempts_before) {
                            true => Event::FailedBeforeChange(failure),
                            false => Event::Failed(failure),
                        };
                        self.go_on(route, policy, event)?;
                    }
                    Poll::Pending if poll_timer(&mut self.timer, deadline, waker)? => {
                        self.go_on(route, policy, Event::TimedOut(deadline))?;
                    }
                    Poll::Pending => return Poll::Pending,
                },
                Stage::Pause(next) => {
                    let (next, hunt) = (next.at, self.hunt.as_mut().filter(|_| next.or_at_change));
                    let has_changed = hunt.is_some_and(|it| it.hunt.poll_change(waker));
                    if !has_changed && !poll_timer(&mut self.timer, next.min(deadline), waker)? {
                        return Poll::Pending;
                    }
                    let event = match !has_changed && deadline <= next {
                        true => Event::TimedOut(deadline),
                        false => Event::Resumed,
                    };
                    self.go_on(route, policy, event)?;
                }
            }
        }
    }

    fn opened(
        &mut self,
        connection: Arc<AsyncConnection>,
    ) -> Poll<Result<Arc<AsyncConnection>, Status>> {
        self.hunt = None;
        self.attempts.note_opened();
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
            self.attempts.note_sent();
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
    pub(super) fn reopen(
        &mut self,
        route: &AsyncRoute,
        policy: ReconnectPolicy,
        ended: Status,
    ) -> Result<(), Status> {
        self.go_on(route, policy, Event::Ended(ended))
    }

    /// Does what follows from an event, up to the next attempt or pause.
    #[cold]
    fn go_on(
        &mut self,
        route: &AsyncRoute,
        policy: ReconnectPolicy,
        mut event: Event,
    ) -> Result<(), Status> {
        let rules = Rules::of_task(policy);
        loop {
            event = match self.attempts.next(&rules, event, deadline::now()) {
                Action::WatchSocket => {
                    let hunt = self.hunt.get_or_insert_with(|| Box::new(RouteHunt::start(route)));
                    Event::Watching(hunt.arm(route))
                }
                Action::Connect => {
                    self.stage = Stage::Start;
                    return Ok(());
                }
                Action::Pause(next) => {
                    self.stage = Stage::Pause(next);
                    return Ok(());
                }
                Action::GiveUp(failure) => return Err(failure.status),
                Action::TimeOut(failed) => {
                    let why =
                        failed.as_ref().map_or("it is being opened", |it| it.status.message());
                    return Err(late(route, why));
                }
            };
        }
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
    let connecting = Connecting { attempts: Attempts::until(deadline), ..Connecting::default() };
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
        connecting.reopen(route, policy, connection.close_reason())?;
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
