//! Calls with one request and one reply, and one-way messages.
//!
//! **Invariants:** a request is read where it lies, until the function returns.
//! **Not here:** calls that are waited for later (`pending.rs`), streams (`streams.rs`).

use std::cell::Cell;
use std::ffi::c_char;
use std::sync::{Arc, Weak};

use nearcall::Client;
use nearcall::dynamic::{AsyncDynamicCaller, DynamicCaller, Encoded, EncodedSlice, ThreadMethod};
use nearcall::{CallOptions, Status};

use crate::border::{Border, Sized_, border, span};
use crate::given::{NONE, Reply, give_bytes};
use crate::handles::{self, Kind};
use crate::metadata::{bad_entry, give, nearcall_metadata};
use crate::status::nearcall_status;
use crate::types::{
    NEARCALL_NO_WAIT, NEARCALL_TIMEOUT, NEARCALL_WAIT_FOR_READY, nearcall_bytes,
    nearcall_call_options, nearcall_caller, nearcall_client, nearcall_view,
};

// SAFETY: `repr(C)`, the size first, and after it numbers and a pointer that may be null.
unsafe impl Sized_ for nearcall_call_options {}

/// Calls one object.
pub(crate) struct Caller {
    /// For calls that a thread waits for.
    blocking: DynamicCaller,
    /// For calls whose end is reported.
    notified: AsyncDynamicCaller,
}

impl Kind for Caller {
    const NAME: &'static str = "caller";
    const IS_REMEMBERED: bool = true;
}

/// A method that a thread has called.
struct KnownMethod {
    id: u64,
    caller: Weak<Caller>,
    method: ThreadMethod,
}

/// Taken while it is called, and put back.
type Place = Cell<Option<Box<KnownMethod>>>;

/// Methods that a thread has called, each at a place that its caller and its name have.
struct Methods {
    places: [Place; METHODS_MAX],
    /// `handles::freed` when they were noted.
    freed: Cell<u64>,
}

/// How many methods a thread finds again without looking them up: so many take turns in a program
/// that calls the same few again and again. A power of two.
const METHODS_MAX: usize = 8;

thread_local! {
    static METHODS: Methods = const {
        Methods { places: [const { Cell::new(None) }; METHODS_MAX], freed: Cell::new(0) }
    };
}

