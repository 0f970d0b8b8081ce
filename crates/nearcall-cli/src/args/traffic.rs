//! Words of `bench pace` and of what else is measured under traffic of its own kind.

use clap::Args;
use nearcall_bench::plan::parse_sizes;
use nearcall_channel::{Mechanism, WaitPolicy};

use super::load::LoadArgs;
use super::value;
use super::{HowArgs, PlaceArgs, WHAT};

/// Options of `bench pace`.
#[derive(Debug, Args)]
pub(crate) struct PaceArgs {
    /// Exchanges per second, such as 1000,10000 [default: 1000,10000,100000]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=RATE_MAX),
        help_heading = WHAT
    )]
    pub(crate) rate: Option<Vec<u32>>,

    /// Self-test: the server sleeps so long, such as 100ms, a tenth of the time
    ///
    /// Under open_loop the p99 rises to about that time, since all that was due meanwhile
    /// is late; under closed_loop neither median nor p99 shows it.
    #[arg(
        long,
        value_name = "TIME",
        allow_negative_numbers = true,
        value_parser = stall,
        verbatim_doc_comment,
        help_heading = WHAT
    )]
    pub(crate) stall: Option<u64>,

    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
}

/// Options of `bench gap`.
#[derive(Debug, Args)]
pub(crate) struct GapArgs {
    /// Gaps, such as 0,10us,1ms [default: 0,10us,100us,1ms,10ms,100ms]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        allow_negative_numbers = true,
        value_parser = span,
        help_heading = WHAT
    )]
    pub(crate) gap: Option<Vec<u64>>,

    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
}

/// Options of `bench burst`.
#[derive(Debug, Args)]
pub(crate) struct BurstArgs {
    /// Messages of a burst, such as 1,64 [default: 1,8,64,512]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=BURST_MAX),
        help_heading = WHAT
    )]
    pub(crate) messages: Option<Vec<u32>>,

    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
}

/// Options of `bench clients`.
#[derive(Debug, Args)]
pub(crate) struct ClientsArgs {
    /// How many clients at once, such as 1,32 [default: 1,4,16,64,256]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u32).range(1..=CLIENTS_MAX),
        help_heading = WHAT
    )]
    pub(crate) clients: Option<Vec<u32>>,

    /// Mechanisms, separated by commas [default: shm,unix-stream]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = WHAT)]
    pub(crate) via: Option<Vec<Mechanism>>,

    /// How a client waits: adaptive, spin, block (in a call)
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = value::wait(),
        hide_possible_values = true,
        help_heading = WHAT
    )]
    pub(crate) wait: Option<Vec<WaitPolicy>>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    #[command(flatten)]
    pub(crate) load: LoadArgs,

    #[command(flatten)]
    pub(crate) how: HowArgs,
}

/// Options of `bench start`.
#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
}

/// What most of these have.
#[derive(Debug, Args)]
pub(crate) struct TrafficArgs {
    /// Mechanisms, separated by commas [default: those in common use]
    #[arg(long, value_name = "LIST", value_delimiter = ',', help_heading = WHAT)]
    pub(crate) mechanism: Option<Vec<Mechanism>>,

    /// Payload size, from 1 byte to 4 MiB
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "8",
        allow_negative_numbers = true,
        value_parser = size,
        help_heading = WHAT
    )]
    pub(crate) size: u64,

    /// How both ends wait: adaptive, spin, block (in a call), poll (in epoll)
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = value::wait(),
        hide_possible_values = true,
        help_heading = WHAT
    )]
    pub(crate) wait: Option<Vec<WaitPolicy>>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    #[command(flatten)]
    pub(crate) load: LoadArgs,

    #[command(flatten)]
    pub(crate) how: HowArgs,
}

/// One payload size.
fn size(text: &str) -> Result<u64, String> {
    match parse_sizes(text).map_err(|error| error.to_string())?[..] {
        [size] => Ok(size),
        _ => Err("give one size such as 8 or 1KiB".to_owned()),
    }
}

/// A length of time in nanoseconds: `0`, `10us`, `1.5ms`, `2s`.
fn span(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, unit) = text.split_at(digits);
    let unit_ns = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        // Zero needs no unit.
        "" if number == "0" => 1.0,
        _ => return Err(SPAN_ADVICE.to_owned()),
    };
    let number = number.parse::<f64>().map_err(|_| SPAN_ADVICE.to_owned())?;
    match std::time::Duration::try_from_secs_f64(number * unit_ns / 1e9) {
        Ok(span) if span <= SPAN_MAX => Ok(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)),
        _ => Err("the longest is 1s".to_owned()),
    }
}

