//! Slices that are kept: back-pressure, and what is left of them when an end goes.

use nearcall_os::descriptor;

use super::*;
use crate::observed::PATIENCE;
use crate::stage::prelude::*;
use crate::two_processes::start;

/// What each end may have out.
const SLOTS: usize = 64;

#[test]
fn a_server_that_keeps_every_slot_stops_the_lending_and_nothing_else() {
    let server = serve(TRUSTED);
    let (client, store) = store(&server, "?via=shm");
    let object = object(&client, StoreCaller::INTERFACE, &server.via("?via=shm"));
    let put = || {
        let data = object.with(CallOptions::new().no_wait()).loan(5000)?.freeze();
        store.put(&Parcel { data, keep: true, ..Parcel::default() })
    };
    for _ in 0..SLOTS {
        put().unwrap();
    }
    let refused = expect_code(put(), Code::ResourceExhausted);
    for words in ["64 slots are kept", "drops or detaches", "not loaned"] {
        assert!(refused.message().contains(words), "{refused}");
    }
    assert_eq!(slots_lent(&client, &store), SLOTS, "and the connection lives");
    let plain = Parcel { data: Bytes::from(vec![1; 5000]), ..Parcel::default() };
    assert_eq!(store.put(&plain).unwrap().sum, 5000);
    store.forget(&Span { ms: 1 }).unwrap();
    put().unwrap();
    assert_eq!(put().unwrap_err().code(), Code::ResourceExhausted);
    store.forget(&Span { ms: 1000 }).unwrap();
    assert_eq!(slots_lent(&client, &store), 0);
}

#[test]
fn a_client_that_keeps_every_slot_is_refused_more() {
    let server = serve("");
    let (_client, store) = store(&server, "?via=shm&trust=yes");
    let get = || store.get(&Span { ms: 5000 });
    let mut kept: Vec<_> = (0..SLOTS).map(|_| get().unwrap()).collect();
    expect_error(get(), Code::ResourceExhausted, &["drops or detaches"]);
    assert_eq!(store.get(&Span { ms: 10 }).unwrap().data.len(), 10, "small ones are no loans");
    kept.truncate(SLOTS - 1);
    kept.push(get().unwrap());
    for parcel in &mut kept {
        detach(&mut parcel.data);
    }
    for _ in 0..SLOTS {
        assert_eq!(sum(&get().unwrap()), 15_000);
    }
    assert!(kept.iter().all(|parcel| sum(parcel) == 15_000));
}

#[test]
fn slices_may_go_in_any_thread_and_in_any_order() {
    let server = serve("");
    let (client, store) = store(&server, "?via=shm&trust=yes");
    for _ in 0..5 {
        let kept: Vec<_> =
            (0..SLOTS).map(|_| store.get(&Span { ms: 8000 }).unwrap().data).collect();
        thread::scope(|scope| {
            for part in kept.chunks(16) {
                let part = part.to_vec();
                scope.spawn(move || part.iter().for_each(|data| assert_eq!(data.len(), 8000)));
            }
        });
    }
    assert_eq!(client.connections()[0].slots_borrowed, Some(0));
}

#[test]
fn a_slice_is_readable_when_its_connection_has_ended() {
    let server = serve("");
    let (client, store) = store(&server, "?via=shm&trust=yes");
    let reply = store.get(&Span { ms: 1 << 20 }).unwrap();
    let loan = loaned(&store, 70_000, 9);
    drop((store, client));
    drop(server);
    assert!(lies_in_segment(reply.data.as_ptr().addr() as u64));
    assert_eq!(sum(&reply), 3 << 20);
    assert!(loan.iter().all(|&byte| byte == 9), "and so is what was loaned");
}

#[test]
fn a_loan_of_an_old_connection_is_copied_over_the_new_one() {
    let server = serve(TRUSTED);
    let address = server.via("?via=shm");
    let (client, store) = store(&server, "?via=shm");
    let data = loaned(&store, 70_000, 1);
    drop((store, client));
    let (_client, store) = (Client::new(), StoreCaller::new(&Client::new(), &address).unwrap());
    let receipt = store.put(&Parcel { data, ..Parcel::default() }).unwrap();
    assert_eq!(receipt.sum, 70_000);
    assert!(!lies_in_segment(receipt.addresses[0]));
}

#[test]
fn a_call_that_is_given_up_keeps_no_slot() {
    let server = serve(TRUSTED);
    let (client, store) = store(&server, "?via=shm&trust=yes");
    for round in 0..3 * SLOTS {
        if round % 10 == 0 {
            // The other calls are not waited for, so the server may be far behind.
            store.forget(&Span { ms: 0 }).unwrap();
        }
        let started = store.start_get(&Span { ms: 5000 });
        started.cancel();
        let data = loaned(&store, 5000, 1);
        let parcel = Parcel { data, ..Parcel::default() };
        drop(store.start_put(&parcel));
    }
    assert_eq!(slots_lent(&client, &store), 0);
    assert_eq!(client.connections()[0].slots_borrowed, Some(0));
    assert_eq!(sum(&store.get(&Span { ms: 5000 }).unwrap()), 15_000);
}

#[test]
fn a_killed_client_that_held_slots_leaves_nothing() {
    // In a process of its own, where no other test opens anything.
    let mut host = start("lends", &unique_address());
    let status = host.wait(Some(3 * PATIENCE)).unwrap().expect("it does not hang");
    assert!(status.success(), "{status}");
}

/// Serves clients that are killed while they hold slots and lend some.
pub(crate) fn lend_to_the_dying(address: &str) {
    let event_loop = EventLoop::new().unwrap();
    let server = Server::new(&event_loop);
    server.register(StoreDispatcher::new(Shelf::default())).unwrap();
    server.listen(&format!("{address}{TRUSTED}")).unwrap();
    let turn_until = |done: &dyn Fn() -> bool| {
        wait_until("the client", || {
            event_loop.next(Deadline::after(Duration::from_millis(1))).unwrap();
            done()
        });
    };
    let round = || {
        let mut holder = start("holds", address);
        turn_until(&|| {
            let all = server.connections();
            all.iter().any(|info| info.slots_lent == Some(10) && info.slots_borrowed == Some(10))
        });
        holder.kill().unwrap();
        turn_until(&|| server.connections().is_empty());
    };
    // What lives as long as the process.
    round();
    let before = (descriptor::open_count().unwrap(), segments());
    for _ in 0..5 {
        round();
    }
    let after = (descriptor::open_count().unwrap(), segments());
    assert_eq!(before.0, after.0, "descriptors");
    // What the service keeps stays, of each round ten parcels and the page that counts them; what
    // was lent to the dead goes.
    assert_eq!(after.1 - before.1, 5 * 11, "mappings");
}

/// Keeps what it is lent, has the server keep what it lends, and waits for its end.
pub(crate) fn hold(address: &str) {
    let client = Client::new();
    client.hunt(address, PATIENCE).unwrap();
    let store = StoreCaller::new(&client, &format!("{address}?via=shm&trust=yes")).unwrap();
    let mut kept = Vec::new();
    for _ in 0..10 {
        kept.push(store.get(&Span { ms: 5000 }).unwrap());
        let data = loaned(&store, 5000, 1);
        store.put(&Parcel { data, keep: true, ..Parcel::default() }).unwrap();
    }
    clock::pause(PATIENCE);
    assert_eq!(kept.len(), 10);
}

/// Mappings of segments in this process.
fn segments() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("nearcall-segment")).count()
}
