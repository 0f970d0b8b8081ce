//! Parsers of option values that clap lacks: sizes, pairs of CPUs, durations.
//!
//! **Invariants:** pure functions of text. An error names the value, what is accepted, and an
//! example.

use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use nearcall_bench::touch::Touch;
use nearcall_channel::WaitPolicy;
use nearcall_channel::wait::UnknownWaitPolicy;
use nearcall_results::route::Caller;
use nearcall_results::shape::{Shape, UnknownShape};
use nearcall_results::sizes::{SizeError, parse_size, parse_sizes};

/// Payload sizes in bytes, in the order given, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sizes(pub(crate) Vec<u64>);

impl FromStr for Sizes {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_sizes(text).map(Self)
    }
}

/// Reads the size of options that take one.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    match text.contains(',') {
        true => Err(format!("{text:?} is a list; give one size such as 1KiB")),
        false => parse_size(text).map_err(|error| error.to_string()),
    }
}

/// The CPUs of client and server. Whether they exist is not known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pin {
    pub(crate) client: u32,
    pub(crate) server: u32,
}

impl FromStr for Pin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let pair = text.split_once(',').and_then(|(client, server)| {
            Some(Self { client: client.trim().parse().ok()?, server: server.trim().parse().ok()? })
        });
        pair.ok_or_else(|| "give two CPU numbers such as 0,1".to_owned())
    }
}

/// A parser of shapes that lists them when it refuses.
pub(crate) fn shape() -> impl TypedValueParser<Value = Shape> {
    let names = PossibleValuesParser::new(Shape::ALL.map(Shape::name));
    names.try_map(|name| -> Result<Shape, UnknownShape> { name.parse() })
}

/// A parser of clients that lists them when it refuses.
pub(crate) fn client() -> impl TypedValueParser<Value = Caller> {
    let names = PossibleValuesParser::new(Caller::ALL.map(Caller::name));
    names.try_map(|name| -> Result<Caller, String> { name.parse() })
}

/// A parser of wait policies that lists them when it refuses.
pub(crate) fn wait() -> impl TypedValueParser<Value = WaitPolicy> {
    let names = PossibleValuesParser::new(WaitPolicy::ALL.map(WaitPolicy::name));
    names.try_map(|name| -> Result<WaitPolicy, UnknownWaitPolicy> { name.parse() })
}

/// A parser of the accessed part of a payload that lists the parts when it refuses.
pub(crate) fn payload_access() -> impl TypedValueParser<Value = Touch> {
    let names = PossibleValuesParser::new(Touch::ALL.map(Touch::name));
    let find = |name: String| Touch::ALL.into_iter().find(|one| one.name() == name);
    names.try_map(move |name| find(name).ok_or("this is no part of a payload"))
}

/// Reads a duration: a decimal number with a unit. Only 0 needs none.
fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let refuse = || {
        format!(
            "{text:?} is not a duration; give a number with a unit (ns, us, ms, s, m, h), such as \
             30s or 1.5ms"
        )
    };
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, unit) = text.split_at(digits);
    let unit_s = match unit.trim_start() {
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "" if number == "0" => 1.0,
        _ => return Err(refuse()),
    };
    let number: f64 = number.parse().map_err(|_| refuse())?;
    Duration::try_from_secs_f64(number * unit_s).or(Ok(Duration::MAX))
}

/// Reads a duration from `min` to `max`.
fn duration_within(text: &str, min: Duration, max: Duration) -> Result<Duration, String> {
    match duration(text)? {
        found if found < min => Err(format!("{text:?} is below the minimum of {min:?}")),
        found if found > max => Err(format!("{text:?} is above the limit of {max:?}")),
        found => Ok(found),
    }
}

/// Reads the longest time of a measurement. A number without a unit is seconds.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let found = match is_plain && !text.is_empty() {
        true => duration(&format!("{text}s")).or_else(|_| duration(text)),
        false => duration(text),
    };
    match found? {
        found if found < TIME_MIN => {
            Err(format!("{text:?} is below 1s, and nothing can be measured within a second"))
        }
        found if found > TIME_MAX => Err(format!("{text:?} is above the limit of 24h")),
        found => Ok(found),
    }
}

/// Reads the longest wait for something that ends.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    duration_within(text, Duration::ZERO, TIME_MAX)
}

/// Reads a wait for the clients of a server.
pub(crate) fn ask_timeout(text: &str) -> Result<Duration, String> {
    duration_within(text, ASK_TIME_MIN, ASK_TIME_MAX)
}

