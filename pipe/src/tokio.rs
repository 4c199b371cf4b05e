//! Writer, reader and copy for programs that run on [tokio](https://docs.rs/tokio) (feature `tokio`).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! use fullbore::tokio::{AsyncPipeReader, AsyncPipeWriter};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! let (reader, writer) = std::io::pipe()?;
//! let mut writer = AsyncPipeWriter::new(writer)?;
//! let mut reader = AsyncPipeReader::new(reader)?;
//! tokio::spawn(async move {
//!     for _ in 0..1000 {
//!         writer.write_all(&[7; 5000]).await?;
//!     }
//!     writer.shutdown().await
//! });
//! let mut all = Vec::new();
//! reader.read_to_end(&mut all).await?;
//! assert_eq!(all.len(), 5_000_000);
//! # Ok(())
//! # }
//! ```

mod copy;

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use fullbore_sys::calls::{self, End};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::task::coop;

use crate::{Error, PipeReader, PipeWriter};

pub use copy::copy;

/// [`PipeWriter`] as tokio's `AsyncWrite`: buffered in the memory that is lent next, sound for every reader.
///
/// A write that fits into the buffer is ready at once; `flush` is when all is in the pipe. Dropping it sends what the pipe takes at
/// once, and loses the rest: `shutdown` (or `flush`) first.
#[derive(Debug)]
pub struct AsyncPipeWriter {
    inner: AsyncFd<PipeWriter<OwnedFd>>,
}

impl AsyncPipeWriter {
    /// A writer into a pipe. Where `fd` blocks, the pipe is opened again for this writer alone, so that others who share the
    /// descriptor go on as they were.
    ///
    /// # Errors
    /// It blocks and is no pipe, or cannot be opened again; or the event loop does not take it.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O enabled, as [`AsyncFd::new`].
    pub fn new(fd: impl Into<OwnedFd>) -> io::Result<Self> {
        Self::from_writer(PipeWriter::new(nonblocking(fd.into(), End::Write)?))
    }

    /// A writer with options of its own. Its descriptor must be non-blocking.
    ///
    /// # Errors
    /// It blocks, or the event loop does not take it.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn from_writer(writer: PipeWriter<OwnedFd>) -> io::Result<Self> {
        must_not_block(writer.as_fd())?;
        let inner = registered(writer, Interest::WRITABLE).map_err(|(_, e)| e)?;
        Ok(Self { inner })
    }

    /// The writer. What it buffers stays there.
    pub fn into_inner(self) -> PipeWriter<OwnedFd> {
        self.inner.into_inner()
    }

    /// Repeats what would block each time the pipe has room.
    fn poll_io<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut io: impl FnMut(&mut PipeWriter<OwnedFd>) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        // What is always ready must let other tasks run, too.
        let turn = ready!(coop::poll_proceed(cx));
        // The buffer may have room although the pipe has none.
        match io(self.inner.get_mut()) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            done => {
                turn.made_progress();
                return Poll::Ready(done);
            }
        }
        drop(turn); // waiting counts by itself
        loop {
            let mut guard = ready!(self.inner.poll_write_ready_mut(cx))?;
            if let Ok(done) = guard.try_io(|inner| io(inner.get_mut())) {
                return Poll::Ready(done);
            }
        }
    }
}

impl AsyncWrite for AsyncPipeWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_io(cx, |writer| writer.write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_io(cx, |writer| writer.write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_io(cx, PipeWriter::flush)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

impl AsFd for AsyncPipeWriter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.get_ref().as_fd()
    }
}

/// [`PipeReader`] as tokio's `AsyncRead`.
#[derive(Debug)]
pub struct AsyncPipeReader {
    inner: AsyncFd<PipeReader<OwnedFd>>,
}

impl AsyncPipeReader {
    /// A reader of a pipe. Where `fd` blocks, the pipe is opened again for this reader alone.
    ///
    /// # Errors
    /// It blocks and is no pipe, or cannot be opened again; or the event loop does not take it.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O enabled, as [`AsyncFd::new`].
    pub fn new(fd: impl Into<OwnedFd>) -> io::Result<Self> {
        let reader = PipeReader::new(nonblocking(fd.into(), End::Read)?);
        let inner = registered(reader, Interest::READABLE).map_err(|(_, e)| e)?;
        Ok(Self { inner })
    }
}

impl AsyncRead for AsyncPipeReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.inner.poll_read_ready_mut(cx))?;
            let read = guard.try_io(|inner| inner.get_mut().read(buf.initialize_unfilled()));
            if let Ok(read) = read {
                return Poll::Ready(read.map(|n| buf.advance(n)));
            }
        }
    }
}

impl AsFd for AsyncPipeReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.get_ref().as_fd()
    }
}

/// The descriptor, or another one of the same pipe, that does not block.
fn nonblocking(fd: OwnedFd, end: End) -> io::Result<OwnedFd> {
    if calls::is_nonblocking(&fd) {
        return Ok(fd);
    }
    let own = calls::reopen_nonblocking(fd.as_fd(), end);
    own.map_err(|e| {
        Error::system(
            "the descriptor blocks, and cannot be opened again",
            e,
            "set O_NONBLOCK where nobody else shares it",
        )
        .into()
    })
}

fn must_not_block(fd: BorrowedFd<'_>) -> io::Result<()> {
    if calls::is_nonblocking(fd) {
        return Ok(());
    }
    let error = Error::new(
        "the descriptor blocks",
        "an event loop must not wait in a call",
        "set O_NONBLOCK where nobody else shares it",
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, error))
}

/// Gives a descriptor to the event loop, or back with the error.
#[allow(
    deprecated,
    reason = "the unsafe form is of tokio 1.54; ours have the same open descriptor for as long as they live, as both demand"
)]
fn registered<T: AsRawFd>(inner: T, interest: Interest) -> Result<AsyncFd<T>, (T, io::Error)> {
    AsyncFd::try_with_interest(inner, interest).map_err(|e| e.into_parts())
}
