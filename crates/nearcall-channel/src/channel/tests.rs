//! Whole messages over a transport in this process, against a model: a queue of messages.
//!
//! One thread plays both ends, so a deadline that lies ahead passes at once when there is nothing.
//! **Not here:** real transports (`tests/it`), single headers (`fragment.rs`).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use nearcall_os::region::SharedBytes;

use super::{ChannelParts, FragmentChannel, ReceiveBuffer};
use crate::channel::Channel;
use crate::error::{ReceiveError, SendError};
use crate::fragment::FragmentHeader;
use crate::transport::Transport;
use crate::wait::{Deadline, Interest, Readiness};

/// The operations that `Endpoint` makes of a channel.
trait ChannelExt: Channel {
    fn flush(&mut self, deadline: Deadline) -> Result<(), SendError> {
        let ChannelParts { outgoing, transport, .. } = self.parts();
        outgoing.settle(transport, deadline)?;
        transport.drain(deadline)
    }

    fn abort(&mut self) {
        let ChannelParts { outgoing, transport, .. } = self.parts();
        outgoing.abort(transport);
    }

    fn fragment(&mut self) -> Result<SharedBytes<'_>, ReceiveError> {
        let ChannelParts { incoming, transport, .. } = self.parts();
        incoming.fragment(transport)
    }

    fn consume(&mut self, bytes: usize) {
        let ChannelParts { incoming, transport, .. } = self.parts();
        incoming.consume(transport, bytes);
    }

    fn receive_vec(
        &mut self,
        into: &mut Vec<u8>,
        deadline: Deadline,
    ) -> Result<usize, ReceiveError> {
        match self.receive_small(into, deadline) {
            Err(ReceiveError::DoesNotFit { .. }) => {
                self.receive_long(ReceiveBuffer::Vec(into), deadline)
            }
            outcome => outcome,
        }
    }
}

impl<C: Channel> ChannelExt for C {}

const FRAGMENT_BYTES_MAX: usize = 64;
const MESSAGE_BYTES_MAX: u32 = 1000;
/// Room of one direction, in fragments: less than the longest message has.
const ROOM: usize = 6;
/// The first bytes of a message identify it, so a fragment is never cut before them.
const NUMBER_BYTES: usize = 8;

type Line = Arc<Mutex<VecDeque<(FragmentHeader, Vec<u8>)>>>;

/// One end of two queues. Gives bytes in random portions and is randomly late.
struct QueueTransport {
    out: Line,
    come: Line,
    random: fastrand::Rng,
    reserved: Option<Vec<u8>>,
    /// Published, but still in this process.
    held: Option<(FragmentHeader, Vec<u8>)>,
    current: Vec<u8>,
    read_bytes: usize,
    /// Has said that the rest of the current fragment is there.
    is_there: bool,
}

impl QueueTransport {
    fn pair(seed: u64) -> [Self; 2] {
        let (a, b) = (Line::default(), Line::default());
        let end = |out: &Line, come: &Line, seed| Self {
            out: Arc::clone(out),
            come: Arc::clone(come),
            random: fastrand::Rng::with_seed(seed),
            reserved: None,
            held: None,
            current: Vec::new(),
            read_bytes: 0,
            is_there: false,
        };
        [end(&a, &b, seed), end(&b, &a, !seed)]
    }

    fn free(&self) -> usize {
        ROOM - self.out.lock().unwrap().len()
    }

    fn is_late(&mut self) -> bool {
        self.random.u8(0..4) == 0
    }
}

impl Transport for QueueTransport {
    fn room_bytes(&self) -> std::io::Result<usize> {
        Ok(usize::MAX)
    }

    fn fragment_bytes_max(&self) -> usize {
        FRAGMENT_BYTES_MAX
    }

    fn has_room_for(&mut self, message_bytes: usize) -> bool {
        self.held.is_none() && message_bytes.div_ceil(FRAGMENT_BYTES_MAX) <= self.free()
    }

    fn reserve(&mut self, fragment_bytes: usize, deadline: Deadline) -> Result<(), SendError> {
        assert!(self.reserved.is_none(), "one fragment at a time");
        assert!(fragment_bytes <= FRAGMENT_BYTES_MAX);
        self.drain(deadline)?;
        if self.free() == 0 {
            return Err(SendError::Full);
        }
        self.reserved = Some(vec![0xEE; fragment_bytes]);
        Ok(())
    }

    fn room(&mut self) -> &mut [u8] {
        self.reserved.as_mut().unwrap()
    }

