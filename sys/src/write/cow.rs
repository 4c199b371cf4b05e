//! `cow`: copy once into a huge page, lend it to the pipe, write it again when the kernel copies on write for whoever holds it.
//!
//! Compared with [`fresh`](super::fresh) nothing is given back to the kernel and nothing is zeroed, and what is written again
//! still lies in a cache. The price is a child process that comes and goes once a round, and huge pages that stay.

use super::{Lender, Round, align};
use crate::error::Result;
use crate::pages::{HugePages, Pool};
use crate::write::fresh::PIECE;

/// Memory that is lent to a pipe, made copy-on-write, and written again.
#[derive(Debug)]
pub struct Cow {
    pool: Pool,
}

impl Cow {
    /// Maps the first of the memory and proves that huge pages are available. More is mapped as it is needed.
    ///
    /// # Errors
    /// Huge pages are unavailable here, or not now ([`Error::is_passing`](crate::Error::is_passing)).
    pub fn new() -> Result<Self> {
        Ok(Self { pool: Pool::new()? })
    }
}

impl Lender for Cow {
    fn prepare(&mut self, len: usize, round: Round) -> Result<()> {
        align(self.pool.pages(), len);
        if self.pool.pages().room() >= len.min(PIECE) {
            return Ok(());
        }
        self.pool.go_on(round.pool, round.ahead)
    }

    fn is_settled(&self) -> bool {
        self.pool.is_complete()
    }

    fn pages(&mut self) -> &mut HugePages {
        self.pool.pages()
    }
}
