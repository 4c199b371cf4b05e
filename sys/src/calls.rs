//! System calls on pipes, with `EINTR` repeated here and nowhere else.
//!
//! Every call moves as much as the kernel takes in one go and says how much that was; a short count is not an
//! error. `WouldBlock` means that nothing moved.
#![allow(unsafe_code)]

pub mod fault;

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::pipe::{IoSliceRaw, PipeFlags};

use fault::{Call, allow};

pub use rustix::pipe::SpliceFlags;

/// Bytes that one call moves at most: beyond `isize::MAX` the kernel answers with an error, and no call moves more than
/// 2 GiB.
const MOST: usize = 1 << 30;

/// Repeats a call for as long as a signal interrupts it before anything moved.
fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}

/// Writes bytes, see `write(2)`. Returns how many were written, which may be fewer than given.
///
/// # Errors
/// What `write(2)` reports: `BrokenPipe` when no reader is left, `WouldBlock` when nothing fits.
pub fn write(fd: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    retry(|| rustix::io::write(&fd, &bytes[..allow(Call::Write, bytes.len())?]))
}

/// Reads bytes, see `read(2)`. Zero is end of file.
///
/// # Errors
/// What `read(2)` reports: `WouldBlock` when there is nothing yet.
pub fn read(fd: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    retry(|| {
        let len = allow(Call::Read, buffer.len())?;
        rustix::io::read(&fd, &mut buffer[..len])
    })
}

/// Moves slots between two descriptors of which one is a pipe, see `splice(2)`. Zero is end of file.
///
/// # Errors
/// What `splice(2)` reports: `WouldBlock` does not say which side would block; `InvalidInput` when a side cannot splice.
pub fn splice(from: impl AsFd, to: impl AsFd, len: usize, flags: SpliceFlags) -> io::Result<usize> {
    retry(|| {
        let len = allow(Call::Splice, len.min(MOST))?;
        rustix::pipe::splice(&from, None, &to, None, len, flags)
    })
}

/// Hands references to the pages behind `bytes` to a pipe, see `vmsplice(2)`. Returns how many bytes were taken.
///
/// `fd` should be open for writing: at a read end the kernel does the opposite, and moves bytes from the pipe into
/// `bytes`, which therefore are `mut`.
///
/// # Errors
/// What `vmsplice(2)` reports: `BrokenPipe`, `WouldBlock`, and `EPERM` or `ENOSYS` where a sandbox refuses it.
///
/// # Safety
/// The call itself only uses memory that `bytes` proves to be there. But the pipe, and whoever the reader passes its
/// slots on to, then hold the *pages*: the caller must not change a byte that was taken, by any mapping, until nobody
/// holds its page any more. The borrow of `bytes` ends before that.
pub unsafe fn vmsplice(fd: impl AsFd, bytes: &mut [u8], flags: SpliceFlags) -> io::Result<usize> {
    retry(|| {
        let len = allow(Call::Vmsplice, bytes.len())?;
        let slices = [IoSliceRaw::from_slice_mut(&mut bytes[..len])];
        // SAFETY: the kernel reads `bytes`, or writes them where `fd` is a read end, and `&mut` allows both; that they
        // stay as they are afterwards is this function's own condition.
        unsafe { rustix::pipe::vmsplice(&fd, &slices, flags) }
    })
}

/// Like [`vmsplice`], of memory that is only borrowed, into a write end.
///
/// # Errors
/// As there.
///
/// # Safety
/// As there; and at a read end the kernel would write to `bytes`.
pub unsafe fn vmsplice_borrowed(
    write_end: impl AsFd,
    bytes: &[u8],
    flags: SpliceFlags,
) -> io::Result<usize> {
    retry(|| {
        let len = allow(Call::Vmsplice, bytes.len())?;
        let slices = [IoSliceRaw::from_slice(&bytes[..len])];
        // SAFETY: the kernel reads `bytes`, since this is a write end; the rest is this function's own condition.
        unsafe { rustix::pipe::vmsplice(&write_end, &slices, flags) }
    })
}

