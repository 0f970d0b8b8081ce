//! What messages carry, so that a measurement can prove that every byte arrived.
//!
//! A message is pseudo-random bytes with its number in front. Successive messages carry shifted
//! bytes, so that an old message's body under a new number is found too. Both ends make the same
//! [`Payload`] from seed and size; neither sends checksums. Copying belongs to the channel; here
//! bytes are only made, summed ([`Checksum`]) and judged ([`Verifier`]).
//!
//! **Invariant:** every byte of the payload is written by the producer and read by the consumer,
//! unless the run states otherwise (`--payload-access`), and a wrong byte fails the run. *Checked
//! by* `every_other_value_of_a_byte_is_found`, `a_lost_or_moved_byte_is_found`.

mod checksum;

use std::fmt;

pub use checksum::Checksum;

use crate::touch::Touch;

/// The bytes of all messages of one size.
///
/// Making one costs the size in memory and in time. Filling copies; knowing a checksum costs a few
/// nanoseconds whatever the size.
#[derive(Clone, Debug)]
pub struct Payload {
    pattern: Vec<u8>,
    message_bytes: usize,
    /// How many of them, from the first on, are written and read.
    touched_bytes: usize,
    /// Whether a message is its number and no more, and all of it is touched.
    is_word: bool,
    /// The checksum of each shift's message with zeros for its number.
    bases: [u64; SHIFTS],
    /// By how much a checksum grows with the number.
    number_weight: u64,
    /// Whether a message is a header that is only moved: its length is judged, its bytes are not.
    is_header: bool,
}

impl Payload {
    /// Makes the payload of `message_bytes` bytes for `seed`.
    #[must_use]
    pub fn new(seed: u64, message_bytes: usize) -> Self {
        Self::touched(seed, message_bytes, Touch::Full)
    }

    /// The same of which only a part is written and read. The rest has the length and no contents.
    #[must_use]
    pub fn touched(seed: u64, message_bytes: usize, touch: Touch) -> Self {
        let touched_bytes = touch.bytes_of(message_bytes);
        let mut pattern = vec![0; message_bytes + SHIFT_BYTES * (SHIFTS - 1)];
        fastrand::Rng::with_seed(seed).fill(&mut pattern);
        let bases = std::array::from_fn(|shift| {
            let body = &pattern[shift * SHIFT_BYTES..][..touched_bytes];
            let (head, rest) = body.split_at(NUMBER_BYTES.min(touched_bytes));
            let mut sum = Checksum::new();
            sum.update(&[0; NUMBER_BYTES][..head.len()]);
            sum.update(rest);
            sum.finish()
        });
        let number_weight = Checksum::first_word_weight(touched_bytes);
        let is_word = message_bytes == NUMBER_BYTES && touched_bytes == NUMBER_BYTES;
        Self {
            pattern,
            message_bytes,
            touched_bytes,
            is_word,
            bases,
            number_weight,
            is_header: false,
        }
    }

    /// Messages that stand for headers without a payload: written and moved in full, and of what
    /// arrives only the length is judged. Summing their bytes would cost as much as a call.
    #[must_use]
    pub(crate) fn headers(seed: u64, message_bytes: usize) -> Self {
        Self { is_header: true, ..Self::new(seed, message_bytes) }
    }

    /// The same payload with one wrong byte, whose receiver must find it.
    #[must_use]
    pub(crate) fn with_damage(mut self) -> Self {
        let middle = self.pattern.len() / 2;
        // With few bytes the number covers some of them in the first shift, but in no other.
        if let Some(byte) = self.pattern.get_mut(middle) {
            *byte ^= 1;
        }
        self
    }

    /// The size of every message.
    #[must_use]
    pub fn message_bytes(&self) -> usize {
        self.message_bytes
    }

    /// Whether only a part of each message is written and read.
    #[inline]
    fn is_partial(&self) -> bool {
        self.touched_bytes < self.message_bytes
    }

