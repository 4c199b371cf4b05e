//! [`Unbuffered::lend`]: the caller's own memory, not copied.

#[cfg(test)]
#[allow(unsafe_code)]
mod tests;

use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::sending::open;
use super::worth::Worth;
use super::{Unbuffered, Way, is_refusal};
use crate::error::Error;
use crate::pages::{PageKind, Part, page_size, queue, turn, whole_pages};
use crate::probe;
use crate::reason::Reason;
use crate::write::fresh::PIECE;

/// Bytes that one turn serves at most: 16 private pipes, a quarter of what a user may have without privilege.
const AT_ONCE: usize = 16 << 20;
/// Larger huge pages (32 MiB with base pages of 16 KiB) would be too much to copy where they are still held.
const LARGEST: usize = 4 << 20;
/// How long memory that could not be lent, or all of it, is not asked about again: at first, and at most.
const PAUSE: Range<Duration> = Duration::from_millis(20)..Duration::from_secs(5);
/// So many pieces of memory are remembered.
const REMEMBERED: usize = 8;

/// What a writer knows about lending.
#[derive(Debug, Default)]
pub(super) struct Lending {
    bytes: u64,
    why_not: Option<Reason>,
    worth: Worth,
    /// Refused for all memory.
    refused: Option<Refusal>,
    /// Memory that was refused of late, by its addresses.
    memory: Vec<(Range<usize>, Refusal)>,
    /// Why the last part that was refused for what it is was so.
    of_memory: Option<&'static str>,
}

#[derive(Debug)]
struct Refusal {
    why: Reason,
    /// `None` means for good.
    until: Option<Instant>,
    pause: Duration,
}

impl Refusal {
    fn new(why: Reason, may_pass: bool, before: Option<&Self>) -> Self {
        let pause = before.map_or(PAUSE.start, |before| (before.pause * 2).min(PAUSE.end));
        Self {
            why,
            until: may_pass.then(|| Instant::now() + pause),
            pause,
        }
    }

