//! Two connections that do what they should: each promise of the protocol once.
//!
//! **Not here:** all of it at random (`simulation.rs`), peers that break the rules (`hostile.rs`).

use nearcall_wire::{
    CallId, CallProtocol, CancelReason, CloseReason, Code, End, Ended, Event, Frame, Limits,
    OutgoingCall, Payload, PingError, ReplyError, Shape, StartError, Time,
};

use crate::link::Link;

const CLIENT: usize = 0;
const SERVER: usize = 1;

fn open() -> Link {
    Link::open(Limits::default())
}

/// A call that has arrived at the server.
fn open_with_call(span_ns: u64) -> (Link, OutgoingCall) {
    let mut link = open();
    let request = Link::request(link.now.after_ns(span_ns));
    let call = link.call(CLIENT, &request).unwrap();
    link.settle();
    assert_eq!(link.sides[SERVER].serving.len(), 1);
    (link, call)
}

fn answer_all(link: &mut Link, side: usize, status: Code) {
    for call in link.sides[side].serving.clone() {
        link.answer(side, call, status);
    }
    link.settle();
}

#[track_caller]
fn check_end(link: &Link, call: OutgoingCall, end: End) {
    let ends = link.sides[CLIENT]
        .events
        .iter()
        .filter(|event| matches!(event, Event::Ended { call: ended, .. } if *ended == call));
    assert_eq!(ends.collect::<Vec<_>>(), [&Event::Ended { call, end }]);
}

const ANSWER: Payload = Payload { metadata_bytes: 5, body_bytes: 9, ..Payload::EMPTY };

#[test]
fn the_greeting_agrees_on_the_smaller_limits() {
    let mut link = Link::new(Limits::default());
    let small = Limits {
        message_bytes_max: 4096,
        metadata_bytes_max: 1,
        calls_in_max: 3,
        calls_out_max: 9,
        stream_window_bytes: 700,
        timeout_ns_max: nearcall_wire::limits::TIMEOUT_NS_MAX,
        references: false,
        ..Limits::default()
    };
    link.sides[SERVER].connection = CallProtocol::new([2; 16], small);
    link.settle();
    let [Event::Opened(server)] = link.sides[CLIENT].events[..] else { panic!() };
    assert_eq!((server.instance, server.version), ([2; 16], 1));
    assert_eq!((server.message_bytes_max, server.metadata_bytes_max), (4096, 1));
    assert_eq!((server.calls_out_max, server.stream_window_bytes), (3, 700));
    let [Event::Opened(client)] = link.sides[SERVER].events[..] else { panic!() };
    assert_eq!((client.message_bytes_max, client.calls_out_max), (4096, 9));
}

#[test]
fn nothing_starts_before_the_greeting() {
    let mut connection = CallProtocol::new([0; 16], Limits::default());
    let request = Link::request(Time::NEVER);
    assert_eq!(connection.start_call(Time::from_ns(0), &request), Err(StartError::NotOpen));
    assert_eq!(connection.start_oneway(Time::from_ns(0), &request), Err(StartError::NotOpen));
    assert_eq!(connection.ping(Time::from_ns(0)), Err(PingError::NotOpen));
}

#[test]
fn a_reply_ends_the_call() {
    let (mut link, call) = open_with_call(u64::MAX);
    answer_all(&mut link, SERVER, Code::Ok);
    check_end(&link, call, End::Reply(ANSWER));
    assert_eq!(link.sides[CLIENT].connection.cancel(call), Err(Ended));
}

#[test]
fn an_error_ends_the_call() {
    let (mut link, call) = open_with_call(u64::MAX);
    answer_all(&mut link, SERVER, Code::Unimplemented);
    check_end(&link, call, End::Error { status: Code::Unimplemented, payload: ANSWER });
}

#[test]
fn success_is_no_error() {
    let (mut link, _) = open_with_call(u64::MAX);
    let call = *link.sides[SERVER].serving.first().unwrap();
    let head = link.sides[SERVER].connection.fail(call, Code::Ok, Payload::EMPTY).unwrap();
    let event = link.sides[CLIENT].connection.handle_message(link.now, &head, head.len());
    let Ok(Some(Event::Ended { end, .. })) = event else { panic!("{event:?}") };
    assert_eq!(end.status(), Code::Unknown);
}

#[test]
fn replies_come_in_any_order() {
    let mut link = open();
    let request = Link::request(Time::NEVER);
    let calls: Vec<_> = (0..100).map(|_| link.call(CLIENT, &request).unwrap()).collect();
    link.settle();
    for call in link.sides[SERVER].serving.clone().into_iter().rev() {
        link.answer(SERVER, call, Code::Ok);
    }
    link.settle();
    for call in calls {
        check_end(&link, call, End::Reply(ANSWER));
    }
}

