//! Recorded traffic of a program as figures, and the requirements that follow from them.
//!
//! Reads the output of `strace -f -ttt -e trace=%network,read,write`. The busiest descriptor of a
//! thread stands for the program: which end asks, how many messages are answered, their sizes in
//! both directions and their rate. So a recording of both ends counts no message twice.
//!
//! **Invariants:** memory is bounded, whatever the file holds; no text makes it panic; unreadable
//! lines are counted and the first one is kept; what was left out is in the notes.
//!
//! **Not here:** the meaning of one line (`trace/strace.rs`), the counts of one descriptor
//! (`trace/stream.rs`).

use std::io::{self, BufRead, Read};

use serde::{Deserialize, Serialize};

use self::strace::{Event, Strace};
pub use self::stream::SizeRange;
use self::stream::{Stream, Streams};
use super::{Advice, Pattern, Refusal, Requirements, advise};
use crate::report::document::Document;
use crate::report::lines::Style;
use crate::report::number;
use crate::report::table::grid::{Align, Grid};
use crate::run::Run;
use crate::sizes::MESSAGE_BYTES_MAX;

mod strace;
mod stream;
#[cfg(test)]
mod tests;

/// The figures of the busiest descriptor of a recording. A message is what one end wrote at once;
/// the end that wrote first asks, and a message that is followed by one of the other end is
/// answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// Lines that were read.
    pub lines: u64,
    /// Lines that could not be parsed.
    pub garbage_lines: u64,
    /// The first of them.
    pub first_garbage: Option<UnparsedLine>,
    /// The thread's number; 0 if strace printed none.
    pub pid: u32,
    /// The descriptor.
    pub descriptor: u32,
    /// Whether the recorded thread asks, or answers what the other end asks.
    pub asks: bool,
    /// Messages of the end that asks.
    pub messages: u64,
    /// Those that were answered.
    pub answered: u64,
    /// From the first to the last of them, in seconds.
    pub span_s: f64,
    /// Messages per second; `null` with fewer than two.
    pub rate_per_s: Option<f64>,
    /// The median size of a message, off by 6 % at most.
    pub message_bytes: u64,
    /// 99 of 100 messages are smaller or as large.
    pub message_bytes_p99: u64,
    /// The mean size of a reply; `null` without any.
    pub reply_bytes: Option<u64>,
    /// The messages of both directions by their size.
    pub sizes: Vec<SizeRange>,
    /// What was left out or is uncertain, in sentences.
    pub notes: Vec<String>,
}

/// A line that could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnparsedLine {
    /// Its number, from 1.
    pub line: u64,
    /// Its beginning.
    pub text: String,
}

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be read.
    #[error("cannot read the recording: {0}")]
    Read(#[from] io::Error),
    /// No line could be parsed.
    #[error(
        "this is no recording: none of its {lines} lines is from `strace -f -ttt`; line {}: {:?}",
        first.line, first.text
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
        part.read_until(b'\n', &mut line)?;
        let (is_ended, is_full) = (line.ends_with(b"\n"), part.limit() == 0);
        if line.is_empty() || (!is_ended && input.limit() == 0) {
            // Half a line may be read as another size.
            return reader.conclude(input.limit() == 0);
        }
        let is_whole = is_ended || !is_full;
        if !is_whole {
            input.skip_until(b'\n')?;
        }
        reader.line(String::from_utf8_lossy(&line).trim(), is_whole);
    }
}

/// Takes a recording line by line.
#[derive(Debug, Default)]
struct Reader {
    strace: Strace,
    lines: u64,
    /// Lines from strace, whatever they say.
    readable_lines: u64,
    garbage_lines: u64,
    first_garbage: Option<UnparsedLine>,
    streams: Streams,
}

impl Reader {
    /// Takes the next line without its end; `is_whole`: it is no longer than lines may be.
    fn line(&mut self, text: &str, is_whole: bool) {
        self.lines += 1;
        if text.is_empty() {
            return;
        }
        let event = is_whole.then(|| self.strace.line(text)).flatten();
        self.readable_lines += u64::from(event.is_some());
        match event {
            Some(Event::Nothing) => {}
            Some(Event::Moved(moved)) => self.streams.count(&moved),
            Some(Event::Opened(pid, made)) => {
                made.into_iter().for_each(|descriptor| self.streams.end((pid, descriptor)));
            }
            None => {
                self.garbage_lines += 1;
                let text = text.chars().take(GARBAGE_CHARS).collect();
                self.first_garbage.get_or_insert(UnparsedLine { line: self.lines, text });
            }
        }
    }

