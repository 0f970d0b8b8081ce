//! Counts the system calls of both ends of a launch, by ptrace.
//!
//! Each end is watched by a thread of its own: a tracer belongs to its thread, and waits. The
//! threads end with the processes, which the launch ends in any case.

use std::cell::RefCell;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nearcall_os::ptrace::{Refusal, Tracer};

use crate::exchange::Failure;
use crate::launch::Role;
use crate::profile::launches::Launches;
use crate::profile::tally::{PerExchange, Tally};
use crate::run::PerEnd;

/// Why there are no counts.
#[derive(Debug)]
pub(crate) enum Uncounted {
    /// The kernel does not let us watch.
    Refused(Refusal),
    /// A launch failed.
    Failed(Failure),
}

/// Counts for `time` what one exchange costs each end. Also gives how many were counted.
///
/// After a warm-up, so that what an end does once does not count.
pub(crate) fn count(
    launches: &Launches<'_>,
    time: Duration,
) -> Result<(PerEnd<PerExchange>, u64), Uncounted> {
    let (tallies, messages) = watch(launches, time)?;
    let each = |tally: &Tally, role| {
        let lost = || Uncounted::Failed(Failure::other("an end was not seen to measure"));
        tally.per_exchange(messages, role).ok_or_else(lost)
    };
    let ends = PerEnd {
        client: each(&tallies.client, Role::Client)?,
        server: each(&tallies.server, Role::Server)?,
    };
    Ok((ends, messages))
}

/// Both tallies, and how many exchanges they are of.
fn watch(launches: &Launches<'_>, time: Duration) -> Result<(PerEnd<Tally>, u64), Uncounted> {
    thread::scope(|scope| {
        let (watches, refused) = (RefCell::new(Vec::new()), RefCell::new(None));
        let started = |role, pid| {
            let (tell, hear) = mpsc::sync_channel(1);
            let watch = scope.spawn(move || follow(pid, &tell));
            watches.borrow_mut().push((role, watch));
            match hear.recv() {
                Ok(Ok(())) => Ok(()),
                Ok(Err(refusal)) => {
                    *refused.borrow_mut() = Some(refusal);
                    Err(Failure::other("it cannot be watched"))
                }
                Err(_) => Err(Failure::other("who should watch it is gone")),
            }
        };
        let launched = launches.run(0, time, &started);
        let mut tallies = PerEnd::<Tally>::default();
        let mut broken = None;
        for (role, watch) in watches.into_inner() {
            let tally = match watch.join() {
                Ok(Ok(tally)) => tally,
                Ok(Err(refusal)) => {
                    broken = Some(refusal);
                    continue;
                }
                Err(_) => continue,
            };
            match role {
                Role::Client => tallies.client = tally,
                Role::Server => tallies.server = tally,
            }
        }
        if let Some(refusal) = refused.into_inner().or(broken) {
            return Err(Uncounted::Refused(refusal));
        }
        match launched {
            Err(failure) => Err(Uncounted::Failed(failure)),
            Ok(measured) => Ok((tallies, measured.messages)),
        }
    })
}

/// Counts until the process ends. Reports first whether it may be watched.
fn follow(pid: u32, tell: &mpsc::SyncSender<Result<(), Refusal>>) -> Result<Tally, Refusal> {
    let mut tally = Tally::default();
    let mut tracer = match Tracer::seize(pid) {
        Ok(tracer) => tracer,
        Err(refusal) => {
            // It has no receiver only if the launch is over.
            let _ = tell.send(Err(refusal));
            return Ok(tally);
        }
    };
    let _ = tell.send(Ok(()));
    while let Some(event) = tracer.next_event()? {
        tally.note(&event);
    }
    Ok(tally)
}
