#![allow(unsafe_code, reason = "copies out of memory that another process writes")]
//! Bytes that another process may change at any time, and copying them out and in.
//!
//! **Invariants:** there is no `&[u8]` of such memory; a copy is not read from it a second time:
//! the caller sees what was copied, whatever the peer does meanwhile.
//! **Not here:** judging what was read (the caller's duty), the memory itself (`mapping.rs`).

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::{self, NonNull};

/// A read-only view of bytes that a peer may change at any time.
///
/// It can be copied out of, never borrowed as `&[u8]`: the compiler may read a `&[u8]` twice and
/// expect the same answer.
#[derive(Debug, Clone, Copy)]
pub struct SharedBytes<'a> {
    start: NonNull<u8>,
    bytes: usize,
    region: PhantomData<&'a ()>,
}

// SAFETY: it points into memory of the process that the region behind 'a keeps, and only reads.
unsafe impl Send for SharedBytes<'_> {}
// SAFETY: as for Send; reading from two threads at once is fine.
unsafe impl Sync for SharedBytes<'_> {}

impl<'a> SharedBytes<'a> {
    /// # Safety
    ///
    /// `bytes` bytes from `start` stay readable during 'a, and no `&mut` to them is used during
    /// a copy.
    pub(super) unsafe fn new(start: NonNull<u8>, bytes: usize) -> Self {
        Self { start, bytes, region: PhantomData }
    }

    /// A view of private memory, for code that reads shared and private bytes in the same way.
    #[must_use]
    #[inline]
    pub fn from_slice(bytes: &'a [u8]) -> Self {
        Self { start: NonNull::from(bytes).cast(), bytes: bytes.len(), region: PhantomData }
    }

    /// The length of the view in bytes. A peer cannot change it.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Returns whether the view has no bytes.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The bytes of `range`, counted from the start of this view.
    ///
    /// # Panics
    ///
    /// If `range` is not inside the view.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn slice(&self, range: Range<usize>) -> Self {
        let bytes = check_range(&range, self.bytes);
        // SAFETY: `check_range` proves that `range.start` is inside the view.
        let start = unsafe { self.start.add(range.start) };
        Self { start, bytes, region: PhantomData }
    }

    /// The start of the view, for code that may make a slice of it.
    #[inline]
    pub(super) fn as_ptr(&self) -> NonNull<u8> {
        self.start
    }

    /// Copies the whole view into `target`. One copy, no system call, no allocation.
    ///
    /// If the peer writes meanwhile, the copy holds some old and some new bytes, and stays so.
    ///
    /// # Panics
    ///
    /// If `target` is not exactly as long as the view.
    #[inline]
    #[track_caller]
    pub fn copy_to(&self, target: &mut [u8]) {
        assert!(target.len() == self.bytes, "the target is as long as the view");
        // SAFETY: the source is readable for its length (`new`), the target is as long, and
        // private memory (`&mut`) does not overlap shared memory.
        unsafe { copy_shared(self.start.as_ptr(), target.as_mut_ptr(), self.bytes) }
    }

    /// Copies the 4 bytes at `offset` and returns them as a number in the machine's byte order.
    ///
    /// `offset` needs no alignment. For a word of synchronisation use `load32` of the region.
    ///
    /// # Panics
    ///
    /// If the 4 bytes are not inside the view.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn read_u32(&self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.read_array(offset))
    }

    /// Copies the 8 bytes at `offset` and returns them as a number in the machine's byte order.
    ///
    /// # Panics
    ///
    /// If the 8 bytes are not inside the view.
    #[must_use]
    #[inline]
    #[track_caller]
    pub fn read_u64(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.read_array(offset))
    }

    #[inline]
    #[track_caller]
    fn read_array<const N: usize>(&self, offset: usize) -> [u8; N] {
        let mut array = [0; N];
        self.slice(offset..offset.saturating_add(N)).copy_to(&mut array);
        array
    }
}

