//! Traffic that a program of the user's once had, as figures: what the advice is asked for.
//!
//! Reads a table of times and sizes (`time_s,bytes` and, where it is known, `direction`), or what
//! `strace -f -ttt -e trace=%network,read,write` printed. Which of the two it is, the first line
//! that makes sense decides.
//!
//! **Invariants:** memory is bounded, whatever the file holds; no text makes it panic; lines that
//! are neither are counted and the first one is kept; what was left out stands in the notes.
//!
//! **Not here:** what one line means (`trace/strace.rs`, `trace/table.rs`), what is counted for one
//! descriptor (`trace/stream.rs`), the way to requirements (`trace/kinds.rs`).

use std::fmt;
use std::io::{self, BufRead};

use serde::{Deserialize, Serialize};

use super::Requirements;

use self::line::Lines;
use self::reader::Reader;

mod histogram;
mod kinds;
mod line;
mod mixture;
mod reader;
mod strace;
mod stream;
mod table;
#[cfg(test)]
mod tests;
mod text;

pub use self::histogram::Class;
pub use self::kinds::{kind_words, requirements};
pub use self::mixture::{Kind, TrafficAdvice, advise_kind, combine};
pub use self::text::summary;

/// What was recorded, as figures. A message is what one end wrote at once, a request where the
/// other end answered it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// What kind of file it was.
    pub format: Format,
    /// Lines that were read.
    pub lines: u64,
    /// Lines that made no sense.
    pub garbage_lines: u64,
    /// The first of them.
    pub first_garbage: Option<Garbage>,
    /// Requests and messages that nobody answered; replies are not counted.
    pub messages: u64,
    /// From the first to the last of them, in seconds.
    pub span_s: f64,
    /// Messages per second of the busiest stream, over all of its time; `null` with fewer than two.
    pub rate_per_s: Option<f64>,
    /// Messages of the busiest stream in its busiest second.
    pub busiest_second: u64,
    /// Sizes of messages in bytes.
    pub sizes_bytes: Quantiles,
    /// Time between one message of a stream and its next in nanoseconds; `null` if there is none.
    pub gaps_ns: Option<Quantiles>,
    /// The part of the messages that were answered, from 0 to 1; `null` if nobody knows, because
    /// the table has no directions.
    pub answered: Option<f64>,
    /// Both ways of one descriptor, the busiest first; the others are only counted above.
    pub streams: Vec<StreamFacts>,
    /// The messages by their size.
    pub classes: Vec<Class>,
    /// What was left out or is uncertain, in sentences.
    pub notes: Vec<String>,
}

/// What kind of file a recording was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Times and sizes, separated by commas.
    Csv,
    /// What strace printed.
    Strace,
}

/// A line that made no sense.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Garbage {
    /// Its number, from 1.
    pub line: u64,
    /// Its beginning.
    pub text: String,
}

/// A few quantiles of many numbers, off by 6 % at most; exact where near numbers are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantiles {
    /// The smallest.
    pub min: u64,
    /// Half of them are smaller.
    pub p50: u64,
    /// 90 % are smaller.
    pub p90: u64,
    /// 99 % are smaller.
    pub p99: u64,
    /// The largest.
    pub max: u64,
}

/// What went over one descriptor of one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamFacts {
    /// The thread's number; 0 in a table.
    pub pid: u32,
    /// The descriptor; 0 in a table.
    pub descriptor: u32,
    /// Whether it asks, or answers what the other end asks.
    pub asks: bool,
    /// Requests and messages that nobody answered.
    pub messages: u64,
    /// Those that were answered.
    pub answered: u64,
    /// Bytes written.
    pub sent_bytes: u64,
    /// Bytes read.
    pub received_bytes: u64,
    /// As of the whole recording.
    pub rate_per_s: Option<f64>,
}

/// Why there is no recording.
#[derive(Debug)]
pub enum TraceError {
    /// The file could not be read.
    Read(io::Error),
    /// No line made sense.
    Garbage {
        /// How many there were.
        lines: u64,
        /// The first.
        first: Garbage,
    },
    /// Lines made sense, but no message was moved in them.
    NoMessages {
        /// How many there were.
        lines: u64,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "cannot read the recording: {error}"),
            Self::Garbage { lines, first } => write!(
                f,
                "this is no recording: none of its {lines} lines is `time_s,bytes` or from `strace \
                 -f -ttt`; line {}: {:?}",
                first.line, first.text
            ),
            Self::NoMessages { lines } => {
                write!(f, "the recording has no messages: none of its {lines} lines moved a byte")
            }
        }
    }
}

impl std::error::Error for TraceError {}

/// Reads a recording to its end, or to the limit of what is read of one.
///
/// Blocks as long as `input` does; a few hundred megabytes take a second. Memory is bounded.
///
/// # Errors
///
/// [`TraceError`]: it cannot be read, or it is no recording.
pub fn read(input: &mut dyn BufRead) -> Result<Recording, TraceError> {
    let mut reader = Reader::default();
    let mut lines = Lines::new(input, RECORDING_BYTES_MAX);
    while let Some(line) = lines.next().map_err(TraceError::Read)? {
        reader.line(&line);
    }
    reader.conclude(lines.was_cut)
}

/// Any bytes are a recording or are refused; a recording's figures agree with each other, and what
/// follows from it can be wanted. Called by `fuzz/`, and by a test with the corpus that is
/// committed there.
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
    let wanted = requirements(&found, &Requirements::default());
    assert!(wanted.iter().all(|(wanted, share)| wanted.check().is_ok() && *share > 0.0));
    assert!((wanted.iter().map(|kind| kind.1).sum::<f64>() - 1.0).abs() < 1e-6);
}

/// Bytes of a recording that are read: a day of a busy program, a minute of reading. What follows
/// is left out, and a note says so.
const RECORDING_BYTES_MAX: u64 = 4 << 30;
