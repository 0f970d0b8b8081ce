//! From a call that came in to the service and back: finding the object, unmarshalling, answering.
//!
//! Always true: a panic of a service ends its call with `UNKNOWN` and nothing else; no part of the
//! connection is borrowed while a service runs; services run inside each other only so deep.
//! Not here: receiving (`link/receiving.rs`), answering later (`responder.rs`).

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::{Rc, Weak};

use nearcall_wire::{IncomingCall, Time};

use crate::codec::{self, Body, Message};
use crate::context::{Context, Origin};
use crate::core::Core;
use crate::interface::Interface;
use crate::limits::NESTING_MAX;
use crate::link::Link;
use crate::local_reply::LocalReply;
use crate::metadata::Metadata;
use crate::options;
use crate::responder::Responder;
use crate::status::Status;

/// Brings calls to an implementation. Generated code has one for each interface.
pub trait Dispatcher: 'static {
    /// What it implements.
    fn interface(&self) -> &'static Interface;

    /// The implementation as generated callers of the same build know it, for the short circuit.
    fn local(&self) -> &dyn Any;

    /// Unmarshals a call, runs the method, answers.
    fn dispatch(&self, incoming: Incoming<'_>);
}

/// A call or one-way message on its way into a service. Generated code consumes it.
pub struct Incoming<'a> {
    pub(crate) method: u32,
    pub(crate) body: Body<'a>,
    pub(crate) context: Context<'a>,
    pub(crate) to: ReplyTo<'a>,
}

/// Where the answer of a call goes.
#[derive(Clone, Copy)]
pub(crate) enum ReplyTo<'a> {
    /// Over a connection; a one-way message has no call.
    Link(&'a Rc<Link>, Option<IncomingCall>),
    /// To a caller in this thread, as bytes; a one-way message has nobody.
    Local(Option<&'a LocalReply>),
}

/// What follows the name of an interface, so that clients can add where it was.
pub(crate) const NO_SUCH_METHOD: &str = " has no method";

impl Incoming<'_> {
    /// Which method.
    #[inline]
    pub fn method(&self) -> u32 {
        self.method
    }

    /// Runs a method that answers when it returns.
    #[inline]
    pub fn answer<Q: Message + Default, R: Message>(
        self,
        serve: impl FnOnce(&Context<'_>, &Q) -> Result<R, Status>,
    ) {
        let answer = codec::decode(self.body).map_err(bad_request);
        match answer.and_then(|request: Q| serve(&self.context, &request)) {
            Ok(_) if has_passed(self.context.deadline_time()) => self.to.fail(&too_late()),
            Ok(result) => self.to.reply(&result),
            Err(status) => self.to.fail(&status),
        }
    }

    /// Runs a method that may answer later.
    pub fn answer_later<Q: Message + Default, R: Message + 'static>(
        self,
        serve: impl FnOnce(&Context<'_>, &Q, Responder<R>),
    ) {
        match codec::decode(self.body).map_err(bad_request) {
            Ok(request) => {
                let responder = Responder::new(self.to, self.context.deadline_time());
                serve(&self.context, &request, responder);
            }
            Err(status) => self.to.fail(&status),
        }
    }

    /// Runs a method that is never answered. What cannot be unmarshalled is dropped.
    pub fn take<Q: Message + Default>(self, serve: impl FnOnce(&Context<'_>, &Q)) {
        match codec::decode(self.body) {
            Ok(request) => {
                serve(&self.context, &request);
                // Somebody may have called it as if it had an answer.
                self.to.reply(&());
            }
            Err(status) => self.to.fail(&bad_request(status)),
        }
    }

    /// Refuses a method that the interface does not have.
    pub fn refuse_unknown(self) {
        let interface = self.context.interface_name();
        let text = format!("{interface}{NO_SUCH_METHOD} with the number {:#x}", self.method);
        self.to.fail(&Status::unimplemented(text));
    }
}

#[cold]
fn bad_request(status: Status) -> Status {
    Status::internal(format!("bad request: {}", status.message()))
}

impl ReplyTo<'_> {
    #[inline]
    pub(crate) fn reply(self, result: &impl Message) {
        match self {
            Self::Link(link, Some(call)) => link.reply(call, result),
            Self::Local(Some(slot)) => slot.end(Ok(result.encode_to_vec())),
            Self::Link(_, None) | Self::Local(None) => {}
        }
    }

    pub(crate) fn fail(self, status: &Status) {
        match self {
            Self::Link(link, Some(call)) => link.fail(call, status),
            Self::Local(Some(slot)) => slot.end(Err(status.clone())),
            Self::Link(_, None) | Self::Local(None) => {}
        }
    }
}

/// A call or one-way message, without its bytes.
pub(crate) struct Arrived {
    pub(crate) call: Option<IncomingCall>,
    pub(crate) object: u64,
    pub(crate) method: u32,
    pub(crate) deadline: Time,
}

/// Serves what came in over a connection.
#[inline]
pub(crate) fn serve(link: &Rc<Link>, arrived: &Arrived, metadata: &[u8], body: Body<'_>) {
    let &Arrived { call, object, method, deadline } = arrived;
    let to = ReplyTo::Link(link, call);
    let server = link.server.as_ref().and_then(Weak::upgrade);
    let Some(dispatcher) = server.as_ref().and_then(|server| server.object(object)) else {
        return to.fail(&match server {
            Some(server) => server.no_such_object(),
            None => Status::unimplemented("the peer is a client and serves no objects"),
        });
    };
    run(&link.core, &*dispatcher, to, deadline, || {
        let (origin, interface) = (Origin::Link(link, call), dispatcher.interface());
        let context = Context::new(deadline, Metadata::new(metadata), interface, method, origin);
        Incoming { method, body, context, to }
    });
    if let Some(call) = call
        && deadline != Time::NEVER
        && link.is_wanted(call)
    {
        link.core.note_deadline(deadline);
    }
}

/// Runs a service: bounded in depth, its panics contained, its deadline handed on.
///
/// What comes in is made where it is used: it is large, and moving what was just stored in parts
/// costs more than making it.
#[inline]
pub(crate) fn run<'a>(
    core: &Rc<Core>,
    dispatcher: &dyn Dispatcher,
    to: ReplyTo<'_>,
    deadline: Time,
    incoming: impl FnOnce() -> Incoming<'a>,
) {
    let Some(_inside) = Inside::enter(core, deadline) else {
        return to.fail(&too_deep());
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| dispatcher.dispatch(incoming())));
    if outcome.is_err() {
        // If it had answered already, this goes nowhere.
        to.fail(&panicked());
    }
}

