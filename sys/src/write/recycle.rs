//! `recycle`: lend the same buffers to a pipe again and again. Fast, and sound only for readers that copy.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

use crate::calls::{self, SpliceFlags};
use crate::pages::Pages;

/// Buffers that are lent to a pipe in turn and written again once the pipe has let go of them.
#[derive(Debug)]
pub struct Recycle {
    pages: Vec<Pages>,
    /// Each buffer as a range of one of `pages`.
    buffers: Vec<(usize, Range<usize>)>,
    current: usize,
    /// What was filled and has still to be lent: each buffer, and the part of it that is left. The oldest is the first.
    waiting: VecDeque<(usize, Range<usize>)>,
}

impl Recycle {
    /// Two buffers, each in memory of its own.
    ///
    /// # Safety
    /// Until the last byte has been read, all three must hold, with any number of buffers:
    ///
    /// 1. **Every holder of the read end copies** (`read`, `readv`). One that splices or tees a slot onwards (as GNU
    ///    `cat` does) takes the page along, and sees it change when the buffer is written again.
    /// 2. **We are the only writer.** Otherwise nobody can tell whose bytes have left the pipe.
    /// 3. **A buffer is written again only after its data has left the pipe**: after [`Recycle::has_left`] said so, or
    ///    when at least as many bytes were lent since as the pipe has capacity, which the reader must not be able to
    ///    change. (A slot holds at most a page, so the pipe never holds more than its capacity of what we lent.)
    ///
    /// Nothing about a stranger's reader can be known, so this is for people who own both ends.
    #[must_use]
    pub unsafe fn separate(first: Pages, second: Pages) -> Self {
        let buffers = vec![(0, 0..first.len()), (1, 0..second.len())];
        Self::of(vec![first, second], buffers)
    }

    /// The two halves of one memory as buffers.
    ///
    /// # Safety
    /// As for [`Recycle::separate`].
    #[must_use]
    pub unsafe fn halves(memory: Pages) -> Self {
        let (half, len) = (memory.len() / 2, memory.len());
        Self::of(vec![memory], vec![(0, 0..half), (0, half..len)])
    }

    /// One memory, cut into buffers of `len` bytes; what is left at the end is not used.
    ///
    /// # Safety
    /// As for [`Recycle::separate`].
    ///
    /// # Panics
    /// When the memory does not hold one buffer.
    #[must_use]
    pub unsafe fn pool(memory: Pages, len: usize) -> Self {
        let count = memory.len().checked_div(len).unwrap_or(0);
        assert!(count > 0, "no buffer of {len} bytes in {}", memory.len());
        let buffers = (0..count).map(|i| (0, i * len..(i + 1) * len));
        let buffers = buffers.collect();
        Self::of(vec![memory], buffers)
    }

    fn of(pages: Vec<Pages>, buffers: Vec<(usize, Range<usize>)>) -> Self {
        Self {
            pages,
            buffers,
            current: 0,
            waiting: VecDeque::new(),
        }
    }

    /// Bytes of all buffers together.
    #[must_use]
    pub fn total_len(&self) -> usize {
        self.buffers.iter().map(|(_, range)| range.len()).sum()
    }

    /// Length of the current buffer in bytes.
    #[must_use]
    pub fn current_len(&self) -> usize {
        self.buffers[self.current].1.len()
    }

    /// The current buffer, to write into. Its former data must have left the pipe: see [`Recycle::separate`].
    ///
    /// # Panics
    /// When it still waits to be lent ([`Recycle::queue`]): what is written now would be lent twice, and never what it holds.
    pub fn current_mut(&mut self) -> &mut [u8] {
        let waits = self.waiting.iter().any(|(i, _)| *i == self.current);
        assert!(!waits, "the buffer has not been lent yet");
        let (memory, range) = self.buffers[self.current].clone();
        &mut self.pages[memory][range]
    }

    /// Lends a part of the current buffer to the pipe. Returns how many bytes the pipe took.
    ///
    /// # Errors
    /// What `vmsplice(2)` reports: see [`calls::vmsplice`].
    pub fn send(
        &mut self,
        fd: impl AsFd,
        part: Range<usize>,
        flags: SpliceFlags,
    ) -> io::Result<usize> {
        let (memory, range) = self.buffers[self.current].clone();
        let bytes = &mut self.pages[memory][range][part];
        // SAFETY: the caller of `separate` or `halves` promised that no byte is changed while anyone holds its page.
        unsafe { calls::vmsplice(fd, bytes, flags) }
    }

    /// Makes the next buffer the current one.
    pub fn advance(&mut self) {
        self.current = (self.current + 1) % self.buffers.len();
    }

