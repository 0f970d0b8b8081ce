//! The service that the tests of libraries load: a thermostat that misbehaves on demand.
//!
//! Its first argument is what it does: `plain`, `nonblocking` (the same, with that promise), `two`
//! (objects), `relay ADDRESS` (passes requests on to another one), `back ADDRESS` (passes on
//! `set_target` alone), `ask ADDRESS` (answers `set_target` with what `watch` returns there),
//! `measure ADDRESS CALLS` (returns by `watch` what a call there takes), `async`, `fail`,
//! `panic` and `noisy` (while it is made), `streams` (which a library cannot have), `nothing`. A
//! second `nonblocking` makes the promise for `back` and `ask`, too.
//! **Not here:** the tests (`tests/libraries/main.rs`).
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "tests read it")]

use std::error::Error;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nearcall::observe::Peer;
use nearcall::service::{Responder, ServiceSetup};
use nearcall::stream::{ItemReceiver, ItemSender};
use nearcall::{CallContext, CallOptions, Client, Context, Limits, Server, Status};
use nearcall_os::clock::monotonic_ns;

use nearcall_testkit::home::{
    NoteRequest, SetTargetReply, SetTargetRequest, Thermostat, ThermostatAsync,
    ThermostatAsyncDispatcher, ThermostatCaller, ThermostatDispatcher, WatchReply, WatchRequest,
};
use nearcall_testkit::streams::{self, Item, Plan};

/// What `set_target` does when it is called with these.
const PANIC: f64 = -1.0;
const ABORT: f64 = -2.0;
const BLOCK: f64 = -3.0;
const LATER: f64 = -4.0;
const FORGET: f64 = -5.0;
/// Connects to the socket that the metadata name, and answers when a byte comes.
const HOLD: f64 = -6.0;
/// Has a server of its own refuse a client, which is an event of `tracing`.
const REFUSE: f64 = -7.0;

/// Nothing takes this long, on whatever machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Room {
    wanted: Mutex<f64>,
    notes: AtomicU64,
    next: Option<ThermostatCaller>,
    use_of_next: UseOfNext,
    /// How many calls `watch` measures.
    measured_calls: u32,
}

/// What a service does with another one.
#[derive(Default, PartialEq, Eq)]
enum UseOfNext {
    #[default]
    ForAll,
    ForTargets,
    Ask,
}

impl Room {
    /// Returns the other service if all calls go there.
    fn next_for_all(&self) -> Option<&ThermostatCaller> {
        self.next.as_ref().filter(|_| self.use_of_next == UseOfNext::ForAll)
    }
}

impl Thermostat for Room {
    fn set_target(
        &self,
        context: &Context<'_>,
        request: &SetTargetRequest,
    ) -> Result<SetTargetReply, Status> {
        if let Some(next) = &self.next {
            // Not the 250 ms of the interface: the machine may be busy.
            let next = next.with(CallOptions::new().deadline(PATIENCE));
            if self.use_of_next == UseOfNext::Ask {
                let reply = next.watch(&WatchRequest {})?;
                return Ok(SetTargetReply { celsius_before: reply.celsius });
            }
            return next.set_target(request);
        }
        if let Some(text) = context.metadata().get("echo") {
            context.add_reply_metadata("echoed", text).unwrap();
        }
        match request.celsius {
            PANIC => panic!("asked for it"),
            ABORT => std::process::abort(),
            BLOCK => {
                // So that a test need not wait for a time.
                eprintln!("blocked");
                loop {
                    thread::park();
                }
            }
            FORGET => context.answer_later(drop::<Responder<SetTargetReply>>),
            LATER => context.answer_later(|responder: Responder<SetTargetReply>| {
                let reply = SetTargetReply { celsius_before: LATER };
                thread::spawn(move || responder.finish(Ok(reply)));
            }),
            HOLD => {
                let path = context.metadata().get("hold").unwrap().to_owned();
                context.answer_later(move |responder: Responder<SetTargetReply>| {
                    thread::spawn(move || {
                        let mut release = UnixStream::connect(path).unwrap();
                        release.read_exact(&mut [0]).unwrap();
                        responder.finish(Ok(SetTargetReply { celsius_before: HOLD }));
                    });
                })
            }
            REFUSE => {
                refuse_a_client();
                Ok(SetTargetReply { celsius_before: REFUSE })
            }
            celsius => {
                let celsius_before = std::mem::replace(&mut *self.wanted.lock().unwrap(), celsius);
                Ok(SetTargetReply { celsius_before })
            }
        }
    }

