//! How a call waits: in its connection, or by rounds of the loop.
//!
//! **Invariants:** while a call of a client in a loop waits, the loop goes on serving.
//! **Not here:** starting a call (`call.rs`).

use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use nearcall_os::descriptor;
use nearcall_wire::OutgoingCall;

use super::core::ClientCore;
use super::hunting::Alarm;
use crate::connection::buffer_pool::InlineBuf;
use crate::connection::{Connection, Outcome, SendMode};
use crate::deadline::Deadline;
use crate::limits::{CLIENT_ROOM_INTERVAL, FOLLOWING_WAIT_MAX, MESSAGES_PER_TURN_MAX};
use crate::options::CallOptions;
use crate::services::dispatch::Received;
use crate::status::Status;

impl ClientCore {
    /// Returns how a request is sent that may wait until `deadline`, unless the options are against
    /// it: a loop never waits in one connection.
    #[inline]
    pub(crate) fn send_mode(&self, options: &CallOptions, deadline: Deadline) -> SendMode {
        match self.reactor {
            _ if !options.may_wait() => self.try_mode(),
            Some(_) => SendMode::Keep,
            None => SendMode::WaitUntil(deadline),
        }
    }

    /// Returns how a request is sent that must not wait.
    pub(crate) fn try_mode(&self) -> SendMode {
        match self.reactor {
            Some(_) => SendMode::Try,
            None => SendMode::TRY_WHOLE,
        }
    }