    /// Has the first `len` bytes of the current buffer lent later, after all that already waits, and makes the next buffer
    /// the current one. What was filled some MiB before it is lent has left the writer's own cache for the one that it
    /// shares with the reader, and is read faster from there.
    ///
    /// A buffer is written again only after all of it was lent, so at most all but one may wait: see
    /// [`Recycle::current_mut`].
    ///
    /// # Panics
    /// When `len` is more than the buffer has.
    pub fn queue(&mut self, len: usize) {
        let room = self.current_len();
        assert!(len <= room, "{len} bytes of a buffer of {room}");
        if len > 0 {
            self.waiting.push_back((self.current, 0..len));
        }
        self.advance();
    }

    /// Bytes that wait to be lent.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.iter().map(|(_, part)| part.len()).sum()
    }

    /// Lends the bytes that have waited longest, of one buffer and at most `most` of them, to the pipe. Returns how many it
    /// took; 0 where nothing waits.
    ///
    /// # Errors
    /// What `vmsplice(2)` reports: see [`calls::vmsplice`]. Then all wait as before.
    pub fn lend(&mut self, fd: impl AsFd, most: usize, flags: SpliceFlags) -> io::Result<usize> {
        let Some((buffer, part)) = self.waiting.front_mut() else {
            return Ok(0);
        };
        let (memory, range) = self.buffers[*buffer].clone();
        let now = part.start..part.end.min(part.start.saturating_add(most));
        let bytes = &mut self.pages[memory][range][now];
        // SAFETY: as in `send`; and a buffer that waits is not handed out to be written (`current_mut`).
        let taken = unsafe { calls::vmsplice(fd, bytes, flags) }?;
        part.start += taken;
        if part.start == part.end {
            self.waiting.pop_front();
        }
        Ok(taken)
    }

    /// Whether data that was sent before the last `sent_since` bytes has left the pipe (`FIONREAD`).
    ///
    /// # Errors
    /// What `ioctl(2)` reports.
    pub fn has_left(&self, fd: impl AsFd, sent_since: u64) -> io::Result<bool> {
        Ok(calls::bytes_in_pipe(fd)? <= sent_since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::{PageKind, Request};
    use std::io::{Read, pipe};

    const BUFFER: usize = 64 << 10;

    fn pool(buffers: usize) -> Recycle {
        let memory = Pages::map(&Request {
            len: buffers * BUFFER + 4096,
            kind: PageKind::Small,
            lock: false,
            fill: Some(0),
        });
        // SAFETY: the readers of these tests copy, there is no other writer, and what is written again has left the pipe.
        unsafe { Recycle::pool(memory.unwrap(), BUFFER) }
    }

    #[test]
    fn what_waits_is_lent_in_order_and_nothing_twice() {
        let (mut reader, writer) = pipe().unwrap();
        assert_eq!(crate::capacity::set(&writer, BUFFER).unwrap(), BUFFER);
        let reading = std::thread::spawn(move || {
            let mut got = Vec::new();
            reader.read_to_end(&mut got).map(|_| got)
        });
        let mut pool = pool(6);
        assert_eq!(pool.total_len(), 6 * BUFFER);
        let mut sent = Vec::new();
        let lend = |pool: &mut Recycle, down_to: usize| {
            while pool.waiting() > down_to {
                let most = (pool.waiting() - down_to).min(50_001);
                let n = pool.lend(&writer, most, SpliceFlags::empty()).unwrap();
                assert!(n > 0 && n <= most, "{n} of {most}");
            }
        };
        for round in 0..500_usize {
            let len = BUFFER - round * 7 % 4099;
            for (i, byte) in pool.current_mut()[..len].iter_mut().enumerate() {
                *byte = (i * 31 + round * 101) as u8;
            }
            sent.extend_from_slice(&pool.current_mut()[..len]);
            pool.queue(len);
            // At least two buffers less 8 KiB were lent after the one that is written next: more than the pipe holds.
            lend(&mut pool, 3 * BUFFER);
        }
        lend(&mut pool, 0);
        assert_eq!(pool.lend(&writer, 1, SpliceFlags::empty()).unwrap(), 0);
        drop(writer);
        let got = reading.join().unwrap().unwrap();
        assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
    }

    #[test]
    #[should_panic(expected = "has not been lent yet")]
    fn buffer_that_waits_is_not_handed_out() {
        let mut pool = pool(3);
        for _ in 0..3 {
            pool.current_mut().fill(1);
            pool.queue(BUFFER);
        }
        pool.current_mut();
    }
}
