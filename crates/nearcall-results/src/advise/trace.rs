//! Recorded traffic of a program as figures, and the requirements that follow from them.
//!
//! Reads a table of times and sizes (`time_s,bytes` and, where it is known, `direction`), or the
//! output of `strace -f -ttt -e trace=%network,read,write`. The first readable line decides which.
//!
//! The requirements are those of the typical message: of calls or of one-way messages, whichever
//! are more frequent, with their median size, the mean size of their replies and the rate of the
//! busiest stream. What they do not stand for is reported beside the evidence.
//!
//! **Invariants:** memory is bounded, whatever the file holds; no text makes it panic; unreadable
//! lines are counted and the first one is kept; what was left out is in the notes.
//!
//! **Not here:** the meaning of one line (`trace/strace.rs`, `trace/table.rs`), the counts of one
//! descriptor (`trace/stream.rs`).

use std::io::{self, BufRead, Read};

use serde::{Deserialize, Serialize};

use self::reader::Reader;
use super::{Advice, Pattern, Refusal, Requirements, advise};
use crate::report::number;
use crate::run::Run;
use crate::sizes::MESSAGE_BYTES_MAX;

mod reader;
mod sizes;
mod strace;
mod stream;
mod table;
#[cfg(test)]
mod tests;
mod text;

pub use self::sizes::{Quantiles, SizeRange};
pub use self::text::summary;

/// The figures of a recording. A message is what one end wrote at once; a call is a message that
/// the other end answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// The kind of file.
    pub format: Format,
    /// Lines that were read.
    pub lines: u64,
    /// Lines that could not be parsed.
    pub garbage_lines: u64,
    /// The first of them.
    pub first_garbage: Option<UnparsedLine>,
    /// Calls and one-way messages; replies are not counted.
    pub messages: u64,
    /// From the first to the last of them, in seconds.
    pub span_s: f64,
    /// Messages per second of the busiest stream, over all of its time; `null` with fewer than two.
    pub rate_per_s: Option<f64>,
    /// Messages of the busiest stream in its busiest second.
    pub busiest_second: u64,
    /// Sizes of all messages in bytes.
    pub sizes_bytes: Quantiles,
    /// Sizes of those that were answered; `null` without any.
    pub calls_bytes: Option<Quantiles>,
    /// Sizes of the others; `null` without any.
    pub one_way_bytes: Option<Quantiles>,
    /// The mean size of a reply; `null` without any.
    pub reply_bytes: Option<u64>,
    /// The part of the messages that were answered, from 0 to 1; `null` if the table has no
    /// directions.
    pub answered: Option<f64>,
    /// The messages by their size.
    pub ranges: Vec<SizeRange>,
    /// Both directions of one descriptor, the busiest first; only so many are listed.
    pub streams: Vec<StreamFacts>,
    /// What was left out or is uncertain, in sentences.
    pub notes: Vec<String>,
}

/// The kind of file of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Times and sizes, separated by commas.
    Csv,
    /// The output of strace.
    Strace,
}

/// A line that could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnparsedLine {
    /// Its number, from 1.
    pub line: u64,
    /// Its beginning.
    pub text: String,
}

/// The traffic of one descriptor of one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamFacts {
    /// The thread's number; 0 in a table.
    pub pid: u32,
    /// The descriptor; 0 in a table.
    pub descriptor: u32,
    /// Whether it asks, or answers what the other end asks.
    pub asks: bool,
    /// Calls and one-way messages.
    pub messages: u64,
    /// Those that were answered.
    pub answered: u64,
    /// Bytes written.
    pub sent_bytes: u64,
    /// Bytes read.
    pub received_bytes: u64,
    /// Messages per second over all of its time; `null` with fewer than two.
    pub rate_per_s: Option<f64>,
}

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be read.
    #[error("cannot read the recording: {0}")]
    Read(io::Error),
    /// No line could be parsed.
    #[error(
        "this is no recording: none of its {lines} lines is `time_s,bytes` or from `strace -f \
         -ttt`; line {}: {:?}", first.line, first.text
    )]
    Garbage {
        /// How many there were.
        lines: u64,
        /// The first.
        first: UnparsedLine,
    },
    /// Lines were parsed, but no message was moved in them.
    #[error("the recording has no messages: none of its {lines} lines moved a byte")]
    NoMessages {
        /// How many there were.
        lines: u64,
    },
}

/// Reads a recording to its end, or to the limit of what is read of one.
///
/// Blocks as long as `input` does; a few hundred megabytes take a second. Memory is bounded.
///
/// # Errors
///
/// [`TraceError`]: it cannot be read, or it is no recording.
pub fn read(input: &mut dyn BufRead) -> Result<Recording, TraceError> {
    read_up_to(input, RECORDING_BYTES_MAX)
}

fn read_up_to(input: &mut dyn BufRead, bytes_max: u64) -> Result<Recording, TraceError> {
    let mut reader = Reader::default();
    let mut input = input.take(bytes_max);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut part = input.by_ref().take(LINE_BYTES_MAX);
        part.read_until(b'\n', &mut line).map_err(TraceError::Read)?;
        let (is_ended, is_full) = (line.ends_with(b"\n"), part.limit() == 0);
        if line.is_empty() || (!is_ended && input.limit() == 0) {
            // Half a line may be read as another size.
            return reader.conclude(input.limit() == 0);
        }
        let is_whole = is_ended || !is_full;
        if !is_whole {
            input.skip_until(b'\n').map_err(TraceError::Read)?;
        }
        reader.line(String::from_utf8_lossy(&line).trim(), is_whole);
    }
}

