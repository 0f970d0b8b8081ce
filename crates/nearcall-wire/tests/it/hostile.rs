//! Peers that break the rules: one test for each attack, named after it.
//!
//! **Invariants:** the answer is the error that names the violation, the connection is closed, and
//! calls that were open end once. Nothing panics.
//! **Not here:** peers that keep the rules at odd moments (`pair.rs`, `simulation.rs`).

use nearcall_wire::limits::{SWITCHES_PER_MINUTE_MAX_DEFAULT, TIMEOUT_NS_MAX};
use nearcall_wire::{
    CallId, CallProtocol, CancelReason, CloseReason, Code, End, Event, Frame, HEADER_BYTES, Head,
    Hello, IncomingCall, Limits, OutgoingCall, Payload, ProtocolError, Request, Shape, StartError,
    Switching, Time,
};

use crate::link::both_ways;

pub(crate) const NOW: Time = Time::from_ns(1_000);
pub(crate) const LIMITS: Limits = Limits {
    message_bytes_max: 4096,
    metadata_bytes_max: 64,
    calls_in_max: 4,
    calls_out_max: 4,
    stream_window_bytes: 1000,
    timeout_ns_max: TIMEOUT_NS_MAX,
    references: false,
    switching: Switching::Never,
    switches_per_minute_max: SWITCHES_PER_MINUTE_MAX_DEFAULT,
};

pub(crate) fn hello() -> Hello {
    Hello {
        version_min: 1,
        version_max: 1,
        message_bytes_max: 4096,
        metadata_bytes_max: 64,
        calls_in_max: 4,
        stream_window_bytes: 1000,
        instance: [6; 16],
    }
}

/// An open connection with a call of ours.
pub(crate) fn victim() -> (CallProtocol, OutgoingCall) {
    let mut victim = CallProtocol::new([9; 16], LIMITS);
    victim.poll_transmit().unwrap();
    both_ways(&mut victim, NOW, &hello().encode(), HEADER_BYTES).unwrap();
    let (call, _) = victim.start_call(NOW, &request()).unwrap();
    (victim, call)
}

pub(crate) fn request() -> Request {
    let (deadline, payload, shape) = (Time::NEVER, Payload::EMPTY, Shape::Unary);
    Request { object: 1, method: 2, deadline, payload, shape }
}

#[test]
fn a_call_that_asks_for_too_long_a_deadline_gets_the_longest() {
    let limits = Limits { timeout_ns_max: 500, ..LIMITS };
    let mut connection = CallProtocol::new([9; 16], limits);
    connection.poll_transmit().unwrap();
    both_ways(&mut connection, NOW, &hello().encode(), HEADER_BYTES).unwrap();
    let asked = [(0, Time::NEVER), (300, NOW.after_ns(300)), (501, NOW.after_ns(500))];
    for (slot, (timeout_ns, wanted)) in (0..).zip(asked) {
        let (id, payload) = (id(1, slot), Payload::EMPTY);
        let oneway = Frame::Oneway { object: 1, method: 2, timeout_ns, payload };
        let call =
            Frame::Call { id, object: 1, method: 2, timeout_ns, payload, shape: Shape::Unary };
        for frame in [call, oneway] {
            let event = send(&mut connection, frame).unwrap();
            let Some(Event::Call { deadline, .. } | Event::Oneway { deadline, .. }) = event else {
                panic!("{event:?}")
            };
            assert_eq!(deadline, wanted, "{frame:?}");
        }
    }
}

/// The id with the generation and slot.
pub(crate) fn id(generation: u64, slot: u16) -> CallId {
    CallId::from_word(generation << 16 | u64::from(slot))
}

pub(crate) fn call(id: CallId) -> Frame {
    stream(id, Shape::Unary)
}

fn stream(id: CallId, shape: Shape) -> Frame {
    let (timeout_ns, payload) = (0, Payload::EMPTY);
    Frame::Call { id, object: 1, method: 2, timeout_ns, payload, shape }
}

/// The last frame is the attack; the others pass.
#[track_caller]
pub(crate) fn check(frames: &[Frame], expected: ProtocolError) {
    let (mut victim, _) = victim();
    let (attack, before) = frames.split_last().unwrap();
    for frame in before {
        let event = send(&mut victim, *frame);
        assert!(event.is_ok(), "{frame:?}: {event:?}");
    }
    let served = victim.counts().incoming_open;
    assert_eq!(send(&mut victim, *attack), Err(expected));
    check_closed(&mut victim, served, expected);
}

