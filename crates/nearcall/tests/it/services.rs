//! Services that do not answer in their method: from other threads, from a pool, by futures.
//!
//! **Invariants:** nothing here waits for a span of time: each step waits for the one before.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::PoisonError;

use nearcall::CallContext;
use nearcall::service::{
    Blocking, BlockingPool, Dispatcher, Incoming, Interface, MethodKind, Responder, TaskRunner,
};

use crate::stage::prelude::*;
use crate::support::Stateless;

mod answers;
mod blocking;
mod futures;
mod posts;

type Serve<T> = dyn Fn(&Context<'_>, &Words) -> Result<T, Status> + Send + Sync;

/// An [`Echo`] that threads share, whose `Say` and `Later` are the test's. `Quick` returns the
/// number of its thread, and `Panic` panics.
pub(crate) struct Threaded {
    say: Box<Serve<Words>>,
    stateless: Stateless,
}

impl Threaded {
    pub(crate) fn new(
        say: impl Fn(&Context<'_>, &Words) -> Result<Words, Status> + Send + Sync + 'static,
    ) -> EchoDispatcher<Self> {
        EchoDispatcher::new(Self { say: Box::new(say), stateless: Stateless })
    }
}

/// A number for the thread that asks.
pub(crate) fn thread_number() -> u64 {
    let text = format!("{:?}", thread::current().id());
    text.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
}

impl Echo for Threaded {
    nearcall_testkit::forward_echo!(stateless: nothing panic look work);

    fn say(&self, context: &Context<'_>, request: &Words) -> Result<Words, Status> {
        (self.say)(context, request)
    }

    fn note(&self, context: &Context<'_>, request: &Words) {
        let _ = (self.say)(context, request);
    }

    fn fail(&self, _: &Context<'_>, request: &Failure) -> Result<(), Status> {
        Err(Status::not_found(request.text.clone()))
    }

    fn later(&self, context: &Context<'_>, request: &Words) -> Result<Words, Status> {
        (self.say)(context, request)
    }

    fn quick(&self, _: &Context<'_>, _: &Words) -> Result<Words, Status> {
        Ok(words(thread_number()))
    }
}

type Answer = Pin<Box<dyn Future<Output = Result<Words, Status>> + Send>>;

/// An [`Echo`] whose every method is a future of the test's.
#[derive(Clone)]
pub(crate) struct Futures {
    serve: Arc<dyn Fn(CallContext, Words) -> Answer + Send + Sync>,
    runner: TaskRunner,
}

impl Futures {
    pub(crate) fn new<F: Future<Output = Result<Words, Status>> + Send + 'static>(
        serve: impl Fn(CallContext, Words) -> F + Send + Sync + 'static,
    ) -> Self {
        let serve = move |context, request| Box::pin(serve(context, request)) as Answer;
        Self { serve: Arc::new(serve), runner: TaskRunner::default() }
    }

    pub(crate) fn on(self, runner: &TaskRunner) -> Self {
        Self { runner: runner.clone(), ..self }
    }
}

impl Dispatcher for Futures {
    fn interface(&self) -> &'static Interface {
        EchoCaller::INTERFACE
    }

    fn dispatch(&self, incoming: Incoming<'_>) {
        let method = self.interface().method(incoming.method());
        if method.is_some_and(|method| method.kind == MethodKind::Oneway) {
            return incoming.oneway_async(&self.runner, |context, request| {
                let answer = (self.serve)(context, request);
                async move {
                    let _ = answer.await;
                }
            });
        }
        incoming.reply_async(&self.runner, |context, request| (self.serve)(context, request));
    }
}

/// A server in a thread of its own whose object `#s` is this dispatcher.
pub(crate) fn serve(limits: Limits, dispatcher: impl Dispatcher + Send) -> Served {
    Served::with(limits, "", move |_, server, _| {
        server.register_as("s", dispatcher).unwrap();
    })
}

/// Where a service puts what another thread takes.
pub(crate) type Shelf<T> = Arc<Mutex<Vec<T>>>;

pub(crate) fn put<T>(shelf: &Shelf<T>, value: T) {
    shelf.lock().unwrap_or_else(PoisonError::into_inner).push(value);
}

pub(crate) fn take_all<T>(shelf: &Shelf<T>) -> Vec<T> {
    std::mem::take(&mut *shelf.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Waits until so many were put on the shelf, and takes them.
#[track_caller]
pub(crate) fn wait_for<T>(shelf: &Shelf<T>, count: usize) -> Vec<T> {
    let mut taken = Vec::new();
    wait_until("what is put on the shelf", || {
        taken.append(&mut take_all(shelf));
        taken.len() == count
    });
    taken
}

/// A service that keeps the responders of its calls of `Say`.
pub(crate) fn keeping(shelf: &Shelf<(u64, Responder<Words>)>) -> EchoDispatcher<Threaded> {
    let shelf = Arc::clone(shelf);
    Threaded::new(move |context, request| {
        let number = request.number;
        context.answer_later(|responder| put(&shelf, (number, responder)))
    })
}

/// The code of an error.
#[track_caller]
pub(crate) fn code<T: Debug>(result: Result<T, Status>) -> Code {
    result.unwrap_err().code()
}

/// A value to panic with, whose end panics as well.
struct PanicsAgain;

impl Drop for PanicsAgain {
    fn drop(&mut self) {
        std::panic::panic_any(Self);
    }
}

#[timed]
fn a_panic_ends_its_call_only_whatever_it_panics_with() {
    let service = Threaded::new(|_, _| std::panic::panic_any(PanicsAgain));
    let future = Futures::new(|_, _| async { std::panic::panic_any(PanicsAgain) });
    let served = Served::with(Limits::default(), "", move |_, server, _| {
        let pool = BlockingPool::builder().threads(1).build();
        server.register_as("loop", service.clone()).unwrap();
        server.register_as("pool", Blocking::new(service, &pool)).unwrap();
        server.register_as("future", future).unwrap();
    });
    let client = Client::new();
    for object in ["#loop", "#pool", "#future"] {
        let echo = EchoCaller::new(&client, &served.via(object)).unwrap();
        for number in 0..3 {
            assert_eq!(code(echo.say(&words(number))), Code::Unknown, "{object}");
        }
    }
    let echo = EchoCaller::new(&client, &served.address).unwrap();
    assert_eq!(echo.say(&words(4)).unwrap().number, 4);
}

/// What the compiler has to accept.
#[test]
fn what_is_promised_to_be_send_is() {
    fn send<T: Send>() {}
    fn share<T: Send + Sync + Clone>() {}
    fn shared_service<T: Dispatcher + Send + Sync>() {}
    send::<Responder<Words>>();
    send::<nearcall::service::ServiceTask>();
    send::<nearcall::service::Cancelled>();
    share::<CallContext>();
    share::<nearcall::event_loop::Poster>();
    share::<nearcall::event_loop::Stopper>();
    share::<BlockingPool>();
    share::<Blocking<EchoDispatcher<Threaded>>>();
    share::<TaskRunner>();
    shared_service::<EchoDispatcher<Threaded>>();
    shared_service::<Blocking<EchoDispatcher<Threaded>>>();
}
