//! Figures as a person reads them: three digits and the unit that fits.
//!
//! Digits beyond the third are noise in what is measured here. What stays exact stands in the run
//! file, not in these texts.

/// A time: `87.1 ns`, `1.23 µs`, `45.0 ms`, `2.10 s`. A dash if it is not a time.
#[must_use]
pub fn time(ns: f64) -> String {
    scaled(ns, &[(1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")])
}

/// A rate of messages: `950 /s`, `1.23 M/s`.
#[must_use]
pub fn message_rate(per_s: f64) -> String {
    scaled(per_s, &[(1.0, "/s"), (1e3, "k/s"), (1e6, "M/s"), (1e9, "G/s")])
}

/// A rate of bytes in decimal units: `12.3 GB/s` is 12.3 × 10^9 bytes per second.
#[must_use]
pub fn byte_rate(bytes_per_s: f64) -> String {
    scaled(bytes_per_s, &[(1.0, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s")])
}

/// An amount of bits in decimal units: `12.3 Gb` is 12.3 × 10^9 bits.
#[must_use]
pub fn bits(bits: f64) -> String {
    scaled(bits, &[(1.0, "b"), (1e3, "kb"), (1e6, "Mb"), (1e9, "Gb")])
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
    let (kib, mib) = (1024.0, 1024.0 * 1024.0);
    scaled(bytes, &[(1.0, "B"), (kib, "KiB"), (mib, "MiB"), (1024.0 * mib, "GiB")])
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

/// Puts `value` in the largest unit in which it is at least 1 after rounding.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    if !value.is_finite() || value < 0.0 {
        return MISSING.to_owned();
    }
    // 999.5 of a unit would be written as 1000: the next unit takes it.
    let fits = |(factor, _): &&(f64, &str)| value < factor * 999.5;
    match units.iter().find(fits).or(units.last()) {
        Some((factor, unit)) => format!("{} {unit}", three_digits(value / factor)),
        None => three_digits(value),
    }
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
    fn sizes_stay_exact() {
        let cases =
            [(0, "0 B"), (8, "8 B"), (4_095, "4095 B"), (65_536, "64 KiB"), (4 << 20, "4 MiB")];
        for (bytes, expected) in cases {
            assert_eq!(size(bytes), expected);
        }
    }
}