/// An attack with a header that no frame has, made by changing that of a right one.
#[track_caller]
pub(crate) fn check_bytes(frame: Frame, change: impl Fn(&mut Head), expected: ProtocolError) {
    let (mut victim, _) = victim();
    let mut head = frame.encode();
    change(&mut head);
    let result = both_ways(&mut victim, NOW, &head, frame.payload().message_bytes());
    assert_eq!(result, Err(expected));
    check_closed(&mut victim, 0, expected);
}

pub(crate) fn send(
    victim: &mut CallProtocol,
    frame: Frame,
) -> Result<Option<Event>, ProtocolError> {
    both_ways(victim, NOW, &frame.encode(), frame.payload().message_bytes())
}

/// Each open call ends once, and nothing more happens whatever comes.
#[track_caller]
pub(crate) fn check_closed(victim: &mut CallProtocol, served: usize, error: ProtocolError) {
    let gone = CloseReason::ProtocolViolation(error);
    assert_eq!(End::Closed(gone).status(), Code::Internal);
    let open = victim.counts().outgoing_open;
    for _ in 0..open {
        let event = victim.poll_event();
        assert!(matches!(event, Some(Event::Ended { end: End::Closed(by), .. }) if by == gone));
    }
    for _ in 0..served {
        let Some(Event::Cancelled { reason, .. }) = victim.poll_event() else {
            panic!("each served call is cancelled");
        };
        assert_eq!(reason, CancelReason::Closed(gone));
    }
    assert_eq!(victim.poll_event(), None);
    assert_eq!(send(victim, call(id(99, 0))), Ok(None));
    assert_eq!(victim.start_call(NOW, &request()), Err(StartError::Closed));
    assert!(!victim.has_transmit() && victim.poll_timeout().is_none());
    assert_eq!((victim.counts().outgoing_open, victim.counts().incoming_open), (0, 0));
}

#[track_caller]
fn check_greeting(head: &[u8], message_bytes: usize, expected: ProtocolError) {
    let mut victim = CallProtocol::new([9; 16], LIMITS);
    assert_eq!(both_ways(&mut victim, NOW, head, message_bytes), Err(expected));
    check_closed(&mut victim, 0, expected);
}

#[test]
fn references_that_were_not_agreed_on() {
    let payload = Payload { metadata_bytes: 0, body_bytes: 30, references: true };
    let (timeout_ns, id) = (0, id(1, 0));
    let error = ProtocolError::ReservedBits { flags: 1 };
    let shape = Shape::Unary;
    check(&[Frame::Call { id, object: 1, method: 2, timeout_ns, payload, shape }], error);
    check(&[Frame::Oneway { object: 1, method: 2, timeout_ns, payload }], error);
    check(&[Frame::Reply { id, payload }], error);
}

#[test]
fn references_where_none_can_be() {
    let limits = Limits { references: true, ..LIMITS };
    for frame in [Frame::Cancel { id: id(1, 0) }, Frame::Ping { number: 1 }, Frame::GoAway] {
        let mut victim = CallProtocol::new([9; 16], limits);
        both_ways(&mut victim, NOW, &hello().encode(), HEADER_BYTES).unwrap();
        let mut head = frame.encode();
        head[2] = 1;
        let result = both_ways(&mut victim, NOW, &head, HEADER_BYTES);
        assert_eq!(result, Err(ProtocolError::ReservedBits { flags: 1 }), "{frame:?}");
    }
}

#[test]
fn references_that_both_agreed_on_are_reported() {
    let mut victim = CallProtocol::new([9; 16], Limits { references: true, ..LIMITS });
    both_ways(&mut victim, NOW, &hello().encode(), HEADER_BYTES).unwrap();
    let payload = Payload { metadata_bytes: 0, body_bytes: 30, references: true };
    let (object, method, timeout_ns) = (1, 2, 0);
    let event = send(&mut victim, Frame::Oneway { object, method, timeout_ns, payload }).unwrap();
    assert!(matches!(event, Some(Event::Oneway { payload: told, .. }) if told == payload));
}

