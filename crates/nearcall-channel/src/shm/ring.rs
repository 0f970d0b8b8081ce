//! Single-producer, single-consumer ring of frames: the producer writes one memory file, the
//! consumer another.
//!
//! A frame's word is its ready flag, published last. There is no index of what was written: the
//! consumer looks at the place where the next frame must begin. A word with the parity of this lap
//! is a frame; zero or the word of a lap ago is none. Where something else stands, bytes of a
//! longer frame or a word of many laps ago, the producer puts a zero before it publishes the frame
//! in front. So the way of a small message is stores to one cache line and nothing else.
//! While the consumer keeps up, the producer stays near the ring's start: it wraps early, with a
//! pad over the rest, so that few cache lines and pages are in use. A backlog uses the whole ring.
//!
//! **Invariants**, counted in bytes from the start and never wrapped:
//! `consumed <= head of the consumer <= tail <= consumed + capacity - FRAME_ALIGN`.
//! The word at each place that is not `stale` is zero or of the lap before.
//! **Not here:** the payload (the caller writes and reads it in place), sleeping and waking
//! (`doorbell.rs`), what headers mean together (`fragment.rs`).
//!
//! **Invariant:** a word that the peer can write is loaded once, compared with local limits, and
//! only the copy is used. Invalid words end the connection; they never panic and never reach an
//! index unmasked. *Checked by* `tests/it/hostile_region.rs`, `fuzz/fuzz_targets/region.rs`.

use std::ops::Range;

use crate::error::Violation;
use crate::fragment::FragmentHeader;
use crate::shm::layout::{
    CONSUMED, Capacity, FRAME_ALIGN, FRAMES, LAP, LENGTHS, PAD, Pages, READY, WINDOW_BYTES,
    frame_bytes,
};
use crate::sync::{Ordering, Own, Peer};

/// Fragments of one size that follow each other before they wrap early. A long message rotates
/// over so many places, so that the reader's copy of one and the writer's of the next do not meet.
const WINDOW_FRAGMENTS: usize = 8;

/// Bytes of a ring that takes its pages late that get pages at once: a fragment of a long
/// message and a half, so that few system calls are needed.
const GROW_BYTES: usize = 32 << 10;

const ALIGN: u64 = FRAME_ALIGN as u64;

/// The writing end.
#[derive(Debug)]
pub(crate) struct Producer {
    capacity: Capacity,
    /// The position of the next frame.
    tail: u64,
    /// Places whose word must be zeroed before the consumer looks there.
    stale: Places,
    /// The position that the consumer has read, as far as we have looked; checked.
    consumed: u64,
    /// The result of `update_plain_end`.
    plain_until: u64,
    /// From here on the producer looks whether it can go back to the ring's start.
    wrap_at: u64,
    /// No fragment is longer.
    fragment_bytes_max: usize,
    committed: CommittedPages,
}

impl Producer {
    pub(crate) fn new(capacity: Capacity, pages: Pages) -> Self {
        let fragment_bytes_max = capacity.fragment_bytes_max();
        Self {
            capacity,
            tail: 0,
            stale: Places::none(capacity),
            consumed: 0,
            plain_until: 0,
            wrap_at: WINDOW_BYTES as u64,
            fragment_bytes_max,
            committed: CommittedPages::new(capacity, pages),
        }
    }

    /// Room for a fragment where nothing has to be asked or done for it: the commonest case of
    /// [`try_reserve`](Self::try_reserve), in one comparison.
    #[inline(always)]
    pub(crate) fn reserve_plain(&self, fragment_bytes: usize) -> Option<usize> {
        let next = self.tail + frame_bytes(fragment_bytes) as u64;
        (next <= self.plain_until).then(|| self.capacity.place(self.tail))
    }

    /// Up to where frames need no look at the consumer, no wrap and no pad.
    fn update_plain_end(&mut self) {
        let end = self.tail + self.committed.bytes_from(self.capacity.place(self.tail)) as u64;
        self.plain_until = (self.limit() - ALIGN).min(end).min(self.wrap_at);
    }

