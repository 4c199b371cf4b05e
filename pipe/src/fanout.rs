//! One descriptor to many: [`fanout`] gives every output all bytes of one input, and copies none where it can.
//!
//! Each output has a private pipe. A batch of slots moves from the input into the last one (`splice(2)`), is duplicated
//! into the others (`tee(2)`, references only), and then each is moved on to its output. So
//!
//! - what was taken from the input is out of reach of others who read it, too: between `tee` and `splice` of a shared pipe
//!   they could take slots, which would arrive in one output and not in another;
//! - `tee`, which always begins at the head of its source, meets an *empty* pipe with as many slots as its source has, and
//!   so takes all of the batch or shows that it is unavailable. It is never continued: that would send the head twice;
//! - errors are either of the input or of one output.

mod output;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use crate::pump::is_refusal;
use fullbore_sys::calls::{self, End, SpliceFlags};
use fullbore_sys::capacity;
use fullbore_sys::private::Private;
use fullbore_sys::wait::{Wait, Waiter, events};
use fullbore_sys::{Reason, Route};
use output::Output;

/// Bytes per call at most; a round number that fits every kernel's limit.
const PIECE: usize = 1 << 30;
/// Bytes that are read at a time where everything is done by hand. Less than a pipe takes: an output that is full after
/// all of a batch must not keep another one waiting for the first byte of it.
const BUFFER: usize = 16 << 10;
/// Bytes after which pipes are made larger: they count against what their user may have, and most inputs are short.
const GROW_AFTER: u64 = 256 << 10;
/// With more outputs than this, their private pipes stay as they come.
const GROW_AT_MOST: usize = 4;

/// An output that takes no more, and why.
#[derive(Debug)]
#[non_exhaustive]
pub struct Failed {
    /// Which one, counted from 0.
    pub output: usize,
    /// What the system reported.
    pub error: io::Error,
}

/// What one [`Fanout::step`] has done.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Step {
    /// Bytes that were taken from the input. Zero, and no output that failed, is end of file, or that every output has
    /// failed before.
    pub bytes: usize,
    /// Outputs that failed in this step. They get nothing more. Where there are any, the others may not have all of the
    /// bytes yet: they get them in the next step.
    pub failed: Vec<Failed>,
}

/// What [`fanout`] has done.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct FannedOut {
    /// Bytes that were taken from the input.
    pub bytes: u64,
    /// Outputs that failed; all others have every byte.
    pub failed: Vec<Failed>,
}

/// Moves everything from one descriptor to many, until end of file or until every output has failed.
///
/// A slow output slows down all: none is ever further ahead than one batch (at most what a pipe holds) and what its own
/// pipe takes. One that fails is left out from then on.
///
/// # Errors
/// What the system calls report of the input. What was taken from it before is in every output that did not fail.
///
/// # Examples
/// ```
/// use std::os::fd::AsFd;
/// let file = std::fs::File::open("/proc/self/status")?;
/// let ((mut one, to_one), (mut other, to_other)) = (std::io::pipe()?, std::io::pipe()?);
/// let done = fullbore::fanout(&file, &[to_one.as_fd(), to_other.as_fd()])?;
/// assert!(done.failed.is_empty());
/// drop((to_one, to_other));
/// let text = std::io::read_to_string(&mut one)?;
/// assert_eq!(text, std::io::read_to_string(&mut other)?);
/// assert_eq!(text.len() as u64, done.bytes);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn fanout(from: impl AsFd, to: &[BorrowedFd<'_>]) -> io::Result<FannedOut> {
    let mut fanout = Fanout::new(from.as_fd(), to.iter().copied());
    let mut done = FannedOut::default();
    loop {
        let step = fanout.step(usize::MAX)?;
        if step.bytes == 0 && step.failed.is_empty() {
            return Ok(done);
        }
        done.bytes += step.bytes as u64;
        done.failed.extend(step.failed);
    }
}

/// Moves bytes from one descriptor to many, step by step.
#[derive(Debug)]
pub struct Fanout<F, T> {
    from: F,
    outputs: Vec<Output<T>>,
    /// Bytes are read and written, for all outputs.
    by_hand: bool,
    /// What was moved so far, and whether pipes were made larger because of that.
    moved: u64,
    grown: bool,
    /// Whether outputs are looked at while the input has nothing.
    watches: bool,
    waits: Waiter,
}

