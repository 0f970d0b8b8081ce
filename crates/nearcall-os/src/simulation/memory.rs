#![allow(unsafe_code, reason = "writes wrong words into memory that a process has mapped")]
//! The files of memory that are mapped: which words are the same, and wrong words in them.
//!
//! **Invariants:** a word has one key, whichever mapping of its file it is reached by.
//! **Not here:** sleeping on a word (`simulation.rs`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

/// Names a word of memory: its file and its place there, or its address outside of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WordKey(u64, usize);

/// A mapping of a file of memory.
#[derive(Debug)]
struct Mapped {
    /// It was mapped as this one of all.
    number: u64,
    bytes: usize,
    file: u64,
    process: usize,
    is_writable: bool,
}

/// All mappings.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    by_address: BTreeMap<usize, Mapped>,
    count: u64,
}

impl Mappings {
    pub(super) fn add(
        &mut self,
        start: usize,
        bytes: usize,
        file: u64,
        process: usize,
        is_writable: bool,
    ) {
        self.count += 1;
        let number = self.count;
        self.by_address.insert(start, Mapped { number, bytes, file, process, is_writable });
    }

    pub(super) fn remove(&mut self, start: usize) {
        self.by_address.remove(&start);
    }

    /// Returns how many there are of this process.
    pub(super) fn count(&self, process: usize) -> usize {
        self.by_address.values().filter(|mapped| mapped.process == process).count()
    }

    pub(super) fn key(&self, address: usize) -> WordKey {
        match self.by_address.range(..=address).next_back() {
            Some((start, mapped)) if address - start < mapped.bytes => {
                WordKey(mapped.file, address - start)
            }
            _ => WordKey(0, address),
        }
    }

    /// Takes a process's own memory away from the others, as it was when the process died: what
    /// its threads still write while they unwind reaches no other process.
    pub(super) fn sever(&self, process: usize) {
        for (start, mapped) in &self.by_address {
            if mapped.process != process || !mapped.is_writable {
                continue;
            }
            let place: *mut u8 = std::ptr::with_exposed_provenance_mut(*start);
            // SAFETY: the range is a mapping that exists, since `remove` comes before the kernel
            // unmaps; only one thread of the simulation runs at a time.
            let bytes = unsafe { std::slice::from_raw_parts(place, mapped.bytes) }.to_vec();
            let (protection, flags) =
                (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::FIXED);
            // SAFETY: the range is exactly a mapping that its process keeps until it unmaps it,
            // and has the same bytes again below.
            let severed = unsafe {
                rustix::mm::mmap_anonymous(place.cast(), mapped.bytes, protection, flags)
            };
            if severed.is_ok() {
                // SAFETY: as above; both are as long as the mapping, and they do not overlap.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) };
            }
        }
    }

    /// Overwrites a word of a process's own memory, as a hostile process does. Returns whether
    /// there was one.
    pub(super) fn write_wrong_word(&self, process: usize, random: &mut fastrand::Rng) -> bool {
        let own = |mapped: &&Mapped| mapped.process == process && mapped.is_writable;
        let mut own: Vec<_> = self.by_address.iter().filter(|(_, mapped)| own(mapped)).collect();
        if own.is_empty() {
            return false;
        }
        // The kernel does not always place them alike.
        own.sort_by_key(|(_, mapped)| mapped.number);
        let (start, mapped) = own[random.usize(0..own.len())];
        // Positions and flags stand at the beginning, where a wrong word does most.
        let reach = if random.bool() { mapped.bytes.min(HEAD_BYTES) } else { mapped.bytes };
        let place = start + random.usize(0..reach / WORD_BYTES) * WORD_BYTES;
        let value = match random.u8(0..4) {
            0 => 0,
            1 => u32::MAX,
            2 => random.u32(0..64),
            _ => random.u32(..),
        };
        let word = std::ptr::with_exposed_provenance_mut(place);
        // SAFETY: the word is aligned and inside a mapping that exists, since `remove` comes
        // before the kernel unmaps; only one thread of the simulation runs at a time.
        let word = unsafe { AtomicU32::from_ptr(word) };
        word.store(value, Ordering::Relaxed);
        true
    }
}

/// The part of a file with the words that both ends look at for each message.
const HEAD_BYTES: usize = 4096;

const WORD_BYTES: usize = size_of::<u32>();
