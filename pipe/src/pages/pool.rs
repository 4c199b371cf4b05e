//! A pool of huge pages: what is written there is lent to a pipe, and written again after a turn has made it copy-on-write.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::faults::Shown;
use super::huge::{AfterFork, HugePage, HugePages};
use super::turn::{self, LentAt};
use crate::error::{Error, Result};
use crate::size::Size;
use crate::sys::SpliceFlags;

/// Bytes of a pool at first, and at most.
const AT_FIRST: usize = 16 << 20;
const AT_MOST: usize = 64 << 20;
/// A turn may take this part of the time of a round. Where it takes more the pool grows.
const TURN_OF_ROUND: u32 = 20;
/// So many turns in a row that are too dear for the largest pool: another way is better.
const TOO_DEAR: u32 = 4;

/// Huge pages that are lent one after the other, round and round.
///
/// A page is written again only when a turn has begun after its last byte was lent ([`turn`](super::turn)): then whoever still
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
    /// When the last bytes of each page were lent; `None` where none were since it was new.
    lent: Vec<Option<LentAt>>,
    /// Pages it may have now.
    most: usize,
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
        turn::lent_now()?;
        let page = HugePage::new(AfterFork::Copied)?;
        Ok(Self {
            most: AT_FIRST / page.len(),
            pages: HugePages::new(vec![page]),
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
        self.lent[self.pages.current()] = Some(turn::lent_now()?);
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
                self.turn(lent)?;
                let ours = self.pages.pages[next].touch() == Shown::Huge;
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
        let took = turn::after(lent)?;
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
        if self.most * page < AT_MOST {
            self.most *= 2;
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
        Err(error)
    }
}
