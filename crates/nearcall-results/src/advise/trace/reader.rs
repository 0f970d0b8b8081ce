//! Takes a recording line by line, counts it, and chooses what are messages between programs.
//!
//! A recording of both ends has every message twice, so the other end of a stream is left out:
//! another thread that read what this one wrote and wrote what this one read. Descriptors that may
//! be files or terminals are left out where there is anything else.
//!
//! **Invariants:** streams and open calls are bounded; what is beyond is counted and not looked at.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::sizes::Sizes;
use super::strace::{Event, Strace};
use super::stream::{Id, Stream, Transfer};
use super::table;
use super::{Format, Recording, StreamFacts, TraceError, UnparsedLine};

#[derive(Debug, Default)]
pub(super) struct Reader {
    form: Form,
    lines: u64,
    garbage_lines: u64,
    first_garbage: Option<UnparsedLine>,
    streams: BTreeMap<Id, Stream>,
    /// Those whose number means something else now.
    ended: Vec<Stream>,
    /// Lines whose time was before that of the line before in their stream.
    lines_back: u64,
    /// Messages of streams beyond the limit.
    messages_beyond: u64,
    /// Whether a message of a table had a direction.
    knows_directions: bool,
}

/// The kind of file.
#[derive(Debug, Default)]
enum Form {
    #[default]
    Unknown,
    Csv,
    Strace(Strace),
}

impl Reader {
    /// Takes the next line without its end; `is_whole`: it is no longer than lines may be.
    pub(super) fn line(&mut self, text: &str, is_whole: bool) {
        self.lines += 1;
        if text.is_empty() {
            return;
        }
        let Some(moves) = is_whole.then(|| self.read(text)).flatten() else {
            self.garbage_lines += 1;
            let text = text.chars().take(GARBAGE_CHARS).collect();
            self.first_garbage.get_or_insert(UnparsedLine { line: self.lines, text });
            return;
        };
        moves.iter().filter(|moved| moved.bytes > 0).for_each(|moved| self.count(moved));
    }

    /// What the line moved; `None` if it makes no sense.
    fn read(&mut self, text: &str) -> Option<Vec<Transfer>> {
        if let Form::Unknown = self.form {
            self.form = match table::is_head(text) || table::read(text).is_some() {
                true => Form::Csv,
                false => Form::Strace(Strace::default().line(text).map(|_| Strace::default())?),
            };
        }
        match &mut self.form {
            Form::Unknown => None,
            Form::Csv if table::is_head(text) => Some(Vec::new()),
            Form::Csv => {
                let (moved, has_direction) = table::read(text)?;
                self.knows_directions |= has_direction;
                Some(vec![moved])
            }
            Form::Strace(strace) => match strace.line(text)? {
                Event::Moved(moves) => Some(moves),
                Event::Opened(pid, made) => {
                    let ids = made.into_iter().map(|descriptor| Id { pid, descriptor });
                    self.ended.extend(ids.filter_map(|id| self.streams.remove(&id)));
                    Some(Vec::new())
                }
            },
        }
    }

    fn count(&mut self, moved: &Transfer) {
        let is_full = self.streams.len() + self.ended.len() >= STREAMS_MAX;
        if is_full && !self.streams.contains_key(&moved.id) {
            self.messages_beyond += 1;
            return;
        }
        let stream = self.streams.entry(moved.id).or_insert_with(|| Stream::new(moved));
        self.lines_back += u64::from(stream.count(moved));
    }

    /// The figures; `was_cut` if the file goes on where reading stopped.
    pub(super) fn conclude(mut self, was_cut: bool) -> Result<Recording, TraceError> {
        let lines = self.lines;
        let (format, first_garbage) = match (&self.form, self.first_garbage.take()) {
            (Form::Csv, first) => (Format::Csv, first),
            (Form::Strace(_), first) => (Format::Strace, first),
            (Form::Unknown, Some(first)) => return Err(TraceError::Garbage { lines, first }),
            (Form::Unknown, None) => return Err(TraceError::NoMessages { lines }),
        };
        let mut notes = self.notes(format, first_garbage.as_ref(), was_cut);
        self.ended.extend(std::mem::take(&mut self.streams).into_values());
        self.ended.iter_mut().for_each(Stream::count_last);
        let chosen = choose(self.ended, format, &mut notes);
        let mut streams: Vec<(&Stream, StreamFacts)> =
            chosen.iter().map(|stream| (stream, stream.facts())).collect();
        streams.sort_by_key(|(stream, facts)| (Reverse(facts.messages), stream.id));
        let (busiest, facts) = streams.first().ok_or(TraceError::NoMessages { lines })?;
        let mut sizes = Sizes::default();
        chosen.iter().for_each(|stream| sizes.merge(&stream.sizes));
        let [messages, calls] = [None, Some(true)].map(|kind| sizes.messages(kind));
        let replies = chosen.iter().map(|stream| stream.reply_bytes).fold(0, u64::saturating_add);
        let first_ns = chosen.iter().map(|stream| stream.span_ns.0).min().unwrap_or(0);
        let last_ns = chosen.iter().map(|stream| stream.span_ns.1).max().unwrap_or(0);
        if streams.len() > STREAMS_SHOWN {
            let all = streams.len();
            notes.push(format!("only the {STREAMS_SHOWN} busiest of {all} streams are listed"));
        }
        let knows_directions = format == Format::Strace || self.knows_directions;
        Ok(Recording {
            format,
            lines,
            garbage_lines: self.garbage_lines,
            first_garbage,
            messages,
            span_s: (last_ns - first_ns) as f64 / 1e9,
            rate_per_s: facts.rate_per_s,
            busiest_second: busiest.busiest_second,
            sizes_bytes: sizes.quantiles(None).ok_or(TraceError::NoMessages { lines })?,
            calls_bytes: sizes.quantiles(Some(true)),
            one_way_bytes: sizes.quantiles(Some(false)),
            reply_bytes: replies.checked_div(calls),
            answered: knows_directions.then(|| calls as f64 / messages as f64),
            ranges: sizes.ranges(),
            streams: streams.into_iter().take(STREAMS_SHOWN).map(|(_, facts)| facts).collect(),
            notes,
        })
    }