    /// Room for a fragment of `fragment_bytes`, which is at most the capacity's
    /// `fragment_bytes_max`: where its frame begins in the region. `None`: no room now.
    #[inline(never)]
    pub(crate) fn try_reserve(
        &mut self,
        own: &impl Own,
        peer: &impl Peer,
        fragment_bytes: usize,
    ) -> Result<Option<usize>, Violation> {
        if !self.has_room(peer, self.bytes_for(fragment_bytes))? {
            return Ok(None);
        }
        let frame = frame_bytes(fragment_bytes);
        if self.tail >= self.wrap_at {
            self.wrap_early(own, peer, frame)?;
        }
        let to_end = self.capacity.bytes_to_end(self.tail);
        let place = if frame > to_end { FRAMES } else { self.capacity.place(self.tail) };
        if frame > self.committed.bytes_from(place)
            && !self.committed.grow(place + frame, |pages| own.make_present(pages))
        {
            return Ok(None);
        }
        if frame > to_end {
            self.publish_word(own, READY | PAD, to_end);
        }
        self.update_plain_end();
        Ok(Some(self.capacity.place(self.tail)))
    }

    /// Returns whether a look with `try_reserve` would give room or a violation.
    #[inline(always)]
    pub(crate) fn may_reserve(&mut self, peer: &impl Peer, fragment_bytes: usize) -> bool {
        let bytes = self.bytes_for(fragment_bytes);
        self.tail + bytes + ALIGN <= self.limit() || self.has_room(peer, bytes).unwrap_or(true)
    }

    /// Returns the bytes that a fragment takes here and now: its frame, and the pad in front of it
    /// if it must wrap.
    #[inline(always)]
    fn bytes_for(&self, fragment_bytes: usize) -> u64 {
        let frame = frame_bytes(fragment_bytes);
        let to_end = self.capacity.bytes_to_end(self.tail);
        let pad = if frame <= to_end { 0 } else { to_end };
        (pad + frame) as u64
    }

    /// Goes back to the ring's start if we are far enough and the consumer has kept up.
    #[cold]
    fn wrap_early(
        &mut self,
        own: &impl Own,
        peer: &impl Peer,
        frame: usize,
    ) -> Result<(), Violation> {
        let to_end = self.capacity.bytes_to_end(self.tail);
        let offset = self.capacity.bytes() - to_end;
        let window = WINDOW_BYTES.max(WINDOW_FRAGMENTS * frame);
        self.wrap_at = self.tail + WINDOW_BYTES as u64;
        if offset < window {
            self.wrap_at = self.tail + (window - offset) as u64;
        } else if self.has_room(peer, (to_end + frame) as u64)? {
            self.publish_word(own, READY | PAD, to_end);
            self.wrap_at = self.tail + WINDOW_BYTES as u64;
        }
        // Otherwise the consumer is behind: use the ring, and look again a window later.
        Ok(())
    }

    /// Returns whether the consumer has left `bytes` and the place behind them free.
    #[inline(always)]
    pub(crate) fn has_room(&mut self, peer: &impl Peer, bytes: u64) -> Result<bool, Violation> {
        if self.tail + bytes + ALIGN <= self.limit() {
            return Ok(true);
        }
        // One load: the peer may change the word at any moment, so it is read once, then judged.
        let consumed = peer.load64(CONSUMED, Ordering::Acquire);
        if consumed < self.consumed || consumed > self.tail {
            return Err(Violation::BadIndex);
        }
        self.consumed = consumed;
        Ok(self.tail + bytes + ALIGN <= self.limit())
    }

    /// Returns whether a message of `message_bytes`, in fragments of at most `fragment_bytes_max`,
    /// fits now. If so its fragments can be reserved one after the other without waiting.
    pub(crate) fn has_room_for(
        &mut self,
        peer: &impl Peer,
        message_bytes: usize,
    ) -> Result<bool, Violation> {
        let largest = self.fragment_bytes_max;
        let frames = (message_bytes / largest) as u64 * frame_bytes(largest) as u64
            + frame_bytes(message_bytes % largest) as u64;
        // At most one pad at the ring's end, shorter than the longest frame.
        let bytes = frames + frame_bytes(largest) as u64;
        let fits = self.has_room(peer, bytes)?;
        if fits {
            // An early wrap between the fragments would take room that was just promised.
            self.wrap_at = self.wrap_at.max(self.tail + bytes);
        }
        Ok(fits)
    }

