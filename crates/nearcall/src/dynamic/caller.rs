//! Calls by the names of methods, from a thread.
//!
//! **Invariants:** a server is asked for its description once for each of its instances, when a
//! call first needs it. A call of the method that its thread has called last takes no lock.
//! **Not here:** the same as futures (`async_caller.rs`), the calls themselves (`call.rs`).

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use nearcall_channel::Loan;

use super::Encoded;
use super::description::{interface_from_descriptor_set, interface_named};
use crate::address::Address;
use crate::call::{ObjectRef, PendingCall, ThreadMethod};
use crate::clients::Client;
use crate::codec::Message;
use crate::control::{DescribeReply, DescribeRequest, ServerCaller};
use crate::interface::{Interface, Method, MethodKind};
use crate::options::CallOptions;
use crate::services::context::wrong_shape;
use crate::status::Status;
use crate::stream::{ReplyStream, RequestStream};
use crate::transport;

/// Calls the methods of an object by their names, in this thread or elsewhere.
///
/// Replies are [`Encoded`] messages, which are not decoded on the way; so are requests, or messages
/// of any type, where that is known. The shapes of the methods and their options come from the
/// server, which is asked at the first call to each of its instances.
/// [`AsyncDynamicCaller`](super::AsyncDynamicCaller) has the same as futures.
///
/// The errors of calls are those of [`ObjectRef`], and `UNIMPLEMENTED`: there is no such method, or
/// it has another shape; the text says how to call it.
#[derive(Debug, Clone)]
pub struct DynamicCaller {
    object: ObjectRef,
    known: Arc<Described>,
}

/// What is known of the interface of an object.
#[derive(Debug)]
pub(super) struct Described {
    /// Never that of another in this process.
    id: u64,
    last: RwLock<Option<Description>>,
}

/// The method that a thread has called last.
#[derive(Clone, Copy)]
struct LastMethod {
    described: u64,
    /// As that of a [`Description`].
    generation: u64,
    kind: MethodKind,
    method: &'static Method,
}

thread_local! {
    static LAST: Cell<Option<LastMethod>> = const { Cell::new(None) };
}

/// The answer of one instance of a server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Description {
    /// Of the connections: while it is the same, no thread has connected to another instance.
    pub(super) generation: u64,
    /// `None`: the connection does not say.
    pub(super) instance: Option<[u8; 16]>,
    pub(super) interface: &'static Interface,
}

impl Default for Described {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), last: RwLock::default() }
    }
}

impl Described {
    /// Returns what is known, if that can be true at this generation.
    pub(super) fn current(&self, generation: u64) -> Option<&'static Interface> {
        let known = self.last()?;
        (known.generation == generation).then_some(known.interface)
    }

    pub(super) fn last(&self) -> Option<Description> {
        *self.last.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, description: Description) -> &'static Interface {
        *self.last.write().unwrap_or_else(PoisonError::into_inner) = Some(description);
        description.interface
    }
}

/// Returns the question for the description of an interface.
pub(super) fn question(interface: &str) -> DescribeRequest {
    DescribeRequest { interface: interface.to_owned(), with_descriptor_sets: true }
}

/// Reads a server's answer.
pub(super) fn read_answer(
    answer: &DescribeReply,
    name: &str,
) -> Result<&'static Interface, Status> {
    if name == ServerCaller::INTERFACE.name {
        // Every server has it, and lists it nowhere.
        return interface_from_descriptor_set(ServerCaller::INTERFACE.descriptor_set, name);
    }
    let Some(found) = answer.interfaces.iter().find(|it| it.name == name) else {
        return Err(Status::unimplemented(format!(
            "the server has no object with {}; `nearcall.v1.Server/Describe` lists what it has",
            name.escape_debug()
        )));
    };
    interface_from_descriptor_set(&found.descriptor_set, name).map_err(|why| {
        let text = format!("the server's description of {name} is of no use: {}", why.message());
        Status::new(why.code(), text)
    })
}

/// Finds a method that has this shape.
pub(super) fn find(
    interface: &'static Interface,
    name: &str,
    kind: MethodKind,
) -> Result<&'static Method, Status> {
    match interface.method_named(name) {
        Some(method) if method.kind == kind => Ok(method),
        // A one-way method may be called as if it had a reply.
        Some(method) if (method.kind, kind) == (MethodKind::Oneway, MethodKind::Unary) => {
            Ok(method)
        }
        Some(method) => Err(wrong_shape(interface, method.id)),
        None => Err(no_such_method(interface, name)),
    }
}

#[cold]
fn no_such_method(interface: &Interface, name: &str) -> Status {
    let names: Vec<_> = interface.methods.iter().map(|method| method.name).collect();
    let (name, has) = (name.escape_debug(), names.join(", "));
    Status::unimplemented(format!("{} has no method `{name}`; it has {has}", interface.name))
}

/// There is none in this thread that could be called without bytes.
enum NoService {}

impl DynamicCaller {
    /// Creates a caller for the object with `interface`, such as `home.v1.Thermostat`, at
    /// `address`. It connects at the first call.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT`: the address cannot be parsed, or the name is empty or too long.
    /// `RESOURCE_EXHAUSTED`: too many interfaces were named, see
    /// [`interface_from_descriptor_set`](super::interface_from_descriptor_set).
    pub fn new(client: &Client, address: &str, interface: &str) -> Result<Self, Status> {
        let interface = interface_named(interface)?;
        Ok(Self { object: ObjectRef::new(client, interface, address)?, known: Arc::default() })
    }

    /// Returns a caller of the same object over the same connections, whose calls have `options`
    /// such as a deadline or metadata in the place of those of this one.
    #[must_use]
    pub fn with(&self, options: CallOptions) -> Self {
        Self { object: self.object.with(options), known: Arc::clone(&self.known) }
    }

