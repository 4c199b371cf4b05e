//! Loops over memory: `bw_mem` with `bcopy`, `fcp`, `frd` and `fwr`.
//!
//! The loops by hand go through relaxed atomics: the compiler may neither combine them into vectors nor turn them into
//! memcpy or memset, and they cost what plain loads and stores of a word cost.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fullbore_sys::Result;

use super::outcome::{Ready, Report};
use super::timing::{Time, timed};
use crate::machine::memory_rates::words;

const WORD: usize = size_of::<u64>();

/// memcpy of the C library.
pub(crate) fn bcopy_libc(bytes: u64, time: Time, ready: Ready<'_>) -> Result<Report> {
    let source: Vec<u64> = words(bytes, || 1)?;
    let mut target: Vec<u64> = words(bytes, || 2)?;
    ready()?;
    passes(source.len(), time, || {
        target.copy_from_slice(black_box(&source));
        black_box(&mut target);
    })
}

/// One load and one store per word.
pub(crate) fn bcopy_hand(bytes: u64, time: Time, ready: Ready<'_>) -> Result<Report> {
    let source: Vec<AtomicU64> = words(bytes, || AtomicU64::new(1))?;
    let target: Vec<AtomicU64> = words(bytes, || AtomicU64::new(2))?;
    ready()?;
    passes(source.len(), time, || copy(&source, &target))
}

/// One load per word.
pub(crate) fn read(bytes: u64, time: Time, ready: Ready<'_>) -> Result<Report> {
    let source: Vec<AtomicU64> = words(bytes, || AtomicU64::new(1))?;
    ready()?;
    passes(source.len(), time, || {
        black_box(sum(&source));
    })
}

/// One store per word.
pub(crate) fn write(bytes: u64, time: Time, ready: Ready<'_>) -> Result<Report> {
    let target: Vec<AtomicU64> = words(bytes, || AtomicU64::new(0))?;
    ready()?;
    passes(target.len(), time, || {
        for word in &target {
            word.store(1, Relaxed);
        }
    })
}

fn copy(source: &[AtomicU64], target: &[AtomicU64]) {
    for (from, to) in source.iter().zip(target) {
        to.store(from.load(Relaxed), Relaxed);
    }
}

/// Eight sums at once, so that no addition waits for the one before.
pub(crate) fn sum(words: &[AtomicU64]) -> u64 {
    let mut sums = [0u64; 8];
    let (chunks, rest) = words.as_chunks::<8>();
    for chunk in chunks {
        for (sum, word) in sums.iter_mut().zip(chunk) {
            *sum = sum.wrapping_add(word.load(Relaxed));
        }
    }
    let sums = sums.into_iter().fold(0, u64::wrapping_add);
    rest.iter()
        .fold(sums, |sum, word| sum.wrapping_add(word.load(Relaxed)))
}

fn passes(words: usize, time: Time, mut pass: impl FnMut()) -> Result<Report> {
    timed(time, || {
        pass();
        io::Result::Ok(words * WORD)
    })
}

#[cfg(test)]
mod tests {
    use super::super::timing::Until;
    use super::*;
    use proptest::prelude::*;

    const SHORT: Time = Time {
        warm_up_s: 0.0,
        until: Some(Until::Seconds(0.001)),
    };

    #[test]
    fn every_loop_goes_over_its_whole_buffer() {
        const BYTES: u64 = 1 << 20;
        type Loop = fn(u64, Time, Ready<'_>) -> Result<Report>;
        let loops: [Loop; 4] = [bcopy_libc, bcopy_hand, read, write];
        for work in loops {
            let report = work(BYTES, SHORT, &mut || Ok(())).unwrap();
            let bytes = report.moved().unwrap().bytes;
            assert!(bytes >= BYTES && bytes.is_multiple_of(BYTES));
        }
    }

    #[test]
    fn memory_that_is_not_there_is_refused() {
        let text = read(u64::MAX, SHORT, &mut || Ok(())).unwrap_err();
        assert!(text.to_string().contains("no memory"), "{text}");
    }

    proptest! {
        #[test]
        fn loops_by_hand_copy_and_sum_like_their_definitions(words in prop::collection::vec(any::<u64>(), 0..100)) {
            let atomics = |words: &[u64]| words.iter().map(|w| AtomicU64::new(*w)).collect::<Vec<_>>();
            let source = atomics(&words);
            let expected = words.iter().fold(0u64, |a, b| a.wrapping_add(*b));
            prop_assert_eq!(sum(&source), expected);
            let target = atomics(&vec![0; words.len()]);
            copy(&source, &target);
            prop_assert_eq!(target.into_iter().map(AtomicU64::into_inner).collect::<Vec<_>>(), words);
        }
    }
}
