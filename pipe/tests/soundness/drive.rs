//! A buffered writer driven at random, which sends a sequence and keeps account of what was said to be taken.

use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, OwnedFd};

use super::PipeWriter;
use super::feed::wait;
use super::sequence::{Rng, Sequence};

/// What a test drives into a buffered writer.
#[derive(Debug)]
pub struct Drive {
    pub rng: Rng,
    pub sequence: Sequence,
    /// Bytes of the sequence that the writer said were taken.
    pub taken: usize,
    /// The pipe blocks.
    pub blocking: bool,
    /// Calls may fail for no reason.
    pub faults: bool,
}

impl Drive {
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Rng(seed),
            sequence: Sequence::new(seed),
            taken: 0,
            blocking: true,
            faults: false,
        }
    }

    /// Writes `total` bytes by random operations, and flushes.
    pub fn send(&mut self, writer: &mut PipeWriter<OwnedFd>, total: usize) -> io::Result<()> {
        while self.taken < total {
            // Many small pieces, or a few large ones, follow each other.
            let small = self.rng.once_in(2);
            for _ in 0..self.rng.between(1, if small { 300 } else { 3 }) {
                let left = total - self.taken;
                if left == 0 {
                    break;
                }
                let len = match small {
                    true => self.rng.between(1, 400),
                    false => self.rng.write_len(),
                };
                let done = self.step(writer, len.min(left));
                self.goes_on(writer, done)?;
            }
        }
        self.flush(writer)
    }

    /// Whether the test goes on after this.
    fn goes_on(&self, writer: &PipeWriter<OwnedFd>, done: io::Result<()>) -> io::Result<()> {
        match done {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                assert!(!self.blocking || self.faults, "a blocking pipe: {e}");
                wait(writer.as_fd());
                Ok(())
            }
            Err(e) if self.faults && e.kind() != io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    /// Sends all that is in the buffer.
    pub fn flush(&mut self, writer: &mut PipeWriter<OwnedFd>) -> io::Result<()> {
        loop {
            let flushed = writer.flush();
            if flushed.is_ok() {
                assert_eq!(writer.buffered(), 0, "after a flush");
                return Ok(());
            }
            self.goes_on(writer, flushed)?;
        }
    }

    /// One random operation of at most `len` bytes.
    fn step(&mut self, writer: &mut PipeWriter<OwnedFd>, len: usize) -> io::Result<()> {
        match self.rng.below(24) {
            0..3 => {
                let taken = self.rng.between(0, len);
                let mut block = writer.block(len)?;
                let len = block.len();
                block.copy_from_slice(self.sequence.at(self.taken, len));
                let taken = taken.min(len);
                self.taken += taken; // whatever is said next
                block.commit(taken)?;
            }
            3 => {
                let mut block = writer.block(len)?;
                block.fill(0xEE); // and never written
            }
            4..7 => {
                let (first, second) = (self.rng.below(len + 1), self.rng.below(len + 1));
                let (first, second) = (first.min(second), first.max(second));
                let bytes = self.sequence.at(self.taken, len);
                let bufs = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                let n = writer.write_vectored(&bufs.map(IoSlice::new))?;
                assert!(n > 0 && n <= len);
                self.taken += n;
            }
            7 => self.flush(writer)?,
            8 if self.rng.once_in(20) => {
                let _ = writer.path();
            }
            9 if self.blocking => {
                let mine = self.sequence.at(self.taken, len).to_vec();
                self.taken += writer.lend(&mine)?;
            }
            10..14 if self.blocking && !self.faults => {
                writer.write_all(self.sequence.at(self.taken, len))?;
                self.taken += len;
            }
            _ => {
                let n = writer.write(self.sequence.at(self.taken, len))?;
                assert!(n > 0 && n <= len, "write({len}) returned {n}");
                self.taken += n;
            }
        }
        Ok(())
    }
}
