//! Loans: passed by reference to a peer that trusts, copied once to another, given back by both.
//!
//! **Invariants:** whether bytes were copied is seen by where they lie, not by how long it took.
//! **Not here:** peers that break the rules (`zero_copy/hostile.rs`).

mod hostile;
pub(crate) mod kept;

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::Poll;

use nearcall::client::Trust;
use nearcall::{CallContext, detach};

use crate::echo::{
    Parcel, Receipt, Store, StoreAsync, StoreAsyncDispatcher, StoreCaller, StoreDispatcher,
};
use crate::stage::prelude::*;

/// Does what the comments of `echo.proto` say.
#[derive(Default)]
pub(crate) struct Shelf {
    parcels: RefCell<Vec<Parcel>>,
}

impl Store for Shelf {
    fn put(&self, context: &Context<'_>, parcel: &Parcel) -> Result<Receipt, Status> {
        let addresses = parts(parcel).iter().map(|part| part.as_ptr().addr() as u64).collect();
        if parcel.keep {
            self.parcels.borrow_mut().push(parcel.clone());
        }
        Ok(Receipt { addresses, sum: sum(parcel), trusted: context.is_trusted() })
    }

    fn get(&self, context: &Context<'_>, span: &Span) -> Result<Parcel, Status> {
        let mut loan = context.loan(span.ms as usize)?;
        loan.fill(3);
        Ok(Parcel { data: loan.freeze(), text: "for you".into(), ..Parcel::default() })
    }

    fn forget(&self, _context: &Context<'_>, span: &Span) -> Result<(), Status> {
        let mut parcels = self.parcels.borrow_mut();
        let count = parcels.len().min(span.ms as usize);
        parcels.drain(..count);
        Ok(())
    }

    fn drop(&self, _context: &Context<'_>, _parcel: &Parcel) {}
}

/// All `bytes` of a parcel, in their order.
fn parts(parcel: &Parcel) -> Vec<Bytes> {
    let mut all = vec![parcel.data.clone()];
    all.extend(parcel.more.iter().cloned());
    if let Some(inner) = &parcel.inner {
        all.extend(parts(inner));
    }
    all
}

fn sum(parcel: &Parcel) -> u64 {
    parts(parcel).iter().flatten().map(|&byte| u64::from(byte)).sum()
}

/// Whether the memory at an address of this process belongs to a segment. Both ends live here, each
/// with a mapping of its own.
fn lies_in_segment(address: u64) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("nearcall-segment")).any(|line| {
        let (range, _) = line.split_once(' ').unwrap();
        let (start, end) = range.split_once('-').unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        (number(start)..number(end)).contains(&address)
    })
}

/// A server with a [`Store`], whose listening address has these parameters.
fn serve(parameters: &str) -> Served {
    serve_with(Limits::default(), parameters)
}

fn serve_with(limits: Limits, parameters: &str) -> Served {
    Served::with(limits, parameters, |_, server: &Server, _| {
        server.register(StoreDispatcher::new(Shelf::default())).unwrap();
    })
}

fn store(server: &Served, parameters: &str) -> (Client, StoreCaller) {
    let client = Client::new();
    let store = StoreCaller::new(&client, &server.via(parameters)).unwrap();
    (client, store)
}

/// What this end has lent and not got back. The server has forgotten the call before by then.
fn slots_lent(client: &Client, store: &StoreCaller) -> usize {
    store.forget(&Span { ms: 0 }).unwrap();
    client.connections()[0].slots_lent.unwrap()
}

/// A loan full of this byte.
fn loaned(store: &StoreCaller, bytes: usize, byte: u8) -> Bytes {
    let mut loan = store.loan(bytes).unwrap();
    assert_eq!(loan.len(), bytes);
    loan.fill(byte);
    loan.freeze()
}

const TRUSTED: &str = "?trust=same-user";
const MIB: usize = 1 << 20;

