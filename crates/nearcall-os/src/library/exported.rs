//! A service that is built as a dynamic library: the table that it exports, its instances, and its
//! host.
//!
//! **Invariants:** no panic leaves a function of the table. Each call is answered once: one that is
//! dropped is answered with an error.
//! **Not here:** the side of the host (`loaded.rs`).
#![allow(unsafe_code, reason = "called through function pointers with those of the host")]

use std::cell::RefCell;
use std::ffi::c_void;
use std::fmt;
use std::os::fd::{AsFd, AsRawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};

use super::abi::{
    ABI_MAJOR, ABI_MINOR, HEAD_BYTES, HOST_BYTES_1_0, HostTable, MAGIC, MethodFields, ObjectFields,
    ReplyFields, RequestFields, ServiceTable, Slice,
};
use super::parts::{
    INTERNAL, LogLevel, NO_BYTES, ObjectPart, ReplyPart, RequestPart, list, read_prefix, size_u16,
    size_u32,
};
use crate::Deadline;

/// A service of a library, while it is loaded.
pub trait LibraryService: Send + Sync + Sized + 'static {
    /// Returns the objects, in the order of their numbers. They stay the same.
    fn objects(&self) -> Vec<ObjectPart<'_>>;

    /// Serves a call, which is answered over `call`, now or later.
    fn dispatch(&self, request: &RequestPart<'_>, call: CallToken);
}

/// What a library exports: made by [`export_service!`](crate::export_service).
pub trait Export: 'static {
    /// The service.
    type Service: LibraryService;
    /// Its name.
    const NAME: &'static str;
    /// Its version.
    const VERSION: &'static str;

    /// Makes an instance.
    ///
    /// # Errors
    ///
    /// Why there is none, for people.
    fn create(host: HostLink, arguments: Vec<String>) -> Result<Self::Service, String>;
}

/// Exports a service from a dynamic library: `export_service!(Type)` for a type with
/// [`Export`](crate::library::Export).
#[macro_export]
macro_rules! export_service {
    ($export:ty) => {
        /// What a host finds when it loads this as a library.
        #[unsafe(export_name = "nearcall_service_v1")]
        static NEARCALL_SERVICE: $crate::library::abi::ServiceTable =
            $crate::library::service_table::<$export>();
    };
}

// SAFETY: nothing of it is ever written.
unsafe impl Sync for ServiceTable {}

/// Returns the table of a service.
#[must_use]
pub const fn service_table<E: Export>() -> ServiceTable {
    ServiceTable {
        magic: MAGIC,
        size: size_u32::<ServiceTable>(),
        abi_major: ABI_MAJOR,
        abi_minor: ABI_MINOR,
        flags: 0,
        object_size: size_u16::<ObjectFields>(),
        method_size: size_u16::<MethodFields>(),
        name: Slice::of(E::NAME.as_bytes()),
        version: Slice::of(E::VERSION.as_bytes()),
        create: Some(create::<E>),
        objects: Some(objects::<E::Service>),
        dispatch: Some(dispatch::<E::Service>),
        destroy: Some(destroy::<E::Service>),
        last_error: Some(last_error),
    }
}

/// An instance, with the list of its objects that the host reads.
struct Exposed<S> {
    objects: Vec<ObjectFields>,
    /// What the list points into.
    _methods: Vec<Vec<MethodFields>>,
    service: Box<S>,
    host: HostLink,
}

thread_local! {
    static LAST_ERROR: RefCell<String> = const { RefCell::new(String::new()) };
}

unsafe extern "C" fn last_error() -> Slice {
    LAST_ERROR.with(|text| match text.try_borrow() {
        // Valid until the next error of this thread.
        Ok(text) => Slice::of(text.as_bytes()),
        Err(_) => NO_BYTES,
    })
}

