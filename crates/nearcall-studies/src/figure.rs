//! Figures made from others round by round, and how sure they are.
//!
//! A ratio, a difference, a slope or an extreme is computed from the values of one round; its 95 %
//! interval comes from the rounds. Times, rates and ratios are positive and are judged on the
//! logarithmic scale (`stats.rs`); differences and coefficients may have either sign and have a
//! plain interval of Student. Rounds in which a value is missing are left out. What a figure has
//! to be is not decided here but in `claims/truth.rs`.
//!
//! **Invariant:** figures of a claim are computed round by round from launches of one round, so
//! that drift affects both sides. *Checked by* `drift_that_falls_on_both_cancels`.

use crate::evidence::{Series, Unit};
use crate::report::number;
use crate::stats;

/// One value per round, with a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it is: "pipe / tcp".
    pub name: String,
    /// Where it holds, with its preposition: "at 64 KiB", "on one CPU"; may be empty.
    pub at: String,
    /// What its values count.
    pub unit: Unit,
    /// Whether its values may be negative or zero.
    pub signed: bool,
    /// One value per round; NaN where there is none.
    pub values: Vec<f64>,
}

/// A typical round, and where it lies with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The typical round: the geometric mean of positive figures, the mean of signed ones.
    pub center: f64,
    /// The interval; `None` with one round.
    pub ci95: Option<[f64; 2]>,
    /// How many rounds it comes from.
    pub rounds: usize,
}

impl Figure {
    /// A figure as it was measured. Disagreements and coefficients should be made signed.
    #[must_use]
    pub fn new(name: &str, at: &str, unit: Unit, series: &Series) -> Self {
        let signed = matches!(unit, Unit::Share | Unit::Count);
        let (name, at) = (name.to_owned(), at.to_owned());
        Self { name, at, unit, signed, values: series.0.clone() }
    }

    /// Another name for the same values.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// The same values somewhere else, in words.
    #[must_use]
    pub fn at(mut self, at: &str) -> Self {
        at.clone_into(&mut self.at);
        self
    }

    /// This one divided by the other.
    #[must_use]
    pub fn over(&self, other: &Self) -> Self {
        let unit = if self.unit == other.unit { Unit::Ratio } else { Unit::Count };
        let values = round_by_round(&[self, other], |round| Some(round[0] / round[1]));
        self.joined("/", other, unit, false, values)
    }

