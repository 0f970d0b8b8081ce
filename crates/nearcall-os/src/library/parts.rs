//! What crosses between a host and its libraries, as either side sees it, and its C structs.
//!
//! **Invariants:** text that is no UTF-8 is an error or empty, never undefined; null pointers are
//! empty slices. Of a struct of the other side, no byte behind its size is read.
//! **Not here:** the structs (`abi.rs`), the functions (`loaded.rs`, `exported.rs`).
#![allow(unsafe_code, reason = "slices of the other side are read behind their pointers")]

use std::mem::MaybeUninit;
use std::ptr;

use super::abi::{
    CALLER_LOCAL, CALLER_PROCESS, CALLER_REMOTE, LOG_DEBUG, LOG_ERROR, LOG_INFO, LOG_WARN,
    METHOD_BYTES_1_0, MethodFields, OBJECT_NONBLOCKING, ObjectFields, REPLY_BYTES_1_0,
    REQUEST_BYTES_1_0, REQUEST_ONEWAY, ReplyFields, RequestFields, Slice,
};
use crate::Deadline;

/// The process or machine that calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller<'a> {
    /// A service of the same host.
    Local,
    /// A process of this machine, as the kernel knows it.
    Process {
        /// `None`: it is in a PID namespace that the host cannot see.
        pid: Option<i32>,
        /// Its user.
        uid: u32,
        /// Its group.
        gid: u32,
    },
    /// Another machine, at this network address.
    Remote(&'a str),
}

/// A call.
#[derive(Debug, Clone, Copy)]
pub struct RequestPart<'a> {
    /// The index of the object among those of its instance. Not used where a library calls out.
    pub object: u32,
    /// The number of the method.
    pub method: u32,
    /// The caller takes no reply.
    pub is_oneway: bool,
    /// When the call ends by itself.
    pub deadline: Deadline,
    /// Metadata as they travel.
    pub metadata: &'a [u8],
    /// The marshalled request.
    pub body: &'a [u8],
    /// Who calls.
    pub caller: Caller<'a>,
}

/// The answer to a call.
#[derive(Debug, Clone, Copy)]
pub struct ReplyPart<'a> {
    /// A code of gRPC; 0: `body` is the result.
    pub code: u32,
    /// The text of an error.
    pub message: &'a [u8],
    /// Metadata as they travel.
    pub metadata: &'a [u8],
    /// The marshalled result.
    pub body: &'a [u8],
}

/// A method of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodPart<'a> {
    /// FNV-1a of `package.Service/Method`, 32 bits.
    pub id: u32,
    /// 0 unary, 1 one-way, 2 reply stream, 3 request stream, 4 both.
    pub kind: u32,
    /// Its name in the `.proto` file.
    pub name: &'a str,
}

/// An object of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectPart<'a> {
    /// `package.Service`.
    pub interface: &'a str,
    /// Which of several objects with this interface; empty: the only one.
    pub instance: &'a str,
    /// An encoded `google.protobuf.FileDescriptorSet`, or empty.
    pub descriptor_set: &'a [u8],
    /// The methods of the interface.
    pub methods: Vec<MethodPart<'a>>,
    /// They do not wait, and may be called in any thread, several at once.
    pub is_nonblocking: bool,
}

/// How important a message in a log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Something failed.
    Error,
    /// Something is not as it should be.
    Warn,
    /// Something that an operator wants to know.
    Info,
    /// Something that a developer wants to know.
    Debug,
}

impl LogLevel {
    pub(super) fn number(self) -> u32 {
        match self {
            Self::Error => LOG_ERROR,
            Self::Warn => LOG_WARN,
            Self::Info => LOG_INFO,
            Self::Debug => LOG_DEBUG,
        }
    }

    /// Returns the level with this number, or the nearest.
    pub(super) fn from_number(number: u32) -> Self {
        match number {
            0 | LOG_ERROR => Self::Error,
            LOG_WARN => Self::Warn,
            LOG_INFO => Self::Info,
            _ => Self::Debug,
        }
    }
}

impl Slice {
    pub(super) const fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr(), size: bytes.len() }
    }

    /// Returns the bytes.
    ///
    /// # Safety
    ///
    /// They are valid and do not change as long as the result is used.
    pub(super) unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.data.is_null() || self.size == 0 {
            return &[];
        }
        // SAFETY: the caller promises that the bytes are valid as long as `'a`.
        unsafe { std::slice::from_raw_parts(self.data, self.size) }
    }

    /// Returns the text, unless it is no UTF-8.
    ///
    /// # Safety
    ///
    /// As [`bytes`](Self::bytes).
    pub(super) unsafe fn text<'a>(self) -> Option<&'a str> {
        // SAFETY: as the caller promises.
        std::str::from_utf8(unsafe { self.bytes() }).ok()
    }
}