unsafe extern "C" fn create<E: Export>(
    host: *const HostTable,
    arguments: *const Slice,
    argument_count: usize,
    instance: *mut *mut c_void,
) -> u32 {
    let make = |host| {
        // SAFETY: the host's list is valid until this returns.
        let arguments = unsafe { list(arguments, argument_count) };
        // SAFETY: so are the arguments.
        let text = |argument: &Slice| unsafe { argument.text() }.map(str::to_owned);
        let arguments = arguments.iter().map(text).collect::<Option<Vec<_>>>();
        E::create(host, arguments.ok_or("an argument is no UTF-8")?)
    };
    // SAFETY: the host passes its table, which lives as long as the process.
    let made = unsafe { expose(host, make) };
    match made {
        Ok(exposed) => {
            // SAFETY: the host's pointer is to room for one.
            unsafe { ptr::write(instance, exposed) };
            0
        }
        Err(text) => {
            LAST_ERROR.with(|last| *last.borrow_mut() = text);
            1
        }
    }
}

/// Makes an instance, for the functions of a table that take one.
///
/// # Errors
///
/// Why there is none, for people.
///
/// # Safety
///
/// `host` is null or the table of a host, which lives as long as this process.
pub unsafe fn expose<S: LibraryService>(
    host: *const HostTable,
    make: impl FnOnce(HostLink) -> Result<S, String>,
) -> Result<*mut c_void, String> {
    let make = || {
        // SAFETY: as the caller promises.
        let host = unsafe { HostLink::of(host) }?;
        let service = Box::new(make(host)?);
        let parts = service.objects();
        let fields = |part: &ObjectPart<'_>| part.methods.iter().map(|it| it.to_fields()).collect();
        let methods: Vec<Vec<MethodFields>> = parts.iter().map(fields).collect();
        let objects = parts.iter().zip(&methods).map(|(part, it)| part.to_fields(it)).collect();
        drop(parts);
        Ok::<_, String>(Box::new(Exposed { objects, _methods: methods, service, host }))
    };
    match catch_unwind(AssertUnwindSafe(make)) {
        Ok(made) => made.map(|exposed| Box::into_raw(exposed).cast()),
        Err(_) => Err("it panicked; its message is on stderr".to_owned()),
    }
}

/// Returns the objects of an instance.
///
/// # Safety
///
/// [`expose`] has made the instance, of this type, and it was not destroyed. `count` is room for
/// one.
pub unsafe extern "C" fn objects<S: LibraryService>(
    instance: *mut c_void,
    count: *mut usize,
) -> *const ObjectFields {
    // SAFETY: `create` made the instance, and the host has not destroyed it.
    let exposed: &Exposed<S> = unsafe { &*instance.cast() };
    // SAFETY: the host's pointer is to room for one.
    unsafe { ptr::write(count, exposed.objects.len()) };
    exposed.objects.as_ptr()
}

/// Serves a call of an instance.
///
/// # Safety
///
/// As that of [`objects`]; the request is valid until this returns, and the call until it is
/// answered.
pub unsafe extern "C" fn dispatch<S: LibraryService>(
    instance: *mut c_void,
    request: *const RequestFields,
    call: *mut c_void,
) {
    // SAFETY: `create` made the instance, and the host has not destroyed it.
    let exposed: &Exposed<S> = unsafe { &*instance.cast() };
    let Some(token) = NonNull::new(call) else { return };
    let call = CallToken { host: exposed.host, token };
    // SAFETY: the host's request is valid until this returns.
    match unsafe { RequestPart::read(request) } {
        // What panics has dropped the call, which answers it.
        Ok(request) => {
            let dispatch = || exposed.service.dispatch(&request, call);
            let _ = catch_unwind(AssertUnwindSafe(dispatch));
        }
        Err(why) => call.reply(&ReplyPart::error(INTERNAL, &why)),
    }
}

/// Ends an instance.
///
/// # Safety
///
/// As that of [`objects`]; nothing uses it any more.
pub unsafe extern "C" fn destroy<S: LibraryService>(instance: *mut c_void) {
    // SAFETY: `create` made the instance, and the host does not use it any more.
    let exposed: Box<Exposed<S>> = unsafe { Box::from_raw(instance.cast()) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(exposed)));
}

/// The host, once an instance was made: that of the first.
static HOST: std::sync::OnceLock<HostLink> = std::sync::OnceLock::new();

/// The host that has loaded this library, for one of its instances.
#[derive(Debug, Clone, Copy)]
pub struct HostLink {
    host: &'static Host,
}

/// The table of a host, as far as this library knows it.
#[derive(Debug)]
struct Host {
    table: HostTable,
    /// The host's own, which lives as long as the process.
    address: *const HostTable,
}

