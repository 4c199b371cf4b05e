//! A pool of huge pages: what is written there is lent to a pipe, and written again after a turn has made it copy-on-write.
#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use super::faults::Shown;
use super::huge::{AfterFork, HugePage, HugePages, Lent};
use super::turns::{LentAt, Turns};
use crate::calls::fault::{LeaveOut, leaves_out};
use crate::calls::{self, SpliceFlags};
use crate::error::{Error, Result};
use crate::reason::Reason;

/// A pool that is smaller than this, in bytes, was asked for: it stays as it is, whatever its turns cost.
const SMALLEST: usize = 16 << 20;
/// The largest pool that is grown to.
const LARGEST: usize = 64 << 20;
/// Where a turn takes a larger part of the time of a round than this, the pool grows.
const GROW_ABOVE: u32 = 5;
/// And where it takes more than this with the largest pool, another way is better. What turns cost this writer shows in its rate,
/// but the other threads of the process pay, too.
const TURN_AT_MOST: u32 = 3;
/// So many turns in a row that take more than that.
const TOO_DEAR: u32 = 4;

/// Huge pages that are lent one after the other, round and round.
///
/// A page is written again only when a turn has begun after its last byte was lent ([`turn`](super::turns)): then whoever still
/// holds it keeps what was sent, since the kernel copies on write. Whether somebody does shows in the faults of the first
/// touch: one for the whole page means that it is ours alone again, still huge, still in the cache; anything else means that
/// it would be copied bit by bit, and it is abandoned instead, as [`Lend`](super::Lend) does. So the turn makes it sound, and
/// the look at the faults makes it fast.
///
/// The memory stays with a forked child, since an empty page would not be copy-on-write: both sides go on, and copy on write
/// keeps them apart.
#[derive(Debug)]
pub(crate) struct Pool {
    pages: HugePages,
    turns: &'static Turns,
    /// Bytes that it has at least, since turns were too dear for fewer.
    at_least: usize,
    /// Whether the last page that was gone on to was one that came back.
    came_back: bool,
    /// When the last turn was over.
    turned: Option<Instant>,
    too_dear: u32,
}

impl Pool {
    /// The first page; others come as they are needed.
    ///
    /// # Errors
    /// No huge pages, or only such as are too large to lend, or no memory, or no turns.
    pub(crate) fn new() -> Result<Self> {
        let turns = Turns::of_this_process()?;
        let page = HugePage::new(AfterFork::Copied)?;
        Ok(Self {
            pages: HugePages::new(page, Some(turns))?,
            turns,
            at_least: 0,
            came_back: false,
            turned: None,
            too_dear: 0,
        })
    }

    /// The pages that are filled and lent.
    pub(crate) fn pages(&mut self) -> &mut HugePages {
        &mut self.pages
    }

    /// Whether pages come back: new ones, while the pool grows, are dearer.
    pub(crate) fn is_complete(&self) -> bool {
        self.came_back
    }

    /// Goes on to another page of a pool of so many bytes, and `ahead` for what waits. Whoever holds what was lent before keeps it
    /// as it was sent.
    ///
    /// # Errors
    /// No child for a turn, or turns that take too long for what they give, or no huge page available. Then nothing more is
    /// handed out.
    pub(crate) fn go_on(&mut self, bytes: usize, ahead: usize) -> Result<()> {
        let bytes = bytes.max(self.at_least);
        let next = self
            .pages
            .take_next((bytes + ahead) / self.pages.page_len());
        self.came_back = next.is_some();
        let page = match next {
            Some(mut lent) => {
                if let Some(at) = lent.at {
                    if !leaves_out(LeaveOut::Turn) {
                        self.turn(at, bytes)?;
                    }
                    let ours = leaves_out(LeaveOut::Look) || lent.page.touch() == Shown::Huge;
                    if !ours {
                        lent.page.renew()?;
                    }
                }
                lent.page
            }
            None => HugePage::beside(self.pages.last(), AfterFork::Copied)?,
        };
        // SAFETY: the page is new, or was never lent, or a turn has begun after it was lent: whoever holds what it was keeps it.
        unsafe { self.pages.go_on_with(page) };
        Ok(())
    }

