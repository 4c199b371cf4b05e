//! Memory of the caller's, lent to private pipes and made copy-on-write before anybody sees a byte of it.
//!
//! # Why it is sound
//! The bytes are only borrowed: nobody writes to them until [`queue`] returns, and whoever owns them may do so in the next
//! instruction. So when it returns, a write by this process must leave alone what the private pipes hold. It goes so:
//!
//! 1. The pages are lent to private pipes (`vmsplice(2)`), which from now on have a reference to each.
//! 2. A child is made that shares the memory (`clone(2)` without `CLONE_VM`, a [turn](super::turns)), and stays.
//! 3. While it is there each page must be anonymous, and mapped by another process as well (bits 61 and 56 of
//!    `/proc/self/pagemap`), in memory that is private and not hugetlb (`PROCMAP_QUERY`), and still by a huge entry of the page
//!    table (`PAGEMAP_SCAN`).
//! 4. The child is told to leave, and what the private pipes hold may go wherever it is to go.
//!
//! A page of anonymous memory that two processes have mapped belongs to neither alone: `PageAnonExclusive` is not set, and
//! neither may write to it but by a fault (`do_wp_page`, `do_huge_pmd_wp_page`). That fault gives the page itself to whoever
//! has the only reference (`wp_can_reuse_anon_folio`, since Linux 5.18), and a copy to anybody else. The pipes' references
//! count, however far they have travelled. Nor does the page become exclusive in another way: swapping it in
//! (`do_swap_page`), pinning it (`FAULT_FLAG_UNSHARE`), moving it (`migrate_pages`) and merging it (`collapse_huge_page`) all
//! look at the references.
//!
//! The look in step 3 is a proof, not a precaution. `MADV_DONTFORK` and `MADV_WIPEONFORK` keep memory from the child; pages
//! that are pinned (registered with `io_uring` or a device, which then writes to them without any fault) are copied for it;
//! and both may change between two calls. None of these pages is mapped twice then, so it shows. Nor does a child that was
//! killed too early do any harm: nothing is mapped twice any more. Nor does another process that shares the memory: it does not
//! matter which one that is. What the bits mean on this kernel is tried once in each process ([`try_the_look`]).
//!
//! When the bytes have gone on, the child is waited for: until it has gone, a page that is written to would be copied.
//!
//! Whatever fails up to here, the private pipes are dropped and nobody has seen anything: the bytes are copied then.

#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::huge::{AfterFork, COLLAPSE, HugePage};
use super::lookup::Lookup;
use super::turns::{Leaving, Turns};
use crate::calls::SpliceFlags;
use crate::calls::fault::{Call, LeaveOut, allow, leaves_out};
use crate::capacity::MOST_UNASKED;
use crate::error::{Error, Result};
use crate::private::Private;
use crate::reason::Reason;

/// Bytes of a slice that are whole huge pages of so many bytes, as offsets.
pub(crate) fn whole_pages(bytes: &[u8], page: usize) -> Range<usize> {
    let address = bytes.as_ptr() as usize;
    let start = address.next_multiple_of(page) - address;
    let end = (address + bytes.len()) / page * page;
    start..end.saturating_sub(address).max(start)
}

/// Bytes that lie in private pipes, and that nobody can change any more.
#[derive(Debug)]
pub(crate) struct Queue {
    /// The first one first.
    pipes: Vec<Private>,
    child: Option<Leaving>,
    /// How long it took to make the child, and to look.
    took: Duration,
}

impl Queue {
    /// Moves up to `len` bytes on, not beyond the end of a private pipe.
    ///
    /// # Errors
    /// Those of `to`; nothing was moved then.
    pub(crate) fn deliver(
        &mut self,
        to: impl AsFd,
        len: usize,
        flags: SpliceFlags,
    ) -> io::Result<usize> {
        while let Some(first) = self.pipes.first_mut() {
            if first.held() > 0 {
                return first.deliver(to, len, flags);
            }
            self.pipes.remove(0);
        }
        Ok(0)
    }

    /// Waits until memory that was lent is not copied any more when it is written to, unless somebody holds it. Returns how long
    /// the turn took in all.
    ///
    /// # Errors
    /// The child does not leave, or is lost.
    pub(crate) fn finish(self) -> Result<Duration> {
        let start = Instant::now();
        drop(self.pipes);
        self.child.map_or(Ok(()), Leaving::wait)?;
        Ok(self.took + start.elapsed())
    }
}

