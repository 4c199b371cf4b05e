//! [`Inspect`]: descriptor to descriptor, and every byte is seen on the way.

#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::pump::{Side, is_refusal};
use fullbore_sys::calls::{self, End, SpliceFlags};
use fullbore_sys::capacity;
use fullbore_sys::private::Private;
use fullbore_sys::wait::{Wait, Waiter};
use fullbore_sys::{Reason, Route};

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
/// let file = std::fs::File::open("/proc/self/status")?;
/// let (mut reader, writer) = std::io::pipe()?;
/// let mut inspect = fullbore::moving::Inspect::new(&file, &writer);
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
pub struct Inspect<F, T> {
    from: F,
    to: T,
    way: Way,
    buffer: Vec<u8>,
    /// What was shown and is not delivered yet: `buffer[start..end]`.
    start: usize,
    end: usize,
    fallbacks: Vec<(Route, Reason)>,
    waits_from: Waiter,
    waits_to: Waiter,
    blame: Side,
}

#[derive(Debug)]
enum Way {
    /// What is shown lies in `slots`, too, which may hold more than that.
    Tee {
        slots: Private,
        copies: Private,
    },
    Copy,
}

impl<F: AsFd, T: AsFd> Inspect<F, T> {
    /// An inspector between two descriptors, which may be borrowed or its own.
    #[must_use]
    pub fn new(from: F, to: T) -> Self {
        for fd in [from.as_fd(), to.as_fd()] {
            if calls::is_pipe(fd) {
                let _ = capacity::largest(fd); // what is refused is not needed
            }
        }
        let (way, refused) = if calls::is_of_packets(&from) {
            (Way::Copy, Some(Reason::Packets))
        } else {
            match (Private::large(), Private::large()) {
                (Ok(slots), Ok(copies)) => (Way::Tee { slots, copies }, None),
                (Err(e), _) | (_, Err(e)) => (Way::Copy, Some(e.into())),
            }
        };
        let fallbacks = refused.map(|reason| (Route::Relay, reason));
        Self {
            from,
            to,
            way,
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
            fallbacks: fallbacks.into_iter().collect(),
            waits_from: Waiter::new(Wait::Block, End::Read),
            waits_to: Waiter::new(Wait::Block, End::Write),
            blame: Side::Input,
        }
    }

    /// How bytes reach the output: [`Route::Relay`], or [`Route::ReadWrite`] where that was refused.
    #[must_use]
    pub fn route(&self) -> Route {
        match self.way {
            Way::Tee { .. } => Route::Relay,
            Way::Copy => Route::ReadWrite,
        }
    }

    /// The routes that would have been better, and why each was left.
    #[must_use]
    pub fn fallbacks(&self) -> &[(Route, Reason)] {
        &self.fallbacks
    }

    /// Which side the last error was of.
    #[must_use]
    pub fn blame(&self) -> Side {
        self.blame
    }

    /// Shows the bytes that come next; waits for some where there are none. Takes at most `most` bytes from the input: of a
    /// packet (of a socket, or a pipe with `O_DIRECT`) the rest may be lost then, and delivering less is the way to slow down.
    /// Empty at the end of the file.
    ///
    /// # Errors
    /// What the system calls report of the input.
    pub fn fill(&mut self, most: usize) -> io::Result<&[u8]> {
        self.blame = Side::Input;
        while self.start == self.end {
            (self.start, self.end) = (0, 0);
            let len = most.min(self.buffer.len());
            let buffer = &mut self.buffer[..len];
            let mut call = "splice";
            let filled = self
                .waits_from
                .until_ready(&self.from, || match &mut self.way {
                    Way::Tee { slots, copies } => {
                        show_next(self.from.as_fd(), slots, copies, buffer, &mut call)
                    }
                    Way::Copy => calls::read(&self.from, buffer),
                });
            match filled {
                Ok(0) => break,
                Ok(n) => self.end = n,
                Err(e) if is_refusal(&e) && matches!(self.way, Way::Tee { .. }) => {
                    self.fall_back(Reason::of(call, &e))?;
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
        self.blame = Side::Output;
        let len = most.min(self.end - self.start);
        if len == 0 {
            return Ok(&[]);
        }
        let n = loop {
            let bytes = &self.buffer[self.start..self.start + len];
            let delivered = self.waits_to.until_ready(&self.to, || match &mut self.way {
                Way::Tee { slots, .. } => slots.deliver(&self.to, len, SpliceFlags::empty()),
                Way::Copy => calls::write(&self.to, bytes),
            });
            match delivered {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => break n,
                Err(e) if is_refusal(&e) && matches!(self.way, Way::Tee { .. }) => {
                    self.fall_back(Reason::of("splice", &e))?;
                }
                Err(e) => return Err(e),
            }
        };
        self.start += n;
        Ok(&self.buffer[self.start - n..self.start])
    }

    /// Goes on by hand, with all that the private pipe holds.
    fn fall_back(&mut self, reason: Reason) -> io::Result<()> {
        if let Way::Tee { slots, .. } = &mut self.way {
            // It holds what was shown, and more: as much as was taken at once.
            let mut held = Vec::new();
            slots.take_all(&mut held)?;
            (self.start, self.end) = (0, held.len());
            held.resize(held.len().max(BUFFER), 0);
            self.buffer = held;
        }
        self.way = Way::Copy;
        self.fallbacks.push((Route::Relay, reason));
        Ok(())
    }
}

/// Takes the next slots where all others were delivered, and reads a copy of what they hold. Of an error, `call` says where it
/// comes from.
fn show_next(
    from: BorrowedFd<'_>,
    slots: &mut Private,
    copies: &mut Private,
    buffer: &mut [u8],
    call: &mut &'static str,
) -> io::Result<usize> {
    *call = "splice";
    if slots.held() == 0 && slots.fill(from, buffer.len(), SpliceFlags::empty())? == 0 {
        return Ok(0);
    }
    // Empty but for us: this cannot be refused for want of room.
    *call = "tee";
    copies.duplicate(slots, buffer.len())?;
    *call = "read";
    let mut n = 0;
    while copies.held() > 0 {
        n += copies.read(&mut buffer[n..])?;
    }
    Ok(n)
}
