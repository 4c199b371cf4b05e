//! Ways into a pipe.

pub mod constant;
pub mod cow;
pub mod fat;
pub mod fresh;
pub mod recycle;

use std::io;
use std::os::fd::BorrowedFd;

use crate::error::Result;
use crate::sys::SpliceFlags;

/// Memory that is filled and lent to a pipe, front to back: what [`fresh`] and [`cow`] have in common.
pub trait Lender {
    /// Makes `len` bytes ready to be [opened](Self::open), at most [`fresh::PIECE`]. With `keep` pages are abandoned late:
    /// faster while reader and writer are near each other, slower while they are far.
    ///
    /// # Errors
    /// No huge page is to be had, or this would cost or hold too much: another way must be taken. Nothing is lost.
    fn prepare(&mut self, len: usize, keep: bool) -> Result<()>;

    /// The next `len` bytes, to write into. They must have been prepared.
    fn open(&mut self, len: usize) -> &mut [u8];

    /// Leaves out the next `len` bytes, which have been sent some other way.
    fn skip(&mut self, len: usize);

    /// Lends the first `len` bytes of the block to a pipe. Returns how many the pipe took; the others now are the first
    /// bytes of the block.
    ///
    /// # Errors
    /// What `vmsplice(2)` reports; then the pipe took nothing.
    fn send(&mut self, fd: BorrowedFd<'_>, len: usize, flags: SpliceFlags) -> io::Result<usize>;
}
