//! The client's loop for latency: one exchange at a time, stamped with nothing else in between.

use std::hint::black_box;

use crate::bench_plan::Shape;
use crate::cell::Subject;
use crate::exchange::count::Counts;
use crate::exchange::job::Job;
use crate::exchange::measured::Measured;
use crate::exchange::stamps::TimestampSource;
use crate::exchange::{End, Failure, Got};
use crate::histogram::Histogram;
use crate::payload::{Payload, Verifier};
use crate::warmup::{Warmup, WarmupState};

/// Measures round trips. The server has said that it is ready.
pub(crate) fn latency<E: End>(end: &mut E, job: &Job) -> Result<Measured, Failure> {
    latency_of(end, job, 1)
}

/// Measures exchanges of so many messages each, whose warm-up counts messages.
pub(crate) fn latency_of<E: End>(
    end: &mut E,
    job: &Job,
    exchange_messages: u64,
) -> Result<Measured, Failure> {
    let (payload, replies) = (job.payload(), job.cell.replies(job.seed));
    let mut exchange = Exchange::new(end, job, &payload, &replies);
    let first_message_ns = exchange.timed_ns()?;
    let warmup = exchange.warm_up(job, exchange_messages)?;
    let mut samples = Samples::new();
    let budget_ns = job.measured_ns(warmup.spent_ns);
    exchange.mark()?;
    let before = Counts::before()?;
    let begin = exchange.stamps.start();
    let mut messages = 0;
    let mut sum_ns: u64 = 0;
    while !job.is_enough(messages, sum_ns, budget_ns) {
        let ns = exchange.timed_ns()?;
        samples.record(ns, budget_ns);
        messages += 1;
        sum_ns += ns;
    }
    let elapsed_ns = exchange.stamps.since_ns(begin);
    let client = before.report(black_box(exchange.verifier.digest()), messages)?;
    exchange.mark()?;
    Ok(Measured {
        client,
        messages,
        elapsed_ns,
        blocks_ns: samples.blocks(),
        first_message_ns: Some(first_message_ns),
        warmup_samples: warmup.samples,
        warmup_capped: warmup.capped,
        ..Measured::of(&samples.times)
    })
}

/// Round trips over one end.
pub(crate) struct Exchange<'a, E> {
    end: &'a mut E,
    payload: &'a Payload,
    verifier: Verifier<'a>,
    number: u64,
    shape: Shape,
    calls: bool,
    stamps: TimestampSource,
}

impl<'a, E: End> Exchange<'a, E> {
    /// The exchanges of `job`, from the first on.
    pub(crate) fn new(
        end: &'a mut E,
        job: &Job,
        payload: &'a Payload,
        replies: &'a Payload,
    ) -> Self {
        Self {
            end,
            payload,
            verifier: Verifier::new(replies, 0),
            number: 0,
            shape: job.cell.shape,
            calls: matches!(job.cell.subject, Subject::Call(_)),
            stamps: job.stamps,
        }
    }

    /// Depends on every byte that came back.
    pub(crate) fn digest(&self) -> u64 {
        self.verifier.digest()
    }

    /// One round trip. Nothing but the exchange lies between the stamps.
    #[inline]
    pub(crate) fn timed_ns(&mut self) -> Result<u64, Failure> {
        let start = self.stamps.start();
        self.once()?;
        Ok(self.stamps.since_ns(start))
    }

    /// One round trip, for loops that have stamps of their own.
    #[inline]
    pub(crate) fn once(&mut self) -> Result<(), Failure> {
        self.end.send(self.payload, self.number)?;
        match self.shape {
            // A call that has returned has its reply.
            Shape::Call if self.calls => {}
            Shape::Echo | Shape::Call => {
                if self.end.receive(&mut self.verifier)? != Got::Message {
                    return Err(no_echo());
                }
            }
            Shape::Sink => self.end.receive_empty()?,
            // The reply of a timed send is taken by who sends (`calls/peer.rs`).
            Shape::Oneway | Shape::Stream | Shape::Send => {}
        }
        self.number += 1;
        Ok(())
    }

    pub(crate) fn mark(&mut self) -> Result<(), Failure> {
        if self.end.send_mark(self.payload, self.number)? {
            self.number += 1;
        }
        self.end.receive_empty()
    }

    fn warm_up(&mut self, job: &Job, exchange_messages: u64) -> Result<Warmed, Failure> {
        let mut first = [0; GUESS_SAMPLES];
        for sample_ns in &mut first {
            *sample_ns = self.timed_ns()?;
        }
        first.sort_unstable();
        let guess_ns = first[GUESS_SAMPLES / 2];
        let mut warmup = Warmup::new(job.warmup_rule(guess_ns, exchange_messages));
        let begin = self.stamps.start();
        let mut state = WarmupState::Warming;
        while state == WarmupState::Warming {
            state = warmup.push(self.timed_ns()?);
        }
        Ok(Warmed {
            samples: warmup.samples() + GUESS_SAMPLES as u64,
            capped: state == WarmupState::Capped,
            spent_ns: self.stamps.since_ns(begin),
        })
    }
}

