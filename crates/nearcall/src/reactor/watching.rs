//! How a loop watches a connection: by its descriptors, by polling, or by sleeping in it.
//!
//! **Invariants:** a connection is armed, or it is busy, used or ready and the loop does not sleep
//! before it was looked at; a loop sleeps in at most one connection.
//! **Not here:** rounds (`reactor.rs`), which are busy (`busy.rs`), the mechanisms
//! (`nearcall-channel`).
//!
//! **Invariant:** a loop takes no connection for armed whose announced sleep has ended: whatever
//! sends by a channel, or only looks for room, notes that with the loop. *Checked by*
//! `tests/it/streams/slow.rs`, and by `cargo xtask switch-storm`, where one channel is full again
//! and again.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::rc::Rc;

use nearcall_channel::{Endpoint, Interest, Interrupt, Mechanism, WaitPolicy, signals_taken};
use nearcall_os::poll;

use super::sharing::Party;
use super::turns::Turn;
use super::{Reactor, Source};
use crate::connection::{Connection, ReadinessState, RoomWanted, Tokens, kernel_interest};
use crate::deadline::{self, Deadline};
use crate::limits::{
    LOOP_ROOM_INTERVAL, OLD_ROOM_INTERVAL, SIGNAL_LOOK_INTERVAL, SPIN_TURNS_PER_LOOK,
};
use crate::status::Status;

/// The connection that the loop sleeps in: its mechanism has no descriptor.
pub(super) struct FdlessConnection {
    connection: Rc<Connection>,
    interrupt: Interrupt,
    /// Messages since the last look at everything else.
    messages: u32,
}

impl Reactor {
    /// Watches a new connection.
    ///
    /// # Errors
    ///
    /// Its mechanism has no descriptor, and the loop sleeps in another connection already.
    pub(crate) fn add_connection(&self, connection: &Rc<Connection>) -> io::Result<()> {
        self.ready.borrow_mut().join(Party::of(connection));
        connection.readiness.is_counted.set(true);
        self.note_parties();
        // One that cannot be watched is removed as one that has ended.
        self.watch_connection(connection)
    }

    fn watch_connection(&self, connection: &Rc<Connection>) -> io::Result<()> {
        if connection.wait() == WaitPolicy::Spin {
            self.spinning.borrow_mut().push(Rc::clone(connection));
            return Ok(());
        }
        let token = self.sources.borrow_mut().add(Source::Connection(Rc::clone(connection)));
        let added = connection.with_endpoint(|endpoint| {
            endpoint.watch_edges();
            match endpoint.readiness(Interest::Receive) {
                Some(readiness) => {
                    let interest = kernel_interest(&readiness);
                    self.epoll.add(readiness.fd, interest, token).map(|()| true)
                }
                None => Ok(false),
            }
        });
        let watched = match added {
            Ok(true) => {
                connection
                    .readiness
                    .tokens
                    .update(|tokens| Tokens { receive: Some(token), ..tokens });
                if connection.mechanism() == Mechanism::ShmSignal {
                    self.note_signalled(connection);
                }
                self.activity.note_used(connection);
                return Ok(());
            }
            Ok(false) => self.sleep_in(connection),
            Err(error) => Err(error),
        };
        self.sources.borrow_mut().remove(token);
        watched
    }

    /// Lists a connection that a signal wakes.
    #[cold]
    fn note_signalled(&self, connection: &Rc<Connection>) {
        let mut signalled = self.signalled.borrow_mut();
        if !signalled.iter().any(|other| Rc::ptr_eq(other, connection)) {
            signalled.push(Rc::clone(connection));
        }
    }

    fn forget_signalled(&self, connection: &Rc<Connection>) {
        self.signalled.borrow_mut().retain(|other| !Rc::ptr_eq(other, connection));
    }