    fn holds(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

impl Lending {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn why_not(&self) -> Option<Reason> {
        self.why_not.clone()
    }

    /// Lends nothing more for a while, or at all. Returns why.
    fn refuse_all(&mut self, error: &Error) -> Reason {
        let why = Reason::from(error);
        self.why_not = Some(why.clone());
        let refusal = Refusal::new(why.clone(), error.is_passing(), self.refused.as_ref());
        self.refused = Some(refusal);
        why
    }

    fn refuse_memory(&mut self, addresses: Range<usize>, why: &'static str) {
        let is_it = |(range, _): &(Range<usize>, _)| overlap(range, &addresses);
        let before = self
            .memory
            .iter()
            .position(is_it)
            .map(|i| self.memory.remove(i));
        let refusal = Refusal::new(Reason::Memory(why), true, before.as_ref().map(|(_, r)| r));
        if self.memory.len() == REMEMBERED {
            self.memory.remove(0);
        }
        self.memory.push((addresses, refusal));
    }

    /// Why these addresses, or any, are not to be asked about now.
    fn is_refused(&self, addresses: &Range<usize>) -> Option<&Reason> {
        let of_memory = self.memory.iter().filter(|(r, _)| overlap(r, addresses));
        let mut refusals = self.refused.iter().chain(of_memory.map(|(_, r)| r));
        let now = Instant::now();
        refusals.find(|r| r.holds(now)).map(|r| &r.why)
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Bytes of a huge page, where such pages are lent.
fn huge_page() -> Option<usize> {
    static HUGE_PAGE: OnceLock<Option<usize>> = OnceLock::new();
    let size = || {
        page_size(PageKind::Huge)
            .ok()
            .filter(|&size| size <= LARGEST)
    };
    *HUGE_PAGE.get_or_init(size)
}

impl<Fd: AsFd> Unbuffered<Fd> {
    /// Sends bytes that the caller keeps, without copying them where that is possible and faster. They may be changed as soon as
    /// this returns, whoever still holds them: see below.
    ///
    /// Like [`write`](Write::write), except that a pipe that blocks takes all of it. Returns how many bytes the pipe took.
    ///
    /// # What is lent
    /// Whole huge pages (2 MiB on x86-64) of private anonymous memory, as many as make it worth the while: what lies before,
    /// behind and between is copied, in order. Memory is in huge pages where it was mapped so
    /// ([`Pages`](crate::pages::Pages) of [`PageKind::Huge`]), or `transparent_hugepage/enabled` is `always`, or the allocator
    /// asks for it. It is copied, as by `write`,
    /// - unless the writer allows [`copy_on_write`](Self::copy_on_write), which says what that does to the process: each call
    ///   that lends makes a child, for every 16 MiB;
    /// - where another way than [`Way::Cow`] is forced (with that one it lends, no matter whether copying is faster);
    /// - into what is not a pipe, or a pipe of packets, or one that does not block;
    /// - before Linux 6.11, without `/proc`, or where a sandbox forbids `clone` or `vmsplice`;
    /// - where the memory is shared, or of a file, or of hugetlb pages, or kept from forked children (`MADV_DONTFORK`,
    ///   `MADV_WIPEONFORK`), or pinned by a device or `io_uring`, or still shared with a forked child;
    /// - where the turn would take more than a third of the time of copying, or where copying was found to be faster: both are
    ///   tried from time to time.
    ///
    /// [`bytes_lent`](Self::bytes_lent) says how many bytes were lent, and [`path`](Self::path) why the last call copied.
    ///
    /// # Why it is sound
    /// Before anything goes into the pipe, the pages lie in private pipes, and all private memory of the process is made
    /// copy-on-write by a child that leaves at once. That each of these pages was shared with the child is looked up while it
    /// is there (`/proc/self/pagemap`). From then on the first write to a page is a fault in which the kernel looks whether
    /// anybody else has a reference to it, a pipe or a socket however far down: then what is written goes to a copy
    /// (`do_wp_page`, `do_huge_pmd_wp_page`, `wp_can_reuse_anon_folio`, since Linux 5.18, which is tried once in each process).
    /// So bytes that were sent never change, whether the memory is written to, freed, unmapped, or used by a forked child.
    ///
    /// # What it costs
    /// The turn, 60 to 200 µs and more in a process with much memory; afterwards a fault for each huge page that is written to.
    /// A huge page that is still held when it is written to becomes small pages, which are copied one by one. Up to 32
    /// descriptors while it works. Pages that were lent stay in memory for as long as anybody holds a byte of them.
    ///
    /// # Errors
    /// As for `write`. What moved before an error is returned as a count, and the error by the next call.
    ///
    /// # Examples
    /// ```
    /// # let (reader, pipe) = std::io::pipe()?;
    /// # let reader = std::thread::spawn(move || std::io::copy(&mut { reader }, &mut std::io::sink()));
    /// use fullbore_sys::pages::{PageKind, Pages, Request};
    ///
    /// let mut out = fullbore_sys::writer::Unbuffered::new(pipe).copy_on_write();
    /// let mut frame = Pages::map(&Request { len: 6 << 20, kind: PageKind::Huge, lock: false, fill: None })?;
    /// for shade in 0..3 {
    ///     frame.fill(shade); // at once, although a reader may still hold the one before
    ///     assert_eq!(out.lend(&frame)?, frame.len());
    /// }
    /// # drop(out);
    /// # assert_eq!(reader.join().unwrap()?, 18 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lend(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?; // what waits here goes first
        let Some((whole, lends)) = self.may_lend(bytes) else {
            return self.copy_all(bytes);
        };
        let before = self.lending.bytes;
        let sent = if lends {
            self.lend_whole(bytes, whole.clone())
        } else {
            self.copy_all(bytes)
        };
        let lent = self.lending.bytes > before;
        let start = bytes.as_ptr() as usize;
        let addresses = start + whole.start..start + whole.end;
        if let Some(why) = self.lending.of_memory.take()
            && !lent
        {
            self.lending.refuse_memory(addresses, why);
        }
        if let Ok(sent) = sent {
            self.lending.worth.sent(lent, sent, Instant::now());
        }
        sent
    }

    /// Bytes that [`lend`](Self::lend) has sent without copying them. [`bytes_by`](Self::bytes_by) does not count them.
    #[must_use]
    pub fn bytes_lent(&self) -> u64 {
        self.lending.bytes
    }

    /// The bytes of a slice that may be lent, and whether this is to be done now; `None` where it cannot.
    fn may_lend(&mut self, bytes: &[u8]) -> Option<(Range<usize>, bool)> {
        let refused = match self.why_copied(bytes) {
            Ok(whole) => {
                let lends = self.lends_always() || self.lending.worth.lends();
                self.lending.why_not = (!lends).then_some(Reason::Slower);
                return Some((whole, lends));
            }
            Err(refused) => refused,
        };
        self.lending.why_not = Some(refused);
        None
    }

    /// Whether it does not matter which is faster.
    fn lends_always(&self) -> bool {
        self.forced == Some(Way::Cow)
    }

    fn why_copied(&mut self, bytes: &[u8]) -> Result<Range<usize>, Reason> {
        let whole = match huge_page() {
            Some(page) if bytes.len() >= page => whole_pages(bytes, page),
            Some(_) => return Err(Reason::TooShort),
            None => return Err(Reason::Memory("there are no huge pages that can be lent")),
        };
        match self.forced {
            Some(Way::Cow) => {}
            None if self.copy_on_write => {}
            _ => return Err(Reason::NotAllowed),
        }
        if whole.is_empty() {
            return Err(Reason::TooShort);
        }
        let start = bytes.as_ptr() as usize;
        if let Some(why) = self
            .lending
            .is_refused(&(start + whole.start..start + whole.end))
        {
            return Err(why.clone());
        }
        if let Some(why) = &self.decided().only_write {
            return Err(why.clone());
        }
        if self.is_nonblocking() {
            return Err(Reason::NonBlocking);
        }
        if let Some(error) = probe::lend_refusal() {
            return Err(self.lending.refuse_all(&error));
        }
        if self.lends_always() {
            return Ok(whole);
        }
        if !self.lending.worth.is_known() {
            let took = turn().map_err(|error| self.lending.refuse_all(&error))?;
            self.lending.worth.turned(took, Instant::now());
        }
        if whole.len() < self.lending.worth.least() {
            self.lending.worth.ask_again(Instant::now());
            return Err(self.lending.worth.too_costly(whole.len()));
        }
        Ok(whole)
    }

    /// Sends all bytes, of which `whole` are lent where they can be.
    fn lend_whole(&mut self, bytes: &[u8], whole: Range<usize>) -> io::Result<usize> {
        let page = huge_page().unwrap_or(1);
        let (mut sent, mut copied_to) = (0, whole.start);
        while sent < bytes.len() {
            let moved = if sent < copied_to {
                self.write(&bytes[sent..copied_to])
            } else if sent >= whole.end {
                copied_to = bytes.len();
                continue;
            } else if !(sent - whole.start).is_multiple_of(page) {
                copied_to = whole.start + (sent - whole.start).next_multiple_of(page);
                continue;
            } else {
                let part = sent..whole.end.min(sent + AT_ONCE);
                match self.lend_part(&bytes[part]) {
                    Ok(Lent::Taken(n)) => Ok(n),
                    Ok(Lent::Refused(n)) => {
                        copied_to = sent + n;
                        continue;
                    }
                    Err(e) => Err(e),
                }
            };
            match moved {
                Ok(0) => break,
                Ok(n) => sent += n,
                Err(e) if sent == 0 => return Err(e),
                Err(_) => break, // the next call finds it
            }
        }
        Ok(sent)
    }

    /// Lends the first bytes of a part that is whole huge pages.
    fn lend_part(&mut self, part: &[u8]) -> io::Result<Lent> {
        self.send_queued(0)?; // what was copied before it may wait
        let always = self.lends_always();
        let lending = &mut self.lending;
        if lending
            .refused
            .as_ref()
            .is_some_and(|r| r.holds(Instant::now()))
        {
            return Ok(Lent::Refused(part.len())); // by an earlier part
        }
        let least = if always { 0 } else { lending.worth.least() };
        let (mut queue, len) = match queue(part, least) {
            Ok(Part::Lent(queue, len)) => {
                lending.refused = None;
                (queue, len)
            }
            Ok(Part::Refused(len, why)) => {
                lending.why_not = Some(Reason::Memory(why));
                lending.of_memory = Some(why);
                return Ok(Lent::Refused(len));
            }
            Err(error) => {
                lending.refuse_all(&error);
                return Ok(Lent::Refused(part.len()));
            }
        };
        let sent = self.move_all(len, |this, moved, flags| {
            queue.deliver(open(&this.fd), len - moved, flags)
        });
        match queue.finish() {
            Ok(turn) => self.lending.worth.turned(turn, Instant::now()),
            Err(error) => {
                self.lending.refuse_all(&error);
            }
        }
        match sent {
            Ok(n) => {
                self.lending.bytes += n as u64;
                Ok(Lent::Taken(n))
            }
            // Nothing has moved: it goes another way.
            Err(e) if is_refusal(&e) => {
                let error = Error::refused(
                    "what was lent cannot be sent",
                    "splice",
                    e,
                    "a sandbox may forbid splice",
                );
                self.lending.refuse_all(&error);
                Ok(Lent::Refused(len))
            }
            Err(e) => Err(e),
        }
    }

    fn copy_all(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let start = (bytes.len() >= PIECE).then(Instant::now);
        let mut sent = 0;
        while sent < bytes.len() {
            match self.write(&bytes[sent..]) {
                Ok(0) => break,
                Ok(n) => sent += n,
                Err(e) if sent == 0 => return Err(e),
                Err(_) => break, // the next call finds it
            }
        }
        if let Some(start) = start {
            self.lending.worth.copied(sent, start.elapsed());
        }
        Ok(sent)
    }
}

/// What has become of a part.
enum Lent {
    /// The pipe has taken so many of its bytes.
    Taken(usize),
    /// So many are to be copied.
    Refused(usize),
}
