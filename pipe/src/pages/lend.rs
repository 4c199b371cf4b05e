//! A few huge pages of addresses: what is written there is lent to a pipe, and the pages are abandoned to it before the
//! addresses are used again.
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::mm::Advice;

use super::{PageKind, map_aligned, page_size, proof};
use crate::error::{Error, Result};
use crate::size::Size;
use crate::sys::fault::{Call, allow};
use crate::sys::{self, SpliceFlags};

/// Huge pages that are gone round while pages are kept: see [`Lend::turn`]. With two, a pipe behind another one still holds
/// some; with six they leave the caches (`docs/measurements.md`).
const PAGES: usize = 3;

/// Huge pages that are lent front to back, one after the other.
///
/// Bytes of the current page before `cursor`, and all of the other pages, may be held by a pipe, or by whoever the reader
/// has passed them on to, for as long as they like. They are never written again: only what lies behind the cursor is ever
/// handed out, and when its end is reached the *next* page is abandoned (`MADV_DONTNEED`) and the kernel supplies a fresh
/// one for the same addresses. What holds the old page keeps it, unchanged. This is sound for private anonymous memory
/// only, which this is.
#[derive(Debug)]
pub(crate) struct Lend {
    start: NonNull<u8>,
    /// Bytes of a page.
    page: usize,
    /// Which page is being lent.
    current: usize,
    /// Where in it.
    cursor: usize,
}

// SAFETY: `Lend` is the only owner of its mapping, which any thread may use and unmap.
unsafe impl Send for Lend {}
// SAFETY: `&Lend` gives no access to the memory.
unsafe impl Sync for Lend {}

/// Larger huge pages (512 MiB with 64 KiB base pages) are too much memory to lend and to zero at a time.
const LARGEST: usize = 4 << 20;

impl Lend {
    /// Maps the addresses; the pages themselves come with the first writes.
    ///
    /// # Errors
    /// No huge pages, or only such as are too large to lend, or no memory.
    pub(crate) fn new() -> Result<Self> {
        let page = page_size(PageKind::Huge)?;
        if page > LARGEST {
            return Err(Error::new(
                "huge pages cannot be lent",
                format!("here they are of {}", Size(page as u64)),
                "",
            ));
        }
        let refused = |e| Error::system("no memory to lend to a pipe", e, "free memory");
        let start = map_aligned(PAGES * page, page).map_err(refused)?;
        let lend = Self {
            start,
            page,
            current: 0,
            cursor: 0,
        };
        let all = 0..PAGES * page;
        lend.advise(all.clone(), Advice::LinuxHugepage)
            .map_err(refused)?;
        // After fork, a child that kept the pages would make both sides copy them on write, 2 MiB at a time. It gets
        // zeroes instead. Kernels before 4.14 do not know this advice, and are merely slower then.
        let _ = lend.advise(all, Advice::LinuxWipeOnFork);
        Ok(lend)
    }

    fn advise(&self, bytes: Range<usize>, advice: Advice) -> rustix::io::Result<()> {
        debug_assert!(bytes.start <= bytes.end && bytes.end <= PAGES * self.page);
        // SAFETY: callers ask for a part of our mapping, so this is inside it or just past it.
        let at = unsafe { self.start.as_ptr().add(bytes.start) };
        // SAFETY: the range is a part of our own private anonymous mapping. No reference into it exists while `&self` is
        // held here, since references are only handed out by `&mut self`; DONTNEED makes it zero, which is valid for bytes.
        unsafe { rustix::mm::madvise(at.cast(), bytes.len(), advice) }
    }

    /// Where the current page begins.
    fn current(&self) -> usize {
        self.current * self.page
    }

    /// Bytes that can be handed out before the next page must be taken.
    pub(crate) fn room(&self) -> usize {
        self.page - self.cursor
    }