    fn sleep_in(&self, connection: &Rc<Connection>) -> io::Result<()> {
        if let Some(fdless) = &*self.fdless.borrow() {
            return Err(io::Error::other(format!(
                "{} has no descriptor, and its event loop sleeps in a connection over {} already; \
                 use a mechanism that is pollable, such as shm-eventfd or unix-stream",
                connection.mechanism(),
                fdless.connection.mechanism()
            )));
        }
        let epoll = self.epoll.as_fd();
        let interrupt =
            connection.with_endpoint(|endpoint| endpoint.interrupt_when_readable(epoll))?;
        let fdless = FdlessConnection { connection: Rc::clone(connection), interrupt, messages: 0 };
        *self.fdless.borrow_mut() = Some(fdless);
        Ok(())
    }

    /// Returns whether the loop sleeps in a connection, so that it can sleep in no other.
    pub(crate) fn has_fdless(&self) -> bool {
        self.fdless.borrow().is_some()
    }

    /// Forgets a connection that has ended.
    pub(crate) fn remove_connection(&self, connection: &Rc<Connection>) {
        if connection.readiness.is_counted.take() {
            let is_it = |other: &Rc<Connection>| Rc::ptr_eq(other, connection);
            self.ready.borrow_mut().leave(Party::of(connection), is_it);
            self.note_parties();
        }
        self.activity.forget(connection);
        self.unwatch_connection(connection);
        connection.readiness.state.set(ReadinessState::Used);
    }

    /// Watches the channel that a connection has moved to, in place of the one before.
    #[cold]
    pub(super) fn watch_anew(&self, connection: &Rc<Connection>) {
        if connection.is_closed() {
            return; // It is forgotten with everything that is watched.
        }
        self.activity.unlist(connection);
        self.unwatch_connection(connection);
        let state = &connection.readiness.state;
        if state.get() == ReadinessState::Armed {
            state.set(ReadinessState::Used);
        }
        if let Err(error) = self.watch_connection(connection) {
            let text = format!("{}: cannot wait for the new channel: {error}", connection.name);
            connection.abort(Status::unavailable(text));
        }
        connection.resume_switch();
        // What has come by the new channel before it was watched.
        self.make_ready(connection);
        if let Some(acceptor) = connection.serves.and_then(|server| self.acceptor(server)) {
            acceptor.show_again(connection);
        }
    }

    /// Ends the watch over a connection, however it is watched.
    fn unwatch_connection(&self, connection: &Rc<Connection>) {
        self.spinning.borrow_mut().retain(|other| !Rc::ptr_eq(other, connection));
        let is_fdless = self
            .fdless
            .borrow()
            .as_ref()
            .is_some_and(|fdless| Rc::ptr_eq(&fdless.connection, connection));
        if is_fdless {
            // Its drop ends the watch; the borrow must be over by then.
            let fdless = self.fdless.borrow_mut().take();
            drop(fdless);
        }
        let tokens = connection.readiness.tokens.take();
        self.forget_signalled(connection);
        for (interest, token) in
            [(Interest::Receive, tokens.receive), (Interest::Send, tokens.send)]
        {
            let Some(token) = token else { continue };
            self.sources.borrow_mut().remove(token);
            connection.with_watched_endpoint(|endpoint| {
                if let Some(readiness) = endpoint.readiness(interest) {
                    let _ = self.epoll.delete(readiness.fd);
                }
            });
        }
        if let Some(token) = tokens.before {
            self.unwatch_before(connection, token);
        }
        connection.forget_watched();
    }

    /// Ends the watch over the channel before a switch.
    fn unwatch_before(&self, connection: &Connection, token: u64) {
        self.sources.borrow_mut().remove(token);
        connection.with_old_endpoint(|endpoint| {
            if let Some(room) = endpoint.readiness(Interest::Send) {
                let _ = self.epoll.delete(room.fd);
            }
        });
    }

    /// Returns all connections.
    pub(super) fn connections(&self) -> Vec<Rc<Connection>> {
        let mut connections = self.spinning.borrow().clone();
        connections
            .extend(self.fdless.borrow().as_ref().map(|fdless| Rc::clone(&fdless.connection)));
        connections.extend(self.sources.borrow().connections());
        connections
    }

