//! The client's loop for latency: one exchange at a time, stamped with nothing else in between.

use std::hint::black_box;

use serde::{Deserialize, Serialize};

use crate::bench_plan::Shape;
use crate::calls::rest::Rest;
use crate::cell::{CellSpec, Subject};
use crate::exchange::count::{Counts, EndReport};
use crate::exchange::paced::Paced;
use crate::exchange::stamps::Stamps;
use crate::exchange::starts::Starts;
use crate::exchange::{End, Failure, Got};
use crate::histogram::{Histogram, StoredHistogram};
use crate::launch::Fault;
use crate::payload::{Payload, Verifier};
use crate::warmup::{Warmup, WarmupRule, WarmupState};

/// What the client has to do for one cell.
#[derive(Clone, Copy)]
pub struct Job {
    /// The cell.
    pub cell: CellSpec,
    pub(crate) seed: u64,
    /// Warm-up and measured region together; of a slice, the measured region alone.
    pub(crate) budget_ns: u64,
    /// Which part of the cell's launch this is.
    pub(crate) part: Part,
    pub(crate) stamps: Stamps,
    pub(crate) fault: Fault,
}

/// How much of a cell's launch is measured at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// The first slice, which warms up.
    First,
    /// A later slice, which only lets the first exchanges after the others' go.
    Later,
}

/// What one launch says about one cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measured {
    pub(crate) client: EndReport,
    /// `None` where everything stays within one process.
    pub(crate) server: Option<EndReport>,
    /// Exchanges, or messages one way.
    pub(crate) messages: u64,
    /// The whole measured region, until the server confirmed its end.
    pub(crate) elapsed_ns: u64,
    pub(crate) times: Option<StoredHistogram>,
    /// The same exchanges by the kernel's clock, if that was asked for.
    #[serde(default)]
    pub(crate) clock_times: Option<StoredHistogram>,
    pub(crate) median_ns: Option<f64>,
    /// Medians of successive parts.
    pub(crate) blocks_ns: Vec<f64>,
    pub(crate) messages_per_sample: u64,
    pub(crate) first_message_ns: Option<u64>,
    pub(crate) warmup_samples: u64,
    pub(crate) warmup_capped: bool,
    /// Only where calls begin at set times.
    pub(crate) paced: Option<Paced>,
    /// Only under traffic of a kind that has figures of its own.
    #[serde(default)]
    pub(crate) traffic: Option<OfTraffic>,
    /// Only of a server at rest.
    pub(crate) rest: Option<Rest>,
}

/// What one launch says beside its times, by the kind of traffic.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum OfTraffic {
    Gap {
        /// The median gap as it was.
        achieved_ns: Option<f64>,
    },
    Clients {
        /// Calls of the slowest client, to those of the mean one.
        slowest_share: f64,
        /// Descriptors that the clients' process may have open.
        descriptors_max: Option<u64>,
    },
    Start(Box<Starts>),
}

impl Job {
    /// What the client sends.
    pub(crate) fn payload(&self) -> Payload {
        let payload = self.cell.requests(self.seed);
        match self.fault {
            // An echo is damaged by the server instead.
            Fault::Corrupt if self.cell.shape != Shape::Echo => payload.with_damage(),
            _ => payload,
        }
    }

    /// The rule for samples of about `sample_ns` each, of so many messages.
    pub(crate) fn warmup_rule(&self, sample_ns: u64, sample_messages: u64) -> WarmupRule {
        let usual = WarmupRule::default();
        let duration_ns_max = match self.part {
            Part::Whole => (self.budget_ns / WARMUP_SHARE).min(usual.duration_ns_max),
            Part::First => FIRST_NS_MAX,
            Part::Later => self.budget_ns / SETTLE_SHARE,
        };
        let samples_min = usual.samples_min / sample_messages;
        let affordable = duration_ns_max / WARMUP_WINDOWS / sample_ns.max(1);
        let window_samples = usize::try_from(affordable).unwrap_or(usize::MAX);
        let window_samples = window_samples.clamp(WINDOW_SAMPLES_MIN, usual.window_samples);
        WarmupRule { window_samples, samples_min, duration_ns_max, ..usual }
    }

    /// How long is measured after a warm-up of `warmup_ns`.
    pub(crate) fn measured_ns(&self, warmup_ns: u64) -> u64 {
        match self.part {
            Part::Whole => self.budget_ns - warmup_ns.min(self.budget_ns / 2),
            Part::First | Part::Later => self.budget_ns,
        }
    }

