//! Axes: from a number to its place, and the ticks between.
//!
//! **Invariants:** a place is between 0 and 1 and finite; a number that has none (not finite,
//! outside, or not positive on a logarithmic axis) gives `None`. An axis is never empty: its ends
//! differ.

use crate::report::number::Unit;

/// One direction of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// The first and the last number, both above 0; numbers between are spread by logarithm.
    pub ends: [f64; 2],
    /// What they are.
    pub unit: Unit,
    /// The axis in words, with its unit or definition.
    pub title: String,
    /// Where ticks stand; empty: where it is usual.
    pub ticks: Vec<f64>,
    /// Whether 0, which a logarithm does not have, stands alone in front of the axis.
    pub zero: bool,
}

/// A place on an axis with its text.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// From 0 to 1.
    pub at: f64,
    /// Empty: a line without a text.
    pub text: String,
}

impl Axis {
    /// A logarithmic axis that holds all of `values` that can be drawn, with some room at both
    /// ends. `None` if there is none.
    #[must_use]
    pub fn log(unit: Unit, title: &str, values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (mut low, mut high, mut zero) = (f64::INFINITY, 0.0_f64, false);
        for value in values {
            zero |= value == 0.0;
            if drawable(value) {
                (low, high) = (low.min(value), high.max(value));
            }
        }
        if high == 0.0 {
            return None;
        }
        let room = ROOM.max((high / low).powf(0.02)).min(1.5);
        let (low, high) = ((low / room).max(LOW), (high * room).min(HIGH));
        // One value, or values that hardly differ, need an axis that does not exaggerate.
        let widen = (SPAN_MIN / (high / low)).max(1.0).sqrt();
        let (ends, zero) = ([low / widen, high * widen], zero && unit.is_binary());
        Some(Self { ends, unit, title: title.to_owned(), ticks: Vec::new(), zero })
    }

    /// Ticks exactly where something was measured, if these are few enough to be read.
    pub(crate) fn with_ticks(mut self, values: &[f64]) -> Self {
        let mut values: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        if values.len() <= TICKS_OWN_MAX {
            self.ticks = values;
        }
        self
    }

    /// `value`, or the end of the axis beyond which it lies. `None` if it is no number.
    #[must_use]
    pub fn within(&self, value: f64) -> Option<f64> {
        let [low, high] = self.ends;
        (!value.is_nan()).then(|| value.clamp(low, high))
    }

    /// Where `value` stands.
    #[must_use]
    pub fn place(&self, value: f64) -> Option<f64> {
        if self.zero && value == 0.0 {
            return Some(ZERO_AT);
        }
        let [low, high] = self.ends.map(f64::ln);
        let at = drawable(value).then(|| (value.ln() - low) / (high - low))?;
        let inside = at.is_finite() && (-1e-9..=1.0 + 1e-9).contains(&at);
        let from = if self.zero { ZERO_ROOM } else { 0.0 };
        inside.then(|| from + at.clamp(0.0, 1.0) * (1.0 - from))
    }

    /// The ticks, at most about `count_max`, ascending.
    #[must_use]
    pub fn ticks(&self, count_max: usize) -> Vec<Tick> {
        let values = match self.ticks.is_empty() {
            true => log_ticks(self.ends, self.unit, count_max.max(2)),
            false => self.ticks.clone(),
        };
        let mut ticks: Vec<Tick> = Vec::new();
        if self.zero && self.ticks.is_empty() {
            ticks.push(Tick { at: ZERO_AT, text: self.unit.tick(0.0) });
        }
        for value in values {
            if let Some(at) = self.place(value) {
                ticks.push(Tick { at, text: self.unit.tick(value) });
            }
        }
        ticks
    }
}

/// Whether a logarithmic axis has a place for it.
pub(crate) fn drawable(value: f64) -> bool {
    value.is_finite() && (LOW..=HIGH).contains(&value)
}

/// Both ends of `interval`, as far as an axis of `values` should show them: one wild interval must
/// not press all values together.
pub(crate) fn tame(interval: [f64; 2], values: &[f64]) -> [f64; 2] {
    let good = values.iter().copied().filter(|value| drawable(*value));
    let (low, high) = good.fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    interval.map(|end| if low <= high { end.clamp(low / BEYOND, high * BEYOND) } else { end })
}

