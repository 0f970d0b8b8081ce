//! What several test modules need beside a server: a limit in time, services that do what a test
//! says, and a loop that is turned until something is true.
//!
//! **Invariants:** a test that hangs fails, and says so.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearcall::{Context, Deadline, EventLoop, Limits, Status};

use crate::echo::{Echo, EchoDispatcher, Words};
pub(crate) use crate::observed::within as in_time_of;
use crate::support::{Served, Service};
pub(crate) use nearcall_testkit::timed;

/// What most test modules need.
pub(crate) mod prelude {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use std::sync::{Arc, Mutex, mpsc};
    pub(crate) use std::thread;
    pub(crate) use std::time::Duration;

    pub(crate) use nearcall::{
        Bytes, CallOptions, Client, Code, Context, Deadline, EventLoop, Limits, Mechanism, Server,
        Status,
    };
    pub(crate) use nearcall_os::clock;

    pub(crate) use super::{
        PATIENCE, Scripted, alone, command, each_in_time, in_time, keeper, serve_scripted, timed,
        turn_until, words,
    };
    pub(crate) use crate::async_client::block_on;
    pub(crate) use crate::echo::{
        Echo, EchoAsyncCaller, EchoCaller, EchoDispatcher, Failure, Span, Words,
    };
    pub(crate) use crate::observed::wait_until;
    pub(crate) use crate::services::Threaded;
    pub(crate) use crate::support::{
        Served, Service, everything, expect_code, expect_error, method, object, serve_here,
        serve_here_with, unique_address,
    };
}

/// Far above what any test needs on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a test that may block, and fails if it does not end.
pub(crate) fn in_time<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    in_time_of(PATIENCE, body)
}

/// Works like [`in_time`] for each of these.
pub(crate) fn each_in_time<T: Send + 'static>(
    all: impl IntoIterator<Item = T>,
    body: impl FnOnce(T) + Clone + Send + 'static,
) {
    for one in all {
        let body = body.clone();
        in_time(move || body(one));
    }
}

/// Turns a loop until `done`, dropping what concerns the user.
pub(crate) fn turn_until(event_loop: &EventLoop, mut done: impl FnMut() -> bool) {
    let until = nearcall_os::clock::now() + PATIENCE;
    while !done() {
        let soon = nearcall_os::clock::now() + Duration::from_millis(5);
        event_loop.next(Deadline::at(soon)).unwrap();
        assert!(nearcall_os::clock::now() < until, "not done within {PATIENCE:?}");
    }
}

/// Keeps other tests from POSIX message queues, of which a user can have a few only.
pub(crate) fn alone(way: &str) -> Option<MutexGuard<'static, ()>> {
    static QUEUES: Mutex<()> = Mutex::new(());
    way.contains("posix-mq").then(|| QUEUES.lock().unwrap_or_else(PoisonError::into_inner))
}

pub(crate) fn words(number: u64) -> Words {
    Words { number, ..Words::default() }
}

/// What `Say` does.
pub(crate) type Say = Box<dyn Fn(&Context<'_>, &Words) -> Result<Words, Status>>;

/// An [`Echo`] whose `Say` is the test's, whose `Quick` waits until it is not wanted any more when
/// the request says 1, and whose `Later` panics when it says `u64::MAX`.
pub(crate) struct Scripted {
    pub(crate) base: Arc<Service>,
    pub(crate) say: Say,
}

impl Scripted {
    pub(crate) fn new(
        say: impl Fn(&Context<'_>, &Words) -> Result<Words, Status> + 'static,
    ) -> Self {
        Self { base: Arc::default(), say: Box::new(say) }
    }
}

impl Echo for Scripted {
    nearcall_testkit::forward_echo!(base: nothing note fail panic look work);

    fn say(&self, context: &Context<'_>, request: &Words) -> Result<Words, Status> {
        (self.say)(context, request)
    }

    fn later(&self, context: &Context<'_>, request: &Words) -> Result<Words, Status> {
        assert_ne!(request.number, u64::MAX, "asked for it");
        self.base.later(context, request)
    }

    fn quick(&self, context: &Context<'_>, request: &Words) -> Result<Words, Status> {
        while request.number == 1 && !context.is_cancelled() {}
        let left = context.remaining().unwrap_or_default();
        Ok(words(u64::try_from(left.as_nanos()).unwrap()))
    }
}

/// What the `Say` of a keeper does with the calls of `Later` that it has kept.
pub(crate) mod command {
    /// Answers all, the last one first.
    pub(crate) const ANSWER: u64 = 0;
    /// Drops all without an answer.
    pub(crate) const DROP: u64 = 1;
    /// Says how many are still wanted.
    pub(crate) const WANTED: u64 = 2;
}

/// A service that keeps calls of `Later` until `Say` says what to do with them.
pub(crate) fn keeper() -> Scripted {
    let base = Arc::<Service>::default();
    let kept = Arc::clone(&base);
    let say = move |_: &Context<'_>, request: &Words| {
        let mut kept = kept.later.borrow_mut();
        let count = kept.len() as u64;
        match request.number {
            command::ANSWER => {
                while let Some((words, responder)) = kept.pop() {
                    responder.finish(Ok(words));
                }
                Ok(words(count))
            }
            command::DROP => {
                kept.clear();
                Ok(words(count))
            }
            command::WANTED => {
                Ok(words(kept.iter().filter(|(_, call)| !call.is_cancelled()).count() as u64))
            }
            other => Err(Status::invalid_argument(format!("no command {other}"))),
        }
    };
    Scripted { base, say: Box::new(say) }
}

/// A server in a thread of its own whose object `#s` is what `make` makes there.
pub(crate) fn serve_scripted(
    limits: Limits,
    make: impl FnOnce(&EventLoop) -> Scripted + Send + 'static,
) -> Served {
    Served::with(limits, "", move |event_loop, server, _| {
        server.register_as("s", EchoDispatcher::new(make(event_loop))).unwrap();
    })
}
