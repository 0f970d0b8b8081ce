//! Floors within one process: a call through a trait object, and making and reading a payload.

use std::hint::black_box;

use crate::exchange::Failure;
use crate::exchange::count::Counts;
use crate::exchange::job::Job;
use crate::exchange::measured::Measured;
use crate::histogram::Histogram;
use crate::payload::{Payload, Verifier};
use crate::stats;
use crate::warmup::{Warmup, WarmupState};

/// Measures a call through a trait object in batches.
pub(crate) fn call(job: &Job) -> Result<Measured, Failure> {
    let mut callee: Box<dyn Callee> = black_box(Box::new(Sum(0)));
    let batch = || {
        for number in 0..CALLS_PER_SAMPLE {
            black_box(callee.call(black_box(number)));
        }
        Ok(())
    };
    measure(job, CALLS_PER_SAMPLE, batch)
}

/// Measures what making and reading the payload costs without moving it.
pub(crate) fn memcpy(job: &Job) -> Result<Measured, Failure> {
    let payload = Payload::touched(job.seed, job.cell.bytes(), job.cell.conditions.touch);
    let mut verifier = Verifier::new(&payload, 0);
    let mut piece = vec![0; PIECE_BYTES];
    let message = || {
        let (mut offset, number) = (0, verifier.next());
        while offset < payload.message_bytes() {
            let bytes = PIECE_BYTES.min(payload.message_bytes() - offset);
            payload.fill(number, offset, &mut piece[..bytes]);
            verifier.piece(black_box(&piece[..bytes]));
            offset += bytes;
        }
        Ok(verifier.end()?)
    };
    measure(job, 1, message)
}

/// What a caller sees of an object in its own process.
trait Callee {
    fn call(&mut self, number: u64) -> u64;
}

struct Sum(u64);

impl Callee for Sum {
    fn call(&mut self, number: u64) -> u64 {
        self.0 = self.0.wrapping_add(number);
        self.0
    }
}

/// Measures what `act` does: `messages_per_sample` exchanges, within one process.
///
/// # Errors
///
/// What `act` returned.
pub fn measure(
    job: &Job,
    messages_per_sample: u64,
    mut act: impl FnMut() -> Result<(), Failure>,
) -> Result<Measured, Failure> {
    measure_timed(job, messages_per_sample, || {
        let start = job.stamps.start();
        act()?;
        Ok(job.stamps.since_ns(start))
    })
}

/// The same for what measures by itself how long it took.
pub(crate) fn measure_timed(
    job: &Job,
    messages_per_sample: u64,
    mut timed_ns: impl FnMut() -> Result<u64, Failure>,
) -> Result<Measured, Failure> {
    // As many messages as the cell says, the first ones included, without a warm-up: as between two
    // processes (`exchange/exact.rs`), the first sample is in the times and not in the counts.
    let exchanges = u64::from(job.cell.conditions.exchanges);
    let is_exact = exchanges > 0;
    let samples_max = match usize::try_from(exchanges.div_ceil(messages_per_sample).max(2)) {
        Ok(samples) if is_exact => samples.min(SAMPLES_MAX),
        _ => SAMPLES_MAX,
    };
    // Written once, so that its pages are present.
    let mut batches_ns = vec![1.0; samples_max];
    batches_ns.clear();
    let first_ns = timed_ns()?;
    let mut warmup = Warmup::new(job.warmup_rule(first_ns, messages_per_sample));
    let mut is_capped = false;
    if is_exact {
        batches_ns.push(first_ns as f64 / messages_per_sample as f64);
    } else {
        while warmup.push(timed_ns()?) == WarmupState::Warming {}
        is_capped = warmup.push(0) == WarmupState::Capped;
    }
    let uncounted = batches_ns.len();
    let (samples_min, until_ns) = match is_exact {
        true => (EXACT_MIN.min(samples_max), job.budget_ns),
        false => (SAMPLES_MIN, job.budget_ns / 2),
    };
    let mut times = Histogram::new();
    let before = Counts::before()?;
    let begin = job.stamps.start();
    let mut sum_ns = if is_exact { first_ns } else { 0 };
    while batches_ns.len() < samples_min || (sum_ns < until_ns && batches_ns.len() < samples_max) {
        let ns = timed_ns()?;
        sum_ns += ns;
        batches_ns.push(ns as f64 / messages_per_sample as f64);
    }
    let elapsed_ns = job.stamps.since_ns(begin);
    let messages = (batches_ns.len() - uncounted) as u64 * messages_per_sample;
    let client = before.report(0, 0)?;
    record(&mut times, &batches_ns);
    let blocks = batches_ns.chunks_exact((batches_ns.len() / BLOCKS).max(1));
    let blocks_ns = blocks.filter(|_| !is_exact).filter_map(stats::median).collect();
    Ok(Measured {
        client,
        messages,
        elapsed_ns,
        median_ns: stats::median(&batches_ns),
        blocks_ns,
        times: Some(times.to_stored()),
        messages_per_sample,
        first_message_ns: (messages_per_sample == 1).then_some(first_ns),
        warmup_samples: warmup.samples(),
        warmup_capped: is_capped,
        ..Measured::default()
    })
}

fn record(times: &mut Histogram, batches_ns: &[f64]) {
    for &ns in batches_ns {
        #[expect(clippy::cast_possible_truncation, reason = "a time of one sample")]
        #[expect(clippy::cast_sign_loss, reason = "no time is negative")]
        times.record(ns.round() as u64);
    }
}

/// A call takes one or two nanoseconds: a thousand are far above ten steps of any clock.
const CALLS_PER_SAMPLE: u64 = 1_000;

/// As the channel's reader copies.
const PIECE_BYTES: usize = 16 << 10;

/// A launch below this many samples has no median worth the name.
const SAMPLES_MIN: usize = 20;

/// A mean of fewer samples says nothing.
const EXACT_MIN: usize = 10;

/// Room for the samples of one launch.
const SAMPLES_MAX: usize = 1 << 16;

/// Parts of a launch that show how it drifts.
const BLOCKS: usize = 16;
