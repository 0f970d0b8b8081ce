//! The client's loop for rare messages: after each exchange it leaves a gap, then makes the next.
//!
//! In a gap below [`SLEEP_NS_MIN`] the client spins on the clock, since no sleep is that short; in
//! a longer one it sleeps, so that its own CPU cools down as that of a client with nothing to do.
//! A time counts from when the exchange begins, after the client has woken up. Its CPU time is that
//! within exchanges: neither spinning in a gap nor waking up from it is part of them.

use std::hint::black_box;
use std::time::Duration;

use nearcall_os::clock;

use crate::exchange::client::Exchange;
use crate::exchange::count::Counts;
use crate::exchange::exact::present;
use crate::exchange::job::Job;
use crate::exchange::measured::{Measured, OfTraffic};
use crate::exchange::paced::reading_ns;
use crate::exchange::{End, Failure};
use crate::histogram::Histogram;

/// Measures exchanges with gaps of `gap_ns` between them. The server has said that it is ready.
pub(crate) fn gapped<E: End>(end: &mut E, job: &Job, gap_ns: u64) -> Result<Measured, Failure> {
    let (payload, replies) = (job.payload(), job.cell.replies(job.seed));
    let mut exchange = Exchange::new(end, job, &payload, &replies);
    let reading_ns = reading_ns();
    let mut gaps = Gaps { gap_ns, achieved: present(), cpu_ns: 0, reading_ns };
    let mut times = present();
    let first_message_ns = exchange.timed_ns()?;
    let begin_ns = clock::monotonic_ns();
    let mut warmup_samples = 0;
    while warmup_samples < WARMUP_MIN || since(begin_ns) < job.budget_ns / WARMUP_SHARE {
        gaps.pass();
        exchange.timed_ns()?;
        warmup_samples += 1;
    }
    (gaps.achieved, gaps.cpu_ns) = (present(), 0);
    exchange.mark()?;
    let before = Counts::before()?;
    let begin_ns = clock::monotonic_ns();
    let mut messages = 0;
    while messages < MESSAGES_MIN || since(begin_ns) < job.budget_ns {
        gaps.pass();
        times.record(exchange.timed_ns()?);
        messages += 1;
    }
    let elapsed_ns = since(begin_ns);
    let mut client = before.report(black_box(exchange.digest()), messages)?;
    client.cpu_ns = client.cpu_ns.saturating_sub(gaps.cpu_ns);
    exchange.mark()?;
    Ok(Measured {
        client,
        messages,
        elapsed_ns,
        first_message_ns: Some(first_message_ns),
        warmup_samples,
        traffic: Some(OfTraffic::Gap { achieved_ns: gaps.achieved.median_ns() }),
        ..Measured::of(&times)
    })
}

/// What the client does between two exchanges.
struct Gaps {
    gap_ns: u64,
    achieved: Histogram,
    /// CPU time of it.
    cpu_ns: u64,
    /// What reading the thread's clock adds to it.
    reading_ns: u64,
}

impl Gaps {
    fn pass(&mut self) {
        if self.gap_ns == 0 {
            return;
        }
        let (cpu_ns, begin_ns) = (clock::thread_cpu_ns(), clock::monotonic_ns());
        if sleeps(self.gap_ns) {
            clock::pause(Duration::from_nanos(self.gap_ns));
        } else {
            while since(begin_ns) < self.gap_ns {
                clock::spin_hint();
            }
        }
        self.achieved.record(since(begin_ns));
        self.cpu_ns += clock::thread_cpu_ns().saturating_sub(cpu_ns) + self.reading_ns;
    }
}

/// Whether the client sleeps in a gap.
pub(crate) fn sleeps(gap_ns: u64) -> bool {
    gap_ns >= SLEEP_NS_MIN
}

/// Nanoseconds since `begin_ns` of the same clock.
pub(crate) fn since(begin_ns: u64) -> u64 {
    clock::monotonic_ns().saturating_sub(begin_ns)
}

/// The slack of a timer is 50 µs, so a shorter sleep lasts several times as long as it should.
const SLEEP_NS_MIN: u64 = 100_000;

/// A median of fewer says nothing; with gaps of 100 ms more take long.
const MESSAGES_MIN: u64 = 20;

/// A channel that adapts needs some exchanges with this gap.
const WARMUP_MIN: u64 = 3;

/// The warm-up has this part of the time.
const WARMUP_SHARE: u64 = 10;
