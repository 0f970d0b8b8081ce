//! What the fuzz targets try: one function for each, which fails by panicking.
//!
//! Called by `fuzz/` with what the fuzzer makes up, and by the tests below with the corpora that
//! are committed there. Not for any other use.
//! **Not here:** what is tried over the control line (`fuzzing/segments.rs`), stored runs
//! (`nearcall-bench`).

mod line;
mod pair;
pub(crate) mod regions;
mod segments;
mod steps;

use std::cell::Cell;

use nearcall_os::region::{OwnRegion, PeerRegion};

pub use pair::pair;
pub use segments::{arena, control, lane};

use crate::address::Address;
use crate::error::Violation;
use crate::fragment::{FragmentHeader, Reassembly};
use crate::fuzzing::regions::region_pair;
use crate::fuzzing::steps::Steps;
use crate::limits;
use crate::packet::Packet;
use crate::shm::doorbell::Waker;
use crate::shm::layout::{
    CONSUMED, Capacity, FRAME_ALIGN, FRAME_WORD_BYTES, FRAMES, Pages, SLEEP, fragment_range,
};
use crate::shm::ring::{Consumer, Producer};
use crate::sync::{Ordering, Own};

/// Any bytes are a packet or a violation; a packet says the same after another way.
///
/// # Panics
///
/// If that is not so.
pub fn packet(bytes: &[u8]) {
    let Ok(packet) = Packet::decode(bytes) else { return };
    let again = packet.encode();
    // A text that was cut at the largest packet may end within a letter.
    if again.len() < limits::HANDSHAKE_PACKET_BYTES_MAX {
        assert_eq!(Packet::decode(&again), Ok(packet));
    }
}

/// Any text is an address or is refused; an address parses back from what it prints.
///
/// # Panics
///
/// If that is not so.
pub fn address(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(address) = text.parse::<Address>() {
        assert_eq!(address.to_string().parse().as_ref(), Ok(&address));
    }
}

/// Both ends of the smallest ring that takes pages late, whose other end writes anything into its
/// memory at any time.
///
/// The bytes are steps of a first byte, which chooses, and what it needs: `0 place:u8 word:u64`
/// writes a frame's word, `1` reads a fragment, `2 consumed:u64` claims to have read so far, `3
/// length:u16` sends a fragment, `4 length:u16` gives a reserved fragment up, `5 length:u16` asks
/// for room for a message, `6 sleep:u32` says how it sleeps. Numbers are little-endian. An end
/// stops at its first violation, as a channel does.
///
/// # Panics
///
/// If an end panics, or touches a byte outside the ring.
pub fn region(bytes: &[u8]) {
    let (mut ends, mut steps) = (Ends::new(), Steps(bytes));
    while ends.step(&mut steps).is_some() {}
    ends.keep_memory();
}

/// A reader and a writer of our own, and the memory of a hostile other end.
struct Ends {
    capacity: Capacity,
    own: OwnRegion,
    peer: PeerRegion,
    hostile: OwnRegion,
    reader: Option<(Consumer, Reassembly)>,
    writer: Option<Producer>,
    waker: Waker,
}

/// Memory of both ends, which is dear to make.
struct Memory {
    own: OwnRegion,
    peer: PeerRegion,
    hostile: OwnRegion,
}

thread_local! {
    static MEMORY: Cell<Option<Memory>> = const { Cell::new(None) };
}

impl Memory {
    fn new(bytes: usize) -> Self {
        let (own, _) = region_pair(bytes);
        let (hostile, peer) = region_pair(bytes);
        Self { own, peer, hostile }
    }
}

impl Ends {
    fn new() -> Self {
        let capacity = Capacity::at_least(4 * limits::BUFFER_BYTES_MIN);
        let bytes = capacity.region_bytes();
        let kept = MEMORY.take();
        let Memory { mut own, peer, mut hostile } = kept.unwrap_or_else(|| Memory::new(bytes));
        own.zero(0..bytes);
        hostile.zero(0..bytes);
        let reassembly = Reassembly::new(limits::MESSAGE_BYTES_MAX_DEFAULT);
        let waker = Waker::default();
        let writer = Some(Producer::new(capacity, Pages::First));
        let reader = Some((Consumer::new(capacity, Pages::First), reassembly));
        Self { capacity, own, peer, hostile, reader, writer, waker }
    }

    /// Leaves the memory to the next input of this thread.
    fn keep_memory(self) {
        let Self { own, peer, hostile, .. } = self;
        MEMORY.set(Some(Memory { own, peer, hostile }));
    }

    fn step(&mut self, steps: &mut Steps<'_>) -> Option<()> {
        let choice = steps.byte()?;
        match choice {
            0 => {
                let place = usize::from(steps.byte()?) % (self.capacity.bytes() / FRAME_ALIGN);
                let at = FRAMES + place * FRAME_ALIGN;
                self.hostile.store64(at, steps.word()?, Ordering::Release);
            }
            1 if self.read().is_err() => self.reader = None,
            2 => self.hostile.store64(CONSUMED, steps.word()?, Ordering::Release),
            3 | 4 => {
                let length = steps.length()?;
                if self.write(length, choice == 3).is_err() {
                    self.writer = None;
                }
            }
            5 => {
                let length = steps.length()?;
                let asked = self.writer.as_mut().map(|w| w.has_room_for(&self.peer, length));
                if let Some(Err(_)) = asked {
                    self.writer = None;
                }
            }
            6 => {
                let sleep = steps.number()?;
                self.hostile.store32(SLEEP, sleep, Ordering::Relaxed);
                // At most one ring for each word that it writes, whatever that is.
                let rings = [
                    self.waker.target_for_message(&self.peer),
                    self.waker.target_for_room(&self.peer),
                ];
                assert!(rings.iter().flatten().count() <= 1);
            }
            _ => {}
        }
        Some(())
    }

