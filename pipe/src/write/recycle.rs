//! `recycle`: lend the same buffers to a pipe again and again. Fast, and sound only for readers that copy.
#![allow(unsafe_code)]

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

use crate::pages::Pages;
use crate::sys::{self, SpliceFlags};

/// Buffers that are lent to a pipe in turn and written again once the pipe has let go of them.
#[derive(Debug)]
pub struct Recycle {
    pages: Vec<Pages>,
    /// Each buffer as a range of one of `pages`.
    buffers: Vec<(usize, Range<usize>)>,
    current: usize,
}

impl Recycle {
    /// Two buffers, each in memory of its own.
    ///
    /// # Safety
    /// Until the last byte has been read, all three must hold:
    ///
    /// 1. **Every holder of the read end copies** (`read`, `readv`). One that splices or tees a slot onwards (as GNU
    ///    `cat` does) takes the page along, and sees it change when the buffer is written again.
    /// 2. **We are the only writer.** Otherwise nobody can tell whose bytes have left the pipe.
    /// 3. **A buffer is written again only after its data has left the pipe**: after [`Recycle::has_left`] said so, or
    ///    when the capacity is at most half of a buffer, cannot be changed by the reader, and the next buffer was sent
    ///    in full.
    ///
    /// Nothing about a stranger's reader can be known, so this is for people who own both ends.
    #[must_use]
    pub unsafe fn separate(first: Pages, second: Pages) -> Self {
        let buffers = vec![(0, 0..first.len()), (1, 0..second.len())];
        Self {
            pages: vec![first, second],
            buffers,
            current: 0,
        }
    }

    /// The two halves of one memory as buffers.
    ///
    /// # Safety
    /// As for [`Recycle::separate`].
    #[must_use]
    pub unsafe fn halves(memory: Pages) -> Self {
        let (half, len) = (memory.len() / 2, memory.len());
        Self {
            pages: vec![memory],
            buffers: vec![(0, 0..half), (0, half..len)],
            current: 0,
        }
    }

    /// Length of the current buffer in bytes.
    #[must_use]
    pub fn current_len(&self) -> usize {
        self.buffers[self.current].1.len()
    }

    /// The current buffer, to write into. Its former data must have left the pipe: see [`Recycle::separate`].
    pub fn current_mut(&mut self) -> &mut [u8] {
        let (memory, range) = self.buffers[self.current].clone();
        &mut self.pages[memory][range]
    }

    /// Lends a part of the current buffer to the pipe. Returns how many bytes the pipe took.
    ///
    /// # Errors
    /// What `vmsplice(2)` reports: see [`sys::vmsplice`].
    pub fn send(
        &mut self,
        fd: impl AsFd,
        part: Range<usize>,
        flags: SpliceFlags,
    ) -> io::Result<usize> {
        let (memory, range) = self.buffers[self.current].clone();
        let bytes = &mut self.pages[memory][range][part];
        // SAFETY: the caller of `separate` or `halves` promised that no byte is changed while anyone holds its page.
        unsafe { sys::vmsplice(fd, bytes, flags) }
    }

    /// Makes the next buffer the current one.
    pub fn advance(&mut self) {
        self.current = (self.current + 1) % self.buffers.len();
    }

    /// Whether data that was sent before the last `sent_since` bytes has left the pipe (`FIONREAD`).
    ///
    /// # Errors
    /// What `ioctl(2)` reports.
    pub fn has_left(&self, fd: impl AsFd, sent_since: u64) -> io::Result<bool> {
        Ok(sys::bytes_in_pipe(fd)? <= sent_since)
    }
}
