//! Buffers that messages are received into, used again and again.
//!
//! **Invariants:** a buffer's length is its room, and its bytes mean nothing; few are kept. Fresh
//! memory costs more than the copy into it: a page fault for each 4 KiB. A large buffer may be
//! shared with the messages that were read from it: the last of them gives it back, in any thread.
//! A message that is read at once where it was received lies in a buffer of the thread.
//! **Not here:** whose message is in a buffer that is in use.

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use nearcall_channel::grow;

use crate::borrowed::BorrowedSegments;
use crate::limits::BUFFER_BYTES_MIN;

/// Buffers that are not in use.
#[derive(Default)]
pub(crate) struct BufferPool {
    small: RefCell<Vec<Vec<u8>>>,
    large: Arc<Large>,
    /// A list for parts that are lent to us; empty. One: messages are read one after the other.
    segments: Cell<Option<Box<BorrowedSegments>>>,
}

/// The buffers above [`SMALL_BYTES_MAX`]. The lock is rarely contended: a large message costs a
/// hundred times as much.
#[derive(Debug, Default)]
struct Large {
    kept: Mutex<Vec<Vec<u8>>>,
}

/// A large buffer that messages have slices of.
struct Shared {
    buffer: Vec<u8>,
    message_bytes: usize,
    home: Arc<Large>,
}

thread_local! {
    static INLINE: Cell<Option<Room>> = const { Cell::new(None) };
    /// Of services inside each other.
    static SPARE: RefCell<Vec<Room>> = const { RefCell::new(Vec::new()) };
}

type Room = Box<[u8; INLINE_BYTES]>;

/// Room for one message of up to [`INLINE_BYTES`] that is read before the next is received. Of this
/// thread; a service inside another that waits has one of its own.
pub(crate) struct InlineBuf(Option<Room>);

/// Longest message that is read where it was received, in bytes: a page.
const INLINE_BYTES: usize = BUFFER_BYTES_MIN;

/// Spare ones that a thread keeps: services seldom nest deeper.
const SPARE_MAX: usize = 3;

impl InlineBuf {
    #[inline]
    pub(crate) fn take() -> Self {
        match INLINE.try_with(Cell::take) {
            Ok(Some(room)) => Self(Some(room)),
            _ => Self::spare(),
        }
    }

    #[cold]
    fn spare() -> Self {
        let spare = SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten();
        Self(spare.or_else(|| Some(Box::new([0; INLINE_BYTES]))))
    }

    #[cold]
    fn keep(room: Room) {
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE_MAX {
                spare.push(room);
            }
        });
    }
}

impl Deref for InlineBuf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |room| &room[..])
    }
}

impl DerefMut for InlineBuf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.as_mut().map_or(&mut [], |room| &mut room[..])
    }
}

impl Drop for InlineBuf {
    #[inline]
    fn drop(&mut self) {
        // A thread that ends keeps none.
        if let Ok(Some(before)) = INLINE.try_with(|inline| inline.replace(self.0.take())) {
            Self::keep(before);
        }
    }
}

impl BufferPool {
    /// A buffer with room for a small message at least. Allocates only if all are in use.
    #[inline]
    pub(crate) fn take(&self) -> Vec<u8> {
        self.small.borrow_mut().pop().unwrap_or_else(|| vec![0; BUFFER_BYTES_MIN])
    }

    /// A buffer for a message of this length, which may never come: with as much room if there is
    /// one, else with less, or none. Does not allocate.
    pub(crate) fn take_large(&self, message_bytes: usize) -> Vec<u8> {
        self.large.take(message_bytes)
    }

    /// Makes room for `bytes` in a buffer, which are sure to come.
    ///
    /// # Errors
    ///
    /// `OutOfMemory`: the buffer may be another one then, and is not long enough.
    #[inline]
    pub(crate) fn grow(&self, buffer: &mut Vec<u8>, bytes: usize) -> io::Result<()> {
        match buffer.len() < bytes {
            true => self.grow_further(buffer, bytes),
            false => Ok(()),
        }
    }

    #[cold]
    fn grow_further(&self, buffer: &mut Vec<u8>, bytes: usize) -> io::Result<()> {
        if bytes > SMALL_BYTES_MAX {
            self.give(std::mem::replace(buffer, self.large.take(bytes)));
        }
        match buffer.len() < bytes {
            true => grow(buffer, bytes.next_power_of_two().max(BUFFER_BYTES_MIN)),
            false => Ok(()),
        }
    }

    /// Takes a buffer back, unless its memory was taken. One too many is freed, and so is one that
    /// a channel has collected a tiny message in: the next user of a buffer counts on its room.
    #[inline]
    pub(crate) fn give(&self, buffer: Vec<u8>) {
        if buffer.len() > SMALL_BYTES_MAX {
            return self.large.give(buffer);
        }
        let mut small = self.small.borrow_mut();
        if buffer.len() >= BUFFER_BYTES_MIN && small.len() < SMALL_KEPT_MAX {
            small.push(buffer);
        }
    }

    /// A list for the lent parts of a message.
    pub(crate) fn take_segments(&self) -> Box<BorrowedSegments> {
        self.segments.take().unwrap_or_default()
    }

    /// Lets go of the parts, and takes the list back.
    pub(crate) fn give_segments(&self, mut segments: Box<BorrowedSegments>) {
        segments.clear();
        self.segments.set(Some(segments));
    }

