//! How the request of a task gets into a channel: by a connection that is open or opened for it,
//! when it is its turn and there is room.
//!
//! **Invariants:** a request that was sent is sent again only as `call/resending.rs` has it; one
//! that is given up before was not sent at all.
//! **Not here:** queues of those that wait (`async_connection/waiters.rs`), what comes back
//! (`async_call/call.rs`).

use std::sync::Arc;
use std::task::{Poll, Waker, ready};

use super::AsyncObjectRef;
use super::connecting::{Connecting, poll_timer};
use crate::async_connection::{AsyncConnection, Places, Timer};
use crate::call::may_resend;
use crate::clients::show_start;
use crate::codec::{self, Message};
use crate::connection::Outgoing;
use crate::deadline::Deadline;
use crate::decoded_size::{MessageType, Part};
use crate::interceptor::ObservedCall;
use crate::interface::Method;
use crate::options::{CallOptions, CallSpec};
use crate::status::{Fate, Status};
use crate::waking;

/// A request of a task on its way into a channel.
pub(crate) struct Sending<'a> {
    object: &'a AsyncObjectRef,
    method: &'static Method,
    options: &'a CallOptions,
    /// Set when the task is polled first.
    deadline: Option<Deadline>,
    connection: Option<Arc<AsyncConnection>>,
    places: Places,
    /// If the client has interceptors: what shows them the end.
    observed: Option<Box<ObservedCall>>,
    /// The options that they have added to.
    observed_options: Option<Arc<CallOptions>>,
    /// For what does not happen at once.
    waits: Option<Box<Waits>>,
}

#[derive(Default)]
struct Waits {
    connecting: Connecting,
    timer: Option<Timer>,
    /// How often the request was sent again.
    resends: u32,
    /// It may have run.
    is_lost: bool,
}

impl<'a> Sending<'a> {
    /// Creates it. Nothing is done before it is polled.
    pub(crate) fn new(object: &'a AsyncObjectRef, method: &'static Method) -> Self {
        Self {
            object,
            method,
            options: object.options(),
            deadline: None,
            connection: None,
            places: Places::default(),
            observed: None,
            observed_options: None,
            waits: None,
        }
    }

    /// Creates one of a call that has begun: it has a deadline, and the interceptors know it.
    pub(crate) fn until(object: &'a AsyncObjectRef, spec: CallSpec<'a>) -> Self {
        let mut this = Self::new(object, spec.method);
        this.options = spec.options;
        this.deadline = Some(spec.deadline);
        this
    }

    /// Returns the deadline. Shows the request to the interceptors of the client, if there are any.
    ///
    /// # Errors
    ///
    /// One of them refuses it.
    #[inline]
    fn begin(&mut self, request: &impl Message) -> Result<Deadline, Status> {
        let deadline = *self.deadline.insert(self.object.deadline(self.method, self.options));
        if self.object.is_intercepted() {
            self.show_start(deadline, codec::reported_bytes(request))?;
        }
        Ok(deadline)
    }

    #[cold]
    fn show_start(&mut self, deadline: Deadline, request_bytes: usize) -> Result<(), Status> {
        let (options, object) = (self.options, &self.object.object);
        let (chain, name) = (&object.interceptors, &object.name);
        let shown = show_start(chain, name, self.method, deadline, request_bytes, options)?;
        self.observed = Some(Box::new(shown.0));
        self.observed_options = Some(Arc::new(shown.1));
        Ok(())
    }

    /// Shows the interceptors of the client the end of the call, if there are any. They see one
    /// that is dropped before as given up.
    #[inline]
    pub(crate) fn end<T>(&mut self, outcome: &Result<T, Status>, reply_bytes: fn(&T) -> usize) {
        if let Some(observed) = self.observed.take() {
            observed.end(outcome.as_ref().err(), outcome.as_ref().map_or(0, reply_bytes));
        }
    }

    /// Takes what shows the interceptors of the client the end of a call that goes on.
    pub(crate) fn take_observed(&mut self) -> Option<Box<ObservedCall>> {
        self.observed.take()
    }

