//! A connection that tasks of any thread share, for callers whose calls are futures.
//!
//! Whichever thread polls a task moves the connection on; what no task is polled for, one thread of
//! the process waits for (`async_connection/driver.rs`).
//! **Invariants:** the lock is held for one step: a message that is marshalled or received, a few
//! looks for a reply, and never while anything waits; no waker is woken and no result of a user's
//! type is read while it is held, except small ones.
//! **Not here:** the state behind the lock (`async_connection/shared.rs`), opening connections
//! (`clients/async_routes.rs`), futures (`async_call.rs`).
//!
//! **Invariant:** a mutex of an async connection is held for one step and never across a wait, and
//! no waker runs or is dropped under it; a task whose operations never wait yields after
//! `ASYNC_OPERATIONS_PER_YIELD` of them. *Checked by* `tests/it/async_client`, whose tests drop
//! futures at each point.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use bytes::Bytes;
use nearcall_channel::SpinPlan;
use nearcall_wire::{HEADER_BYTES, InstanceId, OutgoingCall, Shape};

use crate::borrowed::BorrowedSegments;
use crate::codec::{self, Body, Message};
use crate::connection::buffer_pool::InlineBuf;
use crate::connection::connection_info::ConnectionInfo;
use crate::connection::{Connection, Oneway, Outcome, Outgoing};
use crate::connection::{Reply, SendMode, UNARY};
use crate::deadline::Deadline;
use crate::decoded_size::{self, MessageType};
use crate::limits::{ASYNC_LOCK_SPINS_MAX, SHARED_BYTES_MIN};
use crate::metadata::{Entries, ReplyMetadata};
use crate::peer::Peer;
use crate::status::Status;
use crate::streams::call_stream::CallStream;

mod driver;
mod host;
mod shared;
mod switch_slot;
mod switching;
mod waiters;

pub(crate) use self::driver::{Appearance, DriverHandle, Timer, no_driver};
pub(crate) use self::host::{AsyncHost, check_waits};
pub(crate) use self::shared::Places;
use self::shared::{EndSample, Look, Shared};
pub(crate) use self::switch_slot::SwitchSlot;
use self::waiters::WakeList;

/// A connection that tasks of any thread share.
pub(crate) struct AsyncConnection {
    shared: Mutex<Shared>,
    driver: DriverHandle,
    /// The driver wants the lock: a task that looks for its reply leaves it alone meanwhile.
    driver_waits: AtomicBool,
    id: u64,
    /// Counts the connection while it lives.
    _account: Box<dyn Send + Sync>,
    /// Lets go of the connection once it takes no more calls, and may be called again.
    on_end: Box<OnEnd>,
}

/// What the end of a connection is reported to, with no lock held: that it has ended, or takes no
/// more calls.
type OnEnd = dyn Fn(&AsyncConnection) + Send + Sync;

/// A call that was started.
pub(crate) enum StartedCall<R> {
    /// Its reply was found at once.
    Ended(Result<R, Status>),
    /// Its task is woken when it ends.
    Waits(OutgoingCall),
}

