//! Back-pressure: for each bound a form that waits until the deadline, and one that fails at once.
//!
//! **Invariants:** no test depends on which of two ends is faster.
//! **Not here:** bounds against a peer that breaks the rules (`bad_input/bounds.rs`).

use std::cell::Cell;
use std::sync::mpsc::{self, Receiver, Sender};

use nearcall::client::{ObjectRef, PendingCall};

use crate::echo::{Parcel, Receipt, Store, StoreCaller, StoreDispatcher};
use crate::stage::prelude::*;
use crate::support::expect_error as expect;

pub(crate) mod replies;
mod unread;

/// What each end may have out.
const SLOTS: usize = 64;
const LOAN_BYTES: usize = 64 << 10;
const TRUSTED: &str = "?trust=same-user";

fn soon() -> CallOptions {
    CallOptions::new().deadline(Duration::from_millis(20))
}

/// Takes its time for each parcel, and counts those that came in order.
#[derive(Default)]
struct Slow {
    in_order: Cell<u64>,
}

impl Store for Slow {
    fn put(&self, context: &Context<'_>, _: &Parcel) -> Result<Receipt, Status> {
        let (sum, trusted) = (self.in_order.get(), context.is_trusted());
        Ok(Receipt { sum, trusted, ..Receipt::default() })
    }

    fn get(&self, _: &Context<'_>, _: &Span) -> Result<Parcel, Status> {
        Ok(Parcel::default())
    }

    fn forget(&self, _: &Context<'_>, _: &Span) -> Result<(), Status> {
        Ok(())
    }

    fn drop(&self, _: &Context<'_>, parcel: &Parcel) {
        clock::pause(Duration::from_micros(1));
        let number = parcel.data.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
        if number == self.in_order.get() && parcel.data.len() == LOAN_BYTES {
            self.in_order.set(number + 1);
        }
    }
}

/// Sends parcels as fast as there is memory for them. Returns the most slots that were lent.
fn send_parcels(client: &Client, at: &str, count: u64) -> usize {
    let store = StoreCaller::new(client, at).unwrap();
    let mut lent_max = 0;
    for number in 0..count {
        let mut loan = store.loan(LOAN_BYTES).unwrap();
        assert!(loan.is_shared());
        loan[..8].copy_from_slice(&number.to_le_bytes());
        store.drop(&Parcel { data: loan.freeze(), ..Parcel::default() }).unwrap();
        if number % 100 == 0 {
            lent_max = lent_max.max(client.connections()[0].slots_lent.unwrap());
        }
    }
    let receipt = store.put(&Parcel::default()).unwrap();
    assert_eq!((receipt.sum, receipt.trusted), (count, true), "{at}");
    lent_max
}

fn serve_slow() -> Served {
    Served::with(Limits::default(), TRUSTED, |_, server: &Server, _| {
        server.register(StoreDispatcher::new(Slow::default())).unwrap();
    })
}

#[timed]
fn oneways_with_loans_go_on_though_the_server_is_slower() {
    let server = serve_slow();
    let lent_max = send_parcels(&Client::new(), &server.via("?via=shm"), 20_000);
    assert!(lent_max > SLOTS / 2, "the server was no slower: {lent_max}");
}

#[timed]
fn oneways_with_loans_go_on_from_a_loop() {
    let server = serve_slow();
    let event_loop = EventLoop::new().unwrap();
    send_parcels(&Client::in_loop(&event_loop), &server.via("?via=shm"), 20_000);
}

/// Keeps parcels until it is asked to forget them.
fn serve_keeping() -> Served {
    Served::with(Limits::default(), TRUSTED, |_, server: &Server, _| {
        server.register(StoreDispatcher::new(crate::zero_copy::Shelf::default())).unwrap();
    })
}

/// Keeps what it gets where the test has it.
struct Keeper {
    kept: Arc<Mutex<Vec<Parcel>>>,
}

impl Store for Keeper {
    fn put(&self, _: &Context<'_>, parcel: &Parcel) -> Result<Receipt, Status> {
        self.kept.lock().unwrap().push(parcel.clone());
        Ok(Receipt::default())
    }

    fn get(&self, _: &Context<'_>, _: &Span) -> Result<Parcel, Status> {
        Ok(Parcel::default())
    }

    fn forget(&self, _: &Context<'_>, _: &Span) -> Result<(), Status> {
        Ok(())
    }