    /// The bytes behind everything that was lent, to write into.
    pub(crate) fn free_mut(&mut self) -> &mut [u8] {
        let (from, room) = (self.current() + self.cursor, self.room());
        // SAFETY: `current < PAGES` and `cursor <= page`, so this is inside or just past our mapping.
        let at = unsafe { self.start.as_ptr().add(from) };
        // SAFETY: the current page from `cursor` on is mapped, zeroed by the kernel or written by us, was not lent since
        // that page was fresh, and `&mut self` is the only access.
        unsafe { std::slice::from_raw_parts_mut(at, room) }
    }

    /// Lends the first `len` free bytes to a pipe. Returns how many the pipe took; the rest stays free, as it was
    /// written.
    ///
    /// # Errors
    /// What `vmsplice(2)` reports; then nothing was lent.
    pub(crate) fn send(
        &mut self,
        fd: impl AsFd,
        len: usize,
        flags: SpliceFlags,
    ) -> io::Result<usize> {
        let bytes = &mut self.free_mut()[..len];
        // SAFETY: bytes that the pipe takes are behind the cursor from here on, and are never written again: not by
        // `free_mut`, which hands out what is before it, and not after `turn`, which takes another page.
        let taken = unsafe { sys::vmsplice(fd, bytes, flags) }?;
        self.cursor += taken.min(len);
        Ok(taken)
    }

    /// Leaves out the first `len` free bytes.
    pub(crate) fn skip(&mut self, len: usize) {
        self.cursor += len.min(self.room());
    }

    /// Moves on to the next page boundary, so that the next bytes take as few slots as they can.
    pub(crate) fn align(&mut self) {
        let page = rustix::param::page_size();
        self.cursor = self.cursor.next_multiple_of(page).min(self.page);
    }

    /// Goes on to a page that is fresh. Whoever holds what was lent before keeps it.
    ///
    /// A page goes back to the kernel when the last one lets go of it, into the list of free pages of *that* CPU, from which
    /// that CPU is served first (`free_unref_page`). With `keep` we go round [`PAGES`] of them and abandon each as late as
    /// can be: the pipe cannot hold it any more, we are the last ones, and the next page that we get is the one which we have
    /// just given back, still in a cache. Else the current one is abandoned now. The reader is the last one then, and its
    /// pages travel through the lists of two CPUs, where some hundred MiB lie, and come back cold. To fill a cold page is
    /// slow, and to take it out of the cache of a CPU that is far away is slower still: so either may be better.
    ///
    /// # Errors
    /// The kernel refused, and no other memory could be mapped either. Then nothing more is handed out.
    pub(crate) fn turn(&mut self, keep: bool) -> Result<()> {
        let next = (self.current + usize::from(keep)) % PAGES;
        let bytes = next * self.page..(next + 1) * self.page;
        let dropped = allow(Call::MadviseDontneed, self.page).and_then(|_| {
            // Locked memory (mlockall) has an advice of its own since Linux 5.18.
            let advised = self.advise(bytes.clone(), Advice::LinuxDontNeed);
            advised.or_else(|_| self.advise(bytes, Advice::LinuxDontneedLocked))
        });
        if dropped.is_ok() {
            (self.current, self.cursor) = (next, 0);
            return Ok(());
        }
        // Refused for locked memory before that. These addresses must not be written again, so others are
        // taken; dropping the old mapping leaves its pages to those who hold them.
        self.cursor = self.page;
        *self = Self::new()?;
        Ok(())
    }

    /// Whether the current page really is a huge one; `None` where nothing tells. Asked when it has been written.
    pub(crate) fn is_huge(&self) -> Option<bool> {
        let address = self.start.as_ptr() as usize + self.current();
        proof::huge_bytes(address, self.page, PageKind::Huge).map(|huge| huge >= self.page)
    }
}

impl Drop for Lend {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nobody can use it after drop. Pages that a pipe holds stay alive without it.
        let result = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), PAGES * self.page) };
        debug_assert!(result.is_ok(), "munmap of our own mapping: {result:?}");
    }
}
