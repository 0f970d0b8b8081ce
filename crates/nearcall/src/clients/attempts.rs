//! When a client tries again to connect to its server: one machine without I/O, for threads, tasks
//! and the thread that opens connections again.
//!
//! Whoever connects gives it what has happened and the time, and does what it returns: connect,
//! watch for the server's socket, pause, or give up. The first attempt is made before it is asked,
//! so that a call which finds its server reads no clock.
//! **Invariants:** it gives up at the end of its patience at the latest, with the last failure; a
//! failure that no wait can change is given up at once; while it watches for a server that does not
//! listen, changes without end cause no more attempts than there would be without a watch.
//! **Not here:** how a client waits and connects (`clients/connecting.rs`,
//! `async_call/connecting.rs`, `clients/async_routes/reopening.rs`), the watch
//! (`clients/hunting.rs`).

use std::time::Duration;

use crate::deadline::{self, Deadline, Pauses};
use crate::limits::{DRAINING_TRIES_MAX, HUNT_CHANGES_MAX, HUNT_RETRY_TIME};
use crate::reconnect::ReconnectPolicy;
use crate::status::{Code, Status};

/// Why there is no connection.
#[derive(Debug, Clone)]
pub(crate) struct ConnectFailure {
    pub(crate) status: Status,
    /// No server listens: there is nothing to try before one does.
    pub(crate) is_absent: bool,
    /// A connection that is shared may be had instead of one of this thread: the client, this
    /// process or the server has too little of something for another one.
    pub(crate) is_short: bool,
    /// The server has refused this connection, and may serve others.
    pub(crate) is_refused: bool,
}

impl From<Status> for ConnectFailure {
    fn from(status: Status) -> Self {
        let is_short = status.code() == Code::ResourceExhausted;
        Self { status, is_absent: false, is_short, is_refused: false }
    }
}

impl From<ConnectFailure> for Status {
    fn from(failure: ConnectFailure) -> Self {
        failure.status
    }
}

/// What one caller does when it cannot connect.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// For how long it tries again. None: not at all.
    patience: Option<Duration>,
    /// The moment at which it must not try again, if its patience is not at an end before.
    deadline: Deadline,
    /// Attempts that a server which drains may end, and that are made again at once.
    draining_tries_max: u32,
    /// Connections that may end before they are used, and that are opened again at once.
    reopened_at_once_max: u32,
    /// A shortage is given up at once: another kind of connection is at hand.
    gives_up_if_short: bool,
}

impl Rules {
    /// Returns the rules of a call of a thread that has connections of its own.
    pub(super) fn of_thread(policy: ReconnectPolicy, deadline: Deadline) -> Self {
        let draining_tries_max =
            if policy == ReconnectPolicy::Once { DRAINING_TRIES_MAX } else { 0 };
        let patience = policy.patience();
        Self { draining_tries_max, gives_up_if_short: true, ..Self::new(patience, deadline) }
    }

    /// Returns the rules of a thread whose [attempts](Attempts::until) have an end from the start.
    pub(super) fn of_hunt() -> Self {
        Self::new(Some(Duration::MAX), Deadline::NEVER)
    }

    /// Returns the rules of a task that shares a connection. It has its own timer for its deadline.
    pub(crate) fn of_task(policy: ReconnectPolicy) -> Self {
        let (draining_tries_max, reopened_at_once_max) = match policy {
            ReconnectPolicy::Never => (0, 1),
            ReconnectPolicy::Once => (DRAINING_TRIES_MAX, DRAINING_TRIES_MAX + 1),
            ReconnectPolicy::Wait(_) | ReconnectPolicy::AtOnce(_) => (DRAINING_TRIES_MAX, 1),
        };
        let base = Self::new(policy.patience(), Deadline::NEVER);
        Self { draining_tries_max, reopened_at_once_max, ..base }
    }

    fn new(patience: Option<Duration>, deadline: Deadline) -> Self {
        let (draining_tries_max, reopened_at_once_max, gives_up_if_short) = (0, 0, false);
        Self { patience, deadline, draining_tries_max, reopened_at_once_max, gives_up_if_short }
    }
}