    /// Makes the message in a large buffer something that can be sliced. The buffer comes back when
    /// the last slice is gone.
    pub(crate) fn share(&self, buffer: Vec<u8>, message_bytes: usize) -> Bytes {
        let home = Arc::clone(&self.large);
        Bytes::from_owner(Shared { buffer, message_bytes, home })
    }
}

impl Large {
    /// The smallest that is long enough, or else the longest that is not. Not one that is much
    /// longer: a slice of a message that is kept would hold all of it.
    fn take(&self, bytes: usize) -> Vec<u8> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let lengths = || kept.iter().map(Vec::len).enumerate();
        let snug = bytes..=bytes.saturating_mul(ROOM_PER_BYTE_MAX);
        let fitting = lengths().filter(|(_, len)| snug.contains(len)).min_by_key(|(_, len)| *len);
        let shorter = || lengths().filter(|(_, len)| *len < bytes).max_by_key(|(_, len)| *len);
        match fitting.or_else(shorter) {
            Some((index, _)) => kept.swap_remove(index),
            None => Vec::new(),
        }
    }

    fn give(&self, buffer: Vec<u8>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: usize = kept.iter().map(Vec::len).sum();
        if kept.len() < LARGE_KEPT_MAX && bytes + buffer.len() <= LARGE_KEPT_BYTES_MAX {
            kept.push(buffer);
        }
    }
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.buffer.get(..self.message_bytes).unwrap_or_default()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.home.give(std::mem::take(&mut self.buffer));
    }
}

/// Small buffers that are kept: more than services nest in practice, and calls in flight whose
/// replies are taken late.
const SMALL_KEPT_MAX: usize = 64;

/// A buffer above this length, in bytes, is large.
pub(crate) const SMALL_BYTES_MAX: usize = 16 << 10;

/// Largest ratio of the length of a buffer to that of its message. Twice is usual: lengths are
/// powers of two.
const ROOM_PER_BYTE_MAX: usize = 4;

/// Large buffers that are kept: as many as calls in flight are usual.
const LARGE_KEPT_MAX: usize = 64;

/// The same in bytes: two of the largest default size to receive in for each of two services inside
/// each other. More would be memory that is never given back.
const LARGE_KEPT_BYTES_MAX: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back() {
        let buffers = BufferPool::default();
        let mut buffer = buffers.take();
        buffers.grow(&mut buffer, 3 * BUFFER_BYTES_MIN).unwrap();
        assert_eq!(buffer.len(), 4 * BUFFER_BYTES_MIN);
        buffers.give(buffer);
        assert_eq!(buffers.take().len(), 4 * BUFFER_BYTES_MIN);
        assert_eq!(buffers.take().len(), BUFFER_BYTES_MIN);
    }

    #[test]
    fn whatever_comes_back_there_is_room_in_the_next_one() {
        let buffers = BufferPool::default();
        for bytes in [0, 1, 64, BUFFER_BYTES_MIN - 1] {
            buffers.give(vec![0; bytes]);
            let mut fresh = Vec::new();
            buffers.grow(&mut fresh, bytes).unwrap();
            buffers.give(fresh);
            assert!(buffers.take().len() >= BUFFER_BYTES_MIN, "{bytes}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "fills a megabyte")]
    fn a_large_buffer_serves_the_next_large_message() {
        let buffers = BufferPool::default();
        let mut buffer = buffers.take();
        buffers.grow(&mut buffer, 1 << 20).unwrap();
        let place = buffer.as_ptr();
        buffers.give(buffer);
        let mut other = buffers.take();
        assert_eq!(other.len(), BUFFER_BYTES_MIN, "small messages do not use it");
        buffers.grow(&mut other, 1 << 20).unwrap();
        assert_eq!(other.as_ptr(), place);
    }

    #[test]
    fn a_shared_buffer_comes_back_with_its_last_slice() {
        let buffers = BufferPool::default();
        let buffer = vec![9; 1 << 20];
        let place = buffer.as_ptr();
        let whole = buffers.share(buffer, 1000);
        let slice = whole.slice(990..);
        drop(whole);
        assert!(buffers.take_large(1 << 20).is_empty(), "a slice is left");
        std::thread::spawn(move || drop(slice)).join().unwrap();
        let back = buffers.take_large(1 << 20);
        assert_eq!(back.as_ptr(), place);
    }

    #[test]
    fn a_message_does_not_hold_a_buffer_that_is_much_longer() {
        let buffers = BufferPool::default();
        buffers.give(vec![0; 4 << 20]);
        let mut buffer = buffers.take();
        buffers.grow(&mut buffer, 20_000).unwrap();
        assert!((20_000..80_000).contains(&buffer.len()), "{}", buffer.len());
        assert!(buffers.take_large(20_000).is_empty());
        assert_eq!(buffers.take_large(2 << 20).len(), 4 << 20);
    }

    #[test]
    fn memory_is_not_hoarded() {
        let buffers = BufferPool::default();
        for _ in 0..3 * SMALL_KEPT_MAX {
            buffers.give(vec![0; 2 * SMALL_BYTES_MAX]);
            buffers.give(vec![0; BUFFER_BYTES_MIN]);
        }
        assert_eq!(buffers.large.kept.lock().unwrap().len(), LARGE_KEPT_MAX);
        assert_eq!(buffers.small.borrow().len(), SMALL_KEPT_MAX);
        buffers.give(vec![0; LARGE_KEPT_BYTES_MAX]);
        assert_eq!(buffers.large.kept.lock().unwrap().len(), LARGE_KEPT_MAX);
    }
}