    /// Reads one fragment in the way that `shm.rs` does it.
    fn read(&mut self) -> Result<(), Violation> {
        let Some((consumer, reassembly)) = &mut self.reader else { return Ok(()) };
        let plain = match consumer.look(&self.peer) {
            0 => return Ok(()),
            word => consumer.try_plain(word),
        };
        let fragment = match plain {
            Some(fragment) => Some(fragment),
            None => consumer.try_next(&self.own, &self.peer)?,
        };
        let Some((header, place)) = fragment else { return Ok(()) };
        let length = header.fragment_bytes as usize;
        if plain.is_none() && consumer.is_indirect() {
            // Who takes it judges it in `lane.rs`, outside of the ring.
            let _ = self.peer.load64(place + FRAME_WORD_BYTES, Ordering::Relaxed);
            reassembly.handle(header)?;
            consumer.finish(&self.own);
            return Ok(());
        }
        assert!(length <= self.capacity.fragment_bytes_max());
        assert!((FRAMES..self.capacity.region_bytes()).contains(&place));
        // Panics outside the region.
        self.peer.bytes(fragment_range(place, length)).copy_to(&mut vec![0; length]);
        reassembly.handle(header)?;
        consumer.finish(&self.own);
        Ok(())
    }

    /// Reserves and fills a fragment, then publishes it or gives it up.
    fn write(&mut self, length: usize, publish: bool) -> Result<(), Violation> {
        let Some(producer) = &mut self.writer else { return Ok(()) };
        let length = length % (producer.fragment_bytes_max() + 1);
        // Nothing depends on the answer; only the look itself is tried.
        let _ = producer.may_reserve(&self.peer, length);
        let Some(place) = producer.try_reserve(&self.own, &self.peer, length)? else {
            return Ok(());
        };
        assert!((FRAMES..self.capacity.region_bytes()).contains(&place));
        // Panics outside the region.
        self.own.slice_mut(fragment_range(place, length)).fill(0xA5);
        match publish {
            true => producer.publish(&self.own, FragmentHeader::data(length, length, 0)),
            false => producer.forget(length),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// Tries everything that is committed for the fuzz target `name`.
    fn replay(name: &str, target: fn(&[u8])) {
        let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        let files = fs::read_dir(corpora.join(name)).unwrap();
        let tried = files.map(|file| target(&fs::read(file.unwrap().path()).unwrap())).count();
        assert!(tried > 0, "no corpus for {name}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn committed_packets_are_judged() {
        replay("packet", super::packet);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn committed_addresses_are_judged() {
        replay("address", super::address);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn committed_regions_stay_in_bounds() {
        replay("region", super::region);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn committed_control_packets_are_judged() {
        replay("control", super::control);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn r04_committed_lies_about_loans_stay_in_bounds() {
        replay("arena", super::arena);
    }

    #[test]
    #[cfg_attr(miri, ignore = "needs the kernel")]
    fn r04_committed_lies_about_lanes_stay_in_bounds() {
        replay("lane", super::lane);
    }

    #[test]
    fn notes_over_the_whole_ring_and_a_fragment_past_its_end_stay_in_bounds() {
        let note = 1_u64 << 63 | 1 << 61 | 1 << 60 | 2_000 << 32 | 2_000;
        let fragment = 1_u64 << 63 | 1 << 60 | 3_000 << 32 | 3_000;
        for end in [187, 191, 255] {
            let mut bytes = Vec::new();
            for place in 0..=end {
                let word = if place == end { fragment } else { note };
                bytes.extend([0, place]);
                bytes.extend(word.to_le_bytes());
                bytes.push(1);
            }
            super::region(&bytes);
        }
    }

    #[test]
    fn steps_from_a_seed_stay_in_bounds() {
        // Not a fuzzer, but it runs everywhere, under Miri too.
        let rounds = if cfg!(miri) { 4 } else { 2000 };
        let mut seed = 1_u64;
        for _ in 0..rounds {
            let mut bytes = Vec::new();
            for _ in 0..64 {
                seed = seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
                let [choice, place, low, high, ..] = (seed >> 24).to_le_bytes();
                bytes.push(choice % 7);
                // Words that are nearly right get further than those that are not.
                let word = 1_u64 << 60 | u64::from(high) << 56 & 1 << 63 | u64::from(low) << 32;
                match choice % 7 {
                    0 => {
                        bytes.push(place % 8);
                        bytes.extend((word | u64::from(low)).to_le_bytes());
                    }
                    1 => {}
                    2 => bytes.extend((u64::from(place) * 64).to_le_bytes()),
                    6 => bytes.extend([low, high, 0, 0]),
                    _ => bytes.extend([low, high]),
                }
            }
            super::region(&bytes);
        }
    }
}
