//! The traffic of one descriptor of one thread, counted as it comes, and all such descriptors.
//!
//! The first message decides which end this is: the thread that writes first asks, the one that
//! reads first answers.
//!
//! **Invariants:** memory is bounded: so many streams, and in each at most 500 bins of sizes for
//! each direction. A bin holds the sum of its sizes, so a size that is always the same comes out
//! exactly.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The direction of a message, as the recorded thread sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Out,
    In,
}

/// A thread and its descriptor. Threads that share one count apart: strace does not report which
/// belong to one process.
pub(super) type Id = (u32, u32);

/// Bytes that were moved by one call, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) id: Id,
    pub(super) direction: Direction,
    pub(super) bytes: u64,
    pub(super) at_ns: u64,
    /// The call works on sockets only.
    pub(super) is_socket: bool,
}

/// The messages of one range of sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeRange {
    /// The smallest size of the range in bytes.
    pub from_bytes: u64,
    /// Messages that the recorded thread wrote.
    pub sent: u64,
    /// Messages that it read.
    pub received: u64,
}

/// Descriptors that are told apart, and those that were closed.
#[derive(Debug, Default)]
pub(super) struct Streams {
    open: BTreeMap<Id, Stream>,
    /// Those whose number means something else now.
    ended: Vec<Stream>,
    /// Messages of streams beyond the limit.
    pub(super) messages_beyond: u64,
}

impl Streams {
    pub(super) fn count(&mut self, moved: &Transfer) {
        let is_full = self.open.len() + self.ended.len() >= STREAMS_MAX;
        if is_full && !self.open.contains_key(&moved.id) {
            self.messages_beyond += 1;
            return;
        }
        self.open.entry(moved.id).or_insert_with(|| Stream::new(moved)).count(moved);
    }

    /// What comes on this descriptor from now on is another stream.
    pub(super) fn end(&mut self, id: Id) {
        self.ended.extend(self.open.remove(&id));
    }

    pub(super) fn into_all(mut self) -> Vec<Stream> {
        self.ended.extend(self.open.into_values());
        self.ended
    }
}

/// Messages and their bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    messages: u64,
    bytes: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) id: Id,
    /// The direction of requests.
    asking: Direction,
    is_socket: bool,
    /// By the smallest size of a bin: what was sent and what was received.
    bins: BTreeMap<u64, [Bin; 2]>,
    /// Messages of the asking direction that one of the other direction followed.
    pub(super) answered: u64,
    pub(super) reply_bytes: u64,
    /// Whether the last message of the asking direction has no reply yet.
    awaits: bool,
    /// The times of the first message of the asking direction and of the last.
    pub(super) span_ns: (u64, u64),
}

impl Stream {
    /// One that begins with this message, which is not counted yet.
    fn new(first: &Transfer) -> Self {
        Self {
            id: first.id,
            asking: first.direction,
            is_socket: false,
            bins: BTreeMap::new(),
            answered: 0,
            reply_bytes: 0,
            awaits: false,
            span_ns: (first.at_ns, first.at_ns),
        }
    }

    fn count(&mut self, moved: &Transfer) {
        self.is_socket |= moved.is_socket;
        let bins = self.bins.entry(bin_of(moved.bytes)).or_default();
        let bin = &mut bins[moved.direction as usize];
        bin.messages += 1;
        bin.bytes = bin.bytes.saturating_add(moved.bytes);
        if moved.direction == self.asking {
            self.awaits = true;
            let (first, last) = self.span_ns;
            self.span_ns = (first.min(moved.at_ns), last.max(moved.at_ns));
        } else {
            // More of the reply may follow.
            self.answered += u64::from(std::mem::take(&mut self.awaits));
            self.reply_bytes = self.reply_bytes.saturating_add(moved.bytes);
        }
    }

    /// Whether the recorded thread asks, and the other end answers.
    pub(super) fn asks(&self) -> bool {
        self.asking == Direction::Out
    }

    /// Messages of the end that asks.
    pub(super) fn messages(&self) -> u64 {
        self.count_of(self.asking)
    }

    fn count_of(&self, direction: Direction) -> u64 {
        self.bins.values().map(|bins| bins[direction as usize].messages).sum()
    }

    /// Whether it cannot be a file: sockets, and what is written and read, but for the terminal.
    pub(super) fn is_channel(&self) -> bool {
        let both = [Direction::Out, Direction::In].map(|direction| self.count_of(direction) > 0);
        self.is_socket || (self.id.1 > 2 && both == [true, true])
    }

    /// The greatest stands for the program: what may be a file comes last, and of two ends of one
    /// stream the one that asks first.
    pub(super) fn rank(&self) -> impl Ord + use<> {
        (self.is_channel(), self.id.1 > 2, self.messages(), self.asks(), Reverse(self.id))
    }

    /// The size that this share of the messages of the asking end does not exceed.
    pub(super) fn quantile(&self, share: f64) -> u64 {
        let count = self.messages() as f64;
        let mut below = 0;
        let asked = self.bins.iter().map(|(from, bins)| (*from, bins[self.asking as usize]));
        let mut reached = asked.filter(|(_, bin)| bin.messages > 0).skip_while(|(_, bin)| {
            below += bin.messages;
            (below as f64) < share * count
        });
        reached.next().map_or(0, |(from, bin)| (bin.bytes / bin.messages).max(from))
    }

    /// Counts by a few ranges of sizes.
    pub(super) fn ranges(&self) -> Vec<SizeRange> {
        let mut ranges: Vec<SizeRange> = Vec::new();
        for (bytes, [out, back]) in &self.bins {
            // Eight times as large is another range.
            let from_bytes = 1 << (bytes.max(&1).ilog2() / 3 * 3);
            if ranges.last().is_none_or(|range| range.from_bytes != from_bytes) {
                ranges.push(SizeRange { from_bytes, ..SizeRange::default() });
            }
            if let Some(range) = ranges.last_mut() {
                range.sent += out.messages;
                range.received += back.messages;
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

/// Descriptors that are told apart. Each may take some ten kilobytes.
const STREAMS_MAX: usize = 1_024;
