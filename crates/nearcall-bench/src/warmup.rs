//! Decides from the samples themselves when a cell is warm.
//!
//! A cell is warm when the medians of three windows in a row lie within 2 %, or within what chance
//! makes of medians of so few samples, and a slow start would be over. A cap on samples and on time
//! ends the warm-up of a cell that never settles; the cell then says so. The samples given here are
//! never part of the result, and this file does not measure: the runner does.

/// When a warm-up ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmupRule {
    /// Samples of which one median is taken.
    pub window_samples: usize,
    /// The largest of three medians may exceed the smallest by this share of it.
    pub tolerance: f64,
    /// Before so many samples the cell may look settled and be in a slow start.
    pub samples_min: u64,
    /// The warm-up ends here even if the cell does not settle.
    pub samples_max: u64,
    /// The warm-up ends when the samples add up to this, settled or not.
    pub duration_ns_max: u64,
}

impl Default for WarmupRule {
    fn default() -> Self {
        Self {
            window_samples: WINDOW_SAMPLES,
            tolerance: TOLERANCE,
            samples_min: SAMPLES_MIN,
            samples_max: SAMPLES_MAX,
            duration_ns_max: DURATION_NS_MAX,
        }
    }
}

/// What a warm-up has found so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmupState {
    /// Not yet: give it another sample.
    Warming,
    /// Three windows agree. Measuring may begin.
    Stable,
    /// The cap came first. Measuring may begin, and the cell carries a tag.
    Capped,
}

/// The warm-up of one launch of one cell.
///
/// Allocates one window at the start and nothing later.
#[derive(Clone, Debug)]
pub struct Warmup {
    rule: WarmupRule,
    window: Vec<u64>,
    medians_ns: [u64; WINDOWS],
    /// How far apart chance makes medians of such windows.
    chances_ns: [f64; WINDOWS],
    windows_seen: usize,
    samples: u64,
    duration_ns: u64,
    state: WarmupState,
}

impl Warmup {
    /// Begins. A window of fewer than one sample counts as one.
    #[must_use]
    pub fn new(rule: WarmupRule) -> Self {
        Self {
            rule,
            window: Vec::with_capacity(rule.window_samples.max(1)),
            medians_ns: [0; WINDOWS],
            chances_ns: [0.0; WINDOWS],
            windows_seen: 0,
            samples: 0,
            duration_ns: 0,
            state: WarmupState::Warming,
        }
    }

    /// Takes the next sample in nanoseconds. After the end of the warm-up the answer stays the
    /// same.
    pub fn push(&mut self, sample_ns: u64) -> WarmupState {
        if self.state != WarmupState::Warming {
            return self.state;
        }
        self.samples += 1;
        self.duration_ns = self.duration_ns.saturating_add(sample_ns);
        self.window.push(sample_ns);
        if self.window.len() >= self.rule.window_samples.max(1) {
            self.close_window();
        }
        let over =
            self.samples >= self.rule.samples_max || self.duration_ns >= self.rule.duration_ns_max;
        if self.state == WarmupState::Warming && over {
            self.state = WarmupState::Capped;
        }
        self.state
    }

    /// How many samples were used up.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    fn close_window(&mut self) {
        self.window.sort_unstable();
        let quarter = |quarters: usize| self.window[self.window.len() * quarters / 4];
        let quartiles_ns = (quarter(3) - quarter(1)) as f64;
        let at = self.windows_seen % WINDOWS;
        self.medians_ns[at] = quarter(2);
        self.chances_ns[at] = CHANCE * quartiles_ns / (self.window.len() as f64).sqrt();
        self.windows_seen += 1;
        self.window.clear();
        if self.windows_seen < WINDOWS || self.samples < self.rule.samples_min {
            return;
        }
        let low_ns = self.medians_ns.iter().copied().min().unwrap_or(0);
        let high_ns = self.medians_ns.iter().copied().max().unwrap_or(0);
        let chance_ns = self.chances_ns.iter().copied().fold(f64::INFINITY, f64::min);
        if (high_ns - low_ns) as f64 <= (low_ns as f64 * self.rule.tolerance).max(chance_ns) {
            self.state = WarmupState::Stable;
        }
    }
}

/// Windows that must agree.
const WINDOWS: usize = 3;

