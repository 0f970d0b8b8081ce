//! The plain structs of the header.
//!
//! **Invariants:** all zeros are a value of each of them: none, or the default.
//! **Not here:** reading them (`border.rs`).

use std::ffi::{c_char, c_void};

/// The code of a status: the caller gave the call up.
pub const NEARCALL_CODE_CANCELLED: u32 = 1;
/// The code of a status: an error of another kind.
pub const NEARCALL_CODE_UNKNOWN: u32 = 2;
/// The code of a status: the request is wrong, whatever the state of the service.
pub const NEARCALL_CODE_INVALID_ARGUMENT: u32 = 3;
/// The code of a status: the deadline has passed.
pub const NEARCALL_CODE_DEADLINE_EXCEEDED: u32 = 4;
/// The code of a status: there is no such thing.
pub const NEARCALL_CODE_NOT_FOUND: u32 = 5;
/// The code of a status: there is such a thing already.
pub const NEARCALL_CODE_ALREADY_EXISTS: u32 = 6;
/// The code of a status: the caller may not do it.
pub const NEARCALL_CODE_PERMISSION_DENIED: u32 = 7;
/// The code of a status: a limit was reached, such as that of the length of messages.
pub const NEARCALL_CODE_RESOURCE_EXHAUSTED: u32 = 8;
/// The code of a status: the state of the service does not allow it: change that first.
pub const NEARCALL_CODE_FAILED_PRECONDITION: u32 = 9;
/// The code of a status: something else came between: begin again with what belongs together.
pub const NEARCALL_CODE_ABORTED: u32 = 10;
/// The code of a status: beyond what there is.
pub const NEARCALL_CODE_OUT_OF_RANGE: u32 = 11;
/// The code of a status: there is no such method.
pub const NEARCALL_CODE_UNIMPLEMENTED: u32 = 12;
/// The code of a status: a defect.
pub const NEARCALL_CODE_INTERNAL: u32 = 13;
/// The code of a status: the server is not there; try again.
pub const NEARCALL_CODE_UNAVAILABLE: u32 = 14;
/// The code of a status: data were lost or are damaged.
pub const NEARCALL_CODE_DATA_LOSS: u32 = 15;
/// The code of a status: the caller has not proved who it is.
pub const NEARCALL_CODE_UNAUTHENTICATED: u32 = 16;

/// Bytes of somebody else. `data` may be null if `size` is 0.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct nearcall_view {
    /// The first byte.
    pub data: *const u8,
    /// How many there are.
    pub size: usize,
}

/// Bytes that the library has given away: release them by `nearcall_bytes_free`.
#[repr(C)]
#[derive(Debug)]
pub struct nearcall_bytes {
    /// The first byte; null if there are none.
    pub data: *const u8,
    /// How many there are.
    pub size: usize,
    /// The library's.
    pub owner: *mut c_void,
}

/// An entry of metadata that is sent: the key is of lower-case letters, digits and `-_.`; if it
/// ends in `-bin` the value is any bytes, else it is printable ASCII.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct nearcall_entry {
    /// The key.
    pub key: *const c_char,
    /// The value.
    pub value: nearcall_view,
}

/// Makes connections and keeps them. For any thread.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct nearcall_client {
    /// Not 0, unless there is none.
    pub id: u64,
}

/// Calls one object. For any thread, also several at once.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct nearcall_caller {
    /// Not 0, unless there is none.
    pub id: u64,
}

/// A call that was started: by `nearcall_start` for the thread that has started it, by
/// `nearcall_start_notified` for any thread; or a step of a stream, for any thread.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct nearcall_pending {
    /// Not 0, unless there is none.
    pub id: u64,
}

/// Memory that the library has lent for a message. For any thread.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct nearcall_loan {
    /// Not 0, unless there is none.
    pub id: u64,
}

/// A call that streams. For the thread that has opened it; of `nearcall_open_notified`: for any.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct nearcall_stream {
    /// Not 0, unless there is none.
    pub id: u64,
}

/// A watch over a server. For any thread.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct nearcall_attachment {
    /// Not 0, unless there is none.
    pub id: u64,
}

/// Serves objects. For any thread, unless it was started in a loop.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct nearcall_server {
    /// Not 0, unless there is none.
    pub id: u64,
}

/// A loop for servers, for a program that has another loop. For the thread that has made it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct nearcall_loop {
    /// Not 0, unless there is none.
    pub id: u64,
}

/// A call that is served: for the thread that runs the service, until that returns; from
/// `nearcall_call_defer` on for any thread, until it is answered.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct nearcall_call {
    /// Not 0, unless there is none.
    pub id: u64,
}

/// How a client behaves. Zeros: the defaults.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct nearcall_client_options {
    /// `sizeof(nearcall_client_options)`.
    pub size: usize,
    /// Deadline of calls that have none of their own, in nanoseconds; 0: none.
    pub timeout_ns: u64,
    /// Longest message, in bytes; 0: 4 MiB.
    pub message_bytes_max: u32,
    /// Credit of a stream in each direction, in bytes; 0: 4 MiB.
    pub stream_window_bytes: u32,
}