    /// This one without the other.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let values = round_by_round(&[self, other], |round| Some(round[0] - round[1]));
        self.joined("-", other, self.unit, true, values)
    }

    /// This one `factor` times.
    #[must_use]
    pub fn times(mut self, factor: f64) -> Self {
        self.values.iter_mut().for_each(|value| *value *= factor);
        self
    }

    /// Made from several: `from` sees the values of one round, in the order of `parts`.
    #[must_use]
    pub fn made(
        name: &str,
        unit: Unit,
        signed: bool,
        parts: &[Self],
        from: impl Fn(&[f64]) -> Option<f64>,
    ) -> Self {
        let parts: Vec<&Self> = parts.iter().collect();
        let values = round_by_round(&parts, from);
        let at = shared(parts.iter().map(|part| part.at.as_str())).unwrap_or_default();
        Self { name: name.to_owned(), at: at.to_owned(), unit, signed, values }
    }

    /// Made from several of one kind in each round.
    #[must_use]
    pub fn of(name: &str, parts: &[Self], from: impl Fn(&[f64]) -> Option<f64>) -> Self {
        let (unit, signed) = parts.first().map_or((Unit::Count, true), |it| (it.unit, it.signed));
        Self::made(name, unit, signed, parts, from)
    }

    /// The slowest of `parts` divided by the quickest, round by round. Which ones these are is said
    /// by their medians over rounds: the extremes of each round would mostly be its noise.
    #[must_use]
    pub fn spread(name: &str, parts: &[Self]) -> Self {
        let center = |part: &&Self| stats::median(&part.values).unwrap_or(f64::NAN);
        let slowest = parts.iter().max_by(|a, b| center(a).total_cmp(&center(b)));
        let quickest = parts.iter().min_by(|a, b| center(a).total_cmp(&center(b)));
        match slowest.zip(quickest) {
            Some((slowest, quickest)) => slowest.over(quickest).named(name),
            None => Self::of(name, parts, stats::median),
        }
    }

    fn joined(&self, sign: &str, other: &Self, unit: Unit, signed: bool, values: Vec<f64>) -> Self {
        if self.at == other.at {
            let name = format!("{} {sign} {}", self.name, other.name);
            return Self { name, at: self.at.clone(), unit, signed, values };
        }
        if self.name == other.name {
            let at = format!("{} {sign} {}", self.at, other.at);
            return Self { name: self.name.clone(), at, unit, signed, values };
        }
        let name = format!("{} {sign} {}", self.placed(), other.placed());
        Self { name, at: String::new(), unit, signed, values }
    }

    /// Its name with its place.
    #[must_use]
    pub fn placed(&self) -> String {
        if self.at.is_empty() { self.name.clone() } else { format!("{} {}", self.name, self.at) }
    }

    /// How sure it is. `None` if no round has a value that it may have.
    #[must_use]
    pub fn interval(&self) -> Option<Interval> {
        let allowed = |value: &f64| value.is_finite() && (self.signed || *value > 0.0);
        let values: Vec<f64> = self.values.iter().copied().filter(allowed).collect();
        let (&first, rounds) = (values.first()?, values.len());
        if values.iter().all(|&value| value == first) {
            // Logarithms would only add rounding.
            let ci95 = (rounds > 1).then_some([first; 2]);
            return Some(Interval { center: first, ci95, rounds });
        }
        if self.signed {
            return Some(plain(&values));
        }
        let estimate = stats::estimate(&values, &[], 0.0)?;
        Some(Interval { center: estimate.center, ci95: estimate.ci95, rounds })
    }

    /// How likely rounds around `limit` would give a mean as far from it as these have. One launch
    /// shows nothing of its spread: it counts as what is just certain.
    #[must_use]
    pub fn p_value(&self, limit: f64) -> f64 {
        let allowed = |value: &f64| value.is_finite() && (self.signed || *value > 0.0);
        let values = self.values.iter().copied().filter(allowed);
        match self.signed {
            true => stats::p_of_mean(&values.collect::<Vec<f64>>(), limit),
            false if limit <= 0.0 => Some(0.0),
            false => stats::p_of_mean(&values.map(f64::ln).collect::<Vec<f64>>(), limit.ln()),
        }
        .unwrap_or(stats::two_samples::SIGNIFICANCE)
    }

    /// A value of this figure for people.
    #[must_use]
    pub fn show(&self, value: f64) -> String {
        show(self.unit, value)
    }
}

/// A value for people, negative ones too.
#[must_use]
pub fn show(unit: Unit, value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    let size = value.abs();
    let text = match unit {
        Unit::Ns => number::time(size),
        Unit::BytesPerSecond => number::byte_rate(size),
        Unit::BitsPerCpuSecond => format!("{} Gbit/CPU-s", number::three_digits(size / 1e9)),
        Unit::Bytes => number::memory(size),
        Unit::NsPerByte => format!("{} ns/B", number::three_digits(size)),
        Unit::Ratio => format!("{}×", number::three_digits(size)),
        Unit::Share => format!("{} %", number::three_digits(size * 100.0)),
        Unit::Count => number::three_digits(size),
    };
    format!("{sign}{text}")
}

/// How far the ranks of `values` follow those of `keys`: 1 if both rise together, -1 if one falls
/// where the other rises. Ties share their rank. `None` below three pairs or if all are equal.
#[must_use]
pub fn rank_correlation(keys: &[f64], values: &[f64]) -> Option<f64> {
    if keys.len() != values.len() || keys.len() < 3 {
        return None;
    }
    line(&ranks(keys), &ranks(values)).map(|line| line.correlation)
}

/// A straight line through points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// How much y grows per x.
    pub slope: f64,
    /// Pearson's coefficient; its square is the share of the variance that the line explains.
    pub correlation: f64,
}

/// The line of least squares. `None` if all x or all y are equal.
#[must_use]
pub fn line(x: &[f64], y: &[f64]) -> Option<Line> {
    let count = x.len().min(y.len()) as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
    let (middle_x, middle_y) = (mean(x), mean(y));
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        x.iter().zip(y).map(|(x, y)| f(x - middle_x, y - middle_y)).sum()
    };
    let (xx, yy, xy) = (sum(&|x, _| x * x), sum(&|_, y| y * y), sum(&|x, y| x * y));
    (xx > 0.0 && yy > 0.0).then(|| Line { slope: xy / xx, correlation: xy / (xx * yy).sqrt() })
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: f64| {
        let below = values.iter().filter(|&&other| other < value).count();
        let equal = values.iter().filter(|&&other| other == value).count();
        below as f64 + (equal as f64 - 1.0) / 2.0
    };
    values.iter().map(|&value| rank(value)).collect()
}

