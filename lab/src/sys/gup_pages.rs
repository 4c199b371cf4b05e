//! What the cost of `get_user_pages` is measured with: memory that is lent and never written, and gup_test's ioctl.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use fullbore_sys::calls::SpliceFlags;
use fullbore_sys::pages::Pages;
use fullbore_sys::{Error, Result, capacity};

use crate::worker::gup_trial::form::Form;

/// A pipe with both its ends.
#[derive(Debug)]
pub(crate) struct PipeEnds {
    pub(crate) read: OwnedFd,
    pub(crate) write: OwnedFd,
}

impl PipeEnds {
    pub(crate) fn new() -> Result<Self> {
        let pipe = fullbore_sys::calls::pipe();
        let (read, write) =
            pipe.map_err(|e| Error::system("no pipe", e, "close some descriptors"))?;
        Ok(Self { read, write })
    }

    /// Makes sure that it has at least so many slots of one page.
    pub(crate) fn with_capacity(bytes: usize) -> Result<Self> {
        let pipe = Self::new()?;
        if capacity::get(&pipe.write)? < bytes {
            capacity::set(&pipe.write, bytes)?;
        }
        Ok(pipe)
    }
}

/// Pages that nobody writes any more, so that any pipe may hold them for as long as it likes.
#[derive(Debug)]
pub(crate) struct Lent(Pages);

impl Lent {
    pub(crate) fn new(pages: Pages) -> Self {
        Self(pages)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn prove_huge(&self) -> Result<()> {
        self.0.prove_huge()
    }

    /// Puts references to `len` bytes from `at` on into a pipe, without waiting. Returns how many bytes fitted.
    pub(crate) fn lend(&mut self, at: usize, len: usize, pipe: &PipeEnds) -> io::Result<usize> {
        let bytes = &mut self.0[at..at + len];
        // SAFETY: the pipe may hold the pages for ever: `Lent` writes none of its bytes and hands out no way to. The
        // descriptor is the pipe's write end, so that the kernel does not write them either.
        unsafe { fullbore_sys::calls::vmsplice(&pipe.write, bytes, SpliceFlags::NONBLOCK) }
    }
}

/// The argument of gup_test's ioctl, in whichever form this kernel has it.
#[repr(C, align(8))]
#[derive(Clone, Debug)]
pub(crate) struct Argument(pub(crate) [u8; Self::LEN]);

impl Argument {
    /// As large as the largest form.
    pub(crate) const LEN: usize = 120;
}

/// Lets the kernel take and give back references to the pages that `argument` names, and time that.
pub(crate) fn ioctl(file: &File, form: Form, argument: &mut Argument) -> io::Result<()> {
    let (fd, request) = (file.as_raw_fd(), form.request());
    // SAFETY: the request encodes how much the kernel reads and writes at the pointer: the size of a form, which
    // `Argument` is large enough for. The pages themselves are neither read nor written, and the references to them are
    // gone when the call returns. A file that does not know the request answers with an error.
    let result = unsafe { libc::ioctl(fd, request as _, argument) };
    match result {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