    /// Returns where the object is.
    pub fn address(&self) -> &Address {
        self.object.address()
    }

    /// Returns the description of the object, asked of the server if it is not known.
    ///
    /// # Errors
    ///
    /// As [`ObjectRef::call`], and `UNIMPLEMENTED`: the server has no object with the interface.
    pub fn interface(&self) -> Result<&'static Interface, Status> {
        match self.known.current(self.object.generation()) {
            Some(interface) => Ok(interface),
            None => self.ask(),
        }
    }

    #[cold]
    fn ask(&self) -> Result<&'static Interface, Status> {
        let instance = self.object.served_instance()?;
        let generation = self.object.generation();
        if let Some(known) = self.known.last()
            && instance.is_some()
            && known.instance == instance
        {
            return Ok(self.known.set(Description { generation, ..known }));
        }
        let (address, asked) = (self.object.address(), self.object.interface());
        let interface = match transport::describe(address, asked, self.object.client().reconnect())
        {
            Some(described) => transport::wait(described)?,
            None => {
                let at = address.of_server().to_string();
                let server = ServerCaller::new(self.object.client(), &at)?;
                let server = server.with(self.object.options().without_metadata());
                read_answer(&server.describe(&question(asked.name))?, asked.name)?
            }
        };
        // As of the question: whatever has changed since then is asked again.
        Ok(self.known.set(Description { generation, instance, interface }))
    }

    #[inline]
    fn method(&self, name: &str, kind: MethodKind) -> Result<&'static Method, Status> {
        let key = (self.known.id, self.object.generation(), kind);
        match LAST.get() {
            Some(last)
                if (last.described, last.generation, last.kind) == key
                    && last.method.name == name =>
            {
                Ok(last.method)
            }
            _ => self.find_method(name, kind),
        }
    }

    #[inline(never)]
    fn find_method(&self, name: &str, kind: MethodKind) -> Result<&'static Method, Status> {
        // As of now: if it grows meanwhile, this never holds, and the next call looks again.
        let generation = self.object.generation();
        let method = find(self.interface()?, name, kind)?;
        LAST.set(Some(LastMethod { described: self.known.id, generation, kind, method }));
        Ok(method)
    }

    /// Calls a method with one request and one reply, and waits for its end.
    ///
    /// # Errors
    ///
    /// As [`ObjectRef::call`], and `UNIMPLEMENTED`: there is no such method, or it has another
    /// shape.
    pub fn call(&self, method: &str, request: &impl Message) -> Result<Encoded, Status> {
        let method = self.method(method, MethodKind::Unary)?;
        self.object.call(method, request, |never: &NoService, _, _| match *never {})
    }

    /// Returns a method as this thread calls it over the connection that it has now, for calls that
    /// follow each other closely. `None`: the method was not called in this thread before, or its
    /// calls have options, are seen by interceptors, or need no connection of this thread.
    pub fn thread_method(&self, method: &str) -> Option<ThreadMethod> {
        let interface = self.known.current(self.object.generation())?;
        self.object.thread_method(find(interface, method, MethodKind::Unary).ok()?)
    }

    /// Returns the object that it calls.
    pub fn object(&self) -> &ObjectRef {
        &self.object
    }

    /// Starts a call with one request and one reply, which is taken later.
    ///
    /// # Errors
    ///
    /// None: a call that could not be started ends with the reason.
    pub fn start(&self, method: &str, request: &impl Message) -> PendingCall<Encoded> {
        match self.method(method, MethodKind::Unary) {
            Ok(method) => self.object.start(method, request),
            Err(status) => PendingCall::failed(status),
        }
    }

    /// Returns memory for a request: written, frozen and made an [`Encoded`], it is passed by
    /// reference where the mechanism can (`shm`), by calls of this thread that wait or are waited
    /// for, and copied where not.
    ///
    /// # Errors
    ///
    /// As [`ObjectRef::loan`].
    pub fn loan(&self, bytes: usize) -> Result<Loan, Status> {
        self.object.loan(bytes)
    }

    /// Sends a message that is never answered.
    ///
    /// # Errors
    ///
    /// As [`ObjectRef::send`], and `UNIMPLEMENTED`: there is no such one-way method.
    pub fn send(&self, method: &str, request: &impl Message) -> Result<(), Status> {
        self.object.send(self.method(method, MethodKind::Oneway)?, request)
    }

    /// Starts a call whose reply is a stream.
    ///
    /// # Errors
    ///
    /// The call was not started, as [`call`](Self::call) has it.
    pub fn open_reply_stream(
        &self,
        method: &str,
        request: &impl Message,
    ) -> Result<ReplyStream<Encoded>, Status> {
        self.object.open_reply_stream(self.method(method, MethodKind::ReplyStream)?, request)
    }

    /// Starts a call whose request is a stream.
    ///
    /// # Errors
    ///
    /// The call was not started, as [`call`](Self::call) has it.
    pub fn open_request_stream(
        &self,
        method: &str,
    ) -> Result<RequestStream<Encoded, Encoded>, Status> {
        self.object.open_request_stream(self.method(method, MethodKind::RequestStream)?)
    }

    /// Starts a call whose request and reply are streams, independent of each other.
    ///
    /// # Errors
    ///
    /// The call was not started, as [`call`](Self::call) has it.
    pub fn open_both_streams(
        &self,
        method: &str,
    ) -> Result<(RequestStream<Encoded, ()>, ReplyStream<Encoded>), Status> {
        self.object.open_both_streams(self.method(method, MethodKind::BothStreams)?)
    }
}
