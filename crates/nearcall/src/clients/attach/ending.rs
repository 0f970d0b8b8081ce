//! Why servers are gone: found for all attachments of this process together.
//!
//! One thread waits by the pidfds of all processes whose connections have ended. Who answers in the
//! place of a server that has closed is looked at once for all attachments to it, by a few threads,
//! since a socket that does not answer holds one up.
//! **Invariants:** there are as many threads as limits say, and none while there is nothing to
//! find; each ending gives one notice.
//! **Not here:** the notice (`clients/attach.rs`), how a process has ended (`nearcall-os`).

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use nearcall_os::fork::Epoch;
use nearcall_os::poll::{self, Interest, PollFd, PollFlags};
use nearcall_os::process::{self, ProcessEnd, ReportedEnd};
use nearcall_os::{clock, eventfd};
use nearcall_wire::InstanceId;

use super::{Cause, NoticeSource, ServerWatch};
use crate::clients::async_opening;
use crate::deadline::Deadline;
use crate::instance::is_same_server;
use crate::limits::{EXIT_WAIT_MAX, LOOK_THREADS_MAX, REAP_WAIT_MAX, SUCCESSOR_WAIT_MAX};
use crate::peer::{Peer, PeerIdentity};

/// What tools show of the threads.
pub(super) const THREAD_NAME: &str = "nearcall-ending";

/// An attachment whose connection has ended.
pub(super) struct Ending {
    pub(super) watch: Arc<ServerWatch>,
    pub(super) peer: Peer,
    pub(super) instance: Option<InstanceId>,
    /// The server has said goodbye.
    pub(super) is_orderly: bool,
}

/// A process that may be about to end.
struct Waiting {
    ending: Ending,
    pidfd: Arc<OwnedFd>,
    /// It has ended, and how is not known yet.
    has_ended: bool,
    until: Deadline,
}

/// What all attachments share.
struct Finder {
    epoch: Epoch,
    /// For the thread that waits for processes.
    new: Vec<Waiting>,
    /// Wakes that thread. None: there is none.
    wake: Option<Arc<OwnedFd>>,
    /// Endings whose servers have closed, each group of one server.
    looks: VecDeque<Vec<Ending>>,
    look_threads: usize,
}

fn finder() -> MutexGuard<'static, Option<Finder>> {
    static FINDER: Mutex<Option<Finder>> = Mutex::new(None);
    let mut finder = FINDER.lock().unwrap_or_else(PoisonError::into_inner);
    if finder.as_ref().is_some_and(|finder| !finder.epoch.is_current()) {
        // What a process has made is not for one that was forked from it.
        mem::forget(finder.take());
    }
    finder
}

fn with_finder<T>(act: impl FnOnce(&mut Finder) -> T) -> T {
    act(finder().get_or_insert_with(|| Finder {
        epoch: Epoch::current(),
        new: Vec::new(),
        wake: None,
        looks: VecDeque::new(),
        look_threads: 0,
    }))
}

impl Ending {
    /// Has the cause found, and the notice given. Does not wait.
    pub(super) fn find_cause(self) {
        if self.is_orderly {
            return self.look();
        }
        let Peer::Process(PeerIdentity { pidfd: Some(pidfd), .. }) = &self.peer else {
            return self.give(Cause::Lost, NoticeSource::ControlLine);
        };
        let pidfd = Arc::clone(pidfd);
        // A process closes its sockets shortly before it has ended.
        let until = Deadline::after(EXIT_WAIT_MAX);
        let waiting = Waiting { ending: self, pidfd, has_ended: false, until };
        let refused = with_finder(|finder| {
            if let Err(error) = finder.start_waiting() {
                return Some((waiting, error));
            }
            finder.new.push(waiting);
            None
        });
        if let Some((waiting, _no_thread)) = refused {
            waiting.ending.give(Cause::Lost, NoticeSource::ControlLine);
        }
    }

    /// Has somebody look who answers in the place of the server, which has closed.
    fn look(self) {
        let refused = with_finder(|finder| {
            let is_same = |group: &Vec<Self>| group.first().is_some_and(|it| it.is_of_same(&self));
            if let Some(group) = finder.looks.iter_mut().find(|group| is_same(group)) {
                group.push(self);
                return None;
            }
            if finder.look_threads < LOOK_THREADS_MAX {
                let spawned = thread::Builder::new().name(THREAD_NAME.into()).spawn(run_looks);
                finder.look_threads += usize::from(spawned.is_ok());
            }
            if finder.look_threads == 0 {
                return Some(self);
            }
            finder.looks.push_back(vec![self]);
            None
        });
        if let Some(ending) = refused {
            ending.give(Cause::Closed, NoticeSource::ControlLine);
        }
    }

