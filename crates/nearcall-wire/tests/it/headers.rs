//! Headers of peers that break the rules: too late, too long, of no call, of no version.
//!
//! **Not here:** headers of peers that keep the rules (`simulation.rs`).

use nearcall_wire::{
    CallId, CallProtocol, Code, Event, Frame, HEADER_BYTES, Hello, Limits, OutgoingCall, Payload,
    ProtocolError, ReplyError, Request, Shape, Switching,
};

use crate::hostile::{
    LIMITS, NOW, call, check, check_bytes, check_closed, hello, id, item, request, send, victim,
};
use crate::link::both_ways;

fn headers(id: CallId) -> Frame {
    Frame::Headers { id, metadata_bytes: 9 }
}

/// A connection of version 3 with a call of ours in which the callee streams.
fn victim_of_version_3() -> (CallProtocol, OutgoingCall) {
    let limits = Limits { switching: Switching::Client, ..LIMITS };
    let mut victim = CallProtocol::new([9; 16], limits);
    victim.poll_transmit().unwrap();
    let hello = Hello { version_max: 3, ..hello() };
    both_ways(&mut victim, NOW, &hello.encode(), HEADER_BYTES).unwrap();
    let request = Request { shape: Shape::CalleeStreams, ..request() };
    let (call, _) = victim.start_call(NOW, &request).unwrap();
    (victim, call)
}

#[test]
fn headers_that_come_too_late() {
    let own = victim_of_version_3().1.id();
    let late = ProtocolError::HeadersTooLate;
    let payload = Payload::EMPTY;
    let fail = Frame::Error { id: own, status: Code::Internal, payload };
    for (before, expected) in [
        (headers(own), late),
        (item(own, true, HEADER_BYTES), late),
        (Frame::Reply { id: own, payload }, late),
        (fail, late),
    ] {
        let (mut victim, _) = victim_of_version_3();
        send(&mut victim, before).unwrap();
        assert_eq!(send(&mut victim, headers(own)), Err(expected), "{before:?}");
        check_closed(&mut victim, 0, expected);
    }
}

#[test]
fn headers_of_a_call_that_is_not_ours() {
    for unknown in [id(1, 3), id(2, 0), id(0, 0), id(1, u16::MAX)] {
        let (mut victim, _) = victim_of_version_3();
        let expected = ProtocolError::HeadersOfUnknownCall;
        assert_eq!(send(&mut victim, headers(unknown)), Err(expected));
        check_closed(&mut victim, 0, expected);
    }
}

#[test]
fn headers_above_the_limit() {
    let (mut victim, call) = victim_of_version_3();
    let long = Frame::Headers { id: call.id(), metadata_bytes: 65 };
    let expected = ProtocolError::MetadataTooLarge { metadata_bytes: 65 };
    assert_eq!(send(&mut victim, long), Err(expected));
    check_closed(&mut victim, 0, expected);
}

#[test]
fn headers_in_a_version_without_them() {
    let (_, own) = victim();
    let unknown = ProtocolError::UnknownKind { kind: 13 };
    check(&[headers(own.id())], unknown);
    check_bytes(headers(own.id()), |head| head[24] = 1, unknown);
    let (mut victim, _) = victim();
    let event = send(&mut victim, call(id(1, 0))).unwrap();
    let Some(Event::Call { call, .. }) = event else { panic!("{event:?}") };
    assert_eq!(victim.send_headers(call, 0), Err(ReplyError::TooLarge));
}

/// Headers that cross the cancel are dropped, and judged all the same.
#[test]
fn headers_of_a_call_that_was_given_up() {
    let (mut victim, call) = victim_of_version_3();
    assert!(matches!(
        send(&mut victim.clone(), headers(call.id())),
        Ok(Some(Event::Headers { payload: Payload { metadata_bytes: 9, body_bytes: 0, .. }, .. }))
    ));
    victim.cancel(call).unwrap();
    assert_eq!(send(&mut victim, headers(call.id())), Ok(None));
    let expected = ProtocolError::HeadersTooLate;
    assert_eq!(send(&mut victim, headers(call.id())), Err(expected));
    check_closed(&mut victim, 0, expected);
}
