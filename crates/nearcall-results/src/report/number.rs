//! Figures as a person reads them: the unit that fits, and as many digits as their interval bears.
//!
//! Digits beyond the third are noise in what is measured here. What stays exact stands in the run
//! file, not in these texts.

/// A time: `87.1 ns`, `1.23 µs`, `45.0 ms`, `2.10 s`. A dash if it is not a time.
#[must_use]
pub fn time(ns: f64) -> String {
    Unit::Time.value(ns)
}

/// A figure with its interval of 95 %, for a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The figure.
    pub value: f64,
    /// Its interval, if it has one.
    pub ci95: Option<[f64; 2]>,
}

impl Measured {
    /// How far the figure may be off either way, as a share: 0.1 says that the ends are 1.1 times
    /// the middle and the middle 1.1 times the ends. `None` without an interval.
    pub(crate) fn half_width(self) -> Option<f64> {
        let [low, high] = self.ci95?;
        let half = (high / low).sqrt() - 1.0;
        (low > 0.0 && half.is_finite() && half >= 0.0).then_some(half)
    }

    /// The digits that say something: rounding moves the figure by less than its interval does.
    fn digits(self) -> usize {
        match self.half_width() {
            None => 3,
            Some(half) if half < 0.1 => 3,
            Some(half) if half < 1.0 => 2,
            Some(_) => 1,
        }
    }

    /// The figure in a unit.
    #[must_use]
    pub fn text(self, unit: Unit) -> String {
        match (unit, self.digits()) {
            (_, 3) => unit.value(self.value),
            _ if !self.value.is_finite() || self.value < 0.0 => MISSING.to_owned(),
            (Unit::Ratio, digits) => format!("{}×", significant(self.value, digits)),
            (unit, digits) => scaled_to(self.value, unit.scale(), digits),
        }
    }

    /// The interval beside the figure: `±2.5%`, `±49%`; `×÷2.3` where it spans more than a factor
    /// of two each way.
    pub(crate) fn plus_minus(self) -> String {
        match self.half_width() {
            None => MISSING.to_owned(),
            Some(half) if half < 0.0995 => format!("±{:.1}%", half * 100.0),
            Some(half) if half < 1.0 => format!("±{:.0}%", half * 100.0),
            Some(half) if half < 998.0 => format!("×÷{}", significant(half + 1.0, 2)),
            Some(_) => "×÷>999".to_owned(),
        }
    }
}

/// A rate of messages: `950 /s`, `1.23 M/s`.
#[must_use]
pub fn message_rate(per_s: f64) -> String {
    Unit::MessageRate.value(per_s)
}

/// A rate of bytes in decimal units: `12.3 GB/s` is 12.3 × 10^9 bytes per second.
#[must_use]
pub fn byte_rate(bytes_per_s: f64) -> String {
    Unit::ByteRate.value(bytes_per_s)
}