/// What has happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// An attempt has failed.
    Failed(ConnectFailure),
    /// An attempt of another caller has failed, and had begun before the last change: it may have
    /// missed what has changed.
    FailedBeforeChange(ConnectFailure),
    /// The watch is set for the attempt that follows.
    Watching(SocketWatch),
    /// A pause is over, by its time or by a change.
    Resumed,
    /// The connection ended, with this reason, before it was used.
    Ended(Status),
    /// The deadline of the caller has passed, in an attempt or in a pause.
    TimedOut(Deadline),
}

/// What to do.
#[derive(Debug)]
pub(crate) enum Action {
    /// Try to connect once.
    Connect,
    /// Begin to watch for the server's socket, or note what has changed since, then report
    /// [`Event::Watching`].
    WatchSocket,
    /// Wait, then report [`Event::Resumed`].
    Pause(NextTry),
    /// There will be no connection, for this reason.
    GiveUp(ConnectFailure),
    /// The deadline of the caller came first. The last failure, if an attempt has failed.
    TimeOut(Option<ConnectFailure>),
}

/// When to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextTry {
    pub(crate) at: Deadline,
    /// Earlier, if something changes.
    pub(crate) or_at_change: bool,
}

impl NextTry {
    /// Returns the same, at `end` at the latest.
    fn before(self, end: Deadline) -> Self {
        Self { at: self.at.min(end), ..self }
    }
}

/// What is known of the socket of a server before an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SocketWatch {
    /// The next change is reported. False: there is nothing to wait for but the next attempt.
    pub(crate) is_set: bool,
    /// Something has changed since the watch was set before.
    pub(crate) has_changed: bool,
    /// The watch is new, and a file is there whose server may come without touching it.
    pub(crate) may_come_unseen: bool,
}

/// The attempts of one caller to connect, after the first.
#[derive(Debug)]
pub(crate) struct Attempts {
    /// Until when to try again; set by the first failure.
    end: Option<Deadline>,
    /// From the first failure on, if it waits for a server.
    hunt: Option<Box<HuntTimes>>,
    /// How often a server that drained has ended an attempt.
    draining_tries: u32,
    /// How many connections had ended before they were used.
    reopened: u32,
    /// Between those that end as soon as they are open.
    pauses: Pauses,
    /// Why the last attempt failed.
    failed: Option<Box<ConnectFailure>>,
}

/// When a caller that waits for a server tries again by itself.
#[derive(Debug)]
struct HuntTimes {
    is_watched: bool,
    pauses: Pauses,
    /// Until when to try again by itself while no server listens.
    retry_until: Deadline,
    /// Changes that may end a pause until then.
    changes_left: u32,
}

impl Default for Attempts {
    fn default() -> Self {
        Self {
            end: None,
            hunt: None,
            draining_tries: 0,
            reopened: 0,
            pauses: Pauses::HUNT,
            failed: None,
        }
    }
}

impl Attempts {
    /// Returns those of a caller that tries until `end`, whatever its patience.
    pub(crate) fn until(end: Deadline) -> Self {
        Self { end: Some(end), ..Self::default() }
    }

    /// Notes that a request was sent over a connection, whatever becomes of it: what follows has
    /// tries of its own.
    pub(crate) fn note_sent(&mut self) {
        (self.reopened, self.draining_tries) = (0, 0);
    }

    /// Notes that there is a connection: the wait for a server is over.
    pub(crate) fn note_opened(&mut self) {
        self.hunt = None;
    }

    /// Returns what follows from an event at `now`.
    #[cold]
    pub(crate) fn next(&mut self, rules: &Rules, event: Event, now: Deadline) -> Action {
        match event {
            Event::Failed(failure) => self.fail(rules, failure, false, now),
            Event::FailedBeforeChange(failure) => self.fail(rules, failure, true, now),
            Event::Watching(watch) => {
                if let Some(hunt) = &mut self.hunt {
                    hunt.note_watch(watch, now);
                }
                Action::Connect
            }
            Event::Resumed => self.again(),
            Event::Ended(reason) => self.reopen(rules, reason, now),
            Event::TimedOut(deadline) => match self.failed.take() {
                Some(failure) if self.end == Some(deadline) => Action::GiveUp(*failure),
                failed => Action::TimeOut(failed.map(|failure| *failure)),
            },
        }
    }

