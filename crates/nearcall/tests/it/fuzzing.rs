//! What the fuzz target `dispatcher` tries; it fails by panicking.
//!
//! Called by `fuzz/` with what the fuzzer makes up, and by the test at the end with the corpus
//! that is committed there. The server is a real one in an event loop of this thread; only the
//! handshake is left out.
//! **Not here:** the service (`fuzzing/service.rs`).

use std::collections::BTreeMap;

use nearcall::service::Interface;
use nearcall::{Deadline, EventLoop, Limits, Mechanism, Server};
use nearcall_channel::fuzzing::pair;
use nearcall_channel::{Endpoint, ReceiveError};
use nearcall_wire::{CallId, Code, Frame, HEADER_BYTES, Hello, Payload, Shape};

use self::service::{Kept, Service};
use nearcall_testkit::echo::{EchoCaller, EchoDispatcher};
use nearcall_testkit::streams::{StreamsCaller, StreamsDispatcher};
use nearcall_testkit::support::Stateless;

/// Named by its path, because the fuzz target includes this file from elsewhere.
#[path = "fuzzing/service.rs"]
mod service;

/// A client of a real server that sends any frames, many in one input.
///
/// The first byte chooses the mechanism, and whether the client greets. The others are steps of a
/// first byte, which chooses, and what it needs: `0 length:u16 bytes` sends any message; `1 id:u16
/// method:u8 metadata:u8 body:u8 bytes` a call as it should be, `2` the same one-way, `3 id:u16
/// body:u8 bytes` an item, `4 id:u16 kind:u8 number:u32` a cancellation, a half-close, credit, a
/// ping, a reply, an error or a GoAway; `5 place:u8 mask:u8` changes a byte of the header of the
/// next of these; `6 turns:u8` has the server take turns, `7` the client read; `8` the service
/// reply to what it kept. Numbers are little-endian. At the end the client goes.
///
/// # Panics
///
/// If the server panics or keeps the connection, replies to a call twice or to one that was not
/// made, or says more than 1 KiB of what was wrong.
pub(crate) fn dispatcher(bytes: &[u8]) {
    thread_local! {
        static SERVED: Served = Served::new();
    }
    SERVED.with(|served| {
        let (Some(&mechanism), mut steps) = (bytes.first(), Steps(bytes.get(1..).unwrap_or(&[])))
        else {
            return;
        };
        let mut client = Client::connect(served, mechanism);
        while client.step(&mut steps).is_some() {}
        client.finish();
    });
}

/// A server that lives as long as its thread.
struct Served {
    event_loop: EventLoop,
    server: Server,
    kept: Kept,
}

impl Served {
    fn new() -> Self {
        let event_loop = EventLoop::new().expect("an event loop");
        let server = Server::with_limits(&event_loop, limits());
        let kept = Kept::default();
        let echo = EchoDispatcher::new(Service(kept.clone(), Stateless));
        server.register(echo).expect("an object");
        let streams = StreamsDispatcher::new(Service(kept.clone(), Stateless));
        server.register(streams).expect("another object");
        Self { event_loop, server, kept }
    }

    fn turn(&self) {
        let event = self.event_loop.next(Deadline::NOW).expect("a round");
        assert!(event.is_none(), "there are no users' descriptors and timers");
    }
}

/// The hostile end.
struct Client<'a> {
    served: &'a Served,
    channel: Endpoint,
    /// Requests under way by the number of their call, as far as the server may know of them.
    started: BTreeMap<u64, usize>,
    /// Applied to the next header.
    mutation: Option<(u8, u8)>,
    /// The server has said what was wrong, which is the last of it.
    is_notified: bool,
}

impl<'a> Client<'a> {
    fn connect(served: &'a Served, mechanism: u8) -> Self {
        let choice = mechanism;
        let mechanism = if choice & 1 == 0 { Mechanism::UnixStream } else { Mechanism::Shm };
        let (server_end, channel) = pair(mechanism, BUFFER_BYTES);
        served.server.serve_channel(server_end);
        let started = BTreeMap::new();
        let mut client = Self { served, channel, started, mutation: None, is_notified: false };
        if choice & 2 == 0 {
            client.send(&hello());
        }
        client
    }