    /// Writes the bytes of message `number` from `offset` on into `piece`. Copies, no more. What
    /// is not touched stays as it is.
    ///
    /// # Panics
    ///
    /// If `piece` reaches beyond the end of the message.
    #[inline]
    pub fn fill(&self, number: u64, offset: usize, piece: &mut [u8]) {
        match <&mut [u8; NUMBER_BYTES]>::try_from(&mut *piece) {
            // A message that is only its number, the commonest of the small ones.
            Ok(word) if self.is_word => *word = number.to_le_bytes(),
            _ => self.fill_long(number, offset, piece),
        }
    }

    /// Gives the bytes of message `number` to `take`, in order, in at most two parts. For buffers
    /// that are written by appending; [`fill`](Self::fill) writes the same bytes.
    #[inline]
    pub fn parts(&self, number: u64, mut take: impl FnMut(&[u8])) {
        let start = shift_of(number) * SHIFT_BYTES;
        let body = &self.pattern[start..start + self.message_bytes];
        let (head, rest) = body.split_at(NUMBER_BYTES.min(self.message_bytes));
        take(&number.to_le_bytes()[..head.len()]);
        take(rest);
    }

    fn fill_long(&self, number: u64, offset: usize, piece: &mut [u8]) {
        let end = offset.checked_add(piece.len()).filter(|&end| end <= self.message_bytes);
        let end = end.expect("a piece lies within its message");
        let touched = self.touched_bytes.saturating_sub(offset).min(piece.len());
        let (piece, end) = (&mut piece[..touched], end.min(offset + touched));
        let start = shift_of(number) * SHIFT_BYTES;
        piece.copy_from_slice(&self.pattern[start + offset..start + end]);
        if let Some(head) = number.to_le_bytes().get(offset..end.min(NUMBER_BYTES)) {
            piece[..head.len()].copy_from_slice(head);
        }
    }

    /// The checksum of message `number`. Reads none of its bytes.
    #[must_use]
    pub fn expected(&self, number: u64) -> u64 {
        let numbered = self.number_word(number).wrapping_mul(self.number_weight);
        self.bases[shift_of(number)].wrapping_add(numbered)
    }

    /// The number as far as the message has room for it.
    fn number_word(&self, number: u64) -> u64 {
        match self.touched_bytes {
            0 => 0,
            bytes @ 1..NUMBER_BYTES => number & (u64::MAX >> (64 - 8 * bytes)),
            _ => number,
        }
    }
}

/// Reads arriving messages in full and judges each.
///
/// For each message: [`Verifier::piece`] for its pieces in order, then [`Verifier::end`]. Reads
/// each byte once, copies at most 64 bytes per piece, allocates nothing.
#[derive(Clone, Debug)]
pub struct Verifier<'a> {
    payload: &'a Payload,
    next: u64,
    sum: Checksum,
    /// Of the current message, where not all of it is read.
    length_bytes: usize,
    /// Depends on every checksum: give it to `std::hint::black_box` and into the result.
    digest: u64,
}

impl<'a> Verifier<'a> {
    /// Expects messages of `payload` in order, `first` being the number of the next one.
    #[must_use]
    pub fn new(payload: &'a Payload, first: u64) -> Self {
        Self { payload, next: first, sum: Checksum::new(), length_bytes: 0, digest: 0 }
    }

    /// Reads the next piece of the current message, of any length.
    pub fn piece(&mut self, bytes: &[u8]) {
        if self.payload.is_header {
            self.length_bytes += std::hint::black_box(bytes).len();
            return;
        }
        if self.payload.is_partial() {
            return self.part(bytes);
        }
        self.sum.update(bytes);
    }

    /// How many bytes of each message from the first on must be given to [`piece`](Self::piece),
    /// if the rest may be left unread; `None` if all must.
    #[inline]
    #[must_use]
    pub fn needs_bytes(&self) -> Option<usize> {
        self.payload.is_partial().then_some(self.payload.touched_bytes)
    }

    /// The next `bytes` of the current message came and are left unread.
    pub fn skip(&mut self, bytes: usize) {
        self.length_bytes += bytes;
    }

    /// Reads what is to be read of a piece.
    fn part(&mut self, bytes: &[u8]) {
        let left = self.payload.touched_bytes.saturating_sub(self.length_bytes);
        self.length_bytes += bytes.len();
        self.sum.update(&bytes[..bytes.len().min(left)]);
    }

