//! A peer that met us properly and then writes whatever it likes into its own memory, all the time.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use nearcall_os::region::OwnRegion;

use crate::support::live_seconds;
use crate::support::prelude::*;
use crate::support::raw::{
    ACCEPT, CONSUMED, FRAMES, READY, RING_BYTES, RawLine, good_region, hello,
};

/// Connections of one run, each with another stream of random bytes.
pub(super) fn connections() -> u64 {
    live_seconds().map_or(40, |seconds| seconds * 50)
}

/// How long a connection lives if its violations are never seen.
pub(super) const CONNECTION: Duration = Duration::from_millis(20);
/// How long a handshake may take: both ends of several cases keep all processors busy.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(60);
/// Small, so that random lengths are often above it.
pub(super) const LIMIT: u32 = 10_000;

pub(super) fn r03_random_bytes_in_a_live_ring_asleep(play: &mut Play) {
    mutate(play);
}

pub(super) fn r04_random_bytes_in_a_live_ring_spinning(play: &mut Play) {
    mutate(play);
}

pub(super) fn r03_random_bytes_in_a_live_shm_that_adapts(play: &mut Play) {
    mutate(play);
}

pub(super) fn r03_random_bytes_in_a_live_shm_that_polls(play: &mut Play) {
    mutate(play);
}

pub(super) fn r04_random_bytes_in_a_live_shm_spinning(play: &mut Play) {
    mutate(play);
}

fn mutate(play: &mut Play) {
    let name = format!("nearcall-live-{:016x}", play.seed);
    if !play.is_first() {
        for connection in 0..connections() {
            attack(play, &name, play.seed ^ connection);
        }
        return;
    }
    let listener = Listener::bind(&format!("unix:@{name}").parse().unwrap()).unwrap();
    let usual = Options { handshake_timeout: HANDSHAKE, ..play.options() };
    let options = Options { message_bytes_max: LIMIT, buffer_bytes: RING_BYTES, ..usual };
    let mut seen = BTreeMap::new();
    for _ in 0..connections() {
        let mut endpoint = listener.accept(patient(), &options).unwrap();
        endure(&mut endpoint, &mut seen);
        drop(endpoint);
        play.tell(0);
    }
    note(&format!("what was seen: {seen:?}"));
    assert!(seen.keys().any(|what| what.contains("PeerBroken")), "no violation was seen: {seen:?}");
}

/// Talks to the hostile peer until it is caught or its time is over.
fn endure(endpoint: &mut Endpoint, seen: &mut BTreeMap<String, u32>) {
    let end = clock::now() + CONNECTION;
    let (mut caught_receiving, mut caught_sending) = (false, false);
    let mut bytes = Vec::new();
    let mut rounds = 0_u64;
    while clock::now() < end && !(caught_receiving && caught_sending) {
        rounds += 1;
        let deadline = match rounds.is_multiple_of(3) {
            true => Deadline::after(Duration::from_millis(1)),
            false => Deadline::NOW,
        };
        bytes.clear();
        let received = endpoint.receive(deadline).and_then(|mut message| {
            assert!(message.len() <= LIMIT as usize, "a message above the limit");
            match rounds.is_multiple_of(5) {
                true => message.fragment().map(|fragment| fragment.len()).map(|_| ()),
                false => message.read_to_end(&mut bytes),
            }
        });
        match received {
            Err(ReceiveError::PeerBroken(violation)) => {
                *seen.entry(format!("receive: PeerBroken {violation:?}")).or_default() +=
                    u32::from(!caught_receiving);
                caught_receiving = true;
            }
            Ok(()) => {
                assert!(!caught_receiving, "a broken peer is believed again");
                *seen.entry("receive: a message".to_owned()).or_default() += 1;
            }
            Err(ReceiveError::Empty | ReceiveError::Aborted) => {
                assert!(!caught_receiving, "a broken peer is waited for again");
            }
            Err(error) => panic!("{error:?}"),
        }
        match endpoint.send(&vec![1; (rounds * 97 % 9000) as usize], deadline) {
            Ok(()) | Err(SendError::Full) => {}
            Err(SendError::PeerBroken(violation)) => {
                *seen.entry(format!("send: PeerBroken {violation:?}")).or_default() +=
                    u32::from(!caught_sending);
                caught_sending = true;
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn attack(play: &Play, name: &str, seed: u64) {
    let line = RawLine::connect(name, play.mechanism);
    line.send(&hello(VERSION, LIMIT, RING_BYTES, play.mechanism.name().as_bytes()), &[]);
    // Kept: a doorbell of ours that hangs up would tell of our death.
    let _offer = line.receive();
    let (mut own, fd) = good_region();
    line.send(&[ACCEPT], &[fd]);
    assert_eq!(line.receive().0, [READY]);
    let mut random = fastrand::Rng::with_seed(seed);
    // Some connections only lie about frames, some only about indices, some about everything.
    let kind = seed % 4;
    let end = clock::now() + PATIENCE;
    // The side line reports when the server has had enough of this connection.
    while !play.is_told() && clock::now() < end {
        for _ in 0..100 {
            scribble(&mut own, &mut random, kind);
        }
    }
    play.hear();
}

/// Writes one random thing.
fn scribble(own: &mut OwnRegion, random: &mut fastrand::Rng, kind: u64) {
    let frame = FRAMES + random.usize(0..RING_BYTES as usize / 64) * 64;
    match (kind, random.u8(0..8)) {
        (0 | 3, 0) => {
            own.word64(CONSUMED).store(random.u64(..) >> random.u8(0..64), Ordering::Release)
        }
        (0 | 3, 1) => {
            let before = own.word64(CONSUMED).load(Ordering::Relaxed);
            own.word64(CONSUMED).store(before.wrapping_add(random.u64(0..200)), Ordering::Release);
        }
        (3, 2) => own.word32(128).store(random.u32(..), Ordering::Release),
        (3, 3) => own.word32(256).store(random.u32(..), Ordering::Release),
        (1 | 3, 4) => own.word64(frame).store(random.u64(..), Ordering::Release),
        (1 | 3, 5) => {
            let start = random.usize(0..FRAMES + RING_BYTES as usize - 8);
            let bytes = random.u64(..).to_le_bytes();
            own.slice_mut(start..start + 8).copy_from_slice(&bytes);
        }
        (_, 6) => own.word64(frame).store(0, Ordering::Release),
        _ => own.word64(frame).store(plausible(random), Ordering::Release),
    }
}

/// A frame's word that passes the first checks more often than chance would.
fn plausible(random: &mut fastrand::Rng) -> u64 {
    let lengths = [0, 1, 55, 56, 57, 900, 1024, 4096, 9_999, 10_001, (1 << 28) - 1];
    let fragment = lengths[random.usize(0..lengths.len())];
    let message = match random.u8(0..4) {
        0 => u64::from(u32::MAX),
        1 => lengths[random.usize(0..lengths.len())],
        _ => fragment,
    };
    // READY nearly always; PAD, ABORT and LAST by chance.
    let ready = u64::from(random.u8(0..16) > 0) << 60;
    let flags = u64::from(random.u8(0..8) == 0) << 61
        | u64::from(random.u8(0..8) == 0) << 62
        | u64::from(random.bool()) << 63;
    message | fragment << 32 | ready | flags
}
