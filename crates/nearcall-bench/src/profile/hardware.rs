//! Hardware counters of both ends, by perf events that are opened from outside.
//!
//! Counted over the whole life of the processes, once with a number of exchanges and once with
//! twice as many: the difference is what the exchanges cost.

use std::cell::RefCell;
use std::time::Duration;

use nearcall_os::perf::{Counter, Event, Refusal};

use crate::exchange::Failure;
use crate::launch::Role;
use crate::profile::launches::Launches;
use crate::profile::result::HardwareCount;
use crate::run::PerEnd;

/// The events that this machine counts, or why it counts none.
pub(crate) fn available() -> Result<Vec<Event>, Refusal> {
    let mut refused = None;
    let mut events = Vec::new();
    for event in Event::HARDWARE {
        match Counter::open(event) {
            Ok(_) => events.push(event),
            Err(refusal) => refused = refused.or(Some(refusal)),
        }
    }
    match refused {
        Some(refusal) if events.is_empty() => Err(refusal),
        _ => Ok(events),
    }
}

/// What one exchange costs each end.
pub(crate) fn count(
    launches: &Launches<'_>,
    events: &[Event],
    exchanges: u32,
) -> Result<PerEnd<Vec<HardwareCount>>, Failure> {
    let fewer = totals(launches, events, exchanges)?;
    let more = totals(launches, events, 2 * exchanges)?;
    let each = |more: &[u64], fewer: &[u64]| {
        let pairs = events.iter().zip(more.iter().zip(fewer));
        let count = pairs.map(|(event, (&more, &fewer))| HardwareCount {
            event: event.name().to_owned(),
            per_exchange: (more as f64 - fewer as f64).max(0.0) / f64::from(exchanges),
        });
        count.collect()
    };
    Ok(PerEnd {
        client: each(&more.client, &fewer.client),
        server: each(&more.server, &fewer.server),
    })
}

fn totals(
    launches: &Launches<'_>,
    events: &[Event],
    exchanges: u32,
) -> Result<PerEnd<Vec<u64>>, Failure> {
    let counters = RefCell::new(PerEnd::<Vec<Counter>>::default());
    let started = |role, pid| {
        let opened: Result<Vec<_>, _> =
            events.iter().map(|&event| Counter::open_for(event, pid)).collect();
        let opened = opened.map_err(Failure::other)?;
        match role {
            Role::Client => counters.borrow_mut().client = opened,
            Role::Server => counters.borrow_mut().server = opened,
        }
        Ok(())
    };
    launches.run(exchanges, TIME_MAX, &started)?;
    let counters = counters.into_inner();
    let read = |counters: &[Counter]| -> Result<Vec<u64>, Failure> {
        Ok(counters.iter().map(Counter::read).collect::<Result<_, _>>()?)
    };
    Ok(PerEnd { client: read(&counters.client)?, server: read(&counters.server)? })
}

/// For one launch.
const TIME_MAX: Duration = Duration::from_secs(10);
