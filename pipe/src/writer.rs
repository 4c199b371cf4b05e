//! [`PipeWriter`]: new data into a pipe, buffered in the memory that is lent next.

mod block;
#[cfg(test)]
mod tests;
mod unsent;
mod window;

use std::fmt;
use std::io::{self, IoSlice, IsTerminal, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use fullbore_sys::write::fresh::PIECE;
use fullbore_sys::writer::{Path, Unbuffered, write_all_by};
use fullbore_sys::{Reason, Route};

pub use block::Block;
pub use unsent::Unsent;
use window::Window;

/// Bytes that are buffered where they are copied into the pipe: in the beginning, and when the pipe has become larger. A write
/// that is not much smaller than the pipe has writer and reader wait for each other (`docs/results/2026-11-22-epyc-kvm-buffered.md`).
const COPIED_AT_FIRST: usize = 8 << 10;
const COPIED: usize = 64 << 10;
/// After so many bytes it is looked whether they were put in long ago.
const LOOK_EVERY: usize = 16 << 10;
/// Bytes that are older than this are sent at the next look.
const OLD: Duration = Duration::from_millis(1);
/// Getting memory anew costs some 30 µs a MiB. It is given back at a flush after so many times as long.
const GIVE_BACK_AFTER: u32 = 10;
const ANEW: Duration = Duration::from_micros(30);

/// A buffered writer of new data into a pipe, sound for every reader: no byte is changed after it was sent.
///
/// Its buffer is the memory that is lent to the pipe next, so that `write!`, [`write_all`](Write::write_all) of any size and
/// [`write_vectored`](Write::write_vectored) copy once, and what is generated in a [`block`](Self::block) is not copied at all.
/// Owns or borrows a descriptor; what is not a pipe gets `write(2)`.
///
/// # When bytes are sent
/// - At [`flush`](Write::flush), [`into_inner`](Self::into_inner) and drop: all of them. Drop loses errors.
/// - When the buffer is full: 8 KiB for the first 4 MiB; then 1 MiB where bytes are lent, 64 KiB where they
///   are copied.
/// - When the first of the bytes in it is older than a millisecond, which is looked at after every 16 KiB. So what is older
///   waits until 16 KiB more have been written, at most. A program that stops writing, or goes on slowly, flushes.
/// - On a terminal after each line.
/// - While the pipe is full, up to 4 MiB more wait, and are sent as soon as there is room by what is written next.
///
/// # What it promises
/// | | buffered | [`unbuffered`](Self::unbuffered) |
/// | --- | --- | --- |
/// | after `Ok` of `write` | the bytes are in the buffer or in the pipe | so many bytes are in the pipe |
/// | after `Ok` of `flush` | all of them are in the pipe | the same |
/// | after an error | what was taken before stays in the buffer, in order; none is sent twice | the bytes of this call were not taken |
/// | `WouldBlock`, on a pipe that does not block | nothing of this call was taken | nothing of this call was taken |
/// | panic | drop sends what is there, as it unwinds | nothing is there |
/// | exit, kill | what is in the buffer is lost; the standard library flushes its own `stdout` only | nothing is lost |
/// | fork | the parent sends what is in the buffer; the child begins with an empty one | both go on |
/// | several writers on one pipe | what one sends stays in order; where it is cut is not known | up to `PIPE_BUF` (4096) bytes of a call stay together |
/// | a pipe of packets (`O_DIRECT`) | a packet for each page of what is sent | each write up to a page is a packet |
///
/// `BrokenPipe` is an error value: SIGPIPE is the caller's business, and Rust programs ignore it unless told otherwise.
///
/// # What it costs
/// The first 4 MiB go by `write(2)`; after 256 KiB of them the pipe is asked for a capacity of 1 MiB, unless
/// [`keep_capacity`](Self::keep_capacity). What makes more of it faster is set up then, one way after the other when each is first
/// tried: some 150 µs, and 2 to 8 MiB of huge pages, which a
/// later `flush` gives back. Pages in the pipe belong to the pipe besides: a reader that keeps slots pins 70 MiB at most
/// (before Linux 6.1, which cannot tell, without a bound). With [`copy_on_write`](Self::copy_on_write) it is a pool of 16 to
/// 64 MiB. All are charged to the writer's memory cgroup.
///
/// # Examples
/// In place of a `BufWriter` around standard output:
/// ```
/// use std::io::Write;
/// let mut out = fullbore::stdout();
/// for i in 0..3 {
///     writeln!(out, "line {i}")?;
/// }
/// out.flush()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct PipeWriter<Fd: AsFd> {
    window: Window,
    out: Unbuffered<Fd>,
    mode: Mode,
    /// When the first of the bytes in the window was put in, where it has room for so many that it matters.
    since: Option<Instant>,
    /// The descriptor was taken out.
    gone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Buffered, unless the descriptor is a terminal, which nobody has looked at yet.
    Undecided,
    Buffered,
    Lines,
    Unbuffered,
}