    fn publish(&mut self, header: FragmentHeader, deadline: Deadline) -> Result<(), SendError> {
        let fragment = self.reserved.take().expect("published what was reserved");
        assert_eq!(fragment.len(), header.fragment_bytes as usize);
        match deadline == Deadline::NOW && header.last && self.is_late() {
            true => self.held = Some((header, fragment)),
            false => self.out.lock().unwrap().push_back((header, fragment)),
        }
        Ok(())
    }

    fn unreserve(&mut self) {
        assert!(self.reserved.take().is_some(), "gave back what was reserved");
    }

    fn drain(&mut self, _until: Deadline) -> Result<(), SendError> {
        if self.held.is_some() && (self.free() == 0 || self.is_late()) {
            return Err(SendError::Full);
        }
        self.out.lock().unwrap().extend(self.held.take());
        Ok(())
    }

    fn next(&mut self, _until: Deadline) -> Result<FragmentHeader, ReceiveError> {
        let (header, fragment) =
            self.come.lock().unwrap().pop_front().ok_or(ReceiveError::Empty)?;
        (self.current, self.read_bytes, self.is_there) = (fragment, 0, false);
        Ok(header)
    }

    fn is_whole(&mut self, fragment_bytes: usize) -> bool {
        assert_eq!(fragment_bytes, self.current.len());
        self.is_there = self.random.bool();
        self.is_there
    }

    fn bytes(&mut self, _until: Deadline) -> Result<SharedBytes<'_>, ReceiveError> {
        if self.read_bytes >= NUMBER_BYTES && !self.is_there && self.is_late() {
            return Err(ReceiveError::Empty);
        }
        let left = &self.current[self.read_bytes..];
        assert!(!left.is_empty(), "asked for bytes of a fragment that has none left");
        let bytes = self.random.usize(1..=left.len()).max(NUMBER_BYTES.min(left.len()));
        Ok(SharedBytes::from_slice(&left[..bytes]))
    }

    fn consume(&mut self, bytes: usize) {
        self.read_bytes += bytes;
        assert!(self.read_bytes <= self.current.len());
    }

    fn finish(&mut self) {
        self.current.clear();
        self.read_bytes = 0;
    }

    fn readiness(&self, _interest: Interest) -> Option<Readiness<'_>> {
        None
    }
}

fn message(number: u64, len: usize) -> Vec<u8> {
    number
        .to_le_bytes()
        .into_iter()
        .chain((0..).map(|at: u64| (at * 7 + number).to_le_bytes()[0]))
        .take(len)
        .collect()
}

/// What the receiver must see, and how much of everything happened.
#[derive(Default)]
struct Model {
    expected: VecDeque<(u64, usize)>,
    number: u64,
    received: u32,
    collected: u32,
    skipped: u32,
    aborted: u32,
    full: u32,
}

impl Model {
    fn send(&mut self, end: &mut impl Channel, random: &mut fastrand::Rng) {
        let len = match random.bool() {
            true => random.usize(0..FRAGMENT_BYTES_MAX * 2),
            false => random.usize(0..=MESSAGE_BYTES_MAX as usize),
        };
        self.number += 1;
        let bytes = message(self.number, len);
        let deadline = deadline(random);
        if len <= FRAGMENT_BYTES_MAX && random.bool() {
            let gives_up = random.u8(0..4) == 0;
            match end.send_with(len, deadline, &mut |room| {
                room.copy_from_slice(&bytes);
                !gives_up
            }) {
                Ok(true) => self.expected.push_back((self.number, len)),
                Ok(false) => self.aborted += 1,
                Err(_) => self.full += 1,
            }
            return;
        }
        if end.claim(len, deadline).is_err() {
            self.full += 1;
            return;
        }
        let gives_up_at = if random.u8(0..4) == 0 { random.usize(0..=len) } else { len + 1 };
        let mut written = 0;
        while written < len && written < gives_up_at {
            let Ok(space) = end.space() else { break };
            assert!(!space.is_empty() && space.len() <= len - written);
            let now = random.usize(1..=space.len());
            space[..now].copy_from_slice(&bytes[written..written + now]);
            end.written(now).unwrap();
            written += now;
        }
        if written < len || gives_up_at <= len {
            end.abort();
            self.aborted += 1;
            return;
        }
        assert!(end.space().unwrap().is_empty(), "space after the end");
        end.commit().unwrap();
        self.expected.push_back((self.number, len));
    }