    /// Returns the object.
    pub(crate) fn object(&self) -> &'a AsyncObjectRef {
        self.object
    }

    /// Returns the connection that the request is to leave or has left by.
    #[inline]
    pub(crate) fn connection(&self) -> Option<&Arc<AsyncConnection>> {
        self.connection.as_ref()
    }

    /// Sends `request` by `send` once there is a connection, unless an interceptor refuses it.
    /// Returns what `send` returns. To be polled until then, and no more.
    #[inline]
    pub(crate) fn poll<T>(
        &mut self,
        waker: &Waker,
        request: &impl Message,
        mut send: impl FnMut(
            &AsyncConnection,
            &mut Places,
            &Waker,
            &Outgoing<'_>,
        ) -> Poll<Result<T, Status>>,
    ) -> Poll<Result<T, Status>> {
        let deadline = match self.deadline {
            Some(deadline) => deadline,
            None => {
                ready!(waking::poll_proceed(waker));
                self.begin(request)?
            }
        };
        let observed_options = self.observed_options.clone();
        let options = observed_options.as_deref().unwrap_or(self.options);
        let outgoing = self.object.outgoing(self.method, options, deadline);
        let may_wait = self.may_wait();
        loop {
            let connection = match &self.connection {
                Some(connection) => connection,
                None => {
                    let connection = ready!(self.poll_connection(deadline, waker))?;
                    self.connection.insert(connection)
                }
            };
            match send(connection, &mut self.places, waker, &outgoing) {
                Poll::Ready(Ok(sent)) => return Poll::Ready(Ok(sent)),
                Poll::Ready(Err(status)) => self.may_try_another(status)?,
                Poll::Pending if !may_wait => {
                    connection.leave(&mut self.places);
                    return Poll::Ready(Err(self.no_room_now()));
                }
                // Without a deadline a task that waits takes no memory for that.
                Poll::Pending if deadline == Deadline::NEVER => return Poll::Pending,
                Poll::Pending => {
                    let waits = self.waits.get_or_insert_default();
                    if !poll_timer(&mut waits.timer, deadline, waker)? {
                        return Poll::Pending;
                    }
                    return Poll::Ready(Err(connection.late(&mut self.places)));
                }
            }
        }
    }

    /// Returns whether the request may wait until it is sent.
    #[inline]
    pub(crate) fn may_wait(&self) -> bool {
        self.options.may_wait()
    }

    #[cold]
    fn no_room_now(&self) -> Status {
        Status::resource_exhausted(format!(
            "the shared connection to {} has no room now, and `no_wait` has the request not wait \
             for it",
            self.object.address().at
        ))
    }

    /// Returns the type of the reply, or of its items.
    #[inline]
    pub(crate) fn reply_type(&self) -> MessageType {
        let interface = self.object.interface();
        MessageType { interface, method: self.method.id, part: Part::Reply }
    }

    /// Returns once a request that was sent is in the channel as a whole, or its deadline passes.
    #[cold]
    pub(crate) fn poll_flushed(&mut self, waker: &Waker) -> Poll<Result<(), Status>> {
        let Some(connection) = &self.connection else { return Poll::Ready(Ok(())) };
        if let Poll::Ready(flushed) = connection.poll_flushed(&mut self.places, waker) {
            return Poll::Ready(flushed);
        }
        let deadline = self.deadline.unwrap_or(Deadline::NEVER);
        let waits = self.waits.get_or_insert_default();
        if !poll_timer(&mut waits.timer, deadline, waker)? {
            return Poll::Pending;
        }
        Poll::Ready(Err(connection.late(&mut self.places)))
    }

    fn poll_connection(
        &mut self,
        deadline: Deadline,
        waker: &Waker,
    ) -> Poll<Result<Arc<AsyncConnection>, Status>> {
        let (route, policy) = (self.object.route(), self.object.reconnect_policy(self.options));
        let waits = match &mut self.waits {
            Some(waits) => waits,
            empty => match route.connection() {
                Some(connection) => return Poll::Ready(Ok(connection)),
                None => empty.insert(Box::default()),
            },
        };
        let connected = ready!(waits.connecting.poll(route, policy, deadline, waker));
        waits.connecting.restart();
        Poll::Ready(connected.map_err(|status| status.with_fate(Fate::NotBegun)))
    }

    /// Begins anew with a request that ended with `status` and may be sent again, over another
    /// connection.
    ///
    /// # Errors
    ///
    /// `status`, if it stands.
    #[cold]
    pub(crate) fn resend(&mut self, status: Status) -> Result<(), Status> {
        let policy = self.object.reconnect_policy(self.options);
        let waits = self.waits.get_or_insert_default();
        waits.is_lost |= status.fate() == Fate::Lost;
        let is_lost = waits.is_lost;
        let again = match may_resend(&status, self.method, policy, waits.resends) {
            true => {
                waits.resends += 1;
                waits.connecting.note_sent(policy);
                self.may_try_another(status)
            }
            false => Err(status),
        };
        again.map_err(|status| if is_lost { status.with_fate(Fate::Lost) } else { status })
    }

    /// Returns whether to try another connection in the place of one that has ended or drains: the
    /// request was not sent over it. Otherwise `status` stands.
    #[cold]
    fn may_try_another(&mut self, status: Status) -> Result<(), Status> {
        let Some(connection) = self.connection.take_if(|connection| !connection.is_open()) else {
            return Err(status);
        };
        let route = self.object.route();
        route.forget(&connection);
        let policy = self.object.reconnect_policy(self.options);
        self.waits.get_or_insert_default().connecting.reopen(route, policy, status)
    }
}

impl Drop for Sending<'_> {
    fn drop(&mut self) {
        if let Some(connection) = &self.connection {
            connection.leave(&mut self.places);
        }
    }
}