    fn limit(&self) -> u64 {
        self.consumed + self.capacity.bytes() as u64
    }

    /// Publishes the reserved frame, whose bytes have been written.
    #[inline(always)]
    pub(crate) fn publish(&mut self, own: &impl Own, header: FragmentHeader) {
        let word = u64::from(header.message_bytes) | u64::from(header.second_word()) << 32 | READY;
        self.publish_word(own, word, frame_bytes(header.fragment_bytes as usize));
    }

    /// Publishes the reserved frame as an indirect one, in which the place of the fragment is
    /// written. Returns how far the consumer has read once it is done with that.
    #[inline]
    pub(crate) fn publish_indirect(&mut self, own: &impl Own, header: FragmentHeader) -> u64 {
        let word = u64::from(header.message_bytes) | u64::from(header.second_word()) << 32;
        self.publish_word(own, word | READY | PAD, FRAME_ALIGN);
        self.tail
    }

    /// Returns whether the consumer has read as far as `position`, which we have published.
    #[inline]
    pub(crate) fn is_read_to(
        &mut self,
        peer: &impl Peer,
        position: u64,
    ) -> Result<bool, Violation> {
        if position > self.consumed {
            // Looks at the consumer: so much room there never is.
            self.has_room(peer, u64::MAX / 2)?;
        }
        Ok(position <= self.consumed)
    }

    /// Returns how far the consumer has read, as far as we have looked.
    pub(crate) fn consumed(&self) -> u64 {
        self.consumed
    }

    #[inline(always)]
    fn publish_word(&mut self, own: &impl Own, word: u64, frame: usize) {
        let (place, next) = (self.capacity.place(self.tail), self.tail + frame as u64);
        let next_place = self.capacity.place(next);
        if self.stale.contains(next_place) {
            own.store64(next_place, 0, Ordering::Relaxed);
            self.stale.remove(next_place);
        }
        if frame > FRAME_ALIGN {
            self.stale.insert(place + FRAME_ALIGN..place + frame);
        }
        // Release: the payload and the zero behind it are visible to whoever sees the word.
        own.store64(place, word | self.capacity.lap(self.tail), Ordering::Release);
        self.tail = next;
    }

    /// Forgets a reserved frame of a fragment of `fragment_bytes`, some of which may have been
    /// written.
    pub(crate) fn forget(&mut self, fragment_bytes: usize) {
        let place = self.capacity.place(self.tail);
        self.stale.insert(place + FRAME_ALIGN..place + frame_bytes(fragment_bytes));
    }

    /// Bytes of the ring.
    pub(crate) fn capacity_bytes(&self) -> usize {
        self.capacity.bytes()
    }

    /// The longest fragment that can be reserved.
    #[inline]
    pub(crate) fn fragment_bytes_max(&self) -> usize {
        self.fragment_bytes_max
    }
}

/// The part of a ring that has pages. A hostile peer may leave pages out; an end that reads them
/// all the same would be killed if memory has run out, so both ends ask for them first.
#[derive(Debug, Clone, Copy)]
struct CommittedPages {
    /// The offset in the region where the pages end.
    end: usize,
    /// The end of the frames for which no pages have to be requested: the place behind has a page,
    /// too.
    plain_end: usize,
    region_bytes: usize,
}

impl CommittedPages {
    fn new(capacity: Capacity, pages: Pages) -> Self {
        let region_bytes = capacity.region_bytes();
        Self { end: 0, plain_end: 0, region_bytes }.to(pages.end(capacity))
    }

    fn to(self, end: usize) -> Self {
        // Behind the last frame of the ring comes its first place.
        let plain_end = if end == self.region_bytes { end } else { end - FRAME_ALIGN };
        Self { end, plain_end, ..self }
    }

    /// Returns how many bytes of frames may begin at `place`.
    #[inline(always)]
    fn bytes_from(&self, place: usize) -> usize {
        self.plain_end - place
    }

