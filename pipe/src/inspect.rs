//! [`Inspect`]: descriptor to descriptor, and every byte is seen on the way.

#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::capacity;
use crate::pump::is_refusal;
use crate::read::relay::Relay;
use crate::sys::{self, End};
use crate::wait::{Wait, Waiter};

/// Bytes that are seen at a time, at most: a part of a second-level cache.
const BUFFER: usize = 256 << 10;

/// Moves bytes from one descriptor to another and shows them.
///
/// What arrives is moved by `splice(2)` through a private pipe. What is shown is a copy: the slots are duplicated into a
/// second private pipe with `tee(2)` and read there. So each byte is copied once, where `read(2)` and `write(2)` copy it
/// twice and take fresh pages for it. Where splice is refused, those are used.
///
/// [`fill`](Self::fill) shows the bytes that come next, [`deliver`](Self::deliver) sends some of them on.
///
/// # Examples
/// ```
/// use std::os::fd::AsFd;
/// let file = std::fs::File::open("/proc/self/status")?;
/// let (mut reader, writer) = std::io::pipe()?;
/// let mut inspect = fullbore::inspect::Inspect::new(file.as_fd(), writer.as_fd());
/// let mut lines = 0;
/// while !inspect.fill(usize::MAX)?.is_empty() {
///     let arrived = inspect.deliver(usize::MAX)?;
///     lines += arrived.iter().filter(|&&b| b == b'\n').count();
/// }
/// # drop(inspect);
/// drop(writer);
/// assert_eq!(std::io::read_to_string(&mut reader)?.lines().count(), lines);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Inspect<'fd> {
    from: BorrowedFd<'fd>,
    to: BorrowedFd<'fd>,
    way: Way,
    buffer: Vec<u8>,
    /// What was shown and is not delivered yet: `buffer[start..end]`.
    start: usize,
    end: usize,
    fallback: Option<String>,
    waits_from: Waiter,
    waits_to: Waiter,
    blame: End,
}

#[derive(Debug)]
enum Way {
    /// What is shown lies in the relay, too, which may hold more than that.
    Tee {
        relay: Relay,
        copies: (OwnedFd, OwnedFd),
    },
    Copy,
}

impl<'fd> Inspect<'fd> {
    /// An inspector between two descriptors.
    #[must_use]
    pub fn new(from: BorrowedFd<'fd>, to: BorrowedFd<'fd>) -> Self {
        for fd in [from, to] {
            if sys::is_pipe(fd) {
                let _ = capacity::largest(fd); // what is refused is not needed
            }
        }
        let way = |relay| -> io::Result<Way> {
            let copies = sys::pipe()?;
            let _ = capacity::largest(&copies.1); // a smaller one works as well
            Ok(Way::Tee { relay, copies })
        };
        let way = Relay::new().map_err(io::Error::from).and_then(way);
        let (way, fallback) = match way {
            Ok(way) => (way, None),
            Err(e) => (Way::Copy, Some(e.to_string())),
        };
        Self {
            from,
            to,
            way,
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
            fallback,
            waits_from: Waiter::new(Wait::Adaptive, End::Read),
            waits_to: Waiter::new(Wait::Adaptive, End::Write),
            blame: End::Read,
        }
    }

    /// Whether bytes are written by hand, and why, if they are.
    #[must_use]
    pub fn fallback(&self) -> Option<&str> {
        self.fallback.as_deref()
    }

    /// Which side the last error was of: the input (`Read`) or the output (`Write`).
    #[must_use]
    pub fn blame(&self) -> End {
        self.blame
    }

    /// Shows the bytes that come next; waits for some where there are none. Takes at most `most` bytes from the input.
    /// Empty at the end of the file.
    ///
    /// # Errors
    /// What the system calls report of the input.
    pub fn fill(&mut self, most: usize) -> io::Result<&[u8]> {
        self.blame = End::Read;
        while self.start == self.end {
            (self.start, self.end) = (0, 0);
            let len = most.min(self.buffer.len());
            let filled = match &mut self.way {
                Way::Tee { relay, copies } => {
                    show_next(self.from, relay, copies, len, &mut self.buffer)
                }
                Way::Copy => sys::read(self.from, &mut self.buffer[..len]),
            };
            match filled {
                Ok(0) => break,
                Ok(n) => self.end = n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.waits_from.after_would_block(self.from)?;
                }
                Err(e) if is_refusal(&e) && matches!(self.way, Way::Tee { .. }) => {
                    self.fall_back(&e)?;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Sends on some of the bytes that [`fill`](Self::fill) has shown, at most `most`; waits until the output takes some.
    /// Returns those that arrived.
    ///
    /// # Errors
    /// What the system calls report of the output.
    pub fn deliver(&mut self, most: usize) -> io::Result<&[u8]> {
        self.blame = End::Write;
        let len = most.min(self.end - self.start);
        if len == 0 {
            return Ok(&[]);
        }
        let n = loop {
            let delivered = match &mut self.way {
                Way::Tee { relay, .. } => {
                    relay.deliver(self.to, len, Wait::Adaptive.splice_flags())
                }
                Way::Copy => sys::write(self.to, &self.buffer[self.start..self.start + len]),
            };
            match delivered {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => break n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.waits_to.after_would_block(self.to)?;
                }
                Err(e) if is_refusal(&e) && matches!(self.way, Way::Tee { .. }) => {
                    self.fall_back(&e)?;
                }
                Err(e) => return Err(e),
            }
        };
        self.start += n;
        Ok(&self.buffer[self.start - n..self.start])
    }

    /// Goes on by hand, with all that the private pipe holds.
    fn fall_back(&mut self, reason: &io::Error) -> io::Result<()> {
        if let Way::Tee { relay, .. } = &mut self.way {
            // It holds what was shown, and more: as much as was taken at once, which the buffer can hold.
            let held = relay.held();
            self.buffer.resize(self.buffer.len().max(held), 0);
            (self.start, self.end) = (0, 0);
            while relay.held() > 0 {
                self.end += relay.read(&mut self.buffer[self.end..held])?;
            }
        }
        self.way = Way::Copy;
        self.fallback = Some(reason.to_string());
        Ok(())
    }
}

/// Fills the relay where it is empty, and reads a copy of what it holds.
fn show_next(
    from: BorrowedFd<'_>,
    relay: &mut Relay,
    copies: &(OwnedFd, OwnedFd),
    len: usize,
    buffer: &mut [u8],
) -> io::Result<usize> {
    let flags = Wait::Adaptive.splice_flags();
    if relay.held() == 0 && relay.fill(from, len, flags)? == 0 {
        return Ok(0);
    }
    let (read_end, write_end) = copies;
    // Empty but for us: this cannot be refused for want of room.
    let copied = relay.tee(write_end.as_fd(), len, flags)?;
    let mut n = 0;
    while n < copied {
        n += sys::read(read_end, &mut buffer[n..copied])?;
    }
    Ok(n)
}
