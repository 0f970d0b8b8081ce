//! Attaching to a server: one notice when it is gone, with the cause.
//!
//! An attachment has a connection of its own, over which nothing travels but the greeting, the
//! server's goodbye and pings. The driver's thread waits for it.
//! **Invariants:** an attachment gives one notice, and no other afterwards; the cause comes from
//! the kernel or from the server's own goodbye; a number of a process is never used to find it.
//! **Not here:** the connection (`async_connection.rs`), opening it (`clients/async_opening.rs`),
//! connecting again (`reconnect.rs`), finding the cause, which takes time
//! (`clients/attach/ending.rs`).
//!
//! **Invariant:** an attachment gives one notice, and its cause comes from the kernel's pidfd of
//! the process that answered or from that server's own goodbye, never from a number that a process
//! has or had. *Checked by* `tests/it/attach.rs`.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use nearcall_os::eventfd;
use nearcall_os::poll::{self, Interest};

use self::ending::Ending;
use super::route::Route;
use super::shared::ClientShared;
use super::waiting::waiting_failed;
use super::{Client, async_opening};
use crate::address::{Address, At, BadAddress};
use crate::async_connection::{AsyncConnection, Timer};
use crate::deadline::Deadline;
use crate::event_loop::EventLoop;
use crate::event_loop::poster::Poster;
use crate::limits::PING_INTERVAL_MIN;
use crate::status::Status;
use crate::tasks::mailbox::{Mailbox, Post};
use crate::waking;

mod ending;

/// Why a server is gone.
///
/// Stands in the [`Notice`] that an [`Attachment`] gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Its process has exited without a goodbye.
    Exited {
        /// The exit code, 0 to 255.
        code: i32,
    },
    /// Its process was killed.
    Killed {
        /// The number of the signal.
        signal: i32,
    },
    /// It takes no more calls, by its own decision: it drains, or has closed the connection while
    /// its process goes on. Also if its successor takes more than 100 ms to answer, as one does
    /// that is started only afterwards: [`Client::hunt`] waits for it.
    Closed,
    /// As [`Closed`](Self::Closed), and another server answers at the address already.
    Replaced {
        /// The process id of the new one, where the kernel reports it.
        pid: Option<i32>,
    },
    /// It has not answered a ping in time ([`AttachOptions::ping`]). It may go on later.
    Unresponsive,
    /// The connection has ended, and the kernel does not report why: the server is on another
    /// machine, the kernel is too old, or the process of another user was not waited for yet.
    Lost,
}

/// How the cause was learned.
///
/// Stands in the [`Notice`] that an [`Attachment`] gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoticeSource {
    /// The pidfd of the server's process.
    Pidfd,
    /// The end of the connection, or the goodbye that came over it.
    ControlLine,
    /// A ping without an answer.
    Ping,
}

/// The one notice of an [`Attachment`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Notice {
    /// Why the server is gone.
    pub cause: Cause,
    /// How that was learned.
    pub source: NoticeSource,
    /// The address that was attached to.
    pub address: String,
    /// The process id that the server had, where the kernel reports it. Another process may have
    /// it by now.
    pub pid: Option<i32>,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server at {}", self.address)?;
        if let Some(pid) = self.pid {
            write!(f, " (process id {pid})")?;
        }
        match self.cause {
            Cause::Exited { code } => write!(f, " has exited with code {code}")?,
            Cause::Killed { signal } => write!(f, " was killed by signal {signal}")?,
            Cause::Closed => f.write_str(" has closed")?,
            Cause::Replaced { pid: Some(pid) } => {
                write!(f, " was replaced by the process with the id {pid}")?;
            }
            Cause::Replaced { pid: None } => f.write_str(" was replaced by another one")?,
            Cause::Unresponsive => f.write_str(" does not answer pings")?,
            Cause::Lost => f.write_str(" is gone, and the kernel does not report why")?,
        }
        f.write_str(match self.source {
            NoticeSource::Pidfd => " (learned by its pidfd)",
            NoticeSource::ControlLine => " (learned by its connection)",
            NoticeSource::Ping => " (learned by a ping)",
        })
    }
}

