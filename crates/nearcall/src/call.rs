//! An object that can be called, wherever it lives: what generated callers are made of.
//!
//! An object of the same thread is called directly: by its own methods where caller and service
//! are of one build, through bytes where they are not (`call/local.rs`). An object of another
//! library of the same host whose methods do not wait is called through bytes as well
//! (`call/hosted.rs`).
//! **Invariants:** both give the same results, errors and deadlines as a call to another process.
//! **Not here:** connections (`clients.rs`), calls that are waited for later (`call/pending.rs`),
//! waiting until a request may be sent (`call/backpressure.rs`), sending one again
//! (`call/resending.rs`), calls of threads that share a connection (`call/shared.rs`), interceptors
//! (`call/observed.rs`).
//!
//! **Invariant:** a call ends exactly once, and when its connection ends, at once. *Checked by*
//! `crates/nearcall-wire/tests/it/simulation.rs`, `tests/it/calls.rs`.
//!
//! **Invariant:** after warm-up a call allocates nothing, at either end, and every mechanism makes
//! only the system calls of its own channel, plus one `epoll_pwait` for each wait of a loop.
//! *Checked by* `tests/allocation.rs`, for each thread; the system calls by
//! `declared_system_calls_and_copies_are_those_that_are_counted`.

use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nearcall_channel::Loan;
use nearcall_wire::InstanceId;

use crate::address::{Address, BadAddress};
use crate::async_call::AsyncObjectRef;
use crate::clients::{Binding, Client, HostedObject, ObjectName, Slot};
use crate::clients::{Target, bind, current_binding, unbind};
use crate::codec::{self, AnyMessage, Message};
use crate::connection::{Oneway, Outgoing, SendMode, UNARY};
use crate::deadline::Deadline;
use crate::interceptor::Chain;
use crate::interface::{Interface, Method, object_id};
use crate::nesting::inherited_deadline;
use crate::options::{CallOptions, CallSpec, DEFAULT_OPTIONS};
use crate::reconnect::ReconnectPolicy;
use crate::services::context::Context;
use crate::services::dispatcher::{Registered, SharedService};
use crate::status::Status;
use crate::transport;

mod backpressure;
mod direct;
mod hosted;
mod local;
mod observed;
mod opening;
mod pending;
mod reply_stream;
mod request_stream;
mod resending;
mod shared;
mod streaming;

pub(crate) use self::backpressure::loan_end;
pub use self::direct::ThreadMethod;
use self::observed::show_end;
pub use self::pending::PendingCall;
pub use self::reply_stream::ReplyStream;
pub use self::request_stream::RequestStream;
pub(crate) use self::resending::may_resend;

/// An object at an address, for all threads. Each connects with its first call.
///
/// Generated callers are made of it; so is a program that calls methods by their number
/// ([`ObjectRef::call`]).
#[derive(Clone)]
pub struct ObjectRef {
    object: Arc<Object>,
    /// Of its calls. `None`: the default ones, and the client has no interceptors.
    options: Option<CallOptions>,
}

struct Object {
    slot: Slot,
    /// The number of the object on the wire.
    number: u64,
    /// The client's, where a call finds it at once.
    default_deadline: Option<Duration>,
    /// The client's as well.
    interceptors: Chain,
    name: Arc<ObjectName>,
    client: Client,
    /// Of a connection that threads share, once one of them needs it.
    shared: OnceLock<AsyncObjectRef>,
    /// How often a thread has looked for the object.
    generation: AtomicU64,
}

