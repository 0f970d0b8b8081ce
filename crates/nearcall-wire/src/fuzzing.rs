//! What the fuzz target `frame` tries; it fails by panicking.
//!
//! Called by `fuzz/` with what the fuzzer makes up, and by the tests below with the corpus that is
//! committed there. Not for any other use.
//! **Not here:** the channel's fuzz targets (`nearcall-channel`).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::call_id::{IncomingCall, OutgoingCall, StreamCall};
use crate::call_table::item_cost;
use crate::error::{ItemError, ReplyError, SwitchError};
use crate::frame::{HEADER_BYTES, Head, Payload, Shape, needs_time};
use crate::hello::Hello;
use crate::limits::{Limits, Switching};
use crate::protocol::{CallProtocol, Event, Request};
use crate::references::References;
use crate::status::Code;
use crate::switch::{SwitchEvent, SwitchReason, SwitchState, SwitchStep};
use crate::time::Time;

/// Tries the bytes as a body with [`references`], and as steps in the life of an open connection,
/// whose peer sends anything while calls of both are under way.
///
/// The bytes are steps of a first byte, which chooses, and what it needs:
/// `0 head:40` receives a message as long as its head announces; `1 length:u32 bytes:u8 head` one
/// of that length, with so many bytes of a head; `2` starts a call, `3 ns:u16` one with a deadline,
/// `4` cancels one; `5` answers a call of the peer, `6` fails one; `7` sends what waits, `8 ns:u16`
/// lets time pass, `9` pings, `10` drains; `11 shape:u8` starts a call that streams, `12 bytes:u16`
/// sends an item in the calls that are open, `13` half-closes one, `14 cost:u16` consumes items of
/// each, `15` ends a drain, `16` to `23` do a step of a switch, `24` sends headers. Numbers are
/// little-endian. At the end the channel goes. All of it as a client and as a server.
///
/// # Panics
///
/// If the connection panics, or a call ends twice or never.
pub fn frame(bytes: &[u8]) {
    references(bytes);
    for switching in [Switching::Client, Switching::Server] {
        let (mut end, mut steps) = (End::new(switching), Steps(bytes));
        while end.step(&mut steps).is_some() {
            end.take_events();
            end.check_books();
        }
        end.connection.handle_closed();
        end.take_events();
        end.check_books();
        assert!(end.open.is_empty() && end.serving.is_empty(), "a call has not ended");
    }
}

/// Any bytes are a body with references or are refused; references lie in their order in the body.
///
/// # Panics
///
/// If that is not so.
pub fn references(bytes: &[u8]) {
    let Ok((references, inline)) = References::read(bytes, 1 << 20) else { return };
    assert!(references.body_bytes() <= 1 << 20);
    assert_eq!(references.iter().count(), references.count());
    assert!(bytes.ends_with(inline));
    let (mut end, mut outside) = (0, 0);
    for reference in references.iter() {
        assert!(reference.position as usize >= end && reference.bytes > 0);
        end = reference.position as usize + reference.bytes as usize;
        outside += reference.bytes as usize;
    }
    assert!(end <= references.body_bytes());
    assert_eq!(outside + inline.len(), references.body_bytes());
}

/// Takes numbers off the front; `None` at the end.
struct Steps<'a>(&'a [u8]);

impl<'a> Steps<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn slice(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(first)
    }

    fn span_ns(&mut self) -> Option<u64> {
        self.take().map(u16::from_le_bytes).map(u64::from)
    }
}

/// The end under attack, and the books of its calls.
struct End {
    connection: CallProtocol,
    now: Time,
    open: BTreeSet<OutgoingCall>,
    serving: BTreeSet<IncomingCall>,
    /// Open calls in which the peer sends items, with the cost of what was not consumed.
    held: BTreeMap<StreamCall, u32>,
    /// Open calls of this end of which headers or items have come.
    begun: BTreeSet<OutgoingCall>,
    is_drained: bool,
}

impl End {
    /// An end that has greeted and has one call of its own under way.
    fn new(switching: Switching) -> Self {
        let mut end = Self {
            connection: CallProtocol::new([1; 16], Limits { switching, ..LIMITS }),
            now: Time::from_ns(0),
            open: BTreeSet::new(),
            serving: BTreeSet::new(),
            held: BTreeMap::new(),
            begun: BTreeSet::new(),
            is_drained: false,
        };
        end.connection.poll_transmit();
        let hello = Hello {
            version_min: 1,
            version_max: 3,
            message_bytes_max: LIMITS.message_bytes_max,
            metadata_bytes_max: LIMITS.metadata_bytes_max,
            calls_in_max: LIMITS.calls_in_max,
            stream_window_bytes: LIMITS.stream_window_bytes,
            instance: [2; 16],
        };
        end.receive(&hello.encode(), HEADER_BYTES);
        assert!(end.connection.is_open());
        end.start(None, Shape::Unary);
        end
    }

