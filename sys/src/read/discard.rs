//! `splice` to /dev/null: take bytes out of a pipe without looking at them.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use crate::calls::{self, SpliceFlags};
use crate::error::{Error, Result};

/// Takes slots out of a pipe and drops them, inside the pipe's mutex.
#[derive(Debug)]
pub struct Discard {
    null: File,
}

impl Discard {
    /// Opens /dev/null.
    ///
    /// # Errors
    /// There is no /dev/null that may be written.
    pub fn new() -> Result<Self> {
        let null = File::options().write(true).open("/dev/null").map_err(|e| {
            Error::refused(
                "/dev/null cannot be opened",
                "open(/dev/null)",
                e,
                "create it: mknod -m 666 /dev/null c 1 3",
            )
        })?;
        Ok(Self { null })
    }

    /// Drops up to `len` bytes; zero is end of file.
    ///
    /// # Errors
    /// What `splice(2)` reports: see [`calls::splice`].
    pub fn discard(&self, pipe: impl AsFd, len: usize, flags: SpliceFlags) -> io::Result<usize> {
        calls::splice(pipe, &self.null, len, flags)
    }
}
