//! Samples of calls: how long they take, and whether a pause came before.
//!
//! One call in some tens is timed, and the pause behind it; behind a pause each call is, since a
//! thread that has slept does not notice one more reading of the clock. A sample stands for the
//! calls since the one before.
//! **Invariants:** a call that is not sampled costs one subtraction.
//! **Not here:** reading the clock, what follows from the samples (`decide.rs`).

use std::cell::Cell;
use std::time::Duration;

use crate::limits::{AUTO_PAUSE_MIN, AUTO_SAMPLE_STRIDE, AUTO_SAMPLE_TIME};

/// The samples since they were taken last.
#[derive(Default)]
pub(super) struct Sampler {
    /// Calls until one is sampled.
    left: Cell<u32>,
    /// For how many calls the current sample stands.
    stride: Cell<u32>,
    /// When the call ended that was timed just before; zero: none was.
    ended_ns: Cell<u64>,
    /// How long that call took.
    took_ns: Cell<u64>,
    seed: Cell<u32>,
    sums: Cell<Sums>,
}

#[derive(Clone, Copy, Default)]
struct Sums {
    samples: u32,
    /// Of timed calls.
    weight: f64,
    log_latency: f64,
    /// Of pauses.
    pauses: f64,
    long_pauses: f64,
}

/// What samples say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sampled {
    /// The geometric mean of the time of a call; `None` if none was timed.
    pub(super) latency_ns: Option<f64>,
    /// The share of calls that came after a pause.
    pub(super) rare_share: f64,
}

impl Sampler {
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        let left = self.left.get();
        if left > 1 {
            self.left.set(left - 1);
            return false;
        }
        true
    }

    /// Begins a call that is due. Returns when it began, if it is to be timed.
    pub(super) fn begin(&self, now_ns: u64) -> Option<u64> {
        let ended_ns = self.ended_ns.take();
        if ended_ns != 0 {
            let pause_ns = now_ns.saturating_sub(ended_ns);
            let is_long = pause_ns >= ns(AUTO_PAUSE_MIN);
            let weight = f64::from(self.stride.get().max(1));
            let mut sums = self.sums.get();
            sums.pauses += weight;
            sums.long_pauses += if is_long { weight } else { 0.0 };
            self.sums.set(sums);
            let stride = if is_long { 1 } else { self.next_stride() };
            self.stride.set(stride);
            self.left.set(stride);
            // A call that is due again at once is timed as well: otherwise only every second
            // pause would be seen, and in bursts of an even number always those within.
            if stride > 1 {
                return None;
            }
        }
        Some(now_ns)
    }

    /// Ends a call that was to be timed; one that was only started has no time.
    pub(super) fn end(&self, begun_ns: Option<u64>, now_ns: u64) {
        let mut sums = self.sums.get();
        sums.samples = sums.samples.saturating_add(1);
        if let Some(begun_ns) = begun_ns {
            let weight = f64::from(self.stride.get().max(1));
            sums.weight += weight;
            let took_ns = now_ns.saturating_sub(begun_ns).max(1);
            self.took_ns.set(took_ns);
            sums.log_latency += weight * (took_ns as f64).ln();
        }
        self.sums.set(sums);
        self.ended_ns.set(now_ns.max(1));
        self.left.set(1);
    }

    pub(super) fn samples(&self) -> u32 {
        self.sums.get().samples
    }

    /// Returns what was sampled, and begins anew.
    pub(super) fn take(&self) -> Sampled {
        let sums = self.sums.take();
        Sampled {
            latency_ns: (sums.weight > 0.0).then(|| (sums.log_latency / sums.weight).exp()),
            rare_share: if sums.pauses > 0.0 { sums.long_pauses / sums.pauses } else { 0.0 },
        }
    }

    /// Between half and one and a half of a stride that is the shorter the longer calls take, so
    /// that no rhythm of the program meets that of the samples.
    fn next_stride(&self) -> u32 {
        let seed = self.seed.get().wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.seed.set(seed);
        let fits = ns(AUTO_SAMPLE_TIME) / self.took_ns.get().max(1);
        let stride = u32::try_from(fits).unwrap_or(u32::MAX).clamp(1, AUTO_SAMPLE_STRIDE);
        (stride / 2 + (seed >> 16) % stride).max(1)
    }
}

fn ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays calls of `latency_ns` with a pause of what `pause` says behind each.
    fn play(calls: u32, latency_ns: u64, pause: impl Fn(u32) -> u64) -> (Sampled, u32) {
        let (sampler, mut now_ns, mut readings) = (Sampler::default(), 1_000, 0);
        for call in 0..calls {
            let begun_ns = sampler.is_due().then(|| {
                readings += 1;
                sampler.begin(now_ns)
            });
            now_ns += latency_ns;
            if let Some(Some(begun_ns)) = begun_ns {
                readings += 1;
                sampler.end(Some(begun_ns), now_ns);
            }
            now_ns += pause(call);
        }
        (sampler.take(), readings)
    }

    #[test]
    fn busy_calls_are_sampled_rarely_and_rare_ones_always() {
        let (busy, readings) = play(100_000, 500, |_| 10);
        assert!((busy.latency_ns.unwrap() - 500.0).abs() < 1e-6 && busy.rare_share == 0.0);
        assert!(readings < 8_000, "{readings} readings for 100,000 calls");
        let (rare, _) = play(100, 9_000, |_| 3_000_000);
        assert!((rare.latency_ns.unwrap() - 9_000.0).abs() < 1e-6);
        assert!(rare.rare_share > 0.99, "{rare:?}");
    }

    #[test]
    fn a_pause_after_each_burst_counts_by_its_share() {
        let (sampled, _) = play(200_000, 500, |call| if call % 10 == 9 { 2_000_000 } else { 10 });
        assert!((0.05..0.2).contains(&sampled.rare_share), "{sampled:?}");
        // Long calls are all sampled.
        for calls in [5_u32, 20] {
            let pause = |call| if (call + 1) % calls == 0 { 2_000_000 } else { 10 };
            let (sampled, _) = play(1_000, 200_000, pause);
            let off = sampled.rare_share - 1.0 / f64::from(calls);
            assert!(off.abs() < 0.01, "{calls}: {sampled:?}");
        }
    }
}