/// Reads the time between two looks at servers.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    duration_within(text, INTERVAL_MIN, ASK_TIME_MAX)
}

/// A server that is asked more often works for whoever looks.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Shorter ones would watch nothing, and no client answers sooner.
const ASK_TIME_MIN: Duration = Duration::from_millis(1);

/// As long as a server waits for its clients at most.
const ASK_TIME_MAX: Duration = Duration::from_secs(60);

/// Reads a gap between messages, in nanoseconds.
pub(crate) fn gap_ns(text: &str) -> Result<u64, String> {
    duration_within(text, Duration::ZERO, GAP_MAX).map(nanoseconds)
}

/// Reads the length of a stall of the server, in nanoseconds.
pub(crate) fn stall_ns(text: &str) -> Result<u64, String> {
    duration_within(text, STALL_MIN, GAP_MAX).map(nanoseconds)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Starting processes alone takes a good part of it.
const TIME_MIN: Duration = Duration::from_secs(1);

/// A longer time is a mistake in the unit.
const TIME_MAX: Duration = Duration::from_secs(86_400);

/// A longer gap or stall would be the whole measurement.
const GAP_MAX: Duration = Duration::from_secs(1);

/// A shorter stall is like any wake-up.
const STALL_MIN: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_grammar_of_durations_has_all_units() {
        let cases = [
            ("0", 0),
            ("5ns", 5),
            ("10us", 10_000),
            ("10 µs", 10_000),
            ("1.5ms", 1_500_000),
            ("1s", 1_000_000_000),
            ("2m", 120_000_000_000),
            ("2min", 120_000_000_000),
            ("1h", 3_600_000_000_000),
        ];
        for (text, ns) in cases {
            assert_eq!(duration(text), Ok(Duration::from_nanos(ns)), "{text}");
        }
        for text in ["", "5", "s", "ms", "soon", "1..2ms", "-1ms", "inf", "1e3us", "NaNs", "3d"] {
            let error = duration(text).expect_err("no duration");
            assert!(error.starts_with(&format!("{text:?} is not a duration; give ")), "{error}");
            assert!(error.ends_with("such as 30s or 1.5ms"), "{error}");
        }
    }

    #[test]
    fn a_time_may_be_plain_seconds() {
        let cases = [("30s", 30.0), ("2m", 120.0), ("90", 90.0), ("1.5m", 90.0), ("24h", 86_400.0)];
        for (text, seconds) in cases {
            assert_eq!(time(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["", "s", "m", "soon", "-5", "1e3", "inf", "NaN", "3d", "1m30s", "1..2"] {
            assert!(time(text).unwrap_err().contains("is not a duration; give "), "{text:?}");
        }
        for text in ["0", "0s", "300ms"] {
            assert!(time(text).unwrap_err().contains("nothing can be measured"), "{text:?}");
        }
        for text in ["25h", "86401", "99999999999999999999999h"] {
            assert!(time(text).unwrap_err().contains("is above the limit of 24h"), "{text:?}");
        }
    }

    #[test]
    fn gaps_and_stalls_have_limits() {
        assert_eq!((gap_ns("0"), gap_ns("1s")), (Ok(0), Ok(1_000_000_000)));
        assert_eq!(gap_ns("2s"), Err("\"2s\" is above the limit of 1s".to_owned()));
        assert!(gap_ns("1m").is_err() && gap_ns("10").is_err());
        assert_eq!(timeout("24h"), Ok(Duration::from_secs(86_400)));
        assert!(timeout("25h").unwrap_err().contains("above the limit"));
        assert_eq!(stall_ns("10us"), Err("\"10us\" is below the minimum of 1ms".to_owned()));
        assert_eq!(stall_ns("100ms"), Ok(100_000_000));
    }

    #[test]
    fn a_list_is_no_size() {
        assert_eq!((size("1KiB"), size("8KB")), (Ok(1_024), Ok(8_000)));
        assert!(size("8,16").unwrap_err().contains("give one size such as 1KiB"));
        assert!(size("0").is_err());
    }

    #[test]
    fn a_pair_of_cpus_is_two_numbers() {
        assert_eq!("0, 3".parse(), Ok(Pin { client: 0, server: 3 }));
        for text in ["", "1", "1,", ",1", "1,2,3", "a,b", "-1,0"] {
            assert!(text.parse::<Pin>().is_err(), "{text:?}");
        }
    }
}
