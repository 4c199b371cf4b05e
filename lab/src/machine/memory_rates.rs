//! What one CPU does with memory, without any pipe: the scale for every figure of a ladder.

use std::hint::black_box;
use std::time::{Duration, Instant};

use fullbore_sys::size::Size;
use fullbore_sys::{Error, Result};
use serde::{Deserialize, Serialize};

use super::Machine;

/// Rates of one CPU on memory that no cache holds, in GiB/s.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemoryRates {
    /// Reading.
    pub read: f64,
    /// Copying (memcpy): bytes copied, each of which is read and written.
    pub copy: f64,
    /// Bytes of each buffer.
    pub buffer: u64,
}

/// Each rate is measured for so long, after one pass that is not measured.
const TIME: Duration = Duration::from_millis(100);
/// Larger than this many times the last-level cache.
const CACHES: u64 = 2;
/// Bounds of a buffer, so that small machines can hold it and unknown caches are left behind.
const BUFFER: std::ops::RangeInclusive<u64> = 64 << 20..=512 << 20;

/// Measures on the calling thread's CPU.
///
/// # Errors
/// There is no memory for the buffers.
pub fn measure(machine: &Machine) -> Result<MemoryRates> {
    let buffer = (CACHES * last_level_cache(machine)).clamp(*BUFFER.start(), *BUFFER.end());
    let mut n = 0u64;
    let source = words(buffer, || {
        n += 1;
        n
    })?;
    let mut target = words(buffer, || 1u64)?;
    let read = rate(buffer, || {
        let mut sums = [0u64; 8];
        for words in black_box(&source).as_chunks::<8>().0 {
            for (sum, word) in sums.iter_mut().zip(words) {
                *sum = sum.wrapping_add(*word);
            }
        }
        black_box(sums);
    });
    let copy = rate(buffer, || {
        target.copy_from_slice(black_box(&source));
        black_box(&mut target);
    });
    Ok(MemoryRates { read, copy, buffer })
}

/// Touched memory, in words of 8 bytes; a machine that has none left says so instead of aborting.
pub(crate) fn words<T>(bytes: u64, value: impl FnMut() -> T) -> Result<Vec<T>> {
    let len = usize::try_from(bytes).unwrap_or(usize::MAX) / size_of::<u64>();
    let mut words = Vec::new();
    words.try_reserve_exact(len).map_err(|_| {
        Error::new(
            format!("a buffer of {} is refused", Size(bytes)),
            "no memory",
            "free some, or raise the limit (ulimit -v)",
        )
    })?;
    words.resize_with(len, value);
    Ok(words)
}

/// Bytes of the largest last-level cache, 0 where it is not known.
pub(crate) fn last_level_cache(machine: &Machine) -> u64 {
    let caches = machine.topology.last_level_caches.iter();
    caches.filter_map(|c| c.size).max().unwrap_or(0)
}

fn rate(bytes: u64, mut pass: impl FnMut()) -> f64 {
    pass();
    let start = Instant::now();
    let mut passes = 0;
    while start.elapsed() < TIME {
        pass();
        passes += 1;
    }
    (passes * bytes) as f64 / (1u64 << 30) as f64 / start.elapsed().as_secs_f64()
}