    /// Into a buffer that changes places with one that is lent.
    fn receive_vec(&mut self, end: &mut impl Channel, random: &mut fastrand::Rng) {
        let deadline = deadline(random);
        let mut into = vec![0; 2 * NUMBER_BYTES];
        let len = loop {
            match end.receive_vec(&mut into, deadline) {
                Ok(len) => break len,
                Err(ReceiveError::DoesNotFit { .. }) => {
                    let mut lent = vec![0xEE; random.usize(0..=MESSAGE_BYTES_MAX as usize)];
                    end.parts().incoming.swap_buffer(&mut lent);
                }
                Err(ReceiveError::Empty) => return,
                Err(error) => panic!("{error:?}"),
            }
        };
        let front = self.expected.pop_front();
        let is_front = front.is_some_and(|(number, front_len)| {
            front_len == len && message(number, len) == into[..len]
        });
        assert!(is_front, "another message than {front:?}: {len} bytes");
        self.collected += 1;
    }

    fn receive(&mut self, end: &mut impl Channel, random: &mut fastrand::Rng) {
        if random.u8(0..3) == 0 {
            return self.receive_vec(end, random);
        }
        let deadline = deadline(random);
        let len = match end.receive(deadline) {
            Ok(len) => len,
            Err(ReceiveError::Empty) => return,
            Err(error) => panic!("{error:?}"),
        };
        let mut bytes = Vec::new();
        let stops_at = if random.u8(0..4) == 0 { random.usize(0..=len) } else { len };
        let outcome = read(end, random, &mut bytes, len, stops_at.max(NUMBER_BYTES.min(len)));
        end.release();
        let front = self.expected.front().copied();
        let is_front = front.is_some_and(|(number, front_len)| {
            front_len == len && message(number, len)[..bytes.len()] == bytes
        });
        match outcome {
            Ok(()) if bytes.len() == len => {
                assert!(is_front, "another message than {front:?}: {len} bytes");
                self.received += 1;
            }
            Err(ReceiveError::Aborted) => {
                assert!(!is_front, "{front:?} was committed");
                return;
            }
            // Late, or stopped half way: the rest is skipped.
            Ok(()) | Err(ReceiveError::Empty) => {
                assert!(deadline != Deadline::NOW || outcome.is_ok(), "not there as a whole");
                self.skipped += 1;
            }
            Err(error) => panic!("{error:?}"),
        }
        if is_front {
            self.expected.pop_front();
        }
    }
}

/// Reads up to `stop` bytes of a message of `len`, by both ways of reading.
fn read(
    end: &mut impl Channel,
    random: &mut fastrand::Rng,
    bytes: &mut Vec<u8>,
    len: usize,
    stop: usize,
) -> Result<(), ReceiveError> {
    while bytes.len() < stop {
        let start = bytes.len();
        let now = match start {
            // First and apart, because the bytes of a read that fails are lost.
            0 => NUMBER_BYTES.min(stop),
            _ => random.usize(1..=stop - start),
        };
        if random.bool() {
            let mut into = vec![0; now];
            end.read(&mut into)?;
            bytes.extend(into);
        } else {
            let fragment = end.fragment()?;
            assert!(!fragment.is_empty() && fragment.len() <= len - start);
            let now = now.min(fragment.len());
            bytes.resize(start + now, 0);
            fragment.slice(0..now).copy_to(&mut bytes[start..]);
            end.consume(now);
        }
    }
    if stop == len {
        assert!(end.fragment()?.is_empty(), "bytes behind the end");
    }
    Ok(())
}

fn deadline(random: &mut fastrand::Rng) -> Deadline {
    match random.bool() {
        true => Deadline::NOW,
        // A moment that has passed, which is not the same as not to wait.
        false => Deadline::from_ns(1),
    }
}

#[test]
fn messages_arrive_as_in_the_model() {
    let mut totals = [0; 5];
    let (seeds, seen_min) = if cfg!(miri) { (1, 5) } else { (300, 2500) };
    for seed in 0..seeds {
        let mut random = fastrand::Rng::with_seed(seed);
        let [a, b] = QueueTransport::pair(seed)
            .map(|transport| FragmentChannel::new(transport, MESSAGE_BYTES_MAX));
        let (mut ends, mut models) = ([a, b], [Model::default(), Model::default()]);
        for _ in 0..400 {
            let from = random.usize(0..2);
            match random.u8(0..5) {
                0 | 1 => models[from].send(&mut ends[from], &mut random),
                2 | 3 => models[from].receive(&mut ends[1 - from], &mut random),
                _ => drop(ends[from].flush(deadline(&mut random))),
            }
        }
        for (from, model) in models.iter_mut().enumerate() {
            for _ in 0..10_000 {
                if model.expected.is_empty() {
                    break;
                }
                let _ = ends[from].flush(Deadline::NOW);
                model.receive(&mut ends[1 - from], &mut random);
            }
            assert!(model.expected.is_empty(), "seed {seed}: lost {:?}", model.expected);
            let seen = [model.received, model.collected, model.skipped, model.aborted, model.full];
            totals = std::array::from_fn(|kind| totals[kind] + seen[kind]);
        }
    }
    assert!(totals.iter().all(|total| *total > seen_min), "hardly tried: {totals:?}");
}

