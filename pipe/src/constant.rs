//! `constant`: the same bytes for ever, by reference to pages that the kernel owns and nobody can write.
//!
//! A *master* pipe is filled once with whole periods of the pattern in fat slots, and then only ever tee'd. For the
//! pattern not to break, each tee covers all of the master: it goes into an empty *scratch* pipe with at least as many
//! slots, which is then drained into the output to the last byte.

#[cfg(test)]
mod tests;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::{fmt, io};

use fullbore_sys::calls::{self, End, SpliceFlags};
use fullbore_sys::capacity;
use fullbore_sys::error::{Error, Result};
use fullbore_sys::pages::forked::Owner;
use fullbore_sys::read::discard::Discard;
pub use fullbore_sys::wait::Wait;
use fullbore_sys::wait::{Waiter, splice_flags};
use fullbore_sys::write::fat::{FRAGMENT, Fat};
use fullbore_sys::writer::is_refusal;
use fullbore_sys::{Reason, Route};

/// A pattern that is written again and again, as fast as references can be made to it.
///
/// Where the output is no pipe, or the pattern is too long for a master pipe, `write(2)` is used: see
/// [`Constant::route`] and [`Constant::fallbacks`].
///
/// # Examples
/// ```
/// use std::io::Read;
/// let (mut reader, writer) = std::io::pipe()?;
/// let mut yes = fullbore::Constant::new(b"y\n");
/// std::thread::spawn(move || yes.write_all(&writer, 1_000_001));
/// let mut text = Vec::new();
/// reader.read_to_end(&mut text)?;
/// assert_eq!(text.len(), 1_000_001);
/// assert!(text.starts_with(b"y\ny\ny\n") && text.ends_with(b"y\ny\ny"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Constant {
    pattern: Vec<u8>,
    /// Where in the pattern the next byte is.
    phase: usize,
    way: Way,
    waiter: Waiter,
}

enum Way {
    /// Not tried yet.
    Undecided,
    Tee(Box<Conduit>),
    Write {
        repeated: Vec<u8>,
        fallbacks: [(Route, Reason); 1],
    },
}

/// The master pipe and the scratch pipe.
struct Conduit {
    master: Pipe,
    scratch: Pipe,
    discard: Discard,
    /// Bytes in the master: a whole number of periods.
    len: usize,
    /// How often the master fits into the scratch pipe.
    tees: usize,
    /// Bytes in the scratch pipe, still to be moved on.
    pending: usize,
    /// The process that made the pipes: a forked child would drain its parent's scratch pipe.
    owner: Owner,
}

struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl Pipe {
    fn new() -> Result<Self> {
        let pipe = calls::pipe();
        let (read, write) = pipe.map_err(|e| {
            Error::refused(
                "no pipe for a constant",
                "pipe",
                e,
                "close some descriptors",
            )
        })?;
        Ok(Self { read, write })
    }
}

impl fmt::Debug for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Constant")
            .field("len", &self.pattern.len())
            .field("route", &self.route())
            .field("fallbacks", &self.fallbacks())
            .finish_non_exhaustive()
    }
}

/// Bytes in a master of patterns that are not longer than that. Larger ones leave the caches of a reader that copies:
/// 30 GiB/s with 2 MiB, 10–20 with 4 MiB or more; smaller ones have both CPUs count references on the same few pages:
/// 590 GiB/s of references with 2 MiB, 430 with 1 MiB (`docs/results/2026-11-21-epyc-kvm.md`).
const MASTER: usize = 2 << 20;
/// The longest pattern in bytes: what a pipe of 256 slots holds in fat slots.
const MASTER_AT_MOST: usize = 256 * FRAGMENT;
/// A buffer for write(2): at least so many bytes, in whole periods.
const BUFFER_AT_LEAST: usize = 256 << 10;

impl Constant {
    /// A constant of this pattern, of any length. An empty one writes nothing.
    #[must_use]
    pub fn new(pattern: &[u8]) -> Self {
        Self {
            pattern: pattern.to_vec(),
            phase: 0,
            way: Way::Undecided,
            waiter: Waiter::new(Wait::Adaptive, End::Write),
        }
    }

    /// Waits like this in place of [`Wait::Adaptive`], to measure. No promise of stability.
    #[doc(hidden)]
    #[must_use]
    pub fn wait(mut self, wait: Wait) -> Self {
        self.waiter = Waiter::new(wait, End::Write);
        self
    }

    /// How bytes move: [`Route::Tee`], or [`Route::Write`] where that was refused. `None` before anything was written or
    /// [prepared](Self::prepare).
    #[must_use]
    pub fn route(&self) -> Option<Route> {
        match &self.way {
            Way::Undecided => None,
            Way::Tee(_) => Some(Route::Tee),
            Way::Write { .. } => Some(Route::Write),
        }
    }