/// How a server is attached to.
///
/// See [`Client::attach_with`](crate::Client::attach_with).
#[derive(Debug, Clone, Copy, Default)]
pub struct AttachOptions {
    ping: Option<Duration>,
}

impl AttachOptions {
    /// The default: no pings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Pings the server each `interval`. A ping that is not answered when the next one is due ends
    /// the attachment with [`Cause::Unresponsive`]: choose it longer than the longest method that
    /// holds up a loop of the server.
    #[must_use]
    pub fn ping(mut self, interval: Duration) -> Self {
        self.ping = Some(interval);
        self
    }
}

/// A watch over a server, until it is dropped. From [`Client::attach`].
///
/// It gives one [`Notice`]. Wait for it ([`wait`](Self::wait)), await it ([`ended`](Self::ended)),
/// have a closure run in a loop ([`notify`](Self::notify)), or wait for the descriptor
/// ([`AsFd`]), which is readable from the notice on. Any thread may use it.
///
/// It is about the instance that answered when it was made. After the notice make another one.
pub struct Attachment {
    watch: Arc<ServerWatch>,
}

/// Runs once the notice is there.
type OnNotice = Box<dyn FnOnce(Notice) + Send>;

struct ServerWatch {
    client: Arc<ClientShared>,
    address: String,
    route: Route,
    ping: Option<Duration>,
    /// What gives the notice has begun, or the attachment was dropped.
    is_over: AtomicBool,
    notice: OnceLock<Notice>,
    /// Readable once there is a notice.
    bell: OwnedFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    connection: Option<Arc<AsyncConnection>>,
    /// When the next ping is due.
    next_ping: Option<(Timer, Deadline)>,
    /// Those of futures that wait for the notice, by their numbers.
    wakers: BTreeMap<u64, Waker>,
    last_waker: u64,
    on_notice: Vec<OnNotice>,
}

