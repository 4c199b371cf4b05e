//! What a [`PipeReader`](super::PipeReader) reads from, and how it waits there.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use fullbore_sys::calls::{self, End, SpliceFlags};
use fullbore_sys::capacity;
use fullbore_sys::wait::{Wait, Waiter, splice_flags};

#[derive(Debug)]
pub(super) struct Source<Fd> {
    fd: Fd,
    /// The same pipe in a non-blocking description of our own, if there is one.
    own: Option<OwnedFd>,
    /// The capacity is to stay as it is, or was already made larger.
    keeps_capacity: bool,
    waiter: Waiter,
    /// What the next call has to report: a socket, for one, tells an error only once.
    failed: Option<io::Error>,
}

impl<Fd: AsFd> Source<Fd> {
    pub(super) fn new(fd: Fd) -> Self {
        let own = calls::reopen_nonblocking(fd.as_fd(), End::Read).ok();
        Self {
            fd,
            own,
            keeps_capacity: false,
            waiter: Waiter::new(Wait::Adaptive, End::Read),
            failed: None,
        }
    }

    pub(super) fn keep_capacity(&mut self) {
        self.keeps_capacity = true;
    }

    pub(super) fn get_ref(&self) -> &Fd {
        &self.fd
    }

    pub(super) fn into_inner(self) -> Fd {
        self.fd
    }

    /// The flags of a splice from here, after whose `WouldBlock` there is [`Self::wait_after`].
    pub(super) fn splice_flags(&self) -> SpliceFlags {
        splice_flags(self.waiter.wait())
    }

    /// The next call returns this error, unless that was `WouldBlock`: by then there may be bytes.
    pub(super) fn fail_next(&mut self, error: io::Error) {
        if error.kind() != io::ErrorKind::WouldBlock {
            self.failed = Some(error);
        }
    }

    /// What comes before bytes are taken: an error that is still to be reported, and a larger pipe.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if !self.keeps_capacity && calls::is_pipe(&self.fd) {
            let _ = capacity::largest(&self.fd); // what is refused is not needed
        }
        self.keeps_capacity = true;
        Ok(())
    }

    /// Waits after `WouldBlock`, unless the descriptor is non-blocking itself.
    ///
    /// # Errors
    /// This error, where there is nothing to wait for; and what `poll(2)` reports.
    pub(super) fn wait_after(&mut self, error: io::Error) -> io::Result<()> {
        if error.kind() == io::ErrorKind::WouldBlock && !calls::is_nonblocking(&self.fd) {
            self.waiter.after_would_block(&self.fd)
        } else {
            Err(error)
        }
    }

    /// Reads some bytes. Zero is end of file.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.begin()?;
        let Self {
            fd, own, waiter, ..
        } = self;
        let Some(own) = own else {
            return calls::read(fd, buffer);
        };
        loop {
            let read = waiter.call(|may_sleep| {
                if may_sleep && !calls::is_nonblocking(&*fd) {
                    calls::read(&*fd, buffer)
                } else {
                    calls::read(&*own, buffer)
                }
            });
            match read {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if calls::is_nonblocking(&*fd) {
                        return Err(e);
                    }
                    waiter.after_would_block(&*own)?;
                }
                other => return other,
            }
        }
    }
}
