//! The 8-byte header of a fragment: how messages of any size travel over transports with a largest
//! unit.
//!
//! ```text
//! | message_bytes: u32 | fragment_bytes: 27 bits, 0, 0, 0, ABORT, LAST | bytes ... |
//! ```
//!
//! A message of up to one fragment is one header and its bytes. A longer one is several fragments
//! that follow each other; each repeats the length of the whole. The last has `LAST`. `ABORT` ends
//! a message that the sender gave up; it carries no bytes.
//!
//! **Invariants** of an [`Reassembly`]: the bytes taken so far are at most the message's length,
//! which is at most the limit. Whatever else a peer announces is a [`Violation`].
//! **Not here:** where the bytes lie (`kernel/stream.rs`, `kernel/packet.rs`, `shm/ring.rs`).

use crate::error::Violation;
use crate::shm::layout::{ABORT, LAST, LENGTH, PAD};

pub(crate) use crate::shm::layout::HEADER_BYTES;

/// The header of a fragment, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FragmentHeader {
    /// Length of the whole message, the same in each of its fragments.
    pub(crate) message_bytes: u32,
    /// Length of this fragment.
    pub(crate) fragment_bytes: u32,
    /// The message is complete after this fragment.
    pub(crate) last: bool,
    /// The sender aborted the message; nothing more of it comes.
    pub(crate) abort: bool,
}

impl FragmentHeader {
    /// The header of a fragment of `fragment_bytes` after which `left_bytes` are still to come.
    ///
    /// Lengths are our own numbers, bounded by the connection's limit.
    #[inline(always)]
    pub(crate) fn data(message_bytes: usize, fragment_bytes: usize, left_bytes: usize) -> Self {
        Self {
            message_bytes: length_u32(message_bytes),
            fragment_bytes: length_u32(fragment_bytes),
            last: left_bytes == 0,
            abort: false,
        }
    }

    /// The header that aborts a message.
    pub(crate) fn aborted(message_bytes: usize) -> Self {
        Self {
            message_bytes: length_u32(message_bytes),
            fragment_bytes: 0,
            last: false,
            abort: true,
        }
    }

    /// The second word: length and flags.
    #[inline(always)]
    pub(crate) fn second_word(self) -> u32 {
        debug_assert!(self.fragment_bytes <= LENGTH, "a fragment is shorter than 2^27 bytes");
        let flags = if self.last { LAST } else { 0 } | if self.abort { ABORT } else { 0 };
        self.fragment_bytes | flags
    }

    /// Encodes the header as it travels.
    pub(crate) fn encode(self) -> [u8; HEADER_BYTES] {
        let word = u64::from(self.message_bytes) | u64::from(self.second_word()) << 32;
        word.to_le_bytes()
    }

    /// From what came in.
    pub(crate) fn decode(bytes: [u8; HEADER_BYTES]) -> Result<Self, Violation> {
        let [m0, m1, m2, m3, s0, s1, s2, s3] = bytes;
        Self::from_words(u32::from_le_bytes([m0, m1, m2, m3]), u32::from_le_bytes([s0, s1, s2, s3]))
    }

    /// From both words, the first in the low half, if it is data; a ring's bits are passed over.
    #[inline(always)]
    pub(crate) fn plain(word: u64) -> Option<Self> {
        const NOT_PLAIN: u64 = (ABORT as u64) << 32 | PAD;
        #[allow(clippy::cast_possible_truncation, reason = "the two halves of the word")]
        let (message_bytes, second) = (word as u32, (word >> 32) as u32);
        (word & NOT_PLAIN == 0).then_some(Self {
            message_bytes,
            fragment_bytes: second & LENGTH,
            last: second & LAST != 0,
            abort: false,
        })
    }

    /// From the two words of a header.
    #[inline(always)]
    pub(crate) fn from_words(message_bytes: u32, second: u32) -> Result<Self, Violation> {
        if second & !(LAST | ABORT | LENGTH) != 0 {
            return Err(Violation::BadHeader);
        }
        let header = Self {
            message_bytes,
            fragment_bytes: second & LENGTH,
            last: second & LAST != 0,
            abort: second & ABORT != 0,
        };
        match header.abort && (header.last || header.fragment_bytes != 0) {
            true => Err(Violation::BadHeader),
            false => Ok(header),
        }
    }
}

/// The meaning of a fragment for the message that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The bytes belong to the message; more fragments follow.
    More,
    /// The bytes belong to the message and complete it.
    Complete,
    /// The message is aborted.
    Aborted,
}