#[test]
fn an_http_request() {
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";
    check_greeting(request, request.len(), ProtocolError::NotAGreeting);
}

#[test]
fn garbage_instead_of_a_greeting() {
    check_greeting(&[], 0, ProtocolError::NotAGreeting);
    check_greeting(&[0; 64], 64, ProtocolError::NotAGreeting);
    check_greeting(&[0xff; 64], 4096, ProtocolError::NotAGreeting);
}

#[test]
fn a_call_instead_of_a_greeting() {
    check_greeting(&call(id(1, 0)).encode(), HEADER_BYTES, ProtocolError::NotAGreeting);
}

#[test]
fn a_cut_off_greeting() {
    let head = hello().encode();
    check_greeting(&head[..20], 20, ProtocolError::CutOff { message_bytes: 20 });
}

#[test]
fn an_endless_greeting() {
    let error = ProtocolError::MessageTooLarge { message_bytes: 1025 };
    check_greeting(&hello().encode(), 1025, error);
}

#[test]
fn version_mismatch() {
    for (version_min, version_max) in [(2, 9), (0, 0), (5, 1)] {
        let head = Hello { version_min, version_max, ..hello() }.encode();
        let error = ProtocolError::NoCommonVersion { version_min, version_max };
        check_greeting(&head, HEADER_BYTES, error);
    }
}

#[test]
fn limits_of_nothing() {
    let head =
        Hello { message_bytes_max: 0, metadata_bytes_max: 0, calls_in_max: 0, ..hello() }.encode();
    let mut victim = CallProtocol::new([9; 16], LIMITS);
    assert!(both_ways(&mut victim, NOW, &head, HEADER_BYTES).is_ok());
    victim.poll_transmit().unwrap();
    assert_eq!(victim.start_call(NOW, &request()), Err(StartError::Busy));
    assert!(send(&mut victim, call(id(1, 0))).is_ok());
    victim.drain();
    assert!(victim.poll_transmit().is_some());
}

#[test]
fn a_second_greeting() {
    let (mut victim, _) = victim();
    let result = both_ways(&mut victim, NOW, &hello().encode(), HEADER_BYTES);
    assert_eq!(result, Err(ProtocolError::SecondGreeting));
    check_closed(&mut victim, 0, ProtocolError::SecondGreeting);
}

#[test]
fn a_frame_of_another_version() {
    let error = ProtocolError::WrongVersion { version: 2 };
    check_bytes(Frame::GoAway, |head| head[0] = 2, error);
}

#[test]
fn a_cut_off_header() {
    let (mut victim, _) = victim();
    let error = ProtocolError::CutOff { message_bytes: 39 };
    assert_eq!(both_ways(&mut victim, NOW, &Frame::GoAway.encode()[..39], 39), Err(error));
    check_closed(&mut victim, 0, error);
}

#[test]
fn length_past_the_end() {
    let error = ProtocolError::LengthMismatch { announced_bytes: 41, message_bytes: 40 };
    check_bytes(call(id(1, 0)), |head| head[8] = 1, error);
}

#[test]
fn length_that_would_overflow() {
    let announced_bytes = 40 + 0xffff + 0xffff_ffff;
    let error = ProtocolError::LengthMismatch { announced_bytes, message_bytes: 40 };
    let change = |head: &mut Head| {
        head[4..6].fill(0xff);
        head[8..12].fill(0xff);
    };
    check_bytes(call(id(1, 0)), change, error);
}

#[test]
fn length_short_of_the_end() {
    let payload = Payload { metadata_bytes: 0, body_bytes: 2, ..Payload::EMPTY };
    let error = ProtocolError::LengthMismatch { announced_bytes: 41, message_bytes: 42 };
    check_bytes(Frame::Reply { id: id(1, 0), payload }, |head| head[8] = 1, error);
}

#[test]
fn metadata_longer_than_the_message() {
    let error = ProtocolError::LengthMismatch { announced_bytes: 50, message_bytes: 40 };
    check_bytes(call(id(1, 0)), |head| head[4] = 10, error);
}

#[test]
fn metadata_above_the_limit() {
    let payload = Payload { metadata_bytes: 65, body_bytes: 0, ..Payload::EMPTY };
    let error = ProtocolError::MetadataTooLarge { metadata_bytes: 65 };
    check(&[Frame::Reply { id: id(1, 0), payload }], error);
}

