//! One huge page of our own, to be lent to a pipe, and several of them, lent front to back.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::Advice;

use super::faults::{self, Shown};
use super::forked::{Owner, WIPE_ON_FORK, wipe_on_fork};
use super::queue::Queue;
use super::turns::{LentAt, Turns};
use super::{PageKind, map_aligned, map_beside, page_size, proof};
use crate::calls::fault::{Call, allow};
use crate::calls::{self, SpliceFlags};
use crate::error::{Error, Result};
use crate::reason::Reason;
use crate::size::Size;

/// Larger huge pages (32 MiB with 16 KiB base pages, 512 MiB with 64 KiB) are too much memory to lend and to zero at a time.
const LARGEST: usize = 4 << 20;
/// `MADV_COLLAPSE` of include/uapi/asm-generic/mman-common.h, which not every C library names.
pub(super) const COLLAPSE: libc::c_int = 25;

/// What a forked child finds at the addresses of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterFork {
    /// Zeroes.
    Empty,
    /// The same bytes, copied when either side writes.
    Copied,
}

/// Addresses of one huge page of private anonymous memory. Unmapped when dropped; whoever holds the page keeps it.
#[derive(Debug)]
pub(crate) struct HugePage {
    start: NonNull<u8>,
    len: usize,
    after_fork: AfterFork,
}

// SAFETY: `HugePage` is the only owner of its mapping, which any thread may use and unmap.
unsafe impl Send for HugePage {}
// SAFETY: `&HugePage` gives no access to the memory.
unsafe impl Sync for HugePage {}

impl HugePage {
    /// Maps the addresses, and proves that the kernel gives a huge page for them.
    ///
    /// # Errors
    /// No huge pages, or only such as are too large to lend, or no memory.
    pub(crate) fn new(after_fork: AfterFork) -> Result<Self> {
        Self::beside(None, after_fork)
    }

    /// The same, if possible just below another one: mappings that touch each other become one, and a child is made and gone
    /// sooner where there are fewer.
    pub(super) fn beside(other: Option<&Self>, after_fork: AfterFork) -> Result<Self> {
        let len = page_size(PageKind::Huge)?;
        if len > LARGEST {
            let why = format!("huge pages are of {} here", Size(len as u64));
            let reason = Reason::Unsupported(why.into());
            return Err(Error::because("huge pages cannot be lent", reason));
        }
        let refused =
            |call, e| Error::refused("no memory to lend to a pipe", call, e, "free memory");
        let beside = other.and_then(|other| map_beside(other.start, len));
        let start = match beside {
            Some(start) => start,
            None => map_aligned(len, len).map_err(|e| refused("mmap", e))?,
        };
        let mut page = Self {
            start,
            len,
            after_fork,
        };
        page.advise(0..len, Advice::LinuxHugepage)
            .map_err(|e| refused("madvise(MADV_HUGEPAGE)", e))?;
        if after_fork == AfterFork::Empty {
            wipe_on_fork(start, len).map_err(|e| {
                Error::refused(
                    "no memory that a forked child gets empty",
                    WIPE_ON_FORK,
                    e,
                    "a sandbox may forbid madvise",
                )
            })?;
        }
        page.bring_in()?;
        Ok(page)
    }

