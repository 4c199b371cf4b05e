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
use crate::error::{Error, Result};
use crate::sys::fault::{Call, allow};

/// The process that has made something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u64);

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// A forked child could not be told from it: there is no memory that a fork empties.
    pub(crate) fn this_process() -> Result<Self> {
        static MARK: OnceLock<Mark> = OnceLock::new();
        if let Some(mark) = MARK.get() {
            return Ok(Self(mark.generation()));
        }
        let mark = Mark::new()?;
        Ok(Self(MARK.get_or_init(|| mark).generation()))
    }

    /// Whether this process is the one.
    pub(crate) fn is_this_process(self) -> bool {
        Self::this_process().is_ok_and(|this| this == self)
    }
}

/// A number in memory that is zero after a fork. Stays mapped for the life of the process.
struct Mark(NonNull<u8>);

// SAFETY: the memory is only ever used as an atomic number.
unsafe impl Send for Mark {}
// SAFETY: as above.
unsafe impl Sync for Mark {}

impl Mark {
    fn new() -> Result<Self> {
        let len = rustix::param::page_size();
        let refused = |e| {
            Error::system(
                "no memory that a forked child gets empty",
                e,
                "use Linux 4.14 or newer; a sandbox may forbid madvise",
            )
        };
        let start = map_anonymous(len, MapFlags::PRIVATE).map_err(refused)?;
        let wiped = wipe_on_fork(start, len);
        if wiped.is_err() {
            // SAFETY: the mapping was made above, and nothing refers to it.
            let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast(), len) };
        }
        wiped.map_err(refused)?;
        Ok(Self(start))
    }

    /// Different in a process and in every process from which it has descended.
    fn generation(&self) -> u64 {
        /// Ordinary memory: a forked child goes on counting where its parent was.
        static LAST: AtomicU64 = AtomicU64::new(0);
        // SAFETY: the page stays mapped, is aligned, and is used as this atomic number only.
        let number = unsafe { AtomicU64::from_ptr(self.0.as_ptr().cast()) };
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
        // What a forked child finds.
        // SAFETY: as in `generation`.
        let number = unsafe { AtomicU64::from_ptr(mark.0.as_ptr().cast()) };
        number.store(0, Ordering::Release);
        let child = mark.generation();
        assert_ne!(child, parent);
        assert_eq!(child, mark.generation());
    }

    #[test]
    fn memory_that_a_fork_does_not_empty_is_no_mark() {
        let faults = crate::sys::fault::inject(|call, len| match call {
            Call::MadviseWipeonfork => Err(rustix::io::Errno::INVAL),
            _ => Ok(len),
        });
        let refused = Mark::new().map(drop);
        drop(faults);
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("forked child"), "{text}");
    }
}
