//! A peer that met us properly, hands segments over, and writes whatever it likes into all its
//! memory while its frames name places there.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;

use nearcall_channel::{Borrowed, Borrower, Lender, Place};
use nearcall_os::descriptor::send_with_fds;
use nearcall_os::region::{Backing, OwnRegion, PeerRegion};
use rustix::fs::FallocateFlags;

use super::live::{CONNECTION, HANDSHAKE, LIMIT, connections};
use crate::support::prelude::*;
use crate::support::raw::{ACCEPT, CONSUMED, FRAMES, LAYOUT, READY, RawLine, hello};

/// Size of a lane, in bytes: room for eight fragments of 16 KiB behind half a page.
const LANE_BYTES: usize = 2048 + 8 * (16 << 10);
/// A ring that is large enough for lanes, in bytes.
const RING: u32 = 128 << 10;
/// Frames of the least size in the ring.
const FRAMES_PER_LAP: usize = RING as usize / 64;
/// Slots that an end may have.
const SLOTS: u16 = 64;
/// Size of a segment for loans, in bytes.
const SLOT_BYTES: u32 = 16 << 10;

pub(super) fn r03_random_bytes_in_live_lanes_and_segments(play: &mut Play) {
    let name = format!("nearcall-lanes-{:016x}", play.seed);
    if !play.is_first() {
        for connection in 0..connections() {
            attack(play, &name, play.seed ^ connection);
        }
        return;
    }
    let listener = Listener::bind(&format!("unix:@{name}").parse().unwrap()).unwrap();
    let usual = Options { handshake_timeout: HANDSHAKE, ..play.options() };
    let options = Options { message_bytes_max: LIMIT, buffer_bytes: RING, ..usual };
    let mut seen = BTreeMap::new();
    let mut random = fastrand::Rng::with_seed(play.seed);
    for _ in 0..connections() {
        let endpoint = listener.accept(patient(), &options).unwrap();
        Victim::new(endpoint).endure(&mut random, &mut seen);
        play.tell(0);
    }
    note(&format!("what was seen: {seen:?}"));
    for expected in ["a message", "PeerBroken", "borrowed"] {
        assert!(seen.keys().any(|what| what.contains(expected)), "no {expected}: {seen:?}");
    }
}

/// An honest end that uses everything that a connection over `shm` has.
struct Victim {
    // Before the channel: what is lent and borrowed may outlive it, and here it does not.
    borrowed: VecDeque<Borrowed>,
    loans: VecDeque<(bytes::Bytes, u8)>,
    lender: Lender,
    borrower: Option<Borrower>,
    endpoint: Endpoint,
    is_caught: bool,
}

impl Victim {
    fn new(endpoint: Endpoint) -> Self {
        let (lender, borrower) = endpoint.arena().expect("shm has an arena");
        let (borrowed, loans) = (VecDeque::new(), VecDeque::new());
        Self { borrowed, loans, lender, borrower: Some(borrower), endpoint, is_caught: false }
    }

    fn endure(&mut self, random: &mut fastrand::Rng, seen: &mut BTreeMap<String, u32>) {
        // However busy the machine is, each kind of thing happens once.
        let patience = clock::now() + PATIENCE;
        while seen.is_empty() && clock::now() < patience {
            // Its frames come without a wake-up.
            self.receive(Deadline::after(Duration::from_millis(1)), seen);
        }
        self.borrow(random, false, seen);
        let end = clock::now() + CONNECTION;
        while clock::now() < end && !(self.is_caught && self.borrower.is_none()) {
            let deadline = match random.u8(0..8) {
                0 => Deadline::after(Duration::from_millis(1)),
                _ => Deadline::NOW,
            };
            self.receive(deadline, seen);
            // Nearly always a place that is there: one that is not ends the borrowing.
            let is_lie = random.u8(..) == 0;
            self.borrow(random, is_lie, seen);
            self.lend(random);
            let _ = self.endpoint.send(&vec![1; random.usize(0..LIMIT as usize)], Deadline::NOW);
        }
        self.borrow(random, true, seen);
        while let Some((bytes, fill)) = self.loans.pop_front() {
            assert!(bytes.iter().all(|byte| *byte == fill), "the peer changed what we lent");
        }
    }