#[test]
fn a_mebibyte_is_passed_by_reference_to_a_server_that_trusts() {
    let server = serve(TRUSTED);
    let (client, store) = store(&server, "?via=shm");
    let data = loaned(&store, MIB, 7);
    let parcel = Parcel { data: data.clone(), text: "read me".into(), ..Parcel::default() };
    for _ in 0..3 {
        let receipt = store.put(&parcel).unwrap();
        assert_eq!((receipt.sum, receipt.trusted), (7 * MIB as u64, true));
        assert!(lies_in_segment(receipt.addresses[0]), "it was copied");
        assert_ne!(receipt.addresses[0], data.as_ptr().addr() as u64, "each has its mapping");
    }
    drop((data, parcel));
    assert_eq!(slots_lent(&client, &store), 0, "all is back");
}

#[test]
fn a_mebibyte_comes_back_by_reference_to_a_client_that_trusts() {
    let server = serve("");
    let (client, store) = store(&server, "?via=shm&trust=yes");
    let reply = store.get(&Span { ms: 1 << 20 }).unwrap();
    assert_eq!((sum(&reply), &*reply.text), (3 * MIB as u64, "for you"));
    assert!(lies_in_segment(reply.data.as_ptr().addr() as u64), "it was copied");
    let info = &client.connections()[0];
    assert!(info.is_trusted);
    assert_eq!(info.slots_borrowed, Some(1));
    assert!(info.to_string().contains("over shm") && info.to_string().contains("trusted"));
    drop(reply);
    assert_eq!(client.connections()[0].slots_borrowed, Some(0));
}

/// Lends from a future, before and after it has waited.
struct Later;

impl StoreAsync for Later {
    async fn put(&self, _: CallContext, _: Parcel) -> Result<Receipt, Status> {
        Ok(Receipt::default())
    }

