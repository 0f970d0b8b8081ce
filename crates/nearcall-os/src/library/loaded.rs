//! A library with a service, as its host uses it.
//!
//! **Invariants:** no other file ever gets the name by which the dynamic linker knows a loaded
//! library: a path has been loaded once, or the descriptor stays open. A call is answered once,
//! also if the library drops it.
//! **Not here:** the checks before it is loaded (`file.rs`), the side of the library
//! (`exported.rs`).
#![allow(unsafe_code, reason = "dlopen, and calls through function pointers of the library")]

use std::ffi::{CStr, CString, c_void};
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use super::abi::{
    ABI_MAJOR, ABI_MINOR, HEAD_BYTES, HostTable, MAGIC, METHOD_BYTES_1_0, OBJECT_BYTES_1_0,
    ObjectFields, OnEnd, OnReply, ReplyFields, RequestFields, SERVICE_BYTES_1_0, SYMBOL,
    ServiceTable, Slice,
};
use super::error::LoadError;
use super::file::{Identity, LibraryFile};
use super::parts::{
    INTERNAL, LogLevel, NO_BYTES, ObjectPart, ReplyPart, RequestPart, read_list, read_prefix,
    size_u32,
};
use crate::Deadline;

/// What libraries ask of their host. Called in any thread.
pub trait HostFunctions: Send + Sync {
    /// Returns the number of the object with this name at this address, if this process has it.
    fn find(&self, address: &str, object: &str) -> Option<u64>;