impl AsyncConnection {
    /// Shares a connection that has greeted. `on_end` is called once it takes no more calls, and
    /// may be called again; what it lets go of then is closed without another call, when the last
    /// of those that are open has ended.
    ///
    /// # Errors
    ///
    /// The kernel's, for a descriptor that cannot be watched.
    pub(crate) fn new(
        connection: Connection<AsyncHost>,
        driver: DriverHandle,
        account: impl Send + Sync + 'static,
        end_sample: EndSample,
        on_end: impl Fn(&Self) + Send + Sync + 'static,
    ) -> std::io::Result<Arc<Self>> {
        let id = driver.next_id();
        let shared = Mutex::new(Shared::new(connection, end_sample));
        let (_account, on_end) = (Box::new(account), Box::new(on_end));
        let driver_waits = AtomicBool::new(false);
        let this = Arc::new(Self { shared, driver, driver_waits, id, _account, on_end });
        this.driver.add(id, &this)?;
        this.locked(|shared| shared.watch(&this.driver, id))?;
        // What came with the greeting is not waited for by anything else.
        this.locked(|shared| shared.rest(&this.driver, id, true));
        Ok(this)
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does one step with the connection, and afterwards what must not be done under its lock.
    #[inline]
    fn locked<T>(&self, step: impl FnOnce(&mut Shared) -> T) -> T {
        self.locked_by(Self::lock, step)
    }

    #[inline]
    fn locked_by<T>(
        &self,
        lock: impl FnOnce(&Self) -> MutexGuard<'_, Shared>,
        step: impl FnOnce(&mut Shared) -> T,
    ) -> T {
        // Dropped in this order also if a request panics while it is marshalled, so that its call
        // alone ends: what is left to do is collected, the lock released, and the rest done.
        let mut rest = AfterStep::new(self);
        let mut locked = Locked { shared: lock(self), rest: &mut rest };
        step(&mut locked.shared)
    }

    /// As [`locked`](Self::locked), and leaves the connection at rest.
    #[inline]
    fn use_and_rest<T>(&self, step: impl FnOnce(&mut Shared) -> T) -> T {
        self.locked(|shared| {
            let outcome = step(shared);
            shared.rest(&self.driver, self.id, false);
            outcome
        })
    }

    /// Returns whether calls can be started on it.
    pub(crate) fn is_open(&self) -> bool {
        let shared = self.lock();
        shared.connection.is_open() && !shared.connection.is_closed()
    }

    /// Returns why it takes no more calls.
    pub(crate) fn close_reason(&self) -> Status {
        self.lock().connection.close_reason()
    }

    /// Ends the connection; all calls on it end with `reason`.
    pub(crate) fn close(&self, reason: Status) {
        self.use_and_rest(|shared| shared.connection.close(reason));
    }

    /// Returns what tools show of it, while it is open.
    pub(crate) fn info(&self) -> Option<ConnectionInfo> {
        let shared = self.lock();
        (!shared.connection.is_closed()).then(|| shared.connection.info())
    }

    /// Returns the other end.
    pub(crate) fn peer(&self) -> Peer {
        self.lock().connection.peer.clone()
    }

    /// Returns the instance at the other end, as that claims.
    pub(crate) fn peer_instance(&self) -> Option<InstanceId> {
        self.lock().connection.peer_instance()
    }

    /// Returns whether the other end has said that it takes no more calls.
    pub(crate) fn peer_drains(&self) -> bool {
        self.lock().connection.peer_drains()
    }

    /// Ends the connection with the process at the other end as well, which may have left its end
    /// to another process.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub(crate) fn watch_peer(&self) -> std::io::Result<()> {
        self.locked(|shared| shared.watch_peer(&self.driver, self.id))
    }

    /// Pings the other end. Returns false if it has not answered the last ping yet.
    pub(crate) fn ping(&self) -> bool {
        self.locked(|shared| {
            let is_sent = shared.connection.ping();
            // No task waits for the answer, but the driver takes it.
            shared.rest(&self.driver, self.id, true);
            is_sent
        })
    }