    fn fail(
        &mut self,
        rules: &Rules,
        failure: ConnectFailure,
        may_have_missed: bool,
        now: Deadline,
    ) -> Action {
        // Another server may listen in the place of one that drains.
        if failure.status.has_not_begun()
            && self.draining_tries < rules.draining_tries_max
            && now < rules.deadline
        {
            self.draining_tries += 1;
            return self.again();
        }
        let is_final = rules.gives_up_if_short && failure.is_short;
        let end = self.end_of_tries(rules, &failure.status, now).filter(|_| !is_final);
        let Some(end) = end else { return Action::GiveUp(failure) };
        if rules.deadline <= now {
            return Action::TimeOut(Some(failure));
        }
        let is_absent = failure.is_absent;
        self.failed = Some(Box::new(failure));
        match &mut self.hunt {
            Some(hunt) if !may_have_missed => {
                Action::Pause(hunt.next_try(is_absent, now).before(end).before(rules.deadline))
            }
            Some(_) => Action::WatchSocket,
            empty => {
                // The first attempt may have missed what has come before it is watched for.
                *empty = Some(Box::new(HuntTimes::new()));
                Action::WatchSocket
            }
        }
    }

    /// Returns what follows the end of a connection that was not used: it is opened at once if that
    /// is one of the first, and as after an attempt that failed if they end as soon as they are
    /// open.
    fn reopen(&mut self, rules: &Rules, ended: Status, now: Deadline) -> Action {
        if self.reopened < rules.reopened_at_once_max {
            self.reopened += 1;
            return self.again();
        }
        let failure = ConnectFailure::from(ended);
        let Some(end) = self.end_of_tries(rules, &failure.status, now) else {
            return Action::GiveUp(failure);
        };
        self.failed = Some(Box::new(failure));
        let next = NextTry { at: self.pauses.next_from(now), or_at_change: false };
        Action::Pause(next.before(end))
    }

    /// Returns how the next attempt begins.
    fn again(&self) -> Action {
        match self.hunt {
            Some(_) => Action::WatchSocket,
            None => Action::Connect,
        }
    }

    /// Returns until when to try again; `None` if that is over, or of no use.
    fn end_of_tries(&mut self, rules: &Rules, failed: &Status, now: Deadline) -> Option<Deadline> {
        let patience = rules.patience?;
        let end = *self.end.get_or_insert_with(|| deadline::later(now, patience));
        (may_change(failed) && now < end).then_some(end)
    }
}

impl HuntTimes {
    fn new() -> Self {
        Self {
            is_watched: false,
            pauses: Pauses::HUNT,
            retry_until: Deadline::NOW,
            changes_left: HUNT_CHANGES_MAX,
        }
    }

    fn note_watch(&mut self, watch: SocketWatch, now: Deadline) {
        self.is_watched = watch.is_set;
        if watch.may_come_unseen {
            self.retry_until = deadline::later(now, HUNT_RETRY_TIME);
        }
        if watch.has_changed && watch.is_set {
            if self.retry_until <= now {
                (self.pauses, self.changes_left) = (Pauses::HUNT, HUNT_CHANGES_MAX);
            } else {
                self.changes_left = self.changes_left.saturating_sub(1);
            }
            self.retry_until = deadline::later(now, HUNT_RETRY_TIME);
        }
    }

    /// Returns when to try again after an attempt that has found no listener, or that has failed in
    /// another way that may pass.
    fn next_try(&mut self, is_absent: bool, now: Deadline) -> NextTry {
        if self.is_watched && is_absent && self.retry_until <= now {
            return NextTry { at: Deadline::NEVER, or_at_change: true };
        }
        let or_at_change = self.is_watched && self.changes_left > 0;
        NextTry { at: self.pauses.next_from(now), or_at_change }
    }
}

