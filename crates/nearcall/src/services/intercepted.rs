//! Interceptors of a server: an object whose calls they see.
//!
//! It is a dispatcher around that of the object, so that a server without interceptors has nothing
//! to ask.
//! **Invariants:** calls from the same thread go through the interceptors as well, as bytes; a call
//! that an interceptor refuses runs no method.
//! **Not here:** the interceptors and their order (`interceptor.rs`), when they see the end
//! (`tasks/reply_extras.rs`).

use std::cell::RefCell;
use std::rc::Rc;

use crate::interceptor::{CallHead, Chain, OtherEnd};
use crate::interface::Interface;
use crate::metadata::Entries;
use crate::services::dispatcher::{Dispatcher, Incoming, Registered};
use crate::tasks::reply_extras::ReplyExtras;

/// The interceptors of one server, shared by its objects.
pub(crate) type SharedChain = Rc<RefCell<Chain>>;

/// An object whose calls interceptors see.
pub(crate) struct Intercepted {
    object: Rc<Registered>,
    chain: SharedChain,
}

impl Intercepted {
    pub(crate) fn register(object: Rc<Registered>, chain: &SharedChain) -> Rc<Registered> {
        let counters = Rc::clone(object.counters());
        Rc::new(Registered::counted_by(counters, Self { object, chain: Rc::clone(chain) }))
    }
}

impl Dispatcher for Intercepted {
    fn interface(&self) -> &'static Interface {
        self.object.interface()
    }

    fn dispatch(&self, incoming: Incoming<'_>) {
        let (context, interface) = (&incoming.context, self.interface());
        // One that does not exist is refused by the object.
        let Some(method) = interface.method(incoming.method) else {
            return self.object.dispatch(incoming);
        };
        let (deadline, request_bytes) = (context.deadline_moment(), incoming.body.len());
        let head = CallHead { interface, method, deadline, request_bytes };
        let mut metadata = Entries::default();
        let peer = OtherEnd::Client(context.peer());
        let chain = self.chain.borrow().clone();
        match chain.start(head, &peer, context.metadata().as_bytes(), &mut metadata) {
            Ok(observed) => {
                context.set_extras(Box::new(ReplyExtras {
                    metadata,
                    observed: Some(observed),
                    ..ReplyExtras::default()
                }));
                self.object.dispatch(incoming);
            }
            Err(status) => context.fail(&status.with_entries(metadata)),
        }
    }
}
