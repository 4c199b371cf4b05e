//! [`PipeReader`]: out of a pipe without sleeping longer than it pays.

mod buffer;
mod descriptor;
mod source;
#[cfg(test)]
mod tests;

use std::io::{self, BufRead, Read};
use std::os::fd::AsFd;

use crate::pump::is_refusal;
use fullbore_sys::calls;
use fullbore_sys::read::relay::Relay;

use buffer::Buffer;
use source::Source;

/// Bytes of the buffer where nobody has said how many: a part of a second-level cache.
const BUFFER: usize = 256 << 10;

/// A reader of a pipe that waits adaptively (see [`Waiter`](fullbore_sys::wait::Waiter)) and makes the pipe larger where it may, so that the writer
/// need not stop so often: up to 1 MiB, when it is first read from, unless [`keep_capacity`](Self::keep_capacity).
///
/// Works on anything that can be read; what is not a pipe gets plain `read(2)`.
///
/// # Buffer
/// [`Read`] takes bytes straight from the pipe. [`BufRead`] has the kernel copy them into a buffer of 256 KiB, or of as many
/// bytes as [`buffered`](Self::buffered) says, and shows them there; no byte is copied twice before it is seen. Both may be
/// used in turn, and with [`discard`](Self::discard): what the buffer holds always comes first.
///
/// # Non-blocking descriptors
/// `O_NONBLOCK` is never set, since others share it. Where it *is* set, every method returns `WouldBlock` when there is
/// nothing to read, and no byte is lost; so an event loop can hold a reader and call it when the descriptor is ready. What
/// the standard library builds of several reads keeps its own promises only: after an error `read_until` has the bytes
/// before it in its vector, while `read_exact` and `lines` may have dropped theirs.
///
/// # Examples
/// ```
/// use std::io::{BufRead, Read};
/// let (pipe, mut writer) = std::io::pipe()?;
/// std::thread::spawn(move || {
///     std::io::Write::write_all(&mut writer, b"first line\nsecond line\n")?;
///     std::io::Write::write_all(&mut writer, &[7; 3_000_000])
/// });
/// let mut reader = fullbore::PipeReader::new(pipe);
/// let mut line = String::new();
/// reader.read_line(&mut line)?;
/// assert_eq!(line, "first line\n");
/// assert_eq!(reader.discard(1_000_000)?, 1_000_000);
/// let mut rest = Vec::new();
/// reader.read_to_end(&mut rest)?;
/// assert_eq!(rest.len(), "second line\n".len() + 2_000_000);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct PipeReader<Fd> {
    source: Source<Fd>,
    buffer: Buffer,
    /// Whether reads that are smaller than the buffer go through it.
    buffered: bool,
    relay: Option<Relay>,
    /// Bytes cannot be dropped by splice here.
    discards_by_hand: bool,
}

impl<Fd: AsFd> PipeReader<Fd> {
    /// A reader of `fd`. It takes nothing from the pipe, and leaves its capacity as it is, until it is first read from.
    #[must_use]
    pub fn new(fd: Fd) -> Self {
        Self {
            source: Source::new(fd),
            buffer: Buffer::new(BUFFER),
            buffered: false,
            relay: None,
            discards_by_hand: false,
        }
    }