#[test]
fn a_message_above_the_limit() {
    let payload = Payload { metadata_bytes: 0, body_bytes: 4057, ..Payload::EMPTY };
    let error = ProtocolError::MessageTooLarge { message_bytes: 4097 };
    check(&[Frame::Reply { id: id(1, 0), payload }], error);
}

#[test]
fn reserved_bits() {
    // Bit 4 makes it the last one.
    for bit in (0..16).filter(|bit| *bit != 4) {
        let change = |head: &mut Head| head[2 + bit / 8] = 1 << (bit % 8);
        check_bytes(Frame::GoAway, change, ProtocolError::ReservedBits { flags: 1 << bit });
    }
}

#[test]
fn an_unknown_kind() {
    for kind in [0, 12, 255] {
        check_bytes(Frame::GoAway, |head| head[1] = kind, ProtocolError::UnknownKind { kind });
    }
}

#[test]
fn a_field_that_the_kind_does_not_use() {
    let check_field = |frame: Frame, at: usize| {
        let error = ProtocolError::UnusedField { kind: frame.kind() as u8 };
        check_bytes(frame, |head| head[at] = 1, error);
    };
    check_field(Frame::GoAway, 16);
    check_field(Frame::Cancel { id: id(1, 0) }, 24);
    check_field(Frame::Reply { id: id(1, 0), payload: Payload::EMPTY }, 6);
    check_field(Frame::Ping { number: 1 }, 32);
    check_field(call(id(1, 0)), 6);
}

#[test]
fn a_goodbye_with_a_body() {
    let (mut victim, _) = victim();
    let mut head = Frame::GoAway.encode();
    head[8] = 5;
    let error = ProtocolError::UnusedField { kind: 8 };
    assert_eq!(both_ways(&mut victim, NOW, &head, 45), Err(error));
    check_closed(&mut victim, 0, error);
}

#[test]
fn deadline_overflow() {
    let timeout_ns = 1 << 63;
    let error = ProtocolError::DeadlineOverflow { timeout_ns };
    check_bytes(call(id(1, 0)), |head| head[39] = 0x80, error);
}

#[test]
fn the_longest_deadline() {
    let mut victim = victim().0;
    let timeout_ns = i64::MAX as u64;
    let (object, method, payload, shape) = (1, 2, Payload::EMPTY, Shape::Unary);
    let frame = Frame::Call { id: id(1, 0), object, method, timeout_ns, payload, shape };
    let late = Time::from_ns(u64::MAX - 5);
    let event = both_ways(&mut victim, late, &frame.encode(), HEADER_BYTES);
    assert!(matches!(event, Ok(Some(Event::Call { deadline: Time::NEVER, .. }))));
}

#[test]
fn a_status_that_does_not_exist() {
    let frame = Frame::Error { id: id(1, 0), status: Code::Unknown, payload: Payload::EMPTY };
    for status in [0, 17, 255] {
        let error = ProtocolError::BadStatus { status };
        check_bytes(frame, |head| head[6] = status.to_le_bytes()[0], error);
    }
}

#[test]
fn reply_to_an_unknown_call() {
    for unknown in [id(2, 0), id(1, 1), id(0, 0), id(1, 4), id(1, u16::MAX), id(u64::MAX >> 16, 0)]
    {
        let reply = Frame::Reply { id: unknown, payload: Payload::EMPTY };
        check(&[reply], ProtocolError::ReplyToUnknownCall);
    }
}

#[test]
fn a_second_reply() {
    let (id, payload) = (victim().1.id(), Payload::EMPTY);
    let (reply, error) =
        (Frame::Reply { id, payload }, Frame::Error { id, status: Code::Internal, payload });
    check(&[reply, reply], ProtocolError::SecondReply);
    check(&[error, reply], ProtocolError::SecondReply);
    check(&[reply, error], ProtocolError::SecondReply);
}

#[test]
fn a_second_reply_after_the_cancel() {
    let (mut victim, call) = victim();
    victim.cancel(call).unwrap();
    let reply = Frame::Reply { id: call.id(), payload: Payload::EMPTY };
    assert_eq!(send(&mut victim, reply), Ok(None), "it may have crossed the cancel");
    assert_eq!(send(&mut victim, reply), Err(ProtocolError::SecondReply));
    check_closed(&mut victim, 0, ProtocolError::SecondReply);
}