// SAFETY: the functions may be called from any thread, and the address is only passed to them.
unsafe impl Send for Host {}
// SAFETY: as above.
unsafe impl Sync for Host {}

impl HostLink {
    /// Returns the host of the first instance of this library. `None`: this is a program.
    #[must_use]
    pub fn current() -> Option<Self> {
        HOST.get().copied()
    }

    /// Checks the table of a host, and keeps it.
    ///
    /// # Safety
    ///
    /// It lives as long as this process.
    unsafe fn of(address: *const HostTable) -> Result<Self, String> {
        // SAFETY: as the caller promises.
        let table = unsafe { read_host(address) }?;
        // As long as the process, like the host's own.
        let link = Self { host: Box::leak(Box::new(Host { table, address })) };
        let _ = HOST.set(link);
        Ok(link)
    }

    /// Returns the number of an object that another service of this host has at an address.
    #[must_use]
    pub fn find(&self, address: &str, object: &str) -> Option<u64> {
        let (address, object) = (Slice::of(address.as_bytes()), Slice::of(object.as_bytes()));
        // SAFETY: both texts are valid until the function returns.
        let number = unsafe { (self.host.table.find)(address, object) };
        (number != 0).then_some(number)
    }

    /// Calls such an object and gives its reply to `reply`. Returns `false`, without a reply, if
    /// the object is not here any more.
    pub fn call(
        &self,
        object: u64,
        request: RequestPart<'_>,
        reply: impl FnOnce(&ReplyPart<'_>),
    ) -> bool {
        let fields = request.to_fields();
        let mut reply = Some(reply);
        let on_reply = give_reply(&reply);
        let context: *mut c_void = (&raw mut reply).cast();
        // SAFETY: the request is valid until the function returns, and `context` is what the
        // function is made for.
        unsafe { (self.host.table.call)(object, &raw const fields, on_reply, context) != 0 }
    }

    /// Writes a message into the log of the host, under the name of this service.
    pub fn log(&self, level: LogLevel, text: &str) {
        let text = Slice::of(text.as_bytes());
        // SAFETY: the table is the host's own, and the text is valid until the function returns.
        unsafe { (self.host.table.log)(self.host.address, level.number(), text) };
    }

    /// Has the host serve calls that come to this thread until `fd` is readable, the deadline
    /// passes, or some were served. Returns `false`, at once, where the host has no loop in this
    /// thread.
    pub fn wait(&self, fd: impl AsFd, deadline: Deadline) -> bool {
        // SAFETY: the descriptor is open until the function returns.
        unsafe { (self.host.table.wait)(fd.as_fd().as_raw_fd(), deadline.as_ns()) != 0 }
    }
}

/// Checks the table of a host, and copies what this library knows of it.
///
/// # Safety
///
/// It is as long as it says, if it is not null.
unsafe fn read_host(address: *const HostTable) -> Result<HostTable, String> {
    if address.is_null() {
        return Err("the host has no table".to_owned());
    }
    let mut head = [0; HEAD_BYTES];
    // SAFETY: every version of the table begins with these bytes.
    unsafe { ptr::copy_nonoverlapping(address.cast(), head.as_mut_ptr(), HEAD_BYTES) };
    let size = u32::from_ne_bytes([head[8], head[9], head[10], head[11]]);
    let major = u16::from_ne_bytes([head[12], head[13]]);
    if !head.starts_with(&MAGIC.to_ne_bytes()) || major != ABI_MAJOR {
        return Err(format!(
            "the host has version {major} of the interface, and this library {ABI_MAJOR}; build \
             both with the same nearcall"
        ));
    }
    let bytes = usize::try_from(size).unwrap_or(usize::MAX);
    if bytes < HOST_BYTES_1_0 {
        let why = format!("the host's table has {size} of {HOST_BYTES_1_0} bytes");
        return Err(format!("{why}; build the host anew"));
    }
    // SAFETY: it has all functions of version 1.0, and there are no others yet.
    Ok(unsafe { read_prefix(address, bytes) })
}

/// Returns the function that gives a reply to a closure of this type.
fn give_reply<F: FnOnce(&ReplyPart<'_>)>(
    _: &Option<F>,
) -> unsafe extern "C" fn(*mut c_void, *const ReplyFields) {
    unsafe extern "C" fn give<F: FnOnce(&ReplyPart<'_>)>(
        context: *mut c_void,
        reply: *const ReplyFields,
    ) {
        // SAFETY: `call` passes a pointer to its own closure, and waits.
        let take: &mut Option<F> = unsafe { &mut *context.cast() };
        let Some(take) = take.take() else { return };
        let take = |reply: &ReplyPart<'_>| {
            let _ = catch_unwind(AssertUnwindSafe(|| take(reply)));
        };
        // SAFETY: the host's reply is valid until this returns.
        unsafe { ReplyPart::read(reply, take) };
    }
    give::<F>
}

