//! What a shared connection is while it is locked: the connection, and the tasks that wait for it.
//!
//! **Invariants:** every step that uses the connection leaves it [at rest](Shared::rest): armed, if
//! anything is waited for, so that the driver is woken for it. A task that looks for its reply may
//! leave it unarmed between two looks, since it comes back.
//! **Not here:** the lock (`async_connection.rs`), what a task does (`async_call`).

use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::task::{Poll, Waker};

use nearcall_channel::{Endpoint, Interest, SpinOptions, SpinPlan, Spinner, WaitPolicy};
use nearcall_os::{poll, process};
use nearcall_wire::{IncomingCall, OutgoingCall};

use super::driver::{DriverHandle, Watched};
use super::host::AsyncHost;
use super::switch_slot::SwitchSlot;
use super::waiters::{QueuePosition, Waiters, WakeList};
use crate::connection::buffer_pool::InlineBuf;
use crate::connection::{Connection, Event, Need, NotSent, SMALL_BYTES, SendMode, kernel_interest};
use crate::deadline::Deadline;
use crate::limits::{ASYNC_LOOKS_PER_LOCK, ASYNC_MESSAGES_PER_TURN_MAX};
use crate::peer::{Peer, PeerIdentity};
use crate::status::Status;

/// A connection that tasks share, locked.
pub(crate) struct Shared {
    pub(super) connection: Connection<AsyncHost>,
    /// Calls that wait until another one ends.
    slots: Waiters,
    /// Messages that wait for room in the channel.
    room: Waiters,
    /// Messages of which a part is still here: before everything that waits for room.
    unflushed: Waiters,
    /// A task looks for its reply itself before it waits.
    pub(super) looks: bool,
    /// A task looks for its reply right now: what comes needs no wake-up, and it leaves the
    /// connection at rest afterwards.
    is_looked_at: bool,
    /// The driver has left it to that task to arm the connection also for what no task waits for.
    owes_idle_arm: bool,
    spinner: Spinner,
    /// The wait of the call that was looked for without success.
    slept: Option<(OutgoingCall, SpinPlan)>,
    watches: Watches,
    /// Where a task waits for the end of the switch that it has begun.
    pub(super) switch: Option<Arc<SwitchSlot>>,
    /// The call that is timed, if the connection is automatic, and when it began.
    timed: Option<(OutgoingCall, u64)>,
    end_sample: EndSample,
    /// It takes no more requests, and those that waited know it.
    has_drained: bool,
    /// The driver has to look at the clock then.
    pub(super) due: Deadline,
    /// The connection could not be armed: the driver has to look at it.
    pub(super) is_restless: bool,
}

/// Ends a call that is timed, by when it began, or notes one that was only started, and moves an
/// automatic connection if that pays.
pub(crate) type EndSample = fn(&Connection<AsyncHost>, Option<u64>, SendMode);

/// What the driver watches of a connection.
#[derive(Debug, Default)]
struct Watches {
    /// The descriptor of messages.
    receive: bool,
    /// The same one for room as well.
    both: bool,
    /// The pidfd of the other end.
    peer: bool,
    /// The descriptor of room, if that is another one.
    send: bool,
}

/// Where a task stands that waits to send a request.
#[derive(Debug, Default)]
pub(crate) struct Places {
    slot: Option<QueuePosition>,
    room: Option<QueuePosition>,
    unflushed: Option<QueuePosition>,
}

impl Places {
    /// Returns whether it waits nowhere.
    pub(crate) fn is_empty(&self) -> bool {
        self.slot.is_none() && self.room.is_none() && self.unflushed.is_none()
    }
}

/// What a few looks for a reply have found.
pub(super) enum Look {
    /// The reply, in this part of the buffer.
    Reply(Range<usize>),
    /// Nothing yet; it pays to look on.
    Nothing,
    /// Stop polling: the reply is stored, or the task waits for it.
    Over,
}

/// What one receive has brought.
enum Received {
    Reply(Range<usize>),
    Message,
    Empty,
    Closed,
}