impl Client {
    /// Attaches to the server at `address`: connects to it, and gives one notice when it is gone,
    /// with the cause. A client in a loop serves meanwhile.
    ///
    /// An attachment has a connection of its own, by the mechanism of the address, and counts to
    /// [`Limits::client_connections_max`](crate::Limits); [`connections`](Self::connections) does
    /// not list it. It needs a mechanism that has a descriptor, such as `shm` or `unix-stream`.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE`: no server listens; [`hunt`](Self::hunt) waits for one. `INVALID_ARGUMENT`:
    /// the text is no address. `FAILED_PRECONDITION`: the mechanism has no descriptor, or is not
    /// available here. `RESOURCE_EXHAUSTED`: no more connections, threads or descriptors.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../../doc/room.txt")]
    /// use std::time::Duration;
    ///
    /// # let address = &*serve_elsewhere("attach");
    /// let client = nearcall::Client::new();
    /// let attachment = client.attach(address)?; // such as "thermostat"
    /// // Nothing has happened to the server so far.
    /// assert_eq!(attachment.wait(Duration::from_millis(1)), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn attach(&self, address: &str) -> Result<Attachment, Status> {
        self.attach_with(address, AttachOptions::new())
    }

    /// Attaches to the server at `address` with options.
    ///
    /// # Errors
    ///
    /// As [`attach`](Self::attach), and `INVALID_ARGUMENT` for a ping interval below 1 ms.
    pub fn attach_with(&self, address: &str, options: AttachOptions) -> Result<Attachment, Status> {
        let watch = self.watch(address, options)?;
        let core = self.core()?;
        let Some(reactor) = core.reactor() else { return watch.open() };
        // The server may be one of this loop.
        let opening =
            PendingAttach::start(watch, Waker::from(Arc::new(WakeLoop(reactor.mailbox.clone()))))?;
        let mut outcome = None;
        let opened = reactor.run_until(Deadline::NEVER, || {
            outcome = lock(&opening.outcome).take();
            outcome.is_some()
        });
        opened.map_err(|error| waiting_failed(&error))?;
        outcome.unwrap_or_else(|| Err(Status::internal("attaching ended without an outcome")))
    }

    /// Attaches to the server at `address` without holding an executor's thread.
    ///
    /// # Errors
    ///
    /// As [`attach_with`](Self::attach_with).
    pub async fn attach_async(
        &self,
        address: &str,
        options: AttachOptions,
    ) -> Result<Attachment, Status> {
        let mut watch = Some(self.watch(address, options)?);
        let mut opening = None;
        poll_fn(|context| {
            if let Some(watch) = watch.take() {
                opening = Some(PendingAttach::start(watch, context.waker().clone())?);
            }
            let Some(opening) = &opening else {
                return Poll::Ready(Err(Status::internal("attaching was not started")));
            };
            // In this order, or the end may come between the two.
            *lock(&opening.waker) = Some(context.waker().clone());
            lock(&opening.outcome).take().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    fn watch(&self, address: &str, options: AttachOptions) -> Result<Arc<ServerWatch>, Status> {
        let parsed: Address = address.parse().map_err(|error: BadAddress| Status::from(error))?;
        self.shared().check_process()?;
        if let At::Remote(url) = &parsed.at {
            return Err(Status::invalid_argument(format!(
                "{url}: the end of a server on another machine is learned by the call that meets \
                 it; hunt for the next one"
            )));
        }
        if let Some(interval) = options.ping
            && interval < PING_INTERVAL_MIN
        {
            return Err(Status::invalid_argument(format!(
                "a ping interval of {interval:?} is below the minimum of {PING_INTERVAL_MIN:?}; \
                 give a longer one, or none"
            )));
        }
        let bell = eventfd::create(eventfd::Kind::Counter).map_err(|error| {
            Status::resource_exhausted(format!("no descriptor for an attachment: {error}"))
        })?;
        Ok(Arc::new(ServerWatch {
            client: Arc::clone(self.shared()),
            address: address.to_owned(),
            route: Route::new(&parsed),
            ping: options.ping,
            is_over: AtomicBool::new(false),
            notice: OnceLock::new(),
            bell,
            state: Mutex::default(),
        }))
    }
}

impl Attachment {
    /// Returns the notice, if there is one. Does not wait.
    pub fn notice(&self) -> Option<Notice> {
        self.watch.notice.get().cloned()
    }

    /// Waits for the notice, for at most `timeout`. Blocks this thread, a loop of it as well: use
    /// [`notify`](Self::notify) there.
    pub fn wait(&self, timeout: Duration) -> Option<Notice> {
        // An error of the kernel ends the wait early.
        let _ = poll::poll_one(&self.watch.bell, Interest::Readable, timeout);
        self.notice()
    }

    /// Waits for the notice, in any executor.
    pub fn ended(&self) -> impl Future<Output = Notice> + Send + Sync + '_ {
        Ended { watch: &self.watch, number: None }
    }

    /// Has a loop run `run` once there is a notice; at once if there is one. Not if the attachment
    /// is dropped before, or the loop closes.
    pub fn notify(&self, poster: &Poster, run: impl FnOnce(&EventLoop, &Notice) + Send + 'static) {
        let poster = poster.clone();
        let post: OnNotice = Box::new(move |notice| {
            // A loop that has closed runs nothing.
            let _ = poster.post(move |event_loop| run(event_loop, &notice));
        });
        let mut state = lock(&self.watch.state);
        match self.watch.notice.get() {
            None => state.on_notice.push(post),
            Some(notice) => {
                drop(state);
                post(notice.clone());
            }
        }
    }
}

/// Waits for the notice of an attachment.
struct Ended<'a> {
    watch: &'a ServerWatch,
    /// That of its waker, once it has one.
    number: Option<u64>,
}

impl Future for Ended<'_> {
    type Output = Notice;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Notice> {
        let mut state = lock(&self.watch.state);
        if let Some(notice) = self.watch.notice.get() {
            return Poll::Ready(notice.clone());
        }
        let number = self.number.unwrap_or_else(|| {
            state.last_waker += 1;
            state.last_waker
        });
        let before = state.wakers.insert(number, context.waker().clone());
        drop(state);
        self.number = Some(number);
        waking::retire(before);
        Poll::Pending
    }
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let waker = lock(&self.watch.state).wakers.remove(&number);
        waking::retire(waker);
    }
}

