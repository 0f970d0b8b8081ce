//! The seam between the runtime and generated dispatchers: a call on its way into a service.
//!
//! **Invariants:** the request is unmarshalled before the method runs; a result that comes after
//! the deadline is an error.
//! **Not here:** finding the object and running it (`dispatch.rs`), replying later
//! (`responder.rs`), methods that return futures (`async_service.rs`), methods that run in another
//! thread (`blocking.rs`).

use std::any::Any;
use std::ops::Deref;

use crate::codec::{self, Body, Message};
use crate::interface::Interface;
use crate::service::context::Context;
use crate::status::{Detail, Status};

/// Brings calls to an implementation. Generated code has one for each interface.
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

/// A dispatcher that serves an object, with what the short circuit calls. In a box of its own, so
/// that the short circuit finds its part at a place that the compiler knows.
pub(crate) struct Registered {
    local: Option<Box<dyn Any>>,
    dispatcher: Box<dyn Dispatcher>,
}

impl Registered {
    pub(crate) fn new(dispatcher: impl Dispatcher) -> Self {
        Self { local: dispatcher.local(), dispatcher: Box::new(dispatcher) }
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
        match answer.and_then(|request: Q| serve(&context, &request)) {
            Ok(_) if context.deadline_moment().has_passed() => {
                context.fail(&Status::answered_late());
            }
            Ok(result) => context.reply(&result),
            Err(_) if context.is_detached() => {}
            Err(status) => context.fail(&status),
        }
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
        let status = Status::unimplemented(text).with_detail(Detail::NoSuchMethod);
        self.context.fail(&status);
    }
}
