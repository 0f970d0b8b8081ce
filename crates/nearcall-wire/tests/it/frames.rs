//! Headers and greetings as bytes: golden vectors of version 1, and properties from a seed.
//!
//! Always true: a golden vector is never changed, since peers of version 1 are out there.

use nearcall_wire::limits::TIMEOUT_NS_MAX;
use nearcall_wire::{
    CallId, Connection, Frame, HEADER_BYTES, Hello, Kind, Payload, ProtocolError, Status, Time,
    Timeout,
};

#[track_caller]
fn check(frame: Frame, hex: &str) {
    let head = frame.encode();
    let text: String = head.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(text, hex.split_whitespace().collect::<String>());
    assert_eq!(Frame::decode(&head, frame.payload().message_bytes()), Ok(frame));
}

const PAYLOAD: Payload = Payload { metadata_bytes: 0x0102, body_bytes: 0x0304_0506 };

fn id() -> CallId {
    CallId::from_word(0x1112_1314_1516_1718)
}

#[test]
fn a_call_of_version_1() {
    let timeout = Timeout::from_ns(0x3132_3334_3536_3738);
    let (object, method) = (0x2122_2324_2526_2728, 0x4142_4344);
    check(
        Frame::Call { id: id(), object, method, timeout, payload: PAYLOAD },
        "01 01 0000 0201 0000 06050403 44434241 1817161514131211 2827262524232221 3837363534333231",
    );
    check(
        Frame::Call { id: id(), object, method, timeout: Timeout::NEVER, payload: Payload::EMPTY },
        "01 01 0000 0000 0000 00000000 44434241 1817161514131211 2827262524232221 0000000000000000",
    );
    check(
        Frame::Oneway { object, method, timeout: Timeout::from_ns(1), payload: PAYLOAD },
        "01 02 0000 0201 0000 06050403 44434241 0000000000000000 2827262524232221 0100000000000000",
    );
}

#[test]
fn answers_of_version_1() {
    check(
        Frame::Reply { id: id(), payload: PAYLOAD },
        "01 03 0000 0201 0000 06050403 00000000 1817161514131211 0000000000000000 0000000000000000",
    );
    check(
        Frame::Error { id: id(), status: Status::Unimplemented, payload: PAYLOAD },
        "01 04 0000 0201 0c00 06050403 00000000 1817161514131211 0000000000000000 0000000000000000",
    );
}

#[test]
fn bare_frames_of_version_1() {
    check(
        Frame::Cancel { id: id() },
        "01 05 0000 0000 0000 00000000 00000000 1817161514131211 0000000000000000 0000000000000000",
    );
    check(
        Frame::Ping { number: 9 },
        "01 06 0000 0000 0000 00000000 00000000 0900000000000000 0000000000000000 0000000000000000",
    );
    check(
        Frame::Pong { number: 9 },
        "01 07 0000 0000 0000 00000000 00000000 0900000000000000 0000000000000000 0000000000000000",
    );
    check(
        Frame::GoAway,
        "01 08 0000 0000 0000 00000000 00000000 0000000000000000 0000000000000000 0000000000000000",
    );
}

#[test]
fn the_greeting() {
    let hello = Hello {
        version_min: 1,
        version_max: 2,
        message_bytes_max: 0x0040_0000,
        metadata_bytes_max: 0x2000,
        calls_in_max: 0x0100,
        instance: *b"0123456789abcdef",
    };
    let head = hello.encode();
    assert_eq!(head, *b"nearcall\x01\0\x02\0\0\0\x40\0\0\x20\0\x01\0\0\0\x000123456789abcdef");
    assert_eq!(Hello::decode(&head, head.len()), Ok(hello));
    assert_eq!(Hello::decode(&head, head.len() + 60), Ok(hello), "later versions may say more");
}