impl Shared {
    pub(super) fn new(connection: Connection<AsyncHost>, end_sample: EndSample) -> Self {
        connection.with_endpoint(Endpoint::stay_armed);
        let looks = connection.wait() == WaitPolicy::Adaptive;
        Self {
            connection,
            slots: Waiters::default(),
            room: Waiters::default(),
            unflushed: Waiters::default(),
            looks,
            is_looked_at: false,
            owes_idle_arm: false,
            spinner: Spinner::new(SpinOptions::default()),
            slept: None,
            watches: Watches::default(),
            switch: None,
            timed: None,
            end_sample,
            has_drained: false,
            due: Deadline::NEVER,
            is_restless: false,
        }
    }

    /// Sends a request as [`begin`](Self::begin) does. A connection that takes no more of them is
    /// waited for by none: another one may be opened.
    pub(super) fn begin_request<T>(
        &mut self,
        places: &mut Places,
        waker: &Waker,
        is_call: bool,
        attempt: impl FnMut(&Connection<AsyncHost>) -> Result<T, NotSent>,
    ) -> Poll<Result<T, Status>> {
        if !self.connection.is_open() {
            self.leave(places);
            return Poll::Ready(Err(self.connection.close_reason()));
        }
        self.begin(places, waker, is_call, attempt)
    }

    /// Returns whether it takes no more requests.
    pub(super) fn has_drained(&self) -> bool {
        self.has_drained
    }

    /// Has the requests that wait try another connection: this one drains. Items of streams wait on
    /// for room.
    #[cold]
    fn drain_waiters(&mut self) {
        self.has_drained = true;
        self.connection.host().with_wakes(|wakes| {
            self.slots.grant_all(wakes);
            self.room.grant_all(wakes);
        });
    }

    /// Sends by `attempt`, which never waits, once it is its turn. What it has to wait for is noted
    /// in `places`, and `waker` is woken for another try.
    pub(super) fn begin<T>(
        &mut self,
        places: &mut Places,
        waker: &Waker,
        is_call: bool,
        mut attempt: impl FnMut(&Connection<AsyncHost>) -> Result<T, NotSent>,
    ) -> Poll<Result<T, Status>> {
        let Self { connection, slots, room, .. } = self;
        // Those that have ended have granted everything.
        if !connection.is_closed() {
            let (has_slot, is_turn) = connection.host().with_wakes(|wakes| {
                let has_slot = !is_call || may_try(slots, &mut places.slot, waker, wakes);
                (has_slot, has_slot && may_try(room, &mut places.room, waker, wakes))
            });
            if !has_slot {
                // Those that have a place among the calls may be waiting for this room.
                self.leave_room(places);
            }
            if !is_turn {
                return Poll::Pending;
            }
            if self.unflushed.has_waiting() && !self.finish_unflushed() {
                wait(&mut self.room, &mut places.room, waker);
                return Poll::Pending;
            }
        }
        let Self { connection, slots, room, .. } = self;
        let mut sent = attempt(connection);
        if let Err(NotSent { need: Some(Need::CallSlot), .. }) = sent
            && connection.make_call_slot()
        {
            sent = attempt(connection);
        }
        match sent {
            Ok(sent) => {
                if places.slot.take().is_some() {
                    slots.use_grant();
                }
                if places.room.take().is_some() {
                    room.use_grant();
                    self.grant_room();
                }
                Poll::Ready(Ok(sent))
            }
            Err(NotSent { need: Some(Need::CallSlot), .. }) if self.may_wait_for_slot() => {
                self.leave_room(places);
                wait(&mut self.slots, &mut places.slot, waker);
                Poll::Pending
            }
            Err(NotSent { need: Some(Need::Room(_)), .. }) => {
                wait(&mut self.room, &mut places.room, waker);
                Poll::Pending
            }
            Err(NotSent { status, .. }) => {
                self.leave(places);
                Poll::Ready(Err(status))
            }
        }
    }

