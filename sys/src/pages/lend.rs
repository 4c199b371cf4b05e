//! A few huge pages: what is written there is lent to a pipe, and the pages are abandoned to it before their addresses are
//! used again.
#![allow(unsafe_code)]

use super::huge::{AfterFork, HugePage, HugePages};
use crate::error::Result;

/// Huge pages that are lent front to back, one after the other.
///
/// When the end of the current one is reached the *next* one is abandoned (`MADV_DONTNEED`) and the kernel supplies a fresh
/// page for the same addresses. What holds the old page keeps it, unchanged. This is sound for private anonymous memory
/// only, which this is, and while no other process has the pages: a forked child gets zeroes (`MADV_WIPEONFORK`). It would
/// make both sides copy them on write; and kernels before 5.18 give a page to the last process that has it mapped to write
/// to, whoever else holds it.
#[derive(Debug)]
pub(crate) struct Lend {
    pages: HugePages,
    /// A page that was lent and is not gone round: see [`Lend::turn_aside`].
    aside: Option<HugePage>,
}

impl Lend {
    /// The first page.
    ///
    /// # Errors
    /// No huge pages, or only such as are too large to lend, or no memory.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self {
            pages: HugePages::new(HugePage::new(AfterFork::Empty)?, None)?,
            aside: None,
        })
    }

    /// The pages that are filled and lent.
    pub(crate) fn pages(&mut self) -> &mut HugePages {
        &mut self.pages
    }

    /// Goes on to a page that is fresh, the last one of `round`. Whoever holds what was lent before keeps it.
    ///
    /// A page goes back to the kernel when the last one lets go of it, into the list of free pages of *that* CPU, from which
    /// that CPU is served first (`free_unref_page`). With a round of some pages each is abandoned as late as can be: the pipe
    /// cannot hold it any more, we are the last ones, and the next page that we get is the one which we have just given back,
    /// still in a cache. With a round of one the current page is abandoned now. The reader is the last one then, and its
    /// pages travel through the lists of two CPUs, where some hundred MiB lie, and come back cold. To fill a cold page is
    /// slow, and to take it out of the cache of a CPU that is far away is slower still: so either may be better.
    ///
    /// # Errors
    /// The kernel has no huge page to give now, or has no memory. Then nothing more is handed out.
    pub(crate) fn turn(&mut self, round: usize) -> Result<()> {
        self.go_on(round, false)
    }

    /// Like [`turn`](Self::turn), and puts the page that was begun first aside, to ask of later whether somebody holds it.
    ///
    /// # Errors
    /// As for `turn`.
    pub(crate) fn turn_aside(&mut self, round: usize) -> Result<()> {
        self.go_on(round, true)
    }

    /// Puts the page that was begun first aside, and goes on to none: before all others are given back.
    pub(crate) fn put_aside(&mut self) {
        self.pages.close();
        self.aside = self.pages.take_oldest().map(|lent| lent.page);
    }

    /// The page that was put aside, for the one that is asked next.
    pub(crate) fn take_aside(&mut self) -> Option<HugePage> {
        self.aside.take()
    }

    /// Goes on with the page that another one has put aside.
    pub(crate) fn set_aside(&mut self, page: Option<HugePage>) {
        self.aside = page;
    }

    fn go_on(&mut self, round: usize, aside: bool) -> Result<()> {
        let mut next = self.pages.take_next(round).map(|lent| lent.page);
        if aside && next.is_some() {
            next = std::mem::replace(&mut self.aside, next);
        }
        let page = match next {
            Some(mut page) => {
                page.renew()?;
                page
            }
            None => HugePage::beside(self.pages.last(), AfterFork::Empty)?,
        };
        // SAFETY: the page is new: nobody but us has it.
        unsafe { self.pages.go_on_with(page) };
        Ok(())
    }

    /// Whether somebody still holds the page that was put aside. False where nothing tells.
    pub(crate) fn aside_is_held(&mut self) -> bool {
        self.aside.as_mut().is_some_and(HugePage::is_held)
    }
}
