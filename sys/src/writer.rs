//! [`Unbuffered`]: new data into a pipe by the fastest sound way there is here.

mod ahead;
mod borrowed;
mod choice;
mod later;
mod sending;
#[cfg(test)]
mod tests;
mod ways;
mod worth;

use std::fmt;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use crate::calls::End;
use crate::reason::Reason;
use crate::route::Route;
use crate::wait::{Wait, Waiter};
use crate::write::fresh::PIECE;
use ahead::{Ahead, LeftOver};
use borrowed::Lending;
use choice::{Form, Limits};
use ways::Ways;

/// A way into a pipe for new data. Each is sound for every reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// Copy into a huge page, lend it, abandon it (`vmsplice(2)`).
    Fresh,
    /// Copy into a socket, splice fat slots into the pipe.
    Fat,
    /// `write(2)`.
    Copy,
    /// Copy into a huge page, lend it, and write it again after it became copy-on-write (`vmsplice(2)`, `clone(2)`). Taken only
    /// where [`Unbuffered::copy_on_write`] allows it.
    Cow,
}

impl Way {
    /// Every way.
    pub const ALL: [Self; 4] = [Self::Fresh, Self::Fat, Self::Copy, Self::Cow];

    /// How bytes move by this way.
    #[must_use]
    pub fn route(self) -> Route {
        match self {
            Self::Fresh => Route::Fresh,
            Self::Fat => Route::Fat,
            Self::Copy => Route::Write,
            Self::Cow => Route::CopyOnWrite,
        }
    }

    /// The system call by which bytes get into the pipe.
    fn call(self) -> &'static str {
        match self {
            Self::Fresh | Self::Cow => "vmsplice",
            Self::Fat => "splice",
            Self::Copy => "write",
        }
    }

    /// Whether bytes go by memory that is lent to the pipe.
    fn lends(self) -> bool {
        matches!(self, Self::Fresh | Self::Cow)
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.route().fmt(f)
    }
}

impl From<Way> for Route {
    fn from(way: Way) -> Self {
        way.route()
    }
}

/// How a writer's bytes move, and which ways were refused.
#[derive(Clone, Debug)]
pub struct Path {
    /// The way that large writes take now. Small ones always take `write(2)`.
    pub way: Way,
    /// What was refused, each with the reason. [`Route::Lent`] is there where the last call of [`Unbuffered::lend`] copied.
    pub fallbacks: Vec<(Route, Reason)>,
    /// Capacity of the pipe in bytes; `None` where the output is not a pipe.
    pub capacity: Option<usize>,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.way)?;
        if let Some(capacity) = self.capacity {
            write!(f, ", {} pipe", crate::size::Size(capacity as u64))?;
        }
        for (route, reason) in &self.fallbacks {
            write!(f, "; not {route}: {reason}")?;
        }
        Ok(())
    }
}

/// System calls that a writer has made to move bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// All of them.
    pub made: u64,
    /// Those that found the pipe full.
    pub would_block: u64,
}

/// Writes below this many bytes go by `write(2)`, which is cheaper for them. Far above `PIPE_BUF`, so that writes up to
/// that stay atomic.
pub const LARGE: usize = 16 << 10;

/// The first so many bytes go by `write(2)`, unless a method is forced: to set one up takes some 150 µs, and the first huge pages
/// as much again, which is won back within as many bytes more; and most streams are shorter
/// (`docs/results/2026-11-22-epyc-kvm-buffered.md`).
pub const PAYS_FROM: u64 = 4 << 20;