    /// The routes that would have been better, and why each was left.
    #[must_use]
    pub fn fallbacks(&self) -> &[(Route, Reason)] {
        match &self.way {
            Way::Write { fallbacks, .. } => fallbacks,
            _ => &[],
        }
    }

    /// Bytes of which each `tee(2)` makes references, a whole number of patterns; `None` where [`Route::Tee`] is not taken.
    #[must_use]
    pub fn bytes_per_tee(&self) -> Option<usize> {
        match &self.way {
            Way::Tee(conduit) => Some(conduit.len),
            _ => None,
        }
    }

    /// Writes exactly `len` bytes, continuing the pattern where the last call left off.
    ///
    /// # Errors
    /// `BrokenPipe` when the reader has gone, or what the system calls report; how much was written before is unknown
    /// to the caller then, as with [`std::io::Write::write_all`].
    pub fn write_all(&mut self, out: impl AsFd, len: u64) -> io::Result<()> {
        let out = out.as_fd();
        let mut left = len;
        while left > 0 && !self.pattern.is_empty() {
            self.waiter.before_call(out)?;
            match self.write_some(out, left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => left -= n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.waiter.after_would_block(out)?;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Writes until the reader goes away, which is the only good end: the error is never returned as `BrokenPipe`.
    ///
    /// # Errors
    /// What the system calls report, except `BrokenPipe`.
    pub fn write_forever(&mut self, out: impl AsFd) -> io::Result<()> {
        match self.write_all(out, u64::MAX) {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    /// One call's worth, at least one byte (unless the pattern is empty) and at most `most`. What it returns is in the output.
    ///
    /// # Errors
    /// `WouldBlock` when the output is full and the wait strategy does not block, and what the system calls report.
    pub fn write_some(&mut self, out: BorrowedFd<'_>, most: u64) -> io::Result<u64> {
        if self.pattern.is_empty() {
            return Ok(0);
        }
        if let Way::Undecided = self.way {
            self.decide(out);
        }
        if let Way::Tee(conduit) = &self.way
            && !conduit.owner.is_this_process()
        {
            self.decide(out);
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let moved = match &mut self.way {
            Way::Tee(conduit) => {
                match conduit.send(out, most, self.phase, splice_flags(self.waiter.wait())) {
                    // What is in the scratch pipe is not in the output yet: write(2) begins where it would have.
                    Err(e) if is_refusal(&e) => {
                        self.way = self.by_write(Reason::of("splice", &e));
                        return self.write_some(out, most as u64);
                    }
                    other => other?,
                }
            }
            Way::Write { repeated, .. } => {
                let from = &repeated[self.phase..];
                calls::write(out, &from[..from.len().min(most)])?
            }
            Way::Undecided => 0,
        };
        self.phase = (self.phase + moved % self.pattern.len()) % self.pattern.len();
        Ok(moved as u64)
    }

    /// Makes the pattern ready for this output, so that the first write does not have to. [`route`](Self::route) says how it
    /// will be written then.
    pub fn prepare(&mut self, out: impl AsFd) {
        if !self.pattern.is_empty() {
            self.decide(out.as_fd());
        }
    }

    fn decide(&mut self, out: BorrowedFd<'_>) {
        self.way = match self.conduit(out) {
            Ok(conduit) => Way::Tee(Box::new(conduit)),
            Err(e) => self.by_write(e.into()),
        };
    }

    fn by_write(&self, reason: Reason) -> Way {
        let periods = BUFFER_AT_LEAST.div_ceil(self.pattern.len().max(1));
        Way::Write {
            repeated: self.pattern.repeat(periods),
            fallbacks: [(Route::Tee, reason)],
        }
    }

    fn conduit(&self, out: BorrowedFd<'_>) -> Result<Conduit> {
        if !calls::is_pipe(out) {
            return Err(Error::because("no tee", Reason::NotAPipe));
        }
        if let Some(refusal) = fullbore_sys::probe::fat_refusal() {
            return Err(refusal);
        }
        let too_long = || {
            let bytes = self.pattern.len() as u64;
            Error::because("no tee", Reason::TooLong { bytes })
        };
        if self.pattern.len() > MASTER_AT_MOST {
            return Err(too_long());
        }
        let (master, scratch) = (Pipe::new()?, Pipe::new()?);
        let capacity = capacity::largest(&master.write)?.granted;
        // Into less than that, a fragment is not moved at once.
        if capacity::largest(&scratch.write)?.granted < capacity.max(FRAGMENT) {
            return Err(Error::because("no tee", Reason::NoPipeMemory));
        }
        let mut conduit = Conduit {
            master,
            scratch,
            discard: Discard::new()?,
            len: 0,
            tees: 0,
            pending: 0,
            owner: Owner::this_process()?,
        };
        let slots = capacity / rustix::param::page_size();
        conduit
            .fill(&self.pattern, slots)
            .map_err(|e| Error::refused("no tee", "splice", e, ""))?;
        if conduit.tees == 0 {
            return Err(too_long());
        }
        Ok(conduit)
    }
}

impl Conduit {
    /// Fills the master with whole periods, each fragment a slot of its own.
    ///
    /// A fragment is spliced from the socket into the empty scratch pipe first and from there into the master: straight
    /// into a ring that is nearly full, the kernel would break it up (KERNEL: at most free slots × 4 KiB per call).
    fn fill(&mut self, pattern: &[u8], slots: usize) -> io::Result<()> {
        let mut fat = Fat::new()?;
        let most = (slots * FRAGMENT).min(MASTER.max(pattern.len()));
        let target = most / pattern.len() * pattern.len();
        let copies = FRAGMENT.div_ceil(pattern.len()) + 1;
        let repeated = pattern.repeat(copies);
        let (mut filled, mut whole) = (0, 0);
        while filled < target {
            let phase = filled % pattern.len();
            let want = FRAGMENT.min(target - filled).min(repeated.len() - phase);
            let staged = fat.stage(&repeated[phase..phase + want])?;
            let moved = self.through_scratch(&fat, staged)?;
            filled += moved;
            if moved < staged {
                break; // fragments were smaller than hoped for: fewer bytes fill the slots
            }
            whole = filled / pattern.len() * pattern.len();
        }
        // What lies behind the last whole period is never tee'd.
        self.len = whole.min(filled / pattern.len() * pattern.len());
        self.count_tees()
    }

    /// Tries how often all of the master fits into the scratch pipe.
    fn count_tees(&mut self) -> io::Result<()> {
        let mut in_scratch = 0;
        while self.len > 0 {
            let teed = match self.tee() {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                other => other.map_err(tee_refused)?,
            };
            in_scratch += teed;
            if teed < self.len {
                break;
            }
            self.tees += 1;
        }
        self.drop_from_scratch(in_scratch)
    }

    fn tee(&self) -> io::Result<usize> {
        let (from, to) = (&self.master.read, &self.scratch.write);
        calls::tee(from, to, self.len, SpliceFlags::NONBLOCK)
    }

    /// Moves `len` staged bytes into the master; returns how many found room there.
    fn through_scratch(&self, fat: &Fat, len: usize) -> io::Result<usize> {
        let flags = SpliceFlags::NONBLOCK;
        let mut in_scratch = 0;
        while in_scratch < len {
            in_scratch += fat.deliver(&self.scratch.write, len - in_scratch, flags)?;
        }
        let mut moved = 0;
        while moved < len {
            match calls::splice(&self.scratch.read, &self.master.write, len - moved, flags) {
                Ok(n) => moved += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        self.drop_from_scratch(len - moved)?;
        Ok(moved)
    }

    fn drop_from_scratch(&self, len: usize) -> io::Result<()> {
        let mut left = len;
        while left > 0 {
            left -= self
                .discard
                .discard(&self.scratch.read, left, SpliceFlags::NONBLOCK)?;
        }
        Ok(())
    }

    /// Moves some bytes into the output, the first of them the `phase`th of the pattern.
    ///
    /// # Errors
    /// `WouldBlock` and `BrokenPipe` are about the output; any other means "not this way". Nothing has moved then.
    fn send(
        &mut self,
        out: BorrowedFd<'_>,
        most: usize,
        phase: usize,
        flags: SpliceFlags,
    ) -> io::Result<usize> {
        if self.pending == 0 {
            self.refill(phase)?;
        }
        let moved = calls::splice(&self.scratch.read, out, self.pending.min(most), flags)?;
        self.pending -= moved;
        Ok(moved)
    }

    /// Fills the empty scratch pipe.
    ///
    /// # Errors
    /// One of ours, which cannot be taken for one of the output.
    fn refill(&mut self, phase: usize) -> io::Result<()> {
        for _ in 0..self.tees {
            let teed = self.tee().map_err(tee_refused)?;
            if teed != self.len {
                // Cannot be: the scratch pipe is empty, and had room for as many when it was tried.
                let why = format!("tee has taken {teed} of {} bytes", self.len);
                let reason = Reason::Unsupported(why.into());
                return Err(io::Error::other(Error::because("tee refused", reason)));
            }
        }
        let dropped = self.drop_from_scratch(phase);
        dropped.map_err(|e| io::Error::other(Error::refused("no tee", "splice", e, "")))?;
        self.pending = self.tees * self.len - phase;
        Ok(())
    }
}

fn tee_refused(e: io::Error) -> io::Error {
    io::Error::other(Error::refused("tee refused", "tee", e, ""))
}
