//! The move of a connection to another channel, and peers that take a step out of turn.
//!
//! **Invariants:** each step is right in the states that the tables name, and closes the connection
//! in all others; nothing panics, whatever comes.
//! **Not here:** every order of steps of peers that keep the rules (`src/switch/tests.rs`), calls
//! meanwhile (`simulation.rs`).

use nearcall_wire::{
    CallProtocol, CloseReason, End, Event, Frame, HEADER_BYTES, Hello, Limits, ProtocolError,
    SwitchError, SwitchEvent, SwitchReason, SwitchState, SwitchStep, Switching, Time, is_last,
};

use crate::link::{Link, both_ways};

const NOW: Time = Time::from_ns(1_000);
const CLIENT: usize = 0;
const SERVER: usize = 1;
const REASON: SwitchReason = SwitchReason::Failed;

fn victim(switching: Switching) -> CallProtocol {
    let mut victim = CallProtocol::new([9; 16], Limits { switching, ..Limits::default() });
    victim.poll_transmit().unwrap();
    let hello = Hello {
        version_min: 1,
        version_max: 7,
        message_bytes_max: 4096,
        metadata_bytes_max: 64,
        calls_in_max: 4,
        stream_window_bytes: 1000,
        instance: [6; 16],
    };
    let event = both_ways(&mut victim, NOW, &hello.encode(), HEADER_BYTES).unwrap();
    let Some(Event::Opened(peer)) = event else { panic!("{event:?}") };
    assert_eq!(peer.version, if switching == Switching::Never { 1 } else { 3 });
    victim
}

fn receive(
    victim: &mut CallProtocol,
    number: u64,
    step: SwitchStep,
) -> Result<Option<Event>, ProtocolError> {
    both_ways(victim, NOW, &Frame::Switch { number, step }.encode(), HEADER_BYTES)
}

const ASK: SwitchStep = SwitchStep::Ask { mechanism: 5 };
const BEGIN: SwitchStep = SwitchStep::Begin { ask: 0 };
const ANSWER: SwitchStep = SwitchStep::Begin { ask: 1 };
const STEP: SwitchStep = SwitchStep::Step;
const LAST: SwitchStep = SwitchStep::Last;
const DONE: SwitchStep = SwitchStep::Done;
const REFUSE: SwitchStep = SwitchStep::Refuse(REASON);
const DECLINE: SwitchStep = SwitchStep::Decline(REASON);
const READY: SwitchStep = SwitchStep::Ready;
const STEPS: [SwitchStep; 9] = [ASK, BEGIN, ANSWER, STEP, LAST, DONE, REFUSE, DECLINE, READY];

/// What brings a victim into a state.
#[derive(Clone, Copy)]
enum Act {
    /// A step of the first switch, or the first ask, comes from the peer.
    Peer(SwitchStep),
    Ask,
    Begin,
    Ready,
    Refuse,
    End,
    Finish,
    /// Sends what waits.
    Flush,
}

fn bring(victim: &mut CallProtocol, act: Act) {
    match act {
        Act::Peer(step) => drop(receive(victim, 1, step).unwrap()),
        Act::Ask => assert_eq!(victim.ask_switch(5), Ok(1)),
        Act::Begin => assert_eq!(victim.begin_switch(), Ok(1)),
        Act::Ready => victim.ready_switch().unwrap(),
        Act::Refuse => victim.refuse_switch(REASON).unwrap(),
        Act::End => victim.end_channel().unwrap(),
        Act::Finish => victim.finish_switch().unwrap(),
        Act::Flush => while victim.poll_transmit().is_some() {},
    }
}

/// In the state after these acts, these steps with their numbers are right and all others wrong.
#[track_caller]
fn check(switching: Switching, acts: &[Act], right: &[(u64, SwitchStep)]) {
    let mut victim = victim(switching);
    for &act in acts {
        bring(&mut victim, act);
    }
    for step in STEPS {
        for number in [0, 1, 2, 3, u64::MAX] {
            let mut victim = victim.clone();
            let taken = receive(&mut victim, number, step);
            if right.contains(&(number, step)) {
                assert!(taken.is_ok(), "{number} {step:?}: {taken:?}");
                continue;
            }
            let error = ProtocolError::BadSwitch { step: step.number() };
            assert_eq!(taken, Err(error), "{number} {step:?}");
            assert_eq!(victim.begin_switch(), Err(SwitchError::Closed));
            assert_eq!(receive(&mut victim, number, step), Ok(None));
            assert!(!victim.has_transmit());
        }
    }
}