/// How a call is made. Zeros: the defaults.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct nearcall_call_options {
    /// `sizeof(nearcall_call_options)`.
    pub size: usize,
    /// Time until the call ends by itself, in nanoseconds; 0: as the client has it, or at once with
    /// `NEARCALL_TIMEOUT`; `UINT64_MAX`: without end.
    pub timeout_ns: u64,
    /// `NEARCALL_WAIT_FOR_READY` and others, or 0.
    pub flags: u32,
    /// 0.
    pub reserved: u32,
    /// Entries that go with the request.
    pub entries: *const nearcall_entry,
    /// How many there are.
    pub entry_count: usize,
    /// The loan in which the request lies, from its start on; 0: it lies elsewhere. The call uses
    /// it up, also if it fails.
    pub loan: nearcall_loan,
}

/// A flag of a call: it waits until its server is there, at most until its deadline.
pub const NEARCALL_WAIT_FOR_READY: u32 = 1;
/// A flag of a call: where it would have to wait for room it fails with `RESOURCE_EXHAUSTED`.
pub const NEARCALL_NO_WAIT: u32 = 2;
/// A flag of a call: a `timeout_ns` of 0 is meant, so that the call fails with `DEADLINE_EXCEEDED`.
pub const NEARCALL_TIMEOUT: u32 = 4;

/// What the connections have carried and hold that are open now.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct nearcall_counters {
    /// `sizeof(nearcall_counters)`.
    pub size: usize,
    /// How many connections there are.
    pub connections: u64,
    /// Messages that were sent; of a client, over the connections of this thread and those that
    /// calls with a reported end share, and so for the next five.
    pub messages_sent: u64,
    /// Their bytes, headers included, without loans.
    pub bytes_sent: u64,
    /// Messages that were received.
    pub messages_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Loans that were not given back.
    pub loans_lent: u64,
    /// Loans of the other ends that live here.
    pub loans_borrowed: u64,
    /// Descriptors that are open for the connections, without those of loans.
    pub descriptors: u64,
    /// Room for messages that is set aside, in bytes, without loans.
    pub room_bytes: u64,
    /// What a server has refused since its start, such as calls and clients above its limits; 0 of
    /// a client.
    pub refusals: u64,
}

/// How a server behaves. Zeros: the defaults.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct nearcall_server_options {
    /// `sizeof(nearcall_server_options)`.
    pub size: usize,
    /// Loops, each in a thread of its own; 0: one. Not used by a server in a loop.
    pub threads: u32,
    /// Longest message, in bytes; 0: 4 MiB.
    pub message_bytes_max: u32,
    /// Credit of a stream in each direction, in bytes; 0: 4 MiB.
    pub stream_window_bytes: u32,
    /// Connections; 0: 4096.
    pub connections_max: u32,
}

/// Who may connect where a server listens. Zeros: the defaults.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct nearcall_listen_options {
    /// `sizeof(nearcall_listen_options)`.
    pub size: usize,
    /// The user ids that may connect; null: those that can reach the socket.
    pub users: *const u32,
    /// How many there are.
    pub user_count: usize,
    /// Mode of the socket's file, such as 0660; 0: 0600, or, of `unix:/PATH`, 0666 if `users` says
    /// who may connect.
    pub socket_mode: u32,
    /// 0.
    pub reserved: u32,
}

/// The shape of a method: one request and one reply.
pub const NEARCALL_SHAPE_UNARY: u32 = 0;
/// The shape of a method: one request and no reply.
pub const NEARCALL_SHAPE_ONEWAY: u32 = 1;
/// The shape of a method: one request, and a stream of replies.
pub const NEARCALL_SHAPE_REPLY_STREAM: u32 = 2;
/// The shape of a method: a stream of requests, and one reply.
pub const NEARCALL_SHAPE_REQUEST_STREAM: u32 = 3;
/// The shape of a method: two streams.
pub const NEARCALL_SHAPE_BOTH_STREAMS: u32 = 4;

/// A request that a service is given. Valid until the service returns.
#[repr(C)]
#[derive(Debug)]
pub struct nearcall_request {
    /// `sizeof(nearcall_request)` of the library.
    pub size: usize,
    /// The method, such as `SetTarget`.
    pub method: *const c_char,
    /// The index of the method in its interface, in the order of the `.proto` file.
    pub index: u32,
    /// `NEARCALL_SHAPE_UNARY` and so on.
    pub shape: u32,
    /// The message, encoded; empty if the request is a stream.
    pub message: nearcall_view,
}

/// A service: what is called for each call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct nearcall_service {
    /// `sizeof(nearcall_service)`.
    pub size: usize,
    /// Passed to the functions.
    pub data: *mut c_void,
    /// Serves a call, in a thread of the server: by `nearcall_call_reply` or `nearcall_call_fail`
    /// before it returns, or later after `nearcall_call_defer`. A call that is not answered fails
    /// with `INTERNAL`. It must not wait long: meanwhile the loop serves nothing else. No exception
    /// and no `longjmp` may leave it. A server with several threads calls it in all of them.
    pub serve: Option<
        unsafe extern "C" fn(
            data: *mut c_void,
            call: nearcall_call,
            request: *const nearcall_request,
        ),
    >,
    /// Called when neither the server nor a deferred call uses the service any more, in any
    /// thread; may be null. Nothing may leave it, as of `serve`.
    pub release: Option<unsafe extern "C" fn(data: *mut c_void)>,
}

/// Why an attached server is gone.
#[repr(C)]
#[derive(Debug)]
pub struct nearcall_notice {
    /// `NEARCALL_CAUSE_EXITED` and so on.
    pub cause: u32,
    /// The exit code, or the signal; 0 for other causes.
    pub code: i32,
    /// The process id that the server had; 0: not known.
    pub pid: i32,
}
