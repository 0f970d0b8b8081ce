//! Streams between callers and services: all shapes, over all mechanisms, by services in the loop,
//! in other threads, in a pool and as futures.
//!
//! **Not here:** frames that break the rules (`nearcall-wire`), streams of async callers.

mod early;
mod ends;
mod forms;
mod headers;
pub(crate) mod killed;
mod metadata;
mod own_thread;
pub(crate) mod served;
mod slow;
mod tasks;

pub(crate) use self::forms::Caller;
use self::forms::in_each_form;
use self::served::{Item, Kind, Plan, Served, Service, StreamsCaller, item, register};
use crate::stage::prelude::*;

/// All four shapes with items of these lengths, checked item by item.
fn exchange(streams: &Caller, options: &CallOptions, items: u64, bytes: u32) {
    let plan = Plan { items, bytes, code: 0 };
    let mut next = 0;
    for reply in streams.with(options.clone()).count(&plan).unwrap() {
        assert_eq!(reply.unwrap(), item(next, bytes));
        next += 1;
    }
    assert_eq!(next, items);
    let mut upload = streams.with(options.clone()).sum().unwrap();
    for number in 0..items {
        upload.send(&item(number, bytes)).unwrap();
    }
    assert_eq!(upload.finish().unwrap().number, (0..items).sum());
    let (mut requests, mut replies) = streams.with(options.clone()).exchange().unwrap();
    for number in 0..items {
        requests.send(&item(number, bytes)).unwrap();
        assert_eq!(replies.recv().unwrap(), Some(item(number, bytes)));
    }
    requests.finish().unwrap();
    assert_eq!(replies.recv().unwrap(), None);
    assert_eq!(replies.recv().unwrap(), None, "the end stays");

    assert_eq!(streams.with(options.clone()).say(&item(7, bytes)).unwrap(), item(7, bytes));
}

pub(crate) fn exchange_all(streams: &Caller) {
    let options = CallOptions::new().deadline(Duration::from_secs(30));
    for (items, bytes) in [(0, 0), (1, 0), (300, 8), (20, 20_000), (5, 1 << 20)] {
        exchange(streams, &options, items, bytes);
    }
}

#[timed]
fn every_mechanism_carries_streams() {
    let event_loop = EventLoop::new().unwrap();
    for mechanism in Mechanism::all().filter(|mechanism| mechanism.supported().is_ok()) {
        for wait in mechanism.waits() {
            let parameters = format!("?via={mechanism}&wait={wait}");
            let _alone = alone(&parameters);
            for client in [Client::new(), Client::in_loop(&event_loop)] {
                let served = Served::start(Kind::Loop);
                exchange_all(&Caller::Blocking(served.caller(&client, &parameters)));
            }
        }
    }
}

#[timed]
fn every_kind_of_service_streams_in_every_way() {
    in_each_form(|_, _, caller| exchange_all(caller));
}

/// Many streams of one connection at once, with everything from a seed.
#[timed]
fn the_books_of_many_streams_agree() {
    for seed in 0..12 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let served = Served::start([Kind::Thread, Kind::Async][rng.usize(0..2)]);
        let streams = served.caller(&Client::new(), "");
        let mut open: Vec<_> = (0..rng.usize(1..6))
            .map(|_| {
                let (requests, replies) = streams.exchange().unwrap();
                (requests, replies, 0_u64, 0_u64)
            })
            .collect();
        for _ in 0..rng.usize(10..300) {
            let index = rng.usize(0..open.len());
            let (requests, replies, sent, received) = &mut open[index];
            // Never more under way than both windows hold.
            if rng.bool() && *sent - *received < 20 {
                requests.send(&item(*sent, length(*sent))).unwrap();
                *sent += 1;
            } else if received < sent {
                let reply = replies.recv().unwrap().unwrap();
                assert_eq!(reply, item(*received, length(*received)), "seed {seed}");
                *received += 1;
            }
            if rng.u8(0..20) == 0 {
                assert_eq!(streams.say(&item(1, 1)).unwrap(), item(1, 1));
            }
        }
        for (requests, mut replies, sent, mut received) in open {
            requests.finish().unwrap();
            while let Some(reply) = replies.recv().unwrap() {
                assert_eq!(reply, item(received, length(received)), "seed {seed}");
                received += 1;
            }
            assert_eq!(sent, received, "seed {seed}");
        }
    }
}

