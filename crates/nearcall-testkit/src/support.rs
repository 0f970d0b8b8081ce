//! The services that tests call, and servers for them.
//!
//! **Invariants:** a server that a test starts ends with the test, whatever happens in it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nearcall::client::ObjectRef;
use nearcall::event_loop::Stopper;
use nearcall::observe::Peer;
use nearcall::service::{Dispatcher, Interface, Method, Responder};
use nearcall::{Client, Code, Context, EventLoop, Limits, Server, Status};

use nearcall_wire::Hello;

use crate::echo::{Echo, EchoCaller, EchoDispatcher, Failure, Seen, Span, Words};
use crate::home::{
    NoteRequest, SetTargetReply, SetTargetRequest, Thermostat, WatchReply, WatchRequest,
};
use crate::tasks::wait_within;

/// The greeting of a client that writes its messages by hand.
pub fn hello(version_min: u16, version_max: u16) -> Vec<u8> {
    let hello = Hello {
        version_min,
        version_max,
        message_bytes_max: 4 << 20,
        metadata_bytes_max: 8 << 10,
        calls_in_max: 256,
        stream_window_bytes: 4 << 20,
        instance: [9; 16],
    };
    hello.encode().to_vec()
}

/// Makes methods of an `impl Echo` that do what the service in the field `$service` does.
#[macro_export]
macro_rules! forward_echo {
    ($service:tt: $($method:ident)*) => {
        $($crate::forward_echo!(@ $method $service);)*
    };
    (@ note $service:tt) => {
        fn note(&self, context: &::nearcall::Context<'_>, request: &$crate::echo::Words) {
            self.$service.note(context, request);
        }
    };
    (@ nothing $service:tt) => { $crate::forward_echo!(@ nothing $service (), ()); };
    (@ panic $service:tt) => { $crate::forward_echo!(@ panic $service (), ()); };
    (@ fail $service:tt) => { $crate::forward_echo!(@ fail $service $crate::echo::Failure, ()); };
    (@ look $service:tt) => { $crate::forward_echo!(@ look $service (), $crate::echo::Seen); };
    (@ work $service:tt) => {
        $crate::forward_echo!(@ work $service $crate::echo::Span, $crate::echo::Words);
    };
    (@ $method:ident $service:tt) => {
        $crate::forward_echo!(@ $method $service $crate::echo::Words, $crate::echo::Words);
    };
    (@ $method:ident $service:tt $request:ty, $reply:ty) => {
        fn $method(
            &self,
            context: &::nearcall::Context<'_>,
            request: &$request,
        ) -> Result<$reply, ::nearcall::Status> {
            self.$service.$method(context, request)
        }
    };
}

/// Does what the comments of `echo.proto` say, and keeps nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stateless;

impl Echo for Stateless {
    fn say(&self, _context: &Context<'_>, request: &Words) -> Result<Words, Status> {
        Ok(request.clone())
    }

    fn nothing(&self, _context: &Context<'_>, _request: &()) -> Result<(), Status> {
        Ok(())
    }

    fn note(&self, _context: &Context<'_>, _request: &Words) {}

    fn fail(&self, _context: &Context<'_>, request: &Failure) -> Result<(), Status> {
        let code = Code::from_number(u16::try_from(request.code).unwrap_or(2));
        Err(Status::new(code.unwrap_or(Code::Unknown), request.text.clone()))
    }

    fn panic(&self, _context: &Context<'_>, _request: &()) -> Result<(), Status> {
        panic!("asked for it")
    }

    /// Is not answered later: that needs a place for what waits.
    fn later(&self, _context: &Context<'_>, _request: &Words) -> Result<Words, Status> {
        Err(Status::unimplemented("a service without a state keeps no call"))
    }

    fn quick(&self, _context: &Context<'_>, request: &Words) -> Result<Words, Status> {
        Ok(Words { number: request.number.wrapping_add(1), ..Words::default() })
    }

    fn look(&self, context: &Context<'_>, _request: &()) -> Result<Seen, Status> {
        Ok(seen(context))
    }

    fn work(&self, context: &Context<'_>, request: &Span) -> Result<Words, Status> {
        let start = nearcall_os::clock::now();
        let mut rounds = 0;
        while start.elapsed().as_millis() < u128::from(request.ms) {
            rounds += 1;
            if context.is_cancelled() {
                return Err(Status::cancelled("the caller does not wait any more"));
            }
        }
        Ok(Words { number: rounds, ..Words::default() })
    }
}

/// Counts notes, keeps calls of `Later`, and does the rest as [`Stateless`].
#[derive(Default)]
pub struct Service {
    pub notes: Cell<u64>,
    pub notes_sum: Cell<u64>,
    /// Those whose number was their place.
    pub notes_in_order: Cell<u64>,
    pub later: RefCell<Vec<(Words, Responder<Words>)>>,
    stateless: Stateless,
}

impl Echo for Service {
    forward_echo!(stateless: say nothing fail panic quick look work);