    /// Gives it a buffer of so many bytes (at least one), and takes reads that are smaller than that through it: for whoever
    /// reads a few bytes at a time. Larger ones go past an empty buffer. What it holds already stays.
    ///
    /// The memory is taken at the first such read. Where there is none the process is aborted, as with any `Vec`.
    ///
    /// # Examples
    /// ```
    /// use std::io::Read;
    /// let (pipe, mut writer) = std::io::pipe()?;
    /// std::io::Write::write_all(&mut writer, b"many small records")?;
    /// let mut reader = fullbore::PipeReader::new(pipe).buffered(64 << 10);
    /// let mut record = [0; 5];
    /// reader.read_exact(&mut record)?;
    /// assert_eq!(&record, b"many ");
    /// assert_eq!(reader.buffer(), b"small records");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn buffered(mut self, bytes: usize) -> Self {
        self.buffer.resize(bytes.max(1));
        self.buffered = true;
        self
    }

    /// Leaves the capacity of the pipe as it is, whatever is called from now on.
    #[must_use]
    pub fn keep_capacity(mut self) -> Self {
        self.source.keep_capacity();
        self
    }

    /// The descriptor. What is read from it directly comes after the bytes in [`buffer`](Self::buffer).
    pub fn get_ref(&self) -> &Fd {
        self.source.get_ref()
    }

    /// The bytes that were taken from the pipe and are still to be read. Empty for as long as only [`Read`] and
    /// [`discard`](Self::discard) are used, without [`buffered`](Self::buffered).
    #[must_use]
    pub fn buffer(&self) -> &[u8] {
        self.buffer.held()
    }

    /// Returns the descriptor.
    ///
    /// The bytes in [`buffer`](Self::buffer) were taken from the pipe and go with the reader: whoever wants to read on from the
    /// descriptor looks there first. The same holds for `OwnedFd::from` and [`into_raw_fd`](std::os::fd::IntoRawFd).
    pub fn into_inner(self) -> Fd {
        self.source.into_inner()
    }

    /// Reads and drops `len` bytes; returns how many. Those in the buffer are the first. From a pipe the others are moved, not
    /// copied.
    ///
    /// Fewer are dropped at the end of file, where the next call returns 0, and before an error, which the next call returns.
    ///
    /// # Errors
    /// What the system calls report, when nothing was dropped; `WouldBlock` on a descriptor that is non-blocking itself.
    pub fn discard(&mut self, len: u64) -> io::Result<u64> {
        let mut dropped = self.buffer.consume(bounded(len)) as u64;
        while dropped < len {
            let result = match self.discard_some(bounded(len - dropped)) {
                Ok(0) => break,
                Ok(n) => {
                    dropped += n as u64;
                    continue;
                }
                Err(e) => self.source.wait_after(e),
            };
            match result {
                Ok(()) => {}
                Err(e) if dropped == 0 => return Err(e),
                Err(e) => {
                    self.source.fail_next(e);
                    break;
                }
            }
        }
        Ok(dropped)
    }

    /// Drops some bytes of the pipe, at most `most`, while the buffer is empty. Zero is end of file.
    fn discard_some(&mut self, most: usize) -> io::Result<usize> {
        self.source.begin()?;
        let fd = self.source.get_ref();
        if self.relay.is_none() && !self.discards_by_hand {
            self.discards_by_hand = !calls::is_pipe(fd);
            if !self.discards_by_hand {
                self.relay = Relay::new().ok(); // where descriptors ran out, the next call tries again
            }
        }
        if let Some(relay) = &mut self.relay {
            let moved = match relay.fill(fd, most, self.source.splice_flags()) {
                Err(e) if !is_refusal(&e) => return Err(e),
                moved => moved.ok(),
            };
            if moved.is_none() || relay.drop_held().is_err() {
                self.relay = None; // what a closed pipe held is dropped, too
                self.discards_by_hand = true;
            }
            if let Some(n) = moved {
                return Ok(n);
            }
        }
        let n = self.buffer.fill(most, |bytes| calls::read(fd, bytes))?;
        Ok(self.buffer.consume(n))
    }
}

/// So many bytes, or as many as one call may be asked for.
fn bounded(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

impl<Fd: AsFd> Read for PipeReader<Fd> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let is_small = into.len() < self.buffer.size();
        if self.buffer().is_empty() && !(self.buffered && is_small) {
            return self.source.read(into);
        }
        if into.is_empty() {
            return Ok(0); // there is nothing to wait for
        }
        let held = self.fill_buf()?;
        let len = held.len().min(into.len());
        into[..len].copy_from_slice(&held[..len]);
        self.consume(len);
        Ok(len)
    }
}

impl<Fd: AsFd> BufRead for PipeReader<Fd> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.buffer().is_empty() {
            let source = &mut self.source;
            self.buffer.fill(usize::MAX, |bytes| source.read(bytes))?;
        }
        Ok(self.buffer())
    }

    fn consume(&mut self, len: usize) {
        self.buffer.consume(len);
    }
}