    /// Starts a call when it is its turn, and looks for its reply for as long as that has paid
    /// lately. Pending: `waker` is woken for another try. `metadata`: where to put those of the
    /// reply.
    pub(crate) fn start_call<R: Message + Default>(
        &self,
        places: &mut Places,
        waker: &Waker,
        outgoing: &Outgoing<'_>,
        request: &impl Message,
        metadata: Option<&mut ReplyMetadata>,
        reply: MessageType,
    ) -> Poll<Result<StartedCall<R>, Status>> {
        let mut buf = InlineBuf::take();
        let mut plan = None;
        let (begun, mut look) = self.locked(|shared| {
            let attempt = |connection: &Connection<AsyncHost>| {
                connection.request(UNARY, outgoing, request, SendMode::Try)
            };
            // Before it has its turn: a call that has waited for that is not looked for, since it
            // still stands in its queue here.
            plan = shared.begin_look();
            let begun_ns = begin_sample(shared, places);
            let begun = shared.begin_request(places, waker, true, attempt);
            if let (Some(begun_ns), Poll::Ready(Ok(call))) = (begun_ns, &begun) {
                shared.note_timed(*call, begun_ns);
            }
            let mut look = Look::Over;
            if let (Poll::Ready(Ok(call)), Some(plan)) = (&begun, &mut plan) {
                look = shared.look(*call, plan, &mut buf);
            }
            if !matches!(look, Look::Nothing) {
                shared.rest(&self.driver, self.id, false);
            }
            (begun, look)
        });
        let call = match begun {
            Poll::Ready(Ok(call)) => call,
            Poll::Ready(Err(status)) => return Poll::Ready(Err(status)),
            Poll::Pending => return Poll::Pending,
        };
        while let (Look::Nothing, Some(plan)) = (&look, &mut plan) {
            self.let_driver_pass();
            look = self.look_on(call, plan, &mut buf);
        }
        Poll::Ready(Ok(match look {
            Look::Reply(body) => {
                if let Some(metadata) = metadata {
                    let trailers = Entries::from_peer(&buf[HEADER_BYTES..body.start]);
                    let headers = self.with(|connection| connection.take_headers(call));
                    *metadata = ReplyMetadata { trailers, headers };
                }
                StartedCall::Ended(codec::decode(Body::copied(&buf[body])))
            }
            Look::Nothing | Look::Over => match self.poll_call(call, waker, metadata, reply) {
                Poll::Ready(outcome) => StartedCall::Ended(outcome),
                Poll::Pending => StartedCall::Waits(call),
            },
        }))
    }

    /// Starts a call that streams when it is its turn. Pending: `waker` is woken for another try.
    pub(crate) fn start_stream(
        &self,
        places: &mut Places,
        waker: &Waker,
        outgoing: &Outgoing<'_>,
        request: &impl Message,
        shape: Shape,
    ) -> Poll<Result<(OutgoingCall, Arc<CallStream>), Status>> {
        self.use_and_rest(|shared| {
            shared.begin_request(places, waker, true, |connection| {
                connection.start_stream(outgoing, request, shape, SendMode::Try)
            })
        })
    }

    /// Sends an item when it is its turn and there is credit for it. Pending: `waker` is woken for
    /// another try, by whatever the task waits for and by the end of the call.
    pub(crate) fn poll_send_item(
        &self,
        places: &mut Places,
        waker: &Waker,
        call: OutgoingCall,
        item: &impl Message,
        stream: &CallStream,
    ) -> Poll<Result<(), Status>> {
        self.use_and_rest(|shared| {
            if stream.received.has_ended() {
                shared.leave(places);
                return Poll::Ready(Err(Status::cancelled("the call has ended")));
            }
            let sent = shared
                .begin(places, waker, false, |connection| connection.try_send_item(call, item));
            match sent {
                Poll::Ready(Ok(false)) | Poll::Pending => {
                    // Also in the queue for room: the end of the call may come first, and before
                    // this task had an attempt.
                    shared.connection.set_sender(stream, waker);
                    Poll::Pending
                }
                Poll::Ready(sent) => Poll::Ready(sent.map(drop)),
            }
        })
    }

    /// Looks a few more times, and has the driver wait once it is over.
    fn look_on(&self, call: OutgoingCall, plan: &mut SpinPlan, buf: &mut [u8]) -> Look {
        self.locked(|shared| {
            let look = shared.look(call, plan, buf);
            if !matches!(look, Look::Nothing) {
                shared.rest(&self.driver, self.id, false);
            }
            look
        })
    }

    /// Returns the end of a call, if it has come; `waker` is woken when it does. `metadata`: where
    /// to put those of the reply.
    pub(crate) fn poll_call<R: Message + Default>(
        &self,
        call: OutgoingCall,
        waker: &Waker,
        metadata: Option<&mut ReplyMetadata>,
        reply: MessageType,
    ) -> Poll<Result<R, Status>> {
        self.poll_end(call, waker, reply, |outcome| {
            if let (Ok(reply), Some(metadata)) = (outcome, metadata) {
                *metadata = reply.metadata();
            }
        })
    }

