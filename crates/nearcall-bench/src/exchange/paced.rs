//! The client's loop for an open loop: each exchange is due at a set time, whatever became of the
//! one before.
//!
//! A time counts from when the exchange was due, so that one which holds up the next ones shows in
//! their times too; the time from when it did begin is kept beside it. The client has one exchange
//! under way at a time: after a stall it makes up for what was due meanwhile, one after the other,
//! as wrk2 does. So a backlog counts in full, but it never stands in the channel at once; a
//! receiver that would answer many together faster than one by one is not seen doing so.
//! CPU time of the client is that within exchanges: waiting for the next one is no part of them.
//!
//! **Invariant:** an exchange of an open loop counts from the time when it was due, and a cell that
//! began fewer than 99.9 % of them in time shows no time. *Checked by*
//! `a_stall_of_the_receiver_shows_in_the_open_loop_and_not_in_the_closed_one`.

use std::hint::black_box;
use std::time::Duration;

use nearcall_os::clock;

use crate::exchange::client::Exchange;
use crate::exchange::count::Counts;
use crate::exchange::exact::present;
use crate::exchange::job::Job;
use crate::exchange::measured::{Measured, Paced};
use crate::exchange::{End, Failure};
use crate::histogram::Histogram;

/// Measures exchanges at the pace of the cell. The server has said that it is ready.
pub(crate) fn paced<E: End>(end: &mut E, job: &Job) -> Result<Measured, Failure> {
    let (payload, replies) = (job.payload(), job.cell.replies(job.seed));
    let rate = u64::from(job.cell.conditions.rate_per_s.max(1));
    let calls = (job.budget_ns / 1_000 * rate / 1_000_000).max(CALLS_MIN).max(rate / SERIES_PER_S);
    let mut pacing = Pacing {
        exchange: Exchange::new(end, job, &payload, &replies),
        interval_ns: NS_PER_S / rate,
        reading_ns: reading_ns(),
        times: present(),
        service: present(),
        cpu_ns: 0,
    };
    let first_message_ns = pacing.call(clock::monotonic_ns())?;
    let warmup = (calls / WARMUP_SHARE).max(WARMUP_CALLS_MIN);
    pacing.run(warmup)?;
    (pacing.times, pacing.service, pacing.cpu_ns) = (present(), present(), 0);
    pacing.exchange.mark()?;
    let before = Counts::before()?;
    let (process_ns, thread_ns) = (clock::process_cpu_ns(), clock::thread_cpu_ns());
    let begin_ns = clock::monotonic_ns();
    let sent = pacing.run(calls)?;
    let elapsed_ns = clock::monotonic_ns().saturating_sub(begin_ns);
    let thread_ns = clock::thread_cpu_ns().saturating_sub(thread_ns);
    let process_ns = clock::process_cpu_ns().saturating_sub(process_ns);
    let mut client = before.report(black_box(pacing.exchange.digest()), sent)?;
    // What other threads of this process did, they did for the channel.
    client.cpu_ns = pacing.cpu_ns + process_ns.saturating_sub(thread_ns);
    pacing.exchange.mark()?;
    Ok(Measured {
        client,
        messages: sent,
        elapsed_ns,
        first_message_ns: Some(first_message_ns),
        warmup_samples: warmup,
        paced: Some(Paced {
            planned: calls,
            sent,
            elapsed_ns,
            service: pacing.service.to_stored(),
            service_median_ns: pacing.service.median_ns(),
        }),
        ..Measured::of(&pacing.times)
    })
}

struct Pacing<'a, E> {
    exchange: Exchange<'a, E>,
    interval_ns: u64,
    /// What reading the thread's clock adds to the CPU time of an exchange.
    reading_ns: u64,
    times: Histogram,
    service: Histogram,
    cpu_ns: u64,
}

impl<E: End> Pacing<'_, E> {
    /// Makes so many calls, or as many as begin while they should. Says how many.
    fn run(&mut self, calls: u64) -> Result<u64, Failure> {
        let begin_ns = clock::monotonic_ns() + self.interval_ns.min(BEGIN_NS_MAX);
        let planned_ns = calls * self.interval_ns;
        let until_ns = begin_ns + planned_ns + (planned_ns / GRACE_SHARE).max(GRACE_NS_MIN);
        for call in 0..calls {
            let intended_ns = begin_ns + call * self.interval_ns;
            // The thread's clock is read before the exchange; that is no part of it.
            wait_until(intended_ns.saturating_sub(self.reading_ns));
            if clock::monotonic_ns() > until_ns {
                return Ok(call);
            }
            self.call(intended_ns)?;
        }
        Ok(calls)
    }

    /// One call. Says how long it took from its beginning.
    fn call(&mut self, intended_ns: u64) -> Result<u64, Failure> {
        let cpu_ns = clock::thread_cpu_ns();
        let read_ns = clock::monotonic_ns();
        let mut start_ns = read_ns;
        while start_ns < intended_ns {
            clock::spin_hint();
            start_ns = clock::monotonic_ns();
        }
        self.exchange.once()?;
        let end_ns = clock::monotonic_ns();
        let cpu_ns = clock::thread_cpu_ns().saturating_sub(cpu_ns);
        // Spinning until it was due is no part of it either.
        self.cpu_ns += cpu_ns.saturating_sub(self.reading_ns + (start_ns - read_ns));
        self.times.record(end_ns.saturating_sub(intended_ns));
        let service_ns = end_ns.saturating_sub(start_ns);
        self.service.record(service_ns);
        Ok(service_ns)
    }
}

