//! Proof that memory is mapped as huge pages, from whichever of three sources this system lets us read.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::{PageKind, scan};
use crate::error::{Error, Result};
use crate::size::Size;

pub(super) fn prove_huge(address: usize, len: usize, kind: PageKind) -> Result<()> {
    match huge_bytes(address, len, kind) {
        Some(huge) if huge >= len => Ok(()),
        Some(huge) => Err(Error::new(
            "the buffer is not in huge pages",
            format!("{} of {} are", Size(huge as u64), Size(len as u64)),
            "free memory, or check /sys/kernel/mm/transparent_hugepage/enabled (madvise or always)",
        )),
        None => Err(Error::new(
            "huge pages cannot be proven",
            "neither PAGEMAP_SCAN nor smaps nor kpageflags can be read here",
            "run as root, or leave out --check-huge-page",
        )),
    }
}

/// How many bytes of a range are mapped as huge pages; `None` where no source can be read.
pub(super) fn huge_bytes(address: usize, len: usize, kind: PageKind) -> Option<usize> {
    huge_bytes_by_scan(address, len)
        .or_else(|| huge_bytes_by_smaps(address, len, kind))
        .or_else(|| huge_bytes_by_frames(address, len))
}

/// Bytes mapped by huge pages, by the `PAGEMAP_SCAN` ioctl (Linux 6.7). The huge zero page does not count.
fn huge_bytes_by_scan(address: usize, len: usize) -> Option<usize> {
    let pagemap = File::open("/proc/self/pagemap").ok()?;
    let addresses = address as u64..(address + len) as u64;
    let huge = scan::mapped_huge(&pagemap, addresses).ok()?;
    Some(huge.iter().map(|r| (r.end - r.start) as usize).sum())
}

/// Bytes mapped by huge pages, by /proc/self/smaps.
fn huge_bytes_by_smaps(address: usize, len: usize, kind: PageKind) -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/smaps").ok()?;
    smaps_huge_bytes(&text, address, len, kind)
}

/// Pure part of [`huge_bytes_by_smaps`]. The mapping may be merged with neighbours, of which nothing can be said: then
/// only a count that covers the whole mapping proves anything.
fn smaps_huge_bytes(smaps: &str, address: usize, len: usize, kind: PageKind) -> Option<usize> {
    let field = match kind {
        PageKind::Hugetlb => "Private_Hugetlb:",
        _ => "AnonHugePages:",
    };
    let mut mapping = None;
    for line in smaps.lines() {
        if let Some(range) = address_range(line) {
            mapping = Some(range);
        } else if let (Some((start, end)), Some(value)) = (mapping, line.strip_prefix(field))
            && start <= address
            && address + len <= end
        {
            let not_huge = (end - start).saturating_sub(super::bytes_of_kb(value)?);
            return Some(len.saturating_sub(not_huge));
        }
    }
    None
}

fn address_range(line: &str) -> Option<(usize, usize)> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let hex = |text| usize::from_str_radix(text, 16).ok();
    Some((hex(start)?, hex(end)?))
}

/// Bytes in huge pages, by frame number and flags; needs `CAP_SYS_ADMIN`. The flag for transparent huge pages now also
/// means smaller folios, so each page must besides be part of 2 MiB of frames in sequence.
fn huge_bytes_by_frames(address: usize, len: usize) -> Option<usize> {
    const FRAME: u64 = (1 << 55) - 1;
    const PRESENT: u64 = 1 << 63;
    const KPF_HUGE: u64 = 1 << 17;
    const KPF_THP: u64 = 1 << 22;
    let page = rustix::param::page_size();
    let unit = super::page_size(PageKind::Huge).ok()?;
    let pagemap = File::open("/proc/self/pagemap").ok()?;
    let flags = File::open("/proc/kpageflags").ok()?;
    let mut huge = 0;
    for start in (address..address + len).step_by(unit) {
        let mut entries = vec![0; unit / page * 8];
        pagemap
            .read_exact_at(&mut entries, (start / page * 8) as u64)
            .ok()?;
        let mut frames = entries
            .as_chunks::<8>()
            .0
            .iter()
            .map(|e| u64::from_ne_bytes(*e));
        let first = frames.next()?;
        if first & FRAME == 0 {
            return None; // hidden without privilege
        }
        let in_sequence = (1..)
            .zip(frames)
            .all(|(i, e)| e & PRESENT != 0 && e & FRAME == (first & FRAME) + i);
        let mut flag = [0; 8];
        flags.read_exact_at(&mut flag, (first & FRAME) * 8).ok()?;
        let is_huge = u64::from_ne_bytes(flag) & (KPF_THP | KPF_HUGE) != 0;
        if in_sequence && is_huge && (first & FRAME).is_multiple_of((unit / page) as u64) {
            huge += unit.min(address + len - start);
        }
    }
    Some(huge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::{Pages, Request};

    const SMAPS: &str = "\
7f0000000000-7f0000200000 rw-p 00000000 00:00 0
Size:               2048 kB
AnonHugePages:      2048 kB
7f0000200000-7f0000600000 rw-p 00000000 00:00 0
AnonHugePages:      2048 kB
Private_Hugetlb:       0 kB
";

    #[test]
    fn smaps_counts_only_what_must_be_huge() {
        let huge = |address, len| smaps_huge_bytes(SMAPS, address, len, PageKind::Huge);
        assert_eq!(huge(0x7f00_0000_0000, 2 << 20), Some(2 << 20));
        // Half of this mapping is huge, nobody knows which half.
        assert_eq!(huge(0x7f00_0020_0000, 4 << 20), Some(2 << 20));
        assert_eq!(huge(0x7f00_0020_0000, 2 << 20), Some(0));
        assert_eq!(huge(0x1000, 4096), None);
    }

    /// The three sources must not contradict each other on this very machine.
    #[test]
    fn sources_agree() {
        let map = |kind| {
            Pages::map(&Request {
                len: 4 << 20,
                kind,
                lock: false,
                fill: Some(1),
            })
        };
        for kind in [PageKind::Small, PageKind::Huge] {
            let Ok(pages) = map(kind) else {
                let test = format!("sources_agree for {kind} pages");
                crate::testing::watch::skip(&test, "unavailable here");
                continue;
            };
            let (address, len) = (pages.as_ptr() as usize, pages.len());
            let scan = huge_bytes_by_scan(address, len);
            let frames = huge_bytes_by_frames(address, len);
            let smaps = huge_bytes_by_smaps(address, len, kind);
            if let (Some(scan), Some(frames)) = (scan, frames) {
                assert_eq!(scan, frames, "{kind}: scan against frames");
            }
            if let (Some(scan), Some(smaps)) = (scan, smaps) {
                assert!(smaps <= scan, "{kind}: smaps {smaps} scan {scan}");
            }
        }
    }
}