#[test]
fn a_timeout_survives_as_well_as_it_can() {
    let carried = |timeout| {
        let (object, method, payload) = (0, 0, Payload::EMPTY);
        let head = Frame::Oneway { object, method, timeout, payload }.encode();
        let Ok(Frame::Oneway { timeout, .. }) = Frame::decode(&head, head.len()) else { panic!() };
        timeout
    };
    assert_eq!(carried(Timeout::from_ns(TIMEOUT_NS_MAX)), Timeout::from_ns(TIMEOUT_NS_MAX));
    assert_eq!(carried(Timeout::from_ns(TIMEOUT_NS_MAX + 1)), Timeout::NEVER);
    assert_eq!(carried(Timeout::ZERO), Timeout::from_ns(1), "not the one that means for ever");
    assert_eq!(carried(Time::from_ns(7).until(Time::NEVER)), Timeout::NEVER);
}

fn any_frame(rng: &mut fastrand::Rng) -> Frame {
    let id = CallId::from_word(rng.u64(..));
    let payload = Payload { metadata_bytes: rng.u16(..), body_bytes: rng.u32(..) };
    let (object, method) = (rng.u64(..), rng.u32(..));
    let timeout = match rng.bool() {
        true => Timeout::NEVER,
        false => Timeout::from_ns(rng.u64(1..=TIMEOUT_NS_MAX)),
    };
    match rng.u8(0..8) {
        0 => Frame::Call { id, object, method, timeout, payload },
        1 => Frame::Oneway { object, method, timeout, payload },
        2 => Frame::Reply { id, payload },
        3 => Frame::Error { id, status: Status::ALL[rng.usize(1..17)], payload },
        4 => Frame::Cancel { id },
        5 => Frame::Ping { number: rng.u64(..) },
        6 => Frame::Pong { number: rng.u64(..) },
        _ => Frame::GoAway,
    }
}

#[test]
fn every_frame_survives_the_way() {
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..100_000 {
        let frame = any_frame(&mut rng);
        let head = frame.encode();
        assert_eq!(Frame::decode(&head, frame.payload().message_bytes()), Ok(frame));
    }
}

/// What is taken for a frame is exactly what that frame would have been sent as.
#[test]
fn random_bytes_never_panic_and_have_one_meaning() {
    let mut rng = fastrand::Rng::with_seed(2);
    let mut taken = 0;
    for _ in 0..300_000 {
        let frame = any_frame(&mut rng);
        let mut head = frame.encode();
        for _ in 0..rng.usize(0..4) {
            head[rng.usize(0..HEADER_BYTES)] = rng.u8(..);
        }
        if let Ok(frame) = Frame::decode(&head, frame.payload().message_bytes()) {
            assert_eq!(frame.encode(), head);
            taken += 1;
        }
        let garbage: Vec<u8> = (0..rng.usize(0..64)).map(|_| rng.u8(..)).collect();
        let _ = Frame::decode(&garbage, rng.usize(..));
        let _ = Hello::decode(&garbage, rng.usize(..));
    }
    assert!(taken > 50_000, "the test hardly met a right frame: {taken}");
}

#[test]
fn only_a_timeout_or_a_pong_needs_the_time() {
    let mut rng = fastrand::Rng::with_seed(3);
    for _ in 0..10_000 {
        let frame = any_frame(&mut rng);
        let has_timeout = match frame {
            Frame::Call { timeout, .. } | Frame::Oneway { timeout, .. } => {
                timeout != Timeout::NEVER
            }
            _ => false,
        };
        let expected = has_timeout || frame.kind() == Kind::Pong;
        assert_eq!(Connection::needs_time(&frame.encode()), expected, "{frame:?}");
    }
    assert!(!Connection::needs_time(&[0xff; HEADER_BYTES - 1]), "no frame at all");
}

#[test]
fn a_head_without_its_end_is_cut_off() {
    let head = Frame::GoAway.encode();
    for bytes in 0..HEADER_BYTES {
        let expected = Err(ProtocolError::CutOff { message_bytes: bytes });
        assert_eq!(Frame::decode(&head[..bytes], bytes), expected);
        assert_eq!(Frame::decode(&head, bytes), expected);
    }
}
