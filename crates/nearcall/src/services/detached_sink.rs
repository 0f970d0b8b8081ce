//! Where the reply to a call goes whose method has returned, or runs in another thread than its
//! loop's.
//!
//! **Invariants:** it is `Send`: it names the connection by a key of its loop. In the loop's thread
//! the reply is marshalled into the channel at once; in another one it is marshalled there, and
//! posted to the loop. After the loop or the connection has ended nothing happens.
//! **Not here:** calls that are being served in the loop (`reply_sink.rs`).

use std::rc::Rc;
use std::sync::Arc;

use nearcall_channel::Loan;
use nearcall_os::library::CallToken;
use nearcall_wire::IncomingCall;

use crate::codec::{self, Encoded, Message};
use crate::connection::{Activity, Connection};
use crate::deadline::Deadline;
use crate::limits::ONEWAYS_DETACHED_MAX;
use crate::metadata::BadMetadata;
use crate::peer::{Peer, User};
use crate::refusals::RefusalKind;
use crate::reservation::{CallMemory, Reservation, refuse};
use crate::services::headers;
use crate::services::library_reply::LibraryReply;
use crate::services::local_reply::LocalAnswer;
use crate::services::service_stream::ServiceStream;
use crate::status::Status;
use crate::tasks::cancellation::Cancellation;
use crate::tasks::mailbox::{ConnectionKey, Mailbox, OnewayPermit, Post, PostedReply};
use crate::tasks::reply_extras::{ReplyExtras, Sent};
use crate::tasks::service_task::ServiceTask;

/// A call that has left its method, with what may be known of its caller.
pub(crate) struct DetachedCall {
    pub(crate) sink: DetachedSink,
    pub(crate) peer: Peer,
    pub(crate) is_trusted: bool,
}

/// Lends memory for the reply to such a call, in the thread of its loop.
#[derive(Clone)]
pub(crate) struct ReplyLender {
    mailbox: Arc<Mailbox>,
    connection: ConnectionKey,
}

impl ReplyLender {
    /// Returns memory for a part of the reply. Never waits.
    pub(crate) fn loan(&self, bytes: usize) -> Result<Loan, Status> {
        let activity = Activity::of_thread(&self.mailbox);
        match activity.and_then(|activity| activity.connection(self.connection)) {
            Some(connection) => {
                let loan = connection.loan(bytes);
                loan.map_err(|why| connection.no_loan(&why, Deadline::NEVER))
            }
            // From another thread the reply is copied anyway.
            None => Ok(Loan::plain(bytes)),
        }
    }
}

/// The sink of such a call.
#[derive(Clone)]
pub(crate) struct DetachedSink {
    to: To,
    /// The loop that serves the call.
    mailbox: Option<Arc<Mailbox>>,
    cancellation: Arc<Cancellation>,
    /// Of a call that streams.
    stream: Option<ServiceStream>,
    /// What the call is charged for; none of a connection that charges nothing.
    memory: Option<Arc<CallMemory>>,
}

#[derive(Clone)]
enum To {
    Connection(ConnectionKey, IncomingCall),
    /// A caller in the loop's thread.
    Local(Arc<LocalAnswer>),
    /// The host of this library.
    Host(Arc<LibraryReply>),
    /// A one-way message, with its place among those of the loop.
    Nowhere {
        connection: ConnectionKey,
        _permit: Option<Arc<OnewayPermit>>,
    },
}

impl DetachedSink {
    /// Returns the sink of a call that came over a connection; none of a one-way message.
    pub(crate) fn connection(connection: &Rc<Connection>, call: Option<IncomingCall>) -> Self {
        let Some(activity) = connection.activity() else {
            return Self::oneway(None, ConnectionKey::NONE, User::Own);
        };
        let key = activity.key(connection);
        let Some(call) = call else {
            let user = connection.peer.user();
            let memory = connection.memory.clone();
            let sink = Self { memory, ..Self::oneway(Some(&activity.mailbox), key, user) };
            if sink.is_cancelled() {
                let why = format!(
                    "as many one-way messages go on as this user may have of the \
                     {ONEWAYS_DETACHED_MAX} of a loop; another one was dropped"
                );
                connection.note_refusal(RefusalKind::ResourceLimit, &why);
            }
            return sink;
        };
        let cancellation = Arc::default();
        connection.watch_call(call, &cancellation);
        let stream = ServiceStream::of_call(connection, call);
        let (to, mailbox) = (To::Connection(key, call), Some(Arc::clone(&activity.mailbox)));
        Self { to, mailbox, cancellation, stream, memory: connection.memory.clone() }
    }