#[test]
fn calls_beyond_the_limit() {
    let calls: Vec<_> = (0..5).map(|slot| call(id(1, slot))).collect();
    check(&calls, ProtocolError::TooManyCalls);
    check(&[call(id(1, u16::MAX))], ProtocolError::TooManyCalls);
}

#[test]
fn the_id_of_an_open_call() {
    check(&[call(id(1, 0)), call(id(1, 0))], ProtocolError::CallIdInUse);
    check(&[call(id(1, 0)), call(id(2, 0))], ProtocolError::CallIdInUse);
}

#[test]
fn the_id_of_an_older_call() {
    let cancel = Frame::Cancel { id: id(5, 0) };
    for old in [5, 4, 0] {
        let frames = [call(id(5, 0)), cancel, call(id(old, 0))];
        check(&frames, ProtocolError::CallIdReused);
    }
    check(&[call(id(0, 0))], ProtocolError::CallIdReused);
}

#[test]
fn the_id_of_a_call_whose_error_is_under_way() {
    let (mut victim, _) = victim();
    let timeout_ns = 5;
    let (object, method, payload, shape) = (1, 2, Payload::EMPTY, Shape::Unary);
    let frame = Frame::Call { id: id(1, 0), object, method, timeout_ns, payload, shape };
    send(&mut victim, frame).unwrap();
    victim.handle_timeout(NOW.after_ns(timeout_ns));
    assert!(matches!(victim.poll_event(), Some(Event::Cancelled { .. })));
    assert_eq!(send(&mut victim, call(id(2, 0))), Err(ProtocolError::CallIdInUse));
    check_closed(&mut victim, 0, ProtocolError::CallIdInUse);
}

#[test]
fn cancel_before_the_call() {
    for unknown in [id(1, 0), id(0, 0), id(1, 4), id(1, u16::MAX)] {
        check(&[Frame::Cancel { id: unknown }], ProtocolError::CancelOfUnknownCall);
    }
    let frames = [call(id(5, 0)), Frame::Cancel { id: id(6, 0) }];
    check(&frames, ProtocolError::CancelOfUnknownCall);
}

#[test]
fn a_second_cancel() {
    let cancel = Frame::Cancel { id: id(1, 0) };
    check(&[call(id(1, 0)), cancel, cancel], ProtocolError::SecondCancel);
}

#[test]
fn a_flood_of_pings() {
    let ping = |number| Frame::Ping { number };
    check(&[ping(1), ping(2)], ProtocolError::PingTooSoon);
}

#[test]
fn a_pong_without_a_ping() {
    check(&[Frame::Pong { number: 0 }], ProtocolError::PongWithoutPing);
    let (mut victim, _) = victim();
    victim.ping(NOW).unwrap();
    let guess = Frame::Pong { number: 1 };
    let error = ProtocolError::PongWithoutPing;
    assert_eq!(send(&mut victim.clone(), guess), Err(error), "the ping has not been sent");
    victim.poll_transmit().unwrap();
    assert_eq!(send(&mut victim.clone(), Frame::Pong { number: 2 }), Err(error));
    assert!(matches!(send(&mut victim, guess), Ok(Some(Event::Pong { .. }))));
    assert_eq!(send(&mut victim, guess), Err(error));
}

#[test]
fn a_call_after_the_goodbye() {
    check(&[Frame::GoAway, call(id(1, 0))], ProtocolError::CallAfterGoAway);
    let (object, method, timeout_ns, payload) = (1, 2, 0, Payload::EMPTY);
    let oneway = Frame::Oneway { object, method, timeout_ns, payload };
    check(&[Frame::GoAway, oneway], ProtocolError::CallAfterGoAway);
}

#[test]
fn a_second_goodbye() {
    check(&[Frame::GoAway, Frame::GoAway], ProtocolError::SecondGoAway);
}

/// An item whose message has `message_bytes`.
pub(crate) fn item(id: CallId, to_caller: bool, message_bytes: usize) -> Frame {
    let body_bytes = u32::try_from(message_bytes - HEADER_BYTES).unwrap();
    Frame::Item { id, to_caller, payload: Payload { body_bytes, ..Payload::EMPTY } }
}

