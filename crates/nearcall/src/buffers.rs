//! Buffers that messages are received into or marshalled in, used again and again.
//!
//! Always true: a buffer's length is its room, and its bytes mean nothing; few are kept. Fresh
//! memory costs more than the copy into it: a page fault for each 4 KiB.
//! Not here: whose message is in a buffer that is in use.

use std::cell::RefCell;

use crate::limits::BUFFER_BYTES_MIN;

/// Buffers that nobody uses right now.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    small: RefCell<Vec<Vec<u8>>>,
    /// Those above [`LARGE_BYTES`].
    large: RefCell<Vec<Vec<u8>>>,
}

impl Buffers {
    /// A buffer with room for a small message at least. Allocates only if all are in use.
    #[inline]
    pub(crate) fn take(&self) -> Vec<u8> {
        self.small.borrow_mut().pop().unwrap_or_else(|| vec![0; BUFFER_BYTES_MIN])
    }

    /// Makes room for `bytes` in a buffer, or gives another one for it.
    #[inline]
    pub(crate) fn grow(&self, buffer: &mut Vec<u8>, bytes: usize) {
        if buffer.len() < bytes {
            self.grow_further(buffer, bytes);
        }
    }

    #[cold]
    fn grow_further(&self, buffer: &mut Vec<u8>, bytes: usize) {
        if bytes > LARGE_BYTES {
            let large = self.large.borrow_mut().pop().unwrap_or_default();
            self.give(std::mem::replace(buffer, large));
        }
        if buffer.len() < bytes {
            buffer.resize(bytes.next_power_of_two(), 0);
        }
    }

    /// Takes a buffer back, unless somebody has taken its memory. One too many is freed.
    #[inline]
    pub(crate) fn give(&self, buffer: Vec<u8>) {
        let (list, kept_max) = match buffer.len() {
            0 => return,
            1..=LARGE_BYTES => (&self.small, SMALL_KEPT_MAX),
            _ => (&self.large, LARGE_KEPT_MAX),
        };
        let mut list = list.borrow_mut();
        if list.len() < kept_max {
            list.push(buffer);
        }
    }
}

/// Small buffers that are kept: more than services nest in practice, and calls in flight whose
/// replies are taken late.
const SMALL_KEPT_MAX: usize = 64;

/// A buffer above this length, in bytes, is large.
const LARGE_BYTES: usize = 64 << 10;

/// Large buffers that are kept: one to receive in and one to marshal in, for each of two services
/// inside each other. More would be memory that is never given back.
const LARGE_KEPT_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back() {
        let buffers = Buffers::default();
        let mut buffer = buffers.take();
        buffers.grow(&mut buffer, 3 * BUFFER_BYTES_MIN);
        assert_eq!(buffer.len(), 4 * BUFFER_BYTES_MIN);
        buffers.give(buffer);
        assert_eq!(buffers.take().len(), 4 * BUFFER_BYTES_MIN);
        assert_eq!(buffers.take().len(), BUFFER_BYTES_MIN);
    }

    #[test]
    fn a_large_buffer_serves_the_next_large_message() {
        let buffers = Buffers::default();
        let mut buffer = buffers.take();
        buffers.grow(&mut buffer, 1 << 20);
        let place = buffer.as_ptr();
        buffers.give(buffer);
        let mut other = buffers.take();
        assert_eq!(other.len(), BUFFER_BYTES_MIN, "small messages do not use it");
        buffers.grow(&mut other, 1 << 20);
        assert_eq!(other.as_ptr(), place);
    }

    #[test]
    fn memory_is_not_hoarded() {
        let buffers = Buffers::default();
        for _ in 0..3 * SMALL_KEPT_MAX {
            buffers.give(vec![0; 2 * LARGE_BYTES]);
            buffers.give(vec![0; BUFFER_BYTES_MIN]);
        }
        assert_eq!(buffers.large.borrow().len(), LARGE_KEPT_MAX);
        assert_eq!(buffers.small.borrow().len(), SMALL_KEPT_MAX);
    }
}
