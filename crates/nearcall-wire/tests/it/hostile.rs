//! Peers that break the rules: one test for each attack, named after it.
//!
//! **Invariants:** the answer is the error that names the violation, the connection is closed, and
//! calls that were open end once. Nothing panics.
//! **Not here:** peers that keep the rules at odd moments (`pair.rs`, `simulation.rs`).

use nearcall_wire::{
    CallId, CallProtocol, CancelReason, CloseReason, Code, End, Event, Frame, HEADER_BYTES, Head,
    Hello, IncomingCall, Limits, OutgoingCall, Payload, ProtocolError, Request, StartError, Time,
};

use crate::link::both_ways;

const NOW: Time = Time::from_ns(1_000);
const LIMITS: Limits = Limits {
    message_bytes_max: 4096,
    metadata_bytes_max: 64,
    calls_in_max: 4,
    calls_out_max: 4,
    references: false,
};

fn hello() -> Hello {
    Hello {
        version_min: 1,
        version_max: 1,
        message_bytes_max: 4096,
        metadata_bytes_max: 64,
        calls_in_max: 4,
        instance: [6; 16],
    }
}

/// An open connection with a call of ours.
fn victim() -> (CallProtocol, OutgoingCall) {
    let mut victim = CallProtocol::new([9; 16], LIMITS);
    victim.poll_transmit().unwrap();
    both_ways(&mut victim, NOW, &hello().encode(), HEADER_BYTES).unwrap();
    let (call, _) = victim.start_call(NOW, &request()).unwrap();
    (victim, call)
}

fn request() -> Request {
    Request { object: 1, method: 2, deadline: Time::NEVER, payload: Payload::EMPTY }
}

/// The id with the generation and slot.
fn id(generation: u64, slot: u16) -> CallId {
    CallId::from_word(generation << 16 | u64::from(slot))
}

fn call(id: CallId) -> Frame {
    let (timeout_ns, payload) = (0, Payload::EMPTY);
    Frame::Call { id, object: 1, method: 2, timeout_ns, payload }
}

/// The last frame is the attack; the others pass.
#[track_caller]
fn check(frames: &[Frame], expected: ProtocolError) {
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
fn check_bytes(frame: Frame, change: impl Fn(&mut Head), expected: ProtocolError) {
    let (mut victim, _) = victim();
    let mut head = frame.encode();
    change(&mut head);
    let result = both_ways(&mut victim, NOW, &head, frame.payload().message_bytes());
    assert_eq!(result, Err(expected));
    check_closed(&mut victim, 0, expected);
}

fn send(victim: &mut CallProtocol, frame: Frame) -> Result<Option<Event>, ProtocolError> {
    both_ways(victim, NOW, &frame.encode(), frame.payload().message_bytes())
}

/// Each open call ends once, and nothing more happens whatever comes.
#[track_caller]
fn check_closed(victim: &mut CallProtocol, served: usize, error: ProtocolError) {
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
    check(&[Frame::Call { id, object: 1, method: 2, timeout_ns, payload }], error);
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
    for bit in 0..16 {
        let change = |head: &mut Head| head[2 + bit / 8] = 1 << (bit % 8);
        check_bytes(Frame::GoAway, change, ProtocolError::ReservedBits { flags: 1 << bit });
    }
}

#[test]
fn an_unknown_kind() {
    for kind in [0, 9, 10, 11, 12, 255] {
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
    let frame =
        Frame::Call { id: id(1, 0), object: 1, method: 2, timeout_ns, payload: Payload::EMPTY };
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
    let frame =
        Frame::Call { id: id(1, 0), object: 1, method: 2, timeout_ns, payload: Payload::EMPTY };
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
            let frame = match rng.u8(0..8) {
                0..4 => call(id),
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
            match rng.u8(0..6) {
                0 => drop(victim.start_call(NOW, &request())),
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
