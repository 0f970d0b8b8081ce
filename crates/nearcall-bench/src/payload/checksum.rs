//! A checksum that keeps up with memory, for messages in pieces.
//!
//! Eight lanes of 64-bit words; each lane keeps the sum of its words and the sum of those sums
//! (Fletcher's method). So bytes that change, vanish or move alter it, and a change within one
//! word always does. It guards against our own mistakes, not against an adversary.

/// A checksum on its way. The split into pieces does not change the result.
#[derive(Clone, Debug, Default)]
pub struct Checksum {
    sums: [u64; LANES],
    sums_of_sums: [u64; LANES],
    /// Bytes that do not fill a block yet: the first `bytes % BLOCK_BYTES`; old bytes behind them.
    rest: Block,
    bytes: u64,
    first_word: u64,
}

impl Checksum {
    /// The checksum of nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next bytes, any number of them. Reads each once.
    pub fn update(&mut self, mut bytes: &[u8]) {
        let pending = self.pending_bytes();
        if pending > 0 || bytes.len() < BLOCK_BYTES {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK_BYTES - pending));
            self.rest.0[pending..pending + now.len()].copy_from_slice(now);
            self.bytes += now.len() as u64;
            bytes = later;
            if self.pending_bytes() != 0 || now.is_empty() {
                return;
            }
            let full = self.rest.0;
            self.add_blocks(&[full], self.bytes == BLOCK_BYTES as u64);
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
        self.add_blocks(blocks, self.bytes == 0);
        self.rest.0[..rest.len()].copy_from_slice(rest);
        self.bytes += bytes.len() as u64;
    }

    /// How many bytes were added.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first eight bytes as a little-endian number, zeros where there are fewer.
    #[must_use]
    pub fn first_word(&self) -> u64 {
        if self.bytes >= BLOCK_BYTES as u64 { self.first_word } else { self.rest_word(0) }
    }

    /// The checksum of all bytes added so far. A few multiplications, fewer for a short message.
    #[must_use]
    pub fn finish(&self) -> u64 {
        let mut hash = self.bytes.wrapping_mul(LENGTH_WEIGHT);
        if self.bytes < BLOCK_BYTES as u64 {
            for lane in 0..self.pending_bytes().div_ceil(WORD_BYTES) {
                let weight = word_weight(lane, 1);
                hash = hash.wrapping_add(self.rest_word(lane).wrapping_mul(weight));
            }
            return hash;
        }
        let padded = self.pending_bytes() > 0;
        for (lane, &odd) in LANE_WEIGHTS.iter().enumerate() {
            let word = if padded { self.rest_word(lane) } else { 0 };
            let sum = self.sums[lane].wrapping_add(word);
            let last = if padded { sum } else { 0 };
            let sum_of_sums = self.sums_of_sums[lane].wrapping_add(last);
            hash = hash
                .wrapping_add(sum.wrapping_mul(odd))
                .wrapping_add(sum_of_sums.wrapping_mul(even_weight(odd)));
        }
        hash
    }

    /// Forgets everything, to begin the next message.
    pub fn reset(&mut self) {
        if self.bytes >= BLOCK_BYTES as u64 {
            self.sums = [0; LANES];
            self.sums_of_sums = [0; LANES];
        }
        self.bytes = 0;
    }

    /// By how much the checksum of `bytes` bytes grows when the first word grows by one.
    pub(super) fn first_word_weight(bytes: usize) -> u64 {
        word_weight(0, bytes.div_ceil(BLOCK_BYTES) as u64)
    }

    /// One pass over the blocks with all sums in registers.
    fn add_blocks(&mut self, blocks: &[[u8; BLOCK_BYTES]], first: bool) {
        let (mut sums, mut sums_of_sums) = (self.sums, self.sums_of_sums);
        for block in blocks {
            let (words, _) = block.as_chunks::<WORD_BYTES>();
            for lane in 0..LANES {
                sums[lane] = sums[lane].wrapping_add(u64::from_le_bytes(words[lane]));
                sums_of_sums[lane] = sums_of_sums[lane].wrapping_add(sums[lane]);
            }
        }
        (self.sums, self.sums_of_sums) = (sums, sums_of_sums);
        if let (true, Some([block, ..])) = (first, blocks.first().map(|b| b.as_chunks().0)) {
            self.first_word = u64::from_le_bytes(*block);
        }
    }

    fn pending_bytes(&self) -> usize {
        // The compiler sees that the result is small; the cast of the whole count would not be.
        let [low, ..] = self.bytes.to_le_bytes();
        usize::from(low) % BLOCK_BYTES
    }

    /// Word `lane` of the pending bytes, with zeros behind their end.
    fn rest_word(&self, lane: usize) -> u64 {
        let (words, _) = self.rest.0.as_chunks::<WORD_BYTES>();
        let here = self.pending_bytes().saturating_sub(lane * WORD_BYTES);
        match here {
            0 => 0,
            1..WORD_BYTES => u64::from_le_bytes(words[lane]) & (u64::MAX >> (64 - 8 * here)),
            _ => u64::from_le_bytes(words[lane]),
        }
    }
}

