//! Whether something is of this process, or was inherited by a fork.
//!
//! Not by the number of the process: it repeats, in another pid namespace or later. But memory can be had that a forked child
//! gets empty (`MADV_WIPEONFORK`, Linux 4.14).
#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags};

use super::map_anonymous;
use crate::calls::fault::{Call, allow};
use crate::error::{Error, Result};

/// The process that has made something.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    number: u64,
    /// What this process' number is now.
    mark: &'static AtomicU64,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// A forked child could not be told from it: there is no memory that a fork empties.
    pub fn this_process() -> Result<Self> {
        static MARK: OnceLock<Mark> = OnceLock::new();
        let mark = match MARK.get() {
            Some(mark) => mark,
            None => {
                let mark = Mark::new()?;
                MARK.get_or_init(|| mark)
            }
        };
        let number = mark.generation();
        Ok(Self {
            number,
            mark: mark.0,
        })
    }

    /// Whether this process is the one. One load of memory.
    #[inline]
    #[must_use]
    pub fn is_this_process(self) -> bool {
        // Zero after a fork, and then another number, once somebody asks.
        self.mark.load(Ordering::Acquire) == self.number
    }
}

/// A number in memory that is zero after a fork.
struct Mark(&'static AtomicU64);

impl Mark {
    fn new() -> Result<Self> {
        Ok(Self(&wiped::<1>()?[0]))
    }

    /// Different in a process and in every process from which it has descended.
    fn generation(&self) -> u64 {
        /// Ordinary memory: a forked child goes on counting where its parent was.
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = self.0;
        match number.load(Ordering::Acquire) {
            0 => {
                let next = LAST.fetch_add(1, Ordering::AcqRel) + 1;
                let set = number.compare_exchange(0, next, Ordering::AcqRel, Ordering::Acquire);
                set.map_or_else(|other| other, |_| next)
            }
            known => known,
        }
    }
}

/// Numbers that are zero now, and again in a forked child. They stay for the life of the process.
///
/// # Errors
/// There is no such memory here.
pub(super) fn wiped<const N: usize>() -> Result<&'static [AtomicU64; N]> {
    let len = rustix::param::page_size();
    debug_assert!(size_of::<[AtomicU64; N]>() <= len);
    let refused = |call, e| {
        Error::refused(
            "no memory that a forked child gets empty",
            call,
            e,
            "use Linux 4.14 or newer; a sandbox may forbid madvise",
        )
    };
    let start = map_anonymous(len, MapFlags::PRIVATE).map_err(|e| refused("mmap", e))?;
    if let Err(e) = wipe_on_fork(start, len) {
        // SAFETY: the mapping was made above, and nothing refers to it.
        let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast(), len) };
        return Err(refused(WIPE_ON_FORK, e));
    }
    // SAFETY: a page that is never unmapped, aligned, zeroed by the kernel, and used as these atomic numbers only.
    Ok(unsafe { start.cast().as_ref() })
}

/// What [`wipe_on_fork`] calls.
pub(super) const WIPE_ON_FORK: &str = "madvise(MADV_WIPEONFORK)";

/// Makes a part of our own memory empty in a forked child.
pub(super) fn wipe_on_fork(start: NonNull<u8>, len: usize) -> rustix::io::Result<()> {
    allow(Call::MadviseWipeonfork, len)?;
    // SAFETY: this changes nothing in this process, and callers name memory that a forked child does not count on.
    unsafe { rustix::mm::madvise(start.as_ptr().cast(), len, Advice::LinuxWipeOnFork) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_says_the_same_until_it_is_wiped_and_never_what_it_said_before() {
        let mark = Mark::new().unwrap();
        let parent = mark.generation();
        assert_eq!(parent, mark.generation());
        mark.0.store(0, Ordering::Release); // what a forked child finds
        let child = mark.generation();
        assert_ne!(child, parent);
        assert_eq!(child, mark.generation());
    }

    #[test]
    fn memory_that_a_fork_does_not_empty_is_no_mark() {
        let faults = crate::calls::fault::inject(|call, len| match call {
            Call::MadviseWipeonfork => Err(rustix::io::Errno::INVAL),
            _ => Ok(len),
        });
        let refused = Mark::new().map(drop);
        drop(faults);
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("forked child"), "{text}");
    }
}