#[test]
fn ten_thousand_calls_are_open_at_once() {
    let limits = Limits { calls_in_max: 10_000, calls_out_max: 10_000, ..Limits::default() };
    let mut link = Link::open(limits);
    let request = Link::request(link.now.after_ns(1_000_000));
    for _ in 0..10_000 {
        link.call(CLIENT, &request).unwrap();
    }
    assert_eq!(link.call(CLIENT, &request), Err(StartError::Busy));
    link.settle();
    answer_all(&mut link, SERVER, Code::Ok);
    assert!(link.sides[CLIENT].open.is_empty());
}

#[test]
fn a_call_without_an_answer_ends_at_its_deadline() {
    let (mut link, call) = open_with_call(500);
    let deadline = link.now.after_ns(500);
    assert_eq!(link.sides[CLIENT].connection.poll_timeout(), Some(deadline));
    link.now = Time::from_ns(deadline.as_ns() - 1);
    link.settle();
    assert_eq!(link.sides[CLIENT].open.len(), 1);
    link.run_out();
    check_end(&link, call, End::DeadlineExceeded);
    assert_eq!(link.now, deadline);
}

#[test]
fn the_server_keeps_the_deadline_too() {
    let (mut link, call) = open_with_call(500);
    let served = *link.sides[SERVER].serving.first().unwrap();
    link.now = link.now.after_ns(500);
    link.turn(SERVER);
    let revoked = Event::Cancelled { call: served, reason: CancelReason::DeadlineExceeded };
    assert_eq!(link.sides[SERVER].events.last(), Some(&revoked));
    let reply = link.sides[SERVER].connection.reply(served, Payload::EMPTY);
    assert_eq!(reply, Err(ReplyError::Ended));
    link.deliver(CLIENT);
    let payload = Payload::EMPTY;
    check_end(&link, call, End::Error { status: Code::DeadlineExceeded, payload });
    link.run_out();
}

#[test]
fn what_is_left_of_the_deadline_travels() {
    let mut link = open();
    let request = Link::request(link.now.after_ns(500));
    link.call(CLIENT, &request).unwrap();
    link.now = link.now.after_ns(100); // On the way. The clocks need not agree.
    link.deliver(SERVER);
    let Some(&Event::Call { deadline, .. }) = link.sides[SERVER].events.last() else { panic!() };
    assert_eq!(deadline, link.now.after_ns(500));
    let none_left = Link::request(link.now);
    assert_eq!(link.call(CLIENT, &none_left), Err(StartError::DeadlineExceeded));
}

#[test]
fn the_server_learns_of_a_cancel() {
    let (mut link, call) = open_with_call(u64::MAX);
    let served = *link.sides[SERVER].serving.first().unwrap();
    assert!(!link.sides[SERVER].connection.is_cancelled(served));
    link.cancel(CLIENT, call);
    link.settle();
    let revoked = Event::Cancelled { call: served, reason: CancelReason::Cancelled };
    assert_eq!(link.sides[SERVER].events.last(), Some(&revoked));
    assert!(link.sides[SERVER].connection.is_cancelled(served));
    let reply = link.sides[SERVER].connection.reply(served, Payload::EMPTY);
    assert_eq!(reply, Err(ReplyError::Ended));
}

#[test]
fn a_reply_that_crosses_the_cancel_is_dropped() {
    let (mut link, call) = open_with_call(u64::MAX);
    let served = *link.sides[SERVER].serving.first().unwrap();
    link.answer(SERVER, served, Code::Ok);
    link.cancel(CLIENT, call);
    let again = link.call(CLIENT, &Link::request(Time::NEVER)).unwrap();
    assert_eq!(again.id().slot(), call.id().slot());
    link.settle();
    assert_eq!(link.sides[CLIENT].connection.counts().answers_late, 1);
    answer_all(&mut link, SERVER, Code::Ok);
    check_end(&link, again, End::Reply(ANSWER));
}

#[test]
fn a_cancel_goes_before_the_next_call() {
    let (mut link, call) = open_with_call(u64::MAX);
    link.cancel(CLIENT, call);
    let request = Link::request(Time::NEVER);
    let client = &mut link.sides[CLIENT].connection;
    assert_eq!(client.start_call(link.now, &request), Err(StartError::TransmitFirst));
    assert!(client.poll_transmit().is_some());
    assert!(client.start_call(link.now, &request).is_ok());
}

