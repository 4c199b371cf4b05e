//! A pool of huge pages: what is written there is lent to a pipe, and written again after a turn has made it copy-on-write.
#![allow(unsafe_code)]

use std::io;
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::faults::Shown;
use super::huge::{AfterFork, HugePage, HugePages};
use super::turns::{LentAt, Turns};
use crate::error::{Error, Result};
use crate::size::Size;
use crate::sys::fault::{LeaveOut, leaves_out};
use crate::sys::{self, SpliceFlags};

/// Bytes of a pool, unless another size is asked for: at first, and at most.
const BYTES: RangeInclusive<usize> = 16 << 20..=64 << 20;
/// A turn may take this part of the time of a round. Where it takes more the pool grows.
const TURN_OF_ROUND: u32 = 20;
/// And with the largest pool this part: what it costs this writer shows in its rate, but other threads pay as well.
const TURN_AT_MOST: u32 = 4;
/// So many turns in a row that are too dear for the largest pool: another way is better.
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
    /// When the last bytes of each page were lent; `None` where none were since it was new.
    lent: Vec<Option<LentAt>>,
    /// Pages it may have now, and ever.
    most: usize,
    ever: usize,
    /// When the last turn was over.
    turned: Option<Instant>,
    too_dear: u32,
}

impl Pool {
    /// The first page; others come as they are needed, up to so many bytes where that is given.
    ///
    /// # Errors
    /// No huge pages, or only such as are too large to lend, or no memory, or no turns.
    pub(crate) fn new(bytes: Option<usize>) -> Result<Self> {
        let turns = Turns::of_this_process()?;
        let page = HugePage::new(AfterFork::Copied)?;
        let (most, ever) = bytes.map_or((*BYTES.start(), *BYTES.end()), |b| (b, b));
        Ok(Self {
            most: (most / page.len()).max(1),
            ever: (ever / page.len()).max(1),
            pages: HugePages::new(vec![page]),
            turns,
            lent: vec![None],
            turned: None,
            too_dear: 0,
        })
    }

    /// Bytes that can be handed out before the next page must be taken.
    pub(crate) fn room(&self) -> usize {
        self.pages.room()
    }

    /// The bytes behind everything that was lent from this page, to write into.
    pub(crate) fn free_mut(&mut self) -> &mut [u8] {
        self.pages.free_mut()
    }

    /// Lends the first `len` free bytes to a pipe. Returns how many the pipe took; the rest stays free, as it was
    /// written.
    ///
    /// # Errors
    /// What `vmsplice(2)` reports; then nothing was lent.
    pub(crate) fn send(
        &mut self,
        fd: impl AsFd,
        len: usize,
        flags: SpliceFlags,
    ) -> io::Result<usize> {
        let taken = self.pages.send(fd, len, flags)?;
        self.lent[self.pages.current()] = Some(self.turns.lent_now());
        Ok(taken)
    }

    /// Leaves out the first `len` free bytes.
    pub(crate) fn skip(&mut self, len: usize) {
        self.pages.skip(len);
    }

    /// Moves on to the next page boundary, so that the next bytes take as few slots as they can.
    pub(crate) fn align(&mut self) {
        self.pages.align();
    }

    /// Goes on to the next page. Whoever holds what was lent before keeps it as it was sent.
    ///
    /// # Errors
    /// No child for a turn, or turns that take too long for what they give, or no huge page to be had. Then nothing more is
    /// handed out.
    pub(crate) fn go_on(&mut self) -> Result<()> {
        self.pages.close();
        let count = self.pages.pages.len();
        let mut next = self.pages.current() + 1;
        if next == count && count < self.most {
            self.pages.pages.push(HugePage::new(AfterFork::Copied)?);
            self.lent.push(None);
        } else {
            next %= count;
            if let Some(lent) = self.lent[next] {
                if !leaves_out(LeaveOut::Turn) {
                    self.turn(lent)?;
                }
                let ours =
                    leaves_out(LeaveOut::Look) || self.pages.pages[next].touch() == Shown::Huge;
                if !ours {
                    self.pages.pages[next].renew()?;
                }
                self.lent[next] = None;
            }
        }
        // SAFETY: the page is new, or was never lent, or a turn has begun after it was lent: whoever holds what it was keeps it.
        unsafe { self.pages.go_on_to(next) };
        Ok(())
    }

    /// Makes sure that a turn has begun after this was lent, and looks what it has cost.
    fn turn(&mut self, lent: LentAt) -> Result<()> {
        let round = self.turned.map(|t| t.elapsed());
        let took = self.turns.after(lent)?;
        if took.is_zero() {
            return Ok(()); // another thread has made it
        }
        self.turned = Some(Instant::now());
        let page = self.pages.pages[0].len();
        match round {
            Some(round) if took * TURN_OF_ROUND > round + took => self.is_dear(took, round, page),
            _ => {
                self.too_dear = 0;
                Ok(())
            }
        }
    }

    fn is_dear(&mut self, took: Duration, round: Duration, page: usize) -> Result<()> {
        if self.most < self.ever {
            self.most = self.ever.min(self.most * 2);
            return Ok(());
        }
        if took * TURN_AT_MOST <= round + took {
            self.too_dear = 0;
            return Ok(());
        }
        self.too_dear += 1;
        if self.too_dear < TOO_DEAR {
            return Ok(());
        }
        self.too_dear = 0;
        let error = Error::new(
            "copy-on-write is too dear in a process of this size",
            format!(
                "to make the memory so takes {} µs for each {}, which are sent in {} µs",
                took.as_micros(),
                Size((self.most * page) as u64),
                round.as_micros()
            ),
            "use it in a smaller process",
        );
        Err(error.that_may_pass()) // the machine may have been busy
    }
}

/// Makes a turn, and says how long it took.
///
/// # Errors
/// No child is to be had.
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
    let refused = |e| {
        Error::system(
            "copy-on-write cannot be tried",
            e,
            "a sandbox may forbid it",
        )
    };
    let mut pages = HugePages::new(vec![HugePage::new(AfterFork::Copied)?]);
    let (first_out, first_in) = sys::pipe().map_err(refused)?;
    let (held, keep) = sys::pipe().map_err(refused)?;
    let mut got = [0; LEN];
    for is_held in [true, false] {
        pages.free_mut()[..LEN].fill(1);
        let nonblocking = SpliceFlags::NONBLOCK;
        pages.send(&first_in, LEN, nonblocking).map_err(refused)?;
        if is_held {
            sys::splice(&first_out, &keep, LEN, nonblocking).map_err(refused)?;
        } else {
            sys::read(&first_out, &mut got).map_err(refused)?;
        }
        turn()?;
        let shown = pages.pages[0].touch();
        if !is_held {
            return Ok(match shown {
                Shown::Huge => OnWrite::CopiesWhatIsHeld,
                Shown::Small => OnWrite::CopiesAlways,
                Shown::Nothing => {
                    let why = "getrusage(2) does not count faults here";
                    let what = "who holds a page does not show";
                    return Err(Error::new(what, why, "a sandbox may forbid it"));
                }
            });
        }
        // SAFETY: this changes what the second pipe holds where the kernel does not copy. That is the point of the trial: the
        // only reader is this function, which takes either.
        unsafe { pages.go_on_to(0) };
        pages.free_mut()[..LEN].fill(2);
        let n = sys::read(&held, &mut got).map_err(refused)?;
        if got[..n] != [1; LEN] {
            return Ok(OnWrite::ChangesWhatIsHeld);
        }
        pages.pages[0].renew()?;
    }
    Ok(OnWrite::CopiesAlways)
}