    /// Queues a connection that may have something.
    pub(super) fn make_ready(&self, connection: &Rc<Connection>) {
        if let Some(state) = connection.readiness.state.get().queued()
            && !connection.is_closed()
        {
            connection.readiness.state.set(state);
            self.ready.borrow_mut().push(Party::of(connection), Rc::clone(connection));
        }
    }

    /// Arms one connection, and watches for room if it needs any. False: look at it first.
    #[inline]
    pub(super) fn arm(&self, connection: &Rc<Connection>) -> bool {
        let has_pending_writes = connection.has_pending_writes();
        let (room_wanted, is_paused) = (connection.room_wanted(), connection.is_paused());
        let tokens = connection.readiness.tokens.get();
        if (room_wanted, is_paused) != (tokens.room(), tokens.is_muted)
            && !self.watch_for_room(connection, room_wanted, is_paused)
        {
            return false;
        }
        if tokens.receive.is_none() {
            // The loop sleeps in it, and looks there first. Room that came just now may be what a
            // caller waits for.
            return (!connection.has_inbound() || is_paused)
                && has_pending_writes == connection.has_pending_writes();
        }
        let armed = connection.arm();
        let state = &connection.readiness.state;
        match (armed, state.get()) {
            (true, ReadinessState::Used) => {
                state.set(ReadinessState::Armed);
                if self.is_only_signalled(connection) {
                    // Its own look has seen what those signals were for.
                    self.signals_seen.set(signals_taken());
                }
            }
            (false, ReadinessState::Armed) => state.set(ReadinessState::Used),
            _ => {}
        }
        armed
    }

    /// Returns whether signals wake this connection, and no other of the loop.
    #[inline]
    fn is_only_signalled(&self, connection: &Rc<Connection>) -> bool {
        matches!(&**self.signalled.borrow(), [only] if Rc::ptr_eq(only, connection))
    }

    /// Arms all connections that were used. True: some have to be looked at before a sleep.
    #[inline]
    pub(super) fn arm_used(&self) -> bool {
        // A stack, so that none is moved; arming runs no service.
        while let Some(connection) = self.activity.pop_used() {
            let is_used = connection.readiness.state.get() == ReadinessState::Used;
            if is_used && !connection.is_closed() && !self.arm(&connection) {
                self.make_ready(&connection);
            }
        }
        self.share_signals();
        !self.ready.borrow().is_empty()
    }

    /// A signal that was taken in this thread, by a connection of this loop or for a client without
    /// one, may have been for another, which has announced its sleep and is not readable any more.
    #[inline]
    pub(super) fn share_signals(&self) {
        if self.signalled.borrow().is_empty() {
            return;
        }
        let taken = signals_taken();
        if self.signals_seen.replace(taken) != taken {
            self.look_for_signals();
        }
    }

    /// Watches for room where it is wanted, and for messages unless the connection is paused.
    /// False: look at the connection first.
    #[cold]
    fn watch_for_room(
        &self,
        connection: &Rc<Connection>,
        wanted: RoomWanted,
        is_paused: bool,
    ) -> bool {
        self.activity.note_deadline(connection.unread_due());
        if connection.readiness.tokens.get().receive.is_none() {
            // A paused one is slept in for room.
            self.watch_fdless_for_room(connection, wanted != RoomWanted::Nowhere && !is_paused);
        } else if connection.is_between() {
            return false; // The loop watches the new channel before it sleeps.
        } else {
            let watched = self
                .watch_room_before(connection, wanted == RoomWanted::Before)
                .and_then(|()| self.watch_here(connection, wanted == RoomWanted::Here, is_paused));
            // Without that word of the kernel, what waits would wait until its deadline.
            if let Err(error) = watched {
                let text = format!("{}: cannot wait for room to send: {error}", connection.name);
                connection.abort(Status::unavailable(text));
                // That end may be what a caller waits for: no sleep.
                self.activity.note_deadline(deadline::now());
            }
        }
        !connection.is_closed()
    }

