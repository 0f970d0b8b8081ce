//! Answering a call after the method has returned.
//!
//! Always true: a call is answered once; one that is dropped unanswered fails with `INTERNAL`, or
//! with `UNKNOWN` if a panic dropped it.
//! Not here: answering at once (`dispatch.rs`).

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::rc::{Rc, Weak};
use std::time::Instant;

use nearcall_wire::{IncomingCall, Time};

use crate::codec::Message;
use crate::dispatch::{ReplyTo, has_passed, panicked, too_late};
use crate::link::Link;
use crate::local_reply::LocalReply;
use crate::options;
use crate::status::Status;

/// Answers one call, now or later, from the thread of its loop.
///
/// A method gets one if the build script asked for it (`answer_later`).
///
/// # Examples
///
/// A service that answers all who watch when something changes:
///
/// ```
/// # mod home {
/// #     include!(concat!(
/// #         env!("CARGO_MANIFEST_DIR"),
/// #         "/../nearcall-build/tests/golden/thermostat.rs"
/// #     ));
/// # }
/// # use home::*;
/// use std::cell::RefCell;
///
/// use nearcall::{Context, Responder, Status};
///
/// #[derive(Default)]
/// struct Room {
///     watchers: RefCell<Vec<Responder<WatchReply>>>,
/// }
///
/// impl Thermostat for Room {
///     fn watch(&self, _: &Context<'_>, _: &WatchRequest, responder: Responder<WatchReply>) {
///         self.watchers.borrow_mut().push(responder);
///     }
///
///     fn set_target(
///         &self,
///         _: &Context<'_>,
///         request: &SetTargetRequest,
///     ) -> Result<SetTargetReply, Status> {
///         for responder in self.watchers.take() {
///             responder.finish(Ok(WatchReply { celsius: request.celsius }));
///         }
///         Ok(SetTargetReply::default())
///     }
/// #   fn note(&self, _: &Context<'_>, _: &NoteRequest) {}
/// #   fn reset(&self, _: &Context<'_>, _: &()) -> Result<(), Status> { Ok(()) }
/// }
/// # let event_loop = nearcall::EventLoop::new()?;
/// # let server = nearcall::Server::new(&event_loop);
/// # server.register(ThermostatDispatcher::new(Room::default()))?;
/// # server.listen("inproc:room")?;
/// # let client = nearcall::Client::in_loop(&event_loop);
/// # let room = ThermostatCaller::new(&client, "inproc:room")?;
/// # let watching = room.start_watch(&WatchRequest {}, &nearcall::CallOptions::new());
/// # room.set_target(&SetTargetRequest { celsius: 20.0 })?;
/// # assert_eq!(watching.wait()?.celsius, 20.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a responder that is dropped fails its call"]
pub struct Responder<R: Message> {
    to: To<R>,
    deadline: Time,
}

/// The answer to a caller of the same build in this thread, once it is there.
pub(crate) type TypedReply<R> = Rc<Cell<Option<Result<R, Status>>>>;

enum To<R> {
    /// Not the connection itself, which must go when it has ended.
    Link(Weak<Link>, IncomingCall),
    Bytes(LocalReply),
    Typed(TypedReply<R>),
    Nobody(PhantomData<R>),
}

impl<R: Message> Responder<R> {
    pub(crate) fn new(to: ReplyTo<'_>, deadline: Time) -> Self {
        let to = match to {
            ReplyTo::Link(link, Some(call)) => To::Link(Rc::downgrade(link), call),
            ReplyTo::Local(Some(slot)) => To::Bytes(Rc::clone(slot)),
            ReplyTo::Link(_, None) | ReplyTo::Local(None) => To::Nobody(PhantomData),
        };
        Self { to, deadline }
    }

    pub(crate) fn typed(reply: TypedReply<R>, deadline: Time) -> Self {
        Self { to: To::Typed(reply), deadline }
    }

    /// Answers the call. If nobody waits any more, nothing happens. Does not wait.
    pub fn finish(mut self, answer: Result<R, Status>) {
        let answer = if has_passed(self.deadline) { Err(too_late()) } else { answer };
        match (std::mem::replace(&mut self.to, To::Nobody(PhantomData)), answer) {
            (To::Link(link, call), answer) => match (link.upgrade(), answer) {
                (Some(link), Ok(result)) => link.reply(call, &result),
                (Some(link), Err(status)) => link.fail(call, &status),
                (None, _) => {}
            },
            (To::Bytes(slot), answer) => slot.end(answer.map(|result| result.encode_to_vec())),
            (To::Typed(slot), answer) => slot.set(Some(answer)),
            (To::Nobody(_), _) => {}
        }
    }

    /// Whether somebody still waits for the answer: not after a cancellation, the deadline, or the
    /// end of the caller.
    pub fn is_wanted(&self) -> bool {
        match &self.to {
            To::Link(link, call) => {
                let wanted = link.upgrade().is_some_and(|link| link.is_wanted(*call));
                wanted && !has_passed(self.deadline)
            }
            // The caller holds the other reference while it waits.
            To::Bytes(slot) => Rc::strong_count(slot) > 1 && !has_passed(self.deadline),
            To::Typed(slot) => Rc::strong_count(slot) > 1 && !has_passed(self.deadline),
            To::Nobody(_) => false,
        }
    }

    /// When the call ends by itself; `None` if it has no deadline.
    pub fn deadline(&self) -> Option<Instant> {
        options::instant_of(self.deadline)
    }
}

impl<R: Message> Drop for Responder<R> {
    fn drop(&mut self) {
        let status = || match std::thread::panicking() {
            true => panicked(),
            false => Status::internal("the service dropped the call without an answer"),
        };
        match &self.to {
            To::Link(link, call) => {
                if let Some(link) = link.upgrade() {
                    link.fail(*call, &status());
                }
            }
            To::Bytes(slot) => slot.end(Err(status())),
            To::Typed(slot) => slot.set(Some(Err(status()))),
            To::Nobody(_) => {}
        }
    }
}

impl<R: Message> fmt::Debug for Responder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder").field("is_wanted", &self.is_wanted()).finish_non_exhaustive()
    }
}
