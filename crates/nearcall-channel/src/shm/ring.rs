//! Single-producer, single-consumer ring of frames: the producer writes one memory file, the
//! consumer another.
//!
//! A frame's word is its ready flag, published last. There is no index of what was written: the
//! consumer looks at the place where the next frame must begin, and finds zero or a frame. So that
//! it never takes old bytes for a frame, the producer clears that next place before it publishes.
//! It does so ahead of time, after an earlier publication, so that the way of a small message is
//! one store to one cache line.
//! Always true, counted in bytes from the start and never wrapped:
//! `consumed <= head of the consumer <= tail <= consumed + capacity - FRAME_ALIGN`.
//! The words at all frame places in `tail..cleared` are zero.
//! Not here: the payload (whoever calls writes and reads it in place), sleeping and waking
//! (`bell.rs`), what headers mean together (`piece.rs`).

use crate::error::Misdeed;
use crate::piece::PieceHeader;
use crate::shm::layout::{CONSUMED, Capacity, FRAME_ALIGN, PAD, READY, frame_bytes};
use crate::sync::{Ordering, Own, Peer};

/// How many frame places the producer clears ahead.
///
/// Clearing also fetches the line for writing, so it hides that latency in a stream of small
/// messages. More than a few would only evict lines.
const CLEAR_AHEAD: u64 = 4;

const ALIGN: u64 = FRAME_ALIGN as u64;

/// The writing end.
#[derive(Debug)]
pub(crate) struct Producer {
    capacity: Capacity,
    /// Where the next frame begins.
    tail: u64,
    /// Frame places in `tail..cleared` hold zero.
    cleared: u64,
    /// How far the consumer has read, as far as we have looked; judged.
    consumed: u64,
}

impl Producer {
    pub(crate) fn new(capacity: Capacity) -> Self {
        // A new memory file is all zero: one lap is clear.
        Self { capacity, tail: 0, cleared: capacity.bytes() as u64, consumed: 0 }
    }

    /// Room for a piece of `piece_bytes`, which is at most the capacity's `piece_bytes_max`: where
    /// its frame begins in the region. `None`: no room now.
    #[inline]
    pub(crate) fn try_reserve(
        &mut self,
        own: &impl Own,
        peer: &impl Peer,
        piece_bytes: usize,
    ) -> Result<Option<usize>, Misdeed> {
        let frame = frame_bytes(piece_bytes);
        let to_end = self.capacity.bytes_to_end(self.tail);
        let pad = if frame <= to_end { 0 } else { to_end };
        if !self.has_room(peer, (pad + frame) as u64)? {
            return Ok(None);
        }
        if pad > 0 {
            self.publish_word(own, READY | PAD, pad);
        }
        Ok(Some(self.capacity.place(self.tail)))
    }

    /// Whether the consumer has left `bytes` and the place behind them free.
    #[inline]
    pub(crate) fn has_room(&mut self, peer: &impl Peer, bytes: u64) -> Result<bool, Misdeed> {
        if self.tail + bytes + ALIGN <= self.limit() {
            return Ok(true);
        }
        // One load: the peer may change the word at any moment, so it is read once, then judged.
        let consumed = peer.load64(CONSUMED, Ordering::Acquire);
        if consumed < self.consumed || consumed > self.tail {
            return Err(Misdeed::BadIndex);
        }
        self.consumed = consumed;
        Ok(self.tail + bytes + ALIGN <= self.limit())
    }

    /// Whether a message of `message_bytes`, in pieces of at most `piece_bytes_max`, fits now.
    pub(crate) fn has_room_for(
        &mut self,
        peer: &impl Peer,
        message_bytes: usize,
    ) -> Result<bool, Misdeed> {
        let largest = self.capacity.piece_bytes_max();
        let frames = (message_bytes / largest) as u64 * frame_bytes(largest) as u64
            + frame_bytes(message_bytes % largest) as u64;
        // At most one pad, shorter than the longest frame.
        self.has_room(peer, frames + frame_bytes(largest) as u64)
    }

    fn limit(&self) -> u64 {
        self.consumed + self.capacity.bytes() as u64
    }

    /// Publishes the reserved frame, whose bytes have been written.
    #[inline]
    pub(crate) fn publish(&mut self, own: &impl Own, header: PieceHeader) {
        let word = u64::from(header.message_bytes) | u64::from(header.second_word()) << 32 | READY;
        self.publish_word(own, word, frame_bytes(header.piece_bytes as usize));
    }