/// A peer that announces whatever it likes.
struct HostileTransport {
    random: fastrand::Rng,
    left_bytes: usize,
    zeros: Vec<u8>,
}

impl HostileTransport {
    fn header(&mut self) -> Result<FragmentHeader, ReceiveError> {
        let lengths = [0, 1, 8, 99, 100, 101, u32::MAX >> 4, u32::MAX];
        let [message_bytes, fragment_bytes] =
            [(); 2].map(|()| lengths[self.random.usize(0..lengths.len())]);
        let second = match self.random.u8(0..8) {
            0 => self.random.u32(..),
            1 => 1 << 30,
            _ => (fragment_bytes & 0x0FFF_FFFF) | u32::from(self.random.bool()) << 31,
        };
        // Often what a correct peer would send, so that the next lie meets a message under way.
        let second = if self.random.bool() { message_bytes & 0x7F | 1 << 31 } else { second };
        let header = FragmentHeader::from_words(message_bytes, second)?;
        self.left_bytes = header.fragment_bytes as usize;
        Ok(header)
    }
}

impl Transport for HostileTransport {
    fn room_bytes(&self) -> std::io::Result<usize> {
        Ok(usize::MAX)
    }

    fn fragment_bytes_max(&self) -> usize {
        FRAGMENT_BYTES_MAX
    }

    fn has_room_for(&mut self, _message_bytes: usize) -> bool {
        false
    }

    fn reserve(&mut self, _fragment_bytes: usize, _until: Deadline) -> Result<(), SendError> {
        Err(SendError::Full)
    }

    fn room(&mut self) -> &mut [u8] {
        &mut []
    }

    fn publish(&mut self, _header: FragmentHeader, _until: Deadline) -> Result<(), SendError> {
        Ok(())
    }

    fn unreserve(&mut self) {}

    fn next(&mut self, _until: Deadline) -> Result<FragmentHeader, ReceiveError> {
        match self.random.u8(0..8) {
            0 => Err(ReceiveError::Empty),
            _ => self.header(),
        }
    }

    fn is_whole(&mut self, _fragment_bytes: usize) -> bool {
        self.random.bool()
    }

    fn bytes(&mut self, _until: Deadline) -> Result<SharedBytes<'_>, ReceiveError> {
        assert!(self.left_bytes <= self.zeros.len(), "asked for what is above the limit");
        assert!(self.left_bytes > 0, "asked for nothing");
        let bytes = self.random.usize(1..=self.left_bytes);
        Ok(SharedBytes::from_slice(&self.zeros[..bytes]))
    }

    fn consume(&mut self, bytes: usize) {
        self.left_bytes -= bytes;
    }

    fn finish(&mut self) {}

    fn readiness(&self, _interest: Interest) -> Option<Readiness<'_>> {
        None
    }
}

#[test]
fn hostile_headers_end_in_an_error_and_stay_there() {
    const LIMIT: u32 = 100;
    let mut violations = 0;
    let seeds = if cfg!(miri) { 20 } else { 2000 };
    for seed in 0..seeds {
        let mut random = fastrand::Rng::with_seed(!seed);
        let transport = HostileTransport {
            random: fastrand::Rng::with_seed(seed),
            left_bytes: 0,
            zeros: vec![0; LIMIT as usize],
        };
        let mut end = FragmentChannel::new(transport, LIMIT);
        let mut broken = None;
        for _ in 0..50 {
            let mut bytes = Vec::new();
            let outcome = end.receive(deadline(&mut random)).and_then(|len| {
                assert!(len <= LIMIT as usize, "above the limit");
                let stop = random.usize(0..=len);
                read(&mut end, &mut random, &mut bytes, len, stop)
            });
            end.release();
            match (outcome, broken) {
                (Err(ReceiveError::PeerBroken(violation)), None) => broken = Some(violation),
                (Err(ReceiveError::PeerBroken(violation)), Some(first)) => {
                    assert_eq!(violation, first)
                }
                (outcome, Some(first)) => panic!("{outcome:?} after {first:?}, seed {seed}"),
                (Ok(()) | Err(ReceiveError::Empty | ReceiveError::Aborted), None) => {}
                (outcome, None) => panic!("{outcome:?}, seed {seed}"),
            }
        }
        violations += u32::from(broken.is_some());
    }
    assert!(u64::from(violations) > seeds * 9 / 10, "only {violations} were caught");
}
