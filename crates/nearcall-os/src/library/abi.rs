//! The binary interface between a host and a library with services: the C structs of version 1.
//!
//! `include/nearcall_service.h` of this crate is the same for C and C++, with the rules in words.
//! **Invariants:** [`Slice`] never changes. Every other struct only ever grows at its end: it, or
//! the table of its library, has its size, and its reader takes what it knows of that, with zeros
//! for what is missing. It needs what version 1.0 had (`*_BYTES_1_0`). Any other change is another
//! major version, with another symbol. Memory that is passed belongs to whoever passes it, and is
//! valid until the function returns; what a library exports or returns for an instance is valid as
//! long as that.
//! **Not here:** calling through them (`loaded.rs`), exporting them (`exported.rs`).

use std::ffi::c_void;
use std::mem::offset_of;

/// The symbol that a library exports: a [`ServiceTable`].
pub const SYMBOL: &str = "nearcall_service_v1";

/// The first bytes of both tables: the text `nearcall`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"nearcall");

/// The version of this interface. Hosts and libraries of one major version understand each other.
pub const ABI_MAJOR: u16 = 1;

/// Counts what was added to the major version.
pub const ABI_MINOR: u16 = 0;

/// A flag of an object: its methods do not wait, and may be called in any thread, several at once.
pub const OBJECT_NONBLOCKING: u32 = 1;

/// A flag of a request: the caller takes no reply.
pub const REQUEST_ONEWAY: u32 = 1;

/// The caller is in this process.
pub const CALLER_LOCAL: u32 = 0;
/// The caller is a process of this machine, with ids from the kernel.
pub const CALLER_PROCESS: u32 = 1;
/// The caller is another machine, at a network address.
pub const CALLER_REMOTE: u32 = 2;

/// Levels of messages: the lower, the more important.
pub const LOG_ERROR: u32 = 1;
/// See [`LOG_ERROR`].
pub const LOG_WARN: u32 = 2;
/// See [`LOG_ERROR`].
pub const LOG_INFO: u32 = 3;
/// See [`LOG_ERROR`].
pub const LOG_DEBUG: u32 = 4;

/// Bytes of somebody else. The pointer may be null if there are none.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Slice {
    pub(super) data: *const u8,
    pub(super) size: usize,
}

/// A method of an interface.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct MethodFields {
    /// FNV-1a of `package.Service/Method`, 32 bits.
    pub(super) id: u32,
    /// 0 unary, 1 one-way, 2 reply stream, 3 request stream, 4 both.
    pub(super) kind: u32,
    pub(super) name: Slice,
}

/// An object of an instance: an interface that it implements.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ObjectFields {
    /// `package.Service`.
    pub(super) interface: Slice,
    /// Empty: the only one.
    pub(super) instance: Slice,
    /// An encoded `google.protobuf.FileDescriptorSet`, or empty.
    pub(super) descriptor_set: Slice,
    /// One after the other, each `method_size` of the table long.
    pub(super) methods: *const MethodFields,
    pub(super) method_count: usize,
    pub(super) flags: u32,
    pub(super) reserved: u32,
}

/// A call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct RequestFields {
    pub(super) size: u32,
    /// The index of the object in the list of its instance. Not used where a library calls out.
    pub(super) object: u32,
    pub(super) method: u32,
    pub(super) flags: u32,
    /// Nanoseconds of `CLOCK_MONOTONIC`; all ones: none.
    pub(super) deadline_ns: u64,
    pub(super) metadata: Slice,
    pub(super) body: Slice,
    pub(super) caller: u32,
    /// 0: not known.
    pub(super) pid: i32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Of another machine, as text.
    pub(super) address: Slice,
}

/// The answer to a call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ReplyFields {
    pub(super) size: u32,
    /// A code of gRPC; 0: `body` is the result.
    pub(super) code: u32,
    pub(super) message: Slice,
    pub(super) metadata: Slice,
    pub(super) body: Slice,
}

/// Gets the reply of a call that a library makes, once, before the call returns.
pub(super) type OnReply = unsafe extern "C" fn(context: *mut c_void, reply: *const ReplyFields);

/// Is called once, from any thread, when a call has ended in whatever way.
pub(super) type OnEnd = unsafe extern "C" fn(context: *mut c_void);

