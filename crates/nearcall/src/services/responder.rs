//! Replying to a call after the method has returned.
//!
//! **Invariants:** a call is answered once; one that is dropped unanswered fails with `INTERNAL`,
//! or with `UNKNOWN` if a panic dropped it.
//! **Not here:** replying at once (`dispatcher.rs`), how the answer travels (`detached_sink.rs`).

use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use crate::codec::Message;
use crate::deadline::Deadline;
use crate::metadata::BadMetadata;
use crate::reservation::{Reservation, refuse};
use crate::services::detached_sink::DetachedSink;
use crate::status::Status;

/// Answers one call, now or later, from any thread: it is `Send`.
///
/// [`Context::answer_later`](crate::Context::answer_later) makes one. In the thread of its loop it
/// answers at once; in another one the answer is marshalled there, and sent by the loop.
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
/// use nearcall::{Context, Status};
/// use nearcall::service::Responder;
///
/// #[derive(Default)]
/// struct Room {
///     watchers: RefCell<Vec<Responder<WatchReply>>>,
/// }
///
/// impl Thermostat for Room {
///     fn watch(&self, context: &Context<'_>, _: &WatchRequest) -> Result<WatchReply, Status> {
///         context.answer_later(|responder| self.watchers.borrow_mut().push(responder))
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
    /// None: it has answered.
    sink: Option<DetachedSink>,
    deadline: Deadline,
    /// Of what the call holds until it is answered.
    reservation: Reservation,
    result: PhantomData<fn(R)>,
}

impl<R: Message> Responder<R> {
    pub(crate) fn new(sink: DetachedSink, deadline: Deadline, reservation: Reservation) -> Self {
        Self { sink: Some(sink), deadline, reservation, result: PhantomData }
    }

    /// Charges so many more bytes that the answer takes until it is sent.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED`: more than the share of the caller's user. The refusal is counted.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<(), Status> {
        let before = usize::try_from(self.reservation.bytes()).unwrap_or(usize::MAX);
        let sink = self.sink.as_ref();
        self.reservation.grow_to(before.saturating_add(bytes)).map_err(|exceeded| {
            refuse(&exceeded, |kind, why| {
                sink.into_iter().for_each(|it| it.note_refusal(kind, why))
            })
        })
    }

    /// Answers the call. If the caller does not wait any more, nothing happens. Does not wait.
    pub fn finish(mut self, answer: Result<R, Status>) {
        let is_late = self.deadline.has_passed();
        self.end(if is_late { Err(Status::answered_late()) } else { answer });
    }

    /// As [`finish`](Self::finish), by the task of the call, which is not woken for that.
    pub(crate) fn finish_in_task(self, answer: Result<R, Status>) {
        if let Some(sink) = &self.sink {
            sink.cancellation().forget_task();
        }
        self.finish(answer);
    }

    /// Sends an entry with the answer: a key of lower-case letters, digits and `-_.`, and printable
    /// ASCII, as [`Context::add_reply_metadata`](crate::Context::add_reply_metadata) does.
    ///
    /// # Errors
    ///
    /// What is wrong with the key or the value.
    pub fn add_reply_metadata(&mut self, key: &str, value: &str) -> Result<(), BadMetadata> {
        self.sink.as_ref().map_or(Ok(()), |sink| sink.add_entry(key, value.as_bytes()))
    }

    /// Sends an entry with bytes for its value with the answer; the key ends in `-bin`.
    ///
    /// # Errors
    ///
    /// What is wrong with the key or the value.
    pub fn add_reply_metadata_bin(&mut self, key: &str, value: &[u8]) -> Result<(), BadMetadata> {
        self.sink.as_ref().map_or(Ok(()), |sink| sink.add_entry(key, value))
    }

    /// Sends an entry before the reply and the items of the call: a key of lower-case letters,
    /// digits and `-_.`, and printable ASCII, as
    /// [`Context::add_header`](crate::Context::add_header) does. Headers go with
    /// [`send_headers`](Self::send_headers), before the first item or right before the answer,
    /// whichever is first.
    ///
    /// # Errors
    ///
    /// What is wrong with the key or the value, or the headers were sent before.
    pub fn add_header(&mut self, key: &str, value: &str) -> Result<(), BadMetadata> {
        self.sink.as_ref().map_or(Ok(()), |sink| sink.add_header(key, value.as_bytes()))
    }

    /// Sends an entry like [`add_header`](Self::add_header) with bytes for its value; the key ends
    /// in `-bin`.
    ///
    /// # Errors
    ///
    /// As [`add_header`](Self::add_header).
    pub fn add_header_bin(&mut self, key: &str, value: &[u8]) -> Result<(), BadMetadata> {
        self.sink.as_ref().map_or(Ok(()), |sink| sink.add_header(key, value))
    }

    /// Sends the headers now, even if there are none, so that the caller need not wait for the
    /// first item. Later ones are refused. A call that does not stream keeps them until its answer,
    /// before which its caller could not read them.
    pub fn send_headers(&mut self) {
        if let Some(sink) = &self.sink {
            sink.send_headers();
        }
    }

    /// Returns whether the caller does not wait any more: after a cancellation, the deadline, or
    /// the end of the caller.
    pub fn is_cancelled(&self) -> bool {
        self.sink.as_ref().is_none_or(DetachedSink::is_cancelled) || self.deadline.has_passed()
    }

    /// Returns when the call ends by itself; `None` if it has no deadline. Reads the clock.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline.to_instant()
    }

    /// Returns how much time is left; `None` if the call has no deadline. Reads the clock.
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline.remaining()
    }

    fn end(&mut self, answer: Result<R, Status>) {
        if let Some(sink) = self.sink.take() {
            sink.finish(answer.as_ref());
        }
    }
}

impl<R: Message> Drop for Responder<R> {
    fn drop(&mut self) {
        if self.sink.is_some() {
            self.end(Err(match std::thread::panicking() {
                true => Status::panicked(),
                false => Status::internal(
                    "the service dropped the call without an answer: its responder, or its future, \
                     perhaps with the runtime that ran it",
                ),
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