    fn note(&self, _: &Context<'_>, request: &NoteRequest) {
        match self.next_for_all() {
            Some(next) => next.note(request).unwrap(),
            None => drop(self.notes.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// Returns what is known of the caller: -1 this process, its user otherwise.
    fn watch(&self, context: &Context<'_>, request: &WatchRequest) -> Result<WatchReply, Status> {
        if let Some(next) = self.next_for_all() {
            if self.measured_calls > 0 {
                return Ok(WatchReply { celsius: measure(next, self.measured_calls)? });
            }
            return next.start_watch(request).wait();
        }
        let celsius = match context.peer() {
            Peer::Local => -1.0,
            Peer::Process(identity) => f64::from(identity.uid),
            _ => -2.0,
        };
        Ok(WatchReply { celsius })
    }

    /// Fails with the number of notes.
    fn reset(&self, _: &Context<'_>, request: &()) -> Result<(), Status> {
        if let Some(next) = self.next_for_all() {
            return next.reset(request);
        }
        let notes = self.notes.load(Ordering::Relaxed).to_string();
        Err(Status::out_of_range("as asked").with_metadata("notes", &notes).unwrap())
    }
}

/// Returns what a call takes, in nanoseconds.
fn measure(next: &ThermostatCaller, calls: u32) -> Result<f64, Status> {
    let next = next.with(CallOptions::new().deadline(PATIENCE));
    let call = || next.set_target(&SetTargetRequest { celsius: 20.0 });
    for _ in 0..calls / 10 {
        call()?;
    }
    let start = monotonic_ns();
    for _ in 0..calls {
        call()?;
    }
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
    let ns = (monotonic_ns() - start) as f64;
    Ok(ns / f64::from(calls))
}

/// Has a server refuse its second client.
fn refuse_a_client() {
    let limits = Limits { connections_max: 1, ..Limits::default() };
    let address = format!("unix:@test-library-refuses-{}", std::process::id());
    let _server = Server::builder().limits(limits).listen(&address).start().unwrap();
    let (first, second) = (Client::new(), Client::new());
    first.hunt(&address, PATIENCE).unwrap();
    // It has no room for this one, and refuses it at once.
    let refused = ThermostatCaller::new(&second, &address).unwrap();
    refused.reset(&()).unwrap_err();
}

/// Counts the calls that were given up while its futures waited.
#[derive(Default)]
struct AsyncRoom(AtomicU64);

struct Dropped<'a>(&'a AtomicU64);

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl ThermostatAsync for AsyncRoom {
    async fn set_target(
        &self,
        _: CallContext,
        _: SetTargetRequest,
    ) -> Result<SetTargetReply, Status> {
        #[allow(clippy::cast_precision_loss, reason = "a handful")]
        let celsius_before = self.0.load(Ordering::Relaxed) as f64;
        Ok(SetTargetReply { celsius_before })
    }

    async fn note(&self, _: CallContext, _: NoteRequest) {}

    async fn watch(&self, _: CallContext, _: WatchRequest) -> Result<WatchReply, Status> {
        let _dropped = Dropped(&self.0);
        std::future::pending().await
    }

    async fn reset(&self, _: CallContext, (): ()) -> Result<(), Status> {
        Ok(())
    }
}

struct Streaming;

impl streams::Streams for Streaming {
    fn count(&self, _: &Context<'_>, _: &Plan, _: ItemSender<Item>) -> Result<(), Status> {
        Ok(())
    }

    fn count_quickly(&self, _: &Context<'_>, _: &Plan, _: ItemSender<Item>) -> Result<(), Status> {
        Ok(())
    }

    fn sum(&self, _: &Context<'_>, _: ItemReceiver<Item>) -> Result<Item, Status> {
        Ok(Item::default())
    }

    fn drain(&self, _: &Context<'_>, _: ItemReceiver<Item>) -> Result<(), Status> {
        Ok(())
    }

    fn exchange(
        &self,
        _: &Context<'_>,
        _: ItemReceiver<Item>,
        _: ItemSender<Item>,
    ) -> Result<(), Status> {
        Ok(())
    }

    fn say(&self, _: &Context<'_>, item: &Item) -> Result<Item, Status> {
        Ok(item.clone())
    }
}

fn make(setup: &mut ServiceSetup) -> Result<(), Box<dyn Error>> {
    let arguments = setup.arguments().to_vec();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if arguments.contains(&"nonblocking") {
        setup.set_nonblocking();
    }
    match arguments[..] {
        [] | ["plain" | "nonblocking"] => {
            setup.register(ThermostatDispatcher::new(Room::default()))
        }
        ["relay", address] => {
            let next = Some(ThermostatCaller::new(&Client::new(), address)?);
            setup.register(ThermostatDispatcher::new(Room { next, ..Room::default() }));
        }
        [kind @ ("back" | "ask"), address, ..] => {
            let next = Some(ThermostatCaller::new(&Client::new(), address)?);
            let use_of_next = if kind == "ask" { UseOfNext::Ask } else { UseOfNext::ForTargets };
            setup.register(ThermostatDispatcher::new(Room {
                next,
                use_of_next,
                ..Room::default()
            }));
        }
        ["measure", address, calls] => {
            let next = Some(ThermostatCaller::new(&Client::new(), address)?);
            let room = Room { next, measured_calls: calls.parse()?, ..Room::default() };
            setup.register(ThermostatDispatcher::new(room));
        }
        ["two"] => {
            setup.register_as("hall", ThermostatDispatcher::new(Room::default()));
            setup.register_as("attic", ThermostatDispatcher::new(Room::default()));
        }
        ["async"] => setup.register(ThermostatAsyncDispatcher::new(AsyncRoom::default())),
        ["streams"] => setup.register(streams::StreamsDispatcher::new(Streaming)),
        ["noisy"] => {
            for _ in 0..25 {
                eprintln!("{}", "\u{1}".repeat(1024));
            }
            std::process::abort()
        }
        ["fail"] => return Err("the heating is out of order".into()),
        ["panic"] => panic!("asked for it"),
        ["nothing"] => {}
        _ => return Err(format!("unknown arguments {arguments:?}").into()),
    }
    Ok(())
}

nearcall::service_main!("test-library", make);
