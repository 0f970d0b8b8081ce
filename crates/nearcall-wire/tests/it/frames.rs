//! Headers and greetings as bytes: golden vectors of version 1, and properties from a seed.
//!
//! **Invariants:** a golden vector is never changed, since peers of version 1 are out there.

use nearcall_wire::fuzzing::every_step;
use nearcall_wire::limits::TIMEOUT_NS_MAX;
use nearcall_wire::{
    CallId, Code, Frame, HEADER_BYTES, Head, Hello, Kind, Payload, ProtocolError, Request, Shape,
    SwitchReason, SwitchStep, Time, is_last, needs_time,
};

/// How often what is random is tried.
const ROUNDS: usize = 300_000;

#[track_caller]
fn check(frame: Frame, hex: &str) {
    let head = frame.encode();
    let text: String = head.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(text, hex.split_whitespace().collect::<String>());
    assert_eq!(Frame::decode(&head, frame.payload().message_bytes()), Ok(frame));
}

const PAYLOAD: Payload =
    Payload { metadata_bytes: 0x0102, body_bytes: 0x0304_0506, ..Payload::EMPTY };

fn id() -> CallId {
    CallId::from_word(0x1112_1314_1516_1718)
}

#[test]
fn a_call_of_version_1() {
    let timeout_ns = 0x3132_3334_3536_3738;
    let (object, method) = (0x2122_2324_2526_2728, 0x4142_4344);
    check(
        Frame::Call { id: id(), object, method, timeout_ns, payload: PAYLOAD, shape: Shape::Unary },
        "01 01 0000 0201 0000 06050403 44434241 1817161514131211 2827262524232221 3837363534333231",
    );
    let (timeout_ns, payload) = (0, Payload::EMPTY);
    check(
        Frame::Call { id: id(), object, method, timeout_ns, payload, shape: Shape::Unary },
        "01 01 0000 0000 0000 00000000 44434241 1817161514131211 2827262524232221 0000000000000000",
    );
    check(
        Frame::Oneway { object, method, timeout_ns: 1, payload: PAYLOAD },
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
        Frame::Error { id: id(), status: Code::Unimplemented, payload: PAYLOAD },
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
        Frame::LastGoAway,
        "01 08 1000 0000 0000 00000000 00000000 0000000000000000 0000000000000000 0000000000000000",
    );
    check(
        Frame::Refused { id: id() },
        "01 04 1000 0000 0e00 00000000 00000000 1817161514131211 0000000000000000 0000000000000000",
    );
    check(
        Frame::GoAway,
        "01 08 0000 0000 0000 00000000 00000000 0000000000000000 0000000000000000 0000000000000000",
    );
}

#[test]
fn streams_of_version_1() {
    let (object, method, timeout_ns, payload) = (2, 3, 0, Payload::EMPTY);
    let head = "0000 0000 00000000 03000000 1817161514131211 0200000000000000 0000000000000000";
    for (shape, flags) in
        [(Shape::CallerStreams, "02"), (Shape::CalleeStreams, "04"), (Shape::BothStream, "06")]
    {
        let call = Frame::Call { id: id(), object, method, timeout_ns, payload, shape };
        check(call, &format!("01 01 {flags}00 {head}"));
    }
    let payload = Payload { metadata_bytes: 0, ..PAYLOAD };
    check(
        Frame::Item { id: id(), to_caller: false, payload },
        "01 09 0000 0000 0000 06050403 00000000 1817161514131211 0000000000000000 0000000000000000",
    );
    check(
        Frame::Item { id: id(), to_caller: true, payload },
        "01 09 0800 0000 0000 06050403 00000000 1817161514131211 0000000000000000 0000000000000000",
    );
    check(
        Frame::End { id: id() },
        "01 0a 0000 0000 0000 00000000 00000000 1817161514131211 0000000000000000 0000000000000000",
    );
    check(
        Frame::Credit { id: id(), to_caller: true, bytes: 0x0001_0203 },
        "01 0b 0800 0000 0000 00000000 00000000 1817161514131211 0302010000000000 0000000000000000",
    );
}