    /// Bytes of it.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where it is.
    pub(super) fn addresses(&self) -> Range<usize> {
        let start = self.start.as_ptr() as usize;
        start..start + self.len
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is ours, initialised by the kernel or by us, and `&mut self` is the only access.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    fn advise(&self, bytes: Range<usize>, advice: Advice) -> rustix::io::Result<()> {
        debug_assert!(bytes.start <= bytes.end && bytes.end <= self.len);
        // SAFETY: callers ask for a part of our mapping, so this is inside it or just past it.
        let at = unsafe { self.start.as_ptr().add(bytes.start) };
        // SAFETY: the range is a part of our own private anonymous mapping. No reference into it exists while `&self` is
        // held here, since references are only handed out by `&mut self`; DONTNEED makes it zero, which is valid for bytes.
        unsafe { rustix::mm::madvise(at.cast(), bytes.len(), advice) }
    }

    /// Leaves the page to whoever holds it, and gets another one from the kernel for the same addresses, or for others.
    ///
    /// # Errors
    /// The kernel has no huge page to give now, or has no memory. Then the page must not be written.
    pub(crate) fn renew(&mut self) -> Result<()> {
        let dropped = allow(Call::MadviseDontneed, self.len).and_then(|_| {
            // Locked memory (mlockall) has an advice of its own since Linux 5.18.
            let advised = self.advise(0..self.len, Advice::LinuxDontNeed);
            advised.or_else(|_| self.advise(0..self.len, Advice::LinuxDontneedLocked))
        });
        if dropped.is_ok() && self.bring_in().is_ok() {
            return Ok(());
        }
        // Not abandoned: refused for locked memory before 5.18. Or no huge page: before 6.13 a page table of small pages stays
        // when these are dropped, and the range never gets a huge one again. Either way other addresses are taken; dropping
        // the old mapping leaves its page to those who hold it.
        *self = Self::new(self.after_fork)?;
        Ok(())
    }

    /// Gets the page, which was abandoned or is new, from the kernel, and proves that it is a huge one.
    fn bring_in(&mut self) -> Result<()> {
        let mut shown = faults::touch_new(self.bytes_mut());
        // A turn that another thread makes in between looks like small pages, too. Not so the next time.
        for _ in 0..2 {
            if shown == Shown::Small && self.advise(0..self.len, Advice::LinuxDontNeed).is_ok() {
                shown = faults::touch_new(self.bytes_mut());
            }
        }
        let huge = match shown {
            Shown::Huge => Some(true),
            Shown::Small => Some(false),
            Shown::Nothing => {
                let address = self.start.as_ptr() as usize;
                let huge = proof::huge_bytes(address, self.len, PageKind::Huge);
                huge.map(|huge| huge >= self.len)
            }
        };
        let refused = |reason| Error::because("huge pages refused", reason);
        let unknown = "nothing here tells whether the kernel gave huge pages";
        match huge {
            Some(true) => Ok(()),
            Some(false) => Err(refused(Reason::NoHugePages).that_may_pass()),
            None => Err(refused(Reason::Unsupported(unknown.into()))),
        }
    }

    /// Writes to its first and its last small page without changing them, and counts the faults.
    pub(crate) fn touch(&mut self) -> Shown {
        faults::touch_same(self.bytes_mut())
    }

    /// Whether somebody still holds the page, which nobody may write to any more. False where nothing tells.
    ///
    /// `MADV_COLLAPSE` (Linux 6.1) makes a huge page of what lies in small parts, and refuses with `EAGAIN` where somebody
    /// but us has a reference to one of them (`hpage_collapse_scan_pmd`). So all but one small part is dropped, which leaves
    /// it a part of the same page, and the kernel is asked. Takes 100 µs, or 25 where the page is held.
    pub(crate) fn is_held(&mut self) -> bool {
        let all_but_one = rustix::param::page_size()..self.len;
        let dropped = self.advise(all_but_one, Advice::LinuxDontNeed);
        dropped.is_ok() && self.collapse() == Err(Errno::AGAIN)
    }

    fn collapse(&self) -> rustix::io::Result<()> {
        allow(Call::MadviseCollapse, self.len)?;
        // SAFETY: our own private anonymous mapping, as in `advise`; the contents stay as they are.
        let advised = unsafe { libc::madvise(self.start.as_ptr().cast(), self.len, COLLAPSE) };
        match advised {
            0 => Ok(()),
            _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
        }
    }
}

impl Drop for HugePage {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nobody can use it after drop. A page that a pipe holds stays alive without it.
        let result = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(result.is_ok(), "munmap of our own mapping: {result:?}");
    }
}

/// Huge pages that are filled front to back, one after the other, and lent.
///
/// What is filled is lent at once ([`send`](Self::send)), or waits in a queue and is lent later
/// ([`put`](Self::put), [`send_queued`](Self::send_queued)).
///
/// Bytes of the current page before `cursor`, and all of the other pages, may wait or may be held by a pipe, or by whoever the
/// reader has passed them on to, for as long as they like. Only what lies behind the cursor is ever handed out. How the owner
/// of this type makes another page fit to be written decides whether what others hold stays as it is: see
/// [`go_on_with`](Self::go_on_with).
#[derive(Debug)]
pub(crate) struct HugePages {
    /// The one that was begun first comes first; the last one is being filled.
    pages: VecDeque<Lent>,
    /// Number of the first of them: each gets another number whenever it is begun.
    first: u64,
    cursor: usize,
    queue: Queue,
    /// Whose queue it is: a forked child must not send it once more.
    owner: Owner,
    /// Where it matters when a page was lent.
    turns: Option<&'static Turns>,
}

/// A page, and when the last bytes of it were lent; `None` where none were since it was new.
#[derive(Debug)]
pub(super) struct Lent {
    pub(super) page: HugePage,
    pub(super) at: Option<LentAt>,
}

impl Lent {
    /// A page that nobody else has.
    pub(super) fn never(page: HugePage) -> Self {
        Self { page, at: None }
    }
}

impl HugePages {
    /// This page, which nobody else has ever seen. With `turns` it is noted when each page was lent.
    ///
    /// # Errors
    /// A forked child could not be told from this process.
    pub(super) fn new(page: HugePage, turns: Option<&'static Turns>) -> Result<Self> {
        Ok(Self {
            pages: VecDeque::from([Lent::never(page)]),
            first: 0,
            cursor: 0,
            queue: Queue::default(),
            owner: Owner::this_process()?,
            turns,
        })
    }