impl<Fd: AsFd> PipeWriter<Fd> {
    /// A buffered writer into `fd`. Costs nothing yet, not even memory.
    #[must_use]
    pub fn new(fd: Fd) -> Self {
        Self::over(Unbuffered::new(fd).fill_ahead())
    }

    /// A buffered writer over one with options of its own, to measure and to test. No promise of stability.
    #[doc(hidden)]
    #[must_use]
    pub fn over(out: Unbuffered<Fd>) -> Self {
        Self {
            window: Window::CLOSED,
            out,
            mode: Mode::Undecided,
            since: None,
            gone: false,
        }
    }

    /// Buffers nothing: when [`write`](Write::write) returns, as many bytes as it says are in the pipe. For large writes, and for
    /// those that must stay together; what is smaller than 16 KiB is one `write(2)` each.
    #[must_use]
    pub fn unbuffered(mut self) -> Self {
        self.mode = Mode::Unbuffered;
        self.window.allow(0);
        self.out.set_fill_ahead(false);
        self
    }

    /// Allows to write memory again that was lent, once the kernel copies it on write for whoever still has it: the fastest way
    /// for new data in most places. It does something to the whole process, so it is not for libraries, unless their users are
    /// asked.
    ///
    /// Private memory of the process is made copy-on-write by a child that is made by `clone(2)` and leaves at once, once for
    /// every 16 to 64 MiB that are written. It is sound for every reader, as the other ways are.
    ///
    /// - Children come and go, 100 to 1500 a second at full rate. Each counts for `RLIMIT_NPROC` and `pids.max` while it lives.
    ///   They send no SIGCHLD, run nothing of the program, and are waited for; `waitpid(-1, …)` with `__WALL` in another thread
    ///   could take one away, and the way is left then.
    /// - A child takes 120 to 200 µs, in which the other threads of the process cannot map memory, and some 18 to 37 µs more for
    ///   each MiB of small pages of private memory that the process has touched. Afterwards each of those costs a fault when it
    ///   is written for the first time. Where children take too much of the time, or the process has more than 80 MiB of small
    ///   pages, the way is refused.
    /// - Up to 64 MiB of huge pages stay resident, and with a forked child both sides copy what they write to.
    ///
    /// [`lend`](Self::lend) needs this permission, too, and makes a child for each call or each 16 MiB. To be called before
    /// anything is written.
    #[must_use]
    pub fn copy_on_write(mut self) -> Self {
        self.out.set_copy_on_write();
        self
    }

    /// Leaves the capacity of the pipe as it is, in place of asking for 1 MiB.
    #[must_use]
    pub fn keep_capacity(mut self) -> Self {
        self.out.set_keep_capacity();
        self
    }

    /// The descriptor. Bytes that are written to it directly overtake those in the buffer, unless these are flushed first.
    pub fn get_ref(&self) -> &Fd {
        self.out.get_ref()
    }

    /// Sends all that is in the buffer and returns the descriptor.
    ///
    /// # Errors
    /// What [`flush`](Write::flush) reports, with the writer, which still has what was not sent.
    #[expect(clippy::result_large_err, reason = "it is the writer itself")]
    pub fn into_inner(mut self) -> Result<Fd, Unsent<Self>> {
        match self.send().and_then(|()| self.out.take()) {
            Ok(Some(fd)) => {
                self.gone = true;
                Ok(fd)
            }
            Ok(None) => Err(Unsent::new(io::ErrorKind::NotConnected.into(), self)),
            Err(error) => Err(Unsent::new(error, self)),
        }
    }

    fn abandon(mut self) -> Fd {
        self.gone = true;
        self.out.abandon().expect("there until now")
    }

    /// Bytes that were written and are not in the pipe yet.
    pub fn buffered(&mut self) -> usize {
        self.window.len() + self.out.waiting()
    }

    /// How large writes move now. Tries what was not tried yet, which takes some 100 µs each.
    pub fn route(&mut self) -> Route {
        self.path().way.route()
    }

    /// The routes that were refused, and why; at the end why the last call of [`lend`](Self::lend) copied, if it did. Tries what was
    /// not tried yet.
    pub fn fallbacks(&mut self) -> Vec<(Route, Reason)> {
        self.path().fallbacks
    }