    /// Returns once all that was sent so far is in the channel. Pending: `waker` is woken for
    /// another try.
    pub(super) fn poll_flushed(
        &mut self,
        places: &mut Places,
        waker: &Waker,
    ) -> Poll<Result<(), Status>> {
        let is_flushed = match places.unflushed {
            None => !self.connection.has_pending_writes(),
            Some(position) => {
                let host = self.connection.host();
                host.with_wakes(|wakes| self.unflushed.poll(position, waker, wakes))
            }
        };
        if !is_flushed && !self.connection.is_closed() {
            places.unflushed.get_or_insert_with(|| self.unflushed.join(waker));
            return Poll::Pending;
        }
        self.leave(places);
        Poll::Ready(match self.connection.is_closed() {
            true => Err(self.connection.close_reason()),
            false => Ok(()),
        })
    }

    /// Returns whether all that was sent so far is in the channel; those that wait for that are
    /// woken then.
    #[cold]
    fn finish_unflushed(&mut self) -> bool {
        let is_flushed =
            !self.connection.has_pending_writes() || self.connection.flush(Deadline::NOW);
        if is_flushed {
            self.grant_unflushed();
        }
        is_flushed
    }

    fn grant_unflushed(&mut self) {
        self.connection.host().with_wakes(|wakes| self.unflushed.grant_all(wakes));
    }

    /// Returns whether a call is open whose end makes a place for another one.
    fn may_wait_for_slot(&self) -> bool {
        self.connection.outgoing_calls().0 > 0
    }

    /// A task does not wait any more; another one may have what it was granted.
    pub(super) fn leave(&mut self, places: &mut Places) {
        if let Some(position) = places.slot.take() {
            // Granted anew when the connection is at rest.
            self.connection.host().with_wakes(|wakes| self.slots.leave(position, wakes));
        }
        if let Some(position) = places.unflushed.take() {
            self.connection.host().with_wakes(|wakes| self.unflushed.leave(position, wakes));
        }
        self.leave_room(places);
    }

    /// Returns the status of a request that could not be sent in time, which waits no more.
    pub(super) fn late(&mut self, places: &mut Places) -> Status {
        let status = match places {
            Places { unflushed: Some(_), .. } => self.connection.not_flushed_in_time(),
            Places { slot: Some(_), room: None, .. } => self.connection.no_call_slot_in_time(),
            _ => self.connection.no_room_in_time(),
        };
        self.leave(places);
        status
    }

    fn leave_room(&mut self, places: &mut Places) {
        if let Some(position) = places.room.take()
            && self.connection.host().with_wakes(|wakes| self.room.leave(position, wakes))
        {
            self.grant_room();
        }
    }

    /// Has the first task that waits for room try again. One at a time: how much there is, only a
    /// try finds out.
    fn grant_room(&mut self) {
        if self.room.granted() == 0 {
            self.connection.host().with_wakes(|wakes| self.room.grant(wakes));
        }
    }

    /// Has as many calls try again as there are places.
    fn grant_slots(&mut self) {
        if self.slots.has_waiting() {
            let (_, left) = self.connection.outgoing_calls();
            self.connection.host().with_wakes(|wakes| {
                while self.slots.granted() < left && self.slots.grant(wakes) {}
            });
        }
    }

    /// Begins to look for the reply to a call that is sent next. `None`: it is not looked for. A
    /// plan that does not spin leaves the connection armed, and measures the wait.
    pub(super) fn begin_look(&mut self) -> Option<SpinPlan> {
        let is_alone = || self.connection.open_plain_calls() == 0;
        let is_idle = self.slots.is_idle() && self.room.is_idle();
        if !(self.looks && is_idle && is_alone()) {
            return None;
        }
        let plan = self.spinner.begin();
        if plan.spins() {
            self.connection.with_watched_endpoint(Endpoint::disarm);
        }
        Some(plan)
    }

    /// Looks a few times for the reply to the only call in flight beside streams. The driver leaves
    /// the connection unarmed until these looks are over.
    #[inline]
    pub(super) fn look(&mut self, call: OutgoingCall, plan: &mut SpinPlan, buf: &mut [u8]) -> Look {
        let look = self.look_briefly(call, plan, buf);
        self.is_looked_at = matches!(look, Look::Nothing);
        look
    }

