//! Callers whose calls are futures: in every executor, over one connection that tasks share.
//!
//! **Not here:** async services and streams; the thread that waits (`tests/driver.rs`).

use std::sync::Condvar;

use nearcall::server::RunningServer;
use nearcall::service::Responder;

use crate::echo::Seen;
use crate::stage::prelude::*;
use crate::support::{LoopThread, seen};

pub(crate) use nearcall_testkit::tasks::{block_on, poll_once};

mod asks;
mod dropped;
mod ends;
mod executors;
mod pressure;
mod switches;
mod upgrades;

/// Longer than anything takes that is not broken.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the server has seen.
#[derive(Default)]
struct Books {
    /// Calls of `say`, in their order.
    said: Mutex<Vec<u64>>,
    /// Calls of `later`.
    begun: AtomicU64,
    /// Those of them that were cancelled.
    cancelled: AtomicU64,
    /// Those of them that wait.
    held: AtomicU64,
    notes: AtomicU64,
    notes_sum: AtomicU64,
    /// Whether `work` may go on that waits for it.
    is_blocked: AtomicBool,
    gate: Mutex<bool>,
    opened: Condvar,
}

impl Books {
    fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::SeqCst)
    }

    /// Lets `work` go on.
    fn open_gate(&self) {
        *self.gate.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

/// Keeps books. `later` is answered by `fail`, and `nothing` finds out who does not wait any more.
struct Service {
    books: Arc<Books>,
    held: Mutex<Vec<(u64, Responder<Words>)>>,
}

impl Service {
    fn count_held(&self) {
        self.books.held.store(self.held.lock().unwrap().len() as u64, Ordering::SeqCst);
    }
}

impl Echo for Service {
    fn say(&self, _context: &Context<'_>, request: &Words) -> Result<Words, Status> {
        self.books.said.lock().unwrap().push(request.number);
        Ok(request.clone())
    }

    fn nothing(&self, _context: &Context<'_>, _request: &()) -> Result<(), Status> {
        let mut held = self.held.lock().unwrap();
        let before = held.len();
        held.retain(|(_, responder)| !responder.is_cancelled());
        let cancelled = before - held.len();
        drop(held);
        self.books.cancelled.fetch_add(cancelled as u64, Ordering::SeqCst);
        self.count_held();
        Ok(())
    }

    fn note(&self, _context: &Context<'_>, request: &Words) {
        self.books.notes.fetch_add(1, Ordering::SeqCst);
        self.books.notes_sum.fetch_add(request.number, Ordering::SeqCst);
    }

    /// Answers those that wait, the first one first.
    fn fail(&self, _context: &Context<'_>, _request: &Failure) -> Result<(), Status> {
        for (number, responder) in std::mem::take(&mut *self.held.lock().unwrap()) {
            responder.finish(Ok(words(number)));
        }
        self.count_held();
        Ok(())
    }

    fn panic(&self, _context: &Context<'_>, _request: &()) -> Result<(), Status> {
        panic!("asked for it")
    }

    fn later(&self, context: &Context<'_>, request: &Words) -> Result<Words, Status> {
        self.books.begun.fetch_add(1, Ordering::SeqCst);
        context.answer_later(|responder| {
            self.held.lock().unwrap().push((request.number, responder));
            self.count_held();
        })
    }

    fn quick(&self, context: &Context<'_>, request: &Words) -> Result<Words, Status> {
        self.later(context, request)
    }

    fn look(&self, context: &Context<'_>, _request: &()) -> Result<Seen, Status> {
        Ok(seen(context))
    }

    /// Works until it is cancelled, or for so many milliseconds; for none: until the gate opens,
    /// while the server does nothing else.
    fn work(&self, context: &Context<'_>, request: &Span) -> Result<Words, Status> {
        if request.ms == 0 {
            self.books.is_blocked.store(true, Ordering::SeqCst);
            let gate = self.books.gate.lock().unwrap();
            drop(self.books.opened.wait_while(gate, |is_open| !*is_open).unwrap());
        }
        let start = clock::now();
        while start.elapsed().as_millis() < u128::from(request.ms) {
            if context.is_cancelled() {
                self.books.cancelled.fetch_add(1, Ordering::SeqCst);
                return Err(Status::cancelled("the caller does not wait any more"));
            }
        }
        Ok(Words::default())
    }
}

/// A server in a thread of its own, and its books.
struct Served {
    address: String,
    books: Arc<Books>,
    _thread: LoopThread,
}

impl Served {
    fn start() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        Self::at(unique_address(), limits)
    }

    fn at(address: String, limits: Limits) -> Self {
        let books = Arc::<Books>::default();
        let (at, kept) = (address.clone(), Arc::clone(&books));
        let (thread, ()) = LoopThread::serve(limits, move |_, server| {
            let service = Service { books: kept, held: Mutex::default() };
            server.register(EchoDispatcher::new(service)).unwrap();
            server.listen(&everything(&at)).unwrap();
        });
        Self { address, books, _thread: thread }
    }

    fn via(&self, parameters: &str) -> String {
        format!("{}{parameters}", self.address)
    }

    /// A caller of a client of its own.
    fn echo(&self, parameters: &str) -> EchoAsyncCaller {
        EchoAsyncCaller::new(&Client::new(), &self.via(parameters)).unwrap()
    }
}

/// Starts a server that can be drained.
fn start_to_drain(address: &str, limits: Limits) -> RunningServer {
    let service = Service { books: Arc::default(), held: Mutex::default() };
    let server = Server::builder().threads(1).limits(limits);
    server.register(EchoDispatcher::new(service)).listen(&everything(address)).start().unwrap()
}
