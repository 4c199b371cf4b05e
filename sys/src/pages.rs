//! Memory that Fullbore owns, page by page, so that it can be lent to a pipe.
#![allow(unsafe_code)]

mod borrowed;
mod faults;
mod footprint;
pub mod forked;
pub(crate) mod huge;
mod lend;
mod lookup;
mod pool;
mod proof;
mod queue;
pub mod scan;
mod turns;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::str::FromStr;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

pub(crate) use borrowed::{Part, queue, try_the_look, whole_pages};
pub(crate) use footprint::check as check_footprint;
pub(crate) use huge::{HugePage, HugePages};
pub(crate) use lend::Lend;
pub(crate) use pool::{OnWrite, Pool, try_copy_on_write, turn};

use crate::calls::fault::{Call, allow};
use crate::error::{Error, Result};
use crate::reason::Reason;
use crate::size::Size;

/// What kind of pages memory is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PageKind {
    /// Pages of the base size (4 KiB on x86-64), and never merged into huge ones.
    #[default]
    Small,
    /// Transparent huge pages (2 MiB on x86-64), where the kernel has them to give.
    Huge,
    /// Pages from the pool that an administrator reserved (`vm.nr_hugepages`).
    Hugetlb,
}

impl PageKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Small, Self::Huge, Self::Hugetlb];
}

impl fmt::Display for PageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Small => "small",
            Self::Huge => "huge",
            Self::Hugetlb => "hugetlb",
        })
    }
}

impl FromStr for PageKind {
    type Err = UnknownPageKind;

    fn from_str(text: &str) -> std::result::Result<Self, UnknownPageKind> {
        Self::ALL
            .into_iter()
            .find(|k| k.to_string() == text)
            .ok_or(UnknownPageKind)
    }
}

/// The text names no kind of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownPageKind;

impl fmt::Display for UnknownPageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown kind of pages; use small, huge or hugetlb")
    }
}

impl std::error::Error for UnknownPageKind {}

/// What memory to map.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Bytes that will be used. The mapping is rounded up to whole pages of its kind.
    pub len: usize,
    /// Kind of pages.
    pub kind: PageKind,
    /// Lock the pages in memory (`mlock`).
    pub lock: bool,
    /// Fill with this byte at once, so that no page is faulted in later. `None` leaves the pages untouched.
    pub fill: Option<u8>,
}

/// Private anonymous memory, aligned to the pages it is made of, unmapped when dropped.
///
/// Pages that a pipe still holds outlive the mapping: the kernel counts references to pages, not to mappings.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    len: usize,
    mapped: usize,
    kind: PageKind,
}

