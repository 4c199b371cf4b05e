//! Bytes that wait in the writer while the pipe is full: filling ahead.
//!
//! A line that lies modified in the cache of the CPU which has just written it is dear to read for another CPU. What was filled
//! some MiB before it is lent has left that cache for the shared one. And a writer that fills on while the pipe is full has
//! something to send when it no longer is.

use std::io;
use std::os::fd::AsFd;
use std::sync::OnceLock;

use super::choice::{Form, Limits};
use super::sending::{is_refusal, lender, open};
use super::{Unbuffered, Way};
use crate::calls::{self, SpliceFlags};
use crate::error::is_passing;
use crate::pages::forked::Owner;
use crate::reason::Reason;
use crate::write::fresh::PIECE;

/// Whether bytes may wait in the writer while the pipe is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ahead {
    No,
    /// As many as are found to be best.
    Chosen,
    UpTo(usize),
    /// As many as are found to be best, while one call lasts.
    WithinCall,
}

/// `write_all` fills ahead within the call from so many bytes on.
const SEVERAL: usize = 4 << 20;

impl Ahead {
    pub(super) fn limits(self) -> Limits {
        Limits {
            ahead: match self {
                Self::No => 0,
                Self::UpTo(bytes) => bytes,
                Self::Chosen | Self::WithinCall => distance(),
            },
            ahead_is_given: matches!(self, Self::UpTo(_)),
            pool: None,
        }
    }
}

/// So many bytes are filled ahead, where that is faster: one and a half times what the private cache of a CPU (L2) holds, so that
/// what is lent has left it.
fn distance() -> usize {
    static KNOWN: OnceLock<usize> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let text = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index2/size");
        let private = text.ok().and_then(|t| kib(&t)).unwrap_or(2048) << 10;
        (private / 2 * 3)
            .next_multiple_of(PIECE)
            .clamp(2 * PIECE, 4 * PIECE)
    })
}

/// The number of a text like `1024K`.
fn kib(text: &str) -> Option<usize> {
    text.trim().strip_suffix('K')?.parse().ok()
}

/// What waited by a way that was refused since. It goes by `write(2)`, before all else.
#[derive(Debug, Default)]
pub(super) struct LeftOver {
    bytes: Vec<u8>,
    sent: usize,
    /// A forked child does not send what is its parent's.
    owner: Option<Owner>,
}

impl LeftOver {
    fn rest(&mut self) -> &[u8] {
        if self.owner.is_some_and(|o| !o.is_this_process()) {
            *self = Self::default();
        }
        &self.bytes[self.sent..]
    }

    /// Where more is put, which is this process' own.
    fn behind(&mut self) -> &mut Vec<u8> {
        self.rest(); // forgets what is the parent's
        self.owner = Owner::this_process().ok();
        &mut self.bytes
    }

    fn take(&mut self, len: usize) {
        self.sent += len;
        if self.sent == self.bytes.len() {
            *self = Self::default();
        }
    }
}

impl<Fd: AsFd> Unbuffered<Fd> {
    /// Bytes that wait.
    pub(super) fn queued(&mut self) -> usize {
        let queued = self.ways.as_mut().and_then(|w| w.queued());
        self.left_over.rest().len() + queued.map_or(0, |(_, bytes)| bytes)
    }

    /// Bytes that may wait when this form is taken.
    pub(super) fn ahead_of(&self, form: Form) -> usize {
        match self.ahead {
            Ahead::No => 0,
            _ => form.round.ahead,
        }
    }

    /// Lets bytes wait for as long as a call lasts that writes so many, where that is of use. Returns whether it does.
    pub(super) fn begin_ahead_within(&mut self, len: usize) -> bool {
        if self.ahead != Ahead::No || len < SEVERAL || self.is_nonblocking() {
            return false;
        }
        self.decided().choice.allow_ahead(distance());
        self.ahead = Ahead::WithinCall;
        true
    }

    /// Sends what waits until no more than `most` bytes do.
    pub(super) fn send_queued(&mut self, most: usize) -> io::Result<()> {
        loop {
            let queued = self.queued();
            if queued <= most {
                return Ok(());
            }
            self.move_all(queued - most, |this, moved, flags| {
                this.send_some_queued(queued - most - moved, flags)
            })?;
        }
    }

    /// Sends as much of what waits as the pipe has room for. An error is found again by the next call.
    pub(super) fn offer(&mut self) {
        let _ = self.try_offer();
    }