    fn drop(&self, _: &Context<'_>, _: &Parcel) {}
}

/// Has the server keep every slot.
fn exhaust(client: &Client, at: &str) -> ObjectRef {
    let store = StoreCaller::new(client, at).unwrap();
    for _ in 0..SLOTS {
        let data = store.loan(5000).unwrap().freeze();
        store.put(&Parcel { data, keep: true, ..Parcel::default() }).unwrap();
    }
    object(client, StoreCaller::INTERFACE, at)
}

#[timed]
fn a_loan_waits_until_its_deadline() {
    let server = serve_keeping();
    let at = server.via("?via=shm");
    let event_loop = EventLoop::new().unwrap();
    for client in [Client::new(), Client::in_loop(&event_loop)] {
        let store = exhaust(&client, &at);
        expect(
            store.with(CallOptions::new().no_wait()).loan(5000),
            Code::ResourceExhausted,
            &["64 slots are kept"],
        );
        let start = clock::now();
        let late = store.with(soon()).loan(5000);
        expect(late, Code::DeadlineExceeded, &["in time", "64 slots are kept"]);
        assert!(start.elapsed() >= Duration::from_millis(20));
        // No wait changes anything about that.
        expect(store.loan((4 << 20) + 1), Code::ResourceExhausted, &["above the limit"]);
        let caller = StoreCaller::new(&client, &at).unwrap();
        caller.forget(&Span { ms: 1 }).unwrap();
        assert!(store.with(soon()).loan(5000).unwrap().is_shared());
        caller.forget(&Span { ms: 1000 }).unwrap();
    }
}

#[timed]
fn a_loan_of_a_handler_waits_until_the_deadline_of_its_call() {
    let keeping = serve_keeping();
    let at = keeping.via("?via=shm");
    let server = Served::with(Limits::default(), "", move |event_loop, server, _| {
        let client = Client::in_loop(event_loop);
        let store = exhaust(&client, &at);
        let say = Scripted::new(move |_, _| {
            let late = store.loan(5000);
            Ok(words(late.map(drop).unwrap_err().code() as u64))
        });
        server.register_as("s", EchoDispatcher::new(say)).unwrap();
    });
    let echo = server.echo("#s");
    // It waited, so its answer is late as well.
    expect(echo.with(soon()).say(&words(0)), Code::DeadlineExceeded, &[]);
    assert!(echo.nothing(&()).is_ok());
}

#[timed]
fn a_loan_gets_the_slot_that_another_client_has_freed() {
    let server = serve_keeping();
    let at = server.via("?via=shm");
    let event_loop = EventLoop::new().unwrap();
    for client in [Client::new(), Client::in_loop(&event_loop)] {
        let store = exhaust(&client, &at);
        let address = server.via("");
        let other = thread::spawn(move || {
            let store = StoreCaller::new(&Client::new(), &address).unwrap();
            store.forget(&Span { ms: 1000 }).unwrap();
        });
        assert!(store.loan(5000).unwrap().is_shared());
        other.join().unwrap();
    }
}

#[timed]
fn a_loop_serves_while_a_loan_waits() {
    let server = serve_keeping();
    let (event_loop, _server, address) =
        serve_here(&unique_address(), EchoDispatcher::new(Service::default()));
    let store = exhaust(&Client::in_loop(&event_loop), &server.via("?via=shm"));
    let keeping = server.via("");
    let other = thread::spawn(move || {
        // Answered by the loop that waits for memory.
        let client = Client::new();
        EchoCaller::new(&client, &address).unwrap().nothing(&()).unwrap();
        let store = StoreCaller::new(&client, &keeping).unwrap();
        store.forget(&Span { ms: 1000 }).unwrap();
    });
    assert!(store.loan(5000).unwrap().is_shared());
    other.join().unwrap();
}

#[timed]
fn a_wait_for_a_loan_ends_with_its_connection() {
    // What outlives the server is not given back by its end.
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keeper = Keeper { kept: Arc::clone(&kept) };
    let server = Served::with(Limits::default(), TRUSTED, |_, server: &Server, _| {
        server.register(StoreDispatcher::new(keeper)).unwrap();
    });
    let at = server.via("?via=shm");
    let event_loop = EventLoop::new().unwrap();
    let (alone, in_loop) = (Client::new(), Client::in_loop(&event_loop));
    let (alone, in_loop) = (exhaust(&alone, &at), exhaust(&in_loop, &at));
    let end = thread::spawn(move || drop(server));
    expect(alone.loan(5000), Code::Unavailable, &[]);
    expect(in_loop.loan(5000), Code::Unavailable, &[]);
    end.join().unwrap();
    assert_eq!(kept.lock().unwrap().len(), 2 * SLOTS);
}

#[timed]
fn a_loan_does_not_wait_for_what_its_own_process_holds() {
    let server = serve_keeping();
    let client = Client::new();
    let store = object(&client, StoreCaller::INTERFACE, &server.via("?via=shm"));
    let loans: Vec<_> = (0..SLOTS).map(|_| store.loan(5000).unwrap()).collect();
    expect(store.loan(5000), Code::ResourceExhausted, &["64 loans live in the process that lends"]);
    drop(loans);
    let kept: Vec<Bytes> = (0..SLOTS).map(|_| store.loan(5000).unwrap().freeze()).collect();
    expect(store.loan(5000), Code::ResourceExhausted, &["64 loans live in the process that lends"]);
    drop(kept);
    assert!(store.loan(5000).unwrap().is_shared());
}

fn say(object: &ObjectRef, number: u64) -> PendingCall<Words> {
    object.start(method(EchoCaller::INTERFACE, "Say"), &words(number))
}

#[timed]
fn a_call_waits_until_another_one_has_ended() {
    let limits = Limits { calls_max: 4, ..Limits::default() };
    let server = serve_scripted(limits, |_| keeper());
    let event_loop = EventLoop::new().unwrap();
    for client in [Client::new(), Client::in_loop(&event_loop)] {
        let object = object(&client, EchoCaller::INTERFACE, &server.address);
        let started: Vec<_> = (0..1000).map(|number| say(&object, number)).collect();
        for (number, started) in (0..).zip(started) {
            assert_eq!(started.wait().unwrap().number, number);
        }
        // Their results are dropped, some of them aside, some in the table.
        drop((0..20).map(|number| say(&object, number)).collect::<Vec<_>>());
        let echo = EchoCaller::new(&client, &server.address).unwrap();
        assert_eq!(echo.say(&words(7)).unwrap().number, 7);
    }
}

#[timed]
fn a_call_waits_for_another_ones_end_until_its_deadline() {
    let limits = Limits { calls_max: 4, ..Limits::default() };
    let server = serve_scripted(limits, |_| keeper());
    let event_loop = EventLoop::new().unwrap();
    for client in [Client::new(), Client::in_loop(&event_loop)] {
        let at = server.via("#s");
        let object = object(&client, EchoCaller::INTERFACE, &at);
        let echo = EchoCaller::new(&client, &at).unwrap();
        let [later, say] = ["Later", "Say"].map(|name| method(EchoCaller::INTERFACE, name));
        let mut kept: Vec<PendingCall<Words>> =
            (0..4).map(|number| object.start(later, &words(number))).collect();
        let many = "too many open calls";
        let refused = object
            .with(CallOptions::new().no_wait())
            .start::<_, Words>(say, &words(0))
            .ensure_started();
        expect(refused, Code::ResourceExhausted, &[many]);
        let not_run = &[many, "has not run"];
        let late = object.with(soon()).start::<_, Words>(say, &words(0));
        expect(late.wait(), Code::DeadlineExceeded, not_run);
        expect(echo.with(soon()).say(&words(0)), Code::DeadlineExceeded, not_run);
        kept.remove(0).cancel();
        assert_eq!(echo.say(&words(command::ANSWER)).unwrap().number, 4);
        for (number, kept) in (1..).zip(kept) {
            assert_eq!(kept.wait().unwrap().number, number);
        }
    }
}

#[timed]
fn results_that_nobody_takes_are_bounded() {
    let server = Served::start();
    let client = Client::new();
    let object = object(&client, EchoCaller::INTERFACE, &server.address);
    let mut started = Vec::new();
    let refused = loop {
        assert!(started.len() < 100_000, "no bound");
        let call = say(&object, started.len() as u64);
        match call.is_done() && started.len() >= 65_536 {
            true => match call.wait() {
                Ok(_) => continue,
                Err(status) => break status,
            },
            false => started.push(call),
        }
    };
    expect::<()>(Err(refused), Code::ResourceExhausted, &["65536 calls", "take or drop them"]);
    assert_eq!(started.remove(0).wait().unwrap().number, 0);
    assert_eq!(say(&object, 5).wait().unwrap().number, 5);
}

/// A server whose `Say` blocks its thread until the test says so, and then counts the notes. It
/// reports when it blocks.
fn serve_blocking(blocks: Sender<()>, gate: Receiver<()>) -> Served {
    serve_scripted(Limits::default(), |_| {
        let base = Arc::<Service>::default();
        let notes = Arc::clone(&base);
        let say = move |_: &Context<'_>, request: &Words| {
            if request.number == 1 {
                blocks.send(()).unwrap();
                gate.recv().unwrap();
            }
            Ok(words(notes.notes.get()))
        };
        Scripted { base, say: Box::new(say) }
    })
}

