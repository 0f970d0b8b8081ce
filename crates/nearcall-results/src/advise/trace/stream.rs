//! What went over one descriptor of one thread, counted as it comes.
//!
//! The first message decides which end this is: the thread that writes first asks, the one that
//! reads first answers. A message of the asking direction is a request if the next one is of the
//! other direction.
//!
//! **Invariants:** the memory of a stream is bounded.
//!
//! **Not here:** which streams count (`reader.rs`).

use super::StreamFacts;
use super::histogram::Histogram;

/// The direction of a message, as the recorded thread sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Out,
    In,
}

/// A descriptor of a thread. Threads that share one count apart: strace does not report which
/// belong to one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    pub(super) pid: u32,
    pub(super) descriptor: u32,
}

/// Bytes that were moved by one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) id: Id,
    pub(super) direction: Direction,
    /// At least 1.
    pub(super) bytes: u64,
    pub(super) at_ns: u64,
    /// The call works on sockets only.
    pub(super) is_socket: bool,
    /// strace was asked to print paths, and there is one.
    pub(super) is_file: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) id: Id,
    /// The direction of requests.
    asking: Direction,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    pub(super) is_socket: bool,
    pub(super) is_file: bool,
    /// Messages of the asking direction by size, and what was answered to them.
    pub(super) sizes: Histogram,
    /// Times between two of them.
    pub(super) gaps_ns: Histogram,
    /// The times of the first message and of the last.
    pub(super) span_ns: (u64, u64),
    /// The same of the asking direction.
    asked_ns: Option<(u64, u64)>,
    /// The size of the last message of the asking direction, and whether it was answered.
    last: Option<(u64, bool)>,
    second: u64,
    in_second: u64,
    pub(super) busiest_second: u64,
}

impl Stream {
    /// One that begins with this message, which is not counted yet.
    pub(super) fn new(first: &Move) -> Self {
        Self {
            id: first.id,
            asking: first.direction,
            sent_bytes: 0,
            received_bytes: 0,
            is_socket: false,
            is_file: false,
            sizes: Histogram::default(),
            gaps_ns: Histogram::default(),
            span_ns: (first.at_ns, first.at_ns),
            asked_ns: None,
            last: None,
            second: 0,
            in_second: 0,
            busiest_second: 0,
        }
    }

    /// Counts a message. Returns whether its time was before that of the last.
    pub(super) fn count(&mut self, moved: &Move) -> bool {
        let went_back = moved.at_ns < self.span_ns.1;
        self.span_ns = (self.span_ns.0.min(moved.at_ns), self.span_ns.1.max(moved.at_ns));
        self.is_socket |= moved.is_socket;
        self.is_file |= moved.is_file;
        let bytes = match moved.direction {
            Direction::Out => &mut self.sent_bytes,
            Direction::In => &mut self.received_bytes,
        };
        *bytes = bytes.saturating_add(moved.bytes);
        if moved.direction == self.asking {
            self.ask(moved, went_back);
        } else if let Some((asked_bytes, is_answered)) = &mut self.last {
            // More of the reply may follow.
            let is_first = !std::mem::replace(is_answered, true);
            self.sizes.answer(*asked_bytes, is_first, moved.bytes);
        }
        went_back
    }

    fn ask(&mut self, moved: &Move, went_back: bool) {
        let at_ns = moved.at_ns;
        let (first_ns, last_ns) = self.asked_ns.unwrap_or((at_ns, at_ns));
        if self.asked_ns.is_some() && !went_back {
            self.gaps_ns.count(at_ns.saturating_sub(last_ns));
        }
        self.asked_ns = Some((first_ns.min(at_ns), last_ns.max(at_ns)));
        self.sizes.count(moved.bytes);
        self.last = Some((moved.bytes, false));
        let second = at_ns / NS_PER_S;
        if second != self.second {
            (self.second, self.in_second) = (second, 0);
        }
        self.in_second += 1;
        self.busiest_second = self.busiest_second.max(self.in_second);
    }

    /// Whether this end asks, and the other one answers.
    pub(super) fn asks(&self) -> bool {
        self.asking == Direction::Out
    }

    /// The figures; the rate is that over all of its time.
    pub(super) fn facts(&self) -> StreamFacts {
        let total = self.sizes.total();
        let (first_ns, last_ns) = self.asked_ns.unwrap_or_default();
        let (more, span_ns) = (total.messages.saturating_sub(1), last_ns - first_ns);
        StreamFacts {
            pid: self.id.pid,
            descriptor: self.id.descriptor,
            asks: self.asks(),
            messages: total.messages,
            answered: total.answered,
            sent_bytes: self.sent_bytes,
            received_bytes: self.received_bytes,
            rate_per_s: (more > 0 && span_ns > 0)
                .then(|| more as f64 * NS_PER_S as f64 / span_ns as f64),
        }
    }
}

const NS_PER_S: u64 = 1_000_000_000;