/// A size in binary units, exact: `8 B`, `64 KiB`, `4095 B`, `4 MiB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    match bytes {
        0 => "0 B".to_owned(),
        _ if bytes.is_multiple_of(1 << 30) => format!("{} GiB", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

/// An amount of memory, rounded: `512 B`, `23.4 KiB`, `1.20 MiB`. A size that must stay exact is
/// written by [`size`].
#[must_use]
pub fn memory(bytes: f64) -> String {
    Unit::Memory.value(bytes)
}

/// A ratio: `0.0047×`, `0.91×`, `1.04×`, `12.3×`, `845×`.
#[must_use]
pub fn ratio(value: f64) -> String {
    if !value.is_finite() || value < 0.0 {
        return MISSING.to_owned();
    }
    // Two digits at least, also where this machine is hundreds of times as fast as a paper's.
    for (limit, digits) in [(0.000_995, 5), (0.009_95, 4), (0.099_5, 3), (9.995, 2)] {
        if value > 0.0 && value < limit {
            return format!("{value:.digits$}×");
        }
    }
    format!("{}×", three_digits(value))
}

/// A plain number of three digits, or more in front of the point: `0.123`, `1.23`, `12.3`,
/// `12345`.
#[must_use]
pub fn three_digits(value: f64) -> String {
    // Each limit is where rounding would give a fourth digit: 9.995 becomes 10.0, not 10.00.
    let digits = match value.abs() {
        0.0 => 0,
        small if small < 0.9995 => 3,
        small if small < 9.995 => 2,
        small if small < 99.95 => 1,
        _ => 0,
    };
    // More digits than that are no figure, and as many as a file likes.
    if value.abs() >= 1e15 { format!("{value:.2e}") } else { format!("{value:.digits$}") }
}

/// A plain number of `digits` digits: 0.0123, 12, 850 for two.
fn significant(value: f64, digits: usize) -> String {
    // Rounded first, as rounding may give it another digit in front of the point.
    let text = format!("{value:.*e}", digits.saturating_sub(1));
    let exponent: i32 = text.split_once('e').and_then(|(_, end)| end.parse().ok()).unwrap_or(0);
    let rounded: f64 = text.parse().unwrap_or(value);
    let behind = i32::try_from(digits).unwrap_or(3) - 1 - exponent;
    match usize::try_from(behind) {
        _ if rounded.abs() >= 1e15 => format!("{rounded:.2e}"),
        Ok(behind) if behind <= 12 => format!("{rounded:.behind$}"),
        Ok(_) => text,
        Err(_) => format!("{rounded:.0}"),
    }
}

/// A point in time: `2026-11-21 03:11 UTC`.
#[must_use]
pub fn date(unix_s: u64) -> String {
    // Days are counted from 1 March of year 0, so that a leap day ends its year.
    let days = unix_s / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (unix_s / 3_600 % 24, unix_s / 60 % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// What stands where there is no figure.
pub const MISSING: &str = "–";

/// Puts `value` in the largest unit in which it is at least 1 after rounding to `digits`.
fn scaled_to(value: f64, units: &[(f64, &str)], digits: usize) -> String {
    match digits {
        1 | 2 if value.is_finite() && value > 0.0 => {
            let rounded = format!("{value:.*e}", digits - 1).parse().unwrap_or(value);
            let (factor, unit) = unit_of(rounded, units);
            format!("{} {unit}", significant(rounded / factor, digits))
        }
        _ => scaled(value, units),
    }
}

/// Two figures as a range, which names a unit that both have once.
#[must_use]
pub fn range(low: &str, high: &str) -> String {
    match (low.rsplit_once(' '), high.rsplit_once(' ')) {
        (Some((figure, unit)), Some((_, same))) if unit == same => format!("{figure} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Time in nanoseconds.
    Time,
    /// Bytes of a message, exact; binary multiples.
    Size,
    /// Bytes of memory; binary multiples.
    Memory,
    /// Messages or calls per second.
    MessageRate,
    /// Bytes per second; decimal multiples.
    ByteRate,
    /// Bits; decimal multiples.
    Bits,
    /// A multiple of another figure.
    Ratio,
    /// A share in percent.
    Percent,
    /// A plain number.
    Plain,
}

impl Unit {
    /// Returns the unit that a run names: "ns", "/s", "bytes/s", "bytes", "percent".
    #[must_use]
    pub fn named(word: &str) -> Self {
        match word {
            "ns" => Self::Time,
            "/s" | "per_s" => Self::MessageRate,
            "bytes/s" => Self::ByteRate,
            "bytes" => Self::Memory,
            "percent" => Self::Percent,
            _ => Self::Plain,
        }
    }

    /// Returns the figure with three digits and the multiple that fits.
    #[must_use]
    pub fn value(self, value: f64) -> String {
        match self {
            Self::Size => size_of(value),
            Self::Ratio => ratio(value),
            Self::Percent => format!("{} %", three_digits(value)),
            Self::Plain => three_digits(value),
            _ => scaled(value, self.scale()),
        }
    }

    /// Returns the figure without zeros that say nothing: `1 µs`, not `1.00 µs`.
    #[must_use]
    pub fn tick(self, value: f64) -> String {
        let text = self.value(value);
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (digits, unit) = text.split_at(digits);
        match digits.contains('.') {
            true => format!("{}{unit}", digits.trim_end_matches('0').trim_end_matches('.')),
            false => text,
        }
    }

    /// Returns both ends of an interval: `87.1 to 90.2 ns`, or `900 ns to 1.10 µs`.
    #[must_use]
    pub fn interval(self, ends: [f64; 2]) -> String {
        let [low, high] = ends.map(|end| self.value(end));
        range(&low, &high)
    }

    /// Returns whether ticks stand at powers of two.
    pub(crate) const fn is_binary(self) -> bool {
        matches!(self, Self::Size)
    }

    const fn scale(self) -> &'static [(f64, &'static str)] {
        match self {
            Self::Time => &[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")],
            Self::MessageRate => &[(1.0, "/s"), (1e3, "k/s"), (1e6, "M/s"), (1e9, "G/s")],
            Self::ByteRate => &[(1.0, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s")],
            Self::Bits => &[(1.0, "b"), (1e3, "kb"), (1e6, "Mb"), (1e9, "Gb")],
            Self::Memory | Self::Size => {
                &[(1.0, "B"), (1024.0, "KiB"), (1_048_576.0, "MiB"), (1_073_741_824.0, "GiB")]
            }
            Self::Ratio | Self::Percent | Self::Plain => &[],
        }
    }
}

/// As [`size`], of a number that came out of arithmetic.
fn size_of(bytes: f64) -> String {
    if !bytes.is_finite() || bytes < 0.0 {
        return MISSING.to_owned();
    }
    let fits = |(factor, _): &&(f64, &str)| bytes >= *factor && bytes % factor == 0.0;
    let (factor, unit) = Unit::Size.scale().iter().rev().find(fits).copied().unwrap_or((1.0, "B"));
    format!("{:.0} {unit}", bytes / factor)
}

/// A value in the unit that a run names: "ns", "/s", "bytes/s", "bytes", "percent", or none. A
/// difference of times or of memory may be below zero.
pub(crate) fn in_unit(value: f64, unit: &str) -> String {
    match Unit::named(unit) {
        unit @ (Unit::Time | Unit::Memory) if value < 0.0 => format!("-{}", unit.value(-value)),
        unit => unit.value(value),
    }
}

/// A value in the unit that a run names, or a dash.
#[must_use]
pub fn optional(value: Option<f64>, unit: &str) -> String {
    let finite = value.filter(|value| value.is_finite());
    finite.map_or_else(|| MISSING.to_owned(), |value| in_unit(value, unit))
}

/// Where a value lies with 95 % confidence: `1.20 to 1.31 µs`, or a dash.
#[must_use]
pub fn interval(ci95: Option<[f64; 2]>, unit: &str) -> String {
    let finite = ci95.filter(|ends| ends.iter().all(|end| end.is_finite()));
    finite.map_or_else(
        || MISSING.to_owned(),
        |[low, high]| range(&in_unit(low, unit), &in_unit(high, unit)),
    )
}

fn unit_of<'u>(value: f64, units: &[(f64, &'u str)]) -> (f64, &'u str) {
    // 999.5 of a unit would be written as 1000: the next unit takes it.
    let fits = |(factor, _): &&(f64, &str)| value < factor * 999.5;
    units.iter().find(fits).or(units.last()).copied().unwrap_or((1.0, ""))
}

/// Puts `value` in the largest unit in which it is at least 1 after rounding.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    if !value.is_finite() || value < 0.0 {
        return MISSING.to_owned();
    }
    let (factor, unit) = unit_of(value, units);
    format!("{} {unit}", three_digits(value / factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_the_unit_that_fits() {
        let cases = [
            (0.0, "0 ns"),
            (0.5, "0.500 ns"),
            (1.0, "1.00 ns"),
            (9.994, "9.99 ns"),
            (9.996, "10.0 ns"),
            (99.96, "100 ns"),
            (999.4, "999 ns"),
            (999.6, "1.00 µs"),
            (1_234.0, "1.23 µs"),
            (999_600.0, "1.00 ms"),
            (45e6, "45.0 ms"),
            (3e9, "3.00 s"),
            (2e12, "2000 s"),
            (f64::MAX, "1.80e299 s"),
            (f64::NAN, "–"),
            (-1.0, "–"),
        ];
        for (ns, expected) in cases {
            assert_eq!(time(ns), expected, "{ns}");
        }
    }

    #[test]
    fn a_figure_has_the_digits_that_its_interval_bears() {
        let cases = [
            (61_800.0, Some([61_000.0, 62_600.0]), "61.8 µs", "±1.3%"),
            (61_800.0, Some([50_000.0, 76_400.0]), "62 µs", "±24%"),
            (61_800.0, Some([20_000.0, 190_000.0]), "60 µs", "×÷3.1"),
            (847.0, Some([600.0, 1_200.0]), "850 ns", "±41%"),
            (996.0, Some([700.0, 1_400.0]), "1.0 µs", "±41%"),
            (104.0, Some([50.0, 210.0]), "100 ns", "×÷2.0"),
            (1.23, Some([1.0, 1.5]), "1.2 ns", "±22%"),
            (141.0, None, "141 ns", "–"),
            (141.0, Some([0.0, 300.0]), "141 ns", "–"),
        ];
        for (value, ci95, figure, interval) in cases {
            let measured = Measured { value, ci95 };
            assert_eq!(
                (&*measured.text(Unit::Time), &*measured.plus_minus()),
                (figure, interval),
                "{value}"
            );
        }
        let rate = Measured { value: 1.5e6, ci95: Some([1.2e6, 1.9e6]) };
        assert_eq!(
            (&*rate.text(Unit::MessageRate), &*rate.text(Unit::ByteRate)),
            ("1.5 M/s", "1.5 MB/s")
        );
        assert_eq!(Measured { value: 12.3, ci95: Some([5.0, 31.0]) }.text(Unit::Ratio), "10×");
        assert_eq!(Measured { value: 1.234, ci95: Some([1.2, 1.3]) }.text(Unit::Ratio), "1.23×");
        assert_eq!(Measured { value: f64::NAN, ci95: Some([1.0, 2.0]) }.text(Unit::Time), "–");
    }

    #[test]
    fn rates_and_ratios_have_their_units() {
        assert_eq!(message_rate(950.0), "950 /s");
        assert_eq!(message_rate(15_400_000.0), "15.4 M/s");
        assert_eq!(byte_rate(12.34e9), "12.3 GB/s");
        assert_eq!(memory(65_536.0), "64.0 KiB");
        assert_eq!(memory(1_258_291.2), "1.20 MiB");
        assert_eq!(ratio(1.044), "1.04×");
        assert_eq!(ratio(12.3), "12.3×");
        assert_eq!(ratio(0.004_71), "0.0047×");
        assert_eq!(ratio(0.049), "0.049×");
        assert_eq!(ratio(0.0), "0×");
        assert_eq!(ratio(f64::INFINITY), "–");
    }

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_700_000_000), "2023-11-14 22:13 UTC");
        assert_eq!(date(1_735_689_599), "2024-12-31 23:59 UTC");
        assert!(date(u64::MAX).ends_with("UTC"));
    }

    #[test]
    fn an_interval_names_its_unit_once_where_it_can() {
        assert_eq!(interval(Some([1_200.0, 1_310.0]), "ns"), "1.20 to 1.31 µs");
        assert_eq!(interval(Some([920.0, 1_310.0]), "ns"), "920 ns to 1.31 µs");
        assert_eq!(interval(Some([f64::NAN, 1.0]), "ns"), "–");
        assert_eq!(optional(Some(f64::INFINITY), "ns"), "–");
    }

    #[test]
    fn sizes_stay_exact() {
        let cases =
            [(0, "0 B"), (8, "8 B"), (4_095, "4095 B"), (65_536, "64 KiB"), (4 << 20, "4 MiB")];
        for (bytes, expected) in cases {
            assert_eq!(size(bytes), expected);
        }
    }

    #[test]
    fn ticks_are_short_and_have_their_unit() {
        let cases = [
            (Unit::Time, 1.0, "1 ns"),
            (Unit::Time, 200.0, "200 ns"),
            (Unit::Time, 1_000.0, "1 µs"),
            (Unit::Time, 20e6, "20 ms"),
            (Unit::Size, 0.0, "0 B"),
            (Unit::Size, 4_096.0, "4 KiB"),
            (Unit::Size, 4_095.0, "4095 B"),
            (Unit::MessageRate, 2e6, "2 M/s"),
            (Unit::ByteRate, 5e8, "500 MB/s"),
            (Unit::Ratio, 0.5, "0.5×"),
            (Unit::Ratio, 10.0, "10×"),
            (Unit::Time, f64::NAN, "–"),
        ];
        for (unit, value, expected) in cases {
            assert_eq!(unit.tick(value), expected);
        }
    }
}