    /// Calls an object that `find` returned, and gives its reply to `reply`. Returns `false`
    /// without a reply if the object is not here any more.
    fn call(
        &self,
        object: u64,
        request: &RequestPart<'_>,
        reply: &mut dyn FnMut(&ReplyPart<'_>),
    ) -> bool;

    /// Writes a message of a service into the log of the host.
    fn log(&self, service: &str, level: LogLevel, text: &str);

    /// Serves calls that come to this thread until `fd` is readable, the deadline passes, or some
    /// were served. Returns `false`, at once, where this thread serves nothing.
    fn wait(&self, fd: BorrowedFd<'_>, deadline: Deadline) -> bool;
}

/// A call that a library has to answer.
pub trait PendingReply: Send + Sync {
    /// Answers it.
    fn reply(self: Box<Self>, reply: &ReplyPart<'_>);

    /// Returns whether its caller does not wait any more.
    fn is_cancelled(&self) -> bool;

    /// Keeps `notice` until the call has ended, then drops it.
    fn on_end(&self, notice: EndNotice);
}

/// Notifies a library of the end of a call when it is dropped.
#[derive(Debug)]
pub struct EndNotice {
    notify: OnEnd,
    context: *mut c_void,
}

// SAFETY: a library takes the notice in any thread.
unsafe impl Send for EndNotice {}
// SAFETY: a shared notice does nothing.
unsafe impl Sync for EndNotice {}

impl Drop for EndNotice {
    fn drop(&mut self) {
        // SAFETY: the library gave both for one call in any thread, and this is the only one.
        unsafe { (self.notify)(self.context) };
    }
}

static FUNCTIONS: OnceLock<&'static dyn HostFunctions> = OnceLock::new();

/// Sets the functions that libraries of this process call. Returns `false` if they were set before.
pub fn serve_libraries(functions: &'static dyn HostFunctions) -> bool {
    FUNCTIONS.set(functions).is_ok()
}

/// A loaded library with a service. It stays loaded until the process ends.
#[derive(Debug, Clone)]
pub struct Library {
    path: PathBuf,
    table: &'static ServiceTable,
}

impl Library {
    /// Loads a library and finds its service. Runs the library's constructors.
    ///
    /// # Errors
    ///
    /// The dynamic linker refuses it, or the symbol [`SYMBOL`] is missing or does not fit.
    pub fn load(file: LibraryFile) -> Result<Self, LoadError> {
        let path = file.path().to_owned();
        let trusted = file.trusted_path().and_then(|path| reserve_path(path, file.identity()));
        let name = trusted.clone().unwrap_or_else(|_| file.descriptor_path());
        let name = CString::new(name.as_os_str().as_bytes()).unwrap_or_default();
        // SAFETY: the name ends in a zero byte. The constructors of the library run: its file was
        // checked to be as trusted as this program.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            let mut why = linker_error().replace(&*name.to_string_lossy(), "the file");
            if let Err(untrusted) = trusted {
                why.push_str(&format!(
                    " (it was loaded by its descriptor, for which `$ORIGIN` does not work, since \
                     {untrusted})"
                ));
            }
            return Err(LoadError::of_linker(path, why));
        }
        if trusted.is_err() {
            // As long as the process.
            let _ = file.into_fd().into_raw_fd();
        }
        let symbol = CString::new(SYMBOL).unwrap_or_default();
        // SAFETY: the handle was returned above, and the name ends in a zero byte.
        let table = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
        if table.is_null() {
            return Err(LoadError::NoSymbol { file: path, symbol: SYMBOL });
        }
        let table = check_table(&path, table.cast())?;
        Ok(Self { path, table })
    }

    /// Returns the path that it was loaded from.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name and the version of the service, as the library has them.
    #[must_use]
    pub fn name_and_version(&self) -> (&str, &str) {
        // SAFETY: the table and what it points to are valid as long as the library is loaded.
        let name = unsafe { self.table.name.text() };
        // SAFETY: as above.
        let version = unsafe { self.table.version.text() };
        (name.unwrap_or_default(), version.unwrap_or_default())
    }

    /// Makes an instance of the service, which has this name in the log of the host.
    ///
    /// # Errors
    ///
    /// The library refuses, with its own reason.
    pub fn create(&self, name: &str, arguments: &[String]) -> Result<Instance, LoadError> {
        let arguments: Vec<Slice> =
            arguments.iter().map(|argument| Slice::of(argument.as_bytes())).collect();
        let mut pointer = ptr::null_mut();
        let Some(create) = self.table.create else { return Err(self.no_function("create")) };
        // As long as the process: threads of the library may use it at any time.
        let host: &ServiceHost =
            Box::leak(Box::new(ServiceHost { table: HOST, service: name.to_owned() }));
        let host = ptr::from_ref(host).cast::<HostTable>();
        // SAFETY: the host's table is never freed, the arguments are valid until the function
        // returns.
        let code = unsafe { create(host, arguments.as_ptr(), arguments.len(), &raw mut pointer) };
        if code == 0 {
            return Ok(Instance { library: self.clone(), pointer });
        }
        // SAFETY: the function takes nothing.
        let text = self.table.last_error.map_or(NO_BYTES, |last_error| unsafe { last_error() });
        // SAFETY: the library keeps the text until the next call of a function of it here.
        let text = String::from_utf8_lossy(unsafe { text.bytes() }).into_owned();
        let text = if text.is_empty() { format!("error {code}, without a reason") } else { text };
        Err(LoadError::Service {
            file: self.path.clone(),
            why: format!("the service could not be created: {text}"),
            remedy: "check the arguments and the environment that the service needs",
        })
    }

    fn no_function(&self, name: &str) -> LoadError {
        LoadError::Table {
            file: self.path.clone(),
            symbol: SYMBOL,
            why: format!("has no function `{name}`"),
            remedy: "all functions of nearcall_service.h are needed",
        }
    }
}

/// Returns the path if no other file was loaded by it: the linker would take that for this one.
///
/// # Errors
///
/// Another file was loaded by it.
fn reserve_path(path: PathBuf, identity: Identity) -> Result<PathBuf, String> {
    static RESERVED: Mutex<Vec<(PathBuf, Identity)>> = Mutex::new(Vec::new());
    let mut reserved = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
    match reserved.iter().find(|(other, _)| *other == path) {
        Some((_, other)) if *other != identity => {
            Err(format!("another file was loaded by the path {} before", path.display()))
        }
        Some(_) => Ok(path),
        None => {
            reserved.push((path.clone(), identity));
            Ok(path)
        }
    }
}

/// Checks what a library exports, from its first bytes on.
fn check_table(
    path: &Path,
    table: *const ServiceTable,
) -> Result<&'static ServiceTable, LoadError> {
    let error = |why: String, remedy: &'static str| LoadError::Table {
        file: path.to_owned(),
        symbol: SYMBOL,
        why,
        remedy,
    };
    if !table.is_aligned() {
        return Err(error("is not aligned".into(), "export a `const struct nearcall_library`"));
    }
    let mut head = [0; HEAD_BYTES];
    // SAFETY: every version of the table begins with these bytes, and any other symbol of a loaded
    // file lies in a page that is mapped.
    unsafe { ptr::copy_nonoverlapping(table.cast::<u8>(), head.as_mut_ptr(), HEAD_BYTES) };
    if !head.starts_with(&MAGIC.to_ne_bytes()) {
        let why = "does not begin with `nearcall`: it is no table of a service".to_owned();
        return Err(error(why, "export a `const struct nearcall_library`"));
    }
    let number = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
    let (major, minor) = (number(12), number(14));
    if major != ABI_MAJOR {
        let why = format!(
            "has version {major}.{minor} of the interface, and this host has version \
             {ABI_MAJOR}.{ABI_MINOR}"
        );
        return Err(error(why, "build the library and the host with the same nearcall"));
    }
    let size = u32::from_ne_bytes([head[8], head[9], head[10], head[11]]);
    let bytes = usize::try_from(size).unwrap_or(usize::MAX);
    if bytes < SERVICE_BYTES_1_0 {
        let why = format!("has {size} bytes, and version {major} {SERVICE_BYTES_1_0}");
        return Err(error(why, "set `size` to `sizeof(struct nearcall_library)`"));
    }
    // SAFETY: its head says that it is such a table with that many bytes; zeros are one as well.
    let table: &'static ServiceTable = Box::leak(Box::new(unsafe { read_prefix(table, bytes) }));
    let strides = [
        ("object_size", table.object_size, OBJECT_BYTES_1_0, "nearcall_object"),
        ("method_size", table.method_size, METHOD_BYTES_1_0, "nearcall_method"),
    ];
    for (field, bytes, least, name) in strides {
        if usize::from(bytes) < least || !usize::from(bytes).is_multiple_of(align_of::<usize>()) {
            let why = format!(
                "has {bytes} as `{field}`, and version {major} has {least} bytes; set it to \
                 `sizeof(struct {name})`"
            );
            return Err(error(why, "the lists of `objects` are read by it"));
        }
    }
    let functions = [
        ("create", table.create.is_some()),
        ("objects", table.objects.is_some()),
        ("dispatch", table.dispatch.is_some()),
        ("destroy", table.destroy.is_some()),
        ("last_error", table.last_error.is_some()),
    ];
    match functions.into_iter().find(|(_, is_there)| !is_there) {
        Some((name, _)) => Err(error(format!("has no `{name}`"), "set all functions of the table")),
        None => Ok(table),
    }
}

