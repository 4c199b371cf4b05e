//! [`PipeWriter`]: new data into a pipe by the fastest sound way there is here.

mod borrowed;
mod choice;
mod later;
#[cfg(test)]
mod tests;
mod ways;
mod worth;

use std::fmt;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use crate::capacity;
use crate::error::is_passing;
use crate::sys::{self, End, SpliceFlags};
use crate::wait::{Wait, Waiter, events};
use crate::write::Lender;
use crate::write::fresh::PIECE;
use borrowed::Lending;
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
    /// where [`PipeWriter::copy_on_write`] allows it.
    Cow,
}

impl Way {
    /// Every way.
    pub const ALL: [Self; 4] = [Self::Fresh, Self::Fat, Self::Copy, Self::Cow];

    /// Whether bytes go by memory that is lent to the pipe.
    fn lends(self) -> bool {
        matches!(self, Self::Fresh | Self::Cow)
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fresh => "fresh",
            Self::Fat => "fat",
            Self::Copy => "write",
            Self::Cow => "cow",
        })
    }
}

/// How a writer's bytes move, and which ways were refused.
#[derive(Clone, Debug)]
pub struct Path {
    /// The way that large writes take now. Small ones always take `write(2)`.
    pub way: Way,
    /// Ways that were refused, each with the reason.
    pub fallbacks: Vec<(Way, String)>,
    /// Capacity of the pipe in bytes; `None` where the output is not a pipe.
    pub capacity: Option<usize>,
    /// Why the last call of [`PipeWriter::lend`] copied, where it did.
    pub not_lent: Option<String>,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.way)?;
        if let Some(capacity) = self.capacity {
            write!(f, ", {} pipe", crate::size::Size(capacity as u64))?;
        }
        for (way, reason) in &self.fallbacks {
            write!(f, "; not {way}: {reason}")?;
        }
        if let Some(reason) = &self.not_lent {
            write!(f, "; not lent: {reason}")?;
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

/// A writer of new data into a pipe, sound for every reader: no byte is changed after it was written.
///
/// Owns or borrows a descriptor. Works on anything that can be written; what is not a pipe gets `write(2)`.
///
/// # What it promises
/// - [`write`](Write::write) returns `n` once `n` bytes are in the pipe. Nothing is buffered: `flush` has nothing to do,
///   and exit, panic or drop lose nothing.
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
/// - The first large write asks for a capacity of 1 MiB, unless [`keep_capacity`](Self::keep_capacity).
///
/// # Memory
/// With `fresh` up to 8 MiB, which become resident as they are filled: three huge pages, each of which may be abandoned only
/// before it is filled again, and one that is put aside. Pages in the pipe belong to the pipe besides: one slot that somebody
/// keeps, however far down, keeps its whole 2 MiB page. So one page in 32 MiB is put aside and looked at when as much again
/// was sent; while somebody still holds it nothing more is lent, and data is copied. A reader that keeps slots pins 70 MiB at
/// most. (Before Linux 6.1 nothing tells who holds a page, and there is no such bound.) With `fat` a pipe of 256 slots can
/// hold 8 MiB. All are charged to the writer's memory cgroup.
///
/// # Examples
/// As a drop-in for standard output:
/// ```
/// use std::io::Write;
/// let mut out = fullbore::stdout();
/// out.write_all(&[b'x'; 100])?;
/// # Ok::<(), std::io::Error>(())
/// ```
/// In place, without any copy:
/// ```
/// # let (_reader, pipe) = std::io::pipe()?;
/// let mut out = fullbore::PipeWriter::new(pipe);
/// let block = out.block(64 << 10);
/// block.fill(b'x');
/// out.commit(64 << 10)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct PipeWriter<Fd> {
    fd: Fd,
    forced: Option<Way>,
    copy_on_write: bool,
    keep_capacity: bool,
    /// Bytes of the pool of `cow`, where they are given.
    pool: Option<usize>,
    /// Whether bytes may wait here while the pipe is full, and up to how many where that is given.
    ahead: Ahead,
    waiter: Waiter,
    calls: Calls,
    /// Bytes that have gone by each way.
    moved: [u64; Way::ALL.len()],
    /// The ways that are ready; decided at the first large write.
    ways: Option<Ways>,
    block: Block,
    lending: Lending,
}

