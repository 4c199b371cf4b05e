//! `relay`: move whole slots into a private pipe, and drop them there, outside the first pipe's mutex.
//!
//! Dropping a slot gives its page back: a reference count that the writer's CPU has just touched. Inside the pipe's mutex,
//! as `splice` to /dev/null does it, the writer waits for all of that. Moving a slot to another pipe touches no page.

use std::io;
use std::os::fd::AsFd;

use crate::calls::SpliceFlags;
use crate::error::Result;
use crate::private::Private;
use crate::read::discard::Discard;

/// A private pipe that slots are moved to.
#[derive(Debug)]
pub struct Relay {
    private: Private,
    discard: Discard,
}

impl Relay {
    /// Makes the private pipe, as large as this user may have it.
    ///
    /// # Errors
    /// No descriptors left, or no /dev/null.
    pub fn new() -> Result<Self> {
        Ok(Self {
            private: Private::large()?,
            discard: Discard::new()?,
        })
    }

    /// Moves up to `len` bytes from `from`, which may be a pipe or what else splices, into the private pipe, in whole
    /// slots. Zero is end of file.
    ///
    /// # Errors
    /// What `splice(2)` reports of the source; then nothing was moved.
    pub fn fill(&mut self, from: impl AsFd, len: usize, flags: SpliceFlags) -> io::Result<usize> {
        self.private.fill(from, len, flags)
    }

    /// Bytes in the private pipe: those that were not dropped or delivered yet.
    #[must_use]
    pub fn held(&self) -> usize {
        self.private.held()
    }

    /// Moves up to `len` held bytes on to `to`.
    ///
    /// # Errors
    /// What `splice(2)` reports of the target; then nothing was moved.
    pub fn deliver(&mut self, to: impl AsFd, len: usize, flags: SpliceFlags) -> io::Result<usize> {
        self.private.deliver(to, len, flags)
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
        let moved = self.private.fill(from, len, flags)?;
        self.drop_held()?;
        Ok(moved)
    }

    /// Drops all that the private pipe holds.
    ///
    /// # Errors
    /// What `splice(2)` to /dev/null reports.
    pub fn drop_held(&mut self) -> io::Result<()> {
        self.private.drop_first(self.private.held(), &self.discard)
    }
}