/// Copies memory of which one side is shared with another process.
///
/// # Safety
///
/// `source` is readable and `target` writable for `bytes` bytes; they do not overlap; inside this
/// process nothing else accesses the bytes meanwhile in a conflicting way.
#[inline(always)]
pub(super) unsafe fn copy_shared(source: *const u8, target: *mut u8, bytes: usize) {
    // Up to 256 bytes a loop of volatile word loads was slower than `memcpy` (31 against 6 ns), and
    // what follows keeps the same promise. One word and the header of a call are so common, and the
    // call of `memcpy` so large a part of a small message, that they have copies of their own.
    if bytes == size_of::<u64>() {
        // SAFETY: the same promises.
        unsafe { ptr::copy_nonoverlapping(source, target, size_of::<u64>()) };
    } else if bytes == CALL_BYTES {
        // SAFETY: the same promises.
        unsafe { ptr::copy_nonoverlapping(source, target, CALL_BYTES) };
    } else {
        // SAFETY: the same promises. Another process that writes the source at the same time is
        // outside of what the compiler can see; it makes the copy a mixture, not more.
        unsafe { ptr::copy_nonoverlapping(source, target, bytes) };
    }
    forget_what_is_known(target);
}

/// Length of an empty call or reply, in bytes: the header of a frame. Copies of this length have
/// code of their own, here and where a message is sent; the call protocol checks that it is right.
pub const CALL_BYTES: usize = 40;

/// Makes the compiler treat the memory at `target` as unknown.
///
/// After a plain copy the compiler knows that source and target are equal, and may read the shared
/// source again where the program reads the private target. A peer could then change a value
/// between the check and the use. The empty assembly block may, for all the compiler knows, have
/// written all memory that `target` reaches, so the target must be read.
#[inline(always)]
fn forget_what_is_known(target: *mut u8) {
    #[cfg(not(miri))]
    // SAFETY: the block has no instructions.
    unsafe {
        std::arch::asm!("/* {0} */", in(reg) target, options(nostack, preserves_flags));
    }
    #[cfg(miri)]
    std::hint::black_box(target);
}

/// Length of `range`, after a check that it lies inside `bytes` bytes.
#[inline]
#[track_caller]
pub(super) fn check_range(range: &Range<usize>, bytes: usize) -> usize {
    assert!(
        range.start <= range.end && range.end <= bytes,
        "range {range:?} outside of {bytes} bytes"
    );
    range.end - range.start
}

/// Pointer to the word of type `T` at `offset`, after a check that it is aligned and inside.
#[inline]
#[track_caller]
pub(super) fn check_word<T>(start: NonNull<u8>, bytes: usize, offset: usize) -> NonNull<T> {
    assert!(
        offset.is_multiple_of(size_of::<T>()) && offset < bytes && bytes - offset >= size_of::<T>(),
        "no aligned word at {offset} in {bytes} bytes"
    );
    // SAFETY: `offset` is inside the region, by the assertion.
    unsafe { start.add(offset) }.cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(bytes: &[u8]) -> SharedBytes<'_> {
        // SAFETY: the borrow keeps the bytes, and nothing writes them.
        unsafe { SharedBytes::new(NonNull::from(bytes).cast(), bytes.len()) }
    }

    #[test]
    fn every_length_and_alignment_is_copied_exactly() {
        let source: Vec<u8> = (0..=255).cycle().take(600).collect();
        for start in 0..9 {
            for bytes in (0..40).chain(250..262).chain([511, 512, 513]) {
                let mut target = vec![0; bytes];
                view(&source).slice(start..start + bytes).copy_to(&mut target);
                assert_eq!(target, source[start..start + bytes], "{start} {bytes}");
            }
        }
    }

    #[test]
    fn numbers_are_read_at_any_offset() {
        let source = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(view(&source).read_u32(1), u32::from_ne_bytes([2, 3, 4, 5]));
        assert_eq!(view(&source).read_u64(1), u64::from_ne_bytes([2, 3, 4, 5, 6, 7, 8, 9]));
    }

    #[test]
    #[should_panic(expected = "outside of 9 bytes")]
    fn a_number_past_the_end_panics() {
        let _ = view(&[0; 9]).read_u64(2);
    }

    #[test]
    #[should_panic(expected = "outside of 9 bytes")]
    fn an_offset_that_overflows_panics() {
        let _ = view(&[0; 9]).read_u64(usize::MAX);
    }

    #[test]
    #[should_panic(expected = "as long as the view")]
    fn a_target_of_another_length_panics() {
        view(&[0; 9]).copy_to(&mut [0; 8]);
    }
}