/// Waits until a descriptor is ready, for at most `timeout`, or for ever. Returns whether it is.
///
/// Hang-up and error count as ready, so that the next call reports them.
///
/// # Errors
/// What `poll(2)` reports.
pub fn poll(fd: impl AsFd, events: PollFlags, timeout: Option<Duration>) -> io::Result<bool> {
    let began = timeout.filter(|t| !t.is_zero()).map(|_| Instant::now());
    retry(|| {
        allow(Call::Poll, 0)?;
        // Signals interrupt it, and do not prolong it.
        let left = timeout.map(|t| t.saturating_sub(began.map_or(Duration::ZERO, |b| b.elapsed())));
        let left = left.map(|t| Timespec {
            tv_sec: t.as_secs() as _,
            tv_nsec: t.subsec_nanos().into(),
        });
        let mut fds = [PollFd::new(&fd, events)];
        rustix::event::poll(&mut fds, left.as_ref()).map(|ready| ready > 0)
    })
}

/// Waits until at least one of these descriptors is ready. Hang-up and error count as ready.
///
/// # Errors
/// What `poll(2)` reports.
pub fn poll_any<'fd>(
    fds: impl IntoIterator<Item = BorrowedFd<'fd>>,
    events: PollFlags,
) -> io::Result<()> {
    let mut fds: Vec<_> = fds
        .into_iter()
        .map(|fd| PollFd::from_borrowed_fd(fd, events))
        .collect();
    retry(|| {
        allow(Call::Poll, 0)?;
        rustix::event::poll(&mut fds, None).map(drop)
    })
}

/// Waits until `from` has bytes or has come to its end, or until nobody reads one of `outputs` any more, which are pipes or
/// sockets. Returns of which; of none where `from` is ready.
///
/// # Errors
/// What `poll(2)` reports.
pub fn wait_for_input<'fd>(
    from: BorrowedFd<'fd>,
    outputs: impl IntoIterator<Item = BorrowedFd<'fd>>,
) -> io::Result<Vec<bool>> {
    let mut fds = vec![PollFd::from_borrowed_fd(from, PollFlags::IN)];
    let quiet = |fd| PollFd::from_borrowed_fd(fd, PollFlags::empty());
    fds.extend(outputs.into_iter().map(quiet));
    retry(|| {
        allow(Call::Poll, 0)?;
        rustix::event::poll(&mut fds, None).map(drop)
    })?;
    let ready = !fds[0].revents().is_empty();
    Ok(fds[1..]
        .iter()
        .map(|fd| !ready && !fd.revents().is_empty())
        .collect())
}

/// Waits until `from` has bytes or has come to its end, or until `to` takes some. Returns whether `from` is at its end: it is
/// empty, and nobody holds its write end any more.
///
/// # Errors
/// What `poll(2)` reports.
pub fn ends_before_room(from: impl AsFd, to: impl AsFd) -> io::Result<bool> {
    retry(|| {
        allow(Call::Poll, 0)?;
        let mut fds = [
            PollFd::new(&from, PollFlags::IN),
            PollFd::new(&to, PollFlags::OUT),
        ];
        rustix::event::poll(&mut fds, None)?;
        Ok(shows_end(fds[0].revents()))
    })
}

/// Whether a pipe is at its end, as seen from its read end: it is empty, and nobody holds its write end any more.
///
/// # Errors
/// What `poll(2)` reports.
pub fn is_at_end(read_end: impl AsFd) -> io::Result<bool> {
    retry(|| {
        allow(Call::Poll, 0)?;
        let mut fds = [PollFd::new(&read_end, PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&Timespec::default()))?;
        Ok(shows_end(fds[0].revents()))
    })
}

/// What `poll(2)` says of the read end of a pipe that is empty and whose write end nobody holds any more.
fn shows_end(read_end: PollFlags) -> bool {
    read_end.contains(PollFlags::HUP) && !read_end.contains(PollFlags::IN)
}

