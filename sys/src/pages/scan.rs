//! Which addresses are mapped by huge pages: the `PAGEMAP_SCAN` ioctl (Linux 6.7).

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::ioctl::{Updater, ioctl, opcode};

/// `struct pm_scan_arg` of include/uapi/linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct ScanArg {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` of include/uapi/linux/fs.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

const PAGE_IS_PFNZERO: u64 = 1 << 5;
const PAGE_IS_HUGE: u64 = 1 << 6;
const PAGEMAP_SCAN: rustix::ioctl::Opcode = opcode::read_write::<ScanArg>(b'f', 16);

/// The parts of a range of addresses that are mapped by huge entries of the page table (by a PMD: 2 MiB on x86-64). The
/// huge zero page does not count. `pagemap` is `/proc/self/pagemap`, or that of another process.
///
/// # Errors
/// What `ioctl(2)` reports: `ENOTTY` before Linux 6.7, or what a sandbox answers.
pub fn mapped_huge(pagemap: impl AsFd, addresses: Range<u64>) -> io::Result<Vec<Range<u64>>> {
    let mut huge = Vec::new();
    let mut at = addresses.start;
    while at < addresses.end {
        let mut regions = [Region::default(); 32];
        let mut arg = ScanArg {
            size: size_of::<ScanArg>() as u64,
            start: at,
            end: addresses.end,
            vec: regions.as_mut_ptr() as u64,
            vec_len: regions.len() as u64,
            category_inverted: PAGE_IS_PFNZERO,
            category_mask: PAGE_IS_HUGE | PAGE_IS_PFNZERO,
            return_mask: PAGE_IS_HUGE,
            ..ScanArg::default()
        };
        // SAFETY: opcode and layout are those of include/uapi/linux/fs.h for this ioctl on a pagemap file.
        let scan = unsafe { Updater::<PAGEMAP_SCAN, ScanArg>::new(&mut arg) };
        // SAFETY: the kernel writes at most `vec_len` regions to `vec`, which `regions` holds, and changes no memory of
        // the scanned range.
        match unsafe { ioctl(&pagemap, scan) } {
            Ok(()) => {}
            Err(Errno::INTR) => continue,
            Err(e) => return Err(e.into()),
        }
        // The ioctl's return value, the number of regions, does not come through `Updater`; unused entries stay zero.
        let found = regions.iter().filter(|r| r.end > r.start);
        huge.extend(found.map(|r| r.start..r.end));
        if arg.walk_end <= at {
            return Err(io::ErrorKind::InvalidData.into());
        }
        at = arg.walk_end;
    }
    Ok(huge)
}
