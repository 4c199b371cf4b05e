//! How large buffers and files are: larger than the caches, as far as memory allows.

use fullbore_sys::size::Size;

use crate::machine::Machine;
use crate::machine::memory_rates::last_level_cache;

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
        (CACHES * last_level_cache(machine)).clamp(*BUFFER.start(), *BUFFER.end()),
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
}
