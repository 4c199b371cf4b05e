//! One huge page of addresses: what is written there is lent to a pipe, and the pages are then abandoned to it.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::mm::Advice;

use super::{PageKind, map_aligned, page_size, proof};
use crate::error::{Error, Result};
use crate::size::Size;
use crate::sys::fault::{Call, allow};
use crate::sys::{self, SpliceFlags};

/// A huge page that is lent front to back.
///
/// Bytes before `cursor` may be held by a pipe, or by whoever the reader has passed them on to, for as long as they
/// like. They are never written again: only what lies behind the cursor is ever handed out, and when the end is reached
/// the *pages* are abandoned (`MADV_DONTNEED`) and the kernel supplies fresh ones for the same addresses. What holds the
/// old pages keeps them, unchanged. This is sound for private anonymous memory only, which this is.
#[derive(Debug)]
pub(crate) struct Lend {
    start: NonNull<u8>,
    len: usize,
    cursor: usize,
}

// SAFETY: `Lend` is the only owner of its mapping, which any thread may use and unmap.
unsafe impl Send for Lend {}
// SAFETY: `&Lend` gives no access to the memory.
unsafe impl Sync for Lend {}

/// Larger huge pages (512 MiB with 64 KiB base pages) are too much memory to lend and to zero at a time.
const LARGEST: usize = 4 << 20;

impl Lend {
    /// Maps the addresses; the page itself comes with the first write.
    ///
    /// # Errors
    /// No huge pages, or only such as are too large to lend, or no memory.
    pub(crate) fn new() -> Result<Self> {
        let len = page_size(PageKind::Huge)?;
        if len > LARGEST {
            return Err(Error::new(
                "huge pages cannot be lent",
                format!("here they are of {}", Size(len as u64)),
                "",
            ));
        }
        let refused = |e| Error::system("no memory to lend to a pipe", e, "free memory");
        let start = map_aligned(len, len).map_err(refused)?;
        let lend = Self {
            start,
            len,
            cursor: 0,
        };
        lend.advise(Advice::LinuxHugepage).map_err(refused)?;
        // After fork, a child that kept the pages would make both sides copy them on write, 2 MiB at a time. It gets
        // zeroes instead. Kernels before 4.14 do not know this advice, and are merely slower then.
        let _ = lend.advise(Advice::LinuxWipeOnFork);
        Ok(lend)
    }

    fn advise(&self, advice: Advice) -> rustix::io::Result<()> {
        // SAFETY: the range is our own private anonymous mapping. No reference into it exists while `&self` is held
        // here, since references are only handed out by `&mut self`; DONTNEED makes it zero, which is valid for bytes.
        unsafe { rustix::mm::madvise(self.start.as_ptr().cast(), self.len, advice) }
    }

    /// Bytes that can be handed out before the pages must be abandoned.
    pub(crate) fn room(&self) -> usize {
        self.len - self.cursor
    }

    /// The bytes behind everything that was lent, to write into.
    pub(crate) fn free_mut(&mut self) -> &mut [u8] {
        let (cursor, room) = (self.cursor, self.room());
        // SAFETY: `cursor <= len`, so this is inside or just past our mapping.
        let at = unsafe { self.start.as_ptr().add(cursor) };
        // SAFETY: `cursor..len` is mapped, zeroed by the kernel or written by us, was not lent since these pages were
        // fresh, and `&mut self` is the only access.
        unsafe { std::slice::from_raw_parts_mut(at, room) }
    }

    /// Lends the first `len` free bytes to a pipe. Returns how many the pipe took; the rest stays free, as it was
    /// written.
    ///
    /// # Errors
    /// What `vmsplice(2)` reports; then nothing was lent.
    pub(crate) fn send(
        &mut self,
        fd: impl AsFd,
        len: usize,
        flags: SpliceFlags,
    ) -> io::Result<usize> {
        let bytes = &mut self.free_mut()[..len];
        // SAFETY: bytes that the pipe takes are behind the cursor from here on, and are never written again: not by
        // `free_mut`, which hands out what is before it, and not after `abandon`, which gives other pages.
        let taken = unsafe { sys::vmsplice(fd, bytes, flags) }?;
        self.cursor += taken.min(len);
        Ok(taken)
    }

    /// Leaves out the first `len` free bytes.
    pub(crate) fn skip(&mut self, len: usize) {
        self.cursor += len.min(self.room());
    }

    /// Moves on to the next page boundary, so that the next bytes take as few slots as they can.
    pub(crate) fn align(&mut self) {
        let page = rustix::param::page_size();
        self.cursor = self.cursor.next_multiple_of(page).min(self.len);
    }

    /// Lets go of the pages, to be given fresh ones on the next write. Whoever holds the old ones keeps them.
    ///
    /// # Errors
    /// The kernel refused, and no other memory could be mapped either. Then nothing more is handed out.
    pub(crate) fn abandon(&mut self) -> Result<()> {
        let dropped = allow(Call::MadviseDontneed, self.len).and_then(|_| {
            // Locked memory (mlockall) has an advice of its own since Linux 5.18.
            let advised = self.advise(Advice::LinuxDontNeed);
            advised.or_else(|_| self.advise(Advice::LinuxDontneedLocked))
        });
        if dropped.is_ok() {
            self.cursor = 0;
            return Ok(());
        }
        // Refused for locked memory before that. These addresses must not be written again, so others are
        // taken; dropping the old mapping leaves its pages to those who hold them.
        self.cursor = self.len;
        *self = Self::new()?;
        Ok(())
    }

    /// Whether the memory really is a huge page; `None` where nothing tells. Asked when all of it has been written.
    pub(crate) fn is_huge(&self) -> Option<bool> {
        let address = self.start.as_ptr() as usize;
        proof::huge_bytes(address, self.len, PageKind::Huge).map(|huge| huge >= self.len)
    }
}

impl Drop for Lend {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nobody can use it after drop. Pages that a pipe holds stay alive without it.
        let result = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(result.is_ok(), "munmap of our own mapping: {result:?}");
    }
}
