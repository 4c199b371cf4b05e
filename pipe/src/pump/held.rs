//! The buffer of [`Route::ReadWrite`](crate::Route::ReadWrite).

use std::io;
use std::os::fd::BorrowedFd;

use fullbore_sys::calls;
use fullbore_sys::wait::Waiter;

/// Bytes that were read and not all written yet.
#[derive(Debug)]
pub(super) struct Held {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Held {
    /// Nothing yet, in a buffer of so many bytes.
    pub(super) fn new(len: usize) -> Self {
        Self {
            buffer: vec![0; len],
            start: 0,
            end: 0,
        }
    }

    /// These bytes, in a buffer of at least so many.
    pub(super) fn of(mut bytes: Vec<u8>, len: usize) -> Self {
        let end = bytes.len();
        bytes.resize(end.max(len), 0);
        Self {
            buffer: bytes,
            start: 0,
            end,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Reads some bytes, at most `most`, once all others were written. Zero is end of file.
    pub(super) fn fill(
        &mut self,
        from: BorrowedFd<'_>,
        most: usize,
        waits: &mut Waiter,
    ) -> io::Result<usize> {
        let len = most.min(self.buffer.len());
        let n = waits.until_ready(from, || calls::read(from, &mut self.buffer[..len]))?;
        (self.start, self.end) = (0, n);
        Ok(n)
    }

    /// Writes some of them, at most `most`.
    pub(super) fn deliver(
        &mut self,
        to: BorrowedFd<'_>,
        most: usize,
        waits: &mut Waiter,
    ) -> io::Result<usize> {
        let end = self.end.min(self.start.saturating_add(most));
        match waits.until_ready(to, || calls::write(to, &self.buffer[self.start..end]))? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            n => {
                self.start += n;
                Ok(n)
            }
        }
    }
}
