//! One line of a table of times and sizes: `time_s,bytes` or `time_s,bytes,direction`.
//!
//! The first line may be one of names. Without a direction a message is sent.
//!
//! **Invariants:** numbers that are no time or no size make the line unreadable.

use std::time::Duration;

use super::stream::{Direction, Id, Transfer};

/// Whether the line is that of names.
pub(super) fn is_head(line: &str) -> bool {
    let names = ["time_s", "bytes", "direction"];
    let found: Vec<String> = fields(line).map(str::to_ascii_lowercase).collect();
    found.len() >= 2 && names.starts_with(&found.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Returns what was moved, and whether the line has the direction.
pub(super) fn read(line: &str) -> Option<(Transfer, bool)> {
    let mut fields = fields(line);
    let at_ns = time_ns(fields.next()?)?;
    let bytes: u64 = fields.next()?.parse().ok()?;
    let direction = match fields.next().unwrap_or_default().to_ascii_lowercase().as_str() {
        "" => None,
        "out" | "send" | "sent" | "request" | ">" => Some(Direction::Out),
        "in" | "receive" | "received" | "reply" | "<" => Some(Direction::In),
        _ => return None,
    };
    let (is_known, direction) = (direction.is_some(), direction.unwrap_or(Direction::Out));
    let id = Id { pid: 0, descriptor: 0 };
    Some((Transfer { id, direction, bytes, at_ns, is_socket: true, is_file: false }, is_known))
}

fn fields(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(|field| field.trim().trim_matches('"').trim())
}

/// Seconds as nanoseconds, without losing the last digits of times since 1970.
pub(super) fn time_ns(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let time = match digits(whole) && digits(part) {
        true => {
            let nine: String = part.chars().chain("000000000".chars()).take(9).collect();
            Duration::new(whole.parse().ok()?, nine.parse().ok()?)
        }
        // Such as 1.5e-3.
        false => Duration::try_from_secs_f64(text.parse().ok()?).ok()?,
    };
    u64::try_from(time.as_nanos()).ok().filter(|_| time.as_secs() < SECONDS_MAX)
}

/// Three centuries: whatever counts seconds is below, and nanoseconds fit in 64 bits.
const SECONDS_MAX: u64 = 10_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_last_digits() {
        for (text, expected) in [
            ("1795276511.266688", Some(1_795_276_511_266_688_000)),
            ("0.5", Some(500_000_000)),
            ("7", Some(7_000_000_000)),
            ("1.5e-3", Some(1_500_000)),
        ] {
            assert_eq!(time_ns(text), expected, "{text:?}");
        }
        for text in ["-1", "nan", "inf", "1e300", "99999999999", "", ".", "12:30:01"] {
            assert_eq!(time_ns(text), None, "{text:?}");
        }
    }

    #[test]
    fn lines_are_read_in_full_or_not_at_all() {
        let found = |line| read(line).map(|(moved, known)| (moved.bytes, moved.direction, known));
        assert_eq!(found("0.1, 64"), Some((64, Direction::Out, false)));
        assert_eq!(found("2.5,\"512\",In"), Some((512, Direction::In, true)));
        for line in ["0.1", "0.1,", "0.1,-64", "0.1,64k", "x,64", "0.1,64,up", "", ",", "0.1;64"] {
            assert_eq!(found(line), None, "{line}");
        }
        assert!(is_head("time_s,bytes") && is_head("\"Time_s\", bytes, direction"));
        for line in ["time_s", "a line of a log", "time_s,colour", "bytes,time_s", "0.1,64"] {
            assert!(!is_head(line), "{line}");
        }
    }
}
