//! What memory of this process is, as the kernel's tables have it: `/proc/self/pagemap` and `/proc/self/maps`.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use rustix::ioctl::{Updater, ioctl, opcode};

use super::scan;
use crate::error::{Error, Result};

/// `struct procmap_query` of include/uapi/linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

const PROCMAP_QUERY: rustix::ioctl::Opcode = opcode::read_write::<Query>(b'f', 17);
const VMA_SHARED: u64 = 8;

/// Bits of an entry of /proc/self/pagemap (Documentation/admin-guide/mm/pagemap.rst). They need no privilege; frame numbers
/// would.
const PRESENT: u64 = 1 << 63;
const FILE_OR_SHARED: u64 = 1 << 61;
const MAPPED_ONCE: u64 = 1 << 56;

/// The two files, opened where they are needed: a forked child that inherited them would look at its parent's memory.
#[derive(Debug)]
pub(super) struct Lookup {
    pagemap: File,
    maps: File,
}

impl Lookup {
    /// Opens them.
    ///
    /// # Errors
    /// No /proc, or no right to look: then nothing tells what memory is.
    pub(super) fn new() -> Result<Self> {
        let open = |path, call| {
            File::open(path)
                .map_err(|e| Error::refused("nothing tells what memory is", call, e, "mount /proc"))
        };
        Ok(Self {
            pagemap: open("/proc/self/pagemap", "open(/proc/self/pagemap)")?,
            maps: open("/proc/self/maps", "open(/proc/self/maps)")?,
        })
    }

    /// The parts of a range that are mapped by huge pages: Linux 6.7.
    pub(super) fn huge(&self, range: Range<usize>) -> Result<Vec<Range<usize>>> {
        let huge = scan::mapped_huge(&self.pagemap, range.start as u64..range.end as u64);
        let huge =
            huge.map_err(|e| cannot_tell("ioctl(PAGEMAP_SCAN)", e, "use Linux 6.7 or newer"))?;
        Ok(huge
            .into_iter()
            .map(|r| r.start as usize..r.end as usize)
            .collect())
    }

    /// Whether all of a range is private memory, of no file, and not of hugetlb pages: Linux 6.11.
    pub(super) fn is_private(&self, range: Range<usize>) -> Result<bool> {
        let mut at = range.start as u64;
        while at < range.end as u64 {
            let mut query = Query {
                size: size_of::<Query>() as u64,
                query_addr: at,
                ..Query::default()
            };
            // SAFETY: opcode and layout are those of include/uapi/linux/fs.h for this ioctl on a maps file.
            let asked = unsafe { Updater::<PROCMAP_QUERY, Query>::new(&mut query) };
            // SAFETY: the kernel writes to `query` only: the lengths of name and build id say that none is wanted.
            match unsafe { ioctl(&self.maps, asked) } {
                Ok(()) => {}
                Err(Errno::INTR) => continue,
                Err(e) => {
                    let what_to_do = "use Linux 6.11 or newer";
                    return Err(cannot_tell("ioctl(PROCMAP_QUERY)", e.into(), what_to_do));
                }
            }
            let small = query.vma_page_size == rustix::param::page_size() as u64;
            let of_file = query.inode != 0 || query.vma_flags & VMA_SHARED != 0;
            if !small || of_file || query.vma_end <= at {
                return Ok(false);
            }
            at = query.vma_end;
        }
        Ok(true)
    }

    /// Whether all pages of a range are there, are anonymous, and are mapped by this process alone, which is not to say that
    /// nobody else has a reference.
    pub(super) fn is_mapped_once(&self, range: Range<usize>) -> Result<bool> {
        self.entries_are(range, PRESENT | MAPPED_ONCE)
    }

    /// Whether all pages of a range are there, are anonymous, and are mapped by another process as well.
    pub(super) fn is_mapped_elsewhere(&self, range: Range<usize>) -> Result<bool> {
        self.entries_are(range, PRESENT)
    }

