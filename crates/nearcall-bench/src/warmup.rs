//! Decides from the samples themselves when a cell is warm.
//!
//! A cell is warm when the medians of three windows in a row lie within 2 %. A cap on samples and
//! on time ends the warm-up of a cell that never settles; the cell then says so. The samples given
//! here are never part of the result, and this file does not measure: the runner does.

/// When a warm-up ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmupRule {
    /// Samples of which one median is taken.
    pub window_samples: usize,
    /// The largest of three medians may exceed the smallest by this share of it.
    pub tolerance: f64,
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
        let middle = self.window.len() / 2;
        let (_, &mut median_ns, _) = self.window.select_nth_unstable(middle);
        self.medians_ns[self.windows_seen % WINDOWS] = median_ns;
        self.windows_seen += 1;
        self.window.clear();
        if self.windows_seen < WINDOWS {
            return;
        }
        let low_ns = self.medians_ns.iter().copied().min().unwrap_or(0);
        let high_ns = self.medians_ns.iter().copied().max().unwrap_or(0);
        if (high_ns - low_ns) as f64 <= low_ns as f64 * self.rule.tolerance {
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

    #[test]
    fn constant_times_are_stable_after_three_windows() {
        let mut warmup = Warmup::new(WarmupRule::default());
        while warmup.push(0) == WarmupState::Warming {}
        assert_eq!((warmup.samples(), warmup.push(0)), (768, WarmupState::Stable));
    }
}
