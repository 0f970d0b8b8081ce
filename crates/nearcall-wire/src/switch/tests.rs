//! Every way in which two ends can switch, one state after the other.
//!
//! The ends are the real state machines; the channels, the lines of handshakes, the handshakes and
//! the drivers around them are models. Numbers of messages, switches and asks are small, and each
//! action uses up something, so the exploration ends, and a state without an action has to be an
//! end that is well.
//! **Not here:** real connections and calls (`tests/it/simulation.rs`), peers that break the rules
//! (`tests/it/switches.rs`).

extern crate std;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use std::collections::HashSet;
use std::eprintln;

use super::{Switch, SwitchEvent, SwitchReason, SwitchState, SwitchStep};
use crate::error::SwitchError;
use crate::time::Time;

const CLIENT: usize = 0;
const SERVER: usize = 1;
const NOW: Time = Time::from_ns(5);

/// What may happen, and how often.
#[derive(Clone, Copy)]
struct Bounds {
    /// Messages of each end.
    messages: u8,
    begins: u8,
    asks: u8,
    per_minute_max: u32,
    /// Handshakes fail and take too long.
    fails: bool,
    /// Ends look for packets of the handshake without being told.
    looks: bool,
    drains: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Message {
    /// How many its sender has sent before.
    User(u8),
    Frame(u64, SwitchStep),
    GoAway,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Packet {
    Hello,
    Offer,
    Accept,
    Ready,
}

/// One end and its driver.
#[derive(Clone, PartialEq, Eq, Hash)]
struct End {
    switch: Switch,
    /// Number of the switch that opened the channel; 0 for the first.
    sends_on: u64,
    receives_on: u64,
    sent: u8,
    received: u8,
    /// The handshake under way, and whether it is done.
    handshake: Option<(u64, bool)>,
    drains: bool,
}

/// Both ends and what is under way.
#[derive(Clone, PartialEq, Eq, Hash)]
struct World {
    ends: [End; 2],
    /// By receiver and channel; those without messages are not there.
    channels: BTreeMap<(usize, u64), VecDeque<Message>>,
    /// By receiver and switch.
    lines: BTreeMap<(usize, u64), VecDeque<Packet>>,
    begins: u8,
    asks: u8,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Send,
    Transmit,
    Deliver,
    Begin,
    Ask,
    Decline,
    Look,
    LookAndFail,
    TimeOut,
    EndChannel,
    Drain,
}

const ACTIONS: [Action; 11] = [
    Action::Send,
    Action::Transmit,
    Action::Deliver,
    Action::Begin,
    Action::Ask,
    Action::Decline,
    Action::Look,
    Action::LookAndFail,
    Action::TimeOut,
    Action::EndChannel,
    Action::Drain,
];

impl World {
    fn new(bounds: &Bounds) -> Self {
        let end = |is_client| End {
            switch: Switch::new(is_client, bounds.per_minute_max),
            sends_on: 0,
            receives_on: 0,
            sent: 0,
            received: 0,
            handshake: None,
            drains: false,
        };
        Self {
            ends: [end(true), end(false)],
            channels: BTreeMap::new(),
            lines: BTreeMap::new(),
            begins: 0,
            asks: 0,
        }
    }

    /// Does an action of an end, if it can happen.
    fn act(&mut self, at: usize, action: Action, bounds: &Bounds) -> bool {
        let end = &mut self.ends[at];
        match action {
            Action::Send if end.sent < bounds.messages && !end.switch.has_transmit() => {
                let message = Message::User(end.sent);
                end.sent += 1;
                self.push(at, message);
                true
            }
            Action::Transmit => self.transmit(at),
            Action::Deliver => self.deliver(at),
            Action::Begin => self.begin(bounds),
            Action::Ask if self.asks < bounds.asks && end.switch.ask(7).is_ok() => {
                self.asks += 1;
                true
            }
            Action::Decline => {
                let number = end.switch.asks;
                end.switch.decline(number, SwitchReason::NotAllowed).is_ok()
            }
            Action::Look => bounds.looks && self.advance(at),
            Action::LookAndFail => bounds.fails && self.fail(at, SwitchReason::Failed),
            Action::TimeOut => bounds.fails && self.fail(at, SwitchReason::TimedOut),
            Action::EndChannel => self.end_channel(at),
            Action::Drain if bounds.drains && !end.drains => {
                self.drain(at);
                true
            }
            _ => false,
        }
    }

    fn push(&mut self, from: usize, message: Message) {
        let channel = self.ends[from].sends_on;
        self.channels.entry((1 - from, channel)).or_default().push_back(message);
    }

    fn transmit(&mut self, at: usize) -> bool {
        let Some((number, step)) = self.ends[at].switch.poll_transmit() else { return false };
        self.push(at, Message::Frame(number, step));
        if step == SwitchStep::Last {
            assert!(!self.ends[at].switch.has_transmit(), "something follows the last message");
            self.ends[at].sends_on = number;
        }
        true
    }

    fn deliver(&mut self, at: usize) -> bool {
        let key = (at, self.ends[at].receives_on);
        let Some(channel) = self.channels.get_mut(&key) else { return false };
        let message = channel.pop_front().expect("empty ones are not there");
        if channel.is_empty() {
            self.channels.remove(&key);
        }
        let end = &mut self.ends[at];
        match message {
            Message::User(number) => {
                assert_eq!(number, end.received, "a message is lost, doubled or reordered");
                end.received += 1;
            }
            Message::GoAway if end.drains => end.switch.drain(),
            Message::GoAway => self.drain(at),
            Message::Frame(number, step) => {
                let event = end.switch.handle(NOW, number, step);
                if let Some(event) = event.expect("a peer that keeps the rules") {
                    self.note(at, event);
                }
            }
        }
        true
    }

    fn note(&mut self, at: usize, event: SwitchEvent) {
        match event {
            SwitchEvent::Begun { number, .. } => {
                self.ends[at].handshake = Some((number, false));
                self.advance(at);
            }
            SwitchEvent::Step { .. } | SwitchEvent::Ready { .. } => {
                self.advance(at);
            }
            SwitchEvent::PeerLast { number } => self.follow(at, number),
            SwitchEvent::Refused { number, .. } => self.drop_handshake(at, number),
            SwitchEvent::Done { number } => {
                let old = self.channels.keys().find(|&&(_, channel)| channel < number);
                assert_eq!(old, None, "the old channel was needed");
            }
            SwitchEvent::Rejected { number, .. } => drop(self.lines.remove(&(at, number))),
            SwitchEvent::Asked { .. } | SwitchEvent::Declined { .. } => {}
        }
    }

    /// Receives from the new channel, after the peer's last message on the old one.
    fn follow(&mut self, at: usize, number: u64) {
        let end = &mut self.ends[at];
        assert!(!self.channels.contains_key(&(at, end.receives_on)), "it was not the last");
        assert_eq!(end.handshake, Some((number, true)), "the handshake is not done");
        end.receives_on = number;
        end.handshake = None;
        match at {
            CLIENT => end.switch.finish().unwrap(),
            _ => end.switch.end().unwrap(),
        }
    }

    fn begin(&mut self, bounds: &Bounds) -> bool {
        let switch = &mut self.ends[CLIENT].switch;
        let is_answer = switch.state() == SwitchState::Asked;
        if !is_answer && self.begins == bounds.begins {
            return false;
        }
        let Ok(number) = switch.begin() else { return false };
        self.begins += u8::from(!is_answer);
        self.ends[CLIENT].handshake = Some((number, false));
        self.lines.entry((SERVER, number)).or_default().push_back(Packet::Hello);
        true
    }

    /// Takes the packet of the handshake that waits, if one does.
    fn advance(&mut self, at: usize) -> bool {
        let Some((number, _)) = self.ends[at].handshake else { return false };
        let Some(packet) = self.lines.remove(&(at, number)) else { return false };
        let reply = match packet[0] {
            Packet::Hello => Some(Packet::Offer),
            Packet::Offer => Some(Packet::Accept),
            Packet::Accept => Some(Packet::Ready),
            Packet::Ready => None,
        };
        if let Some(reply) = reply {
            self.lines.entry((1 - at, number)).or_default().push_back(reply);
        }
        let end = &mut self.ends[at];
        match reply {
            Some(Packet::Ready) => end.switch.ready().unwrap(),
            Some(_) => end.switch.step().unwrap(),
            None => {}
        }
        let is_done = matches!(reply, None | Some(Packet::Ready));
        end.handshake = Some((number, is_done));
        true
    }

    /// Gives the handshake up, if this end may.
    fn fail(&mut self, at: usize, reason: SwitchReason) -> bool {
        let Some((number, is_done)) = self.ends[at].handshake else { return false };
        let has_packet = self.lines.contains_key(&(at, number));
        if reason == SwitchReason::Failed && !has_packet
            || self.ends[at].switch.refuse(reason).is_err()
        {
            return false;
        }
        assert!(at == CLIENT || !is_done);
        self.drop_handshake(at, number);
        true
    }

    fn drop_handshake(&mut self, at: usize, number: u64) {
        assert_eq!(self.ends[at].handshake.take().map(|(number, _)| number), Some(number));
        self.lines.remove(&(at, number));
    }

    /// The client goes on, once both handshakes are done.
    fn end_channel(&mut self, at: usize) -> bool {
        let end = &mut self.ends[at];
        let (CLIENT, Some((number, true))) = (at, end.handshake) else { return false };
        match end.switch.end() {
            Ok(()) => true,
            Err(SwitchError::Draining) => {
                end.switch.refuse(SwitchReason::Draining).unwrap();
                self.drop_handshake(at, number);
                true
            }
            Err(_) => false,
        }
    }

    fn drain(&mut self, at: usize) {
        self.ends[at].drains = true;
        self.ends[at].switch.drain();
        self.push(at, Message::GoAway);
    }

    /// Nothing can happen any more.
    fn check_end(&self, bounds: &Bounds) {
        assert!(self.channels.is_empty(), "messages are left");
        let [client, server] = &self.ends;
        for (end, peer) in [(client, server), (server, client)] {
            assert_eq!(end.switch.state(), SwitchState::Idle, "a dead state");
            assert!(!end.switch.has_transmit() && end.handshake.is_none());
            assert_eq!((end.sent, peer.received), (bounds.messages, bounds.messages));
            assert_eq!((end.sends_on, end.receives_on), (peer.receives_on, peer.sends_on));
        }
        assert_eq!(client.sends_on, client.receives_on);
    }
}

/// Returns how many states there are, and how many of them are ends; and to how many channels the
/// ends have moved at most.
fn explore(bounds: &Bounds) -> (usize, usize, u64) {
    let first = World::new(bounds);
    let (mut seen, mut open) = (HashSet::from([first.clone()]), Vec::from([first]));
    let (mut ends, mut newest) = (0, 0);
    while let Some(world) = open.pop() {
        let mut is_end = true;
        for at in [CLIENT, SERVER] {
            for action in ACTIONS {
                let mut next = world.clone();
                if !next.act(at, action, bounds) {
                    continue;
                }
                is_end = false;
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        if is_end {
            world.check_end(bounds);
            ends += 1;
            newest = newest.max(world.ends[CLIENT].sends_on);
        }
        assert!(seen.len() < STATES_MAX, "too many states");
    }
    (seen.len(), ends, newest)
}

const STATES_MAX: usize = 1_000_000;

const BOUNDS: Bounds = Bounds {
    messages: 1,
    begins: 1,
    asks: 1,
    per_minute_max: 600,
    fails: false,
    looks: false,
    drains: false,
};

#[track_caller]
#[expect(clippy::print_stderr, reason = "a test that passes shows it when asked")]
fn check(name: &str, bounds: &Bounds, newest_expected: u64) {
    let (states, ends, newest) = explore(bounds);
    eprintln!("{name}: {states} states, {ends} ends");
    assert_eq!(newest, newest_expected, "what can happen did not");
}

/// Without failures, so no timeout gets them out of a state in which both wait.
#[test]
#[cfg_attr(miri, ignore = "too many states")]
fn no_message_is_lost_while_all_goes_well() {
    check("messages", &Bounds { messages: 4, begins: 2, asks: 0, ..BOUNDS }, 2);
    check("asks", &Bounds { messages: 2, begins: 1, asks: 2, ..BOUNDS }, 3);
}

#[test]
#[cfg_attr(miri, ignore = "too many states")]
fn no_message_is_lost_while_handshakes_fail() {
    let fails = Bounds { fails: true, ..BOUNDS };
    check("failures", &Bounds { begins: 2, asks: 0, ..fails }, 2);
    check("failures of impatient ends", &Bounds { looks: true, asks: 0, ..fails }, 1);
    check("failures and asks", &Bounds { messages: 0, ..fails }, 2);
}

#[test]
#[cfg_attr(miri, ignore = "too many states")]
fn no_message_is_lost_while_switches_are_refused() {
    let rare = Bounds { per_minute_max: 1, ..BOUNDS };
    check("limit", &Bounds { begins: 2, asks: 2, ..rare }, 1);
}

#[test]
#[cfg_attr(miri, ignore = "too many states")]
fn no_message_is_lost_while_ends_drain() {
    let drains = Bounds { drains: true, ..BOUNDS };
    check("drains", &drains, 2);
    check("drains and failures", &Bounds { fails: true, asks: 0, ..drains }, 1);
}
