//! The buffer of a [`PipeReader`](super::PipeReader).

use std::fmt;
use std::io;

/// Bytes that were read and not all used yet: `bytes[start..end]`.
pub(super) struct Buffer {
    /// Empty until it is needed.
    bytes: Vec<u8>,
    size: usize,
    start: usize,
    end: usize,
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("size", &self.size)
            .field("held", &self.held().len())
            .finish()
    }
}

impl Buffer {
    pub(super) fn new(size: usize) -> Self {
        Self {
            bytes: Vec::new(),
            size,
            start: 0,
            end: 0,
        }
    }

    /// Changes how many bytes it can hold. Those that it holds stay, also where they are more.
    pub(super) fn resize(&mut self, size: usize) {
        self.size = size;
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn held(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Reads some bytes, at most `most`, once all others were used. Zero is end of file; after an error it is empty.
    pub(super) fn fill(
        &mut self,
        most: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        debug_assert!(self.held().is_empty(), "these bytes would be lost");
        (self.start, self.end) = (0, 0);
        if self.bytes.len() != self.size {
            self.bytes = Vec::new(); // before the other one is made
            self.bytes = vec![0; self.size];
        }
        self.end = read(&mut self.bytes[..most.min(self.size)])?;
        Ok(self.end)
    }

    /// Takes out the first `len` bytes, or all there are; returns how many.
    pub(super) fn consume(&mut self, len: usize) -> usize {
        let len = len.min(self.end - self.start);
        self.start += len;
        len
    }
}