/// Judges fragments in their order. Holds numbers only, never bytes.
#[derive(Debug)]
pub(crate) struct Reassembly {
    message_bytes_max: u32,
    /// Length and bytes taken so far of the message under way.
    under_way: Option<(u32, u32)>,
}

impl Reassembly {
    pub(crate) fn new(message_bytes_max: u32) -> Self {
        Self { message_bytes_max, under_way: None }
    }

    /// Takes the next header from the peer.
    #[inline(always)]
    pub(crate) fn handle(&mut self, header: FragmentHeader) -> Result<Step, Violation> {
        if header.message_bytes > self.message_bytes_max {
            return Err(Violation::MessageTooLarge { message_bytes: header.message_bytes.into() });
        }
        let (whole, taken) = self.under_way.unwrap_or((header.message_bytes, 0));
        if whole != header.message_bytes {
            return Err(Violation::FragmentOutOfOrder);
        }
        if header.abort {
            self.under_way = None;
            return Ok(Step::Aborted);
        }
        let left = whole - taken;
        if header.fragment_bytes > left {
            return Err(Violation::FragmentTooLarge {
                fragment_bytes: header.fragment_bytes.into(),
            });
        }
        match (header.last, header.fragment_bytes == left) {
            (true, true) => {
                self.under_way = None;
                Ok(Step::Complete)
            }
            // An empty fragment that completes nothing would let a peer keep us busy for nothing.
            (false, false) if header.fragment_bytes > 0 => {
                self.under_way = Some((whole, taken + header.fragment_bytes));
                Ok(Step::More)
            }
            _ => Err(Violation::FragmentOutOfOrder),
        }
    }

    /// Returns whether the fragment is a whole message by itself, and no other is under way.
    ///
    /// The same judgement as [`handle`](Self::handle), for the commonest case, without a branch to
    /// any other.
    #[inline(always)]
    pub(crate) fn is_whole_message(&self, header: FragmentHeader) -> bool {
        header.last
            && header.fragment_bytes == header.message_bytes
            && header.message_bytes <= self.message_bytes_max
            && self.under_way.is_none()
    }
}

fn length_u32(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("lengths are judged against the connection's limit before")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_the_way() {
        for header in [
            FragmentHeader::data(0, 0, 0),
            FragmentHeader::data(1 << 20, 16 << 10, 1),
            FragmentHeader::data(77, 77, 0),
            FragmentHeader::aborted(5),
        ] {
            assert_eq!(FragmentHeader::decode(header.encode()), Ok(header));
        }
    }

    #[test]
    fn meaningless_bits_are_refused() {
        for second in [1 << 27, 1 << 28, 1 << 29, ABORT | LAST, ABORT | 1] {
            assert_eq!(FragmentHeader::from_words(8, second), Err(Violation::BadHeader));
        }
    }

    #[test]
    fn fragments_that_follow_each_other_make_a_message() {
        let mut reassembly = Reassembly::new(100);
        assert_eq!(reassembly.handle(FragmentHeader::data(100, 60, 40)), Ok(Step::More));
        assert_eq!(reassembly.handle(FragmentHeader::data(100, 40, 0)), Ok(Step::Complete));
        assert_eq!(reassembly.handle(FragmentHeader::data(0, 0, 0)), Ok(Step::Complete));
        assert_eq!(reassembly.handle(FragmentHeader::data(9, 3, 6)), Ok(Step::More));
        assert_eq!(reassembly.handle(FragmentHeader::aborted(9)), Ok(Step::Aborted));
        assert!(reassembly.is_whole_message(FragmentHeader::data(9, 9, 0)));
    }

    #[test]
    fn hostile_headers_are_named() {
        let check = |headers: &[FragmentHeader], expected: Violation| {
            let mut reassembly = Reassembly::new(100);
            let (last, before) = headers.split_last().unwrap();
            for header in before {
                reassembly.handle(*header).unwrap();
            }
            assert_eq!(reassembly.handle(*last), Err(expected));
        };
        let data = FragmentHeader::data;
        check(&[data(101, 1, 100)], Violation::MessageTooLarge { message_bytes: 101 });
        check(&[data(10, 11, 0)], Violation::FragmentTooLarge { fragment_bytes: 11 });
        check(&[data(10, 5, 5), data(10, 6, 0)], Violation::FragmentTooLarge { fragment_bytes: 6 });
        check(&[data(10, 5, 5), data(11, 5, 0)], Violation::FragmentOutOfOrder);
        check(&[data(10, 9, 0)], Violation::FragmentOutOfOrder);
        check(&[data(10, 10, 1)], Violation::FragmentOutOfOrder);
        check(&[data(10, 0, 10)], Violation::FragmentOutOfOrder);
    }
}
