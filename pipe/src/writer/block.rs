//! [`Block`]: a part of the buffer, filled in place.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsFd;

use super::{Mode, PipeWriter, Unsent};

/// Memory of a writer's buffer to generate data into: see [`PipeWriter::block`].
///
/// Borrows the writer, so that nothing can be written in between. Dropped without [`commit`](Self::commit) it writes nothing. A block
/// that is open at a fork has unspecified contents in the child.
#[must_use = "nothing is written without `commit`"]
pub struct Block<'w, Fd: AsFd> {
    writer: &'w mut PipeWriter<Fd>,
    len: usize,
}

impl<'w, Fd: AsFd> Block<'w, Fd> {
    /// The next `len` bytes of the window, which has room for them.
    pub(super) fn new(writer: &'w mut PipeWriter<Fd>, len: usize) -> Self {
        Self { writer, len }
    }

    /// Writes the first `len` bytes. They are in the buffer then, and are sent when [`PipeWriter`] says.
    ///
    /// # Errors
    /// The buffer is full, or the writer is [`unbuffered`](PipeWriter::unbuffered), and sending failed. None of the bytes is
    /// lost: what was not sent is in the writer, which the error gives back, and goes with the next `flush` or before the next
    /// write.
    ///
    /// # Panics
    /// When `len` is more than the block has.
    pub fn commit(self, len: usize) -> Result<(), Unsent<&'w mut PipeWriter<Fd>>> {
        let all = self.len;
        assert!(len <= all, "commit of {len} bytes of a block of {all}");
        let writer = self.writer;
        writer.window.fill(len);
        let sent = match writer.mode() {
            Mode::Unbuffered => writer.send(),
            // The next one would not fit.
            _ if writer.window.room() < all => writer.send(),
            Mode::Lines => writer.send(),
            _ => {
                if writer.is_due() {
                    let _ = writer.send(); // what cannot be sent stays, and is found again when there is no room
                }
                Ok(())
            }
        };
        sent.map_err(|error| Unsent::new(error, writer))
    }
}

impl<Fd: AsFd> Deref for Block<'_, Fd> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.writer.window.free()[..self.len]
    }
}

impl<Fd: AsFd> DerefMut for Block<'_, Fd> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.writer.window.free_mut()[..self.len]
    }
}

impl<Fd: AsFd> fmt::Debug for Block<'_, Fd> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("len", &self.len).finish()
    }
}