    fn notes(&self, format: Format, first: Option<&UnparsedLine>, was_cut: bool) -> Vec<String> {
        let Self { lines, garbage_lines, lines_back, messages_beyond, .. } = self;
        let mut notes = Vec::new();
        if let Some(UnparsedLine { line, text }) = first {
            notes.push(format!(
                "{garbage_lines} of {lines} lines made no sense; the first is line {line}: {text:?}"
            ));
        }
        if *lines_back > 0 {
            notes.push(format!("in {lines_back} lines the time goes back"));
        }
        if *messages_beyond > 0 {
            notes
                .push(format!("{messages_beyond} messages of further descriptors are not counted"));
        }
        if was_cut {
            notes.push("the recording is longer than is read of one; the rest is left out".into());
        }
        if format == Format::Strace {
            notes.push("strace slows a program down: without it messages come faster".to_owned());
        }
        notes
    }
}

/// The streams that count.
fn choose(all: Vec<Stream>, format: Format, notes: &mut Vec<String>) -> Vec<Stream> {
    if format == Format::Csv {
        return all;
    }
    let other_ends = other_ends(&all);
    let ends = other_ends.len();
    if ends > 0 {
        notes.push(format!("both ends of {ends} streams were recorded; each message counts once"));
    }
    let once = all.into_iter().enumerate().filter(|(place, _)| !other_ends.contains(place));
    let mut kept: Vec<Stream> = once.map(|(_, stream)| stream).collect();
    let found = kept.len();
    let least = kept.iter().map(doubt).min().unwrap_or(0);
    kept.retain(|stream| doubt(stream) == least);
    if least == MAY_BE_FILE {
        notes.push("descriptors that only write or only read may be files".to_owned());
    }
    if kept.len() < found {
        notes.push(format!(
            "{} descriptors are left out: standard input and output, and those that only read by \
             read(2) and may be files",
            found - kept.len()
        ));
    }
    kept
}

/// How much speaks against a stream being messages: standard descriptors, and those that only read
/// and by a call that reads files too, may be files; a path is one.
fn doubt(stream: &Stream) -> u8 {
    let may_be_file = stream.sent_bytes == 0 || stream.id.descriptor <= 2;
    match (stream.is_file, stream.is_socket) {
        (true, _) => IS_FILE,
        (_, false) if may_be_file => MAY_BE_FILE,
        _ => 0,
    }
}

/// The places of streams that answer and are the same traffic as one that asks.
fn other_ends(streams: &[Stream]) -> Vec<usize> {
    let mut found = Vec::new();
    for asker in streams.iter().filter(|stream| stream.asks()) {
        let other = streams.iter().enumerate().position(|(place, stream)| {
            !found.contains(&place)
                && !stream.asks()
                && is_near(asker.sent_bytes, stream.received_bytes)
                && is_near(asker.received_bytes, stream.sent_bytes)
                // Who passes messages on reads first.
                && asker.span_ns.0 <= stream.span_ns.0
        });
        found.extend(other);
    }
    found
}

/// Whether they differ by no more than what was under way when the recording began or ended.
fn is_near(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= one.max(other) / UNDER_WAY_DIVISOR
}

const MAY_BE_FILE: u8 = 1;
const IS_FILE: u8 = 2;

/// Descriptors that are told apart. Each may take some ten kilobytes.
const STREAMS_MAX: usize = 1_024;

/// As much of a line as fits into a message.
const GARBAGE_CHARS: usize = 80;

/// Enough to recognise a program by.
const STREAMS_SHOWN: usize = 8;

/// Two ends may differ by a hundredth.
const UNDER_WAY_DIVISOR: u64 = 100;