    fn step(&mut self, steps: &mut Steps<'_>) -> Option<()> {
        let [choice] = steps.take()?;
        match choice {
            0 => {
                let head: Head = steps.take()?;
                let metadata_bytes = u16::from_le_bytes([head[4], head[5]]);
                let body_bytes = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
                self.receive(
                    &head,
                    Payload { metadata_bytes, body_bytes, ..Payload::EMPTY }.message_bytes(),
                );
            }
            1 => {
                let message_bytes = u32::from_le_bytes(steps.take()?) as usize;
                let [head_bytes] = steps.take()?;
                self.receive(steps.slice(head_bytes.into())?, message_bytes);
            }
            2 => self.start(None, Shape::Unary),
            3 => self.start(Some(steps.span_ns()?), Shape::Unary),
            4 => {
                if let Some(call) = self.open.pop_first() {
                    self.held.remove(&call.into());
                    assert!(self.connection.cancel(call).is_ok());
                }
            }
            5 | 6 => self.answer(choice == 5),
            7 => {
                let waits = self.connection.has_transmit();
                assert_eq!(self.connection.poll_transmit().is_some(), waits);
            }
            8 => {
                self.now = self.now.after_ns(steps.span_ns()?);
                self.connection.handle_timeout(self.now);
            }
            9 => drop(self.connection.ping(self.now)),
            10 => self.connection.drain(),
            11 => {
                const SHAPES: [Shape; 3] =
                    [Shape::CallerStreams, Shape::CalleeStreams, Shape::BothStream];
                let [shape] = steps.take()?;
                self.start(None, SHAPES[usize::from(shape) % SHAPES.len()]);
            }
            12 => self.send_items(u16::from_le_bytes(steps.take()?)),
            13 => {
                if let Some(&call) = self.open.first() {
                    let first = self.connection.half_close(call);
                    assert!(self.connection.half_close(call).is_err(), "{first:?}");
                }
            }
            14 => {
                let cost = u32::from(u16::from_le_bytes(steps.take()?));
                for (&call, held) in &mut self.held {
                    self.connection.consume(call, cost.min(*held).into());
                    *held -= cost.min(*held);
                }
            }
            15 => self.connection.end_drain(),
            16..24 => self.switch(choice),
            24 => {
                if let Some(&call) = self.serving.first() {
                    match self.connection.send_headers(call, LIMITS.metadata_bytes_max) {
                        Ok(_) => assert!(!self.connection.has_transmit()),
                        Err(error) => assert_eq!(error, ReplyError::TransmitFirst),
                    }
                }
            }
            _ => {}
        }
        Some(())
    }

    /// Does one step of a switch, and sees that it changes nothing if it is refused.
    fn switch(&mut self, choice: u8) {
        let before = self.connection.clone();
        let connection = &mut self.connection;
        let may_begin = connection.may_begin_switch();
        let result = match choice {
            16 => connection.ask_switch(7).map(drop),
            17 => connection.begin_switch().map(drop),
            18 => connection.step_switch(),
            19 => connection.ready_switch(),
            20 => connection.refuse_switch(SwitchReason::Failed),
            21 => connection.refuse_ask(1, SwitchReason::NotAllowed),
            22 => connection.end_channel(),
            _ => connection.finish_switch(),
        };
        assert!(choice != 17 || result == may_begin);
        match result {
            Ok(()) => assert!(connection.has_transmit()),
            Err(SwitchError::NotOpen) => panic!("it has been open"),
            Err(error) => assert!(*connection == before, "{error} has changed something"),
        }
    }

    fn receive(&mut self, head: &[u8], message_bytes: usize) {
        let now = if needs_time(head) { self.now } else { Time::NEVER };
        if let Ok(Some(event)) = self.connection.handle_message(now, head, message_bytes) {
            self.note(event);
        }
    }

