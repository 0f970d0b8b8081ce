//! The seam between the runtime and generated code: a call on its way into a service.
//!
//! **Invariants:** the request is unmarshalled before the method runs; a result that comes after
//! the deadline is an error.
//! **Not here:** finding the object and running it (`dispatch.rs`), replying later
//! (`responder.rs`), methods that return futures (`async_service.rs`), methods that run in another
//! thread (`blocking.rs`).

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use crate::codec::{self, Body, Encoded, Message};
use crate::connection::call_counts::ObjectCounters;
use crate::interface::Interface;
use crate::services::context::Context;
use crate::status::{Lack, Status};

/// Brings calls to an implementation. That of an interface is a [`SyncDispatcher`] or an
/// [`AsyncDispatcher`](crate::service::AsyncDispatcher), for which generated code has a name.
pub trait Dispatcher: 'static {
    /// Returns the interface that it implements.
    fn interface(&self) -> &'static Interface;

    /// Returns the implementation as generated callers of the same build know it, for the short
    /// circuit; asked for once, when it is registered. `None`: calls of the same thread go through
    /// [`dispatch`](Self::dispatch), too.
    fn local(&self) -> Option<Box<dyn Any>> {
        None
    }

    /// Unmarshals a call, runs the method, replies.
    fn dispatch(&self, incoming: Incoming<'_>);
}

/// Brings the calls of one interface to an implementation `T`. Generated code implements it.
///
/// See [`SyncDispatcher`].
pub trait SyncSkeleton<T: 'static>: 'static {
    /// The trait object by which generated callers of the same build call the service.
    type Object: ?Sized + 'static;

    /// The interface.
    const INTERFACE: &'static Interface;

    /// Makes a service the trait object.
    fn local(service: SharedService<T>) -> SharedService<Self::Object>;

    /// Unmarshals a call, runs the method, replies.
    fn dispatch(service: &T, incoming: Incoming<'_>);
}

/// Serves calls with a service, and is registered with a server. Generated code has a name for that
/// of an interface, such as `ThermostatDispatcher<T>`.
///
/// `P` is by what the service is shared: an `Arc`, or an `Rc` for one that stays in its thread. It
/// is `Clone`, and `Send` and `Sync` if `P` is.
///
/// Registered by [`Server::register`](crate::Server::register).
pub struct SyncDispatcher<S, T, P = Arc<T>> {
    service: P,
    skeleton: PhantomData<fn() -> (S, T)>,
}

impl<S: SyncSkeleton<T>, T: 'static> SyncDispatcher<S, T> {
    /// Creates a dispatcher that owns `service`.
    pub fn new(service: T) -> Self {
        Self::shared(Arc::new(service))
    }
}

impl<S, T, P> SyncDispatcher<S, T, P>
where
    S: SyncSkeleton<T>,
    T: 'static,
    P: Deref<Target = T> + Into<SharedService<T>> + Clone,
{
    /// Creates a dispatcher that shares `service`, so that the program can use it too: an `Arc`, or
    /// an `Rc` for a service that is not `Send`.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod home {
    /// #     include!(concat!(
    /// #         env!("CARGO_MANIFEST_DIR"),
    /// #         "/../nearcall-build/tests/golden/thermostat.rs"
    /// #     ));
    /// # }
    /// # use home::*;
    /// use std::cell::Cell;
    /// use std::rc::Rc;
    ///
    /// use nearcall::{Client, Context, EventLoop, Server, Status};
    ///
    /// #[derive(Default)]
    /// struct Room(Cell<f64>);
    ///
    /// impl Thermostat for Room {
    ///     fn set_target(
    ///         &self,
    ///         _: &Context<'_>,
    ///         request: &SetTargetRequest,
    ///     ) -> Result<SetTargetReply, Status> {
    ///         Ok(SetTargetReply { celsius_before: self.0.replace(request.celsius) })
    ///     }
    /// #   fn note(&self, _: &Context<'_>, _: &NoteRequest) {}
    /// #   fn watch(&self, _: &Context<'_>, _: &WatchRequest) -> Result<WatchReply, Status> {
    /// #       Ok(WatchReply::default())
    /// #   }
    /// #   fn reset(&self, _: &Context<'_>, _: &()) -> Result<(), Status> { Ok(()) }
    /// }
    ///
    /// let event_loop = EventLoop::new()?;
    /// let server = Server::new(&event_loop);
    /// let room = Rc::new(Room::default());
    /// server.register(ThermostatDispatcher::shared(Rc::clone(&room)))?;
    /// server.listen("inproc:shared-room")?;
    /// let caller = ThermostatCaller::new(&Client::in_loop(&event_loop), "inproc:shared-room")?;
    /// caller.set_target(&SetTargetRequest { celsius: 21.0 })?;
    /// assert_eq!(room.0.get(), 21.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shared(service: P) -> Self {
        Self { service, skeleton: PhantomData }
    }

    /// Returns the service.
    pub fn service(&self) -> &P {
        &self.service
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
        Some(Box::new(S::local(self.service.clone().into())))
    }

    fn dispatch(&self, incoming: Incoming<'_>) {
        S::dispatch(&self.service, incoming);
    }
}

