//! An object that can be called, wherever it lives: what generated callers are made of.
//!
//! An object of the same thread is called directly: by its own methods where caller and service
//! are of one build, through bytes where they are not (`call/local.rs`). An object of another
//! library of the same host whose methods do not wait is called through bytes as well
//! (`call/hosted.rs`).
//! **Invariants:** both give the same results, errors and deadlines as a call to another process.
//! **Not here:** connections (`client.rs`), calls that are waited for later (`call/pending.rs`),
//! waiting until a request may be sent (`call/backpressure.rs`), sending one again
//! (`call/resending.rs`), calls of threads that share a connection (`call/shared.rs`), interceptors
//! (`call/observed.rs`).

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nearcall_channel::Loan;

use crate::address::{Address, BadAddress};
use crate::async_call::AsyncObjectRef;
use crate::client::{Binding, Client, ClientCore, HostedObject, ObjectName, ReconnectPolicy, Slot};
use crate::client::{Target, bind, current_binding, unbind};
use crate::codec::{self, Body, Message};
use crate::connection::{Connection, Oneway, Outgoing, SendMode, UNARY};
use crate::deadline::Deadline;
use crate::interceptor::Chain;
use crate::interface::{Interface, Method, object_id};
use crate::nesting::inherited_deadline;
use crate::options::CallOptions;
use crate::service::context::Context;
use crate::service::dispatcher::Registered;
use crate::status::{Fate, Status};

mod backpressure;
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

pub use self::pending::PendingCall;
pub use self::reply_stream::ReplyStream;
pub use self::request_stream::RequestStream;
pub(crate) use self::resending::may_resend;

