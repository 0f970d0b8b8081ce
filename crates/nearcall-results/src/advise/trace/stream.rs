//! The traffic of one connection, counted as it comes.
//!
//! **Invariants:** memory is bounded: at most 500 bins of sizes for each direction. A bin holds the
//! sum of its sizes, so a size that is always the same comes out exactly.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The messages of one range of sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeRange {
    /// The smallest size of the range in bytes.
    pub from_bytes: u64,
    /// Messages of the client.
    pub sent: u64,
    /// Messages of the server.
    pub received: u64,
}

/// Messages and their bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    messages: u64,
    bytes: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// By the smallest size of a bin: what was sent and what was received.
    bins: BTreeMap<u64, [Bin; 2]>,
    /// Calls that have ended well.
    pub(super) answered: u64,
    /// What the server has sent in all.
    pub(super) answer_bytes: u64,
    /// The times of the first message that was sent and of the last.
    span_ns: Option<(u64, u64)>,
}

impl Stream {
    pub(super) fn sent(&mut self, at_ns: u64, message_bytes: u64) {
        self.count(0, message_bytes);
        let (first, last) = self.span_ns.unwrap_or((at_ns, at_ns));
        self.span_ns = Some((first.min(at_ns), last.max(at_ns)));
    }

    pub(super) fn received(&mut self, message_bytes: u64, is_answer: bool) {
        self.count(1, message_bytes);
        self.answered += u64::from(is_answer);
        self.answer_bytes = self.answer_bytes.saturating_add(message_bytes);
    }

    fn count(&mut self, direction: usize, message_bytes: u64) {
        let bin = &mut self.bins.entry(bin_of(message_bytes)).or_default()[direction];
        bin.messages += 1;
        bin.bytes = bin.bytes.saturating_add(message_bytes);
    }

    /// From the first message that was sent to the last.
    pub(super) fn span_ns(&self) -> u64 {
        self.span_ns.map_or(0, |(first, last)| last - first)
    }

    pub(super) fn sent_count(&self) -> u64 {
        self.bins.values().map(|[sent, _]| sent.messages).sum()
    }

    /// The size that this share of the messages of the client does not exceed.
    pub(super) fn quantile(&self, share: f64) -> u64 {
        let count = self.sent_count() as f64;
        let mut below = 0;
        let sent = self.bins.iter().map(|(from, [sent, _])| (*from, *sent));
        let mut reached = sent.filter(|(_, bin)| bin.messages > 0).skip_while(|(_, bin)| {
            below += bin.messages;
            (below as f64) < share * count
        });
        reached.next().map_or(0, |(from, bin)| (bin.bytes / bin.messages).max(from))
    }

    /// Counts by a few ranges of sizes.
    pub(super) fn ranges(&self) -> Vec<SizeRange> {
        let mut ranges: Vec<SizeRange> = Vec::new();
        for (bytes, [sent, received]) in &self.bins {
            // Eight times as large is another range.
            let from_bytes = bytes.checked_ilog2().map_or(0, |bits| 1 << (bits / 3 * 3));
            if ranges.last().is_none_or(|range| range.from_bytes != from_bytes) {
                ranges.push(SizeRange { from_bytes, ..SizeRange::default() });
            }
            if let Some(range) = ranges.last_mut() {
                range.sent += sent.messages;
                range.received += received.messages;
            }
        }
        ranges
    }
}

/// The smallest size of the bin: three bits behind the leading one count.
fn bin_of(bytes: u64) -> u64 {
    let rest = bytes.max(1).ilog2().saturating_sub(3);
    bytes >> rest << rest
}
