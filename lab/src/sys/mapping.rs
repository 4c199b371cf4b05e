//! A file in memory.

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags};

/// A shared, read-only mapping of the beginning of a file.
#[derive(Debug)]
pub(crate) struct FileMapping {
    start: NonNull<u8>,
    len: usize,
}

impl FileMapping {
    /// Maps the first `len` bytes. The file must not become shorter while it is mapped: whoever looks would get SIGBUS.
    ///
    /// # Errors
    /// What `mmap(2)` reports; `InvalidInput` where the file has less than `len` bytes now.
    pub(crate) fn new(file: impl AsFd, len: usize) -> io::Result<Self> {
        let size = rustix::fs::fstat(&file)?.st_size;
        if len == 0 || u64::try_from(size).unwrap_or(0) < len as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let null = std::ptr::null_mut();
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start =
            unsafe { rustix::mm::mmap(null, len, ProtFlags::READ, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    /// Its words. Atomic, since other processes may write the file; never stored to through this mapping.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        let len = self.len / size_of::<AtomicU64>();
        // SAFETY: mapped for as long as `self` lives, page aligned, inside the file, any bits are a number, and our
        // callers only load, which for a word is a plain load on read-only pages.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), len) }
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference outlives `self`.
        let result = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(result.is_ok(), "munmap of our own mapping: {result:?}");
    }
}
