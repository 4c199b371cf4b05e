//! Loops over memory: `bw_mem` with `bcopy`, `fcp`, `frd` and `fwr`.
//!
//! The loops by hand go through relaxed atomics: the compiler may neither combine them into vectors nor turn them into
//! memcpy or memset, and they cost what plain loads and stores of a word cost.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fullbore_sys::Result;
use fullbore_sys::size::Size;

use super::timing::{Ready, Report, Time, timed};
use crate::machine::Machine;
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

/// Bytes of each buffer, and what is doubtful about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BufferSize {
    pub bytes: u64,
    pub doubt: Option<String>,
}

/// Larger than this many times the last-level cache: a cache that does not evict strictly in order still serves a good
/// part of each pass over twice its size.
const CACHES: u64 = 8;
/// Bounds of a buffer, so that small machines can hold it and unknown caches are left behind.
const BUFFER: std::ops::RangeInclusive<u64> = 64 << 20..=512 << 20;
/// Buffers and files that exist at once, at most: two files here, two buffers in a process.
const AT_ONCE: u64 = 4;
/// All of them together take at most this part of the memory that is available.
const PART: u64 = 2;
/// Below this nothing of the kind can be measured.
const LEAST: u64 = 1 << 20;

/// Larger than the last-level cache, as far as memory allows.
pub(crate) fn buffer_size(machine: &Machine) -> BufferSize {
    sized(
        (CACHES * crate::machine::memory_rates::last_level_cache(machine))
            .clamp(*BUFFER.start(), *BUFFER.end()),
        available(
            &std::fs::read_to_string("/proc/meminfo").unwrap_or_default(),
            cgroup_limit(),
        ),
    )
}

fn sized(wanted: u64, available: Option<u64>) -> BufferSize {
    let most = available.map_or(wanted, |a| a / AT_ONCE / PART);
    if most >= wanted {
        return BufferSize {
            bytes: wanted,
            doubt: None,
        };
    }
    let bytes = (most >> 20 << 20).max(LEAST);
    BufferSize {
        bytes,
        doubt: Some(format!(
            "buffers and files are {} and not {}, since no more memory is available: columns of memory may show a cache",
            Size(bytes),
            Size(wanted)
        )),
    }
}

/// Bytes that can be had without swapping, by /proc/meminfo and by the limit of the memory cgroup.
fn available(meminfo: &str, cgroup: Option<u64>) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib: Option<u64> = line.and_then(|l| l.trim().strip_suffix("kB")?.trim().parse().ok());
    [kib.map(|k| k << 10), cgroup].into_iter().flatten().min()
}

/// What the memory cgroup of this process still allows; version 2 only, and only its own limit.
fn cgroup_limit() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|l| l.strip_prefix("0::/"))?;
    let text = |name| std::fs::read_to_string(format!("/sys/fs/cgroup/{path}/{name}")).ok();
    left_in_cgroup(
        &text("memory.max")?,
        &text("memory.current")?,
        &text("memory.stat").unwrap_or_default(),
    )
}

/// The limit less what is in use and cannot be dropped, as cached files can.
fn left_in_cgroup(max: &str, current: &str, stat: &str) -> Option<u64> {
    let max: u64 = max.trim().parse().ok()?; // `max` is no limit
    let current: u64 = current.trim().parse().ok()?;
    let cached = stat.lines().find_map(|l| l.strip_prefix("inactive_file "));
    let cached = cached.and_then(|n| n.trim().parse().ok()).unwrap_or(0);
    Some(max.saturating_sub(current.saturating_sub(cached)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHORT: Time = Time {
        warm_up_s: 0.0,
        measured_s: Some(0.001),
    };

    #[test]
    fn every_loop_goes_over_its_whole_buffer() {
        const BYTES: u64 = 1 << 20;
        type Loop = fn(u64, Time, Ready<'_>) -> Result<Report>;
        let loops: [Loop; 4] = [bcopy_libc, bcopy_hand, read, write];
        for work in loops {
            let report = work(BYTES, SHORT, &mut || Ok(())).unwrap();
            assert!(report.bytes >= BYTES && report.bytes.is_multiple_of(BYTES));
        }
    }

    #[test]
    fn memory_that_is_not_there_is_refused() {
        let text = read(u64::MAX, SHORT, &mut || Ok(())).unwrap_err();
        assert!(text.to_string().contains("no memory"), "{text}");
    }

    #[test]
    fn buffers_shrink_with_the_memory_and_say_so() {
        let wanted = 64 << 20;
        assert_eq!(sized(wanted, None).bytes, wanted);
        assert_eq!(sized(wanted, Some(1 << 30)).doubt, None);
        let small = sized(wanted, Some(128 << 20));
        assert_eq!(small.bytes, 16 << 20);
        assert!(small.doubt.unwrap().contains("16MiB and not 64MiB"));
        assert_eq!(sized(wanted, Some(0)).bytes, LEAST);
    }

    #[test]
    fn the_smaller_of_machine_and_cgroup_counts() {
        let meminfo = "MemTotal: 9 kB\nMemAvailable:    2048 kB\n";
        assert_eq!(available(meminfo, None), Some(2 << 20));
        assert_eq!(available(meminfo, Some(1 << 20)), Some(1 << 20));
        assert_eq!(available("", None), None);
    }

    #[test]
    fn cached_files_do_not_count_against_the_limit_of_a_cgroup() {
        assert_eq!(left_in_cgroup("max\n", "5\n", ""), None);
        assert_eq!(left_in_cgroup("100\n", "70\n", ""), Some(30));
        let stat = "anon 20\ninactive_file 40\nactive_file 10\n";
        assert_eq!(left_in_cgroup("100\n", "70\n", stat), Some(70));
        assert_eq!(left_in_cgroup("100", "200", ""), Some(0));
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
