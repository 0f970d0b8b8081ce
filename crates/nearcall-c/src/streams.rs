//! Calls that stream, at the caller's end.
//!
//! **Invariants:** a stream that is freed before its end is cancelled.
//! **Not here:** the service's end (`service.rs`), streams whose steps are reported
//! (`notified_streams.rs`).

use std::cell::RefCell;
use std::ffi::c_char;

use nearcall::Status;
use nearcall::client::ReplyMetadata;
use nearcall::dynamic::{DynamicCaller, Encoded};
use nearcall::stream::{ReplyStream, RequestStream};

use crate::border::{Border, border};
use crate::given::{NONE, give_bytes};
use crate::handles::{self, Kind};
use crate::metadata::{give, nearcall_metadata};
use crate::notified_streams::NotifiedStream;
use crate::status::nearcall_status;
use crate::types::{
    nearcall_bytes, nearcall_call_options, nearcall_caller, nearcall_stream, nearcall_view,
};

/// The two directions of a call.
pub(crate) struct Stream {
    requests: RefCell<Option<Requests>>,
    replies: RefCell<Option<ReplyStream<Encoded>>>,
}

enum Requests {
    /// Their end is that of the call.
    WithReply(RequestStream<Encoded, Encoded>),
    /// The replies are a stream as well.
    Alone(RequestStream<Encoded, ()>),
}

impl Kind for Stream {
    const NAME: &'static str = "stream";
}

#[cold]
fn has_no(direction: &str) -> Status {
    let text = format!("this stream has no {direction}, or they have ended");
    Status::failed_precondition(text)
}

/// Opens a call whose reply is a stream: read it by `nearcall_stream_receive`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_open_reply_stream(
    caller: nearcall_caller,
    method: *const c_char,
    request: nearcall_view,
    options: *const nearcall_call_options,
    stream: *mut nearcall_stream,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            // First, since the call uses up its loan in any case.
            let options = at.options("options", options)?;
            let request = at.request(request, options.as_ref())?;
            let (method, request) = (at.text("method", method)?, request.as_slice());
            open(at, caller, options.as_ref(), stream, |caller| {
                Ok((None, Some(caller.open_reply_stream(method, &request)?)))
            })
        })
    }
}

/// Opens a call whose request is a stream: send it by `nearcall_stream_send`, and take the reply by
/// `nearcall_stream_finish`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_open_request_stream(
    caller: nearcall_caller,
    method: *const c_char,
    options: *const nearcall_call_options,
    stream: *mut nearcall_stream,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            let options = at.options("options", options)?;
            let method = at.text("method", method)?;
            open(at, caller, options.as_ref(), stream, |caller| {
                Ok((Some(Requests::WithReply(caller.open_request_stream(method)?)), None))
            })
        })
    }
}

/// Opens a call whose request and reply are streams, independent of each other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_open_both_streams(
    caller: nearcall_caller,
    method: *const c_char,
    options: *const nearcall_call_options,
    stream: *mut nearcall_stream,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            let options = at.options("options", options)?;
            let method = at.text("method", method)?;
            open(at, caller, options.as_ref(), stream, |caller| {
                let (requests, replies) = caller.open_both_streams(method)?;
                Ok((Some(Requests::Alone(requests)), Some(replies)))
            })
        })
    }
}

/// Opens the two directions of a call, as far as it has them, and gives it a handle.
fn open(
    at: &Border,
    caller: nearcall_caller,
    options: Option<&nearcall_call_options>,
    stream: *mut nearcall_stream,
    open: impl FnOnce(
        &DynamicCaller,
    ) -> Result<(Option<Requests>, Option<ReplyStream<Encoded>>), Status>,
) -> Result<(), Status> {
    at.place("stream", stream)?;
    let (requests, replies) = at.with_caller(caller, options, open)?;
    let opened = Stream { requests: RefCell::new(requests), replies: RefCell::new(replies) };
    at.put("stream", stream, nearcall_stream { id: handles::add_local(opened)? })
}