/// What a host offers to its libraries. Every function may be called from any thread.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct HostTable {
    pub(super) magic: u64,
    pub(super) size: u32,
    pub(super) abi_major: u16,
    pub(super) abi_minor: u16,
    /// Answers a call, which is gone afterwards: exactly once for each.
    pub(super) reply: unsafe extern "C" fn(call: *mut c_void, reply: *const ReplyFields),
    /// Returns 1 if the caller does not wait any more.
    pub(super) is_cancelled: unsafe extern "C" fn(call: *const c_void) -> u32,
    pub(super) on_end:
        unsafe extern "C" fn(call: *const c_void, notify: OnEnd, context: *mut c_void),
    /// Returns the number of an object of this host at an address, or 0.
    pub(super) find: unsafe extern "C" fn(address: Slice, object: Slice) -> u64,
    /// Calls such an object and waits for its reply. Returns 0 if the object is not here any more.
    pub(super) call: unsafe extern "C" fn(
        object: u64,
        request: *const RequestFields,
        on_reply: OnReply,
        context: *mut c_void,
    ) -> u32,
    /// Writes a message into the log of this host, under the name of the service whose table it is.
    pub(super) log: unsafe extern "C" fn(host: *const HostTable, level: u32, text: Slice),
    /// Serves calls that come to this thread until the descriptor is readable, the deadline passes,
    /// or some were served. Returns 0, at once, where this thread has no loop of the host.
    pub(super) wait: unsafe extern "C" fn(descriptor: i32, deadline_ns: u64) -> u32,
}

/// What a library exports as [`SYMBOL`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ServiceTable {
    pub(super) magic: u64,
    pub(super) size: u32,
    pub(super) abi_major: u16,
    pub(super) abi_minor: u16,
    pub(super) flags: u32,
    /// Of one object in the list of `objects`, in bytes.
    pub(super) object_size: u16,
    /// Of one method in the list of an object, in bytes.
    pub(super) method_size: u16,
    pub(super) name: Slice,
    pub(super) version: Slice,
    /// Makes an instance. Returns 0, or another number and a text in `last_error`.
    pub(super) create: Option<
        unsafe extern "C" fn(
            host: *const HostTable,
            arguments: *const Slice,
            argument_count: usize,
            instance: *mut *mut c_void,
        ) -> u32,
    >,
    /// Returns the objects of an instance.
    pub(super) objects: Option<
        unsafe extern "C" fn(instance: *mut c_void, count: *mut usize) -> *const ObjectFields,
    >,
    /// Serves a call: `host.reply` is called once for it, now or later, from any thread.
    pub(super) dispatch: Option<
        unsafe extern "C" fn(
            instance: *mut c_void,
            request: *const RequestFields,
            call: *mut c_void,
        ),
    >,
    /// Ends an instance, which serves no call then.
    pub(super) destroy: Option<unsafe extern "C" fn(instance: *mut c_void)>,
    /// Returns why `create` failed in this thread.
    pub(super) last_error: Option<unsafe extern "C" fn() -> Slice>,
}

/// Length of what every version of [`ServiceTable`] begins with, in bytes.
pub(super) const HEAD_BYTES: usize = 16;

/// Up to the last field that version 1.0 of each struct has, in bytes.
pub(super) const METHOD_BYTES_1_0: usize = offset_of!(MethodFields, name) + size_of::<Slice>();
pub(super) const OBJECT_BYTES_1_0: usize = offset_of!(ObjectFields, reserved) + size_of::<u32>();
pub(super) const REQUEST_BYTES_1_0: usize = offset_of!(RequestFields, address) + size_of::<Slice>();
pub(super) const REPLY_BYTES_1_0: usize = offset_of!(ReplyFields, body) + size_of::<Slice>();
pub(super) const HOST_BYTES_1_0: usize = offset_of!(HostTable, wait) + size_of::<usize>();
pub(super) const SERVICE_BYTES_1_0: usize =
    offset_of!(ServiceTable, last_error) + size_of::<usize>();

// The header file has the same numbers.
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<Slice>() == 16 && METHOD_BYTES_1_0 == 24 && OBJECT_BYTES_1_0 == 72);
    assert!(REQUEST_BYTES_1_0 == 88 && REPLY_BYTES_1_0 == 56);
    assert!(HOST_BYTES_1_0 == 72 && SERVICE_BYTES_1_0 == 96);
};