    /// Receives the reply to a call, which ends and releases it, and reads a small result where it
    /// was received: the shortest way, for clients without a loop. Waits for one message. `None`:
    /// [`wait`](Self::wait) for the reply.
    #[inline]
    pub(crate) fn receive_reply<T>(
        &self,
        connection: &Rc<Connection>,
        call: OutgoingCall,
        deadline: Deadline,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Option<T> {
        let deadline = self.inline_deadline(connection, deadline)?;
        let mut buf = InlineBuf::take();
        let event = connection.receive(deadline, &mut buf, Some(call));
        let body = self.services().serve_event(connection, event, &buf).ok()?;
        Some(read(&buf[body]))
    }

    /// Receives the next item of a call, of which nothing is left to read, and reads a small one
    /// where it was received: the shortest way, for clients without a loop. `None`: look again.
    pub(crate) fn receive_item<T>(
        &self,
        connection: &Rc<Connection>,
        call: OutgoingCall,
        deadline: Deadline,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Option<T> {
        let deadline = self.inline_deadline(connection, deadline)?;
        let mut buf = InlineBuf::take();
        let event = connection.receive_item(deadline, &mut buf, call);
        let item = self.services().serve_event(connection, event, &buf).ok()?;
        Some(read(&buf[item]))
    }

    /// Returns until when to wait for a message that is read where it is received. `None`: it
    /// cannot be waited for so.
    #[inline(always)]
    fn inline_deadline(&self, connection: &Connection, deadline: Deadline) -> Option<Deadline> {
        if self.reactor.is_some() || connection.is_closed() || connection.has_pending_writes() {
            return None;
        }
        Some(deadline.min(connection.next_deadline()))
    }

    /// Waits for the end of a call.
    #[inline]
    pub(crate) fn wait(
        &self,
        connection: &Rc<Connection>,
        call: OutgoingCall,
        deadline: Deadline,
    ) -> Outcome {
        let mut has_received = false;
        loop {
            if let Some(outcome) = connection.take_outcome(call) {
                if !has_received {
                    self.receive_beside(connection);
                }
                return outcome;
            }
            has_received = true;
            match &self.reactor {
                None => {
                    self.wait_alone(connection, deadline, || connection.has_ended(call));
                }
                Some(reactor) => match reactor.run_until(deadline, || connection.has_ended(call)) {
                    Ok(true) => {}
                    Ok(false) => connection.handle_timeout(),
                    Err(error) => {
                        connection.cancel(call);
                        return Err(waiting_failed(&error));
                    }
                },
            }
        }
    }

    /// Receives a message, if one has come, when a result was there already: a client without a
    /// loop that takes many results which were received before would else read nothing for long,
    /// and its server would take it for one that does not read.
    fn receive_beside(&self, connection: &Rc<Connection>) {
        if self.reactor.is_none() && connection.outgoing_calls().0 > 0 {
            let mut buf = InlineBuf::take();
            self.services().receive_message(connection, Deadline::NOW, &mut buf);
        }
    }

    /// Waits for one message, without a loop.
    fn wait_alone(
        &self,
        connection: &Rc<Connection>,
        asked: Deadline,
        mut is_done: impl FnMut() -> bool,
    ) {
        // Calls that were started on the same connection have deadlines, too, and so may a switch.
        let mut deadline = asked.min(connection.next_deadline()).min(connection.switch_due());
        if connection.has_pending_writes() {
            connection.flush(Deadline::NOW);
            if !connection.has_pending_writes() {
                // That may be what is waited for, and no message has to come after it.
                return;
            }
            // A cancellation, say: only this wait moves it on.
            deadline = deadline.min(Deadline::after(CLIENT_ROOM_INTERVAL));
        }
        let received =
            self.services().receive_message(connection, deadline, &mut InlineBuf::take());
        // A server that sends without pause must not hold a call beyond its time.
        if received == Received::Empty || (!is_done() && deadline.has_passed()) {
            connection.handle_timeout();
        }
        if connection.take_following() {
            self.finish_following(connection);
        }
    }

    /// Ends a switch that the server has asked for, in the call that has found the ask: the next
    /// one may come late, and the server gives a client that has begun some seconds only.
    #[cold]
    fn finish_following(&self, connection: &Rc<Connection>) {
        let deadline = Deadline::after(FOLLOWING_WAIT_MAX);
        // What comes meanwhile is kept for its caller, and a late end is found by the next call.
        let _ = self.wait_until(connection, deadline, || !connection.is_switching());
    }

    /// Waits until what is kept of the messages of a client is in the channel.
    #[inline]
    pub(crate) fn wait_for_room(
        &self,
        connection: &Rc<Connection>,
        deadline: Deadline,
    ) -> Result<(), Status> {
        if !connection.has_pending_writes() {
            return Ok(());
        }
        let is_done = || !connection.has_pending_writes() || connection.is_closed();
        let had_room = match self.reactor {
            Some(_) => self.run_until(deadline, is_done)?,
            None => connection.finish_sending(deadline),
        };
        if connection.is_closed() {
            return Err(connection.close_reason());
        }
        had_room.then_some(()).ok_or_else(|| connection.not_flushed_in_time())
    }

    /// Waits for room for a message of `message_bytes` that found none, or until the connection has
    /// ended: in a loop, the loop goes on serving. Returns false at `deadline`.
    pub(crate) fn wait_to_send(
        &self,
        connection: &Rc<Connection>,
        message_bytes: usize,
        deadline: Deadline,
    ) -> Result<bool, Status> {
        match self.reactor {
            Some(_) => self.wait_until(connection, deadline, || !connection.has_pending_writes()),
            None => Ok(connection.wait_for_room(message_bytes, deadline)),
        }
    }

    /// Waits until `done`, which is asked after everything that happens, or until the connection
    /// has ended: in a loop, the loop goes on serving. Returns false at `deadline`.
    pub(crate) fn wait_until(
        &self,
        connection: &Rc<Connection>,
        deadline: Deadline,
        mut done: impl FnMut() -> bool,
    ) -> Result<bool, Status> {
        let mut done = || connection.is_closed() || done();
        if self.reactor.is_some() {
            return self.run_until(deadline, done);
        }
        loop {
            if done() {
                return Ok(true);
            }
            if deadline.has_passed() {
                return Ok(false);
            }
            self.wait_alone(connection, deadline, || false);
        }
    }

    /// Serves until `done` or `deadline`. Without a loop nothing can happen meanwhile.
    pub(crate) fn run_until(
        &self,
        deadline: Deadline,
        done: impl FnMut() -> bool,
    ) -> Result<bool, Status> {
        let Some(reactor) = &self.reactor else { return Ok(false) };
        reactor.run_until(deadline, done).map_err(|error| waiting_failed(&error))
    }

    /// Waits for a future that other threads move on; a loop goes on serving.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> Result<T, Status> {
        let mut future = pin!(future);
        let Some(reactor) = &self.reactor else {
            let alarm = Arc::<Alarm>::default();
            let waker = Waker::from(Arc::clone(&alarm));
            loop {
                if let Poll::Ready(outcome) = future.as_mut().poll(&mut Context::from_waker(&waker))
                {
                    return Ok(outcome);
                }
                alarm.wait(Deadline::NEVER);
            }
        };
        let waker = Waker::from(Arc::clone(&reactor.mailbox));
        let mut outcome = None;
        let is_done = || {
            if let Poll::Ready(ended) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                outcome = Some(ended);
            }
            outcome.is_some()
        };
        reactor.run_until(Deadline::NEVER, is_done).map_err(|error| waiting_failed(&error))?;
        outcome.ok_or_else(|| Status::internal("the event loop ended a wait too early"))
    }

    /// Receives what has come, without waiting. For clients without a loop.
    pub(crate) fn poll(&self, connection: &Rc<Connection>) {
        if self.reactor.is_none() {
            let mut buf = InlineBuf::take();
            for _ in 0..MESSAGES_PER_TURN_MAX {
                let received = self.services().receive_message(connection, Deadline::NOW, &mut buf);
                if received != Received::Message {
                    return;
                }
            }
        }
    }
}

#[cold]
pub(super) fn waiting_failed(error: &io::Error) -> Status {
    let text = format!("the event loop failed: {error}");
    match descriptor::means_shortage(error) {
        true => Status::resource_exhausted(text),
        false => Status::internal(text),
    }
}
