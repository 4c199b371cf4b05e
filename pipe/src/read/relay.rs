//! `relay`: move whole slots into a private pipe, and drop them there, outside the first pipe's mutex.
//!
//! Dropping a slot gives its page back: a reference count that the writer's CPU has just touched. Inside the pipe's mutex,
//! as `splice` to /dev/null does it, the writer waits for all of that. Moving a slot to another pipe touches no page.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::capacity;
use crate::error::{Error, Result};
use crate::read::discard::Discard;
use crate::sys::{self, SpliceFlags};

/// A private pipe that slots are moved to.
#[derive(Debug)]
pub struct Relay {
    read: OwnedFd,
    write: OwnedFd,
    /// Bytes in the private pipe: those that an error kept from being dropped or delivered.
    held: usize,
    discard: Discard,
}

impl Relay {
    /// Makes the private pipe, as large as this user may have it.
    ///
    /// # Errors
    /// No descriptors left, or no /dev/null.
    pub fn new() -> Result<Self> {
        let pipe = sys::pipe();
        let (read, write) =
            pipe.map_err(|e| Error::system("no private pipe", e, "close some descriptors"))?;
        let _ = capacity::largest(&write); // a smaller one works as well
        Ok(Self {
            read,
            write,
            held: 0,
            discard: Discard::new()?,
        })
    }

    /// Moves up to `len` bytes from `from`, which may be a pipe or what else splices, into the private pipe, in whole
    /// slots. Zero is end of file.
    ///
    /// # Errors
    /// What `splice(2)` reports of the source; then nothing was moved.
    pub fn fill(&mut self, from: impl AsFd, len: usize, flags: SpliceFlags) -> io::Result<usize> {
        let moved = sys::splice(from, &self.write, len, flags)?;
        self.held += moved;
        Ok(moved)
    }

    /// Bytes in the private pipe.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Moves up to `len` held bytes on to `to`.
    ///
    /// # Errors
    /// What `splice(2)` reports of the target; then nothing was moved.
    pub fn deliver(&mut self, to: impl AsFd, len: usize, flags: SpliceFlags) -> io::Result<usize> {
        let moved = sys::splice(&self.read, to, len.min(self.held), flags)?;
        self.held -= moved;
        Ok(moved)
    }

    /// Duplicates up to `len` held bytes, from the first on, into another pipe; they stay held.
    ///
    /// # Errors
    /// What `tee(2)` reports.
    pub fn tee(&self, to: impl AsFd, len: usize, flags: SpliceFlags) -> io::Result<usize> {
        sys::tee(&self.read, to, len.min(self.held), flags)
    }

    /// Reads held bytes, for a target that cannot be spliced to.
    ///
    /// # Errors
    /// What `read(2)` reports.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(self.held);
        let n = sys::read(&self.read, &mut buffer[..most])?;
        self.held -= n;
        Ok(n)
    }

    /// Takes up to `len` bytes out of a pipe and drops them. Zero is end of file.
    ///
    /// # Errors
    /// What `splice(2)` reports.
    pub fn discard(
        &mut self,
        from: impl AsFd,
        len: usize,
        flags: SpliceFlags,
    ) -> io::Result<usize> {
        let moved = self.fill(from, len, flags)?;
        while self.held > 0 {
            self.held -= self
                .discard
                .discard(&self.read, self.held, SpliceFlags::empty())?;
        }
        Ok(moved)
    }
}
