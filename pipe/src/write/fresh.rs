//! `fresh`: copy once into a huge page, lend it to the pipe, abandon it later. No byte is written after it was lent.

use std::io;
use std::os::fd::AsFd;

use crate::error::{Error, Result};
use crate::pages::Lend;
use crate::size::Size;
use crate::sys::SpliceFlags;

/// Memory whose pages are lent to a pipe and then abandoned.
///
/// A page that somebody keeps a part of is kept whole. So one page in [`LOOK_EVERY`] bytes is put aside, and is asked of when
/// as much again was lent: while it is still held nothing more is lent, so that a reader which keeps slots pins twice that
/// at most, and three pages. This takes Linux 6.1; before that nothing tells.
#[derive(Debug)]
pub struct Fresh {
    lend: Lend,
    turns: usize,
    /// Somebody has kept a page for too long.
    held: bool,
}

/// The longest piece that is lent in one call, in bytes: longer ones hold the pipe's mutex for too long, shorter ones
/// pay for the call too often. `docs/measurements.md` has the figures.
pub const PIECE: usize = 1 << 20;

/// Bytes that are lent between two looks at a page that was put aside.
pub const LOOK_EVERY: usize = 32 << 20;

impl Fresh {
    /// Maps the memory and proves that huge pages are to be had.
    ///
    /// # Errors
    /// Huge pages are not to be had here, or not now ([`Error::is_passing`]). Small ones would be slower than `write(2)`.
    pub fn new() -> Result<Self> {
        Ok(Self {
            lend: Lend::new()?,
            turns: 0,
            held: false,
        })
    }

    /// Makes `len` bytes ready to be [opened](Self::open), at most [`PIECE`]. With `keep` pages are abandoned late: faster
    /// while reader and writer are near each other, slower while they are far.
    ///
    /// # Errors
    /// No huge page is to be had, or the reader keeps too many ([`Self::is_held`]): another way must be taken. Nothing is lost.
    pub fn prepare(&mut self, len: usize, keep: bool) -> Result<()> {
        self.lend.align();
        if self.held {
            self.resume()?;
        }
        if self.lend.room() >= len.min(PIECE) {
            return Ok(());
        }
        self.turns += 1;
        if !(self.turns * self.lend.page()).is_multiple_of(LOOK_EVERY) {
            return self.lend.turn(keep);
        }
        self.resume()?;
        self.lend.turn_aside()
    }

    /// Whether the reader keeps too many pages, as far as is known.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Looks whether nobody keeps the page that was put aside.
    ///
    /// # Errors
    /// Somebody does.
    pub fn resume(&mut self) -> Result<()> {
        self.held = self.lend.aside_is_held();
        if !self.held {
            return Ok(());
        }
        let error = Error::new(
            "too much memory is held",
            format!(
                "the reader, or whoever it has passed the data on to, still has what was sent {} ago",
                Size(LOOK_EVERY as u64)
            ),
            "read on, or copy instead of splicing",
        );
        Err(error.that_may_pass())
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
