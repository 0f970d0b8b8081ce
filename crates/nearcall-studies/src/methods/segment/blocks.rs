//! The blocks of a segment: first fit, and free neighbours become one block at once.
//!
//! Every block begins with a header: its bytes, header included, and the next free block, or a mark
//! that it is in use. The free ones form a list in the order of their places.
//! **Invariants:** a walk goes upwards only, so it ends whatever the other end wrote.
//! **Not here:** the lock, which whoever calls holds (`segment.rs`).

use nearcall_os::region::SharedRegion;

use super::{Handle, RELAXED, SegmentError};

/// The blocks from `from` to the end of the region.
pub(super) struct Blocks<'a> {
    region: &'a SharedRegion,
    from: usize,
}

/// A header as it was read and judged.
#[derive(Clone, Copy)]
struct Block {
    at: usize,
    bytes: usize,
    /// The next free block; 0: there is none.
    next: u64,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(region: &'a SharedRegion, from: usize) -> Self {
        Self { region, from }
    }

    /// Makes all of it one free block.
    pub(super) fn init(&self) {
        let first = self.from + HEADER_BYTES;
        let bytes = (self.region.len() - first) / ALIGN * ALIGN;
        self.store(Block { at: first, bytes, next: 0 });
        self.link(self.from, first as u64);
    }

    pub(super) fn allocate(&self, bytes: usize) -> Result<Handle, SegmentError> {
        let needed = bytes.checked_add(HEADER_BYTES).ok_or(SegmentError::Full)?;
        let needed = needed.checked_next_multiple_of(ALIGN).ok_or(SegmentError::Full)?;
        let (mut link, mut above) = (self.from, 0);
        while let Some(block) = self.free_at(link, above)? {
            if block.bytes >= needed {
                self.take(link, block, needed);
                return Ok(Handle { at: (block.at + HEADER_BYTES) as u64, bytes: bytes as u64 });
            }
            (link, above) = (block.at, block.at);
        }
        Err(SegmentError::Full)
    }

    pub(super) fn free(&self, handle: Handle) -> Result<(), SegmentError> {
        let at = usize::try_from(handle.at).ok().and_then(|at| at.checked_sub(HEADER_BYTES));
        let mut freed = self.load(at.ok_or(SegmentError::Broken)?)?;
        if freed.next != IN_USE || handle.bytes > (freed.bytes - HEADER_BYTES) as u64 {
            return Err(SegmentError::Broken);
        }
        let mut below = None;
        let mut link = self.from;
        let above = loop {
            match self.free_at(link, below.map_or(0, |block: Block| block.at))? {
                Some(block) if block.at < freed.at => {
                    link = block.at;
                    below = Some(block);
                }
                above => break above,
            }
        };
        freed.next = above.map_or(0, |block| block.at as u64);
        if let Some(above) = above.filter(|above| freed.at + freed.bytes == above.at) {
            freed.bytes += above.bytes;
            freed.next = above.next;
        }
        match below.filter(|below| below.at + below.bytes == freed.at) {
            Some(below) => {
                self.store(Block { bytes: below.bytes + freed.bytes, next: freed.next, ..below });
            }
            None => {
                self.store(freed);
                self.link(link, freed.at as u64);
            }
        }
        Ok(())
    }

    /// The free blocks as pairs of place and length.
    #[cfg(test)]
    pub(super) fn all_free(&self) -> Result<Vec<(usize, usize)>, SegmentError> {
        let (mut found, mut link, mut above) = (Vec::new(), self.from, 0);
        while let Some(block) = self.free_at(link, above)? {
            found.push((block.at, block.bytes));
            (link, above) = (block.at, block.at);
        }
        Ok(found)
    }

    /// Cuts `needed` bytes off a free block, whose place stands at `link`.
    fn take(&self, link: usize, block: Block, needed: usize) {
        let left = block.bytes - needed;
        if left < BLOCK_BYTES_MIN {
            self.link(link, block.next);
            self.store(Block { next: IN_USE, ..block });
            return;
        }
        let rest = Block { at: block.at + needed, bytes: left, next: block.next };
        self.store(rest);
        self.link(link, rest.at as u64);
        self.store(Block { at: block.at, bytes: needed, next: IN_USE });
    }

    /// The free block whose place stands at `link`; it must lie above `above`.
    fn free_at(&self, link: usize, above: usize) -> Result<Option<Block>, SegmentError> {
        let at = self.region.word64(link + NEXT).load(RELAXED);
        if at == 0 {
            return Ok(None);
        }
        let block = self.load(usize::try_from(at).map_err(|_| SegmentError::Broken)?)?;
        let in_order = block.at > above && block.next != IN_USE;
        if in_order { Ok(Some(block)) } else { Err(SegmentError::Broken) }
    }

    /// Reads a header and judges it.
    fn load(&self, at: usize) -> Result<Block, SegmentError> {
        let end = self.region.len();
        if !at.is_multiple_of(ALIGN) || at <= self.from || at > end - BLOCK_BYTES_MIN {
            return Err(SegmentError::Broken);
        }
        let bytes = self.region.word64(at).load(RELAXED);
        let bytes = usize::try_from(bytes).map_err(|_| SegmentError::Broken)?;
        let possible = bytes.is_multiple_of(ALIGN) && (HEADER_BYTES..=end - at).contains(&bytes);
        if !possible {
            return Err(SegmentError::Broken);
        }
        Ok(Block { at, bytes, next: self.region.word64(at + NEXT).load(RELAXED) })
    }

    fn store(&self, block: Block) {
        self.region.word64(block.at).store(block.bytes as u64, RELAXED);
        self.link(block.at, block.next);
    }

    fn link(&self, at: usize, next: u64) {
        self.region.word64(at + NEXT).store(next, RELAXED);
    }
}

/// Boost aligns what it allocates to this.
const ALIGN: usize = 16;

/// Length, and the next free block.
const HEADER_BYTES: usize = 16;

/// Of a header: behind the length.
const NEXT: usize = 8;

/// A rest below this stays with the block before it.
const BLOCK_BYTES_MIN: usize = 2 * HEADER_BYTES;

/// Stands where a free block has its successor. No place, since places are aligned.
const IN_USE: u64 = u64::MAX;
