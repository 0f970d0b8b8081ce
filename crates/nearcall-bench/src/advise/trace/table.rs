//! One line of a table of times and sizes.
//!
//! `time_s,bytes` or `time_s,bytes,direction`, with a first line of names or without; with names,
//! the columns may stand in any order among others. Without a direction a message is sent.
//!
//! **Invariants:** numbers that are no time or no size make the line unreadable.

use std::time::Duration;

use super::stream::{Direction, Id, Transfer};

/// The places of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    time: usize,
    bytes: usize,
    direction: Option<usize>,
}

impl Columns {
    /// Those of a table without names.
    const UNNAMED: Self = Self { time: 0, bytes: 1, direction: Some(2) };

    /// Those of a table that begins with this line, if it is one: a line of names or of numbers.
    pub(super) fn from_first(line: &str) -> Option<Self> {
        let names: Vec<String> = fields(line).map(str::to_ascii_lowercase).collect();
        let place = |wanted: &[&str]| names.iter().position(|name| wanted.contains(&name.as_str()));
        let time = place(&["time_s", "time", "timestamp"]);
        match (time, place(&["bytes", "size", "size_bytes"])) {
            (Some(time), Some(bytes)) => {
                Some(Self { time, bytes, direction: place(&["direction"]) })
            }
            _ => Self::UNNAMED.read(line).map(|_| Self::UNNAMED),
        }
    }

    /// Whether the line is one of names.
    pub(super) fn is_head(&self, line: &str) -> bool {
        self.read(line).is_none() && Self::from_first(line).is_some_and(|found| found == *self)
    }

    /// What was moved, and whether the line knows the direction.
    pub(super) fn read(&self, line: &str) -> Option<(Transfer, bool)> {
        let at_ns = time_ns(fields(line).nth(self.time)?)?;
        let bytes: u64 = fields(line).nth(self.bytes)?.parse().ok()?;
        let word = self.direction.and_then(|at| fields(line).nth(at)).unwrap_or_default();
        let direction = match word.to_ascii_lowercase().as_str() {
            "" => None,
            "out" | "send" | "sent" | "request" | ">" => Some(Direction::Out),
            "in" | "receive" | "received" | "reply" | "<" => Some(Direction::In),
            _ => return None,
        };
        let (is_known, direction) = (direction.is_some(), direction.unwrap_or(Direction::Out));
        let id = Id { pid: 0, descriptor: 0 };
        Some((Transfer { id, direction, bytes, at_ns, is_socket: true, is_file: false }, is_known))
    }
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
    fn columns_are_found_by_their_names_or_by_their_place() {
        assert_eq!(Columns::from_first("0.1, 64"), Some(Columns::UNNAMED));
        assert!(Columns::from_first("a line of a log").is_none());
        assert!(Columns::from_first("time_s,colour").is_none());
        let named = Columns::from_first("direction,\"bytes\",peer,Time_s").unwrap();
        let (moved, known) = named.read("in,512,b,2.5").unwrap();
        assert_eq!((moved.at_ns, moved.bytes), (2_500_000_000, 512));
        assert_eq!((moved.direction, known), (Direction::In, true));
        assert!(named.is_head("direction,bytes,peer,time_s") && !named.is_head("in,512,b,2.5"));
    }

    #[test]
    fn other_lines_are_not_read() {
        let read = |line| Columns::UNNAMED.read(line).map(|(moved, known)| (moved.bytes, known));
        assert_eq!(read("0.1,64"), Some((64, false)));
        for line in ["0.1", "0.1,", "0.1,-64", "0.1,64k", "x,64", "0.1,64,up", "", ",", "0.1;64"] {
            assert!(read(line).is_none(), "{line}");
        }
    }
}
