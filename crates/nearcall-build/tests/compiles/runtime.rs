//! A stub of the runtime: the items that generated code names, for calls within one thread.
//!
//! Streams are in `runtime/streams.rs`, futures in `runtime/futures.rs`.
#![allow(
    clippy::missing_errors_doc,
    missing_docs,
    unreachable_pub,
    reason = "the real runtime explains them"
)]

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::marker::PhantomData;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prost::Message;

mod futures;
mod streams;

pub use self::futures::{
    AsyncCall, AsyncDispatcher, AsyncIncoming, AsyncItemReceiver, AsyncItemSender, AsyncObjectRef,
    AsyncReplyStream, AsyncRequestStream, AsyncSend, AsyncSkeleton, CallContext, ServiceTask,
    TaskRunner, block_on,
};
pub use self::streams::{ItemReceiver, ItemSender, ReplyStream, RequestStream};

/// The description of a method.
#[derive(Debug)]
pub struct Method {
    pub id: u32,
    pub name: &'static str,
    pub kind: MethodKind,
    pub deadline: Option<Duration>,
    pub idempotency: Idempotency,
}

impl Method {
    pub const fn new(id: u32, name: &'static str, kind: MethodKind) -> Self {
        Self { id, name, kind, deadline: None, idempotency: Idempotency::Unknown }
    }

    pub const fn with_deadline_ms(self, deadline: u64) -> Self {
        Self { deadline: Some(Duration::from_millis(deadline)), ..self }
    }

    pub const fn with_idempotency(self, idempotency: Idempotency) -> Self {
        Self { idempotency, ..self }
    }
}

/// Whether a call may be made again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Idempotency {
    Unknown,
    NoSideEffects,
    Idempotent,
}

/// The shape of a method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MethodKind {
    Unary,
    Oneway,
    ReplyStream,
    RequestStream,
    BothStreams,
}

/// The description of a service.
#[derive(Debug)]
pub struct Interface {
    pub name: &'static str,
    pub methods: &'static [&'static Method],
    pub descriptor_set: &'static [u8],
}

pub trait Dispatcher: 'static {
    fn interface(&self) -> &'static Interface;

    /// Makes the `SharedService<dyn Trait>` that callers of the same build call. Only the registry
    /// calls it, once: the box stays in the thread.
    fn local(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn dispatch(&self, incoming: Incoming<'_>);
}

/// The table of methods of an interface.
pub trait SyncSkeleton<T: 'static>: 'static {
    type Object: ?Sized + 'static;
    const INTERFACE: &'static Interface;

    fn local(service: SharedService<T>) -> SharedService<Self::Object>;

    fn dispatch(service: &T, incoming: Incoming<'_>);
}

/// Serves calls with a service.
pub struct SyncDispatcher<S, T, P = Arc<T>>(P, PhantomData<fn() -> (S, T)>);

impl<S: SyncSkeleton<T>, T: 'static> SyncDispatcher<S, T> {
    pub fn new(service: T) -> Self {
        Self::shared(Arc::new(service))
    }
}

impl<S, T, P> SyncDispatcher<S, T, P> {
    pub fn shared(service: P) -> Self {
        Self(service, PhantomData)
    }

    pub fn service(&self) -> &P {
        &self.0
    }
}

impl<S, T, P: Clone> Clone for SyncDispatcher<S, T, P> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<S, T, P> Dispatcher for SyncDispatcher<S, T, P>
where
    S: SyncSkeleton<T>,
    T: 'static,
    P: Deref<Target = T> + Into<SharedService<T>> + Clone + 'static,
{
    fn interface(&self) -> &'static Interface {
        S::INTERFACE
    }

    fn local(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(S::local(self.0.clone().into())))
    }

    fn dispatch(&self, incoming: Incoming<'_>) {
        S::dispatch(&self.0, incoming);
    }
}

/// A service that a program shares with its dispatcher.
pub enum SharedService<T: ?Sized> {
    Arc(Arc<T>),
    Rc(Rc<T>),
}