impl AsFd for Attachment {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.bell.as_fd()
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment")
            .field("address", &self.watch.address)
            .field("notice", &self.watch.notice.get())
            .finish_non_exhaustive()
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.watch.is_over.store(true, Ordering::Release);
        // Outside the lock: the end of a waker or a closure may run code of users.
        let state = std::mem::take(&mut *lock(&self.watch.state));
        drop(state);
    }
}

impl ServerWatch {
    /// Connects, and watches from then on. Waits for the handshake.
    fn open(self: Arc<Self>) -> Result<Attachment, Status> {
        // Its drop takes everything back if anything fails.
        let attachment = Attachment { watch: self };
        let this = &attachment.watch;
        let weak = Arc::downgrade(this);
        let connection = async_opening::open(&this.client, &this.route, move |ended| {
            if let Some(watch) = weak.upgrade() {
                watch.note_end(ended);
            }
        })?;
        connection.watch_peer().map_err(|error| {
            Status::resource_exhausted(format!("cannot watch the process of the server: {error}"))
        })?;
        lock(&this.state).connection = Some(connection);
        if this.ping.is_some() {
            this.wait_for_ping(Deadline::after(PING_INTERVAL_MIN))?;
        }
        Ok(attachment)
    }

    /// Pings the server, or notices that it has not answered the last one. Called by the driver, so
    /// never twice at once.
    fn ping_now(self: &Arc<Self>) -> Result<(), Status> {
        let connection = lock(&self.state).connection.clone();
        let (Some(connection), Some(interval)) = (connection, self.ping) else { return Ok(()) };
        if connection.ping() {
            return self.wait_for_ping(Deadline::after(interval));
        }
        if !self.is_over.swap(true, Ordering::AcqRel) {
            let pid = connection.peer().pid();
            self.give(Cause::Unresponsive, NoticeSource::Ping, pid);
        }
        Ok(())
    }

    /// Has the driver wake this when the next ping is due.
    fn wait_for_ping(self: &Arc<Self>, mut due: Deadline) -> Result<(), Status> {
        let waker = Waker::from(Arc::clone(self));
        // Locked to its end: the driver may wake this before the timer is where it looks for it.
        let mut state = lock(&self.state);
        // Whoever has set that takes the timer afterwards.
        if self.is_over.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut timer = match state.next_ping.take() {
            Some((timer, _)) => timer,
            None => Timer::new()?,
        };
        while timer.poll(due, &waker)? {
            due = Deadline::after(PING_INTERVAL_MIN);
        }
        state.next_ping = Some((timer, due));
        Ok(())
    }

    /// Begins to find out why a connection takes no more calls. Called by the driver, which does
    /// not wait.
    fn note_end(self: &Arc<Self>, ended: &AsyncConnection) {
        if self.is_over.swap(true, Ordering::AcqRel) {
            return;
        }
        let (peer, instance) = (ended.peer(), ended.peer_instance());
        let (watch, is_orderly) = (Arc::clone(self), ended.peer_drains());
        Ending { watch, peer, instance, is_orderly }.find_cause();
    }

    /// Gives the notice, which whoever has set `is_over` does once.
    fn give(&self, cause: Cause, source: NoticeSource, pid: Option<i32>) {
        let notice = Notice { cause, source, address: self.address.clone(), pid };
        // Under the lock: whoever has registered before is woken, whoever comes later sees it.
        let mut state = lock(&self.state);
        if self.notice.set(notice.clone()).is_err() {
            return;
        }
        let State { connection, next_ping, wakers, on_notice, .. } = std::mem::take(&mut *state);
        drop(state);
        // A counter at zero takes one more.
        let _ = eventfd::add_one(&self.bell);
        drop((connection, next_ping));
        wakers.into_values().for_each(waking::wake);
        on_notice.into_iter().for_each(|run| run(notice.clone()));
    }
}