/// A writer of new data into a pipe, sound for every reader: no byte is changed after it was written.
///
/// Owns or borrows a descriptor. Works on anything that can be written; what is not a pipe gets `write(2)`.
///
/// # What it promises
/// - [`write`](Write::write) returns `n` once `n` bytes are in the pipe. Nothing is buffered: `flush` has nothing to do,
///   and exit, panic or drop lose nothing. [`fill_ahead`](Self::fill_ahead) changes that: bytes may wait.
/// - On a pipe that is non-blocking (`O_NONBLOCK`), `WouldBlock` of a `write` means that nothing was taken, and a short count
///   that the rest was not: no byte waits in a place that nobody sees. [`commit`](Self::commit) sends all or returns an error,
///   and keeps what was not sent.
/// - Up to `PIPE_BUF` (4096) bytes are atomic. With several writers on one pipe, each one's bytes arrive in its order.
/// - On a pipe of packets (`O_DIRECT`, see `pipe(2)`) all goes by `write(2)`: each write, or commit, of up to a page is a
///   packet, and a larger one as many as it fills. Whether it is one is asked at the first large write.
/// - `BrokenPipe` is an error value. SIGPIPE is the caller's business; Rust programs ignore it unless told otherwise.
/// - A forked child may go on writing with its copy: it gets memory and sockets of its own. A block that was open at the
///   fork may be zero in the child. Where the kernel has no memory that a forked child gets empty (`MADV_WIPEONFORK`), the
///   ways that need it are refused.
/// - A way that is refused because something ran out (huge pages, descriptors, memory) is asked for again: after 50 ms, and
///   after twice as long each time, up to 5 s.
/// - The first [4 MiB](PAYS_FROM) go by `write(2)`. After 256 KiB a capacity of 1 MiB is asked for, unless [`keep_capacity`](Self::keep_capacity).
///
/// # Memory
/// With `fresh` up to 8 MiB, which become resident as they are filled: three huge pages, each of which may be abandoned only
/// before it is filled again, and one that is put aside. Pages in the pipe belong to the pipe besides: one slot that somebody
/// keeps, however far down, keeps its whole 2 MiB page. So one page in 32 MiB is put aside and looked at when as much again
/// was sent; while somebody still holds it nothing more is lent, and data is copied. A reader that keeps slots pins 70 MiB at
/// most. (Before Linux 6.1 nothing tells who holds a page, and there is no such bound.) With `cow` a pool of 16 to 64 MiB. With
/// `fat` a pipe of 256 slots can hold 8 MiB. What is [filled ahead](Self::fill_ahead) comes to that. All are charged to the
/// writer's memory cgroup.
///
/// # Examples
/// In place, without any copy:
/// ```
/// # let (_reader, pipe) = std::io::pipe()?;
/// let mut out = fullbore_sys::writer::Unbuffered::new(pipe);
/// let block = out.block(64 << 10);
/// block.fill(b'x');
/// out.commit(64 << 10)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Unbuffered<Fd: AsFd> {
    /// Present until [`Unbuffered::into_inner`].
    fd: Option<Fd>,
    forced: Option<Way>,
    copy_on_write: bool,
    keep_capacity: bool,
    /// Bytes that go by `write(2)` first.
    start: u64,
    /// A larger pipe was asked for.
    enlarged: bool,
    /// Bytes of the pool of `cow`, where they are given.
    pool: Option<usize>,
    /// Whether bytes may wait here while the pipe is full.
    ahead: Ahead,
    /// What waited by a way that was refused.
    left_over: LeftOver,
    waiter: Waiter,
    calls: Calls,
    /// Bytes that have gone by each way.
    moved: [u64; Way::ALL.len()],
    /// The ways that are ready; decided at the first large write.
    ways: Option<Ways>,
    block: Block,
    lending: Lending,
}

/// The block that was handed out last.
#[derive(Debug)]
struct Block {
    /// Where it lies: with a way that lends first in the pages to be lent, else in `heap`.
    way: Way,
    /// The form that was to be taken when it was opened.
    form: Form,
    /// Bytes of it that were not committed.
    left: usize,
    opened: Option<Instant>,
    heap: Vec<u8>,
    /// Those bytes, where they lie in `heap`.
    in_heap: Range<usize>,
}

impl Block {
    const NONE: Self = Self {
        way: Way::Copy,
        form: Form::COPY,
        left: 0,
        opened: None,
        heap: Vec::new(),
        in_heap: 0..0,
    };
}