/// Lengths of items around what is copied and what keeps its buffer.
fn length(number: u64) -> u32 {
    [0, 8, 100, 5_000, 16_300, 16_400, 70_000][usize::try_from(number % 7).unwrap()]
}

/// Long `bytes` fields are slices of the buffer that their item came in.
#[timed]
fn long_items_are_not_copied_again() {
    let served = Served::start(Kind::Loop);
    let streams = served.caller(&Client::new(), "");
    let plan = Plan { items: 3, bytes: 1 << 20, code: 0 };
    let kept: Vec<_> = streams.count(&plan).unwrap().map(Result::unwrap).collect();
    assert!((0..3).all(|number| kept[number] == item(number as u64, 1 << 20)));
}

fn check_refused(status: &Status, name: &str, how: &str) {
    assert_eq!(status.code(), Code::Unimplemented);
    let text = status.message();
    assert!(text.contains(name) && text.contains(how), "{text}");
}

/// Calls each method of an object in other shapes than it has.
fn check_wrong_shapes(client: &Client, address: &str) {
    let object = object(client, StreamsCaller::INTERFACE, address);
    let method = |name: &str| method(StreamsCaller::INTERFACE, name);
    for (name, how) in [
        ("Count", "stream of replies"),
        ("Sum", "stream of requests"),
        ("Exchange", "both streams"),
    ] {
        let name_in_text = format!("streams.v1.Streams/{name}");
        let call = object.start::<Item, Item>(method(name), &Item::default());
        check_refused(&call.wait().unwrap_err(), &name_in_text, how);
        // It is one-way: no caller waits for an answer.
        object.send(method(name), &Item::default()).unwrap();
    }
    let replies = object.open_reply_stream::<_, Item>(method("Say"), &item(1, 1));
    let status = replies.unwrap().recv().unwrap_err();
    check_refused(&status, "streams.v1.Streams/Say", "without a stream");
    let requests = object.open_request_stream::<Item, Item>(method("Count"));
    check_refused(&requests.unwrap().finish().unwrap_err(), "Count", "stream of replies");
    let both = object.open_both_streams::<Item, Item>(method("Sum"));
    let status = both.unwrap().1.recv().unwrap_err();
    check_refused(&status, "Sum", "stream of requests");
    let streams = StreamsCaller::new(client, address).unwrap();
    assert_eq!(streams.say(&item(1, 1)).unwrap(), item(1, 1), "the connection lives");
}

#[timed]
fn wrong_shapes_say_how_to_call() {
    for kind in [Kind::Loop, Kind::Pool, Kind::Async] {
        check_wrong_shapes(&Client::new(), &Served::start(kind).address);
        let event_loop = EventLoop::new().unwrap();
        let server = Server::new(&event_loop);
        register(&server, Service::new(kind));
        let address = server.listen(&everything(&unique_address())).unwrap().to_string();
        check_wrong_shapes(&Client::in_loop(&event_loop), &address);
    }
    let (served, client) = (crate::support::Served::start(), Client::new());
    let echo = object(&client, EchoCaller::INTERFACE, &served.address);
    let note = method(EchoCaller::INTERFACE, "Note");
    let replies = echo.open_reply_stream::<_, Words>(note, &words(1));
    let status = replies.unwrap().recv().unwrap_err();
    check_refused(&status, "echo.v1.Echo/Note", "is one-way; send it one message");
}

#[test]
fn handles_of_services_may_go_to_other_threads() {
    fn is_send<T: Send>() {}
    is_send::<nearcall::stream::ItemSender<Item>>();
    is_send::<nearcall::stream::ItemReceiver<Item>>();
    is_send::<nearcall::stream::AsyncItemSender<Item>>();
    is_send::<nearcall::stream::AsyncItemReceiver<Item>>();
}
