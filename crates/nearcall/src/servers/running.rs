//! A server that has event loops of its own, while it runs.
//!
//! **Invariants:** every wait for a loop is bounded; dropping the handle stops the server; the
//! socket files are removed by the thread that stops or drains it, even while a method blocks a
//! loop.
//! **Not here:** starting it (`builder.rs`), what its threads do (`loop_thread.rs`).

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::task::{Poll, Waker};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Duration;

use nearcall_channel::Listener;
use nearcall_os::fork::Epoch;
use nearcall_os::poll::{self, PollFd, PollFlags};
use nearcall_os::signal::TerminationSignals;

use super::errors::{ServerError, StartError};
use super::group::{Group, Order, Orders};
use super::listening::Listening;
use crate::address::Address;
use crate::connection::connection_info::ConnectionInfo;
use crate::control::Health;
use crate::deadline::Deadline;
use crate::limits::{LOOP_ANSWER_MAX, STOP_WAIT_MAX};
use crate::refusals::RefusalCount;

/// A server that has event loops of its own, in threads of their own. From
/// [`ServerBuilder::start`](crate::server::ServerBuilder::start).
///
/// Any thread may use it, also a method of its own services. Dropping it stops the server.
///
/// A server ends as a whole. When one of its loops fails, which means that waiting itself failed,
/// or panics, which a service cannot cause, all loops end, their clients get `UNAVAILABLE`, and
/// [`run_until_signal`](Self::run_until_signal) and [`stop`](Self::stop) return
/// [`ServerError::LoopFailed`]: let the program exit with the error and be started again.
pub struct RunningServer {
    group: Arc<Group>,
    addresses: Vec<Address>,
    /// Each goes with the loop that has it.
    listeners: Vec<Weak<Listener>>,
    orders: Vec<Orders>,
    ids: Vec<ThreadId>,
    /// The threads are not in a forked process.
    epoch: Epoch,
    /// Until they were joined.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl RunningServer {
    pub(super) fn new(group: Arc<Group>) -> Self {
        let (addresses, listeners, orders) = (Vec::new(), Vec::new(), Vec::new());
        let (ids, epoch, threads) = (Vec::new(), Epoch::current(), Mutex::default());
        Self { group, addresses, listeners, orders, ids, epoch, threads }
    }

    pub(super) fn add_loop(&mut self, orders: Orders, thread: JoinHandle<()>) {
        self.orders.push(orders);
        self.ids.push(thread.thread().id());
        self.lock_threads().push(thread);
    }

    fn lock_threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns why a thread ended before it was ready.
    pub(super) fn why_not_started(&self) -> StartError {
        let text = match self.stop() {
            Err(error) => error.to_string(),
            Ok(()) => "a thread ended before it served".to_owned(),
        };
        StartError::Os(io::Error::other(text))
    }

    /// Has the first loop accept clients.
    pub(super) fn start_listening(&mut self, listening: Vec<Listening>) -> Result<(), StartError> {
        self.addresses = listening.iter().map(|it| it.address.clone()).collect();
        self.listeners = listening.iter().map(|it| Arc::downgrade(&it.listener)).collect();
        let (done, is_done) = mpsc::channel();
        self.order(0, Order::Listen(listening, done));
        match is_done.recv() {
            Ok(outcome) => outcome.map_err(StartError::Listen),
            Err(_) => Err(self.why_not_started()),
        }
    }

    /// Gives an order to a loop. If the loop has ended, the order is dropped.
    fn order(&self, loop_index: usize, order: Order) {
        if self.orders[loop_index].send(order).is_ok() {
            self.group.mailboxes[loop_index].stop();
        }
    }

    /// Returns where it listens first, with the port that the kernel chose.
    ///
    /// # Panics
    ///
    /// It listens nowhere: [`listen`](crate::server::ServerBuilder::listen) was not called.
    pub fn address(&self) -> &Address {
        self.addresses.first().expect("the server listens nowhere: call `listen` before `start`")
    }

