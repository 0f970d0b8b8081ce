//! An object that can be called, wherever it lives: what generated callers are made of.
//!
//! An object of the same thread is called directly: by its own methods where caller and service
//! are of one build, through bytes where they are not. Always true: both give the same results,
//! errors and deadlines as a call to another process.
//! Not here: connections (`client.rs`), calls that are waited for later (`started.rs`).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use nearcall_channel::Loan;
use nearcall_wire::Time;

use crate::address::{Address, BadAddress};
use crate::client::Client;
use crate::codec::{self, Body, Message};
use crate::context::{Context, Origin};
use crate::core::LocalOneway;
use crate::dispatch::{
    Dispatcher, Incoming, Inside, NO_SUCH_METHOD, ReplyTo, has_passed, inherited_deadline,
    panicked, run, too_deep,
};
use crate::interface::{Interface, Method, object_id};
use crate::limits::{LOCAL_ONEWAYS_MAX, SHARED_BYTES_MIN};
use crate::link::{Link, Outcome, Outgoing, Reply, Ticket};
use crate::local_reply::LocalReply;
use crate::metadata::Metadata;
use crate::options::CallOptions;
use crate::responder::{Responder, TypedReply};
use crate::server::NO_SUCH_OBJECT;
use crate::started::PendingCall;
use crate::status::Status;

/// An object at an address. Connects with its first call.
#[derive(Clone)]
pub struct ObjectRef {
    client: Client,
    interface: &'static Interface,
    address: Rc<Address>,
    object: u64,
    way: RefCell<Way>,
}

/// How to reach the object, as far as it is known.
#[derive(Clone)]
enum Way {
    Unknown,
    Link(Rc<Link>),
    /// In this thread, unless what it serves has changed since.
    Local(Rc<dyn Dispatcher>, u64),
}

/// How to reach the object for one call.
pub(crate) enum Reached {
    Link(Rc<Link>),
    Local(Rc<dyn Dispatcher>),
}

