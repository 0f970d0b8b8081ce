//! Bytes that are given away: replies, items, texts.
//!
//! **Invariants:** a short reply is one piece of memory, which its bytes are copied to once; a long
//! one and one that lies in loans stays where it is.
//! **Not here:** reading bytes of C (`border.rs`).

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ffi::c_void;
use std::ptr;

use bytes::Bytes;
use nearcall::Message;
use nearcall::dynamic::Encoded;
use nearcall::prost::DecodeError;
use nearcall::prost::bytes::{Buf, BufMut};
use nearcall::prost::encoding::{DecodeContext, WireType, skip_field};

use crate::types::nearcall_bytes;

/// Longer ones are not copied: the limit below which the runtime copies in any case, in bytes.
const COPIED_BYTES_MAX: usize = 4 << 10;
/// In front of copied bytes: how many there are.
const HEAD_BYTES: usize = size_of::<usize>();
/// A bit of `owner`, which is even: the bytes were copied.
const IS_COPIED: usize = 1;

/// No bytes.
pub(crate) const NONE: nearcall_bytes =
    nearcall_bytes { data: ptr::null(), size: 0, owner: ptr::null_mut() };

/// Gives bytes away.
pub(crate) fn give_bytes(bytes: Bytes) -> nearcall_bytes {
    if bytes.is_empty() {
        return NONE;
    }
    let owner = Box::new(bytes);
    let (data, size) = (owner.as_ptr(), owner.len());
    nearcall_bytes { data, size, owner: Box::into_raw(owner).cast::<c_void>() }
}

/// Gives a copy of bytes away.
fn give_copy(bytes: &[u8]) -> nearcall_bytes {
    let layout = layout(bytes.len());
    // SAFETY: it has room for the head at least.
    let head = unsafe { alloc(layout) };
    if head.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: it is new memory, aligned for the length, with room for it.
    unsafe { head.cast::<usize>().write(bytes.len()) };
    let data = head.wrapping_add(HEAD_BYTES);
    // SAFETY: behind the length there is room for all bytes, in other memory.
    unsafe { data.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    let owner = head.map_addr(|at| at | IS_COPIED).cast::<c_void>();
    nearcall_bytes { data, size: bytes.len(), owner }
}

/// The memory of a copy, which has at most [`COPIED_BYTES_MAX`].
const fn layout(size: usize) -> Layout {
    // SAFETY: a power of two, and far below the largest.
    unsafe { Layout::from_size_align_unchecked(HEAD_BYTES + size, align_of::<usize>()) }
}

/// Releases what `owner` of bytes says.
///
/// # Safety
///
/// It was given away here, and not released; or it is null.
pub(crate) unsafe fn release(owner: *mut c_void) {
    if owner.addr() & IS_COPIED == 0 {
        if !owner.is_null() {
            // SAFETY: `give_bytes` has made it, by the caller.
            drop(unsafe { Box::from_raw(owner.cast::<Bytes>()) });
        }
        return;
    }
    let head = owner.cast::<u8>().map_addr(|at| at & !IS_COPIED);
    // SAFETY: `give_copy` has made it and written the length, by the caller.
    let size = unsafe { head.cast::<usize>().read() };
    // SAFETY: as above, with this layout.
    unsafe { dealloc(head, layout(size)) };
}

/// A reply on its way to C, as the runtime decodes it: its bytes.
#[derive(Debug)]
pub(crate) struct Reply(nearcall_bytes);

// SAFETY: what it owns may be used and released in any thread.
unsafe impl Send for Reply {}
// SAFETY: as above; shared, it is only read.
unsafe impl Sync for Reply {}

impl Reply {
    /// Returns the bytes, to be released by [`release`].
    pub(crate) fn into_bytes(mut self) -> nearcall_bytes {
        std::mem::replace(&mut self.0, NONE)
    }
}

impl From<Encoded> for Reply {
    fn from(encoded: Encoded) -> Self {
        Self(give_bytes(encoded.into_bytes()))
    }
}

impl Default for Reply {
    fn default() -> Self {
        Self(NONE)
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.0.owner.is_null() {
            // SAFETY: it was not given away.
            unsafe { release(self.0.owner) };
        }
    }
}

impl Message for Reply {
    fn merge(&mut self, mut buf: impl Buf) -> Result<(), DecodeError> {
        let all = buf.remaining();
        *self = match buf.chunk().get(..all) {
            _ if all == 0 => Self::default(),
            Some(bytes) if all < COPIED_BYTES_MAX => Self(give_copy(bytes)),
            _ => {
                let mut encoded = Encoded::default();
                encoded.merge(&mut buf)?;
                encoded.into()
            }
        };
        Ok(())
    }

    /// Not called: [`merge`](Self::merge) takes all fields.
    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        skip_field(wire_type, tag, buf, context)
    }

    /// Not called, as the next one: it is only received.
    fn encode_raw(&self, _: &mut impl BufMut) {}

    fn encoded_len(&self) -> usize {
        self.0.size
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}