    /// Returns everywhere it listens, in the order of the calls of
    /// [`listen`](crate::server::ServerBuilder::listen).
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Returns the clients that are connected now, over all loops. Waits for each loop to end the
    /// method that it runs, for 1 s at most: the connections of a loop that does not answer are
    /// missing, and so are those of the loop that runs the method that calls this.
    /// [`connection_counts`](Self::connection_counts) never waits.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        let (give, take) = mpsc::channel();
        let this_thread = thread::current().id();
        for (loop_index, id) in self.ids.iter().enumerate() {
            // A loop answers between two rounds only.
            if *id != this_thread {
                self.order(loop_index, Order::Connections(give.clone()));
            }
        }
        drop(give);
        let deadline = Deadline::after(LOOP_ANSWER_MAX);
        let mut connections = Vec::new();
        while let Some(of_loop) = receive(&take, deadline) {
            connections.extend(of_loop);
        }
        connections
    }

    /// Returns the number of connections of each loop.
    pub fn connection_counts(&self) -> Vec<usize> {
        self.group.server.census.counts()
    }

    /// Returns what this server has refused, by kind and user, over all loops, as
    /// [`Server::refusals`](crate::Server::refusals). Never waits.
    pub fn refusals(&self) -> Vec<RefusalCount> {
        self.group.server.census.refusals.counts()
    }

    /// Sets the health of an object in all loops, as
    /// [`Server::set_health`](crate::Server::set_health).
    pub fn set_health(&self, object: &str, health: Health) -> bool {
        self.group.server.set_health(object, health)
    }

    /// Takes no more clients and no more calls, and waits until the calls and one-way messages
    /// under way have ended, for `timeout` at most. Clients that are connecting are refused with
    /// the reason, and connections without a call close. Returns whether all have ended;
    /// [`stop`](Self::stop) closes the connections of the others.
    ///
    /// Called in a loop of this server, by a method or a future, it waits for the other loops only,
    /// and returns `false`: that loop goes on when the caller has returned. Called in a method that
    /// runs elsewhere, it waits for that method as well, without success.
    pub fn drain(&self, timeout: Duration) -> bool {
        if !self.epoch.is_current() {
            return false;
        }
        self.unlink();
        self.group.server.set_draining(true);
        let deadline = Deadline::after(timeout);
        let (give, take) = mpsc::channel();
        let this_thread = thread::current().id();
        for (loop_index, id) in self.ids.iter().enumerate() {
            // A loop answers between two rounds only, so its own thread cannot wait for that.
            let answer = if *id == this_thread { mpsc::channel().0 } else { give.clone() };
            self.order(loop_index, Order::Drain(deadline, answer));
        }
        drop(give);
        let mut drained = 0;
        while let Some(all_ended) = receive(&take, deadline) {
            drained += usize::from(all_ended);
        }
        drained == self.orders.len()
    }

    /// Ends the server: removes the socket files, closes the connections, and waits for the
    /// threads, for 1 s at most. Calls that have no reply yet end with `UNAVAILABLE`, so
    /// [`drain`](Self::drain) first. Calling it again is no error. Called in a method of this
    /// server it does not wait. In a process that was forked from the server's it does nothing, and
    /// neither does [`drain`](Self::drain): the server goes on in the parent.
    ///
    /// # Errors
    ///
    /// [`ServerError::LoopFailed`]: the server had ended by itself. [`ServerError::StillRunning`]:
    /// a method has not returned.
    pub fn stop(&self) -> Result<(), ServerError> {
        if !self.epoch.is_current() {
            // Threads that are not here cannot be waited for.
            let threads = std::mem::take(&mut *self.lock_threads());
            std::mem::forget(threads);
            return Ok(());
        }
        self.unlink();
        self.group.stop();
        if self.ids.contains(&thread::current().id()) {
            return Ok(());
        }
        let outcome = self.group.wait_for_end(Deadline::after(STOP_WAIT_MAX));
        let threads = std::mem::take(&mut *self.lock_threads());
        if !matches!(outcome, Err(ServerError::StillRunning(_))) {
            for thread in threads {
                // A panic was noted as the failure.
                let _ = thread.join();
            }
        }
        outcome
    }

    /// Waits until SIGTERM or SIGINT comes, until [`stop`](Self::stop) is called, or until a client
    /// stops the server ([`control`](crate::control)), and ends the server: removes the socket
    /// files, drains it for [`Limits::drain_timeout`](crate::Limits) at most, stops it. Return from
    /// `main` then, so that the program exits with 0.
    ///
    /// A second signal ends the process at once, by the signal. Both signals are caught by a
    /// handler as long as this runs, so it makes no difference which threads were started before,
    /// and which signals they block. A method that runs for longer than the limit is cut off by the
    /// end of the program.
    ///
    /// A signal before this call has its default action: it ends the process, and leaves the socket
    /// files for the next server to take over. Make a [`TerminationSignals`] before
    /// [`start`](crate::server::ServerBuilder::start) to have such a signal end the server well
    /// too.
    ///
    /// # Errors
    ///
    /// [`ServerError::LoopFailed`]: the server ended by itself. [`ServerError::Signals`]: the
    /// handler could not be installed.
    pub fn run_until_signal(&self) -> Result<(), ServerError> {
        let signals = |error: io::Error| ServerError::Signals(error.to_string());
        let termination = TerminationSignals::install().map_err(signals)?;
        let signal = termination.fd();
        let mut ends = [&signal as &dyn AsFd, &*self.group]
            .map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
        let group = Arc::clone(&self.group);
        let stoppable = self.group.server.stoppable(move || group.request_stop());
        poll::poll(&mut ends, Deadline::NEVER).map_err(signals)?;
        drop(stoppable);
        self.end()
    }

    /// Serves in an async program, until the server is stopped, by a client
    /// ([`control`](crate::control)) or because a loop fails; then ends it as
    /// [`run_until_signal`](Self::run_until_signal) does. Any executor can poll the future.
    /// Dropping it stops the server. It handles no signal; for that there is
    /// [`serve_until`](Self::serve_until).
    ///
    /// # Errors
    ///
    /// [`ServerError::LoopFailed`]: the server ended by itself.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// # use nearcall::Server;
    /// Server::builder().listen("unix:@doc-of-serve").start()?.serve().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn serve(self) -> Result<(), ServerError> {
        self.serve_until(std::future::pending()).await
    }

    /// As [`serve`](Self::serve), and until `shutdown` ends, such as a future of the signals: with
    /// tokio, `async { tokio::select! { _ = int.recv() => {}, _ = term.recv() => {} } }`, where
    /// `int` and `term` are what `tokio::signal::unix::signal` returns.
    ///
    /// # Errors
    ///
    /// [`ServerError::LoopFailed`]: the server ended by itself.
    ///
    /// # Examples
    ///
    /// ```
    /// # use nearcall::Server;
    /// # type Outcome = Result<(), Box<dyn std::error::Error>>;
    /// # async fn run(shutdown: impl Future<Output = ()> + Send) -> Outcome {
    /// let server = Server::builder().listen("unix:@doc-of-serve-until").start()?;
    /// server.serve_until(shutdown).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn serve_until(
        self,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ServerError> {
        let group = Arc::clone(&self.group);
        let to_stop = Arc::clone(&group);
        let stoppable = group.server.stoppable(move || to_stop.request_stop());
        let mut shutdown = pin!(shutdown);
        poll_fn(|context| {
            let is_over = group.poll_stop(context.waker());
            match is_over || shutdown.as_mut().poll(context).is_ready() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        drop(stoppable);
        // Waiting for the calls under way would hold up the executor.
        let outcome = Arc::new(Outcome::default());
        let (ending, server) = (Arc::clone(&outcome), Arc::new(self));
        let ended = Arc::clone(&server);
        let thread = thread::Builder::new().name("nearcall-drain".to_owned());
        let spawned = thread.spawn(move || ending.set(ended.end()));
        if spawned.is_err() {
            return server.end();
        }
        poll_fn(|context| outcome.poll(context.waker())).await
    }

    /// Drains the server, for [`Limits::drain_timeout`](crate::Limits) at most, and stops it.
    fn end(&self) -> Result<(), ServerError> {
        if !self.group.is_stopped() {
            self.drain(self.group.limits.drain_timeout);
        }
        match self.stop() {
            // It has had its time.
            Ok(()) | Err(ServerError::StillRunning(_)) => Ok(()),
            failed => failed,
        }
    }

    /// Removes the socket files.
    fn unlink(&self) {
        for listener in self.listeners.iter().filter_map(Weak::upgrade) {
            listener.unlink();
        }
    }
}

/// The end of a server, for the task that waits for it.
#[derive(Default)]
struct Outcome(Mutex<Ending>);

#[derive(Default)]
struct Ending {
    outcome: Option<Result<(), ServerError>>,
    waker: Option<Waker>,
}

impl Outcome {
    fn set(&self, outcome: Result<(), ServerError>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.outcome = Some(outcome);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll(&self, waker: &Waker) -> Poll<Result<(), ServerError>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match state.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                state.waker = Some(waker.clone());
                Poll::Pending
            }
        }
    }
}

