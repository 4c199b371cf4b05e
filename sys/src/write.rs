//! Ways into a pipe.

pub mod cow;
pub mod fat;
pub mod fresh;
pub mod recycle;

use crate::error::Result;
use crate::pages::HugePages;

/// Memory that is filled and lent to a pipe, front to back: what [`fresh`] and [`cow`] have in common.
pub(crate) trait Lender {
    /// Makes `len` bytes ready to be handed out ([`HugePages::free_mut`]), at most [`fresh::PIECE`].
    ///
    /// # Errors
    /// No huge page is available, or this would cost or hold too much: another way must be taken. Nothing is lost.
    fn prepare(&mut self, len: usize, round: Round) -> Result<()>;

    /// Whether it is as fast as it will be, as far as its memory is concerned.
    fn is_settled(&self) -> bool {
        true
    }

    /// Its pages.
    fn pages(&mut self) -> &mut HugePages;
}

/// How many pages are gone round. Which is the fastest depends on the machine, and on the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    /// Whether `fresh` keeps pages until the pipe has let go of them.
    pub(crate) keep: bool,
    /// Bytes that the pool of `cow` has at most.
    pub(crate) pool: usize,
    /// Bytes that may wait to be lent, for which there are pages besides.
    pub(crate) ahead: usize,
}

/// Lets the next `len` bytes begin at a small page, so that they take as few slots as they can, where there are pages of them.
fn align(pages: &mut HugePages, len: usize) {
    if len >= rustix::param::page_size() || pages.queued() == 0 {
        pages.align();
    }
}