    /// Bytes of a page; one where there is none.
    pub(crate) fn page_len(&self) -> usize {
        self.last().map_or(1, HugePage::len)
    }

    /// Bytes of all pages.
    pub(crate) fn bytes(&self) -> usize {
        self.pages.len() * self.page_len()
    }

    /// How many pages there are.
    fn count(&self) -> usize {
        self.pages.len()
    }

    /// The page that was begun last, to map another one beside it.
    pub(super) fn last(&self) -> Option<&HugePage> {
        self.pages.back().map(|l| &l.page)
    }

    #[cfg(test)]
    pub(super) fn last_mut(&mut self) -> &mut HugePage {
        &mut self.pages.back_mut().expect("a page").page
    }

    /// Bytes that can be handed out before another page must be gone on to.
    pub(crate) fn room(&self) -> usize {
        self.pages.back().map_or(0, |l| l.page.len - self.cursor)
    }

    /// The bytes behind everything that was lent or waits, to write into.
    pub(crate) fn free_mut(&mut self) -> &mut [u8] {
        match self.pages.back_mut() {
            Some(last) => &mut last.page.bytes_mut()[self.cursor..],
            None => &mut [],
        }
    }

    /// Lends the first `len` free bytes to a pipe. Returns how many the pipe took; the rest stays free, as it was
    /// written. Nothing may wait.
    ///
    /// # Errors
    /// What `vmsplice(2)` reports; then nothing was lent.
    pub(crate) fn send(
        &mut self,
        fd: impl AsFd,
        len: usize,
        flags: SpliceFlags,
    ) -> io::Result<usize> {
        debug_assert_eq!(self.queue.bytes(), 0, "what waits comes first");
        let bytes = &mut self.free_mut()[..len];
        // SAFETY: bytes that the pipe takes are behind the cursor from here on, and are not written again: not by
        // `free_mut`, which hands out what is before it, and not after `go_on_with`, whose callers have made sure.
        let taken = unsafe { calls::vmsplice(fd, bytes, flags) }?;
        self.cursor += taken.min(len);
        self.note_lent(self.pages.len().saturating_sub(1));
        Ok(taken)
    }

    fn note_lent(&mut self, page: usize) {
        if let (Some(turns), Some(lent)) = (self.turns, self.pages.get_mut(page)) {
            lent.at = Some(turns.lent_now());
        }
    }

    /// Lets the first `len` free bytes wait until they are lent. They are not handed out any more.
    pub(crate) fn put(&mut self, len: usize) {
        let len = len.min(self.room());
        self.forget_what_is_the_parents();
        let last = self.first + self.pages.len().saturating_sub(1) as u64;
        self.queue.put(last, self.cursor..self.cursor + len);
        self.cursor += len;
    }

    /// Bytes that wait.
    pub(crate) fn queued(&mut self) -> usize {
        self.forget_what_is_the_parents();
        self.queue.bytes()
    }

    /// The process that has put them there sends them.
    fn forget_what_is_the_parents(&mut self) {
        if self.owner.is_this_process() {
            return;
        }
        self.queue.clear();
        // Were that refused, nothing could be told from now on, and nothing would ever wait.
        if let Ok(owner) = Owner::this_process() {
            self.owner = owner;
        }
    }

    /// The first bytes that wait, at most `most`; none where none do.
    pub(crate) fn next_queued(&mut self, most: usize) -> &mut [u8] {
        match self.queue.first() {
            Some(piece) => {
                let page = &mut self.pages[(piece.page - self.first) as usize].page;
                let bytes = &mut page.bytes_mut()[piece.bytes];
                let len = bytes.len().min(most);
                &mut bytes[..len]
            }
            None => &mut [],
        }
    }

    /// Forgets the first `len` bytes that wait, which have been sent some other way.
    pub(crate) fn skip_queued(&mut self, len: usize) {
        self.queue.take(len);
    }

    /// Lends up to `most` of the bytes that wait. Returns how many the pipe took; the others wait on.
    ///
    /// # Errors
    /// What `vmsplice(2)` reports; then nothing was lent.
    pub(crate) fn send_queued(
        &mut self,
        fd: impl AsFd,
        most: usize,
        flags: SpliceFlags,
    ) -> io::Result<usize> {
        let Some(piece) = self.queue.first() else {
            return Ok(0);
        };
        let bytes = self.next_queued(most);
        let len = bytes.len();
        // SAFETY: what waits is behind the cursor of its page, or in a page that is not the last one: nothing hands it out. Its
        // page is not begun again while a part of it waits (`take_oldest`), and after that as in `send`.
        let taken = unsafe { calls::vmsplice(fd, bytes, flags) }?.min(len);
        self.note_lent((piece.page - self.first) as usize);
        self.queue.take(taken);
        Ok(taken)
    }

