//! How much memory of this process a turn has to go through: private memory in small pages.

use crate::error::{Error, Result};
use crate::reason::Reason;

/// With more than this, turns would take more than a third of the time even of a large pool: each MiB takes 18 to 37 µs
/// (`docs/results/2026-11-22-epyc-kvm-ahead.md`), and 64 MiB are sent in some 6 ms.
const AT_MOST: u64 = 80 << 20;
/// With so much memory it takes too long to find out how much of it is in huge pages.
const LOOKED_AT: u64 = 8 << 30;

/// Refuses turns in a process that is too large for them. To find out by making one would take milliseconds, and each page of the
/// process would fault once more.
///
/// # Errors
/// It has too many small pages.
pub(crate) fn check() -> Result<()> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let Some(private) = read("/proc/self/statm").and_then(|t| private_bytes(&t)) else {
        return Ok(()); // the first turns will tell
    };
    if private <= AT_MOST {
        return Ok(());
    }
    let mut small = private;
    if private <= LOOKED_AT {
        let huge = read("/proc/self/smaps_rollup").and_then(|t| huge_bytes(&t));
        small = private.saturating_sub(huge.unwrap_or(0));
    }
    refusal(small).map_or(Ok(()), Err)
}

fn refusal(small: u64) -> Option<Error> {
    let reason = Reason::ProcessTooLarge {
        has: small,
        most: AT_MOST,
    };
    let error = Error::because("copy-on-write is too costly", reason);
    (small > AT_MOST).then(|| error.that_may_pass())
}

/// Bytes that are resident and belong to no file, of /proc/self/statm.
fn private_bytes(statm: &str) -> Option<u64> {
    let mut pages = statm.split(' ').skip(1).map(str::parse::<u64>);
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
}

/// Bytes in huge pages, of /proc/self/smaps_rollup.
fn huge_bytes(rollup: &str) -> Option<u64> {
    let line = rollup
        .lines()
        .find_map(|l| l.strip_prefix("AnonHugePages:"))?;
    super::bytes_of_kb(line).map(|bytes| bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_memory_is_what_is_resident_and_not_shared() {
        let page = rustix::param::page_size() as u64;
        let bytes = private_bytes("30000 2000 500 40 0 7000 0\n");
        assert_eq!(bytes, Some(1500 * page));
        assert_eq!(private_bytes(""), None);
        let rollup = "Rss:  9 kB\nAnonHugePages:      2048 kB\nFilePmdMapped: 0 kB\n";
        assert_eq!(huge_bytes(rollup), Some(2 << 20));
    }

    #[test]
    fn large_process_is_refused_with_both_figures() {
        assert!(refusal(AT_MOST).is_none());
        let text = refusal(1 << 30).expect("too large").to_string();
        assert!(text.contains("1GiB") && text.contains("80MiB"), "{text}");
    }
}
