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

/// What one exchange costs each end. An event that was not counted all the time, at either end in
/// either launch, is left out for both.
pub(crate) fn count(
    launches: &Launches<'_>,
    events: &[Event],
    exchanges: u32,
) -> Result<PerEnd<Vec<HardwareCount>>, Failure> {
    let fewer = totals(launches, events, exchanges)?;
    let more = totals(launches, events, 2 * exchanges)?;
    let each = |more: Option<u64>, fewer: Option<u64>| {
        Some((more? as f64 - fewer? as f64).max(0.0) / f64::from(exchanges))
    };
    let mut counts = PerEnd::<Vec<HardwareCount>>::default();
    for (index, event) in events.iter().enumerate() {
        let client = each(more.client[index], fewer.client[index]);
        let server = each(more.server[index], fewer.server[index]);
        if let (Some(client), Some(server)) = (client, server) {
            let count =
                |per_exchange| HardwareCount { event: event.name().to_owned(), per_exchange };
            counts.client.push(count(client));
            counts.server.push(count(server));
        }
    }
    Ok(counts)
}

fn totals(
    launches: &Launches<'_>,
    events: &[Event],
    exchanges: u32,
) -> Result<PerEnd<Vec<Option<u64>>>, Failure> {
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
    let read = |counters: &[Counter]| -> Result<Vec<Option<u64>>, Failure> {
        Ok(counters.iter().map(Counter::read).collect::<Result<_, _>>()?)
    };
    Ok(PerEnd { client: read(&counters.client)?, server: read(&counters.server)? })
}

/// Which of `events` [`count`] left out.
pub(crate) fn uncounted(events: &[Event], counts: &PerEnd<Vec<HardwareCount>>) -> Vec<Event> {
    let is_left_out =
        |event: &&Event| counts.client.iter().all(|count| count.event != event.name());
    events.iter().filter(is_left_out).copied().collect()
}

/// For one launch.
const TIME_MAX: Duration = Duration::from_secs(10);
