//! Fat slots are kept until the pipe has let go of them.

use std::io;
use std::os::fd::AsFd;

use super::FRAGMENT;
use crate::error::Result;
use crate::private::Private;
use crate::read::discard::Discard;
use crate::sys::{self, SpliceFlags};

/// Bytes that are kept: what a reader who keeps up leaves in the pipe, and what it is reading. Less gives pages away, more
/// leaves the caches.
const KEPT: usize = 2 << 20;

/// Holds on to the slots that went into the pipe last, so that we are the last ones to let go of their pages.
///
/// So the next fragment is copied into pages that this CPU has just freed, and that are still in a cache: see
/// [`Lend::turn`](crate::pages::Lend::turn).
///
/// This costs speed where it fails, never bytes: what is kept is a second reference to slots that nobody writes again.
#[derive(Debug)]
pub(super) struct Keep {
    /// From the socket, on their way into the pipe.
    staged: Private,
    kept: Private,
    null: Discard,
}

impl Keep {
    /// Makes the pipes.
    ///
    /// # Errors
    /// No descriptors or no pipe memory left, or no /dev/null.
    pub(super) fn new() -> Result<Self> {
        let kept = Private::new()?;
        kept.set_capacity(KEPT / FRAGMENT * rustix::param::page_size())?;
        Ok(Self {
            staged: Private::new()?,
            kept,
            null: Discard::new()?,
        })
    }

    /// Without what is on its way.
    ///
    /// # Errors
    /// No descriptors left.
    pub(super) fn unstaged(self) -> Result<Self> {
        Ok(Self {
            staged: Private::new()?,
            ..self
        })
    }

    /// Moves up to `len` bytes on their way from the socket into the pipe.
    ///
    /// # Errors
    /// What `splice(2)` reports of the pipe; then nothing has arrived there.
    pub(super) fn pass(
        &mut self,
        socket: impl AsFd,
        pipe: impl AsFd,
        len: usize,
        flags: SpliceFlags,
    ) -> io::Result<usize> {
        if self.staged.held() == 0 {
            match self.staged.fill(&socket, len, SpliceFlags::NONBLOCK) {
                Ok(taken) => self.keep(taken),
                // They still are in the socket.
                Err(_) => return sys::splice(socket, pipe, len, flags),
            }
        }
        self.staged.deliver(pipe, len, flags)
    }

    /// Keeps all that is staged, which are `len` bytes, and lets go of the oldest.
    fn keep(&mut self, len: usize) {
        let excess = (self.kept.held() + len).saturating_sub(KEPT);
        let kept = self
            .kept
            .drop_first(excess.min(self.kept.held()), &self.null)
            .and_then(|()| self.kept.duplicate(&self.staged, len));
        if !matches!(kept, Ok(n) if n == len) {
            // No slot was left, since they held less than they could; or a call was refused.
            let _ = self.kept.drop_first(self.kept.held(), &self.null);
        }
    }
}