/// The next ping is due, or the driver has failed.
impl Wake for ServerWatch {
    fn wake(self: Arc<Self>) {
        let due = lock(&self.state).next_ping.as_ref().map(|(_, due)| *due);
        let outcome = match due {
            Some(due) if due.has_passed() => self.ping_now(),
            Some(due) => self.wait_for_ping(due),
            None => Ok(()),
        };
        // Without a timer it cannot be pinged any more.
        if outcome.is_err() && !self.is_over.swap(true, Ordering::AcqRel) {
            self.give(Cause::Lost, NoticeSource::Ping, None);
        }
    }
}

/// An attachment that is being opened in a thread of its own.
struct PendingAttach {
    outcome: Mutex<Option<Result<Attachment, Status>>>,
    waker: Mutex<Option<Waker>>,
}

impl PendingAttach {
    fn start(watch: Arc<ServerWatch>, waker: Waker) -> Result<Arc<Self>, Status> {
        let opening = Arc::new(Self { outcome: Mutex::default(), waker: Mutex::new(Some(waker)) });
        let this = Arc::downgrade(&opening);
        let at = watch.address.clone();
        let thread = thread::Builder::new().name(THREAD_NAME.into());
        let spawned: io::Result<_> = thread.spawn(move || {
            let outcome = watch.open();
            // One that was given up gets no attachment.
            if let Some(opening) = this.upgrade() {
                *lock(&opening.outcome) = Some(outcome);
                let waker = lock(&opening.waker).take();
                waker.into_iter().for_each(waking::wake);
            }
        });
        spawned.map_err(|error| {
            Status::resource_exhausted(format!("no thread to attach to {at}: {error}"))
        })?;
        Ok(opening)
    }
}

/// Has a loop look again.
struct WakeLoop(Arc<Mailbox>);

impl Wake for WakeLoop {
    fn wake(self: Arc<Self>) {
        // One that has closed waits for nothing.
        let _ = self.0.post(Post::Run(Box::new(|| {})));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What tools show of the threads that open attachments.
const THREAD_NAME: &str = "nearcall-attach";

// Any thread may use it.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Attachment>();
};

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;

    use std::fs;

    use crate::limits::LOOK_THREADS_MAX;
    use crate::servers::{RunningServer, Server};

    fn serve(threads: usize) -> (RunningServer, String) {
        let address = format!("unix:@nearcall-attach-{:016x}", fastrand::u64(..));
        let server = Server::builder().threads(threads).listen(&address).start().unwrap();
        (server, address)
    }

    #[test]
    fn another_loop_of_a_server_does_not_replace_it() {
        let (server, address) = serve(4);
        let client = Client::new();
        let attached: Vec<_> = (0..64).map(|_| client.attach(&address).unwrap()).collect();
        for attachment in &attached {
            let connection = lock(&attachment.watch.state).connection.clone().unwrap();
            connection.close(Status::unavailable("by the test"));
        }
        let names = fs::read_dir("/proc/self/task").unwrap();
        let names = names.filter_map(|it| fs::read_to_string(it.ok()?.path().join("comm")).ok());
        let threads = names.filter(|name| name.trim_end() == ending::THREAD_NAME).count();
        assert!(threads <= LOOK_THREADS_MAX + 1, "{threads} threads for 64 attachments");
        for attachment in &attached {
            let notice = attachment.wait(Duration::from_secs(60)).unwrap();
            assert_eq!(notice.cause, Cause::Closed, "{notice}");
        }
        server.stop().unwrap();
    }

    #[test]
    fn a_future_that_is_dropped_leaves_no_waker() {
        struct Nothing;
        impl Wake for Nothing {
            fn wake(self: Arc<Self>) {}
        }
        let (server, address) = serve(1);
        let attachment = Client::new().attach(&address).unwrap();
        let wakers = || lock(&attachment.watch.state).wakers.len();
        for _ in 0..100 {
            // As each turn of a `select!` in a task of its own.
            let waker = Waker::from(Arc::new(Nothing));
            let mut ended = Box::pin(attachment.ended());
            assert!(ended.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            assert!(ended.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            assert_eq!(wakers(), 1);
        }
        assert_eq!(wakers(), 0);
        server.stop().unwrap();
    }
}