    /// Both, and the capacity, for our own tools. No promise of stability.
    #[doc(hidden)]
    pub fn path(&mut self) -> Path {
        let len = self.window.close();
        let path = self.out.path();
        if self.out.uncommitted() > 0 {
            self.reopen(len);
        }
        path
    }

    /// Sends bytes that the caller keeps, without copying them where that is possible and faster: whole huge pages of private
    /// memory. They may be changed as soon as this returns, whoever still holds them. What is in the buffer goes first.
    ///
    /// Returns how many bytes were taken: all, where the pipe blocks. Those that were copied may wait in the buffer, as after
    /// `write`. [`fallbacks`](Self::fallbacks) says why they were copied, if they were:
    /// [`copy_on_write`](Self::copy_on_write) must allow it, the memory must be private, anonymous and in huge pages, and it takes
    /// Linux 6.11 (see [`fullbore_sys::writer::Unbuffered::lend`], which has the argument for soundness, too).
    ///
    /// # Errors
    /// As for `write`. What moved before an error is returned as a count, and the error by the next call.
    pub fn lend(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send()?;
        self.out.lend(bytes)
    }

    /// Memory to generate data into, in the buffer itself: `len` bytes, at most 1 MiB (look at its length). What it contains
    /// is unspecified. [`commit`](Block::commit) writes it.
    ///
    /// # Errors
    /// The buffer has no room and cannot be sent. Nothing is lost.
    ///
    /// # Examples
    /// ```
    /// # let (_reader, pipe) = std::io::pipe()?;
    /// let mut out = fullbore::PipeWriter::new(pipe);
    /// let mut block = out.block(64 << 10)?;
    /// block.fill(b'x');
    /// let len = block.len();
    /// block.commit(len)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn block(&mut self, len: usize) -> io::Result<Block<'_, Fd>> {
        let len = len.min(PIECE);
        if self.window.room() < len {
            self.send()?;
            self.open(len);
        }
        Ok(Block::new(self, len))
    }

    fn mode(&mut self) -> Mode {
        if self.mode == Mode::Undecided {
            self.mode = match self.get_ref().as_fd().is_terminal() {
                true => Mode::Lines,
                false => Mode::Buffered,
            };
        }
        self.mode
    }

    /// Opens a window on a block of at least `least` bytes; nothing may be in the one before.
    fn open(&mut self, least: usize) {
        let lends = self.out.lends_next();
        let len = match (lends, self.out.is_long()) {
            (true, _) => PIECE,
            (false, true) => COPIED,
            (false, false) => COPIED_AT_FIRST,
        };
        let len = len.max(least);
        self.window.close();
        self.out.block(len);
        self.reopen(0);
        self.since = (len > LOOK_EVERY).then(Instant::now);
    }

    /// Opens the window on what is left of the block, of which the first `len` bytes are filled.
    fn reopen(&mut self, len: usize) {
        let block = self.out.block_mut();
        let len = len.min(block.len());
        // SAFETY: the memory of a block stays where it is, unused, until the next call on the writer that has it (`block_mut`).
        // That is `self.out`, and whatever calls it with `&mut` has closed the window first: `send`, `open`, `path`, `settle`,
        // and those who call `send` or `settle` before. The others do not touch the block: `waiting`, the setters, which change
        // a flag, and all that take `&self.out`, `get_ref` among them.
        #[allow(unsafe_code)]
        let window = unsafe { Window::open(block, len) };
        self.window = window;
        if self.mode() == Mode::Buffered {
            self.window.allow(LOOK_EVERY);
        }
    }

    /// Sends what is in the window. What cannot be sent is in the next window.
    fn send(&mut self) -> io::Result<()> {
        if !self.window.is_open() {
            return Ok(());
        }
        let len = self.window.close();
        let all = self.out.uncommitted();
        let sent = self.out.commit(len);
        match sent {
            Ok(()) => self.out.forget_block(),
            Err(_) => {
                let taken = all - self.out.uncommitted();
                self.reopen(len - taken);
            }
        }
        sent
    }

    /// Whether there is much in the window, and the first of it was put in long ago.
    fn is_due(&mut self) -> bool {
        let much = self.window.len() >= LOOK_EVERY;
        much && self.since.is_some_and(|since| since.elapsed() > OLD)
    }

    /// Takes some of the bytes, at least one, into the buffer or past it.
    fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.window.is_open() && self.window.room() == 0 {
            self.send()?;
        }
        let copied = !self.out.lends_next() && bytes.len() >= COPIED_AT_FIRST;
        if copied && self.window.len() == 0 {
            self.settle();
            return self.out.write(bytes);
        }
        if !self.window.is_open() {
            self.open(0);
        }
        let taken = self.window.put(bytes);
        if self.mode() == Mode::Buffered {
            self.window.allow(LOOK_EVERY);
        }
        // What cannot be sent now stays, and is found again when there is no room for more.
        if self.window.room() == 0 || self.is_due() {
            let _ = self.send();
        }
        Ok(taken)
    }

    /// Closes an empty window.
    fn settle(&mut self) {
        if self.window.len() == 0 {
            self.window.close();
            self.out.forget_block();
        }
    }

    /// Takes some of the bytes, and sends whole lines.
    fn take_lines(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(last) = bytes.iter().rposition(|&b| b == b'\n') else {
            return self.take(bytes);
        };
        if self.window.len() == 0 {
            self.settle();
            return self.out.write(&bytes[..=last]);
        }
        let taken = self.take(&bytes[..=last])?;
        if taken > last {
            let _ = self.send(); // what cannot be sent stays, and is found again
        }
        Ok(taken)
    }

    #[cold]
    fn write_slowly(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        match self.mode() {
            Mode::Unbuffered => {
                self.send()?; // of a block that could not be sent
                self.settle();
                self.out.write(bytes)
            }
            Mode::Lines => self.take_lines(bytes),
            _ => self.take(bytes),
        }
    }

    #[cold]
    fn write_all_slowly(&mut self, bytes: &[u8]) -> io::Result<()> {
        write_all_by(bytes, |bytes| self.write_slowly(bytes))
    }

    /// Gives memory back that was had long ago, compared with what it costs to get it anew.
    fn give_back(&mut self) {
        let Some(since) = self.out.memory_since() else {
            return;
        };
        let mib = u32::try_from(self.out.memory() >> 20).unwrap_or(u32::MAX);
        if since.elapsed() > ANEW * GIVE_BACK_AFTER * mib.clamp(2, 1000) {
            self.settle();
            self.out.release();
        }
    }
}