    /// Watches for room in the channel before a switch.
    fn watch_room_before(&self, connection: &Rc<Connection>, wanted: bool) -> io::Result<()> {
        let mut tokens = connection.readiness.tokens.get();
        match (wanted, tokens.before.take()) {
            (false, Some(token)) => {
                self.unwatch_before(connection, token);
                if connection.mechanism() != Mechanism::ShmSignal {
                    self.forget_signalled(connection);
                }
            }
            (true, None) => {
                let token =
                    self.sources.borrow_mut().add(Source::Connection(Rc::clone(connection)));
                let added = connection.with_old_endpoint(|endpoint| {
                    let Some(room) = endpoint.readiness(Interest::Send) else { return Ok(false) };
                    self.epoll.add(room.fd, kernel_interest(&room), token).map(|()| true)
                });
                let added = added.unwrap_or(Ok(false));
                let mechanism = connection.with_old_endpoint(Endpoint::mechanism);
                if mechanism == Some(Mechanism::ShmSignal) {
                    self.note_signalled(connection);
                }
                match added {
                    Ok(true) => tokens.before = Some(token),
                    _ => drop(self.sources.borrow_mut().remove(token)),
                }
                if !added? {
                    connection.ask_old_at(Deadline::after(OLD_ROOM_INTERVAL));
                }
            }
            (_, known) => tokens.before = known,
        }
        connection.readiness.tokens.set(tokens);
        Ok(())
    }

    /// Watches the channel that messages come by: for room if that is wanted, and for messages
    /// unless the connection is paused, as they would wake the loop again and again. For which of
    /// them a doorbell rings depends on how the channel is armed.
    fn watch_here(
        &self,
        connection: &Rc<Connection>,
        wanted: bool,
        is_paused: bool,
    ) -> io::Result<()> {
        let mut tokens = connection.readiness.tokens.get();
        let Some(receive) = tokens.receive else { return Ok(()) };
        let watched = connection.with_watched_endpoint(|endpoint| {
            let (Some(messages), Some(room)) =
                (endpoint.readiness(Interest::Receive), endpoint.readiness(Interest::Send))
            else {
                return Ok(());
            };
            let is_same = messages.fd.as_raw_fd() == room.fd.as_raw_fd();
            let interest = |tokens: Tokens| {
                let for_messages = kernel_interest(&messages);
                match (is_same && room.writable && tokens.both, tokens.is_muted) {
                    (true, true) => Some(poll::Interest::Writable),
                    (true, false) => Some(poll::Interest::Both),
                    // A doorbell is watched in the same way, whatever it rings for.
                    (false, true) if !is_same || room.writable => None,
                    (false, _) => Some(for_messages),
                }
            };
            let before = interest(tokens);
            (tokens.both, tokens.is_muted) = (is_same && wanted, is_paused);
            self.change_watch(messages.fd, before, interest(tokens), receive)?;
            match tokens.send {
                None if wanted && !is_same => {
                    let source = Source::Connection(Rc::clone(connection));
                    let token = self.sources.borrow_mut().add(source);
                    tokens.send = Some(token);
                    self.epoll.add(room.fd, kernel_interest(&room), token)
                }
                Some(token) if !wanted => {
                    tokens.send = None;
                    self.sources.borrow_mut().remove(token);
                    let _ = self.epoll.delete(room.fd);
                    Ok(())
                }
                _ => Ok(()),
            }
        });
        connection.readiness.tokens.set(tokens);
        watched
    }

    /// Changes what a descriptor is watched for; none: it is not watched.
    fn change_watch(
        &self,
        fd: BorrowedFd<'_>,
        before: Option<poll::Interest>,
        after: Option<poll::Interest>,
        token: u64,
    ) -> io::Result<()> {
        match (before, after) {
            (before, after) if before == after => Ok(()),
            (None, Some(interest)) => self.epoll.add(fd, interest, token),
            (Some(_), Some(interest)) => self.epoll.modify(fd, interest, token),
            (_, None) => self.epoll.delete(fd),
        }
    }