    /// Sends an item in each open call that may.
    fn send_items(&mut self, body_bytes: u16) {
        let payload = Payload { body_bytes: body_bytes.into(), ..Payload::EMPTY };
        let ours = self.open.iter().map(|&call| StreamCall::from(call));
        let calls: Vec<_> = ours.chain(self.serving.iter().map(|&call| call.into())).collect();
        for call in calls {
            let cost = item_cost(payload.message_bytes(), LIMITS.stream_window_bytes);
            let credit = self.connection.credit_left(call);
            assert!(credit.is_none_or(|left| left <= LIMITS.stream_window_bytes));
            let has_credit = self.connection.has_credit(call, payload);
            assert_eq!(has_credit, credit.is_none_or(|left| left >= cost));
            match self.connection.send_item(call, payload) {
                Ok(_) => {
                    let left = credit.and_then(|left| left.checked_sub(cost));
                    assert!(left.is_some(), "credit is never negative");
                    assert_eq!(self.connection.credit_left(call), left);
                }
                Err(ItemError::NoCredit) => assert!(!has_credit),
                Err(ItemError::TooLarge { .. }) => assert!(!payload_fits(payload)),
                Err(ItemError::Ended | ItemError::NotAStream) => assert_eq!(credit, None),
            }
        }
    }

    fn start(&mut self, span_ns: Option<u64>, shape: Shape) {
        let deadline = span_ns.map_or(Time::NEVER, |ns| self.now.after_ns(ns));
        let request = Request { object: 7, method: 3, deadline, payload: Payload::EMPTY, shape };
        if let Ok((call, _)) = self.connection.start_call(self.now, &request) {
            assert!(call.slot() < LIMITS.calls_out_max);
            assert!(self.open.insert(call), "{call:?} was given out twice");
            if shape.callee_streams() {
                self.held.insert(call.into(), 0);
            }
        }
    }

    fn answer(&mut self, with_result: bool) {
        let Some(&call) = self.serving.first() else { return };
        assert!(!self.connection.is_cancelled(call));
        let head = match with_result {
            true => self.connection.reply(call, Payload::EMPTY),
            false => self.connection.fail(call, Code::Aborted, Payload::EMPTY),
        };
        match head {
            Ok(_) => {
                assert!(self.serving.remove(&call));
                self.held.remove(&call.into());
            }
            Err(error) => assert_eq!(error, ReplyError::TransmitFirst),
        }
    }

    fn take_events(&mut self) {
        while let Some(event) = self.connection.poll_event() {
            self.note(event);
        }
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::Call { call, payload, shape, .. } => {
                if shape.caller_streams() {
                    self.held.insert(call.into(), 0);
                }
                assert!(call.slot() < LIMITS.calls_in_max && payload_fits(payload));
                assert!(self.serving.insert(call), "{call:?} came twice");
            }
            Event::Cancelled { call, .. } => {
                assert!(self.serving.remove(&call), "ended before");
                self.held.remove(&call.into());
            }
            Event::Ended { call, .. } => {
                assert!(self.open.remove(&call), "ended before");
                self.held.remove(&call.into());
                assert!(self.connection.release(call).is_some(), "released before");
            }
            Event::Drained => assert!(!core::mem::replace(&mut self.is_drained, true)),
            Event::Oneway { payload, .. } => assert!(payload_fits(payload)),
            Event::Item { call, payload } => {
                let held = self.held.get_mut(&call);
                let held = held.expect("an item of a call that is open and streams this way");
                if let StreamCall::Outgoing(call) = call {
                    self.begun.insert(call);
                }
                *held += item_cost(payload.message_bytes(), LIMITS.stream_window_bytes);
                assert!(*held <= LIMITS.stream_window_bytes, "{held} bytes without credit");
            }
            Event::Headers { call, payload } => {
                assert!(self.open.contains(&call) && payload_fits(payload));
                assert!(self.begun.insert(call), "they come first, and once");
            }
            Event::HalfClosed { call } => assert!(self.held.contains_key(&call.into())),
            Event::Credit { call } => {
                assert!(self.connection.credit_left(call) > Some(0) || self.is_silent(call));
            }
            Event::Switch(event) => {
                let state = self.connection.switch_state();
                match event {
                    SwitchEvent::Asked { .. } => assert_eq!(state, SwitchState::Asked),
                    SwitchEvent::Begun { .. } | SwitchEvent::Step { .. } => {
                        assert_eq!(state, SwitchState::Handshaking);
                    }
                    SwitchEvent::Ready { .. } => assert_eq!(state, SwitchState::Ready),
                    SwitchEvent::PeerLast { .. } => assert_eq!(state, SwitchState::LastReceived),
                    SwitchEvent::Refused { .. } | SwitchEvent::Done { .. } => {
                        assert!(matches!(state, SwitchState::Idle | SwitchState::Asked));
                    }
                    SwitchEvent::Declined { .. } | SwitchEvent::Rejected { .. } => {}
                }
            }
            Event::Opened(_) | Event::Pong { .. } | Event::PeerDrains | Event::PeerDrained => {}
        }
    }

    /// Whether this end has half-closed the call.
    fn is_silent(&mut self, call: StreamCall) -> bool {
        let is_open = match call {
            StreamCall::Outgoing(call) => self.open.contains(&call),
            StreamCall::Incoming(call) => self.serving.contains(&call),
        };
        is_open && self.connection.credit_left(call).is_none()
    }

    fn check_books(&self) {
        let counts = self.connection.counts();
        assert_eq!(counts.outgoing_open, self.open.len());
        assert_eq!(counts.incoming_open, self.serving.len());
        assert!(self.connection.poll_timeout().is_none_or(|time| time > self.now));
    }
}