    /// As [`offer`](Self::offer).
    ///
    /// # Errors
    /// What sending reports, other than that there is no room.
    fn try_offer(&mut self) -> io::Result<()> {
        // write(2) would wait.
        while self.left_over.rest().is_empty() && self.queued() > 0 {
            self.calls.made += 1;
            match self.send_some_queued(PIECE, SpliceFlags::NONBLOCK) {
                Ok(0) => break,
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.calls.would_block += 1;
                    break;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn send_some_queued(&mut self, most: usize, flags: SpliceFlags) -> io::Result<usize> {
        let rest = self.left_over.rest();
        if !rest.is_empty() {
            let sent = calls::write(open(&self.fd), &rest[..rest.len().min(most)])?;
            self.left_over.take(sent);
            return Ok(sent);
        }
        let Some((way, _)) = self.ways.as_mut().and_then(|w| w.queued()) else {
            return Ok(0);
        };
        let fd = open(&self.fd);
        let sent = match way {
            Way::Fat => match self.ways.as_mut().and_then(|w| w.fat.as_mut()) {
                Some(fat) => fat.send_queued(fd, most, flags),
                None => Ok(0),
            },
            _ => {
                let pages = lender(&mut self.ways, way)?.pages();
                pages.send_queued(fd, most.min(PIECE), flags)
            }
        };
        match sent {
            Err(e) if is_refusal(&e) => {
                self.refuse_by(way, e)?;
                self.send_some_queued(most, flags)
            }
            other => other,
        }
    }

    /// Sends what waits by another way than this one, which comes first.
    pub(super) fn only_queue(&mut self, way: Way) -> io::Result<()> {
        let queued = self.ways.as_mut().and_then(|w| w.queued());
        if !self.left_over.rest().is_empty() || queued.is_some_and(|(other, _)| other != way) {
            return self.send_queued(0);
        }
        Ok(())
    }

    /// Makes sure that of `len` more bytes at least some can wait, and says how many.
    ///
    /// # Errors
    /// `WouldBlock` where none can and the pipe is non-blocking, and what sending others reports.
    pub(super) fn room_to_wait(&mut self, way: Way, len: usize, ahead: usize) -> io::Result<usize> {
        self.only_queue(way)?;
        if !self.is_nonblocking() {
            self.send_queued(ahead.saturating_sub(len))?;
            return Ok(len);
        }
        // Not left for later: where there will never be room, whoever waits for it waits for ever.
        self.try_offer()?;
        match ahead.saturating_sub(self.queued()) {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            room => Ok(room.min(len)),
        }
    }

    /// Gives a way up which a system call has refused.
    ///
    /// # Errors
    /// As for [`refuse`](Self::refuse).
    pub(super) fn refuse_by(&mut self, way: Way, error: io::Error) -> io::Result<()> {
        let may_pass = is_passing(&error);
        self.refuse(way, Reason::of(way.call(), &error), may_pass)
    }

    /// Gives a way up, and takes out of it what waits there, and the block.
    ///
    /// # Errors
    /// What waits cannot be read out of a pipe of our own. It stays there.
    pub(super) fn refuse(&mut self, way: Way, reason: Reason, may_pass: bool) -> io::Result<()> {
        if self.block.way == way && way.lends() && self.block.left > 0 {
            let _ = self.move_block_to_heap(); // an error says that there is none
        }
        let left_over = self.left_over.behind();
        let before = left_over.len();
        let Some(ways) = &mut self.ways else {
            return Ok(());
        };
        let mut taken = Ok(());
        if let Some(lender) = ways.lender(way) {
            let pages = lender.pages();
            while pages.queued() > 0 {
                let next = pages.next_queued(usize::MAX);
                left_over.extend_from_slice(next);
                let len = next.len();
                pages.skip_queued(len);
            }
        } else if way == Way::Fat
            && let Some(fat) = &mut ways.fat
            && fat.queued() > 0
        {
            taken = fat.take_queued(left_over);
        }
        let moved = (left_over.len() - before) as u64;
        self.moved[way as usize] -= moved;
        self.moved[Way::Copy as usize] += moved;
        taken.map_err(io::Error::other)?; // it is no error of the pipe
        ways.refuse(way, reason, may_pass);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_is_some_mib() {
        assert_eq!(kib("1024K\n"), Some(1024));
        assert_eq!(kib(""), None);
        assert!((2 << 20..=4 << 20).contains(&distance()));
    }
}
