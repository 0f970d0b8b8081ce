//! Values of options that clap does not know: sizes, pairs of CPUs, lengths of time.
//!
//! Pure functions of text. Messages say what would be right.

use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use nearcall_bench::bench_plan::{Shape, UnknownShape};
use nearcall_bench::calls::route::Caller;
use nearcall_bench::plan::{SizeError, parse_sizes};
use nearcall_channel::WaitPolicy;
use nearcall_channel::wait::UnknownWaitPolicy;

/// Payload sizes in bytes, in the order given, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sizes(pub(crate) Vec<u64>);

impl FromStr for Sizes {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse_sizes(text).map(Self)
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
pub(super) fn shape() -> impl TypedValueParser<Value = Shape> {
    let names = PossibleValuesParser::new(Shape::ALL.map(Shape::name));
    names.try_map(|word| -> Result<Shape, UnknownShape> { word.parse() })
}

/// A parser of callers that lists them when it refuses.
pub(super) fn caller() -> impl TypedValueParser<Value = Caller> {
    let names = PossibleValuesParser::new(Caller::ALL.map(Caller::name));
    names.try_map(|word| -> Result<Caller, String> { word.parse() })
}

/// A parser of wait policies that lists them when it refuses.
pub(super) fn wait() -> impl TypedValueParser<Value = WaitPolicy> {
    let names = PossibleValuesParser::new(WaitPolicy::ALL.map(WaitPolicy::name));
    names.try_map(|word| -> Result<WaitPolicy, UnknownWaitPolicy> { word.parse() })
}

/// Reads a length of time: `30s`, `2m`, `1.5h`, or plain seconds.
pub(super) fn budget(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let (number, unit_s) = match text.as_bytes().last() {
        Some(b's') => (&text[..text.len() - 1], 1.0),
        Some(b'm') => (&text[..text.len() - 1], 60.0),
        Some(b'h') => (&text[..text.len() - 1], 3_600.0),
        _ => (text, 1.0),
    };
    // Otherwise `inf`, `1e3` and `-5` would be numbers too.
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = number.trim().parse::<f64>().ok().filter(|_| is_plain);
    let seconds = number.ok_or("give a time such as 30s, 2m or 90")? * unit_s;
    match seconds {
        seconds if seconds < BUDGET_S_MIN => Err("nothing can be measured within a second".into()),
        seconds if seconds > BUDGET_S_MAX => Err("the longest is 24h".into()),
        seconds => Ok(Duration::from_secs_f64(seconds)),
    }
}

/// Starting processes alone takes a good part of it.
const BUDGET_S_MIN: f64 = 1.0;

/// Whoever wants more has made a mistake in the unit.
const BUDGET_S_MAX: f64 = 86_400.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_with_and_without_units() {
        let cases = [("30s", 30.0), ("2m", 120.0), ("90", 90.0), ("1.5m", 90.0), ("24h", 86_400.0)];
        for (text, seconds) in cases {
            assert_eq!(budget(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
    }

    #[test]
    fn what_is_no_length_of_time_is_refused() {
        for text in ["", "s", "m", "soon", "-5", "1e3", "inf", "NaN", "3d", "1m30s", "1..2"] {
            assert_eq!(budget(text), Err("give a time such as 30s, 2m or 90".into()), "{text:?}");
        }
        assert_eq!(budget("0"), Err("nothing can be measured within a second".into()));
        assert_eq!(budget("25h"), Err("the longest is 24h".into()));
    }

    #[test]
    fn a_pair_of_cpus_is_two_numbers() {
        assert_eq!("0, 3".parse(), Ok(Pin { client: 0, server: 3 }));
        for text in ["", "1", "1,", ",1", "1,2,3", "a,b", "-1,0"] {
            assert!(text.parse::<Pin>().is_err(), "{text:?}");
        }
    }
}