    fn step(&mut self, steps: &mut Steps<'_>) -> Option<()> {
        match steps.byte()? {
            0 => {
                let length = steps.half()?;
                let message = steps.bytes(length.into())?;
                self.note_any(message);
                self.send(message);
            }
            choice @ (1 | 2) => self.send_request(steps, choice == 2)?,
            3 => {
                let (id, body) = (steps.id()?, steps.byte()?);
                let body = steps.bytes(body.into())?;
                let payload = Payload::new(0, body.len())?;
                self.send_frame(&Frame::Item { id, to_caller: false, payload }, body);
            }
            4 => self.send_control(steps)?,
            5 => self.mutation = Some((steps.byte()?, steps.byte()?)),
            6 => (0..steps.byte()? % 8).for_each(|_| self.served.turn()),
            7 => self.read_replies(),
            8 => self.served.kept.reply(),
            _ => {}
        }
        Some(())
    }

    /// Sends a call or one-way message as it should be, unless a mutation waits.
    fn send_request(&mut self, steps: &mut Steps<'_>, is_oneway: bool) -> Option<()> {
        let (id, method) = (steps.id()?, usize::from(steps.byte()?));
        let (metadata, body) = (usize::from(steps.byte()?), usize::from(steps.byte()?));
        let interfaces = [EchoCaller::INTERFACE, StreamsCaller::INTERFACE];
        let interface: &Interface = interfaces[method / 16 % 2];
        let object = number_of(interface.name);
        let shape = [Shape::Unary, Shape::CallerStreams, Shape::CalleeStreams, Shape::BothStream]
            [method / 32 % 4];
        let method = interface.methods[method % 16 % interface.methods.len()].id;
        let rest = steps.bytes((metadata + body).min(steps.0.len()))?;
        let metadata = metadata.min(rest.len());
        let payload = Payload::new(metadata, rest.len() - metadata)?;
        let frame = match is_oneway {
            true => Frame::Oneway { object, method, timeout_ns: 0, payload },
            false => Frame::Call { id, object, method, timeout_ns: 0, payload, shape },
        };
        self.send_frame(&frame, rest);
        Some(())
    }

    fn send_control(&mut self, steps: &mut Steps<'_>) -> Option<()> {
        let (id, kind, number) = (steps.id()?, steps.byte()?, steps.number()?);
        let (number, payload) = (u64::from(number), Payload::EMPTY);
        let frame = match kind % 8 {
            0 => Frame::Cancel { id },
            1 => Frame::End { id },
            2 => Frame::Credit { id, to_caller: false, bytes: number },
            3 => Frame::Ping { number },
            4 => Frame::Pong { number },
            5 => Frame::Reply { id, payload },
            6 => Frame::Error { id, status: Code::Aborted, payload },
            _ => Frame::GoAway,
        };
        self.send_frame(&frame, &[]);
        Some(())
    }

    fn send_frame(&mut self, frame: &Frame, payload: &[u8]) {
        let mut message = [&frame.encode()[..], payload].concat();
        if let Some((place, mask)) = self.mutation.take() {
            message[usize::from(place) % HEADER_BYTES] ^= mask;
        }
        self.note_any(&message);
        self.send(&message);
    }

    /// Notes a message that the server may take for a call.
    fn note_any(&mut self, message: &[u8]) {
        if let Ok(Frame::Call { id, .. }) = Frame::decode(message, message.len()) {
            *self.started.entry(id.word()).or_default() += 1;
        }
    }

    fn send(&mut self, message: &[u8]) {
        if self.channel.send(message, Deadline::NOW).is_err() {
            // No room, or the server has had enough: it has its turn, and this is lost.
            self.served.turn();
            self.read_replies();
        }
        let _ = self.channel.flush(Deadline::NOW);
    }

    /// Reads what has come and judges it.
    fn read_replies(&mut self) {
        let mut bytes = Vec::new();
        for _ in 0..MESSAGES_PER_READ_MAX {
            bytes.clear();
            let received = self.channel.receive(Deadline::NOW);
            match received.and_then(|mut message| message.read_to_end(&mut bytes)) {
                Ok(()) => self.judge(&bytes),
                Err(ReceiveError::Empty | ReceiveError::PeerGone) => return,
                Err(error) => panic!("the server broke the channel: {error}"),
            }
        }
    }

    fn judge(&mut self, message: &[u8]) {
        if Hello::decode(message, message.len()).is_ok() {
            return;
        }
        let frame = Frame::decode(message, message.len()).expect("the server speaks the protocol");
        assert!(!self.is_notified, "{frame:?} after the end");
        match frame {
            Frame::Error { .. } if message[HEADER_BYTES..].starts_with(NOTICE) => {
                self.is_notified = true;
            }
            Frame::Reply { id, .. } => self.end(id),
            Frame::Error { id, payload, .. } => {
                assert!(payload.body_bytes <= TEXT_BYTES_MAX, "{} bytes", payload.body_bytes);
                self.end(id);
            }
            Frame::Item { id, .. } | Frame::Credit { id, .. } | Frame::End { id } => {
                assert!(self.started.contains_key(&id.word()), "{id:?} was never called");
            }
            Frame::Refused { id } => self.end(id),
            Frame::Pong { .. } | Frame::GoAway | Frame::LastGoAway => {}
            other => panic!("a server does not send {other:?}"),
        }
    }

