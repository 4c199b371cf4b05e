//! Descriptor to descriptor without blocking.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fullbore_sys::calls::{self, SpliceFlags};
use fullbore_sys::private::Private;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::pump::is_refusal;

/// Bytes per call at most. After each, other tasks may run.
const PIECE: usize = 1 << 20;
const BUFFER: usize = 64 << 10;

/// Moves everything from one descriptor to the other until end of file, by `splice(2)` through a private pipe, or by reading and
/// writing where that is refused. Returns how many bytes arrived.
///
/// Both must be non-blocking, as tokio's pipes and sockets are; files are always ready. What comes from a file is moved by
/// reference: until it is read at the other end, a change of the file changes it there, too. When the future is dropped, what was
/// taken and not delivered is lost.
///
/// # Errors
/// What the system calls report.
///
/// # Panics
/// Outside a tokio runtime with I/O enabled.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let file = std::fs::File::open("/proc/self/status")?;
/// let (sender, mut receiver) = tokio::net::unix::pipe::pipe()?;
/// let copied = fullbore::tokio::copy(&file, &sender).await?;
/// drop(sender);
/// let mut text = String::new();
/// tokio::io::AsyncReadExt::read_to_string(&mut receiver, &mut text).await?;
/// assert_eq!(text.len() as u64, copied);
/// # Ok(())
/// # }
/// ```
pub async fn copy(from: impl AsFd, to: impl AsFd) -> io::Result<u64> {
    let mut from = Side::new(from.as_fd(), Interest::READABLE)?;
    let mut to = Side::new(to.as_fd(), Interest::WRITABLE)?;
    let mut copied = 0;
    let mut private = Private::large().map_err(io::Error::from)?;
    let mut rest = Vec::new();
    loop {
        let fill = |fd: BorrowedFd<'_>| private.fill(fd, PIECE, SpliceFlags::NONBLOCK);
        match from.ready(Interest::READABLE, fill).await {
            Ok(0) => return Ok(copied),
            Ok(_) => {}
            Err(e) if is_refusal(&e) => break,
            Err(e) => return Err(e),
        }
        while private.held() > 0 {
            let deliver = |fd: BorrowedFd<'_>| private.deliver(fd, PIECE, SpliceFlags::NONBLOCK);
            match to.ready(Interest::WRITABLE, deliver).await {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => copied += n as u64,
                Err(e) if is_refusal(&e) => {
                    private.take_all(&mut rest)?;
                    break;
                }
                Err(e) => return Err(e),
            }
        }
        if !rest.is_empty() {
            break;
        }
    }
    loop {
        let mut sent = 0;
        while sent < rest.len() {
            let write = |fd: BorrowedFd<'_>| calls::write(fd, &rest[sent..]);
            match to.ready(Interest::WRITABLE, write).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => sent += n,
            }
        }
        copied += sent as u64;
        rest.resize(BUFFER, 0);
        let read = |fd: BorrowedFd<'_>| calls::read(fd, &mut rest);
        match from.ready(Interest::READABLE, read).await? {
            0 => return Ok(copied),
            n => rest.truncate(n),
        }
    }
}

/// One of the two descriptors: a duplicate, since the event loop may have the original one already.
struct Side {
    fd: Waits,
}

enum Waits {
    ForEvents(AsyncFd<OwnedFd>),
    /// A file, which the event loop does not take (`EPERM`).
    Never(OwnedFd),
}

impl Side {
    fn new(fd: BorrowedFd<'_>, interest: Interest) -> io::Result<Self> {
        let own = fd.try_clone_to_owned()?;
        let not_taken = Some(rustix::io::Errno::PERM.raw_os_error());
        let fd = match super::registered(own, interest) {
            Ok(fd) => Waits::ForEvents(fd),
            Err((fd, e)) if e.raw_os_error() == not_taken => Waits::Never(fd),
            Err((_, e)) => return Err(e),
        };
        Ok(Self { fd })
    }

    /// Makes a call each time the descriptor is ready, until it does something else than to block.
    async fn ready<T>(
        &mut self,
        interest: Interest,
        mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> io::Result<T> {
        match &self.fd {
            Waits::Never(fd) => {
                tokio::task::yield_now().await;
                call(fd.as_fd())
            }
            Waits::ForEvents(fd) => fd.async_io(interest, |fd| call(fd.as_fd())).await,
        }
    }
}