impl<Fd: AsFd> Unbuffered<Fd> {
    /// A writer into `fd`, which chooses the fastest way by trying.
    #[must_use]
    pub fn new(fd: Fd) -> Self {
        Self {
            fd: Some(fd),
            forced: None,
            copy_on_write: false,
            keep_capacity: false,
            start: PAYS_FROM,
            enlarged: false,
            pool: None,
            ahead: Ahead::No,
            left_over: LeftOver::default(),
            waiter: Waiter::new(Wait::Adaptive, End::Write),
            calls: Calls::default(),
            moved: [0; Way::ALL.len()],
            ways: None,
            block: Block::NONE,
            lending: Lending::default(),
        }
    }

    /// Takes this way and no other, except `write(2)` where it is refused.
    #[must_use]
    pub fn with_way(mut self, way: Way) -> Self {
        self.forced = Some(way);
        self
    }

    /// Allows the way [`Way::Cow`], which is the fastest one for new data in most places, and does something to the whole
    /// process: see below. Not for libraries, unless their users are asked.
    ///
    /// Memory that was lent is written again after all private memory of the process was made copy-on-write: by a child that is
    /// made by `clone(2)` and leaves at once, once for every 16 to 64 MiB. The kernel then copies what is written to while
    /// anybody still holds it, so it is sound for every reader, as the other ways are.
    ///
    /// - Children come and go, 100 to 1500 a second at full rate. Each counts for `RLIMIT_NPROC` and `pids.max` while it lives.
    ///   They send no SIGCHLD, run nothing of the program, and are waited for; `waitpid(-1, …)` with `__WALL` in another thread
    ///   could take one away, and the way is left then.
    /// - A child takes 120 to 200 µs, in which the other threads of the process cannot map memory, and some 18 to 37 µs more for
    ///   each MiB of small pages of private memory that the process has touched. Afterwards each of those costs a fault when it
    ///   is written for the first time. Where children take more than a fifth of the time the pool grows from 16
    ///   to up to 64 MiB, and where they take more than a third of it even so, the way is refused.
    /// - Up to 64 MiB of huge pages stay resident, and with a forked child both sides copy what they write to.
    ///
    /// [`lend`](Self::lend) needs this permission, too, and makes a child for each call or each 16 MiB.
    #[must_use]
    pub fn copy_on_write(mut self) -> Self {
        self.set_copy_on_write();
        self
    }

    /// Gives [`Way::Cow`] a pool of so many bytes (at least a huge page), in place of one of 16 to 64 MiB. Below 16 MiB it stays so,
    /// however often children are made; a larger one grows as the others do.
    #[must_use]
    pub fn with_pool(mut self, bytes: usize) -> Self {
        self.pool = Some(bytes);
        self
    }

    /// Lets bytes wait here while the pipe is full: [`write`](Write::write) and [`commit`](Self::commit) take 2 to 4 MiB more
    /// than it has room for. Faster where writer and reader run on different CPUs: what is lent at once lies modified in a cache
    /// of the writer's CPU, from which it is dear to read, and what is lent later has left it. Whether it is faster here is
    /// found out by trying.
    ///
    /// Nothing waits for which there is room: each call sends as much as the pipe takes. But what does wait is sent by the next
    /// call, not by itself: a program that stops writing must call [`flush`](Write::flush). Drop sends it, too, and loses
    /// errors; on a non-blocking pipe it may not send all of it. At exit without drop, and when it is killed, it is lost. A
    /// forked child does not send what waits at the fork; its parent does.
    ///
    /// Without this a `write_all` of several MiB does the same for as long as it lasts.
    #[must_use]
    pub fn fill_ahead(mut self) -> Self {
        self.set_fill_ahead(true);
        self
    }

    /// Like [`fill_ahead`](Self::fill_ahead), up to so many bytes, no matter whether less would be faster.
    #[must_use]
    pub fn with_ahead(mut self, bytes: usize) -> Self {
        self.ahead = Ahead::UpTo(bytes);
        self
    }