#[test]
fn switches_of_version_2() {
    let number = 0x0102;
    let reason = SwitchReason::TooOften;
    for (step, head) in [
        (SwitchStep::Ask { mechanism: 0x4142_4344 }, "0100 00000000 44434241"),
        (SwitchStep::Begin { ask: 0 }, "0200 00000000 00000000"),
        (SwitchStep::Step, "0300 00000000 00000000"),
        (SwitchStep::Last, "0400 00000000 00000000"),
        (SwitchStep::Done, "0500 00000000 00000000"),
        (SwitchStep::Refuse(reason), "0600 00000000 04000000"),
        (SwitchStep::Decline(reason), "0700 00000000 04000000"),
        (SwitchStep::Ready, "0800 00000000 00000000"),
    ] {
        let rest = "0201000000000000 0000000000000000 0000000000000000";
        let frame = Frame::Switch { number, step };
        check(frame, &format!("01 0c 0000 0000 {head} {rest}"));
        assert_eq!(is_last(&frame.encode()), step == SwitchStep::Last);
    }
    check(
        Frame::Switch { number, step: SwitchStep::Begin { ask: 9 } },
        "01 0c 0000 0000 0200 00000000 00000000 0201000000000000 0900000000000000 0000000000000000",
    );
    let numbers: Vec<_> = SwitchReason::ALL.map(|reason| reason as u32).into();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn headers_of_version_3() {
    check(
        Frame::Headers { id: id(), metadata_bytes: 0x0102 },
        "01 0d 0000 0201 0000 00000000 00000000 1817161514131211 0000000000000000 0000000000000000",
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
        stream_window_bytes: 0x0020_0000,
        instance: *b"0123456789abcdef",
    };
    let head = hello.encode();
    assert_eq!(head, *b"nearcall\x01\0\x02\0\0\0\x40\0\0\x20\0\x01\0\0\x20\x000123456789abcdef");
    assert_eq!(Hello::decode(&head, head.len()), Ok(hello));
    assert_eq!(Hello::decode(&head, head.len() + 60), Ok(hello), "later versions may say more");
}

#[test]
fn a_timeout_survives_as_well_as_it_can() {
    let now = Time::from_ns(7);
    let carried = |ns| {
        let (object, method, payload, shape) = (0, 0, Payload::EMPTY, Shape::Unary);
        let deadline = now.after_ns(ns);
        let head = Request { object, method, deadline, payload, shape }.oneway_head(now);
        let Ok(Frame::Oneway { timeout_ns, .. }) = Frame::decode(&head, head.len()) else {
            panic!()
        };
        timeout_ns
    };
    assert_eq!(carried(TIMEOUT_NS_MAX), TIMEOUT_NS_MAX);
    assert_eq!(carried(TIMEOUT_NS_MAX + 1), 0);
    assert_eq!(carried(0), 1, "not the one that means no deadline");
    assert_eq!(carried(u64::MAX), 0);
}

fn any_frame(rng: &mut fastrand::Rng) -> Frame {
    let id = CallId::from_word(rng.u64(..));
    let payload =
        Payload { metadata_bytes: rng.u16(..), body_bytes: rng.u32(..), references: rng.bool() };
    let own = Payload { references: false, ..payload };
    let (object, method) = (rng.u64(..), rng.u32(..));
    let timeout_ns = match rng.bool() {
        true => 0,
        false => rng.u64(1..=TIMEOUT_NS_MAX),
    };
    let to_caller = rng.bool();
    match rng.u8(0..15) {
        0 => {
            let shape = SHAPES[rng.usize(0..4)];
            Frame::Call { id, object, method, timeout_ns, payload, shape }
        }
        1 => Frame::Oneway { object, method, timeout_ns, payload },
        2 => Frame::Reply { id, payload },
        3 => Frame::Error { id, status: Code::ALL[rng.usize(1..17)], payload: own },
        4 => Frame::Cancel { id },
        5 => Frame::Ping { number: rng.u64(..) },
        6 => Frame::Pong { number: rng.u64(..) },
        7 => Frame::Item { id, to_caller, payload: Payload { metadata_bytes: 0, ..own } },
        8 => Frame::End { id },
        9 => Frame::Credit { id, to_caller, bytes: rng.u64(1..) },
        10 => Frame::Refused { id },
        11 => Frame::LastGoAway,
        12 => Frame::Switch { number: rng.u64(..), step: any_step(rng) },
        13 => Frame::Headers { id, metadata_bytes: rng.u16(..) },
        _ => Frame::GoAway,
    }
}

fn any_step(rng: &mut fastrand::Rng) -> SwitchStep {
    let steps = every_step(rng.u32(..), rng.u64(..), SwitchReason::ALL[rng.usize(0..7)]);
    steps[rng.usize(0..8)]
}

const SHAPES: [Shape; 4] =
    [Shape::Unary, Shape::CallerStreams, Shape::CalleeStreams, Shape::BothStream];

#[test]
fn every_frame_survives_the_way() {
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..ROUNDS {
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
    for _ in 0..ROUNDS {
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
    assert!(taken > ROUNDS / 6, "the test hardly met a right frame: {taken}");
}

#[test]
fn only_a_timeout_a_pong_or_a_switch_needs_the_time() {
    let mut rng = fastrand::Rng::with_seed(3);
    for _ in 0..ROUNDS {
        let frame = any_frame(&mut rng);
        let has_timeout = match frame {
            Frame::Call { timeout_ns, .. } | Frame::Oneway { timeout_ns, .. } => timeout_ns != 0,
            _ => false,
        };
        let expected = has_timeout || matches!(frame.kind(), Kind::Pong | Kind::Switch);
        assert_eq!(needs_time(&frame.encode()), expected, "{frame:?}");
    }
    assert!(!needs_time(&[0xff; HEADER_BYTES - 1]), "no frame at all");
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

fn allowed_flags(kind: u8) -> u16 {
    match kind {
        1 => 7,
        2 | 3 => 1,
        9 | 11 => 8,
        4 | 8 => 16,
        _ => 0,
    }
}

/// Judges a head slowly: builds the frame of its kind from all fields, and sends it again. What the
/// frame cannot hold is lost in it, so an unused field that is filled shows as another head.
fn judge_by_encoding(head: &Head, message_bytes: usize) -> Result<Frame, ProtocolError> {
    let number = |at: usize, bytes: usize| {
        let bytes = head[at..at + bytes].iter().rev();
        bytes.fold(0, |number, &byte| number << 8 | u64::from(byte))
    };
    let (version, kind, flags) = (head[0], head[1], u16::from_le_bytes([head[2], head[3]]));
    if version != 1 {
        return Err(ProtocolError::WrongVersion { version });
    }
    if flags & !31 != 0 {
        return Err(ProtocolError::ReservedBits { flags });
    }
    let timeout_ns = number(32, 8);
    if timeout_ns > TIMEOUT_NS_MAX {
        return Err(ProtocolError::DeadlineOverflow { timeout_ns });
    }
    let announced_bytes = 40 + number(4, 2) + number(8, 4);
    if announced_bytes != message_bytes as u64 {
        return Err(ProtocolError::LengthMismatch { announced_bytes, message_bytes });
    }
    if flags & !allowed_flags(kind) != 0 {
        return Err(ProtocolError::ReservedBits { flags });
    }
    let (shape, to_caller) = (SHAPES[usize::from(flags >> 1 & 3)], flags & 8 != 0);
    let not_begun = flags & 16 != 0;
    let payload = Payload {
        metadata_bytes: u16::try_from(number(4, 2)).unwrap(),
        body_bytes: u32::try_from(number(8, 4)).unwrap(),
        references: head[2] & 1 != 0,
    };
    let status = u16::from_le_bytes([head[6], head[7]]);
    let (id, object) = (CallId::from_word(number(16, 8)), number(24, 8));
    let method = u32::try_from(number(12, 4)).unwrap();
    let frame = match kind {
        1 => Frame::Call { id, object, method, timeout_ns, payload, shape },
        2 => Frame::Oneway { object, method, timeout_ns, payload },
        3 => Frame::Reply { id, payload },
        4 => match Code::from_number(status) {
            None | Some(Code::Ok) => return Err(ProtocolError::BadStatus { status }),
            Some(Code::Unavailable) if not_begun => Frame::Refused { id },
            Some(status) => Frame::Error { id, status, payload },
        },
        5 => Frame::Cancel { id },
        6 => Frame::Ping { number: id.word() },
        7 => Frame::Pong { number: id.word() },
        8 if not_begun => Frame::LastGoAway,
        8 => Frame::GoAway,
        9 => {
            let payload = Payload { metadata_bytes: 0, ..payload };
            Frame::Item { id, to_caller, payload }
        }
        10 => Frame::End { id },
        11 if object == 0 => return Err(ProtocolError::EmptyCredit),
        11 => Frame::Credit { id, to_caller, bytes: object },
        12 if timeout_ns == 0 && payload == Payload::EMPTY => {
            return judge_switch(head, id.word(), method, object);
        }
        12 => return Err(ProtocolError::UnusedField { kind }),
        13 => Frame::Headers { id, metadata_bytes: payload.metadata_bytes },
        _ => return Err(ProtocolError::UnknownKind { kind }),
    };
    match frame.encode() == *head {
        true => Ok(frame),
        false => Err(ProtocolError::UnusedField { kind }),
    }
}

fn judge_switch(
    head: &Head,
    number: u64,
    method: u32,
    object: u64,
) -> Result<Frame, ProtocolError> {
    let reason = SwitchReason::ALL.into_iter().find(|&reason| reason as u32 == method);
    let steps = every_step(method, object, reason.unwrap_or(SwitchReason::Busy));
    let mut frames = steps.into_iter().map(|step| Frame::Switch { number, step });
    let status = u16::from_le_bytes([head[6], head[7]]);
    let frame = frames.find(|frame| frame.encode() == *head);
    frame.ok_or(ProtocolError::BadSwitch { step: status })
}

/// Every field is empty as often as not, so that each kind meets every set of filled fields.
fn any_head(rng: &mut fastrand::Rng) -> Head {
    let mut head = [0; HEADER_BYTES];
    for field in [4..6, 6..8, 8..12, 12..16, 16..24, 24..32, 32..40] {
        if rng.bool() {
            // One byte of it, or all.
            let at = rng.usize(field.clone());
            head[at] = rng.u8(..18);
            if rng.u8(0..4) == 0 {
                rng.fill(&mut head[field]);
            }
        }
    }
    head[0] = 1;
    head[1] = rng.u8(0..15);
    if rng.u8(0..4) == 0 {
        head[2] = rng.u8(..32);
    }
    if rng.u8(0..32) == 0 {
        head[rng.usize(0..4)] = rng.u8(..);
    }
    head
}

#[test]
fn every_head_is_judged_as_by_encoding_it_again() {
    let mut rng = fastrand::Rng::with_seed(4);
    let mut taken = 0;
    for round in 0..ROUNDS {
        let head = any_head(&mut rng);
        let metadata_bytes = u16::from_le_bytes([head[4], head[5]]);
        let body_bytes = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        let mut message_bytes =
            Payload { metadata_bytes, body_bytes, ..Payload::EMPTY }.message_bytes();
        if rng.u8(0..32) == 0 {
            message_bytes = message_bytes.wrapping_add(rng.usize(0..3));
        }
        let frame = Frame::decode(&head, message_bytes);
        assert_eq!(frame, judge_by_encoding(&head, message_bytes), "round {round}: {head:?}");
        taken += usize::from(frame.is_ok());
    }
    assert!(taken > ROUNDS / 20, "the test hardly met a right frame: {taken}");
}