/// Returns the text of the last error of the dynamic linker in this thread.
fn linker_error() -> String {
    // SAFETY: takes nothing; the text is valid until the next call of the linker in this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "it gave no reason".to_owned();
    }
    // SAFETY: not null, so it is a text with a zero byte at its end.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// An instance of the service of a library. Dropping it ends it.
#[derive(Debug)]
pub struct Instance {
    library: Library,
    pointer: *mut c_void,
}

// SAFETY: the library promises that its functions may be called from any thread.
unsafe impl Send for Instance {}
// SAFETY: it promises the same for several at once of objects that are `is_nonblocking`; of the
// others the host makes one call at a time, in the loop of the service.
unsafe impl Sync for Instance {}

impl Instance {
    /// Returns the objects, in the order of their numbers.
    ///
    /// # Errors
    ///
    /// A name is no UTF-8.
    pub fn objects(&self) -> Result<Vec<ObjectPart<'_>>, LoadError> {
        let Some(objects) = self.library.table.objects else {
            return Err(self.library.no_function("objects"));
        };
        let mut count = 0;
        // SAFETY: the instance lives, and the pointer is to a local.
        let first: *const ObjectFields = unsafe { objects(self.pointer, &raw mut count) };
        let (object_bytes, method_bytes) =
            (self.library.table.object_size, self.library.table.method_size);
        // SAFETY: the list is valid as long as the instance, with elements of that size.
        let objects = unsafe { read_list(first, count, object_bytes.into()) };
        let read = |fields: &ObjectFields| {
            // SAFETY: so is what it points to.
            unsafe { ObjectPart::from_fields(fields, method_bytes.into()) }
        };
        let objects = objects.iter().map(read);
        objects.collect::<Option<_>>().ok_or_else(|| LoadError::Service {
            file: self.library.path.clone(),
            why: "a name of an interface, an instance or a method is no UTF-8".into(),
            remedy: "correct the list that `objects` returns",
        })
    }

    /// Has the library serve a call, which it answers over `reply`, now or later.
    pub fn dispatch(&self, request: &RequestPart<'_>, reply: Box<dyn PendingReply>) {
        let Some(dispatch) = self.library.table.dispatch else { return };
        let fields = request.to_fields();
        let call = Box::into_raw(Box::new(reply));
        // SAFETY: the instance lives, the request is valid until the function returns, and the call
        // until the library answers it.
        unsafe { dispatch(self.pointer, &raw const fields, call.cast()) };
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(destroy) = self.library.table.destroy {
            // SAFETY: the instance lives, and is not used afterwards.
            unsafe { destroy(self.pointer) };
        }
    }
}

