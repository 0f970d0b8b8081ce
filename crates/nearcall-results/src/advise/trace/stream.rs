//! The traffic of one descriptor of one thread, counted as it comes.
//!
//! The first message decides which end this is: the thread that writes first asks, the one that
//! reads first answers. A message of the asking direction is a call if the next one is of the other
//! direction.
//!
//! **Invariants:** the memory of a stream is bounded.
//!
//! **Not here:** which streams count (`reader.rs`).

use super::StreamFacts;
use super::sizes::Sizes;

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
pub(super) struct Transfer {
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
    /// Messages of the asking direction by size, but for the last one.
    pub(super) sizes: Sizes,
    pub(super) reply_bytes: u64,
    /// The times of the first message and of the last.
    pub(super) span_ns: (u64, u64),
    /// The same of the asking direction.
    asked_ns: (u64, u64),
    /// The size of the last message of the asking direction, and whether it was answered.
    last: Option<(u64, bool)>,
    second: u64,
    in_second: u64,
    pub(super) busiest_second: u64,
}

impl Stream {
    /// One that begins with this message, which is not counted yet.
    pub(super) fn new(first: &Transfer) -> Self {
        Self {
            id: first.id,
            asking: first.direction,
            sent_bytes: 0,
            received_bytes: 0,
            is_socket: false,
            is_file: false,
            sizes: Sizes::default(),
            reply_bytes: 0,
            span_ns: (first.at_ns, first.at_ns),
            asked_ns: (first.at_ns, first.at_ns),
            last: None,
            second: 0,
            in_second: 0,
            busiest_second: 0,
        }
    }

    /// Counts a message. Returns whether its time was before that of the last.
    pub(super) fn count(&mut self, moved: &Transfer) -> bool {
        let at_ns = moved.at_ns;
        let went_back = at_ns < self.span_ns.1;
        self.span_ns = (self.span_ns.0.min(at_ns), self.span_ns.1.max(at_ns));
        self.is_socket |= moved.is_socket;
        self.is_file |= moved.is_file;
        let bytes = match moved.direction {
            Direction::Out => &mut self.sent_bytes,
            Direction::In => &mut self.received_bytes,
        };
        *bytes = bytes.saturating_add(moved.bytes);
        if moved.direction == self.asking {
            self.count_last();
            self.last = Some((moved.bytes, false));
            self.asked_ns = (self.asked_ns.0.min(at_ns), self.asked_ns.1.max(at_ns));
            let second = at_ns / NS_PER_S;
            if second != self.second {
                (self.second, self.in_second) = (second, 0);
            }
            self.in_second += 1;
            self.busiest_second = self.busiest_second.max(self.in_second);
        } else if let Some((_, is_answered)) = &mut self.last {
            // More of the reply may follow.
            *is_answered = true;
            self.reply_bytes = self.reply_bytes.saturating_add(moved.bytes);
        }
        went_back
    }

    /// Counts the last message, of which it is known now whether it was answered.
    pub(super) fn count_last(&mut self) {
        if let Some((bytes, is_answered)) = self.last.take() {
            self.sizes.count(bytes, is_answered);
        }
    }

    /// Whether this end asks, and the other one answers.
    pub(super) fn asks(&self) -> bool {
        self.asking == Direction::Out
    }

    /// The figures, after the last message was counted.
    pub(super) fn facts(&self) -> StreamFacts {
        let messages = self.sizes.messages(None);
        let (more, span_ns) = (messages.saturating_sub(1), self.asked_ns.1 - self.asked_ns.0);
        StreamFacts {
            pid: self.id.pid,
            descriptor: self.id.descriptor,
            asks: self.asks(),
            messages,
            answered: self.sizes.messages(Some(true)),
            sent_bytes: self.sent_bytes,
            received_bytes: self.received_bytes,
            rate_per_s: (more > 0 && span_ns > 0)
                .then(|| more as f64 * NS_PER_S as f64 / span_ns as f64),
        }
    }
}

const NS_PER_S: u64 = 1_000_000_000;
