//! An object that can be called, wherever it lives: what generated callers are made of.
//!
//! An object of the same thread is called directly: by its own methods where caller and service
//! are of one build, through bytes where they are not (`call/local.rs`).
//! **Invariants:** both give the same results, errors and deadlines as a call to another process.
//! **Not here:** connections (`client.rs`), calls that are waited for later (`call/pending.rs`),
//! waiting until a request may be sent (`call/backpressure.rs`).

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use nearcall_channel::Loan;

use crate::address::{Address, BadAddress};
use crate::client::Client;
use crate::codec::{self, Body, Message};
use crate::connection::{Connection, Outcome, Outgoing, Reply, SendMode};
use crate::context::Context;
use crate::deadline::Deadline;
use crate::dispatcher::Registered;
use crate::interface::{Interface, Method, object_id};
use crate::limits::SHARED_BYTES_MIN;
use crate::nesting::inherited_deadline;
use crate::options::CallOptions;
use crate::status::Status;

mod backpressure;
mod local;
mod pending;

pub use self::pending::PendingCall;

/// An object at an address. Connects with its first call.
#[derive(Clone)]
pub struct ObjectRef {
    client: Client,
    interface: &'static Interface,
    address: Rc<Address>,
    object: u64,
    binding: RefCell<Binding>,
}

/// The binding of the object, as far as it is known.
#[derive(Clone)]
enum Binding {
    Unresolved,
    Remote(Rc<Connection>),
    /// In this thread, unless what it serves has changed since this epoch.
    Local(Rc<Registered>, u64),
}

/// The target of one call.
enum Target {
    Remote(Rc<Connection>),
    Local(Rc<Registered>),
}

impl ObjectRef {
    /// Returns a reference to the object of this interface at `address`. Connects lazily; no server
    /// need listen there yet.
    ///
    /// # Errors
    ///
    /// The text is no address.
    pub fn new(
        client: &Client,
        interface: &'static Interface,
        address: &str,
    ) -> Result<Self, BadAddress> {
        let address: Address = address.parse()?;
        let object = object_id(&interface.object_name(address.instance()));
        Ok(Self {
            client: client.clone(),
            interface,
            address: Rc::new(address),
            object,
            binding: RefCell::new(Binding::Unresolved),
        })
    }

    /// Returns where the object is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Calls a method and waits for its end. An implementation `S` in this thread is called by
    /// `serve`, without marshalling.
    ///
    /// # Errors
    ///
    /// The status that the service gave, or the reason why there is no answer: `UNAVAILABLE` (no
    /// server), `DEADLINE_EXCEEDED`, `RESOURCE_EXHAUSTED` (too large, or too many calls at once),
    /// `UNIMPLEMENTED` (no such object or method), `INTERNAL` (bad bytes).
    // Inlined by force, and so is the generated `x_with`, so that a call without options is
    // compiled for the default options. The compiler's own choice depends on code elsewhere.
    #[inline(always)]
    pub fn call<S: 'static, Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
        serve: impl FnOnce(&S, &Context<'_>) -> Result<R, Status>,
    ) -> Result<R, Status> {
        let deadline = options.deadline_for(method, inherited_deadline());
        match self.target(deadline)? {
            Target::Remote(connection) => {
                self.call_remote(connection, method, request, options, deadline)
            }
            Target::Local(dispatcher) => match dispatcher.local::<S>() {
                Some(service) => {
                    self.call_local(method, options, deadline, |context| serve(service, context))
                }
                None => self.call_bytes(&**dispatcher, method, request, options, deadline),
            },
        }
    }

    /// Calls a method over a connection and waits for its end.
    #[inline(always)]
    fn call_remote<Q: Message, R: Message + Default>(
        &self,
        connection: Rc<Connection>,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
        deadline: Deadline,
    ) -> Result<R, Status> {
        let outgoing = self.outgoing(method, options, deadline);
        let mode = self.client.send_mode(deadline);
        let (connection, call) = match connection.start_call(&outgoing, request, mode) {
            Ok(call) => (connection, call),
            Err(why) => self.start_again(connection, why, &outgoing, request, mode)?,
        };
        let read = |body: &[u8]| codec::decode(Body::copied(body));
        if let Some(result) = self.client.wait_inline(&connection, call, deadline, read) {
            return result;
        }
        let outcome = self.client.wait(&connection, call, deadline);
        self.read_outcome(outcome)
    }

