//! Opening a connection of async callers again as soon as it has ended, as
//! [`ReconnectPolicy::AtOnce`](crate::client::ReconnectPolicy::AtOnce) has it.
//!
//! **Invariants:** one thread at most does so for a route. It makes one attempt after the other,
//! each of which ends for all tasks that wait for it; between two it sleeps as any hunt does, and
//! it ends with the client. Connections that end as soon as they are open are opened ever more
//! seldom.
//! **Not here:** an attempt (`clients/async_routes.rs`), when to try again (`clients/attempts.rs`),
//! what ends a sleep (`clients/hunting.rs`).

use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use super::{AsyncRoute, Attempt, Outcome, PendingConnection, State, lock};
use crate::clients::attempts::{Action, Attempts, Event, Rules};
use crate::clients::hunting::{Alarm, Hunt};
use crate::deadline::{self, Deadline, Pauses};
use crate::limits::REOPENED_LIFE_MIN;

/// What is done for a route whose connection has ended.
pub(super) struct Reopening {
    series: Mutex<Series>,
    /// Wakes the thread.
    alarm: Arc<Alarm>,
}

/// Connections of which each was opened as soon as the one before had ended.
struct Series {
    /// When the last connection was opened.
    opened_at: Deadline,
    pauses: Pauses,
    /// Until when to try; set by the first end.
    end: Option<Deadline>,
    /// When the next attempt is due, if one is wanted.
    wanted: Option<Deadline>,
    has_thread: bool,
}

impl Default for Reopening {
    fn default() -> Self {
        let series = Series {
            opened_at: Deadline::NOW,
            pauses: Pauses::REOPENING,
            end: None,
            wanted: None,
            has_thread: false,
        };
        Self { series: Mutex::new(series), alarm: Arc::default() }
    }
}

impl Reopening {
    /// Notes that there is a connection.
    pub(super) fn note_opened(&self) {
        lock(&self.series).opened_at = deadline::now();
        self.alarm.ring();
    }

    /// Ends the sleep of the thread: the client was closed.
    pub(super) fn close(&self) {
        self.alarm.ring();
    }

    /// Has the connection opened again, for which it is tried for `patience` in all.
    pub(super) fn begin(&self, route: &Arc<AsyncRoute>, patience: Duration) {
        let mut series = lock(&self.series);
        let has_lived = deadline::later(series.opened_at, REOPENED_LIFE_MIN).has_passed();
        let due = if has_lived {
            (series.pauses, series.end) = (Pauses::REOPENING, None);
            Deadline::NOW
        } else {
            series.pauses.next()
        };
        let end = *series.end.get_or_insert_with(|| Deadline::after(patience));
        if end.has_passed() {
            return;
        }
        series.wanted = Some(due);
        if !series.has_thread {
            let route = Arc::clone(route);
            let thread = std::thread::Builder::new().name("nearcall-meet".into());
            // Without one the next call opens the connection.
            series.has_thread = thread.spawn(move || route.reopen_while_wanted()).is_ok();
        }
    }
}

impl AsyncRoute {
    fn reopen_while_wanted(self: &Arc<Self>) {
        loop {
            let mut series = lock(&self.reopening.series);
            let (Some(due), Some(end)) = (series.wanted.take(), series.end) else {
                series.has_thread = false;
                return;
            };
            drop(series);
            while !self.is_settled() && self.reopening.alarm.wait(due) {}
            self.reopen(end);
        }
    }

    /// Makes one attempt after the other until there is a connection, or none is wanted any more.
    fn reopen(self: &Arc<Self>, end: Deadline) {
        let (rules, mut attempts) = (Rules::of_hunt(), Attempts::until(end));
        let (mut hunt, mut action) = (None::<Hunt>, Action::Connect);
        loop {
            let event = match action {
                Action::Connect => match self.attempt_again() {
                    Some(Err(failure)) => Event::Failed(failure),
                    Some(Ok(_)) | None => return,
                },
                Action::WatchSocket => {
                    let at = self.at();
                    Event::Watching(hunt.get_or_insert_with(|| Hunt::start(at)).arm(at))
                }
                Action::Pause(next) => {
                    if let Some(hunt) = &mut hunt {
                        hunt.block_until(next, &self.reopening.alarm, || self.is_settled());
                    }
                    Event::Resumed
                }
                Action::GiveUp(_) | Action::TimeOut(_) => return,
            };
            action = attempts.next(&rules, event, deadline::now());
        }
    }

    /// Returns whether there is nothing to open.
    fn is_settled(&self) -> bool {
        matches!(&*lock(&self.state), State::Open(_) | State::Closed)
    }

    /// Makes an attempt, after the one that another caller has begun. `None`: there is nothing to
    /// open.
    fn attempt_again(self: &Arc<Self>) -> Option<Outcome> {
        loop {
            let mut state = lock(&self.state);
            let other = match &*state {
                State::Open(_) | State::Closed => return None,
                State::Connecting(other) => Arc::clone(other),
                State::Unconnected | State::Ended(_) => {
                    let attempt = self.begin_attempt(&mut state);
                    drop(state);
                    self.run(&attempt);
                    return attempt.outcome();
                }
            };
            drop(state);
            self.wait_for(other);
        }
    }

    fn wait_for(&self, attempt: Arc<Attempt>) {
        let waker = Waker::from(Arc::clone(&self.reopening.alarm));
        let mut pending = PendingConnection { attempt, number: None };
        while pending.poll(&waker).is_pending() {
            self.reopening.alarm.wait(Deadline::NEVER);
        }
    }
}
