//! Buffers that messages are received into, used again and again.
//!
//! Always true: a buffer's length is its room, and its bytes mean nothing; few are kept.
//! Not here: whose message is in a buffer that is in use.

use std::cell::RefCell;

use crate::limits::BUFFER_BYTES_MIN;

/// Buffers that nobody uses right now.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    free: RefCell<Vec<Vec<u8>>>,
}

impl Buffers {
    /// A buffer with room for a small message at least. Allocates only if all are in use.
    #[inline]
    pub(crate) fn take(&self) -> Vec<u8> {
        self.free.borrow_mut().pop().unwrap_or_else(|| vec![0; BUFFER_BYTES_MIN])
    }

    /// Takes a buffer back, unless somebody has taken its memory. One too many, or a very large one
    /// beside others, is freed.
    #[inline]
    pub(crate) fn give(&self, buffer: Vec<u8>) {
        if buffer.is_empty() {
            return;
        }
        let mut free = self.free.borrow_mut();
        if free.len() < KEPT_MAX && (buffer.len() <= KEPT_LARGE_BYTES || free.is_empty()) {
            free.push(buffer);
        }
    }
}

/// Buffers that are kept: more than services nest in practice, and calls in flight whose replies
/// are taken late.
const KEPT_MAX: usize = 64;

/// Of buffers larger than this, in bytes, only one is kept: it serves large messages one after the
/// other, and 64 of them would be memory that is never given back.
const KEPT_LARGE_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back() {
        let buffers = Buffers::default();
        let mut buffer = buffers.take();
        buffer.resize(3 * BUFFER_BYTES_MIN, 0);
        buffers.give(buffer);
        assert_eq!(buffers.take().len(), 3 * BUFFER_BYTES_MIN);
        assert_eq!(buffers.take().len(), BUFFER_BYTES_MIN);
    }

    #[test]
    fn memory_is_not_hoarded() {
        let buffers = Buffers::default();
        for _ in 0..3 * KEPT_MAX {
            buffers.give(vec![0; 2 * KEPT_LARGE_BYTES]);
        }
        assert_eq!(buffers.free.borrow().len(), 1);
    }
}
