//! `cow`: copy once into a huge page, lend it to the pipe, write it again when the kernel copies on write for whoever holds it.
//!
//! Compared with [`fresh`](super::fresh) nothing is given back to the kernel and nothing is zeroed, and what is written again
//! still lies in a cache. The price is a child process that comes and goes once a round, and huge pages that stay.

use std::io;
use std::os::fd::BorrowedFd;

use super::Lender;
use crate::error::Result;
use crate::pages::Pool;
use crate::sys::SpliceFlags;
use crate::write::fresh::PIECE;

/// Memory that is lent to a pipe, made copy-on-write, and written again.
#[derive(Debug)]
pub struct Cow {
    pool: Pool,
}

impl Cow {
    /// Maps the first of the memory and proves that huge pages are to be had. More is mapped as it is needed: up to `bytes`, or
    /// where that is not given up to 16 MiB, and up to 64 MiB where turns would take too much of the time.
    ///
    /// # Errors
    /// Huge pages are not to be had here, or not now ([`Error::is_passing`](crate::Error::is_passing)).
    pub fn new(bytes: Option<usize>) -> Result<Self> {
        Ok(Self {
            pool: Pool::new(bytes)?,
        })
    }
}

impl Lender for Cow {
    fn prepare(&mut self, len: usize, _keep: bool) -> Result<()> {
        self.pool.align();
        if self.pool.room() >= len.min(PIECE) {
            return Ok(());
        }
        self.pool.go_on()
    }

    fn open(&mut self, len: usize) -> &mut [u8] {
        &mut self.pool.free_mut()[..len]
    }

    fn skip(&mut self, len: usize) {
        self.pool.skip(len);
    }

    fn send(&mut self, fd: BorrowedFd<'_>, len: usize, flags: SpliceFlags) -> io::Result<usize> {
        self.pool.send(fd, len, flags)
    }
}