/// An object at an address, for all threads. Each connects with its first call.
#[derive(Clone)]
pub struct ObjectRef {
    object: Arc<Object>,
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
        let address: Address = address.parse()?;
        let name = ObjectName { interface, address };
        let object = Object {
            slot: Slot::new(),
            number: object_id(&name.object()),
            default_deadline: client.shared().settings.default_deadline,
            interceptors: client.shared().settings.interceptors.clone(),
            name: Arc::new(name),
            client: client.clone(),
            shared: OnceLock::new(),
        };
        Ok(Self { object: Arc::new(object) })
    }

    /// Returns where the object is.
    pub fn address(&self) -> &Address {
        &self.object.name.address
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
        if self.is_intercepted() {
            let call = |options: &CallOptions| self.call_by(method, request, options, serve);
            return self
                .observe(method, request, options, call, |reply| codec::reported_bytes(reply));
        }
        self.call_by(method, request, options, serve)
    }

    #[inline(always)]
    fn call_by<S: 'static, Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
        serve: impl FnOnce(&S, &Context<'_>) -> Result<R, Status>,
    ) -> Result<R, Status> {
        let deadline = self.deadline(method, options);
        let binding = self.binding(options, deadline)?;
        match &binding.target {
            Target::Remote(connection) => {
                let outgoing = self.outgoing(method, options, deadline);
                let begun_ns = connection.begin_sample();
                let result =
                    self.call_remote(&binding, connection, method, &outgoing, request, options);
                if let Some(begun_ns) = begun_ns {
                    binding.core.end_sample(connection, begun_ns);
                }
                result
            }
            Target::Local(dispatcher, _) => match dispatcher.local::<S>() {
                Some(service) => {
                    let serve = |context: &Context<'_>| serve(service, context);
                    binding.call_local(method, options, deadline, serve)
                }
                None => binding.call_bytes(&***dispatcher, method, request, options, deadline),
            },
            Target::Hosted(object) => {
                self.call_hosted((&binding, *object), method, request, options, deadline)
            }
            Target::Shared(..) => self.call_shared(&binding, method, request, options, deadline),
        }
    }

    /// Calls a method over a connection and waits for its end.
    #[inline(always)]
    fn call_remote<Q: Message, R: Message + Default>(
        &self,
        binding: &Rc<Binding>,
        connection: &Rc<Connection>,
        method: &'static Method,
        outgoing: &Outgoing<'_>,
        request: &Q,
        options: &CallOptions,
    ) -> Result<R, Status> {
        let deadline = outgoing.deadline;
        let mode = binding.core.send_mode(deadline);
        let another;
        let (binding, connection, call) = match connection.request(UNARY, outgoing, request, mode) {
            Ok(call) => (binding, connection, call),
            Err(why) => {
                match self.start_again(binding, why, outgoing, request, options, mode) {
                    Ok(started) => another = started,
                    Err(status) => {
                        let shared = self.shared_instead(status)?;
                        return self.call_shared(&shared, method, request, options, deadline);
                    }
                }
                (&another.0, &another.1, another.2)
            }
        };
        let read = |body: &[u8]| codec::decode(Body::copied(body));
        if let Some(result) = binding.core.receive_reply(connection, call, deadline, read) {
            return result;
        }
        let outcome = binding.core.wait(connection, call, deadline);
        if let Err(status) = &outcome
            && status.fate() != Fate::Answered
        {
            let (status, used) = (status.clone(), (binding, connection));
            return self.call_again(used, status, method, outgoing, request, options);
        }
        binding.read_outcome(outcome, outgoing.method)
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
        let started = self.start_by(method, request, options, ClientCore::send_mode);
        started.unwrap_or_else(PendingCall::failed)
    }

    /// Starts a call as [`start`](Self::start) does, but only if that needs no waiting. Connects if
    /// there is no connection, and tries that once with [`ReconnectPolicy::Wait`] as well.
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
        let options = &*self.without_wait(options);
        self.start_by(method, request, options, |core, _| core.try_mode())
    }

    fn start_by<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
        mode: impl FnOnce(&ClientCore, Deadline) -> SendMode,
    ) -> Result<PendingCall<R>, Status> {
        if self.is_intercepted() {
            let start = |options: &CallOptions| self.start_plain(method, request, options, mode);
            return self.observe_start(method, request, options, start, PendingCall::observed_by);
        }
        self.start_plain(method, request, options, mode)
    }

    fn start_plain<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
        mode: impl FnOnce(&ClientCore, Deadline) -> SendMode,
    ) -> Result<PendingCall<R>, Status> {
        let deadline = self.deadline(method, options);
        let mut binding = self.binding(options, deadline)?;
        if let Target::Hosted(_) = binding.target {
            // So that it is under way while its caller goes on.
            binding = self.binding_with_connection(options, deadline)?;
        }
        match &binding.target {
            Target::Remote(connection) => {
                let outgoing = self.outgoing(method, options, deadline);
                let sampled = connection.begin_sample().is_some();
                let mode = mode(&binding.core, deadline);
                let (binding, connection, call) = match connection
                    .request(UNARY, &outgoing, request, mode)
                {
                    Ok(call) => (Rc::clone(&binding), Rc::clone(connection), call),
                    Err(why) => {
                        match self.start_again(&binding, why, &outgoing, request, options, mode) {
                            Ok(started) => started,
                            Err(status) => {
                                let shared = self.shared_instead(status)?;
                                let wait = (deadline, mode);
                                return self.start_shared(&shared, method, request, options, wait);
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
                let reply =
                    binding.start_bytes(&***dispatcher, method, request, options, deadline)?;
                Ok(PendingCall::local(Rc::clone(&binding), reply, deadline))
            }
            Target::Hosted(_) => Err(hosted::no_connection()),
            Target::Shared(..) => {
                let mode = mode(&binding.core, deadline);
                self.start_shared(&binding, method, request, options, (deadline, mode))
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
        self.send_by(method, request, options, ClientCore::send_mode)
    }

    /// Sends a message as [`send`](Self::send) does, but only if there is room for it now. Connects
    /// if there is no connection, and tries that once with [`ReconnectPolicy::Wait`] as well.
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
        let options = &*self.without_wait(options);
        self.send_by(method, request, options, |core, _| core.try_mode())
    }

    fn send_by<Q: Message>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
        mode: impl FnOnce(&ClientCore, Deadline) -> SendMode,
    ) -> Result<(), Status> {
        if self.is_intercepted() {
            let send = |options: &CallOptions| self.send_plain(method, request, options, mode);
            return self.observe(method, request, options, send, |()| 0);
        }
        self.send_plain(method, request, options, mode)
    }

    fn send_plain<Q: Message>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
        mode: impl FnOnce(&ClientCore, Deadline) -> SendMode,
    ) -> Result<(), Status> {
        let deadline = self.deadline(method, options);
        let mut binding = self.binding(options, deadline)?;
        if let Target::Hosted(_) = binding.target {
            // So that it stays asynchronous.
            binding = self.binding_with_connection(options, deadline)?;
        }
        let mode = mode(&binding.core, deadline);
        let connection = match &binding.target {
            Target::Remote(connection) => connection,
            Target::Local(dispatcher, _) => {
                let dispatcher = Rc::clone(dispatcher);
                let oneway =
                    binding.local_oneway(dispatcher, method, request, options, deadline)?;
                return binding.send_local(oneway, mode);
            }
            Target::Hosted(_) => return Err(hosted::no_connection()),
            Target::Shared(..) => {
                return self.send_shared(&binding, method, request, options, (deadline, mode));
            }
        };
        let outgoing = self.outgoing(method, options, deadline);
        let sampled = connection.begin_sample().is_some();
        let another;
        let (binding, connection) = match connection.request(Oneway, &outgoing, request, mode) {
            Ok(()) => (&binding, connection),
            Err(why) => {
                match self.send_again(&binding, why, &outgoing, request, options, mode) {
                    Ok(sent) => another = sent,
                    Err(status) => {
                        let (shared, sent) = (self.shared_instead(status)?, (deadline, mode));
                        return self.send_shared(&shared, method, request, options, sent);
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
                binding.core.wait_for_room(connection, deadline)
            }
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
        self.loan_with(bytes, &CallOptions::new())
    }

    /// Returns memory as [`loan`](Self::loan) does, and waits for it until the deadline of the
    /// options at most.
    ///
    /// # Errors
    ///
    /// As [`loan`](Self::loan).
    pub fn loan_with(&self, bytes: usize, options: &CallOptions) -> Result<Loan, Status> {
        let default = self.object.default_deadline;
        let deadline = options.deadline_for_loan(default, inherited_deadline());
        self.loan_until(bytes, options, deadline)
    }

    /// Returns memory as [`loan`](Self::loan) does, if there is any now.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED`: more than the message limit, or the server has not given back enough
    /// of what it was lent before. `UNAVAILABLE`: there is no server.
    pub fn try_loan(&self, bytes: usize) -> Result<Loan, Status> {
        let options = CallOptions::new();
        let options = self.without_wait(&options);
        let deadline = inherited_deadline();
        let binding = self.binding(&options, deadline)?;
        match &binding.target {
            Target::Remote(connection) => {
                let loan = connection.loan(bytes);
                loan.map_err(|why| connection.no_loan(&why, Deadline::NEVER))
            }
            Target::Local(..) | Target::Hosted(_) => Ok(Loan::plain(bytes)),
            Target::Shared(..) => self.try_loan_shared(&binding, bytes, &options, deadline),
        }
    }

    /// Returns when a call ends by itself.
    #[inline]
    fn deadline(&self, method: &Method, options: &CallOptions) -> Deadline {
        options.deadline_for(method, self.object.default_deadline, inherited_deadline())
    }

    /// Returns whether the client has interceptors.
    #[inline]
    fn is_intercepted(&self) -> bool {
        !self.object.interceptors.is_empty()
    }

    fn reconnect_policy(&self, options: &CallOptions) -> ReconnectPolicy {
        options.reconnect_policy(self.object.client.shared().settings.reconnect)
    }

    /// Returns the options for what must not wait until a server listens.
    fn without_wait<'a>(&self, options: &'a CallOptions) -> Cow<'a, CallOptions> {
        match self.reconnect_policy(options) {
            policy if policy.patience().is_some() => {
                Cow::Owned(options.clone().wait_for_ready(false))
            }
            _ => Cow::Borrowed(options),
        }
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
        let Object { slot, name, client, number, .. } = &*self.object;
        let core = client.core()?;
        let target = {
            let registry = &core.services().registry;
            let local = |dispatcher: Rc<Registered>| Target::Local(dispatcher, registry.epoch());
            let short_circuits = client.shared().short_circuits();
            let here = registry.server_at(&name.address.at).filter(|_| short_circuits);
            if let Some(server) = here {
                match server.object(*number) {
                    Some(dispatcher) => local(dispatcher),
                    None => return Err(name.explain(server.no_such_object())),
                }
            } else if short_circuits
                && let Some(object) = HostedObject::find(&name.address, &name.object())
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
    fn outgoing<'a>(
        &self,
        method: &'static Method,
        options: &'a CallOptions,
        deadline: Deadline,
    ) -> Outgoing<'a> {
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