    /// Takes other ways than `write(2)` from so many bytes of the stream on, in place of [`PAYS_FROM`].
    #[must_use]
    pub fn with_start(mut self, bytes: u64) -> Self {
        self.start = bytes;
        self
    }

    /// Waits like this when the pipe is full, in place of [`Wait::Adaptive`].
    #[must_use]
    pub fn with_wait(mut self, wait: Wait) -> Self {
        self.waiter = Waiter::new(wait, End::Write);
        self
    }

    /// Leaves the capacity of the pipe as it is.
    #[must_use]
    pub fn keep_capacity(mut self) -> Self {
        self.set_keep_capacity();
        self
    }

    /// The descriptor. Bytes written to it directly go between those written here, in order, except that what [waits
    /// here](Self::fill_ahead) comes later, unless it is flushed first.
    ///
    /// # Panics
    /// Never: it is there until [`into_inner`](Self::into_inner).
    pub fn get_ref(&self) -> &Fd {
        self.fd.as_ref().expect("there until into_inner")
    }

    /// Sends what waits and returns the descriptor.
    ///
    /// # Errors
    /// What [`flush`](Write::flush) reports, with the writer, which still has what was not sent.
    ///
    /// # Panics
    /// Never, as for [`get_ref`](Self::get_ref).
    #[expect(clippy::result_large_err, reason = "it is the writer itself")]
    pub fn into_inner(mut self) -> Result<Fd, (io::Error, Self)> {
        match self.send_queued(0) {
            Ok(()) => Ok(self.fd.take().expect("there until now")),
            Err(e) => Err((e, self)),
        }
    }

    /// How large writes move, and why not better. Decides it if there was no large write yet.
    pub fn path(&mut self) -> Path {
        let not_lent = self.lending.why_not();
        for way in self.decided().candidates() {
            if let Err(e) = self.decided().set_up(way) {
                let _ = self.refuse(way, Reason::from(&e), e.is_passing()); // nothing waits there
            }
        }
        let ways = self.decided();
        let mut fallbacks = ways.fallbacks.clone();
        fallbacks.extend(not_lent.map(|reason| (Route::Lent, reason)));
        Path {
            way: ways.current(),
            fallbacks,
            capacity: ways.capacity,
        }
    }

    /// System calls made so far to move bytes.
    #[must_use]
    pub fn calls(&self) -> Calls {
        self.calls
    }

    /// Bytes that this way has moved so far: what [`path`](Self::path) says is true of the next ones only.
    #[must_use]
    pub fn bytes_by(&self, way: Way) -> u64 {
        self.moved[way as usize]
    }

    /// Whether there is anything to choose from, so that it matters how long things take.
    fn chooses(&self) -> bool {
        let ways = self.ways.as_ref();
        self.is_long() && ways.is_none_or(|w| w.only_write.is_none())
    }

    /// Whether all goes by `write(2)` for good.
    fn is_no_pipe(&self) -> bool {
        let ways = self.ways.as_ref();
        self.forced.is_none() && ways.is_some_and(|w| w.only_write.is_some())
    }

    fn decided(&mut self) -> &mut Ways {
        if self.ways.is_none() {
            let allowed = |way: Way| match self.forced {
                Some(forced) => way == forced,
                None => way != Way::Cow || self.copy_on_write,
            };
            let limits = Limits {
                pool: self.pool,
                ..self.ahead.limits()
            };
            let ways = Ways::of(self.get_ref().as_fd(), allowed, self.keep_capacity, limits);
            self.ways = Some(ways);
        }
        self.ways.as_mut().expect("made above")
    }