impl Drop for Object {
    fn drop(&mut self) {
        unbind(&self.slot);
    }
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
        let name = ObjectName::new(client, interface, address)?;
        let interceptors = client.shared().settings.interceptors.clone();
        let options = (!interceptors.is_empty()).then(CallOptions::new);
        let object = Object {
            slot: Slot::new(),
            number: object_id(&name.object()),
            default_deadline: client.shared().settings.default_deadline,
            interceptors,
            name: Arc::new(name),
            client: client.clone(),
            shared: OnceLock::new(),
            generation: AtomicU64::new(0),
        };
        Ok(Self { object: Arc::new(object), options })
    }

    /// Returns a reference to the same object over the same connections, whose calls have `options`
    /// in the place of those of this one.
    #[must_use]
    pub fn with(&self, options: CallOptions) -> Self {
        let options = transport::options_for(self.address(), options);
        Self { object: Arc::clone(&self.object), options: Some(options) }
    }

    /// Returns where the object is.
    pub fn address(&self) -> &Address {
        &self.object.name.address
    }

    /// Returns the client that calls it.
    pub(crate) fn client(&self) -> &Client {
        &self.object.client
    }

    /// Returns the interface of the object.
    pub(crate) fn interface(&self) -> &'static Interface {
        self.object.name.interface
    }

    /// Returns the options of its calls.
    pub(crate) fn options(&self) -> &CallOptions {
        self.options.as_ref().unwrap_or(DEFAULT_OPTIONS)
    }

    /// Counts how often the object was looked for: while this is the same, no thread has connected
    /// to another instance of its server.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.object.generation.load(Ordering::Acquire)
    }

    /// Returns which instance of the server this thread is connected to, and connects if there is
    /// no connection. `None`: it is reached without one.
    pub(crate) fn served_instance(&self) -> Result<Option<InstanceId>, Status> {
        let options = self.options();
        let deadline =
            options.deadline_for_loan(self.object.default_deadline, inherited_deadline());
        Ok(match &self.binding(options, deadline)?.target {
            Target::Remote(connection) => connection.peer_instance(),
            Target::Shared(..) | Target::Local(..) | Target::Hosted(_) => None,
        })
    }

    /// Calls a method and waits for its end. An implementation `S` in this thread is called by
    /// `serve`, without marshalling.
    ///
    /// # Errors
    ///
    /// The status that the service gave, or the reason why there is no answer: `UNAVAILABLE` (no
    /// server), `DEADLINE_EXCEEDED`, `RESOURCE_EXHAUSTED` (too large, or too many calls at once),
    /// `UNIMPLEMENTED` (no such object or method), `INTERNAL` (bad bytes).
    // Inlined by force, so that a call without options is compiled for the default options. The
    // compiler's own choice depends on code elsewhere.
    #[inline(always)]
    pub fn call<S: ?Sized + 'static, Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        serve: impl FnOnce(&S, &Context<'_>, &Q) -> Result<R, Status>,
    ) -> Result<R, Status> {
        match &self.options {
            None => self.call_by(method, request, DEFAULT_OPTIONS, serve),
            Some(options) => self.call_with(method, request, options, serve),
        }
    }

    /// Makes a call that has options, or that interceptors see.
    #[inline(never)]
    fn call_with<S: ?Sized + 'static, Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
        serve: impl FnOnce(&S, &Context<'_>, &Q) -> Result<R, Status>,
    ) -> Result<R, Status> {
        let (observed, options) = self.begin(method, request, options)?;
        let result = self.call_by(method, request, &options, serve);
        show_end(observed, &result, codec::reported_bytes);
        result
    }

    #[inline(always)]
    fn call_by<S: ?Sized + 'static, Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
        serve: impl FnOnce(&S, &Context<'_>, &Q) -> Result<R, Status>,
    ) -> Result<R, Status> {
        let spec = self.spec(method, options);
        let binding = self.binding(options, spec.deadline)?;
        match &binding.target {
            Target::Remote(connection) => self.call_remote(&binding, connection, request, spec),
            Target::Local(dispatcher, _) => match dispatcher.local::<SharedService<S>>() {
                Some(service) => {
                    binding.call_local(spec, |context| serve(service, context, request))
                }
                None => binding.call_bytes(&***dispatcher, request, spec),
            },
            Target::Hosted(object) => self.call_hosted((&binding, *object), request, spec),
            Target::Shared(..) => self.call_shared(&binding, request, spec),
        }
    }

    /// Starts a call whose end is taken later. Waits for room, and while as many calls are in
    /// flight as the connection takes ([`Limits::calls_max`](crate::Limits)): until the call's
    /// deadline at most, and not at all by [`CallOptions::no_wait`].
    ///
    /// # Errors
    ///
    /// None: a call that could not be started ends with the reason, as [`call`](Self::call) has it;
    /// [`PendingCall::ensure_started`] returns it at once.
    pub fn start<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
    ) -> PendingCall<R> {
        let started = match &self.options {
            None => self.start_by(method, request, DEFAULT_OPTIONS),
            Some(options) => self.observe(
                (method, request, options),
                |options| self.start_by(method, request, options),
                PendingCall::observed_by,
            ),
        };
        started.unwrap_or_else(PendingCall::failed)
    }

    fn start_by<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
    ) -> Result<PendingCall<R>, Status> {
        let spec = self.spec(method, options);
        let mut binding = self.binding(options, spec.deadline)?;
        if let Target::Hosted(_) = binding.target {
            // So that it is under way while its caller goes on.
            binding = self.binding_with_connection(spec)?;
        }
        let deadline = spec.deadline;
        match &binding.target {
            Target::Remote(connection) => {
                let sampled = connection.begin_sample().is_some();
                let mode = binding.core.send_mode(options, deadline);
                let outgoing = self.outgoing(spec);
                let (binding, connection, call) =
                    match connection.request(UNARY, &outgoing, request, mode) {
                        Ok(call) => (Rc::clone(&binding), Rc::clone(connection), call),
                        Err(why) => {
                            let message = AnyMessage::new(request);
                            match self.start_after_wait(&binding, why, message, spec) {
                                Ok(started) => started,
                                Err(status) => {
                                    let shared = self.shared_instead(status)?;
                                    return self.start_shared(&shared, request, spec);
                                }
                            }
                        }
                    };
                if sampled {
                    binding.core.end_start(&connection);
                }
                Ok(PendingCall::remote(binding, connection, (call, method.id), deadline))
            }
            Target::Local(dispatcher, _) => {
                let reply = binding.start_bytes(&***dispatcher, request, spec)?;
                Ok(PendingCall::local(Rc::clone(&binding), reply, deadline))
            }
            Target::Hosted(_) => Err(hosted::no_connection()),
            Target::Shared(..) => self.start_shared(&binding, request, spec),
        }
    }

    /// Sends a message that is never answered; returns when it is in the channel. Waits for room
    /// until the deadline at most, while the loop, if there is one, goes on serving, and not at all
    /// by [`CallOptions::no_wait`].
    ///
    /// # Errors
    ///
    /// The message was not sent: `UNAVAILABLE` (no server), `RESOURCE_EXHAUSTED` (too large, or no
    /// room now by `no_wait`), `DEADLINE_EXCEEDED` (no room in time; in a loop it may still
    /// arrive).
    pub fn send<Q: Message>(&self, method: &'static Method, request: &Q) -> Result<(), Status> {
        match &self.options {
            None => self.send_by(method, request, DEFAULT_OPTIONS),
            Some(options) => {
                let (observed, options) = self.begin(method, request, options)?;
                let sent = self.send_by(method, request, &options);
                show_end(observed, &sent, |()| 0);
                sent
            }
        }
    }

    fn send_by<Q: Message>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
    ) -> Result<(), Status> {
        let spec = self.spec(method, options);
        let mut binding = self.binding(options, spec.deadline)?;
        if let Target::Hosted(_) = binding.target {
            // So that it stays asynchronous.
            binding = self.binding_with_connection(spec)?;
        }
        let mode = binding.core.send_mode(options, spec.deadline);
        let connection = match &binding.target {
            Target::Remote(connection) => connection,
            Target::Local(dispatcher, _) => {
                let oneway = binding.local_oneway(Rc::clone(dispatcher), request, spec)?;
                return binding.send_local(oneway, mode);
            }
            Target::Hosted(_) => return Err(hosted::no_connection()),
            Target::Shared(..) => return self.send_shared(&binding, request, spec),
        };
        let sampled = connection.begin_sample().is_some();
        let another;
        let (binding, connection) =
            match connection.request(Oneway, &self.outgoing(spec), request, mode) {
                Ok(()) => (&binding, connection),
                Err(why) => {
                    let message = AnyMessage::new(request);
                    match self.send_after_wait(&binding, why, message, spec) {
                        Ok(sent) => another = sent,
                        Err(status) => {
                            let shared = self.shared_instead(status)?;
                            return self.send_shared(&shared, request, spec);
                        }
                    }
                    (&another.0, &another.1)
                }
            };
        if sampled {
            binding.core.end_start(connection);
        }
        match mode {
            SendMode::Try | SendMode::TRY_WHOLE => Ok(()),
            SendMode::Keep | SendMode::WaitUntil(_) => {
                binding.core.wait_for_room(connection, spec.deadline)
            }
        }
    }

    /// Returns memory for a `bytes` field of a request: written, then frozen, it is passed by
    /// reference where the mechanism can (`shm`), and copied where not. Connects if there is no
    /// connection.
    ///
    /// While the server keeps all that may be lent, it waits until something comes back: until the
    /// deadline of its options or of the handler that runs now, without end if there is none, and
    /// not at all by [`CallOptions::no_wait`]. The loop, if there is one, goes on serving
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED`: more than the message limit, or all that may be lent is in loans that
    /// live in this process, which a wait would not end, or, by `no_wait`, at the server.
    /// `DEADLINE_EXCEEDED`: the server gave nothing back in time. `UNAVAILABLE`: there is no
    /// server.
    pub fn loan(&self, bytes: usize) -> Result<Loan, Status> {
        let options = self.options();
        let default = self.object.default_deadline;
        let deadline = options.deadline_for_loan(default, inherited_deadline());
        self.loan_until(bytes, options, deadline)
    }

    /// Returns what is spec for by a call of `method` with `options`, and when it ends by itself.
    #[inline]
    fn spec<'a>(&self, method: &'static Method, options: &'a CallOptions) -> CallSpec<'a> {
        let (default, inherited) = (self.object.default_deadline, inherited_deadline());
        CallSpec { method, options, deadline: options.deadline_for(method, default, inherited) }
    }

    /// Returns whether the client has interceptors.
    #[inline]
    fn is_intercepted(&self) -> bool {
        !self.object.interceptors.is_empty()
    }

    fn reconnect_policy(&self, options: &CallOptions) -> ReconnectPolicy {
        options.reconnect_policy(self.object.client.shared().settings.reconnect)
    }

    /// Returns where the object is for this thread, and connects if there is no connection.
    #[inline]
    fn binding(&self, options: &CallOptions, deadline: Deadline) -> Result<Rc<Binding>, Status> {
        match current_binding(&self.object.slot) {
            Some(binding) => Ok(binding),
            None => self.resolve(self.reconnect_policy(options), deadline),
        }
    }

    #[cold]
    fn resolve(&self, policy: ReconnectPolicy, deadline: Deadline) -> Result<Rc<Binding>, Status> {
        let found = self.find(policy, deadline);
        self.object.generation.fetch_add(1, Ordering::Release);
        found
    }

    fn find(&self, policy: ReconnectPolicy, deadline: Deadline) -> Result<Rc<Binding>, Status> {
        let Object { slot, name, client, number, .. } = &*self.object;
        let core = client.core()?;
        let target = {
            let registry = &core.services().registry;
            let local = |dispatcher: Rc<Registered>| Target::Local(dispatcher, registry.epoch());
            let short_circuits = client.shared().short_circuits();
            let here = registry.server_at(&name.place.at).filter(|_| short_circuits);
            if let Some(server) = here {
                match server.object(*number) {
                    Some(dispatcher) => local(dispatcher),
                    None => return Err(name.explain(server.no_such_object())),
                }
            } else if short_circuits
                && let Some(object) = HostedObject::find(&name.place, &name.object())
            {
                Target::Hosted(object)
            } else {
                let connection = match self.connect(&core, policy, deadline)? {
                    Target::Remote(connection) => connection,
                    shared => {
                        let binding = Binding { core, target: shared, name: Arc::clone(name) };
                        let binding = Rc::new(binding);
                        bind(slot, Rc::clone(&binding));
                        return Ok(binding);
                    }
                };
                // The server may be one of this thread under another name. Its greeting says which
                // one; that it is in this process the kernel has to say: any server may greet so.
                let may_be_own = short_circuits && connection.peer.is_this_process();
                let instance = connection.peer_instance().filter(|_| may_be_own);
                let server = instance.and_then(|instance| registry.server_with(instance));
                match server.and_then(|server| server.object(*number)) {
                    Some(dispatcher) => local(dispatcher),
                    None => Target::Remote(connection),
                }
            }
        };
        let binding = Rc::new(Binding { core, target, name: Arc::clone(name) });
        bind(slot, Rc::clone(&binding));
        Ok(binding)
    }

    #[inline]
    fn outgoing<'a>(&self, spec: CallSpec<'a>) -> Outgoing<'a> {
        let CallSpec { method, options, deadline } = spec;
        let metadata = options.metadata_bytes();
        Outgoing { object: self.object.number, method: method.id, deadline, metadata }
    }
}

impl fmt::Debug for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.object.name;
        f.debug_struct("ObjectRef")
            .field("object", &name.object())
            .field("address", &name.address)
            .finish_non_exhaustive()
    }
}
