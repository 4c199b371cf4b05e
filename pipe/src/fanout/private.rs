//! A pipe that only this process knows.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::capacity;
use crate::error::Result;
use crate::sys::{self, SpliceFlags};

/// A private pipe, and how many bytes it holds.
#[derive(Debug)]
pub(super) struct Private {
    read: OwnedFd,
    write: OwnedFd,
    held: usize,
}

impl Private {
    pub fn new() -> io::Result<Self> {
        let (read, write) = sys::pipe()?;
        Ok(Self {
            read,
            write,
            held: 0,
        })
    }

    pub fn capacity(&self) -> Result<usize> {
        capacity::get(&self.write)
    }

    pub fn set_capacity(&self, bytes: usize) -> Result<usize> {
        capacity::set(&self.write, bytes)
    }

    /// Makes it as large as this user may have it; a smaller one works as well.
    pub fn grow(&self) {
        let _ = capacity::largest(&self.write);
    }

    pub fn held(&self) -> usize {
        self.held
    }

    /// Moves up to `len` bytes from `from` into this pipe.
    pub fn fill(&mut self, from: impl AsFd, len: usize, flags: SpliceFlags) -> io::Result<usize> {
        let moved = sys::splice(from, &self.write, len, flags)?;
        self.held += moved;
        Ok(moved)
    }

    /// Duplicates up to `len` bytes from the head of another private pipe into this one.
    pub fn duplicate(&mut self, source: &Self, len: usize) -> io::Result<usize> {
        let teed = sys::tee(&source.read, &self.write, len, SpliceFlags::NONBLOCK)?;
        self.held += teed;
        Ok(teed)
    }

    /// Moves on some bytes.
    pub fn deliver(&mut self, to: impl AsFd, flags: SpliceFlags) -> io::Result<usize> {
        let moved = sys::splice(&self.read, to, self.held, flags)?;
        self.held -= moved;
        Ok(moved)
    }

    /// Reads all it holds.
    pub fn take_all(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.held];
        let mut n = 0;
        while n < bytes.len() {
            match sys::read(&self.read, &mut bytes[n..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                more => n += more,
            }
            self.held = bytes.len() - n;
        }
        Ok(bytes)
    }
}