    /// Leaves out the first `len` free bytes.
    pub(crate) fn skip(&mut self, len: usize) {
        self.cursor += len.min(self.room());
    }

    /// Moves on to the next boundary of a small page, so that the next bytes take as few slots as they can.
    pub(crate) fn align(&mut self) {
        let to = self.cursor.next_multiple_of(rustix::param::page_size());
        self.skip(to - self.cursor);
    }

    /// Hands nothing more out.
    pub(super) fn close(&mut self) {
        self.skip(self.room());
    }

    /// Hands nothing more out, and takes out the page that is begun again next where `round` pages are gone round; `None` where
    /// there are fewer, or what comes next still waits. Pages of a longer round, or of a longer queue, are given back.
    pub(super) fn take_next(&mut self, round: usize) -> Option<Lent> {
        self.close();
        while self.count() > round.max(1) && self.take_oldest().is_some() {}
        if self.count() < round.max(1) {
            return None;
        }
        self.take_oldest()
    }

    /// Takes the page out that was begun before all others, unless a part of it waits. Whoever holds it keeps it.
    pub(super) fn take_oldest(&mut self) -> Option<Lent> {
        if self.queue.holds(self.first) {
            return None;
        }
        let oldest = self.pages.pop_front()?;
        self.first += 1;
        if self.pages.is_empty() {
            self.cursor = 0; // of no page
        }
        Some(oldest)
    }

    /// Hands out a page from its beginning, which is not one of these.
    ///
    /// # Safety
    /// What others hold of that page must not change when it is written: it is a new one ([`HugePage::renew`]), or was made
    /// copy-on-write after it was lent for the last time.
    pub(super) unsafe fn go_on_with(&mut self, page: HugePage) {
        self.pages.push_back(Lent::never(page));
        self.cursor = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::fault::inject;

    fn page(test: &str) -> Option<HugePage> {
        match HugePage::new(AfterFork::Empty) {
            Ok(page) => Some(page),
            Err(e) => {
                crate::testing::watch::skip(test, e);
                None
            }
        }
    }

    /// The proof that needs nothing but faults, against the one that asks the kernel.
    #[test]
    fn faults_show_the_same_as_the_page_table() {
        for huge in [true, false, true] {
            let Some(mut page) = page("faults_show_the_same") else {
                return;
            };
            // Before 6.13 a range that has had small pages stays so: each look has addresses of its own.
            if !huge {
                page.advise(0..page.len, Advice::LinuxDontNeed).unwrap();
                page.advise(0..page.len, Advice::LinuxNoHugepage).unwrap();
                assert_eq!(faults::touch_new(page.bytes_mut()), Shown::Small);
            }
            page.bytes_mut().fill(1);
            let address = page.start.as_ptr() as usize;
            if let Some(found) = proof::huge_bytes(address, page.len, PageKind::Huge) {
                assert!(!huge || found > 0 || cannot_tell(), "{found} bytes");
                assert!(huge || found == 0, "{found} bytes");
            }
            assert_eq!(page.touch(), Shown::Nothing);
            assert!(
                page.bytes_mut().iter().all(|&b| b == 1),
                "a touch changes nothing"
            );
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
        let page = HugePage::new(AfterFork::Empty);
        drop(faults);
        if let Err(e) = page {
            let known = ["nothing here tells", "small ones", "huge pages"];
            assert!(known.iter().any(|k| e.to_string().contains(k)), "{e}");
        }
    }

    #[test]
    fn page_is_held_until_the_last_slot_of_it_is_gone() {
        let test = "page_is_held_until";
        let Some(first) = page(test) else {
            return;
        };
        if first.collapse() == Err(Errno::INVAL) {
            return crate::testing::watch::skip(test, "no MADV_COLLAPSE before Linux 6.1");
        }
        for at in [0, 1 << 20, (2 << 20) - 4096] {
            let page = HugePage::new(AfterFork::Empty).unwrap();
            let mut pages = HugePages::new(page, None).unwrap();
            let (read_end, write_end) = calls::pipe().unwrap();
            pages.skip(at);
            pages.free_mut()[..4096].fill(7);
            assert_eq!(
                pages.send(&write_end, 4096, SpliceFlags::NONBLOCK).unwrap(),
                4096
            );
            let page = pages.last_mut();
            assert!(page.is_held());
            assert!(page.is_held(), "asked again");
            let mut got = [0; 4096];
            assert_eq!(calls::read(&read_end, &mut got).unwrap(), 4096);
            assert_eq!(got, [7; 4096]);
            assert!(!page.is_held());
        }
    }
}
