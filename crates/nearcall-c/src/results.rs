//! Reading what functions give, and releasing it.
//!
//! **Invariants:** null is `OK`, no metadata, no bytes: reading and releasing it is fine.
//! **Not here:** making them (`border.rs`, `status.rs`, `metadata.rs`).

use std::ffi::c_char;

use nearcall::client::ReplyMetadata;

use crate::border::{Border, put_entry, put_entry_at, value_or};
use crate::given::release;
use crate::metadata::nearcall_metadata;
use crate::status::nearcall_status;
use crate::types::{nearcall_bytes, nearcall_view};

impl Border {
    fn status(&self, status: *const nearcall_status) -> Option<&nearcall_status> {
        // SAFETY: by the header, null or one that was not released.
        unsafe { status.as_ref() }
    }
}

impl Border {
    fn metadata(&self, metadata: *const nearcall_metadata) -> Option<&ReplyMetadata> {
        // SAFETY: by the header, null or metadata that were not released.
        unsafe { metadata.as_ref() }.map(|it| &it.0)
    }
}

/// Releases bytes that a function of this library has given away, and sets `bytes` to none. Null
/// and none are fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_bytes_free(bytes: *mut nearcall_bytes) {
    // SAFETY: by the header, null or the place of bytes.
    let Some(bytes) = (unsafe { bytes.as_mut() }) else { return };
    let owner = std::mem::replace(&mut bytes.owner, std::ptr::null_mut());
    (bytes.data, bytes.size) = (std::ptr::null(), 0);
    if !owner.is_null() {
        // SAFETY: the library has given it, and it was not released: then it would be null.
        unsafe { release(owner) };
    }
}

/// Returns the code, as gRPC numbers them: 0 is `OK`, also for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_status_code(status: *const nearcall_status) -> u32 {
    // SAFETY: the rules of the header.
    unsafe { value_or(0, |at| at.status(status).map(|it| u32::from(it.status.code().number()))) }
}

/// Returns the name of a code, such as `UNAVAILABLE`; `UNKNOWN` for a number that is none.
#[unsafe(no_mangle)]
pub extern "C" fn nearcall_code_name(code: u32) -> *const c_char {
    const NAMES: [&std::ffi::CStr; 17] = [
        c"OK",
        c"CANCELLED",
        c"UNKNOWN",
        c"INVALID_ARGUMENT",
        c"DEADLINE_EXCEEDED",
        c"NOT_FOUND",
        c"ALREADY_EXISTS",
        c"PERMISSION_DENIED",
        c"RESOURCE_EXHAUSTED",
        c"FAILED_PRECONDITION",
        c"ABORTED",
        c"OUT_OF_RANGE",
        c"UNIMPLEMENTED",
        c"INTERNAL",
        c"UNAVAILABLE",
        c"DATA_LOSS",
        c"UNAUTHENTICATED",
    ];
    let index = usize::try_from(code).unwrap_or(usize::MAX);
    NAMES.get(index).unwrap_or(&NAMES[2]).as_ptr()
}

/// Returns the text, which says what happened and what can be done: valid until the status is
/// released, empty for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_status_message(status: *const nearcall_status) -> *const c_char {
    // SAFETY: the rules of the header.
    unsafe { value_or(c"".as_ptr(), |at| at.status(status).map(|it| it.text.as_ptr())) }
}

/// Returns 1 if the method has certainly not begun, so that the call may be made again whatever it
/// does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_status_has_not_begun(status: *const nearcall_status) -> u32 {
    // SAFETY: the rules of the header.
    unsafe { value_or(0, |at| at.status(status).map(|it| it.status.has_not_begun().into())) }
}

/// Finds the first entry with a key among what the service has sent beside the error, such as
/// `grpc-status-details-bin`, the details. Returns 1 and sets `value`, which is valid until the
/// status is released, or returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_status_entry(
    status: *const nearcall_status,
    key: *const c_char,
    value: *mut nearcall_view,
) -> u32 {
    // SAFETY: the rules of the header.
    unsafe {
        value_or(0, |at| {
            let (key, status) = (at.text("key", key).ok()?, at.status(status)?);
            let metadata = status.status.metadata();
            put_entry(at, value, metadata.get_bin(key))
        })
    }
}

/// Gives the entry with a number, from 0 on, among what the service has sent beside the error.
/// Returns 1 and sets `key` and `value`, which are valid until the status is released, or returns
/// 0: there are fewer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_status_entry_at(
    status: *const nearcall_status,
    number: usize,
    key: *mut nearcall_view,
    value: *mut nearcall_view,
) -> u32 {
    // SAFETY: the rules of the header.
    unsafe {
        value_or(0, |at| {
            let metadata = at.status(status)?.status.metadata();
            put_entry_at(at, [key, value], metadata.iter(), number)
        })
    }
}

/// Releases a status. Null is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_status_free(status: *mut nearcall_status) {
    if !status.is_null() {
        // SAFETY: `give` has made it, and by the header it was not released before.
        drop(unsafe { Box::from_raw(status) });
    }
}

/// Finds the first entry with a key among the trailers: what came with the end of the call. Returns
/// 1 and sets `value`, which is valid until the metadata are released, or returns 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_metadata_trailer(
    metadata: *const nearcall_metadata,
    key: *const c_char,
    value: *mut nearcall_view,
) -> u32 {
    // SAFETY: the rules of the header.
    unsafe {
        value_or(0, |at| {
            let (key, metadata) = (at.text("key", key).ok()?, at.metadata(metadata)?);
            put_entry(at, value, metadata.get_bin(key))
        })
    }
}

/// As `nearcall_metadata_trailer`, among the headers: what came before the reply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_metadata_header(
    metadata: *const nearcall_metadata,
    key: *const c_char,
    value: *mut nearcall_view,
) -> u32 {
    // SAFETY: the rules of the header.
    unsafe {
        value_or(0, |at| {
            let (key, metadata) = (at.text("key", key).ok()?, at.metadata(metadata)?.headers());
            put_entry(at, value, metadata.get_bin(key))
        })
    }
}

/// Gives the trailer with a number, from 0 on. Returns 1 and sets `key` and `value`, which are
/// valid until the metadata are released, or returns 0: there are fewer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_metadata_trailer_at(
    metadata: *const nearcall_metadata,
    number: usize,
    key: *mut nearcall_view,
    value: *mut nearcall_view,
) -> u32 {
    // SAFETY: the rules of the header.
    unsafe {
        value_or(0, |at| put_entry_at(at, [key, value], at.metadata(metadata)?.iter(), number))
    }
}

/// As `nearcall_metadata_trailer_at`, among the headers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_metadata_header_at(
    metadata: *const nearcall_metadata,
    number: usize,
    key: *mut nearcall_view,
    value: *mut nearcall_view,
) -> u32 {
    // SAFETY: the rules of the header.
    unsafe {
        value_or(0, |at| {
            put_entry_at(at, [key, value], at.metadata(metadata)?.headers().iter(), number)
        })
    }
}

/// Releases metadata. Null is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_metadata_free(metadata: *mut nearcall_metadata) {
    if !metadata.is_null() {
        // SAFETY: `give` has made it, and by the header it was not released before.
        drop(unsafe { Box::from_raw(metadata) });
    }
}
