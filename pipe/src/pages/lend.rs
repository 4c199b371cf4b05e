//! A few huge pages of addresses: what is written there is lent to a pipe, and the pages are abandoned to it before the
//! addresses are used again.
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::Advice;

use super::faults::{self, Shown};
use super::forked::wipe_on_fork;
use super::{PageKind, map_aligned, page_size, proof};
use crate::error::{Error, Result};
use crate::size::Size;
use crate::sys::fault::{Call, allow};
use crate::sys::{self, SpliceFlags};

/// Huge pages that are gone round while pages are kept: see [`Lend::turn`]. With two, a pipe behind another one still holds
/// some; with six they leave the caches (`docs/measurements.md`).
const ROUND: usize = 3;
/// Those, and one that lies aside: see [`Lend::turn_aside`].
const PAGES: usize = ROUND + 1;

/// Huge pages that are lent front to back, one after the other.
///
/// Bytes of the current page before `cursor`, and all of the other pages, may be held by a pipe, or by whoever the reader
/// has passed them on to, for as long as they like. They are never written again: only what lies behind the cursor is ever
/// handed out, and when its end is reached the *next* page is abandoned (`MADV_DONTNEED`) and the kernel supplies a fresh
/// one for the same addresses. What holds the old page keeps it, unchanged. This is sound for private anonymous memory
/// only, which this is, and while no other process has the pages: a forked child gets zeroes (`MADV_WIPEONFORK`).
#[derive(Debug)]
pub(crate) struct Lend {
    start: NonNull<u8>,
    /// Bytes of a page.
    page: usize,
    /// Which page is being lent.
    current: usize,
    /// Where in it.
    cursor: usize,
    /// Which page is not gone round.
    aside: usize,
    /// Whether that one was lent, and somebody may hold it.
    aside_was_lent: bool,
}

// SAFETY: `Lend` is the only owner of its mapping, which any thread may use and unmap.
unsafe impl Send for Lend {}
// SAFETY: `&Lend` gives no access to the memory.
unsafe impl Sync for Lend {}

/// Larger huge pages (512 MiB with 64 KiB base pages) are too much memory to lend and to zero at a time.
const LARGEST: usize = 4 << 20;

/// `MADV_COLLAPSE` of include/uapi/asm-generic/mman-common.h, which not every C library names.
const COLLAPSE: libc::c_int = 25;

impl Lend {
    /// Maps the addresses, and proves that the kernel gives a huge page for them.
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
        let mut lend = Self {
            start,
            page,
            current: 0,
            cursor: 0,
            aside: ROUND,
            aside_was_lent: false,
        };
        lend.advise(0..PAGES * page, Advice::LinuxHugepage)
            .map_err(refused)?;
        // A forked child must not have these pages. It would make both sides copy them on write; and kernels before 5.18 give
        // a page to the last process that has it mapped to write to, whoever else holds it.
        wipe_on_fork(start, PAGES * page).map_err(|e| {
            Error::system(
                "no memory that a forked child gets empty",
                e,
                "a sandbox may forbid madvise",
            )
        })?;
        lend.bring_in()?;
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

    /// Where a page lies.
    fn bytes_of(&self, page: usize) -> Range<usize> {
        page * self.page..(page + 1) * self.page
    }

    /// Bytes that can be handed out before the next page must be taken.
    pub(crate) fn room(&self) -> usize {
        self.page - self.cursor
    }

    /// Bytes of a page.
    pub(crate) fn page(&self) -> usize {
        self.page
    }