/// Returns whether a later attempt to connect may end in another way.
fn may_change(status: &Status) -> bool {
    matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::status::Fate;

    const MS: u64 = 1_000_000;
    const SECOND: Duration = Duration::from_secs(1);
    const WAIT: ReconnectPolicy = ReconnectPolicy::Wait(SECOND);

    fn at(ns: u64) -> Deadline {
        Deadline::from_ns(ns)
    }

    fn absent() -> ConnectFailure {
        let status = Status::unavailable("no server listens");
        ConnectFailure { is_absent: true, ..status.into() }
    }

    fn drained() -> ConnectFailure {
        Status::unavailable("the server drains").with_fate(Fate::NotBegun).into()
    }

    fn short() -> ConnectFailure {
        Status::resource_exhausted("too many connections").into()
    }

    /// A caller in a world of its own: attempts take no time, so its clock goes on in pauses only.
    struct Model {
        rules: Rules,
        attempts: Attempts,
        now: u64,
        watch: SocketWatch,
        /// When something changes, in ascending order.
        changes: Vec<u64>,
        /// When each attempt began.
        tried: Vec<u64>,
        /// The lengths of the pauses.
        paused: Vec<u64>,
    }

    impl Model {
        fn new(rules: Rules, attempts: Attempts) -> Self {
            let (changes, tried, paused) = (Vec::new(), Vec::new(), Vec::new());
            let watch = SocketWatch::default();
            Self { rules, attempts, now: MS, watch, changes, tried, paused }
        }

        fn connect(&mut self, failure: &impl Fn() -> ConnectFailure) -> Event {
            self.tried.push(self.now - MS);
            Event::Failed(failure())
        }

        /// Makes attempts that all end so, until the machine gives up.
        fn run(&mut self, failure: impl Fn() -> ConnectFailure) -> Action {
            let mut event = self.connect(&failure);
            let mut armed_at = None;
            loop {
                let now = at(self.now);
                event = match self.attempts.next(&self.rules, event, now) {
                    Action::Connect => self.connect(&failure),
                    Action::WatchSocket => {
                        let since = armed_at.replace(self.now);
                        let has_changed = since.is_some_and(|since| {
                            self.changes.iter().any(|change| (since..self.now).contains(change))
                        });
                        let may_come_unseen = self.watch.may_come_unseen && since.is_none();
                        Event::Watching(SocketWatch { has_changed, may_come_unseen, ..self.watch })
                    }
                    Action::Pause(next) => {
                        let since = armed_at.unwrap_or(self.now);
                        let change = self.changes.iter().find(|change| **change >= since);
                        let change = change.filter(|_| next.or_at_change && self.watch.is_set);
                        let by_change =
                            change.map_or(u64::MAX, |change| (*change).max(self.now) + 1);
                        let end = next.at.as_ns().min(by_change);
                        assert!(end < u64::MAX, "a pause without an end");
                        self.paused.push(end.saturating_sub(self.now));
                        self.now = end.max(self.now);
                        Event::Resumed
                    }
                    end => return end,
                };
                assert!(self.tried.len() < 10_000, "attempts without an end");
            }
        }
    }

    fn ms(times: &[u64]) -> Vec<u64> {
        times.iter().map(|ns| ns / MS).collect()
    }

    /// A call without patience makes one attempt, and some more past servers that drain.
    #[test]
    fn a_call_tries_once_but_past_servers_that_drain() {
        let once = Rules::of_thread(ReconnectPolicy::Once, Deadline::NEVER);
        for (failure, count) in
            [(absent as fn() -> _, 1), (short, 1), (drained, 1 + DRAINING_TRIES_MAX as usize)]
        {
            for rules in [once, Rules::of_task(ReconnectPolicy::Once)] {
                let mut model = Model::new(rules, Attempts::default());
                let Action::GiveUp(last) = model.run(failure) else { panic!("not given up") };
                assert_eq!(last.status.message(), failure().status.message());
                assert_eq!((model.tried, model.paused), (vec![0; count], vec![]));
            }
        }
        let late = Rules::of_thread(ReconnectPolicy::Once, at(MS));
        let mut model = Model::new(late, Attempts::default());
        assert!(matches!(model.run(drained), Action::GiveUp(_)));
        assert_eq!(model.tried.len(), 1);
    }

    /// Without a watch the pauses alone decide: twice at once, then ever longer ones, and the last
    /// attempt at the end of the patience.
    #[test]
    fn without_a_watch_the_pauses_double_up_to_the_end() {
        let rules = Rules::of_thread(WAIT, Deadline::NEVER);
        let hunting = (Rules::of_hunt(), Attempts::until(at(MS + 1_000 * MS)));
        let cases =
            [(rules, Attempts::default()), (Rules::of_task(WAIT), Attempts::default()), hunting];
        for (rules, attempts) in cases {
            let mut model = Model::new(rules, attempts);
            let Action::GiveUp(last) = model.run(absent) else { panic!("not given up") };
            assert!(last.is_absent);
            assert_eq!(ms(&model.tried)[..9], [0, 0, 1, 3, 7, 15, 31, 63, 113]);
            assert_eq!(model.tried.last(), Some(&(1_000 * MS)));
            assert!(ms(&model.paused)[6..].iter().all(|pause| *pause <= 50));
            assert_eq!(model.tried.len(), model.paused.len() + 2);
        }
    }

    #[test]
    fn the_deadline_of_a_call_comes_before_the_end_of_its_patience() {
        let rules = Rules::of_thread(WAIT, at(MS + 10 * MS));
        let mut model = Model::new(rules, Attempts::default());
        let Action::TimeOut(Some(last)) = model.run(absent) else { panic!("not timed out") };
        assert!(last.is_absent);
        assert_eq!(ms(&model.tried), [0, 0, 1, 3, 7, 10]);
        // A task has a timer of its own for that.
        let rules = Rules::of_task(WAIT);
        let mut attempts = Attempts::default();
        let timed_out = attempts.next(&rules, Event::TimedOut(at(MS)), at(MS));
        assert!(matches!(timed_out, Action::TimeOut(None)), "{timed_out:?}");
        attempts.next(&rules, Event::Failed(absent()), at(MS));
        let timed_out = attempts.next(&rules, Event::TimedOut(at(2 * MS)), at(2 * MS));
        assert!(matches!(timed_out, Action::TimeOut(Some(_))), "{timed_out:?}");
        // Of a hunt that is its end.
        let mut attempts = Attempts::until(at(2 * MS));
        attempts.next(&rules, Event::Failed(absent()), at(MS));
        let timed_out = attempts.next(&rules, Event::TimedOut(at(2 * MS)), at(2 * MS));
        assert!(matches!(timed_out, Action::GiveUp(_)), "{timed_out:?}");
    }

    /// Threads can share a connection in place of one of their own; tasks have no other.
    #[test]
    fn what_no_wait_can_change_is_given_up_at_once() {
        let refused = || Status::permission_denied("not this user").into();
        let out_of = || ConnectFailure { is_short: true, ..absent() };
        let thread = Rules::of_thread(WAIT, Deadline::NEVER);
        for (rules, failure, is_final) in [
            (thread, &refused as &dyn Fn() -> ConnectFailure, true),
            (Rules::of_task(WAIT), &refused, true),
            (Rules::of_hunt(), &refused, true),
            (thread, &short, true),
            (thread, &out_of, true),
            (Rules::of_task(WAIT), &out_of, false),
        ] {
            let mut model = Model::new(rules, Attempts::default());
            if !is_final {
                model.attempts = Attempts::until(at(MS + 100 * MS));
            }
            assert!(matches!(model.run(failure), Action::GiveUp(_)));
            assert_eq!(model.tried.len() == 1, is_final, "{rules:?}");
        }
        let impatient = Rules::of_thread(ReconnectPolicy::Wait(Duration::ZERO), Deadline::NEVER);
        let mut model = Model::new(impatient, Attempts::default());
        assert!(matches!(model.run(absent), Action::GiveUp(_)));
        assert_eq!(model.tried.len(), 1);
    }

    /// A server that does not listen is waited for without attempts, one that may come unseen with
    /// some at first.
    #[test]
    fn a_watch_takes_the_place_of_attempts() {
        let rules = Rules::of_thread(ReconnectPolicy::Wait(10 * SECOND), Deadline::NEVER);
        let mut model = Model::new(rules, Attempts::default());
        model.watch.is_set = true;
        model.changes = vec![MS + 5_000 * MS];
        assert!(matches!(model.run(absent), Action::GiveUp(_)));
        assert_eq!(ms(&model.tried)[..3], [0, 0, 5_000]);
        let retries = HUNT_RETRY_TIME.as_millis();
        let after_change = model.tried.iter().filter(|it| **it >= 5_000 * MS).count();
        assert!((2..=retries).contains(&(after_change as u128)), "{:?}", model.tried);
        // One that takes no client is asked again.
        let mut model = Model::new(rules, Attempts::default());
        model.watch.is_set = true;
        model.run(|| Status::unavailable("it does not take clients").into());
        assert_eq!(ms(&model.tried)[..5], [0, 0, 1, 3, 7]);
        let mut model = Model::new(rules, Attempts::default());
        model.watch = SocketWatch { is_set: true, may_come_unseen: true, ..SocketWatch::default() };
        model.run(absent);
        assert_eq!(ms(&model.tried)[..5], [0, 0, 1, 3, 7]);
        assert!(model.tried.iter().filter(|it| **it < 10_000 * MS).count() < 100);
    }

    /// Any number of changes, by whoever may write to the directory, causes as many attempts as the
    /// pauses allow.
    #[test]
    fn changes_without_end_cut_only_some_pauses_short() {
        let rules = Rules::of_thread(ReconnectPolicy::Wait(10 * SECOND), Deadline::NEVER);
        let mut model = Model::new(rules, Attempts::default());
        model.watch.is_set = true;
        // Ten changes in each millisecond.
        model.changes = (0..100_000).map(|number| MS + number * MS / 10).collect();
        assert!(matches!(model.run(absent), Action::GiveUp(_)));
        let cut = model.paused.iter().filter(|pause| **pause < MS).count();
        assert!(cut <= HUNT_CHANGES_MAX as usize + 1, "{cut} pauses were cut");
        let unwatched = 10_000 / 50 + 10;
        assert!(model.tried.len() <= unwatched + cut, "{} attempts", model.tried.len());
    }

    /// An attempt of another task that began before the last change is made again at once.
    #[test]
    fn an_attempt_that_may_have_missed_a_change_is_made_again() {
        let rules = Rules::of_task(WAIT);
        let mut attempts = Attempts::default();
        let first = attempts.next(&rules, Event::Failed(absent()), at(MS));
        assert!(matches!(first, Action::WatchSocket), "{first:?}");
        let watch = SocketWatch { is_set: true, ..SocketWatch::default() };
        let armed = attempts.next(&rules, Event::Watching(watch), at(MS));
        assert!(matches!(armed, Action::Connect), "{armed:?}");
        let missed = attempts.next(&rules, Event::FailedBeforeChange(absent()), at(MS));
        assert!(matches!(missed, Action::WatchSocket), "{missed:?}");
        attempts.next(&rules, Event::Watching(watch), at(MS));
        let failed = attempts.next(&rules, Event::Failed(absent()), at(MS));
        let end = NextTry { at: at(MS + 1_000 * MS), or_at_change: true };
        assert!(matches!(failed, Action::Pause(next) if next == end), "{failed:?}");
    }

    /// Connections that end before they are used: some are opened again at once, then the policy
    /// gives up, or pauses ever longer.
    #[test]
    fn connections_that_end_at_once_are_opened_ever_more_seldom() {
        let ended = || Event::Ended(Status::unavailable("it has ended"));
        let at_once = |attempts: &mut Attempts, policy| {
            let rules = Rules::of_task(policy);
            let connects = |attempts: &mut Attempts| {
                matches!(attempts.next(&rules, ended(), at(MS)), Action::Connect)
            };
            (0..100).take_while(|_| connects(attempts)).count()
        };
        let again = DRAINING_TRIES_MAX as usize + 1;
        let mut attempts = Attempts::default();
        assert_eq!(at_once(&mut attempts, ReconnectPolicy::Once), again);
        let given_up = attempts.next(&Rules::of_task(ReconnectPolicy::Once), ended(), at(MS));
        assert!(matches!(given_up, Action::GiveUp(_)), "{given_up:?}");
        attempts.note_sent();
        assert_eq!(at_once(&mut attempts, ReconnectPolicy::Once), again);
        assert_eq!(at_once(&mut Attempts::default(), ReconnectPolicy::Never), 1);
        // The machine has paused once where the count ended.
        let mut attempts = Attempts::default();
        assert_eq!(at_once(&mut attempts, WAIT), 1);
        for pause in [2, 4, 8, 16] {
            let next = attempts.next(&Rules::of_task(WAIT), ended(), at(MS));
            let expected = NextTry { at: at(MS + pause * MS), or_at_change: false };
            assert!(matches!(next, Action::Pause(next) if next == expected), "{next:?}");
            let resumed = attempts.next(&Rules::of_task(WAIT), Event::Resumed, at(MS));
            assert!(matches!(resumed, Action::Connect), "{resumed:?}");
        }
        let over = attempts.next(&Rules::of_task(WAIT), ended(), at(MS + 1_000 * MS));
        assert!(matches!(over, Action::GiveUp(_)), "{over:?}");
    }
}