    fn note(&self, _context: &Context<'_>, request: &Words) {
        if request.number == self.notes.get() {
            self.notes_in_order.set(self.notes_in_order.get() + 1);
        }
        self.notes.set(self.notes.get() + 1);
        self.notes_sum.set(self.notes_sum.get().wrapping_add(request.number));
    }

    /// Answers with the next `Note`, the last one first.
    fn later(&self, context: &Context<'_>, request: &Words) -> Result<Words, Status> {
        context.answer_later(|responder| {
            self.later.borrow_mut().push((request.clone(), responder));
        })
    }
}

/// A thermostat that may measure in other units, and gets no warmer than that.
pub struct Room {
    target: Cell<f64>,
    factor: f64,
    celsius_max: f64,
}

impl Room {
    pub fn new(factor: f64, celsius_max: f64) -> Self {
        Self { target: Cell::new(0.0), factor, celsius_max }
    }
}

impl Thermostat for Room {
    fn set_target(
        &self,
        _context: &Context<'_>,
        request: &SetTargetRequest,
    ) -> Result<SetTargetReply, Status> {
        if request.celsius > self.celsius_max {
            return Err(Status::out_of_range("too warm"));
        }
        let celsius_before = self.target.replace(request.celsius * self.factor);
        Ok(SetTargetReply { celsius_before })
    }

    fn note(&self, _context: &Context<'_>, _request: &NoteRequest) {}

    fn watch(&self, _: &Context<'_>, _: &WatchRequest) -> Result<WatchReply, Status> {
        Ok(WatchReply { celsius: self.target.get() })
    }

    fn reset(&self, _context: &Context<'_>, _request: &()) -> Result<(), Status> {
        self.target.set(0.0);
        Ok(())
    }
}

/// What a method sees of its call.
pub fn seen(context: &Context<'_>) -> Seen {
    let remaining_ns = context.remaining().map_or(0, |left| left.as_nanos());
    let metadata = context.metadata().iter();
    Seen {
        remaining_ns: u64::try_from(remaining_ns).unwrap_or(u64::MAX),
        uid: context.peer().uid().unwrap_or(u32::MAX),
        pid: context.peer().pid().unwrap_or(-1),
        local: matches!(context.peer(), Peer::Local),
        metadata: metadata.map(|(key, value)| (key.to_owned(), value.to_vec().into())).collect(),
        method: context.method().to_owned(),
    }
}

/// The object of this interface at `at`, as generated callers have it.
pub fn object(client: &Client, interface: &'static Interface, at: &str) -> ObjectRef {
    ObjectRef::new(client, interface, at).unwrap()
}

/// The method of this name.
pub fn method(interface: &'static Interface, name: &str) -> &'static Method {
    interface.methods.iter().find(|method| method.name == name).unwrap()
}

/// Returns the status that a call has ended with, which must have this code.
#[track_caller]
pub fn expect_code<T>(outcome: Result<T, Status>, code: Code) -> Status {
    expect_error(outcome, code, &[])
}

/// Works like [`expect_code`] with texts that the message must have.
#[track_caller]
pub fn expect_error<T>(outcome: Result<T, Status>, code: Code, texts: &[&str]) -> Status {
    let Err(status) = outcome else { panic!("the call must fail by {code}") };
    assert_eq!(status.code(), code, "{status}");
    for text in texts {
        assert!(status.message().contains(text), "no `{text}` in {status}");
    }
    status
}

/// An address that no other test of any process has.
pub fn unique_address() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("unix:@nearcall-test-{}-{number}", std::process::id())
}

/// The address of a server that offers every mechanism: the tests of each need that.
pub fn everything(address: &str) -> String {
    if address.starts_with("tcp://") || address.starts_with("inproc:") {
        return address.to_owned();
    }
    let mark = if address.contains('?') { '&' } else { '?' };
    format!("{address}{mark}allow=all")
}

/// Returns a loop of this thread, a server of this object in it, and where that listens.
pub fn serve_here(at: &str, object: impl Dispatcher) -> (EventLoop, Server, String) {
    serve_here_with(Limits::default(), at, object)
}

/// Works like [`serve_here`] with limits.
pub fn serve_here_with(
    limits: Limits,
    at: &str,
    object: impl Dispatcher,
) -> (EventLoop, Server, String) {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::with_limits(&event_loop, limits);
    server.register(object).unwrap();
    let address = server.listen(&everything(at)).unwrap().to_string();
    (event_loop, server, address)
}

/// A thread that runs a loop, and ends with this.
pub struct LoopThread {
    stopper: Stopper,
    thread: Option<JoinHandle<()>>,
}

impl LoopThread {
    /// Runs a loop with a server once `prepare` has set both up. Returns what that returns as well.
    pub fn serve<T: Send + 'static>(
        limits: Limits,
        prepare: impl FnOnce(&EventLoop, &Server) -> T + Send + 'static,
    ) -> (Self, T) {
        let (give, take) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let event_loop = EventLoop::new().unwrap();
            let server = Server::with_limits(&event_loop, limits);
            let prepared = prepare(&event_loop, &server);
            give.send((event_loop.stopper(), prepared)).unwrap();
            event_loop.run().unwrap();
        });
        let (stopper, prepared) = take.recv().unwrap();
        (Self { stopper, thread: Some(thread) }, prepared)
    }
}