/// What has become of the first bytes of a part.
#[derive(Debug)]
pub(crate) enum Part {
    /// So many are lent.
    Lent(Queue, usize),
    /// So many cannot be, for this reason.
    Refused(usize, &'static str),
}

/// Lends the first bytes of `part`, which must be whole huge pages, as far as they are huge; fewer than `least` are not worth
/// it. What has become small pages is made huge again: a turn of another thread does that to memory that is being written to.
///
/// # Errors
/// Nothing can be lent, whatever the memory, or not now. Nobody has seen anything then.
pub(crate) fn queue(part: &[u8], least: usize) -> Result<Part> {
    let lookup = Lookup::new()?;
    let start = part.as_ptr() as usize;
    let all = start..start + part.len();
    let mut huge = lookup.huge(all.clone())?;
    if huge != [all.clone()] && lookup.is_private(all.clone())? && collapse(part) {
        huge = lookup.huge(all)?;
    }
    let range = match huge.first() {
        Some(huge) if huge.start == start => huge.clone(),
        Some(huge) => return Ok(Part::Refused(huge.start - start, SMALL)),
        None => return Ok(Part::Refused(part.len(), SMALL)),
    };
    let len = range.len();
    if len < least {
        return Ok(Part::Refused(len, "too little of it is in huge pages"));
    }
    let looks = !leaves_out(LeaveOut::Look);
    if looks && !lookup.is_private(range.clone())? {
        return Ok(Part::Refused(
            len,
            "it is shared, of a file, or of hugetlb pages",
        ));
    }
    let mut queue = Queue {
        pipes: Vec::new(),
        child: None,
        took: Duration::ZERO,
    };
    let mut queued = 0;
    while queued < len {
        let mut pipe = Private::new()?;
        // Refused where this user has too many pipes just now.
        let granted = pipe.set_capacity(MOST_UNASKED);
        granted.map_err(Error::that_may_pass)?;
        // SAFETY: nobody writes to the bytes while they are borrowed, and later writes go to a copy while anybody holds
        // the pages: that is proven below, or else nobody but this pipe has ever held them, and it is dropped.
        let taken = unsafe { pipe.lend(&part[queued..len]) };
        queued += taken.map_err(|e| {
            Error::refused(
                "memory cannot be lent",
                "vmsplice",
                e,
                "a sandbox may forbid it",
            )
        })?;
        queue.pipes.push(pipe);
    }
    if leaves_out(LeaveOut::Turn) {
        return Ok(Part::Lent(queue, len));
    }
    let start = Instant::now();
    let alone = Turns::of_this_process()?.alone()?;
    let (proven, child) = alone.turn_and_meanwhile(|| is_proven(&lookup, range))?;
    if !proven? && looks {
        return Ok(Part::Refused(len, NOT_SHARED));
    }
    queue.child = Some(child);
    queue.took = start.elapsed();
    Ok(Part::Lent(queue, len))
}

const SMALL: &str = "it is not in huge pages";
const NOT_SHARED: &str =
    "a forked child does not share it (MADV_DONTFORK), or something has pinned it";

/// Tries whether the tables tell what they are asked: of a page that is ours alone, and then of one that a child has, too.
///
/// # Errors
/// They do not, or no huge page or no child is available.
pub(crate) fn try_the_look() -> Result<()> {
    let lookup = Lookup::new()?;
    let page = HugePage::new(AfterFork::Copied)?;
    let range = page.addresses();
    let turns = Turns::of_this_process()?;
    // Other threads may have children just now, which have the page as well.
    for _ in 0..20 {
        let alone = turns.alone()?;
        let once = lookup.is_mapped_once(range.clone())?;
        let (proven, child) = alone.turn_and_meanwhile(|| is_proven(&lookup, range.clone()))?;
        child.wait()?;
        if once && proven? && lookup.is_private(range.clone())? {
            return Ok(());
        }
    }
    let what = "nothing tells whether a forked child shares memory";
    let why = "/proc/self/pagemap does not show here whether a forked child shares memory";
    Err(Error::because(what, Reason::Unsupported(why.into())))
}

/// Makes a huge page again of what became small pages when it was written to while somebody held it (`MADV_COLLAPSE`, Linux
/// 6.1). Takes as long as a copy, of those only; it fails while somebody still holds one of them.
fn collapse(part: &[u8]) -> bool {
    let start = part.as_ptr().cast_mut().cast();
    let advised = allow(Call::MadviseCollapse, part.len()).is_ok().then(|| {
        // SAFETY: the kernel copies the bytes to other pages of the same addresses, as it may at any time; whoever reads them
        // meanwhile waits.
        unsafe { libc::madvise(start, part.len(), COLLAPSE) }
    });
    // Where it fails for some it may have been done for others.
    advised.is_some()
}

/// What must be so while the child is there. In this order: a page that is huge in the end was so when its entries were looked
/// at, since the kernel does not make huge pages of such as a pipe holds.
fn is_proven(lookup: &Lookup, range: Range<usize>) -> Result<bool> {
    Ok(lookup.is_mapped_elsewhere(range.clone())? && lookup.huge(range.clone())? == [range])
}