/// Three windows hold 768 samples: more than a slow start of 500, which must not look settled.
const WINDOW_SAMPLES: usize = 256;

/// Medians of windows of a settled cell differ by less, also on a virtual machine.
const TOLERANCE: f64 = 0.02;

/// More than a slow start of 500, also where windows are shorter.
const SAMPLES_MIN: u64 = 512;

/// A median of n normal samples has a standard error of 0.93 distances of their quartiles, divided
/// by the root of n; three such medians lie within 3.3 errors in 95 % of cases.
const CHANCE: f64 = 3.3 * 0.93;

/// At 100 ns per exchange this is a tenth of a second; slower cells meet the other cap.
const SAMPLES_MAX: u64 = 1_000_000;

/// 4 MiB messages need a millisecond each; a tour of 90 s cannot give a cell more than this.
const DURATION_NS_MAX: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Histogram;

    /// A settled cell of 1 µs with 5 % of noise and a rare pause.
    fn settled(rng: &mut fastrand::Rng) -> u64 {
        if rng.u32(0..1_000) == 0 { 50_000 } else { 1_000 + rng.u64(0..50) }
    }

    #[test]
    fn a_slow_start_of_500_iterations_does_not_change_the_median() {
        for seed in 0..20 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (mut warmup, mut clean, mut found) =
                (Warmup::new(WarmupRule::default()), Histogram::new(), Histogram::new());
            let mut iteration = 0;
            while found.count() < 2_000 {
                let sample = settled(&mut rng) * if iteration < 500 { 10 } else { 1 };
                iteration += 1;
                if warmup.push(sample) == WarmupState::Warming {
                    continue;
                }
                found.record(sample);
                clean.record(settled(&mut rng));
            }
            assert!(warmup.samples() > 500, "seed {seed}: warm after {}", warmup.samples());
            let ratio = found.median_ns().unwrap() / clean.median_ns().unwrap();
            assert!((0.995..1.005).contains(&ratio), "seed {seed}: ratio {ratio}");
        }
    }

    #[test]
    fn a_cell_that_never_settles_ends_at_the_cap() {
        let rule = WarmupRule { samples_max: 2_000, ..WarmupRule::default() };
        let mut warmup = Warmup::new(rule);
        let mut pushed = 0;
        while warmup.push(100 + pushed * 10) == WarmupState::Warming {
            pushed += 1;
        }
        assert_eq!(warmup.push(1), WarmupState::Capped);
        assert_eq!(warmup.samples(), 2_000);
    }

    #[test]
    fn long_exchanges_end_at_the_cap_on_time() {
        let mut warmup = Warmup::new(WarmupRule::default());
        let pushes = (0..).take_while(|_| warmup.push(2_000_000) == WarmupState::Warming).count();
        assert_eq!(pushes + 1, 50);
    }

    /// Windows of 62 samples, as those of a cell that sleeps in each exchange.
    #[test]
    fn short_windows_of_a_noisy_cell_settle_after_a_slow_start() {
        let rule = WarmupRule { window_samples: 62, ..WarmupRule::default() };
        let mut settled = 0;
        for seed in 0..100 {
            let mut rng = fastrand::Rng::with_seed(seed);
            // A spread of 20 %: the sum of uniform parts is about normal.
            let mut noisy = || 80_000 + (0..12).map(|_| rng.u64(0..16_000)).sum::<u64>() - 96_000;
            let mut warmup = Warmup::new(WarmupRule { duration_ns_max: u64::MAX, ..rule });
            let mut samples = 0;
            while samples < 2_000 {
                let slow = if samples < 500 { 3 } else { 1 };
                samples += 1;
                if warmup.push(noisy() * slow) != WarmupState::Warming {
                    break;
                }
            }
            assert!(samples > 500, "seed {seed}: warm after {samples}");
            settled += usize::from(samples < 1_200);
        }
        assert!(settled >= 90, "{settled} of 100 settled");
    }

    #[test]
    fn constant_times_are_stable_after_three_windows() {
        let mut warmup = Warmup::new(WarmupRule::default());
        while warmup.push(0) == WarmupState::Warming {}
        assert_eq!((warmup.samples(), warmup.push(0)), (768, WarmupState::Stable));
    }
}
