//! Sending the calls of a recording to a server.
//!
//! Each recorded connection has a client and a thread of its own, up to a limit.
//! **Invariants:** the recording is read as a stream, and what is read ahead is bounded.
//! **Not here:** what happens on one connection (`player.rs`).

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Scope, ScopedJoinHandle};

use nearcall::control::recorded_event::What;
use nearcall::control::{RecordedEvent, RecordingHeader};
use nearcall::dynamic::DynamicCaller;
use nearcall::{Client, Code, Status};
use nearcall_os::clock;

use crate::descriptors::Descriptors;
use crate::options::ReplayOptions;
use crate::player::{Player, Shared};
use crate::reader::{FileEnd, Reader};
use crate::report::{ReplayReport, Tally};

/// Why nothing was replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The server does not answer.
    #[error(transparent)]
    Server(#[from] Status),
    /// There is no thread for a connection.
    #[error("cannot start a thread for a connection: {0}; allow fewer connections")]
    Thread(#[from] io::Error),
}

/// Sends the calls of a recording to the server at `address`, and waits for their ends. Blocks for
/// as long as that takes, or until `is_stopped`, which is asked from several threads: then what was
/// found so far is returned.
///
/// A recording that cannot be read to its end is replayed up to there, and
/// [`ReplayReport::incomplete`] says why.
///
/// # Errors
///
/// Those of [`ReplayError`].
pub fn replay<R: BufRead>(
    reader: &mut Reader<R>,
    address: &str,
    options: &ReplayOptions,
    is_stopped: &(dyn Fn() -> bool + Sync),
) -> Result<ReplayReport, ReplayError> {
    find_server(reader.header(), address)?;
    let descriptors = Descriptors::new(reader.header());
    let first = reader.next_event();
    let first_ns = first.as_ref().map_or(0, |event| event.as_ref().map_or(0, |it| it.time_ns));
    let started_ns = clock::monotonic_ns();
    let descriptors = &descriptors;
    let shared = Shared { address, options, descriptors, started_ns, first_ns, is_stopped };
    let mut tally = thread::scope(|scope| {
        let mut players = Players::new(scope, &shared);
        let mut next = first;
        let incomplete = loop {
            match next {
                Ok(Some(event)) if !is_stopped() => players.give(event)?,
                Ok(Some(_)) => break Some(INTERRUPTED.to_owned()),
                Ok(None) => break cut_off(reader.end()),
                Err(error) => break Some(error.to_string()),
            }
            next = reader.next_event();
        };
        let mut tally = players.finish();
        let stopped = tally.was_stopped.then(|| INTERRUPTED.to_owned());
        tally.report.incomplete = stopped.or(incomplete);
        Ok::<_, ReplayError>(tally)
    })?;
    let passed_ns = clock::monotonic_ns().saturating_sub(started_ns);
    tally.report.duration_s = passed_ns as f64 / 1e9;
    Ok(tally.into_report())
}

/// Finds out whether there is a server at all, whatever it has.
fn find_server(header: &RecordingHeader, address: &str) -> Result<(), Status> {
    let Some(interface) = header.interfaces.first() else { return Ok(()) };
    match DynamicCaller::new(&Client::new(), address, &interface.name)?.interface() {
        Err(status) if status.code() == Code::Unimplemented => Ok(()),
        found => found.map(drop),
    }
}

fn cut_off(end: Option<&FileEnd>) -> Option<String> {
    match end {
        Some(FileEnd::CutOff { offset }) => {
            Some(format!("the recording was cut off: it has no whole record behind byte {offset}"))
        }
        _ => None,
    }
}

/// The threads of a replay.
struct Players<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    shared: &'env Shared<'env>,
    threads: Vec<(SyncSender<RecordedEvent>, ScopedJoinHandle<'scope, Tally>)>,
    /// By the numbers of recorded connections.
    connections: HashMap<u64, usize>,
    /// By the numbers of calls that have not ended.
    calls: HashMap<u64, usize>,
    tally: Tally,
}

impl<'scope, 'env> Players<'scope, 'env> {
    fn new(scope: &'scope Scope<'scope, 'env>, shared: &'env Shared<'env>) -> Self {
        let (connections, calls) = (HashMap::new(), HashMap::new());
        let (threads, tally) = (Vec::new(), Tally::default());
        Self { scope, shared, threads, connections, calls, tally }
    }

    /// Gives an event to the thread of its call.
    fn give(&mut self, event: RecordedEvent) -> io::Result<()> {
        let thread = match &event.what {
            Some(What::Request(request)) => {
                let thread = self.thread_of(request.connection)?;
                if !request.is_oneway {
                    self.calls.insert(event.call, thread);
                }
                Some(thread)
            }
            Some(What::Result(_) | What::Failure(_) | What::Cancel(_)) => {
                self.calls.remove(&event.call)
            }
            Some(What::Dropped(dropped)) => {
                self.tally.report.dropped_calls += dropped.calls;
                self.tally.report.dropped_events += dropped.events;
                None
            }
            _ => self.calls.get(&event.call).copied(),
        };
        if let Some(thread) = thread {
            // One that has ended has panicked, which is reported when it is joined.
            let _ = self.threads[thread].0.send(event);
        }
        Ok(())
    }

    fn thread_of(&mut self, connection: u64) -> io::Result<usize> {
        if let Some(thread) = self.connections.get(&connection) {
            return Ok(*thread);
        }
        let max = self.shared.options.connections_max.max(1);
        let thread = self.connections.len() % max;
        if thread == self.threads.len() {
            let (give, take) = sync_channel(EVENTS_AHEAD_MAX);
            let shared = self.shared;
            let play = move || play(shared, take);
            let builder = thread::Builder::new().name(format!("replay-{thread}"));
            self.threads.push((give, builder.spawn_scoped(self.scope, play)?));
        }
        self.connections.insert(connection, thread);
        Ok(thread)
    }

    /// Waits for all threads.
    fn finish(mut self) -> Tally {
        self.tally.report.connections = self.threads.len() as u64;
        let (senders, threads): (Vec<_>, Vec<_>) = self.threads.into_iter().unzip();
        drop(senders);
        for thread in threads {
            match thread.join() {
                Ok(tally) => self.tally.add(tally),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        self.tally
    }
}

fn play(shared: &Shared<'_>, events: Receiver<RecordedEvent>) -> Tally {
    Player::new(shared).play(events)
}

const INTERRUPTED: &str = "it was interrupted";

/// Events that are read ahead for one connection: enough for it to have no pauses.
const EVENTS_AHEAD_MAX: usize = 1024;