/// How a warm-up ended.
pub(crate) struct Warmed {
    pub(crate) samples: u64,
    pub(crate) capped: bool,
    pub(crate) spent_ns: u64,
}

/// All times, and the medians of successive parts. Recording allocates nothing and touches no new
/// page.
struct Samples {
    times: Histogram,
    block: Vec<u64>,
    block_ns: u64,
    medians_ns: Vec<f64>,
}

impl Samples {
    #[expect(clippy::redundant_clone, reason = "the copy's pages are present, the original's not")]
    fn new() -> Self {
        let times = Histogram::new();
        // Written once, so that their pages are present.
        let (mut block, mut medians_ns) = (vec![1; BLOCK_SAMPLES], vec![1.0; 2 * BLOCKS]);
        block.clear();
        medians_ns.clear();
        Self { times: times.clone(), block, block_ns: 0, medians_ns }
    }

    #[inline]
    fn record(&mut self, ns: u64, budget_ns: u64) {
        self.times.record(ns);
        self.block_ns += ns;
        if self.block.len() < BLOCK_SAMPLES {
            self.block.push(ns);
        }
        if self.block_ns >= budget_ns / BLOCKS as u64 {
            self.close_block();
        }
    }

    fn close_block(&mut self) {
        if self.block.len() >= BLOCK_SAMPLES_MIN && self.medians_ns.len() < 2 * BLOCKS {
            let middle = self.block.len() / 2;
            let (_, &mut median_ns, _) = self.block.select_nth_unstable(middle);
            self.medians_ns.push(median_ns as f64);
        }
        self.block.clear();
        self.block_ns = 0;
    }

    fn blocks(&self) -> Vec<f64> {
        self.medians_ns.clone()
    }
}

/// Half of the work is no echo: its time would be too good.
#[cold]
fn no_echo() -> Failure {
    Failure::other("an empty reply where an echo was due")
}

/// Exchanges before the warm-up that tell how long one takes.
const GUESS_SAMPLES: usize = 8;

/// Parts of a launch that show how it drifts.
const BLOCKS: usize = 16;

/// Samples of a block of which the median is taken.
const BLOCK_SAMPLES: usize = 256;

/// A shorter block says nothing.
const BLOCK_SAMPLES_MIN: usize = 5;

#[cfg(test)]
mod tests {
    use nearcall_channel::{Mechanism, WaitPolicy};

    use super::*;
    use crate::exchange::stamps::SCRIPTED_NS;
    use crate::run::Kind;

    /// Takes everything and gives back nothing.
    struct Lazy;

    impl End for Lazy {
        fn send(&mut self, _payload: &Payload, _number: u64) -> Result<(), Failure> {
            Ok(())
        }

        fn receive(&mut self, _verifier: &mut Verifier<'_>) -> Result<Got, Failure> {
            Ok(Got::Mark)
        }
    }

    #[test]
    fn an_empty_reply_is_no_echo() {
        let job = |shape| Job {
            stamps: TimestampSource::Clock,
            ..Job::scripted(Kind::Latency, shape, 1_000_000)
        };
        let failure = latency(&mut Lazy, &job(Shape::Echo)).unwrap_err();
        assert!(failure.text.contains("empty reply"), "{}", failure.text);
        assert!(latency(&mut Lazy, &job(Shape::Sink)).is_ok());
    }

    /// Takes 20 us for each of the first 500 exchanges, and 1 us for each later one.
    struct SlowStart {
        exchanges: u64,
    }

    const SLOW_EXCHANGES: u64 = 500;

    impl End for SlowStart {
        fn send(&mut self, _payload: &Payload, _number: u64) -> Result<(), Failure> {
            Ok(())
        }

        fn receive(&mut self, _verifier: &mut Verifier<'_>) -> Result<Got, Failure> {
            let took_ns = if self.exchanges < SLOW_EXCHANGES { 20_000 } else { 1_000 };
            self.exchanges += 1;
            SCRIPTED_NS.set(SCRIPTED_NS.get() + took_ns);
            Ok(Got::Message)
        }
    }

    #[test]
    fn no_exchange_of_a_slow_start_is_measured() {
        let mut job = Job::scripted(Kind::Latency, Shape::Echo, 100_000_000);
        job.cell.subject = Subject::Mechanism(Mechanism::ShmSpin);
        job.cell.wait = WaitPolicy::Spin;
        let measured = latency(&mut SlowStart { exchanges: 0 }, &job).unwrap();
        assert_eq!(measured.first_message_ns, Some(20_000));
        assert!(measured.warmup_samples >= SLOW_EXCHANGES && !measured.warmup_capped);
        assert_eq!(measured.elapsed_ns, 1_000 * measured.messages, "a slow one was measured");
    }
}
