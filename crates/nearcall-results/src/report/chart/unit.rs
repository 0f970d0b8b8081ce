//! What a number on an axis is, and how it is written there and beside a point.
//!
//! Always true: a text has its unit. Decimal and binary multiples never meet on one axis: times and
//! rates count by 1000, sizes by 1024.

use crate::report::number;

/// What a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Time,
    /// Bytes; binary multiples.
    Size,
    /// Messages or calls per second.
    MessageRate,
    /// Bytes per second; decimal multiples.
    ByteRate,
    /// How many times another.
    Ratio,
}

impl Unit {
    /// Three digits and the unit that fits.
    #[must_use]
    pub fn value(self, value: f64) -> String {
        match self {
            Self::Time => number::time(value),
            Self::Size => size(value),
            Self::MessageRate => number::message_rate(value),
            Self::ByteRate => number::byte_rate(value),
            Self::Ratio => number::ratio(value),
        }
    }

    /// The same without zeros that say nothing: `1 µs`, not `1.00 µs`.
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

    /// Both ends of an interval, `87.1 to 90.2 ns`, or `900 ns to 1.10 µs`.
    #[must_use]
    pub fn interval(self, ends: [f64; 2]) -> String {
        let [low, high] = ends.map(|end| self.value(end));
        number::range(&low, &high)
    }

    /// Whether ticks stand at powers of two.
    #[must_use]
    pub const fn is_binary(self) -> bool {
        matches!(self, Self::Size)
    }
}

/// As [`number::size`], of a number that came out of arithmetic.
fn size(bytes: f64) -> String {
    if !bytes.is_finite() || bytes < 0.0 {
        return number::MISSING.to_owned();
    }
    let units = [(1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1_024.0, "KiB")];
    for (factor, unit) in units {
        if bytes >= factor && bytes % factor == 0.0 {
            return format!("{:.0} {unit}", bytes / factor);
        }
    }
    format!("{bytes:.0} B")
}

#[cfg(test)]
mod tests {
    use super::*;

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
