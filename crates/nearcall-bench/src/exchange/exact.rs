//! The client's loops for a set number of exchanges, as published studies count them.
//!
//! No warm-up and no time that has to be filled: the first exchange is one of those that count.
//! The time of a cell is only a limit, so that one slow cell does not take the whole run; what was
//! done until then is reported.

use std::hint::black_box;
use std::time::Duration;

use nearcall_os::clock;

use crate::exchange::client::Exchange;
use crate::exchange::count::Counts;
use crate::exchange::job::Job;
use crate::exchange::measured::Measured;
use crate::exchange::{End, Failure};
use crate::histogram::Histogram;

/// Measures as many round trips as the cell says. The server has said that it is ready.
pub(crate) fn latency<E: End>(end: &mut E, job: &Job) -> Result<Measured, Failure> {
    let (payload, replies) = (job.payload(), job.cell.replies(job.seed));
    let mut exchange = Exchange::new(end, job, &payload, &replies);
    let nested_ns = if job.cell.conditions.two_clocks { nested_ns(job) } else { 0 };
    let mut taking = Taking { times: present(), by_clock: present(), nested_ns };
    let first_ns = taking.one(&mut exchange, job)?;
    // The server counts from here on, so the first exchange is in no count but in the times.
    exchange.mark()?;
    let before = Counts::before()?;
    let begin = job.stamps.start();
    let (mut messages, mut sum_ns) = (0, first_ns);
    while messages + 1 < u64::from(job.cell.conditions.exchanges) {
        if job.cell.conditions.pause_us > 0 {
            clock::pause(Duration::from_micros(job.cell.conditions.pause_us.into()));
        }
        sum_ns += taking.one(&mut exchange, job)?;
        messages += 1;
        if sum_ns > job.budget_ns && messages >= MESSAGES_MIN {
            break;
        }
    }
    let elapsed_ns = job.stamps.since_ns(begin);
    let client = before.report(black_box(exchange.digest()), messages)?;
    exchange.mark()?;
    Ok(Measured {
        client,
        messages,
        elapsed_ns,
        clock_times: job.cell.conditions.two_clocks.then(|| taking.by_clock.to_stored()),
        first_message_ns: Some(first_ns),
        ..Measured::of(&taking.times)
    })
}

/// Where times go.
struct Taking {
    times: Histogram,
    by_clock: Histogram,
    /// How much longer an interval of the outer clock is only because it encloses the other.
    nested_ns: u64,
}

impl Taking {
    /// One exchange, by the clock of the run and, if asked, by the kernel's around it.
    fn one<E: End>(&mut self, exchange: &mut Exchange<'_, E>, job: &Job) -> Result<u64, Failure> {
        let by_both = job.cell.conditions.two_clocks;
        let start_ns = if by_both { clock::monotonic_ns() } else { 0 };
        let ns = exchange.timed_ns()?;
        if by_both {
            let by_clock_ns = clock::monotonic_ns().saturating_sub(start_ns);
            self.by_clock.record(by_clock_ns.saturating_sub(self.nested_ns));
        }
        self.times.record(ns);
        Ok(ns)
    }
}

/// The median difference of both clocks over an interval with nothing in it.
fn nested_ns(job: &Job) -> u64 {
    let mut all: Vec<u64> = (0..NESTED)
        .map(|_| {
            let start_ns = clock::monotonic_ns();
            let inner_ns = job.stamps.since_ns(job.stamps.start());
            clock::monotonic_ns().saturating_sub(start_ns).saturating_sub(inner_ns)
        })
        .collect();
    all.sort_unstable();
    all[NESTED / 2]
}

/// A histogram all of whose pages are present.
#[expect(clippy::redundant_clone, reason = "the copy's pages are present, the original's not")]
pub(crate) fn present() -> Histogram {
    let histogram = Histogram::new();
    histogram.clone()
}

/// Measures as many messages one way as the cell says, until the server has confirmed the last.
pub(crate) fn throughput<E: End>(end: &mut E, job: &Job) -> Result<Measured, Failure> {
    let payload = job.payload();
    let mut number = 0;
    if end.send_mark(&payload, number)? {
        number += 1;
    }
    end.receive_empty()?;
    let before = Counts::before()?;
    let begin = job.stamps.start();
    let mut messages = 0;
    while messages < u64::from(job.cell.conditions.exchanges) {
        end.send(&payload, number)?;
        number += 1;
        messages += 1;
        let is_time_to_look = messages % LOOK_EVERY == 0;
        if is_time_to_look && job.stamps.since_ns(begin) > job.budget_ns {
            break;
        }
    }
    end.send_mark(&payload, number)?;
    end.receive_empty()?;
    let elapsed_ns = job.stamps.since_ns(begin);
    let client = before.report(black_box(number), 0)?;
    Ok(Measured { client, messages, elapsed_ns, messages_per_sample: 1, ..Measured::default() })
}

/// Empty intervals that are read by both clocks.
const NESTED: usize = 1_001;

/// A mean of fewer exchanges says nothing.
const MESSAGES_MIN: u64 = 10;

/// Messages between two looks at the clock: looking must cost nothing beside them.
const LOOK_EVERY: u64 = 16;