    /// Memory to generate data into: `len` bytes, at most 1 MiB. With the ways `fresh` and `cow` it lies in the very pages
    /// that the pipe will be given, so that nothing is copied. What it contains is unspecified.
    ///
    /// An earlier block that was not committed is forgotten. A `write` before the commit goes before the block, and
    /// leaves it as it is.
    pub fn block(&mut self, len: usize) -> &mut [u8] {
        let len = len.min(PIECE);
        self.block.left = 0;
        let (form, opened) = match self.is_long() {
            true => self.form_of_block(len),
            false => (Form::COPY, None),
        };
        self.block.way = form.way;
        self.block.form = form;
        self.block.left = len;
        self.block.opened = opened;
        if !form.way.lends() {
            self.block.in_heap = 0..len;
            let heap = &mut self.block.heap;
            heap.resize(heap.len().max(len), 0);
        }
        self.block_mut()
    }

    /// Makes room for a block of so many bytes, by the way that is to be taken. Returns also when that began.
    fn form_of_block(&mut self, len: usize) -> (Form, Option<Instant>) {
        let mut opened = Instant::now();
        self.decided().ask_again();
        loop {
            let ways = self.decided();
            let form = ways.choice.current();
            let prepared = ways.set_up(form.way).and_then(|now| {
                if now {
                    opened = Instant::now(); // that was for all that is to come
                }
                let lender = ways.lender(form.way);
                lender.map_or(Ok(()), |l| l.prepare(len, form.round))
            });
            match prepared {
                Ok(()) => return (form, Some(opened)),
                Err(e) => {
                    let _ = self.refuse(form.way, Reason::from(&e), e.is_passing()); // what waits here can be taken
                }
            }
        }
    }

    /// What is left of the block: its first bytes are the ones that are committed next. It may lie elsewhere than before after
    /// any other call but [`waiting`](Self::waiting), the setters and those that take `&self`.
    pub fn block_mut(&mut self) -> &mut [u8] {
        let left = self.block.left;
        if !self.block.way.lends() {
            let start = self.block.in_heap.start;
            return &mut self.block.heap[start..start + left];
        }
        match self.ways.as_mut().and_then(|w| w.lender(self.block.way)) {
            Some(lender) => &mut lender.pages().free_mut()[..left],
            None => &mut [],
        }
    }

    /// Gives the memory back that the ways have, and what else they keep, if all was sent and no block is open. They get it anew
    /// when they are taken again, which takes some 100 µs.
    pub fn release(&mut self) {
        if self.block.left > 0 || self.queued() > 0 {
            return;
        }
        self.block.heap = Vec::new();
        if let Some(ways) = &mut self.ways {
            ways.release();
        }
    }

    /// Bytes of memory that the ways keep.
    pub fn memory(&mut self) -> usize {
        self.ways.as_mut().map_or(0, Ways::memory)
    }

    /// When the first of that memory was had.
    #[must_use]
    pub fn memory_since(&self) -> Option<Instant> {
        self.ways.as_ref().and_then(|w| w.memory_since)
    }

    /// Whether the next block lies in memory that is lent.
    #[must_use]
    pub fn lends_next(&self) -> bool {
        let ways = self.ways.as_ref();
        ways.map_or(self.is_long(), |w| w.current().lends())
    }

    /// Whether the stream is long enough for more than `write(2)`.
    #[must_use]
    pub fn is_long(&self) -> bool {
        let sent = || self.moved.iter().sum::<u64>() + self.lending.bytes();
        self.ways.is_some() || self.forced.is_some() || sent() >= self.start
    }

    /// Forgets what is left of the block.
    pub fn forget_block(&mut self) {
        self.block.left = 0;
    }

    /// Lets bytes wait from now on, as [`fill_ahead`](Self::fill_ahead), or no more.
    pub fn set_fill_ahead(&mut self, waits: bool) {
        self.ahead = if waits { Ahead::Chosen } else { Ahead::No };
    }

    /// Allows copy-on-write from now on: see [`copy_on_write`](Self::copy_on_write). Before anything was written.
    pub fn set_copy_on_write(&mut self) {
        self.copy_on_write = true;
    }