    #[inline]
    fn look_briefly(&mut self, call: OutgoingCall, plan: &mut SpinPlan, buf: &mut [u8]) -> Look {
        if self.connection.open_plain_calls() > 1 {
            self.spinner.record_timeout(*plan);
            return Look::Over;
        }
        for _ in 0..ASYNC_LOOKS_PER_LOCK {
            if plan.spins() && self.connection.poll_ready(1) {
                if let Received::Reply(body) = self.receive(Some(call), buf) {
                    self.spinner.record_hit(*plan);
                    self.end_timed(call);
                    return Look::Reply(body);
                }
                if self.connection.is_closed() || self.connection.has_ended(call) {
                    self.spinner.record_hit(*plan);
                    return Look::Over;
                }
            }
            if !plan.should_spin(&mut self.spinner) {
                self.slept = Some((call, *plan));
                return Look::Over;
            }
            std::hint::spin_loop();
        }
        Look::Nothing
    }

    /// Times a call that is sampled if it is the only one; among others its time would be theirs.
    #[cold]
    pub(super) fn note_timed(&mut self, call: OutgoingCall, begun_ns: u64) {
        match self.connection.open_plain_calls() {
            1 => self.timed = Some((call, begun_ns)),
            _ => self.end_start(),
        }
    }

    /// Notes a call that was only started, or a one-way message.
    #[cold]
    pub(super) fn end_start(&mut self) {
        (self.end_sample)(&self.connection, None, SendMode::Try);
    }

    /// Ends a call, of which a task takes the end. False: it was not timed.
    #[inline]
    pub(super) fn end_timed(&mut self, call: OutgoingCall) -> bool {
        let timed = self.timed.take_if(|(it, _)| *it == call);
        if let Some((_, begun_ns)) = timed {
            (self.end_sample)(&self.connection, Some(begun_ns), SendMode::Try);
        }
        timed.is_some()
    }

    /// Receives and handles one message, if there is one.
    fn receive(&mut self, wanted: Option<OutgoingCall>, buf: &mut [u8]) -> Received {
        let connection = &self.connection;
        match connection.receive(Deadline::NOW, buf, wanted) {
            Event::Reply(start, end) => return Received::Reply(start..end),
            Event::Empty => return Received::Empty,
            Event::Closed => return Received::Closed,
            Event::Call(head, _) => refuse(connection, head.call),
            Event::Queued => {
                while let Some(inbound) = connection.take_inbound() {
                    refuse(connection, inbound.head.call);
                    connection.buffers().give(inbound.buffer);
                }
            }
            Event::Handled => {}
        }
        connection.finish_message();
        Received::Message
    }

    /// Receives what has come, for the driver, up to a bound.
    pub(super) fn turn(&mut self, may_have_room: bool) {
        let mut buf = InlineBuf::take();
        if self.connection.has_pending_writes() {
            self.connection.flush(Deadline::NOW);
        }
        self.connection.host().begin_turn();
        for _ in 0..ASYNC_MESSAGES_PER_TURN_MAX {
            match self.receive(None, &mut buf) {
                Received::Empty | Received::Closed => break,
                Received::Reply(_) | Received::Message => {}
            }
            if !self.connection.host().may_receive_more() {
                break;
            }
        }
        self.note_wake();
        if self.watches.peer && !self.connection.is_closed() {
            self.check_peer();
        }
        if may_have_room && !self.connection.has_pending_writes() {
            self.grant_room();
        }
    }

    /// Ends the connection if the process at the other end has ended. What it has sent was
    /// received.
    fn check_peer(&self) {
        if let Peer::Process(PeerIdentity { pidfd: Some(pidfd), .. }) = &self.connection.peer
            && process::wait_pidfd(pidfd, Deadline::NOW).unwrap_or(false)
        {
            let text = format!("the process of {} has ended", self.connection.name);
            self.connection.close(Status::unavailable(text));
        }
    }