impl<F: AsFd, T: AsFd> Fanout<F, T> {
    /// Connects one input with any number of outputs. They may be borrowed, or the fanout's own, which closes them when it is
    /// dropped.
    #[must_use]
    pub fn new(from: F, outputs: impl IntoIterator<Item = T>) -> Self {
        let outputs = outputs.into_iter().map(Output::new).collect();
        let mut fanout = Self {
            from,
            outputs,
            by_hand: false,
            moved: 0,
            grown: false,
            watches: false,
            waits: Waiter::new(Wait::Block, End::Read),
        };
        if let Err(reason) = fanout.make_pipes() {
            fanout.go_by_hand(reason);
        }
        fanout
    }

    /// Notices an output whose reader has gone also while the input has nothing. Without this it is noticed when there is
    /// something to write. It costs a `poll(2)` per step.
    #[must_use]
    pub fn watching(mut self) -> Self {
        self.watches = true;
        self
    }

    /// How bytes reach an output, counted from 0: [`Route::Relay`], or [`Route::ReadWrite`] where that was refused.
    #[must_use]
    pub fn route(&self, output: usize) -> Route {
        if self.fallbacks(output).is_empty() {
            Route::Relay
        } else {
            Route::ReadWrite
        }
    }

    /// The routes to an output that would have been better, and why each was left.
    #[must_use]
    pub fn fallbacks(&self, output: usize) -> &[(Route, Reason)] {
        self.outputs.get(output).map_or(&[], |o| &o.fallbacks)
    }

    /// How many outputs did not fail yet.
    #[must_use]
    pub fn live(&self) -> usize {
        self.outputs.iter().filter(|o| !o.failed).count()
    }

    /// Takes some bytes from the input, at most `most` (and what fits into a pipe), and gives all of them to every output
    /// that has not failed. Returns early where one fails.
    ///
    /// # Errors
    /// What the system calls report of the input; nothing was taken from it then.
    pub fn step(&mut self, most: usize) -> io::Result<Step> {
        let mut step = Step::default();
        self.deliver(&mut step.failed)?; // what an early return has left
        if step.failed.is_empty() && self.watches && self.live() > 0 {
            self.wait_for_input(&mut step.failed)?;
        }
        let last = self.outputs.iter().rposition(|o| !o.failed);
        let (Some(last), true) = (last, step.failed.is_empty()) else {
            return Ok(step);
        };
        step.bytes = self.take(last, most.min(PIECE))?;
        self.moved += step.bytes as u64;
        self.deliver(&mut step.failed)?;
        let delivered = !self.outputs.iter().any(Output::is_pending);
        if !self.grown && self.moved >= GROW_AFTER && delivered {
            self.grow();
        }
        Ok(step)
    }

    /// Waits until the input has something or is at its end, or until nobody reads an output any more.
    fn wait_for_input(&mut self, failed: &mut Vec<Failed>) -> io::Result<()> {
        let live = |(_, o): &(usize, &mut Output<T>)| !o.failed && o.may_break;
        let mut watched: Vec<_> = self.outputs.iter_mut().enumerate().filter(live).collect();
        let gone =
            calls::wait_for_input(self.from.as_fd(), watched.iter().map(|(_, o)| o.to.as_fd()))?;
        for ((index, output), gone) in watched.iter_mut().zip(gone) {
            if gone {
                output.fail();
                failed.push(Failed {
                    output: *index,
                    error: rustix::io::Errno::PIPE.into(),
                });
            }
        }
        Ok(())
    }

    /// Takes a batch and gives each output its copy; zero is end of file.
    fn take(&mut self, last: usize, most: usize) -> io::Result<usize> {
        while !self.by_hand {
            let Some(slots) = &mut self.outputs[last].slots else {
                self.go_by_hand(Reason::Other("there is no private pipe".into()));
                break;
            };
            // The private pipe is empty: where it would block, it is the input that has nothing.
            let fill = || slots.fill(&self.from, most, SpliceFlags::empty());
            match self.waits.until_ready(&self.from, fill) {
                Ok(n) => {
                    if n > 0 {
                        self.duplicate(last, n)?;
                    }
                    return Ok(n);
                }
                Err(e) if is_refusal(&e) => self.go_by_hand(Reason::of("splice", &e)),
                Err(e) => return Err(e),
            }
        }
        self.read(most)
    }

    fn read(&mut self, most: usize) -> io::Result<usize> {
        let mut buffer = [0; BUFFER];
        let most = most.min(BUFFER);
        let read = || calls::read(&self.from, &mut buffer[..most]);
        let n = self.waits.until_ready(&self.from, read)?;
        self.give(&buffer[..n]);
        Ok(n)
    }