fn credit(id: CallId, to_caller: bool, bytes: u64) -> Frame {
    Frame::Credit { id, to_caller, bytes }
}

/// A victim with a call of its own in which both ends stream.
fn streaming_victim() -> (CallProtocol, OutgoingCall) {
    let mut victim = victim().0;
    let request = Request { shape: Shape::BothStream, ..request() };
    let (call, _) = victim.start_call(NOW, &request).unwrap();
    (victim, call)
}

/// As `check`, for what the callee of the victim's streaming call sends.
#[track_caller]
fn check_as_callee(frames: &[Frame], expected: ProtocolError) {
    let (mut victim, _) = streaming_victim();
    let (attack, before) = frames.split_last().unwrap();
    for frame in before {
        let event = send(&mut victim, *frame);
        assert!(event.is_ok(), "{frame:?}: {event:?}");
    }
    assert_eq!(send(&mut victim, *attack), Err(expected));
    check_closed(&mut victim, 0, expected);
}

/// The id of the streaming call of [`streaming_victim`].
fn own_stream() -> CallId {
    streaming_victim().1.id()
}

#[test]
fn an_item_without_credit() {
    let id = id(1, 0);
    let error = ProtocolError::ItemWithoutCredit { message_bytes: 40 };
    let (up, last) = (item(id, false, 500), item(id, false, 40));
    check(&[stream(id, Shape::CallerStreams), up, up, last], error);
    let id = own_stream();
    // The longest item costs three quarters of the window.
    let (whole, rest, last) = (item(id, true, 4096), item(id, true, 250), item(id, true, 40));
    check_as_callee(&[whole, rest, last], error);
}

#[test]
fn an_item_that_costs_more_than_the_credit_that_is_left() {
    let id = id(1, 0);
    for message_bytes in [401, 750, 1000, 4096] {
        let frames = [item(id, false, 600), item(id, false, message_bytes)];
        let error = ProtocolError::ItemWithoutCredit { message_bytes };
        check(&[stream(id, Shape::CallerStreams), frames[0], frames[1]], error);
    }
    let (id, message_bytes) = (own_stream(), 251);
    let error = ProtocolError::ItemWithoutCredit { message_bytes };
    check_as_callee(&[item(id, true, 4096), item(id, true, message_bytes)], error);
}

#[test]
fn an_item_for_credit_that_has_not_been_sent() {
    let (mut victim, _) = victim();
    let id = id(1, 0);
    let event = send(&mut victim, stream(id, Shape::CallerStreams)).unwrap();
    let Some(Event::Call { call, .. }) = event else { panic!("{event:?}") };
    send(&mut victim, item(id, false, 500)).unwrap();
    send(&mut victim, item(id, false, 500)).unwrap();
    victim.consume(call.into(), 1000);
    let error = ProtocolError::ItemWithoutCredit { message_bytes: 40 };
    let (mut early, last) = (victim.clone(), item(id, false, 40));
    assert_eq!(send(&mut early, last), Err(error), "the credit waits to be sent");
    assert_eq!(victim.poll_transmit(), Some(credit(id, true, 1000).encode()));
    assert!(matches!(send(&mut victim, last), Ok(Some(Event::Item { .. }))));
}

#[test]
fn an_item_after_the_end() {
    let (id, error) = (id(1, 0), ProtocolError::ItemAfterEnd);
    let (call, item) = (stream(id, Shape::BothStream), item(id, false, 40));
    check(&[call, Frame::End { id }, item], error);
    check(&[call, Frame::Cancel { id }, item], error);
    let id = own_stream();
    let (reply, status, item) =
        (Frame::Reply { id, payload: Payload::EMPTY }, Code::Aborted, self::item(id, true, 40));
    check_as_callee(&[reply, item], error);
    check_as_callee(&[Frame::Error { id, status, payload: Payload::EMPTY }, item], error);
}