/// Whether nobody holds the read end of a pipe any more, as seen from its write end.
///
/// # Errors
/// What `poll(2)` reports.
pub fn reader_is_gone(write_end: impl AsFd) -> io::Result<bool> {
    retry(|| {
        let mut fds = [PollFd::new(&write_end, PollFlags::empty())];
        rustix::event::poll(&mut fds, Some(&Timespec::default()))?;
        Ok(fds[0].revents().contains(PollFlags::ERR))
    })
}

/// Whether a descriptor is a pipe or a FIFO.
#[must_use]
pub fn is_pipe(fd: impl AsFd) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::Fifo)
}

/// Whether a descriptor is a socket that carries packets, of which a read takes all or loses the rest.
pub fn is_of_packets(fd: impl AsFd) -> bool {
    rustix::net::sockopt::socket_type(fd).is_ok_and(|kind| kind != rustix::net::SocketType::STREAM)
}

/// Bytes in a pipe that were not read yet (`FIONREAD`).
///
/// # Errors
/// What `ioctl(2)` reports; not every kind of descriptor knows the answer.
pub fn bytes_in_pipe(fd: impl AsFd) -> io::Result<u64> {
    retry(|| rustix::io::ioctl_fionread(&fd))
}

/// Creates a pipe whose ends are closed on exec.
///
/// # Errors
/// No descriptors left, of this process or of the system.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    retry(|| {
        allow(Call::Pipe, 0)?;
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
    })
}

/// Which end of a pipe to open again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end that is written to.
    Write,
    /// The end that is read from.
    Read,
}