    /// Asks for pages for frames up to `end`. False: there are none.
    #[cold]
    fn grow(&mut self, end: usize, make_present: impl FnOnce(Range<usize>) -> bool) -> bool {
        let wanted = (end + FRAME_ALIGN).next_multiple_of(GROW_BYTES).min(self.region_bytes);
        let made = make_present(self.end..wanted);
        if made {
            *self = self.to(wanted);
        }
        made
    }
}

/// Returns whether a word that is there says that the fragment lies elsewhere.
#[inline]
fn is_indirect(word: u64) -> bool {
    word & PAD != 0 && word & LENGTHS != 0
}

/// A set of frame places, one bit each. Private to the producer.
#[derive(Debug)]
struct Places {
    bits: Box<[u64]>,
    /// All from here on are in the set: what a pad covers usually is already.
    all_from: usize,
}

impl Places {
    fn none(capacity: Capacity) -> Self {
        let places = capacity.bytes() / FRAME_ALIGN;
        Self { bits: vec![0; places.div_ceil(64)].into_boxed_slice(), all_from: places }
    }

    #[inline(always)]
    fn bit(place: usize) -> (usize, u64) {
        let number = (place - FRAMES) / FRAME_ALIGN;
        (number / 64, 1 << (number % 64))
    }

    #[inline(always)]
    fn contains(&self, place: usize) -> bool {
        let (at, bit) = Self::bit(place);
        self.bits[at] & bit != 0
    }

    #[inline(always)]
    fn remove(&mut self, place: usize) {
        let (at, bit) = Self::bit(place);
        self.bits[at] &= !bit;
        self.all_from = self.all_from.max((place - FRAMES) / FRAME_ALIGN + 1);
    }

    /// All places in a range of bytes; a word of the set at a time, since a pad covers thousands.
    fn insert(&mut self, places: Range<usize>) {
        let first = (places.start - FRAMES) / FRAME_ALIGN;
        let mut last = (places.end - FRAMES).div_ceil(FRAME_ALIGN);
        if last >= self.all_from {
            last = self.all_from;
            self.all_from = self.all_from.min(first);
        }
        let mut number = first;
        while number < last {
            let (at, from) = (number / 64, number % 64);
            let count = (64 - from).min(last - number);
            self.bits[at] |= (u64::MAX >> (64 - count)) << from;
            number += count;
        }
    }
}

/// The reading end.
#[derive(Debug)]
pub(crate) struct Consumer {
    capacity: Capacity,
    /// The position of the next frame.
    head: u64,
    /// Length of the frame that is being read; it ends at `head + frame`.
    frame: u64,
    /// No fragment is longer.
    fragment_bytes_max: usize,
    committed: CommittedPages,
    /// `true` if fragments may lie elsewhere.
    takes_indirect: bool,
    /// The frame that is being read is an indirect one.
    is_indirect: bool,
}

impl Consumer {
    pub(crate) fn new(capacity: Capacity, pages: Pages) -> Self {
        let (fragment_bytes_max, committed) =
            (capacity.fragment_bytes_max(), CommittedPages::new(capacity, pages));
        let takes_indirect = pages == Pages::First;
        Self {
            capacity,
            head: 0,
            frame: 0,
            fragment_bytes_max,
            committed,
            takes_indirect,
            is_indirect: false,
        }
    }

    /// The word of the next frame: zero while nothing is there.
    ///
    /// One load of a word that the peer may change at any moment; only this copy is judged.
    #[inline(always)]
    pub(crate) fn look(&self, peer: &impl Peer) -> u64 {
        let word = peer.load64(self.capacity.place(self.head), Ordering::Acquire);
        let of_this_lap = word & (READY | LAP) == READY | self.capacity.lap(self.head);
        if of_this_lap { word & !LAP } else { 0 }
    }

    /// Returns the next fragment, if the word from [`look`](Self::look) is of the plain kind: data,
    /// not a pad, sound. Else `None`, and [`try_next`](Self::try_next) says what it is.
    #[inline(always)]
    pub(crate) fn try_plain(&mut self, word: u64) -> Option<(FragmentHeader, usize)> {
        let place = self.capacity.place(self.head);
        let header = FragmentHeader::plain(word)?;
        let fragment_bytes = header.fragment_bytes as usize;
        let frame = frame_bytes(fragment_bytes);
        if fragment_bytes > self.fragment_bytes_max || frame > self.committed.bytes_from(place) {
            return None;
        }
        self.frame = frame as u64;
        Some((header, place))
    }