    fn end(&mut self, id: CallId) {
        let started = self.started.get_mut(&id.word());
        let left = started.and_then(|started| started.checked_sub(1).map(|left| *started = left));
        assert!(left.is_some(), "{id:?} was answered twice, or never called");
    }

    /// Goes, and sees that the server lets go of everything.
    fn finish(mut self) {
        for _ in 0..4 {
            self.served.turn();
            self.read_replies();
        }
        self.served.kept.clear();
        let Self { served, channel, .. } = self;
        drop(channel);
        for _ in 0..ROUNDS_TO_END_MAX {
            if served.server.connections().is_empty() {
                break;
            }
            served.turn();
        }
        assert_eq!(served.server.connections().len(), 0, "the server keeps the connection");
        served.kept.clear();
    }
}

/// Takes numbers off the front; `None` at the end.
struct Steps<'a>(&'a [u8]);

impl<'a> Steps<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(first)
    }

    fn byte(&mut self) -> Option<u8> {
        self.bytes(1).map(|byte| byte[0])
    }

    fn half(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes([self.byte()?, self.byte()?]))
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from(self.half()?) | u32::from(self.half()?) << 16)
    }

    /// The slot and the generation of a call, both small, so that they meet again.
    fn id(&mut self) -> Option<CallId> {
        let [slot, generation] = [self.byte()?, self.byte()?];
        Some(CallId::from_word(u64::from(slot) | u64::from(generation) << 32))
    }
}

/// The number of an object, as the protocol has it: FNV-1a of its name.
fn number_of(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn hello() -> Vec<u8> {
    let limits = limits();
    let hello = Hello {
        version_min: 1,
        version_max: 1,
        message_bytes_max: limits.message_bytes_max,
        metadata_bytes_max: limits.metadata_bytes_max,
        calls_in_max: limits.calls_max,
        stream_window_bytes: limits.stream_window_bytes,
        instance: [9; 16],
    };
    hello.encode().to_vec()
}

/// So small that the fuzzer meets every limit.
fn limits() -> Limits {
    Limits {
        message_bytes_max: 4096,
        metadata_bytes_max: 64,
        calls_max: 4,
        stream_window_bytes: 8192,
        ..Limits::default()
    }
}

/// Room of each direction, in bytes: the smallest.
const BUFFER_BYTES: u32 = 4 << 10;
/// The longest text of an error, in bytes.
const TEXT_BYTES_MAX: u32 = 1024;
/// How the text begins that ends a connection whose peer broke the protocol; it may name a call
/// that was none.
const NOTICE: &[u8] = b"the connection is closed: ";
const MESSAGES_PER_READ_MAX: u32 = 1000;
/// Rounds in which the server notices the end of its client.
const ROUNDS_TO_END_MAX: u32 = 100;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    #[test]
    fn r06_committed_frames_are_judged_and_the_server_goes_on() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/dispatcher");
        let files = fs::read_dir(corpus).unwrap();
        let tried = files.map(|file| super::dispatcher(&fs::read(file.unwrap().path()).unwrap()));
        assert!(tried.count() > 0, "no corpus for dispatcher");
    }

    #[test]
    fn r06_steps_from_a_seed_are_judged_and_the_server_goes_on() {
        // Not a fuzzer, but it runs everywhere.
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..300 {
            let mut bytes = vec![random.u8(..) % 2];
            for _ in 0..40 {
                let choice = random.u8(..9);
                bytes.push(choice);
                match choice {
                    1 | 2 => bytes.extend([random.u8(..6), random.u8(..2), random.u8(..), 0, 0]),
                    3 => bytes.extend([random.u8(..6), random.u8(..2), 2, 8, random.u8(..)]),
                    4 => bytes.extend([random.u8(..6), random.u8(..2), random.u8(..4), 1, 0, 0, 0]),
                    5 => bytes.extend([random.u8(..), 1 << random.u8(..8)]),
                    6 => bytes.push(3),
                    0 => bytes.extend([2, 0, 1, 2]),
                    _ => {}
                }
            }
            super::dispatcher(&bytes);
        }
    }
}