impl<S, T, P: Clone> Clone for SyncDispatcher<S, T, P> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), skeleton: PhantomData }
    }
}

impl<S, T, P> fmt::Debug for SyncDispatcher<S, T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncDispatcher").finish_non_exhaustive()
    }
}

/// A service that a program shares with its dispatcher.
///
/// The contents of both are laid out alike, so that the way to the service has no branch.
///
/// Returned by [`SyncDispatcher::service`].
#[derive(Debug)]
pub enum SharedService<T: ?Sized> {
    /// By threads, if the service can be.
    Arc(Arc<T>),
    /// Within a thread.
    Rc(Rc<T>),
}

impl<T: ?Sized> Deref for SharedService<T> {
    type Target = T;

    #[inline(always)]
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

/// A dispatcher that serves an object, with what the short circuit calls. In a box of its own, so
/// that the short circuit finds its part at a place that the compiler knows.
pub(crate) struct Registered {
    local: Option<Box<dyn Any>>,
    dispatcher: Box<dyn Dispatcher>,
    counters: Rc<ObjectCounters>,
}

impl Registered {
    pub(crate) fn new(dispatcher: impl Dispatcher) -> Self {
        let counters = ObjectCounters::new(dispatcher.interface());
        Self::counted_by(counters, dispatcher)
    }

    /// As [`new`](Self::new), for one that stands in front of another.
    pub(crate) fn counted_by(counters: Rc<ObjectCounters>, dispatcher: impl Dispatcher) -> Self {
        Self { local: dispatcher.local(), dispatcher: Box::new(dispatcher), counters }
    }

    /// Returns the counters of the methods.
    #[inline]
    pub(crate) fn counters(&self) -> &Rc<ObjectCounters> {
        &self.counters
    }

    /// Returns the implementation, if a caller of the same build asks and there is one to be
    /// called directly.
    #[inline]
    pub(crate) fn local<S: 'static>(&self) -> Option<&S> {
        self.local.as_ref()?.downcast_ref()
    }
}

impl Deref for Registered {
    type Target = dyn Dispatcher;

    #[inline]
    fn deref(&self) -> &(dyn Dispatcher + 'static) {
        &*self.dispatcher
    }
}

/// A call or one-way message on its way into a service. Generated code consumes it.
///
/// See [`Dispatcher::dispatch`].
pub struct Incoming<'a> {
    pub(crate) method: u32,
    pub(crate) body: Body<'a>,
    pub(crate) context: Context<'a>,
}

impl Incoming<'_> {
    /// Returns the number of the method.
    #[inline]
    pub fn method(&self) -> u32 {
        self.method
    }

    /// Runs a method that replies when it returns, unless it has asked for a responder.
    #[inline]
    pub fn reply<Q: Message + Default, R: Message>(
        self,
        serve: impl FnOnce(&Context<'_>, &Q) -> Result<R, Status>,
    ) {
        let context = self.context;
        let answer = codec::decode(self.body).map_err(|error| context.bad_request(&error));
        let answer = answer.and_then(|request: Q| serve(&context, &request));
        end(context, answer);
    }

    /// Runs a method that reads the bytes of its request where they lie, and replies when it
    /// returns, unless it has asked for a responder: nothing is copied or allocated on the way. For
    /// services in other languages.
    #[inline]
    pub fn reply_encoded<R: Message>(
        self,
        serve: impl FnOnce(&Context<'_>, &[u8]) -> Result<R, Status>,
    ) {
        let context = self.context;
        let answer = match self.body.whole_bytes() {
            Some(request) => serve(&context, request),
            None => codec::decode(self.body)
                .map_err(|error| context.bad_request(&error))
                .and_then(|request: Encoded| serve(&context, request.bytes())),
        };
        end(context, answer);
    }

    /// Runs a one-way method. What cannot be unmarshalled is dropped.
    pub fn oneway<Q: Message + Default>(self, serve: impl FnOnce(&Context<'_>, &Q)) {
        let context = self.context;
        match codec::decode(self.body) {
            Ok(request) => {
                serve(&context, &request);
                // It may have been called as if it had a reply.
                context.reply(&());
            }
            Err(status) => context.fail(&context.bad_request(&status)),
        }
    }

    /// Refuses a method that the interface does not have.
    pub fn unimplemented(self) {
        let interface = self.context.interface().name;
        let text = format!("{interface} has no method with the number {:#x}", self.method);
        let status = Status::unimplemented(text).with_lack(Lack::NoSuchMethod);
        self.context.fail(&status);
    }
}

/// Ends a call whose method has returned.
#[inline]
fn end(context: Context<'_>, answer: Result<impl Message, Status>) {
    match answer {
        Ok(_) if context.deadline_moment().has_passed() => {
            context.fail(&Status::answered_late());
        }
        Ok(result) => context.reply(&result),
        Err(_) if context.is_detached() => {}
        Err(status) => context.fail(&status),
    }
}