impl Methods {
    #[inline]
    fn place(&self, caller: nearcall_caller, name: *const c_char) -> &Place {
        // Fibonacci hashing: the middle of the product depends on all bits of the key.
        let key = (caller.id ^ name.addr() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.places[(key >> 32) as usize % METHODS_MAX]
    }

    /// Drops all, if something was freed that they may be of.
    #[inline]
    fn check(&self) {
        if self.freed.get() != handles::freed() {
            self.forget();
        }
    }

    #[cold]
    fn forget(&self) {
        self.freed.set(handles::freed());
        self.places.iter().for_each(|place| drop(place.take()));
    }
}

/// Drops what this thread remembers of callers that were freed.
pub(crate) fn forget_freed() {
    // After the thread's own end it remembers nothing.
    let _ = METHODS.try_with(Methods::check);
}

/// Makes a call without options, with what this thread remembers of it.
fn call_plain(
    at: &Border,
    caller: nearcall_caller,
    name: *const c_char,
    request: &EncodedSlice<'_>,
) -> Result<Reply, Status> {
    let called = METHODS.try_with(|methods| {
        methods.check();
        let place = methods.place(caller, name);
        // Whatever is served during the call finds none there.
        let known = place.take()?;
        let is_it = known.id == caller.id
            && at.is_text(name, known.method.name())
            && known.method.is_current();
        // A call that is under way goes on if its caller is freed.
        let held = is_it.then(|| known.caller.upgrade())??;
        let freed = methods.freed.get();
        let result = known.method.call(held.blocking.object(), request);
        // What was served during the call may have freed it, and noted that.
        let is_there = methods.freed.get() == freed;
        place.set(is_there.then_some(known));
        drop(held);
        // If it was freed meanwhile, so that this was its end, nothing of it stays here.
        methods.check();
        Some(result)
    });
    match called {
        Ok(Some(result)) => result,
        Ok(None) | Err(_) => call_by_name(at, caller, name, request),
    }
}

#[inline(never)]
fn call_by_name(
    at: &Border,
    caller: nearcall_caller,
    method: *const c_char,
    request: &EncodedSlice<'_>,
) -> Result<Reply, Status> {
    let name = at.text("method", method)?;
    let freed = handles::freed();
    let held = handles::get::<Caller>(caller.id)?;
    let reply = held.blocking.call(name, request)?;
    let is_there = handles::freed() == freed;
    let known = held.blocking.thread_method(name).filter(|_| is_there).map(|found| {
        Box::new(KnownMethod { id: caller.id, caller: Arc::downgrade(&held), method: found })
    });
    let _ = METHODS.try_with(|methods| methods.place(caller, method).set(known));
    drop(held);
    // If it was freed just now, so that this was its end, nothing of it stays here.
    forget_freed();
    Ok(reply.into())
}

/// A request that C has.
pub(crate) enum Request<'a> {
    Elsewhere(&'a [u8]),
    Lent(Encoded),
}

impl Request<'_> {
    pub(crate) fn as_slice(&self) -> EncodedSlice<'_> {
        match self {
            Self::Elsewhere(bytes) => EncodedSlice::new(bytes),
            Self::Lent(encoded) => encoded.into(),
        }
    }

    /// Returns the message, to be kept.
    pub(crate) fn into_encoded(self) -> Encoded {
        match self {
            Self::Elsewhere(bytes) => bytes.to_vec().into(),
            Self::Lent(encoded) => encoded,
        }
    }
}

impl Border {
    fn call_options(&self, options: &nearcall_call_options) -> Result<CallOptions, Status> {
        let mut read = match options.timeout_ns {
            0 if options.flags & NEARCALL_TIMEOUT == 0 => CallOptions::new(),
            u64::MAX => CallOptions::new().no_deadline(),
            timeout_ns => CallOptions::new().deadline(span(timeout_ns)),
        };
        if options.reserved != 0 {
            return Err(Status::unimplemented("`options.reserved` is not 0"));
        }
        if options.flags & !(NEARCALL_WAIT_FOR_READY | NEARCALL_NO_WAIT | NEARCALL_TIMEOUT) != 0 {
            let text = format!("`options.flags` is {:#x}: there are no such flags", options.flags);
            return Err(Status::invalid_argument(text));
        }
        if options.flags & NEARCALL_WAIT_FOR_READY != 0 {
            read = read.wait_for_ready(true);
        }
        if options.flags & NEARCALL_NO_WAIT != 0 {
            read = read.no_wait();
        }
        for entry in self.array("options.entries", options.entries, options.entry_count)? {
            let key = self.text("options.entries.key", entry.key)?;
            let value = self.bytes("options.entries.value", entry.value)?;
            read = read.metadata_bin(key, value).map_err(bad_entry)?;
        }
        Ok(read)
    }

    /// Reads a request, and uses up the loan in which it may lie.
    pub(crate) fn request<'a>(
        &'a self,
        request: nearcall_view,
        options: Option<&nearcall_call_options>,
    ) -> Result<Request<'a>, Status> {
        match options {
            Some(options) if options.loan.id != 0 => {
                self.lent_message(options.loan, request).map(Request::Lent)
            }
            _ => self.bytes("request", request).map(Request::Elsewhere),
        }
    }

    /// Makes a call of a caller, with options or with its own.
    pub(crate) fn with_caller<R>(
        &self,
        caller: nearcall_caller,
        options: Option<&nearcall_call_options>,
        call: impl FnOnce(&DynamicCaller) -> Result<R, Status>,
    ) -> Result<R, Status> {
        forget_freed();
        match options {
            None => handles::with(caller.id, |caller: &Caller| call(&caller.blocking)),
            Some(options) => {
                let options = self.call_options(options)?;
                handles::with(caller.id, |caller: &Caller| call(&caller.blocking.with(options)))
            }
        }
    }

    /// Returns the same for a call whose end is reported.
    pub(crate) fn notified_caller(
        &self,
        caller: nearcall_caller,
        options: Option<&nearcall_call_options>,
    ) -> Result<AsyncDynamicCaller, Status> {
        forget_freed();
        let options = options.map(|options| self.call_options(options)).transpose()?;
        handles::with(caller.id, |caller: &Caller| {
            Ok(match options {
                None => caller.notified.clone(),
                Some(options) => caller.notified.with(options),
            })
        })
    }
}

