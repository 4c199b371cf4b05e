//! `fat`: copy into a socket 32 KiB at a time, and splice the fragments into the pipe, each as one slot.
//!
//! A slot that comes out of a socket holds a whole socket fragment, which for an AF_UNIX stream is up to 32 KiB
//! (`sock_alloc_send_pskb` allocates order 3). So the pages are the kernel's, allocated eight at a time, and the pipe's
//! mutex is taken once for all of them.

#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::calls::fault::{Call, allow};
use crate::calls::{self, SpliceFlags};
use crate::error::{Error, Result};
use crate::pages::forked::Owner;
use crate::private::Private;

/// The size of one send in bytes: exactly this becomes one slot. 31 KiB would become four, 33 KiB two.
pub const FRAGMENT: usize = 32 << 10;

/// Send buffer in bytes, which the kernel doubles: room for [`calls::MOST_PIECES`] fragments with their overhead. The
/// default has room for six.
const SEND_BUFFER: usize = 192 << 10;

/// A socket pair through which bytes become fat slots.
#[derive(Debug)]
pub struct Fat {
    ends: Ends,
    queue: Option<Queue>,
    /// The process that has made the socket: a forked child would mix its bytes with its parent's.
    owner: Owner,
}

#[derive(Debug)]
struct Ends {
    tx: OwnedFd,
    rx: OwnedFd,
}

/// A pipe of our own, in which slots wait, and how many bytes wait behind it in the socket.
#[derive(Debug)]
struct Queue {
    pipe: Private,
    in_socket: usize,
}

impl Queue {
    /// Moves what waits in the socket into the pipe, as far as it has room.
    fn fill(&mut self, ends: &Ends) -> io::Result<()> {
        while self.in_socket > 0 {
            let nonblocking = SpliceFlags::NONBLOCK;
            match self.pipe.fill(&ends.rx, self.in_socket, nonblocking) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.in_socket -= n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

impl Ends {
    fn new() -> Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = allow(Call::Socketpair, 0).and_then(|_| {
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        });
        let (tx, rx) =
            pair.map_err(|e| Error::refused("no socket for fat slots", "socketpair", e, ""))?;
        let _ = set_socket_send_buffer_size(&tx, SEND_BUFFER); // a smaller one holds fewer fragments
        Ok(Self { tx, rx })
    }
}

impl Fat {
    /// Makes the socket pair.
    ///
    /// # Errors
    /// No sockets or descriptors available, or a forked child could not be told from its parent.
    pub fn new() -> Result<Self> {
        Ok(Self {
            owner: Owner::this_process()?,
            ends: Ends::new()?,
            queue: None,
        })
    }

    /// Copies bytes into the socket, and returns how many. They are not in any pipe yet: [`Fat::deliver`] or
    /// [`Fat::discard`] must account for all of them before the next call.
    ///
    /// # Errors
    /// No memory for socket buffers (`ENOBUFS`, `ENOMEM`); then nothing was copied.
    pub fn stage(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.owner.is_this_process() {
            *self = Self::new()?;
        }
        let refused = |e| Error::refused("no fat slots", "sendmmsg", e, "a sandbox may forbid it");
        calls::send_pieces(&self.ends.tx, bytes, FRAGMENT).map_err(|e| match e.kind() {
            // Not the pipe is full: the socket has no room although it is empty.
            io::ErrorKind::WouldBlock => refused(Errno::NOBUFS.into()).into(),
            _ => refused(e).into(),
        })
    }

    /// Moves up to `len` staged bytes into a pipe.
    ///
    /// # Errors
    /// What `splice(2)` reports; then nothing was moved.
    pub fn deliver(&self, pipe: impl AsFd, len: usize, flags: SpliceFlags) -> io::Result<usize> {
        calls::splice(&self.ends.rx, pipe, len, flags)
    }

    /// Bytes that wait to be sent. Those that were put there before a fork are the parent's.
    pub(crate) fn queued(&mut self) -> usize {
        let Some(queue) = &self.queue else {
            return 0;
        };
        if !self.owner.is_this_process() {
            // Not to be used any more: what is in it is shared with the parent. Where no other is available the socket stays
            // as it is, and `stage` fails.
            self.queue = None;
            return 0;
        }
        queue.pipe.held() + queue.in_socket
    }

    /// Copies bytes into slots that wait until they are [sent](Self::send_queued). Returns how many.
    ///
    /// # Errors
    /// `WouldBlock` while no more can wait. No memory, no descriptors: then nothing was copied.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.owner.is_this_process() {
            *self = Self::new()?;
        }
        if self.queue.is_none() {
            let pipe = Private::large().map_err(io::Error::other)?;
            let in_socket = 0;
            self.queue = Some(Queue { pipe, in_socket });
        }
        if let Some(queue) = &mut self.queue {
            queue.fill(&self.ends)?;
            if queue.in_socket > 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        let staged = self.stage(bytes)?;
        if let Some(queue) = &mut self.queue {
            queue.in_socket = staged;
            let _ = queue.fill(&self.ends); // an error is found again by the next call
        }
        Ok(staged)
    }

    /// Moves up to `most` of the bytes that wait into a pipe.
    ///
    /// # Errors
    /// What `splice(2)` reports; then nothing was moved.
    pub(crate) fn send_queued(
        &mut self,
        pipe: impl AsFd,
        most: usize,
        flags: SpliceFlags,
    ) -> io::Result<usize> {
        let Some(queue) = &mut self.queue else {
            return Ok(0);
        };
        if queue.pipe.held() == 0 {
            queue.fill(&self.ends)?;
        }
        queue.pipe.deliver(pipe, most, flags)
    }

    /// Takes out all that waits, so that it can be sent some other way.
    ///
    /// # Errors
    /// What `read(2)` reports. What was read before that is in `into` all the same.
    pub(crate) fn take_queued(&mut self, into: &mut Vec<u8>) -> io::Result<()> {
        let Some(queue) = &mut self.queue else {
            return Ok(());
        };
        queue.pipe.take_all(into)?;
        // By read(2): splice(2) may be what is refused.
        while queue.in_socket > 0 {
            let end = into.len();
            into.resize(end + queue.in_socket, 0);
            let read = calls::read(&self.ends.rx, &mut into[end..]);
            into.truncate(end + *read.as_ref().unwrap_or(&0));
            match read? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => queue.in_socket -= n,
            }
        }
        Ok(())
    }

    /// Forgets staged bytes that will not be delivered.
    pub fn discard(&mut self) -> Result<()> {
        // A new socket is simpler than to read the old one empty, and cannot leave anything behind.
        self.ends = Ends::new()?;
        Ok(())
    }
}