    /// The next fragment and where its frame begins in the peer's region, if one is there.
    #[inline(never)]
    pub(crate) fn try_next(
        &mut self,
        own: &impl Own,
        peer: &impl Peer,
    ) -> Result<Option<(FragmentHeader, usize)>, Violation> {
        let word = self.look(peer);
        self.is_indirect = self.takes_indirect && is_indirect(word);
        if self.is_indirect {
            return self.check_indirect(peer, word).map(Some);
        }
        if word & PAD == 0 {
            return if word == 0 { Ok(None) } else { self.decode(peer, word).map(Some) };
        }
        // A pad reaches to the end and is followed by a frame; two in a row would never end.
        let pad = self.capacity.bytes_to_end(self.head);
        if word != READY | PAD || pad == self.capacity.bytes() {
            return Err(Violation::BadHeader);
        }
        self.frame = pad as u64;
        self.finish(own);
        match self.look(peer) {
            0 => Ok(None),
            word if self.takes_indirect && is_indirect(word) => {
                self.is_indirect = true;
                self.check_indirect(peer, word).map(Some)
            }
            word if word & PAD != 0 => Err(Violation::BadHeader),
            word => self.decode(peer, word).map(Some),
        }
    }

    /// Returns whether the fragment that `try_next` gave is not here, and what is here says where.
    #[inline]
    pub(crate) fn is_indirect(&self) -> bool {
        self.is_indirect
    }

    /// Checks the frame of a fragment that lies elsewhere, and returns the header and the place of
    /// the frame. The code that finds the fragment checks its length.
    fn check_indirect(
        &mut self,
        peer: &impl Peer,
        word: u64,
    ) -> Result<(FragmentHeader, usize), Violation> {
        #[allow(clippy::cast_possible_truncation, reason = "the two halves of the word")]
        let (low, high) = (word as u32, ((word & !READY & !PAD) >> 32) as u32);
        let header = FragmentHeader::from_words(low, high)?;
        Ok((header, self.take_frame(peer, FRAME_ALIGN)?))
    }

    fn decode(
        &mut self,
        peer: &impl Peer,
        word: u64,
    ) -> Result<(FragmentHeader, usize), Violation> {
        #[allow(clippy::cast_possible_truncation, reason = "the two halves of the word")]
        let (low, high) = (word as u32, ((word & !READY) >> 32) as u32);
        let header = FragmentHeader::from_words(low, high)?;
        let fragment_bytes = header.fragment_bytes as usize;
        let frame = frame_bytes(fragment_bytes);
        if fragment_bytes > self.fragment_bytes_max || frame > self.capacity.bytes_to_end(self.head)
        {
            return Err(Violation::FragmentTooLarge {
                fragment_bytes: header.fragment_bytes.into(),
            });
        }
        Ok((header, self.take_frame(peer, frame)?))
    }

    /// Takes the next frame, of `frame` bytes, which ends inside the ring, and returns its place.
    /// From here on it has pages, and so has the word behind it.
    fn take_frame(&mut self, peer: &impl Peer, frame: usize) -> Result<usize, Violation> {
        let place = self.capacity.place(self.head);
        if frame > self.committed.bytes_from(place)
            && !self.committed.grow(place + frame, |pages| peer.make_present(pages))
        {
            // An honest end has asked for them before.
            return Err(Violation::BadIndex);
        }
        self.frame = frame as u64;
        Ok(place)
    }

    /// Ends the fragment that was read and gives its room back.
    #[inline(always)]
    pub(crate) fn finish(&mut self, own: &impl Own) {
        self.head += self.frame;
        self.frame = 0;
        // Release: our reads of the fragment come before the producer's next writes there.
        own.store64(CONSUMED, self.head, Ordering::Release);
    }

    /// Returns how many bytes have been read since the start.
    #[inline]
    pub(crate) fn head(&self) -> u64 {
        self.head
    }
}

#[cfg(test)]
mod tests;