fn payload_fits(payload: Payload) -> bool {
    payload.message_bytes() <= LIMITS.message_bytes_max as usize
        && payload.metadata_bytes <= LIMITS.metadata_bytes_max
}

/// So small that the fuzzer meets every limit.
const LIMITS: Limits = Limits {
    message_bytes_max: 4096,
    metadata_bytes_max: 64,
    calls_in_max: 3,
    calls_out_max: 3,
    stream_window_bytes: 300,
    timeout_ns_max: 80,
    references: true,
    switching: Switching::Never,
    switches_per_minute_max: 4,
};

/// Every step of a switch with these fields, in the order of their numbers, from 1.
#[must_use]
pub fn every_step(mechanism: u32, ask: u64, reason: SwitchReason) -> [SwitchStep; 8] {
    [
        SwitchStep::Ask { mechanism },
        SwitchStep::Begin { ask },
        SwitchStep::Step,
        SwitchStep::Last,
        SwitchStep::Done,
        SwitchStep::Refuse(reason),
        SwitchStep::Decline(reason),
        SwitchStep::Ready,
    ]
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::call_id::CallId;
    use crate::frame::Frame;

    #[test]
    #[cfg_attr(miri, ignore = "reads files")]
    fn committed_frames_are_judged() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/frame");
        let files = fs::read_dir(corpus).unwrap();
        let tried = files.map(|file| frame(&fs::read(file.unwrap().path()).unwrap())).count();
        assert!(tried > 0, "no corpus for frame");
    }

    /// Not a fuzzer, but it runs everywhere, under Miri too.
    #[test]
    fn steps_from_a_seed_end_each_call_once() {
        for seed in 0..if cfg!(miri) { 4 } else { 3_000 } {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut steps = Vec::new();
            for _ in 0..60 {
                let choice = rng.u8(0..25);
                steps.push(choice);
                match choice {
                    0 => steps.extend(any_frame(&mut rng).encode()),
                    1 => {
                        let head_bytes = rng.u8(38..=40);
                        steps.extend(u32::from(head_bytes).to_le_bytes());
                        steps.push(head_bytes);
                        steps.extend(&any_frame(&mut rng).encode()[..head_bytes.into()]);
                    }
                    11 => steps.push(rng.u8(0..3)),
                    3 | 8 | 12 | 14 => steps.extend(rng.u16(0..100).to_le_bytes()),
                    _ => {}
                }
            }
            frame(&steps);
        }
    }

    /// Mostly one that is allowed, so that a run gets far.
    fn any_frame(rng: &mut fastrand::Rng) -> Frame {
        let id = CallId::from_word(rng.u64(1..4) << 16 | rng.u64(0..3));
        let timeout_ns = if rng.bool() { 0 } else { rng.u64(1..100) };
        let payload = Payload { body_bytes: rng.u32(0..100), ..Payload::EMPTY };
        let to_caller = rng.bool();
        match rng.u8(0..30) {
            0..6 => {
                let (object, method) = (7, 3);
                let shape = if rng.bool() { Shape::Unary } else { Shape::BothStream };
                Frame::Call { id, object, method, timeout_ns, payload, shape }
            }
            6 => Frame::Oneway { object: 7, method: 3, timeout_ns, payload },
            7 => Frame::Reply { id, payload },
            8 => Frame::Error { id, status: Code::Internal, payload },
            9 => Frame::Cancel { id },
            10 => Frame::Ping { number: 1 },
            11 => Frame::GoAway,
            12 => Frame::End { id },
            13 => Frame::Credit { id, to_caller, bytes: rng.u64(1..100) },
            14 => Frame::Refused { id },
            15 => Frame::LastGoAway,
            20..28 => any_switch(rng),
            28.. => Frame::Headers { id, metadata_bytes: rng.u16(0..80) },
            _ => Frame::Item { id, to_caller, payload },
        }
    }

    fn any_switch(rng: &mut fastrand::Rng) -> Frame {
        let reason = SwitchReason::ALL[rng.usize(0..7)];
        let steps = every_step(7, rng.u64(0..3), reason);
        Frame::Switch { number: rng.u64(1..4), step: steps[rng.usize(0..8)] }
    }
}
