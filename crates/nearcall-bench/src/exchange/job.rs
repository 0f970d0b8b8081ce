//! What the client has to do for one cell, and how much of it is enough.

#[cfg(test)]
use nearcall_channel::{Mechanism, WaitPolicy};

use crate::bench_plan::Shape;
use crate::cell::CellSpec;
#[cfg(test)]
use crate::cell::Subject;
use crate::exchange::stamps::TimestampSource;
use crate::launch::Fault;
use crate::payload::Payload;
#[cfg(test)]
use crate::run::Kind;
use crate::warmup::WarmupRule;

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
    pub(crate) stamps: TimestampSource,
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
        let defaults = WarmupRule::default();
        let duration_ns_max = match self.part {
            Part::Whole => (self.budget_ns / WARMUP_SHARE).min(defaults.duration_ns_max),
            Part::First => FIRST_NS_MAX,
            Part::Later => self.budget_ns / SETTLE_SHARE,
        };
        let samples_min = defaults.samples_min / sample_messages;
        let affordable = duration_ns_max / WARMUP_WINDOWS / sample_ns.max(1);
        let window_samples = usize::try_from(affordable).unwrap_or(usize::MAX);
        let window_samples = window_samples.clamp(WINDOW_SAMPLES_MIN, defaults.window_samples);
        WarmupRule { window_samples, samples_min, duration_ns_max, ..defaults }
    }

    /// How long is measured after a warm-up of `warmup_ns`.
    pub(crate) fn measured_ns(&self, warmup_ns: u64) -> u64 {
        match self.part {
            Part::Whole => self.budget_ns - warmup_ns.min(self.budget_ns / 2),
            Part::First | Part::Later => self.budget_ns,
        }
    }

    /// Whether a region of so many exchanges, which took `spent_ns`, is one.
    pub(crate) fn is_enough(&self, messages: u64, spent_ns: u64, budget_ns: u64) -> bool {
        let messages_min = match self.part {
            Part::Whole => MESSAGES_MIN,
            Part::First | Part::Later if spent_ns < SLICE_NS_MAX => SLICE_MESSAGES_MIN[1],
            Part::First | Part::Later => SLICE_MESSAGES_MIN[0],
        };
        messages >= messages_min && spent_ns >= budget_ns
    }
}

#[cfg(test)]
impl Job {
    /// A job for tests: 8 bytes over a pipe between idle ends, timed by the scripted clock.
    pub(crate) fn scripted(kind: Kind, shape: Shape, budget_ns: u64) -> Self {
        let pipe = Subject::Mechanism(Mechanism::Pipe);
        let cell = CellSpec { kind, ..CellSpec::latency(pipe, shape, 8, WaitPolicy::Block) };
        let (stamps, fault) = (TimestampSource::Scripted, Fault::None);
        Self { cell, seed: 1, budget_ns, part: Part::Whole, stamps, fault }
    }
}

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