fn stall(text: &str) -> Result<u64, String> {
    match span(text)? {
        ns if ns < STALL_NS_MIN => Err("the shortest stall is 1ms".to_owned()),
        ns => Ok(ns),
    }
}

/// Examples of `bench pace`.
pub(super) const PACE_EXAMPLES: &str = "\
Examples:
  nearcall bench pace                            three rates, within two minutes
  nearcall bench pace --quick                    a first look: 10,000 per second
  nearcall bench pace --rate 1000,10000 --mechanism shm,pipe --size 1KiB
  nearcall bench pace --rate 10000 --stall 100ms --mechanism unix-stream
  nearcall bench pace --load 35% --rate 1000 --mechanism shm,tcp
  nearcall bench pace --json | jq '.cells[] | [.mechanism, .pace.rate_per_s, .rtt_ns.p99]'";

/// Examples of `bench gap`.
pub(super) const GAP_EXAMPLES: &str = "\
Examples:
  nearcall bench gap                             six gaps, within two minutes
  nearcall bench gap --quick                     a first look, without the longest
  nearcall bench gap --gap 0,50us,5ms --mechanism shm --wait adaptive,block
  nearcall bench gap --json | jq '.cells[] | [.mechanism, .gap.gap_ns, .rtt_ns.p50]'";

/// Examples of `bench burst`.
pub(super) const BURST_EXAMPLES: &str = "\
Examples:
  nearcall bench burst                           bursts of 1, 8, 64 and 512, within two minutes
  nearcall bench burst --quick                   a first look
  nearcall bench burst --messages 1,1000 --size 1KiB --mechanism shm,unix-stream
  nearcall bench burst --json | jq '.cells[] | [.mechanism, .burst.per_message_ns]'";

/// Examples of `bench clients`.
pub(super) const CLIENTS_EXAMPLES: &str = "\
Examples:
  nearcall bench clients                         1 to 256 clients, within two minutes
  nearcall bench clients --quick                 a first look, up to 64
  nearcall bench clients --clients 1,100 --via shm-eventfd,unix-stream
  nearcall bench clients --json | jq '.cells[] | [.mechanism, .clients.calls_per_s]'";

/// Examples of `bench start`.
pub(super) const START_EXAMPLES: &str = "\
Examples:
  nearcall bench start                           every mechanism, within two minutes
  nearcall bench start --quick                   a first look
  nearcall bench start --mechanism shm,unix-stream --launches 30
  nearcall bench start --json | jq '.cells[] | [.mechanism, .start.tear_down_ns.p50]'";

/// A server takes 2048 connections of one user, and one of them is that of the runner; some are
/// left for others.
const CLIENTS_MAX: i64 = 2_000;

/// A longer burst is a throughput, which `bench throughput` measures.
const BURST_MAX: i64 = 100_000;

/// Faster, reading the clock would be most of it.
const RATE_MAX: i64 = 1_000_000;

/// A longer time would be the whole measurement.
const SPAN_MAX: std::time::Duration = std::time::Duration::from_secs(1);

/// A shorter one is like any wake-up.
const STALL_NS_MIN: u64 = 1_000_000;

const SPAN_ADVICE: &str = "give a time such as 10us, 1ms or 0";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_with_their_units() {
        let cases = [("0", 0), ("10us", 10_000), ("1.5ms", 1_500_000), ("1s", 1_000_000_000)];
        for (text, ns) in cases {
            assert_eq!(span(text), Ok(ns), "{text}");
        }
        for text in ["", "5", "ms", "1..2ms", "-1ms", "1m", "inf", "1e3us", "NaNs"] {
            assert_eq!(span(text), Err(SPAN_ADVICE.to_owned()), "{text:?}");
        }
        assert_eq!(span("2s"), Err("the longest is 1s".to_owned()));
        assert_eq!(stall("10us"), Err("the shortest stall is 1ms".to_owned()));
    }

    #[test]
    fn a_list_is_no_size() {
        assert_eq!(size("1KiB"), Ok(1_024));
        assert!(size("8,16").unwrap_err().contains("one size") && size("0").is_err());
    }
}