    /// Learns from the wait of the call that was looked for without success, once that has ended.
    fn note_wake(&mut self) {
        if let Some((call, plan)) = self.slept
            && self.connection.has_ended(call)
        {
            self.slept = None;
            self.spinner.record_wake(plan);
        }
    }

    /// Leaves the connection so that the driver is woken for whatever is waited for.
    /// `is_idle_armed`: also for what no task waits for, such as the end of the server.
    pub(super) fn rest(&mut self, driver: &DriverHandle, id: u64, is_idle_armed: bool) {
        self.is_restless = true;
        if !is_idle_armed {
            self.connection.host().begin_turn();
        }
        let mut is_idle_armed = is_idle_armed || std::mem::take(&mut self.owes_idle_arm);
        for _ in 0..ASYNC_MESSAGES_PER_TURN_MAX {
            let is_moving = self.is_moving();
            if is_moving {
                is_idle_armed = true;
                self.follow_switch(driver, id);
                self.due = self.due.min(self.connection.switch_due());
            }
            self.grant_slots();
            if !self.has_drained && !self.connection.is_open() {
                self.drain_waiters();
            }
            if self.connection.is_closed() {
                self.is_restless = false;
                return self.end(driver);
            }
            let has_pending_writes = self.connection.has_pending_writes();
            if !has_pending_writes && self.unflushed.has_waiting() {
                self.grant_unflushed();
            }
            let needs_room =
                has_pending_writes || (self.room.has_waiting() && self.room.granted() == 0);
            let needs_room = needs_room && (!is_moving || self.connection.is_room_reported());
            let reports_room = self.watch_for_room(driver, id, needs_room);
            let (open, _) = self.connection.outgoing_calls();
            if !needs_room && open == 0 && !is_idle_armed {
                self.is_restless = false;
                break;
            }
            if needs_room && !self.arm(Interest::Send) {
                match has_pending_writes {
                    true => drop(self.connection.flush(Deadline::NOW)),
                    false => self.grant_room(),
                }
                continue;
            }
            if self.arm(Interest::Receive) {
                // What the kernel does not report, the driver looks for.
                self.is_restless = !reports_room;
                break;
            }
            if !self.connection.host().may_receive_more() {
                break;
            }
            // The task may look for its reply in the buffer of the thread.
            self.receive(None, &mut [0; SMALL_BYTES]);
            self.note_wake();
        }
        let deadline = self.connection.host().take_deadline();
        if self.connection.outgoing_calls().0 > 0 {
            self.due = self.due.min(deadline);
        }
    }

    /// Takes back, for the driver, that the connection is armed, and the wake-ups that are left,
    /// while a task looks for its reply: that comes without a wake-up, otherwise the driver would
    /// be awake for it, arm again amid the next look, and so on.
    pub(super) fn leave_to_looks(&mut self) {
        let needs_room = self.connection.has_pending_writes() || !self.room.is_idle();
        if self.is_looked_at && !needs_room && !self.connection.is_closed() {
            self.connection.with_watched_endpoint(Endpoint::disarm);
            self.owes_idle_arm = true;
        }
    }

    fn arm(&self, interest: Interest) -> bool {
        self.connection.with_watched_endpoint(|endpoint| endpoint.arm(interest))
    }

    /// The connection has ended: no task waits for it without success, and nothing is watched.
    #[cold]
    fn end(&mut self, driver: &DriverHandle) {
        self.connection.host().with_wakes(|wakes| {
            self.slots.grant_all(wakes);
            self.room.grant_all(wakes);
            self.unflushed.grant_all(wakes);
        });
        self.fail_switch();
        self.unwatch(driver);
    }

    /// Watches the descriptor that reports messages.
    pub(super) fn watch(&mut self, driver: &DriverHandle, id: u64) -> std::io::Result<()> {
        let watched = self.connection.with_watched_endpoint(|endpoint| {
            let Some(readiness) = endpoint.readiness(Interest::Receive) else {
                return Err(std::io::Error::from(std::io::ErrorKind::Unsupported));
            };
            let interest = kernel_interest(&readiness);
            driver.watch(id, readiness.fd, interest, Watched::Receive)
        });
        self.watches.receive = watched.is_ok();
        watched
    }