    /// Returns the sink of a call from the loop's own thread.
    pub(crate) fn local(reply: &Arc<LocalAnswer>, mailbox: &Arc<Mailbox>) -> Self {
        let cancellation = reply.cancellation();
        let (to, mailbox) = (To::Local(Arc::clone(reply)), Some(Arc::clone(mailbox)));
        Self { to, mailbox, cancellation, stream: None, memory: None }
    }

    /// Returns the sink of a call from the host of this library. `spawn` runs futures that answer.
    pub(crate) fn of_library(token: CallToken, spawn: fn(ServiceTask)) -> Self {
        let to = To::Host(Arc::new(LibraryReply::new(token, spawn)));
        Self { to, mailbox: None, cancellation: Arc::default(), stream: None, memory: None }
    }

    /// Returns the sink of a one-way message. If its user has too many of them it has ended.
    pub(crate) fn oneway(
        mailbox: Option<&Arc<Mailbox>>,
        connection: ConnectionKey,
        user: User,
    ) -> Self {
        let permit = mailbox.and_then(|mailbox| mailbox.permit_oneway(user)).map(Arc::new);
        let cancellation = Arc::<Cancellation>::default();
        if permit.is_none() {
            cancellation.end();
        }
        let to = To::Nowhere { connection, _permit: permit };
        Self { to, mailbox: mailbox.cloned(), cancellation, stream: None, memory: None }
    }

    /// Returns what lends for the reply, if the call came over a connection.
    pub(crate) fn lender(&self) -> Option<ReplyLender> {
        let (To::Connection(connection, _), Some(mailbox)) = (&self.to, &self.mailbox) else {
            return None;
        };
        Some(ReplyLender { mailbox: Arc::clone(mailbox), connection: *connection })
    }

    /// Adds what goes with the answer.
    pub(crate) fn add_extras(&self, extras: Box<ReplyExtras>) {
        self.cancellation.extras.add(extras);
    }

    /// Adds an entry to the metadata of the answer.
    pub(crate) fn add_entry(&self, key: &str, value: &[u8]) -> Result<(), BadMetadata> {
        self.cancellation.extras.change(|extras| extras.metadata.add(key, value))
    }

    /// Adds an entry to the headers of the call.
    pub(crate) fn add_header(&self, key: &str, value: &[u8]) -> Result<(), BadMetadata> {
        headers::add(self.stream.as_ref(), &self.cancellation, key, value)
    }

    /// Sends the headers of the call.
    pub(crate) fn send_headers(&self) {
        headers::send(self.stream.as_ref(), &self.cancellation);
    }

    /// Ends the call. If its caller does not wait any more, nothing happens.
    pub(crate) fn finish(&self, answer: Result<&impl Message, &Status>) {
        let extras = self.cancellation.extras.take();
        if !self.is_cancelled() {
            self.send(extras, answer);
        } else if let Some(extras) = extras {
            // Also of a call that has ended otherwise while its answer was made, such as with the
            // connection or by a panic of its method.
            extras.end_given_up();
        }
    }

    fn send(&self, extras: Option<Box<ReplyExtras>>, answer: Result<&impl Message, &Status>) {
        match &self.to {
            To::Connection(key, call) => self.send_remote(*key, *call, extras, answer),
            To::Local(reply) => {
                reply.answer(extras, answer);
                // The caller may sleep in the loop.
                if let Some(mailbox) = &self.mailbox {
                    mailbox.wake();
                }
            }
            To::Host(reply) => reply.answer(extras, answer),
            To::Nowhere { .. } => {
                if let Some(extras) = extras {
                    extras.end(Sent::AsGiven, answer);
                }
            }
        }
        self.cancellation.end();
    }

    /// Ends the call with an error.
    pub(crate) fn fail(&self, status: &Status) {
        self.finish(Err::<&(), _>(status));
    }