    /// As [`poll_call`](Self::poll_call). `note` sees the end before another thread can find that
    /// it was taken: it runs under the lock of the connection.
    pub(crate) fn poll_end<R: Message + Default>(
        &self,
        call: OutgoingCall,
        waker: &Waker,
        reply: MessageType,
        note: impl FnOnce(&Outcome),
    ) -> Poll<Result<R, Status>> {
        let ended = self.locked(|shared| {
            let outcome = shared.connection.take_outcome(call);
            if outcome.is_some() && shared.end_timed(call) {
                shared.rest(&self.driver, self.id, false);
            }
            let connection = &shared.connection;
            match outcome {
                Some(outcome) => {
                    note(&outcome);
                    Some(Ended::of(connection, outcome))
                }
                None => {
                    connection.set_waker(call, waker);
                    None
                }
            }
        });
        match ended {
            Some(ended) => Poll::Ready(ended.read(reply)),
            None => Poll::Pending,
        }
    }

    /// Gives a call up: the server is informed at once, if there is room in the channel.
    pub(crate) fn cancel(&self, call: OutgoingCall) {
        self.use_and_rest(|shared| shared.connection.cancel(call));
    }

    /// Sends a message that is never answered when it is its turn. False: a part of it is not in
    /// the channel yet, see [`poll_flushed`](Self::poll_flushed). Pending: `waker` is woken for
    /// another try.
    pub(crate) fn send_oneway(
        &self,
        places: &mut Places,
        waker: &Waker,
        outgoing: &Outgoing<'_>,
        request: &impl Message,
    ) -> Poll<Result<bool, Status>> {
        self.use_and_rest(|shared| {
            let is_sampled = begin_sample(shared, places).is_some();
            let sent = shared.begin_request(places, waker, false, |connection| {
                connection.request(Oneway, outgoing, request, SendMode::Try)
            });
            if is_sampled && matches!(sent, Poll::Ready(Ok(()))) {
                shared.end_start();
            }
            let Poll::Ready(Ok(())) = sent else { return sent.map_ok(|()| false) };
            match shared.poll_flushed(places, waker) {
                Poll::Pending => Poll::Ready(Ok(false)),
                Poll::Ready(flushed) => Poll::Ready(flushed.map(|()| true)),
            }
        })
    }

    /// Returns once a message that was sent is in the channel as a whole. Pending: `waker` is woken
    /// for another try.
    pub(crate) fn poll_flushed(
        &self,
        places: &mut Places,
        waker: &Waker,
    ) -> Poll<Result<(), Status>> {
        self.use_and_rest(|shared| shared.poll_flushed(places, waker))
    }

    /// Returns the status of a request that could not be sent in time, which waits no more.
    #[cold]
    pub(crate) fn late(&self, places: &mut Places) -> Status {
        self.use_and_rest(|shared| shared.late(places))
    }

    /// A task does not wait any more to send a request.
    pub(crate) fn leave(&self, places: &mut Places) {
        if !places.is_empty() {
            self.use_and_rest(|shared| shared.leave(places));
        }
    }

    /// Uses the connection for something else that does not wait, and leaves it at rest.
    pub(crate) fn with<T>(&self, step: impl FnOnce(&Connection<AsyncHost>) -> T) -> T {
        self.use_and_rest(|shared| step(&shared.connection))
    }

    /// Waits, without the lock, while the driver wants it or has it. A task that took it for each
    /// of its looks would have the driver sleep and wake up again and again.
    #[inline]
    fn let_driver_pass(&self) {
        for _ in 0..ASYNC_LOCK_SPINS_MAX {
            if !self.driver_waits.load(Ordering::Relaxed) {
                return;
            }
            std::hint::spin_loop();
        }
    }

    /// Takes the lock for the driver, which rarely has to sleep for that.
    fn lock_for_driver(&self) -> MutexGuard<'_, Shared> {
        for _ in 0..ASYNC_LOCK_SPINS_MAX {
            if let Ok(shared) = self.shared.try_lock() {
                return shared;
            }
            std::hint::spin_loop();
        }
        self.lock()
    }

    /// Receives what has come, for the driver. False: there may be more.
    fn turn(&self, may_have_room: bool) -> bool {
        self.driver_waits.store(true, Ordering::Relaxed);
        let is_over = self.locked_by(Self::lock_for_driver, |shared| {
            shared.turn(may_have_room);
            shared.rest(&self.driver, self.id, true);
            shared.leave_to_looks();
            !std::mem::take(&mut shared.is_restless)
        });
        self.driver_waits.store(false, Ordering::Relaxed);
        is_over
    }

    /// Ends the calls, and the switch, whose deadlines have passed, for the driver. Returns the
    /// next deadline.
    fn handle_timeout(&self, now: Deadline) -> Deadline {
        let next = || {
            let connection = &self.lock().connection;
            connection.next_deadline().min(connection.switch_due())
        };
        if next() <= now {
            self.use_and_rest(|shared| shared.connection.handle_timeout());
        }
        next()
    }
}

