//! A recording as a person reads it.

use super::kinds::kind_words;
use super::{Format, Kind, Quantiles, Recording};
use crate::report::lines::{Style, Writer};
use crate::report::number;

/// What was recorded, and each kind of message with what would be best for it alone.
#[must_use]
pub fn summary(recording: &Recording, kinds: &[Kind], style: Style) -> String {
    let mut out = Writer::new(style);
    out.title("Recorded traffic");
    let format = match recording.format {
        Format::Csv => "a table",
        Format::Strace => "strace",
    };
    let messages = recording.messages;
    out.line(&format!("  {messages} messages in {:.3} s, from {format}", recording.span_s));
    if let Some(answered) = recording.answered {
        out.line(&format!("  {:.0} % of them were answered", 100.0 * answered));
    }
    if let Some(rate) = recording.rate_per_s {
        out.line(&format!(
            "  busiest stream: {rate:.1} per second, {} in its busiest second",
            recording.busiest_second
        ));
    }
    line(&mut out, "sizes", &recording.sizes_bytes, number::size);
    if let Some(gaps) = &recording.gaps_ns {
        line(&mut out, "gaps", gaps, |ns| number::time(ns as f64));
    }
    for stream in recording.streams.iter().filter(|stream| stream.pid > 0) {
        let does = if stream.asks { "asks" } else { "answers" };
        out.line(&format!(
            "  thread {} {does} on descriptor {}: {} messages, {} answered",
            stream.pid, stream.descriptor, stream.messages, stream.answered
        ));
    }
    if kinds.len() > 1 {
        out.blank();
        out.title("Kinds of messages");
        for kind in kinds {
            let share = 100.0 * kind.share;
            let what = kind_words(&kind.requirements);
            out.line(&format!("  {share:>3.0} %  {what}: alone {}", kind.choice));
        }
    }
    out.finish()
}

fn line(out: &mut Writer, what: &str, of: &Quantiles, word: impl Fn(u64) -> String) {
    out.line(&format!(
        "  {what}: {} to {}; half up to {}, 90 % up to {}, 99 % up to {}",
        word(of.min),
        word(of.max),
        word(of.p50),
        word(of.p90),
        word(of.p99)
    ));
}
