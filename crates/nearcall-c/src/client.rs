//! Clients: waiting for servers, watching them, moving connections.
//!
//! **Invariants:** a client lives until its handle and those of its callers are freed.
//! **Not here:** calls (`caller.rs`).

use std::ffi::c_char;

use nearcall::client::{Attachment, Cause};
use nearcall::{Client, Limits, Status};

use crate::NEARCALL_ABI;
use crate::border::{Border, Sized_, border, span};
use crate::caller::forget_freed;
use crate::handles::{self, Kind};
use crate::status::nearcall_status;
use crate::types::{
    nearcall_attachment, nearcall_client, nearcall_client_options, nearcall_notice,
};

/// The server's process has exited without a goodbye.
pub const NEARCALL_CAUSE_EXITED: u32 = 1;
/// The server's process was killed by a signal.
pub const NEARCALL_CAUSE_KILLED: u32 = 2;
/// The server takes no more calls, by its own decision.
pub const NEARCALL_CAUSE_CLOSED: u32 = 3;
/// As `NEARCALL_CAUSE_CLOSED`, and another server answers at the address already.
pub const NEARCALL_CAUSE_REPLACED: u32 = 4;
/// The server has not answered a ping in time.
pub const NEARCALL_CAUSE_UNRESPONSIVE: u32 = 5;
/// The connection has ended, and the kernel does not say why.
pub const NEARCALL_CAUSE_LOST: u32 = 6;

// SAFETY: `repr(C)`, the size first, and numbers after it.
unsafe impl Sized_ for nearcall_client_options {}

impl Kind for Client {
    const NAME: &'static str = "client";
}

impl Kind for Attachment {
    const NAME: &'static str = "attachment";
}

/// Refuses a program that was compiled with the header of another interface.
pub(crate) fn check_abi(abi: u32) -> Result<(), Status> {
    if abi == NEARCALL_ABI {
        return Ok(());
    }
    Err(Status::failed_precondition(format!(
        "the program was compiled for interface {abi} of libnearcall, and this one has {}: compile \
         it with the header of this library, or install the other",
        NEARCALL_ABI
    )))
}

/// Returns the default limits with those that are set, of which 0 is none.
pub(crate) fn limits(message_bytes_max: u32, stream_window_bytes: u32) -> Limits {
    let mut limits = Limits::default();
    if message_bytes_max != 0 {
        limits.message_bytes_max = message_bytes_max;
    }
    if stream_window_bytes != 0 {
        limits.stream_window_bytes = stream_window_bytes;
    }
    limits
}

/// Makes a client: `nearcall_client_new(NEARCALL_ABI, NULL, &client)`. It connects when it is used.
/// `options` may be null. Free it by `nearcall_client_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_client_new(
    abi: u32,
    options: *const nearcall_client_options,
    client: *mut nearcall_client,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            check_abi(abi)?;
            at.place("client", client)?;
            let mut builder = Client::builder();
            if let Some(options) = at.options("options", options)? {
                builder =
                    builder.limits(limits(options.message_bytes_max, options.stream_window_bytes));
                if options.timeout_ns != 0 {
                    builder = builder.default_deadline(span(options.timeout_ns));
                }
            }
            let id = handles::add(builder.build());
            at.put("client", client, nearcall_client { id })
        })
    }
}

/// Frees a client. Its callers go on, and the connections end with the last of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_client_free(client: nearcall_client) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|_| {
            // A method that this thread remembers keeps the connection of a freed caller.
            forget_freed();
            handles::take::<Client>(client.id).map(drop)
        })
    }
}

/// Waits until a server answers at an address, for `timeout_ns` at most.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_hunt(
    client: nearcall_client,
    address: *const c_char,
    timeout_ns: u64,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            let client = handles::get::<Client>(client.id)?;
            client.hunt(at.text("address", address)?, span(timeout_ns))
        })
    }
}

/// Moves the connection of this thread to an address to another mechanism, such as `shm`, without
/// losing a call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_switch(
    client: nearcall_client,
    address: *const c_char,
    mechanism: *const c_char,
    timeout_ns: u64,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            let client = handles::get::<Client>(client.id)?;
            let mechanism = at.text("mechanism", mechanism)?;
            client.switch(at.text("address", address)?, mechanism, span(timeout_ns))
        })
    }
}

/// Watches over the server at an address, which has to answer now. Free it by
/// `nearcall_attachment_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_attach(
    client: nearcall_client,
    address: *const c_char,
    attachment: *mut nearcall_attachment,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            at.place("attachment", attachment)?;
            let client = handles::get::<Client>(client.id)?;
            let attached = client.attach(at.text("address", address)?)?;
            let id = handles::add(attached);
            at.put("attachment", attachment, nearcall_attachment { id })
        })
    }
}

/// Waits until the server is gone, for `timeout_ns` at most; 0: only looks. `DEADLINE_EXCEEDED`: it
/// is still there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_attachment_wait(
    attachment: nearcall_attachment,
    timeout_ns: u64,
    notice: *mut nearcall_notice,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at: &Border| {
            at.place("notice", notice)?;
            let attachment = handles::get::<Attachment>(attachment.id)?;
            let found = attachment.wait(span(timeout_ns));
            let found = found.ok_or_else(|| Status::deadline_exceeded("the server is there"))?;
            let (cause, code, other) = match found.cause {
                Cause::Exited { code } => (NEARCALL_CAUSE_EXITED, code, None),
                Cause::Killed { signal } => (NEARCALL_CAUSE_KILLED, signal, None),
                Cause::Closed => (NEARCALL_CAUSE_CLOSED, 0, None),
                Cause::Replaced { pid } => (NEARCALL_CAUSE_REPLACED, 0, pid),
                Cause::Unresponsive => (NEARCALL_CAUSE_UNRESPONSIVE, 0, None),
                _ => (NEARCALL_CAUSE_LOST, 0, None),
            };
            let pid = other.or(found.pid).unwrap_or(0);
            at.put("notice", notice, nearcall_notice { cause, code, pid })
        })
    }
}

/// Ends a watch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_attachment_free(
    attachment: nearcall_attachment,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe { border(|_| handles::take::<Attachment>(attachment.id).map(drop)) }
}
