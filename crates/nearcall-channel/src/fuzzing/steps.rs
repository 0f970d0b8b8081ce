//! Reads the input of a fuzz target as steps: numbers, little-endian, one after the other.
//!
//! **Not here:** what a step does (the targets).

/// Takes numbers off the front; `None` at the end.
pub(super) struct Steps<'a>(pub(super) &'a [u8]);

impl<'a> Steps<'a> {
    pub(super) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    /// Takes a length of one byte and as many bytes, or as many as there are.
    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::from(self.byte()?).min(self.0.len());
        let (first, rest) = self.0.split_at(length);
        self.0 = rest;
        Some(first)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    pub(super) fn half(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    pub(super) fn number(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn word(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(super) fn length(&mut self) -> Option<usize> {
        self.half().map(usize::from)
    }
}