/// A call that this library has to answer. Dropped, it answers with an error.
pub struct CallToken {
    host: HostLink,
    token: NonNull<c_void>,
}

// SAFETY: the functions of the host may be called from any thread.
unsafe impl Send for CallToken {}
// SAFETY: as above.
unsafe impl Sync for CallToken {}

impl CallToken {
    /// Returns the host of the instance that was called.
    #[must_use]
    pub fn host(&self) -> HostLink {
        self.host
    }

    /// Answers the call.
    pub fn reply(self, reply: &ReplyPart<'_>) {
        self.answer(reply);
        std::mem::forget(self);
    }

    fn answer(&self, reply: &ReplyPart<'_>) {
        let fields = reply.to_fields();
        // SAFETY: the call was not answered before, and is not used afterwards; the reply is valid
        // until the function returns.
        unsafe { (self.host.host.table.reply)(self.token.as_ptr(), &raw const fields) };
    }

    /// Returns whether the caller does not wait any more.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        // SAFETY: the call was not answered.
        unsafe { (self.host.host.table.is_cancelled)(self.token.as_ptr()) != 0 }
    }

    /// Has `notify` run once when the call has ended, in whatever way and thread.
    pub fn on_end(&self, notify: impl FnOnce() + Send + 'static) {
        let notify: Box<Box<dyn FnOnce() + Send>> = Box::new(Box::new(notify));
        let context = Box::into_raw(notify).cast();
        // SAFETY: the call was not answered, and the host calls the function once with the box.
        unsafe { (self.host.host.table.on_end)(self.token.as_ptr(), run_notice, context) };
    }
}

unsafe extern "C" fn run_notice(context: *mut c_void) {
    // SAFETY: `on_end` made the pointer, and the host passes it back once.
    let notify: Box<Box<dyn FnOnce() + Send>> = unsafe { Box::from_raw(context.cast()) };
    let _ = catch_unwind(AssertUnwindSafe(notify));
}

impl Drop for CallToken {
    fn drop(&mut self) {
        self.answer(&ReplyPart::error(INTERNAL, "the service dropped the call without an answer"));
    }
}

impl fmt::Debug for CallToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallToken")
    }
}

#[cfg(test)]
mod tests {
    use super::super::loaded::HOST;
    use super::*;

    /// A table of a later minor version.
    #[repr(C)]
    struct Later {
        table: HostTable,
        more: u64,
    }

    fn read(change: impl FnOnce(&mut HostTable)) -> Result<HostTable, String> {
        let mut later = Later { table: HOST, more: u64::MAX };
        change(&mut later.table);
        // SAFETY: the table is as long as the test says, which is no longer than `Later`.
        let read = unsafe { read_host((&raw const later).cast()) };
        assert_eq!(later.more, u64::MAX);
        read
    }

    #[test]
    fn a_host_of_another_minor_version_is_understood_and_one_without_a_function_is_not() {
        let later = read(|table| {
            table.size = size_u32::<Later>();
            table.abi_minor = 7;
        });
        assert_eq!(later.unwrap().size, size_u32::<Later>());
        let (size, less) = (size_u32::<HostTable>(), size_u32::<HostTable>() - 8);
        assert_eq!(read(|table| table.size = size).unwrap().size, size);
        let why = read(|table| table.size = less).unwrap_err();
        assert!(why.contains(&format!("{less} of {size} bytes")), "{why}");
        let why = read(|table| table.abi_major = 2).unwrap_err();
        assert!(why.contains("version 2 of the interface, and this library 1"), "{why}");
        assert!(read(|table| table.magic = 0).is_err());
        // SAFETY: a null pointer is no table.
        let read = unsafe { read_host(ptr::null()) };
        assert!(read.is_err());
    }
}