    /// The bytes behind everything that was lent, to write into.
    pub(crate) fn free_mut(&mut self) -> &mut [u8] {
        let (from, room) = (self.bytes_of(self.current).start + self.cursor, self.room());
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
    /// that CPU is served first (`free_unref_page`). With `keep` we go round [`ROUND`] of them and abandon each as late as
    /// can be: the pipe cannot hold it any more, we are the last ones, and the next page that we get is the one which we have
    /// just given back, still in a cache. Else the current one is abandoned now. The reader is the last one then, and its
    /// pages travel through the lists of two CPUs, where some hundred MiB lie, and come back cold. To fill a cold page is
    /// slow, and to take it out of the cache of a CPU that is far away is slower still: so either may be better.
    ///
    /// # Errors
    /// The kernel has no huge page to give now, or has no memory. Then nothing more is handed out.
    pub(crate) fn turn(&mut self, keep: bool) -> Result<()> {
        let mut next = self.current;
        if keep {
            next = (next + 1) % PAGES;
            if next == self.aside {
                next = (next + 1) % PAGES;
            }
        }
        self.go_on_to(next)
    }

    /// Like [`turn`](Self::turn), and puts the page that was lent last aside, to ask of later whether somebody holds it.
    ///
    /// # Errors
    /// As for `turn`.
    pub(crate) fn turn_aside(&mut self) -> Result<()> {
        let next = std::mem::replace(&mut self.aside, self.current);
        self.aside_was_lent = true;
        self.go_on_to(next)
    }

    fn go_on_to(&mut self, next: usize) -> Result<()> {
        let bytes = self.bytes_of(next);
        let dropped = allow(Call::MadviseDontneed, self.page).and_then(|_| {
            // Locked memory (mlockall) has an advice of its own since Linux 5.18.
            let advised = self.advise(bytes.clone(), Advice::LinuxDontNeed);
            advised.or_else(|_| self.advise(bytes, Advice::LinuxDontneedLocked))
        });
        if dropped.is_ok() {
            (self.current, self.cursor) = (next, 0);
            if self.bring_in().is_ok() {
                return Ok(());
            }
        }
        // Not abandoned: refused for locked memory before 5.18. Or no huge page: before 6.13 a page table of small pages stays
        // when these are dropped, and the range never gets a huge one again. Either way other addresses are taken; dropping
        // the old mapping leaves its pages to those who hold them.
        self.cursor = self.page;
        *self = Self::new()?;
        Ok(())
    }

    /// Gets the current page, which was abandoned or is new, from the kernel, and proves that it is a huge one.
    fn bring_in(&mut self) -> Result<()> {
        let shown = faults::touch(self.free_mut());
        let huge = match shown {
            Shown::Huge => Some(true),
            Shown::Small => Some(false),
            Shown::Nothing => {
                let address = self.start.as_ptr() as usize + self.bytes_of(self.current).start;
                let huge = proof::huge_bytes(address, self.page, PageKind::Huge);
                huge.map(|huge| huge >= self.page)
            }
        };
        let refused = |why| {
            Error::new(
                "huge pages refused",
                why,
                "free memory, or set /sys/kernel/mm/transparent_hugepage/enabled to madvise",
            )
        };
        match huge {
            Some(true) => Ok(()),
            Some(false) => Err(refused("the kernel gave small ones").that_may_pass()),
            None => Err(refused(
                "nothing here tells whether the kernel gave huge ones",
            )),
        }
    }

    /// Whether somebody still holds the page that was put aside. False where nothing tells.
    ///
    /// `MADV_COLLAPSE` (Linux 6.1) makes a huge page of what lies in small parts, and refuses with `EAGAIN` where somebody
    /// but us has a reference to one of them (`hpage_collapse_scan_pmd`). So all but one small part is dropped, which leaves
    /// it a part of the same page, and the kernel is asked. Takes 100 µs, or 25 where the page is held.
    pub(crate) fn aside_is_held(&mut self) -> bool {
        if !self.aside_was_lent {
            return false;
        }
        let bytes = self.bytes_of(self.aside);
        let all_but_one = bytes.start + rustix::param::page_size()..bytes.end;
        let dropped = self.advise(all_but_one, Advice::LinuxDontNeed);
        let held = dropped.is_ok() && self.collapse(bytes) == Err(Errno::AGAIN);
        self.aside_was_lent = held;
        held
    }

    fn collapse(&self, bytes: Range<usize>) -> rustix::io::Result<()> {
        allow(Call::MadviseCollapse, bytes.len())?;
        // SAFETY: the range is one of our pages, so this is inside our mapping.
        let at = unsafe { self.start.as_ptr().add(bytes.start) };
        // SAFETY: our own private anonymous mapping, as in `advise`; the contents stay as they are.
        let advised = unsafe { libc::madvise(at.cast(), bytes.len(), COLLAPSE) };
        match advised {
            0 => Ok(()),
            _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
        }
    }
}

impl Drop for Lend {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nobody can use it after drop. Pages that a pipe holds stay alive without it.
        let result = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), PAGES * self.page) };
        debug_assert!(result.is_ok(), "munmap of our own mapping: {result:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::fault::inject;

    fn lend(test: &str) -> Option<Lend> {
        match Lend::new() {
            Ok(lend) => Some(lend),
            Err(e) => {
                crate::testing::watch::shout(&format!("SKIPPED {test}: {e}"));
                None
            }
        }
    }

    /// The proof that needs nothing but faults, against the one that asks the kernel.
    #[test]
    fn faults_show_the_same_as_the_page_table() {
        let Some(mut lend) = lend("faults_show_the_same") else {
            return;
        };
        for huge in [true, false, true] {
            // Before 6.13 a range that has had small pages stays so: each look has addresses of its own.
            let advice = if huge {
                Advice::LinuxHugepage
            } else {
                Advice::LinuxNoHugepage
            };
            let bytes = lend.bytes_of(if huge { 1 } else { 2 });
            (lend.current, lend.cursor) = (bytes.start / lend.page, 0);
            lend.advise(bytes.clone(), Advice::LinuxDontNeed).unwrap();
            lend.advise(bytes.clone(), advice).unwrap();
            let shown = faults::touch(lend.free_mut());
            assert_eq!(shown, if huge { Shown::Huge } else { Shown::Small });
            lend.free_mut().fill(1);
            let address = lend.start.as_ptr() as usize + bytes.start;
            if let Some(found) = proof::huge_bytes(address, lend.page, PageKind::Huge) {
                assert!(!huge || found > 0 || cannot_tell(), "{found} bytes");
                assert!(huge || found == 0, "{found} bytes");
            }
            assert_eq!(faults::touch(lend.free_mut()), Shown::Nothing);
        }
    }

    /// Without `PAGEMAP_SCAN` a range among others cannot be proven.
    fn cannot_tell() -> bool {
        let pagemap = std::fs::File::open("/proc/self/pagemap");
        !pagemap.is_ok_and(|p| super::super::scan::mapped_huge(p, 0..1).is_ok())
    }

    #[test]
    fn where_faults_cannot_be_counted_the_page_table_is_asked() {
        let faults = inject(|call, len| match call {
            Call::Getrusage => Err(Errno::PERM),
            _ => Ok(len),
        });
        let lent = Lend::new();
        drop(faults);
        if let Err(e) = lent {
            let known = ["nothing here tells", "small ones", "huge pages"];
            assert!(known.iter().any(|k| e.to_string().contains(k)), "{e}");
        }
    }

    #[test]
    fn page_that_lies_aside_is_held_until_the_last_slot_of_it_is_gone() {
        let test = "page_that_lies_aside";
        let Some(mut lend) = lend(test) else {
            return;
        };
        if lend.collapse(lend.bytes_of(0)) == Err(Errno::INVAL) {
            return crate::testing::watch::shout(&format!(
                "SKIPPED {test}: no MADV_COLLAPSE before Linux 6.1"
            ));
        }
        assert!(!lend.aside_is_held(), "it was never lent");
        for at in [0, 1 << 20, (2 << 20) - 4096] {
            let (read_end, write_end) = sys::pipe().unwrap();
            lend.skip(at);
            lend.free_mut()[..4096].fill(7);
            assert_eq!(
                lend.send(&write_end, 4096, SpliceFlags::NONBLOCK).unwrap(),
                4096
            );
            lend.turn_aside().unwrap();
            lend.free_mut().fill(8);
            assert!(lend.aside_is_held());
            assert!(lend.aside_is_held(), "asked again");
            let mut got = [0; 4096];
            assert_eq!(sys::read(&read_end, &mut got).unwrap(), 4096);
            assert_eq!(got, [7; 4096]);
            assert!(!lend.aside_is_held());
            lend.turn(true).unwrap();
        }
    }
}
