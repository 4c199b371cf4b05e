//! `fresh`: copy once into a huge page, lend it to the pipe, abandon it later. No byte is written after it was lent.

use super::{Lender, Round, align};
use crate::error::{Error, Result};
use crate::pages::{HugePage, HugePages, Lend};
use crate::reason::Reason;

/// Memory whose pages are lent to a pipe and then abandoned.
///
/// A page that somebody keeps a part of is kept whole. So one page in [`LOOK_EVERY`] bytes is put aside, and is asked of when
/// as much again was lent: while it is still held nothing more is lent, so that a reader which keeps slots pins twice that
/// at most, and three pages. This takes Linux 6.1; before that nothing tells.
#[derive(Debug)]
pub struct Fresh {
    lend: Lend,
    /// Pages that were gone on to since one was put aside.
    turns: usize,
    /// Somebody has kept a page for too long.
    held: bool,
}

/// What is remembered when the memory is given back: otherwise nobody would ever be asked where that happens often.
#[derive(Debug, Default)]
pub(crate) struct Paused {
    turns: usize,
    /// A page that somebody held.
    aside: Option<HugePage>,
}

/// The longest piece that is lent in one call, in bytes: longer ones hold the pipe's mutex for too long, shorter ones
/// pay for the call too often. `docs/results/2026-11-22-epyc-kvm-ahead.md` has the figures.
pub const PIECE: usize = 1 << 20;

/// Huge pages that are kept behind the one that is filled, so that the pipe has let go of each before it is abandoned. With one,
/// a pipe behind another one still holds some; with five they leave the caches (`docs/results/2026-11-21-epyc-kvm.md`).
const KEPT: usize = 2;

/// Bytes that are lent between two looks at a page that was put aside.
pub const LOOK_EVERY: usize = 32 << 20;

impl Fresh {
    /// Maps the memory and proves that huge pages are available.
    ///
    /// # Errors
    /// Huge pages are unavailable here, or not now ([`Error::is_passing`]). Small ones would be slower than `write(2)`.
    pub fn new() -> Result<Self> {
        Ok(Self {
            lend: Lend::new()?,
            turns: 0,
            held: false,
        })
    }

    /// The same, where memory was given back before.
    pub(crate) fn go_on_after(&mut self, paused: Paused) {
        self.turns = paused.turns + 1; // for the first page
        self.lend.set_aside(paused.aside);
    }

    /// Before the memory is given back: what to go on with then, or `None` where the reader keeps too much, which only this
    /// can tell later.
    pub(crate) fn pause(&mut self) -> Option<Paused> {
        if self.held {
            return None;
        }
        let is_due = self.is_due();
        let mut is_held = self.lend.aside_is_held();
        if is_due && is_held {
            self.held = true;
            return None;
        }
        if is_due {
            self.lend.put_aside();
            self.turns = 0;
            is_held = self.lend.aside_is_held();
        }
        Some(Paused {
            turns: self.turns,
            aside: self.lend.take_aside().filter(|_| is_held),
        })
    }

    fn is_due(&mut self) -> bool {
        self.turns * self.lend.pages().page_len() >= LOOK_EVERY
    }

    /// Looks whether nobody keeps the page that was put aside.
    ///
    /// # Errors
    /// Somebody does.
    pub fn resume(&mut self) -> Result<()> {
        self.held = self.lend.aside_is_held();
        if !self.held {
            return Ok(());
        }
        let bytes = LOOK_EVERY as u64;
        let error = Error::because("too much memory is held", Reason::Held { bytes });
        Err(error.that_may_pass())
    }
}

impl Lender for Fresh {
    fn prepare(&mut self, len: usize, round: Round) -> Result<()> {
        align(self.lend.pages(), len);
        if self.held {
            self.resume()?;
        }
        if self.lend.pages().room() >= len.min(PIECE) {
            return Ok(());
        }
        let page = self.lend.pages().page_len();
        let kept = if round.keep { KEPT } else { 0 };
        let pages = 1 + kept + round.ahead.div_ceil(page);
        self.turns += 1;
        if !self.is_due() {
            return self.lend.turn(pages);
        }
        self.resume()?;
        self.turns = 0;
        self.lend.turn_aside(pages)
    }

    fn pages(&mut self) -> &mut HugePages {
        self.lend.pages()
    }
}