/// Returns the requirements of the typical message of a recording.
///
/// Placement, load, needs and weights are those of `base`. Where a table has no directions, the
/// pattern and the reply are those of `base` too.
#[must_use]
pub fn requirements(recording: &Recording, base: &Requirements) -> Requirements {
    let size = |of: Option<Quantiles>| of.unwrap_or(recording.sizes_bytes).p50;
    let (pattern, size, reply_bytes) = match recording.answered {
        None => (base.pattern, size(None), base.reply_bytes),
        Some(share) if share >= 0.5 => {
            (Pattern::Call, size(recording.calls_bytes), recording.reply_bytes)
        }
        Some(_) => (Pattern::OneWay, size(recording.one_way_bytes), None),
    };
    let limited = |bytes: u64| bytes.clamp(1, MESSAGE_BYTES_MAX);
    Requirements {
        pattern,
        message_bytes: limited(size),
        reply_bytes: reply_bytes.map(limited),
        rate_per_s: recording.rate_per_s.map(rounded).or(base.rate_per_s),
        ..base.clone()
    }
}

/// Advises for the requirements that [`requirements`] returned for `recording`.
///
/// Where the runs have nothing at the recorded rate, messages one after the other are the evidence,
/// and the advice says so. The evidence also has the notes of the recording and what the typical
/// message does not stand for.
///
/// # Errors
///
/// As [`advise`].
pub fn advise_for(
    recording: &Recording,
    wanted: &Requirements,
    runs: &[&Run],
) -> Result<Advice, Refusal> {
    let mut advice = match (advise(wanted, runs), wanted.rate_per_s) {
        (Err(refusal @ Refusal::Missing { .. }), Some(rate)) => {
            let unpaced = Requirements { rate_per_s: None, ..wanted.clone() };
            let mut advice = advise(&unpaced, runs).map_err(|_| refusal)?;
            advice.evidence.push(format!(
                "Nothing was measured at the recorded {rate} per second: judged by messages that \
                 come one after the other."
            ));
            advice
        }
        (outcome, _) => outcome?,
    };
    advice.evidence.extend(not_typical(recording, wanted));
    advice.evidence.extend(recording.notes.iter().cloned());
    Ok(advice)
}

/// What the requirements of the typical message leave out, in sentences.
fn not_typical(recording: &Recording, wanted: &Requirements) -> Vec<String> {
    let mut found = vec![format!("Recorded traffic, judged by {}.", describe(wanted))];
    if let Some(share) = recording.answered.filter(|share| *share > 0.0 && *share < 1.0) {
        let (percent, other) = match wanted.pattern {
            Pattern::Call => (1.0 - share, "one-way messages"),
            Pattern::OneWay => (share, "calls"),
        };
        found.push(format!(
            "{:.0} % of the messages are {other} and do not count.",
            100.0 * percent
        ));
    }
    let large = recording.sizes_bytes.p99;
    if large >= wanted.message_bytes.saturating_mul(MUCH_LARGER) {
        found.push(format!(
            "One message of a hundred has {} or more; ask for those with --size {large}.",
            number::size(large)
        ));
    }
    found
}

/// Describes the traffic of some requirements: "calls of 100 B with replies of 30 B".
#[must_use]
pub fn describe(wanted: &Requirements) -> String {
    let size = number::size(wanted.message_bytes);
    match (wanted.pattern, wanted.reply_bytes) {
        (Pattern::OneWay, _) => format!("one-way messages of {size}"),
        (Pattern::Call, None | Some(0)) => format!("calls of {size}"),
        (Pattern::Call, Some(reply)) => {
            format!("calls of {size} with replies of {}", number::size(reply))
        }
    }
}

/// Rounds a rate to three digits: no recording knows more.
fn rounded(rate_per_s: f64) -> f64 {
    let rate = format!("{rate_per_s:.2e}").parse().unwrap_or(rate_per_s);
    rate.clamp(RATE_PER_S_MIN, RATE_PER_S_MAX)
}

/// Any bytes are a recording or are refused; a recording's figures agree with each other, and its
/// requirements are valid. Called by `fuzz/`, and by a test with the corpus committed there.
///
/// # Panics
///
/// If that is not so.
#[doc(hidden)]
pub fn fuzz(bytes: &[u8]) {
    let mut input = bytes;
    let Ok(found) = read(&mut input) else { return };
    assert!(found.garbage_lines <= found.lines && found.messages > 0);
    assert_eq!(found.garbage_lines > 0, found.first_garbage.is_some());
    assert!(found.span_s >= 0.0 && found.answered.is_none_or(|share| (0.0..=1.0).contains(&share)));
    let sizes = found.sizes_bytes;
    assert!(sizes.min <= sizes.p50 && sizes.p50 <= sizes.p99 && sizes.p99 <= sizes.max);
    let count: u64 = found.ranges.iter().map(|range| range.calls + range.one_way).sum();
    assert_eq!(count, found.messages);
    assert_eq!(requirements(&found, &Requirements::default()).check(), Ok(()));
}

/// Bytes of a recording that are read: a day of a busy program, a minute of reading. What follows
/// is left out, and a note says so.
const RECORDING_BYTES_MAX: u64 = 4 << 30;

/// strace prints 32 bytes of a message by default, and some thousand if it is asked to.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Messages so many times larger than the typical one are worth an advice of their own.
const MUCH_LARGER: u64 = 8;

/// Requirements have no rate of 0 and none above these.
const RATE_PER_S_MIN: f64 = 0.001;
const RATE_PER_S_MAX: f64 = 1e9;