impl ObjectRef {
    /// The object of this interface at `address`, which nobody needs to listen at yet.
    ///
    /// # Errors
    ///
    /// What is wrong with the text.
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
            way: RefCell::new(Way::Unknown),
        })
    }

    /// Where it is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The implementation, if it lives in this thread and is of this build.
    #[inline]
    pub fn local<S: Clone + 'static>(&self) -> Option<S> {
        let epoch = self.client.core().epoch();
        match &*self.way.borrow() {
            Way::Local(dispatcher, known) if *known == epoch => {
                return dispatcher.local().downcast_ref::<S>().cloned();
            }
            Way::Link(link) if !link.is_gone() => return None,
            _ => {}
        }
        self.find_local()?.local().downcast_ref::<S>().cloned()
    }

    #[cold]
    fn find_local(&self) -> Option<Rc<dyn Dispatcher>> {
        if !self.client.short_circuits() {
            return None;
        }
        let core = self.client.core();
        let dispatcher = core.server_at(&self.address.at)?.object(self.object)?;
        drop(self.way.replace(Way::Local(Rc::clone(&dispatcher), core.epoch())));
        Some(dispatcher)
    }

    /// Finds the object, and connects if there is no connection.
    #[inline]
    pub(crate) fn reach(&self, until: Time) -> Result<Reached, Status> {
        match &*self.way.borrow() {
            Way::Link(link) if !link.is_gone() => return Ok(Reached::Link(Rc::clone(link))),
            Way::Local(dispatcher, known) if *known == self.client.core().epoch() => {
                return Ok(Reached::Local(Rc::clone(dispatcher)));
            }
            _ => {}
        }
        self.find(until)
    }

    #[cold]
    fn find(&self, until: Time) -> Result<Reached, Status> {
        if let Some(dispatcher) = self.find_local() {
            return Ok(Reached::Local(dispatcher));
        }
        let core = self.client.core();
        if let Some(server) = core.server_at(&self.address.at)
            && self.client.short_circuits()
        {
            return Err(self.explain(server.no_such_object()));
        }
        let link = self.client.link_to(&self.address, until)?;
        // The server may be ours under another name.
        let server = link.peer_instance().and_then(|instance| core.server_with(instance));
        if self.client.short_circuits()
            && let Some(dispatcher) = server.and_then(|server| server.object(self.object))
        {
            drop(self.way.replace(Way::Local(Rc::clone(&dispatcher), core.epoch())));
            return Ok(Reached::Local(dispatcher));
        }
        drop(self.way.replace(Way::Link(Rc::clone(&link))));
        Ok(Reached::Link(link))
    }

    /// Memory for a `bytes` field of a request: written, then frozen, it is passed by reference
    /// where the mechanism can (`shm`), and copied where not. Connects if there is no connection.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED`: more than the message limit, or the server has not given back enough
    /// of what it was lent before. `UNAVAILABLE`: there is no server.
    pub fn loan(&self, bytes: usize) -> Result<Loan, Status> {
        match self.reach(inherited_deadline())? {
            Reached::Link(link) => link.loan(bytes),
            Reached::Local(_) => Ok(Loan::plain(bytes)),
        }
    }

    /// Calls a method and waits for its end.
    #[inline]
    pub fn call<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
    ) -> Result<R, Status> {
        let until = options.until(method, inherited_deadline());
        let link = match self.reach(until)? {
            Reached::Link(link) => link,
            Reached::Local(dispatcher) => {
                return self.call_bytes(&dispatcher, method, request, options, until);
            }
        };
        let outgoing = self.outgoing(method, options, until);
        let (link, ticket) = match link.start_call(&outgoing, request, self.send_until(until)) {
            Ok(ticket) => (link, ticket),
            Err(status) => self.start_again(&link, status, &outgoing, request)?,
        };
        let read = |body: &[u8]| codec::decode(Body::copied(body));
        if let Some(result) = self.client.wait_near(&link, &ticket, until, read) {
            return result;
        }
        let outcome = self.client.wait(&link, &ticket, until);
        self.result(outcome)
    }

    /// A connection that has ended or drains since the last call is replaced, once: the call was
    /// not started, so starting it again cannot run it twice.
    #[cold]
    fn start_again<Q: Message>(
        &self,
        link: &Rc<Link>,
        status: Status,
        outgoing: &Outgoing<'_>,
        request: &Q,
    ) -> Result<(Rc<Link>, Ticket), Status> {
        if link.is_open() && !link.is_gone() {
            return Err(status);
        }
        drop(self.way.replace(Way::Unknown));
        let Reached::Link(link) = self.reach(outgoing.until)? else { return Err(status) };
        let ticket = link.start_call(outgoing, request, self.send_until(outgoing.until))?;
        Ok((link, ticket))
    }

    /// Starts a call whose end is taken later.
    pub fn start<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
    ) -> PendingCall<R> {
        let until = options.until(method, inherited_deadline());
        let link = match self.reach(until) {
            Ok(Reached::Link(link)) => link,
            Ok(Reached::Local(dispatcher)) => {
                let started = self.run_bytes(&dispatcher, method, request, options, until);
                return match started {
                    Ok(reply) => PendingCall::local(self.clone(), reply, until),
                    Err(status) => PendingCall::failed(self.clone(), status),
                };
            }
            Err(status) => return PendingCall::failed(self.clone(), status),
        };
        let outgoing = self.outgoing(method, options, until);
        let started = link.start_call(&outgoing, request, self.send_until(until));
        let started = match started {
            Ok(ticket) => Ok((link, ticket)),
            Err(status) => self.start_again(&link, status, &outgoing, request),
        };
        match started {
            Ok((link, ticket)) => PendingCall::remote(self.clone(), link, ticket, until),
            Err(status) => PendingCall::failed(self.clone(), status),
        }
    }

    /// Sends a message that is never answered; returns when it is in the channel.
    pub fn send<Q: Message>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
    ) -> Result<(), Status> {
        let until = options.until(method, inherited_deadline());
        let link = match self.reach(until)? {
            Reached::Link(link) => link,
            Reached::Local(dispatcher) => {
                return self.send_local(dispatcher, method, request, options, until);
            }
        };
        let outgoing = self.outgoing(method, options, until);
        let sent = link.send_oneway(&outgoing, request, self.send_until(until));
        let link = match sent {
            Ok(()) => link,
            Err(status) if link.is_open() && !link.is_gone() => return Err(status),
            Err(status) => {
                drop(self.way.replace(Way::Unknown));
                let Reached::Link(link) = self.reach(until)? else { return Err(status) };
                link.send_oneway(&outgoing, request, self.send_until(until))?;
                link
            }
        };
        self.client.wait_for_room(&link, until)
    }

    /// One-way messages are never short-circuited: this one is served in the loop's next turn.
    fn send_local<Q: Message>(
        &self,
        dispatcher: Rc<dyn Dispatcher>,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
        until: Time,
    ) -> Result<(), Status> {
        if has_passed(until) {
            return Err(Status::deadline_exceeded("the time was up before the message was sent"));
        }
        self.client.check_metadata(options)?;
        let mut waiting = self.client.core().local_oneways.borrow_mut();
        if waiting.len() >= LOCAL_ONEWAYS_MAX {
            return Err(Status::resource_exhausted(format!(
                "{LOCAL_ONEWAYS_MAX} one-way messages to this thread wait already; let its loop run"
            )));
        }
        waiting.push_back(LocalOneway {
            dispatcher,
            method: method.id,
            deadline: until,
            metadata: options.metadata_bytes().to_vec(),
            body: request.encode_to_vec(),
        });
        drop(waiting);
        self.client.core().wake_host();
        Ok(())
    }

    /// Calls the implementation itself. Generated callers do it where [`local`](Self::local) is.
    #[inline]
    pub fn call_local<R>(
        &self,
        method: &'static Method,
        options: &CallOptions,
        serve: impl FnOnce(&Context<'_>) -> Result<R, Status>,
    ) -> Result<R, Status> {
        let until = options.until(method, inherited_deadline());
        if has_passed(until) {
            return Err(too_late());
        }
        self.client.check_metadata(options)?;
        let inside = Inside::enter(self.client.core(), until).ok_or_else(too_deep)?;
        let context = self.local_context(method, options, until);
        let outcome = catch_unwind(AssertUnwindSafe(|| serve(&context)));
        drop(inside);
        match outcome {
            Ok(_) if has_passed(until) => Err(too_late()),
            Ok(result) => result,
            Err(_) => Err(panicked()),
        }
    }

    /// As [`call_local`](Self::call_local), for a method that may answer later.
    pub fn call_local_later<R: Message + 'static>(
        &self,
        method: &'static Method,
        options: &CallOptions,
        serve: impl FnOnce(&Context<'_>, Responder<R>),
    ) -> Result<R, Status> {
        let reply = TypedReply::default();
        let until = options.until(method, inherited_deadline());
        let responder = Responder::typed(Rc::clone(&reply), until);
        let has_run = Cell::new(false);
        let returned = self.call_local(method, options, |context| {
            has_run.set(true);
            serve(context, responder);
            Ok(())
        });
        let mut answer = None;
        match returned {
            Ok(()) => {}
            // The first answer counts: a service may panic after it has answered.
            Err(status) if has_run.get() && !has_passed(until) => {
                answer = Some(reply.take().unwrap_or(Err(status)));
            }
            Err(status) => return Err(status),
        }
        self.client.run_until(until, || {
            answer = answer.take().or_else(|| reply.take());
            answer.is_some()
        })?;
        answer.unwrap_or_else(|| Err(too_late()))
    }

    /// Calls an implementation of this thread that is of another build.
    fn call_bytes<Q: Message, R: Message + Default>(
        &self,
        dispatcher: &Rc<dyn Dispatcher>,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
        until: Time,
    ) -> Result<R, Status> {
        let reply = self.run_bytes(dispatcher, method, request, options, until)?;
        self.wait_bytes(&reply, until)
    }

    fn run_bytes<Q: Message>(
        &self,
        dispatcher: &Rc<dyn Dispatcher>,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
        until: Time,
    ) -> Result<LocalReply, Status> {
        if has_passed(until) {
            return Err(too_late());
        }
        self.client.check_metadata(options)?;
        let core = self.client.core();
        let mut buffer = core.buffers.take();
        let body_bytes = codec::encoded_bytes(request);
        core.buffers.grow(&mut buffer, body_bytes);
        codec::encode_into(request, &mut buffer[..body_bytes])?;
        let reply = LocalReply::default();
        let context = self.local_context(method, options, until);
        let to = ReplyTo::Local(Some(&reply));
        let body = Body::copied(&buffer[..body_bytes]);
        let incoming = || Incoming { method: method.id, body, context, to };
        run(core, &**dispatcher, to, until, incoming);
        core.buffers.give(buffer);
        Ok(reply)
    }

    /// Waits for an answer as bytes, and reads it.
    pub(crate) fn wait_bytes<R: Message + Default>(
        &self,
        reply: &LocalReply,
        until: Time,
    ) -> Result<R, Status> {
        if !reply.has_ended() {
            self.client.run_until(until, || reply.has_ended())?;
        }
        // An answer was judged when it was given, and may be taken late.
        match reply.take() {
            Some(answer) => codec::decode(Body::copied(&answer?)),
            None => Err(too_late()),
        }
    }

    fn local_context<'a>(
        &self,
        method: &'static Method,
        options: &'a CallOptions,
        until: Time,
    ) -> Context<'a> {
        let metadata = Metadata::new(options.metadata_bytes());
        Context::new(until, metadata, self.interface, method.id, Origin::Local)
    }

    #[inline]
    fn outgoing<'a>(
        &self,
        method: &'static Method,
        options: &'a CallOptions,
        until: Time,
    ) -> Outgoing<'a> {
        let metadata = options.metadata_bytes();
        Outgoing { object: self.object, method: method.id, until, metadata }
    }

    #[inline]
    fn send_until(&self, until: Time) -> nearcall_channel::Deadline {
        self.client.send_deadline(until)
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Reads the end of a call.
    #[inline]
    pub(crate) fn result<R: Message + Default>(&self, outcome: Outcome) -> Result<R, Status> {
        match outcome {
            Ok(reply) => {
                let (buffers, Reply { buffer, body, lent }) = (&self.client.core().buffers, reply);
                if let Some(lent) = lent {
                    let result = codec::decode(Body::lent(&buffer[lent.rest.clone()], &lent));
                    buffers.give(buffer);
                    buffers.give_lent(lent);
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

    /// Says which object or method it was that the server does not have. What a service says
    /// stays as it is.
    #[cold]
    fn explain(&self, status: Status) -> Status {
        let text = status.message();
        let lacks_method = text.strip_prefix(self.interface.name);
        let is_ours = text.starts_with(NO_SUCH_OBJECT)
            || lacks_method.is_some_and(|rest| rest.starts_with(NO_SUCH_METHOD));
        if status.code() != crate::Code::Unimplemented || !is_ours {
            return status;
        }
        let object = self.interface.object_name(self.address.instance());
        Status::unimplemented(format!("{object} at {}: {}", self.address.at, status.message()))
    }
}

#[cold]
pub(crate) fn too_late() -> Status {
    Status::deadline_exceeded("the service did not answer in time; the method may have run")
}

impl fmt::Debug for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let object = self.interface.object_name(self.address.instance());
        f.debug_struct("ObjectRef")
            .field("object", &object)
            .field("address", &self.address.to_string())
            .finish_non_exhaustive()
    }
}
