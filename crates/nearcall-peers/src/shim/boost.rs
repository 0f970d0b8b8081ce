//! Boost's message queue, which is C++ (`shim/boost.cpp`), as a safe type.
#![allow(unsafe_code, reason = "Boost is C++, and calling it is unsafe")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::NonNull;

use anyhow::{Context, bail};

/// One end of a queue in shared memory. Used by one thread.
pub(crate) struct Queue(NonNull<c_void>);

unsafe extern "C" {
    fn rival_boost_open(
        name: *const c_char,
        messages: usize,
        message_bytes: usize,
        error: *mut c_char,
        error_bytes: usize,
    ) -> *mut c_void;
    fn rival_boost_send(
        queue: *mut c_void,
        message: *const c_void,
        bytes: usize,
        error: *mut c_char,
        error_bytes: usize,
    ) -> bool;
    fn rival_boost_receive(
        queue: *mut c_void,
        message: *mut c_void,
        room: usize,
        bytes: *mut usize,
        error: *mut c_char,
        error_bytes: usize,
    ) -> bool;
    fn rival_boost_close(queue: *mut c_void);
}

impl Queue {
    /// Creates the queue `name` for `messages` messages of at most `message_bytes` bytes.
    pub(crate) fn create(
        name: &str,
        messages: usize,
        message_bytes: usize,
    ) -> anyhow::Result<Self> {
        Self::make(name, messages.max(1), message_bytes)
    }

    /// Opens the queue `name`.
    pub(crate) fn open(name: &str) -> anyhow::Result<Self> {
        Self::make(name, 0, 0)
    }

    fn make(name: &str, messages: usize, message_bytes: usize) -> anyhow::Result<Self> {
        let (name, mut error) = (CString::new(name)?, Complaint::new());
        // SAFETY: `name` ends with a zero and `error` has the given capacity; both live until
        // after the call, which keeps neither.
        let queue = unsafe {
            rival_boost_open(
                name.as_ptr(),
                messages,
                message_bytes,
                error.0.as_mut_ptr(),
                error.0.len(),
            )
        };
        NonNull::new(queue).map(Self).with_context(|| error.text())
    }

    /// Copies `message` into the queue; waits for room.
    #[inline]
    pub(crate) fn send(&self, message: &[u8]) -> anyhow::Result<()> {
        let (start, mut error) = (message.as_ptr().cast(), Complaint::new());
        // SAFETY: the pointer is a queue that is closed only on drop; `message` and `error` have
        // the given capacity and live until after the call.
        let sent = unsafe {
            rival_boost_send(
                self.0.as_ptr(),
                start,
                message.len(),
                error.0.as_mut_ptr(),
                error.0.len(),
            )
        };
        if !sent {
            bail!(error.text());
        }
        Ok(())
    }

    /// Waits for a message and copies it to the start of `room`, which must have room for the
    /// largest of the queue. Gives the message.
    #[inline]
    pub(crate) fn receive<'a>(&self, room: &'a mut [u8]) -> anyhow::Result<&'a [u8]> {
        let (mut bytes, mut error) = (0, Complaint::new());
        // SAFETY: as in `send`; `bytes` is written by the call and lives until after it.
        let received = unsafe {
            rival_boost_receive(
                self.0.as_ptr(),
                room.as_mut_ptr().cast(),
                room.len(),
                &raw mut bytes,
                error.0.as_mut_ptr(),
                error.0.len(),
            )
        };
        if !received {
            bail!(error.text());
        }
        room.get(..bytes).context("a message larger than its room")
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: it came from `rival_boost_open`, and nothing uses it after this.
        unsafe { rival_boost_close(self.0.as_ptr()) }
    }
}

/// Room for what Boost says of a failure.
struct Complaint([c_char; COMPLAINT_BYTES]);

impl Complaint {
    #[inline]
    fn new() -> Self {
        Self([0; COMPLAINT_BYTES])
    }

    #[cold]
    fn text(&self) -> String {
        let bytes = self.0.map(|letter| letter.to_ne_bytes()[0]);
        let text = CStr::from_bytes_until_nul(&bytes).map(CStr::to_string_lossy);
        format!("boost: {}", text.unwrap_or_default())
    }
}

/// A short sentence.
const COMPLAINT_BYTES: usize = 64;