#[test]
fn a_reply_waits_for_what_is_queued() {
    let (mut link, _) = open_with_call(u64::MAX);
    let served = *link.sides[SERVER].serving.first().unwrap();
    let server = &mut link.sides[SERVER].connection;
    server.ping(link.now).unwrap();
    assert_eq!(server.reply(served, Payload::EMPTY), Err(ReplyError::TransmitFirst));
    assert!(!server.is_cancelled(served));
    assert!(server.poll_transmit().is_some());
    assert!(server.reply(served, Payload::EMPTY).is_ok());
}

#[test]
fn an_abandoned_call_was_never_sent() {
    let mut link = open();
    let client = &mut link.sides[CLIENT].connection;
    let (call, _) = client.start_call(link.now, &Link::request(Time::NEVER)).unwrap();
    assert_eq!(client.abandon(call), Ok(()));
    assert_eq!(client.abandon(call), Err(Ended));
    assert!(!client.has_transmit());
    link.call(CLIENT, &Link::request(Time::NEVER)).unwrap();
    link.settle();
    answer_all(&mut link, SERVER, Code::Ok);
}

#[test]
fn both_ends_call_each_other() {
    let (mut link, _) = open_with_call(u64::MAX);
    link.call(SERVER, &Link::request(Time::NEVER)).unwrap();
    link.settle();
    answer_all(&mut link, CLIENT, Code::Ok);
    answer_all(&mut link, SERVER, Code::Ok);
    assert!(link.sides.iter().all(|side| side.open.is_empty() && side.serving.is_empty()));
}

#[test]
fn a_oneway_message_leaves_nothing_open() {
    let mut link = open();
    link.oneway(CLIENT, &Link::request(Time::NEVER)).unwrap();
    link.settle();
    let payload = Payload { metadata_bytes: 0, body_bytes: 100, ..Payload::EMPTY };
    let expected = Event::Oneway { object: 7, method: 3, deadline: Time::NEVER, payload };
    assert_eq!(link.sides[SERVER].events.last(), Some(&expected));
    assert!(link.sides[SERVER].serving.is_empty());
}

#[test]
fn too_much_is_refused_where_it_starts() {
    let limits = Limits { message_bytes_max: 200, metadata_bytes_max: 10, ..Limits::default() };
    let mut link = Link::open(limits);
    let mut request = Link::request(Time::NEVER);
    request.payload = Payload { metadata_bytes: 10, body_bytes: 150, ..Payload::EMPTY };
    link.call(CLIENT, &request).unwrap();
    request.payload.body_bytes += 1;
    let too_large = StartError::TooLarge { message_bytes: 201, message_bytes_max: 200 };
    assert_eq!(link.call(CLIENT, &request), Err(too_large));
    request.payload = Payload { metadata_bytes: 11, body_bytes: 0, ..Payload::EMPTY };
    let refused = link.call(CLIENT, &request).unwrap_err();
    assert_eq!(
        refused,
        StartError::MetadataTooLarge { metadata_bytes: 11, metadata_bytes_max: 10 }
    );
    link.settle();
    let served = *link.sides[SERVER].serving.first().unwrap();
    let large = Payload { metadata_bytes: 0, body_bytes: 161, ..Payload::EMPTY };
    let server = &mut link.sides[SERVER].connection;
    assert_eq!(server.reply(served, large), Err(ReplyError::TooLarge));
    assert!(server.fail(served, Code::ResourceExhausted, Payload::EMPTY).is_ok());
}

#[test]
fn a_ping_is_answered() {
    let mut link = open();
    link.delay_ns = 70;
    link.sides[CLIENT].connection.ping(link.now).unwrap();
    assert_eq!(link.sides[CLIENT].connection.ping(link.now), Err(PingError::Unanswered));
    link.run_out();
    let pong = Event::Pong { round_trip_ns: 140 };
    assert_eq!(link.sides[CLIENT].events.last(), Some(&pong));
    assert_eq!(link.sides[CLIENT].connection.ping(link.now), Ok(()));
}

#[test]
fn draining_ends_what_is_open_and_starts_nothing() {
    let (mut link, call) = open_with_call(u64::MAX);
    link.sides[SERVER].connection.drain();
    link.settle();
    assert_eq!(link.sides[CLIENT].events.last(), Some(&Event::PeerDrains));
    for side in [CLIENT, SERVER] {
        let request = Link::request(Time::NEVER);
        assert_eq!(link.call(side, &request), Err(StartError::Draining));
        assert!(!link.sides[side].is_drained);
    }
    answer_all(&mut link, SERVER, Code::Ok);
    check_end(&link, call, End::Reply(ANSWER));
    assert!(link.sides.iter().all(|side| side.is_drained));
}

