//! Which of the counted streams are messages between programs, and the figures of those.
//!
//! A recording of both ends has every message twice, so the other end of a stream is left out:
//! another thread that read what this one wrote and wrote what this one read. Descriptors that may
//! be files or terminals are left out where there is anything else.

use std::cmp::Reverse;

use super::buckets::Buckets;
use super::reader::Reader;
use super::stream::{Direction, Stream};
use super::{Format, Quantiles, Recording, StreamFacts, TraceError};

impl Reader {
    /// The figures; `was_cut` if the file goes on where reading stopped.
    pub(super) fn conclude(self, was_cut: bool) -> Result<Recording, TraceError> {
        let (lines, format) = (self.lines, self.format());
        let format = match (format, &self.first_garbage) {
            (Some(format), _) => format,
            (None, Some(first)) => return Err(TraceError::Garbage { lines, first: first.clone() }),
            (None, None) => return Err(TraceError::NoMessages { lines }),
        };
        let mut notes = self.notes(was_cut);
        let knows_directions = format == Format::Strace || self.knows_directions;
        let mut streams = choose(self.streams.into_values().collect(), format, &mut notes);
        streams.sort_by_key(|stream| (Reverse(stream.messages()), stream.id));
        let busiest = streams.first().ok_or(TraceError::NoMessages { lines })?;
        let (mut sizes, mut gaps_ns) = (Buckets::default(), Buckets::default());
        let mut classes = busiest.classes;
        for stream in &streams[1..] {
            classes.iter_mut().zip(&stream.classes).for_each(|(own, other)| own.add(other));
        }
        for stream in &streams {
            sizes.merge(&stream.sizes);
            gaps_ns.merge(&stream.gaps_ns);
        }
        let messages = streams.iter().map(Stream::messages).sum();
        let answers: u64 = streams.iter().map(Stream::answers).sum();
        let first_ns = streams.iter().map(|stream| stream.first_ns).min().unwrap_or(0);
        let last_ns = streams.iter().map(|stream| stream.last_ns).max().unwrap_or(0);
        if streams.len() > STREAMS_SHOWN {
            let all = streams.len();
            notes.push(format!("only the {STREAMS_SHOWN} busiest of {all} streams are listed"));
        }
        Ok(Recording {
            format,
            lines,
            garbage_lines: self.garbage_lines,
            first_garbage: self.first_garbage,
            messages,
            span_s: (last_ns - first_ns) as f64 / 1e9,
            rate_per_s: busiest.rate_per_s(),
            busiest_second: busiest.busiest_second,
            sizes_bytes: Quantiles::of(&sizes).ok_or(TraceError::NoMessages { lines })?,
            gaps_ns: Quantiles::of(&gaps_ns),
            answered: knows_directions.then(|| answers as f64 / messages as f64),
            streams: streams.iter().take(STREAMS_SHOWN).map(facts).collect(),
            classes: classes.into_iter().filter(|class| class.messages > 0).collect(),
            notes,
        })
    }

    fn notes(&self, was_cut: bool) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(first) = &self.first_garbage {
            notes.push(format!(
                "{} of {} lines made no sense; the first is line {}: {:?}",
                self.garbage_lines, self.lines, first.line, first.text
            ));
        }
        if self.lines_back > 0 {
            notes.push(format!(
                "in {} lines the time goes back; their gaps are not counted",
                self.lines_back
            ));
        }
        if self.messages_beyond > 0 {
            notes.push(format!(
                "{} messages of further descriptors are not counted",
                self.messages_beyond
            ));
        }
        if was_cut {
            notes.push("the recording is longer than is read of one; the rest is left out".into());
        }
        if self.format() == Some(Format::Strace) {
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
    let ends = other_ends.iter().filter(|is_other| **is_other).count();
    if ends > 0 {
        notes.push(format!("both ends of {ends} streams were recorded; each message counts once"));
    }
    let once = all.into_iter().zip(other_ends).filter(|(_, is_other)| !is_other);
    let (files, rest): (Vec<Stream>, Vec<Stream>) =
        once.map(|(stream, _)| stream).partition(|stream| stream.is_file);
    let (doubtful, good): (Vec<Stream>, Vec<Stream>) = rest.into_iter().partition(may_be_file);
    let (kept, left_out) = match (good.is_empty(), doubtful.is_empty()) {
        (false, _) => (good, files.len() + doubtful.len()),
        (true, false) => {
            notes.push("descriptors that only write or only read may be files".to_owned());
            (doubtful, files.len())
        }
        (true, true) => (files, 0),
    };
    if left_out > 0 {
        notes.push(format!(
            "{left_out} descriptors are left out: standard input and output, and those that only \
             read by read(2) and may be files"
        ));
    }
    kept
}

/// Whether it is a standard descriptor, or only reads and by a call that reads files too.
fn may_be_file(stream: &Stream) -> bool {
    let only_reads = stream.sent_bytes == 0 && !stream.is_socket;
    only_reads || (stream.id.descriptor <= 2 && !stream.is_socket)
}

/// For each stream whether another one is the same traffic, seen from the end that asks.
fn other_ends(streams: &[Stream]) -> Vec<bool> {
    let mut is_other = vec![false; streams.len()];
    // Those that ask, each with one that answers.
    for asker in streams.iter().filter(|stream| stream.asking == Direction::Out) {
        let found = streams.iter().enumerate().position(|(at, stream)| {
            !is_other[at]
                && stream.asking == Direction::In
                && stream.id != asker.id
                && is_near(asker.sent_bytes, stream.received_bytes)
                && is_near(asker.received_bytes, stream.sent_bytes)
                // Who passes messages on reads first.
                && asker.first_ns <= stream.first_ns
        });
        if let Some(at) = found {
            is_other[at] = true;
        }
    }
    is_other
}

/// Whether they differ by no more than what was under way when the recording began or ended.
fn is_near(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= one.max(other) / UNDER_WAY_DIVISOR
}

fn facts(stream: &Stream) -> StreamFacts {
    StreamFacts {
        pid: stream.id.pid,
        descriptor: stream.id.descriptor,
        asks: stream.asking == Direction::Out,
        messages: stream.messages(),
        answered: stream.answers(),
        sent_bytes: stream.sent_bytes,
        received_bytes: stream.received_bytes,
        rate_per_s: stream.rate_per_s(),
    }
}

/// Enough to recognise a program by.
const STREAMS_SHOWN: usize = 8;

/// Two ends may differ by a hundredth.
const UNDER_WAY_DIVISOR: u64 = 100;
