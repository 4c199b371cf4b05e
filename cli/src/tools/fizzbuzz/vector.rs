//! The lines of a thousand numbers by vector instructions: 32 bytes at a time, four instructions each.
#![allow(unsafe_code)]

/// Bytes that are made at a time.
pub const VECTOR: usize = 32;

/// Digits that can be put into their places.
pub const DIGITS: usize = 16;

/// In a map: a byte of the text that is no digit of the number's head.
pub const LITERAL: u8 = 0x80;

/// Proof that this CPU has the instructions.
#[derive(Clone, Copy, Debug)]
pub struct Vectors(());

impl Vectors {
    /// Asks the CPU.
    pub fn detect() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            return Some(Self(()));
        }
        None
    }

    /// Copies `text` to the beginning of `out`, putting digits where `map` says: a byte of the map is [`LITERAL`], or which
    /// digit of `digits` to put in place of the `0` that stands there.
    ///
    /// Whole vectors are copied: what follows the text in `out` is overwritten up to the next 32 bytes. The map begins
    /// at its byte `from` and repeats after `period` bytes, a multiple of 32.
    ///
    /// # Panics
    /// When the map is shorter than `period` plus a vector, or `from` is beyond its period.
    #[inline]
    pub fn copy(
        self,
        out: &mut [u8],
        text: &[u8],
        map: &[u8],
        from: usize,
        period: usize,
        digits: &[u8; DIGITS],
    ) {
        assert!(period.is_multiple_of(VECTOR) && from < period && map.len() >= period + VECTOR);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: only `detect` makes a `Vectors`, and only where the CPU has AVX2.
        unsafe {
            x86::copy(out, text, map, from, period, digits);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (out, text, digits); // nobody can get here: `detect` finds no such CPU
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::DIGITS;
    use super::VECTOR;

    #[target_feature(enable = "avx2")]
    fn load(bytes: &[u8; VECTOR]) -> __m256i {
        // SAFETY: the reference proves 32 readable bytes, and this load needs no alignment.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx2")]
    fn store(bytes: &mut [u8; VECTOR], vector: __m256i) {
        // SAFETY: the reference proves 32 writable bytes, and this store needs no alignment.
        unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) }
    }

    /// See [`super::Vectors::copy`].
    #[target_feature(enable = "avx2")]
    pub fn copy(
        out: &mut [u8],
        text: &[u8],
        map: &[u8],
        from: usize,
        period: usize,
        digits: &[u8; DIGITS],
    ) {
        // The shuffle works within halves of 16 bytes, so each half has all digits.
        let mut twice = [0; VECTOR];
        twice[..DIGITS].copy_from_slice(digits);
        twice[DIGITS..].copy_from_slice(digits);
        let digits = load(&twice);

        let mut out = out.as_chunks_mut::<VECTOR>().0;
        let mut text = text.as_chunks::<VECTOR>().0;
        let mut at = from;
        while !text.is_empty() && !out.is_empty() {
            let map = map[at..].as_chunks::<VECTOR>().0;
            let n = map.len().min(text.len()).min(out.len());
            let (now, later) = out.split_at_mut(n);
            for ((out, text), map) in now.iter_mut().zip(&text[..n]).zip(map) {
                // A map byte with its top bit set gives 0, which leaves the text as it is.
                let digits = _mm256_shuffle_epi8(digits, load(map));
                store(out, _mm256_or_si256(load(text), digits));
            }
            out = later;
            text = &text[n..];
            at = (at + n * VECTOR) % period;
        }
    }
}