/// Sends to a server that does not read until it refuses. Returns how many were taken.
fn fill(object: &ObjectRef, note: &Words) -> u64 {
    let (options, method) = (CallOptions::new(), method(EchoCaller::INTERFACE, "Note"));
    for count in 0..1_000_000 {
        match object.with(options.clone().no_wait()).send(method, note) {
            Ok(()) => {}
            Err(status) => {
                expect::<()>(Err(status), Code::ResourceExhausted, &["does not read"]);
                return count;
            }
        }
    }
    panic!("the room has no bound");
}

fn oneways_find_no_room(client: &Client, at: &str, data_bytes: usize, may_be_late: bool) {
    let ((blocks, is_blocked), (open, gate)) = (mpsc::channel(), mpsc::channel());
    let server = serve_blocking(blocks, gate);
    let at = server.via(&format!("{at}#s"));
    let object = object(client, EchoCaller::INTERFACE, &at);
    let [note, say] = ["Note", "Say"].map(|name| method(EchoCaller::INTERFACE, name));
    let blocked = object.start::<_, Words>(say, &words(1));
    is_blocked.recv().unwrap();
    let message = Words { data: vec![1; data_bytes].into(), ..words(0) };
    let taken = fill(&object, &message);
    assert!(taken > 0, "{at}");
    expect(object.with(soon()).send(note, &message), Code::DeadlineExceeded, &["in time"]);
    if !may_be_late {
        let refused = object
            .with(CallOptions::new().no_wait())
            .start::<_, Words>(say, &message)
            .ensure_started();
        expect(refused, Code::ResourceExhausted, &["does not read"]);
    }
    open.send(()).unwrap();
    blocked.wait().unwrap();
    // There is room again over time.
    object.send(note, &message).unwrap();
    let counted = object.start::<_, Words>(say, &words(0)).wait().unwrap().number;
    let expected = taken + 1;
    // What waited in a loop, and was late, may still have arrived.
    let is_right = counted == expected || may_be_late && counted == expected + 1;
    assert!(is_right, "{counted} of {expected} at {at}");
}

