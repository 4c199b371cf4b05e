//! One output: its copy of a batch, and how that gets there.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::FileType;

use crate::pump::is_refusal;
use fullbore_sys::calls::{self, End, SpliceFlags};
use fullbore_sys::private::Private;
use fullbore_sys::wait::{Wait, Waiter};
use fullbore_sys::{Reason, Route};

/// An output, and what it still has to get.
#[derive(Debug)]
pub(super) struct Output<T> {
    pub(super) to: T,
    pub(super) failed: bool,
    /// Whether its reader may go away: a pipe, or a socket.
    pub(super) may_break: bool,
    /// Its copy of the batch, in slots. Absent where everything is done by hand.
    pub(super) slots: Option<Private>,
    /// Its copy of the batch, in memory, where it cannot be spliced to.
    pub(super) bytes: Vec<u8>,
    /// How many of those were written.
    written: usize,
    /// Why it is not spliced to.
    pub(super) fallbacks: Vec<(Route, Reason)>,
    pub(super) waits: Waiter,
}

impl<T: AsFd> Output<T> {
    pub(super) fn new(to: T) -> Self {
        let kind = rustix::fs::fstat(&to).map(|s| FileType::from_raw_mode(s.st_mode));
        Self {
            to,
            failed: false,
            may_break: matches!(kind, Ok(FileType::Fifo | FileType::Socket)),
            slots: None,
            bytes: Vec::new(),
            written: 0,
            fallbacks: Vec::new(),
            waits: Waiter::new(Wait::Block, End::Write),
        }
    }

    pub(super) fn is_pending(&self) -> bool {
        !self.bytes.is_empty() || self.slots.as_ref().is_some_and(|s| s.held() > 0)
    }

    pub(super) fn fail(&mut self) {
        self.failed = true;
        self.slots = None;
        self.bytes = Vec::new();
    }

    /// Moves on what can be moved now; returns whether anything was. May block where nobody else is `alone`.
    pub(super) fn deliver(&mut self, alone: bool) -> io::Result<bool> {
        let mut progress = false;
        while self.is_pending() {
            match self.deliver_some(alone) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => progress = true,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        Ok(progress)
    }

    fn deliver_some(&mut self, alone: bool) -> io::Result<usize> {
        if let Some(slots) = self.slots.as_mut().filter(|s| s.held() > 0) {
            if self.fallbacks.is_empty() {
                let flags = if alone {
                    SpliceFlags::empty()
                } else {
                    SpliceFlags::NONBLOCK
                };
                match slots.deliver(&self.to, usize::MAX, flags) {
                    // Nothing has moved, so that another way loses nothing.
                    Err(e) if is_refusal(&e) => {
                        let reason = Reason::of("splice", &e);
                        self.fallbacks.push((Route::Relay, reason));
                    }
                    other => return other,
                }
            }
            slots.take_all(&mut self.bytes)?;
            self.written = 0;
        }
        let n = calls::write(&self.to, &self.bytes[self.written..])?;
        self.written += n;
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
        }
        Ok(n)
    }
}
