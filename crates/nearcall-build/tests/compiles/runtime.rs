//! A stub of the runtime: the items that generated code names, for calls within one thread.
#![allow(missing_docs, unreachable_pub, reason = "the real runtime explains them")]

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;

use prost::Message;

/// The description of a method.
#[derive(Debug)]
pub struct Method {
    pub id: u32,
    pub name: &'static str,
    pub oneway: bool,
    pub deadline: Option<Duration>,
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
    fn local(&self) -> &dyn Any;
    fn dispatch(&self, incoming: Incoming<'_>);
}

#[derive(Debug, PartialEq)]
pub struct Status(pub &'static str);

#[derive(Debug)]
pub struct BadAddress;

#[derive(Debug, Default)]
pub struct CallOptions {
    /// Encodes the call although the service is in this thread.
    pub not_local: bool,
}

impl CallOptions {
    pub fn new() -> Self {
        Self::default()
    }
}

#[derive(Debug)]
pub struct Context<'a>(PhantomData<&'a ()>);

#[derive(Debug)]
pub struct PendingCall<R>(pub Result<R, Status>);

#[derive(Debug)]
pub struct Responder<R>(Answer, PhantomData<R>);

impl<R: Message> Responder<R> {
    pub fn finish(self, answer: Result<R, Status>) {
        *self.0.borrow_mut() = Some(answer.map(|answer| answer.encode_to_vec()));
    }
}

type Answer = Rc<RefCell<Option<Result<Vec<u8>, Status>>>>;

#[derive(Debug)]
pub struct Loan(pub Vec<u8>);

#[derive(Default)]
pub struct Client {
    objects: RefCell<BTreeMap<String, Rc<dyn Dispatcher>>>,
    /// Makes objects that are created from now on encode their calls.
    pub bytes_only: Cell<bool>,
}

impl Client {
    pub fn register(&self, dispatcher: impl Dispatcher) {
        let name = dispatcher.interface().name.to_owned();
        self.objects.borrow_mut().insert(name, Rc::new(dispatcher));
    }
}

#[derive(Clone)]
pub struct ObjectRef {
    dispatcher: Rc<dyn Dispatcher>,
    bytes_only: bool,
}

impl std::fmt::Debug for ObjectRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.dispatcher.interface().name)
    }
}

impl ObjectRef {
    pub fn new(
        client: &Client,
        interface: &'static Interface,
        address: &str,
    ) -> Result<Self, BadAddress> {
        let objects = client.objects.borrow();
        let found = objects.get(interface.name).filter(|_| !address.is_empty());
        let dispatcher = Rc::clone(found.ok_or(BadAddress)?);
        Ok(Self { dispatcher, bytes_only: client.bytes_only.get() })
    }

    pub fn loan(&self, bytes: usize) -> Result<Loan, Status> {
        Ok(Loan(vec![0; bytes]))
    }

    pub fn call<S: 'static, Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        _: &CallOptions,
        serve: impl FnOnce(&S, &Context<'_>) -> Result<R, Status>,
    ) -> Result<R, Status> {
        match self.dispatcher.local().downcast_ref::<S>().filter(|_| !self.bytes_only) {
            Some(service) => serve(service, &Context(PhantomData)),
            None => self.call_bytes(method, request),
        }
    }

    pub fn call_later<S: 'static, Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        _: &CallOptions,
        serve: impl FnOnce(&S, &Context<'_>, Responder<R>),
    ) -> Result<R, Status> {
        match self.dispatcher.local().downcast_ref::<S>().filter(|_| !self.bytes_only) {
            Some(service) => {
                let answer = Answer::default();
                let responder = Responder(Rc::clone(&answer), PhantomData);
                serve(service, &Context(PhantomData), responder);
                take_answer(&answer)
            }
            None => self.call_bytes(method, request),
        }
    }

    fn call_bytes<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
    ) -> Result<R, Status> {
        let bytes = request.encode_to_vec();
        let answer = Answer::default();
        let incoming = Incoming { method: method.id, bytes: &bytes, answer: Rc::clone(&answer) };
        self.dispatcher.dispatch(incoming);
        take_answer(&answer)
    }

    pub fn start<Q: Message, R: Message + Default>(
        &self,
        method: &'static Method,
        request: &Q,
        _: &CallOptions,
    ) -> PendingCall<R> {
        PendingCall(self.call_bytes(method, request))
    }

    pub fn send<Q: Message>(
        &self,
        method: &'static Method,
        request: &Q,
        _: &CallOptions,
    ) -> Result<(), Status> {
        self.call_bytes(method, request)
    }
}

fn take_answer<R: Message + Default>(answer: &Answer) -> Result<R, Status> {
    let answer = answer.borrow_mut().take().unwrap_or(Err(Status("unanswered")));
    answer.map(|bytes| R::decode(&*bytes).unwrap())
}

pub struct Incoming<'a> {
    pub(crate) method: u32,
    bytes: &'a [u8],
    answer: Answer,
}

impl Incoming<'_> {
    pub fn method(&self) -> u32 {
        self.method
    }

    pub fn reply<Q: Message + Default, R: Message>(
        self,
        serve: impl FnOnce(&Context<'_>, &Q) -> Result<R, Status>,
    ) {
        let answer = serve(&Context(PhantomData), &Q::decode(self.bytes).unwrap());
        *self.answer.borrow_mut() = Some(answer.map(|answer| answer.encode_to_vec()));
    }

    pub fn oneway<Q: Message + Default>(self, serve: impl FnOnce(&Context<'_>, &Q)) {
        serve(&Context(PhantomData), &Q::decode(self.bytes).unwrap());
        *self.answer.borrow_mut() = Some(Ok(Vec::new()));
    }

    pub fn reply_later<Q: Message + Default, R: Message>(
        self,
        serve: impl FnOnce(&Context<'_>, &Q, Responder<R>),
    ) {
        let responder = Responder(self.answer, PhantomData);
        serve(&Context(PhantomData), &Q::decode(self.bytes).unwrap(), responder);
    }

    pub fn unimplemented(self) {
        *self.answer.borrow_mut() = Some(Err(Status("unknown method")));
    }
}