    async fn get(&self, context: CallContext, span: Span) -> Result<Parcel, Status> {
        let lend = || -> Result<Bytes, Status> {
            let mut loan = context.loan(span.ms as usize)?;
            loan.fill(3);
            Ok(loan.freeze())
        };
        let data = lend()?;
        let mut has_waited = false;
        poll_fn(|task| match std::mem::replace(&mut has_waited, true) {
            true => Poll::Ready(()),
            false => {
                task.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await;
        Ok(Parcel { data, more: vec![lend()?], ..Parcel::default() })
    }

    async fn forget(&self, _: CallContext, _: Span) -> Result<(), Status> {
        Ok(())
    }

    async fn drop(&self, _: CallContext, _: Parcel) {}
}

#[test]
fn an_async_service_lends_in_its_loop_and_copies_from_other_threads() {
    for in_loop in [true, false] {
        let server = Served::with(Limits::default(), "", move |_, server, _| {
            let service = StoreAsyncDispatcher::new(Later);
            let spawned = |task| drop(thread::spawn(move || block_on(task)));
            let service = if in_loop { service } else { service.spawn_on(spawned) };
            server.register(service).unwrap();
        });
        let (client, store) = store(&server, "?via=shm&trust=yes");
        for _ in 0..3 {
            let reply = store.get(&Span { ms: 1 << 20 }).unwrap();
            assert_eq!(sum(&reply), 6 * MIB as u64);
            let lent = |bytes: &Bytes| lies_in_segment(bytes.as_ptr().addr() as u64);
            assert_eq!((lent(&reply.data), lent(&reply.more[0])), (in_loop, in_loop));
        }
        assert_eq!(client.connections()[0].slots_borrowed, Some(0), "all is given back");
        let refused = store.get(&Span { ms: (4 << 20) + 1 }).unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    }
}

#[test]
fn a_peer_that_does_not_trust_gets_a_copy_and_gives_back_at_once() {
    let server = serve("");
    let (client, store) = store(&server, "?via=shm");
    let parcel = Parcel { data: loaned(&store, MIB, 7), keep: true, ..Parcel::default() };
    let receipt = store.put(&parcel).unwrap();
    assert_eq!((receipt.sum, receipt.trusted), (7 * MIB as u64, false));
    assert!(!lies_in_segment(receipt.addresses[0]), "it was not copied");
    drop(parcel);
    assert_eq!(slots_lent(&client, &store), 0, "although the parcel is kept");
    let reply = store.get(&Span { ms: 1 << 20 }).unwrap();
    assert_eq!(sum(&reply), 3 * MIB as u64);
    assert!(!lies_in_segment(reply.data.as_ptr().addr() as u64), "it was not copied");
    assert_eq!(client.connections()[0].slots_borrowed, Some(0));
    store.forget(&Span { ms: 1 }).unwrap();
}

#[test]
fn nested_and_repeated_bytes_are_passed_as_well_and_others_are_copied() {
    let server = serve(TRUSTED);
    let (_client, store) = store(&server, "?via=shm");
    let loan = loaned(&store, 100_000, 1);
    let parcel = Parcel {
        data: Bytes::from(vec![2; 5000]),
        more: vec![
            loan.slice(..50_000),
            Bytes::from(vec![3; 50_000]),
            Bytes::new(),
            loan.slice(10..11),
            loaned(&store, 4096, 4),
        ],
        inner: Some(Box::new(Parcel {
            data: loan.slice(1000..),
            more: vec![loan.clone(), Bytes::from_static(b"plain")],
            text: "inner".into(),
            ..Parcel::default()
        })),
        text: "x".repeat(30_000),
        keep: false,
    };
    let receipt = store.put(&parcel).unwrap();
    assert_eq!(receipt.sum, sum(&parcel));
    let lent: Vec<_> = receipt.addresses.iter().map(|&at| lies_in_segment(at)).collect();
    // The byte by itself is not worth a reference.
    let expected = [false, true, false, false, false, true, true, true, false];
    assert_eq!(lent, expected);
}

#[test]
fn more_loans_than_a_message_can_name_are_copied() {
    let server = serve(TRUSTED);
    let (client, store) = store(&server, "?via=shm");
    let loan = loaned(&store, 200_000, 1);
    let more = (0..100).map(|at| loan.slice(at * 2000..(at + 1) * 2000)).collect();
    let parcel = Parcel { more, ..Parcel::default() };
    let receipt = store.put(&parcel).unwrap();
    assert_eq!(receipt.sum, 200_000);
    let lent = receipt.addresses.iter().filter(|&&at| lies_in_segment(at)).count();
    assert_eq!(lent, 64);
    drop((parcel, loan));
    assert_eq!(slots_lent(&client, &store), 0);
}

#[test]
fn loans_work_by_copying_over_every_other_mechanism() {
    let server = serve(TRUSTED);
    for via in ["unix-stream", "pipe", "shm-futex", "unix-seqpacket"] {
        let (client, store) = store(&server, &format!("?via={via}&trust=yes"));
        let parcel = Parcel { data: loaned(&store, 300_000, 7), ..Parcel::default() };
        assert_eq!(store.put(&parcel).unwrap().sum, 2_100_000, "{via}");
        assert_eq!(store.get(&Span { ms: 5000 }).unwrap().data.len(), 5000, "{via}");
        assert_eq!(slots_lent(&client, &store), 0, "{via}");
    }
}

#[test]
fn a_call_in_the_same_thread_passes_the_bytes_as_they_are() {
    let (event_loop, _server, _) =
        serve_here("inproc:shelf", StoreDispatcher::new(Shelf::default()));
    let client = Client::in_loop(&event_loop);
    let store = StoreCaller::new(&client, "inproc:shelf").unwrap();
    let data = loaned(&store, 10_000, 7);
    let at = data.as_ptr().addr() as u64;
    let receipt = store.put(&Parcel { data, ..Parcel::default() }).unwrap();
    assert_eq!((receipt.addresses[0], receipt.trusted), (at, true));
    assert_eq!(store.get(&Span { ms: 20 }).unwrap().data, vec![3; 20]);
}

#[test]
fn both_ends_lend_in_one_loop() {
    let server = serve(TRUSTED);
    let event_loop = EventLoop::new().unwrap();
    let client = Client::in_loop(&event_loop);
    let store = StoreCaller::new(&client, &server.via("?via=shm&trust=yes")).unwrap();
    let mut kept = Vec::new();
    for round in 0..100 {
        let parcel = Parcel { data: loaned(&store, 70_000, 7), ..Parcel::default() };
        let receipt = store.put(&parcel).unwrap();
        assert!(lies_in_segment(receipt.addresses[0]), "{round}");
        let reply = store.get(&Span { ms: 70_000 }).unwrap();
        assert!(lies_in_segment(reply.data.as_ptr().addr() as u64), "{round}");
        kept.push(reply);
        kept.truncate(10);
    }
    let started = store.start_put(&Parcel { data: loaned(&store, 70_000, 1), ..Parcel::default() });
    assert_eq!(started.wait().unwrap().sum, 70_000);
    store.drop(&Parcel { data: loaned(&store, 70_000, 1), ..Parcel::default() }).unwrap();
}

#[test]
fn a_loan_larger_than_the_limit_is_refused_with_the_limit() {
    let server = serve("");
    for via in ["?via=shm", "?via=pipe"] {
        let (_client, store) = store(&server, via);
        let outcome = store.loan((4 << 20) + 1);
        expect_error(outcome, Code::ResourceExhausted, &["above the limit of 4194304"]);
        // One that just fits leaves no room for the message around it.
        let data = store.loan(4 << 20).unwrap().freeze();
        let outcome = store.put(&Parcel { data, ..Parcel::default() });
        expect_error(outcome, Code::ResourceExhausted, &["above the message limit of 4194304"]);
        assert_eq!(store.put(&Parcel::default()).unwrap().sum, 0, "the connection lives");
    }
}

#[test]
fn parts_that_are_too_large_together_are_refused() {
    let server = serve("");
    let (client, store) = store(&server, "?via=shm");
    let data = loaned(&store, 3 << 20, 1);
    let more = vec![data.clone(); 3];
    expect_code(store.put(&Parcel { more, ..Parcel::default() }), Code::ResourceExhausted);
    drop(data);
    assert_eq!(slots_lent(&client, &store), 0, "what was not sent is taken back");
}

#[test]
fn a_server_does_not_trust_whoever_comes() {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    let refused = server.listen("unix:@nobody-listens-here?trust=yes").unwrap_err();
    assert!(refused.to_string().contains("same-user"), "{refused}");
    assert_eq!(Trust::default(), Trust::No);
}

#[test]
fn detached_bytes_hold_no_slot() {
    let server = serve("");
    let (client, store) = store(&server, "?via=shm&trust=yes");
    let mut reply = store.get(&Span { ms: 50_000 }).unwrap();
    detach(&mut reply.data);
    assert_eq!(client.connections()[0].slots_borrowed, Some(0));
    assert!(!lies_in_segment(reply.data.as_ptr().addr() as u64));
    assert_eq!(reply.data, vec![3; 50_000]);
}

#[test]
fn trust_is_per_connection_of_one_client() {
    let server = serve("");
    let client = Client::new();
    for (parameters, trusted) in [("?via=shm", false), ("?via=shm&trust=yes", true)] {
        let store = StoreCaller::new(&client, &server.via(parameters)).unwrap();
        let reply = store.get(&Span { ms: 50_000 }).unwrap();
        assert_eq!(lies_in_segment(reply.data.as_ptr().addr() as u64), trusted);
    }
    let trusts: Vec<_> = client.connections().iter().map(|info| info.is_trusted).collect();
    assert_eq!(trusts, [false, true]);
}

#[test]
fn a_server_shows_what_it_lends() {
    let server = Served::with(Limits::default(), "", |_, server, _| {
        let seen = server.clone();
        server.register(StoreDispatcher::new(Mirror { server: seen })).unwrap();
    });
    let (_client, store) = store(&server, "?via=shm&trust=yes");
    let kept = store.get(&Span { ms: 10_000 }).unwrap();
    let reply = store.get(&Span { ms: 10_000 }).unwrap();
    assert!(reply.text.contains("over shm"), "{}", reply.text);
    assert!(reply.text.contains("2 slots lent"), "one is kept, one is new: {}", reply.text);
    drop(kept);
}

/// Reports what the server knows of its connection.
struct Mirror {
    server: Server,
}

impl Store for Mirror {
    fn put(&self, _: &Context<'_>, _: &Parcel) -> Result<Receipt, Status> {
        Ok(Receipt::default())
    }

    fn get(&self, context: &Context<'_>, span: &Span) -> Result<Parcel, Status> {
        let data = context.loan(span.ms as usize)?.freeze();
        let text = self.server.connections()[0].to_string();
        Ok(Parcel { data, text, ..Parcel::default() })
    }

    fn forget(&self, _: &Context<'_>, _: &Span) -> Result<(), Status> {
        Ok(())
    }

    fn drop(&self, _: &Context<'_>, _: &Parcel) {}
}
