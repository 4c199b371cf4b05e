//! A writer driven at random, which sends a sequence and keeps account of what was said to be taken.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::sequence::{Rng, Sequence};
use super::{LARGE, Unbuffered};

/// What a test feeds into a writer.
#[derive(Debug)]
pub struct Feed {
    pub rng: Rng,
    pub sequence: Sequence,
    /// Bytes of the sequence that the writer said were taken.
    pub sent: usize,
    /// The pipe blocks.
    pub blocking: bool,
    /// Calls may fail for no reason.
    pub faults: bool,
}

impl Feed {
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Rng(seed),
            sequence: Sequence::new(seed),
            sent: 0,
            blocking: true,
            faults: false,
        }
    }

    /// Sends `total` bytes by random operations. Waits where the pipe is full, and goes on after any error except
    /// that the reader has gone.
    pub fn send(&mut self, writer: &mut Unbuffered<OwnedFd>, total: usize) -> io::Result<()> {
        while self.sent < total {
            match self.step(writer, total - self.sent) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => wait(writer.as_fd()),
                Err(e) if !self.faults || e.kind() == io::ErrorKind::BrokenPipe => return Err(e),
                _ => {}
            }
        }
        self.flush(writer)
    }

    /// Sends what waits in the writer.
    pub fn flush(&mut self, writer: &mut Unbuffered<OwnedFd>) -> io::Result<()> {
        loop {
            match writer.flush() {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    assert!(!self.blocking, "flush into a blocking pipe: {e}");
                    wait(writer.as_fd());
                }
                Err(e) if self.faults && e.kind() != io::ErrorKind::BrokenPipe => {}
                other => return other,
            }
        }
    }

    /// One random operation of at most `most` bytes.
    pub fn step(&mut self, writer: &mut Unbuffered<OwnedFd>, most: usize) -> io::Result<()> {
        let len = self.rng.write_len().min(most);
        if self.rng.once_in(50) {
            self.flush(writer)?;
        }
        match self.rng.below(10) {
            0..2 => {
                let len = self.open(writer, self.sent, len);
                self.commit(writer, len)
            }
            // Less than the block; the rest is abandoned.
            2 => {
                let len = self.open(writer, self.sent, len);
                let part = self.rng.between(0, len);
                self.commit(writer, part)
            }
            3..5 => {
                let len = self.open(writer, self.sent, len);
                let part = self.rng.between(0, len);
                self.commit(writer, part)?;
                self.commit(writer, len - part)
            }
            5 => {
                self.open(writer, 0, len);
                self.write(writer, most)
            }
            // A write, after the block was filled and before it is committed.
            6 => {
                let between = self.rng.write_len().min(most);
                let start = self.sent;
                let len = self.open(writer, start + between, len.min(most - between));
                while self.sent < start + between {
                    match self.write(writer, start + between - self.sent) {
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => wait(writer.as_fd()),
                        other => other?,
                    }
                }
                self.commit(writer, len)
            }
            _ => self.write(writer, len),
        }
    }

    /// Lets bytes wait in every other writer, now more and now fewer than a page of it holds. Some begin with `write(2)`.
    pub fn maybe_ahead(&mut self, writer: Unbuffered<OwnedFd>) -> Unbuffered<OwnedFd> {
        let writer = match self.rng.below(4) {
            0 => writer.with_start(self.rng.pick(&[50_000, 300_000, 1 << 20])),
            _ => writer,
        };
        match self.rng.below(8) {
            0 => writer.fill_ahead(),
            1..4 => writer.with_ahead(self.rng.pick(&[100, 50_000, 1 << 20, 3 << 20, 5_000_000])),
            _ => writer,
        }
    }

    /// Fills a block with the sequence from the `at`th byte on.
    fn open(&mut self, writer: &mut Unbuffered<OwnedFd>, at: usize, len: usize) -> usize {
        let block = writer.block(len);
        block.copy_from_slice(self.sequence.at(at, block.len()));
        block.len()
    }

    /// Commits all of `len` bytes, which may take several calls where the pipe does not block.
    fn commit(&mut self, writer: &mut Unbuffered<OwnedFd>, len: usize) -> io::Result<()> {
        let rest = writer.uncommitted() - len;
        let mut failures = 0;
        loop {
            let left = writer.uncommitted() - rest;
            let result = writer.commit(left);
            self.sent += left - (writer.uncommitted() - rest);
            match result {
                Ok(()) => {
                    assert_eq!(writer.uncommitted(), rest, "commit({left})");
                    return Ok(());
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    assert!(!self.blocking, "commit({left}) into a blocking pipe: {e}");
                    wait(writer.as_fd());
                }
                // What was not taken is still there.
                Err(e) if self.faults && e.kind() != io::ErrorKind::BrokenPipe => {
                    failures += 1;
                    if failures > 3 {
                        return Err(e);
                    }
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// One `write`. A blocking pipe takes all of it and never returns `WouldBlock`; what is shorter than `LARGE` is one
    /// write(2), which a signal may cut short.
    fn write(&mut self, writer: &mut Unbuffered<OwnedFd>, most: usize) -> io::Result<()> {
        let len = self.rng.write_len().min(most);
        let result = writer.write(self.sequence.at(self.sent, len));
        match &result {
            &Ok(n) => {
                assert!(n > 0 && n <= len, "write({len}) returned {n}");
                assert!(
                    n == len.min(1 << 20) || !self.blocking || self.faults || len < LARGE,
                    "a blocking pipe takes everything: write({len}) returned {n}"
                );
                self.sent += n;
            }
            Err(e) => assert!(
                e.kind() != io::ErrorKind::WouldBlock || !self.blocking || len < LARGE,
                "write({len}) into a blocking pipe: {e}"
            ),
        }
        result.map(drop)
    }
}

/// Reads everything, in pieces of up to `piece` bytes, in a thread of its own.
#[allow(dead_code, reason = "the tests in src/ use it")]
pub fn reader(pipe: OwnedFd, piece: usize) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let (mut all, mut buffer) = (Vec::new(), vec![0; piece]);
        loop {
            match super::calls::read(&pipe, &mut buffer).expect("data") {
                0 => return all,
                n => all.extend_from_slice(&buffer[..n]),
            }
        }
    })
}

/// Waits until the pipe has room, or for a moment.
pub fn wait(pipe: impl AsFd) {
    let moment = Timespec::try_from(Duration::from_millis(100)).expect("a short time");
    let _ = rustix::event::poll(&mut [PollFd::new(&pipe, PollFlags::OUT)], Some(&moment));
}

/// Makes the write end of a pipe return `WouldBlock` when it is full.
pub fn set_nonblocking(pipe: impl AsFd) {
    let flags = fcntl_getfl(&pipe).expect("open");
    fcntl_setfl(&pipe, flags | OFlags::NONBLOCK).expect("open");
}
