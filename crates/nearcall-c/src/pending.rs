//! Calls that were started and are waited for later.
//!
//! **Invariants:** the result is taken once.
//! **Not here:** calls that are waited for at once (`caller.rs`), who reports the end of one
//! (`notified.rs`).

use std::cell::Cell;
use std::ffi::{c_char, c_void};

use nearcall::Status;
use nearcall::client::PendingCall;
use nearcall::dynamic::Encoded;

use crate::border::{Border, border, is_null, value_or};
use crate::given::{NONE, give_bytes};
use crate::handles::{self, Kind};
use crate::metadata::{give, nearcall_metadata};
use crate::notified::{Notified, Outcome, Report};
use crate::status::nearcall_status;
use crate::types::{
    nearcall_bytes, nearcall_call_options, nearcall_caller, nearcall_pending, nearcall_view,
};

/// A started call of a thread, until its result is taken.
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
            // First, since the call uses up its loan in any case.
            let options = at.options("options", options)?;
            let request = at.request(request, options.as_ref())?;
            let (method, request) = (at.text("method", method)?, request.as_slice());
            let started = at.with_caller(caller, options.as_ref(), |caller| {
                caller.start(method, &request).ensure_started()
            })?;
            let started = Pending(Cell::new(Some(started)));
            let id = handles::add_local(started)?;
            at.put("pending", pending, nearcall_pending { id })
        })
    }
}

/// Starts a call as `nearcall_start` does, and has its end reported, for a loop that waits for
/// other things as well: `done` is called once with `data`, when `nearcall_pending_wait` would not
/// wait any more, or the call was cancelled; perhaps before this function returns.
///
/// A thread of the library calls it, the same for all calls: it must be short, such as a write to
/// an eventfd of the loop, and nothing may leave it. It may take the result, but not wait for
/// another call. The handle may be used in any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_start_notified(
    caller: nearcall_caller,
    method: *const c_char,
    request: nearcall_view,
    options: *const nearcall_call_options,
    done: Option<unsafe extern "C" fn(data: *mut c_void)>,
    data: *mut c_void,
    pending: *mut nearcall_pending,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            let pending = at.place("pending", pending)?;
            let options = at.options("options", options)?;
            let request = at.request(request, options.as_ref())?.into_encoded();
            let method = at.text("method", method)?.to_owned();
            let done = done.ok_or_else(|| is_null("done"))?;
            let caller = at.notified_caller(caller, options.as_ref())?;
            let work = async move {
                let (reply, sent) = caller.call_with_metadata(&method, &request).await;
                (reply.map(Some), sent)
            };
            start(at, work, Report { done, data }, pending, |_| {})
        })
    }
}

/// Starts something whose end is reported, and gives it a handle.
pub(crate) fn start(
    at: &Border,
    work: impl Future<Output = Outcome> + Send + 'static,
    report: Report,
    pending: *mut nearcall_pending,
    started: impl FnOnce(&Notified),
) -> Result<(), Status> {
    // The program may use it as soon as it is told of the end, so it is written first.
    let id = handles::next_id();
    at.put("pending", pending, nearcall_pending { id })?;
    let keep = |operation| {
        started(&operation);
        handles::add_as(id, operation);
    };
    Notified::start(work, report, keep).or_else(|status| {
        at.put("pending", pending, nearcall_pending { id: 0 })?;
        Err(status)
    })
}

/// Returns 1 if `nearcall_pending_wait` would not wait: the call has ended, or there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_pending_is_done(pending: nearcall_pending) -> u32 {
    // SAFETY: the rules of the header.
    unsafe {
        value_or(1, |_| {
            let id = pending.id;
            let Ok(pending) = handles::get_local::<Pending>(id) else {
                return Some(handles::get::<Notified>(id).ok()?.is_done().into());
            };
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
            at.put("reply", reply, NONE)?;
            at.put_if_wanted(metadata, std::ptr::null_mut);
            let (encoded, sent) = outcome(pending)?;
            at.put_if_wanted(metadata, || give(sent));
            at.put("reply", reply, give_bytes(encoded?.unwrap_or_default().into_bytes()))
        })
    }
}

/// Waits for the end of `nearcall_stream_start_receive` and frees it, as `nearcall_stream_receive`
/// does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_pending_wait_item(
    pending: nearcall_pending,
    item: *mut nearcall_bytes,
    has_item: *mut u32,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe { border(|at| at.put_item(item, has_item, || outcome(pending)?.0)) }
}

fn outcome(pending: nearcall_pending) -> Result<Outcome, Status> {
    match handles::take_local::<Pending>(pending.id) {
        Ok(pending) => {
            let call = pending.0.take();
            let call = call.ok_or_else(|| Status::failed_precondition("it is waited for"))?;
            let (reply, sent) = call.wait_with_metadata();
            Ok((reply.map(Some), sent))
        }
        Err(none) => handles::take::<Notified>(pending.id).map_err(|_| none)?.wait(),
    }
}

/// Cancels a started call and frees it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_pending_cancel(
    pending: nearcall_pending,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|_| {
            let cancelled = handles::take_local::<Pending>(pending.id).map(drop);
            cancelled
                .or_else(|none| handles::take::<Notified>(pending.id).map(drop).map_err(|_| none))
        })
    }
}
