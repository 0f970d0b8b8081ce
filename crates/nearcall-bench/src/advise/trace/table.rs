//! One line of a table of times and sizes.
//!
//! `time_s,bytes` or `time_s,bytes,direction`, with a first line of names or without; with names,
//! the columns may stand in any order among others. Always true: numbers that are no time or no
//! size make garbage of the line. Without a direction a message is on its way from us.

use std::time::Duration;

use super::stream::{Direction, Id, Move};

/// Which column is which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Columns {
    time: usize,
    bytes: usize,
    direction: Option<usize>,
}

impl Columns {
    /// Those of a table without names.
    const USUAL: Self = Self { time: 0, bytes: 1, direction: Some(2) };

    /// Those of a table that begins with this line, if it is one: a line of names or of numbers.
    pub(super) fn of_first(line: &str) -> Option<Self> {
        let names: Vec<String> = fields(line).map(str::to_ascii_lowercase).collect();
        let place = |wanted: &[&str]| names.iter().position(|name| wanted.contains(&name.as_str()));
        let time = place(&["time_s", "time", "timestamp"]);
        match (time, place(&["bytes", "size", "size_bytes"])) {
            (Some(time), Some(bytes)) => {
                Some(Self { time, bytes, direction: place(&["direction"]) })
            }
            _ => Self::USUAL.read(line).map(|_| Self::USUAL),
        }
    }

    /// Whether the line is one of names.
    pub(super) fn is_head(&self, line: &str) -> bool {
        self.read(line).is_none() && Self::of_first(line).is_some_and(|found| found == *self)
    }

    /// What the line says was moved, and whether it knows the direction.
    pub(super) fn read(&self, line: &str) -> Option<(Move, bool)> {
        let at_ns = time_ns(fields(line).nth(self.time)?)?;
        let bytes: u64 = fields(line).nth(self.bytes)?.parse().ok()?;
        let word = self.direction.and_then(|at| fields(line).nth(at)).unwrap_or_default();
        let direction = match word.to_ascii_lowercase().as_str() {
            "" => None,
            "out" | "send" | "sent" | "request" | ">" => Some(Direction::Out),
            "in" | "receive" | "received" | "reply" | "<" => Some(Direction::In),
            _ => return None,
        };
        let moved = Move {
            id: Id { pid: 0, descriptor: 0, generation: 0 },
            direction: direction.unwrap_or(Direction::Out),
            bytes,
            at_ns,
            is_socket: true,
            is_file: false,
        };
        Some((moved, direction.is_some()))
    }
}

fn fields(line: &str) -> impl Iterator<Item = &str> {
    line.split(',').map(|field| field.trim().trim_matches('"').trim())
}

/// Seconds as nanoseconds, without losing the last digits of times since 1970.
pub(super) fn time_ns(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        // Such as 1.5e-3.
        let time = Duration::try_from_secs_f64(text.parse().ok()?).ok()?;
        let is_time = time.as_secs() < SECONDS_MAX;
        return u64::try_from(time.as_nanos()).ok().filter(|_| is_time);
    }
    let seconds: u64 = whole.parse().ok().filter(|seconds| *seconds < SECONDS_MAX)?;
    let nine: String = part.chars().chain("000000000".chars()).take(9).collect();
    Some(seconds * NS_PER_S + nine.parse::<u64>().ok()?)
}

const NS_PER_S: u64 = 1_000_000_000;

/// Three centuries: whatever counts seconds is below, and nanoseconds fit in 64 bits.
const SECONDS_MAX: u64 = 10_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_their_last_digits() {
        let cases = [
            ("1795276511.266688", Some(1_795_276_511_266_688_000)),
            ("0.5", Some(500_000_000)),
            ("7", Some(7_000_000_000)),
            ("1.5e-3", Some(1_500_000)),
            ("-1", None),
            ("nan", None),
            ("inf", None),
            ("1e300", None),
            ("99999999999", None),
            ("", None),
            (".", None),
            ("12:30:01", None),
        ];
        for (text, expected) in cases {
            assert_eq!(time_ns(text), expected, "{text:?}");
        }
    }

    #[test]
    fn columns_are_found_by_their_names_or_by_their_place() {
        let usual = Columns::of_first("0.1, 64").unwrap();
        assert_eq!(usual, Columns::USUAL);
        assert!(Columns::of_first("a line of a log").is_none());
        assert!(Columns::of_first("time_s,colour").is_none());
        let named = Columns::of_first("direction,\"bytes\",peer,Time_s").unwrap();
        let (moved, known) = named.read("in,512,b,2.5").unwrap();
        assert_eq!((moved.at_ns, moved.bytes), (2_500_000_000, 512));
        assert_eq!((moved.direction, known), (Direction::In, true));
        assert!(named.is_head("direction,bytes,peer,time_s") && !named.is_head("in,512,b,2.5"));
    }

    #[test]
    fn what_is_no_size_or_direction_is_garbage() {
        let read = |line| Columns::USUAL.read(line);
        assert_eq!(read("0.1,64").map(|(moved, known)| (moved.bytes, known)), Some((64, false)));
        for line in ["0.1", "0.1,", "0.1,-64", "0.1,64k", "x,64", "0.1,64,up", "", ",", "0.1;64"] {
            assert!(read(line).is_none(), "{line}");
        }
    }
}