    /// Returns whether both were attached to one server, by one client and route.
    fn is_of_same(&self, other: &Self) -> bool {
        let (one, two) = (&self.watch, &other.watch);
        Arc::ptr_eq(&one.client, &two.client)
            && one.route == two.route
            && match (self.instance, other.instance) {
                (Some(one), Some(two)) => is_same_server(one, two),
                _ => false,
            }
    }

    fn give(&self, cause: Cause, source: NoticeSource) {
        self.watch.give(cause, source, self.peer.pid());
    }
}

impl Finder {
    /// Has the thread that waits look at what is new.
    fn start_waiting(&mut self) -> io::Result<()> {
        if let Some(wake) = &self.wake {
            return eventfd::add_one(wake);
        }
        let wake = Arc::new(eventfd::create(eventfd::Kind::Counter)?);
        let own = Arc::clone(&wake);
        thread::Builder::new().name(THREAD_NAME.into()).spawn(move || wait_for_ends(&own))?;
        self.wake = Some(wake);
        Ok(())
    }
}

/// Waits for processes as long as there are any.
fn wait_for_ends(wake: &OwnedFd) {
    let mut waiting = Vec::new();
    loop {
        let is_over = with_finder(|finder| {
            waiting.append(&mut finder.new);
            if waiting.is_empty() {
                finder.wake = None;
            }
            waiting.is_empty()
        });
        if is_over {
            return;
        }
        waiting = waiting.into_iter().filter_map(Waiting::step).collect();
        let until = waiting.iter().map(|it| it.until).min().unwrap_or(Deadline::NOW);
        let interest = |it: &Waiting| match it.has_ended {
            false => PollFlags::from(Interest::Readable),
            true => PollFlags::from(Interest::HangUp),
        };
        let mut fds: Vec<_> =
            waiting.iter().map(|it| PollFd::new(&*it.pidfd, interest(it))).collect();
        fds.push(PollFd::new(wake, Interest::Readable.into()));
        if poll::poll(&mut fds, until).is_err() {
            // The kernel is out of memory for a moment.
            clock::pause(SUCCESSOR_WAIT_MAX);
        }
        let _ = eventfd::try_read(wake);
    }
}

impl Waiting {
    /// Gives the notice if the cause is known by now, or will not be; returns it otherwise.
    fn step(mut self) -> Option<Self> {
        let is_late = self.until.has_passed();
        if !self.has_ended {
            match process::wait_pidfd(&self.pidfd, Deadline::NOW) {
                Ok(true) => (self.has_ended, self.until) = (true, Deadline::after(REAP_WAIT_MAX)),
                Ok(false) if !is_late => return Some(self),
                Ok(false) => {
                    self.ending.look();
                    return None;
                }
                Err(_) => {
                    self.ending.give(Cause::Lost, NoticeSource::ControlLine);
                    return None;
                }
            }
        }
        let cause = match process::try_end_of(&self.pidfd) {
            Ok(ReportedEnd::Known(ProcessEnd::Exited(code))) => Cause::Exited { code },
            Ok(ReportedEnd::Known(ProcessEnd::Killed(signal))) => Cause::Killed { signal },
            Ok(ReportedEnd::NotYet) if !self.until.has_passed() => return Some(self),
            Ok(ReportedEnd::NotYet | ReportedEnd::Never) | Err(_) => Cause::Lost,
        };
        self.ending.give(cause, NoticeSource::Pidfd);
        None
    }
}

/// Looks who answers in the place of servers, as long as there are any to look at.
fn run_looks() {
    loop {
        let group = with_finder(|finder| {
            let group = finder.looks.pop_front();
            if group.is_none() {
                finder.look_threads -= 1;
            }
            group
        });
        let Some(group) = group else { return };
        let cause = group.first().map_or(Cause::Closed, closed_or_replaced);
        group.iter().for_each(|ending| ending.give(cause, NoticeSource::ControlLine));
    }
}

/// Returns whether another server answers at the address of one that has closed.
fn closed_or_replaced(ending: &Ending) -> Cause {
    let watch = &ending.watch;
    match async_opening::look(&watch.client, &watch.route, SUCCESSOR_WAIT_MAX) {
        Ok((Some(other), peer)) if !ending.instance.is_some_and(|it| is_same_server(it, other)) => {
            Cause::Replaced { pid: peer.pid() }
        }
        Ok(_) | Err(_) => Cause::Closed,
    }
}