fn round_by_round(parts: &[&Figure], from: impl Fn(&[f64]) -> Option<f64>) -> Vec<f64> {
    let rounds = parts.iter().map(|part| part.values.len()).min().unwrap_or(0);
    (0..rounds)
        .map(|round| {
            let values: Vec<f64> = parts.iter().map(|part| part.values[round]).collect();
            let whole = values.iter().all(|value| value.is_finite());
            if whole { from(&values).unwrap_or(f64::NAN) } else { f64::NAN }
        })
        .collect()
}

fn shared<'a>(mut texts: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let first = texts.next()?;
    texts.all(|text| text == first).then_some(first)
}

fn plain(values: &[f64]) -> Interval {
    let rounds = values.len();
    let count = rounds as f64;
    let center = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - center).powi(2)).sum();
    let ci95 = rounds.checked_sub(1).and_then(stats::student_t_975).map(|t| {
        let half = t * (squares / (count - 1.0) / count).sqrt();
        [center - half, center + half]
    });
    Interval { center, ci95, rounds }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(name: &str, values: &[f64]) -> Figure {
        Figure::new(name, "at 1 KiB", Unit::Ns, &Series(values.to_vec()))
    }

    #[test]
    fn drift_that_falls_on_both_cancels() {
        let ratio = figure("a", &[10.0, 20.0, 40.0]).over(&figure("b", &[5.0, 10.0, 20.0]));
        assert_eq!((ratio.name.as_str(), ratio.at.as_str()), ("a / b", "at 1 KiB"));
        assert_eq!(ratio.unit, Unit::Ratio);
        let interval = ratio.interval().unwrap();
        assert_eq!((interval.center, interval.ci95), (2.0, Some([2.0, 2.0])));
    }

    #[test]
    fn a_round_without_a_value_is_left_out() {
        let sum = figure("a", &[1.0, f64::NAN, 3.0]).minus(&figure("b", &[1.0, 1.0, 1.0, 1.0]));
        assert_eq!(sum.interval().unwrap().rounds, 2);
        assert_eq!(figure("a", &[f64::NAN]).interval(), None);
        assert_eq!(figure("a", &[]).interval(), None);
    }

    #[test]
    fn one_round_has_no_interval() {
        let interval = figure("a", &[7.0]).interval().unwrap();
        assert_eq!(interval, Interval { center: 7.0, ci95: None, rounds: 1 });
    }

    #[test]
    fn differences_have_the_interval_of_student() {
        let difference = figure("a", &[3.0, 1.0, 2.0]).minus(&figure("b", &[2.0, 2.0, 2.0]));
        let interval = difference.interval().unwrap();
        let [low, high] = interval.ci95.unwrap();
        // Deviation 1 over three rounds: 4.302653 / √3.
        assert!((high - 2.484_138).abs() < 1e-6 && (low + 2.484_138).abs() < 1e-6);
        assert_eq!(difference.show(interval.center), "0 ns");
        assert_eq!(difference.show(-1_500.0), "-1.50 µs");
    }

    #[test]
    fn positive_figures_are_judged_on_the_logarithmic_scale() {
        let interval = figure("a", &[1.0, 4.0]).interval().unwrap();
        assert!((interval.center - 2.0).abs() < 1e-9);
        assert!(interval.ci95.unwrap()[0] > 0.0);
    }

    #[test]
    fn medians_and_spreads_are_of_one_round() {
        let parts = [figure("a", &[1.0, 9.0]), figure("b", &[2.0, 5.0]), figure("c", &[6.0, 7.0])];
        assert_eq!(Figure::of("", &parts, stats::median).values, [2.0, 7.0]);
        assert_eq!(Figure::spread("", &parts).values, [3.0, 1.4]);
    }

    #[test]
    fn ranks_and_lines_follow_known_values() {
        let sizes = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(rank_correlation(&sizes, &[10.0, 20.0, 30.0, 400.0]), Some(1.0));
        assert_eq!(rank_correlation(&sizes, &[4.0, 3.0, 2.0, 1.0]), Some(-1.0));
        assert_eq!(rank_correlation(&sizes, &[1.0; 4]), None);
        assert_eq!(rank_correlation(&sizes[..2], &[1.0, 2.0]), None);
        let line = line(&sizes, &[3.0, 5.0, 7.0, 9.0]).unwrap();
        assert!((line.slope - 2.0).abs() < 1e-12 && (line.correlation - 1.0).abs() < 1e-12);
    }
}
