//! Two connections with a stream between them: each promise of streams once.
//!
//! **Not here:** all of it at random (`simulation.rs`), peers that break the rules (`hostile.rs`).

use nearcall_wire::{
    CancelReason, Code, Event, IncomingCall, ItemError, Limits, OutgoingCall, Request, Shape,
    StreamCall, Time,
};

use crate::link::Link;

const CLIENT: usize = 0;
const SERVER: usize = 1;
/// Room for ten items of 60 bytes with their headers.
const WINDOW: u32 = 1000;

/// A streaming call that has arrived at the server.
fn open_with_stream(shape: Shape, span_ns: u64) -> (Link, OutgoingCall, IncomingCall) {
    let mut link = Link::open(Limits { stream_window_bytes: WINDOW, ..Limits::default() });
    let request = Link::request(link.now.after_ns(span_ns));
    let call = link.call(CLIENT, &Request { shape, ..request }).unwrap();
    link.settle();
    let served = *link.sides[SERVER].serving.first().unwrap();
    (link, call, served)
}

/// Sends items of 60 bytes until the credit is used up. Returns their number.
fn send_all(link: &mut Link, from: usize, call: StreamCall) -> usize {
    let mut sent = 0;
    while link.item(from, call, 60).is_ok() {
        sent += 1;
    }
    assert_eq!(link.sides[from].connection.credit_left(call), Some(0));
    sent
}

#[test]
fn the_credit_stops_the_sender_and_goes_on_when_items_are_consumed() {
    let (mut link, call, served) = open_with_stream(Shape::CallerStreams, u64::MAX);
    assert_eq!(send_all(&mut link, CLIENT, call.into()), 10);
    link.settle();
    let server = &mut link.sides[SERVER];
    for _ in 0..2 {
        assert!(server.consume(served.into()));
        assert!(!server.connection.has_transmit(), "less than a quarter of the window");
    }
    assert!(server.consume(served.into()));
    assert!(server.connection.has_transmit());
    link.settle();
    assert_eq!(link.sides[CLIENT].credits, 1);
    assert_eq!(link.sides[CLIENT].connection.credit_left(call.into()), Some(300));
    assert_eq!(send_all(&mut link, CLIENT, call.into()), 3);
}

#[test]
fn an_item_waits_for_its_whole_cost() {
    let (mut link, call, served) = open_with_stream(Shape::CalleeStreams, u64::MAX);
    link.item(SERVER, served.into(), 260).unwrap();
    link.item(SERVER, served.into(), 260).unwrap();
    assert_eq!(link.item(SERVER, served.into(), 661), Err(ItemError::NoCredit));
    link.settle();
    assert!(link.sides[CLIENT].consume(call.into()));
    link.settle();
    let server = &mut link.sides[SERVER];
    assert_eq!(server.connection.credit_left(served.into()), Some(700));
    assert_eq!(server.credits, 0, "one byte is missing");
    assert!(link.sides[CLIENT].consume(call.into()));
    link.settle();
    assert_eq!(link.sides[SERVER].credits, 1);
    link.item(SERVER, served.into(), 661).unwrap();
}

#[test]
fn an_item_longer_than_the_window_costs_three_quarters_of_it() {
    let (mut link, call, served) = open_with_stream(Shape::CalleeStreams, u64::MAX);
    // So much may be consumed and not granted: less than a quarter of the window.
    link.item(SERVER, served.into(), 209).unwrap();
    link.settle();
    assert!(link.sides[CLIENT].consume(call.into()));
    link.settle();
    let left = |link: &mut Link| link.sides[SERVER].connection.credit_left(served.into());
    assert_eq!(left(&mut link), Some(751));
    link.item(SERVER, served.into(), 5000).unwrap();
    assert_eq!(left(&mut link), Some(1));
    assert_eq!(link.item(SERVER, served.into(), 0), Err(ItemError::NoCredit));
    link.settle();
    assert!(link.sides[CLIENT].consume(call.into()));
    link.settle();
    assert_eq!(left(&mut link), Some(WINDOW));
}

#[test]
fn no_sender_starves_however_small_the_window_is() {
    for window in 1..40 {
        let mut link = Link::open(Limits { stream_window_bytes: window, ..Limits::default() });
        let request = Request { shape: Shape::CallerStreams, ..Link::request(Time::NEVER) };
        let call = link.call(CLIENT, &request).unwrap();
        link.settle();
        let served = *link.sides[SERVER].serving.first().unwrap();
        for item in 0..100 {
            link.item(CLIENT, call.into(), item * 13 % 50).unwrap();
            link.settle();
            assert!(link.sides[SERVER].consume(served.into()));
            link.settle();
            link.check_credit();
        }
    }
}