/// Works like [`Connection::begin_sample`]. One that has waited for its turn would be sampled at
/// each try.
#[inline(always)]
fn begin_sample(shared: &Shared, places: &Places) -> Option<u64> {
    if places.is_empty() { shared.connection.begin_sample() } else { None }
}

/// A step with a connection.
struct Locked<'a, 'b> {
    shared: MutexGuard<'a, Shared>,
    rest: &'b mut AfterStep<'a>,
}

impl Drop for Locked<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        let Self { shared, rest } = self;
        rest.wakes = shared.connection.host().take_wakes();
        rest.due = std::mem::replace(&mut shared.due, Deadline::NEVER);
        rest.is_restless = std::mem::take(&mut shared.is_restless) || std::thread::panicking();
        rest.has_ended = shared.connection.is_closed() || shared.has_drained();
    }
}

/// What is done after a step, without the lock.
struct AfterStep<'a> {
    of: &'a AsyncConnection,
    wakes: Option<WakeList>,
    due: Deadline,
    is_restless: bool,
    has_ended: bool,
}

impl<'a> AfterStep<'a> {
    #[inline]
    fn new(of: &'a AsyncConnection) -> Self {
        Self { of, wakes: None, due: Deadline::NEVER, is_restless: false, has_ended: false }
    }
}

impl Drop for AfterStep<'_> {
    #[inline]
    fn drop(&mut self) {
        self.of.driver.note_due(self.due);
        if self.is_restless {
            self.of.driver.look_again(self.of.id);
        }
        if self.has_ended {
            (self.of.on_end)(self.of);
        }
        // Last, and one by one: they run code of users.
        if let Some(wakes) = self.wakes.take() {
            wakes.run();
        }
    }
}

impl Drop for AsyncConnection {
    fn drop(&mut self) {
        self.driver.remove(self.id);
        let shared = self.shared.get_mut().unwrap_or_else(PoisonError::into_inner);
        shared.unwatch(&self.driver);
    }
}

/// The end of a call as it left the lock.
enum Ended<R> {
    /// It was small, and read at once.
    Read(Result<R, Status>),
    /// A long reply, and where its result begins; the memory that decoding it may take.
    Long(Bytes, usize, u32),
    /// A reply of which parts lie in memory of the server.
    Borrowed(Vec<u8>, Box<BorrowedSegments>, u32),
}

impl<R: Message + Default> Ended<R> {
    fn of(connection: &Connection<AsyncHost>, outcome: Outcome) -> Self {
        let Reply { buffer, body, borrowed, .. } = match outcome {
            Ok(reply) => reply,
            Err(status) => return Self::Read(Err(status)),
        };
        let buffers = connection.buffers();
        if let Some(segments) = borrowed {
            return Self::Borrowed(buffer, segments, connection.decoded_bytes_max);
        }
        let Range { start, end } = body;
        if end >= SHARED_BYTES_MIN {
            let whole = buffers.share(buffer, end);
            return Self::Long(whole, start, connection.decoded_bytes_max);
        }
        let result = codec::decode(Body::copied(&buffer[start..end]));
        buffers.give(buffer);
        Self::Read(result)
    }

    fn read(self, reply: MessageType) -> Result<R, Status> {
        let decode = |body: Body<'_>, max| {
            decoded_size::check(&body, reply, max)?;
            codec::decode(body)
        };
        match self {
            Self::Read(result) => result,
            Self::Long(whole, start, max) => decode(Body::sliced(&whole, start), max),
            Self::Borrowed(buffer, segments, max) => {
                decode(Body::borrowed(&buffer[segments.rest.clone()], &segments), max)
            }
        }
    }
}