/// One word of every lane, aligned as a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Block([u8; BLOCK_BYTES]);

impl Default for Block {
    fn default() -> Self {
        Self([0; BLOCK_BYTES])
    }
}

/// What a word counts that lies `blocks` blocks before the end. Always odd, because it is odd plus
/// even: so no change of one word vanishes modulo 2^64.
fn word_weight(lane: usize, blocks: u64) -> u64 {
    let odd = LANE_WEIGHTS[lane];
    odd.wrapping_add(even_weight(odd).wrapping_mul(blocks))
}

const fn even_weight(odd: u64) -> u64 {
    odd.rotate_left(23) & !1
}

/// Enough for the additions of one lane to wait for each other unnoticed.
const LANES: usize = 8;

const WORD_BYTES: usize = 8;

const BLOCK_BYTES: usize = LANES * WORD_BYTES;

/// Odd, random, one per lane, so that lanes cannot be exchanged.
const LANE_WEIGHTS: [u64; LANES] = [
    0x9e37_79b9_7f4a_7c15,
    0xbf58_476d_1ce4_e5b9,
    0x94d0_49bb_1331_11eb,
    0xd6e8_feb8_6659_fd93,
    0xa076_1d64_78bd_642f,
    0xe703_7ed1_a0b4_28db,
    0x8ebc_6af0_9c88_c6e3,
    0x5899_65cc_7537_4cc3,
];

/// So that zeros at the end count.
const LENGTH_WEIGHT: u64 = 0x1d8e_4e27_c47d_124f;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bytes: &[u8]) -> u64 {
        let mut sum = Checksum::new();
        sum.update(bytes);
        sum.finish()
    }

    #[test]
    fn the_split_into_pieces_does_not_matter() {
        for seed in 0..300 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let bytes: Vec<u8> = (0..rng.usize(0..700)).map(|_| rng.u8(..)).collect();
            let mut sum = Checksum::new();
            let mut left = &bytes[..];
            while !left.is_empty() {
                let (piece, later) = left.split_at(rng.usize(0..=left.len().min(150)));
                sum.update(piece);
                left = later;
            }
            assert_eq!(sum.finish(), of(&bytes), "seed {seed}");
            assert_eq!(sum.bytes(), bytes.len() as u64);
            let mut head = [0; 8];
            let known = bytes.len().min(8);
            head[..known].copy_from_slice(&bytes[..known]);
            assert_eq!(sum.first_word(), u64::from_le_bytes(head), "seed {seed}");
        }
    }

    #[test]
    fn a_reset_leaves_nothing_behind() {
        for (before, after) in [(70, 3), (3, 70), (64, 64), (128, 0), (5, 63)] {
            let mut sum = Checksum::new();
            sum.update(&vec![7; before]);
            sum.reset();
            sum.update(&vec![9; after]);
            assert_eq!(sum.finish(), of(&vec![9; after]), "{before} {after}");
        }
    }

    #[test]
    fn zeros_at_the_end_count() {
        let mut sums: Vec<u64> = (0..300).map(|length| of(&vec![0; length])).collect();
        sums.sort_unstable();
        sums.dedup();
        assert_eq!(sums.len(), 300);
    }

    #[test]
    fn exchanged_words_are_found() {
        let mut rng = fastrand::Rng::with_seed(3);
        let bytes: Vec<u8> = (0..256).map(|_| rng.u8(..)).collect();
        let whole = of(&bytes);
        for a in 0..32 {
            for b in 0..a {
                let mut moved = bytes.clone();
                for i in 0..8 {
                    moved.swap(a * 8 + i, b * 8 + i);
                }
                assert_ne!(of(&moved), whole, "words {a} and {b}");
            }
        }
    }
}