impl<Fd: AsFd> Write for PipeWriter<Fd> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.window.put_at_once(bytes) {
            return Ok(bytes.len());
        }
        self.write_slowly(bytes)
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.window.put_at_once(bytes) {
            return Ok(());
        }
        self.write_all_slowly(bytes)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.mode() == Mode::Unbuffered {
            let first = bufs.iter().find(|b| !b.is_empty());
            return first.map_or(Ok(0), |b| self.write(b));
        }
        let mut taken = 0;
        for buf in bufs {
            let mut bytes = &buf[..];
            while !bytes.is_empty() {
                match self.write(bytes) {
                    Ok(n) if n > 0 => {
                        taken += n;
                        bytes = &bytes[n..];
                    }
                    Err(e) if taken == 0 => return Err(e),
                    _ => return Ok(taken),
                }
            }
        }
        Ok(taken)
    }

    /// Sends all that is in the buffer. On a pipe that does not block, `WouldBlock` says that some is still there.
    fn flush(&mut self) -> io::Result<()> {
        self.send()?;
        self.out.flush()?;
        self.give_back();
        Ok(())
    }
}

/// Sends what is in the buffer. Errors are lost: [`flush`](Write::flush) first. A pipe that does not block may not take all.
impl<Fd: AsFd> Drop for PipeWriter<Fd> {
    fn drop(&mut self) {
        if !self.gone {
            let _ = self.send();
        }
    }
}

impl<Fd: AsFd> AsFd for PipeWriter<Fd> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.get_ref().as_fd()
    }
}

impl<Fd: AsFd> AsRawFd for PipeWriter<Fd> {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// Sends what is in the buffer, and loses errors, as drop does: [`into_inner`](PipeWriter::into_inner) reports them.
impl From<PipeWriter<OwnedFd>> for OwnedFd {
    fn from(writer: PipeWriter<OwnedFd>) -> Self {
        match writer.into_inner() {
            Ok(fd) => fd,
            Err(unsent) => unsent.abandon(),
        }
    }
}

impl IntoRawFd for PipeWriter<OwnedFd> {
    fn into_raw_fd(self) -> RawFd {
        OwnedFd::from(self).into_raw_fd()
    }
}

impl<Fd: AsFd + fmt::Debug> fmt::Debug for PipeWriter<Fd> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipeWriter")
            .field("mode", &self.mode)
            .field("out", &self.out)
            .finish_non_exhaustive()
    }
}

/// A buffered writer into standard output: see [`PipeWriter`]. Do not mix it with `print!`, which buffers on its own.
#[must_use]
pub fn stdout() -> PipeWriter<BorrowedFd<'static>> {
    PipeWriter::new(rustix::stdio::stdout())
}