#[test]
fn a_client_takes_each_step_in_its_state_only() {
    use Act::{Begin, End, Finish, Flush, Peer, Refuse};
    let check = |acts: &[Act], right: &[_]| check(Switching::Client, acts, right);
    check(&[], &[(1, ASK)]);
    check(&[Peer(ASK)], &[]);
    check(&[Peer(ASK), Begin], &[]);
    check(&[Peer(ASK), Begin, Flush], &[(1, STEP), (1, READY), (1, REFUSE)]);
    check(&[Begin], &[(1, ASK)]);
    let begun = [(1, ASK), (1, STEP), (1, READY), (1, REFUSE)];
    check(&[Begin, Flush], &begun);
    check(&[Begin, Flush, Peer(ASK)], &begun[1..]);
    check(&[Begin, Flush, Peer(STEP)], &begun[1..]);
    check(&[Begin, Refuse], &[(1, ASK)]);
    check(&[Begin, Refuse, Flush], &begun);
    check(&[Begin, Flush, Refuse, Peer(READY)], &begun);
    check(&[Begin, Flush, Refuse, Peer(REFUSE)], &[(1, ASK)]);
    check(&[Begin, Flush, Peer(REFUSE)], &[(1, ASK)]);
    check(&[Begin, Flush, Peer(READY)], &[]);
    check(&[Begin, Flush, Peer(READY), End], &[]);
    check(&[Begin, Flush, Peer(READY), End, Flush], &[(1, LAST)]);
    let moving = [Begin, Flush, Peer(READY), End, Flush, Peer(LAST)];
    check(&moving, &[]);
    check(&[&moving[..], &[Finish]].concat(), &[]);
    check(&[&moving[..], &[Finish, Flush]].concat(), &[(1, ASK)]);
}

#[test]
fn a_server_takes_each_step_in_its_state_only() {
    use Act::{Ask, End, Flush, Peer, Ready, Refuse};
    let check = |acts: &[Act], right: &[_]| check(Switching::Server, acts, right);
    check(&[], &[(1, BEGIN)]);
    check(&[Ask], &[(1, BEGIN)]);
    check(&[Ask, Flush], &[(1, BEGIN), (1, ANSWER), (1, DECLINE)]);
    check(&[Ask, Flush, Peer(DECLINE)], &[(1, BEGIN)]);
    check(&[Ask, Flush, Peer(ANSWER)], &[(1, STEP), (1, REFUSE)]);
    check(&[Ask, Flush, Peer(BEGIN)], &[(1, STEP), (1, REFUSE), (1, DECLINE)]);
    // The client answers every ask before its last message.
    let crossed = [(1, STEP), (1, REFUSE), (1, DECLINE)];
    check(&[Ask, Flush, Peer(BEGIN), Ready, Flush], &crossed);
    check(&[Peer(BEGIN), Refuse], &[(1, STEP), (1, REFUSE), (2, BEGIN)]);
    check(&[Peer(BEGIN), Refuse, Flush], &[(1, STEP), (1, REFUSE), (2, BEGIN)]);
    check(&[Peer(BEGIN), Refuse, Peer(REFUSE)], &[(2, BEGIN)]);
    check(&[Peer(BEGIN), Peer(REFUSE)], &[(2, BEGIN)]);
    check(&[Peer(BEGIN), Ready], &[(1, STEP), (1, REFUSE)]);
    check(&[Peer(BEGIN), Ready, Flush], &[(1, STEP), (1, REFUSE), (1, LAST)]);
    let moving = [Peer(BEGIN), Ready, Flush, Peer(LAST)];
    check(&moving, &[]);
    check(&[&moving[..], &[End]].concat(), &[]);
    check(&[&moving[..], &[End, Flush]].concat(), &[(1, DONE)]);
    check(&[&moving[..], &[End, Flush, Peer(DONE)]].concat(), &[(2, BEGIN)]);
}

#[test]
fn a_connection_of_version_1_knows_no_switch() {
    let error = ProtocolError::UnknownKind { kind: 12 };
    for step in STEPS {
        let mut victim = victim(Switching::Never);
        assert_eq!(receive(&mut victim, 1, step), Err(error));
    }
    let mut victim = victim(Switching::Never);
    let every = [
        victim.ask_switch(1).map(drop),
        victim.begin_switch().map(drop),
        victim.step_switch(),
        victim.ready_switch(),
        victim.refuse_switch(REASON),
        victim.refuse_ask(1, REASON),
        victim.end_channel(),
        victim.finish_switch(),
    ];
    assert!(every.iter().all(|&result| result == Err(SwitchError::Unsupported)));
    assert!(!victim.has_transmit());
}