    /// Has the loop ask again soon: a connection without a descriptor cannot report room.
    fn watch_fdless_for_room(&self, connection: &Rc<Connection>, wanted: bool) {
        if wanted {
            let _ = connection.flush(Deadline::NOW);
            let now = deadline::now();
            // If there was room, that may be what a caller waits for: no sleep.
            let next = match connection.has_pending_writes() {
                true => deadline::later(now, LOOP_ROOM_INTERVAL),
                false => now,
            };
            self.activity.note_deadline(next);
        }
    }

    /// Polls the connection without a descriptor while the loop does not sleep in it. Returns
    /// whether that had anything.
    pub(super) fn poll_fdless(&self) -> bool {
        let fdless = self.fdless.borrow().as_ref().map(|fdless| Rc::clone(&fdless.connection));
        fdless.is_some_and(|connection| self.run_turn(&connection, Turn::Poll(1)))
    }

    /// Sleeps in the connection without a descriptor, until it has a message, anything else is
    /// ready, or `deadline`.
    pub(super) fn sleep_on_fdless(&self, deadline: Deadline) -> io::Result<()> {
        let connection = {
            let mut fdless = self.fdless.borrow_mut();
            let Some(fdless) = &mut *fdless else { return Ok(()) };
            fdless.interrupt.rearm()?;
            fdless.messages += 1;
            Rc::clone(&fdless.connection)
        };
        if connection.is_paused() {
            return self.sleep_for_room(&connection, deadline);
        }
        let wanted_room = connection.has_pending_writes();
        if wanted_room {
            connection.flush(Deadline::NOW);
        }
        let deadline = match (wanted_room, connection.has_pending_writes()) {
            (false, _) => deadline,
            // That may be what a caller waits for.
            (true, false) => Deadline::NOW,
            (true, true) => deadline.min(Deadline::after(LOOP_ROOM_INTERVAL)),
        };
        let signalled = !self.signalled.borrow().is_empty();
        let deadline = match signalled && deadline != Deadline::NOW {
            true => deadline.min(Deadline::after(SIGNAL_LOOK_INTERVAL)),
            false => deadline,
        };
        let has_served = self.run_turn(&connection, Turn::Sleep(deadline));
        let must_look = match &mut *self.fdless.borrow_mut() {
            Some(fdless) if fdless.messages >= SPIN_TURNS_PER_LOOK => {
                fdless.messages = 0;
                true
            }
            _ => !has_served,
        };
        if !must_look {
            return Ok(());
        }
        if signalled {
            self.look_for_signals();
        }
        self.poll_epoll(Deadline::NOW).map(drop)
    }

    /// Sleeps in a connection that is not read before it has room for what waits, until it has,
    /// anything else is ready, or `deadline`.
    #[cold]
    fn sleep_for_room(&self, connection: &Rc<Connection>, deadline: Deadline) -> io::Result<()> {
        let signalled = !self.signalled.borrow().is_empty();
        let look_at = match signalled && deadline != Deadline::NOW {
            true => Deadline::after(SIGNAL_LOOK_INTERVAL),
            false => Deadline::NEVER,
        };
        let deadline = deadline.min(connection.unread_due()).min(look_at);
        if !self.run_turn(connection, Turn::Poll(1)) && connection.is_paused() {
            if connection.room_wanted() != RoomWanted::Here {
                // What the channel before has no room for is not reported by this one.
                return self.poll_epoll(deadline.min(Deadline::after(OLD_ROOM_INTERVAL))).map(drop);
            }
            connection.sleep_for_room(deadline);
        }
        if signalled {
            self.look_for_signals();
        }
        self.poll_epoll(Deadline::NOW).map(drop)
    }

    /// A signalfd shows the signals of a thread to the thread that polls it. While the loop sleeps
    /// in a connection the watcher polls for it, sees none, and has ours taken for seen.
    #[cold]
    fn look_for_signals(&self) {
        for connection in self.signalled.borrow().iter() {
            self.make_ready(connection);
        }
    }
}