/// Sends an item of the request. Waits for credit and for room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_stream_send(
    stream: nearcall_stream,
    item: nearcall_view,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            let stream = handles::get_local::<Stream>(stream.id)?;
            let item = Encoded::from(at.bytes("item", item)?.to_vec());
            match &mut *stream.requests.try_borrow_mut().map_err(|_| busy())? {
                Some(Requests::WithReply(requests)) => requests.send(&item),
                Some(Requests::Alone(requests)) => requests.send(&item),
                None => Err(has_no("requests")),
            }
        })
    }
}

#[cold]
fn busy() -> Status {
    Status::failed_precondition("this stream is in use by a function that waits")
}

/// Receives the next item of the reply, and waits for it. `has_item` is set to 0 where the call has
/// ended well; else `item` is set: release it by `nearcall_bytes_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_stream_receive(
    stream: nearcall_stream,
    item: *mut nearcall_bytes,
    has_item: *mut u32,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            at.put_item(item, has_item, || {
                let stream = handles::get_local::<Stream>(stream.id)?;
                let mut replies = stream.replies.try_borrow_mut().map_err(|_| busy())?;
                replies.as_mut().ok_or_else(|| has_no("replies"))?.recv()
            })
        })
    }
}

/// Ends the items of the request. Where the reply is one message, waits for it, and sets `reply`
/// and, unless null, `metadata` as `nearcall_call_method` does; where it is a stream, read that
/// to its end: `reply` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_stream_finish(
    stream: nearcall_stream,
    reply: *mut nearcall_bytes,
    metadata: *mut *mut nearcall_metadata,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            at.put_if_wanted(reply, || NONE);
            at.put_if_wanted(metadata, std::ptr::null_mut);
            let stream = handles::get_local::<Stream>(stream.id)?;
            let mut requests = stream.requests.try_borrow_mut().map_err(|_| busy())?;
            match requests.take() {
                Some(Requests::WithReply(sent)) if reply.is_null() => {
                    *requests = Some(Requests::WithReply(sent));
                    at.place("reply", reply).map(drop)
                }
                Some(Requests::WithReply(sent)) => {
                    drop(requests);
                    let (encoded, beside) = sent.finish_with_metadata();
                    at.put_if_wanted(metadata, || give(beside));
                    at.put("reply", reply, give_bytes(encoded?.into_bytes()))
                }
                Some(Requests::Alone(sent)) => {
                    at.put_if_wanted(metadata, || give(ReplyMetadata::default()));
                    sent.finish()
                }
                None => Err(has_no("requests")),
            }
        })
    }
}

/// Waits for the headers: what the service sends before the first item. Release `metadata` by
/// `nearcall_metadata_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_stream_headers(
    stream: nearcall_stream,
    metadata: *mut *mut nearcall_metadata,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe { border(|at| read(at, stream, metadata, ReplyStream::headers)) }
}

/// Gives what came with the end of the reply's items, after that end: before, there is nothing.
/// Release `metadata` by `nearcall_metadata_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_stream_trailers(
    stream: nearcall_stream,
    metadata: *mut *mut nearcall_metadata,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| match handles::get::<NotifiedStream>(stream.id) {
            Ok(stream) => at.put("metadata", metadata, give(stream.trailers()?)),
            Err(_) => read(at, stream, metadata, |replies| replies.metadata()),
        })
    }
}

fn read(
    at: &Border,
    stream: nearcall_stream,
    metadata: *mut *mut nearcall_metadata,
    read: impl FnOnce(&mut ReplyStream<Encoded>) -> ReplyMetadata,
) -> Result<(), Status> {
    at.place("metadata", metadata)?;
    let stream = handles::get_local::<Stream>(stream.id)?;
    let mut replies = stream.replies.try_borrow_mut().map_err(|_| busy())?;
    let found = read(replies.as_mut().ok_or_else(|| has_no("replies"))?);
    at.put("metadata", metadata, give(found))
}

/// Frees a stream; a call that has not ended is cancelled.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_stream_free(stream: nearcall_stream) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|_| {
            let freed = handles::take_local::<Stream>(stream.id).map(drop);
            freed.or_else(|none| {
                handles::take::<NotifiedStream>(stream.id).map(drop).map_err(|_| none)
            })
        })
    }
}
