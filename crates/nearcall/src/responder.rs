//! Replying to a call after the method has returned.
//!
//! **Invariants:** a call is answered once; one that is dropped unanswered fails with `INTERNAL`,
//! or with `UNKNOWN` if a panic dropped it.
//! **Not here:** replying at once (`dispatcher.rs`).

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;
use std::time::Instant;

use crate::codec::Message;
use crate::deadline::Deadline;
use crate::reply_sink::DetachedSink;
use crate::status::Status;

/// Answers one call, now or later, from the thread of its loop.
///
/// A method gets one if the build script asked for it (`answer_later`).
///
/// # Examples
///
/// A service that answers all watchers when something changes:
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
/// # let watching = room.start_watch(&WatchRequest {});
/// # room.set_target(&SetTargetRequest { celsius: 20.0 })?;
/// # assert_eq!(watching.wait()?.celsius, 20.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a responder that is dropped fails its call"]
pub struct Responder<R: Message> {
    to: Option<To<R>>,
    deadline: Deadline,
}

/// The answer to a caller of the same build in this thread, once it is there.
pub(crate) type TypedReply<R> = Rc<Cell<Option<Result<R, Status>>>>;

enum To<R> {
    Sink(DetachedSink),
    Typed(TypedReply<R>),
}

impl<R: Message> Responder<R> {
    pub(crate) fn new(sink: DetachedSink, deadline: Deadline) -> Self {
        Self { to: Some(To::Sink(sink)), deadline }
    }

    pub(crate) fn typed(reply: TypedReply<R>, deadline: Deadline) -> Self {
        Self { to: Some(To::Typed(reply)), deadline }
    }

    /// Answers the call. If the caller does not wait any more, nothing happens. Does not wait.
    pub fn finish(mut self, answer: Result<R, Status>) {
        let is_late = self.deadline.has_passed();
        self.end(if is_late { Err(Status::answered_late()) } else { answer });
    }

    /// Returns whether the caller does not wait any more: after a cancellation, the deadline, or
    /// the end of the caller.
    pub fn is_cancelled(&self) -> bool {
        let is_unwanted = match &self.to {
            Some(To::Sink(sink)) => sink.is_cancelled(),
            // The caller holds the other reference while it waits.
            Some(To::Typed(reply)) => Rc::strong_count(reply) == 1,
            None => true,
        };
        is_unwanted || self.deadline.has_passed()
    }

    /// Returns when the call ends by itself; `None` if it has no deadline. Reads the clock.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline.to_instant()
    }

    fn end(&mut self, answer: Result<R, Status>) {
        match self.to.take() {
            Some(To::Sink(sink)) => sink.finish(answer.as_ref()),
            Some(To::Typed(reply)) => reply.set(Some(answer)),
            None => {}
        }
    }
}

impl<R: Message> Drop for Responder<R> {
    fn drop(&mut self) {
        if self.to.is_some() {
            self.end(Err(match std::thread::panicking() {
                true => Status::panicked(),
                false => Status::internal("the service dropped the call without an answer"),
            }));
        }
    }
}

impl<R: Message> fmt::Debug for Responder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder")
            .field("is_cancelled", &self.is_cancelled())
            .finish_non_exhaustive()
    }
}