    /// Makes sure that a turn has begun after this was lent, and looks what it has cost.
    fn turn(&mut self, lent: LentAt, bytes: usize) -> Result<()> {
        let round = self.turned.map(|t| t.elapsed());
        let took = self.turns.after(lent)?;
        if took.is_zero() {
            return Ok(()); // another thread has made it
        }
        self.turned = Some(Instant::now());
        let Some(round) = round.filter(|_| bytes >= SMALLEST) else {
            return Ok(());
        };
        let at_most = if bytes < LARGEST {
            GROW_ABOVE
        } else {
            TURN_AT_MOST
        };
        if took * at_most <= round + took {
            self.too_dear = 0;
            return Ok(());
        }
        self.too_dear += 1;
        if bytes < LARGEST && self.too_dear > 1 {
            self.too_dear = 0;
            self.at_least = (bytes * 2).min(LARGEST);
        }
        if self.too_dear < TOO_DEAR {
            return Ok(());
        }
        self.too_dear = 0;
        let reason = Reason::TooCostly {
            takes: took,
            sending: round,
        };
        let error = Error::because("copy-on-write is too costly", reason);
        Err(error.that_may_pass()) // the machine may have been busy
    }
}

/// Makes a turn, and says how long it took.
///
/// # Errors
/// No child is available.
pub(crate) fn turn() -> Result<Duration> {
    let turns = Turns::of_this_process()?;
    turns.after(turns.lent_now())
}

/// What the kernel does when a page is written to that was made copy-on-write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnWrite {
    /// Whoever holds the page keeps its bytes; a page that nobody holds is written in place.
    CopiesWhatIsHeld,
    /// Whoever holds the page sees the new bytes.
    ChangesWhatIsHeld,
    /// A page that nobody holds is copied all the same.
    CopiesAlways,
}

/// Tries it: a page is lent to a private pipe and passed on to a second one, made copy-on-write, and written to.
///
/// # Errors
/// No huge page, no pipe, no child, or vmsplice or splice refused.
pub(crate) fn try_copy_on_write() -> Result<OnWrite> {
    const LEN: usize = 4096;
    let refused = |call| {
        let what = "copy-on-write cannot be tried";
        move |e| Error::refused(what, call, e, "a sandbox may forbid it")
    };
    let mut pages = HugePages::new(HugePage::new(AfterFork::Copied)?, None)?;
    let (first_out, first_in) = calls::pipe().map_err(refused("pipe"))?;
    let (held, keep) = calls::pipe().map_err(refused("pipe"))?;
    let mut got = [0; LEN];
    // Something else may hold a page for a moment: looked at three times.
    for is_held in [true, false, false, false] {
        pages.free_mut()[..LEN].fill(1);
        let nonblocking = SpliceFlags::NONBLOCK;
        let sent = pages.send(&first_in, LEN, nonblocking);
        sent.map_err(refused("vmsplice"))?;
        if is_held {
            calls::splice(&first_out, &keep, LEN, nonblocking).map_err(refused("splice"))?;
        } else {
            calls::read(&first_out, &mut got).map_err(refused("read"))?;
        }
        turn()?;
        pages.close();
        let Some(Lent { mut page, .. }) = pages.take_oldest() else {
            break;
        };
        let shown = page.touch();
        if !is_held {
            match shown {
                Shown::Huge => return Ok(OnWrite::CopiesWhatIsHeld),
                Shown::Small => {}
                Shown::Nothing => {
                    let why = "getrusage(2) does not count faults here";
                    let what = "who holds a page does not show";
                    return Err(Error::because(what, Reason::Unsupported(why.into())));
                }
            }
            pages = HugePages::new(HugePage::new(AfterFork::Copied)?, None)?;
            continue;
        }
        // SAFETY: this changes what the second pipe holds where the kernel does not copy. That is the point of the trial: the
        // only reader is this function, which takes either.
        unsafe { pages.go_on_with(page) };
        pages.free_mut()[..LEN].fill(2);
        let n = calls::read(&held, &mut got).map_err(refused("read"))?;
        if got[..n] != [1; LEN] {
            return Ok(OnWrite::ChangesWhatIsHeld);
        }
        pages = HugePages::new(HugePage::new(AfterFork::Copied)?, None)?;
    }
    Ok(OnWrite::CopiesAlways)
}