/// Powers of ten, with 2 and 5 between where the axis is short; of sizes powers of two.
fn log_ticks([low, high]: [f64; 2], unit: Unit, count_max: usize) -> Vec<f64> {
    let within = |v: &f64| (low * 0.999..=high * 1.001).contains(v);
    let powers = |base: f64, steps: &[f64]| -> Vec<f64> {
        let first = low.log(base).floor();
        let (mut found, mut power) = (Vec::new(), first);
        while power <= high.log(base) + 1.0 && found.len() < 400 {
            found.extend(steps.iter().map(|step| step * whole(base.powf(power))));
            power += 1.0;
        }
        found.into_iter().filter(within).collect()
    };
    let choices: Vec<Vec<f64>> = if unit.is_binary() {
        [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 1024.0].map(|base| powers(base, &[1.0])).to_vec()
    } else {
        vec![
            powers(10.0, &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]),
            powers(10.0, &[1.0, 2.0, 5.0]),
            powers(10.0, &[1.0, 3.0]),
            powers(10.0, &[1.0]),
            powers(100.0, &[1.0]),
            powers(1_000.0, &[1.0]),
        ]
    };
    let last = choices.last().cloned().unwrap_or_default();
    choices.into_iter().find(|ticks| ticks.len() <= count_max).unwrap_or(last)
}

/// Powers of a base are whole, but for the error of `powf`.
fn whole(power: f64) -> f64 {
    if power >= 1.0 { power.round() } else { power }
}

/// Below this nothing was measured, whatever a file says.
const LOW: f64 = 1e-6;
/// Above this neither.
const HIGH: f64 = 1e15;
/// So far beyond the outermost values.
const ROOM: f64 = 1.08;
/// Intervals are shown so many times beyond the outermost values.
const BEYOND: f64 = 4.0;
/// The last is at least so many times the first.
const SPAN_MIN: f64 = 2.0;
/// More measured places than these get the usual ticks.
const TICKS_OWN_MAX: usize = 7;
/// Where 0 stands, which has no logarithm.
const ZERO_AT: f64 = 0.03;
/// The part of the axis that is left for it.
const ZERO_ROOM: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis, count_max: usize) -> Vec<String> {
        axis.ticks(count_max).into_iter().map(|tick| tick.text).collect()
    }

    #[test]
    fn equal_factors_are_equally_long() {
        let axis = Axis::log(Unit::Time, "", [100.0, 10_000.0]).unwrap();
        let at = |v| axis.place(v).unwrap();
        assert!((at(1_000.0) - 0.5).abs() < 1e-9);
        assert!((at(1_000.0) - at(100.0) - (at(10_000.0) - at(1_000.0))).abs() < 1e-9);
    }

    #[test]
    fn what_has_no_logarithm_has_no_place() {
        let axis = Axis::log(Unit::Time, "", [0.0, -1.0, f64::NAN, f64::INFINITY, 50.0]).unwrap();
        for value in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e300, 1e-300] {
            assert_eq!(axis.place(value), None, "{value}");
        }
        assert!(axis.place(50.0).is_some());
        assert_eq!(Axis::log(Unit::Time, "", [0.0, f64::NAN]), None);
        assert_eq!(Axis::log(Unit::Time, "", []), None);
    }

    #[test]
    fn ticks_are_as_the_field_writes_them() {
        let time = Axis::log(Unit::Time, "", [80.0, 2e6]).unwrap();
        assert_eq!(texts(&time, 6), ["100 ns", "1 µs", "10 µs", "100 µs", "1 ms"]);
        let short = Axis::log(Unit::Time, "", [900.0, 4_000.0]).unwrap();
        assert_eq!(texts(&short, 4), ["1 µs", "1.5 µs", "2 µs", "3 µs"]);
        assert_eq!(texts(&short, 3), ["1 µs", "2 µs"]);
        let sizes = Axis::log(Unit::Size, "", [1.0, 4_194_304.0]).unwrap();
        assert_eq!(texts(&sizes, 9)[..3], ["1 B", "8 B", "64 B"]);
        let own = Axis::log(Unit::Size, "", [0.0, 8.0, 1_024.0]).unwrap();
        assert_eq!(texts(&own.with_ticks(&[1_024.0, 0.0, 8.0, 8.0]), 9), ["0 B", "8 B", "1 KiB"]);
    }

    #[test]
    fn zero_bytes_stand_in_front_of_the_axis() {
        let axis = Axis::log(Unit::Size, "", [0.0, 8.0, 1_024.0]).unwrap();
        assert!(axis.place(0.0).unwrap() < axis.place(8.0).unwrap());
        let without = Axis::log(Unit::Size, "", [8.0, 1_024.0]).unwrap();
        assert_eq!(without.place(0.0), None);
    }
}