/// Receives the answer of one more loop. Returns `None` when all have answered or have ended, or
/// the time is up.
fn receive<T>(answers: &mpsc::Receiver<T>, deadline: Deadline) -> Option<T> {
    match deadline.remaining() {
        Some(left) => answers.recv_timeout(left).ok(),
        None => answers.recv().ok(),
    }
}

/// Readable once the server was stopped, or has ended by itself: [`stop`](RunningServer::stop)
/// returns why.
impl AsFd for RunningServer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.group.as_fd()
    }
}

impl fmt::Debug for RunningServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningServer")
            .field("addresses", &self.addresses)
            .field("connections", &self.connection_counts())
            .finish_non_exhaustive()
    }
}

/// Stops the server, and waits for its threads for 1 s at most.
impl Drop for RunningServer {
    fn drop(&mut self) {
        // An error that matters was returned before, by `stop` or `run_until_signal`.
        let _ = self.stop();
    }
}

// Any thread may use it.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<RunningServer>();
};

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use nearcall_channel::{Endpoint, Mechanism, Options, ReceiveError, connect};

    use super::*;
    use crate::address::At;
    use crate::servers::Server;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn client(server: &RunningServer) -> Endpoint {
        let At::Socket(place) = &server.address().at else { panic!("{}", server.address()) };
        let options = Options { handshake_timeout: PATIENCE, ..Options::default() };
        connect(place, Mechanism::UnixStream, &options).unwrap()
    }

    /// Waits until the server has closed the connection; its greeting comes before.
    fn expect_closed(client: &mut Endpoint) {
        let deadline = Deadline::after(PATIENCE);
        let mut buffer = [0; 64];
        loop {
            match client.receive_into(&mut buffer, deadline) {
                Ok(_) => {}
                Err(ReceiveError::PeerGone) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// A server of which one loop fails ends as a whole, and reports it.
    fn check_failure(loop_index: usize, fail: fn() -> io::Result<()>, why: &str) {
        let address = format!("unix:@nearcall-failing-{}-{loop_index}", std::process::id());
        let builder = || Server::builder().threads(3).listen(&address);
        let server = builder().start().unwrap();
        // One in each loop.
        let mut clients = [0, 1, 2].map(|_| client(&server));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| server.run_until_signal());
            server.order(loop_index, Order::Fail(fail));
            clients.iter_mut().for_each(expect_closed);
            for outcome in [waiting.join().unwrap(), server.stop()] {
                let Err(ServerError::LoopFailed(name, text)) = outcome else {
                    panic!("{outcome:?}")
                };
                assert_eq!(name, format!("nearcall-loop-{loop_index}"));
                assert!(text.contains(why), "{text}");
            }
        });
        assert_eq!(server.connection_counts(), [0, 0, 0]);
        // None of these waits for a loop that has ended.
        assert!(!server.drain(PATIENCE) && server.connections().is_empty());
        // The address is free although the handle lives.
        builder().start().unwrap().stop().unwrap();
    }

    #[test]
    fn a_loop_that_panics_ends_the_server() {
        check_failure(1, || panic!("tripped"), "it panicked: tripped");
    }

    #[test]
    fn a_loop_that_fails_ends_the_server_even_if_it_accepts_the_clients() {
        check_failure(0, || Err(io::Error::other("no epoll")), "no epoll");
    }
}