impl<T: ?Sized> Deref for SharedService<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Arc(service) => service,
            Self::Rc(service) => service,
        }
    }
}

impl<T: ?Sized> From<Arc<T>> for SharedService<T> {
    fn from(service: Arc<T>) -> Self {
        Self::Arc(service)
    }
}

impl<T: ?Sized> From<Rc<T>> for SharedService<T> {
    fn from(service: Rc<T>) -> Self {
        Self::Rc(service)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Status(pub &'static str);

#[derive(Debug)]
pub struct BadAddress;

/// The options of a call; `text` arrives in the context.
#[derive(Debug, Clone, Default)]
pub struct CallOptions {
    pub text: &'static str,
}

impl CallOptions {
    pub fn new() -> Self {
        Self::default()
    }
}

#[derive(Debug)]
pub struct Context<'a> {
    pub text: &'static str,
    answer: &'a Answer,
    is_detached: Cell<bool>,
}

impl<'a> Context<'a> {
    fn new(text: &'static str, answer: &'a Answer) -> Self {
        Self { text, answer, is_detached: Cell::new(false) }
    }

    /// Lets the method reply after it has returned. The error only marks the call as detached.
    pub fn answer_later<R: Message>(&self, take: impl FnOnce(Responder<R>)) -> Result<R, Status> {
        self.is_detached.set(true);
        take(Responder(Arc::clone(self.answer), PhantomData));
        Err(Status("detached"))
    }
}

#[derive(Debug)]
pub struct PendingCall<R>(pub Result<R, Status>);

#[derive(Debug)]
pub struct Responder<R>(Answer, PhantomData<fn(R)>);

impl<R: Message> Responder<R> {
    pub fn finish(self, answer: Result<R, Status>) {
        set_answer(&self.0, &answer);
    }
}

/// What a call ends with, once it has ended.
type Answer = Arc<Mutex<Option<Result<Vec<u8>, Status>>>>;

/// Encoded items of a stream.
type Items = Arc<Mutex<VecDeque<Vec<u8>>>>;

#[derive(Debug)]
pub struct Loan(pub Vec<u8>);

/// A client of the objects of its thread.
#[derive(Debug, Clone, Default)]
pub struct Client {
    /// Makes objects that are created from now on encode their calls.
    pub bytes_only: bool,
}

struct Registered {
    dispatcher: Box<dyn Dispatcher>,
    local: Option<Box<dyn Any>>,
}

thread_local! {
    static OBJECTS: RefCell<BTreeMap<&'static str, Rc<Registered>>> = RefCell::default();
}

/// Registers an object of this thread.
pub fn register(dispatcher: impl Dispatcher) {
    let (name, local) = (dispatcher.interface().name, dispatcher.local());
    let registered = Registered { dispatcher: Box::new(dispatcher), local };
    OBJECTS.with_borrow_mut(|objects| objects.insert(name, Rc::new(registered)));
}

#[derive(Debug, Clone)]
pub struct ObjectRef {
    name: &'static str,
    bytes_only: bool,
}

impl ObjectRef {
    pub fn new(
        client: &Client,
        interface: &'static Interface,
        address: &str,
    ) -> Result<Self, BadAddress> {
        match address.is_empty() {
            true => Err(BadAddress),
            false => Ok(Self { name: interface.name, bytes_only: client.bytes_only }),
        }
    }

    fn registered(&self) -> Result<Rc<Registered>, Status> {
        OBJECTS.with_borrow(|objects| objects.get(self.name).cloned().ok_or(Status("no object")))
    }

    /// Lends memory, and waits for it.
    pub fn loan(&self, bytes: usize) -> Result<Loan, Status> {
        self.loan_with(bytes, &CallOptions::new())
    }

    /// Lends memory, and waits for it until the deadline of the options.
    pub fn loan_with(&self, bytes: usize, _: &CallOptions) -> Result<Loan, Status> {
        Ok(Loan(vec![0; bytes]))
    }

    /// Lends memory, or fails if there is none now.
    pub fn try_loan(&self, bytes: usize) -> Result<Loan, Status> {
        Ok(Loan(vec![0; bytes]))
    }

    pub fn call<S: 'static, Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
        serve: impl FnOnce(&S, &Context<'_>) -> Result<R, Status>,
    ) -> Result<R, Status> {
        let registered = self.registered()?;
        let local = registered.local.as_ref().filter(|_| !self.bytes_only);
        let Some(service) = local.and_then(|local| local.downcast_ref::<S>()) else {
            return self.call_bytes(method, request, options);
        };
        let answer = Answer::default();
        let context = Context::new(options.text, &answer);
        let result = serve(service, &context);
        if context.is_detached.get() { take_answer(&answer) } else { result }
    }

    fn call_bytes<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
    ) -> Result<R, Status> {
        let answer = Answer::default();
        self.dispatch(
            method,
            &request.encode_to_vec(),
            options.text,
            &answer,
            [&Items::default(); 2],
        )?;
        take_answer(&answer)
    }

    fn dispatch(
        &self,
        method: &'static Method,
        bytes: &[u8],
        text: &'static str,
        answer: &Answer,
        [requests, replies]: [&Items; 2],
    ) -> Result<(), Status> {
        let [requests, replies] = [requests, replies].map(Arc::clone);
        let answer = Arc::clone(answer);
        let incoming = Incoming { method: method.id, bytes, text, answer, requests, replies };
        self.registered()?.dispatcher.dispatch(incoming);
        Ok(())
    }

    pub fn start<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
    ) -> PendingCall<R> {
        PendingCall(self.call_bytes(method, request, options))
    }