/// Opens the same pipe again, without blocking, in an open file description of its own.
///
/// `O_NONBLOCK` belongs to the description, which an inherited standard input or output shares with other
/// processes; so it is never set on a descriptor that was handed to us.
///
/// # Errors
/// `EACCES` for a pipe of another user, `ENXIO` for sockets, `ENOENT` without /proc, `InvalidInput` for what is not a
/// pipe (a file opened again would start at offset 0), and for what lies in /proc under that number and is another pipe.
pub fn reopen_nonblocking(fd: BorrowedFd<'_>, end: End) -> io::Result<OwnedFd> {
    use std::os::fd::AsRawFd;
    let wanted = rustix::fs::fstat(fd)?;
    if FileType::from_raw_mode(wanted.st_mode) != FileType::Fifo {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let the_same = |found: Stat| {
        let same = (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino);
        if same {
            Ok(())
        } else {
            Err(io::Error::from(io::ErrorKind::InvalidInput))
        }
    };
    // Not /proc/self: a thread may have a table of descriptors of its own.
    let path = format!("/proc/thread-self/fd/{}", fd.as_raw_fd());
    let access = match end {
        End::Write => OFlags::WRONLY,
        End::Read => OFlags::RDONLY,
    };
    let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
    // Looked at before it is opened, since opening a pipe is seen at its other end, and after it: it may have changed.
    the_same(rustix::fs::stat(path.as_str())?)?;
    let own = retry(|| rustix::fs::open(path.as_str(), flags, Mode::empty()))?;
    the_same(rustix::fs::fstat(&own)?)?;
    Ok(own)
}

/// Messages that [`send_pieces`] sends at most in one call.
pub const MOST_PIECES: usize = 8;

/// Sends bytes on a stream socket, in messages of `piece` bytes of which at most [`MOST_PIECES`] go in one call, without
/// blocking and without SIGPIPE, see `sendmmsg(2)`. Returns how many bytes were sent.
///
/// # Errors
/// What `sendmmsg(2)` reports of the first message: `WouldBlock` when the send buffer is full, `ENOBUFS` when there is no
/// memory for it. Then nothing was sent.
pub fn send_pieces(socket: impl AsFd, bytes: &[u8], piece: usize) -> io::Result<usize> {
    use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags};
    retry(|| {
        let bytes = &bytes[..allow(Call::Send, bytes.len())?];
        let mut pieces = bytes.chunks(piece);
        let slices: [IoSlice<'_>; MOST_PIECES] =
            std::array::from_fn(|_| IoSlice::new(pieces.next().unwrap_or_default()));
        let count = bytes.len().div_ceil(piece).min(MOST_PIECES);
        let mut control: [SendAncillaryBuffer<'_, '_, '_>; MOST_PIECES] = Default::default();
        let mut at = 0;
        let mut messages = control.each_mut().map(|control| {
            at += 1;
            MMsgHdr::new(std::slice::from_ref(&slices[at - 1]), control)
        });
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        // The kernel stops after a message of which it took only a part, so the sum has no gaps.
        let sent = rustix::net::sendmmsg(&socket, &mut messages[..count], flags)?;
        Ok(messages[..sent].iter().map(MMsgHdr::bytes_sent).sum())
    })
}

/// Duplicates slots from one pipe into another without consuming them, see `tee(2)`. Always begins at the head of
/// `from`.
///
/// # Errors
/// What `tee(2)` reports: `WouldBlock` when `from` is empty or `to` is full.
pub fn tee(from: impl AsFd, to: impl AsFd, len: usize, flags: SpliceFlags) -> io::Result<usize> {
    retry(|| {
        let len = allow(Call::Tee, len.min(MOST))?;
        rustix::pipe::tee(&from, &to, len, flags)
    })
}

/// Whether a page that was changed after vmsplice is seen changed by the reader: true where vmsplice lends pages, false
/// where it copies them.
///
/// # Errors
/// What `pipe(2)` and `vmsplice(2)` report.
pub fn vmsplice_shows_later_change() -> io::Result<bool> {
    let (read_end, write_end) = pipe()?;
    let page = std::cell::UnsafeCell::new([1u8; 1]);
    {
        // SAFETY: no other reference to the cell exists; this one ends with the block.
        let bytes: &mut [u8] = unsafe { &mut *page.get() };
        // SAFETY: the byte is changed below while the pipe holds its page. That is the point of the trial: the only
        // reader is this function, which reads it back as one byte and takes either value.
        unsafe { vmsplice(&write_end, bytes, SpliceFlags::NONBLOCK) }?;
    }
    // SAFETY: no other reference to the cell exists. Volatile, so that it happens before the read below.
    unsafe { page.get().cast::<u8>().write_volatile(2) };
    let mut got = [0];
    read(&read_end, &mut got)?;
    Ok(got == [2])
}

/// Copies from file to file inside the kernel, see `copy_file_range(2)`, at and along both file offsets. Zero is end of
/// file.
///
/// # Errors
/// What `copy_file_range(2)` reports: `EXDEV`, `EINVAL` and others where these files cannot be copied so.
pub fn copy_file_range(from: impl AsFd, to: impl AsFd, len: usize) -> io::Result<usize> {
    retry(|| rustix::fs::copy_file_range(&from, None, &to, None, len.min(MOST)))
}

/// Whether a descriptor is non-blocking now. Others who share its description may change that at any time.
#[must_use]
pub fn is_nonblocking(fd: impl AsFd) -> bool {
    rustix::fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn a_signal_does_not_prolong_a_wait() {
        let (read_end, _write_end) = pipe().unwrap();
        let timeout = Duration::from_secs(3);
        let interrupted: Rc<Cell<Option<Instant>>> = Rc::default();
        let at = Rc::clone(&interrupted);
        let faults = fault::inject(move |_, len| {
            if at.get().is_some() {
                return Ok(len);
            }
            std::thread::sleep(timeout);
            at.set(Some(Instant::now()));
            Err(Errno::INTR)
        });
        assert!(!poll(&read_end, PollFlags::IN, Some(timeout)).unwrap());
        drop(faults);
        let after = interrupted.get().unwrap().elapsed();
        assert!(
            after < timeout - Duration::from_millis(500),
            "another {after:?}"
        );
    }
}