#[test]
fn both_directions_have_their_own_credit() {
    let (mut link, call, served) = open_with_stream(Shape::BothStream, u64::MAX);
    assert_eq!(send_all(&mut link, CLIENT, call.into()), 10);
    assert_eq!(send_all(&mut link, SERVER, served.into()), 10);
    link.settle();
    link.half_close(CLIENT, call).unwrap();
    assert_eq!(link.half_close(CLIENT, call), Err(ItemError::Ended));
    assert_eq!(link.item(CLIENT, call.into(), 1), Err(ItemError::Ended));
    link.settle();
    assert_eq!(link.sides[SERVER].half_closes, 1);
    link.answer(SERVER, served, Code::Ok);
    assert_eq!(link.sides[SERVER].connection.credit_left(served.into()), None);
    link.settle();
    assert!(link.sides[CLIENT].open.is_empty());
}

#[test]
fn a_call_without_a_stream_takes_no_items() {
    let (mut link, call, served) = open_with_stream(Shape::CalleeStreams, u64::MAX);
    assert_eq!(link.item(CLIENT, call.into(), 1), Err(ItemError::NotAStream));
    assert_eq!(link.half_close(CLIENT, call), Err(ItemError::NotAStream));
    assert!(link.item(SERVER, served.into(), 1).is_ok());
    let plain = link.call(CLIENT, &Link::request(Time::NEVER)).unwrap();
    let client = &mut link.sides[CLIENT].connection;
    let payload = nearcall_wire::Payload::EMPTY;
    assert_eq!(client.send_item(plain.into(), payload), Err(ItemError::NotAStream));
    assert_eq!(client.half_close(plain), Err(ItemError::NotAStream));
}

#[test]
fn items_that_cross_a_cancel_or_a_reply_are_dropped_and_counted() {
    let (mut link, call, served) = open_with_stream(Shape::CalleeStreams, u64::MAX);
    link.item(SERVER, served.into(), 5).unwrap();
    link.cancel(CLIENT, call);
    link.settle();
    assert_eq!(link.sides[CLIENT].connection.counts().items_late, 1);
    let cancelled = Event::Cancelled { call: served, reason: CancelReason::Cancelled };
    assert_eq!(link.sides[SERVER].events.last(), Some(&cancelled));

    let (mut link, call, served) = open_with_stream(Shape::CallerStreams, u64::MAX);
    link.item(CLIENT, call.into(), 5).unwrap();
    link.answer(SERVER, served, Code::Aborted);
    link.settle();
    assert_eq!(link.sides[SERVER].connection.counts().items_late, 1);
}

#[test]
fn items_of_a_call_given_up_are_none_of_the_next_in_its_slot() {
    let (mut link, call, served) = open_with_stream(Shape::CalleeStreams, u64::MAX);
    link.item(SERVER, served.into(), 5).unwrap();
    link.cancel(CLIENT, call);
    let shape = Shape::CalleeStreams;
    let next = link.call(CLIENT, &Request { shape, ..Link::request(Time::NEVER) }).unwrap();
    assert_eq!(next.slot(), call.slot());
    link.settle();
    assert_eq!(link.sides[CLIENT].connection.counts().items_late, 1);
    let served = *link.sides[SERVER].serving.first().unwrap();
    link.item(SERVER, served.into(), 5).unwrap();
    link.settle();
    assert!(link.sides[CLIENT].consume(next.into()));
}

#[test]
fn a_deadline_ends_the_whole_stream() {
    let (mut link, call, served) = open_with_stream(Shape::BothStream, 500);
    link.item(CLIENT, call.into(), 5).unwrap();
    link.run_out();
    assert!(link.sides.iter().all(|side| side.streams.is_empty()));
    let client = &mut link.sides[CLIENT].connection;
    assert_eq!(client.send_item(call.into(), nearcall_wire::Payload::EMPTY), Err(ItemError::Ended));
    let server = &mut link.sides[SERVER].connection;
    let late = server.send_item(served.into(), nearcall_wire::Payload::EMPTY);
    assert_eq!(late, Err(ItemError::Ended));
}

#[test]
fn streams_under_way_outlive_the_goodbye() {
    let (mut link, call, served) = open_with_stream(Shape::BothStream, u64::MAX);
    link.sides[SERVER].connection.drain();
    link.settle();
    for _ in 0..50 {
        link.item(CLIENT, call.into(), 60).unwrap();
        link.item(SERVER, served.into(), 60).unwrap();
        link.settle();
        assert!(link.sides[SERVER].consume(served.into()));
        assert!(link.sides[CLIENT].consume(call.into()));
        link.settle();
    }
    link.half_close(CLIENT, call).unwrap();
    link.settle();
    link.answer(SERVER, served, Code::Ok);
    link.settle();
    assert!(link.sides.iter().all(|side| side.is_drained));
}

#[test]
fn items_of_a_refused_stream_are_dropped() {
    let mut link = Link::open(Limits { stream_window_bytes: WINDOW, ..Limits::default() });
    let shape = Shape::CallerStreams;
    let request = Request { shape, ..Link::request(Time::NEVER) };
    let call = link.call(CLIENT, &request).unwrap();
    link.item(CLIENT, call.into(), 60).unwrap();
    link.half_close(CLIENT, call).unwrap();
    link.sides[SERVER].connection.drain();
    link.settle();
    let counts = link.sides[SERVER].connection.counts();
    assert_eq!((counts.calls_refused, counts.items_late), (1, 1));
    assert!(link.sides.iter().all(|side| side.is_drained));
}