    /// Starts a call whose end is taken later. Waits for room, and while as many calls are in
    /// flight as the connection takes ([`Limits::calls_max`](crate::Limits)): until the call's
    /// deadline at most.
    ///
    /// # Errors
    ///
    /// None: a call that could not be started ends with the reason, as [`call`](Self::call) has it.
    pub fn start<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
    ) -> PendingCall<R> {
        let deadline = options.deadline_for(method, inherited_deadline());
        let mode = self.client.send_mode(deadline);
        let started = self.start_by(method, request, options, deadline, mode);
        started.unwrap_or_else(|status| PendingCall::failed(self.clone(), status))
    }

    /// Starts a call as [`start`](Self::start) does, but only if that needs no waiting.
    ///
    /// # Errors
    ///
    /// The call was not started: `RESOURCE_EXHAUSTED` where [`start`](Self::start) would wait,
    /// otherwise as [`call`](Self::call).
    pub fn try_start<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
    ) -> Result<PendingCall<R>, Status> {
        let deadline = options.deadline_for(method, inherited_deadline());
        self.start_by(method, request, options, deadline, self.client.try_mode())
    }

    fn start_by<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
        deadline: Deadline,
        mode: SendMode,
    ) -> Result<PendingCall<R>, Status> {
        match self.target(deadline)? {
            Target::Remote(connection) => {
                let outgoing = self.outgoing(method, options, deadline);
                let (connection, call) = match connection.start_call(&outgoing, request, mode) {
                    Ok(call) => (connection, call),
                    Err(why) => self.start_again(connection, why, &outgoing, request, mode)?,
                };
                Ok(PendingCall::remote(self.clone(), connection, call, deadline))
            }
            Target::Local(dispatcher) => {
                let reply = self.run_bytes(&**dispatcher, method, request, options, deadline)?;
                Ok(PendingCall::local(self.clone(), reply, deadline))
            }
        }
    }

    /// Sends a message that is never answered; returns when it is in the channel. Waits for room
    /// until the deadline at most, while the loop, if there is one, goes on serving.
    ///
    /// # Errors
    ///
    /// The message was not sent: `UNAVAILABLE` (no server), `RESOURCE_EXHAUSTED` (too large),
    /// `DEADLINE_EXCEEDED` (no room in time; in a loop it may still arrive).
    pub fn send<Q: Message>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
    ) -> Result<(), Status> {
        let deadline = options.deadline_for(method, inherited_deadline());
        let mut connection = match self.target(deadline)? {
            Target::Remote(connection) => connection,
            Target::Local(dispatcher) => {
                let wait_until = Some(deadline);
                let oneway = self.local_oneway(dispatcher, method, request, options, deadline)?;
                return self.send_local(oneway, wait_until);
            }
        };
        let outgoing = self.outgoing(method, options, deadline);
        let mode = self.client.send_mode(deadline);
        if let Err(why) = connection.send_oneway(&outgoing, request, mode) {
            connection = self.send_again(connection, why, &outgoing, request, mode)?;
        }
        self.client.wait_for_room(&connection, deadline)
    }

    /// Sends a message as [`send`](Self::send) does, but only if there is room for it now.
    ///
    /// Without a loop a message longer than the room of the channel
    /// ([`Limits::room_bytes`](crate::Limits)) finds none: [`send`](Self::send) it.
    ///
    /// # Errors
    ///
    /// The message was not sent: `RESOURCE_EXHAUSTED` where [`send`](Self::send) would wait,
    /// otherwise as there.
    pub fn try_send<Q: Message>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
    ) -> Result<(), Status> {
        let deadline = options.deadline_for(method, inherited_deadline());
        let connection = match self.target(deadline)? {
            Target::Remote(connection) => connection,
            Target::Local(dispatcher) => {
                let oneway = self.local_oneway(dispatcher, method, request, options, deadline)?;
                return self.send_local(oneway, None);
            }
        };
        let outgoing = self.outgoing(method, options, deadline);
        let mode = self.client.try_mode();
        match connection.send_oneway(&outgoing, request, mode) {
            Ok(()) => Ok(()),
            Err(why) => self.send_again(connection, why, &outgoing, request, mode).map(drop),
        }
    }

    /// Returns memory for a `bytes` field of a request: written, then frozen, it is passed by
    /// reference where the mechanism can (`shm`), and copied where not. Connects if there is no
    /// connection.
    ///
    /// While the server keeps all that may be lent, it waits until something comes back: until the
    /// deadline of the handler that runs now, and without end if there is none
    /// ([`loan_with`](Self::loan_with)). The loop, if there is one, goes on serving meanwhile.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED`: more than the message limit, or all that may be lent is in loans that
    /// live in this process, which a wait would not end. `DEADLINE_EXCEEDED`: the server gave
    /// nothing back in time. `UNAVAILABLE`: there is no server.
    pub fn loan(&self, bytes: usize) -> Result<Loan, Status> {
        self.loan_until(bytes, inherited_deadline())
    }

    /// Returns memory as [`loan`](Self::loan) does, and waits for it until the deadline of the
    /// options at most.
    ///
    /// # Errors
    ///
    /// As [`loan`](Self::loan).
    pub fn loan_with(&self, bytes: usize, options: &CallOptions) -> Result<Loan, Status> {
        self.loan_until(bytes, options.deadline_for_loan(inherited_deadline()))
    }

    /// Returns memory as [`loan`](Self::loan) does, if there is any now.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED`: more than the message limit, or the server has not given back enough
    /// of what it was lent before. `UNAVAILABLE`: there is no server.
    pub fn try_loan(&self, bytes: usize) -> Result<Loan, Status> {
        match self.target(inherited_deadline())? {
            Target::Remote(connection) => {
                let loan = connection.loan(bytes);
                loan.map_err(|why| connection.no_loan(&why, Deadline::NEVER))
            }
            Target::Local(_) => Ok(Loan::plain(bytes)),
        }
    }

    /// Returns where the object is, and connects if there is no connection.
    #[inline]
    fn target(&self, deadline: Deadline) -> Result<Target, Status> {
        match &*self.binding.borrow() {
            Binding::Remote(connection) if !connection.is_closed() => {
                return Ok(Target::Remote(Rc::clone(connection)));
            }
            Binding::Local(dispatcher, epoch)
                if *epoch == self.client.services().registry.epoch() =>
            {
                return Ok(Target::Local(Rc::clone(dispatcher)));
            }
            _ => {}
        }
        self.resolve(deadline)
    }

    #[cold]
    fn resolve(&self, deadline: Deadline) -> Result<Target, Status> {
        let registry = &self.client.services().registry;
        let short_circuits = self.client.short_circuits();
        if short_circuits && let Some(server) = registry.server_at(&self.address.at) {
            let Some(dispatcher) = server.object(self.object) else {
                return Err(self.explain(server.no_such_object()));
            };
            return Ok(self.bind_local(dispatcher));
        }
        let connection = self.client.connection_to(&self.address, deadline)?;
        // The server may be one of this thread under another name.
        let instance = connection.peer_instance().filter(|_| short_circuits);
        let server = instance.and_then(|instance| registry.server_with(instance));
        if let Some(dispatcher) = server.and_then(|server| server.object(self.object)) {
            return Ok(self.bind_local(dispatcher));
        }
        drop(self.binding.replace(Binding::Remote(Rc::clone(&connection))));
        Ok(Target::Remote(connection))
    }

    fn bind_local(&self, dispatcher: Rc<Registered>) -> Target {
        let epoch = self.client.services().registry.epoch();
        drop(self.binding.replace(Binding::Local(Rc::clone(&dispatcher), epoch)));
        Target::Local(dispatcher)
    }

    #[inline]
    fn outgoing<'a>(
        &self,
        method: &'static Method,
        options: &'a CallOptions,
        deadline: Deadline,
    ) -> Outgoing<'a> {
        let metadata = options.metadata_bytes();
        Outgoing { object: self.object, method: method.id, deadline, metadata }
    }

    /// Reads the result of a call from its outcome.
    #[inline]
    fn read_outcome<R: Message + Default>(&self, outcome: Outcome) -> Result<R, Status> {
        match outcome {
            Ok(reply) => {
                let Reply { buffer, body, borrowed } = reply;
                let buffers = &self.client.services().buffers;
                if let Some(segments) = borrowed {
                    let rest = &buffer[segments.rest.clone()];
                    let result = codec::decode(Body::borrowed(rest, &segments));
                    buffers.give(buffer);
                    buffers.give_segments(segments);
                    return result;
                }
                if body.end >= SHARED_BYTES_MIN {
                    let whole = buffers.share(buffer, body.end);
                    return codec::decode(Body::sliced(&whole, body.start));
                }
                let result = codec::decode(Body::copied(&buffer[body]));
                buffers.give(buffer);
                result
            }
            Err(status) => Err(self.explain(status)),
        }
    }

    /// Adds which object it was that the server lacks, or that lacks a method. What a service gave
    /// stays as it is.
    #[cold]
    fn explain(&self, status: Status) -> Status {
        if status.detail().is_none() {
            return status;
        }
        let object = self.interface.object_name(self.address.instance());
        let text = format!("{object} at {}: {}", self.address.at, status.message());
        Status::new(status.code(), text)
    }
}

impl fmt::Debug for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = self.interface.object_name(self.address.instance());
        f.debug_struct("ObjectRef")
            .field("object", &object)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}