    /// Watches the process at the other end, if the kernel has a pidfd of it.
    pub(super) fn watch_peer(&mut self, driver: &DriverHandle, id: u64) -> std::io::Result<()> {
        if let Peer::Process(PeerIdentity { pidfd: Some(pidfd), .. }) = &self.connection.peer
            && !self.connection.is_closed()
        {
            driver.watch(id, pidfd, poll::Interest::Readable, Watched::Receive)?;
            self.watches.peer = true;
        }
        Ok(())
    }

    /// Watches for room as well, or no longer. False: the kernel refuses to watch it.
    fn watch_for_room(&mut self, driver: &DriverHandle, id: u64, wanted: bool) -> bool {
        if wanted == (self.watches.both || self.watches.send) {
            return true;
        }
        let watches = &mut self.watches;
        self.connection
            .with_watched_endpoint(|endpoint| watch_for_room(driver, id, wanted, watches, endpoint))
    }

    /// Ends the watch of all descriptors, before they are closed.
    pub(super) fn unwatch(&mut self, driver: &DriverHandle) {
        let peer = std::mem::take(&mut self.watches.peer);
        if let Peer::Process(PeerIdentity { pidfd: Some(pidfd), .. }) = &self.connection.peer
            && peer
        {
            driver.unwatch(pidfd);
        }
        self.unwatch_channel(driver);
    }

    /// Ends the watch of the descriptors of the channel.
    pub(super) fn unwatch_channel(&mut self, driver: &DriverHandle) {
        let Watches { receive, send, peer, .. } = std::mem::take(&mut self.watches);
        self.watches.peer = peer;
        for (interest, is_watched) in [(Interest::Receive, receive), (Interest::Send, send)] {
            self.connection.with_watched_endpoint(|endpoint| {
                if is_watched && let Some(readiness) = endpoint.readiness(interest) {
                    driver.unwatch(readiness.fd);
                }
            });
        }
    }
}

/// Returns whether a task need not wait for others.
#[inline]
fn may_try(
    waiters: &mut Waiters,
    place: &mut Option<QueuePosition>,
    waker: &Waker,
    wakes: &mut WakeList,
) -> bool {
    match *place {
        None if waiters.is_idle() => true,
        None => {
            *place = Some(waiters.join(waker));
            false
        }
        Some(position) => waiters.poll(position, waker, wakes),
    }
}

/// Has a task wait that has tried without success.
#[cold]
fn wait(waiters: &mut Waiters, place: &mut Option<QueuePosition>, waker: &Waker) {
    match *place {
        Some(position) => waiters.give_back(position, waker),
        None => *place = Some(waiters.join(waker)),
    }
}

/// Answers a call of the server, which may not make any.
#[cold]
fn refuse(connection: &Connection<AsyncHost>, call: Option<IncomingCall>) {
    if let Some(call) = call {
        let text = "the peer is a client and serves no objects";
        connection.fail(call, &Status::unimplemented(text));
    }
}

#[cold]
fn watch_for_room(
    driver: &DriverHandle,
    id: u64,
    wanted: bool,
    watches: &mut Watches,
    endpoint: &mut Endpoint,
) -> bool {
    let (Some(messages), Some(room)) =
        (endpoint.readiness(Interest::Receive), endpoint.readiness(Interest::Send))
    else {
        return true;
    };
    if messages.fd.as_raw_fd() == room.fd.as_raw_fd() {
        // A doorbell is watched in the same way, whatever it rings for.
        if room.writable {
            let interest = if wanted { poll::Interest::Both } else { poll::Interest::Readable };
            driver.watch_for(id, messages.fd, interest);
        }
        watches.both = wanted;
        return true;
    }
    if !wanted {
        driver.unwatch(room.fd);
        watches.send = false;
        return true;
    }
    let interest = kernel_interest(&room);
    watches.send = driver.watch(id, room.fd, interest, Watched::Send).is_ok();
    watches.send
}
