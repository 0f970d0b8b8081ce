//! What a connection has carried: messages, their bytes and their sizes, each way.
//!
//! Counted by a few additions for each message, at both ends of every connection.
//! **Invariants:** counting reads no clock, allocates nothing and cannot fail.
//! **Not here:** what is concluded from it, how long calls take.

use std::fmt;

/// What a connection has carried since it was opened, by whatever mechanisms.
///
/// Every message counts with its header, when it is handed to the channel and when it was received
/// whole: requests, replies, errors, items, and the protocol's own that the other end has sent.
/// What is lent is not in the message that lends it, and does not count.
///
/// Stands in a [`ConnectionInfo`](crate::observe::ConnectionInfo).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Requests, results and items that this end has sent.
    pub sent: MessageCounts,
    /// Messages that this end has received.
    pub received: MessageCounts,
}

/// Messages of one direction.
///
/// See [`Traffic`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MessageCounts {
    /// Their bytes, headers included.
    pub bytes: u64,
    /// Their number by size class: class `i` has messages of up to
    /// [`class_bytes_max(i)`](Self::class_bytes_max), and those of the last class may be longer.
    pub by_size: [u64; Self::CLASSES],
}

impl MessageCounts {
    /// Size classes.
    pub const CLASSES: usize = 16;

    /// Longest message of the first class, in bytes; each further class reaches twice as far.
    const FIRST_CLASS_BYTES_MAX: usize = 64;

    /// Counts one message.
    #[inline(always)]
    pub(crate) fn count(&mut self, message_bytes: usize) {
        self.bytes = self.bytes.wrapping_add(message_bytes as u64);
        let count = &mut self.by_size[Self::class_of(message_bytes)];
        *count = count.wrapping_add(1);
    }

    /// Returns the number of messages.
    pub fn messages(&self) -> u64 {
        self.by_size.iter().fold(0, |sum, count| sum.wrapping_add(*count))
    }

    /// Returns the length of the longest message of a size class, in bytes.
    pub const fn class_bytes_max(class: usize) -> u64 {
        (Self::FIRST_CLASS_BYTES_MAX as u64) << class
    }

    /// Returns the size class of a message.
    #[inline(always)]
    fn class_of(message_bytes: usize) -> usize {
        let above = message_bytes.saturating_sub(1) / Self::FIRST_CLASS_BYTES_MAX;
        ((usize::BITS - above.leading_zeros()) as usize).min(Self::CLASSES - 1)
    }

    /// Returns what was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            bytes: self.bytes.wrapping_sub(earlier.bytes),
            by_size: std::array::from_fn(|class| {
                self.by_size[class].wrapping_sub(earlier.by_size[class])
            }),
        }
    }
}

impl Traffic {
    /// Returns what was counted since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let (sent, received) = (&self.sent, &self.received);
        Self { sent: sent.since(&earlier.sent), received: received.since(&earlier.received) }
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, received } = self;
        let (out, into) = (sent.messages(), received.messages());
        write!(f, "sent {out} messages of {} bytes, ", sent.bytes)?;
        write!(f, "received {into} of {} bytes", received.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_reach_from_one_power_of_two_to_the_next() {
        let class = MessageCounts::class_of;
        assert_eq!([0, 1, 64, 65, 128, 129].map(class), [0, 0, 0, 1, 1, 2]);
        assert_eq!([2 << 20, (2 << 20) + 1, usize::MAX].map(class), [15, 15, 15]);
        for i in 0..MessageCounts::CLASSES {
            let longest = 64 << i;
            assert_eq!(MessageCounts::class_bytes_max(i), longest as u64);
            assert_eq!((class(longest), class(longest + 1)), (i, (i + 1).min(15)));
        }
    }

    #[test]
    fn a_difference_has_what_was_counted_between() {
        let mut traffic = Traffic::default();
        traffic.sent.count(100);
        let before = traffic;
        traffic.sent.count(100);
        traffic.received.count(5000);
        let since = traffic.since(&before);
        assert_eq!((since.sent.messages(), since.sent.bytes), (1, 100));
        assert_eq!((since.received.by_size[7], since.received.bytes), (1, 5000));
        assert_eq!(traffic.sent.messages(), 2);
        assert_eq!(since.to_string(), "sent 1 messages of 100 bytes, received 1 of 5000 bytes");
    }
}