    #[inline]
    fn publish_word(&mut self, own: &impl Own, word: u64, frame: usize) {
        let place = self.capacity.place(self.tail);
        let next = self.tail + frame as u64;
        if self.cleared <= next {
            own.store64(self.capacity.place(next), 0, Ordering::Relaxed);
            self.cleared = next + ALIGN;
        }
        // Release: the payload and the cleared place are visible to whoever sees the word.
        own.store64(place, word, Ordering::Release);
        self.tail = next;
        let ahead = (next + CLEAR_AHEAD * ALIGN).min(self.limit());
        while self.cleared < ahead {
            own.store64(self.capacity.place(self.cleared), 0, Ordering::Relaxed);
            self.cleared += ALIGN;
        }
    }

    /// Forgets a reserved frame whose bytes may have been written.
    pub(crate) fn forget(&mut self, own: &impl Own) {
        // The places that were cleared ahead may hold those bytes now; this one is looked at next.
        own.store64(self.capacity.place(self.tail), 0, Ordering::Relaxed);
        self.cleared = self.tail + ALIGN;
    }

    /// The longest piece that can be reserved.
    #[inline]
    pub(crate) fn piece_bytes_max(&self) -> usize {
        self.capacity.piece_bytes_max()
    }
}

/// The reading end.
#[derive(Debug)]
pub(crate) struct Consumer {
    capacity: Capacity,
    /// Where the next frame begins.
    head: u64,
    /// Length of the frame that is being read; it ends at `head + frame`.
    frame: u64,
}

impl Consumer {
    pub(crate) fn new(capacity: Capacity) -> Self {
        Self { capacity, head: 0, frame: 0 }
    }

    /// The next piece and where its frame begins in the peer's region, if one is there.
    #[inline]
    pub(crate) fn try_next(
        &mut self,
        own: &impl Own,
        peer: &impl Peer,
    ) -> Result<Option<(PieceHeader, usize)>, Misdeed> {
        let place = self.capacity.place(self.head);
        // One load of a word that the peer may change at any moment; only the copy is judged.
        let word = peer.load64(place, Ordering::Acquire);
        if word & READY == 0 {
            // Anything but zero there would be a producer that forgot to clear.
            return if word == 0 { Ok(None) } else { Err(Misdeed::BadHeader) };
        }
        if word & PAD != 0 {
            return self.skip_pad(own, peer, word);
        }
        self.judge(word, place).map(Some)
    }

    #[inline]
    fn judge(&mut self, word: u64, place: usize) -> Result<(PieceHeader, usize), Misdeed> {
        #[allow(clippy::cast_possible_truncation, reason = "the two halves of the word")]
        let (low, high) = (word as u32, ((word & !READY) >> 32) as u32);
        let header = PieceHeader::from_words(low, high)?;
        let piece_bytes = header.piece_bytes as usize;
        let frame = frame_bytes(piece_bytes);
        let fits = piece_bytes <= self.capacity.piece_bytes_max()
            && frame <= self.capacity.bytes_to_end(self.head);
        if !fits {
            return Err(Misdeed::PieceTooLarge { piece_bytes: header.piece_bytes.into() });
        }
        self.frame = frame as u64;
        Ok((header, place))
    }

    #[cold]
    fn skip_pad(
        &mut self,
        own: &impl Own,
        peer: &impl Peer,
        word: u64,
    ) -> Result<Option<(PieceHeader, usize)>, Misdeed> {
        // A pad reaches to the end and is followed by a frame; two in a row would never end.
        let pad = self.capacity.bytes_to_end(self.head) as u64;
        if word != READY | PAD || pad == self.capacity.bytes() as u64 {
            return Err(Misdeed::BadHeader);
        }
        self.frame = pad;
        self.finish(own);
        let place = self.capacity.place(self.head);
        match peer.load64(place, Ordering::Acquire) {
            0 => Ok(None),
            word if word & READY == 0 || word & PAD != 0 => Err(Misdeed::BadHeader),
            word => self.judge(word, place).map(Some),
        }
    }

    /// Ends the piece that was read and gives its room back.
    #[inline]
    pub(crate) fn finish(&mut self, own: &impl Own) {
        self.head += self.frame;
        self.frame = 0;
        // Release: our reads of the piece come before the producer's next writes there.
        own.store64(CONSUMED, self.head, Ordering::Release);
    }

    /// Whether the next look would find something, good or bad.
    pub(crate) fn is_something_there(&self, peer: &impl Peer) -> bool {
        peer.load64(self.capacity.place(self.head), Ordering::Acquire) != 0
    }

    /// How many bytes have been read since the start.
    #[inline]
    pub(crate) fn head(&self) -> u64 {
        self.head
    }
}
