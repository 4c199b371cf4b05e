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

use crate::error::{Error, Result};
use crate::pages::forked::Owner;
use crate::sys::fault::{Call, allow};
use crate::sys::{self, SpliceFlags};

/// The size of one send in bytes: exactly this becomes one slot. 31 KiB would become four, 33 KiB two.
pub const FRAGMENT: usize = 32 << 10;

/// Send buffer in bytes, which the kernel doubles: room for [`sys::MOST_PIECES`] fragments with their overhead. The
/// default has room for six.
const SEND_BUFFER: usize = 192 << 10;

/// A socket pair through which bytes become fat slots.
#[derive(Debug)]
pub struct Fat {
    ends: Ends,
    /// The process that has made the socket: a forked child would mix its bytes with its parent's.
    owner: Owner,
}

#[derive(Debug)]
struct Ends {
    tx: OwnedFd,
    rx: OwnedFd,
}

impl Ends {
    fn new() -> Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let pair = allow(Call::Socketpair, 0).and_then(|_| {
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        });
        let (tx, rx) = pair.map_err(|e| Error::system("no socket for fat slots", e, ""))?;
        let _ = set_socket_send_buffer_size(&tx, SEND_BUFFER); // a smaller one holds fewer fragments
        Ok(Self { tx, rx })
    }
}

impl Fat {
    /// Makes the socket pair.
    ///
    /// # Errors
    /// No sockets or descriptors to be had, or a forked child could not be told from its parent.
    pub fn new() -> Result<Self> {
        Ok(Self {
            owner: Owner::this_process()?,
            ends: Ends::new()?,
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
        match sys::send_pieces(&self.ends.tx, bytes, FRAGMENT) {
            // Not the pipe is full: the socket has no room although it is empty.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Err(Errno::NOBUFS.into()),
            other => other,
        }
    }

    /// Moves up to `len` staged bytes into a pipe.
    ///
    /// # Errors
    /// What `splice(2)` reports; then nothing was moved.
    pub fn deliver(&self, pipe: impl AsFd, len: usize, flags: SpliceFlags) -> io::Result<usize> {
        sys::splice(&self.ends.rx, pipe, len, flags)
    }

    /// Forgets staged bytes that will not be delivered.
    pub fn discard(&mut self) -> Result<()> {
        // A new socket is simpler than to read the old one empty, and cannot leave anything behind.
        self.ends = Ends::new()?;
        Ok(())
    }
}
