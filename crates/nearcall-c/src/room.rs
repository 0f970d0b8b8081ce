//! Where the reply of a service lies until the service returns.
//!
//! **Invariants:** a short reply is on the stack of the thread that serves, and nothing is
//! allocated for it; it is written once.
//! **Not here:** who may reply, and when (`service.rs`).

use std::cell::{Cell, OnceCell, UnsafeCell};
use std::mem::MaybeUninit;

use nearcall::dynamic::{Encoded, EncodedSlice};

/// Longest reply on the stack, in bytes: most of control interfaces are below 100.
const BYTES_MAX: usize = 512;

/// Room for the reply of one call.
pub(crate) struct Room {
    short: UnsafeCell<MaybeUninit<[u8; BYTES_MAX]>>,
    short_bytes: Cell<usize>,
    other: OnceCell<Encoded>,
}

impl Room {
    #[inline]
    pub(crate) fn new() -> Self {
        let short = UnsafeCell::new(MaybeUninit::uninit());
        Self { short, short_bytes: Cell::new(0), other: OnceCell::new() }
    }

    /// Keeps a copy of a reply. The first one stays.
    #[inline]
    pub(crate) fn copy(&self, reply: &[u8]) {
        if reply.len() > BYTES_MAX || self.short_bytes.get() != 0 {
            return self.keep(reply.to_vec().into());
        }
        let into = self.short.get().cast::<u8>();
        // SAFETY: there is room for it, in other memory, and nothing has been written there, so
        // that nothing refers to it.
        unsafe { into.copy_from_nonoverlapping(reply.as_ptr(), reply.len()) };
        self.short_bytes.set(reply.len());
    }

    /// Keeps a reply that is not copied. The first one stays.
    pub(crate) fn keep(&self, reply: Encoded) {
        let _ = self.other.set(reply);
    }

    /// Returns the reply; an empty one if there is none.
    #[inline]
    pub(crate) fn reply(&self) -> EncodedSlice<'_> {
        if let Some(other) = self.other.get() {
            return other.into();
        }
        let at = self.short.get().cast::<u8>();
        // SAFETY: so many bytes were written there, and from then on none is.
        EncodedSlice::new(unsafe { std::slice::from_raw_parts(at, self.short_bytes.get()) })
    }
}