#[cold]
pub(crate) fn too_deep() -> Status {
    Status::resource_exhausted(format!(
        "{NESTING_MAX} calls are being served inside each other; try again later"
    ))
}

/// What comes after the deadline is no answer, whoever notices first.
#[cold]
pub(crate) fn too_late() -> Status {
    Status::deadline_exceeded("the service did not answer in time; the method has run")
}

/// The panic's own text stays here: it may say more than a peer should know.
#[cold]
pub(crate) fn panicked() -> Status {
    Status::unknown("the service panicked; its server goes on")
}

thread_local! {
    /// The deadline of the service that runs; calls that it makes end then at the latest.
    static INHERITED: Cell<Time> = const { Cell::new(Time::NEVER) };
}

/// The deadline that a call made here and now inherits.
#[inline]
pub(crate) fn inherited_deadline() -> Time {
    INHERITED.get()
}

/// While it lives a service runs.
pub(crate) struct Inside<'a> {
    core: &'a Core,
    outer: Time,
}

impl<'a> Inside<'a> {
    /// Enters a service. None: too deep.
    #[inline]
    pub(crate) fn enter(core: &'a Core, deadline: Time) -> Option<Self> {
        let depth = core.nesting.get();
        if depth >= NESTING_MAX {
            return None;
        }
        core.nesting.set(depth + 1);
        let outer = INHERITED.get();
        // What came in by a call of its own has a deadline of its own.
        INHERITED.set(deadline);
        Some(Self { core, outer })
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.core.nesting.set(self.core.nesting.get() - 1);
        INHERITED.set(self.outer);
    }
}

/// Whether a deadline has passed. Looks at the clock only if there is one.
#[inline]
pub(crate) fn has_passed(deadline: Time) -> bool {
    deadline != Time::NEVER && options::now() >= deadline
}
