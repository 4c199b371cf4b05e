//! Sizes of a buffer and of a pipe, and the rules between them.

use fullbore_sys::size::Size;
use fullbore_sys::{Error, Result};
use serde::{Deserialize, Serialize};

/// Bytes of one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BufSize(pub u64);

impl Default for BufSize {
    fn default() -> Self {
        Self(256 << 10)
    }
}

impl std::fmt::Display for BufSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Size(self.0).fmt(f)
    }
}

impl BufSize {
    /// The buffer whose pages fill a pipe of this capacity with one half while the other one is written: see
    /// [`Self::lent_capacity`].
    pub fn for_lent_capacity(capacity: u64) -> Self {
        Self(capacity.saturating_mul(2))
    }

    /// The capacity of a pipe to which the pages of the buffer are lent: half the buffer, so that a buffer has been read before
    /// it is used again.
    pub fn lent_capacity(self) -> u64 {
        self.0 / 2
    }

    pub(super) fn check(self) -> Result<()> {
        let why = match self.0 {
            0 => "nothing can be moved with an empty buffer",
            n if n > i64::MAX as u64 / 4 => "larger than memory can be",
            _ => return Ok(()),
        };
        let what_to_do = "use for example --buf-size 256K";
        Err(Error::new(format!("--buf-size {self}"), why, what_to_do))
    }

    /// Whether its pages can be lent to a pipe, on a machine with pages of this size.
    pub(super) fn check_lent(self, page_size: usize) -> Result<()> {
        let page = page_size as u64;
        let half = self.lent_capacity();
        let whole = self.0.is_multiple_of(2) && half.is_multiple_of(page);
        if whole && (half / page).is_power_of_two() {
            return Ok(());
        }
        Err(Error::new(
            format!("--buf-size {self} with vmsplice"),
            "half of it is the pipe's capacity, which is a power of two of pages",
            format!("use for example --buf-size {}", Size(64 * page)),
        ))
    }
}

/// Which capacity the pipe is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PipeSize {
    /// As it comes, 64 KiB by default.
    #[default]
    Leave,
    /// Exactly so many bytes.
    Exactly(u64),
    /// As large as this user may have it.
    Largest,
}

impl PipeSize {
    /// The exact capacity in bytes that the pipe must be given, if any; `lent` is the buffer whose pages are lent to it, if
    /// they are.
    pub fn exact(self, lent: Option<BufSize>) -> Option<u64> {
        match (self, lent) {
            (Self::Largest, _) => None,
            (_, Some(buffer)) => Some(buffer.lent_capacity()),
            (Self::Exactly(bytes), None) => Some(bytes),
            (Self::Leave, None) => None,
        }
    }

    pub(super) fn check(self, lent: Option<BufSize>) -> Result<()> {
        match (self, lent) {
            (Self::Exactly(0), _) => Err(Error::new(
                "--pipe-size 0",
                "a pipe has at least one page",
                "leave it out to keep the pipe as it comes",
            )),
            (Self::Exactly(_), Some(_)) => Err(Error::new(
                "--pipe-size with vmsplice",
                "the capacity is half the buffer, so that a buffer has been read before it is used again",
                "leave out --pipe-size and choose --buf-size",
            )),
            _ => Ok(()),
        }
    }
}
