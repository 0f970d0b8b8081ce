//! Calls that were started and are waited for later.
//!
//! **Invariants:** the result is taken once.
//! **Not here:** calls that are waited for at once (`caller.rs`).

use std::cell::Cell;
use std::ffi::c_char;

use bytes::Bytes;
use nearcall::Status;
use nearcall::client::PendingCall;
use nearcall::dynamic::{Encoded, EncodedSlice};

use crate::border::{border, give_bytes, value_or};
use crate::handles::{self, Kind};
use crate::metadata::{give, nearcall_metadata};
use crate::status::nearcall_status;
use crate::types::{
    nearcall_bytes, nearcall_call_options, nearcall_caller, nearcall_pending, nearcall_view,
};

/// A started call, until its result is taken.
pub(crate) struct Pending(Cell<Option<PendingCall<Encoded>>>);

impl Kind for Pending {
    const NAME: &'static str = "started call";
}

/// Starts a call with one request and one reply. Wait for it, or cancel it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_start(
    caller: nearcall_caller,
    method: *const c_char,
    request: nearcall_view,
    options: *const nearcall_call_options,
    pending: *mut nearcall_pending,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            at.place("pending", pending)?;
            let method = at.text("method", method)?;
            let request = EncodedSlice::new(at.bytes("request", request)?);
            let started = at.with_caller(caller, options, |caller| {
                caller.start(method, &request).ensure_started()
            })?;
            let started = Pending(Cell::new(Some(started)));
            let id = handles::add_local(started)?;
            at.put("pending", pending, nearcall_pending { id })
        })
    }
}

/// Returns 1 if `nearcall_pending_wait` would not wait: the call has ended, or there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_pending_is_done(pending: nearcall_pending) -> u32 {
    // SAFETY: the rules of the header.
    unsafe {
        value_or(1, |_| {
            let pending = handles::get_local::<Pending>(pending.id).ok()?;
            let call = pending.0.take()?;
            let is_done = call.is_done();
            pending.0.set(Some(call));
            Some(is_done.into())
        })
    }
}

/// Waits for the end of a started call and frees it, as `nearcall_call_method` does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_pending_wait(
    pending: nearcall_pending,
    reply: *mut nearcall_bytes,
    metadata: *mut *mut nearcall_metadata,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            at.put("reply", reply, give_bytes(Bytes::new()))?;
            at.put_if_wanted(metadata, std::ptr::null_mut);
            let call = handles::take_local::<Pending>(pending.id)?.0.take();
            let call = call.ok_or_else(|| Status::failed_precondition("it is waited for"))?;
            let (encoded, sent) = call.wait_with_metadata();
            at.put_if_wanted(metadata, || give(sent));
            at.put("reply", reply, give_bytes(encoded?.into_bytes()))
        })
    }
}

/// Cancels a started call and frees it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_pending_cancel(
    pending: nearcall_pending,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe { border(|_| handles::take_local::<Pending>(pending.id).map(drop)) }
}
