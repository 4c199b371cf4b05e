//! A few huge pages: what is written there is lent to a pipe, and the pages are abandoned to it before their addresses are
//! used again.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd;

use super::huge::{AfterFork, HugePage, HugePages};
use crate::error::Result;
use crate::sys::SpliceFlags;

/// Huge pages that are gone round while pages are kept: see [`Lend::turn`]. With two, a pipe behind another one still holds
/// some; with six they leave the caches (`docs/measurements.md`).
const ROUND: usize = 3;

/// Huge pages that are lent front to back, one after the other.
///
/// When the end of the current one is reached the *next* one is abandoned (`MADV_DONTNEED`) and the kernel supplies a fresh
/// page for the same addresses. What holds the old page keeps it, unchanged. This is sound for private anonymous memory
/// only, which this is, and while no other process has the pages: a forked child gets zeroes (`MADV_WIPEONFORK`). It would
/// make both sides copy them on write; and kernels before 5.18 give a page to the last process that has it mapped to write
/// to, whoever else holds it.
#[derive(Debug)]
pub(crate) struct Lend {
    /// Up to [`ROUND`], and one that lies aside: see [`Lend::turn_aside`].
    pages: HugePages,
    /// Which page is not gone round; it need not be there yet.
    aside: usize,
    /// Whether that one was lent, and somebody may hold it.
    aside_was_lent: bool,
}

impl Lend {
    /// The first page.
    ///
    /// # Errors
    /// No huge pages, or only such as are too large to lend, or no memory.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            pages: HugePages::new(vec![HugePage::new(AfterFork::Empty)?]),
            aside: ROUND,
            aside_was_lent: false,
        })
    }

    /// Bytes of a page.
    pub(crate) fn page(&self) -> usize {
        self.pages.pages[0].len()
    }

    /// Bytes that can be handed out before the next page must be taken.
    pub(crate) fn room(&self) -> usize {
        self.pages.room()
    }

    /// The bytes behind everything that was lent, to write into.
    pub(crate) fn free_mut(&mut self) -> &mut [u8] {
        self.pages.free_mut()
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
        self.pages.send(fd, len, flags)
    }

    /// Leaves out the first `len` free bytes.
    pub(crate) fn skip(&mut self, len: usize) {
        self.pages.skip(len);
    }

    /// Moves on to the next page boundary, so that the next bytes take as few slots as they can.
    pub(crate) fn align(&mut self) {
        self.pages.align();
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
        let mut next = self.pages.current();
        if keep {
            next = (next + 1) % (ROUND + 1);
            if next == self.aside {
                next = (next + 1) % (ROUND + 1);
            }
        }
        self.go_on_to(next)
    }

    /// Like [`turn`](Self::turn), and puts the page that was lent last aside, to ask of later whether somebody holds it.
    ///
    /// # Errors
    /// As for `turn`.
    pub(crate) fn turn_aside(&mut self) -> Result<()> {
        let next = std::mem::replace(&mut self.aside, self.pages.current());
        self.aside_was_lent = true;
        self.go_on_to(next)
    }

    fn go_on_to(&mut self, next: usize) -> Result<()> {
        self.pages.close();
        // Pages come as they are needed, and not always in order.
        while self.pages.pages.len() < next {
            self.pages.pages.push(HugePage::new(AfterFork::Empty)?);
        }
        match self.pages.pages.get_mut(next) {
            Some(page) => page.renew()?,
            None => self.pages.pages.push(HugePage::new(AfterFork::Empty)?),
        }
        // SAFETY: the page is new: nobody but us has it.
        unsafe { self.pages.go_on_to(next) };
        Ok(())
    }

    /// Whether somebody still holds the page that was put aside. False where nothing tells.
    pub(crate) fn aside_is_held(&mut self) -> bool {
        self.aside_was_lent = self.aside_was_lent && self.pages.pages[self.aside].is_held();
        self.aside_was_lent
    }
}