    /// Has the loop count and log that something was refused to the caller.
    #[cold]
    pub(crate) fn note_refusal(&self, kind: RefusalKind, why: &str) {
        let (To::Connection(key, _) | To::Nowhere { connection: key, .. }) = self.to else {
            return;
        };
        let Some(mailbox) = &self.mailbox else { return };
        let note = move |activity: Rc<Activity>, why: &str| {
            if let Some(connection) = activity.connection(key) {
                connection.note_refusal(kind, why);
            }
        };
        if let Some(activity) = Activity::of_thread(mailbox) {
            return note(activity, why);
        }
        let (of_loop, why) = (Arc::downgrade(mailbox), why.to_owned());
        let post = move || {
            let activity = of_loop.upgrade().and_then(|mailbox| Activity::of_thread(&mailbox));
            if let Some(activity) = activity {
                note(activity, &why);
            }
        };
        let _ = mailbox.post(Post::Run(Box::new(post)));
    }

    fn send_remote(
        &self,
        key: ConnectionKey,
        call: IncomingCall,
        extras: Option<Box<ReplyExtras>>,
        answer: Result<&impl Message, &Status>,
    ) {
        let Some(mailbox) = &self.mailbox else { return };
        if let Some(activity) = Activity::of_thread(mailbox) {
            if let Some(connection) = activity.connection(key) {
                connection.reply_detached(call, extras, answer);
            }
        } else {
            // It waits for its loop, which may be busy.
            let mut reservation = Reservation::of(self.memory());
            let answer = match answer {
                Ok(reply) => self.encode_reply(reply, &mut reservation),
                Err(status) => Err(status.clone()),
            };
            let reply = PostedReply { connection: key, call, extras, answer, reservation };
            // A loop that has closed has ended its calls.
            let _ = mailbox.post(Post::Reply(reply));
        }
    }

    /// Marshals a reply that waits for its loop, and charges it.
    fn encode_reply(
        &self,
        reply: &impl Message,
        reservation: &mut Reservation,
    ) -> Result<Encoded, Status> {
        let reply_bytes = codec::checked_bytes(reply, "reply")?;
        let grown = reservation.grow_to(reply_bytes);
        grown.map_err(|exceeded| refuse(&exceeded, |kind, why| self.note_refusal(kind, why)))?;
        Ok(Encoded::of_length(reply, reply_bytes))
    }

    /// Returns whether the caller does not wait any more.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancellation.has_ended()
    }

    /// Returns the same after a look at what has come, where this thread may look.
    pub(crate) fn look_for_cancel(&self) -> bool {
        match &self.to {
            To::Host(reply) => self.is_cancelled() || reply.look_for_cancel(),
            To::Connection(key, _) => {
                let activity = self.mailbox.as_ref().and_then(Activity::of_thread);
                if let Some(connection) = activity.and_then(|it| it.connection(*key)) {
                    connection.look_ahead();
                }
                self.is_cancelled()
            }
            To::Local(_) | To::Nowhere { .. } => self.is_cancelled(),
        }
    }

    /// Has the sink learn of the end of the call, before it leaves the method.
    pub(crate) fn watch_end(&self) {
        if let To::Host(reply) = &self.to {
            reply.watch_end(&self.cancellation);
        }
    }

    /// Returns the stream of the call, if it streams.
    pub(crate) fn stream(&self) -> Option<ServiceStream> {
        self.stream.clone()
    }

    /// Returns the memory that the call is charged for.
    pub(crate) fn memory(&self) -> Option<&Arc<CallMemory>> {
        self.memory.as_ref()
    }

    /// Returns what is notified of the end of the call.
    pub(crate) fn cancellation(&self) -> &Arc<Cancellation> {
        &self.cancellation
    }

    /// Runs the task that answers the call on the executor of the loop.
    pub(crate) fn spawn(&self, task: ServiceTask) {
        if let To::Host(reply) = &self.to {
            return reply.spawn(task);
        }
        // A call without a loop has no executor, and ends with its task.
        let Some(mailbox) = &self.mailbox else { return };
        match Activity::of_thread(mailbox) {
            Some(activity) => activity.executor.spawn(task),
            None => drop(mailbox.post(Post::Spawn(task))),
        }
    }
}
