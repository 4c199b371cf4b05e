//! A pipe that only this process knows: what lies in it is out of everybody's reach.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::calls::{self, SpliceFlags};
use crate::capacity;
use crate::error::{Error, Result};
use crate::read::discard::Discard;

/// A private pipe, and how many bytes it holds.
#[derive(Debug)]
pub struct Private {
    read: OwnedFd,
    write: OwnedFd,
    held: usize,
}

impl Private {
    /// A pipe of the capacity that the kernel gives.
    pub fn new() -> Result<Self> {
        let pipe = calls::pipe();
        let (read, write) = pipe
            .map_err(|e| Error::refused("no private pipe", "pipe", e, "close some descriptors"))?;
        Ok(Self {
            read,
            write,
            held: 0,
        })
    }

    /// A pipe as large as this user may have it.
    pub fn large() -> Result<Self> {
        let private = Self::new()?;
        private.grow();
        Ok(private)
    }

    /// How many bytes it can hold, with slots of one page each.
    ///
    /// # Errors
    /// The call is refused.
    pub fn capacity(&self) -> Result<usize> {
        capacity::get(&self.write)
    }

    /// Asks for a capacity in bytes, and returns what was granted.
    ///
    /// # Errors
    /// As for [`capacity::set`].
    pub fn set_capacity(&self, bytes: usize) -> Result<usize> {
        capacity::set(&self.write, bytes)
    }

    /// Makes it as large as this user may have it; a smaller one works as well.
    pub fn grow(&self) {
        let _ = capacity::largest(&self.write);
    }

    /// Bytes in it.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Moves up to `len` bytes from what splices into this pipe, whole slots from a pipe. Zero is end of file; an error is
    /// of `from`, and has moved nothing.
    pub fn fill(&mut self, from: impl AsFd, len: usize, flags: SpliceFlags) -> io::Result<usize> {
        let moved = calls::splice(from, &self.write, len, flags)?;
        self.held += moved;
        Ok(moved)
    }

    /// Takes references to the pages behind `bytes`, as many as there is room for.
    ///
    /// # Safety
    /// As for [`calls::vmsplice`]: nobody may change a byte that was taken while somebody holds its page.
    #[allow(unsafe_code)]
    pub unsafe fn lend(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: this is a write end; the rest is this function's own condition.
        let taken = unsafe { calls::vmsplice_borrowed(&self.write, bytes, SpliceFlags::NONBLOCK) }?;
        self.held += taken;
        Ok(taken)
    }

    /// Moves up to `len` bytes on. An error is of `to`, and has moved nothing.
    pub fn deliver(&mut self, to: impl AsFd, len: usize, flags: SpliceFlags) -> io::Result<usize> {
        let moved = calls::splice(&self.read, to, len.min(self.held), flags)?;
        self.held -= moved;
        Ok(moved)
    }

    /// Duplicates up to `len` bytes from the head of another private pipe into this one; they stay in that one, too.
    pub fn duplicate(&mut self, source: &Self, len: usize) -> io::Result<usize> {
        let len = len.min(source.held);
        let teed = calls::tee(&source.read, &self.write, len, SpliceFlags::NONBLOCK)?;
        self.held += teed;
        Ok(teed)
    }

    /// Waits until another pipe has bytes or is at its end, takes nothing from it, and returns whether it is at its end. Must
    /// be empty.
    pub fn sees_end(&self, of: impl AsFd) -> io::Result<bool> {
        if calls::tee(of, &self.write, 1, SpliceFlags::empty())? == 0 {
            return Ok(true);
        }
        calls::read(&self.read, &mut [0])?;
        Ok(false)
    }

    /// Reads bytes, no more than it holds.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(self.held);
        let n = calls::read(&self.read, &mut buffer[..most])?;
        self.held -= n;
        Ok(n)
    }

    /// Reads all it holds behind what is in `bytes`.
    pub fn take_all(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        while self.held > 0 {
            let end = bytes.len();
            bytes.resize(end + self.held, 0);
            let read = self.read(&mut bytes[end..]);
            bytes.truncate(end + *read.as_ref().unwrap_or(&0));
            if read? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    /// Drops the first `len` bytes that it holds, through /dev/null.
    pub fn drop_first(&mut self, len: usize, null: &Discard) -> io::Result<()> {
        let mut left = len;
        while left > 0 {
            let dropped = null.discard(&self.read, left, SpliceFlags::empty())?;
            left -= dropped;
            self.held -= dropped;
        }
        Ok(())
    }
}