impl Drop for LoopThread {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let outcome = thread.join();
            assert!(outcome.is_ok() || std::thread::panicking(), "the server panicked");
        }
    }
}

/// How long a child may hold the socket of a server that has closed: until it runs its program.
const FREE_WITHIN: Duration = Duration::from_secs(10);

/// A server with an [`Echo`] in a thread of its own.
pub struct Served {
    pub address: String,
    _thread: LoopThread,
}

impl Served {
    pub fn start() -> Self {
        Self::at(&unique_address())
    }

    /// At an address that was used before, for example.
    pub fn at(address: &str) -> Self {
        Self::listening(address.to_owned(), Limits::default(), "", |_, _, _| {})
    }

    /// With limits, parameters of the listening address, and more to do before the loop runs.
    pub fn with(
        limits: Limits,
        parameters: &str,
        prepare: impl FnOnce(&EventLoop, &Server, &Arc<Service>) + Send + 'static,
    ) -> Self {
        Self::listening(unique_address(), limits, parameters, prepare)
    }

    fn listening(
        address: String,
        limits: Limits,
        parameters: &str,
        prepare: impl FnOnce(&EventLoop, &Server, &Arc<Service>) + Send + 'static,
    ) -> Self {
        let at = everything(&format!("{address}{parameters}"));
        let (thread, ()) = LoopThread::serve(limits, move |event_loop, server| {
            let service = Arc::<Service>::default();
            server.register(EchoDispatcher::shared(Arc::clone(&service))).unwrap();
            // Where a server has just closed, a child that another test is about to start holds its
            // listening socket until it runs its program.
            wait_within(FREE_WITHIN, "the address to be free", || match server.listen(&at) {
                Ok(_) => true,
                Err(error) if error.to_string().contains("is in use by another server") => false,
                Err(error) => panic!("{error}"),
            });
            prepare(event_loop, server, &service);
        });
        Self { address, _thread: thread }
    }

    pub fn via(&self, parameters: &str) -> String {
        format!("{}{parameters}", self.address)
    }

    /// A caller of a client of its own.
    pub fn echo(&self, parameters: &str) -> EchoCaller {
        EchoCaller::new(&Client::new(), &self.via(parameters)).unwrap()
    }
}
