//! What is sent, and in what pieces: both follow from a seed.

use std::sync::OnceLock;

/// SplitMix64 (Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// The length of a write: mostly up to 300 kB, often close to where the writer changes its ways.
    pub fn write_len(&mut self) -> usize {
        let edge = self.pick(&[4096, 16 << 10, 32 << 10, 64 << 10, 1 << 20]);
        match self.below(8) {
            0..2 => self.between(1, 4096),
            2 => edge,
            3 => self.between(edge - 3, edge + 3),
            _ => self.between(1, 300_000),
        }
    }
}

/// Bytes that never look like those a little further on, so that a lost, repeated or changed one shows.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    start: usize,
    tag: Tag,
}

/// Whose bytes these are, told by their top bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tag {
    Nobody,
    Zero,
    One,
}

/// Odd, so that no page or huge page contains the same bytes one period later.
const PERIOD: usize = (8 << 20) + 11;
/// Longest piece that can be had at once.
pub const PIECE: usize = 2 << 20;

impl Sequence {
    pub fn new(seed: u64) -> Self {
        Self::tagged(seed, Tag::Nobody)
    }

    pub fn tagged(seed: u64, tag: Tag) -> Self {
        let start = Rng(seed).below(PERIOD);
        Self { start, tag }
    }

    /// `len` bytes from the `at`th on.
    pub fn at(self, at: usize, len: usize) -> &'static [u8] {
        static BYTES: [OnceLock<Vec<u8>>; 3] = [const { OnceLock::new() }; 3];
        let bytes = BYTES[self.tag as usize].get_or_init(|| {
            let mut rng = Rng(0);
            let words = (0..PERIOD.div_ceil(8)).map(|_| rng.next());
            let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
            bytes.truncate(PERIOD);
            for byte in &mut bytes {
                match self.tag {
                    Tag::Nobody => break,
                    Tag::Zero => *byte &= 0x7f,
                    Tag::One => *byte |= 0x80,
                }
            }
            bytes.extend_from_within(..PIECE);
            bytes
        });
        let from = (self.start + at) % PERIOD;
        &bytes[from..from + len]
    }

    /// Panics unless these are the bytes from the `at`th on.
    #[track_caller]
    pub fn check(self, at: usize, bytes: &[u8]) {
        if let Err(wrong) = self.compare(at, bytes) {
            panic!("{wrong}");
        }
    }

    /// Says where and how these bytes differ from those from the `at`th on.
    pub fn compare(self, at: usize, bytes: &[u8]) -> Result<(), String> {
        for (i, piece) in bytes.chunks(PIECE).enumerate() {
            let at = at + i * PIECE;
            let expected = self.at(at, piece.len());
            if piece != expected {
                let wrong = piece.iter().zip(expected).filter(|(a, b)| a != b);
                let first = piece.iter().zip(expected).position(|(a, b)| a != b);
                return Err(format!(
                    "byte {} differs, {} of {} do",
                    at + first.unwrap_or(0),
                    wrong.count(),
                    piece.len()
                ));
            }
        }
        Ok(())
    }
}