/// What one instance of a library gets of this host.
#[repr(C)]
struct ServiceHost {
    /// What the library sees. `log` finds the rest behind it.
    table: HostTable,
    service: String,
}

/// The functions of this host, the same for each instance.
pub(super) const HOST: HostTable = HostTable {
    magic: MAGIC,
    size: size_u32::<HostTable>(),
    abi_major: ABI_MAJOR,
    abi_minor: ABI_MINOR,
    reply: host_reply,
    is_cancelled: host_is_cancelled,
    on_end: host_on_end,
    find: host_find,
    call: host_call,
    log: host_log,
    wait: host_wait,
};

type Call = Box<dyn PendingReply>;

unsafe extern "C" fn host_reply(call: *mut c_void, reply: *const ReplyFields) {
    if call.is_null() {
        return;
    }
    // SAFETY: `dispatch` made the pointer, and the library answers a call once.
    let call: Box<Call> = unsafe { Box::from_raw(call.cast()) };
    let give = |reply: &ReplyPart<'_>| {
        let _ = catch_unwind(AssertUnwindSafe(|| (*call).reply(reply)));
    };
    // SAFETY: the library's reply is valid until this returns.
    unsafe { ReplyPart::read(reply, give) };
}

unsafe extern "C" fn host_is_cancelled(call: *const c_void) -> u32 {
    // SAFETY: `dispatch` made the pointer, and the library has not answered the call.
    let call: &Call = unsafe { &*call.cast() };
    u32::from(catch_unwind(AssertUnwindSafe(|| call.is_cancelled())).unwrap_or(true))
}

unsafe extern "C" fn host_on_end(call: *const c_void, notify: OnEnd, context: *mut c_void) {
    let notice = EndNotice { notify, context };
    // SAFETY: `dispatch` made the pointer, and the library has not answered the call.
    let call: &Call = unsafe { &*call.cast() };
    let _ = catch_unwind(AssertUnwindSafe(|| call.on_end(notice)));
}

unsafe extern "C" fn host_find(address: Slice, object: Slice) -> u64 {
    // SAFETY: the library's texts are valid until this returns.
    let address = unsafe { address.text() };
    // SAFETY: as above.
    let object = unsafe { object.text() };
    let (Some(functions), Some(address), Some(object)) = (FUNCTIONS.get(), address, object) else {
        return 0;
    };
    let found = catch_unwind(AssertUnwindSafe(|| functions.find(address, object)));
    found.ok().flatten().unwrap_or(0)
}

unsafe extern "C" fn host_call(
    object: u64,
    request: *const RequestFields,
    on_reply: OnReply,
    context: *mut c_void,
) -> u32 {
    let Some(functions) = FUNCTIONS.get() else { return 0 };
    let mut reply = |reply: &ReplyPart<'_>| {
        let fields = reply.to_fields();
        // SAFETY: the library gave both for this call; the reply is valid until it returns.
        unsafe { on_reply(context, &raw const fields) };
    };
    // SAFETY: the library's request is valid until this returns.
    let request = match unsafe { RequestPart::read(request) } {
        Ok(request) => request,
        Err(why) => {
            reply(&ReplyPart::error(INTERNAL, &why));
            return 1;
        }
    };
    let called = catch_unwind(AssertUnwindSafe(|| functions.call(object, &request, &mut reply)));
    u32::from(called.unwrap_or(false))
}

unsafe extern "C" fn host_log(host: *const HostTable, level: u32, text: Slice) {
    // SAFETY: `create` made the table that the library passes back, and never frees it.
    let host = unsafe { host.cast::<ServiceHost>().as_ref() };
    let (Some(functions), Some(host)) = (FUNCTIONS.get(), host) else { return };
    // SAFETY: the library's text is valid until this returns.
    let text = String::from_utf8_lossy(unsafe { text.bytes() });
    let log = || functions.log(&host.service, LogLevel::from_number(level), &text);
    let _ = catch_unwind(AssertUnwindSafe(log));
}

unsafe extern "C" fn host_wait(descriptor: i32, deadline_ns: u64) -> u32 {
    let Some(functions) = FUNCTIONS.get() else { return 0 };
    if descriptor < 0 {
        return 0;
    }
    // SAFETY: the library keeps its descriptor open until this returns.
    let fd = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let wait = || functions.wait(fd, Deadline::from_ns(deadline_ns));
    u32::from(catch_unwind(AssertUnwindSafe(wait)).unwrap_or(false))
}