    fn entries_are(&self, range: Range<usize>, wanted: u64) -> Result<bool> {
        let page = rustix::param::page_size();
        let mut entries = vec![0; range.len() / page * 8];
        let read = self
            .pagemap
            .read_exact_at(&mut entries, (range.start / page * 8) as u64);
        read.map_err(|e| cannot_tell("pread(/proc/self/pagemap)", e, ""))?;
        let mut entries = entries
            .as_chunks::<8>()
            .0
            .iter()
            .map(|e| u64::from_ne_bytes(*e));
        Ok(entries.all(|e| e & (PRESENT | FILE_OR_SHARED | MAPPED_ONCE) == wanted))
    }
}

fn cannot_tell(call: &'static str, e: io::Error, what_to_do: &str) -> Error {
    let what = "the kernel does not tell what memory is";
    Error::refused(what, call, e, what_to_do)
}

#[cfg(test)]
mod tests {
    use super::super::turns::Turns;
    use super::super::{PageKind, Pages, Request};
    use super::*;
    use crate::testing::watch::skip;

    const LEN: usize = 4 << 20;

    fn pages(kind: PageKind) -> Option<(Pages, Range<usize>)> {
        let (len, lock, fill) = (LEN, false, Some(1));
        let pages = Pages::map(&Request {
            len,
            kind,
            lock,
            fill,
        });
        let pages = pages
            .map_err(|e| skip(&format!("lookup of {kind} pages"), e))
            .ok()?;
        let start = pages.as_ptr() as usize;
        Some((pages, start..start + LEN))
    }

    /// What the tables say of a range, before a turn and while its child is there.
    fn once_and_elsewhere(lookup: &Lookup, range: &Range<usize>) -> [bool; 4] {
        let look = || {
            let once = lookup.is_mapped_once(range.clone()).unwrap();
            [once, lookup.is_mapped_elsewhere(range.clone()).unwrap()]
        };
        let alone = Turns::of_this_process().unwrap().alone().unwrap();
        let [once, elsewhere] = look();
        let ([once_then, elsewhere_then], _) = alone.turn_and_meanwhile(look).unwrap();
        [once, elsewhere, once_then, elsewhere_then]
    }

    /// Tries it some times: other tests have children that this one cannot keep away.
    fn is_seen(lookup: &Lookup, range: &Range<usize>, expected: [bool; 4]) -> bool {
        (0..100).any(|_| once_and_elsewhere(lookup, range) == expected)
    }

    #[test]
    fn child_shows_in_the_tables_where_it_has_the_memory() {
        let lookup = Lookup::new().unwrap();
        for kind in [PageKind::Small, PageKind::Huge] {
            let Some((_pages, range)) = pages(kind) else {
                continue;
            };
            assert!(
                is_seen(&lookup, &range, [true, false, false, true]),
                "{kind}"
            );
            for advice in [libc::MADV_DONTFORK, libc::MADV_WIPEONFORK] {
                // SAFETY: our own mapping, whose contents stay as they are.
                let advised = unsafe { libc::madvise(range.start as *mut _, LEN, advice) };
                assert_eq!(advised, 0);
                let seen = is_seen(&lookup, &range, [true, false, true, false]);
                assert!(seen, "{kind}, {advice}");
            }
        }
    }

    #[test]
    fn hugetlb_and_shared_memory_are_not_private() {
        let lookup = Lookup::new().unwrap();
        let Some((_pages, range)) = pages(PageKind::Small) else {
            return;
        };
        match lookup.is_private(range) {
            Ok(private) => assert!(private),
            Err(e) => return skip("hugetlb_and_shared_memory", e),
        }
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice, which stays.
        let shared = unsafe { libc::mmap(std::ptr::null_mut(), LEN, access, flags, -1, 0) };
        assert!(
            !lookup
                .is_private(shared as usize..shared as usize + LEN)
                .unwrap()
        );
        if let Some((_pages, range)) = pages(PageKind::Hugetlb) {
            assert!(!lookup.is_private(range).unwrap());
        }
    }
}
