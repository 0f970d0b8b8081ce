//! Recorded traffic of a server as figures, and the requirements that follow from them.
//!
//! The busiest connection of a recording stands for the program: how many messages are answered,
//! their sizes in both directions and their rate.
//!
//! **Invariants:** memory is bounded, however long a recording is; what was left out is in the
//! notes.
//!
//! **Not here:** reading a recording (`nearcall-recording`), the counts of one connection
//! (`trace/stream.rs`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::stream::SizeRange;
use self::stream::Stream;
use super::{Advice, Pattern, Refusal, Requirements, advise};
use crate::report::document::Document;
use crate::report::lines::Style;
use crate::report::number;
use crate::report::table::grid::{Align, Grid};
use crate::run::Run;
use crate::sizes::MESSAGE_BYTES_MAX;

mod stream;
#[cfg(test)]
mod tests;

/// The figures of the busiest connection of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// Its number at the server.
    pub connection: u64,
    /// Messages of the client: requests, one-way messages and items.
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

/// Counts what a recording has, event by event.
#[derive(Debug, Default)]
pub struct Traffic {
    connections: BTreeMap<u64, Stream>,
    /// Messages of connections beyond the limit.
    messages_beyond: u64,
}

impl Traffic {
    /// Counts a message of the client over a connection, `at_ns` nanoseconds after some moment.
    pub fn sent(&mut self, connection: u64, at_ns: u64, message_bytes: u64) {
        let is_full = self.connections.len() >= CONNECTIONS_MAX;
        if is_full && !self.connections.contains_key(&connection) {
            self.messages_beyond += 1;
            return;
        }
        self.connections.entry(connection).or_default().sent(at_ns, message_bytes);
    }

    /// Counts a message of the server over a connection; `is_answer`: it ends a call.
    pub fn received(&mut self, connection: u64, message_bytes: u64, is_answer: bool) {
        if let Some(stream) = self.connections.get_mut(&connection) {
            stream.received(message_bytes, is_answer);
        }
    }

    /// Returns the figures, with `notes` of the recording. `None`: there was no message.
    #[must_use]
    pub fn conclude(self, mut notes: Vec<String>) -> Option<Recording> {
        let messages = |stream: &Stream| stream.sent_count();
        let all = self.connections.values().map(messages).fold(0, u64::saturating_add);
        let busiest = self.connections.into_iter().rev().max_by_key(|(_, it)| it.sent_count());
        let (connection, stream) = busiest?;
        let messages = stream.sent_count();
        let others = (all - messages).saturating_add(self.messages_beyond);
        if others > 0 {
            notes.push(format!("{others} messages of other connections do not count"));
        }
        let span_s = stream.span_ns() as f64 / 1e9;
        Some(Recording {
            connection,
            messages,
            answered: stream.answered,
            span_s,
            rate_per_s: (messages > 1 && span_s > 0.0).then(|| (messages - 1) as f64 / span_s),
            message_bytes: stream.quantile(0.5),
            message_bytes_p99: stream.quantile(0.99),
            reply_bytes: stream.answer_bytes.checked_div(stream.answered),
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
    let Recording { messages, answered, span_s, connection, .. } = recording;
    let mut out = Document::default();
    out.title("Recorded traffic");
    out.line(format!("  busiest: connection {connection}"));
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

/// Connections that are told apart. Each may take some ten kilobytes.
const CONNECTIONS_MAX: usize = 1_024;

/// Messages so many times larger than the typical one are worth an advice of their own.
const MUCH_LARGER: u64 = 8;

/// Requirements have no rate of 0 and none above these.
const RATE_PER_S_MIN: f64 = 0.001;
const RATE_PER_S_MAX: f64 = 1e9;