    fn receive(&mut self, deadline: Deadline, seen: &mut BTreeMap<String, u32>) {
        if self.is_caught {
            return;
        }
        let mut bytes = Vec::new();
        let received = self.endpoint.receive(deadline).and_then(|mut message| {
            assert!(message.len() <= LIMIT as usize, "a message above the limit");
            message.read_to_end(&mut bytes)
        });
        match received {
            Ok(()) => *seen.entry("a message".to_owned()).or_default() += 1,
            Err(ReceiveError::Empty | ReceiveError::Aborted) => {}
            Err(ReceiveError::PeerBroken(violation)) => {
                *seen.entry(format!("receive: PeerBroken {violation:?}")).or_default() += 1;
                self.is_caught = true;
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    /// Borrows what a message might name: a place that is there, or any.
    fn borrow(
        &mut self,
        random: &mut fastrand::Rng,
        is_lie: bool,
        seen: &mut BTreeMap<String, u32>,
    ) {
        let Some(borrower) = &mut self.borrower else { return };
        let bytes = if is_lie { u32::MAX } else { random.u32(1..=SLOT_BYTES / 2) };
        let offset = if is_lie { random.u32(..) } else { random.u32(0..SLOT_BYTES / 2) };
        let slot = random.u16(0..SLOTS);
        match borrower.borrow(Place { slot, segment: 1, offset, bytes }) {
            Ok(borrowed) => {
                *seen.entry("borrowed".to_owned()).or_default() += 1;
                borrowed.bytes().copy_to(&mut vec![0; borrowed.len()]);
                self.borrowed.push_back(borrowed);
                if self.borrowed.len() > 10 {
                    self.borrowed.pop_front();
                }
            }
            Err(ReceiveError::PeerBroken(violation)) => {
                *seen.entry(format!("borrow: PeerBroken {violation:?}")).or_default() += 1;
                self.borrower = None;
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    /// Lends what the peer must not change, whatever it claims to be done with.
    fn lend(&mut self, random: &mut fastrand::Rng) {
        let Ok(mut loan) = self.lender.loan(random.usize(0..LIMIT as usize)) else { return };
        let fill = random.u8(..);
        loan.fill(fill);
        let bytes = loan.freeze();
        if let Some(place) = self.lender.find(&bytes) {
            self.lender.pass(place);
        }
        self.loans.push_back((bytes, fill));
        if self.loans.len() > 20
            && let Some((bytes, fill)) = self.loans.pop_front()
        {
            assert!(bytes.iter().all(|byte| *byte == fill), "the peer changed what we lent");
        }
    }
}

/// The memory of an end, as it should be.
fn good_ring() -> (OwnRegion, OwnedFd) {
    let bytes = FRAMES + RING as usize;
    let (mut own, fd) = OwnRegion::create("hostile", bytes, Backing::Reserved).unwrap();
    own.write(0, b"nearshm\0");
    own.write(8, &LAYOUT.to_le_bytes());
    own.write(12, &RING.to_le_bytes());
    (own, fd)
}

/// A segment of the hostile end, handed over as the next number.
fn hand_over(line: &RawLine, kind: u8, number: u16, bytes: usize) -> (OwnRegion, OwnedFd) {
    let (region, fd) = OwnRegion::create("hostile", bytes, Backing::Lazy).unwrap();
    let length = u32::try_from(bytes).unwrap().to_le_bytes();
    let packet = [&[kind][..], &number.to_le_bytes(), &length].concat();
    // The server may have had enough of this connection already.
    let _ = send_with_fds(&line.socket, &packet, &[fd.as_fd()]);
    (region, fd)
}

fn attack(play: &Play, name: &str, seed: u64) {
    let line = RawLine::connect(name, play.mechanism);
    line.send(&hello(VERSION, LIMIT, RING, play.mechanism.name().as_bytes()), &[]);
    // Kept: a doorbell of ours that hangs up would tell of our death.
    let (_, offer) = line.receive();
    let (mut own, fd) = good_ring();
    line.send(&[ACCEPT], &[fd]);
    assert_eq!(line.receive().0, [READY]);
    let server = PeerRegion::open(&offer[0], own.len()..=own.len()).unwrap();
    let (mut lane, lane_fd) = hand_over(&line, 0xD6, 0, LANE_BYTES);
    let (mut slot, slot_fd) = hand_over(&line, 0xD6, 1, SLOT_BYTES as usize);
    let (counts, _counts_fd) = hand_over(&line, 0xD8, 2, 256);
    for (fd, bytes) in [(&lane_fd, LANE_BYTES), (&slot_fd, SLOT_BYTES as usize)] {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let punched = rustix::fs::fallocate(fd, hole, 0, bytes as u64);
        assert_eq!(punched, Err(rustix::io::Errno::PERM), "the seals forbid a hole");
    }
    let mut random = fastrand::Rng::with_seed(seed);
    // Some connections never lie about frames, so that the bytes behind them are read for long.
    let lies = seed.is_multiple_of(2);
    let end = clock::now() + PATIENCE;
    let mut frames = 0_usize;
    // The side line reports when the server has had enough of this connection.
    while !play.is_told() && clock::now() < end {
        for _ in 0..100 {
            let read = server.load64(CONSUMED, Ordering::Acquire);
            if frames as u64 * 64 < read + u64::from(RING) || lies && random.u8(..) == 0 {
                write_frame(&mut own, &mut random, &mut frames, lies);
            }
            for region in [&mut lane, &mut slot] {
                let at = random.usize(0..region.len() - 8);
                region.write(at, &random.u64(..).to_le_bytes());
            }
            let slot = usize::from(random.u16(0..SLOTS));
            let counter = counts.word32(slot * 4);
            counter.store(random.u32(..) >> random.u8(0..32), Ordering::Release);
        }
    }
    play.hear();
}

/// Writes the next frame of the ring, which names a place in the lane.
fn write_frame(own: &mut OwnRegion, random: &mut fastrand::Rng, frames: &mut usize, lies: bool) {
    let (lap, index) = (*frames / FRAMES_PER_LAP, *frames % FRAMES_PER_LAP);
    let at = FRAMES + index * 64;
    *frames += 1;
    let place = match random.u16(..) {
        0 if lies => random.u64(..),
        // One of the places at which a whole fragment fits, in units of 64 bytes.
        _ => (random.u64(0..8) * 256) << 16,
    };
    let bytes = match random.u16(..) {
        0 if lies => random.u64(0..1 << 28),
        _ => random.u64(1..u64::from(LIMIT)),
    };
    own.word64(at + 8).store(place, Ordering::Relaxed);
    // LAST, READY, and PAD: it is in the lane.
    let word = bytes | bytes << 32 | 1 << 63 | 1 << 61 | 1 << 60 | (lap as u64 & 1) << 59;
    own.word64(at).store(word, Ordering::Release);
    if lies && random.u8(..) == 0 {
        own.word64(CONSUMED).store(random.u64(..) >> random.u8(0..64), Ordering::Release);
    }
}
