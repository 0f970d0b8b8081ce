//! What went over one descriptor of one thread, counted as it comes.
//!
//! The first message tells which end this is: whoever writes first asks, whoever reads first
//! answers. A message of the asking direction is a request if the next one is of the other
//! direction, otherwise nobody answered it. Always true: the memory of a stream is bounded.
//! Not here: which streams count (`conclude.rs`).

use super::buckets::Buckets;
use super::classes::{CLASSES, Class, class_of};

/// Which way a message went, as the recorded thread sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Out,
    In,
}

/// A descriptor of a thread. Threads that share one count apart: strace does not tell which belong
/// to one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    pub(super) pid: u32,
    pub(super) descriptor: u32,
    /// How often its number was given to something else before.
    pub(super) generation: u32,
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
    /// strace was told to print paths, and there is one.
    pub(super) is_file: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) id: Id,
    /// The direction of whoever asks.
    pub(super) asking: Direction,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    pub(super) is_socket: bool,
    pub(super) is_file: bool,
    pub(super) classes: [Class; CLASSES],
    pub(super) sizes: Buckets,
    pub(super) gaps_ns: Buckets,
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
    /// Of messages of the asking direction.
    first_ask_ns: u64,
    last_ask_ns: u64,
    /// The class of the message before, and its size: nobody has answered it yet.
    open: Option<(usize, u64)>,
    /// The class of the message whose reply came last: more of it may follow.
    answered: Option<usize>,
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
            classes: std::array::from_fn(Class::new),
            sizes: Buckets::default(),
            gaps_ns: Buckets::default(),
            first_ns: first.at_ns,
            last_ns: first.at_ns,
            first_ask_ns: first.at_ns,
            last_ask_ns: first.at_ns,
            open: None,
            answered: None,
            second: 0,
            in_second: 0,
            busiest_second: 0,
        }
    }

    /// Counts a message. Whether its time was before that of the last.
    pub(super) fn count(&mut self, moved: &Move) -> bool {
        let went_back = moved.at_ns < self.last_ns;
        self.first_ns = self.first_ns.min(moved.at_ns);
        self.last_ns = self.last_ns.max(moved.at_ns);
        self.is_socket |= moved.is_socket;
        self.is_file |= moved.is_file;
        match moved.direction {
            Direction::Out => self.sent_bytes = self.sent_bytes.saturating_add(moved.bytes),
            Direction::In => self.received_bytes = self.received_bytes.saturating_add(moved.bytes),
        }
        if moved.direction == self.asking {
            self.ask(moved, went_back);
        } else {
            self.answer(moved.bytes);
        }
        went_back
    }

    fn ask(&mut self, moved: &Move, went_back: bool) {
        let class = class_of(moved.bytes);
        if self.messages() > 0 && !went_back {
            self.gaps_ns.count_one(moved.at_ns.saturating_sub(self.last_ask_ns));
        }
        self.classes[class].count(moved.bytes);
        self.sizes.count_one(moved.bytes);
        self.first_ask_ns = self.first_ask_ns.min(moved.at_ns);
        self.last_ask_ns = self.last_ask_ns.max(moved.at_ns);
        (self.open, self.answered) = (Some((class, moved.bytes)), None);
        let second = moved.at_ns / NS_PER_S;
        if second != self.second {
            (self.second, self.in_second) = (second, 0);
        }
        self.in_second += 1;
        self.busiest_second = self.busiest_second.max(self.in_second);
    }

    fn answer(&mut self, bytes: u64) {
        if let Some((class, asked_bytes)) = self.open.take() {
            self.classes[class].answer(asked_bytes);
            self.answered = Some(class);
        }
        if let Some(class) = self.answered {
            self.classes[class].add_reply(bytes);
        }
    }

    pub(super) fn messages(&self) -> u64 {
        self.classes.iter().map(|class| class.messages).sum()
    }

    pub(super) fn answers(&self) -> u64 {
        self.classes.iter().map(|class| class.answered).sum()
    }

    /// Messages per second over all of its time.
    pub(super) fn rate_per_s(&self) -> Option<f64> {
        let span_ns = self.last_ask_ns - self.first_ask_ns;
        let more = self.messages().saturating_sub(1);
        (more > 0 && span_ns > 0).then(|| more as f64 * NS_PER_S as f64 / span_ns as f64)
    }
}

const NS_PER_S: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn play(moves: &[(u64, Direction, u64)]) -> (Stream, u64) {
        let id = Id { pid: 1, descriptor: 5, generation: 0 };
        let of = |&(at_ns, direction, bytes): &(u64, Direction, u64)| Move {
            id,
            direction,
            bytes,
            at_ns,
            is_socket: true,
            is_file: false,
        };
        let mut stream = Stream::new(&of(&moves[0]));
        let back = moves.iter().filter(|moved| stream.count(&of(moved))).count();
        (stream, back as u64)
    }

    use Direction::{In, Out};

    #[test]
    fn a_message_with_a_reply_is_a_request_and_one_before_another_is_not() {
        let (stream, _) =
            play(&[(1, Out, 100), (2, In, 8), (3, In, 500), (4, Out, 100), (5, Out, 9)]);
        assert_eq!((stream.messages(), stream.answers()), (3, 1));
        assert_eq!((stream.sent_bytes, stream.received_bytes), (209, 508));
        let class = &stream.classes[class_of(100)];
        assert_eq!((class.messages, class.answered, class.reply_bytes), (2, 1, 508));
        assert_eq!(stream.gaps_ns.ends(), Some((1, 3)));
    }

    #[test]
    fn whoever_reads_first_answers() {
        let (stream, _) = play(&[(1, In, 100), (2, Out, 8), (3, In, 100), (4, Out, 8)]);
        assert_eq!((stream.messages(), stream.answers(), stream.asking), (2, 2, In));
    }

    #[test]
    fn a_clock_that_goes_back_gives_no_gap_and_no_negative_span() {
        let (stream, back) = play(&[(9, Out, 1), (5, Out, 1), (6, Out, 1)]);
        assert_eq!((back, stream.first_ns, stream.last_ns), (2, 5, 9));
        assert_eq!(stream.gaps_ns.ends(), None);
        assert!(stream.rate_per_s().unwrap() > 0.0);
    }

    #[test]
    fn the_rate_counts_from_the_first_to_the_last() {
        let second = NS_PER_S;
        let (stream, _) = play(&[(0, Out, 1), (second, Out, 1), (second + 1, Out, 1)]);
        assert_eq!((stream.busiest_second, stream.rate_per_s().unwrap().round()), (2, 2.0));
        assert_eq!(play(&[(7, Out, 1)]).0.rate_per_s(), None);
    }
}