#[test]
fn a_oneway_waits_for_room_or_fails_at_once() {
    for via in ["?via=shm", "?via=pipe", "?via=unix-stream", "?via=unix-seqpacket"] {
        each_in_time([0, 3000], |data_bytes| {
            oneways_find_no_room(&Client::new(), via, data_bytes, false);
            let event_loop = EventLoop::new().unwrap();
            oneways_find_no_room(&Client::in_loop(&event_loop), via, data_bytes, true);
        });
    }
}

#[timed]
fn a_long_oneway_that_finds_no_room_leaves_nothing_behind() {
    for via in ["?via=shm", "?via=pipe", "?via=unix-stream"] {
        oneways_find_no_room(&Client::new(), via, 50_000, false);
    }
}

#[timed]
fn oneways_within_a_loop_wait_until_those_before_are_served() {
    let service = Arc::<Service>::default();
    let (event_loop, _server, _) =
        serve_here("inproc:here", EchoDispatcher::shared(Arc::clone(&service)));
    let echo = EchoCaller::new(&Client::in_loop(&event_loop), "inproc:here").unwrap();
    for number in 0..5_000 {
        echo.note(&words(number)).unwrap();
    }
    assert!(service.notes.get() >= 5_000 - 1024);
    event_loop.next(Deadline::NOW).unwrap();
    assert_eq!((service.notes.get(), service.notes_in_order.get()), (5_000, 5_000));
}