    /// Ends the current message, and expects the one after it from now on.
    ///
    /// # Errors
    ///
    /// [`Corruption`]: the message is not the one that was due, or is damaged.
    pub fn end(&mut self) -> Result<(), Corruption> {
        if self.payload.is_header {
            return self.end_header();
        }
        if self.payload.is_partial() {
            self.check_length()?;
        }
        let outcome = self.judge(self.next);
        self.sum.reset();
        self.next = self.next.wrapping_add(1);
        outcome
    }

    /// Reads and ends a message that came in one piece: [`piece`](Self::piece) and
    /// [`end`](Self::end) in one step.
    ///
    /// # Errors
    ///
    /// As [`end`](Self::end).
    #[inline]
    pub fn whole(&mut self, bytes: &[u8]) -> Result<(), Corruption> {
        if let Ok(word) = <[u8; NUMBER_BYTES]>::try_from(bytes)
            && self.payload.is_word
            && u64::from_le_bytes(word) == self.next
        {
            // A message that is only its number, and the right one.
            self.digest = self.digest.rotate_left(1) ^ self.next;
            self.next = self.next.wrapping_add(1);
            return Ok(());
        }
        self.piece(bytes);
        self.end()
    }

    /// The number of the message that is due.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// A word that depends on every byte read so far, to be kept so that no read can be left out.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest
    }

    #[inline]
    fn end_header(&mut self) -> Result<(), Corruption> {
        let outcome = self.check_length();
        self.next = self.next.wrapping_add(1);
        outcome
    }

    /// Judges the length of the current message, where not all of it was read.
    fn check_length(&mut self) -> Result<(), Corruption> {
        let found = std::mem::take(&mut self.length_bytes) as u64;
        let (number, expected) = (self.next, self.payload.message_bytes as u64);
        match found == expected {
            true => Ok(()),
            false => Err(Corruption::Length { number, expected, found }),
        }
    }

    fn judge(&mut self, number: u64) -> Result<(), Corruption> {
        let found = self.sum.finish();
        self.digest = self.digest.rotate_left(1) ^ found;
        let (bytes, found_bytes) = (self.payload.touched_bytes as u64, self.sum.bytes());
        if found_bytes != bytes {
            return Err(Corruption::Length { number, expected: bytes, found: found_bytes });
        }
        let expected = self.payload.expected(number);
        if found == expected {
            return Ok(());
        }
        let found_number = self.sum.first_word();
        if found_number != self.payload.number_word(number) {
            return Err(Corruption::Number { number, found: found_number });
        }
        Err(Corruption::Checksum { number, expected, found })
    }
}

/// How a message differs from the one that was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corruption {
    /// It is shorter or longer.
    Length {
        /// The message that was due.
        number: u64,
        /// Its size in bytes.
        expected: u64,
        /// How many bytes came.
        found: u64,
    },
    /// It begins with another number: lost, doubled, out of order, or damaged there.
    Number {
        /// The message that was due.
        number: u64,
        /// The number that came.
        found: u64,
    },
    /// Its number is right and its bytes are not.
    Checksum {
        /// The message that was due.
        number: u64,
        /// Its checksum.
        expected: u64,
        /// The checksum of what came.
        found: u64,
    },
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { number, expected, found } => {
                write!(f, "message {number} has {found} bytes instead of {expected}")
            }
            Self::Number { number, found } => {
                write!(f, "message {number} was due, number {found} came")
            }
            Self::Checksum { number, expected, found } => {
                write!(f, "message {number} has checksum {found:016x} instead of {expected:016x}")
            }
        }
    }
}

impl std::error::Error for Corruption {}

#[expect(clippy::cast_possible_truncation, reason = "the remainder is below SHIFTS")]
fn shift_of(number: u64) -> usize {
    (number % SHIFTS as u64) as usize
}

/// Bytes of a message that hold its number.
const NUMBER_BYTES: usize = 8;

/// Different bodies in turn. A body that stayed in a buffer is found unless it is this old
/// exactly.
const SHIFTS: usize = 7;

/// A cache line, so that every copy starts as aligned as the pattern.
const SHIFT_BYTES: usize = 64;

#[cfg(test)]
mod tests;
