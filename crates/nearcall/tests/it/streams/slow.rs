//! Readers that stop reading: their senders stop, and no other call does.

use super::forms::{Caller, in_each_form};
use super::served::{Kind, Plan, Served, item, own_addresses};
use crate::stage::prelude::*;

const ITEM_BYTES: u32 = 10_000;

#[timed]
fn r11_a_reader_that_stops_stops_its_sender_only() {
    in_each_form(stop_reading);
    for kind in Kind::BESIDE_THE_LOOP {
        for address in own_addresses() {
            let served = Served::own(kind, &address);
            let caller = Caller::Blocking(served.caller(&served.own_client(), ""));
            stop_reading(&format!("{kind:?}, {address}"), &served, &caller);
        }
    }
}

fn stop_reading(what: &str, served: &Served, streams: &Caller) {
    let plan = Plan { items: 1000, bytes: ITEM_BYTES, code: 0 };
    let mut replies = streams.count(&plan).unwrap();
    assert_eq!(replies.recv().unwrap().unwrap().number, 0);
    let streams = streams.with(CallOptions::new().deadline(Duration::from_secs(20)));
    let most = (5 << 20) / u64::from(ITEM_BYTES);
    // What the client receives beside the reply is bounded by the credit.
    for _ in 0..100 {
        assert_eq!(streams.say(&item(1, 10)).unwrap(), item(1, 10));
    }
    let sent = served.settled();
    assert!(sent <= most, "{what}: {sent} items of {ITEM_BYTES} bytes are under way");
    let rest = replies.map(Result::unwrap).count();
    assert_eq!(rest, 999, "{what}");
}

#[timed]
fn a_service_that_does_not_read_stops_its_caller() {
    let limits = Limits { stream_window_bytes: 50_000, ..Limits::default() };
    let served = Served::with(Kind::Thread, limits);
    let streams = served.caller(&Client::new(), "");
    // The echoes are not read, so the service stops reading when their window is full.
    let client_limits = Limits { stream_window_bytes: 1000, ..Limits::default() };
    let narrow = served.caller(&Client::with_limits(None, client_limits), "");
    let (mut requests, mut replies) = narrow.exchange().unwrap();
    let mut sent = 0;
    let refused = loop {
        match requests.try_send(&item(sent, 1000)) {
            Ok(()) => sent += 1,
            Err(status) => break status,
        }
    };
    assert_eq!(refused.code(), Code::ResourceExhausted);
    // What the window of the service holds, and the two items that it echoes.
    assert!((2..100).contains(&sent), "{sent}");
    assert_eq!(streams.say(&item(1, 1)).unwrap(), item(1, 1));
    for number in 0..sent {
        assert_eq!(replies.recv().unwrap().unwrap(), item(number, 1000));
    }
    requests.finish().unwrap();
    assert_eq!(replies.recv().unwrap(), None);
}

/// A look for room that finds none ends the announced sleep of the channel: the loop has to
/// announce the next one.
#[timed]
fn a_loop_that_has_looked_for_room_in_vain_hears_of_it() {
    for mechanism in ["shm", "shm-eventfd", "shm-unix"] {
        let served = Served::start(Kind::Loop);
        let (locked, is_locked) = mpsc::channel();
        thread::scope(|scope| {
            let (go_on, may_go_on) = mpsc::channel();
            let counts = &served.counts;
            scope.spawn(move || {
                let _reading = counts.reading.lock().unwrap();
                locked.send(()).unwrap();
                // A failure of the test drops the other end.
                let _ = may_go_on.recv();
                // The client sleeps by then.
                clock::pause(Duration::from_millis(50));
            });
            is_locked.recv().unwrap();
            look_in_vain(&served, mechanism, || go_on.send(()).unwrap());
        });
    }
}

fn look_in_vain(served: &Served, mechanism: &str, go_on: impl FnOnce()) {
    let event_loop = EventLoop::new().unwrap();
    let streams = served.caller(&Client::in_loop(&event_loop), &format!("?via={mechanism}"));
    streams.say(&item(0, 1)).unwrap();
    let mut summed = streams.sum().unwrap();
    // More than the channel holds, and a sleep of the loop.
    let asked: Vec<_> = (0..60).map(|it| streams.start_say(&item(it, 60_000))).collect();
    let soon = clock::now() + Duration::from_millis(20);
    assert!(event_loop.next(Deadline::at(soon)).unwrap().is_none());
    go_on();
    summed.send(&item(2, 1)).unwrap();
    assert_eq!(summed.finish().unwrap().number, 2, "{mechanism}");
    for (number, call) in (0..).zip(asked) {
        assert_eq!(call.wait().unwrap(), item(number, 60_000), "{mechanism}");
    }
}

/// The window has credit for an item for which neither the channel nor the outbox has room.
#[timed]
fn an_item_that_finds_no_room_waits_until_its_deadline() {
    let limits = Limits { stream_window_bytes: 1 << 24, ..Limits::default() };
    let event_loop = EventLoop::new().unwrap();
    let clients = [None, Some(&event_loop)].map(|it| Client::with_limits(it, limits));
    for (client, bytes) in clients.iter().flat_map(|it| [(it, 10), (it, 60_000)]) {
        let served = Served::with(Kind::Loop, limits);
        let streams = served.caller(client, "");
        streams.say(&item(0, 1)).unwrap();
        let reading = served.counts.reading.lock().unwrap();
        let options = CallOptions::new().deadline(Duration::from_millis(300));
        let mut summed = streams.with(options).sum().unwrap();
        let sent = (0..1_000_000).map(|number| summed.send(&item(number, bytes)));
        let late = sent.filter_map(Result::err).next().unwrap();
        assert_eq!(late.code(), Code::DeadlineExceeded, "{bytes}: {late}");
        drop(reading);
        assert_eq!(streams.say(&item(1, 1)).unwrap(), item(1, 1));
    }
}

/// An item may be longer than the window; the next one waits until it was read.
#[timed]
fn a_window_smaller_than_an_item_carries_items_one_by_one() {
    let limits = Limits { stream_window_bytes: 1, ..Limits::default() };
    for kind in [Kind::Loop, Kind::Thread, Kind::Async] {
        let served = Served::with(kind, limits);
        let streams = served.caller(&Client::with_limits(None, limits), "");
        let plan = Plan { items: 50, bytes: 20_000, code: 0 };
        assert_eq!(streams.count(&plan).unwrap().map(Result::unwrap).count(), 50);
        let mut requests = streams.sum().unwrap();
        (0..50).for_each(|number| requests.send(&item(number, 100)).unwrap());
        assert_eq!(requests.finish().unwrap().number, (0..50).sum());
    }
}

#[timed]
fn an_end_without_streams_refuses_them() {
    let served = Served::with(Kind::Loop, Limits { stream_window_bytes: 0, ..Limits::default() });
    let streams = served.caller(&Client::new(), "");
    expect_code(streams.count(&Plan::default()), Code::Unimplemented);
    assert_eq!(streams.say(&item(1, 1)).unwrap(), item(1, 1));
}