    /// Whether a region of so many exchanges, which took `spent_ns`, is one.
    fn is_enough(&self, messages: u64, spent_ns: u64, budget_ns: u64) -> bool {
        let messages_min = match self.part {
            Part::Whole => MESSAGES_MIN,
            Part::First | Part::Later if spent_ns < SLICE_NS_MAX => SLICE_MESSAGES_MIN[1],
            Part::First | Part::Later => SLICE_MESSAGES_MIN[0],
        };
        messages >= messages_min && spent_ns >= budget_ns
    }
}

/// Measures round trips. The server has said that it is ready.
pub(crate) fn latency<E: End>(end: &mut E, job: &Job) -> Result<Measured, Failure> {
    let (payload, replies) = (job.payload(), job.cell.replies(job.seed));
    let mut exchange = Exchange::new(end, job, &payload, &replies);
    let first_message_ns = exchange.timed_ns()?;
    let warmup = exchange.warm_up(job)?;
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
        server: None,
        messages,
        elapsed_ns,
        median_ns: samples.times.median_ns(),
        blocks_ns: samples.blocks(),
        times: Some(samples.times.to_stored()),
        messages_per_sample: 1,
        first_message_ns: Some(first_message_ns),
        warmup_samples: warmup.samples,
        warmup_capped: warmup.capped,
        ..Measured::default()
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
    stamps: Stamps,
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

    fn warm_up(&mut self, job: &Job) -> Result<Warmed, Failure> {
        let mut first = [0; GUESS_SAMPLES];
        for sample_ns in &mut first {
            *sample_ns = self.timed_ns()?;
        }
        first.sort_unstable();
        let guess_ns = first[GUESS_SAMPLES / 2];
        let mut warmup = Warmup::new(job.warmup_rule(guess_ns, 1));
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

/// A launch below this many exchanges has no median worth the name.
const MESSAGES_MIN: u64 = 20;

/// The warm-up takes at most this part of a cell's time.
const WARMUP_SHARE: u64 = 3;

/// The longest warm-up of a cell that is measured in slices. All cells of a launch warm up before
/// any is measured for long.
const FIRST_NS_MAX: u64 = 60_000_000;

/// A later slice lets exchanges go for this part of its time: the caches are those of the slice
/// before.
const SETTLE_SHARE: u64 = 5;

/// Exchanges of a slice: at least, and before [`SLICE_NS_MAX`].
const SLICE_MESSAGES_MIN: [u64; 2] = [5, 200];

/// A slice of long exchanges ends with fewer, so that a round stays short.
const SLICE_NS_MAX: u64 = 30_000_000;

/// Windows that a warm-up should have room for: three that agree, and as many before.
const WARMUP_WINDOWS: u64 = 6;

/// Medians of fewer samples agree only by chance.
const WINDOW_SAMPLES_MIN: usize = 8;

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
        let cell = CellSpec {
            kind: Kind::Latency,
            subject: Subject::Mechanism(Mechanism::Pipe),
            shape: Shape::Echo,
            message_bytes: 8,
            wait: WaitPolicy::Block,
            scene: crate::cell::Scene::default(),
        };
        let (stamps, fault) = (Stamps::Clock, Fault::None);
        let job = |shape| Job {
            cell: CellSpec { shape, ..cell },
            seed: 1,
            budget_ns: 1_000_000,
            part: Part::Whole,
            stamps,
            fault,
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
        let cell = CellSpec {
            kind: Kind::Latency,
            subject: Subject::Mechanism(Mechanism::ShmSpin),
            shape: Shape::Echo,
            message_bytes: 8,
            wait: WaitPolicy::Spin,
            scene: crate::cell::Scene::default(),
        };
        let (stamps, fault) = (Stamps::Scripted, Fault::None);
        let part = Part::Whole;
        let job = Job { cell, seed: 1, budget_ns: 100_000_000, part, stamps, fault };
        let measured = latency(&mut SlowStart { exchanges: 0 }, &job).unwrap();
        assert_eq!(measured.first_message_ns, Some(20_000));
        assert!(measured.warmup_samples >= SLOW_EXCHANGES && !measured.warmup_capped);
        assert_eq!(measured.elapsed_ns, 1_000 * measured.messages, "a slow one was measured");
    }
}