// SAFETY: `Pages` is the only owner of its mapping, which any thread may use and unmap.
unsafe impl Send for Pages {}
// SAFETY: shared access only reads.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps memory.
    ///
    /// # Errors
    /// No memory, no hugetlb pages reserved, or locking refused; the message says how to allow it.
    pub fn map(request: &Request) -> Result<Self> {
        let &Request { len, kind, .. } = request;
        let what = || format!("{} of {kind} pages refused", Size(len as u64));
        let unit = page_size(kind)?;
        let mapped = len
            .max(1)
            .checked_next_multiple_of(unit)
            .ok_or_else(|| Error::new(what(), "too large", "use a smaller buffer"))?;
        let start = match kind {
            PageKind::Huge => map_aligned(mapped, unit),
            PageKind::Small => map_anonymous(mapped, MapFlags::PRIVATE),
            PageKind::Hugetlb => map_anonymous(mapped, MapFlags::PRIVATE | MapFlags::HUGETLB),
        }
        .map_err(|e| match kind {
            PageKind::Hugetlb => Error::system(
                what(),
                e,
                "reserve some with `sysctl vm.nr_hugepages=8` as root, or use transparent ones (--pages huge)",
            ),
            _ => Error::system(what(), e, "use a smaller buffer"),
        })?;
        let mut pages = Self {
            start,
            len,
            mapped,
            kind,
        };
        pages.advise_kind()?;
        if request.lock {
            pages.lock()?;
        }
        if let Some(byte) = request.fill {
            pages.fill(byte);
        }
        Ok(pages)
    }

    /// Kind of pages that were asked for. Transparent huge pages are a wish: see [`Pages::prove_huge`].
    #[must_use]
    pub fn kind(&self) -> PageKind {
        self.kind
    }

    fn advise_kind(&self) -> Result<()> {
        let advice = match self.kind {
            PageKind::Small => Advice::LinuxNoHugepage,
            PageKind::Huge => Advice::LinuxHugepage,
            PageKind::Hugetlb => return Ok(()),
        };
        // SAFETY: the range is our own mapping, and neither advice changes its contents.
        match unsafe { rustix::mm::madvise(self.start.as_ptr().cast(), self.mapped, advice) } {
            Ok(()) => Ok(()),
            // Without the advice they may be merged into huge ones, which is no harm to anyone.
            Err(_) if self.kind == PageKind::Small => Ok(()),
            Err(e) => Err(Error::system(
                "huge pages refused",
                e,
                "this kernel has no transparent huge pages; use --pages small or hugetlb",
            )),
        }
    }

    fn lock(&self) -> Result<()> {
        // SAFETY: the range is our own mapping; locking does not change its contents.
        unsafe { rustix::mm::mlock(self.start.as_ptr().cast(), self.mapped) }.map_err(|e| {
            Error::system(
                format!("{} cannot be locked in memory", Size(self.mapped as u64)),
                e,
                "raise the limit (ulimit -l) or leave out --lock-memory",
            )
        })
    }

    /// Proves that every page is mapped as a huge page.
    ///
    /// Asks `PAGEMAP_SCAN` (Linux 6.7), else `AnonHugePages` in /proc/self/smaps, else /proc/kpageflags. Only pages that
    /// were touched can be proven.
    ///
    /// # Errors
    /// Some page is not huge, or nothing on this system can tell.
    pub fn prove_huge(&self) -> Result<()> {
        let address = self.start.as_ptr() as usize;
        proof::prove_huge(address, self.mapped, self.kind)
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start..start+len` is mapped readable until drop, initialised (by the kernel, with zeros) and changed
        // only through `&mut self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` is the only access.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nobody can use it after drop. Pages that a pipe holds stay alive without it.
        let result = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.mapped) };
        debug_assert!(result.is_ok(), "munmap of our own mapping: {result:?}");
    }
}

/// Size in bytes of one page of a kind, as this system has them.
///
/// # Errors
/// The system has no pages of this kind.
pub fn page_size(kind: PageKind) -> Result<usize> {
    match kind {
        PageKind::Small => Ok(rustix::param::page_size()),
        PageKind::Huge => match read_number("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size") {
            Some(size) => Ok(size),
            // Without /sys: what one table of 8-byte entries maps, on every 64-bit machine that we know.
            None if !std::path::Path::new("/sys/kernel/mm").exists() => {
                let page = rustix::param::page_size();
                Ok(page * (page / 8))
            }
            None => {
                let why = "this kernel has no transparent huge pages";
                let error = Error::new("huge pages refused", why, "use --pages small or hugetlb");
                Err(error.with_reason(Reason::Unsupported(why.into())))
            }
        },
        PageKind::Hugetlb => {
            let refused = "hugetlb pages refused";
            let meminfo = std::fs::read_to_string("/proc/meminfo").map_err(|e| {
                Error::system(
                    format!("{refused}: their size is in /proc/meminfo"),
                    e,
                    "mount /proc, or use --pages huge or small",
                )
            })?;
            hugetlb_size(&meminfo).ok_or_else(|| {
                Error::new(
                    refused,
                    "this kernel has none (no Hugepagesize in /proc/meminfo)",
                    "use --pages huge or small",
                )
            })
        }
    }
}

fn hugetlb_size(meminfo: &str) -> Option<usize> {
    let line = meminfo
        .lines()
        .find_map(|l| l.strip_prefix("Hugepagesize:"))?;
    bytes_of_kb(line)
}

/// The number of a line such as `2048 kB` in the files of /proc, in bytes.
fn bytes_of_kb(value: &str) -> Option<usize> {
    let kib: usize = value.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

fn read_number(path: &str) -> Option<usize> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn map_anonymous(len: usize, flags: MapFlags) -> std::result::Result<NonNull<u8>, Errno> {
    allow(Call::Mmap, 0)?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choice touches no existing memory.
    let start = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, access, flags) }?;
    NonNull::new(start.cast()).ok_or(Errno::NOMEM)
}

/// Maps `len` bytes at a multiple of `align`: maps more, and gives back what lies around.
fn map_aligned(len: usize, align: usize) -> std::result::Result<NonNull<u8>, Errno> {
    let total = len.checked_add(align).ok_or(Errno::NOMEM)?;
    let start = map_anonymous(total, MapFlags::PRIVATE)?;
    let before = start.as_ptr().align_offset(align);
    let after = total - before - len;
    let unmap = |offset: usize, len: usize| {
        if len == 0 {
            return;
        }
        let part = start.as_ptr().wrapping_add(offset);
        // SAFETY: the part lies inside the mapping just made, and nothing refers to it yet.
        let result = unsafe { rustix::mm::munmap(part.cast(), len) };
        debug_assert!(
            result.is_ok(),
            "munmap around an aligned mapping: {result:?}"
        );
    };
    unmap(0, before);
    unmap(before + len, after);
    NonNull::new(start.as_ptr().wrapping_add(before)).ok_or(Errno::NOMEM)
}

/// Maps `len` bytes just below memory that is mapped already; `None` where something else lies there.
fn map_beside(other: NonNull<u8>, len: usize) -> Option<NonNull<u8>> {
    allow(Call::Mmap, 0).ok()?;
    let wish = (other.as_ptr() as usize).checked_sub(len)?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: the kernel maps nothing where something is mapped already. Kernels before 4.17 do not know this flag and take
    // the address as a wish: also a fresh mapping, which is given back below where it lies elsewhere.
    let start = unsafe { rustix::mm::mmap_anonymous(wish as *mut _, len, access, flags) }.ok()?;
    if start as usize != wish {
        // SAFETY: the mapping was made above, and nothing refers to it.
        let _ = unsafe { rustix::mm::munmap(start, len) };
        return None;
    }
    NonNull::new(start.cast())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(len: usize, kind: PageKind) -> Request {
        Request {
            len,
            kind,
            lock: false,
            fill: Some(b'X'),
        }
    }

    #[test]
    fn small_pages_are_aligned_filled_and_as_long_as_asked() {
        let pages = Pages::map(&request(5001, PageKind::Small)).unwrap();
        assert_eq!(pages.len(), 5001);
        assert_eq!(pages.as_ptr() as usize % rustix::param::page_size(), 0);
        assert!(pages.iter().all(|&b| b == b'X'));
    }

    #[test]
    fn small_pages_are_proven_not_to_be_huge() {
        let pages = Pages::map(&request(4 << 20, PageKind::Small)).unwrap();
        let text = pages.prove_huge().unwrap_err().to_string();
        assert!(text.contains("huge"), "{text}");
    }

    #[test]
    fn huge_pages_are_aligned_to_their_size() {
        let Ok(unit) = page_size(PageKind::Huge) else {
            let test = "huge_pages_are_aligned_to_their_size";
            return crate::testing::watch::skip(test, "no transparent huge pages here");
        };
        for len in [1, unit, unit + 1] {
            let pages = Pages::map(&request(len, PageKind::Huge)).unwrap();
            assert_eq!(pages.as_ptr() as usize % unit, 0);
            assert_eq!(pages.len(), len);
        }
    }

    #[test]
    fn a_length_that_overflows_is_refused() {
        assert!(Pages::map(&request(usize::MAX, PageKind::Small)).is_err());
        assert!(Pages::map(&request(usize::MAX / 2, PageKind::Small)).is_err());
    }

    #[test]
    fn hugetlb_size_is_read_from_meminfo() {
        let text = "MemTotal: 1 kB\nHugepagesize:       2048 kB\n";
        assert_eq!(hugetlb_size(text), Some(2 << 20));
        assert_eq!(hugetlb_size("MemTotal: 1 kB\n"), None);
    }
}
