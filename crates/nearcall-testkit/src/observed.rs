//! A server that reports its state, and a good client that must not notice what other clients do.
//!
//! **Invariants:** the good client calls before, during and after a case, and none of its calls
//! fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use nearcall::event_loop::{Event, Stopper};
use nearcall::{CallOptions, Client, Deadline, EventLoop, Limits, Server};
use nearcall_os::clock;

use crate::echo::{EchoCaller, EchoDispatcher, Words};
use crate::support::{Service, everything, unique_address};
use crate::tasks::wait_within;

/// Longest wait of one step. Far above what is needed, so that it only ends a hang.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The state that a server reports from its thread, every millisecond.
#[derive(Debug, Default)]
pub struct Seen {
    /// Clients that are connected.
    pub connections: AtomicUsize,
    /// Calls of `Later` without an answer.
    pub later: AtomicUsize,
    /// Of those, calls that somebody waits for.
    pub wanted: AtomicUsize,
}

/// A server with an `Echo` in a thread of its own.
pub struct Observed {
    pub address: String,
    pub seen: Arc<Seen>,
    stopper: Stopper,
    thread: Option<thread::JoinHandle<()>>,
}

impl Observed {
    pub fn start() -> Self {
        Self::at(&unique_address(), Limits::default())
    }

    pub fn with(limits: Limits) -> Self {
        Self::at(&unique_address(), limits)
    }

    /// A server that listens at `address`.
    pub fn at(address: &str, limits: Limits) -> Self {
        let (seen, address) = (Arc::new(Seen::default()), address.to_owned());
        let (give, take) = mpsc::channel();
        let tell = Arc::clone(&seen);
        let thread = thread::spawn(move || {
            let event_loop = EventLoop::new().unwrap();
            let server = Server::with_limits(&event_loop, limits);
            let service = Arc::<Service>::default();
            server.register(EchoDispatcher::shared(Arc::clone(&service))).unwrap();
            let address = server.listen(&everything(&address)).unwrap();
            give.send((event_loop.stopper(), address.to_string())).unwrap();
            event_loop.add_timer(Duration::ZERO, Some(Duration::from_millis(1)));
            while !matches!(event_loop.next(Deadline::NEVER).unwrap(), Some(Event::Stopped)) {
                tell.tell(&server, &service);
            }
        });
        let (stopper, address) = take.recv().unwrap();
        Self { address, seen, stopper, thread: Some(thread) }
    }

    /// A caller of a client of its own.
    pub fn echo(&self, parameters: &str) -> EchoCaller {
        EchoCaller::new(&Client::new(), &format!("{}{parameters}", self.address)).unwrap()
    }

    /// Waits until so many clients are connected.
    #[track_caller]
    pub fn wait_for_connections(&self, count: usize) {
        wait_until("the connections", || self.seen.connections.load(Ordering::Relaxed) == count);
    }

    /// Where a channel is opened without the runtime.
    pub fn place(&self) -> nearcall_channel::Address {
        self.address.parse().unwrap()
    }

    /// Does `case` with a server that a good client calls all the time.
    #[track_caller]
    pub fn beside_a_good_client<T>(case: impl FnOnce(&Self) -> T) -> T {
        let server = Self::start();
        server.while_a_good_client_calls(|| case(&server))
    }

    /// Does `case` while a good client calls all the time.
    #[track_caller]
    pub fn while_a_good_client_calls<T>(&self, case: impl FnOnce() -> T) -> T {
        while_a_good_client_calls(&self.address, case)
    }
}

/// Does `case` while a good client of the server at `address` calls all the time.
#[track_caller]
pub fn while_a_good_client_calls<T>(address: &str, case: impl FnOnce() -> T) -> T {
    let (calls, ends) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let good = scope.spawn(|| call_until(address, &calls, &ends));
        let ending = Ending(&ends);
        wait_until("the good client's first call", || {
            calls.load(Ordering::Relaxed) > 0 || good.is_finished()
        });
        let outcome = case();
        // One whole call after the case at least.
        let before = calls.load(Ordering::Relaxed);
        wait_until("the good client's last call", || {
            calls.load(Ordering::Relaxed) > before + 1 || good.is_finished()
        });
        drop(ending);
        good.join().unwrap();
        outcome
    })
}

impl Seen {
    fn tell(&self, server: &Server, service: &Service) {
        let later = service.later.borrow();
        let wanted = later.iter().filter(|(_, responder)| !responder.is_cancelled()).count();
        self.connections.store(server.connections().len(), Ordering::Relaxed);
        self.later.store(later.len(), Ordering::Relaxed);
        self.wanted.store(wanted, Ordering::Relaxed);
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let outcome = thread.join();
            assert!(outcome.is_ok() || thread::panicking(), "the server panicked");
        }
    }
}

/// Sets the flag, also when the case panics.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn call_until(address: &str, calls: &AtomicUsize, ends: &AtomicBool) {
    let client = Client::new();
    let echo = EchoCaller::new(&client, address).unwrap();
    let echo = echo.with(CallOptions::new().deadline(PATIENCE));
    for number in 0.. {
        if ends.load(Ordering::Relaxed) {
            return;
        }
        let reply = echo.say(&Words { number, ..Words::default() });
        assert_eq!(reply.expect("the good client must not notice").number, number);
        calls.fetch_add(1, Ordering::Relaxed);
        clock::pause(Duration::from_micros(200));
    }
}

/// Waits until `done`, and fails when that takes too long.
#[track_caller]
pub fn wait_until(what: &str, done: impl FnMut() -> bool) {
    wait_within(PATIENCE, what, done);
}

/// Runs a test that may block, and fails if it does not end within `time`.
pub fn within<T: Send + 'static>(time: Duration, body: impl FnOnce() -> T + Send + 'static) -> T {
    let (give, take) = mpsc::channel();
    let thread = thread::spawn(move || give.send(body()).is_ok());
    match take.recv_timeout(time) {
        Ok(result) => {
            thread.join().unwrap();
            result
        }
        Err(RecvTimeoutError::Timeout) => panic!("not done within {time:?}"),
        Err(RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().unwrap_err())
        }
    }
}