#[test]
fn an_item_of_an_older_call() {
    let (mut victim, _) = victim();
    let payload = Payload::EMPTY;
    let event = send(&mut victim, stream(id(1, 0), Shape::CallerStreams)).unwrap();
    let Some(Event::Call { call, .. }) = event else { panic!("{event:?}") };
    victim.reply(call, payload).unwrap();
    assert_eq!(send(&mut victim, item(id(1, 0), false, 40)), Ok(None), "it crosses the reply");
    assert_eq!(victim.counts().items_late, 1);
    send(&mut victim, stream(id(2, 0), Shape::CallerStreams)).unwrap();
    let late = send(&mut victim, item(id(1, 0), false, 40));
    assert_eq!(late, Err(ProtocolError::ItemAfterEnd), "the caller knows the reply");
    check_closed(&mut victim, 1, ProtocolError::ItemAfterEnd);
}

#[test]
fn items_that_cross_the_reply_need_credit_too() {
    let (mut victim, _) = victim();
    let event = send(&mut victim, stream(id(1, 0), Shape::CallerStreams)).unwrap();
    let Some(Event::Call { call, .. }) = event else { panic!("{event:?}") };
    victim.reply(call, Payload::EMPTY).unwrap();
    assert_eq!(send(&mut victim, item(id(1, 0), false, 500)), Ok(None));
    assert_eq!(send(&mut victim, item(id(1, 0), false, 500)), Ok(None));
    let error = ProtocolError::ItemWithoutCredit { message_bytes: 40 };
    assert_eq!(send(&mut victim, item(id(1, 0), false, 40)), Err(error));
}

#[test]
fn an_item_of_a_call_that_never_was() {
    let error = ProtocolError::ItemOfUnknownCall;
    for unknown in [id(2, 0), id(0, 0), id(1, 3), id(1, u16::MAX), id(u64::MAX >> 16, 0)] {
        check(&[item(unknown, false, 40)], error);
        check_as_callee(&[item(unknown, true, 40)], error);
    }
    check(&[stream(id(1, 0), Shape::CallerStreams), item(id(2, 0), false, 40)], error);
}

#[test]
fn an_item_of_a_call_that_does_not_stream_this_way() {
    let error = ProtocolError::NotAStream { kind: 9 };
    for shape in [Shape::Unary, Shape::CalleeStreams] {
        check(&[stream(id(1, 0), shape), item(id(1, 0), false, 40)], error);
    }
    let plain = victim().1.id();
    check(&[item(plain, true, 40)], error);
    // A plain call in the slot of one that streamed.
    let streamed = [stream(id(1, 0), Shape::CallerStreams), Frame::Cancel { id: id(1, 0) }];
    check(&[streamed[0], streamed[1], call(id(2, 0)), item(id(2, 0), false, 40)], error);
}

#[test]
fn a_second_end() {
    let id = id(1, 0);
    let (call, end) = (stream(id, Shape::CallerStreams), Frame::End { id });
    check(&[call, end, end], ProtocolError::SecondEnd);
}

#[test]
fn an_end_of_a_call_that_is_none_or_does_not_stream() {
    let (end, error) = (Frame::End { id: id(1, 0) }, ProtocolError::EndOfUnknownCall);
    check(&[end], error);
    let cancelled = Frame::Cancel { id: id(1, 0) };
    check(&[stream(id(1, 0), Shape::CallerStreams), cancelled, end], error);
    let error = ProtocolError::NotAStream { kind: 10 };
    check(&[call(id(1, 0)), end], error);
    check(&[stream(id(1, 0), Shape::CalleeStreams), end], error);
}

#[test]
fn credit_above_the_window() {
    let id = id(1, 0);
    let call = stream(id, Shape::CalleeStreams);
    check(&[call, credit(id, false, 1)], ProtocolError::CreditOverflow { bytes: 1 });
    let bytes = u64::MAX;
    check(&[call, credit(id, false, bytes)], ProtocolError::CreditOverflow { bytes });
    let id = own_stream();
    check_as_callee(&[credit(id, true, 1)], ProtocolError::CreditOverflow { bytes: 1 });
}

#[test]
fn credit_of_nothing() {
    let mut head = credit(id(1, 0), false, 1).encode();
    head[24] = 0;
    let (mut victim, _) = victim();
    let result = both_ways(&mut victim, NOW, &head, HEADER_BYTES);
    assert_eq!(result, Err(ProtocolError::EmptyCredit));
    check_closed(&mut victim, 0, ProtocolError::EmptyCredit);
}