    /// Leaves the capacity as it is from now on: see [`keep_capacity`](Self::keep_capacity).
    pub fn set_keep_capacity(&mut self) {
        self.keep_capacity = true;
    }

    /// Sends what waits and takes the descriptor out: nothing can be written any more.
    ///
    /// # Errors
    /// What [`flush`](Write::flush) reports. Then the descriptor stays.
    pub fn take(&mut self) -> io::Result<Option<Fd>> {
        self.send_queued(0)?;
        Ok(self.fd.take())
    }

    /// Takes the descriptor out, and forgets what waits. Nothing can be written any more.
    pub fn abandon(&mut self) -> Option<Fd> {
        self.fd.take()
    }

    /// Bytes that wait to be sent ([`fill_ahead`](Self::fill_ahead)).
    pub fn waiting(&mut self) -> usize {
        self.queued()
    }

    /// Sends the first `len` bytes of the block that [`block`](Self::block) gave; with [`fill_ahead`](Self::fill_ahead) they may
    /// wait here instead.
    ///
    /// # Errors
    /// `WouldBlock` when a non-blocking pipe has not taken all of them, `BrokenPipe` when the reader has gone, and what else
    /// the system calls report. After an error the bytes that were not sent are still there, as the first ones of the block:
    /// [`uncommitted`](Self::uncommitted) says how many are left, and they can be committed next. No byte is sent twice.
    ///
    /// # Panics
    /// When `len` is more than is left of the block.
    pub fn commit(&mut self, len: usize) -> io::Result<()> {
        let left = self.block.left;
        assert!(len <= left, "commit of {len} bytes of a block of {left}");
        let rest = left - len;
        while self.block.left > rest {
            let len = self.block.left - rest;
            match self.block.way {
                way if way.lends() => self.commit_lent(way, len)?,
                _ if !self.chooses() => self.commit_plainly(len)?,
                _ => self.commit_heap(len)?,
            }
        }
        Ok(())
    }

    /// Bytes of the block that were not sent.
    #[must_use]
    pub fn uncommitted(&self) -> usize {
        self.block.left
    }
}

impl<Fd: AsFd> Write for Unbuffered<Fd> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let waits = self.queued() > 0;
        if !waits && (bytes.len() < LARGE || self.is_no_pipe()) {
            self.calls.made += 1;
            let written = crate::calls::write(self.get_ref(), bytes)?;
            self.moved[Way::Copy as usize] += written as u64;
            return Ok(written);
        }
        if self.block.way.lends() && self.block.left > 0 {
            self.move_block_to_heap()?; // its pages are needed now
        }
        let since = self.chooses().then(Instant::now);
        self.write_all_ways(&bytes[..bytes.len().min(PIECE)], since)
    }

    /// Writes everything. Where these are several MiB some of them wait while the pipe is full, until the last ones have been
    /// taken: the call returns when all are in the pipe.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let within = self.begin_ahead_within(bytes.len());
        let mut written = write_all_by(bytes, |bytes| self.write(bytes));
        if within {
            written = written.and_then(|()| self.send_queued(0));
            self.ahead = Ahead::No;
        }
        written
    }

    /// Sends what [waits here](Self::fill_ahead). Without that nothing does.
    fn flush(&mut self) -> io::Result<()> {
        self.send_queued(0)
    }
}

/// Sends what waits. Errors are lost: [`flush`](Write::flush) first. A non-blocking pipe may not take all of it.
impl<Fd: AsFd> Drop for Unbuffered<Fd> {
    fn drop(&mut self) {
        if self.fd.is_some() && self.queued() > 0 {
            let _ = self.send_queued(0);
        }
    }
}

impl<Fd: AsFd> AsFd for Unbuffered<Fd> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.get_ref().as_fd()
    }
}

impl<Fd: AsFd + fmt::Debug> fmt::Debug for Unbuffered<Fd> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unbuffered")
            .field("fd", &self.fd)
            .field("ways", &self.ways)
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

pub use sending::{is_refusal, write_all_by};
