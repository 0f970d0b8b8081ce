//! Two connections with everything at random, until one sends an item that it has no right to send.
//!
//! **Not here:** each violation by itself (`hostile.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind};

use nearcall_wire::{
    CallId, CancelReason, CloseReason, Code, End, Event, Frame, HEADER_BYTES, Payload,
    ProtocolError, StreamCall, SwitchError, SwitchReason, SwitchStep, item_cost,
};

use crate::link::Link;
use crate::simulation::{Seen, any_link, step};

const SEEDS: u64 = if cfg!(miri) { 4 } else { 3_000 };

#[test]
fn a_violation_ends_everything_with_its_reason() {
    let attacks: [Attack; 5] =
        [unknown, without_credit, after_half_close, after_reply, wrong_switch];
    let mut made = [0; 5];
    for seed in 0..SEEDS {
        let run = catch_unwind(AssertUnwindSafe(|| {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut link = any_link(seed, &mut rng);
            for _ in 0..rng.u32(20..300) {
                step(&mut link, &mut rng, false, &mut Seen::default());
            }
            link.room = usize::MAX;
            link.run_out();
            let (victim, attack) = (rng.usize(0..2), rng.usize(0..attacks.len()));
            if let Some(error) = attacks[attack](&mut link, &mut rng, victim) {
                made[attack] += 1;
                check_closed(&mut link, victim, error);
            }
        }));
        assert!(run.is_ok(), "seed {seed}");
    }
    assert!(cfg!(miri) || made.iter().all(|&count| count > 50), "{made:?}");
}

/// Makes one attack on a side, if the link has what it takes, and returns the violation.
type Attack = fn(&mut Link, &mut fastrand::Rng, usize) -> Option<ProtocolError>;

fn unknown(link: &mut Link, rng: &mut fastrand::Rng, victim: usize) -> Option<ProtocolError> {
    let id = CallId::from_word(u64::MAX << 16 | u64::from(rng.u16(..)));
    let error = ProtocolError::ItemOfUnknownCall;
    assert_eq!(link.forge(victim, item(id, rng.bool(), HEADER_BYTES)), Err(error));
    Some(error)
}

fn without_credit(
    link: &mut Link,
    rng: &mut fastrand::Rng,
    victim: usize,
) -> Option<ProtocolError> {
    let side = &link.sides[victim];
    let calls: Vec<_> = side.streams.iter().filter(|(_, book)| book.receives()).collect();
    let (&call, _) = rng.choice(calls)?;
    let window = side.window;
    let (id, to_caller, senders) = match call {
        StreamCall::Outgoing(call) => {
            let served = link.sides[1 - victim].serving.iter();
            (call.id(), true, served.copied().find(|it| it.id() == call.id())?.into())
        }
        StreamCall::Incoming(call) => {
            let open = link.sides[1 - victim].open.iter();
            (call.id(), false, open.copied().find(|it| it.id() == call.id())?.into())
        }
    };
    // Everything was delivered, so both ends count the same.
    let mut left = link.sides[1 - victim].connection.credit_left(senders).expect("it sends");
    loop {
        let message_bytes = rng.usize(HEADER_BYTES..400);
        let cost = item_cost(message_bytes, window);
        let taken = link.forge(victim, item(id, to_caller, message_bytes));
        if cost > left {
            let error = ProtocolError::ItemWithoutCredit { message_bytes };
            assert_eq!(taken, Err(error));
            return Some(error);
        }
        left -= cost;
        assert!(matches!(taken, Ok(Some(Event::Item { .. }))), "{taken:?}");
    }
}

fn after_half_close(
    link: &mut Link,
    rng: &mut fastrand::Rng,
    victim: usize,
) -> Option<ProtocolError> {
    let calls = link.sides[victim].streams.iter();
    let calls: Vec<_> = calls.filter(|(_, book)| book.is_half_closed()).collect();
    let (StreamCall::Incoming(call), _) = rng.choice(calls)? else { panic!("callers end") };
    let error = ProtocolError::ItemAfterEnd;
    let id = call.id();
    assert_eq!(link.forge(victim, item(id, false, HEADER_BYTES)), Err(error));
    Some(error)
}

fn after_reply(link: &mut Link, rng: &mut fastrand::Rng, victim: usize) -> Option<ProtocolError> {
    let attacker = 1 - victim;
    let calls = link.sides[attacker].streams.keys();
    let calls: Vec<_> = calls.filter(|call| matches!(call, StreamCall::Incoming(_))).collect();
    let &StreamCall::Incoming(call) = rng.choice(calls)? else { panic!("filtered") };
    link.answer(attacker, call, [Code::Ok, Code::Aborted][rng.usize(0..2)]);
    link.run_out();
    let error = ProtocolError::ItemAfterEnd;
    assert_eq!(link.forge(victim, item(call.id(), true, HEADER_BYTES)), Err(error));
    Some(error)
}

/// A step of a switch that was never begun, whatever else is under way.
fn wrong_switch(link: &mut Link, rng: &mut fastrand::Rng, victim: usize) -> Option<ProtocolError> {
    let steps = [
        SwitchStep::Ask { mechanism: 1 },
        SwitchStep::Begin { ask: 0 },
        SwitchStep::Step,
        SwitchStep::Last,
        SwitchStep::Done,
        SwitchStep::Refuse(SwitchReason::Failed),
        SwitchStep::Decline(SwitchReason::Busy),
        SwitchStep::Ready,
    ];
    let step = steps[rng.usize(0..steps.len())];
    let error = match link.sides[victim].connection.may_begin_switch() {
        Err(SwitchError::Unsupported) => ProtocolError::UnknownKind { kind: 12 },
        _ => ProtocolError::BadSwitch { step: step.number() },
    };
    let frame = Frame::Switch { number: 1 << 40, step };
    assert_eq!(link.forge(victim, frame), Err(error));
    Some(error)
}

fn item(id: CallId, to_caller: bool, message_bytes: usize) -> Frame {
    let body_bytes = u32::try_from(message_bytes - HEADER_BYTES).unwrap();
    Frame::Item { id, to_caller, payload: Payload { body_bytes, ..Payload::EMPTY } }
}

/// Each open call of the victim ends once, for this reason.
fn check_closed(link: &mut Link, victim: usize, error: ProtocolError) {
    let side = &mut link.sides[victim];
    while let Some(event) = side.connection.poll_event() {
        let (CloseReason::ProtocolViolation(reason), was_open) = (match event {
            Event::Ended { call, end: End::Closed(reason) } => (reason, side.open.remove(&call)),
            Event::Cancelled { call, reason: CancelReason::Closed(reason) } => {
                (reason, side.serving.remove(&call))
            }
            event => panic!("{event:?}"),
        }) else {
            panic!("it was no violation");
        };
        assert_eq!((reason, was_open), (error, true));
    }
    assert!(side.open.is_empty() && side.serving.is_empty());
    assert!(!side.connection.has_transmit());
}