impl RequestPart<'_> {
    pub(super) fn to_fields(self) -> RequestFields {
        let (caller, pid, uid, gid, address) = match self.caller {
            Caller::Local => (CALLER_LOCAL, 0, 0, 0, ""),
            Caller::Process { pid, uid, gid } => {
                (CALLER_PROCESS, pid.unwrap_or_default(), uid, gid, "")
            }
            Caller::Remote(address) => (CALLER_REMOTE, 0, 0, 0, address),
        };
        RequestFields {
            size: size_u32::<RequestFields>(),
            object: self.object,
            method: self.method,
            flags: if self.is_oneway { REQUEST_ONEWAY } else { 0 },
            deadline_ns: self.deadline.as_ns(),
            metadata: Slice::of(self.metadata),
            body: Slice::of(self.body),
            caller,
            pid,
            uid,
            gid,
            address: Slice::of(address.as_bytes()),
        }
    }
}

impl<'a> RequestPart<'a> {
    /// Reads a request of the other side.
    ///
    /// # Errors
    ///
    /// It has fewer bytes than version 1.0.
    ///
    /// # Safety
    ///
    /// The struct is as long as it says, and its slices are valid as long as the result is used.
    pub(super) unsafe fn read(fields: *const RequestFields) -> Result<Self, String> {
        // SAFETY: as the caller promises; zeros are a request.
        let fields = unsafe { read_sized(fields, REQUEST_BYTES_1_0, "nearcall_library_request") }?;
        let caller = match fields.caller {
            CALLER_PROCESS => {
                let pid = (fields.pid != 0).then_some(fields.pid);
                Caller::Process { pid, uid: fields.uid, gid: fields.gid }
            }
            CALLER_LOCAL => Caller::Local,
            // What is not known is not trusted more than another machine.
            // SAFETY: as the caller promises.
            _ => Caller::Remote(unsafe { fields.address.text() }.unwrap_or_default()),
        };
        Ok(Self {
            object: fields.object,
            method: fields.method,
            is_oneway: fields.flags & REQUEST_ONEWAY != 0,
            deadline: Deadline::from_ns(fields.deadline_ns),
            // SAFETY: as the caller promises.
            metadata: unsafe { fields.metadata.bytes() },
            // SAFETY: as the caller promises.
            body: unsafe { fields.body.bytes() },
            caller,
        })
    }
}

impl<'a> ReplyPart<'a> {
    /// Returns an answer that is an error.
    #[must_use]
    pub fn error(code: u32, message: &'a str) -> Self {
        Self { code, message: message.as_bytes(), metadata: &[], body: &[] }
    }

    pub(super) fn to_fields(self) -> ReplyFields {
        ReplyFields {
            size: size_u32::<ReplyFields>(),
            code: self.code,
            message: Slice::of(self.message),
            metadata: Slice::of(self.metadata),
            body: Slice::of(self.body),
        }
    }

    /// Reads a reply of the other side, and gives it to `give`, or else an error.
    ///
    /// # Safety
    ///
    /// The struct is as long as it says, and its slices are valid until this returns.
    pub(super) unsafe fn read(fields: *const ReplyFields, give: impl FnOnce(&ReplyPart<'_>)) {
        // SAFETY: as the caller promises; zeros are a reply.
        let fields = match unsafe { read_sized(fields, REPLY_BYTES_1_0, "nearcall_reply") } {
            Ok(fields) => fields,
            Err(why) => return give(&ReplyPart::error(INTERNAL, &why)),
        };
        give(&ReplyPart {
            code: fields.code,
            // SAFETY: as the caller promises.
            message: unsafe { fields.message.bytes() },
            // SAFETY: as the caller promises.
            metadata: unsafe { fields.metadata.bytes() },
            // SAFETY: as the caller promises.
            body: unsafe { fields.body.bytes() },
        });
    }
}

impl<'a> ObjectPart<'a> {
    /// Returns the struct, which points into this and into `methods`.
    pub(super) fn to_fields(&self, methods: &[MethodFields]) -> ObjectFields {
        ObjectFields {
            interface: Slice::of(self.interface.as_bytes()),
            instance: Slice::of(self.instance.as_bytes()),
            descriptor_set: Slice::of(self.descriptor_set),
            methods: methods.as_ptr(),
            method_count: methods.len(),
            flags: if self.is_nonblocking { OBJECT_NONBLOCKING } else { 0 },
            reserved: 0,
        }
    }