    /// The figures; `was_cut` if the file goes on where reading stopped.
    fn conclude(self, was_cut: bool) -> Result<Recording, TraceError> {
        let Self { lines, garbage_lines, first_garbage, streams, .. } = self;
        let beyond = streams.messages_beyond;
        let all = streams.into_all();
        let others = all.iter().map(Stream::messages).fold(0, u64::saturating_add);
        let Some(stream) = all.into_iter().max_by_key(Stream::rank) else {
            return Err(match first_garbage {
                Some(first) if self.readable_lines == 0 => TraceError::Garbage { lines, first },
                _ => TraceError::NoMessages { lines },
            });
        };
        let messages = stream.messages();
        let mut notes = vec!["strace slows a program down: without it messages come faster".into()];
        let mut note = |is_so: bool, text: String| notes.extend(is_so.then_some(text));
        if let Some(UnparsedLine { line, text }) = &first_garbage {
            let first = format!("the first is line {line}: {text:?}");
            note(true, format!("{garbage_lines} of {lines} lines made no sense; {first}"));
        }
        let others = others.saturating_sub(messages).saturating_add(beyond);
        note(others > 0, format!("{others} messages of other descriptors do not count"));
        note(!stream.is_channel(), "a descriptor that only writes or reads may be a file".into());
        note(was_cut, "the recording is longer than is read of one; the rest is left out".into());
        let span_s = (stream.span_ns.1 - stream.span_ns.0) as f64 / 1e9;
        Ok(Recording {
            lines,
            garbage_lines,
            first_garbage,
            pid: stream.id.0,
            descriptor: stream.id.1,
            asks: stream.asks(),
            messages,
            answered: stream.answered,
            span_s,
            rate_per_s: (messages > 1 && span_s > 0.0).then(|| (messages - 1) as f64 / span_s),
            message_bytes: stream.quantile(0.5),
            message_bytes_p99: stream.quantile(0.99),
            reply_bytes: stream.reply_bytes.checked_div(stream.answered),
            sizes: stream.ranges(),
            notes,
        })
    }
}

/// Returns the requirements of the typical message of a recording: a call if half of the messages
/// were answered. Placement, load, needs and weights are those of `base`.
#[must_use]
pub fn requirements(recording: &Recording, base: &Requirements) -> Requirements {
    let limited = |bytes: u64| bytes.clamp(1, MESSAGE_BYTES_MAX);
    let is_call = recording.answered >= recording.messages.div_ceil(2);
    Requirements {
        pattern: if is_call { Pattern::Call } else { Pattern::OneWay },
        message_bytes: limited(recording.message_bytes),
        reply_bytes: recording.reply_bytes.filter(|_| is_call).map(limited),
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
    let (other, name) = match wanted.pattern {
        Pattern::Call => (recording.messages - recording.answered, "one-way messages"),
        Pattern::OneWay => (recording.answered, "calls"),
    };
    if other > 0 {
        let percent = 100.0 * other as f64 / recording.messages as f64;
        found.push(format!("{percent:.0} % of the messages are {name} and do not count."));
    }
    let large = recording.message_bytes_p99;
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

/// The recorded traffic as a person reads it: how much, how often, and the sizes by direction.
#[must_use]
pub fn summary(recording: &Recording, style: Style) -> String {
    let Recording { messages, answered, span_s, pid, descriptor, .. } = recording;
    let mut out = Document::default();
    out.title("Recorded traffic");
    let role = if recording.asks { "asks" } else { "answers" };
    out.line(format!("  busiest: thread {pid}, which {role} on descriptor {descriptor}"));
    out.line(format!("  {messages} messages in {span_s:.3} s, {answered} of them answered"));
    if let Some(rate) = recording.rate_per_s {
        out.line(format!("  {rate:.1} per second"));
    }
    out.blank();
    let columns = ["from", "sent", "received"].map(|name| (name, Align::Right, 0));
    let mut grid = Grid::new(&columns).compact();
    for range in &recording.sizes {
        let counts = [range.sent, range.received].map(|count| count.to_string());
        grid.row([number::size(range.from_bytes)].into_iter().chain(counts).collect());
    }
    out.grid(grid);
    out.text(style)
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
    assert!(found.garbage_lines < found.lines && found.messages > 0);
    assert_eq!(found.garbage_lines > 0, found.first_garbage.is_some());
    assert!(found.span_s >= 0.0 && found.answered <= found.messages);
    assert!(found.message_bytes <= found.message_bytes_p99);
    let [sent, received] = found
        .sizes
        .iter()
        .fold([0, 0], |[sent, received], range| [sent + range.sent, received + range.received]);
    assert_eq!(found.messages, if found.asks { sent } else { received });
    assert_eq!(requirements(&found, &Requirements::default()).check(), Ok(()));
}

/// Bytes of a recording that are read: a day of a busy program, a minute of reading. What follows
/// is left out, and a note says so.
const RECORDING_BYTES_MAX: u64 = 4 << 30;

/// strace prints 32 bytes of a message by default, and some thousand if it is asked to.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// As much of a line as fits into a message.
const GARBAGE_CHARS: usize = 80;

/// Messages so many times larger than the typical one are worth an advice of their own.
const MUCH_LARGER: u64 = 8;

/// Requirements have no rate of 0 and none above these.
const RATE_PER_S_MIN: f64 = 0.001;
const RATE_PER_S_MAX: f64 = 1e9;