/// Sleeps until shortly before the moment, then spins: a sleeper wakes up late.
fn wait_until(moment_ns: u64) {
    let left_ns = moment_ns.saturating_sub(clock::monotonic_ns());
    if let Some(sleep_ns) = left_ns.checked_sub(SPIN_NS).filter(|&ns| ns > 0) {
        clock::pause(Duration::from_nanos(sleep_ns));
    }
    while clock::monotonic_ns() < moment_ns {
        clock::spin_hint();
    }
}

/// What lies between two readings of the thread's clock that have nothing else between them.
pub(crate) fn reading_ns() -> u64 {
    let mut all: Vec<u64> = (0..READINGS)
        .map(|_| {
            let first = clock::thread_cpu_ns();
            let (_, _) = (clock::monotonic_ns(), clock::monotonic_ns());
            clock::thread_cpu_ns().saturating_sub(first)
        })
        .collect();
    all.sort_unstable();
    all[READINGS / 2]
}

/// Fewer calls have no median worth the name.
const CALLS_MIN: u64 = 20;

/// A series lasts at least as long as one of so many in a second.
const SERIES_PER_S: u64 = 20;

/// The warm-up has this part of the calls.
const WARMUP_SHARE: u64 = 10;

/// A channel that adapts needs some calls at this pace.
const WARMUP_CALLS_MIN: u64 = 5;

/// The first call of a series is not due at once.
const BEGIN_NS_MAX: u64 = 1_000_000;

/// How much later than planned, in parts of the planned time, calls may still begin.
const GRACE_SHARE: u64 = 20;

/// A pause of the machine is no fault of the mechanism's.
const GRACE_NS_MIN: u64 = 20_000_000;

/// The slack of a timer is 50 µs, and waking up takes as long again on a slow machine.
const SPIN_NS: u64 = 120_000;

const READINGS: usize = 101;

const NS_PER_S: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use nearcall_channel::{Mechanism, WaitPolicy};

    use super::*;
    use crate::bench_plan::Shape;
    use crate::calls::route::Route;
    use crate::cell::{CellSpec, Conditions, Subject};
    use crate::exchange::Got;
    use crate::exchange::stamps::TimestampSource;
    use crate::histogram::StoredHistogram;
    use crate::payload::{Payload, Verifier};

    /// Calls that return at once, one of which takes long.
    struct Stalls(u64);

    impl End for Stalls {
        fn send(&mut self, _payload: &Payload, number: u64) -> Result<(), Failure> {
            if number == self.0 {
                clock::pause(Duration::from_millis(30));
            }
            Ok(())
        }

        fn receive(&mut self, _verifier: &mut Verifier<'_>) -> Result<Got, Failure> {
            Ok(Got::Mark)
        }
    }

    fn job(rate_per_s: u32, budget_ns: u64) -> Job {
        let cell = CellSpec {
            conditions: Conditions { rate_per_s, ..Conditions::default() },
            ..CellSpec::empty_call(Route::Blocking(Mechanism::Pipe), WaitPolicy::Block)
        };
        let stamps = TimestampSource::Clock;
        Job { cell, stamps, ..Job::scripted(cell.kind, cell.shape, budget_ns) }
    }

    #[test]
    fn a_stall_shows_in_all_calls_that_should_have_begun_meanwhile() {
        // 100 calls in 50 ms; the stall lies after the 10 of the warm-up and the first.
        let measured = paced(&mut Stalls(20), &job(2_000, 50_000_000)).unwrap();
        let of = |stored: &StoredHistogram| stored.to_histogram().unwrap().quantile_ns(0.75);
        let late = of(measured.times.as_ref().unwrap()).unwrap();
        let service = of(&measured.paced.as_ref().unwrap().service).unwrap();
        assert!(late > 1e6 && late > 2.0 * service, "{late} {service}");
    }

    #[test]
    fn on_a_bare_channel_an_exchange_ends_with_its_reply() {
        let subject = Subject::Mechanism(Mechanism::Pipe);
        let job = |shape| {
            let job = job(2_000, 1_000_000);
            Job { cell: CellSpec { subject, shape, message_bytes: 8, ..job.cell }, ..job }
        };
        // This end gives back what is no echo, and says so only if it is asked for a reply.
        let failure = paced(&mut Stalls(u64::MAX), &job(Shape::Echo)).unwrap_err();
        assert!(failure.text.contains("empty reply"), "{}", failure.text);
        assert!(paced(&mut Stalls(u64::MAX), &job(Shape::Sink)).is_ok());
    }

    /// An end that needs this long for each call.
    struct Slow(Duration);

    impl End for Slow {
        fn send(&mut self, _payload: &Payload, _number: u64) -> Result<(), Failure> {
            let begin_ns = clock::monotonic_ns();
            while clock::monotonic_ns() - begin_ns < u64::try_from(self.0.as_nanos()).unwrap() {
                clock::spin_hint();
            }
            Ok(())
        }

        fn receive(&mut self, _verifier: &mut Verifier<'_>) -> Result<Got, Failure> {
            Ok(Got::Mark)
        }
    }

    /// Rule R16: an end that does three calls in the time of four keeps no pace.
    #[test]
    fn a_series_that_takes_a_third_longer_is_cut_off() {
        // 800 calls of 0.5 ms, each of which takes 0.67 ms.
        let measured = paced(&mut Slow(Duration::from_micros(667)), &job(2_000, 400_000_000));
        let paced = measured.unwrap().paced.unwrap();
        assert_eq!(paced.planned, 800);
        assert!(paced.sent < 800 * 9 / 10, "{} of 800 began in time", paced.sent);
    }

    #[test]
    fn no_more_calls_are_made_than_planned() {
        let measured = paced(&mut Stalls(u64::MAX), &job(400, 1_000_000)).unwrap();
        let paced = measured.paced.unwrap();
        assert_eq!(paced.planned, CALLS_MIN);
        assert!((1..=CALLS_MIN).contains(&paced.sent) && measured.messages == paced.sent);
    }
}