#[test]
fn a_step_that_does_not_exist() {
    let head = Frame::Switch { number: 1, step: STEP }.encode();
    let attack = |at: usize, byte: u8, error| {
        let (mut victim, mut head) = (victim(Switching::Server), head);
        head[at] = byte;
        assert_eq!(both_ways(&mut victim, NOW, &head, HEADER_BYTES), Err(error));
    };
    for step in [0, 9, 255] {
        attack(6, step, ProtocolError::BadSwitch { step: step.into() });
    }
    attack(12, 1, ProtocolError::BadSwitch { step: 3 });
    attack(24, 1, ProtocolError::BadSwitch { step: 3 });
    attack(32, 1, ProtocolError::UnusedField { kind: 12 });
    attack(2, 1, ProtocolError::ReservedBits { flags: 1 });
    let mut refuse = Frame::Switch { number: 1, step: REFUSE }.encode();
    for reason in [0, 8, 255] {
        refuse[12] = reason;
        let taken = both_ways(&mut victim(Switching::Server), NOW, &refuse, HEADER_BYTES);
        assert_eq!(taken, Err(ProtocolError::BadSwitch { step: 6 }));
    }
}

/// A client that begins and gives up never fills the queue, however long we cannot send.
#[test]
fn a_flood_of_switches_while_nothing_can_be_sent() {
    let mut victim = victim(Switching::Server);
    victim.ask_switch(5).unwrap();
    for number in 1..10_000 {
        let event = receive(&mut victim, number, BEGIN).unwrap();
        let is_begun = matches!(event, Some(Event::Switch(SwitchEvent::Begun { .. })));
        assert_eq!(is_begun, number <= 600, "{number}: {event:?}");
        if is_begun {
            victim.step_switch().unwrap();
            match number % 3 {
                0 => victim.ready_switch().unwrap(),
                1 => victim.refuse_switch(REASON).unwrap(),
                _ => {}
            }
        }
        receive(&mut victim, number, REFUSE).unwrap();
    }
    let mut sent = 0;
    while victim.poll_transmit().is_some() {
        sent += 1;
    }
    assert!(sent <= 4, "{sent}");
}

#[test]
fn asks_beyond_the_limit_are_declined() {
    let mut victim = victim(Switching::Client);
    for number in 1..=601 {
        let event = receive(&mut victim, number, ASK).unwrap();
        assert_eq!(event.is_some(), number <= 600);
        if event.is_some() {
            victim.refuse_ask(number, SwitchReason::NotAllowed).unwrap();
        }
        let reason = [SwitchReason::TooOften, SwitchReason::NotAllowed][usize::from(number <= 600)];
        let declined = Frame::Switch { number, step: SwitchStep::Decline(reason) };
        assert_eq!(victim.poll_transmit(), Some(declined.encode()));
    }
}

fn open() -> Link {
    Link::open(Limits { switching: Switching::Client, ..Limits::default() })
}

/// Both ends up to the last message of the client, which waits to be sent.
fn open_and_ending() -> Link {
    let mut link = open();
    link.switch(CLIENT, 100);
    link.settle();
    link.switch(SERVER, 50);
    link.switch(SERVER, 100);
    link.settle();
    link.switch(CLIENT, 100);
    link
}

#[test]
fn both_ends_move() {
    let mut link = open();
    for moves in 1..=3 {
        link.switch(SERVER, 100);
        link.settle();
        link.switch(CLIENT, 101);
        link.settle();
        link.switch(SERVER, 100);
        link.settle();
        link.switch(CLIENT, 100);
        link.settle();
        link.check_channel();
        assert_eq!(link.sides[CLIENT].switching.moves, moves);
    }
    let events: Vec<_> = link.sides[SERVER].events.iter().rev().take(3).rev().collect();
    let number = 3;
    let begun = SwitchEvent::Begun { number, ask: Some(3) };
    let expected = [begun, SwitchEvent::PeerLast { number }, SwitchEvent::Done { number }];
    assert_eq!(events, expected.map(Event::Switch).iter().collect::<Vec<_>>());
}