    /// Reads an object of the other side, whose methods have `method_bytes` each. `None`: a name is
    /// no UTF-8.
    ///
    /// # Safety
    ///
    /// All that it points to is valid as long as the result is used.
    pub(super) unsafe fn from_fields(fields: &ObjectFields, method_bytes: usize) -> Option<Self> {
        debug_assert!(method_bytes >= METHOD_BYTES_1_0, "checked when the library was loaded");
        // SAFETY: as the caller promises; zeros are a method.
        let methods = unsafe { read_list(fields.methods, fields.method_count, method_bytes) };
        let method = |fields: &MethodFields| {
            // SAFETY: as the caller promises.
            let name = unsafe { fields.name.text() }?;
            Some(MethodPart { id: fields.id, kind: fields.kind, name })
        };
        Some(Self {
            // SAFETY: as the caller promises.
            interface: unsafe { fields.interface.text() }?,
            // SAFETY: as the caller promises.
            instance: unsafe { fields.instance.text() }?,
            // SAFETY: as the caller promises.
            descriptor_set: unsafe { fields.descriptor_set.bytes() },
            methods: methods.iter().map(method).collect::<Option<_>>()?,
            is_nonblocking: fields.flags & OBJECT_NONBLOCKING != 0,
        })
    }
}

impl MethodPart<'_> {
    pub(super) fn to_fields(self) -> MethodFields {
        let Self { id, kind, name } = self;
        MethodFields { id, kind, name: Slice::of(name.as_bytes()) }
    }
}

/// Copies as much of a struct of the other side as it has, with zeros for the rest.
///
/// # Safety
///
/// That many bytes are there. Zeros are valid for the fields that lie behind them.
pub(super) unsafe fn read_prefix<T: Copy>(from: *const T, bytes: usize) -> T {
    let mut copy = MaybeUninit::<T>::zeroed();
    let bytes = bytes.min(size_of::<T>());
    // SAFETY: the caller promises that the bytes are there, and the copy has room for them.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), copy.as_mut_ptr().cast(), bytes) };
    // SAFETY: every byte is of the other side's struct of this type, or zero, as promised.
    unsafe { copy.assume_init() }
}

/// Copies a struct of the other side that begins with its size.
///
/// # Errors
///
/// It has fewer bytes than `bytes_1_0`.
///
/// # Safety
///
/// It is as long as it says, if it is not null. Zeros are valid for its fields.
unsafe fn read_sized<T: Copy>(from: *const T, bytes_1_0: usize, name: &str) -> Result<T, String> {
    // SAFETY: every version begins with the size.
    let size = if from.is_null() { 0 } else { unsafe { from.cast::<u32>().read() } };
    match usize::try_from(size) {
        // SAFETY: as the caller promises.
        Ok(bytes) if bytes >= bytes_1_0 => Ok(unsafe { read_prefix(from, bytes) }),
        _ => Err(format!(
            "a struct {name} has {size} of {bytes_1_0} bytes: set its `size` to `sizeof`"
        )),
    }
}

/// Copies a list of the other side, whose elements lie `stride` bytes apart.
///
/// # Safety
///
/// The elements are there, `stride` bytes each. Zeros are valid for the fields that lie behind
/// them.
pub(super) unsafe fn read_list<T: Copy>(first: *const T, count: usize, stride: usize) -> Vec<T> {
    let count = if first.is_null() { 0 } else { count };
    let element = |index| {
        // SAFETY: the caller promises that many elements.
        let from = unsafe { first.byte_add(index * stride) };
        // SAFETY: as the caller promises.
        unsafe { read_prefix(from, stride) }
    };
    (0..count).map(element).collect()
}

/// Returns a list of the other side.
///
/// # Safety
///
/// The elements are valid as long as the result is used.
pub(super) unsafe fn list<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller promises that the elements are valid as long as `'a`.
    unsafe { std::slice::from_raw_parts(first, count) }
}

/// Returns the size of a struct as the tables have it.
pub(super) const fn size_u32<T>() -> u32 {
    let size = size_of::<T>();
    assert!(size <= 4096, "the structs of the interface are small");
    #[allow(clippy::cast_possible_truncation, reason = "checked above")]
    let size = size as u32;
    size
}

/// Returns the size of a struct of a list as the table of a library has it.
pub(super) const fn size_u16<T>() -> u16 {
    let size = size_u32::<T>();
    #[allow(clippy::cast_possible_truncation, reason = "4096 at most")]
    let size = size as u16;
    size
}

/// The code `INTERNAL` of gRPC.
pub(super) const INTERNAL: u32 = 13;

/// The empty list.
pub(super) const NO_BYTES: Slice = Slice { data: ptr::null(), size: 0 };