#[test]
fn a_call_that_crosses_the_goodbye_is_unavailable() {
    let mut link = open();
    let call = link.call(CLIENT, &Link::request(Time::NEVER)).unwrap();
    link.oneway(CLIENT, &Link::request(Time::NEVER)).unwrap();
    link.sides[SERVER].connection.drain();
    link.settle();
    check_end(&link, call, End::Refused);
    assert_eq!(End::Refused.status(), Code::Unavailable);
    assert!(matches!(
        link.sides[SERVER].events[..],
        [Event::Opened(_), Event::Oneway { .. }, Event::Drained]
    ));
    assert_eq!(link.sides[SERVER].connection.counts().calls_refused, 1);
    assert!(link.sides.iter().all(|side| side.is_drained));
}

/// A client that does not read answers no GOAWAY, so its server goes without.
#[test]
fn a_call_that_crosses_the_last_goodbye_has_not_begun() {
    let (mut link, first) = open_with_call(u64::MAX);
    link.sides[SERVER].connection.drain();
    link.sides[SERVER].connection.end_drain();
    link.settle();
    assert!(link.sides[CLIENT].open.contains(&first), "it is being served");

    let mut link = open();
    let call = link.call(CLIENT, &Link::request(Time::NEVER)).unwrap();
    let server = &mut link.sides[SERVER].connection;
    server.end_drain();
    assert!(!server.has_transmit(), "it does not drain");
    server.drain();
    server.end_drain();
    server.end_drain();
    let heads = [0, 1].map(|_| server.poll_transmit().unwrap());
    assert_eq!(heads, [Frame::GoAway.encode(), Frame::LastGoAway.encode()]);
    assert_eq!(server.poll_transmit(), None);
    let client = &mut link.sides[CLIENT].connection;
    let events = heads.map(|head| client.handle_message(link.now, &head, head.len()).unwrap());
    assert_eq!(events, [Some(Event::PeerDrains), Some(Event::PeerDrained)]);
    let end = End::Closed(CloseReason::Drained);
    assert_eq!(client.poll_event(), Some(Event::Ended { call, end }));
    assert_eq!(end.status(), Code::Unavailable);
    assert_eq!(client.poll_event(), None);
}

/// The caller streams, and gives its call up, before it sees the goodbye.
#[test]
fn what_belongs_to_a_call_that_crosses_the_last_goodbye_is_no_violation() {
    let mut link = open();
    let server = &mut link.sides[SERVER].connection;
    server.drain();
    server.end_drain();
    let (id, payload) = (CallId::from_word(1 << 16), Payload::EMPTY);
    let call =
        Frame::Call { id, object: 1, method: 1, timeout_ns: 0, payload, shape: Shape::BothStream };
    let rest = [
        Frame::Item { id, to_caller: false, payload },
        Frame::Credit { id, to_caller: false, bytes: 1 },
        Frame::End { id },
        Frame::Cancel { id },
    ];
    for frame in [call].iter().chain(&rest) {
        let head = frame.encode();
        let event = server.handle_message(link.now, &head, head.len());
        assert_eq!(event, Ok(None), "{frame:?}");
    }
    assert!(server.has_transmit(), "the goodbye is still to be sent");
}

#[test]
fn draining_works_before_the_greeting_and_from_both_ends() {
    let mut link = Link::new(Limits::default());
    link.sides[CLIENT].connection.drain();
    link.sides[SERVER].connection.drain();
    link.sides[SERVER].connection.drain();
    link.settle();
    assert!(link.sides.iter().all(|side| side.is_drained));
}

#[test]
fn calls_end_with_their_connection() {
    let (mut link, call) = open_with_call(500);
    link.die([0, 0]);
    check_end(&link, call, End::Closed(CloseReason::Closed));
    assert_eq!(End::Closed(CloseReason::Closed).status(), Code::Unavailable);
    let revoked = link.sides[SERVER].events.last();
    assert!(matches!(
        revoked,
        Some(Event::Cancelled { reason: CancelReason::Closed(CloseReason::Closed), .. })
    ));
    let client = &mut link.sides[CLIENT].connection;
    assert_eq!(client.cancel(call), Err(Ended));
    assert_eq!(client.poll_timeout(), None);
    let request = Link::request(Time::NEVER);
    assert_eq!(client.start_call(link.now, &request), Err(StartError::Closed));
    assert_eq!(client.ping(link.now), Err(PingError::Closed));
    client.handle_closed();
    assert_eq!(client.poll_event(), None);
}
