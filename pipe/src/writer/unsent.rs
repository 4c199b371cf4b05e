//! [`Unsent`]: an error, and the writer that still has the bytes.

use std::os::fd::AsFd;
use std::{fmt, io};

use super::PipeWriter;

/// Bytes could not be sent: why, and the writer that still has them.
///
/// With `?` in a function of `io::Result` the error goes on alone. The bytes stay in the writer all the same, where there still
/// is one.
#[must_use = "the writer still has bytes that were not sent"]
pub struct Unsent<W> {
    error: io::Error,
    writer: W,
}

impl<W> Unsent<W> {
    pub(super) fn new(error: io::Error, writer: W) -> Self {
        Self { error, writer }
    }

    /// Why they were not sent.
    pub fn error(&self) -> &io::Error {
        &self.error
    }

    /// The writer. `flush` tries again; no byte is sent twice.
    pub fn into_writer(self) -> W {
        self.writer
    }

    /// Both.
    pub fn into_parts(self) -> (io::Error, W) {
        (self.error, self.writer)
    }
}

impl<Fd: AsFd> Unsent<PipeWriter<Fd>> {
    /// The descriptor, without what was not sent, which is lost.
    ///
    /// # Panics
    /// Never: a writer has its descriptor.
    pub fn abandon(self) -> Fd {
        self.writer.abandon()
    }
}

impl<W> From<Unsent<W>> for io::Error {
    fn from(unsent: Unsent<W>) -> Self {
        unsent.error
    }
}

impl<W> fmt::Display for Unsent<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<W> fmt::Debug for Unsent<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unsent")
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<W> std::error::Error for Unsent<W> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}
