//! `reuse`: new data into a pool that is lent to the pipe, and written again without asking who still holds it.

use std::io;
use std::os::fd::BorrowedFd;

use fullbore_sys::calls::SpliceFlags;
use fullbore_sys::write::fresh::PIECE;
use fullbore_sys::write::recycle::Recycle;
use fullbore_sys::{Result, capacity};

use super::Source;
use crate::sys::recycled_pool;
use crate::worker::config::Config;
use crate::worker::side::map_bytes;

#[derive(Debug)]
pub(super) struct Reuse {
    pool: Recycle,
    source: Source,
    flags: SpliceFlags,
    /// Bytes that are filled before they are lent.
    ahead: usize,
    /// The last bytes that wait: those of the newest piece that were not taken yet.
    not_taken: usize,
}

impl Reuse {
    /// Maps pool and source.
    ///
    /// # Errors
    /// No memory, or a pool that is too small for this pipe: see [`Config::fits_into_pool`].
    pub fn prepare(
        config: &Config,
        fd: BorrowedFd<'_>,
        flags: SpliceFlags,
        note: &mut Option<String>,
    ) -> Result<Self> {
        config.fits_into_pool(capacity::get(fd)? as u64)?;
        Ok(Self {
            source: Source::prepare(config, note)?,
            pool: recycled_pool(map_bytes(config, config.pool_of_reuse(), note)?, PIECE),
            flags,
            ahead: usize::try_from(config.ahead).unwrap_or(usize::MAX),
            not_taken: 0,
        })
    }

    pub fn pool(&self) -> &Recycle {
        &self.pool
    }

    /// Fills the next piece, and has it lent behind those that wait. `fill` writes what is to be sent, or says that anything
    /// may be.
    pub fn fill(&mut self, len: usize, mut fill: impl FnMut(&mut [u8]) -> bool) {
        let piece = &mut self.pool.current_mut()[..len];
        if !fill(piece) {
            self.source.copy_into(piece);
        }
        self.pool.queue(len);
        self.not_taken = len;
    }

    /// Bytes that the pipe must hold at most for the next piece to be written: what was lent since its last bytes were.
    pub fn lent_since(&self) -> u64 {
        (self.pool.total_len() - PIECE - self.pool.waiting()) as u64
    }

    /// Takes some bytes of the piece that [`fill`](Self::fill) made ready: as many as may wait, then as many as the pipe takes
    /// from the front of those that wait. Returns how many; never 0.
    ///
    /// # Errors
    /// What `vmsplice(2)` reports; then nothing was taken.
    pub fn send(&mut self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        let too_many = self.pool.waiting().saturating_sub(self.ahead);
        let taken = match self.not_taken.saturating_sub(too_many) {
            0 => self.pool.lend(fd, too_many, self.flags)?,
            may_wait => may_wait,
        };
        self.not_taken -= taken;
        Ok(taken)
    }

    /// Bytes that were taken and are not lent yet.
    pub fn waiting(&self) -> usize {
        self.pool.waiting() - self.not_taken
    }

    /// Lends some of the bytes that were taken.
    ///
    /// # Errors
    /// What `vmsplice(2)` reports; then what waits is still there.
    pub fn flush(&mut self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        self.pool.lend(fd, self.waiting(), self.flags)
    }
}