    /// Starts a call, or fails if there is no room or slot for it now.
    pub fn try_start<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
    ) -> Result<PendingCall<R>, Status> {
        Ok(self.start(method, request, options))
    }

    /// Sends a one-way message, and waits for room.
    pub fn send<Q: Message>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
    ) -> Result<(), Status> {
        assert_eq!(method.kind, MethodKind::Oneway);
        self.call_bytes(method, request, options)
    }

    /// Sends a one-way message, or fails if there is no room now.
    pub fn try_send<Q: Message>(
        &self,
        method: &'static Method,
        request: &Q,
        options: &CallOptions,
    ) -> Result<(), Status> {
        self.send(method, request, options)
    }
}

fn take_answer<R: Message + Default>(answer: &Answer) -> Result<R, Status> {
    let answer = answer.lock().unwrap().take().unwrap_or(Err(Status("unanswered")));
    answer.map(|bytes| R::decode(&*bytes).unwrap())
}

fn set_answer<R: Message>(to: &Answer, answer: &Result<R, Status>) {
    let answer = answer.as_ref().map(Message::encode_to_vec).map_err(Clone::clone);
    *to.lock().unwrap() = Some(answer);
}

pub struct Incoming<'a> {
    method: u32,
    bytes: &'a [u8],
    text: &'static str,
    answer: Answer,
    requests: Items,
    replies: Items,
}

impl Incoming<'_> {
    pub fn method(&self) -> u32 {
        self.method
    }

    pub fn unimplemented(self) {
        set_answer::<()>(&self.answer, &Err(Status("unknown method")));
    }

    pub fn reply<Q: Message + Default, R: Message>(
        self,
        serve: impl FnOnce(&Context<'_>, &Q) -> Result<R, Status>,
    ) {
        let request = self.request();
        self.run(|context| serve(context, &request));
    }

    pub fn oneway<Q: Message + Default>(self, serve: impl FnOnce(&Context<'_>, &Q)) {
        let request = self.request();
        self.run(|context| {
            serve(context, &request);
            Ok(())
        });
    }

    fn request<Q: Message + Default>(&self) -> Q {
        Q::decode(self.bytes).unwrap()
    }

    fn run<R: Message>(&self, serve: impl FnOnce(&Context<'_>) -> Result<R, Status>) {
        let context = Context::new(self.text, &self.answer);
        let result = serve(&context);
        if !context.is_detached.get() {
            set_answer(&self.answer, &result);
        }
    }
}
