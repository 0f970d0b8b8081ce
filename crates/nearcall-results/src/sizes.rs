//! Message sizes, from text to bytes.

use crate::report::number;

/// Reads a list of message sizes such as `8,1KiB,64K,1MB`, in the order given, each once.
///
/// # Errors
///
/// As [`parse_size`], for the first item that is refused.
pub fn parse_sizes(text: &str) -> Result<Vec<u64>, SizeError> {
    let mut sizes = Vec::new();
    for item in text.split(',') {
        let size = parse_size(item)?;
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    Ok(sizes)
}

/// Reads one message size in bytes: a whole number with an optional unit in any case.
///
/// `K`, `KiB`, `M` and `MiB` are powers of 1,024; `KB` and `MB` are powers of 1,000; `B` is a byte.
///
/// # Errors
///
/// [`SizeError`] names the text that was refused, and what is accepted.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    parse_bytes(text, MESSAGE_BYTES_MAX)
}

/// Reads a number of bytes up to `max`, as [`parse_size`] does one of a message; also `G`, `GiB`
/// and `GB`.
///
/// # Errors
///
/// [`SizeError`] names the text that was refused, and what is accepted.
pub fn parse_bytes(text: &str, max: u64) -> Result<u64, SizeError> {
    let item = text.trim();
    if item.is_empty() {
        return Err(SizeError::Empty);
    }
    let digits = item.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = item.split_at(digits);
    if number.is_empty() {
        return Err(SizeError::NotASize(item.to_owned()));
    }
    let factor: u64 = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "kb" => 1_000,
        "m" | "mib" => 1 << 20,
        "mb" => 1_000_000,
        "g" | "gib" => 1 << 30,
        "gb" => 1_000_000_000,
        _ => return Err(SizeError::NotASize(item.to_owned())),
    };
    // Only digits stand here, so what fails to fit is too large.
    let size = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    match size {
        Some(0) => Err(SizeError::Zero(item.to_owned())),
        Some(size) if size <= max => Ok(size),
        _ => Err(SizeError::TooLarge(item.to_owned(), max)),
    }
}

/// Why a size was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Nothing stands between two commas, or in the whole list.
    #[error("a size is missing; {ACCEPTED}")]
    Empty,
    /// The item is not a number, or has an unknown unit.
    #[error("{0:?} is not a size; {ACCEPTED}")]
    NotASize(String),
    /// The item is 0: a message without payload measures nothing about its size.
    #[error("size {0:?} is zero; the smallest is 1 byte")]
    Zero(String),
    /// The item is above this limit, in bytes.
    #[error("size {0:?} is above the limit of {limit}", limit = number::size(*.1))]
    TooLarge(String, u64),
}

const ACCEPTED: &str = "\
    give a whole number of bytes with or without a unit (B; K, KiB, M, MiB = powers of 1,024; KB, \
    MB = powers of 1,000), such as 8, 64KiB or 1MB";

/// The largest message that is measured: the default limit of a connection.
pub const MESSAGE_BYTES_MAX: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[u64]) {
        assert_eq!(parse_sizes(text).as_deref(), Ok(expected));
    }

    #[track_caller]
    fn check_refused(text: &str, expected: &str) {
        assert_eq!(parse_sizes(text).expect_err("refused").to_string(), expected);
    }

    #[track_caller]
    fn check_not_a_size(text: &str, start: &str) {
        let error = parse_sizes(text).expect_err("refused").to_string();
        assert!(error.starts_with(&format!("{start}; give a whole number of bytes")), "{error}");
        assert!(error.ends_with("such as 8, 64KiB or 1MB"), "{error}");
    }

    #[test]
    fn sizes_are_read_with_and_without_units() {
        check("8,1KiB,64KiB,1MiB", &[8, 1_024, 65_536, 1_048_576]);
        check(" 1 , 63b, 2K,2k,4M , 4096kib,3 KiB", &[1, 63, 2_048, 4_194_304, 3_072]);
        check("00065537", &[65_537]);
    }

    #[test]
    fn kb_and_mb_are_decimal() {
        check("8k,8K,8KiB,8kib", &[8_192]);
        check("8KB,8kb,1MB,8000", &[8_000, 1_000_000]);
        assert_eq!(parse_size(" 1KB "), Ok(1_000));
        assert_eq!(parse_bytes("2GiB", u64::MAX), Ok(2 << 30));
        assert_eq!(parse_bytes("64MiB", u64::MAX), Ok(64 << 20));
        assert_eq!(parse_bytes("7", u64::MAX), Ok(7));
        assert_eq!(parse_bytes("2 KiB", u64::MAX), Ok(2048));
        assert_eq!(parse_bytes("1GB", u64::MAX), Ok(1_000_000_000));
    }

    #[test]
    fn bad_sizes_are_refused_with_the_reason() {
        check_not_a_size("", "a size is missing");
        check_not_a_size("8,,9", "a size is missing");
        check_refused("0", "size \"0\" is zero; the smallest is 1 byte");
        check_refused("8,0KiB", "size \"0KiB\" is zero; the smallest is 1 byte");
        for huge in ["4194305", "5MiB", "4195KB", "1G", "99999999999999999999999"] {
            check_refused(huge, &format!("size {huge:?} is above the limit of 4 MiB"));
        }
        check_refused(
            "18446744073709551615M",
            "size \"18446744073709551615M\" is above the limit of 4 MiB",
        );
        for bad in ["eight", "-8", "1.5KiB", "1XB", "1KiBs", "8\u{1b}"] {
            check_not_a_size(bad, &format!("{bad:?} is not a size"));
        }
        for bad in ["", "0", "-1", "1.5MiB", "MiB", "99999999999GiB"] {
            assert!(parse_bytes(bad, u64::MAX).is_err(), "{bad}");
        }
        let list = parse_size("8,9").expect_err("one size only");
        assert_eq!(list, SizeError::NotASize("8,9".to_owned()));
    }
}