#[test]
fn credit_for_a_call_that_is_none_or_does_not_stream_this_way() {
    let error = ProtocolError::CreditOfUnknownCall;
    let own = own_stream();
    check(&[credit(id(1, 0), false, 1)], error);
    check_as_callee(&[credit(id(9, 0), true, 1)], error);
    let cancelled = [stream(id(1, 0), Shape::BothStream), Frame::Cancel { id: id(1, 0) }];
    check(&[cancelled[0], cancelled[1], credit(id(1, 0), false, 1)], error);
    let reply = Frame::Reply { id: own, payload: Payload::EMPTY };
    check_as_callee(&[reply, credit(own, true, 1)], error);
    let error = ProtocolError::NotAStream { kind: 11 };
    check(&[stream(id(1, 0), Shape::CallerStreams), credit(id(1, 0), false, 1)], error);
    check(&[credit(victim().1.id(), true, 1)], error);
}

#[test]
fn a_stream_to_an_end_that_takes_none() {
    for (own, peers) in [(0, 1000), (1000, 0)] {
        let limits = Limits { stream_window_bytes: own, ..LIMITS };
        let mut victim = CallProtocol::new([9; 16], limits);
        victim.poll_transmit().unwrap();
        let hello = Hello { stream_window_bytes: peers, ..hello() };
        both_ways(&mut victim, NOW, &hello.encode(), HEADER_BYTES).unwrap();
        let request = Request { shape: Shape::CalleeStreams, ..request() };
        assert_eq!(victim.start_call(NOW, &request), Err(StartError::NoStreams));
        let error = ProtocolError::NotAStream { kind: 1 };
        assert_eq!(send(&mut victim, stream(id(1, 0), Shape::CallerStreams)), Err(error));
    }
}

/// Refusals and cancels on few slots never fill the queue, however long we cannot send.
#[test]
fn a_flood_of_calls_while_nothing_can_be_sent() {
    let (mut victim, _) = victim();
    victim.drain();
    for generation in 1..10_000 {
        for slot in 0..4 {
            assert_eq!(send(&mut victim, call(id(generation, slot))), Ok(None));
            assert_eq!(send(&mut victim, Frame::Cancel { id: id(generation, slot) }), Ok(None));
        }
    }
    assert_eq!(victim.poll_transmit(), Some(Frame::GoAway.encode()));
    assert_eq!(victim.poll_transmit(), None, "the errors are not needed any more");
}

/// Right and wrong frames at random: no panic, and what was open ends.
#[test]
fn random_frames() {
    for seed in 0..3_000 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut victim, _) = victim();
        let mut serving: Vec<IncomingCall> = Vec::new();
        for _ in 0..60 {
            let id = id(rng.u64(0..4), rng.u16(0..5));
            let (status, payload) = (Code::Aborted, Payload::EMPTY);
            let shape = [Shape::Unary, Shape::BothStream][rng.usize(0..2)];
            let to_caller = rng.bool();
            let frame = match rng.u8(0..14) {
                0..4 => stream(id, shape),
                8..11 => item(id, to_caller, 40 + rng.usize(0..600)),
                11 => Frame::End { id },
                12 => credit(id, to_caller, rng.u64(1..1000)),
                4 => Frame::Cancel { id },
                5 => Frame::Reply { id, payload },
                6 => Frame::Error { id, status, payload },
                _ => [Frame::GoAway, Frame::Ping { number: 1 }][rng.usize(0..2)],
            };
            match send(&mut victim, frame) {
                Ok(Some(Event::Call { call, .. })) => serving.push(call),
                Ok(_) => {}
                Err(_) => break,
            }
            match rng.u8(0..8) {
                0 => drop(victim.start_call(NOW, &Request { shape, ..request() })),
                4 => serving.iter().for_each(|&call| victim.consume(call.into(), 500)),
                1 => drop(victim.poll_transmit()),
                2 => drop(serving.pop().map(|call| victim.reply(call, payload))),
                3 => drop(victim.ping(NOW)),
                _ => {}
            }
        }
        victim.handle_closed();
        while victim.poll_event().is_some() {}
        let counts = victim.counts();
        assert_eq!((counts.outgoing_open, counts.incoming_open), (0, 0), "seed {seed}");
    }
}