/// Whether bytes may wait in the writer while the pipe is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ahead {
    No,
    /// As many as are found to be best.
    Chosen,
    UpTo(usize),
}

/// The block that was handed out last.
#[derive(Debug)]
struct Block {
    /// Where it lies: with `Fresh` first in the pages to be lent, else in `heap`.
    way: Way,
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
        left: 0,
        opened: None,
        heap: Vec::new(),
        in_heap: 0..0,
    };
}

impl<Fd: AsFd> PipeWriter<Fd> {
    /// A writer into `fd`, which chooses the fastest way by trying.
    #[must_use]
    pub fn new(fd: Fd) -> Self {
        Self {
            fd,
            forced: None,
            copy_on_write: false,
            keep_capacity: false,
            pool: None,
            ahead: Ahead::No,
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
    /// - Children come and go, 100 to 600 a second at full rate. Each counts for `RLIMIT_NPROC` and `pids.max` while it lives.
    ///   They send no SIGCHLD, run nothing of the program, and are waited for; `waitpid(-1, …)` with `__WALL` in another thread
    ///   could take one away, and the way is left then.
    /// - A child takes 60 to 200 µs, in which the other threads of the process cannot map memory, and some 18 µs more for each
    ///   MiB of small pages of private memory that the process has touched. Afterwards each of those costs a fault when it is
    ///   written for the first time. The pool grows until this is a twentieth of the time, and where it comes to more
    ///   than a quarter with 64 MiB the way is refused.
    /// - Up to 64 MiB of huge pages stay resident, and with a forked child both sides copy what they write to.
    ///
    /// [`lend`](Self::lend) needs this permission, too, and makes a child for each call or each 16 MiB.
    #[must_use]
    pub fn copy_on_write(mut self) -> Self {
        self.copy_on_write = true;
        self
    }

    /// Gives [`Way::Cow`] a pool of so many bytes (at least a huge page), in place of one that grows from 16 to 64 MiB.
    #[must_use]
    pub fn with_pool(mut self, bytes: usize) -> Self {
        self.pool = Some(bytes);
        self
    }

    /// Lets bytes wait here while the pipe is full, so that more of them can be made meanwhile: [`write`](Write::write) and
    /// [`commit`](Self::commit) take up to some MiB more than the pipe has room for. They are sent as soon as there is room at
    /// the next call, and by [`flush`](Write::flush), [`into_inner`](Self::into_inner) and drop.
    #[must_use]
    pub fn fill_ahead(mut self) -> Self {
        self.ahead = Ahead::Chosen;
        self
    }

    /// Like [`fill_ahead`](Self::fill_ahead), up to so many bytes and no matter whether less would be faster.
    #[must_use]
    pub fn with_ahead(mut self, bytes: usize) -> Self {
        self.ahead = Ahead::UpTo(bytes);
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
        self.keep_capacity = true;
        self
    }

    /// The descriptor. Bytes written to it directly go between those written here, in order.
    pub fn get_ref(&self) -> &Fd {
        &self.fd
    }

    /// Returns the descriptor. Nothing is buffered, so nothing is lost.
    pub fn into_inner(self) -> Fd {
        self.fd
    }

    /// How large writes move, and why not better. Decides it if there was no large write yet.
    pub fn path(&mut self) -> Path {
        let not_lent = self.lending.why_not();
        let ways = self.decided();
        Path {
            way: ways.current(),
            fallbacks: ways.fallbacks.clone(),
            capacity: ways.capacity,
            not_lent,
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

    fn decided(&mut self) -> &mut Ways {
        let Self {
            fd,
            forced,
            copy_on_write,
            keep_capacity,
            pool,
            ways,
            ..
        } = self;
        ways.get_or_insert_with(|| {
            let allowed = |way: Way| match *forced {
                Some(forced) => way == forced,
                None => way != Way::Cow || *copy_on_write,
            };
            Ways::of(fd.as_fd(), allowed, *keep_capacity, *pool)
        })
    }

    /// Memory to generate data into: `len` bytes, at most 1 MiB. With the ways `fresh` and `cow` it lies in the very pages
    /// that the pipe will be given, so that nothing is copied. What it contains is unspecified.
    ///
    /// An earlier block that was not committed is forgotten. A `write` before the commit goes before the block, and
    /// leaves it as it is.
    pub fn block(&mut self, len: usize) -> &mut [u8] {
        let len = len.min(PIECE);
        let opened = Instant::now();
        let ways = self.decided();
        ways.ask_again();
        let keep = ways.choice.keeps();
        while let way = ways.current()
            && let Some(lender) = ways.lender(way)
            && let Err(e) = lender.prepare(len, keep)
        {
            ways.refuse(way, &e, e.is_passing());
        }
        let way = ways.current();
        self.block.way = way;
        self.block.left = len;
        self.block.opened = Some(opened);
        match self.ways.as_mut().and_then(|w| w.lender(way)) {
            Some(lender) => lender.open(len),
            None => {
                self.block.in_heap = 0..len;
                let heap = &mut self.block.heap;
                heap.resize(heap.len().max(len), 0);
                &mut heap[..len]
            }
        }
    }

    /// Sends the first `len` bytes of the block that [`block`](Self::block) gave.
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
            self.block.left -= match self.block.way {
                way if way.lends() => self.commit_lent(way, len)?,
                _ => self.commit_heap(len)?,
            };
        }
        Ok(())
    }

    /// Bytes of the block that were not sent.
    #[must_use]
    pub fn uncommitted(&self) -> usize {
        self.block.left
    }

    /// Counts the bytes, and tells the choice how long it took. Small writes, which always take `write(2)`, say nothing
    /// about the ways.
    fn record(&mut self, way: Way, sent: usize, since: Option<Instant>) {
        self.moved[way as usize] += sent as u64;
        if sent >= LARGE
            && let (Some(since), Some(ways)) = (since, &mut self.ways)
        {
            ways.choice.record(way, sent, since.elapsed());
        }
    }

    fn commit_lent(&mut self, way: Way, len: usize) -> io::Result<usize> {
        let sent = if len >= LARGE {
            self.send_lent(way, len)
        } else {
            self.move_all(len, |this, moved, _| {
                let lender = lender(&mut this.ways, way)?;
                let n = sys::write(&this.fd, lender.open(len - moved))?;
                lender.skip(n);
                Ok(n)
            })
        };
        match sent {
            Ok(n) => {
                let opened = self.block.opened.take();
                let way = if len >= LARGE { way } else { Way::Copy };
                self.record(way, n, opened);
                Ok(n)
            }
            // Nothing has moved: the bytes are still there, and go another way.
            Err(e) if is_refusal(&e) => {
                self.move_block_to_heap()?;
                let may_pass = is_passing(&e);
                self.decided().refuse(way, e, may_pass);
                self.commit_heap(len)
            }
            Err(e) => Err(e),
        }
    }

    /// Takes what is left of the block out of the pages that are lent next.
    fn move_block_to_heap(&mut self) -> io::Result<()> {
        let lender = lender(&mut self.ways, self.block.way)?;
        let bytes = lender.open(self.block.left).to_vec();
        self.block.in_heap = 0..bytes.len();
        self.block.heap = bytes;
        self.block.way = Way::Copy;
        Ok(())
    }

    fn commit_heap(&mut self, len: usize) -> io::Result<usize> {
        let heap = std::mem::take(&mut self.block.heap);
        let at = self.block.in_heap.start;
        let opened = self.block.opened.take();
        let sent = self.write_all_ways(&heap[at..at + len], opened);
        self.block.heap = heap;
        let sent = sent?;
        self.block.in_heap.start += sent;
        Ok(sent)
    }

    /// Whether the descriptor is non-blocking now. Others who share its description may change that at any time, so it
    /// is asked when it matters: when the pipe is full.
    fn is_nonblocking(&self) -> bool {
        sys::is_nonblocking(&self.fd)
    }

    /// vmsplice knows nothing of `O_NONBLOCK`, so the flag of the call must say it.
    fn flags(&self) -> SpliceFlags {
        let flags = self.waiter.wait().splice_flags();
        if flags.is_empty() && self.is_nonblocking() {
            return SpliceFlags::NONBLOCK;
        }
        flags
    }

    /// What the wait strategy does before a call; it must not wait where the pipe is non-blocking.
    fn before_call(&self) -> io::Result<()> {
        match self.waiter.wait() {
            Wait::Poll | Wait::PollSpin if self.is_nonblocking() => Ok(()),
            _ => self.waiter.before_call(&self.fd),
        }
    }

    /// Repeats `call`, which is told how many of `len` bytes have moved and moves some of the others, until all have
    /// moved, or as many as a non-blocking pipe takes. An error after some have moved is left for the next call to find.
    fn move_all(
        &mut self,
        len: usize,
        mut call: impl FnMut(&mut Self, usize, SpliceFlags) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let flags = self.flags();
        let mut moved = 0;
        while moved < len {
            let attempt = self.before_call().and_then(|()| call(self, moved, flags));
            self.calls.made += 1;
            let error = match attempt {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(n) => {
                    moved += n;
                    continue;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.calls.would_block += 1;
                    if self.is_nonblocking() {
                        e
                    } else {
                        match self.waiter.after_would_block(&self.fd) {
                            Ok(()) => continue,
                            Err(e) => e,
                        }
                    }
                }
                Err(e) => e,
            };
            return if moved > 0 { Ok(moved) } else { Err(error) };
        }
        Ok(moved)
    }

    /// Lends the first `len` bytes of what was prepared.
    fn send_lent(&mut self, way: Way, len: usize) -> io::Result<usize> {
        self.move_all(len, |this, moved, flags| {
            lender(&mut this.ways, way)?.send(this.fd.as_fd(), len - moved, flags)
        })
    }

    fn write_lent(&mut self, way: Way, bytes: &[u8]) -> io::Result<usize> {
        let keep = self.decided().choice.keeps();
        let lender = lender(&mut self.ways, way)?;
        // `Other`, so that no error of preparing looks like one of the pipe (mmap has `EAGAIN` for locked memory).
        let prepared = lender.prepare(bytes.len(), keep);
        prepared.map_err(io::Error::other)?;
        lender.open(bytes.len()).copy_from_slice(bytes);
        self.send_lent(way, bytes.len())
    }

    fn write_fat(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = 0;
        while written < bytes.len() {
            let result = self.write_fat_round(&bytes[written..]);
            match result {
                Ok(n) => written += n,
                Err(_) if written > 0 => break,
                Err(e) => return Err(e),
            }
        }
        Ok(written)
    }

    /// Stages what fits into the socket and delivers it. What the pipe did not take is not left in the socket.
    fn write_fat_round(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fat = self.ways.as_mut().and_then(|w| w.fat.take());
        let mut fat = fat.ok_or(io::ErrorKind::Unsupported)?;
        let staged = fat.stage(bytes);
        let delivered = match staged {
            Ok(staged) => self.move_all(staged, |this, moved, flags| {
                fat.deliver(&this.fd, staged - moved, flags)
            }),
            Err(ref e) => Err(e.kind().into()),
        };
        let complete = matches!((&staged, &delivered), (Ok(s), Ok(d)) if s == d);
        match if complete { Ok(()) } else { fat.discard() } {
            Ok(()) => self.decided().fat = Some(fat),
            Err(e) => self.decided().refuse(Way::Fat, &e, e.is_passing()),
        }
        staged.and(delivered)
    }

    /// How many of `len` bytes are worth copying before the pipe is asked to take them; fewer than [`LARGE`] are not. A pipe
    /// that blocks takes all; one that does not is asked first, since what it has no room for would be copied for nothing.
    ///
    /// By poll(2), which makes later writes into a pipe dearer, but whoever has made it non-blocking polls it anyway.
    fn room(&mut self, len: usize) -> io::Result<usize> {
        if len < LARGE || self.decided().current() == Way::Copy || !self.is_nonblocking() {
            return Ok(len);
        }
        let ready = sys::poll(&self.fd, events(End::Write), Some(Duration::ZERO));
        if !ready.unwrap_or(true) {
            self.calls.would_block += 1;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let (Ok(capacity), Ok(held)) = (capacity::get(&self.fd), sys::bytes_in_pipe(&self.fd))
        else {
            return Ok(len);
        };
        // Slots that are not full leave less room than this, and fat ones more.
        let room = capacity.saturating_sub(usize::try_from(held).unwrap_or(usize::MAX));
        Ok(len.min(room))
    }

    /// Writes by the best way, and by the next best where that is refused. Blocking pipes take everything.
    /// `since` is when the work on these bytes began, if that is known.
    fn write_all_ways(&mut self, bytes: &[u8], since: Option<Instant>) -> io::Result<usize> {
        if bytes.len() >= LARGE {
            self.decided().ask_again();
        }
        let room = self.room(bytes.len())?;
        loop {
            let (way, bytes) = if room < LARGE {
                (Way::Copy, bytes) // write(2) copies no more than there is room for
            } else {
                (self.decided().current(), &bytes[..room])
            };
            let written = match way {
                Way::Fresh | Way::Cow => self.write_lent(way, bytes),
                Way::Fat => self.write_fat(bytes),
                Way::Copy => self.move_all(bytes.len(), |this, moved, _| {
                    sys::write(&this.fd, &bytes[moved..])
                }),
            };
            match written {
                Err(e) if way != Way::Copy && is_refusal(&e) => {
                    let may_pass = is_passing(&e);
                    self.decided().refuse(way, e, may_pass);
                }
                Ok(n) => {
                    self.record(way, n, since);
                    return Ok(n);
                }
                Err(e) => return Err(e),
            }
        }
    }
}

impl<Fd: AsFd> Write for PipeWriter<Fd> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() < LARGE {
            self.calls.made += 1;
            let written = sys::write(&self.fd, bytes)?;
            self.record(Way::Copy, written, None);
            return Ok(written);
        }
        if self.block.way.lends() && self.block.left > 0 {
            self.move_block_to_heap()?; // its pages are needed now
        }
        self.write_all_ways(&bytes[..bytes.len().min(PIECE)], Some(Instant::now()))
    }

    /// Does nothing: nothing is buffered.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<Fd: AsFd> AsFd for PipeWriter<Fd> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl<Fd: fmt::Debug> fmt::Debug for PipeWriter<Fd> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipeWriter")
            .field("fd", &self.fd)
            .field("ways", &self.ways)
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

/// A writer into standard output. Do not mix it with `print!`, which buffers on its own.
#[must_use]
pub fn stdout() -> PipeWriter<BorrowedFd<'static>> {
    PipeWriter::new(rustix::stdio::stdout())
}

/// An error that says "not this way": the next way will tell whether it is a final one.
pub(crate) fn is_refusal(e: &io::Error) -> bool {
    !matches!(
        e.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::BrokenPipe
    )
}

/// The memory of a way that lends, where it is in use.
fn lender(ways: &mut Option<Ways>, way: Way) -> io::Result<&mut dyn Lender> {
    let lender = ways.as_mut().and_then(|w| w.lender(way));
    lender.ok_or_else(|| io::ErrorKind::Unsupported.into())
}
