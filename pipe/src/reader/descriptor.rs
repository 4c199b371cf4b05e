//! A [`PipeReader`] as the descriptor that it was made of, for event loops and for others who read on.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};

use super::PipeReader;

impl<Fd: AsFd> AsFd for PipeReader<Fd> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.get_ref().as_fd()
    }
}

impl<Fd: AsFd> AsRawFd for PipeReader<Fd> {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// As [`PipeReader::into_inner`]: what is in the buffer goes with the reader.
impl<Fd: AsFd + IntoRawFd> IntoRawFd for PipeReader<Fd> {
    fn into_raw_fd(self) -> RawFd {
        self.into_inner().into_raw_fd()
    }
}

/// As [`PipeReader::into_inner`]: what is in the buffer goes with the reader.
impl<Fd: AsFd + Into<OwnedFd>> From<PipeReader<Fd>> for OwnedFd {
    fn from(reader: PipeReader<Fd>) -> Self {
        reader.into_inner().into()
    }
}