#[test]
fn the_last_message_comes_behind_everything_that_is_queued() {
    let mut link = open_and_ending();
    let client = &mut link.sides[CLIENT].connection;
    client.ping(NOW).unwrap();
    client.drain();
    let kinds: Vec<_> = std::iter::from_fn(|| client.poll_transmit())
        .map(|head| (Frame::decode(&head, HEADER_BYTES).unwrap(), is_last(&head)))
        .collect();
    let last = Frame::Switch { number: 1, step: LAST };
    assert_eq!(kinds, [(Frame::Ping { number: 1 }, false), (Frame::GoAway, false), (last, true)]);
}

#[test]
fn a_switch_between_two_channels_is_finished_before_the_connection_is_drained() {
    let mut link = open_and_ending();
    link.sides[SERVER].connection.drain();
    link.settle();
    link.check_channel();
    assert_eq!(link.sides[CLIENT].switching.moves, 1);
    assert!(link.sides.iter().all(|side| side.is_drained));
}

#[test]
fn nothing_is_begun_while_the_connection_drains() {
    let mut link = open();
    link.switch(CLIENT, 100);
    link.settle();
    link.switch(SERVER, 100);
    link.sides[SERVER].connection.drain();
    let server = &mut link.sides[SERVER].connection;
    assert_eq!(server.ask_switch(5), Err(SwitchError::Draining));
    link.settle();
    let client = &mut link.sides[CLIENT].connection;
    assert_eq!(client.switch_state(), SwitchState::Ready);
    assert_eq!(client.end_channel(), Err(SwitchError::Draining));
    client.refuse_switch(SwitchReason::Draining).unwrap();
    assert_eq!(client.begin_switch(), Err(SwitchError::Draining));
    link.settle();
    assert_eq!(link.sides[SERVER].connection.switch_state(), SwitchState::Idle);
    let mut victim = victim(Switching::Server);
    victim.drain();
    let event = receive(&mut victim, 1, BEGIN).unwrap();
    let (number, ask, reason) = (1, None, SwitchReason::Draining);
    assert_eq!(event, Some(Event::Switch(SwitchEvent::Rejected { number, ask, reason })));
}

#[test]
fn each_method_belongs_to_one_end_and_one_state() {
    let mut client = victim(Switching::Client);
    assert_eq!(client.ask_switch(1), Err(SwitchError::WrongState));
    assert_eq!(client.refuse_ask(1, REASON), Err(SwitchError::WrongState));
    assert_eq!(client.end_channel(), Err(SwitchError::WrongState));
    assert_eq!(client.begin_switch(), Ok(1));
    assert_eq!(client.begin_switch(), Err(SwitchError::Busy));
    assert_eq!(client.ready_switch(), Err(SwitchError::WrongState));
    assert_eq!(client.finish_switch(), Err(SwitchError::WrongState));
    client.refuse_switch(REASON).unwrap();
    assert_eq!(client.begin_switch(), Err(SwitchError::TransmitFirst));
    assert_eq!(client.step_switch(), Err(SwitchError::WrongState));
    let mut server = victim(Switching::Server);
    assert_eq!(server.begin_switch(), Err(SwitchError::WrongState));
    assert_eq!(server.ask_switch(1), Ok(1));
    assert_eq!(server.ask_switch(1), Err(SwitchError::TransmitFirst));
    server.poll_transmit().unwrap();
    assert_eq!(server.ask_switch(1), Err(SwitchError::Busy));
    assert_eq!(server.switch_state(), SwitchState::Asked);
    receive(&mut server, 1, ANSWER).unwrap();
    assert_eq!(server.ask_switch(1), Err(SwitchError::Busy));
    server.ready_switch().unwrap();
    assert_eq!(server.refuse_switch(REASON), Err(SwitchError::WrongState), "it is too late");
    let mut greeting = CallProtocol::new([9; 16], Limits::default());
    assert_eq!(greeting.begin_switch(), Err(SwitchError::NotOpen));
}

#[test]
fn a_violation_names_its_step() {
    let error = ProtocolError::BadSwitch { step: 4 };
    assert_eq!(
        (error.name(), error.to_string().as_str()),
        ("bad-switch", "sent step 4 of a switch out of turn")
    );
    let end = End::Closed(CloseReason::ProtocolViolation(error));
    assert_eq!(end.status(), nearcall_wire::Code::Internal);
}