    fn give(&mut self, bytes: &[u8]) {
        for output in self.outputs.iter_mut().filter(|o| !o.failed) {
            output.bytes.extend_from_slice(bytes);
        }
    }

    /// Duplicates a batch of `len` bytes that the last output has. Nothing was delivered of it yet, so whatever does not
    /// work is taken back and done by hand.
    fn duplicate(&mut self, last: usize, len: usize) -> io::Result<()> {
        let (others, rest) = self.outputs.split_at_mut(last);
        let Some(source) = rest.first_mut().and_then(|o| o.slots.as_mut()) else {
            return Ok(());
        };
        let mut reason = None;
        for output in others.iter_mut().filter(|o| !o.failed) {
            let teed = match &mut output.slots {
                Some(slots) => slots.duplicate(source, len),
                None => Err(io::ErrorKind::NotFound.into()),
            };
            match teed {
                Ok(n) if n == len => {}
                Ok(n) => {
                    let why = format!("tee has taken {n} of {len} bytes");
                    reason = Some(Reason::Unsupported(why.into()));
                }
                Err(e) => reason = Some(Reason::of("tee", &e)),
            }
            if reason.is_some() {
                break;
            }
        }
        if let Some(reason) = reason {
            let mut batch = Vec::new();
            source.take_all(&mut batch)?;
            self.go_by_hand(reason);
            self.give(&batch);
        }
        Ok(())
    }

    /// Gives up all private pipes and what they hold.
    fn go_by_hand(&mut self, reason: Reason) {
        for output in &mut self.outputs {
            output.slots = None;
            output.fallbacks.push((Route::Relay, reason.clone()));
        }
        self.by_hand = true;
    }

    /// Moves on to each output what it still has to get, or until one fails. One that is full keeps no other waiting: a
    /// reader of both might want something from the other one first.
    fn deliver(&mut self, failed: &mut Vec<Failed>) -> io::Result<()> {
        loop {
            let mut progress = false;
            let alone = self.outputs.iter().filter(|o| o.is_pending()).count() == 1;
            for (index, output) in self.outputs.iter_mut().enumerate() {
                match output.deliver(alone) {
                    Ok(moved) => progress |= moved,
                    Err(error) => {
                        output.fail();
                        let output = index;
                        failed.push(Failed { output, error });
                    }
                }
            }
            if !failed.is_empty() {
                return Ok(()); // whoever waits for the others may want to end
            }
            let mut pending = self.outputs.iter_mut().filter(|o| o.is_pending());
            match (pending.next(), pending.next()) {
                (None, _) => return Ok(()),
                _ if progress => {}
                (Some(output), None) => output.waits.after_would_block(&output.to)?,
                _ => {
                    let pending = self.outputs.iter().filter(|o| o.is_pending());
                    calls::poll_any(pending.map(|o| o.to.as_fd()), events(End::Write))?;
                }
            }
        }
    }

    /// Makes the private pipes, all with the same number of slots.
    fn make_pipes(&mut self) -> Result<(), Reason> {
        for output in &mut self.outputs {
            let slots = Private::new()?;
            output.slots = Some(slots);
        }
        let granted = self.level()?;
        if granted < BUFFER {
            return Err(Reason::NoPipeMemory);
        }
        Ok(())
    }

    /// Makes all private pipes as small as the smallest.
    fn level(&mut self) -> fullbore_sys::Result<usize> {
        let slots = || self.outputs.iter().filter_map(|o| o.slots.as_ref());
        let mut least = usize::MAX;
        for slots in slots() {
            least = least.min(slots.capacity()?);
        }
        for slots in slots() {
            if slots.capacity()? > least {
                slots.set_capacity(least)?;
            }
        }
        Ok(least)
    }

    /// Makes all pipes larger. What is refused is not needed; all private pipes are empty now.
    fn grow(&mut self) {
        self.grown = true;
        let outputs = self
            .outputs
            .iter()
            .filter(|o| !o.failed)
            .map(|o| o.to.as_fd());
        for fd in outputs.chain([self.from.as_fd()]) {
            if calls::is_pipe(fd) {
                let _ = capacity::largest(fd);
            }
        }
        if !self.by_hand && self.outputs.len() <= GROW_AT_MOST {
            for output in &self.outputs {
                if let Some(slots) = &output.slots {
                    slots.grow();
                }
            }
            if let Err(e) = self.level() {
                self.go_by_hand(e.into());
            }
        }
    }
}
