//! [`PipeReader`]: out of a pipe without sleeping longer than it pays.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fullbore_sys::calls::{self, End};
use fullbore_sys::capacity;
use fullbore_sys::read::relay::Relay;
use fullbore_sys::wait::{Wait, Waiter, splice_flags};

/// A reader of a pipe that waits adaptively (see [`Waiter`]) and makes the pipe larger where it may, so that the writer
/// need not stop so often: up to 1 MiB, when it is first read from, unless [`keep_capacity`](Self::keep_capacity).
///
/// Works on anything that can be read; what is not a pipe gets plain `read(2)`.
///
/// # Examples
/// ```
/// use std::io::Read;
/// let (pipe, mut writer) = std::io::pipe()?;
/// std::thread::spawn(move || std::io::Write::write_all(&mut writer, &[7; 3_000_000]));
/// let mut reader = fullbore::PipeReader::new(pipe);
/// assert_eq!(reader.discard(1_000_000)?, 1_000_000);
/// let mut rest = Vec::new();
/// reader.read_to_end(&mut rest)?;
/// assert_eq!(rest.len(), 2_000_000);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct PipeReader<Fd> {
    fd: Fd,
    /// The same pipe in a non-blocking description of our own, if there is one.
    own: Option<OwnedFd>,
    /// The capacity is to stay as it is, or was already made larger.
    keep_capacity: bool,
    waiter: Waiter,
    relay: Option<Relay>,
}

impl<Fd: AsFd> PipeReader<Fd> {
    /// A reader of `fd`.
    #[must_use]
    pub fn new(fd: Fd) -> Self {
        let own = calls::reopen_nonblocking(fd.as_fd(), End::Read).ok();
        Self {
            fd,
            own,
            keep_capacity: false,
            waiter: Waiter::new(Wait::Adaptive, End::Read),
            relay: None,
        }
    }

    /// Leaves the capacity of the pipe as it is.
    #[must_use]
    pub fn keep_capacity(mut self) -> Self {
        self.keep_capacity = true;
        self
    }

    /// The descriptor.
    pub fn get_ref(&self) -> &Fd {
        &self.fd
    }

    /// Returns the descriptor. Nothing is buffered, so nothing is lost.
    pub fn into_inner(self) -> Fd {
        self.fd
    }

    /// Reads and drops exactly `len` bytes, or as many as there are before the end of file; returns how many. From a pipe
    /// they are moved, not copied.
    ///
    /// # Errors
    /// What the system calls report; `WouldBlock` on a descriptor that is non-blocking itself.
    pub fn discard(&mut self, len: u64) -> io::Result<u64> {
        self.make_larger();
        let mut left = len;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(1 << 30);
            match self.discard_some(most) {
                Ok(0) => break,
                Ok(n) => left -= n as u64,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if !calls::is_nonblocking(&self.fd) {
                        self.waiter.after_would_block(&self.fd)?;
                    } else if left < len {
                        break;
                    } else {
                        return Err(e);
                    }
                }
                Err(e) => return Err(e),
            }
        }
        Ok(len - left)
    }

    fn make_larger(&mut self) {
        if !self.keep_capacity && calls::is_pipe(&self.fd) {
            let _ = capacity::largest(&self.fd); // what is refused is not needed
        }
        self.keep_capacity = true;
    }

    fn discard_some(&mut self, most: usize) -> io::Result<usize> {
        if self.relay.is_none() && calls::is_pipe(&self.fd) {
            self.relay = Relay::new().ok();
        }
        match &mut self.relay {
            Some(relay) => relay.discard(&self.fd, most, splice_flags(self.waiter.wait())),
            None => {
                let mut buffer = vec![0; most.min(256 << 10)];
                calls::read(&self.fd, &mut buffer)
            }
        }
    }
}

impl<Fd: AsFd> Read for PipeReader<Fd> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.make_larger();
        let Some(own) = &self.own else {
            return calls::read(&self.fd, buffer);
        };
        loop {
            let fd = &self.fd;
            let read = self.waiter.call(|may_sleep| {
                if may_sleep && !calls::is_nonblocking(fd) {
                    calls::read(fd, buffer)
                } else {
                    calls::read(own, buffer)
                }
            });
            match read {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if calls::is_nonblocking(fd) {
                        return Err(e);
                    }
                    self.waiter.after_would_block(own)?;
                }
                other => return other,
            }
        }
    }
}

impl<Fd: AsFd> AsFd for PipeReader<Fd> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
