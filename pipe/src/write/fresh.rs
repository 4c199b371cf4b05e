//! `fresh`: copy once into a huge page, lend it to the pipe, abandon it later. No byte is written after it was lent.

use std::io;
use std::os::fd::AsFd;

use crate::error::{Error, Result};
use crate::pages::Lend;
use crate::sys::SpliceFlags;

/// Memory whose pages are lent to a pipe and then abandoned.
#[derive(Debug)]
pub struct Fresh {
    lend: Lend,
    turns: u32,
}

/// The longest piece that is lent in one call, in bytes: longer ones hold the pipe's mutex for too long, shorter ones
/// pay for the call too often. `docs/measurements.md` has the figures.
pub const PIECE: usize = 1 << 20;

/// Looking whether the memory still is a huge page costs 10 µs: done for each 32nd, that is every 64 MiB.
const LOOK_EVERY: u32 = 32;

impl Fresh {
    /// Maps the memory and proves that huge pages are to be had.
    ///
    /// # Errors
    /// Huge pages are not to be had here. Small ones would be slower than `write(2)`.
    pub fn new() -> Result<Self> {
        let mut lend = Lend::new()?;
        lend.free_mut()[0] = 0; // brings the page in
        let fresh = Self { lend, turns: 0 };
        fresh.insist_on_huge()?;
        Ok(fresh)
    }

    fn insist_on_huge(&self) -> Result<()> {
        let why = match self.lend.is_huge() {
            Some(true) => return Ok(()),
            Some(false) => "the kernel gave small ones",
            None => "nothing here tells whether the kernel gave huge ones",
        };
        Err(Error::new(
            "huge pages refused",
            why,
            "free memory, or set /sys/kernel/mm/transparent_hugepage/enabled to madvise",
        ))
    }

    /// Makes `len` bytes ready to be [opened](Self::open), at most [`PIECE`]. With `keep` pages are abandoned late: faster
    /// while reader and writer are near each other, slower while they are far.
    ///
    /// # Errors
    /// The pages could not be abandoned, or the fresh ones are not huge: another way must be taken. Nothing is lost.
    pub fn prepare(&mut self, len: usize, keep: bool) -> Result<()> {
        self.lend.align();
        if self.lend.room() >= len.min(PIECE) {
            return Ok(());
        }
        self.turns += 1;
        if self.turns.is_multiple_of(LOOK_EVERY) {
            self.insist_on_huge()?;
        }
        self.lend.turn(keep)
    }

    /// The next `len` bytes, to write into. They must have been prepared.
    pub fn open(&mut self, len: usize) -> &mut [u8] {
        &mut self.lend.free_mut()[..len]
    }

    /// Leaves out the next `len` bytes, which have been sent some other way.
    pub fn skip(&mut self, len: usize) {
        self.lend.skip(len);
    }

    /// Lends the first `len` bytes of the block to a pipe. Returns how many the pipe took; the others now are the first
    /// bytes of the block.
    ///
    /// # Errors
    /// What `vmsplice(2)` reports; then the pipe took nothing.
    pub fn send(&mut self, fd: impl AsFd, len: usize, flags: SpliceFlags) -> io::Result<usize> {
        self.lend.send(fd, len, flags)
    }
}