/// Makes a caller of the object with an interface, such as `home.v1.Thermostat`, at an address. It
/// connects at the first call. Free it by `nearcall_caller_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_caller_new(
    client: nearcall_client,
    address: *const c_char,
    interface: *const c_char,
    caller: *mut nearcall_caller,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            at.place("caller", caller)?;
            let client = handles::get::<Client>(client.id)?;
            let address = at.text("address", address)?;
            let interface = at.text("interface", interface)?;
            let blocking = DynamicCaller::new(&client, address, interface)?;
            let notified = AsyncDynamicCaller::new(&client, address, interface)?;
            let id = handles::add(Caller { blocking, notified });
            at.put("caller", caller, nearcall_caller { id })
        })
    }
}

/// Frees a caller. Calls under way go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_caller_free(caller: nearcall_caller) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|_| {
            let freed = handles::take::<Caller>(caller.id);
            forget_freed();
            freed.map(drop)
        })
    }
}

/// Calls a method, such as `SetTarget`, with one request and one reply, and waits for its end.
///
/// `options` may be null. `reply` is set if the call succeeds: release it by `nearcall_bytes_free`.
/// `metadata` may be null; else it is set to what came beside the reply, also of a call that has
/// failed: release it by `nearcall_metadata_free`. With it, a call is not sent again by itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_call_method(
    caller: nearcall_caller,
    method: *const c_char,
    request: nearcall_view,
    options: *const nearcall_call_options,
    reply: *mut nearcall_bytes,
    metadata: *mut *mut nearcall_metadata,
) -> *mut nearcall_status {
    if options.is_null() && metadata.is_null() {
        // Most calls: less is moved about.
        // SAFETY: the rules of the header.
        return unsafe {
            border(|at| {
                at.put("reply", reply, NONE)?;
                let request = EncodedSlice::new(at.bytes("request", request)?);
                let given = call_plain(at, caller, method, &request)?;
                at.put("reply", reply, given.into_bytes())
            })
        };
    }
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            at.put("reply", reply, NONE)?;
            at.put_if_wanted(metadata, std::ptr::null_mut);
            // First, since the call uses up its loan in any case.
            let options = at.options("options", options)?;
            let request = at.request(request, options.as_ref())?;
            let (method, request) = (at.text("method", method)?, request.as_slice());
            let encoded = at.with_caller(caller, options.as_ref(), |caller| {
                if metadata.is_null() {
                    return caller.call(method, &request);
                }
                let (reply, sent) = caller.start(method, &request).wait_with_metadata();
                at.put_if_wanted(metadata, || give(sent));
                reply
            })?;
            at.put("reply", reply, give_bytes(Encoded::into_bytes(encoded)))
        })
    }
}

/// Sends a one-way message, which is never answered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearcall_send(
    caller: nearcall_caller,
    method: *const c_char,
    request: nearcall_view,
    options: *const nearcall_call_options,
) -> *mut nearcall_status {
    // SAFETY: the rules of the header.
    unsafe {
        border(|at| {
            // First, since the call uses up its loan in any case.
            let options = at.options("options", options)?;
            let request = at.request(request, options.as_ref())?;
            let (method, request) = (at.text("method", method)?, request.as_slice());
            at.with_caller(caller, options.as_ref(), |caller| caller.send(method, &request))
        })
    }
}
